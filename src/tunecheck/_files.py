"""The descriptions of all files that Tunecheck writes, and the check of their versions."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from tunecheck._disk import open_regular, read_regular
from tunecheck._errors import ConfigurationError
from tunecheck._json import loads, within_floats

if TYPE_CHECKING:
    from tunecheck._json import JSON as JSON
else:
    JSON = Any  # msgspec reads no type that stands in itself

FORMAT_VERSION = 1
"""Of every file that this version writes, under the key `format_version`. No file of an older version exists."""

_VERSION = "format_version"

MOST_COUNTED = 1 << 48
"""More rows or records no file holds, whatever it says of itself."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MOST_COUNTED)]


class NewerFileError(ConfigurationError):
    """A file that a later version of Tunecheck wrote."""


def check_version(content: Mapping[str, JSON], path: Path | str) -> None:
    """Refuse a file of a later version.

    Raises:
        NewerFileError: A later version wrote it.
        ConfigurationError: Its version is not a version number.
    """
    version = content.get(_VERSION, FORMAT_VERSION)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ConfigurationError(f"{path}: cannot be read: {_VERSION} must be a whole number of at least 1")
    if version > FORMAT_VERSION:
        raise NewerFileError(
            f"{path}: written by a newer Tunecheck ({_VERSION} {version}; this one reads {FORMAT_VERSION}): "
            "update tunecheck"
        )


def read_object(path: Path, missing: str | None = None) -> dict[str, JSON]:
    """Return the JSON object in a file; numbers beyond any of ours become null.

    Raises:
        ConfigurationError: it cannot be read, is not an object, or a later version wrote it; says `missing` where
            there is no such file.
    """
    try:
        content = within_floats(loads(read_regular(path)))
    except FileNotFoundError:
        raise ConfigurationError(missing or f"{path}: cannot be read: no such file") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path}: expected a JSON object")
    check_version(content, path)
    return content


def check_if_readable(path: Path) -> None:
    """Refuse a file of a later version; missing and damaged files pass.

    Raises:
        NewerFileError: A later version wrote it.
    """
    try:
        read_object(path)
    except NewerFileError:
        raise
    except ConfigurationError:
        return


def check_first_record(path: Path) -> None:
    """Refuse an append-only file that begins with a record of a later version; a missing file passes.

    Raises:
        NewerFileError: A later version wrote it.
    """
    try:
        with open_regular(path) as file:
            first = loads(file.readline(1 << 20))
    except (OSError, ValueError):  # not there, empty or torn: for its reader to say
        return
    if isinstance(first, dict) and isinstance(first.get("k"), str):
        check_version(first, path)


class MetricEntry(msgspec.Struct, frozen=True):
    """The meaning of a metric: `range` is its lowest and highest value, if it declares them."""

    name: str
    kind: str = "score"
    range: list[float | None] | None = None
    higher_is_better: bool = True

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the lowest and the highest value, if both are declared and make sense."""
        low, high = self.range if self.range is not None and len(self.range) == 2 else (None, None)
        return (low, high) if low is not None and high is not None and -1e100 < low < high < 1e100 else None


class EvaluatorEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluator of a run: its class or function, and what tells a later run whether it has changed.

    `judge` is set if a model judges. It is equal for equal prompt, model and settings, and finds the judge's
    calibration.
    """

    type: str | None = None
    arguments: dict[str, JSON] | None = None
    fingerprint: str | None = None
    judge: str | None = None
    primary: str | None = None
    metrics: list[MetricEntry] = []

    def metric(self, name: str | None) -> MetricEntry | None:
        """Return the declaration of a metric."""
        return next((metric for metric in self.metrics if metric.name == name), None)


class DatasetEntry(msgspec.Struct, frozen=True):
    """The data of a run; `cluster` is the column of dependent rows, `primary` the evaluator that decides."""

    name: str | None = None
    path: str | None = None
    sha256: str | None = None
    rows: Count | None = None
    cluster: str | None = None
    primary: str | None = None


class DecidedMetric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of a run that may stop early: the decision after this many `pairs` of base and new rows.

    Figures are over all `rows` of the run; dependent rows count as one. `low` and `high` are the ends of the
    difference's interval. The interval and `p_value` hold at any stopping time.
    """

    name: str
    key: str
    kind: Literal["binary", "score", "count"]
    outcome: Literal["better", "worse", "not_worse", "undecided"]
    pairs: int
    base: float | None
    new: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_value: float


class EarlyStop(msgspec.Struct, frozen=True, kw_only=True):
    """The decision of a run that may stop early: better or worse than `against`, or worse by less than `margin`.

    The results have the `rows` up to the decision, out of `of`. `asked_beyond` more calls were in flight then, and
    `not_asked` rows had no call. `seed` sets the order of rows.
    """

    outcome: Literal["better", "worse", "not_worse", "undecided"]
    against: str
    margin: float | None
    confidence: float
    seed: int
    rows: int
    of: int
    asked_beyond: int
    not_asked: int
    metrics: list[DecidedMetric]

    @property
    def stopped(self) -> bool:
        """Return whether rows are missing."""
        return self.rows < self.of


class RunFile(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`: the settings of a run, and how it ended.

    `target` holds the target's settings, its `fingerprint`, and whether it is `simulated`; it is null if the data holds
    the answers. `parent` is the run with the reused answers and verdicts: its id, or its folder if that lies elsewhere.
    `api` holds facts about the APIs of the target and evaluators. `command` holds the options that resume the run.
    `records` is the number of journal records when this was written; `sha256` and `sizes` (in bytes) are those of the
    result files, by file name. `decision` is set in a run that may stop early. `signature` marks the runs of this user.
    `digest` is that of the other values.
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
    api: dict[str, JSON] = {}
    command: dict[str, JSON] = {}
    versions: dict[str, str] = {}
    id: str | None = None
    created: str | None = None
    created_ns: int | None = None
    parent: str | None = None
    signature: str | None = None
    digest: str | UnsetType = UNSET
    started: str | UnsetType = UNSET
    ended: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    row_count: Count | UnsetType = UNSET
    records: Count | UnsetType = UNSET
    sha256: dict[str, str] | UnsetType = UNSET
    sizes: dict[str, int] | UnsetType = UNSET
    decision: EarlyStop | UnsetType = UNSET

    @property
    def stopped(self) -> EarlyStop | None:
        """Return the decision, if it stopped the run before its last row."""
        return self.decision if self.decision is not UNSET and self.decision.stopped else None


class CallsRead(msgspec.Struct, frozen=True, kw_only=True):
    """Answers with calls in their text that the server did not parse, and whether evaluators counted these calls.

    `pass_rates` has, by evaluator, the rate in this reading and in the other one, where they differ.
    """

    reading: Literal["strict", "lenient"]
    unparsed: int
    answers: int
    pass_rates: dict[str, tuple[float, float]] = {}

    def sentences(self) -> Iterator[str]:
        """Yield notes for the user."""
        how = "they do not count" if self.reading == "strict" else "they count"
        yield (
            f"{self.unparsed:,} of {self.answers:,} answers contain calls that the server did not parse; a production "
            f"client would have seen no call ({how}: --calls {self.reading})"
        )
        other = "lenient" if self.reading == "strict" else "strict"
        for name, rates in self.pass_rates.items():
            yield f"{name}: {rates[0]:.1%} with --calls {self.reading}, {rates[1]:.1%} with --calls {other}"


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """`metrics.json`: metrics of a run over all rows, and `by` each value of `row_kind` and of grouping columns."""

    format_version: int = FORMAT_VERSION
    metrics: dict[str, JSON]
    by: dict[str, dict[str, dict[str, JSON]]]
    rows: int
    failed_rows: int
    usage: dict[str, JSON]
    simulated: bool
    notes: list[str]
    aggregate_errors: dict[str, "Failure"] = {}
    """By evaluator, why its own `__aggregate__` gave nothing."""
    decision: EarlyStop | UnsetType = UNSET
    calls: CallsRead | UnsetType = UNSET


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """The error of one stage (the target or an evaluator) on one row, under `error.<stage>`.

    `cause` is the code of the reason why a call to a model, the target's or a judge's, gave no usable answer.
    """

    type: str
    message: str
    request_id: str | None = None
    cause: str | None = None


class ResultRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `eval_results.jsonl`, of the version in `run.json`.

    `cause` is the cause of a failed row, null if it passed or the cause is unknown; `cause_evidence` is a fault without
    code. Other keys are `inputs.<column>`, `outputs.<column>`, `outputs.<evaluator>.<key>` and `error.<stage>`.
    """

    row_id: str
    row_fingerprint: str
    row_kind: Literal["call", "answer"] | UnsetType = UNSET
    cause: str | None | UnsetType = UNSET
    cause_evidence: dict[str, JSON] | UnsetType = UNSET


class LabelledVerdict(msgspec.Struct, frozen=True):
    """A row with a label that people gave, and the judge's verdict; `inputs` is the hash of the judge's inputs."""

    row_id: str
    row_fingerprint: str
    inputs: str | None
    label: Literal["pass", "fail"]
    verdict: Literal["pass", "fail"]


class JudgeCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's verdicts on labelled rows (`judges/<judge>.json`), which correct its pass rates.

    `judge` is the judge's hash in `run.json`; `run` is the calibration's own run.
    """

    format_version: int = FORMAT_VERSION
    judge: str
    evaluator: str
    run: str
    created: str
    simulated: bool = False
    labels: list[LabelledVerdict]


RowVerdicts: TypeAlias = dict[str, tuple[str | None, dict[str, JSON]]]
"""The verdicts of one row in a chunk: by evaluator, the hash of its inputs and its output."""


class Header(msgspec.Struct, tag_field="k", tag="journal", frozen=True):
    """The first record: the version of all records."""

    format_version: int = FORMAT_VERSION


class Answer(msgspec.Struct, tag_field="k", tag="answer", frozen=True):
    """A target's answer to the row of index `i`, from inputs of the hash `h`."""

    i: int
    id: str
    h: str | None
    out: dict[str, JSON]


class Step(msgspec.Struct, tag_field="k", tag="step", frozen=True):
    """A finished part `p` of an answer that takes several calls."""

    i: int
    id: str
    h: str | None
    p: str
    out: JSON


class Verdicts(msgspec.Struct, tag_field="k", tag="verdicts", frozen=True):
    """The verdicts of some evaluators on a chunk of rows, by the rows' index."""

    rows: list[tuple[int, RowVerdicts]]


class ModelCall(msgspec.Struct, tag_field="k", tag="call", frozen=True, omit_defaults=True):
    """A model's answer to an evaluator `e` and its cost; `e` is null if another run paid for it.

    `i` is the index of the row that the call was made for, if known.
    """

    e: str | None
    h: str
    cost: float | None
    cur: str | None
    out: dict[str, JSON]
    i: int | None = None


class Error(msgspec.Struct, tag_field="k", tag="error", frozen=True, omit_defaults=True):
    """The failure of one stage (the target or an evaluator) on a row. A resumed run tries the stage again."""

    i: int
    id: str
    stage: str
    type: str
    message: str
    request_id: str | None = None
    cause: str | None = None


class Accepted(msgspec.Struct, tag_field="k", tag="accepted", frozen=True):
    """The user lets the run go on although this many records before this one are damaged or missing."""

    lost: int


class Stopped(msgspec.Struct, tag_field="k", tag="stopped", frozen=True):
    """The run is finished early: the indices of the rows in its results, and the ids of rows without a call."""

    settled: list[int]
    not_asked: list[str]


Record: TypeAlias = Header | Answer | Step | Verdicts | ModelCall | Error | Accepted | Stopped
"""Behind its own keys each record has `c`: its number, and the CRC-32 (from that number) of its line up to there."""
