"""Compare a reported run with other runs: find the same rows in them, and their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from tunecheck._json import JSON
from tunecheck.comparison._compare import compare_tables
from tunecheck.comparison._comparison import Comparison, RunComparison
from tunecheck.comparison._measuring import ComparisonSettings
from tunecheck.comparison._pairs import RunPair
from tunecheck.comparison._wording import decision_lines, head_of, regression_text, shared_text
from tunecheck.pipeline._finished_rows import ResultRow
from tunecheck.report._blocks import Shared
from tunecheck.report._details import DetailReader, Details
from tunecheck.report._index import Outcomes, outcomes_of
from tunecheck.report._reading import ReportedRun, ShapeReader, facts_of
from tunecheck.results import RunInfo, RunTable
from tunecheck.runs._store import stopped_text

_MOST_NAMED = 100


def paired_rows(runs: RunPair) -> list[int | None]:
    """Return the row of the base for each row of the new run, or None; paired as `tunecheck compare` does."""
    base_rows, new_rows = _rows_by_item(runs.base), _rows_by_item(runs.new)
    partners: list[int | None] = [None] * runs.new.info.rows
    for base_item, new_item in zip(runs.pairing.base, runs.pairing.new, strict=True):
        # Trials of one item are paired in their order.
        for new_row, base_row in zip(new_rows[new_item], base_rows[base_item], strict=False):
            partners[new_row] = base_row
    return partners


def _rows_by_item(table: RunTable) -> list[list[int]]:
    """Return the row numbers of each item: one row, or its trials."""
    if table.items.of_row is None:
        return [[row] for row in range(table.info.rows)]
    rows: list[list[int]] = [[] for _ in table.items.ids]
    for row, item in enumerate(table.items.of_row):
        rows[item].append(row)
    return rows


@dataclass
class OtherRun:
    """One of the other runs.

    `partners` has, for each row of the reported run, the number of the same row in this run, or None. `outcomes` are in
    the same order.
    """

    run: ReportedRun
    reader: DetailReader
    outcomes: Mapping[str, Outcomes]
    partners: Sequence[int | None]
    shapes: ShapeReader = field(init=False)
    _waiting: Iterator[ResultRow] = field(init=False)

    def __post_init__(self) -> None:
        """Begin to read the partners' rows, in the order of the reported run."""
        self.shapes = ShapeReader(self.run.evaluators)
        self._waiting = self.run.rows([at for at in self.partners if at is not None])

    def row(self, at: int) -> ResultRow | None:
        """Return this run's partner of the reported run's row `at`, or None. Call this in the order of rows."""
        return None if self.partners[at] is None else next(self._waiting)


class OtherRuns:
    """All other runs, in the order given; the first is the base of the comparison.

    Raises:
        ConfigurationError: two runs have no row in common.
        DataError: a run's files are damaged.
    """

    def __init__(
        self, others: Sequence[ReportedRun], run: ReportedRun, shared: Shared, settings: ComparisonSettings
    ) -> None:
        """Compare the run with the others, and pair its rows with theirs.

        Raises:
            ConfigurationError: two runs have no row in common.
        """
        tables = [each.table for each in (*others, run)]
        compared = compare_tables(tables, settings)
        self.comparison: Comparison = compared.comparison
        evaluators = {each.name: each for each in run.evaluators}
        self._by_id = settings.pair_by == "id"
        self._others: list[OtherRun] = []
        for other, table in zip(others, tables, strict=False):
            pairs = RunPair(table, tables[-1], settings) if self._others else compared.runs[-1]
            partners = paired_rows(pairs)
            outcomes = {
                each.name: outcomes_of(other, each, evaluators[each.name].graded[:1]).reordered(partners)
                for each in other.evaluators
                if each.name in evaluators
            }
            self._others.append(OtherRun(other, DetailReader(other, shared), outcomes, partners))

    def answers(self, at: int, new: Details) -> dict[str, JSON]:
        """Return the answers of the other runs to a row; call it in the order of rows.

        `answers` has each different answer once, without the reported run's. `others` has the number of each run's
        answer in that list, counted from 1. 0 is the reported run's answer, None stands for a run without the row.
        """
        answers: list[JSON] = []
        numbers: list[JSON] = []
        for other in self._others:
            row = other.row(at)
            if row is None:
                numbers.append(None)
                continue
            columns = other.shapes.columns(row)
            answer = other.reader.answer(at, row, columns, columns.verdicts(row), new)
            if answer not in (new.answered, *answers):
                answers.append(answer)
            numbers.append([new.answered, *answers].index(answer))
        return {"answers": answers, "others": numbers}

    def as_json(self, new: ReportedRun) -> dict[str, JSON]:
        """Return the comparison's figures and the other runs' columns of the table; call it after all rows."""
        comparison, decision = self.comparison, self.comparison.decision
        lines: list[JSON] = [[text, effect] for text, effect in islice(decision_lines(decision), 1, None)]
        history = sorted(comparison.history, key=lambda each: each.name != decision.metric)  # the decisive one first
        return {
            "confidence": comparison.confidence,
            "decision": decision.as_json() | {"head": head_of(decision), "lines": lines},
            "best": None if comparison.best is None else comparison.best.as_json(),
            "regressed": "" if comparison.best is None else regression_text(comparison.best, new.id),
            "runs": [_describe(each, new) for each in self._others],
            "held": [_run_comparison(each, comparison.base, by_id=self._by_id) for each in comparison.against],
            "history": [each.as_json() for each in history],
        }


def _describe(other: OtherRun, new: ReportedRun) -> JSON:
    """Return another run for the page: its name, facts, and outcomes by evaluator (null if it lacks one)."""
    outcomes = other.outcomes
    return {
        "run": other.run.id,
        "simulated": other.run.manifest.simulated,
        "facts": [*facts_of(other.run)],
        "outcomes": [outcomes[each.name].as_json(each) if each.name in outcomes else None for each in new.evaluators],
    }


def _run_comparison(against: RunComparison, base: RunInfo, *, by_id: bool) -> dict[str, JSON]:
    """Return the comparison of one run with the base, as the page reads it; `by_id`: rows were paired by id."""
    pairs = against.pairs
    stopped = [stopped_text(run.stopped) for run in (base, against.new) if run.stopped is not None]
    return {
        "run": against.new.id,
        "alike": "id" if by_id or pairs.by_id_alone else "content",
        "pairs": pairs.paired,
        "only_in_base": _name_ids(pairs.only_in_base),
        "only_in_new": _name_ids(pairs.only_in_new),
        "warnings": [shared_text(against, base), *stopped],
        "metrics": [each.as_json() for each in sorted(against.metrics.values(), key=lambda each: not each.primary)],
        "parts": [part.as_json() for part in (*against.figures, *against.parts)],
        "part_metric": against.part_metric,
        "causes": [each.as_json() for each in against.causes if each.new > each.base],
        "notes": [*against.notes],
    }


def _name_ids(ids: Sequence[str]) -> JSON:
    """Return the number of these row ids, and the first of them."""
    return {"count": len(ids), "first": [*ids[:_MOST_NAMED]]}
