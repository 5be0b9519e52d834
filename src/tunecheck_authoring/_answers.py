"""What an assistant says, as the messages of training formats have it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from tunecheck._json import JSON, loads
from tunecheck.calls import FunctionCall, write_calls

Message = dict[str, JSON]


@dataclass(frozen=True, slots=True)
class Answer:
    """What an assistant says: a text, calls, or both."""

    text: str
    calls: tuple[FunctionCall, ...] = ()

    def message(self, *, arguments_as_text: bool) -> Message:
        """The message of this answer; OpenAI has arguments as JSON text, TRL as objects."""
        if not self.calls:
            return {"role": "assistant", "content": self.text}
        message: Message = {"role": "assistant", "tool_calls": write_calls(self.calls, "openai")}
        if self.text:
            message["content"] = self.text
        return message if arguments_as_text else with_objects(message)


def with_objects(message: Message) -> Message:
    """A message of OpenAI's whose calls have their arguments as objects, as chat templates and TRL take them."""
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [*_calls_with_objects(calls)]} if isinstance(calls, list) else message


def _calls_with_objects(calls: list[JSON]) -> Iterator[JSON]:
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        text = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(call, dict) and isinstance(function, dict) and isinstance(text, str):
            with suppress(ValueError):  # in a history: left as it was said
                call = {**call, "function": {**function, "arguments": loads(text)}}
        yield call
