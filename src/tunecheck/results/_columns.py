"""An evaluator's columns in result rows: its verdicts, its numbers and its main metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import UNSET, UnsetType

from tunecheck._files import EvaluatorEntry, MetricEntry
from tunecheck._json import JSON, dumps
from tunecheck.pipeline._finished_rows import PASS_RATE, counted_metric
from tunecheck.results._table import EvaluatorColumns, Kind, MetricColumn, State

MOST_COLUMNS = 300
"""The most metrics read per evaluator."""

_LEFT_OUT = ("_result", "_reason", "_status", "_properties", "_threshold", "_model", "_finish_reason")
_SAMPLES = ("_sample_input", "_sample_output", "_prompt_tokens", "_completion_tokens", "_total_tokens")

_NOT_APPLICABLE, _NO_VERDICT = 2, 3
_CODES = {"fail": 0, "pass": 1, "not_applicable": _NOT_APPLICABLE, "not applicable": _NOT_APPLICABLE}
_NUMBER_OF_CODE = (0.0, 1.0, math.nan, math.nan)
_STATE_OF_CODE = (State.SCORED, State.SCORED, State.NOT_APPLICABLE, State.SCORED)
_KINDS: Mapping[str, Kind] = {"binary": "binary", "score": "score", "count": "count"}

Cell: TypeAlias = "JSON | UnsetType"
Cells: TypeAlias = Sequence[Cell]
Columns: TypeAlias = Mapping[str, Cells]
"""Rows as columns. A cell is UNSET if its row lacks the column; cells that the table does not need may be JSON text."""

MetricColumns: TypeAlias = dict[str, MetricColumn]
"""The columns of a table's metrics, by the metric's full name."""

KeySplitter = Callable[[str], "tuple[str, str] | None"]


def key_splitter(declared: Mapping[str, EvaluatorEntry] | None) -> KeySplitter:
    """Return a function that splits `<evaluator>.<key>` into both parts, or returns None if there is no evaluator.

    The parts are split after a declared name, which may contain dots; if `declared` is None, at the first dot.
    """
    if declared is None:
        return _split_at_first_dot
    names = sorted(declared, key=len, reverse=True)

    def split(rest: str) -> tuple[str, str] | None:
        name = next((name for name in names if rest.startswith(f"{name}.")), None)
        return None if name is None else (name, rest[len(name) + 1 :])

    return split


def _split_at_first_dot(rest: str) -> tuple[str, str] | None:
    """Return the parts before and after the first dot; None if one of them is empty."""
    name, _, key = rest.partition(".")
    return (name, key) if name and key else None


@dataclass(slots=True)
class EvaluatorPart:
    """One evaluator's keys in a run's rows, and the columns that they fill.

    `numbers` has pairs of a key and its column. `verdicts` has a result's key, its reason's key and the column. If
    `nulls_are_errors`, the evaluator failed on a row with nulls under all its keys.
    """

    evaluator: EvaluatorColumns
    declared: EvaluatorEntry
    nulls_are_errors: bool
    keys: list[str] = field(default_factory=list)
    numbers: list[tuple[str, MetricColumn]] = field(default_factory=list)
    verdicts: list[tuple[str, str, MetricColumn]] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, declared: EvaluatorEntry, *, nulls_are_errors: bool) -> EvaluatorPart:
        """Return the empty part of an evaluator, before any row is read."""
        arguments, judge = declared.arguments or {}, declared.judge
        columns = EvaluatorColumns(
            name, [], None, bytearray(), bool(declared.metrics), arguments, declared.fingerprint, judge
        )
        return cls(columns, declared, nulls_are_errors)

    def add_keys(self, added: Sequence[str], columns: MetricColumns) -> None:
        """Add new keys of the evaluator's outputs; make a column for each key with verdicts or numbers."""
        prefix = f"outputs.{self.evaluator.name}."
        self.keys += [prefix + key for key in added]
        known = {key.removeprefix(prefix) for key in self.keys}
        for key in added:
            metric = key.removesuffix("_result")
            if metric and metric != key:
                column = self._column(f"{metric}_passed", metric, MetricEntry(metric, "binary"), columns)
                if column is not None:
                    column.passes = column.name
                    self.verdicts.append((prefix + key, f"{prefix}{metric}_reason", column))
            elif not key.endswith((*_LEFT_OUT, *_SAMPLES)) and not _repeats_another(key, known):
                entry = self.declared.metric(key) or MetricEntry(key, "binary")
                column = self._column(key, key, entry, columns)
                if column is not None:
                    self.numbers.append((prefix + key, column))

    def _column(self, key: str, metric: str, entry: MetricEntry, columns: MetricColumns) -> MetricColumn | None:
        """Return the column of a key; add it to `columns` if it is new.

        Return None, and count the key as left out, if the evaluator already has 300 columns.
        """
        evaluator = self.evaluator
        name = f"{evaluator.name}.{key.replace('[', '(').replace(']', ')')}"  # brackets after a metric name a slice
        if name not in columns and len(evaluator.columns) >= MOST_COLUMNS:
            evaluator.left_out += 1
            return None
        if name not in columns:
            kind = _KINDS.get(entry.kind, "score")
            columns[name] = MetricColumn(name, evaluator.name, metric, kind, entry.higher_is_better, entry.bounds)
            evaluator.columns.append(name)
        return columns[name]

    def add_block(self, columns: Columns, count: int, start: int) -> bytearray:
        """Append the values of a block of `count` rows to the evaluator's columns; return the state of each row.

        `start` is the number of rows before the block.
        """
        absent: Cells = [UNSET] * count
        failed = [cell is not UNSET for cell in columns.get(f"error.{self.evaluator.name}", absent)]
        all_worked = not any(failed)

        def cells(key: str) -> Cells:
            """Return the block's cells under a key, UNSET for rows on which the evaluator failed."""
            found = columns.get(key, absent)
            return found if all_worked else [UNSET if bad else cell for bad, cell in zip(failed, found, strict=True)]

        codes = [_append_verdicts(cells(key), cells(reason), start, column) for key, reason, column in self.verdicts]
        numbers = [_append_numbers(cells(key), start, column) for key, column in self.numbers]
        no_verdicts = [_NO_VERDICT] * count
        lowest = [*map(min, no_verdicts, *codes)] if codes else no_verdicts
        states = bytearray(map(_STATE_OF_CODE.__getitem__, lowest))
        if not all_worked or _NO_VERDICT in lowest:
            for place, code in enumerate(lowest):
                if failed[place]:
                    states[place] = State.ERROR
                elif code == _NO_VERDICT and all(math.isnan(values[place]) for values in numbers):
                    states[place] = self._state_without_value(columns, place)
        self.evaluator.states.extend(bytes(start - len(self.evaluator.states)) + states)
        return states

    def _state_without_value(self, columns: Columns, place: int) -> int:
        """Return the state of the row at this place in the block, which has neither a verdict nor a number."""
        own = [columns[key][place] for key in self.keys if columns[key][place] is not UNSET]
        if not own:
            target_failed = "error.target" in columns and columns["error.target"][place] is not UNSET
            return State.ERROR if target_failed else State.ABSENT
        all_null = all(value is None for value in own)
        return State.ERROR if self.nulls_are_errors and all_null else State.NOT_APPLICABLE


def _append_verdicts(results: Cells, reasons: Cells, start: int, column: MetricColumn) -> Sequence[int]:
    """Append verdicts as 1, 0 or NaN to a column; return for each row a code: 0 fail, 1 pass, 2 not applicable, 3 none.

    Append the hash of a failed row's reason, else 0. `start` is the number of rows before the block.
    """
    try:
        codes = [_CODES.get(cell, _NO_VERDICT) for cell in results]  # type: ignore[arg-type]
    except TypeError:  # a value is a list or an object, which cannot be hashed
        codes = [_CODES.get(str(cell), _NO_VERDICT) for cell in results]
    column.has_results = column.has_results or min(codes) != _NO_VERDICT
    column.fill(start)
    column.values.extend(map(_NUMBER_OF_CODE.__getitem__, codes))
    column.reasons.extend([0 if code else _reason_hash(reason) for code, reason in zip(codes, reasons, strict=True)])
    return codes


def _append_numbers(cells: Cells, start: int, column: MetricColumn) -> Sequence[float]:
    """Append each cell's number to a column, NaN for a cell without one; return the numbers.

    A binary column becomes a score at the first number other than 0 and 1. `start` is the number of rows before the
    block.
    """
    values = [cell if type(cell) is float else number_of(cell) for cell in cells]
    column.fill(start)
    column.values.extend(values)
    if column.kind == "binary" and not all(value in (0.0, 1.0) or value != value for value in values):
        column.kind = "score"
    return values


def number_of(value: Cell) -> float:
    """Return a value as a float; NaN if it is not a number or too large for a float."""
    try:
        return float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:
        return math.nan


def _reason_hash(reason: Cell) -> int:
    """Return a hash by which reasons are compared; never 0, which means no reason."""
    return hash(reason if isinstance(reason, str) else dumps(None if reason is UNSET else reason)) or 1


def _repeats_another(key: str, known: set[str]) -> bool:
    """Return True if a key repeats a known one: `m_score` repeats `m`, and `m_passed` repeats `m_result`."""
    if key.endswith("_score"):
        return key.removesuffix("_score") in known
    return key.endswith("_passed") and f"{key.removesuffix('_passed')}_result" in known


def choose_main_metric(evaluator: EvaluatorColumns, columns: MetricColumns, declared: EvaluatorEntry) -> None:
    """Drop an evaluator's columns without numbers, name its pass rate, and choose its main metric.

    The main metric is the pass rate of its primary metric if rows passed or failed, else the number that it declares as
    its primary, else the number with the evaluator's name, else the first number.
    """
    name = evaluator.name
    with_result = [columns[each].metric for each in evaluator.columns if columns[each].has_results]
    counted = counted_metric(with_result, name, declared.primary)
    for each in list(evaluator.columns):
        if all(value != value for value in columns[each].values):
            del columns[each]
            evaluator.columns.remove(each)
    verdicts = [columns[each] for each in evaluator.columns if columns[each].passes]
    primary = next((column for column in verdicts if column.metric == counted), None)
    if primary is not None:
        del columns[primary.name]
        evaluator.columns[evaluator.columns.index(primary.name)] = f"{name}.{PASS_RATE}"
        primary.name = primary.passes = f"{name}.{PASS_RATE}"
        columns[primary.name] = primary
    for verdict in verdicts:
        _link_score_to_verdict(verdict, evaluator, columns, declared)
    evaluator.main = _main_column(evaluator, columns, primary, declared)


def _link_score_to_verdict(
    verdict: MetricColumn, evaluator: EvaluatorColumns, columns: MetricColumns, declared: EvaluatorEntry
) -> None:
    """Link a metric's score column, if any, to its column of verdicts; record whether it only repeats the verdicts."""
    name = evaluator.name
    number = columns.get(f"{name}.{verdict.metric}") or columns.get(f"{name}.{verdict.metric}_score")
    if number is None or number is verdict:
        return
    entry = declared.metric(verdict.metric)
    has_same_values = number.values.tobytes() == verdict.values.tobytes()
    number.repeats = has_same_values if entry is None else entry.kind == "binary"
    number.passes, number.metric = verdict.name, verdict.metric


def _main_column(
    evaluator: EvaluatorColumns, columns: MetricColumns, primary: MetricColumn | None, declared: EvaluatorEntry
) -> str | None:
    """Return the name of the evaluator's main column: its pass rate, declared primary, or own name; else its first.

    None if it has no column. `primary` is the column of the pass rate, if there is one.
    """
    if primary is not None:
        return primary.name
    named = (f"{evaluator.name}.{name}" for name in (declared.primary, evaluator.name))
    return next((own for own in named if own in columns), next(iter(evaluator.columns), None))
