"""What kinds make their tests of: scripts with even waits, words and facts of our own data files, invented names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TypeAlias, TypeVar

import msgspec

from tunecheck._json import JSON, loads
from tunecheck.memory._definitions import default_waits
from tunecheck.memory._kind import Kind
from tunecheck.memory._model import Definition, Wait
from tunecheck.memory._wording import fill

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


_STARTS = ("B", "Br", "C", "D", "Dr", "F", "G", "Gl", "H", "J", "K", "L", "M", "N", "P", "Qu", "R", "S", "T", "V", "Z")
_VOWELS = ("a", "e", "i", "o", "u", "ae", "ia", "ou")
_MIDDLES = ("b", "d", "ff", "g", "l", "ld", "m", "nd", "r", "rr", "sh", "st", "t", "v", "x")
_ENDS = ("k", "l", "m", "n", "nth", "r", "s", "sk", "th", "x", "a", "o")

Values: TypeAlias = Mapping[str, str]


class FactTemplate(msgspec.Struct, frozen=True):
    """A statement, the question for it, and its answer, with values in braces."""

    fact: str
    question: str
    answer: str


class Fact(msgspec.Struct, frozen=True):
    """The same with values put in."""

    fact: str
    question: str
    answer: str


def invented_name(random: Random) -> str:
    """A name of two or three syllables that means nothing."""
    middle = "".join(random.choice(_MIDDLES) + random.choice(_VOWELS) for _ in range(random.choice((1, 1, 2))))
    return f"{random.choice(_STARTS)}{random.choice(_VOWELS)}{middle}{random.choice(_ENDS)}"


def draw_values(random: Random, lists: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, str]:
    """One word of each list, and an invented name for each of `names`, no two alike."""
    values = {key: random.choice(words) for key, words in lists.items()}
    given: set[str] = set()
    for name in names:
        while (invented := invented_name(random)) in given:
            pass
        given.add(invented)
        values[name] = invented
    return values


def told_facts(templates: Sequence[FactTemplate], values: Values) -> list[Fact]:
    """The templates with these values put in."""
    return [Fact(fill(each.fact, values), fill(each.question, values), fill(each.answer, values)) for each in templates]
