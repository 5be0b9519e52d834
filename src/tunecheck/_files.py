"""The structure of all files that Tunecheck writes, and the check of their versions.

    run.json              RunFile: settings and outcome of a run
    metrics.json          Summary: metrics over all rows
    eval_results.jsonl    ResultLine: one line for each row
    journal.jsonl         Record: finished work, from which an interrupted run continues
    judges/<judge>.json   JudgeCalibration: a judge's verdicts on labelled rows

A reader refuses a file with a higher `format_version` than its own (`check_version`). The result rows have the version
of run.json, the journal has that of its first record.
"""

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
    JSON = Any  # msgspec cannot read recursive types

FORMAT_VERSION = 1
"""The `format_version` of every file that this version writes. No older version exists."""

_VERSION = "format_version"
"""The key of the version in each file."""

MOST_COUNTED = 1 << 48
"""Row and record counts from this number on are not believed; no file holds so many."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MOST_COUNTED)]


class NewerFileError(ConfigurationError):
    """A file that a later version of Tunecheck wrote."""


def check_version(content: Mapping[str, JSON], path: Path | str) -> None:
    """Check that no later version wrote a file.

    Raises:
        NewerFileError: a later version wrote it.
        ConfigurationError: its version is not a version number.
    """
    version = content.get(_VERSION, FORMAT_VERSION)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ConfigurationError(f"{path}: `{_VERSION}` is not a whole number above 0: restore the file from a backup")
    if version > FORMAT_VERSION:
        versions = f"{_VERSION} {version}; this version reads at most {FORMAT_VERSION}"
        raise NewerFileError(f"{path}: a newer Tunecheck wrote this file ({versions}): update tunecheck")


def read_object(path: Path, missing: str | None = None) -> dict[str, JSON]:
    """Return the JSON object in a file; integers outside the range of a float become null.

    Raises:
        ConfigurationError: the file cannot be read, is not an object, or a later version wrote it; if it does not
            exist, the text is `missing`.
    """
    try:
        content = within_floats(loads(read_regular(path)))
    except FileNotFoundError:
        raise ConfigurationError(missing or f"{path}: cannot be read: no such file") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}; restore the file from a backup") from None

    if not isinstance(content, dict):
        raise ConfigurationError(f"{path}: the file is not a JSON object: restore the file from a backup")
    check_version(content, path)
    return content


def check_if_readable(path: Path) -> None:
    """Check that no later version wrote a file; missing and damaged files pass.

    Raises:
        NewerFileError: a later version wrote it.
    """
    try:
        read_object(path)
    except ConfigurationError as error:
        if isinstance(error, NewerFileError):
            raise


def check_first_record(path: Path) -> None:
    """Check that an append-only file does not begin with a record of a later version.

    Missing and damaged files pass.

    Raises:
        NewerFileError: a later version wrote it.
        ConfigurationError: the record's version is not a version number.
    """
    try:
        with open_regular(path) as file:
            # The limit holds for a damaged file; a header is short.
            first = loads(file.readline(1 << 20))
    except (OSError, ValueError):  # missing, empty or torn: the file's reader reports it
        return

    # Other lines are damaged, and the file's reader reports them.
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
        """The lowest and the highest value, if both are declared, in this order and within ±1e100; else None."""
        low, high = self.range if self.range is not None and len(self.range) == 2 else (None, None)
        return (low, high) if low is not None and high is not None and -1e100 < low < high < 1e100 else None


class EvaluatorEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluator of a run: its class or function, and the values by which a later run detects changes.

    `judge` is set if a model judges: a hash of prompt, model and settings, by which the judge's calibration is found.
    """

    type: str | None = None
    arguments: dict[str, JSON] | None = None
    fingerprint: str | None = None
    judge: str | None = None
    primary: str | None = None
    metrics: list[MetricEntry] = []

    def metric(self, name: str | None) -> MetricEntry | None:
        """Return the declaration of the metric with this name, or None."""
        return next((metric for metric in self.metrics if metric.name == name), None)


class DatasetEntry(msgspec.Struct, frozen=True):
    """The data set of a run; `cluster` is the column of dependent rows, `primary` the metric that decides."""

    name: str | None = None
    path: str | None = None
    sha256: str | None = None
    rows: Count | None = None
    cluster: str | None = None
    primary: str | None = None


class DecidedMetric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of a run that may stop early: the decision after `pairs` of base and new rows.

    Figures cover all `rows` of the run; dependent rows count as one pair. `low` and `high` are the limits of the
    difference's interval. The interval and `p_value` are valid at any stopping time.
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

    The results have the `rows` up to the decision, out of `of`. `asked_beyond` more calls were in flight then;
    `not_asked` rows were never sent. `seed` sets the order of the rows.
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
        """Return True if the run stopped before its last row."""
        return self.rows < self.of


class RunFile(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`: the settings of a run, and its outcome.

    `target` holds the target's settings, its `fingerprint`, and whether it is `simulated`; it is null if the data holds
    the answers. `parent` is the run whose answers and verdicts were reused: its id, or its folder if that lies
    elsewhere. `api` holds facts about the APIs of the target and evaluators. `command` holds the options that resume
    the run. `records` is the number of journal records when the file was written; `sha256` and `sizes` (in bytes)
    describe the result files by name. `failed_before` is the number of rows with an error before the finished run was
    resumed. `decision` is set in a run that may stop early. `signature` proves that this user made the run. `digest` is
    a hash of the other values.
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
    failed_before: Count | UnsetType = UNSET
    decision: EarlyStop | UnsetType = UNSET

    @property
    def stopped(self) -> EarlyStop | None:
        """Return the decision if it stopped the run before its last row, else None."""
        return self.decision if self.decision is not UNSET and self.decision.stopped else None


class CallsRead(msgspec.Struct, frozen=True, kw_only=True):
    """Answers with calls that the server left in the text or encoded wrongly, and whether evaluators counted them.

    `unparsed` of the `answers` have such calls. With the reading `strict` they do not count, with `lenient` they do.
    `pass_rates` has, by evaluator, the pass rates in this reading and in the other one, if they differ.
    """

    reading: Literal["strict", "lenient"]
    unparsed: int
    answers: int
    pass_rates: dict[str, tuple[float, float]] = {}

    def sentences(self) -> Iterator[str]:
        """Yield notes for the user: how many answers have such calls, and both pass rates if they differ."""
        effect, other = ("do not count", "lenient") if self.reading == "strict" else ("count", "strict")
        yield (
            f"{self.unparsed:,} of {self.answers:,} answers contain calls that the server did not parse. Production "
            f"clients could not use these calls; with --calls {self.reading}, they {effect}"
        )
        for name, (rate, other_rate) in self.pass_rates.items():
            yield f"{name}: pass rate {rate:.1%} with --calls {self.reading}, {other_rate:.1%} with --calls {other}"


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """`metrics.json`: a run's metrics over all rows, and `by` each value of `row_kind` and of the grouping columns."""

    format_version: int = FORMAT_VERSION
    metrics: dict[str, JSON]
    by: dict[str, dict[str, dict[str, JSON]]]
    rows: int
    failed_rows: int
    usage: dict[str, JSON]
    simulated: bool
    notes: list[str]
    aggregate_errors: dict[str, "Failure"] = {}
    """The error of each evaluator's own `__aggregate__`, by evaluator."""
    decision: EarlyStop | UnsetType = UNSET
    calls: CallsRead | UnsetType = UNSET


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """The error of one stage (the target or an evaluator) on one row, under `error.<stage>`.

    `cause` is the code of the reason why a model call, by the target or a judge, gave no usable answer. `place` is the
    file and line of user code that raised the error, such as "price.py:12".
    """

    type: str
    message: str
    request_id: str | None = None
    cause: str | None = None
    place: str | None = None


class ResultLine(msgspec.Struct, frozen=True, kw_only=True):
    """The fixed columns of a line of `eval_results.jsonl`; the version is in `run.json`.

    `cause` is the cause of a failed row, null if the row passed or the cause is unknown; `cause_evidence` is a fault
    without its code. Other keys are `inputs.<column>`, `outputs.<column>`, `outputs.<evaluator>.<key>` and
    `error.<stage>`.
    """

    row_id: str
    row_fingerprint: str
    row_kind: Literal["call", "answer"] | UnsetType = UNSET
    cause: str | None | UnsetType = UNSET
    cause_evidence: dict[str, JSON] | UnsetType = UNSET


class LabelledVerdict(msgspec.Struct, frozen=True):
    """A row with a human label and the judge's verdict; `inputs` is the hash of the judge's inputs."""

    row_id: str
    row_fingerprint: str
    inputs: str | None
    label: Literal["pass", "fail"]
    verdict: Literal["pass", "fail"]


class JudgeCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's verdicts on labelled rows (`judges/<judge>.json`), by which its pass rates are corrected.

    `judge` is the judge's hash in `run.json`; `run` is the run that judged the labelled rows.
    """

    format_version: int = FORMAT_VERSION
    judge: str
    evaluator: str
    run: str
    created: str
    simulated: bool = False
    labels: list[LabelledVerdict]


RowVerdicts: TypeAlias = dict[str, tuple[str | None, dict[str, JSON]]]
"""The verdicts on one row: by evaluator, the hash of its inputs and its output."""


class Header(msgspec.Struct, tag_field="k", tag="journal", frozen=True):
    """The first record; its version is that of all records."""

    format_version: int = FORMAT_VERSION


class Answer(msgspec.Struct, tag_field="k", tag="answer", frozen=True, omit_defaults=True):
    """A target's answer to the row with index `i`; `h` is the hash of its inputs.

    `same` names the column that is left out of `out`, because it is equal to `response`: `text` or `tool_calls`.
    """

    i: int
    id: str
    h: str | None
    out: dict[str, JSON]
    same: str | None = None


FIRST_COLUMNS = ["response", "text", "tool_calls"]
"""The first columns of an endpoint's answer: `response` is equal to one of the others."""


class Step(msgspec.Struct, tag_field="k", tag="step", frozen=True):
    """A finished part `p` of an answer that takes several calls."""

    i: int
    id: str
    h: str | None
    p: str
    out: JSON


class Verdicts(msgspec.Struct, tag_field="k", tag="verdicts", frozen=True):
    """The verdicts of some evaluators on several rows, by row index."""

    rows: list[tuple[int, RowVerdicts]]


class ModelCall(msgspec.Struct, tag_field="k", tag="call", frozen=True, omit_defaults=True):
    """A call to a model for an evaluator `e` (or for `target`) with its answer or usage, and its cost.

    `h` identifies the call: a hash of a judge's request, a key of the target, or a random text if no answer came. `e`
    is null if another run paid for the call. `i` is the index of the row that the call was made for, if known.
    """

    e: str | None
    h: str
    cost: float | None
    cur: str | None
    out: dict[str, JSON]
    i: int | None = None


class Error(msgspec.Struct, tag_field="k", tag="error", frozen=True, omit_defaults=True):
    """The failure of one stage (the target or an evaluator) on a row. A resumed run retries the stage."""

    i: int
    id: str
    stage: str
    type: str
    message: str
    request_id: str | None = None
    cause: str | None = None
    place: str | None = None


class Accepted(msgspec.Struct, tag_field="k", tag="accepted", frozen=True):
    """The user's decision to continue although this many earlier records are damaged or missing."""

    lost: int


class Stopped(msgspec.Struct, tag_field="k", tag="stopped", frozen=True):
    """The early end of a run: the indices of the rows in its results, and the ids of rows that were never sent."""

    settled: list[int]
    not_asked: list[str]


Record: TypeAlias = Header | Answer | Step | Verdicts | ModelCall | Error | Accepted | Stopped
"""Each record ends with the key `c`: its number, and the CRC-32 of the line before `c`, started with that number."""
