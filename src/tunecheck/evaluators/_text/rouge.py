"""ROUGE of one text against one reference, with the numbers of Google's rouge-score.

C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004. ROUGE-L's longest common subsequence is
rapidfuzz's, ROUGE-Lsum is rouge-score's own.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from tunecheck.evaluators._text.porter import stem

_WORD = re.compile("[a-z0-9]+")
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

    Raises:
        ValueError: the texts are so long that comparing them would take minutes.
    """
    from rouge_score.rouge_scorer import RougeScorer  # brings nltk; loaded when used

    if len(rouge_tokens(reference)) * len(rouge_tokens(candidate)) > _MAX_CELLS:
        raise ValueError("rougeLsum compares all words with all: these texts are too long for it, use rougeL")
    score = RougeScorer(["rougeLsum"]).score(reference, candidate)["rougeLsum"]
    return RougeScore(float(score.precision), float(score.recall), float(score.fmeasure))


def _score(common: int, reference_total: int, candidate_total: int) -> RougeScore:
    if not common:
        return RougeScore(0.0, 0.0, 0.0)
    precision = common / candidate_total
    recall = common / reference_total
    return RougeScore(precision, recall, 2 * precision * recall / (precision + recall))
