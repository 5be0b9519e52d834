"""Calls by match, answers by wording, in one verdict: `MatchEvaluator`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Unpack

from tunecheck._errors import ConfigurationError
from tunecheck._faults import Fault
from tunecheck.calls._matching.policy import PolicyOptions
from tunecheck.evaluators._base import Metric, Verdict, verdict
from tunecheck.evaluators._calls.comparison import CallComparison, CallEvaluator

_METRIC = "match"


class MatchEvaluator(CallEvaluator):
    """Where the ground truth is a call, functions and arguments must match; where it is an answer, its wording.

    `fcall_match` and `fcall_args_match` are the two verdicts on a call row, and null on an answer row. `match_score`
    is 1.0 or 0.0 on a call row, and on an answer row the F measure of ROUGE-L with Porter's stemmer (Lin 2004), 0.0
    where a call was made instead; the row passes from `threshold` on. Other keyword arguments are the policies of
    `tunecheck.calls._matching.policy.MatchPolicy`.

    Raises:
        ConfigurationError: the threshold is no number from 0 to 1, there is no policy of that name, or its value is
            not of its kind.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(_METRIC),
        Metric("fcall_match", kind="binary"),
        Metric("fcall_args_match", kind="binary"),
    )
    primary: ClassVar[str] = _METRIC

    def __init__(self, *, threshold: float = 0.75, **policies: Unpack[PolicyOptions]) -> None:
        if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 0 <= threshold <= 1:
            raise ConfigurationError(f"the threshold of match is a number from 0 to 1; not {threshold!r}")
        super().__init__(**policies)
        self._threshold = threshold
        self._arguments = {"threshold": threshold, **self._arguments}

    def __call__(self, *, response: object, ground_truth: object, tool_definitions: object = None) -> Verdict:
        """Judge one row; the parameters are those of `FunctionCallMatchEvaluator`.

        Raises:
            ValueError: the ground truth or the tool definitions cannot be read, or there is no ground truth.
        """
        comparison = self.compare(response, ground_truth, tool_definitions)
        if comparison.expects_call:
            return self._judge_calls(comparison)
        if comparison.has_call:
            return self._judged(0.0, False, comparison.faults)
        return self._judge_answer(comparison)

    def _judge_calls(self, comparison: CallComparison) -> Verdict:
        functions, arguments = comparison.functions_match, comparison.arguments_match
        passed = functions and arguments
        faults = () if passed else comparison.faults
        return self._judged(float(passed), passed, faults, functions=functions, arguments=arguments)

    def _judge_answer(self, comparison: CallComparison) -> Verdict:
        from tunecheck.evaluators._text.evaluators import rouge_l_f  # rouge is loaded for answers only

        if not comparison.ground_truth.text.strip():
            raise ValueError("there is no ground truth: neither a call nor a text to compare the answer with")
        score = rouge_l_f(comparison.ground_truth.text, comparison.response.text, stemmer=True)
        if score >= self._threshold:
            return self._judged(score, True)
        return self._judged(
            score, False, [Fault(code="below_threshold.rouge_l", expected=self._threshold, actual=score)]
        )

    def _judged(
        self,
        score: float,
        passed: bool,
        faults: Iterable[Fault] = (),
        *,
        functions: bool | None = None,
        arguments: bool | None = None,
    ) -> Verdict:
        return {"fcall_match": functions, "fcall_args_match": arguments} | verdict(
            _METRIC, score=score, passed=passed, threshold=self._threshold, faults=faults
        )
