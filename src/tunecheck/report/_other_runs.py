"""The runs that a report holds its own run against: which of their rows are the same, and what was answered there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tunecheck._json import JSON
from tunecheck.comparison._compare import compare_tables
from tunecheck.comparison._comparison import Comparison, RunComparison, Selection
from tunecheck.comparison._measuring import ComparisonSettings
from tunecheck.comparison._pairs import RunPair
from tunecheck.comparison._wording import decision_lines, regression_text, shared_text
from tunecheck.pipeline._finished_rows import ResultRow, Verdict
from tunecheck.report._blocks import Shared
from tunecheck.report._details import DetailReader, Details
from tunecheck.report._index import Outcomes, outcomes_of
from tunecheck.report._reading import ReportedRun, ShapeReader, facts_of
from tunecheck.results import RunInfo, RunTable
from tunecheck.runs._store import stopped_text

_MOST_NAMED = 100
_FIGURES = frozenset({"latency_ms", "first_token_ms", "usage", "request_id", "cost"})
_INCIDENTAL = frozenset({"row_id", "row_fingerprint", *(f"outputs.{name}" for name in _FIGURES)})
"""Columns that are another one each time a row is asked, and that are not shown of another run's answer."""


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
class OtherRun:
    """One of the runs; `outcomes` are its verdicts in the reported run's order, `partners` its rows there.

    Runs of an equal `way` read a row in the same way.
    """

    run: ReportedRun
    reader: DetailReader
    outcomes: Mapping[str, Outcomes]
    partners: Sequence[int | None]
    way: int
    shapes: ShapeReader = field(init=False)
    _waiting: Iterator[ResultRow] = field(init=False)

    def __post_init__(self) -> None:
        self.shapes = ShapeReader(self.run.evaluators)
        self._waiting = iter(self.run.rows.only([at for at in self.partners if at is not None]))

    def row(self, at: int) -> ResultRow | None:
        """Its row for one of the reported run, which are asked for in order; None where it has none."""
        return None if self.partners[at] is None else next(self._waiting)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What some run has for a row: the row's columns that say something, and what came of them."""

    way: int
    columns: Mapping[str, JSON]
    verdicts: Sequence[Verdict]


class OtherRuns:
    """All of them, in the order given; the first is the base of the comparison.

    Raises:
        ConfigurationError: no row of the base is in one of the other runs, or none of one is in the reported run.
        DataError: a run's files are damaged.
    """

    def __init__(
        self, others: Sequence[ReportedRun], run: ReportedRun, shared: Shared, settings: ComparisonSettings
    ) -> None:
        tables = [each.table for each in (*others, run)]
        compared = compare_tables(tables, settings)
        self.comparison: Comparison = compared.comparison
        ways = _ways([*others, run])
        self._way = ways[-1]
        listed = {each.name: each for each in run.evaluators}
        self._by_id = settings.pair_by == "id"
        self._others: list[OtherRun] = []
        for other, table, way in zip(others, tables, ways, strict=False):
            pairs = RunPair(table, tables[-1], settings) if self._others else compared.runs[-1]
            partners = paired_rows(pairs)
            outcomes = {
                each.name: outcomes_of(other, each, listed[each.name].graded[:1]).reordered(partners)
                for each in other.evaluators
                if each.name in listed
            }
            self._others.append(OtherRun(other, DetailReader(other, shared), outcomes, partners, way))

    def answers(self, at: int, row: ResultRow, new: Details) -> dict[str, JSON]:
        """What the other runs have for a row of the reported one; rows are asked for in order.

        `answers` holds what is not the same as in the reported run, each once; `others` has for each run the number of
        its answer among them, counted from 1, 0 where it is the reported run's, null where the run has no such row.
        """
        known = [_Answer(self._way, _telling(row), new.verdicts)]
        answers: list[JSON] = []
        numbers: list[JSON] = []
        for other in self._others:
            before = other.row(at)
            if before is None:
                numbers.append(None)
                continue
            columns, telling = other.shapes.columns(before), _telling(before)
            same = (number for number, each in enumerate(known) if (each.way, each.columns) == (other.way, telling))
            number = next(same, None)
            if number is None:
                number = len(known)
                known.append(_Answer(other.way, telling, columns.verdicts(before)))
                answers.append(other.reader.answer(at, before, columns, known[-1].verdicts, new))
            numbers.append(number)
        return {"answers": answers, "others": numbers}

    def written(self, new: ReportedRun) -> dict[str, JSON]:
        """How the metrics differ, and the other runs' side of the table; when all rows have been answered."""
        found = self.comparison
        return {
            "confidence": found.confidence,
            "decision": [text for text, _ in decision_lines(found.decision)],
            "best": None if found.best is None else _best(found.best, new.id),
            "runs": [_described(each, new) for each in self._others],
            "held": [_held(each, found.base) | {"alike": self._alike(each)} for each in found.against],
            "history": [each.as_json() for each in found.history],
        }

    def _alike(self, against: RunComparison) -> str:
        return "id" if self._by_id or against.pairs.by_id_alone else "content"


def _ways(runs: Sequence[ReportedRun]) -> list[int]:
    """A number for each run, the same for runs that read a row in the same way."""
    known: list[object] = []
    ways: list[int] = []
    for run in runs:
        evaluators = [(each.name, each.verdicts.metric, each.compares, each.alternatives) for each in run.evaluators]
        way = (run.manifest.mapping, evaluators)
        if way not in known:
            known.append(way)
        ways.append(known.index(way))
    return ways


def _telling(row: ResultRow) -> Mapping[str, JSON]:
    # Answers before what was asked, which is the same in all runs: so unequal ones are soon told apart.
    return {key: row[key] for key in reversed(row) if key not in _INCIDENTAL}


def _described(other: OtherRun, new: ReportedRun) -> JSON:
    own = other.outcomes
    return {
        "run": other.run.id,
        "simulated": other.run.simulated,
        "facts": [*facts_of(other.run)],
        "outcomes": [own[each.name].written(each) if each.name in own else None for each in new.evaluators],
    }


def _best(best: Selection, last: str) -> dict[str, JSON]:
    """The ranking; `regressed` says what the last run lost, in the comparison's own words."""
    ranking: list[JSON] = [each.as_json() for each in best.ranking]
    regressed = regression_text(best, last)
    return {"metric": best.metric, "kind": best.kind, "ranking": ranking, "regressed": regressed}


def _held(against: RunComparison, base: RunInfo) -> dict[str, JSON]:
    """One run against the base: metrics and parts are the comparison's own."""
    pairs = against.pairs
    stopped = [stopped_text(run.stopped) for run in (base, against.new) if run.stopped is not None]
    parts: list[JSON] = [part.as_json() for part in (*against.figures, *against.parts)]
    return {
        "run": against.new.id,
        "pairs": pairs.paired,
        "only_in_base": _named(pairs.only_in_base),
        "only_in_new": _named(pairs.only_in_new),
        "warnings": [shared_text(against, base), *stopped],
        "metrics": [each.as_json() for each in sorted(against.metrics.values(), key=lambda each: not each.primary)],
        "parts": parts,
        "part_metric": against.part_metric,
        "notes": [*against.notes],
    }


def _named(ids: Sequence[str]) -> JSON:
    return {"count": len(ids), "first": [*ids[:_MOST_NAMED]]}
