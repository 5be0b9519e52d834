"""How much of a model's output is read as calls, and values taken over exactly within those bounds.

A model's output is data from outside: it may be endless, nested without end, refer to itself, or hold objects of any
class. Nothing beyond these bounds is read; it becomes a problem that says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tunecheck import _json as jsontext
from tunecheck._json import JSON

MAX_CHARACTERS = 1_000_000
"""Longest text that is searched for calls: twice what the largest models write in one answer (128,000 tokens)."""

MAX_DEPTH = 100
"""Deepest nesting of one call's arguments: real ones stay below ten, and what is read here must fit, with the message
around it, below the 200 levels that `jsontext` writes."""

MAX_TEXT_DEPTH = MAX_DEPTH + 12
"""The same for a text: arguments of the greatest depth, and the call, message and lists around them."""

MAX_VALUES = 200_000
"""Most values in the arguments of one call: lists that hold the same list twice, sixty levels deep, never end."""

MAX_CALLS = 1_000
"""Most calls in one reading: matching several calls with each other costs the cube of their number."""

_SHOWN = 60  # characters of a name that a problem repeats: it stays one readable line
_SAFE_BITS = 14_000  # integers of fewer bits have fewer digits than the interpreter's limit for text, 4,300


class UnreadableError(ValueError):
    """Something that announces itself as a call and cannot be read; its text is one line: what, and where."""


def quoted(name: object) -> str:
    """A name as a problem shows it: on one line, and not longer than is useful."""
    text = repr(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def place(text: str, position: int) -> str:
    """Where a position of a text is, as people count: from 1."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"line {line}, column {column}"


def check_size(text: str) -> None:
    """Raises: UnreadableError, where a text is too long to be read as calls."""
    if len(text) > MAX_CHARACTERS:
        raise UnreadableError(f"a text of {len(text)} characters; calls are read from up to {MAX_CHARACTERS}")


def kind_of(value: object) -> str:
    """What a JSON value is, for a problem's text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    for kind, name in (((int, float), "a number"), (str, "text"), (dict, "an object"), ((list, tuple), "a list")):
        if isinstance(value, kind):
            return name
    return f"a value of type {type(value).__name__}"


def exact(value: object) -> JSON:
    """A copy of the value in plain JSON types, unchanged: nothing is rounded, replaced or left out.

    Raises:
        UnreadableError: it holds what JSON has no form for (NaN included), or goes beyond the bounds above.
    """
    return _Copy().of(value, 0)


class _Copy:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_VALUES

    def of(self, value: object, depth: int) -> JSON:
        if type(value) is str or value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):  # the text itself, whatever a subclass (an enumeration) calls its text
            return str.__str__(value)
        if isinstance(value, int):
            return _integer(int.__int__(value))
        if isinstance(value, float):
            return _finite(float.__float__(value))
        if isinstance(value, dict):
            self._enter(dict.__len__(value), depth)
            return self._object(dict.items(value), depth + 1)
        if isinstance(value, (list, tuple)):
            self._enter(len(value), depth)
            return [self.of(item, depth + 1) for item in value]
        return _foreign(value)

    def _enter(self, size: int, depth: int) -> None:
        self.left -= size
        if depth >= MAX_DEPTH:
            raise UnreadableError(f"nested deeper than {MAX_DEPTH} levels")
        if self.left < 0:
            raise UnreadableError(f"more than {MAX_VALUES} values")

    def _object(self, items: Iterable[tuple[object, object]], depth: int) -> JSON:
        copied: dict[str, JSON] = {}
        for key, item in items:
            name = key if type(key) is str else _key(key)
            if name in copied:
                raise UnreadableError(f"the key {quoted(name)} is given twice")
            copied[name] = item if type(item) is str else self.of(item, depth)
        return copied


def _key(key: object) -> str:
    if isinstance(key, str):
        return key if type(key) is str else str.__str__(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return str(_integer(int.__int__(key)))  # as `jsontext.plain` has it
    raise UnreadableError(f"{kind_of(key)} is no key of an object")


def _integer(number: int) -> int:
    if number.bit_length() > _SAFE_BITS:
        try:
            str(number)
        except ValueError:
            raise UnreadableError("an integer with too many digits") from None
    return number


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise UnreadableError(f"{number} is no JSON number")
    return number


def _foreign(value: object) -> JSON:
    try:
        return jsontext.plain(value)  # a numpy scalar has a plain number
    except Exception:  # noqa: BLE001 - an object of any class may raise anything when asked what it is
        raise UnreadableError(f"{kind_of(value)} has no JSON form") from None
