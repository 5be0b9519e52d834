"""`tunecheck datasets check`: whether a multi-turn data set can be right, found out by replaying its ground truth.

Each entry's calls are made on fresh simulators. Found is what makes an entry unfair or void: a call that fails, a
function that is not on offer when it is needed, a configuration that cannot be loaded or holds already what a call is
to create, a turn whose calls do nothing. `multi_turn_entry.PROBLEMS` has the whole list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tunecheck._errors import DataError, PluginError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.calls._model import FunctionCall
from tunecheck.datasets._multi_turn.created import AlreadyThere, collision
from tunecheck.datasets._multi_turn.entry import (
    Conversation,
    Finding,
    GroundTruthCall,
    UnusableRowError,
    entry_name,
    read_conversation,
)
from tunecheck.datasets._multi_turn.replay import Replay, Step
from tunecheck.datasets._sources import one_line
from tunecheck.simulators._backend import Backend, find_simulator
from tunecheck.simulators._base import Simulator

if TYPE_CHECKING:
    from tunecheck.simulators._long_context import LongContext

Simulators = Callable[[str], type[Simulator]]
"""Gives the simulator of a name, or raises PluginError."""

_OUTCOME = re.compile(r"(^|_)(status|success|successful|succeeded|ok|done|authenticated|verified)$", re.IGNORECASE)
_ASKS = re.compile(r"(^|_)(get|is|has|check|status|show|list|view)(_|$)", re.IGNORECASE)
_FAILED = ("error", "failed", "failure")


def check_multi_turn_data(
    rows: Iterable[Mapping[str, object]],
    simulators: Simulators | Mapping[str, type[Simulator]] = find_simulator,
    *,
    long_context: LongContext | None = None,
    time_limit_s: float = 10,
) -> list[Finding]:
    """Everything that is wrong with a multi-turn data set, by entry and turn, in order.

    Args:
        rows: as the conversation target takes them, with `ground_truth`: each turn's calls.
        simulators: the simulators by name; by default the plugins.
        long_context: the constants for rows that ask for long context; by default those of the user's copy of BFCL,
            which is looked for only when a row asks.
        time_limit_s: how long one call may take.

    Raises:
        DataError: a row asks for long context, and there is no copy of BFCL.
    """
    return list(findings(rows, simulators, long_context=long_context, time_limit_s=time_limit_s))


def findings(
    rows: Iterable[Mapping[str, object]],
    simulators: Simulators | Mapping[str, type[Simulator]] = find_simulator,
    *,
    long_context: LongContext | None = None,
    time_limit_s: float = 10,
) -> Iterator[Finding]:
    """`check_multi_turn_data`, each finding as soon as it is known; memory stays flat."""
    find = simulators if callable(simulators) else _lookup(simulators)
    for number, row in enumerate(rows, 1):
        name = entry_name(row, number)
        try:
            entry = read_conversation(row, number)
        except UnusableRowError as error:
            yield Finding(name, "row", one_line(str(error)))
            continue
        if entry.long_context and long_context is None:
            long_context = _own_long_context()
        check = _EntryCheck(entry, find, long_context if entry.long_context else None, time_limit_s)
        yield from _guarded(name, check)


def _guarded(name: str, check: _EntryCheck) -> Iterator[Finding]:
    try:
        yield from check.findings()
    except PluginError as error:
        yield Finding(name, "simulator", one_line(str(error)))
    except DataError as error:
        yield Finding(name, "configuration", one_line(str(error)))
    except Exception as error:  # noqa: BLE001 - somebody's simulator loads, or gives its state, and may raise anything
        yield Finding(name, "simulator", one_line(f"{type(error).__name__}: {error}"))


def _lookup(simulators: Mapping[str, type[Simulator]]) -> Simulators:
    def find(name: str) -> type[Simulator]:
        if name not in simulators:
            raise PluginError(f"there is no simulator {name!r}{did_you_mean(name, simulators)}")
        return simulators[name]

    return find


def _own_long_context() -> LongContext:
    from tunecheck.datasets._bfcl.files import find_bfcl
    from tunecheck.simulators._long_context import LongContext

    return LongContext.read(find_bfcl().package)


class _EntryCheck:
    """The check of one entry."""

    def __init__(
        self, entry: Conversation, simulators: Simulators, long_context: LongContext | None, time_limit_s: float
    ) -> None:
        self._entry = entry
        self._simulators = simulators
        self._classes: dict[str, type[Simulator]] = {}
        self._long_context = long_context
        self._time_limit_s = time_limit_s
        self._already_there = AlreadyThere(entry.config, self._replay)
        self._made: list[tuple[FunctionCall, bool]] = []

    def findings(self) -> Iterator[Finding]:
        """All that is found, the configuration's first, then by turn.

        Raises:
            PluginError: a simulator is not there.
            DataError: the initial configuration cannot be loaded.
        """
        self._classes = {name: self._simulators(name) for name in dict.fromkeys(self._entry.simulators)}
        replay = self._replay(self._entry.config)
        yield from self._configuration()
        yield from self._held_out()
        offered = self._offered()
        for turn, calls in enumerate(self._entry.ground_truth):
            offered = offered | self._entry.held_out.get(turn, frozenset())
            yield from self._turn(turn, calls, offered, replay)

    def _replay(self, config: Mapping[str, JSON]) -> Replay:
        limit = self._time_limit_s
        return Replay(Backend.of(self._classes, config, long_context=self._long_context, time_limit_s=limit))

    def _offered(self) -> frozenset[str]:
        if self._entry.offered is not None:
            return self._entry.offered
        later = frozenset(name for names in self._entry.held_out.values() for name in names)
        return self._operations() - later

    def _operations(self) -> frozenset[str]:
        return frozenset(name for each in self._classes.values() for name in each.operations())

    def _configuration(self) -> Iterator[Finding]:
        config = self._entry.config
        for name, simulator in self._classes.items():
            if not config.get(name) and simulator.state is not Simulator.state:
                yield self._found("default_configuration", f"initial_config has nothing for {name}")
        for name in config.keys() - self._classes.keys():
            yield self._found("unused_configuration", f"initial_config has {name[:100]!r}, which is not involved")

    def _held_out(self) -> Iterator[Finding]:
        operations = self._operations()
        for turn, names in self._entry.held_out.items():
            if turn >= len(self._entry.turns):
                yield self._found("held_out", "functions are held out for a turn that there is not", turn)
            elif not names:
                yield self._found("held_out", "no function is added in this turn", turn)
            for name in sorted(names & (self._entry.offered or frozenset())):
                yield self._found("held_out", f"{name!r} is held out for this turn, and on offer from the start", turn)
            for name in sorted(self._entry.by_name.get(turn, frozenset()) - operations):
                hint = did_you_mean(name, operations)
                yield self._found("held_out", f"no simulator here has an operation {name[:100]!r}{hint}", turn)
        for turn, messages in enumerate(self._entry.turns):
            if not messages and turn not in self._entry.held_out:
                yield self._found("row", "nobody says anything in this turn, and no function is added in it", turn)

    def _turn(
        self, turn: int, calls: list[GroundTruthCall], offered: frozenset[str], replay: Replay
    ) -> Iterator[Finding]:
        idle = bool(calls)
        for each in calls:
            if each.call is None:
                idle = False
                yield self._found("unreadable_call", one_line(str(each.problem)), turn, each.text)
                continue
            if not _is_offered(each.call.name, offered):
                yield self._found("not_offered", self._when(each.call.name), turn, each.text)
            step = replay.call(each.call)
            yield from self._call(turn, each.call, each.text, step, replay.start)
            self._made.append((each.call, step.result.error))
            idle = idle and not (step.has_effect or step.result.error)
        if idle:
            yield self._found("no_effect", "the calls of this turn neither change nor read anything", turn)

    def _call(self, turn: int, call: FunctionCall, text: str, step: Step, start: object) -> Iterator[Finding]:
        held = None if step.has_effect and not step.result.error else self._already_there.explains(call, self._made)
        if held is None and not step.result.error:
            held = collision(call, step, start)
        if held is not None:
            yield self._found(
                "already_there", f"initial_config holds {held} already, which this is to create", turn, text
            )
        if step.result.error:
            yield self._found("call_fails", one_line(step.result.text), turn, text)
        elif _reports_failure(call.name, step.result.value):
            yield self._found("reports_failure", one_line(step.result.text), turn, text)

    def _when(self, name: str) -> str:
        for turn, names in sorted(self._entry.held_out.items()):
            if name in names:
                return f"{name!r} is on offer from turn {turn} on only"
        return f"{name!r} is not on offer"

    def _found(self, problem: str, text: str, turn: int | None = None, call: str | None = None) -> Finding:
        return Finding(self._entry.name, problem, text, turn, call)


def _is_offered(name: str, offered: frozenset[str]) -> bool:
    return name in offered or name.replace(".", "_") in offered


def _reports_failure(operation: str, value: object) -> bool:
    """Whether an answer says that the operation did not succeed, though it is no error: `{"login_status": false}`.

    Not of operations that ask for a state, whose answer may well be no.
    """
    if not isinstance(value, dict) or _ASKS.search(operation):
        return False
    return any(
        item is False or (isinstance(item, str) and item.lower() in _FAILED)
        for key, item in value.items()
        if isinstance(key, str) and _OUTCOME.search(key)
    )
