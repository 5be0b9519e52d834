"""Which entries of a menu are named in a guest's words, by the words that tell an entry from the others."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tunecheck.memory._spoken import stem, words

_ENOUGH = 0.6
"""Share of what an entry's name weighs from which on it counts as named."""

_MOST_WORDS = 600
_MOST_CHARACTERS = 500
_MOST_STARTS = 2_000
_TAIL = re.compile(r"\s*(?:,|\(|\bwith\b|\bserved\b|\bin\b|\bon\b|\bover\b|\bdrizzled\b)", re.IGNORECASE)
_SMALL = frozenset("a an and the of with in on or de la al alla served over style by".split())
_NUMBER = re.compile(r"(?:\bnumber|\bno\.|\bnr\.?|#|\bitem|\boption)\s*([0-9]{1,4})\b")


@dataclass(frozen=True, slots=True)
class Mention:
    """An entry named in a text: its number, and which words of the text name it."""

    number: int
    start: int
    end: int
    weight: float


class Dishes:
    """Entries to be looked for, by their numbers.

    A name is what stands before "with", "served" and the like. Most of its words name it, the rarer the better; so does
    its last alone where no other entry has that word ("the goulash").
    """

    def __init__(self, entries: Mapping[int, str]) -> None:
        self._names = {number: _content(_TAIL.split(entry, maxsplit=1)[0]) for number, entry in entries.items()}
        self._tails = {number: frozenset(_content(entry)) for number, entry in entries.items()}
        spread = Counter(word for name in self._names.values() for word in set(name))
        self._weights = {word: 1 / math.sqrt(count) for word, count in spread.items()}
        everywhere = Counter(word for tail in self._tails.values() for word in tail)
        self._telling = {number: name[-1] for number, name in self._names.items() if name and everywhere[name[-1]] == 1}
        self._by_word: dict[str, list[int]] = {}
        for number, name in self._names.items():
            for word in dict.fromkeys(name):
                self._by_word.setdefault(word, []).append(number)

    def named(self, text: str) -> list[int]:
        """The numbers of the entries that are named, in the order of the text; each word names one entry at most."""
        said = [stem(word) for word in words(text)[:_MOST_WORDS]]
        taken = [False] * len(said)
        found: list[Mention] = []
        for mention in sorted(self._mentions(said), key=lambda one: (-one.weight, one.start, one.number)):
            if not any(taken[mention.start : mention.end]):
                taken[mention.start : mention.end] = [True] * (mention.end - mention.start)
                found.append(mention)
        named = [mention.number for mention in sorted(found, key=lambda one: one.start)]
        named += [number for match in _NUMBER.finditer(text.lower()) if (number := int(match[1])) in self._names]
        return list(dict.fromkeys(named))

    def roughly(self, said: str) -> int | None:
        """The entry that has every word of this in its name, and little more: "the chicken"; None if there is none."""
        wanted = set(_content(said[:_MOST_CHARACTERS]))
        fits = [number for number, name in self._names.items() if wanted and wanted <= set(name)]
        return min(
            fits, key=lambda number: (sum(self._weights[word] for word in self._names[number]), number), default=None
        )

    def _mentions(self, said: Sequence[str]) -> Iterator[Mention]:
        starts = 0
        for place, word in enumerate(said):
            for number in self._by_word.get(word, ()):
                starts += 1
                if starts > _MOST_STARTS:
                    return
                if (mention := self._mention(number, said, place)) is not None:
                    yield mention

    def _mention(self, number: int, said: Sequence[str], start: int) -> Mention | None:
        name = self._names[number]
        wanted = set(name)
        last, weight = start, 0.0
        for place in range(start, min(len(said), start + len(name) + 1)):
            if said[place] in wanted:
                wanted.discard(said[place])
                weight += self._weights[said[place]]
                last = place
        told = self._telling.get(number) in said[start : last + 1]
        if not told and weight < _ENOUGH * sum(self._weights[word] for word in set(name)):
            return None
        tail = self._tails[number]
        more = sum(1 for word in said[last + 1 : last + 2 + 2 * len(tail)] if word in tail)
        return Mention(number, start, last + 1, weight + more / 100)


def _content(text: str) -> list[str]:
    return [stem(word) for word in words(text) if word not in _SMALL]
