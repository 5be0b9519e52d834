"""METEOR of one sentence against one reference, with the alignment and the numbers of nltk's `meteor_score`.

A. Lavie and A. Agarwal, "METEOR: an automatic metric for MT evaluation with high levels of correlation with human
judgments", WMT 2007. Words are matched in three rounds: equal words, equal stems, and (as nltk has it) stems of which
WordNet knows the candidate's as a synonym of the reference's. Each round goes through the candidate from its end and
takes the last free place of the reference that fits.
"""

from __future__ import annotations

from collections.abc import Iterable

from tunecheck.evaluators._text.porter import stem
from tunecheck.evaluators._text.wordnet import synonyms

Tokens = tuple[str, ...]
Places = dict[str, list[int]]


def meteor(reference: Tokens, candidate: Tokens, *, alpha: float, beta: float, gamma: float) -> float:
    """METEOR, from 0 to 1 for usual parameters.

    `alpha` weighs precision against recall, `beta` and `gamma` shape the penalty for words in another order.
    """
    matches = align(reference, candidate)
    if not matches:
        return 0.0
    precision = len(matches) / len(candidate)
    recall = len(matches) / len(reference)
    weight = alpha * precision + (1 - alpha) * recall
    if not weight:
        return 0.0
    fragmentation = _count_chunks(matches) / len(matches)
    penalty: float = gamma * fragmentation**beta
    return (1 - penalty) * (precision * recall / weight)


def align(reference: Tokens, candidate: Tokens) -> list[tuple[int, int]]:
    """Pairs of places, in the candidate and in the reference, of words that match; by place in the candidate."""
    matches: list[tuple[int, int]] = []
    wanted = [token.lower() for token in reference]
    words = [token.lower() for token in candidate]
    free = _places(enumerate(wanted))
    left = _take_equal(reversed(list(enumerate(words))), free, matches)
    if left and free:
        free = _places(sorted((place, stem(wanted[place])) for places in free.values() for place in places))
        left = _take_equal([(place, stem(word)) for place, word in left], free, matches)
        if left and free:
            _take_synonyms(left, free, matches)
    matches.sort()
    return matches


def _places(words: Iterable[tuple[int, str]]) -> Places:
    """Where each word stands, in ascending order."""
    places: Places = {}
    for place, word in words:
        places.setdefault(word, []).append(place)
    return places


def _take_equal(
    words: Iterable[tuple[int, str]], free: Places, matches: list[tuple[int, int]]
) -> list[tuple[int, str]]:
    """Match what is equal, take its places out of `free`, and give what is left."""
    left: list[tuple[int, str]] = []
    for place, word in words:
        if word in free:
            matches.append((place, _take(word, free)))
        else:
            left.append((place, word))
    return left


def _take_synonyms(words: Iterable[tuple[int, str]], free: Places, matches: list[tuple[int, int]]) -> None:
    for place, word in words:
        fitting = free.keys() & synonyms(word)
        if fitting:
            matches.append((place, _take(max(fitting, key=lambda name: free[name][-1]), free)))


def _take(word: str, free: Places) -> int:
    """The word's last free place, which is free no longer."""
    places = free[word]
    place = places.pop()
    if not places:
        del free[word]
    return place


def _count_chunks(matches: list[tuple[int, int]]) -> int:
    """How many runs of neighbours the matches make, in both texts at once."""
    return sum(
        (place + 1, wanted + 1) != following
        for (place, wanted), following in zip(matches, [*matches[1:], (-1, -1)], strict=True)
    )
