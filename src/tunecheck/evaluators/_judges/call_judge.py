"""Whether a call means the same as the expected one, whatever its wording: `CallJudgeEvaluator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tunecheck._faults import Fault, sentence
from tunecheck.calls._formats.writing import canonical_text
from tunecheck.calls._schemas.definitions import ToolDefinitions
from tunecheck.evaluators._base import verdict
from tunecheck.evaluators._calls.comparison import CallComparison, CallEvaluator
from tunecheck.evaluators._judges.prompty import Settled
from tunecheck.evaluators._judges.shipped import ShippedJudge
from tunecheck.evaluators._judges.texts import defined_tools, shown

_METRIC = "call_judge"


class CallJudgeEvaluator(ShippedJudge):
    """Passes where the right functions were called with arguments that mean the same ("NYC" and "New York City").

    Called with `response` and `ground_truth`, in any readable format, and, where there are some, `tool_definitions` and
    `query`. Only arguments are judged by a model, and only where they differ: equal calls pass and other functions fail
    without one, and a ground truth without a call is not applicable, unless the response calls something, which fails.

    Raises, when called:
        ValueError: the ground truth or the tool definitions cannot be read.
    """

    replaceable_prompt: ClassVar[str] = _METRIC
    _provided: ClassVar[frozenset[str]] = frozenset(
        {"response", "ground_truth", "query", "tool_definitions", "matching"}
    )

    def _prepare(
        self,
        *,
        response: object,
        ground_truth: object,
        tool_definitions: object = None,
        query: object = None,
        **more: object,
    ) -> Mapping[str, object] | Settled:
        comparison = CallEvaluator().compare(response, ground_truth, tool_definitions)
        settled = self._without_model(comparison)
        if settled is not None:
            return settled
        return {
            "response": canonical_text(comparison.response.calls),
            "ground_truth": canonical_text(comparison.ground_truth.calls),
            "tool_definitions": defined_tools(ToolDefinitions.read(tool_definitions), comparison.ground_truth.calls),
            "query": shown(query),
            "matching": sentence(comparison.faults()) or "",
            **more,
        }

    def _without_model(self, comparison: CallComparison) -> Settled | None:
        if not comparison.expects_call and not comparison.has_call:
            return self._settled(None, reason="the ground truth is no function call")
        if not comparison.expects_call or not comparison.functions_match:
            return self._settled(0.0, faults=comparison.function_faults())
        if comparison.arguments_match:
            return self._settled(1.0, reason="the calls are equal; no model was asked")
        return None

    def _settled(self, score: float | None, *, reason: str | None = None, faults: Sequence[Fault] = ()) -> Settled:
        output = self._output
        passed = None if score is None else output.passes(score)
        return Settled(
            verdict(
                _METRIC,
                score=score,
                passed=passed,
                threshold=output.threshold,
                reason=sentence(faults) if faults else reason,
                faults=faults,
                not_applicable=score is None,
            )
        )
