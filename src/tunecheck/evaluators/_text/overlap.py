"""What two texts have in common: BLEU and GLEU, ROUGE, and SQuAD's token F1, each of one text against one reference.

BLEU and GLEU have the numbers of nltk's `sentence_bleu` and `sentence_gleu`, to the last bit, ROUGE those of Google's
rouge-score.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from tunecheck.evaluators._text.meteor import Tokens, stem
from tunecheck.evaluators._text.tokens import TextMemory

# -- BLEU and GLEU, from the same counts of common n-grams. K. Papineni et al., "BLEU: a method for automatic evaluation
# of machine translation", ACL 2002; smoothing method 4 of B. Chen and C. Cherry, "A systematic comparison of smoothing
# techniques for sentence-level BLEU", WMT 2014, as nltk's `SmoothingFunction().method4` has it. GLEU: Y. Wu et al.,
# "Google's neural machine translation system", 2016.

ORDERS = (1, 2, 3, 4)

_SMOOTHING_K = 5

_counted: TextMemory[tuple[Tokens, Tokens], tuple[int, ...]] = TextMemory(200_000)


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
    return _counted.get((reference, candidate), len(reference) + len(candidate) + 8, _count_common)


def _count_common(pair: tuple[Tokens, Tokens]) -> tuple[int, ...]:
    counts: list[int] = []
    for wanted, given in zip(*map(_ngrams, pair), strict=True):
        common = _overlap(wanted, given)
        if not common:
            break  # where no n-gram is common, no longer one is
        counts.append(common)
    return tuple(counts) + (0,) * (len(ORDERS) - len(counts))


def _ngrams(tokens: Tokens) -> Iterator[Sequence[Hashable]]:
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


# -- ROUGE. C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004.

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
    return _rouge_score(common, len(reference), len(candidate))


def rouge_n(reference: list[str], candidate: list[str], order: int) -> RougeScore:
    """Common n-grams of one order against the n-grams of each text."""
    wanted, given = (
        Counter(zip(*(words[start:] for start in range(order)), strict=False)) for words in (reference, candidate)
    )
    common = sum(min(wanted[gram], given[gram]) for gram in wanted.keys() & given.keys())
    return _rouge_score(common, wanted.total(), given.total())


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
    return _rouge_score(common, len(words), len(others))


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


def _rouge_score(common: int, reference_total: int, candidate_total: int) -> RougeScore:
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
    return _rouge_score(common, len(wanted), len(given)).f1_score


def _squad_words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split()
