"""Token F1 as in SQuAD's evaluation.

P. Rajpurkar et al., "SQuAD: 100,000+ questions for machine comprehension of text", EMNLP 2016.
"""

from __future__ import annotations

import re
import string
from collections import Counter

_ARTICLES = re.compile(r"\b(?:an?|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def token_f1(reference: str, candidate: str) -> float:
    """The harmonic mean of word precision and recall, from 0 to 1.

    Words are compared in lower case, without ASCII punctuation and English articles; 0 where none is common.
    """
    wanted, given = _words(reference), _words(candidate)
    common = (Counter(wanted) & Counter(given)).total()
    if not common:
        return 0.0
    precision = common / len(given)
    recall = common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def _words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split()
