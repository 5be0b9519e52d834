"""Words that two texts have in common: ROUGE, with the numbers of Google's rouge-score, and SQuAD's token F1.

C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from tunecheck.evaluators._text.porter import stem

_WORD = re.compile("[a-z0-9]+")
_ARTICLES = re.compile(r"\b(?:an?|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MIN_STEMMED = 4
_MAX_CELLS = 10_000_000


class RougeScore(NamedTuple):
    """Precision, recall and their harmonic mean, each from 0 to 1."""

    precision: float
    recall: float
    f1_score: float


def rouge_tokens(text: str, *, stemmer: bool = False) -> list[str]:
    """Runs of the letters a to z and digits, in lower case; with a stemmer, words of four letters on are stemmed."""
    words = _WORD.findall(text.lower())
    return [stem(word) if len(word) >= _MIN_STEMMED else word for word in words] if stemmer else words


def rouge_l(reference: list[str], candidate: list[str]) -> RougeScore:
    """The longest common subsequence of words against the words of each text."""
    from rapidfuzz.distance import LCSseq  # loaded when used: 15 ms

    common = LCSseq.similarity(reference, candidate)
    return _score(common, len(reference), len(candidate))


def rouge_n(reference: list[str], candidate: list[str], order: int) -> RougeScore:
    """Common n-grams of one order against the n-grams of each text."""
    wanted, given = (
        Counter(zip(*(words[start:] for start in range(order)), strict=False)) for words in (reference, candidate)
    )
    common = sum(min(wanted[gram], given[gram]) for gram in wanted.keys() & given.keys())
    return _score(common, wanted.total(), given.total())


def rouge_lsum(reference: str, candidate: str) -> RougeScore:
    """ROUGE-L over lines: for each line of the reference, the words it has in common with any line of the other.

    A word counts at most as often as both texts have it, as in version 1.5.5 of the original script.

    Raises:
        ValueError: the texts are so long that comparing them would take minutes.
    """
    wanted, given = ([rouge_tokens(line) for line in text.split("\n")] for text in (reference, candidate))
    words, others = ([*chain.from_iterable(lines)] for lines in (wanted, given))
    if len(words) * len(others) > _MAX_CELLS:
        raise ValueError("rougeLsum compares all words with all: these texts are too long for it, use rougeL")
    free, common = Counter(words) & Counter(others), 0
    for line in wanted:
        places = set(chain.from_iterable(_common_places(line, other) for other in given))
        taken = Counter(line[place] for place in places) & free
        free -= taken
        common += taken.total()
    return _score(common, len(words), len(others))


def _common_places(reference: list[str], candidate: list[str]) -> Iterator[int]:
    """The places, in the reference, of one longest common subsequence: the one that rouge-score finds."""
    lengths = [[0] * (len(candidate) + 1)]
    for word in reference:
        above, row = lengths[-1], [0]
        for at, other in enumerate(candidate):
            row.append(above[at] + 1 if word == other else max(above[at + 1], row[at]))
        lengths.append(row)
    i, j = len(reference), len(candidate)
    while i and j:
        if reference[i - 1] == candidate[j - 1]:
            i, j = i - 1, j - 1
            yield i
        elif lengths[i][j - 1] > lengths[i - 1][j]:
            j -= 1
        else:
            i -= 1


def _score(common: int, reference_total: int, candidate_total: int) -> RougeScore:
    if not common:
        return RougeScore(0.0, 0.0, 0.0)
    precision = common / candidate_total
    recall = common / reference_total
    return RougeScore(precision, recall, 2 * precision * recall / (precision + recall))


def token_f1(reference: str, candidate: str) -> float:
    """The harmonic mean of word precision and recall, from 0 to 1, as in SQuAD's evaluation.

    P. Rajpurkar et al., "SQuAD: 100,000+ questions for machine comprehension of text", EMNLP 2016. Words
    are compared in lower case, without ASCII punctuation and English articles; 0 where none is common.
    """
    wanted, given = _squad_words(reference), _squad_words(candidate)
    common = (Counter(wanted) & Counter(given)).total()
    if not common:
        return 0.0
    precision = common / len(given)
    recall = common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def _squad_words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split()
