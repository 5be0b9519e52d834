"""Test definitions made of lines, with the waits that spread them over the memory span, and the data behind them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec

from tunecheck._json import JSON, loads
from tunecheck.memory._definitions import default_waits
from tunecheck.memory._kind import Kind
from tunecheck.memory._model import Definition, Wait

DATA = Path(__file__).parent / "data"

T = TypeVar("T")


def scripted_test(
    kind: Kind,
    example: str,
    statements: Sequence[str],
    questions: Sequence[str],
    expected: Sequence[JSON],
    *,
    waits: Sequence[Wait] | None = None,
) -> Definition:
    """A test that says its statements, then asks its questions; its waits are even unless they are given."""
    count = len(statements) + len(questions)
    return Definition(
        title=kind.title,
        example=example,
        script=(*statements, *questions),
        is_question=(False,) * len(statements) + (True,) * len(questions),
        waits=tuple(waits) if waits is not None else default_waits(count),
        expected=tuple(expected),
    )


@lru_cache(maxsize=32)
def read_words(name: str) -> tuple[str, ...]:
    """The lines of one of our own data files, blank ones left out."""
    lines = (DATA / f"{name}.txt").read_text("utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip())


@lru_cache(maxsize=32)
def read_data(name: str, form: type[T]) -> T:
    """One of our own JSON data files, as the form that it has."""
    return msgspec.convert(loads((DATA / f"{name}.json").read_bytes()), type=form)
