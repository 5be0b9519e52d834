"""The answers to the doctor's questions, with the calls that stand in them wherever they stand."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tunecheck._json import JSON, dumps, loads
from tunecheck._messages import clean
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
        return self.completion.finish_reason == "length"

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
        last = _plain(name)
        return next((call.arguments for call in self.calls if _plain(call.name).endswith(last)), None)


def _plain(name: str) -> str:
    return name.replace(".", "_").replace("-", "_").lower()


def decoded(arguments: JSON) -> JSON:
    """What a JSON text holds; None where it is none."""
    try:
        return loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return None


def _object(arguments: JSON) -> dict[str, JSON]:
    """Arguments as they were meant; empty where they cannot be read."""
    meant = decoded(decoded(arguments))
    return meant if isinstance(meant, dict) else {}
