"""Calls made against simulators: those of the ground truth and those of a model, each side on a backend of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tunecheck.bfcl.call_rewriting import Rewriting, holds_bracket
from tunecheck.calls import FunctionCall, Reading, read_calls, read_python_calls
from tunecheck.conversations.nested import NestedCall, make_call
from tunecheck.errors import DataError
from tunecheck.simulators import Backend, Result, Simulator, find_simulator
from tunecheck.simulators.results import failure

if TYPE_CHECKING:
    from pathlib import Path

    from tunecheck.jsontext import JSON
    from tunecheck.simulators.long_context import LongContext

__all__ = ["Attempt", "Simulators"]


class Simulators:
    """Makes backends. It finds each simulator's class once, and holds the long-context constants.

    Args:
        long_context: the constants for rows that ask for them.
        workspace: whose `simulators/` folder is looked in too.
        time_limit_s: after how long a call of a simulator is given up.
    """

    def __init__(
        self, *, long_context: LongContext | None = None, workspace: Path | None = None, time_limit_s: float = 10
    ) -> None:
        self._long_context = long_context
        self._workspace = workspace
        self._time_limit_s = time_limit_s
        self._classes: dict[str, type[Simulator]] = {}

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
        simulators = {name: self._class(name)() for name in names}
        for name, simulator in simulators.items():
            part = config.get(name)
            if part is not None and not isinstance(part, dict):
                raise DataError(f"initial_config.{name} is a {type(part).__name__}; an object is needed")
            simulator.load(part or {}, long_context=self._long_context if long_context else None)
        return Backend(simulators, time_limit_s=self._time_limit_s)

    def _class(self, name: str) -> type[Simulator]:
        found = self._classes.get(name)
        if found is None:
            found = self._classes[name] = find_simulator(name, workspace=self._workspace)
        return found


class Attempt:
    """One side's calls on its own backend.

    `rewriting` changes a call's text before it is read, where calls are to be made as the leaderboard makes them.
    """

    def __init__(self, backend: Backend, rewriting: Rewriting | None = None) -> None:
        self.backend = backend
        self._rewriting = rewriting

    def make(self, call: NestedCall) -> Result:
        """Make a decoded call. Never raises."""
        if "0" in call.arguments:  # the sign of a positional argument; what a model calls so is no parameter
            return failure(f"{call.name} has no parameter '0'")
        if self._rewriting is not None and holds_bracket(call.arguments.values()):
            (result,) = self.make_text(call.text(","))
            return result
        return make_call(self.backend, call)

    def make_truth(self, item: object) -> list[Result]:
        """Make the calls of an item of the ground truth: a text, `cd(folder='x')`, or calls in any format.

        Never raises: an item that cannot be read is an error result.
        """
        if isinstance(item, str):
            return self.make_text(item)
        return self._made(read_calls(item))

    def make_text(self, text: str) -> list[Result]:
        """Make the calls of a text."""
        if self._rewriting is not None and text.count("(") > 1:
            text = self._rewriting.text(text)
        return self._made(read_python_calls(text))

    def _made(self, reading: Reading) -> list[Result]:
        if not reading.calls:
            return [failure(f"a call that cannot be read: {reading.problem or 'there is none'}")]
        return [self.backend.call(self._named(call)) for call in reading.calls]

    def _named(self, call: FunctionCall) -> FunctionCall:
        if self._rewriting is None or "." not in call.name:
            return call
        return FunctionCall(self._rewriting.plain_name(call.name), call.arguments)
