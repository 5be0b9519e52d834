"""What the semantic evaluators share: which texts of a row they compare, and which rows need no model."""

from __future__ import annotations

import importlib.util
import math
from typing import ClassVar

from tunecheck._errors import ConfigurationError, MissingExtraError
from tunecheck._faults import Fault
from tunecheck._json import JSON
from tunecheck.evaluators._base import Evaluator, Verdict, verdict
from tunecheck.evaluators._text.inputs import TextPair, read_pair

_NOT_APPLICABLE = "the ground truth is a function call; render_calls=True compares calls as text"
_PACKAGES = ("numpy", "safetensors", "tokenizers", "threadpoolctl")


class SemanticEvaluator(Evaluator):
    """Base of the evaluators that compare the meanings of two texts.

    Values are read as by the text metrics: a row whose ground truth is a function call is not applicable, unless
    `render_calls`; of a response that calls, the text beside the call counts. A blank text scores 0 without a model.
    """

    cpu_bound: ClassVar[bool] = True

    def __init__(self, *, threshold: float, render_calls: bool, **arguments: JSON) -> None:
        self._threshold = _number(threshold)
        super().__init__(**arguments, threshold=self._threshold, render_calls=render_calls)
        self._render_calls = render_calls

    def _read(self, response: object, ground_truth: object) -> TextPair | Verdict:
        """The texts to compare, or the verdict where that is not needed.

        Raises:
            ValueError: there is no ground truth.
            TypeError: a value is neither text nor a call nor a message.
        """
        pair = read_pair(response, ground_truth, render_calls=self._render_calls)
        if pair is None:
            return verdict(self.primary, threshold=self._threshold, reason=_NOT_APPLICABLE, not_applicable=True)
        blank = [
            name for name, text in (("response", pair.candidate), ("ground truth", pair.reference)) if not text.strip()
        ]
        if blank:
            words = f"the {' and the '.join(blank)} {'are' if len(blank) > 1 else 'is'} empty"
            return self._verdict(0.0, pair.fault or Fault(code="empty_text", message=words), {})
        return pair

    def _verdict(self, score: float, fault: Fault | None, properties: dict[str, JSON]) -> Verdict:
        # Six digits are what 32-bit arithmetic is good for; beyond, numbers depend on what else is computed with them.
        score = round(score, 6)
        passed = score >= self._threshold
        return verdict(
            self.primary,
            score=score,
            passed=passed,
            threshold=self._threshold,
            reason=fault.message if fault else None,
            properties=properties,
            faults=(fault,) if fault else (),
        )


def cut_texts(response: bool, ground_truth: bool) -> dict[str, JSON]:
    """The property that names the texts which were longer than the model reads; none where both fitted."""
    cut: list[JSON] = [name for name, is_cut in (("response", response), ("ground_truth", ground_truth)) if is_cut]
    return {"truncated": cut} if cut else {}


def check_installed(feature: str) -> None:
    """See that a local model can be run.

    Raises:
        MissingExtraError: a package is missing.
    """
    if not all(importlib.util.find_spec(package) for package in _PACKAGES):
        raise MissingExtraError(feature, "semantic")


def _number(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return value
    raise ConfigurationError(f"threshold must be a number, not {value!r}")
