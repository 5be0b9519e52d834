"""A finished run as a table: the ids of its rows, and one number per row for each metric.

    RunTable
      info       RunInfo: id, numbers of rows and errors
      opened     OpenedRun: where the rows come from (a `RowSource`), and the run's evaluators and settings
      items      Items: what comparisons pair: rows, or all trials of a row together
      columns    MetricColumn by name, such as `match.binary_aggregate`: one number per row
      evaluators EvaluatorColumns by name: its columns, and one `State` per row
      clusters   Clusters: which items depend on each other

| word | meaning |
|---|---|
| trial | one of several answers to the same row (`--repeat`) |
| item | a row, or all trials of a row: the unit that comparisons pair |
| label | a column's value in a row as text, such as `refund` for `domain` |
| slice | the rows with one label of a column that has few labels |
| cluster | rows that depend on each other, such as the turns of one conversation |
| content | a row's inputs without answers; rows with equal content have the same fingerprint |

**Clusters** (`clusters_of`). The first of these columns decides:

1. the column that the caller names (`--cluster`); without labels in this run, there are no clusters
2. the column that the data declares
3. `conversation_id`, if its values repeat
4. the `…_id` column with the fewest values, if its values repeat: at least 10, in at most 20 rows each on average
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from tunecheck._disk import lines, open_regular
from tunecheck._errors import DataError, raise_as
from tunecheck._files import CallsRead, EarlyStop, EvaluatorEntry
from tunecheck._json import JSON, dumps, loads, object_or_empty, value_of
from tunecheck._messages import plural
from tunecheck.pipeline._finished_rows import ResultRow, RowsView
from tunecheck.runs._store import Run

if TYPE_CHECKING:
    from tunecheck.datasets._reading import Dataset

NONE = "none"
"""The name of a cluster column that treats all rows as independent."""

_PREFERRED = "conversation_id"
"""The column that is taken for clusters, even if it has only two values that repeat."""
_LEAST_VALUES, _MOST_ROWS = 10, 20
"""A column is taken for clusters if it has at least this many values, and on average at most this many rows per value.

Categories or authors have fewer values or more rows per value."""

How = Literal["named", "declared", "found"]
"""The source of clusters: named by the caller, declared by the data, or found by a column's repeated values."""

Labels = Sequence[str | None]
"""A column's text in each item, such as `["chat-1", "chat-1", None]`; None for an item without a value."""


class Clusters(msgspec.Struct, frozen=True):
    """A label for each item: items with equal labels are dependent, items labelled None are independent.

    `by` names the column of the labels, `how` where it came from.
    """

    by: str
    how: How
    labels: Labels

    @property
    def count(self) -> int:
        """The number of clusters."""
        # Each row without a label is a cluster of its own.
        return len({*self.labels} - {None}) + self.labels.count(None)

    def __str__(self) -> str:
        why = {"named": "", "declared": " (declared by the data)", "found": " (its values repeat)"}[self.how]
        start = f"{plural(self.count, 'cluster')} by {self.by}{why}"
        return f"{start}: rows of one cluster may depend on each other; --cluster none treats all rows as independent"


def may_cluster(column: str) -> bool:
    """Return True if a column may identify clusters if none is named: its name ends in `_id`."""
    return column.endswith("_id")


def clusters_of(named: str | None, declared: str | None, labels: Mapping[str, Labels]) -> Clusters | None:
    """Return the clusters by the `named` column, else by the `declared` one, else by a column with repeated values.

    If several columns have repeated values, `conversation_id` is taken, else that with the fewest values. Return None
    if the named column has no labels, or if no column fits. `labels` has the labels of each column.
    """
    if named is not None:
        return Clusters(named, "named", labels[named]) if named in labels else None
    if declared is not None and declared in labels:
        return Clusters(declared, "declared", labels[declared])

    found = {name: each for name, each in labels.items() if may_cluster(name) and _are_clusters(name, each)}
    if not found:
        return None
    name = _PREFERRED if _PREFERRED in found else min(found, key=lambda name: len({*found[name]} - {None}))
    return Clusters(name, "found", found[name])


def _are_clusters(name: str, labels: Labels) -> bool:
    """Return True if a column has at least 10 values that repeat, in at most 20 rows per value on average.

    For `conversation_id`, two values that repeat are enough.
    """
    values, rows = len({*labels} - {None}), len(labels) - labels.count(None)
    least_values, most_rows = (2, rows) if name == _PREFERRED else (_LEAST_VALUES, _MOST_ROWS)

    # `values < rows` excludes values that never repeat, such as the ids of requests.
    return least_values <= values < rows <= most_rows * values


# -- sources of rows


_BLOCK, _BLOCK_ROWS = 1 << 20, 256
"""Bytes that are read from a file at once (1 MiB), and lines that are passed on at once."""


class RowSource(Protocol):
    """A source of result rows that can be read several times."""

    def records(self) -> Iterator[ResultRow]:
        """Yield the values of each row by column.

        Raises:
            DataError: a row cannot be read.
        """


class ResultsFile(msgspec.Struct):
    """`eval_results.jsonl`, with one JSON object per line."""

    path: Path

    def records(
        self, numbers: Sequence[int] | None = None, columns: Collection[str] | None = None
    ) -> Iterator[ResultRow]:
        """Yield all rows, or those with these numbers (from 0, rising).

        With `columns`, only the values of these columns are sure to be in the rows.
        """
        rows = RowsView(self.path)
        with raise_as(DataError, self.path):
            yield from (rows if numbers is None else rows.only(numbers)).read(columns)

    def blocks(self) -> Iterator[tuple[int, Sequence[bytes]]]:
        """Yield the lines in blocks, each with the number of its first line, counted from 0."""
        with raise_as(DataError, self.path), open_regular(self.path, buffering=_BLOCK) as file:
            remaining, first_number = lines(file), 0
            while block := [*islice(remaining, _BLOCK_ROWS)]:
                yield first_number, block
                first_number += len(block)


class AzureFile(msgspec.Struct, frozen=True):
    """`evaluation_results.json`: one object with `rows`. Azure writes NaN for missing values."""

    path: Path

    def records(self) -> Iterator[ResultRow]:
        """Yield the values of each row by column.

        Raises:
            DataError: the file is not Azure's results; the text names file and row.
        """
        with raise_as(DataError, self.path):
            # Azure writes the whole file as one object, so it is read whole.
            content = self.path.read_bytes()

        rows = object_or_empty(value_of(content)).get("rows")
        if not isinstance(rows, list):
            raise DataError(
                f'{self.path}: the file is not a JSON object {{"rows": […], …}} as written by Azure: evaluate again'
            )

        for number, row in enumerate(rows):
            yield _check_row(row, f"{self.path}: row {number + 1}")


class AskedRows(msgspec.Struct, frozen=True):
    """The rows of a data set, with the ids and fingerprints that results of a run over them will have."""

    dataset: Dataset

    def records(self) -> Iterator[ResultRow]:
        """Yield each row's id, fingerprint and inputs, under the keys that results have."""
        for row in self.dataset.rows():
            values = {f"inputs.{name}": value for name, value in row.values.items()}
            yield {"row_id": row.id, "row_fingerprint": row.fingerprint, **values}


class GivenRows(msgspec.Struct, frozen=True):
    """Rows in memory: `result["rows"]` of Tunecheck's or Azure's `evaluate`."""

    rows: Sequence[Mapping[str, object]]

    def records(self) -> Iterator[ResultRow]:
        """Yield the values of each row by column, as if they had been read from a file.

        Raises:
            DataError: a row is not an object or has no JSON form.
        """
        for number, row in enumerate(self.rows):
            try:
                written = loads(dumps(row))  # a float's NaN becomes null, as in a file
            except TypeError as error:
                raise DataError(f"row {number + 1} cannot be written as JSON ({error}): convert the value") from None
            yield _check_row(written, f"row {number + 1}")


def _check_row(row: JSON, row_name: str) -> ResultRow:
    """Return the row, which must be an object; `row_name` is its file and number in the error.

    Raises:
        DataError: the row is not an object.
    """
    if not isinstance(row, dict):
        raise DataError(f"{row_name} is not a JSON object: write each row as an object of columns and values")
    return row


# -- parts of a table


Kind = Literal["binary", "score", "count"]
"""Kinds of metrics: pass or fail, a number on a scale, a number of things."""

OWN_SOURCES = ("run", "azure", "rows")
"""The sources of runs that need no plug-in: a run folder, Azure AI Evaluation's results, rows in memory."""


class State:
    """The states of a row for one evaluator: no value, scored, not applicable, or an error."""

    ABSENT, SCORED, NOT_APPLICABLE, ERROR = range(4)


class RunInfo(msgspec.Struct, frozen=True, rename={"errors": "rows_with_an_error"}):
    """The identity and the size of a run.

    `source` is the kind of source: one of `OWN_SOURCES`, or a plug-in's. `place` is its folder or file, `memory` for
    rows in memory. `errors` is the number of `rows` with an error. `trials` is the number of trials per item, rounded
    up. `stopped` is the early decision if the run stopped before its last row. `calls` counts answers with
    calls that the server did not parse.
    """

    id: str
    source: str
    place: str
    rows: int
    errors: int = 0
    simulated: bool = False
    created: str | None = None
    trials: int = 1
    notes: tuple[str, ...] = ()
    stopped: EarlyStop | None = None
    calls: CallsRead | None = None


class OpenedRun(msgspec.Struct, frozen=True):
    """An opened run; its rows have not been read yet, so that `info` counts none.

    `declared` are the evaluators that the run describes; None if it describes none. `answers` are columns of the data
    with the run's answers. `cluster` and `primary` are what the data declares, `groups` the columns of `--group-by`.
    `dataset` is the name of the data set, if known. A plug-in computed `derived` evaluators from the verdicts of the
    named others; they are compared, but gates ignore them.
    """

    info: RunInfo
    rows: RowSource
    declared: Mapping[str, EvaluatorEntry] | None = None
    answers: frozenset[str] = frozenset()
    cluster: str | None = None
    primary: str | None = None
    groups: tuple[str, ...] = ()
    dataset: str | None = None
    derived: Mapping[str, Sequence[str]] = {}

    @property
    def run(self) -> Run | None:
        """The run folder; None for other programs' results and for rows in memory."""
        # A run that has not started has the source "run", too, but no folder: its place is "memory".
        info = self.info
        return Run(Path(info.place)) if info.source == "run" and info.place != "memory" else None


class MetricColumn(msgspec.Struct):
    """One metric's number for each row: 1 for a pass, 0 for a fail, NaN for none.

    For example, the column `match.binary_aggregate` of the evaluator `match` with the values `[1.0, 0.0, nan]`.

    `metric` is the prefix of the keys of its verdicts, such as `<metric>_reason`. `passes` names the column with its
    verdicts, if any. In a column of verdicts, `reasons` has a hash of each failed row's reason (else 0), and
    `has_results` is True if there is a verdict. `repeats` is True if the numbers only repeat the verdicts.
    """

    name: str
    evaluator: str
    metric: str
    kind: Kind
    higher_is_better: bool = True
    bounds: tuple[float, float] | None = None
    passes: str | None = None
    repeats: bool = False
    has_results: bool = False
    # Arrays take 8 bytes per row.
    values: array[float] = msgspec.field(default_factory=lambda: array("d"))
    reasons: array[int] = msgspec.field(default_factory=lambda: array("q"))

    @property
    def figures(self) -> int:
        """The number of rows with a number."""
        return sum(value == value for value in self.values)  # NaN alone differs from itself

    def fill(self, rows: int) -> None:
        """Extend the column with NaN to this number of rows; a column of verdicts also gets empty reasons."""
        self.values.extend([math.nan] * (rows - len(self.values)))
        if self.passes == self.name:
            self.reasons.extend([0] * (rows - len(self.reasons)))


class EvaluatorColumns(msgspec.Struct):
    """One evaluator: the names of its columns, its main column, and the state of each row.

    `entry` is the run's description of the evaluator. `left_out` counts metrics that were not read.
    """

    name: str
    entry: EvaluatorEntry
    columns: list[str] = []
    main: str | None = None
    states: bytearray = msgspec.field(default_factory=bytearray)
    left_out: int = 0

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of scored rows, not applicable rows and errors."""
        states = self.states
        return states.count(State.SCORED), states.count(State.NOT_APPLICABLE), states.count(State.ERROR)


class Items(msgspec.Struct, frozen=True):
    """The units that comparisons pair: each row, or all trials of a row together.

    `contents` are fingerprints, empty if unknown. `of_row` has the number of each row's item, such as `[0, 0, 1, 1]`
    for two rows with two trials each; None if every row is an item.
    """

    ids: Sequence[str]
    contents: Sequence[str]
    of_row: array[int] | None = None


class RunTable(msgspec.Struct):
    """One run's rows.

    `named` is True if ids come from the data, not from the rows' order. `clusters` groups dependent items; None if all
    are independent. `groups` has the items' values of the `--group-by` columns, `slices` those of other columns with
    few, short values. `causes` has the causes of each failed item over all its trials; None if the run records none.
    `latencies_ms` are in no particular order. `column_names` are all columns of the data. `answers` are columns with
    answers, in this run or in a run that was read with it, which are not part of the content.
    """

    info: RunInfo
    opened: OpenedRun
    items: Items
    named: bool
    columns: dict[str, MetricColumn]
    evaluators: dict[str, EvaluatorColumns]
    column_names: Sequence[str]
    row_ids: Sequence[str]
    clusters: Clusters | None = None
    groups: Mapping[str, Labels] = {}
    slices: Mapping[str, Labels] = {}
    causes: Mapping[int, frozenset[str]] | None = None
    latencies_ms: Sequence[float] = ()
    answers: frozenset[str] = frozenset()
