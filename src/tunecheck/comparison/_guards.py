"""Guards of a selection: metrics that must not get worse than the base's by more than a margin."""

from collections.abc import Mapping

from tunecheck.comparison._common_metrics import choose_metrics
from tunecheck.comparison._comparison import Guard
from tunecheck.comparison._pairs import RunPair


def guards_of(pair: RunPair, guards: Mapping[str, float]) -> tuple[Guard, ...]:
    """What became of each guard, by metric with its margin, in the new run."""
    return tuple(_guard(pair, name, margin) for name, margin in guards.items())


def _guard(pair: RunPair, name: str, margin: float) -> Guard:
    from tunecheck.statistics._decisions import non_inferiority
    from tunecheck.statistics._margins import refutes

    metric = pair.measured(choose_metrics(pair.base, pair.new, [name])[0][0])
    difference, up = metric.difference, metric.higher_is_better
    if non_inferiority(difference, margin, higher_is_better=up).shown:
        return Guard(metric.name, margin, "kept", metric.kind, difference)
    broken = refutes(difference, margin, higher_is_better=up)
    return Guard(metric.name, margin, "broken" if broken else "undecided", metric.kind, difference)
