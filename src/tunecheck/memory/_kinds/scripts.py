"""What kinds make their tests of: scripts with even waits, facts with values put in, invented names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import msgspec

from tunecheck._json import JSON
from tunecheck.memory._definitions import default_waits
from tunecheck.memory._kind import Kind
from tunecheck.memory._model import Definition, Wait
from tunecheck.memory._wording import fill


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


_STARTS = ("B", "Br", "C", "D", "Dr", "F", "G", "Gl", "H", "J", "K", "L", "M", "N", "P", "Qu", "R", "S", "T", "V", "Z")
_VOWELS = ("a", "e", "i", "o", "u", "ae", "ia", "ou")
_MIDDLES = ("b", "d", "ff", "g", "l", "ld", "m", "nd", "r", "rr", "sh", "st", "t", "v", "x")
_ENDS = ("k", "l", "m", "n", "nth", "r", "s", "sk", "th", "x", "a", "o")


class Fact(msgspec.Struct, frozen=True):
    """A statement, the question for it, and its answer; a template of them has values in braces."""

    fact: str
    question: str
    answer: str

    def with_values(self, values: Mapping[str, str]) -> Fact:
        return Fact(fill(self.fact, values), fill(self.question, values), fill(self.answer, values))


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
