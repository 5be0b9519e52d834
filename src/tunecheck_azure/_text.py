"""Text metrics with Azure AI Evaluation's arguments and errors. Function calls in the texts count as plain text."""

from __future__ import annotations

from tunecheck import evaluators as ours
from tunecheck.plugins import Verdict
from tunecheck_azure._calling import AzureEvaluator, over_turns
from tunecheck_azure._exceptions import ErrorTarget, as_evaluation_exception, mistake


class _Texts(AzureEvaluator, ours.TextEvaluator):
    """Base of the text metrics, called with the texts `response` and `ground_truth`, or with a `conversation`."""

    ways = (("response", "ground_truth"),)

    def __call__(self, *args: object, **inputs: object) -> Verdict:
        """Return the metric's eight keys. For a conversation, they are means, with `evaluation_per_turn`.

        Raises:
            EvaluationException: an input is missing or is not a text.
        """
        return over_turns([self._compare(**turn) for turn in self._turns(inputs)])

    def _compare(self, response: object, ground_truth: object) -> Verdict:
        """Return the verdict on a pair of texts, or raise EvaluationException if one is not a text."""
        for name, value in (("response", response), ("ground_truth", ground_truth)):
            if not isinstance(value, str):
                raise mistake(f"{type(self).__name__}: {name} must be a text, not a {type(value).__name__}")
        return self._judge(ours.TextPair(str(ground_truth), str(response)))


class _Score(_Texts, ours.ScoreEvaluator):
    def __init__(self, *, threshold: float = 0.5) -> None:
        with as_evaluation_exception():
            super().__init__(threshold=threshold)
        self._threshold = threshold


class BleuScoreEvaluator(_Score, ours.BleuScoreEvaluator):
    """BLEU-4 of two texts, from 0 to 1."""


class GleuScoreEvaluator(_Score, ours.GleuScoreEvaluator):
    """GLEU of two texts, from 0 to 1."""


class F1ScoreEvaluator(_Score, ours.F1ScoreEvaluator):
    """The F1 of the words that two texts have in common, from 0 to 1."""


class MeteorScoreEvaluator(_Texts, ours.MeteorScoreEvaluator):
    """METEOR of two texts, from 0 to 1."""

    def __init__(self, alpha: float = 0.9, beta: float = 3.0, gamma: float = 0.5, *, threshold: float = 0.5) -> None:
        with as_evaluation_exception():
            super().__init__(alpha, beta, gamma, threshold=threshold)
        self._threshold = threshold


class RougeScoreEvaluator(_Texts, ours.RougeScoreEvaluator):
    """ROUGE of two texts; the score is F1."""

    def __init__(
        self,
        rouge_type: ours.RougeType | str,
        *,
        precision_threshold: float = 0.5,
        recall_threshold: float = 0.5,
        f1_score_threshold: float = 0.5,
    ) -> None:
        """Set the type of ROUGE and the thresholds.

        Raises:
            EvaluationException: the type is unknown, or a threshold is not a float.
        """
        thresholds = {
            "precision_threshold": precision_threshold,
            "recall_threshold": recall_threshold,
            "f1_score_threshold": f1_score_threshold,
        }
        for name, value in thresholds.items():
            if not isinstance(value, float):
                raise mistake(f"{name} must be a float, got {type(value)}", target=ErrorTarget.ROUGE_EVALUATOR)
        with as_evaluation_exception(ErrorTarget.ROUGE_EVALUATOR):
            super().__init__(rouge_type, **thresholds)  # type: ignore[arg-type]
        self._threshold = {name.removesuffix("_threshold"): value for name, value in thresholds.items()}
