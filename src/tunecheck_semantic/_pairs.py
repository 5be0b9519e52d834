"""The base of the semantic evaluators: it reads the texts of a row, and scores rows that need no model."""

from typing import ClassVar

from tunecheck import Fault
from tunecheck.evaluators import TextEvaluator, TextPair, finite_number
from tunecheck.plugins import JSON, Verdict


class SemanticEvaluator(TextEvaluator):
    """Base of the evaluators that compare the meanings of two texts.

    Values are read as by the text metrics. A row with a function call as ground truth is not applicable, unless
    `render_calls` is set. If the response calls a function, only its other text counts. A blank text scores 0 without
    a model.
    """

    _not_applicable: ClassVar[str] = "the ground truth is a function call; render_calls=True compares calls as text"

    def __init__(self, *, threshold: float, render_calls: bool, **arguments: JSON) -> None:
        threshold = finite_number("threshold", threshold)
        super().__init__(threshold, **arguments, threshold=threshold, render_calls=render_calls)

    def _read(self, response: object, ground_truth: object) -> TextPair | Verdict:
        """Return the pair of texts to compare, or the verdict on a row that needs no model."""
        pair = super()._read(response, ground_truth)
        if not isinstance(pair, TextPair):
            return pair
        texts = (("response", pair.candidate), ("ground truth", pair.reference))
        blank = [name for name, text in texts if not text.strip()]
        if not blank:
            return pair
        words = f"the {' and the '.join(blank)} {'are' if len(blank) > 1 else 'is'} empty"
        return self._verdict(0.0, pair.fault or Fault(code="empty_text", message=words), {})

    def _verdict(self, score: float, fault: Fault | None, properties: dict[str, JSON]) -> Verdict:
        # 32-bit arithmetic gives about six reliable digits; further digits depend on the other texts of a batch.
        return self._make_verdict(round(score, 6), fault, properties)


def cut_texts(response: bool, ground_truth: bool) -> dict[str, JSON]:
    """Return the property that names the truncated texts; empty if both texts fit."""
    cut: list[JSON] = [name for name, is_cut in (("response", response), ("ground_truth", ground_truth)) if is_cut]
    return {"truncated": cut} if cut else {}
