"""Write a run's report, reading and writing the rows one by one, and compare the run with other runs.

The order of a page (`_Report.write`). Details of rows are in memory for one block at a time:

  1. style and head of the document
  2. blocks of row details and of shared long texts, while the rows are read
  3. `head`: everything except the table of rows: facts, summary, charts, panels, comparison
  4. `index`: the table of all rows
  5. the script, which draws the page

Other runs are read at the same time, each in the order of the reported run's rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import dropwhile, islice
from pathlib import Path
from typing import TextIO, TypeAlias

from tunecheck._disk import replacing
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, dumps, object_or_empty
from tunecheck.comparison._compare import compare_tables, open_runs
from tunecheck.comparison._comparison import RunComparison
from tunecheck.comparison._judged import Correction, corrections, rate_of
from tunecheck.comparison._measuring import ComparisonSettings
from tunecheck.comparison._pairs import PAIR_BY, RunPair
from tunecheck.comparison._wording import decision_lines, head_of, regression_text, shared_text
from tunecheck.pipeline._finished_rows import Failures
from tunecheck.report._details import DetailReader, Details
from tunecheck.report._index import MOST_ROWS, RowIndex, charts, outcomes_of
from tunecheck.report._page import REPORT, Blocks, as_data, as_json, compress_text, embed_json, page
from tunecheck.report._reading import Evaluated, ReportedRun, facts_of, read_run
from tunecheck.results import PASS_RATE, RunInfo, RunLike, RunTable, State, first_screen
from tunecheck.runs._store import Run, stopped_text
from tunecheck.views import text_of

# -- other runs

_MOST_NAMED = 100  # ids of rows without a partner that the page lists


def paired_rows(runs: RunPair) -> list[int | None]:
    """Return the row of the base for each row of the new run, or None; paired as `tunecheck compare` does.

    Example: the new run has the rows a, b, c and the base c, a. The result is 1, None, 0.
    """
    base_rows, new_rows = _rows_by_item(runs.base), _rows_by_item(runs.new)
    partners: list[int | None] = [None] * runs.new.info.rows
    for base_item, new_item in zip(runs.pairing.base, runs.pairing.new, strict=True):
        # Trials of one item are paired in their order.
        for new_row, base_row in zip(new_rows[new_item], base_rows[base_item], strict=False):
            partners[new_row] = base_row

    return partners


def _rows_by_item(table: RunTable) -> list[list[int]]:
    """Return the row numbers of each item: one row, or its trials."""
    rows: list[list[int]] = [[] for _ in table.items.ids]
    # Without several trials, every row is an item.
    for row, item in enumerate(table.items.of_row or range(table.info.rows)):
        rows[item].append(row)
    return rows


class OtherRun:
    """One of the other runs, with its `outcomes` by evaluator, in the order of the reported run's rows.

    `partners` has, for each row of the reported run, the number of the same row in this run, or None.
    """

    def __init__(self, run: ReportedRun, reported: ReportedRun, pairs: RunPair, shared: Blocks) -> None:
        """Pair the reported run's rows with this run's, and begin to read the partners in their order.

        `pairs` has this run as its base. `shared` stores long texts once for all rows.
        """
        self.run, self._partners = run, paired_rows(pairs)
        self._reader = DetailReader(run, shared)
        # One pass through this run's file, in the order in which the report needs the rows.
        self._waiting = run.rows([row for row in self._partners if row is not None])

        # The page shows the first graded metric of the reported run's evaluator.
        own_names = {evaluator.name for evaluator in run.evaluators}
        own = [evaluator for evaluator in reported.evaluators if evaluator.name in own_names]
        self.outcomes = {evaluator.name: outcomes_of(run, evaluator, self._partners) for evaluator in own}

    def answer(self, number: int, new: Details) -> dict[str, JSON] | None:
        """Return this run's answer to the reported run's row with this number (from 0), None without a partner.

        `new` has the details of the reported run's row. Call this in the order of rows.
        """
        if self._partners[number] is None:
            return None
        return self._reader.answer(number, next(self._waiting), new)


class OtherRuns:
    """All other runs, in the order given; the first is the base of the comparison.

    Raises:
        ConfigurationError: two runs have no row in common.
        DataError: a run's files are damaged.
    """

    def __init__(
        self, others: Sequence[ReportedRun], run: ReportedRun, shared: Blocks, settings: ComparisonSettings
    ) -> None:
        """Compare the run with the others, and pair its rows with theirs; `shared` stores long texts once for all rows.

        Raises:
            ConfigurationError: two runs have no row in common.
        """
        tables = [each.table for each in (*others, run)]
        self.comparison, pairs_with_base = compare_tables(tables, settings)

        self._by_id = settings.pair_by == "id"
        self._others: list[OtherRun] = []
        # The first of the others is the base, which `compare_tables` has paired with each run. The rest of them still
        # need their pairs with the reported run.
        for other, table in zip(others, tables, strict=False):
            pairs = RunPair(table, tables[-1], settings) if self._others else pairs_with_base[-1]
            self._others.append(OtherRun(other, run, pairs, shared))

    def answers(self, number: int, new: Details) -> dict[str, JSON]:
        """Return the other runs' answers to the row with this number (from 0); call it in the order of rows.

        `answers` has each different answer once, without the reported run's. `others` has the number of each run's
        answer in that list, counted from 1. 0 is the reported run's answer, None stands for a run without the row.

        Example: the base gave the same answer as the reported run, and two more runs both gave another one. `answers`
        has this one answer, and `others` is [0, 1, 1].
        """
        known: list[JSON] = [new.answered]
        numbers: list[JSON] = []
        for answer in (other.answer(number, new) for other in self._others):
            # Iterations answer most rows alike; equal answers are stored once.
            if answer is not None and answer not in known:
                known.append(answer)
            numbers.append(None if answer is None else known.index(answer))

        return {"answers": known[1:], "others": numbers}

    def as_json(self, new: ReportedRun) -> dict[str, JSON]:
        """Return the comparison's figures and the other runs' columns of the table; call it after all rows."""
        comparison, decision = self.comparison, self.comparison.decision
        # The first line is the decision itself, which the page shows as its head.
        lines: list[JSON] = [[text, effect] for text, effect in islice(decision_lines(decision), 1, None)]

        # The decisive metric comes first.
        history = sorted(comparison.history, key=lambda metric: metric.name != decision.metric)

        return {
            "confidence": comparison.confidence,
            "decision": decision.to_json() | {"head": head_of(decision), "lines": lines},
            "best": None if comparison.best is None else comparison.best.to_json(),
            "regressed": "" if comparison.best is None else regression_text(comparison.best, new.id),
            "runs": [_describe(other, new) for other in self._others],
            "held": [_run_comparison(each, comparison.base, by_id=self._by_id) for each in comparison.against],
            "history": [metric.to_json() for metric in history],
        }


def _describe(other: OtherRun, new: ReportedRun) -> JSON:
    """Return another run for the page: its name, facts, and outcomes by evaluator (null if it lacks one)."""
    own = [other.outcomes.get(evaluator.name) for evaluator in new.evaluators]
    return {
        "run": other.run.id,
        "simulated": other.run.manifest.simulated,
        "facts": [*facts_of(other.run)],
        "outcomes": [None if outcomes is None else outcomes.as_json() for outcomes in own],
    }


def _run_comparison(compared_run: RunComparison, base: RunInfo, *, by_id: bool) -> dict[str, JSON]:
    """Return the comparison of one run with the base, as the page reads it; `by_id`: rows were paired by id."""
    pairs = compared_run.pairs
    # The primary metric first.
    metrics = sorted(compared_run.metrics.values(), key=lambda metric: not metric.primary)
    stopped = [stopped_text(run.stopped) for run in (base, compared_run.new) if run.stopped is not None]

    return {
        "run": compared_run.new.id,
        "alike": "id" if by_id or pairs.by_id_alone else "content",
        "pairs": pairs.paired,
        "only_in_base": _name_ids(pairs.only_in_base),
        "only_in_new": _name_ids(pairs.only_in_new),
        "warnings": [shared_text(compared_run, base), *stopped],
        "metrics": [metric.to_json() for metric in metrics],
        "parts": [part.to_json() for part in (*compared_run.figures, *compared_run.parts)],
        "part_metric": compared_run.part_metric,
        "causes": [cause.to_json() for cause in compared_run.causes if cause.new > cause.base],
        "notes": [*compared_run.notes],
    }


def _name_ids(ids: Sequence[str]) -> JSON:
    """Return the number of these row ids, and the first of them."""
    return {"count": len(ids), "first": [*ids[:_MOST_NAMED]]}


# -- the reported run

_MOST_GROUPS = 50  # of one column in the summary
_RESAMPLES = 2_000
"""Bootstrap samples; enough for an interval on a page, but comparisons use more."""


RowGroup: TypeAlias = tuple[str | None, str | None, Sequence[int]]
"""Column, value, and the numbers of the rows that have it; None and None for all rows."""


def summary(run: ReportedRun, index: RowIndex) -> dict[str, JSON]:
    """Return the `groups` and, for each evaluator, its lines, each with one cell per group."""
    groups = [*_groups(run, index)]
    # Calibrations are in the folder of runs; results of other programs have none.
    judges = {} if run.folder is None else corrections(run.folder)

    evaluators: list[JSON] = []
    for evaluator in run.evaluators:
        lines: list[JSON] = [*_summary_lines(run.table, evaluator, groups, judges.get(evaluator.name))]
        evaluators.append({"name": evaluator.name, "lines": lines, "more": _own_totals(evaluator, run)})

    shown: list[JSON] = [{"column": column, "value": value, "rows": len(rows)} for column, value, rows in groups]
    return {"groups": shown, "evaluators": evaluators}


def _groups(run: ReportedRun, index: RowIndex) -> Iterator[RowGroup]:
    """Yield all rows as the first group, then the rows by each value of each column, the largest groups first."""
    yield None, None, range(run.table.info.rows)
    for column, coded in {"row_kind": index.coded["kinds"], **index.groups}.items():
        found = sorted(zip(coded.values, coded.rows_by_value(), strict=True), key=lambda group: -len(group[1]))
        yield from ((column, value, rows) for value, rows in found[:_MOST_GROUPS])


def _summary_lines(
    table: RunTable, evaluator: Evaluated, groups: Sequence[RowGroup], judge: Correction | None
) -> Iterator[dict[str, JSON]]:
    """Yield the pass rate if rows pass or fail, the mean of each graded metric, and counts of rows without a verdict.

    With a calibrated `judge`, its corrected pass rate follows below the raw one, but only for all rows.
    """
    name, verdicts = evaluator.name, table.columns.get(f"{evaluator.name}.{PASS_RATE}")
    judged = verdicts is not None and verdicts.figures > 0
    if judged:
        label = "passed" if judge is None else f"passed, {judge.raw_label}"
        yield {"label": label, "kind": "rate", "cells": _cells(table, f"{name}.{PASS_RATE}", groups, is_rate=True)}

    if judged and judge is not None and judge.corrected is not None:
        # The calibration is for all rows: labels say nothing about the judge's errors in one group.
        others: list[JSON] = [None] * (len(groups) - 1)
        yield {"label": judge.corrected_label, "kind": "rate", "cells": [judge.corrected.to_json(), *others]}

    # With a pass rate, metrics that pass or fail are no further lines: only the graded ones have a mean.
    for metric in evaluator.graded if judged else evaluator.metrics:
        column = table.columns.get(f"{name}.{metric.name}")
        if column is not None and column.figures:
            # A main metric needs no name of its own.
            label = "mean" if metric.name in (evaluator.primary, name) else f"mean {metric.name}"
            cells = _cells(table, column.name, groups)
            line: dict[str, JSON] = {"label": label, "kind": "mean", "metric": metric.name, "cells": cells}
            yield line if metric.higher_is_better else {**line, "lower_is_better": True}

    states = table.evaluators[name].states
    for state, label in ((State.NOT_APPLICABLE, "not applicable"), (State.ERROR, "errors")):
        if state in states:
            counts: list[JSON] = [sum(states[row] == state for row in rows) for _, _, rows in groups]
            yield {"label": label, "kind": "count", "cells": counts}


def _cells(table: RunTable, column: str, groups: Sequence[RowGroup], *, is_rate: bool = False) -> list[JSON]:
    """Return each group's figure with its interval, None for a group without one; a rate also has its passed rows."""
    cells: list[JSON] = []
    for rate in (rate_of(table, column, rows, resamples=_RESAMPLES) for _, _, rows in groups):
        # The page shows `31 of 46` beside a rate.
        passed: dict[str, JSON] = {"passed": round((rate.value or 0.0) * rate.n)} if is_rate and rate else {}
        cells.append(None if rate is None or not rate.n else rate.to_json() | passed)
    return cells


def _own_totals(evaluator: Evaluated, run: ReportedRun) -> JSON:
    """Return the evaluator's own totals, and with several trials pass^k, as `[name, value]`."""
    metrics, start = object_or_empty(run.metrics.get("metrics")), f"{evaluator.name}."
    own = [(key.removeprefix(start), value) for key, value in metrics.items() if key.startswith(start)]

    # Up to `error_count`, the keys are those that every evaluator has.
    totals = islice(dropwhile(lambda total: total[0] != "error_count", own), 1, None)
    return [[key, value] for key, value in totals if isinstance(value, (int, float, str))]


MOST_BYTES = 300_000_000
"""Approximate limit of packed rows in characters; further rows are listed, but cannot be opened."""


def write_report(
    run: RunLike,
    out: Path,
    *,
    against: RunLike | Sequence[RunLike] | None = None,
    pair_by: str = PAIR_BY[0],
    cluster: str | None = None,
    results_dir: str | os.PathLike[str] = "eval_results",
    home: str | None = None,
) -> None:
    """Write the report of a finished run as one HTML file.

    Args:
        run: the run, given as for `tunecheck.compare`.
        out: the file; an existing file is replaced.
        against: runs to compare with row by row, in order; the first is the base of the comparison.
        pair_by: how rows are paired, as in `tunecheck.compare`: by `content` or by `id`.
        cluster: the column that identifies dependent rows, as in `tunecheck.compare`.
        results_dir: the folder with the runs.
        home: the address of the list of runs, if a server has one.

    Raises:
        ConfigurationError: a run has not finished, its files are damaged, no row of one run is in the other, or the
            file cannot be written.
        DataError: a run's rows are damaged.
    """
    against = [] if against is None else against
    # A text is a sequence, too, but names one run: only lists and tuples are several runs.
    others = against if isinstance(against, (list, tuple)) else [against]

    # A page may compare simulated runs, because it marks them.
    settings = ComparisonSettings(allow_simulated=True, pair_by=pair_by, cluster=cluster, rows=0)

    # All runs are read together, because the contents of rows leave out the answers of all of them.
    opened = [*map(read_run, open_runs([*others, run], Path(results_dir), settings))]

    try:
        with replacing(out) as temporary, temporary.open("w", encoding="utf-8", errors="replace") as file:
            _Report(file, opened, settings).write(home)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError(f"the report {out} cannot be written ({reason}): name another file") from None


class _Report:
    """The writer of one report to a file."""

    def __init__(self, file: TextIO, opened: Sequence[ReportedRun], settings: ComparisonSettings) -> None:
        """Prepare to write the last run of `opened`, compared with the runs before it."""
        self._file = file
        self._size = 0
        *others, run = opened
        self._run = run

        self._shared, self._rows = Blocks("shared", self._block), Blocks("rows", self._block)
        self._reader = DetailReader(run, self._shared)
        self._table = RowIndex(run)
        self._failures = Failures()
        self._others = OtherRuns(others, run, self._shared, settings) if others else None

    def write(self, home: str | None) -> None:
        """Write the whole page; `home` is the address of the list of runs, if a server has one."""
        whole = page(REPORT)
        self._file.write(whole.start(f"{self._run.id} · report"))

        self._read_rows()
        for blocks in (self._shared, self._rows):
            blocks.flush()

        self._file.write(embed_json("head", as_data(self._head() | {"home": home})))
        self._file.write(embed_json("index", as_data(compress_text(dumps(self._table.as_json())))))
        self._file.write(whole.end())

    def _block(self, name: str, text: str) -> None:
        """Write a packed block as a data element, and count its size."""
        self._size += len(text)
        self._file.write(embed_json(name, as_data(text)))

    def _read_rows(self) -> None:
        """Add each row to the index and to the failures, and its details to the file until the file is too large."""
        verdicts = {evaluator.name: evaluator.verdicts for evaluator in self._run.evaluators}
        # In the order of the manifest, as when the run printed its first screen.
        readers = [verdicts[name] for name in self._run.manifest.evaluators if name in verdicts]

        # Every row counts in figures and charts, also those beyond the limits of the table and of the file.
        for number, row in enumerate(self._run.rows()):
            details = self._reader.read(number, row)
            self._table.add(row, details)
            if self._run.folder is not None:  # other programs' results have no first screen
                self._failures.add(row, readers)

            others = self._others.answers(number, details) if self._others is not None else {}
            # A row beyond the limits is still in the figures, but cannot be opened.
            if number < MOST_ROWS and self._size < MOST_BYTES:
                self._rows.add({**details.shown, **others})

    def _head(self) -> dict[str, JSON]:
        """Return the content of the page except the table of rows."""
        table, run, folder = self._table, self._run, self._run.folder
        return {
            "run": run.id,
            "facts": [*facts_of(run)],
            "rows": len(table.texts["ids"]),
            "failed_rows": table.failed_rows,
            "simulated": run.manifest.simulated,
            "stopped": stopped_text(run.manifest.stopped),
            "simulated_rows": table.simulated,
            "notes": [*run.notes],
            "first": None if folder is None else _first_screen(folder, self._failures),
            "summary": summary(run, table),
            "charts": charts(run, table),
            "panels": self._reader.panels(),
            "blocks": {"rows": [*self._rows.starts], "shared": [*self._shared.starts], "count": self._rows.count},
            "against": None if self._others is None else self._others.as_json(run),
            "manifest": as_json(folder.manifest_data(), readable=True) if folder is not None else None,
        }


def _first_screen(folder: Run, failures: Failures) -> dict[str, JSON]:
    """Return the run's first screen: its sentences and its table."""
    screen = first_screen(folder, [], failures)
    rows: list[JSON] = [[text_of(cell) for cell in row] for row in screen.table.rows]
    return {"sentences": [*screen.sentences], "heads": [*map(text_of, screen.table.heads)], "rows": rows}
