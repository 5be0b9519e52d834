"""What speaks against shipping a run: what else got worse, its cost and latency, and faults of how it is served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from tunecheck._causes import cause_named
from tunecheck._messages import clean, counted
from tunecheck.comparison._cause_changes import cause_changes
from tunecheck.comparison._common_metrics import choose_metrics
from tunecheck.comparison._comparison import WORSE
from tunecheck.comparison._families import corrected
from tunecheck.comparison._measuring import judge
from tunecheck.comparison._pairs import RunPair, Runs
from tunecheck.comparison._run_table import RunTable
from tunecheck.comparison._wording import headline
from tunecheck.runs._store import Run

MORE = 1.1
"""A tenth more of cost or latency is worth a word."""


def objections(runs: Runs, ship: int, metric: str, names: Mapping[str, str]) -> Iterator[str]:
    """Sentences, none where nothing is found; `metric` is the one that the run at this place was chosen by.

    `names` are what they call the runs, by id.
    """
    last = len(runs.tables) - 1
    for place in dict.fromkeys([runs.base_place, last]):
        if place != ship:
            yield from _worse_than(runs.pair(place, ship), metric, names)
    if ship != runs.base_place:
        yield from _dearer(runs.base, runs.tables[ship], names[runs.base.info.id])
    served = sum(cause_named(code).side == "serving" for code in (runs.tables[ship].causes or {}).values())
    if served:
        yield f"{counted(served, 'row')} of it failed for the serving, not the model"


def _worse_than(pair: RunPair, metric: str, names: Mapping[str, str]) -> Iterator[str]:
    base = names[pair.base.info.id]
    chosen, _ = choose_metrics(pair.base, pair.new, None)
    others = [pair.measured(each) for each in chosen if each.tested and each.name != metric]
    adjusted = corrected([(each.p_value, each.moved) for each in others])
    for each, p_value in zip(others, adjusted, strict=True):
        judged = judge(each, p_value, pair.sides(each.key).bounds)
        if judged.verdict == WORSE:
            yield f"{clean(each.name, 60)} against {base}: {headline(judged)}"
    for cause in cause_changes(pair):
        if cause.new > cause.base and cause.p_adjusted < 1 - pair.settings.confidence:
            yield f"{cause.title}: {counted(cause.new, 'row')}, {cause.base:,} in {base}"


def _dearer(base: RunTable, ship: RunTable, name: str) -> Iterator[str]:
    (before, unit), (after, other) = _cost(base), _cost(ship)
    if before and after and unit == other and after > MORE * before:
        yield f"a row costs {after:.3g} {unit}, {before:.3g} in {name}"
    slow, slower = (median(table.latencies_ms or [0.0]) / 1_000 for table in (base, ship))
    if slow and slower > MORE * slow:
        yield f"half of its answers take over {slower:.3g} s, {slow:.3g} s in {name}"


def _cost(table: RunTable) -> tuple[float | None, object]:
    """What the target cost by row, and the currency; None where it is not known."""
    run = Run(Path(table.info.place))
    if table.info.source != "run" or not run.metrics_file.is_file():
        return None, None
    usage = run.metrics().get("usage")
    spent = usage.get("target") if isinstance(usage, dict) else None
    cost = spent.get("cost") if isinstance(spent, dict) else None
    if not isinstance(spent, dict) or not isinstance(cost, (int, float)):
        return None, None
    return cost / table.info.rows, spent.get("currency")
