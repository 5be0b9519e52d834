"""A finished run as a table: its rows' names, and for each metric one number a row."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from tunecheck._files import EarlyStop
from tunecheck._json import JSON
from tunecheck.results._clusters import Clusters, Labels
from tunecheck.results._sources import RowSource

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
