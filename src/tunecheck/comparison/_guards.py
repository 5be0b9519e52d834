"""Guards of a selection: metrics that must not get worse than the base's by more than a margin."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tunecheck.comparison._compare import compare_tables
from tunecheck.comparison._comparison import MetricComparison
from tunecheck.comparison._measuring import Settings
from tunecheck.comparison._run_table import Kind, RunTable
from tunecheck.statistics._results import Estimate, Result

Guarded = Literal["kept", "broken", "undecided"]


@dataclass(frozen=True, slots=True)
class Guard(Result):
    """A metric that must not get worse than the base's by more than the margin.

    Kept and broken where the whole interval of the difference is within the margin, or beyond it; else undecided.
    """

    metric: str
    margin: float
    outcome: Guarded
    kind: Kind
    difference: Estimate


def guards_of(base: RunTable, table: RunTable, guards: Mapping[str, float], settings: Settings) -> tuple[Guard, ...]:
    """What became of each guard, by metric with its margin, in this run; the base itself has none."""
    if table is base:
        return ()
    found = []
    for name, margin in guards.items():
        against = compare_tables([base, table], replace(settings, metrics=name, margin=margin)).comparison.against[0]
        (metric,) = against.tested
        outcome = _outcome(metric, margin)
        found.append(Guard(metric.name, margin, outcome, metric.kind, metric.difference))
    return tuple(found)


def _outcome(metric: MetricComparison, margin: float) -> Guarded:
    from tunecheck.statistics._margins import refutes

    if metric.non_inferior:
        return "kept"
    broken = refutes(metric.difference, margin, higher_is_better=metric.higher_is_better)
    return "broken" if broken else "undecided"
