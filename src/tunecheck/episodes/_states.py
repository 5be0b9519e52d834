"""States of simulators before and after calls, and their differences.

Playing a call records its `changes`, and the report shows them for each turn. The state check names the `deviations`
of the model's states from the expected ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, TypeAlias, cast

Path: TypeAlias = "tuple[object, ...]"
"""A path in a state: keys of objects and indices of lists."""

States: TypeAlias = Mapping[str, Mapping[str, object]]
"""Each simulator's state, by the simulator's name."""

ABSENT: Final = object()
"""Marks a missing value."""

_DEEPEST = 200
_LONGEST_KEY = 120


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two states: its path, and the values before and after."""

    path: Path
    before: object
    after: object

    @property
    def is_new(self) -> bool:
        """Return True if there was no value before."""
        return self.before is ABSENT

    @property
    def is_gone(self) -> bool:
        """Return True if there is no value afterwards."""
        return self.after is ABSENT


def changes(before: object, after: object, path: Path = ()) -> Iterator[Change]:
    """Yield the differences between two states, each at the deepest place where they differ.

    `path` is the place of both states in a larger one. States are not copied, so they may still be in use.
    """
    if before is after or before == after:
        return
    whole = True  # no part of the two values differs, so the values are the difference
    for step, old, new in _parts(before, after) if len(path) < _DEEPEST else ():
        if old is not new and old != new:
            whole = False
            yield from changes(old, new, (*path, step))
    if whole:
        yield Change(path, before, after)


def _parts(before: object, after: object) -> Iterator[tuple[object, object, object]]:
    """Yield (key or index, value before, value after) for two objects or two lists; nothing for other values.

    A part that exists on one side only is ABSENT on the other.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield key, before.get(key, ABSENT), after.get(key, ABSENT)
    elif isinstance(before, (list, tuple)) and type(before) is type(after):
        pairs = zip_longest(before, cast("Sequence[object]", after), fillvalue=ABSENT)
        yield from ((place, *pair) for place, pair in enumerate(pairs))


def deviations(expected: States, actual: States) -> Iterator[Change]:
    """Yield the differences between the expected states (`before` of each change) and the actual ones (`after`).

    Simulators and top-level values that are not expected are ignored.
    """
    for simulator, state in expected.items():
        other = actual.get(simulator, {})
        for name, value in state.items() if state != other else ():
            yield from changes(value, other.get(name, ABSENT), (simulator, name))


def path_text(path: Path, most: int = 200) -> str:
    """Return a path as text: `TicketAPI.ticket_queue[2].id`, `Shelf.things['old book']`."""
    text = "".join(_step_text(step) for step in path).removeprefix(".")
    return text if len(text) <= most else f"{text[:most]}…"


def _step_text(step: object) -> str:
    """Return one step of a path as text: `.name` for identifiers, else `[2]` or `['old book']`, shortened."""
    if isinstance(step, str) and step.isidentifier():
        return f".{step}"
    text = repr(step)
    return f"[{text if len(text) <= _LONGEST_KEY else f'{text[: _LONGEST_KEY - 1]}…'}]"


def copy_state(value: object) -> object:
    """Return a copy of a state that later calls cannot change; tuples become lists, sets become frozen."""
    if isinstance(value, Mapping):
        return {key: copy_state(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copy_state(item) for item in value]
    return frozenset(value) if isinstance(value, set) else value


def leaves(value: object) -> Iterator[object]:
    """Yield all values inside nested objects and lists that are not themselves objects or lists."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from leaves(item)
    else:
        yield value
