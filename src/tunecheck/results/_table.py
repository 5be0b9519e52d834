"""A finished run as a table: its rows' names, and for each metric one number a row."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
from msgspec import UNSET
from msgspec.structs import astuple

from tunecheck._disk import lines, open_regular
from tunecheck._errors import DataError, raise_as
from tunecheck._files import CallsRead, EarlyStop
from tunecheck._json import JSON, dumps, loads
from tunecheck._messages import plural
from tunecheck.pipeline._finished_rows import ResultRow, read_row

if TYPE_CHECKING:
    from tunecheck.datasets._reading import Dataset

NONE = "none"
"""Named as the column, it takes all rows as independent."""

_FIRST = "conversation_id"
_LEAST_VALUES, _MOST_ROWS = 10, 20
"""What a column must have to be found: at least this many values, on average with at most this many rows. A category,
or the author of the rows, has fewer values or more rows."""

How = Literal["named", "declared", "found"]
"""Who says that rows are not independent: who asks, the data, or a column's values."""

Labels = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class Clusters:
    """A label for each item: items with equal labels are dependent, items labelled None are independent.

    `by` names the column of the labels, `how` where it came from.
    """

    by: str
    how: How
    labels: Labels

    @property
    def count(self) -> int:
        """The number of clusters."""
        return _values(self.labels) + self.labels.count(None)

    def __str__(self) -> str:
        why = {"named": "", "declared": ", as the data says", "found": ", whose values repeat"}[self.how]
        start = f"{plural(self.count, 'cluster')} by {self.by}{why}"
        return f"{start}: the rows of one are not independent; --cluster none takes them to be"


def may_cluster(column: str) -> bool:
    """Whether a column of the data is looked at where none is named."""
    return column.endswith("_id")


def clusters_of(named: str | None, declared: str | None, labels: Mapping[str, Labels]) -> Clusters | None:
    """The clusters by the column that is named, else by the declared one, else by one that is found.

    Found is `conversation_id`, else the column `…_id` of the fewest values, where values repeat.
    """
    if named is not None:
        return Clusters(named, "named", labels[named]) if named in labels else None
    if declared is not None and declared in labels:
        return Clusters(declared, "declared", labels[declared])
    found = {name: _values(each) for name, each in labels.items() if may_cluster(name) and _groups(name, each)}
    if not found:
        return None
    name = _FIRST if _FIRST in found else min(found, key=found.__getitem__)
    return Clusters(name, "found", labels[name])


def _values(labels: Labels) -> int:
    return len(set(labels) - {None})


def _groups(name: str, labels: Labels) -> bool:
    values, rows = _values(labels), len(labels) - labels.count(None)
    least, most = (2, rows) if name == _FIRST else (_LEAST_VALUES, _MOST_ROWS)
    return least <= values < rows <= most * values


_BLOCK = 1 << 20


class RowSource(Protocol):
    """A source of result rows; it can be read again."""

    def records(self, only: Container[int] | None = None) -> Iterator[ResultRow]:
        """Yield each row's values by column, or those of some rows by their number from 0.

        Raises:
            DataError: a row that cannot be read.
        """


@dataclass(slots=True)
class ResultsFile:
    """`eval_results.jsonl`: an object a line."""

    path: Path
    _starts: array[int] = field(default_factory=lambda: array("Q"))
    """Where lines start, once all have been read."""

    def records(self, only: Container[int] | None = None) -> Iterator[ResultRow]:
        """As `RowSource.records`."""
        for number, line in self.lines():
            if only is None or number in only:
                yield read_row(line, self.path, number)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that are not blank, with their numbers from 0."""
        starts, start = array("Q"), 0
        with raise_as(DataError, self.path), open_regular(self.path, buffering=_BLOCK) as file:
            for number, line in enumerate(lines(file)):
                starts.append(start)
                start += len(line)
                if not line.isspace():
                    yield number, line
        self._starts = starts

    def picked(self, numbers: Sequence[int], keys: Collection[str]) -> Iterator[ResultRow]:
        """Yield some rows, in order, with these keys alone; the whole file has been read before."""
        decoder = row_decoder(dict.fromkeys(keys, Any), only_these=False)
        with raise_as(DataError, self.path), open_regular(self.path) as file:
            for number in numbers:
                file.seek(self._starts[number])
                line = file.readline()
                try:
                    row = None if decoder is None else decoder.decode(line)
                except (msgspec.DecodeError, RecursionError, UnicodeError):
                    row = None
                values = (
                    read_row(line, self.path, number) if row is None else dict(zip(keys, astuple(row), strict=True))
                )
                yield {key: value for key in keys if (value := values.get(key, UNSET)) is not UNSET}


def row_decoder(keys: Mapping[str, object], *, only_these: bool) -> msgspec.json.Decoder[msgspec.Struct] | None:
    """Return what decodes these keys of a row, each as its type; None if msgspec cannot.

    A row with another key is an error if `only_these` are expected.
    """
    fields = [(f"k{at}", kind, UNSET) for at, kind in enumerate(keys.values())]
    names = {f"k{at}": key for at, key in enumerate(keys)}
    try:
        row = msgspec.defstruct("Row", fields, rename=names, forbid_unknown_fields=only_these, gc=False)
    except ValueError:  # msgspec takes no key with a character that JSON must escape
        return None
    return msgspec.json.Decoder(row)


@dataclass(frozen=True, slots=True)
class AzureFile:
    """`evaluation_results.json`: one object with `rows`; as Azure writes it, NaN stands where a value is missing."""

    path: Path

    def records(self, only: Container[int] | None = None) -> Iterator[ResultRow]:
        """As `RowSource.records`."""
        with raise_as(DataError, self.path):
            content = self.path.read_bytes()
        try:
            value = loads(content)
        except ValueError as error:
            what = " ".join(str(error).split())
            raise DataError(
                f"{self.path}: not JSON ({what}): the file is half-written, or holds no results; write it again"
            ) from None
        rows = value.get("rows") if isinstance(value, dict) else None
        if not isinstance(rows, list):
            raise DataError(f'{self.path}: no results: expected an object {{"rows": […], "metrics": {{…}}}}')
        for number, row in enumerate(rows):
            if only is None or number in only:
                yield _check_row(row, f"{self.path}: row {number + 1}")


@dataclass(frozen=True, slots=True)
class AskedRows:
    """The rows of a data set, as the results of a run over them will name them."""

    dataset: Dataset

    def records(self, only: Container[int] | None = None) -> Iterator[ResultRow]:
        """As `RowSource.records`."""
        for number, row in enumerate(self.dataset.rows()):
            if only is None or number in only:
                values = {f"inputs.{name}": value for name, value in row.values.items()}
                yield {"row_id": row.id, "row_fingerprint": row.fingerprint, **values}


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows in memory: `result["rows"]` of either `evaluate`."""

    rows: Sequence[Mapping[str, object]]

    def records(self, only: Container[int] | None = None) -> Iterator[ResultRow]:
        """As `RowSource.records`."""
        for number, row in enumerate(self.rows):
            if only is not None and number not in only:
                continue
            try:
                written = loads(dumps(row))  # a float's NaN becomes null, as in a file
            except TypeError as error:
                raise DataError(f"row {number + 1}: {error}") from None
            yield _check_row(written, f"row {number + 1}")


def _check_row(row: JSON, where: str) -> ResultRow:
    if not isinstance(row, dict):
        raise DataError(f"{where} is not a JSON object: damaged or half-written; copy or write it again")
    return row


Kind = Literal["binary", "score", "count"]

OWN_SOURCES = ("run", "azure", "rows")
"""What a run may be read from without a plug-in: a run folder, Azure AI Evaluation's results, rows in memory."""

PASS_RATE = "binary_aggregate"  # noqa: S105 - no password
"""What an evaluator's pass rate is called among its metrics."""


class State:
    """States of a row at one evaluator."""

    ABSENT, SCORED, NOT_APPLICABLE, ERROR = range(4)


class RunInfo(msgspec.Struct, frozen=True, rename={"errors": "rows_with_an_error"}):
    """Which run this is.

    `source` says what it was read from: a run folder, Azure AI Evaluation's results, rows in memory, or a plug-in's.
    `rows` counts its rows; `errors` those of them on which something failed; `trials` how many rows an item has, where
    rows are repeated trials. `stopped` is what was decided where the run stopped early, and has not all its rows.
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


@dataclass(slots=True)
class MetricColumn:
    """One metric's numbers: NaN where a row has none; a pass is 1, a fail 0.

    `metric` begins the keys of its reason. `passes` names the column of its verdicts, where it has any. `reasons` has
    a hash of why each failing row failed, where the column holds verdicts; `has_results` is whether any of them is one.
    `repeats` is whether its numbers are but the verdicts once more.
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
    values: array[float] = field(default_factory=lambda: array("d"))
    reasons: array[int] = field(default_factory=lambda: array("q"))

    @property
    def figures(self) -> int:
        """The number of rows that have a number."""
        return sum(value == value for value in self.values)  # NaN alone differs from itself

    def fill(self, rows: int) -> None:
        """Rows up to here that have no number."""
        self.values.extend([math.nan] * (rows - len(self.values)))
        if self.passes == self.name:
            self.reasons.extend([0] * (rows - len(self.reasons)))


@dataclass(slots=True)
class EvaluatorColumns:
    """One evaluator: the names of its columns, its main column, and the state of each row.

    `declared` is whether the run says what the evaluator's metrics mean; `arguments` and `fingerprint` what it was, and
    `judge` which judge, where a model judges.
    """

    name: str
    columns: list[str]
    main: str | None
    states: bytearray
    declared: bool = False
    arguments: Mapping[str, JSON] = field(default_factory=dict)
    fingerprint: str | None = None
    judge: str | None = None
    left_out: int = 0

    def counts(self) -> tuple[int, int, int]:
        """Scored rows, rows to which it does not apply, errors."""
        states = self.states
        return states.count(State.SCORED), states.count(State.NOT_APPLICABLE), states.count(State.ERROR)


@dataclass(frozen=True, slots=True)
class Items:
    """What is paired: a row each, or all trials of one question.

    `of_row` has each row's item; None where every row is an item of its own.
    """

    ids: Sequence[str]
    contents: Sequence[str]
    of_row: array[int] | None = None


@dataclass(slots=True)
class RunTable:
    """One run's rows. `contents` are fingerprints, empty where they are not known.

    `named` is whether ids come from the data, not from the rows' order. `clusters` are the items that are not
    independent, None where all are taken to be. `groups` has the items' values of the `--group-by` columns, `slices`
    those of other columns with few short values. `primary` is the metric that the data says decides. `causes` has why
    rows failed, by their number; None where the run does not tell. `latencies_ms` are those of its answers, in any
    order. `column_names` are all columns of the data, `answers` those with answers in this run or in a run that was
    read with it; they are no part of the content. `derived` evaluators are compared, but no gate goes by them.
    """

    info: RunInfo
    items: Items
    named: bool
    columns: dict[str, MetricColumn]
    evaluators: dict[str, EvaluatorColumns]
    column_names: Sequence[str]
    source: RowSource
    row_ids: Sequence[str]
    clusters: Clusters | None = None
    groups: Mapping[str, Labels] = field(default_factory=dict)
    slices: Mapping[str, Labels] = field(default_factory=dict)
    primary: str | None = None
    causes: Mapping[int, str] | None = None
    latencies_ms: Sequence[float] = ()
    answers: frozenset[str] = frozenset()
    derived: frozenset[str] = frozenset()
