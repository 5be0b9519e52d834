"""The answers to the doctor's questions, with the calls that stand in them wherever they stand."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tunecheck._causes import CUT_OFF
from tunecheck._json import JSON, dumps, value_of
from tunecheck._messages import clean
from tunecheck.calls._matching.names import plain_name
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.endpoints._base import ChatRequest, Completion
from tunecheck.formats._reading import read_calls


@dataclass(frozen=True)
class Answer:
    """What came back to one question: a completion, or the error that it ended in."""

    request: ChatRequest
    completion: Completion = field(default_factory=Completion)
    error: Exception | None = None

    @property
    def text(self) -> str:
        return self.completion.text or ""

    @property
    def raw_text(self) -> str:
        """The text with reasoning that stands in it."""
        return self.completion.raw_text or self.text

    @property
    def thinks_aloud(self) -> bool:
        """Whether its reasoning stands in the text."""
        return bool(self.completion.reasoning) and str(self.completion.reasoning) in (self.completion.raw_text or "")

    @property
    def ended_by_length(self) -> bool:
        return self.completion.finish_reason in CUT_OFF

    @cached_property
    def in_text(self) -> Reading:
        """The calls in its text."""
        return read_calls(self.text, tools=list(self.request.tools or ()))

    @cached_property
    def calls(self) -> tuple[FunctionCall, ...]:
        """All that it calls, with arguments that are encoded twice or are no text decoded."""
        called = [FunctionCall(name, _object(arguments)) for name, arguments in self.written]
        return tuple(called) or self.in_text.calls

    @property
    def written(self) -> Iterator[tuple[str, JSON]]:
        """The names and arguments of its `tool_calls`, as they came."""
        for call in self.completion.tool_calls:
            function = call.get("function")
            if isinstance(function, dict):
                yield str(function.get("name")), function.get("arguments")

    def shown(self) -> str:
        """What it says, for people."""
        calls = "; ".join(f"{call.name} {dumps(call.arguments).decode()}" for call in self.calls)
        return clean(calls or self.text, 160) or "nothing"

    def call(self, name: str) -> Mapping[str, JSON] | None:
        """The arguments of its first call of that name, however the name is altered; None where there is none."""
        last = plain_name(name)
        return next((call.arguments for call in self.calls if plain_name(call.name).endswith(last)), None)


def decoded(arguments: JSON) -> JSON:
    """What arguments hold that may be JSON text; None where that is none."""
    return value_of(arguments) if isinstance(arguments, str) else arguments


def _object(arguments: JSON) -> dict[str, JSON]:
    """Arguments as they were meant; empty where they cannot be read."""
    meant = decoded(decoded(arguments))
    return meant if isinstance(meant, dict) else {}
