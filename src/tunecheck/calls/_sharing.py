"""What is worked out from a row's values, kept while the row is judged: its calls are read and compared once.

Nothing is kept beyond the row, and nothing of a value that is not the row's own: an evaluator may build lists of its
own, change them, and have them compared again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar, cast

from tunecheck.calls._formats.reading import read_calls
from tunecheck.calls._model import Reading

_Made = TypeVar("_Made")
_NOTHING = object()


class _Row:
    __slots__ = ("made", "values")

    def __init__(self, values: Iterable[object]) -> None:
        self.values = {id(value): value for value in values}  # held, so that no other object gets their ids
        self.made: dict[Hashable, object] = {}


_row: ContextVar[_Row | None] = ContextVar("row", default=None)


@contextmanager
def one_row(values: Iterable[object]) -> Iterator[None]:
    """Within, evaluators that change none of these values share what they work out from them."""
    token = _row.set(_Row(values))
    try:
        yield
    finally:
        _row.reset(token)


def once(task: Hashable, values: tuple[object, ...], make: Callable[[], _Made]) -> _Made:
    """What `make` gives for these values, worked out once a row for each `task`; anew where they are not the row's."""
    row = _row.get()
    if row is None:
        return make()
    for value in values:
        if value is not None and id(value) not in row.values:
            return make()
    key = (task, *map(id, values))
    made = row.made.get(key, _NOTHING)
    if made is _NOTHING:
        made = row.made[key] = make()
    return cast("_Made", made)


def read_once(value: object) -> Reading:
    """`read_calls`, once a row."""
    return once("read", (value,), lambda: read_calls(value))
