"""Two runs side by side: which rows are the same, and how each metric differs on them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tunecheck.comparison.front import compare
from tunecheck.comparison.pairing import PAIR_BY, pair
from tunecheck.comparison.reading import read_run
from tunecheck.comparison.results import Comparison, MetricComparison
from tunecheck.comparison.table import RunTable
from tunecheck.jsontext import JSON
from tunecheck.pipeline.results import ResultRow
from tunecheck.report.details import DetailReader
from tunecheck.report.figures import estimated
from tunecheck.report.reading import Evaluated, ReportedRun, ShapeReader
from tunecheck.report.table import Outcomes, read_outcomes
from tunecheck.runs.store import Run

__all__ = ["Base", "paired_rows"]

_OF_THE_ANSWER = ("verdicts", "errors", "actual", "pairs", "turns", "failed_turn")
"""What of an opened row the base run's answer can differ in."""

_MOST_NAMED = 100


def paired_rows(base: Run, new: Run, pair_by: str = PAIR_BY[0]) -> list[int | None]:
    """For each row of the new run the number of its row in the base, as `tunecheck compare` pairs them.

    Raises:
        ConfigurationError: no row of one run is in the other.
        DataError: a run's files are damaged.
    """
    before, after = (read_run(run, Path()) for run in (base, new))
    pairing = pair(before, after, pair_by)
    old, now = _rows_by_item(before), _rows_by_item(after)
    found: list[int | None] = [None] * after.info.rows
    for one, other in zip(pairing.base, pairing.new, strict=True):
        for row, at in zip(now[other], old[one], strict=False):  # trials of one item: the first with the first
            found[row] = at
    return found


def _rows_by_item(table: RunTable) -> list[list[int]]:
    """Each item's rows: one, or its trials."""
    if table.items.of_row is None:
        return [[row] for row in range(table.info.rows)]
    rows: list[list[int]] = [[] for _ in table.items.ids]
    for row, item in enumerate(table.items.of_row):
        rows[item].append(row)
    return rows


@dataclass
class Base:
    """The run that another is held against."""

    run: ReportedRun
    reader: DetailReader
    comparison: Comparison
    pairs: Sequence[int | None]
    outcomes: Sequence[Outcomes]
    _shapes: ShapeReader
    _waiting: Iterator[ResultRow] = field(init=False)

    def __post_init__(self) -> None:
        self._waiting = iter(self.run.run.rows().only([at for at in self.pairs if at is not None]))

    @classmethod
    def of(cls, run: ReportedRun, new: ReportedRun, reader: DetailReader, pair_by: str) -> Base:
        """Compare the two, and read the base run's verdicts.

        Raises:
            ConfigurationError: no row of one run is in the other, or there is no such way of pairing.
            DataError: a run's files are damaged.
        """
        # Simulated runs may be looked at side by side: the page says that they are.
        comparison = compare(run.run, new.run, allow_simulated=True, pair_by=pair_by, rows=0)
        shapes = ShapeReader(run.evaluators)
        outcomes = read_outcomes(run, ((row, shapes.columns(row)) for row in run.run.rows()))
        return cls(run, reader, comparison, paired_rows(run.run, new.run, pair_by), outcomes, shapes)

    def answer(self, row: int) -> JSON:
        """What the base run has for a row of the new one, which are asked for in order; None where it has none."""
        if self.pairs[row] is None:
            return None
        before = next(self._waiting)
        shown = self.reader.read(before, self._shapes.columns(before)).shown
        return {name: shown[name] for name in _OF_THE_ANSWER if name in shown}

    def written(self, new: ReportedRun) -> dict[str, JSON]:
        """How the metrics differ, and the base's side of the table."""
        own = {each.name: outcomes for each, outcomes in zip(self.run.evaluators, self.outcomes, strict=True)}
        pairs = self.comparison.pairs
        return {
            "run": self.run.run.id,
            "simulated": self.comparison.base.simulated,
            "confidence": self.comparison.confidence,
            "pairs": pairs.paired,
            "only_in_base": _named(pairs.only_in_base),
            "only_in_new": _named(pairs.only_in_new),
            "metrics": [_line(metric) for metric in self.comparison.metrics.values()],
            "notes": [*self.comparison.notes],
            "outcomes": [_column(own.get(each.name), each, self.pairs) for each in new.evaluators],
        }


def _named(ids: Sequence[str]) -> JSON:
    return {"count": len(ids), "first": [*ids[:_MOST_NAMED]]}


def _line(metric: MetricComparison) -> JSON:
    return {
        "name": metric.name,
        "evaluator": metric.evaluator,
        "kind": "rate" if metric.kind == "binary" else "mean",
        "higher_is_better": metric.higher_is_better,
        "tested": metric.tested,
        "base": estimated(metric.base),
        "new": estimated(metric.new),
        "difference": estimated(metric.difference),
        "p": metric.p_value,
        "p_adjusted": metric.p_adjusted,
        "test": metric.test,
        "verdict": metric.verdict,
        "why": metric.why,
        "regressed": metric.totals.get("regressed", metric.b),
        "fixed": metric.totals.get("fixed", metric.c),
        "changed": metric.totals.get("changed"),
    }


def _column(base: Outcomes | None, evaluator: Evaluated, pairs: Sequence[int | None]) -> JSON:
    """A base evaluator's results and scores, in the order of the new rows."""
    if base is None:
        return None
    in_order = Outcomes(["-" if at is None else base.results[at] for at in pairs])
    in_order.scores = {
        name: array("d", (math.nan if at is None else numbers[at] for at in pairs))
        for name, numbers in base.scores.items()
    }
    return in_order.written(evaluator)
