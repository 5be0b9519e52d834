"""Summarize a run: each evaluator's pass rate and means with intervals, over all rows and by group."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tunecheck._json import JSON
from tunecheck.comparison._judged import Correction, corrections, rate_of
from tunecheck.report._index import RowIndex
from tunecheck.report._reading import Evaluated, ReportedRun
from tunecheck.results import PASS_RATE, RunTable, State
from tunecheck.statistics._results import Estimate

_MOST_GROUPS = 50
_RESAMPLES = 2_000
"""Bootstrap samples; enough for an interval on a page, but comparisons use more."""


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """The rows with one value of a column, or all rows (`column` and `value` are None)."""

    column: str | None
    value: str | None
    rows: Sequence[int]


def summary(run: ReportedRun, index: RowIndex) -> dict[str, JSON]:
    """Return the `groups` and, for each evaluator, its lines, each with one cell per group."""
    groups = [*_groups(run, index)]
    judges = {} if run.folder is None else corrections(run.folder)
    return {
        "groups": [{"column": group.column, "value": group.value, "rows": len(group.rows)} for group in groups],
        "evaluators": [
            {
                "name": each.name,
                "lines": [*_lines(run.table, each, groups, judges.get(each.name))],
                "more": _sums(each, run),
            }
            for each in run.evaluators
        ],
    }


def _groups(run: ReportedRun, index: RowIndex) -> Iterator[_RowGroup]:
    yield _RowGroup(None, None, range(run.table.info.rows))
    for column, coded in {"row_kind": index.coded["kinds"], **index.groups}.items():
        pairs = zip(coded.values, coded.rows_by_value(), strict=True)
        found = [_RowGroup(column, value, rows) for value, rows in pairs]
        yield from sorted(found, key=lambda group: -len(group.rows))[:_MOST_GROUPS]


def _lines(
    table: RunTable, evaluator: Evaluated, groups: Sequence[_RowGroup], judge: Correction | None
) -> Iterator[dict[str, JSON]]:
    """Yield the pass rate if rows pass or fail, the mean of each graded metric, and counts of rows without a verdict.

    A judge's pass rate over all rows corrected by its calibration follows below its raw rate.
    """
    name, verdicts = evaluator.name, table.columns.get(f"{evaluator.name}.{PASS_RATE}")
    judged = verdicts is not None and verdicts.figures > 0
    if judged:
        label = "passed" if judge is None else f"passed, {judge.raw_label}"
        yield {"label": label, "kind": "rate", "cells": _cells(table, f"{name}.{PASS_RATE}", groups, is_rate=True)}
    if judged and judge is not None and judge.corrected is not None:
        others: list[JSON] = [None] * (len(groups) - 1)
        yield {"label": judge.corrected_label, "kind": "rate", "cells": [estimate_json(judge.corrected), *others]}
    for metric in evaluator.graded if judged else evaluator.metrics:
        column = table.columns.get(f"{name}.{metric.name}")
        if column is not None and column.figures:
            label = "mean" if metric.name in (evaluator.primary, name) else f"mean {metric.name}"
            cells = _cells(table, column.name, groups)
            line: dict[str, JSON] = {"label": label, "kind": "mean", "metric": metric.name, "cells": cells}
            yield line if metric.higher_is_better else {**line, "lower_is_better": True}
    states = table.evaluators[name].states
    for state, label in ((State.NOT_APPLICABLE, "not applicable"), (State.ERROR, "errors")):
        if state in states:
            counts: list[JSON] = [sum(states[row] == state for row in group.rows) for group in groups]
            yield {"label": label, "kind": "count", "cells": counts}


def _cells(table: RunTable, column: str, groups: Sequence[_RowGroup], *, is_rate: bool = False) -> list[JSON]:
    """Return each group's figure; None for a group without one."""
    cells: list[JSON] = []
    for group in groups:
        found = rate_of(table, column, group.rows, resamples=_RESAMPLES)
        if found is None or not found.n:
            cells.append(None)
        else:
            passed: dict[str, JSON] = {"passed": round((found.value or 0.0) * found.n)} if is_rate else {}
            cells.append(estimate_json(found) | passed)
    return cells


def estimate_json(figures: Estimate) -> dict[str, JSON]:
    """Return a figure for the page."""
    written: dict[str, JSON] = {"value": figures.value, "low": figures.low, "high": figures.high, "n": figures.n}
    return written | {"method": figures.method} | ({"remark": figures.remark} if figures.remark else {})


def _sums(evaluator: Evaluated, run: ReportedRun) -> JSON:
    """Return the evaluator's own totals, and pass^k if there are trials, as `[name, number]`."""
    metrics = run.metrics.get("metrics")
    known = metrics if isinstance(metrics, Mapping) else {}
    own = [key for key in known if key.startswith(f"{evaluator.name}.")]
    start = next((at for at, key in enumerate(own) if key.endswith(".error_count")), len(own))
    return [
        [key.removeprefix(f"{evaluator.name}."), known[key]]
        for key in own[start + 1 :]
        if isinstance(known[key], (int, float, str))
    ]
