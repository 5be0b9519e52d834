"""The text metrics of Azure AI Evaluation, with its names, parameters and results: BLEU, GLEU, METEOR, ROUGE and F1.

All metrics compare the response's text with the ground truth's, need no network and no downloads, and share one
tokenisation per text. A row with a function call as ground truth is not applicable, unless `render_calls` is set: calls
are then scored as text in canonical form.

BLEU and GLEU equal nltk's `sentence_bleu` and `sentence_gleu` to the last bit, ROUGE equals Google's rouge-score.

The two texts are chosen by these rules:

1. If the ground truth has calls and `render_calls` is off, the row is not applicable.
2. The reference is the ground truth's text, or its calls in canonical form, such as `get_time(city="Paris")`.
3. The candidate is empty, with a fault, if there is no response.
4. With `render_calls`, the candidate is the response's calls in canonical form, if it has any.
5. A response that is text is the candidate unchanged, even if it contains a call.
6. Any other response, such as a list of tool calls, counts with its text only. A call in it is a fault.
"""

import math
import re
import string
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, NamedTuple

from tunecheck._errors import ConfigurationError
from tunecheck._faults import Fault, Verdict, verdict
from tunecheck._json import JSON
from tunecheck.calls._model import Reading, canonical_text
from tunecheck.evaluators._base import Evaluator, Metric
from tunecheck.evaluators._text.words import Tokens, stem, synonyms, tokens_of
from tunecheck.formats._reading import cached_reading


class TextPair(NamedTuple):
    """The two texts to compare, and a fault of the response, if any."""

    reference: str
    candidate: str
    fault: Fault | None = None


def _response_text(response: object, *, render_calls: bool) -> tuple[str, Fault | None]:
    """Return the response's text to score, and the fault of a response that is not a plain answer (else None).

    With `render_calls`, calls are the text, in canonical form, and no fault. Without it, a response that is a text is
    scored unchanged, even if it contains calls.

    Raises:
        TypeError: the response is neither text nor a call nor a message.
    """
    if response is None or response == []:
        return "", Fault(code="no_response", message="no response")
    if isinstance(response, str) and not (render_calls and cached_reading(response).complete_calls):
        return response, None

    reading = cached_reading(response)
    if reading.complete_calls and render_calls:
        return canonical_text(reading.calls), None

    if reading.complete_calls:
        names = ", ".join(dict.fromkeys(call.name for call in reading.calls))
        scored = "only the response's text is scored" if reading.text else "there is no text to score"
        message = f"the response calls {names}; {scored}"
        return reading.text, Fault(code="called_instead_of_answering", call=reading.calls[0].name, message=message)

    if reading.problem:
        message = f"the response holds a call that cannot be read: {reading.problem}"
        return reading.text, Fault(code="unreadable_call", message=message)
    return _message_text("response", response, reading), None


def _message_text(parameter: str, value: object, reading: Reading) -> str:
    """Return the text of a chat message, or of a list of messages, from its reading; raise TypeError for other data.

    `parameter` is the value's name in the error.
    """
    items = value if isinstance(value, list) else [value]
    if items and all(isinstance(item, Mapping) and "role" in item and "content" in item for item in items):
        return reading.text
    kind = type(value).__name__
    kind = f"a {kind} without a function call" if isinstance(value, (list, dict)) else kind
    raise TypeError(f"{parameter} must be text or function calls, not {kind}")


# -- BLEU and GLEU, from the same counts of common n-grams. K. Papineni et al., "BLEU: a method for automatic evaluation
# of machine translation", ACL 2002; smoothing method 4 of B. Chen and C. Cherry, "A systematic comparison of smoothing
# techniques for sentence-level BLEU", WMT 2014, as nltk's `SmoothingFunction().method4` has it. GLEU: Y. Wu et al.,
# "Google's neural machine translation system", 2016.

ORDERS = (1, 2, 3, 4)  # lengths of n-grams

_SMOOTHING_K = 5  # nltk's constant of smoothing method 4


def bleu(reference: Tokens, candidate: Tokens) -> float:
    """Return BLEU-4 with equal weights, from 0 to 1; 0 without a common word."""
    common = common_ngrams(reference, candidate)
    if not common[0]:
        return 0.0

    length = len(candidate)
    brevity = 1.0 if length > len(reference) else math.exp(1 - len(reference) / length)
    return brevity * math.exp(math.fsum(0.25 * math.log(value) for value in _precisions(common, length)))


def _precisions(common: Sequence[int], length: int) -> list[float]:
    """Return the precision of each order of n-grams.

    `common` are the counts of common n-grams by order, and `length` is the response's length in words. The precision of
    an order without common n-grams is smoothed (method 4 of Chen and Cherry), or left out for a response of one word.
    """
    precisions: list[float] = []
    smoothed_count = 0

    for order, count in zip(ORDERS, common, strict=True):
        total = max(1, length - order + 1)
        if count:
            precisions.append(count / total)
        elif length > 1:
            smoothed_count += 1
            # Each further order without common n-grams gets half the smoothed count of the one before.
            precisions.append(1 / (2**smoothed_count * _SMOOTHING_K / math.log(length)) / total)
    return precisions


def gleu(reference: Tokens, candidate: Tokens) -> float:
    """Return the smaller of n-gram precision and recall over orders 1 to 4, from 0 to 1."""
    longest = max(len(reference), len(candidate))
    total = sum(max(0, longest - order + 1) for order in ORDERS)
    return sum(common_ngrams(reference, candidate)) / total if total else 0.0


@lru_cache(maxsize=512)  # BLEU and GLEU of a row need the same counts
def common_ngrams(reference: Tokens, candidate: Tokens) -> tuple[int, ...]:
    """Return the number of common n-grams for each order from 1 to 4, with repetitions in both texts."""
    shifted, others = [reference], [candidate]  # the texts from their first, second … word on
    counts = [_overlap(reference, candidate)]
    for order in ORDERS[1:]:
        shifted.append(reference[order - 1 :])
        others.append(candidate[order - 1 :])
        counts.append(_overlap([*zip(*shifted, strict=False)], [*zip(*others, strict=False)]))
    return tuple(counts)


def _ngrams(words: Sequence[str], order: int) -> list[tuple[str, ...]]:
    """Return all runs of `order` consecutive words: of the words a b c, (a, b) and (b, c) for order 2."""
    return [*zip(*(words[start:] for start in range(order)), strict=False)]


def _overlap(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the number of common items; an item that both sequences repeat counts several times."""
    # Fast if at least one sequence repeats nothing.
    distinct = set(first)
    if len(distinct) == len(first):
        return len(distinct.intersection(second))
    if len(other_distinct := set(second)) == len(second):
        return len(other_distinct & distinct)

    counts = dict(Counter(first))
    common = 0
    for item in second:  # a loop takes less time than a second Counter
        if counts.get(item):
            counts[item] -= 1
            common += 1
    return common


# -- METEOR, with the alignment and the numbers of nltk's `meteor_score`. A. Lavie and A. Agarwal, "METEOR: an automatic
# metric for MT evaluation with high levels of correlation with human judgments", WMT 2007. Words are matched in three
# rounds: equal words, equal stems, and (as in nltk) stems that are synonyms in WordNet. Each round goes through the
# candidate from its end and takes the last free matching word of the reference.


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
    chunks = 1 + sum((position + 1, wanted + 1) != next_match for (position, wanted), next_match in pairwise(matches))
    penalty: float = gamma * (chunks / len(matches)) ** beta
    return (1 - penalty) * (precision * recall / weight)


def align(reference: Tokens, candidate: Tokens) -> list[tuple[int, int]]:
    """Match words of both texts: equal ones first, then equal stems, then synonyms.

    Returns pairs of positions, in the candidate and in the reference, sorted by candidate position. For the reference
    "the cats ran" and the candidate "a cat ran", these are (1, 1), by the stem, and (2, 2).
    """
    matches: list[tuple[int, int]] = []
    # the words that have no partner yet, by position
    words = dict(enumerate([token.lower() for token in candidate]))
    wanted = dict(enumerate([token.lower() for token in reference]))
    _match_words(words, wanted, matches)

    # Open words are now known by their stems, which nltk also looks up as synonyms.
    if words and wanted:
        words, wanted = ({position: stem(word) for position, word in open_.items()} for open_ in (words, wanted))
        _match_words(words, wanted, matches)
        _match_words(words, wanted, matches, synonyms)
    return sorted(matches)


def _match_words(
    words: dict[int, str],
    wanted: dict[int, str],
    matches: list[tuple[int, int]],
    synonyms_of: Callable[[str], Set[str]] | None = None,
) -> None:
    """Match open words of the candidate with equal open words of the reference, else with synonyms among them.

    `words` and `wanted` are the open words of both texts by position. Of several fitting words of the reference, the
    last one is taken, as nltk's loop from the end finds it. A match is added to `matches`, and both words are removed.
    """
    free: dict[str, list[int]] = {}  # positions in the reference by word
    for position, word in wanted.items():
        free.setdefault(word, []).append(position)

    for position, word in reversed(list(words.items())):
        if word not in free:
            fitting = free.keys() & synonyms_of(word) if synonyms_of else ()
            if not fitting:
                continue
            word = max(fitting, key=lambda name: free[name][-1])
        match = free[word].pop()
        if not free[word]:
            del free[word]
        matches.append((position, match))
        del words[position], wanted[match]


# -- ROUGE. C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004.

# rouge-score's words: runs of ASCII letters and digits
_WORD = re.compile("[a-z0-9]+")
# the articles that SQuAD's evaluation leaves out
_ARTICLES = re.compile(r"\b(?:an?|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MIN_STEMMED = 4  # letters of a word, as in rouge-score


class RougeScore(NamedTuple):
    """Precision, recall and their harmonic mean, each from 0 to 1."""

    precision: float
    recall: float
    f1_score: float


def rouge_tokens(text: str, *, stemmer: bool = False) -> list[str]:
    """Return runs of a to z and digits in lower case; with a stemmer, words of four or more letters are stemmed."""
    words = _WORD.findall(text.lower())
    return [stem(word) if len(word) >= _MIN_STEMMED else word for word in words] if stemmer else words


def rouge_l(reference: list[str], candidate: list[str]) -> RougeScore:
    """Return the ROUGE-L score: the longest common subsequence of words relative to each text's length."""
    from rapidfuzz.distance import LCSseq  # loaded when used: 15 ms

    common = LCSseq.similarity(reference, candidate)
    return _rouge_score(common, len(reference), len(candidate))


def rouge_l_f(reference: str, candidate: str, *, stemmer: bool = False) -> float:
    """Return the F measure of ROUGE-L of two texts, from 0 to 1, as in rouge-score."""
    words, others = (rouge_tokens(text, stemmer=stemmer) for text in (reference, candidate))
    return rouge_l(words, others).f1_score


def rouge_n(reference: list[str], candidate: list[str], order: int) -> RougeScore:
    """Return the ROUGE-N score: the common n-grams of this order relative to the n-grams of each text."""
    ngrams, others = _ngrams(reference, order), _ngrams(candidate, order)
    return _rouge_score(_overlap(ngrams, others), len(ngrams), len(others))


def _rouge_score(common: int, reference_total: int, candidate_total: int) -> RougeScore:
    """Return precision, recall and F1 for this number of common units; all 0 if there are none."""
    if not common:
        return RougeScore(0.0, 0.0, 0.0)

    precision = common / candidate_total
    recall = common / reference_total
    return RougeScore(precision, recall, 2 * precision * recall / (precision + recall))


def token_f1(reference: str, candidate: str) -> float:
    """Return the harmonic mean of word precision and recall, from 0 to 1, as in SQuAD's evaluation.

    P. Rajpurkar et al., "SQuAD: 100,000+ questions for machine comprehension of text", EMNLP 2016. Words
    are compared in lower case, without ASCII punctuation and English articles; 0 without a common word.
    """
    words, others = _squad_words(reference), _squad_words(candidate)
    return _rouge_score(_overlap(words, others), len(words), len(others)).f1_score


def _squad_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without ASCII punctuation and English articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split()


# -- the evaluators


class TextEvaluator(Evaluator, ABC):
    """Base of the text metrics.

    Parameters are `response` and `ground_truth`: text, function calls in any readable format, or chat messages. Without
    a response the score is 0. If the ground truth is text and the response a call, only the response's text is scored.

    Raises, when called:
        ValueError: there is no ground truth.
        TypeError: a value is neither text nor a call nor a message.
    """

    cpu_bound: ClassVar[bool] = True
    _not_applicable: ClassVar[str] = "the ground truth is a function call; render_calls=True scores calls as text"

    def __init__(self, pass_mark: float, *, render_calls: bool, **arguments: JSON) -> None:
        super().__init__(**arguments, render_calls=render_calls)
        self._pass_mark = pass_mark
        self._render_calls = render_calls

    def __call__(self, *, response: object, ground_truth: object) -> Verdict:
        """Return the verdict on one row: the metric's eight keys."""
        pair = self._read(response, ground_truth)
        return self._judge(pair) if isinstance(pair, TextPair) else pair

    def _read(self, response: object, ground_truth: object) -> TextPair | Verdict:
        """Return the texts to compare, or the verdict "not applicable" if a call is expected and not rendered.

        Texts are unchanged. If the response calls a function, only its other text counts, which is often empty. With
        `render_calls`, a call on either side counts as its canonical text.

        Raises:
            ValueError: there is no ground truth.
            TypeError: a value is neither text nor a call nor a message.
        """
        if ground_truth is None:
            raise ValueError("there is no ground truth: map a column to `ground_truth`")

        reading = cached_reading(ground_truth)
        if reading.complete_calls and not self._render_calls:
            return verdict(self.primary, threshold=self._pass_mark, reason=self._not_applicable, not_applicable=True)

        if reading.complete_calls:
            reference = canonical_text(reading.calls)
        elif isinstance(ground_truth, str):
            reference = ground_truth
        else:
            reference = _message_text("ground_truth", ground_truth, reading)

        return TextPair(reference, *_response_text(response, render_calls=self._render_calls))

    @abstractmethod
    def _judge(self, pair: TextPair) -> Verdict:
        """Return the verdict on two texts."""

    def _make_verdict(self, score: float, fault: Fault | None, properties: Mapping[str, JSON] | None = None) -> Verdict:
        """Return the verdict for a score; it passes from the threshold on, and the fault gives the reason."""
        return verdict(
            self.primary,
            score=score,
            passed=score >= self._pass_mark,
            threshold=self._pass_mark,
            reason=fault.message if fault else None,
            faults=(fault,) if fault else (),
            properties=properties,
        )


class ScoreEvaluator(TextEvaluator):
    """A metric that is one number for two texts; a row passes from `threshold` on."""

    def __init__(self, *, threshold: float = 0.5, render_calls: bool = False) -> None:
        threshold = finite_number("threshold", threshold)
        super().__init__(threshold, threshold=threshold, render_calls=render_calls)

    def _judge(self, pair: TextPair) -> Verdict:
        return self._make_verdict(self._score(pair.reference, pair.candidate), pair.fault)

    @abstractmethod
    def _score(self, reference: str, candidate: str) -> float:
        """Return the similarity of two texts."""


class BleuScoreEvaluator(ScoreEvaluator):
    """BLEU-4 with smoothing method 4 of Chen and Cherry (2014), from 0 to 1; low for texts of two or three words."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric("bleu"),)
    primary = "bleu"

    def _score(self, reference: str, candidate: str) -> float:
        return bleu(tokens_of(reference), tokens_of(candidate))


class GleuScoreEvaluator(ScoreEvaluator):
    """GLEU of Wu et al. (2016), the smaller of n-gram precision and recall, from 0 to 1."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric("gleu"),)
    primary = "gleu"

    def _score(self, reference: str, candidate: str) -> float:
        return gleu(tokens_of(reference), tokens_of(candidate))


class MeteorScoreEvaluator(ScoreEvaluator):
    """METEOR of Lavie and Agarwal (2007), with stems and WordNet's synonyms, from 0 to 1.

    `alpha` weighs precision against recall; `beta` and `gamma` control the penalty for a different word order.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric("meteor"),)
    primary = "meteor"

    def __init__(
        self,
        alpha: float = 0.9,
        beta: float = 3.0,
        gamma: float = 0.5,
        *,
        threshold: float = 0.5,
        render_calls: bool = False,
    ) -> None:
        """Check that the weights and the threshold are numbers; the class explains them."""
        weights = {"alpha": alpha, "beta": beta, "gamma": gamma}
        self._weights = {name: finite_number(name, value) for name, value in weights.items()}
        super().__init__(threshold=threshold, render_calls=render_calls)
        self._arguments = {**self._weights, **self._arguments}

    def _score(self, reference: str, candidate: str) -> float:
        return meteor(tokens_of(reference), tokens_of(candidate), **self._weights)


class F1ScoreEvaluator(ScoreEvaluator):
    """The F1 of common words, without case, punctuation and English articles, from 0 to 1, as for SQuAD."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric("f1_score"),)
    primary = "f1_score"

    def _score(self, reference: str, candidate: str) -> float:
        return token_f1(reference, candidate)


class RougeType(StrEnum):
    """The unit of ROUGE: n-grams of one length, or the longest common subsequence of words."""

    ROUGE_1 = "rouge1"
    ROUGE_2 = "rouge2"
    ROUGE_3 = "rouge3"
    ROUGE_4 = "rouge4"
    ROUGE_5 = "rouge5"
    ROUGE_L = "rougeL"


# Azure's names in Azure's order: all values, then all results, and so on
_ROUGE_PROPERTIES = [
    f"rouge_{name}{ending}" for ending in ("", "_result", "_passed", "_threshold") for name in RougeScore._fields
]


class RougeScoreEvaluator(TextEvaluator):
    """ROUGE of Lin (2004), without a stemmer; the score is F1, the other values are in `rouge_properties`.

    `rouge_type` is a `RougeType` or its text. A row passes by its F1. Words are runs of a to z and digits, so text in
    other scripts scores 0.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric("rouge"),)
    primary = "rouge"

    def __init__(
        self,
        rouge_type: RougeType | str = RougeType.ROUGE_L,
        *,
        precision_threshold: float = 0.5,
        recall_threshold: float = 0.5,
        f1_score_threshold: float = 0.5,
        render_calls: bool = False,
    ) -> None:
        """Check the type and the thresholds. Only `f1_score_threshold` decides whether a row passes."""
        value = getattr(rouge_type, "value", rouge_type)  # also of Azure's enum
        if value not in [*RougeType]:
            raise ConfigurationError(f"rouge_type must be one of {', '.join(RougeType)}, not {value!r}")
        self._type = RougeType(value)
        given = RougeScore(precision_threshold, recall_threshold, f1_score_threshold)
        thresholds = {f"{name}_threshold": value for name, value in given._asdict().items()}
        self._thresholds = RougeScore(*(finite_number(name, value) for name, value in thresholds.items()))
        super().__init__(f1_score_threshold, rouge_type=self._type.value, **thresholds, render_calls=render_calls)

    def _judge(self, pair: TextPair) -> Verdict:
        score = self._score(pair.reference, pair.candidate)
        return self._make_verdict(score.f1_score, pair.fault, self._properties(score))

    def _score(self, reference: str, candidate: str) -> RougeScore:
        """Return precision, recall and F1 by the chosen type of ROUGE."""
        words, others = rouge_tokens(reference), rouge_tokens(candidate)
        if self._type is RougeType.ROUGE_L:
            return rouge_l(words, others)
        return rouge_n(words, others, int(self._type.value[-1]))

    def _properties(self, score: RougeScore) -> dict[str, JSON]:
        """Return precision, recall and F1 with their results and thresholds, under Azure's names."""
        passed = [value >= threshold for value, threshold in zip(score, self._thresholds, strict=True)]
        results = ["pass" if is_pass else "fail" for is_pass in passed]
        return dict(zip(_ROUGE_PROPERTIES, (*score, *results, *passed, *self._thresholds), strict=True))


def finite_number(name: str, value: object) -> float:
    """Return the user's setting if it is a finite number; else raise ConfigurationError, which gives its name."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return value
    raise ConfigurationError(f"{name} must be a finite number, not {value!r}")
