"""Calls made against simulators: those of the ground truth and those of a model, each side on a backend of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tunecheck.bfcl._call_rewriting import Rewriting, holds_bracket
from tunecheck.bfcl._entries import Entry
from tunecheck.calls._formats.reading import read_calls, read_python_calls
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.conversations._nested import NestedCall, make_call
from tunecheck.simulators._backend import Backend, find_simulator
from tunecheck.simulators._base import Simulator
from tunecheck.simulators._results import Result, failure

if TYPE_CHECKING:
    from pathlib import Path

    from tunecheck._json import JSON
    from tunecheck._plugins import Plugin
    from tunecheck.simulators._long_context import LongContext

_MOST_KEPT = 10_000


class Simulators:
    """Makes backends. It finds each simulator's class once, and holds the long-context constants.

    Args:
        classes: simulators by name that are no plugins; they go before plugins of the same name.
        long_context: the constants for rows that ask for them.
        workspace: whose `simulators/` folder is looked in too.
        time_limit_s: after how long a call of a simulator is given up.
    """

    def __init__(
        self,
        classes: Mapping[str, type[Simulator]] | None = None,
        *,
        long_context: LongContext | None = None,
        workspace: Path | None = None,
        time_limit_s: float = 10,
    ) -> None:
        self._long_context = long_context
        self._workspace = workspace
        self._time_limit_s = time_limit_s
        self._classes: dict[str, type[Simulator]] = dict(classes or {})
        self._readings: dict[str, Reading] = {}

    @property
    def has_long_context(self) -> bool:
        """Whether rows with long context can be replayed."""
        return self._long_context is not None

    def start(self, names: Sequence[str], config: Mapping[str, JSON], *, long_context: bool) -> Backend:
        """A new backend, loaded.

        Raises:
            PluginError: a name that is no simulator, or two that offer the same operation.
            DataError: a configuration that cannot be used.
        """
        classes = {name: self._class(name) for name in names}
        constants = self._long_context if long_context else None
        return Backend.of(classes, config, long_context=constants, time_limit_s=self._time_limit_s)

    def read(self, text: str) -> Reading:
        """The calls in a text of the ground truth. Many rows share theirs, so readings are kept."""
        found = self._readings.get(text)
        if found is None:
            found = read_python_calls(text)
            if len(self._readings) < _MOST_KEPT and not any(map(_holds_containers, found.calls)):
                self._readings[text] = found
        return found

    def _class(self, name: str) -> type[Simulator]:
        found = self._classes.get(name)
        if found is None:
            found = self._classes[name] = find_simulator(name, among=self._plugins)
        return found

    @cached_property
    def _plugins(self) -> Sequence[Plugin]:
        from tunecheck._plugins import discover

        return discover("tunecheck.simulators", workspace=self._workspace)


def _holds_containers(call: FunctionCall) -> bool:
    """Whether a simulator could keep an argument of it and change it later."""
    return any(isinstance(value, (list, dict)) for value in call.arguments.values())


class Attempt:
    """One side's calls on a backend of its own.

    Args:
        simulators: makes the backend.
        entry: what it starts from.
        role: where calls are to be made as the leaderboard makes them, whose they are; see `Rewriting`.
        named: whether the calls come with names for all of their arguments, as JSON.

    Raises:
        PluginError: a simulator that is not there.
        DataError: a configuration that cannot be used.
    """

    def __init__(self, simulators: Simulators, entry: Entry, *, role: str | None = None, named: bool = True) -> None:
        self.backend = simulators.start(entry.simulators, entry.config, long_context=entry.long_context)
        self._simulators = simulators
        self._rewriting = None if role is None else Rewriting(self.backend, role, entry.id)
        self._named = named

    def make(self, call: NestedCall) -> Result:
        """Make a decoded call. Never raises."""
        if self._named and "0" in call.arguments:  # else the sign of a positional argument
            return failure(f"{call.name} has no parameter '0'")
        if self._rewriting is not None and holds_bracket(call.arguments.values()):
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

    def _made(self, reading: Reading) -> list[Result]:
        if not reading.calls:
            return [failure(f"a call that cannot be read: {reading.problem or 'there is none'}")]
        return [self.backend.call(self._plainly_named(call)) for call in reading.calls]

    def _plainly_named(self, call: FunctionCall) -> FunctionCall:
        if self._rewriting is None or "." not in call.name:
            return call
        return FunctionCall(self._rewriting.plain_name(call.name), call.arguments)
