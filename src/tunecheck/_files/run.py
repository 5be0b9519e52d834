"""What the files of every run hold: run.json, metrics.json, and what a row of eval_results.jsonl has at least."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from tunecheck._files.versions import FORMAT_VERSION

if TYPE_CHECKING:
    from tunecheck._json import JSON
else:
    JSON = Any  # msgspec reads no type that stands in itself


class MetricEntry(msgspec.Struct, frozen=True):
    """What one metric's numbers mean: `range` is its lowest and highest value, where it declares them."""

    name: str
    kind: str = "score"
    range: list[float | None] | None = None
    higher_is_better: bool = True

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The lowest and the highest value, where both are declared and make sense."""
        low, high = self.range if self.range is not None and len(self.range) == 2 else (None, None)
        return (low, high) if low is not None and high is not None and -1e100 < low < high < 1e100 else None


class EvaluatorEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluator of a run: its class or function, and by what a later run tells whether it is the same."""

    type: str | None = None
    arguments: dict[str, JSON] | None = None
    fingerprint: str | None = None
    primary: str | None = None
    metrics: list[MetricEntry] = []

    def metric(self, name: str | None) -> MetricEntry | None:
        """What is declared of a metric."""
        return next((metric for metric in self.metrics if metric.name == name), None)


class DatasetEntry(msgspec.Struct, frozen=True):
    """The data of a run."""

    name: str | None = None
    path: str | None = None
    sha256: str | None = None
    rows: int | None = None


class RunFile(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`: what was run, and how it ended.

    `target` holds the settings that the target describes itself by, its `fingerprint`, and whether it is `simulated`;
    null where nobody was asked. `parent` is the run whose answers and verdicts were reused: its id, or its folder where
    it lies elsewhere. `command` is what a command line needs to resume the run.
    """

    format_version: int = FORMAT_VERSION
    name: str | None = None
    status: str | None = None
    dataset: DatasetEntry = DatasetEntry()
    target: dict[str, JSON] | None = {}
    evaluators: dict[str, EvaluatorEntry] = {}
    mapping: dict[str, dict[str, JSON]] = {}
    group_by: list[str] = []
    simulated: bool = False
    tags: dict[str, str] = {}
    command: dict[str, JSON] = {}
    versions: dict[str, str] = {}
    id: str | None = None
    created: str | None = None
    created_ns: int | None = None
    parent: str | None = None
    started: str | UnsetType = UNSET
    ended: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    row_count: int | UnsetType = UNSET


class MetricsFile(msgspec.Struct, frozen=True, kw_only=True):
    """`metrics.json`: the metrics over all rows, and `by` each value of `row_kind` and of the grouping columns."""

    format_version: int = FORMAT_VERSION
    metrics: dict[str, JSON]
    by: dict[str, dict[str, dict[str, JSON]]]
    rows: int
    failed_rows: int
    usage: dict[str, JSON]
    simulated: bool
    notes: list[str]


class ErrorEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What stands under `error.<stage>`."""

    type: str
    message: str
    request_id: str | UnsetType = UNSET


class ResultRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `eval_results.jsonl`, of the version that `run.json` says.

    Beside these keys it has `inputs.<column>`, `outputs.<column>`, `outputs.<evaluator>.<key>` and `error.<stage>`.
    """

    row_id: str
    row_fingerprint: str
    row_kind: Literal["call", "answer"] | UnsetType = UNSET
