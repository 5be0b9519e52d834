"""Invented things that kinds of tests are about: names that no model has met, and phrases put together at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeAlias

import msgspec

from tunecheck.memory._wording import fill

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
