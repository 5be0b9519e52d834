"""What a ground-truth call does to the simulators: the state before and after it, as data that stays as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tunecheck.calls._model import FunctionCall
from tunecheck.simulators._backend import Backend
from tunecheck.simulators._results import Result

Path: TypeAlias = "tuple[str | int, ...]"

MAX_CHANGES = 1_000
"""Most differences of two states that are looked at."""

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: where it is, and whether something stood there before and stands there now."""

    path: Path
    before: object
    after: object

    @property
    def is_new(self) -> bool:
        """Whether there was nothing before."""
        return self.before is _ABSENT


@dataclass(frozen=True, slots=True)
class Step:
    """One call: its result and what it changed."""

    result: Result
    changes: Sequence[Change]

    @property
    def has_effect(self) -> bool:
        """Whether it changed something, or told something: then it read it."""
        return bool(self.changes) or self.result.value not in (None, "", (), [], {})


class Replay:
    """A backend whose calls are made one after another; `start` is the state that it started from."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._state = _copied(backend.states())
        self.start = self._state

    def call(self, call: FunctionCall) -> Step:
        """Make one call."""
        result = self._backend.call(call)
        before, self._state = self._state, _copied(self._backend.states())
        return Step(result, list(_limited(_changes(before, self._state, ()))))


def leaves(value: object) -> Iterator[object]:
    """Every value in a structure that holds no others."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def path_text(path: Path) -> str:
    """`TicketAPI.ticket_queue[2].id`"""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    return text if len(text) <= 200 else f"{text[:200]}…"


def _copied(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(item) for item in value]
    return frozenset(value) if isinstance(value, set) else value


def _limited(changes: Iterator[Change]) -> Iterator[Change]:
    for number, change in enumerate(changes):
        if number == MAX_CHANGES:
            return
        yield change


def _changes(before: object, after: object, path: Path) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            step = key if isinstance(key, str) else str(key)
            yield from _changes(before.get(key, _ABSENT), after.get(key, _ABSENT), (*path, step))
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            old, new = (each[index] if index < len(each) else _ABSENT for each in (before, after))
            yield from _changes(old, new, (*path, index))
    elif before is not after and before != after:
        yield Change(path, before, after)
