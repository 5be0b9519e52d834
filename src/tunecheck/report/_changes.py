"""Two runs side by side: which rows are the same, and how each metric differs on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tunecheck._json import JSON
from tunecheck.comparison._changes import RunPair
from tunecheck.comparison._compare import compare_runs
from tunecheck.comparison._comparison import Comparison, MetricComparison
from tunecheck.comparison._measuring import Settings
from tunecheck.comparison._run_table import RunTable
from tunecheck.pipeline._results import ResultRow
from tunecheck.report._details import DetailReader, Details
from tunecheck.report._index import Outcomes, listed_outcomes_of
from tunecheck.report._reading import ReportedRun, ShapeReader
from tunecheck.report._summary import estimated

_MOST_NAMED = 100


def paired_rows(runs: RunPair) -> list[int | None]:
    """For each row of the new run the number of its row in the base, as `tunecheck compare` pairs them."""
    old, now = _rows_by_item(runs.base), _rows_by_item(runs.new)
    partners: list[int | None] = [None] * runs.new.info.rows
    for one, other in zip(runs.pairing.base, runs.pairing.new, strict=True):
        for row, at in zip(now[other], old[one], strict=False):  # trials of one item: the first with the first
            partners[row] = at
    return partners


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
    """The run that another is held against; `outcomes` are its verdicts in the order of the other's rows."""

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
        """Compare the two.

        Raises:
            ConfigurationError: no row of one run is in the other, or there is no such way of pairing.
            DataError: a run's files are damaged.
        """
        # Simulated runs may be looked at side by side: the page says that they are.
        settings = Settings(allow_simulated=True, pair_by=pair_by, rows=0)
        compared = compare_runs([run.run, new.run], Path(), settings)
        shapes = ShapeReader(run.evaluators)
        outcomes = listed_outcomes_of(run, {each.name: each for each in new.evaluators})
        return cls(run, reader, compared.comparison, paired_rows(compared.runs[0]), outcomes, shapes)

    def answer(self, row: int, new: Details) -> JSON:
        """What the base run has for a row of the new one, which are asked for in order; None where it has none."""
        if self.pairs[row] is None:
            for outcomes in self.outcomes:
                outcomes.add_none()
            return None
        before = next(self._waiting)
        columns = self._shapes.columns(before)
        verdicts = columns.verdicts(before)
        for outcomes, own, verdict in zip(self.outcomes, columns.evaluators, verdicts, strict=True):
            outcomes.add(before, own, verdict)
        return self.reader.answer(before, columns, verdicts, new)

    def written(self, new: ReportedRun) -> dict[str, JSON]:
        """How the metrics differ, and the base's side of the table; when all rows have been answered."""
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
            "outcomes": [own[each.name].written(each) if each.name in own else None for each in new.evaluators],
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
