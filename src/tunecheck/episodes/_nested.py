"""A decoded call that may hold other calls as arguments, and how it is made against a backend's simulators."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._python_text import positional_count
from tunecheck.simulators._backend import Backend, Result, failure


@dataclass(frozen=True, slots=True)
class NestedCall:
    """One call: its name and its arguments by name, positional ones under "0", "1", ….

    An argument is a JSON value, or a call, or a list or dict in which calls stand: `send(text=cat('a.txt'))`.
    """

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)

    def text(self, separator: str = ", ") -> str:
        """The call as Python text, literals as Python writes them."""
        count = positional_count(cast("dict[str, JSON]", self.arguments))
        places = {str(place) for place in range(count)}
        parts = [_text(value) if key in places else f"{key}={_text(value)}" for key, value in self.arguments.items()]
        return f"{self.name}({separator.join(parts)})"


@dataclass(frozen=True, slots=True)
class Decoded:
    """What one answer of a model asks for.

    `calls` in order; none of them and no `problem`: the answer is empty. `problem` says why an answer that is not
    empty holds no call that could be made.
    """

    calls: tuple[NestedCall, ...] = ()
    problem: str | None = None


def make_call(backend: Backend, call: NestedCall) -> Result:
    """Make a call, those in its arguments first. Never raises.

    As in Python, an operation that does not exist is noticed before its arguments are looked at. A call whose argument
    failed fails with the same words.
    """
    # Most arguments are text, and text nests nothing: that is seen without a call for each.
    if not any(_nests(value) for value in call.arguments.values() if not isinstance(value, str)):
        return backend.call(FunctionCall(call.name, cast("dict[str, JSON]", call.arguments)))
    if not any(call.name in simulator.operations() for simulator in backend.simulators.values()):
        return backend.call(FunctionCall(call.name))
    try:
        arguments = {name: _value(backend, value) for name, value in call.arguments.items()}
    except _ArgumentFailedError as failed:
        return failed.result
    return backend.call(FunctionCall(call.name, cast("dict[str, JSON]", arguments)))


class _ArgumentFailedError(Exception):
    def __init__(self, result: Result) -> None:
        super().__init__(result.text)
        self.result = result


def _nests(values: object) -> bool:
    """Whether calls, or numbers that cannot be written, stand anywhere in the values."""
    if isinstance(values, (NestedCall, float)):
        return not isinstance(values, float) or not math.isfinite(values)
    if isinstance(values, Mapping):
        return any(_nests(value) for value in values.values())
    if isinstance(values, (str, bytes, int, complex)) or values is None:
        return False
    return any(_nests(value) for value in values)  # type: ignore[attr-defined]  # a list, a tuple, a dict's values


def _value(backend: Backend, value: object) -> object:
    if isinstance(value, NestedCall):
        result = make_call(backend, value)
        if result.error:
            raise _ArgumentFailedError(result)
        return result.value
    if isinstance(value, float) and not math.isfinite(value):
        raise _ArgumentFailedError(failure(f"an argument is {value}, which is not a number that can be written"))
    if isinstance(value, dict):
        return {key: _value(backend, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_value(backend, item) for item in value)
    return value


def _text(value: object) -> str:
    if isinstance(value, NestedCall):
        return value.text()
    if isinstance(value, dict) and _nests(value):
        return "{" + ", ".join(f"{key!r}: {_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list) and _nests(value):
        return "[" + ", ".join(map(_text, value)) + "]"
    try:
        return repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "…"
