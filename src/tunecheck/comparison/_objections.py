"""What speaks against shipping a run: what else got worse, its cost and latency, and faults of how it is served."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

from tunecheck._causes import cause_named
from tunecheck._messages import clean, counted
from tunecheck.comparison._common_metrics import choose_metrics
from tunecheck.comparison._compare import compare_tables
from tunecheck.comparison._comparison import WORSE, CauseChange
from tunecheck.comparison._measuring import Settings
from tunecheck.comparison._rows import value_of
from tunecheck.comparison._run_table import RunTable
from tunecheck.comparison._wording import headline
from tunecheck.runs._store import Run

MORE = 1.1
"""A tenth more of cost or latency is worth a word."""


def objections(ship: RunTable, base: RunTable, last: RunTable, metric: str, settings: Settings) -> Iterator[str]:
    """Sentences, none where nothing is found; `metric` is the one that the run was chosen by."""
    for table in {base.info.id: base, last.info.id: last}.values():
        if table is not ship:
            yield from _worse_than(table, ship, metric, settings)
    if ship is not base:
        yield from _dearer(base, ship)
    served = sum(cause_named(code).side == "serving" for code in (ship.causes or {}).values())
    if served:
        yield f"{counted(served, 'row')} of it failed for the serving, not the model"


def _worse_than(table: RunTable, ship: RunTable, metric: str, settings: Settings) -> Iterator[str]:
    chosen, _ = choose_metrics(table, ship, None)
    others = [each.name for each in chosen if each.tested and each.name != metric]  # corrected among themselves
    against = compare_tables([table, ship], replace(settings, metrics=others)).comparison.against[0]
    for each in against.tested:
        if each.verdict == WORSE:
            yield f"{clean(each.name, 60)} against {table.info.id}: {headline(each)}"
    for cause in _grown(against.causes, 1 - settings.confidence):
        yield f"{cause.title}: {counted(cause.new, 'row')}, {cause.base:,} in {table.info.id}"


def _grown(causes: tuple[CauseChange, ...], alpha: float) -> list[CauseChange]:
    """The causes that are shown to have grown, corrected among themselves."""
    from tunecheck.statistics._decisions import holm
    from tunecheck.statistics._paired import mcnemar

    adjusted = holm([mcnemar(cause.only_base, cause.only_new)[1] for cause in causes])
    return [
        cause
        for cause, p_value in zip(causes, adjusted, strict=True)
        if cause.new > cause.base and p_value is not None and p_value < alpha
    ]


def _dearer(base: RunTable, ship: RunTable) -> Iterator[str]:
    (before, unit), (after, other) = _cost(base), _cost(ship)
    if before and after and unit == other and after > MORE * before:
        yield f"a row costs {after:.3g} {unit}, {before:.3g} in {base.info.id}"
    slow, slower = _latency_s(base), _latency_s(ship)
    if slow and slower and slower > MORE * slow:
        yield f"half of its answers take over {slower:.3g} s, {slow:.3g} s in {base.info.id}"


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


def _latency_s(table: RunTable) -> float | None:
    """The median latency of answers, None where rows do not tell."""
    told = (value_of(row.get("outputs.latency_ms")) for row in table.source.records())
    times = [value for value in told if isinstance(value, (int, float))]
    return median(times) / 1_000 if times else None
