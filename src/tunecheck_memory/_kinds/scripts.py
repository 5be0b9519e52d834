"""Building blocks of kinds: checked arguments, scripts with even waits, data files, facts, invented names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec

from tunecheck import ConfigurationError
from tunecheck.plugins import JSON, loads
from tunecheck_memory import Kind, MemoryTest, Wait
from tunecheck_memory._wording import fill

DATA = Path(__file__).parents[1] / "data"

T = TypeVar("T")


@lru_cache(maxsize=32)
def read_words(name: str) -> tuple[str, ...]:
    """Return the words or sentences in a text file of the data folder, one per line."""
    lines = (DATA / f"{name}.txt").read_text("utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip())


@lru_cache(maxsize=32)
def read_data(name: str, form: type[T]) -> T:
    """Return the content of a JSON file of the data folder in this form."""
    return msgspec.convert(loads((DATA / f"{name}.json").read_bytes()), type=form)


def draw_line(random: Random, message: str, /, **values: object) -> str:
    """Draw a wording of this message, and fill the values into it."""
    return random.choice(_wordings(message)).format(**values)


def read_line(message: str, /, **values: object) -> str:
    """Return the only wording of this message, with values filled into it; ValueError if it has several."""
    (line,) = _wordings(message)
    return line.format(**values)


def _wordings(message: str) -> tuple[str, ...]:
    """Return the wordings of this message in `lines.json`."""
    wordings: dict[str, tuple[str, ...]] = read_data("lines", dict[str, tuple[str, ...]])
    return wordings[message]


def whole(name: str, value: object, *, least: int, most: int) -> int:
    """Return the argument if it is a whole number in this range; else raise ConfigurationError with its name."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigurationError(f"`{name}` must be a whole number from {least:,} to {most:,}, not {value!r:.60}")
    return value


def scripted_test(
    kind: Kind,
    example: str,
    statements: Sequence[str],
    questions: Sequence[str],
    expected: Sequence[JSON],
    *,
    waits: Sequence[Wait] = (),
) -> MemoryTest:
    """Return a test with statements, then questions; `example` is its name in the data set.

    By default, the waits spread the lines evenly over the memory span.
    """
    script, is_question = (*statements, *questions), (False,) * len(statements) + (True,) * len(questions)
    return MemoryTest(kind.title, example, script, is_question, tuple(waits), tuple(expected))


# The syllables of invented names: "Dralen", "Quiasharrok". A name is a start, a vowel, one or two times a middle and a
# vowel, and an end.
_STARTS = ("B", "Br", "C", "D", "Dr", "F", "G", "Gl", "H", "J", "K", "L", "M", "N", "P", "Qu", "R", "S", "T", "V", "Z")
_VOWELS = ("a", "e", "i", "o", "u", "ae", "ia", "ou")
_MIDDLES = ("b", "d", "ff", "g", "l", "ld", "m", "nd", "r", "rr", "sh", "st", "t", "v", "x")
_ENDS = ("k", "l", "m", "n", "nth", "r", "s", "sk", "th", "x", "a", "o")


class Fact(msgspec.Struct, frozen=True):
    """A statement, its question and its answer; in a template, names in braces stand for values.

    Example: "The capital of {land} is {town}.", "What is the capital of {land}?", "{town}".
    """

    fact: str
    question: str
    answer: str

    def with_values(self, values: Mapping[str, str]) -> Fact:
        """Return the fact with values in place of the names in braces."""
        return Fact(fill(self.fact, values), fill(self.question, values), fill(self.answer, values))


def _invented_name(random: Random) -> str:
    """Return an invented name of two or three syllables."""
    middle = "".join(random.choice(_MIDDLES) + random.choice(_VOWELS) for _ in range(random.choice((1, 1, 2))))
    return f"{random.choice(_STARTS)}{random.choice(_VOWELS)}{middle}{random.choice(_ENDS)}"


def draw_values(random: Random, lists: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, str]:
    """Return values for a template: a random word of each list, and a different invented name for each of `names`.

    The draws happen in the order of `lists` and `names`, so equal data and seeds give equal tests.
    """
    values = {key: random.choice(words) for key, words in lists.items()}
    invented: dict[str, None] = {}

    while len(invented) < len(names):
        invented[_invented_name(random)] = None
    return values | dict(zip(names, invented, strict=True))
