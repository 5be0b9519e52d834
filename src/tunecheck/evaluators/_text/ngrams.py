"""BLEU and GLEU of one sentence against one reference, from the same counts of common n-grams.

K. Papineni et al., "BLEU: a method for automatic evaluation of machine translation", ACL 2002; smoothing method 4 of
B. Chen and C. Cherry, "A systematic comparison of smoothing techniques for sentence-level BLEU", WMT 2014, as nltk's
`SmoothingFunction().method4` has it. GLEU: Y. Wu et al., "Google's neural machine translation system", 2016. Both
give the numbers of nltk's `sentence_bleu` and `sentence_gleu`, to the last bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from tunecheck.evaluators._text.memory import TextMemory

ORDERS = (1, 2, 3, 4)

_SMOOTHING_K = 5

Tokens = tuple[str, ...]

_known: TextMemory[tuple[Tokens, Tokens], tuple[int, ...]] = TextMemory(200_000)


def bleu(reference: Tokens, candidate: Tokens) -> float:
    """BLEU-4 with equal weights, from 0 to 1; 0 where no word is common."""
    common = common_ngrams(reference, candidate)
    if not common[0]:
        return 0.0
    length = len(candidate)
    brevity = 1.0 if length > len(reference) else math.exp(1 - len(reference) / length)
    return brevity * math.exp(math.fsum(0.25 * math.log(value) for value in _precisions(common, length)))


def _precisions(common: Sequence[int], length: int) -> list[float]:
    """Precision by order; orders without a common n-gram are smoothed, or left out where there is but one word."""
    precisions: list[float] = []
    smoothed = 0
    for order, count in zip(ORDERS, common, strict=True):
        total = max(1, length - order + 1)
        if count:
            precisions.append(count / total)
        elif length > 1:
            smoothed += 1
            precisions.append(1 / (2**smoothed * _SMOOTHING_K / math.log(length)) / total)
    return precisions


def gleu(reference: Tokens, candidate: Tokens) -> float:
    """The smaller of n-gram precision and recall over orders 1 to 4, from 0 to 1."""
    longest = max(len(reference), len(candidate))
    total = sum(max(0, longest - order + 1) for order in ORDERS)
    return sum(common_ngrams(reference, candidate)) / total if total else 0.0


def common_ngrams(reference: Tokens, candidate: Tokens) -> tuple[int, ...]:
    """How many n-grams of orders 1 to 4 both have, repeated ones as often as both repeat them."""
    return _known.get((reference, candidate), len(reference) + len(candidate) + 8, _count_common)


def _count_common(pair: tuple[Tokens, Tokens]) -> tuple[int, ...]:
    counts: list[int] = []
    for wanted, given in zip(*map(_ngrams, pair), strict=True):
        common = _overlap(wanted, given)
        if not common:
            break  # where no n-gram is common, no longer one is
        counts.append(common)
    return tuple(counts) + (0,) * (len(ORDERS) - len(counts))


def _ngrams(tokens: Tokens) -> Iterator[Sequence[Hashable]]:
    """The n-grams of order 1, then 2, 3 and 4."""
    yield tokens
    second = tokens[1:]
    yield [*zip(tokens, second, strict=False)]
    third = tokens[2:]
    yield [*zip(tokens, second, third, strict=False)]
    yield [*zip(tokens, second, third, tokens[3:], strict=False)]


def _overlap(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    kinds, others = set(first), set(second)
    shared = kinds & others
    if len(kinds) == len(first) or len(others) == len(second):
        return len(shared)  # nothing is repeated in both
    counts, other_counts = Counter(first), Counter(second)
    return sum(min(counts[gram], other_counts[gram]) for gram in shared)
