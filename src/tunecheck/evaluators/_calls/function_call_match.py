"""Whether the right functions were called: `FunctionCallMatchEvaluator`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.evaluators._base import Metric, Verdict, verdict
from tunecheck.evaluators._calls.comparison import CallComparison, CallEvaluator

_METRIC = "function_call_match"
_COUNTS = ("expected", "called", "matched", "unreadable", "checked", "schema_invalid", "unknown")
_MOST_LISTED = 3
_MOST_CHARACTERS = 300


class FunctionCallMatchEvaluator(CallEvaluator):
    """Right functions called: each expected one as often as expected, and none else; arguments do not count.

    A ground truth without a call asks for an answer: then a response without a call passes, and one with a call fails,
    with `allow_extra_calls` too. The score is 1.0 or 0.0. `function_call_match_properties` holds the counts of calls
    `expected`, `called` and `matched`, `precision` and `recall` where the row fails, `unreadable` (1) where the
    response announces a call that cannot be read, and with tool definitions how many calls were `checked` against
    their schema, how many are `schema_invalid` and how many call an `unknown` function, with the first few
    `schema_violations` and `unknown_functions` by name. What is zero or empty is left out.

    Keyword arguments are the policies of `tunecheck.calls._matching.policy.MatchPolicy`.

    Raises:
        ConfigurationError: there is no policy of that name, or its value is not of its kind.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric(_METRIC, kind="binary"),)
    primary: ClassVar[str] = _METRIC

    def __call__(self, *, response: object, ground_truth: object, tool_definitions: object = None) -> Verdict:
        """Judge one row.

        Args:
            response: what the model answered, in any format that `tunecheck.calls.read_calls` reads.
            ground_truth: the calls it should have made, or the answer it should have given, likewise.
            tool_definitions: OpenAI tools, bare function schemas, or JSON text of either.

        Raises:
            ValueError: the ground truth or the tool definitions cannot be read.
        """
        comparison = self.compare(response, ground_truth, tool_definitions)
        passed = comparison.functions_match
        return verdict(
            _METRIC,
            score=float(passed),
            passed=passed,
            properties=_properties(comparison, passed=passed),
            faults=() if passed else comparison.function_faults,
        )

    def __aggregate__(self, rows: Iterable[Mapping[str, JSON]]) -> dict[str, float]:
        """Over all calls of the run: precision, recall and F1 by function name, and the rates of broken calls.

        `unreadable_call_rate` is of all calls that were tried, `schema_invalid_call_rate` of those that were checked.
        What has no denominator is left out.
        """
        total: Counter[str] = Counter()
        for row in rows:
            properties = row.get(f"{_METRIC}_properties")
            for name, value in properties.items() if isinstance(properties, dict) else ():
                if name in _COUNTS and isinstance(value, (int, float)):
                    total[name] += int(value)
        return _rates(total)


def _properties(comparison: CallComparison, *, passed: bool) -> dict[str, JSON]:
    match = comparison.match
    expected, called, matched = len(comparison.ground_truth.calls), len(comparison.response.calls), len(match.pairs)
    properties: dict[str, JSON] = {}
    if expected or called:
        properties |= {"expected": expected, "called": called, "matched": matched}
    if not passed:
        properties |= {"precision": matched / called} if called else {}
        properties |= {"recall": matched / expected} if expected else {}
    return properties | _from_schemas(comparison)


def _from_schemas(comparison: CallComparison) -> dict[str, JSON]:
    match = comparison.match
    counts = {
        "unreadable": int(comparison.response.problem is not None),
        "checked": match.checked,
        "schema_invalid": len(match.violations),
        "unknown": len(match.unknown),
    }
    properties: dict[str, JSON] = {name: count for name, count in counts.items() if count}
    if match.violations:
        properties["schema_violations"] = [
            f"{one.call.name}: {'; '.join(one.messages)}"[:_MOST_CHARACTERS] for one in match.violations[:_MOST_LISTED]
        ]
    if match.unknown:
        properties["unknown_functions"] = [call.name[:_MOST_CHARACTERS] for call in match.unknown[:_MOST_LISTED]]
    if match.notes:
        properties["notes"] = "; ".join(match.notes)[:_MOST_CHARACTERS]
    return properties


def _rates(total: Counter[str]) -> dict[str, float]:
    rates: dict[str, float] = {}
    if total["called"]:
        rates["call_precision"] = total["matched"] / total["called"]
    if total["expected"]:
        rates["call_recall"] = total["matched"] / total["expected"]
    if total["called"] + total["expected"]:
        rates["call_f1"] = 2 * total["matched"] / (total["called"] + total["expected"])
    if total["called"] + total["unreadable"]:
        rates["unreadable_call_rate"] = total["unreadable"] / (total["called"] + total["unreadable"])
    if total["checked"]:
        rates["schema_invalid_call_rate"] = total["schema_invalid"] / total["checked"]
    if total["checked"] or total["unknown"]:
        rates["unknown_function_count"] = total["unknown"]
    return rates
