"""Faults of a scripted server, like those of real ones: to requests before its model sees them, and to what it says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import msgspec

from tunecheck.calls import FunctionCall, tool_name, write_calls
from tunecheck.endpoints import ChatRequest, Completion, Text, Usage
from tunecheck.plugins import JSON, Written, dumps
from tunecheck_serve import ProblemError

TOKEN = 4
"""Characters of a token: the usual rule of thumb for English."""

_AT_LEAST_ONE = msgspec.Meta(ge=1, le=1_000_000)
_FIXED = {"temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "n": 1}
"""Parameters that reasoning models of OpenAI take at their default only."""


class ServerConfig(Written, frozen=True, kw_only=True):
    """A server's changes to requests before its model sees them."""

    tools: Literal["ignored", "uncounted"] | None = None
    tool_results: Literal["ignored", "refused"] | None = None
    parameters: Literal["o_series"] | None = None
    context_tokens: Annotated[int, _AT_LEAST_ONE] | None = None
    streaming: Literal["only", "refused"] | None = None
    usage: bool = True
    headers: dict[Text, str] = msgspec.field(default_factory=dict)

    def seen(self, request: ChatRequest) -> ChatRequest:
        """The request as the model sees it.

        Raises:
            ProblemError: the server refuses it.
        """
        roles = [message.get("role") for message in request.messages]
        if self.tool_results == "refused" and "tool" in roles:
            raise ProblemError(400, "Conversation roles must alternate user/assistant/user/assistant/...")
        if self.parameters == "o_series":
            _refuse_parameters(request.parameters)
        if self.tools == "ignored":
            request = replace(request, tools=None)
        if self.tool_results == "ignored":
            request = replace(request, messages=[each for each in request.messages if not _of_a_tool(each)])
        return request

    def check_length(self, tokens: int) -> None:
        """Refuse a request that is too long.

        Raises:
            ProblemError: it is.
        """
        most = self.context_tokens
        if most is not None and tokens > most:
            text = (
                f"This model's maximum context length is {most} tokens. However, your messages resulted in {tokens} "
                "tokens. Please reduce the length of the messages."
            )
            raise ProblemError(400, text, code="context_length_exceeded", param="messages")


def _of_a_tool(message: Mapping[str, JSON]) -> bool:
    return message.get("role") == "tool" or bool(message.get("tool_calls"))


def _refuse_parameters(parameters: Mapping[str, JSON]) -> None:
    if parameters.get("max_tokens") is not None:
        text = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        raise ProblemError(400, text, code="unsupported_parameter", param="max_tokens")
    for name, only in _FIXED.items():
        value = parameters.get(name)
        if value not in (None, only):
            text = (
                f"Unsupported value: '{name}' does not support {dumps(value).decode()} with this model. "
                f"Only the default ({only}) value is supported."
            )
            raise ProblemError(400, text, code="unsupported_value", param=name)


@dataclass(frozen=True, slots=True)
class Said:
    """A model's output before its server changes it."""

    text: str | None = None
    calls: tuple[FunctionCall, ...] = ()
    thought: str | None = None
    refusal: str | None = None
    finish_reason: str | None = None


class Behaviour(Written, frozen=True, kw_only=True):
    """Changes to an answer on its way from the model to the client; by default, nothing."""

    one_call: bool = False
    repeat: Annotated[int, msgspec.Meta(ge=2, le=1000)] | None = None
    varies: bool = False
    calls_in_text: Literal["hermes", "mistral", "llama", "bfcl_text"] | None = None
    names: Text | None = None
    arguments: Literal["double_encoded", "objects", "nested_as_text", "python"] | None = None
    reasoning: Literal["reasoning_content", "reasoning", "text", "unopened", "dropped"] = "reasoning_content"
    cut_at_tokens: Annotated[int, _AT_LEAST_ONE] | None = None
    stop_token: Text | None = None
    finish_reason: Text | None = None

    def served(self, said: Said, turn: int) -> Completion:
        """The answer that reaches the client; `turn` counts how often this one was given before."""
        said = self._model(said, turn)
        called = "tool_calls" if said.calls and self.calls_in_text is None else "stop"
        thought, text, calls = said.thought, said.text, _openai_calls(said.calls, self.arguments)
        if self.calls_in_text is not None and said.calls:
            text, calls = f"{text or ''}{write_calls(said.calls, self.calls_in_text)}", []
        if thought is not None and self.reasoning in ("text", "unopened"):
            opened = "" if self.reasoning == "unopened" else "<think>\n"
            thought, text = None, f"{opened}{thought}\n</think>\n\n{text or ''}"
        finish_reason = said.finish_reason or called
        written = _length(thought, text, calls)
        if self.cut_at_tokens is not None and written > self.cut_at_tokens * TOKEN:
            thought, text, calls = _cut(thought, text, calls, self.cut_at_tokens * TOKEN)
            finish_reason, written = "length", self.cut_at_tokens * TOKEN
        if self.stop_token is not None and text:
            text += self.stop_token
        beside: dict[str, JSON] = {} if said.refusal is None else {"refusal": said.refusal}
        if thought is not None and self.reasoning != "dropped":
            beside[self.reasoning] = thought
        return Completion(
            text=text,
            tool_calls=tuple(calls),
            usage=Usage(output_tokens=written // TOKEN + 1),
            finish_reason=self.finish_reason or finish_reason,
            simulated=True,
            reasoning_fields=beside,
        )

    def _model(self, said: Said, turn: int) -> Said:
        """The model's own mistakes."""
        calls, text = said.calls[: 1 if self.one_call else None], said.text
        if self.names is not None:
            calls = tuple(replace(call, name=self._named(call.name)) for call in calls)
        if self.repeat is not None:
            calls, text = calls * self.repeat, text and text * self.repeat
        if self.varies and text:
            text += f" ({turn + 1})"
        return replace(said, calls=calls, text=text)

    def _named(self, name: str) -> str:
        return tool_name(name) if self.names == "underscored" else str(self.names).replace("{}", name)


def _openai_calls(calls: Sequence[FunctionCall], spelling: str | None) -> list[dict[str, JSON]]:
    written: list[dict[str, JSON]] = []
    for index, call in enumerate(calls):
        arguments: JSON = dict(call.arguments)
        if spelling == "nested_as_text":
            nested = (dict, list)
            arguments = {
                name: dumps(value).decode() if isinstance(value, nested) else value
                for name, value in call.arguments.items()
            }
        if spelling == "python":
            arguments = repr(arguments)
        elif spelling != "objects":
            arguments = dumps(arguments).decode()
        if spelling == "double_encoded":
            arguments = dumps(arguments).decode()
        function: JSON = {"name": call.name, "arguments": arguments}
        written.append({"id": f"call_{index}", "type": "function", "function": function})
    return written


def _arguments(call: Mapping[str, JSON]) -> str:
    function = call["function"]
    arguments = function["arguments"] if isinstance(function, dict) else None
    return arguments if isinstance(arguments, str) else dumps(arguments).decode()


def _length(thought: str | None, text: str | None, calls: Sequence[Mapping[str, JSON]]) -> int:
    return len(thought or "") + len(text or "") + sum(len(_arguments(call)) for call in calls)


def _cut(
    thought: str | None, text: str | None, calls: Sequence[dict[str, JSON]], left: int
) -> tuple[str | None, str | None, list[dict[str, JSON]]]:
    """The first characters of the whole output, in its order."""
    kept_thought = thought and thought[:left]
    left -= len(kept_thought or "")
    kept_text = text and text[:left]
    left -= len(kept_text or "")
    kept: list[dict[str, JSON]] = []
    for call in calls:
        if left <= 0:
            break
        function = call["function"]
        assert isinstance(function, dict)
        arguments = _arguments(call)[:left]
        left -= len(arguments)
        kept.append({**call, "function": {**function, "arguments": arguments}})
    return kept_thought, kept_text, kept
