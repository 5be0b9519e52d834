"""Whether calls were made with the right arguments: `ArgumentMatchEvaluator`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import ClassVar

from tunecheck._json import JSON
from tunecheck.calls._matching.kinds import KINDS
from tunecheck.calls._matching.match import Match, Pair
from tunecheck.evaluators._base import Metric, Verdict, verdict
from tunecheck.evaluators._calls.comparison import CallEvaluator

_METRIC = "argument_match"

FAULTS = (*KINDS, "missing", "unexpected")
"""How an argument can be wrong, in the run's counts `wrong_arguments.<kind>`."""


class ArgumentMatchEvaluator(CallEvaluator):
    """Right arguments: every call has its partner on the other side, and their arguments match.

    Not applicable where neither side has a call; fails where a call on either side has no partner (an extra one does
    no harm with `allow_extra_calls`). The score is 1.0 or 0.0. `argument_match_properties` holds, for calls with a
    partner, how many arguments are `right` of the `total` on either side, and how many are wrong in which way
    (`wrong`: counts by `FAULTS`; an argument wrong in two places in two ways counts for both).

    Keyword arguments are the policies of `tunecheck.calls._matching.policy.MatchPolicy`.

    Raises:
        ConfigurationError: there is no policy of that name, or its value is not of its kind.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (Metric(_METRIC, kind="binary"),)
    primary: ClassVar[str] = _METRIC

    def __call__(self, *, response: object, ground_truth: object, tool_definitions: object = None) -> Verdict:
        """Judge one row; the parameters are those of `FunctionCallMatchEvaluator`.

        Raises:
            ValueError: the ground truth or the tool definitions cannot be read.
        """
        comparison = self.compare(response, ground_truth, tool_definitions)
        if not comparison.has_call and not comparison.expects_call:
            return verdict(_METRIC, not_applicable=True)
        passed = comparison.arguments_match
        return verdict(
            _METRIC,
            score=float(passed),
            passed=passed,
            properties=_properties(comparison.match),
            faults=() if passed else comparison.faults,
        )

    def __aggregate__(self, rows: Iterable[Mapping[str, JSON]]) -> dict[str, float]:
        """Over all calls with a partner: the share of right arguments, and how many are wrong in which way."""
        right = total = 0
        wrong: Counter[str] = Counter()
        for row in rows:
            properties = row.get(f"{_METRIC}_properties")
            if isinstance(properties, Mapping):
                right += _count(properties.get("right"))
                total += _count(properties.get("total"))
                kinds = properties.get("wrong")
                if isinstance(kinds, Mapping):
                    wrong.update({name: _count(count) for name, count in kinds.items()})
        metrics: dict[str, float] = {"argument_accuracy": right / total} if total else {}
        return metrics | {f"wrong_arguments.{name}": wrong[name] for name in FAULTS}


def _properties(match: Match) -> dict[str, JSON]:
    total = right = 0
    wrong: Counter[str] = Counter()
    for pair in match.pairs:
        names = pair.expected.arguments.keys() | pair.actual.arguments.keys()
        faults = _faults(pair)
        total += len(names)
        right += len(names) - len({name for name, _ in faults})
        wrong.update(kind for _, kind in faults)
    if not total:
        return {}
    return {"right": right, "total": total} | ({"wrong": dict(wrong)} if wrong else {})


def _faults(pair: Pair) -> set[tuple[str | int, str]]:
    """The arguments that are not right, each once for every way in which it is wrong."""
    return {(one.place[0], one.kind or one.fault) for one in pair.differences}


def _count(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
