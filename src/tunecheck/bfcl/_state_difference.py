"""Where two states differ first: a path, and what stands there on either side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tunecheck.bfcl._verdicts import shown

_NOTHING = object()
_DEEPEST = 200
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Difference:
    """`path` leads to the first difference; `expected` and `found` are what stands there, as text."""

    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path} is {self.found}; expected {self.expected}"


def first_difference(
    expected: Mapping[str, Mapping[str, object]], found: Mapping[str, Mapping[str, object]]
) -> Difference | None:
    """The first difference of two backends' states; None where they are equal.

    Both are live states: they are compared where they stand, and nothing is copied. Only what differs is gone into.
    """
    for simulator, state in expected.items():
        other = found.get(simulator, {})
        if state == other:
            continue
        for name, value in state.items():
            seen = other.get(name, _NOTHING)
            if value != seen:
                return _located(value, seen, f"{simulator}.{name}", 0)
    return None


def _located(expected: object, found: object, path: str, depth: int) -> Difference:
    if depth < _DEEPEST:
        if isinstance(expected, dict) and isinstance(found, dict):
            return _in_mappings(expected, found, path, depth)
        if isinstance(expected, (list, tuple)) and type(expected) is type(found):
            return _in_lists(list(expected), list(found), path, depth)
    return Difference(path, _text(expected), _text(found))


def _in_mappings(expected: dict[object, object], found: dict[object, object], path: str, depth: int) -> Difference:
    for key in {**expected, **found}:
        value, seen = expected.get(key, _NOTHING), found.get(key, _NOTHING)
        if value is not seen and value != seen:
            return _located(value, seen, f"{path}{_step(key)}", depth + 1)
    return Difference(path, _text(expected), _text(found))


def _in_lists(expected: list[object], found: list[object], path: str, depth: int) -> Difference:
    for place in range(max(len(expected), len(found))):
        value = expected[place] if place < len(expected) else _NOTHING
        seen = found[place] if place < len(found) else _NOTHING
        if value is not seen and value != seen:
            return _located(value, seen, f"{path}[{place}]", depth + 1)
    return Difference(path, _text(expected), _text(found))


def _step(key: object) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{shown(key, _SHOWN)}]"


def _text(value: object) -> str:
    return "missing" if value is _NOTHING else shown(value, _SHOWN)
