"""The text metrics of Azure AI Evaluation, with its names, parameters and numbers: BLEU, GLEU, METEOR, ROUGE and F1.

All of them compare the text of a response with that of the ground truth, need no network and no downloads, and share
one tokenisation of a text. A row whose ground truth is a function call is not applicable, unless `render_calls` has
calls scored as text, in one canonical form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from enum import Enum, StrEnum
from typing import ClassVar

from tunecheck._errors import ConfigurationError
from tunecheck._faults import Fault
from tunecheck._json import JSON
from tunecheck.evaluators._base import Evaluator, Metric, Verdict, verdict
from tunecheck.evaluators._text import meteor, ngrams, rouge
from tunecheck.evaluators._text.inputs import TextPair, read_pair
from tunecheck.evaluators._text.tokens import tokens_of


def rouge_l_f(reference: str, candidate: str, *, stemmer: bool = False) -> float:
    """ROUGE-L's F measure of two texts, from 0 to 1, as rouge-score gives it."""
    wanted, given = (rouge.rouge_tokens(text, stemmer=stemmer) for text in (reference, candidate))
    return rouge.rouge_l(wanted, given).f1_score


class _TextEvaluator(Evaluator):
    """Base of the text metrics.

    Called with `response` and `ground_truth`: text, function calls in any readable format, or chat messages. Without
    a response the score is 0. Where the ground truth is text and the response a call, the text beside it is scored.

    Raises, when called:
        ValueError: there is no ground truth.
        TypeError: a value is neither text nor a call nor a message.
    """

    cpu_bound: ClassVar[bool] = True
    _not_applicable: ClassVar[str] = "the ground truth is a function call; render_calls=True scores calls as text"

    def __init__(self, *, render_calls: bool, **arguments: JSON) -> None:
        super().__init__(**arguments, render_calls=render_calls)
        self._render_calls = render_calls

    def __call__(self, *, response: object, ground_truth: object) -> Verdict:
        """The verdict on one row: the metric's eight keys."""
        pair = self._read(response, ground_truth)
        return self._judge(pair) if isinstance(pair, TextPair) else pair

    def _read(self, response: object, ground_truth: object) -> TextPair | Verdict:
        """The texts to compare, or the verdict where there are none."""
        pair = read_pair(response, ground_truth, render_calls=self._render_calls)
        if pair is None:
            return verdict(self.primary, threshold=self._pass_mark, reason=self._not_applicable, not_applicable=True)
        return pair

    @property
    def _pass_mark(self) -> float:
        raise NotImplementedError

    def _judge(self, pair: TextPair) -> Verdict:
        raise NotImplementedError


class ScoreEvaluator(_TextEvaluator):
    """A metric of two texts that is one number; a row passes from `threshold` on."""

    def __init__(self, *, threshold: float = 0.5, render_calls: bool = False) -> None:
        self._threshold = _number("threshold", threshold)
        super().__init__(threshold=self._threshold, render_calls=render_calls)

    @property
    def _pass_mark(self) -> float:
        return self._threshold

    def _judge(self, pair: TextPair) -> Verdict:
        return self._scored(self._score(pair.reference, pair.candidate), pair.fault)

    def _scored(self, score: float, fault: Fault | None, properties: Mapping[str, JSON] | None = None) -> Verdict:
        return verdict(
            self.primary,
            score=score,
            passed=score >= self._threshold,
            threshold=self._threshold,
            reason=fault.message if fault else None,
            faults=(fault,) if fault else (),
            properties=properties,
        )

    def _score(self, reference: str, candidate: str) -> float:
        raise NotImplementedError


class BleuScoreEvaluator(ScoreEvaluator):
    """BLEU-4 with smoothing method 4 of Chen and Cherry (2014), from 0 to 1; a text of two or three words stays low."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric("bleu"),)
    primary = "bleu"

    def _score(self, reference: str, candidate: str) -> float:
        return ngrams.bleu(tokens_of(reference), tokens_of(candidate))


class GleuScoreEvaluator(ScoreEvaluator):
    """GLEU of Wu et al. (2016), the smaller of n-gram precision and recall, from 0 to 1."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric("gleu"),)
    primary = "gleu"

    def _score(self, reference: str, candidate: str) -> float:
        return ngrams.gleu(tokens_of(reference), tokens_of(candidate))


class MeteorScoreEvaluator(ScoreEvaluator):
    """METEOR of Lavie and Agarwal (2007), with stems and WordNet's synonyms, from 0 to 1.

    `alpha` weighs precision against recall, `beta` and `gamma` shape the penalty for words in another order.
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
        self._alpha = _number("alpha", alpha)
        self._beta = _number("beta", beta)
        self._gamma = _number("gamma", gamma)
        super().__init__(threshold=threshold, render_calls=render_calls)
        own: dict[str, JSON] = {"alpha": self._alpha, "beta": self._beta, "gamma": self._gamma}
        self._arguments = own | self._arguments

    def _score(self, reference: str, candidate: str) -> float:
        return meteor.meteor(
            tokens_of(reference), tokens_of(candidate), alpha=self._alpha, beta=self._beta, gamma=self._gamma
        )


class F1ScoreEvaluator(ScoreEvaluator):
    """The F1 of words in common, without case, punctuation and English articles, from 0 to 1, as for SQuAD."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric("f1_score"),)
    primary = "f1_score"

    def _score(self, reference: str, candidate: str) -> float:
        return rouge.token_f1(reference, candidate)


class RougeType(StrEnum):
    """What ROUGE counts: common n-grams of one length, or the longest common subsequence of words.

    `ROUGE_LSUM` takes that line by line; Azure knows it by its text `rougeLsum` only.
    """

    ROUGE_1 = "rouge1"
    ROUGE_2 = "rouge2"
    ROUGE_3 = "rouge3"
    ROUGE_4 = "rouge4"
    ROUGE_5 = "rouge5"
    ROUGE_L = "rougeL"
    ROUGE_LSUM = "rougeLsum"


class RougeScoreEvaluator(_TextEvaluator):
    """ROUGE of Lin (2004), without a stemmer; the score is F1, the rest stands in `rouge_properties`.

    `rouge_type` is a `RougeType` or its text. A row passes by its F1. Words are runs of the letters a to z and digits:
    text in other scripts has none and scores 0.
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
        self._type = _rouge_type(rouge_type)
        self._thresholds = rouge.RougeScore(
            _number("precision_threshold", precision_threshold),
            _number("recall_threshold", recall_threshold),
            _number("f1_score_threshold", f1_score_threshold),
        )
        thresholds = {f"{name}_threshold": value for name, value in self._thresholds._asdict().items()}
        super().__init__(rouge_type=self._type.value, **thresholds, render_calls=render_calls)

    @property
    def _pass_mark(self) -> float:
        return self._thresholds.f1_score

    def _judge(self, pair: TextPair) -> Verdict:
        score = self._score(pair.reference, pair.candidate)
        return verdict(
            "rouge",
            score=score.f1_score,
            passed=score.f1_score >= self._thresholds.f1_score,
            threshold=self._thresholds.f1_score,
            reason=pair.fault.message if pair.fault else None,
            properties=self._properties(score),
            faults=(pair.fault,) if pair.fault else (),
        )

    def _score(self, reference: str, candidate: str) -> rouge.RougeScore:
        if self._type is RougeType.ROUGE_LSUM:
            return rouge.rouge_lsum(reference, candidate)
        wanted, given = rouge.rouge_tokens(reference), rouge.rouge_tokens(candidate)
        if self._type is RougeType.ROUGE_L:
            return rouge.rouge_l(wanted, given)
        return rouge.rouge_n(wanted, given, int(self._type.value[-1]))

    def _properties(self, score: rouge.RougeScore) -> dict[str, JSON]:
        names = [f"rouge_{name}" for name in score._fields]
        passed = [value >= threshold for value, threshold in zip(score, self._thresholds, strict=True)]
        columns: tuple[tuple[str, list[JSON]], ...] = (
            ("", [*score]),
            ("_result", ["pass" if well else "fail" for well in passed]),
            ("_passed", [*passed]),
            ("_threshold", [*self._thresholds]),
        )
        return {name + ending: value for ending, values in columns for name, value in zip(names, values, strict=True)}


def _rouge_type(given: object) -> RougeType:
    value = given.value if isinstance(given, Enum) else given
    kinds = {kind.value: kind for kind in RougeType}
    if isinstance(value, str) and value in kinds:
        return kinds[value]
    close = get_close_matches(str(value), kinds, 1)
    hint = f", did you mean {close[0]}?" if close else ""
    raise ConfigurationError(f"rouge_type must be one of {', '.join(kinds)}, not {value!r}{hint}")


def _number(name: str, value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return value
    raise ConfigurationError(f"{name} must be a number, not {value!r}")
