"""The results of a run: each row's result in `eval_results.jsonl`, and metrics from the verdicts on all rows.

Metrics are means, pass rates and counts, over all rows and by group. Sums are exact, and keys and groups follow the
order of the rows, so the order in which rows finish changes nothing.

`ResultsWriter` writes the rows, `Aggregator` counts them. A row counts as follows:

*   An evaluator without an output or with an error adds one to its `error_count`.
*   Each number in an output goes into the mean of its key, even if the evaluator also has an error. Thresholds and
    token counts have no mean.
*   The result of the metric that counts is a pass, a fail, or not applicable. The pass rate is passes / (passes +
    fails).
*   The row's cause goes into `cause.<code>`, a share of all rows.

For example, two rows have the outputs `{"match": 1.0, "match_result": "pass"}` and `{"match": 0.0, "match_result":
"fail"}`. Then the metrics are `match.match` 0.5, `match.binary_aggregate` 0.5, `match.scored_count` 2,
`match.not_applicable_count` 0 and `match.error_count` 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, pairwise
from operator import itemgetter, neg
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct, to_builtins

from tunecheck._disk import open_regular, put_in_place
from tunecheck._errors import ConfigurationError
from tunecheck._faults import CAUSE_METRIC, Fault, fault_json, order_causes
from tunecheck._files import Failure
from tunecheck._json import JSON, dumps, dumps_line
from tunecheck._loops import LoopThread
from tunecheck._targets import Row
from tunecheck.datasets._reading import SOURCE_ID, is_trial
from tunecheck.formats._reading import RowCache
from tunecheck.pipeline._finished_rows import (
    PASS_RATE,
    RESULT,
    WORDS,
    ResultRow,
    RowsView,
    VerdictReader,
    counted_metric,
    counted_metrics,
)
from tunecheck.pipeline._scoring import BoundEvaluator, Output, Partial, as_output, has_no_mean
from tunecheck.pipeline._worker_queues import CRASHED, LATE, Executor, ThreadExecutor, Work

_COPY_BLOCK = 1 << 20
"""Bytes that are written at once when the rows are sorted into another file."""

MAX_GROUPS = 1_000
"""Maximum number of values of a grouping column; a column with more identifies rows rather than grouping them."""

_LONGEST_VALUE = 200
"""Maximum number of characters of a value of a grouping column."""

Metrics: TypeAlias = dict[str, JSON]
"""Metrics by name, such as `match.binary_aggregate`."""

_AGGREGATE_S = 3_600.0
"""Time limit for an evaluator's own aggregation, which reads a whole run."""

_CLOSING_S = 5.0
"""Time limit in seconds for ending the threads and processes of evaluators' own aggregations."""


class RowState(Struct):
    """One row on its way through the pipeline (a Struct, because one is made for each row)."""

    row: Row
    group: str | None = None
    """Rows of one group are answered one after another."""
    waiting: int = 0
    """Number of worker queues that have not finished this row."""
    abandoned: bool = False
    """True if the run stops before the row has its result."""
    kind: str | None = None
    """`call` or `answer`, by the row's ground truth; None without one."""
    target: Mapping[str, JSON] = {}
    """The columns of the target's answer; empty if the target failed."""
    outputs: dict[str, Output] = {}
    """The outputs by evaluator."""
    errors: dict[str, Failure] = {}
    """The errors by stage: `target`, or an evaluator's name."""
    unread: bool = False
    """True if the calls in the response's text do not count."""
    cause: Fault | None = None
    """The cause of the row's failure: a fault with a code of codes.toml."""
    readings: RowCache | None = None
    """The readings of its values that pure evaluators share."""


def check_columns(columns: Iterable[str], evaluators: Iterable[str]) -> None:
    """Raise ValueError if a column of the answer has the prefix of an evaluator's results."""
    for column in columns:
        for name in evaluators if "." in column else ():
            if column.startswith(f"{name}."):
                raise ValueError(f"the answer's column {column!r} clashes with evaluator {name!r}: rename the column")


def result_row(state: RowState, evaluators: Sequence[str]) -> ResultRow:
    """Return a row of `eval_results.jsonl`: inputs, answer, cause, verdicts and errors, by order of `evaluators`.

    Its keys are for example `row_id`, `cause`, `inputs.question`, `outputs.response`, `outputs.match.match_result` and
    `error.target`, in this order.
    """
    row = state.row
    result: ResultRow = {"row_id": row.id, "row_fingerprint": row.fingerprint}
    if state.kind is not None:
        result["row_kind"] = state.kind

    evidence: dict[str, JSON] = {"code": None} if state.cause is None else fault_json(state.cause)
    result["cause"] = evidence.pop("code")
    if evidence:
        result["cause_evidence"] = evidence

    # Loops, because merging a dict for each part takes half as long again.
    for column, value in row.values.items():
        result[f"inputs.{column}"] = value
    for column, value in state.target.items():
        result[f"outputs.{column}"] = value
    for name in evaluators:
        for key, value in state.outputs.get(name, {}).items():
            result[f"outputs.{name}.{key}"] = value

    for stage in ("target", *evaluators):  # in a fixed order, because errors occur in a different order each time
        if stage in state.errors:
            result[f"error.{stage}"] = to_builtins(state.errors[stage])
    return result


class ResultsWriter:
    """Writes `eval_results.jsonl`: rows are written as they finish and sorted at the end.

    Only each row's offset is kept in memory (8 bytes a row), so a slow row delays no other.
    """

    def __init__(self, path: Path) -> None:
        """Create the partial file next to `path`; `finish` gives it its name."""
        self._path = path
        self._partial = path.with_name(path.name + ".partial")
        self._file = open_regular(self._partial, "wb", buffering=1 << 18)
        self._starts = array("Q")
        """The offset of each row plus 1, by the row's index; 0 marks a missing row."""
        self._end = 0
        self.indices: Sequence[int] | None = None
        """The rows' indices in the data, if the finished file lacks some rows."""
        self._first_rows: dict[tuple[str, ...], int] = {}
        """The index of the first row for each set of columns that rows have."""

    @property
    def columns(self) -> list[str]:
        """All columns of the rows so far, in the order of the data."""
        return _keys_in_order(self._first_rows)

    def write(self, index: int, row: ResultRow) -> Failure | None:
        """Write one finished row; return None, or the failure that names values without a JSON form.

        Such values become null in the row.
        """
        failure = None
        try:
            line = dumps_line(row)
        except TypeError:
            failure = _remove_values_without_json(row)
            line = dumps_line(row)

        # The first rows give the columns the order of the data, in whatever order rows finish.
        columns = tuple(row)
        self._first_rows[columns] = min(index, self._first_rows.get(columns, index))

        if index >= len(self._starts):
            self._starts.extend([0] * (index + 1 - len(self._starts)))

        self._starts[index] = self._end + 1  # 0 marks a missing row
        self._file.write(line)
        self._end += len(line)
        return failure

    def finish(self) -> RowsView:
        """Sort the rows into the order of the data, move the file to its final name, and return a view of it.

        Raises:
            OSError: the disk is full.
        """
        self._file.close()

        # A run that stopped early has no results for some rows. Their start is 0, all others are offsets plus 1.
        if 0 in self._starts:
            self.indices = [index for index, start in enumerate(self._starts) if start]

        starts = array("Q", (start - 1 for start in self._starts if start))
        if any(later < earlier for earlier, later in pairwise(starts)):
            starts = self._sort_file(starts)

        put_in_place(self._partial, self._path)
        return RowsView(self._path, starts, self.indices)

    def _sort_file(self, starts: array[int]) -> array[int]:
        """Rewrite the partial file in the order of the data; return each row's new offset.

        `starts` has the rows' offsets in the unsorted file, in the order of the data.
        """
        ordered = self._partial.with_name(self._partial.name + ".sorted")
        final = array("Q")
        position = 0

        with self._partial.open("rb") as source, open_regular(ordered, "wb", _COPY_BLOCK) as target:
            for start in starts:
                source.seek(start)
                line = source.readline()
                final.append(position)
                position += target.write(line)
        ordered.replace(self._partial)
        return final

    def abandon(self) -> None:
        """Close and remove the partial file; the journal contains its data."""
        with contextlib.suppress(OSError):  # closing writes the last block, which fails on a full disk
            self._file.close()
        with contextlib.suppress(OSError):  # the folder may have become read-only
            self._partial.unlink()


def _remove_values_without_json(row: ResultRow) -> Failure:
    """Set the row's values without a JSON form to None; store the error that names them in the row and return it."""
    problems = []
    for column, value in row.items():
        try:
            dumps(value)
        except TypeError as error:
            problems.append(f"{column}: {error}")
            row[column] = None

    failure = Failure("TypeError", f"values left out of the results: {'; '.join(problems)}")
    row["error.results"] = to_builtins(failure)
    return failure


# -- evaluators' own aggregations


class EvaluatorRow(dict[str, JSON]):
    """One output of an evaluator; its keys are also attributes, as in Azure AI Evaluation."""

    def __getattr__(self, name: str) -> JSON:
        """Return the value of the key with this name; raise AttributeError without one."""
        if name not in self:
            raise AttributeError(name)
        return self[name]


class EvaluatorRows(Sequence[EvaluatorRow]):
    """All outputs of one evaluator, without rows that failed: the argument of `__aggregate__`.

    Iterating reads the rows from their file. Access by index and `len` read all outputs once and keep them.
    """

    def __init__(self, name: str, rows: RowsView, keys: Iterable[str]) -> None:
        """Prepare to read the outputs of evaluator `name` from `rows`; `keys` are those of its outputs."""
        self._columns = {f"outputs.{name}.{key}": key for key in keys}
        self._error = f"error.{name}"
        self._rows = rows

    def __iter__(self) -> Iterator[EvaluatorRow]:
        # list() calls __len__ first, which reads all outputs into `_all`. They need not be read again.
        yield from vars(self).get("_all") or self._read()

    def _read(self) -> Iterator[EvaluatorRow]:
        """Yield the evaluator's output of each row, without rows on which it failed or gave nothing."""
        for row in self._rows.read([self._error, *self._columns]):
            if self._error not in row:
                output = {key: row[column] for column, key in self._columns.items() if column in row}
                if output:
                    yield EvaluatorRow(output)

    @cached_property
    def _all(self) -> list[EvaluatorRow]:
        """All outputs."""
        return [*self._read()]

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, index: int | slice) -> EvaluatorRow | list[EvaluatorRow]:  # type: ignore[override]
        return self._all[index]


def _aggregated(name: str, evaluator: Callable[..., object], rows: RowsView, keys: Iterable[str]) -> Output | Partial:
    """Return the evaluator's `__aggregate__` of all its outputs, as plain data; it may run in a worker process."""
    aggregate = evaluator.__aggregate__  # type: ignore[attr-defined]
    return as_output(aggregate(EvaluatorRows(name, rows, keys)), "aggregate")


class OwnAggregates:
    """Calls evaluators' `__aggregate__` and keeps its errors; after a timeout or crash it is not called for groups."""

    def __init__(self) -> None:
        """Start without executors and errors; an executor is opened for each evaluator at its first aggregation."""
        self.isolated: set[str] = set()
        """The names of evaluators whose aggregation runs in a process."""
        self._executors: dict[str, Executor] = {}
        self._loop: LoopThread | None = None
        self._abandoned: set[str] = set()
        """The names of evaluators whose aggregation timed out or crashed."""
        self.errors: dict[str, Failure] = {}
        """The first error of each evaluator's aggregation: an exception, or dropped keys."""

    def metrics(self, evaluator: BoundEvaluator, rows: RowsView, keys: Sequence[str]) -> Metrics:
        """Return what the evaluator's `__aggregate__` computes from these rows, by `<evaluator>.<key>`.

        `keys` are the keys of its outputs. The result is empty if it has no `__aggregate__`, or if that fails (then
        `errors` has the error). It is also empty once a call for other rows has timed out or crashed.
        """
        name = evaluator.name
        if evaluator.aggregate is None or name in self._abandoned:
            return {}

        executor = self._executors.get(name) or self._open_executor(evaluator)
        self._loop = self._loop or LoopThread("aggregate")  # the caller may already run an event loop
        reply = self._loop.submit(executor.run([Work([{"rows": rows, "keys": keys}], None)])).result()
        outcome = reply.outcomes[0][0]  # of the only work and the only evaluator

        if isinstance(outcome, Failure):
            self.errors.setdefault(name, outcome)
            # A call for a group could take as long again.
            if outcome.type in (LATE, CRASHED):
                self._abandoned.add(name)
            return {}

        if isinstance(outcome, Partial):
            self.errors.setdefault(name, Failure(TypeError.__name__, "; ".join(outcome.lost.values())))
        output = outcome.output if isinstance(outcome, Partial) else outcome or {}
        return {f"{name}.{key}": value for key, value in output.items()}

    def _open_executor(self, evaluator: BoundEvaluator) -> Executor:
        """Return a new executor for the evaluator's `__aggregate__`: a process if it is isolated, else a thread."""
        function = partial(_aggregated, evaluator.name, evaluator.function)
        # `pure`: only `__aggregate__` gets these arguments, so no copies.
        call = replace(evaluator, function=function, pure=True)

        if evaluator.name in self.isolated:
            from tunecheck.pipeline._workers import ProcessExecutor

            executor: Executor = ProcessExecutor([call], _AGGREGATE_S, workers=1)
        else:
            executor = ThreadExecutor([call], 1, _AGGREGATE_S)

        self._executors[evaluator.name] = executor
        return executor

    def close(self) -> None:
        """End the threads and worker processes; wait up to 5 seconds for them."""
        if self._loop is not None:
            self._loop.end(lambda: asyncio.gather(*(executor.close() for executor in self._executors.values())))
            wait([self._loop.ended], _CLOSING_S)


# -- exact sums in constant memory (Shewchuk 1997)


_MOST_NUMBERS = 1_024
"""Number of values that are kept before they are condensed."""


@dataclass(eq=False, slots=True)
class ExactSum:
    """An exact running sum: a few floats with the same exact sum as all numbers that were appended to `numbers`."""

    numbers: array[float] = field(default_factory=lambda: array("d"))
    _removed: int = 0

    @property
    def count(self) -> int:
        """How many numbers were appended."""
        return self._removed + len(self.numbers)

    def condense(self) -> None:
        """Replace the kept numbers by fewer ones with the same sum."""
        count = self.count
        self.numbers[:] = array("d", _condensed(self.numbers))
        self._removed = count - len(self.numbers)


def _condensed(numbers: Sequence[float]) -> list[float]:
    """Return a few floats with the same exact sum as the numbers: the rounded sum, its rounding error, and so on.

    For example, ten times 0.1 become `[1.0, 5.551115123125783e-17]`. A sum that is not finite is returned as that
    single value.
    """
    parts: list[float] = []
    try:
        while error := math.fsum(chain(numbers, map(neg, parts))):  # what the parts so far lack of the exact sum
            if not math.isfinite(error):
                return [error]
            parts.append(error)
    except (OverflowError, ValueError):  # the sum is outside the range of a float
        return [math.inf]
    return parts


def mean_of_sums(sums: Sequence[ExactSum]) -> float | None:
    """Return the mean of all numbers in these sums; None if it is not a finite number."""
    try:
        mean = math.fsum(chain.from_iterable(part.numbers for part in sums)) / sum(part.count for part in sums)
    except (OverflowError, ValueError):  # the sum leaves the range of a float
        return None
    return mean if math.isfinite(mean) else None


# -- counting


class _Tally(msgspec.Struct):
    """The counts of one evaluator in one cell.

    `results` counts pass, fail and not applicable by metric, `numbers` has the sum of each key's numbers. For example,
    the output `{"match": 1.0, "match_result": "pass"}` adds 1.0 to `numbers["match"]`, and one to
    `results["match"]["pass"]`.
    """

    scored: int = 0
    errors: int = 0
    outputs: int = 0
    results: defaultdict[str, Counter[str]] = msgspec.field(default_factory=lambda: defaultdict(Counter))
    numbers: defaultdict[str, ExactSum] = msgspec.field(default_factory=lambda: defaultdict(ExactSum))
    first_rows: dict[tuple[str, ...], int] = msgspec.field(default_factory=dict)
    """The index of the first row for each set of keys that outputs have."""
    without_mean: dict[tuple[str, ...], frozenset[str]] = msgspec.field(default_factory=dict)
    """The keys without a mean in each set of keys, such as thresholds."""

    def add(self, index: int, output: Output) -> None:
        """Count the output of the row with this index: its keys, `_result` values, and numbers for the means."""
        keys = tuple(output)
        if index < self.first_rows.setdefault(keys, index):
            self.first_rows[keys] = index

        # All outputs with the same keys have the same keys without a mean.
        without_mean = self.without_mean.get(keys)
        if without_mean is None:
            without_mean = self.without_mean[keys] = frozenset(key for key in keys if has_no_mean(key, output))

        for key, value in output.items():
            if isinstance(value, str):
                if value in WORDS and key.endswith(RESULT):
                    self.results[key.removesuffix(RESULT)][WORDS[value]] += 1
            elif isinstance(value, (int, float)) and key not in without_mean:
                try:
                    self.numbers[key].numbers.append(value)
                except OverflowError:  # an integer outside the range of a float: the mean becomes None
                    self.numbers[key].numbers.append(math.inf)

        self.outputs += 1
        if self.outputs % _MOST_NUMBERS == 0:
            for each in self.numbers.values():
                each.condense()


class _Cell(msgspec.Struct):
    """The rows with one value of a grouping column; metrics over all rows add up the counts of a column's cells."""

    tallies: list[_Tally]
    """The counts of each evaluator, in the order of the run's evaluators."""
    causes: Counter[str] = msgspec.field(default_factory=Counter)
    rows: array[int] = msgspec.field(default_factory=lambda: array("Q"))
    """Indices of the rows (8 bytes a row)."""


class Aggregator:
    """Counts finished rows, over all rows and for each value of the `group_columns`."""

    def __init__(self, evaluators: Sequence[BoundEvaluator], group_columns: Sequence[str]) -> None:
        """Start counting; `row_kind` as a group column is each row's kind, any other one a column of the data."""
        self._evaluators = evaluators
        self._columns = group_columns
        # Each row is in one cell of each column. Without columns, cells by kind count all rows.
        self._cells: dict[str, dict[str | None, _Cell]] = {column: {} for column in group_columns or ["row_kind"]}
        self.own = OwnAggregates()

    def close(self) -> None:
        """End the threads and worker processes of evaluators' own aggregations."""
        self.own.close()

    def add(self, state: RowState) -> None:
        """Count one finished row.

        An output counts for the means even if its evaluator also failed; the row then counts as an error.

        Raises:
            ConfigurationError: a grouping column has too many values.
        """
        for column in self._cells:
            cell = self._cell_of(column, _group_value(state, column))
            cell.rows.append(state.row.index)
            if state.cause is not None:
                cell.causes[state.cause.code] += 1

            for evaluator, tally in zip(self._evaluators, cell.tallies, strict=True):
                output = state.outputs.get(evaluator.name)
                failed = output is None or evaluator.name in state.errors
                tally.errors += failed
                tally.scored += not failed
                if output is not None:
                    tally.add(state.row.index, output)

    def _cell_of(self, column: str, value: str | None) -> _Cell:
        """Return the cell of a grouping column's value; add it if there is none.

        Raises:
            ConfigurationError: the column has too many values.
        """
        cells = self._cells[column]
        if value not in cells:
            if len(cells) >= MAX_GROUPS:
                raise ConfigurationError(f"group_by: {column!r} has over {MAX_GROUPS:,} values: name another column")
            cells[value] = _Cell([_Tally() for _ in self._evaluators])
        return cells[value]

    def metrics(self, rows: RowsView) -> tuple[Metrics, dict[str, dict[str, Metrics]]]:
        """Return the metrics over all rows, and by grouping column and value (as text): `{column: {value: metrics}}`.

        `rows` are read again only for evaluators with their own `__aggregate__`.
        """
        # The cells of any one column have all rows.
        all_cells = [*next(iter(self._cells.values())).values()]
        row_count = sum(len(cell.rows) for cell in all_cells)
        counted = self._counted_metrics(all_cells)
        overall = self._metrics(all_cells, rows, counted)
        by_group: dict[str, dict[str, Metrics]] = {column: {} for column in self._columns}

        for column, groups in by_group.items():
            # Rows without a value belong to no group. Groups are in the order of their first rows.
            cells = {value: cell for value, cell in self._cells[column].items() if value is not None}
            for value in sorted(cells, key=lambda value: min(cells[value].rows)):
                indices, metrics = cells[value].rows, overall
                # An `__aggregate__` of all rows may be slow or random, so it is not repeated for a group of all rows.
                if len(indices) < row_count:
                    metrics = self._metrics([cells[value]], rows.only(sorted(indices)), counted)
                groups[value] = metrics | {"row_count": len(indices)}
        return overall, by_group

    def _metrics(self, cells: Sequence[_Cell], rows: RowsView, counted: Sequence[str | None]) -> Metrics:
        """Return all evaluators' metrics over the rows of these cells, with the share of each failure cause.

        `counted` has for each evaluator the metric that decides pass or fail, or None.
        """
        metrics: Metrics = {}
        for position, evaluator in enumerate(self._evaluators):
            tallies = [cell.tallies[position] for cell in cells]
            own_metrics = _evaluator_metrics(evaluator.name, tallies, counted[position])
            metrics |= own_metrics
            if own_metrics[f"{evaluator.name}.scored_count"]:
                metrics |= self.own.metrics(evaluator, rows, _keys_in_order(*(tally.first_rows for tally in tallies)))

        # A cause's share is out of all rows of these cells, also passed ones.
        causes, count = sum((cell.causes for cell in cells), Counter[str]()), sum(len(cell.rows) for cell in cells)
        return metrics | {f"{CAUSE_METRIC}{code}": causes[code] / count for code in order_causes(causes)}

    def _counted_metrics(self, cells: Sequence[_Cell]) -> list[str | None]:
        """Return for each evaluator the metric that decides pass or fail in all groups; None if it has no results."""
        counted = []
        for position, evaluator in enumerate(self._evaluators):
            tallies = [cell.tallies[position] for cell in cells]
            result_keys = {f"{metric}{RESULT}" for tally in tallies for metric in tally.results}
            keys = _keys_in_order(*(tally.first_rows for tally in tallies))
            metrics = [key.removesuffix(RESULT) for key in keys if key in result_keys]
            counted.append(counted_metric(metrics, evaluator.name, evaluator.primary))
        return counted


def _group_value(state: RowState, column: str) -> str | None:
    """Return a row's value of a grouping column as text of at most 200 characters; None without a value.

    The column `row_kind` is not in the data: its value is the row's computed kind. A value that is no text becomes
    JSON, or the name of its type if it has no JSON form.
    """
    value = state.kind if column == "row_kind" else state.row.values.get(column)

    if value is None or isinstance(value, str):
        return None if value is None else value[:_LONGEST_VALUE]

    try:
        return dumps(value).decode()[:_LONGEST_VALUE]
    except TypeError:
        return f"a {type(value).__name__}"


def _evaluator_metrics(name: str, tallies: Sequence[_Tally], counted: str | None) -> Metrics:
    """Return an evaluator's means, pass rate and counts; `counted` is the metric that decides pass or fail."""
    metrics: Metrics = {}
    for key in _keys_in_order(*(tally.first_rows for tally in tallies)):
        if sums := [tally.numbers[key] for tally in tallies if key in tally.numbers]:
            metrics[f"{name}.{key}"] = mean_of_sums(sums)

    results: Counter[str] = Counter()
    if counted is not None:
        for tally in tallies:
            results.update(tally.results.get(counted, ()))

    if results:
        judged = results["pass"] + results["fail"]
        # If the metric applies to no row, the pass rate is null.
        metrics[f"{name}.{PASS_RATE}"] = results["pass"] / judged if judged else None

    scored = sum(tally.scored for tally in tallies)
    return metrics | {
        f"{name}.scored_count": scored - results["not_applicable"],
        f"{name}.not_applicable_count": results["not_applicable"],
        f"{name}.error_count": sum(tally.errors for tally in tallies),
    }


def _keys_in_order(*first_rows: Mapping[tuple[str, ...], int]) -> list[str]:
    """Return all keys in the order of the rows; `first_rows` map each set of keys to the index of its first row."""
    by_first_row = sorted(chain.from_iterable(rows.items() for rows in first_rows), key=itemgetter(1))
    return list(dict.fromkeys(key for keys, _ in by_first_row for key in keys))


# -- metrics of a run with several trials of each item

_MOST_POWERS = 5
"""Number of powers of two that k takes: 1, 2, 4, 8 and 16."""


def trial_metrics(rows: Iterable[ResultRow], evaluators: Sequence[BoundEvaluator]) -> dict[str, JSON]:
    """Return `<evaluator>.pass_at_<k>` and `<evaluator>.pass_hat_<k>` for some k up to the number of trials.

    A row is one trial of an item; the result is empty if the rows are no trials. Items with fewer than k judged trials
    are excluded from the figures for k; without any item the figures are null. With 10 trials, k is 1, 2, 4, 8 and 10.
    """
    from tunecheck.statistics._estimates import pass_at_k, pass_hat_k  # only runs with trials need them

    counted = counted_metrics(rows, {evaluator.name: evaluator.primary for evaluator in evaluators})
    readers = [VerdictReader(name, metric) for name, metric in counted.items() if metric is not None]
    passed: Counter[tuple[str, str]] = Counter()
    judged: dict[str, Counter[str]] = {reader.name: Counter() for reader in readers}
    trial_counts: Counter[str] = Counter()

    for row in rows:
        item = str(row.get(f"inputs.{SOURCE_ID}"))
        if not is_trial(str(row["row_id"]), item):
            return {}
        trial_counts[item] += 1

        for reader in readers:
            if (word := reader.word(row)) in ("pass", "fail"):
                # Rows with an error, without a result, or to which the metric does not apply are no judged trials.
                passed[reader.name, item] += word == "pass"
                judged[reader.name][item] += 1

    metrics: dict[str, JSON] = {}
    most_trials = max(trial_counts.values(), default=1)
    powers = [2**power for power in range(_MOST_POWERS) if 2**power < most_trials]  # few enough for a table

    for name, items in judged.items():
        trials = [(passed[name, item], count) for item, count in items.items()]
        for k in [*powers, most_trials] if trials and most_trials > 1 else ():
            metrics[f"{name}.pass_at_{k}"] = pass_at_k(trials, k)
            metrics[f"{name}.pass_hat_{k}"] = pass_hat_k(trials, k)
    return metrics
