"""The summary of a run: every evaluator's pass rate and means with their intervals, over all rows and by group."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tunecheck._files import MetricEntry
from tunecheck._json import JSON
from tunecheck.comparison._judged import Correction, corrections
from tunecheck.report._index import ERROR, FAIL, NOT_APPLICABLE, PASS, Coded, Outcomes, RowIndex
from tunecheck.report._reading import Evaluated, ReportedRun
from tunecheck.statistics._estimates import estimate_mean, estimate_proportion
from tunecheck.statistics._results import Estimate

_MOST_GROUPS = 50
_RESAMPLES = 2_000
"""Enough for an interval that is looked at: comparisons, which decide something, take more."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Some of the rows: `column` and `value` say which, None for all of them."""

    column: str | None
    value: str | None
    rows: Sequence[int]


def summary(run: ReportedRun, table: RowIndex) -> dict[str, JSON]:
    """`groups` and, for each evaluator, its lines, each with one cell a group."""
    groups = [*_groups(table)]
    judges = {} if run.folder is None else corrections(run.folder)
    return {
        "groups": [{"column": group.column, "value": group.value, "rows": len(group.rows)} for group in groups],
        "evaluators": [
            {
                "name": each.name,
                "lines": [*_lines(each, outcomes, groups, table.sources, judges.get(each.name))],
                "more": _sums(each, run),
            }
            for each, outcomes in zip(run.evaluators, table.outcomes, strict=True)
        ],
    }


def _groups(table: RowIndex) -> Iterator[_Group]:
    yield _Group(None, None, range(len(table.ids)))
    columns = {"row_kind": table.kinds, **table.groups}
    for column, coded in columns.items():
        yield from sorted(_by_value(column, coded), key=lambda group: -len(group.rows))[:_MOST_GROUPS]


def _by_value(column: str, coded: Coded) -> Iterator[_Group]:
    rows: list[list[int]] = [[] for _ in coded.values]
    for at, code in enumerate(coded.rows):
        for each in [code] if isinstance(code, int) else code if isinstance(code, list) else ():
            rows[each].append(at)  # type: ignore[index]
    for value, counts in zip(coded.values, rows, strict=True):
        yield _Group(column, value, counts)


def _lines(
    evaluator: Evaluated, outcomes: Outcomes, groups: Sequence[_Group], sources: Sequence[str], judge: Correction | None
) -> Iterator[JSON]:
    """The pass rate, where rows pass or fail; the mean of each graded metric; how many have no verdict.

    Below a judge's pass rate stands the one that its calibration corrects, over all rows.
    """
    judged = {PASS, FAIL} & set(outcomes.results)
    if judged:
        label = "passed, uncalibrated" if judge is not None and judge.corrected is None else "passed"
        yield {"label": label, "kind": "rate", "cells": [_rate(outcomes, group, sources) for group in groups]}
    if judged and judge is not None and judge.corrected is not None:
        others: list[JSON] = [None] * (len(groups) - 1)
        yield {"label": "corrected", "kind": "rate", "cells": [estimated(judge.corrected), *others]}
    names = {metric.name for metric in evaluator.graded} if judged else {each.name for each in evaluator.metrics}
    for metric in evaluator.metrics:
        if metric.name in names and any(map(math.isfinite, outcomes.scores.get(metric.name, ()))):
            cells = [_mean(outcomes, metric, group, sources) for group in groups]
            label = "mean" if metric.name in (evaluator.primary, evaluator.name) else f"mean {metric.name}"
            line: dict[str, JSON] = {"label": label, "kind": "mean", "metric": metric.name, "cells": cells}
            yield line if metric.higher_is_better else {**line, "lower_is_better": True}
    for letter, label in ((NOT_APPLICABLE, "not applicable"), (ERROR, "errors")):
        if letter in outcomes.results:
            counts: list[JSON] = [sum(outcomes.results[row] == letter for row in group.rows) for group in groups]
            yield {"label": label, "kind": "count", "cells": counts}


def _rate(outcomes: Outcomes, group: _Group, sources: Sequence[str]) -> JSON:
    rows = [row for row in group.rows if outcomes.results[row] in (PASS, FAIL)]
    passed = [outcomes.results[row] == PASS for row in rows]
    if not rows:
        return None
    return estimated(estimate_proportion(passed, _clusters(rows, sources))) | {"passed": sum(passed)}


def _mean(outcomes: Outcomes, metric: MetricEntry, group: _Group, sources: Sequence[str]) -> JSON:
    numbers = outcomes.scores[metric.name]
    rows = [row for row in group.rows if math.isfinite(numbers[row])]
    if not rows:
        return None
    values = [numbers[row] for row in rows]
    clusters = _clusters(rows, sources)
    return estimated(estimate_mean(values, clusters, bounds=metric.bounds, resamples=_RESAMPLES))


def _clusters(rows: Iterable[int], sources: Sequence[str]) -> list[str] | None:
    """Trials of the same row are not independent of one another."""
    return [sources[row] for row in rows] if sources else None


def estimated(figures: Estimate) -> dict[str, JSON]:
    """A figure as the page reads it."""
    written: dict[str, JSON] = {"value": figures.value, "low": figures.low, "high": figures.high, "n": figures.n}
    return written | {"method": figures.method} | ({"remark": figures.remark} if figures.remark else {})


def _sums(evaluator: Evaluated, run: ReportedRun) -> JSON:
    """What the evaluator itself adds up over the rows, and pass^k where there are trials, as `[name, number]`."""
    metrics = run.metrics.get("metrics")
    known = metrics if isinstance(metrics, Mapping) else {}
    own = [key for key in known if key.startswith(f"{evaluator.name}.")]
    start = next((at for at, key in enumerate(own) if key.endswith(".error_count")), len(own))
    return [
        [key.removeprefix(f"{evaluator.name}."), known[key]]
        for key in own[start + 1 :]
        if isinstance(known[key], (int, float, str))
    ]
