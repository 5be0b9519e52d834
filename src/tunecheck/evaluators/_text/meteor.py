"""METEOR of one sentence against one reference, with the alignment and the numbers of nltk's `meteor_score`.

A. Lavie and A. Agarwal, "METEOR: an automatic metric for MT evaluation with high levels of correlation with human
judgments", WMT 2007. Words are matched in three rounds: equal words, equal stems, and (as in nltk) stems that are
synonyms in WordNet. Each round goes through the candidate from its end and takes the last free matching word of the
reference.
"""

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from tunecheck.evaluators._text.tokens import read_data

Tokens = tuple[str, ...]
Positions = dict[str, list[int]]


def meteor(reference: Tokens, candidate: Tokens, *, alpha: float, beta: float, gamma: float) -> float:
    """Return METEOR of a candidate against one reference, from 0 to 1 for usual parameters; 0 without a matching word.

    `alpha` weighs precision against recall; `beta` and `gamma` control the penalty for a different word order.
    """
    matches = align(reference, candidate)
    if not matches:
        return 0.0
    precision = len(matches) / len(candidate)
    recall = len(matches) / len(reference)
    weight = alpha * precision + (1 - alpha) * recall
    if not weight:
        return 0.0
    # Chunks are runs of words that are adjacent in both texts.
    chunks = 1 + sum((position + 1, wanted + 1) != after for (position, wanted), after in pairwise(matches))
    penalty: float = gamma * (chunks / len(matches)) ** beta
    return (1 - penalty) * (precision * recall / weight)


def align(reference: Tokens, candidate: Tokens) -> list[tuple[int, int]]:
    """Match words of both texts: equal ones first, then equal stems, then synonyms.

    Returns pairs of positions, in the candidate and in the reference, sorted by candidate position.
    """
    matches: list[tuple[int, int]] = []
    wanted = [token.lower() for token in reference]
    words = [token.lower() for token in candidate]
    rest = _positions(enumerate(wanted))
    words_left = _match_equal(reversed(list(enumerate(words))), rest, matches)
    if words_left and rest:
        rest = _positions(sorted((place, stem(wanted[place])) for places in rest.values() for place in places))
        words_left = _match_equal([(place, stem(word)) for place, word in words_left], rest, matches)
        if words_left and rest:
            for place, word in words_left:
                if fitting := rest.keys() & synonyms(word):
                    matches.append((place, _pop_last(max(fitting, key=lambda name: rest[name][-1]), rest)))
    matches.sort()
    return matches


def _positions(words: Iterable[tuple[int, str]]) -> Positions:
    """Return the positions of each word, in the order of the pairs."""
    places: Positions = {}
    for place, word in words:
        places.setdefault(word, []).append(place)
    return places


def _match_equal(
    words: Iterable[tuple[int, str]], rest: Positions, matches: list[tuple[int, int]]
) -> list[tuple[int, str]]:
    """Match words with equal ones in `rest`, add the pairs to `matches`, and return the words without a match.

    A matched position is removed from `rest`.
    """
    words_left: list[tuple[int, str]] = []
    for place, word in words:
        if word in rest:
            matches.append((place, _pop_last(word, rest)))
        else:
            words_left.append((place, word))
    return words_left


def _pop_last(word: str, rest: Positions) -> int:
    """Remove the word's last free position from `rest` and return it."""
    places = rest[word]
    place = places.pop()
    if not places:
        del rest[word]
    return place


# -- the Porter stemmer, in the variant that nltk uses by default. M. F. Porter, "An algorithm for suffix stripping",
# Program 14(3), 1980, with the departures of nltk's stemmer: a short table of irregular words, no stemming of words of
# up to two letters, `ies` and `ied` of four-letter words, a `y` that becomes `i` after any consonant, and three more
# endings in step 2. Rules stand in the order in which they are tried; the first ending that fits decides, whether its
# condition holds or not.

_LONGEST_REMEMBERED = 48
_IRREGULAR = {
    "skies": "sky", "sky": "sky", "dying": "die", "lying": "lie", "tying": "tie", "news": "news",
    "innings": "inning", "inning": "inning", "outings": "outing", "outing": "outing",
    "cannings": "canning", "canning": "canning", "howe": "howe",
    "proceed": "proceed", "exceed": "exceed", "succeed": "succeed",
}  # fmt: skip
_STEP_2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("fulli", "ful"), ("logi", "log"),
)  # fmt: skip
_STEP_3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


def stem(word: str) -> str:
    """Return the stem of a word, in lower case."""
    return _remembered_stem(word) if len(word) <= _LONGEST_REMEMBERED else _stem(word)


def _stem(word: str) -> str:
    """Return the stem of a word by Porter's five steps; irregular words have fixed stems, and short words stay."""
    lower = word.lower()
    if lower in _IRREGULAR:
        return _IRREGULAR[lower]
    if len(word) <= 2:
        return lower
    return _step_5(_step_4(_replace_suffix(_step_2(_step_1c(_step_1b(_step_1a(lower)))), _STEP_3)))


_remembered_stem = lru_cache(maxsize=1 << 15)(_stem)


def _shape(word: str) -> str:
    """Write a word as consonants `c` (and other characters) and vowels `v`; a `y` after a consonant is a vowel."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Return Porter's m, the number of vowel-consonant sequences."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Return Porter's condition *o: the word ends in consonant-vowel-consonant, and its last letter is not w, x or y.

    A vowel and a consonant alone also meet the condition.
    """
    shape = _shape(word)
    return shape == "vc" or (shape.endswith("cvc") and word[-1] not in "wxy")


def _step_1a(word: str) -> str:
    """Remove a plural ending: `ponies` becomes `poni`, `caresses` `caress`, `cats` `cat`."""
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _step_1b(word: str) -> str:
    """Remove `ied`, `eed`, `ed` or `ing` if enough of the word is left, and repair the rest."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        if word.endswith(ending) and "v" in _shape(base := word.removesuffix(ending)):
            return _repair(base)
    return word


def _repair(base: str) -> str:
    """Restore a stem from which `ed` or `ing` was removed: `hop` from `hopp`, `file` from `fil`."""
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if base[-1:] == base[-2:-1] and _shape(base)[-1] == "c":
        return base if base[-1] in "lsz" else base[:-1]
    if base.endswith("*d"):  # an accident of nltk: its rule's name "*d" also works as a suffix
        return base[:-2] + "d"
    return base + "e" if _measure(base) == 1 and _ends_short(base) else base


def _step_1c(word: str) -> str:
    """Replace a final `y` after a consonant by `i`, except in words of two letters."""
    return word[:-1] + "i" if word.endswith("y") and len(word) > 2 and _shape(word)[-2] == "c" else word


def _step_2(word: str) -> str:
    """Replace a double ending such as `ational` by a simple one such as `ate`."""
    while word.endswith("alli") and _measure(word[:-4]) > 0:
        word = word[:-2]
    return _replace_suffix(word, _STEP_2)


def _replace_suffix(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    """Replace the first ending of the rules that the word has, if a vowel and a consonant precede it."""
    for ending, replacement in rules:
        if word.endswith(ending):
            base = word.removesuffix(ending)
            condition = word[:-3] if ending == "logi" else base
            return base + replacement if _measure(condition) > 0 else word
    return word


def _step_4(word: str) -> str:
    """Remove a last ending such as `ance` if the rest is long enough; the first listed ending that fits decides."""
    for ending in _STEP_4:
        if word.endswith(ending):
            base = word.removesuffix(ending)
            fits = _measure(base) > 1 and (ending != "ion" or base[-1] in "st")
            return base if fits else word
    return word


def _step_5(word: str) -> str:
    """Remove a final `e`, and one `l` of a final `ll`, if the rest is long enough."""
    if word.endswith("e"):
        base = word[:-1]
        measure = _measure(base)
        if measure > 1 or (measure == 1 and not _ends_short(base)):
            word = base
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


# -- WordNet 3.0's synonyms, from a table that is read in a few milliseconds and holds what METEOR can use: synsets hold
# only the names that a lower-case token can equal, and only synsets with such a name are there. The table
# (`data/wordnet.bin`, made by `scripts/build_text_data.py`) is little-endian: the mark `WORDNET1`, ten 32-bit numbers
# (lemmas, senses, synsets, names, bytes of lemma text, bytes of exception text, first synset of each of the four parts
# of speech), five arrays of 32-bit numbers (where each lemma starts in the lemma text; where its senses start; the
# senses, which are synset numbers; where each synset's names start; the names, which are lemma numbers), the lemma
# text, the exception text. Lemmas are sorted.

_HEADER = struct.Struct("<8s10I")
_MARK = b"WORDNET1"
_LONGEST = 80
"""Maximum length of a lemma's forms in characters."""
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
    """A set of synonyms; `part` is the part of speech: n, v, a or r."""

    part: str
    names: tuple[str, ...]


class WordNet:
    """The table in memory, searched without unpacking."""

    def __init__(self, data: bytes) -> None:
        """Split the table's bytes into arrays and texts, as its header says; refuse another version (ValueError)."""
        mark, lemmas, senses, synsets, names, text, exceptions, *firsts = _HEADER.unpack_from(data)
        if mark != _MARK:
            raise ValueError("not a WordNet table of this version")
        at = _HEADER.size
        blocks = []
        for count in (lemmas + 1, lemmas + 1, senses, synsets + 1, names):
            numbers = array("I", data[at : at + 4 * count])
            if sys.byteorder == "big":
                numbers.byteswap()
            blocks.append(numbers)
            at += 4 * count
        self._lemma_starts, self._sense_starts, self._senses, self._name_starts, self._names = blocks
        self._text = data[at : at + text].decode("ascii")
        self._exceptions = _read_exceptions(data[at + text : at + text + exceptions].decode("ascii"))
        self._bounds = dict(zip("nvar", zip(firsts, [*firsts[1:], synsets], strict=True), strict=True))
        self._positions = range(lemmas)

    def synsets(self, word: str) -> list[Synset]:
        """Return all sets of synonyms of the word or a base form: of nouns, verbs, adjectives, then adverbs."""
        form = word.lower()
        return [
            Synset(part, tuple(map(self._lemma, self._names[slice(*self._name_starts[number : number + 2])])))
            for part in "nvar"
            for base in self._bases(form, part)
            for number in self._synsets_of(base, part)
        ]

    def synonyms(self, word: str) -> frozenset[str]:
        """Return the word itself and all names in its synsets."""
        return frozenset(name for synset in self.synsets(word) for name in synset.names).union((word,))

    def lemmas(self) -> list[str]:
        """Return all lemmas of the table, sorted."""
        return [*map(self._lemma, self._positions)]

    def _lemma(self, place: int) -> str:
        """Return the lemma at this position in the table."""
        return self._text[self._lemma_starts[place] : self._lemma_starts[place + 1]]

    def _bases(self, form: str, part: str) -> dict[str, None]:
        """Return the word and its possible base forms for a part of speech.

        The base forms are those of the list of irregular words, else those by the rules of detachment.
        """
        irregular = self._exceptions[part].get(form)
        if irregular is None:
            irregular = [form.removesuffix(old) + new for old, new in _ENDINGS[part] if form.endswith(old)]
        return dict.fromkeys((form, *irregular))

    def _synsets_of(self, lemma: str, part: str) -> Iterator[int]:
        """Yield the numbers of the synsets that contain this lemma as this part of speech; none if it is unknown."""
        place = bisect_left(self._positions, lemma, key=self._lemma)
        if place < len(self._positions) and self._lemma(place) == lemma:
            first, last = self._bounds[part]
            senses = self._senses[self._sense_starts[place] : self._sense_starts[place + 1]]
            yield from (number for number in senses if first <= number < last)


def _read_exceptions(text: str) -> dict[str, dict[str, list[str]]]:
    """Return the base forms of irregular words, by part of speech and word."""
    exceptions: dict[str, dict[str, list[str]]] = {part: {} for part in "nvar"}
    for line in text.splitlines():
        part, form, *bases = line.split(" ")
        exceptions[part][form] = bases
    return exceptions


@lru_cache(maxsize=1)
def wordnet() -> WordNet:
    """Return the shipped table; the first call reads it."""
    return WordNet(read_data("wordnet.bin"))


def synonyms(word: str) -> frozenset[str]:
    """Return the synonyms of a word in the shipped table, cached for words of usual length."""
    return _remembered_synonyms(word) if len(word) <= _LONGEST else frozenset((word,))


@lru_cache(maxsize=1 << 13)
def _remembered_synonyms(word: str) -> frozenset[str]:
    return wordnet().synonyms(word)
