"""The values that a conversation contains up to some point: texts, words, numbers and quotations."""

from __future__ import annotations

import functools
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from importlib.resources import files
from itertools import combinations

from tunecheck_authoring._audit.dialogue import texts_in

_QUOTED = re.compile(
    r"""(?<!\w)(?:'((?:[^'\n]|(?<=\w)'(?=\w)){2,}?)'|"([^"\n]{2,}?)"|`([^`\n]{2,}?)`|“([^”\n]{2,}?)”"""
    r"""|‘([^’\n]{2,}?)’)(?!\w|\s*:\s*["\[{])"""
)
_WORD = re.compile(r"\w+(?:[-.@:/]\w+)*")
_NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?")
_MOST_NUMBERS = 200
"""Above this count, nearly every number can be derived."""
_TOLERANCE = 0.006
_PRECISION = 1e-12
_FACTORS = (0.01, 7, 10, 12, 24, 60, 100, 1000, 3600)
"""Percent, powers of ten and units of time."""
_MOST_LETTERS = 0.75
_LONGEST_NAME = 100
_NAME = re.compile(r"[A-Z][\w'-]*(?: [A-Z][\w'-]*)*")
_MOST_NAMES = 50


@functools.cache
def _numerals() -> dict[str, float]:
    """Return numbers by their words, names of months and weekdays included."""
    shipped: dict[str, str] = json.loads(files(__package__).joinpath("numerals.json").read_text("utf-8"))
    return {word: float(number) for number, said in shipped.items() for word in said.split()}


def quotes(text: str) -> list[str]:
    """Return the quoted texts; apostrophes within words and keys of JSON do not count."""
    return [next(part for part in match.groups() if part) for match in _QUOTED.finditer(text)]


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; an address, an id or a file name is one word."""
    return _WORD.findall(text.casefold())


def numbers(text: str) -> Iterator[float]:
    """Yield the numbers in a text, including numbers in words and names of months and weekdays."""
    for match in _NUMBER.finditer(text):
        for part in {match[0].replace(",", ""), *match[0].split(",")}:  # thousands, or a list
            yield float(part) if len(part) < 30 else 0.0
    yield from (_numerals()[word] for word in re.findall(r"[a-z]+", text.casefold()) if word in _numerals())


def shortens(text: str, name: str) -> bool:
    """True if a text abbreviates a name: same first letter, and most letters in the name's order (nvda, nvidia)."""
    if text[0] != name[0] or not len(text) <= len(name) <= _LONGEST_NAME or not text.isalpha():
        return False
    matcher = SequenceMatcher(None, text, name, autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks()) >= len(text) * _MOST_LETTERS


class KnownValues:
    """The values of a conversation so far: the user's words and the results of calls."""

    def __init__(self) -> None:
        self.quoted: list[str] = []
        self.results: list[str] = []
        self.words: set[str] = set()
        self._names: list[str] = []
        self._texts: list[str] = []
        self._numbers: set[float] = set()
        self._derive: list[float] | None = None

    def say(self, text: str) -> None:
        """Add a user message."""
        self.quoted += quotes(text)
        self._names += _NAME.findall(text)
        self.add(text)

    def answer(self, value: object) -> None:
        """Add the result of a call."""
        self.results += (text for text in texts_in(value) if len(text) > 1)
        self.add(value)

    def names(self) -> list[str]:
        """Return possible names in the user's words: capitalized words and quotations."""
        return [*dict.fromkeys([*self._names, *self.quoted])][:_MOST_NAMES]

    def add(self, value: object) -> None:
        before = len(self._numbers)
        for text in texts_in(value):
            folded = text.casefold()
            self._texts.append(folded)
            self.words.update(words(folded))
            self._numbers.update(numbers(folded))
        if len(self._numbers) > before:
            self._derive = None

    def has_text(self, text: str) -> bool:
        """True if the conversation contains the text, in any letter case."""
        return text.casefold() in self._all()

    def has_words(self, text: str) -> bool:
        """True if the conversation contains the text as whole words: 'We are lat' is not in 'We are late'."""
        text, known = text.casefold(), self._all()
        at = known.find(text)
        while at >= 0:
            end = at + len(text)
            if not _is_within_word(known, at) and not _is_within_word(known, end):
                return True
            at = known.find(text, at + 1)
        return False

    def _all(self) -> str:
        if len(self._texts) > 1:
            self._texts = ["\n".join(self._texts)]
        return "".join(self._texts)

    def has_number(self, value: float) -> bool:
        """True if the number occurs, or is a rounding, sum, product, quotient, power of ten or percentage of such."""
        size = abs(value)
        if (
            len(self._numbers) > _MOST_NUMBERS
            or any(abs(size - known) < _TOLERANCE for known in (0.0, 1.0))
            or _near(size, sorted(self._numbers))
        ):
            return True
        if self._derive is None:
            self._derive = sorted({*_derive(sorted(self._numbers))})
        return _near(size, self._derive)

    def numbers(self) -> set[float]:
        return self._numbers


def _is_within_word(text: str, at: int) -> bool:
    """True if Latin letters or digits stand on both sides; other scripts may have no spaces between words."""
    return all(each.isascii() and each.isalnum() for each in text[max(0, at - 1) : at + 1]) and 0 < at < len(text)


def _near(value: float, known: Sequence[float]) -> bool:
    """True if the value is in this sorted list, or is a rounding of one of its numbers."""
    least = max(_TOLERANCE, abs(value) * _PRECISION)
    reach = max(least, 0.5)
    candidates = known[bisect_left(known, value - reach) : bisect_right(known, value + reach)]
    return any(abs(value - each) < least or value == round(each) for each in candidates)


def _derive(known: list[float]) -> Iterator[float]:
    for each in known:
        yield from (each * factor for factor in _FACTORS)
    if known:
        yield sum(known) / len(known)
    for one, other in combinations(known, 2):
        yield from (one + other, abs(one - other), one * other)
        if one and other:
            yield from (one / other, other / one)
    for three in combinations(known[:20], 3):
        yield sum(three) / 3
