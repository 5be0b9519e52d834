"""What differs between a response and its ground truth, and how much it matters: `DifferenceEvaluator`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tunecheck._faults import Fault, sentence, to_json
from tunecheck._json import JSON
from tunecheck.calls._formats.writing import canonical_text
from tunecheck.calls._matching.faults import schema_faults
from tunecheck.calls._model import Reading
from tunecheck.calls._schemas.definitions import ToolDefinitions
from tunecheck.evaluators._base import Verdict, verdict
from tunecheck.evaluators._calls.comparison import CallComparison, CallEvaluator
from tunecheck.evaluators._judges.prompty import Settled
from tunecheck.evaluators._judges.shipped import ShippedJudge
from tunecheck.evaluators._judges.texts import defined_tools, shown

KINDS = ("function", "argument", "number conversion", "date format", "missing", "extra", "wording")
"""What a difference can be."""

_METRIC = "difference"
_KEYS = ("expected", "actual", "kind", "where")
_MOST_DIFFERENCES = 50

_ANY_VALUE: dict[str, JSON] = {"type": ["string", "number", "boolean", "null"]}
_DIFFERENCES: dict[str, JSON] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "where": {"type": "string"},
            "expected": _ANY_VALUE,
            "actual": _ANY_VALUE,
            "kind": {"type": "string", "enum": [*KINDS]},
        },
        "required": [*_KEYS],
    },
}


class DifferenceEvaluator(ShippedJudge):
    """Compares a response with its ground truth and says what differs, from 0 (nothing right) to 1 (equivalent).

    Called with `response` and `ground_truth`, each text or calls in any readable format, and, where there are some,
    `query` and `tool_definitions`. Equal calls (by the strict default of `MatchPolicy`) and equal texts score 1 without
    a model. Beside a metric's eight keys, `difference_differences` lists the differences: what was `expected`, what
    came (`actual`), the `kind`, one of `KINDS`, and `where`. A row passes from 0.8 on.

    Raises, when called:
        ValueError: there is no ground truth, or it or the tool definitions cannot be read.
    """

    replaceable_prompt: ClassVar[str] = _METRIC
    _schemas: ClassVar[Mapping[str, Mapping[str, JSON]]] = {"differences": _DIFFERENCES}
    _provided: ClassVar[frozenset[str]] = frozenset(
        {"response", "ground_truth", "query", "tool_definitions", "matching"}
    )

    def _prepare(
        self,
        *,
        response: object,
        ground_truth: object,
        query: object = None,
        tool_definitions: object = None,
        **more: object,
    ) -> Mapping[str, object] | Settled:
        comparison = CallEvaluator().compare(response, ground_truth, tool_definitions)
        if not comparison.expects_call and not comparison.ground_truth.text.strip():
            raise ValueError("there is no ground truth: neither a call nor a text to compare the response with")
        equal = _equal(comparison)
        if equal is not None:
            return Settled(self._equivalent(equal))
        calls = (*comparison.ground_truth.calls, *comparison.response.calls)
        return {
            "response": _side(comparison.response, response),
            "ground_truth": _side(comparison.ground_truth, ground_truth),
            "query": shown(query),
            "tool_definitions": defined_tools(_definitions(tool_definitions), calls),
            "matching": _found(comparison),
            **more,
        }

    def _equivalent(self, reason: str) -> Verdict:
        output = self._output
        found = verdict(
            _METRIC, score=1.0, passed=output.passes(1.0), threshold=output.threshold, reason=reason, properties=None
        )
        return {**found, f"{_METRIC}_differences": []}

    def _finish(self, found: Verdict, values: Mapping[str, JSON]) -> Verdict:
        listed = values.get("differences")
        # A replaced prompt may declare no outputs; then only what is a difference is taken.
        items = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
        kept = [{key: item[key] for key in _KEYS} for item in items if _is_difference(item)][:_MOST_DIFFERENCES]
        if kept and found[f"{_METRIC}_passed"] is False:
            properties = found[f"{_METRIC}_properties"]
            assert isinstance(properties, dict)
            found = {**found, f"{_METRIC}_properties": {**properties, "faults": to_json(map(_fault, kept))}}
        return {**found, f"{_METRIC}_differences": [*kept]}


def _equal(comparison: CallComparison) -> str | None:
    """Why no model has to be asked; None where one has to."""
    if comparison.expects_call:
        return "the calls are equal; no model was asked" if comparison.arguments_match else None
    texts = (comparison.response.text.strip(), comparison.ground_truth.text.strip())
    if not comparison.has_call and texts[0] == texts[1]:
        return "the texts are equal; no model was asked"
    return None


def _side(reading: Reading, value: object) -> str:
    if reading.calls:
        return canonical_text(reading.calls)
    text = shown(value)
    if reading.problem is not None:
        return f"{text}\n(It looks like a function call and cannot be read as one: {reading.problem})"
    return text if text.strip() else "(nothing)"


def _found(comparison: CallComparison) -> str:
    """What matching found without a model."""
    if not comparison.expects_call and not comparison.has_call:
        return ""
    parts = (sentence(comparison.faults()), sentence(schema_faults(comparison.match)))
    return "; ".join(part for part in parts if part)


def _definitions(value: object) -> ToolDefinitions:
    return ToolDefinitions.read(value)


def _is_difference(item: Mapping[str, JSON]) -> bool:
    return item.get("kind") in KINDS and all(key in item for key in _KEYS)


def _fault(difference: Mapping[str, JSON]) -> Fault:
    where = difference["where"]
    return Fault(
        code=f"judged.{str(difference['kind']).replace(' ', '_')}",
        path=where if isinstance(where, str) and where else None,
        expected=difference["expected"],
        actual=difference["actual"],
    )
