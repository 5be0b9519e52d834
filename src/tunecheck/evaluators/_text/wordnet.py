"""WordNet 3.0's synonyms, from a table that is read in a few milliseconds and holds what METEOR can use.

The table (`data/wordnet.bin`, made by `scripts/build_text_data.py`) is little-endian: the mark `WORDNET1`, ten 32-bit
numbers (lemmas, senses, synsets, names, bytes of lemma text, bytes of exception text, first synset of each of the four
parts of speech), five arrays of 32-bit numbers (where each lemma starts in the lemma text; where its senses start; the
senses, which are synset numbers; where each synset's names start; the names, which are lemma numbers), the lemma text,
the exception text. Lemmas are sorted. Synsets hold only the names that a lower-case token can equal, and only synsets
with such a name are there.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from tunecheck.evaluators._text.resources import read_data

_HEADER = struct.Struct("<8s10I")
_MARK = b"WORDNET1"
_LONGEST = 80
"""No form of any lemma has more characters."""
_ENDINGS = {
    "n": (
        ("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"),
        ("men", "man"), ("ies", "y"),
    ),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}  # fmt: skip
"""Rules of detachment by part of speech, as morphy(7WN) lists them."""


class Synset(NamedTuple):
    """A set of synonyms; `part` is its part of speech, one of n, v, a, r."""

    part: str
    names: tuple[str, ...]


class WordNet:
    """The table."""

    def __init__(self, data: bytes) -> None:
        mark, lemmas, senses, synsets, names, text, exceptions, *firsts = _HEADER.unpack_from(data)
        if mark != _MARK:
            raise ValueError("not a WordNet table of this version")
        at = _HEADER.size
        blocks = []
        for count in (lemmas + 1, lemmas + 1, senses, synsets + 1, names):
            blocks.append(_numbers(data[at : at + 4 * count]))
            at += 4 * count
        self._lemma_starts, self._sense_starts, self._senses, self._name_starts, self._names = blocks
        self._text = data[at : at + text].decode("ascii")
        self._exceptions = _read_exceptions(data[at + text : at + text + exceptions].decode("ascii"))
        self._bounds = dict(zip("nvar", zip(firsts, [*firsts[1:], synsets], strict=True), strict=True))
        self._places = range(lemmas)

    def synsets(self, word: str) -> list[Synset]:
        """All synsets that hold the word or a base form of it, by part of speech."""
        form = word.lower()
        return [
            Synset(part, self._synset_names(number))
            for part in "nvar"
            for base in self._bases(form, part)
            for number in self._synsets_of(base, part)
        ]

    def synonyms(self, word: str) -> frozenset[str]:
        """The word itself and all names of its synsets."""
        return frozenset(name for synset in self.synsets(word) for name in synset.names).union((word,))

    def lemmas(self) -> list[str]:
        """All lemmas of the table, sorted."""
        return [*map(self._lemma, self._places)]

    def _lemma(self, place: int) -> str:
        return self._text[self._lemma_starts[place] : self._lemma_starts[place + 1]]

    def _bases(self, form: str, part: str) -> dict[str, None]:
        irregular = self._exceptions[part].get(form)
        if irregular is None:
            irregular = [form.removesuffix(old) + new for old, new in _ENDINGS[part] if form.endswith(old)]
        return dict.fromkeys((form, *irregular))

    def _synsets_of(self, lemma: str, part: str) -> Iterator[int]:
        place = bisect_left(self._places, lemma, key=self._lemma)
        if place in self._places and self._lemma(place) == lemma:
            first, last = self._bounds[part]
            senses = self._senses[self._sense_starts[place] : self._sense_starts[place + 1]]
            yield from (number for number in senses if first <= number < last)

    def _synset_names(self, number: int) -> tuple[str, ...]:
        places = self._names[self._name_starts[number] : self._name_starts[number + 1]]
        return tuple(map(self._lemma, places))


def _numbers(data: bytes) -> array[int]:
    numbers = array("I", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _read_exceptions(text: str) -> dict[str, dict[str, list[str]]]:
    exceptions: dict[str, dict[str, list[str]]] = {part: {} for part in "nvar"}
    for line in text.splitlines():
        part, form, *bases = line.split(" ")
        exceptions[part][form] = bases
    return exceptions


@lru_cache(maxsize=1)
def wordnet() -> WordNet:
    """The table that ships with the package, read at the first call."""
    return WordNet(read_data("wordnet.bin"))


def synonyms(word: str) -> frozenset[str]:
    """`WordNet.synonyms` of the shipped table, remembered."""
    return _remembered(word) if len(word) <= _LONGEST else frozenset((word,))


@lru_cache(maxsize=1 << 13)
def _remembered(word: str) -> frozenset[str]:
    return wordnet().synonyms(word)
