"""Calls made against simulators: those of the ground truth and those of a model, each side on a backend of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tunecheck._json import dumps
from tunecheck._trust import Trust
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.episodes._nested import NestedCall, make_call
from tunecheck.formats._reading import read_calls, read_python_calls
from tunecheck.simulators._backend import Backend, Backends, Result, failure
from tunecheck.simulators._base import Simulator
from tunecheck_bfcl._entries import Entry

if TYPE_CHECKING:
    from pathlib import Path

    from tunecheck._json import JSON
    from tunecheck.simulators._long_context import LongContext

_BEFORE_BRACKET = re.compile(r"\b([a-zA-Z_]\w*+)\s*+(?=\()")
_NOT_IN_A_NAME = re.compile(r"[-./:]")
_MOST_KEPT = 10_000


class Simulators(Backends):
    """Starts backends for rows, with the long-context constants for those that ask for them; else as `Backends`."""

    def __init__(
        self,
        classes: Mapping[str, type[Simulator]] | None = None,
        *,
        long_context: LongContext | None = None,
        workspace: Path | None = None,
        time_limit_s: float = 10,
        trust: Trust | None = None,
    ) -> None:
        super().__init__(classes, workspace=workspace, time_limit_s=time_limit_s, trust=trust)
        self._long_context = long_context
        self._readings: dict[str, Reading] = {}
        self._definitions: dict[tuple[str, ...], str] = {}

    @property
    def has_long_context(self) -> bool:
        return self._long_context is not None

    def start(self, names: Sequence[str], config: Mapping[str, JSON], *, long_context: bool) -> Backend:
        return self.backend(names, config, self._long_context if long_context else None)

    def read(self, text: str) -> Reading:
        """The calls in a text of the ground truth. Many rows share theirs, so readings are kept."""
        reading = self._readings.get(text)
        if reading is None:
            reading = read_python_calls(text)
            values = [value for call in reading.calls for value in call.arguments.values()]
            # A simulator could keep a list or an object and change it later.
            if len(self._readings) < _MOST_KEPT and not any(isinstance(value, (list, dict)) for value in values):
                self._readings[text] = reading
        return reading

    def definitions(self, backend: Backend) -> str:
        """The tool definitions of a backend's simulators, as text. Many rows share theirs, so texts are kept."""
        names = tuple(backend.simulators)
        if names not in self._definitions:
            self._definitions[names] = dumps(backend.tool_definitions()).decode()
        return self._definitions[names]


class Attempt:
    """One side's calls on a backend of its own.

    Args:
        simulators: makes the backend.
        entry: what it starts from.
        role: where calls are to be made as the leaderboard makes them, whose they are; see `_Rewriting`.
        named: whether the calls come with names for all of their arguments, as JSON.
    """

    def __init__(self, simulators: Simulators, entry: Entry, *, role: str | None = None, named: bool = True) -> None:
        self.backend = simulators.start(entry.simulators, entry.config, long_context=entry.long_context)
        self._simulators = simulators
        self._rewriting = None if role is None else _Rewriting(self.backend, role, entry.id)
        self._named = named

    def make(self, call: NestedCall) -> Result:
        """Make a decoded call. Never raises."""
        if self._named and "0" in call.arguments:  # else the sign of a positional argument
            return failure(f"{call.name} has no parameter '0'")
        if self._rewriting is not None and _holds_bracket(call.arguments.values()):
            results = self._made(read_python_calls(self._rewriting.text(call.text(","))))
            return results[0] if len(results) == 1 else failure("several calls in the place of one")
        return make_call(self.backend, call)

    def make_truth(self, item: object) -> list[Result]:
        """Make the calls of an item of the ground truth: a text, `cd(folder='x')`, or calls in any format.

        Never raises: an item that cannot be read is an error result.
        """
        if not isinstance(item, str):
            return self._made(read_calls(item))
        if self._rewriting is not None and item.count("(") > 1:
            return self._made(read_python_calls(self._rewriting.text(item)))
        return self._made(self._simulators.read(item))

    def calls(self, item: object) -> Sequence[FunctionCall]:
        """The calls of an item of the ground truth."""
        return (self._simulators.read(item) if isinstance(item, str) else read_calls(item)).calls

    def _made(self, reading: Reading) -> list[Result]:
        if not reading.calls:
            return [failure(f"a call that cannot be read: {reading.problem or 'there is none'}")]
        calls: Iterable[FunctionCall] = reading.calls
        if self._rewriting is not None:
            calls = [self._rewriting.plainly_named(call) for call in calls]
        return [self.backend.call(call) for call in calls]


class _Rewriting:
    """What the leaderboard does to a call's text before it runs it, on one side of a row.

    Its `execute_multi_turn_func_call` puts the name of the object that has the operation before every known operation's
    name that a bracket follows, and takes white space before brackets away: inside texts too. A tweet `please comment
    (soon)` is posted as `please x_TwitterAPI_instance.comment(soon)`, with another name on either side, so that the
    states never agree.

    Args:
        backend: whose operations are known.
        role: what the names of that side's objects begin with.
        row_id: what stands in them next.
    """

    def __init__(self, backend: Backend, role: str, row_id: str) -> None:
        self._backend = backend
        self._prefix = f"{role}_eval_{row_id}"

    def text(self, call: str) -> str:
        return _BEFORE_BRACKET.sub(self._owned, call)

    def plainly_named(self, call: FunctionCall) -> FunctionCall:
        owner, _, operation = call.name.rpartition(".")
        known = owner and self._owners.get(operation) == owner
        return FunctionCall(operation, call.arguments) if known else call

    @cached_property
    def _owners(self) -> Mapping[str, str]:
        return {
            operation: _NOT_IN_A_NAME.sub("_", f"{self._prefix}_{owner}_instance")
            for owner, simulator in self._backend.simulators.items()
            for operation in simulator.operations()
        }

    def _owned(self, name: re.Match[str]) -> str:
        owner = self._owners.get(name[1])
        return name[1] if owner is None else f"{owner}.{name[1]}"


def _holds_bracket(values: Iterable[object]) -> bool:
    """Whether an opening bracket stands in any text among the values, however deep."""
    for value in values:
        if isinstance(value, str):
            if "(" in value:
                return True
        elif isinstance(value, Mapping):
            if _holds_bracket(value.keys()) or _holds_bracket(value.values()):
                return True
        elif isinstance(value, (list, tuple)) and _holds_bracket(value):
            return True
    return False
