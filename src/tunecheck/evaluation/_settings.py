"""`RunSettings`: all settings of a run except its data, target and evaluators.

Each type of arguments extends the one before: `RunArguments` of benchmarks, `ScoreArguments` of `score()`, and
`EvaluateArguments` of `evaluate()`.

Settings must go together:

*   `resume` and `reuse` exclude each other.
*   `until_decided` needs exactly one of `better_than` and `no_worse_than`, and excludes `on`.
*   `no_worse_than` and `margin` need each other.
*   Without `until_decided`, only a resumed run accepts these arguments, and ignores them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias, TypedDict

import msgspec

from tunecheck._describe import read_as
from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._trust import Trust
from tunecheck.pipeline._plan import CallsChoice
from tunecheck.pipeline._worker_queues import DEFAULT_TIMEOUT_S
from tunecheck.runs._store import RESULTS_DIR as RESULTS_DIR, is_remote

if TYPE_CHECKING:
    from tunecheck._progress import ProgressCallback
    from tunecheck._records import Journal
    from tunecheck.evaluation._ending import RunsPlan
    from tunecheck.evaluation._execution import Execution
    from tunecheck.pipeline._model_calls import CachedResults
    from tunecheck.pipeline._plan import Plan

RunLike: TypeAlias = "str | PathLike[str]"
"""A run's folder, its id, its name, the beginning of its id, or `last`."""

MOST_TRIALS = 1_000
"""The largest value of `repeat` and `--repeat`."""


class RunsElsewhere(Protocol):
    """Makes the engine of a run whose rows other machines process, such as the tasks of a cluster."""

    def __call__(self, plan: Plan, journal: Journal, cached: CachedResults, execution: Execution) -> RunsPlan:
        """Return an engine that processes the rows missing in `cached` and records their results in the journal."""


class RunArguments(TypedDict, total=False):
    """Arguments of `evaluate()` that benchmarks pass on unchanged; `RunSettings` describes them."""

    concurrency: int | None
    max_cost: float | None
    resume: RunLike | None
    reuse: RunLike | None
    results_dir: str | PathLike[str]
    progress: bool | ProgressCallback | None
    command: Mapping[str, JSON] | None
    accept_damage: bool
    trust: Trust | None


class ScoreArguments(RunArguments, total=False):
    """Arguments of both `evaluate()` and `score()`."""

    workers: int | None
    group_by: str | Sequence[str]
    cluster: str | None
    primary: str | None
    calls: CallsChoice | None
    evaluator_timeout: float


class EvaluateArguments(ScoreArguments, total=False):
    """Arguments of `evaluate()` that Azure's `evaluate()` does not have."""

    target_timeout: float
    limit: int | None
    number_ids: bool
    repeat: int
    no_worse_than: RunLike | None
    better_than: RunLike | None
    margin: float | None
    until_decided: bool
    decide_on: str | Sequence[str] | None
    confidence: float
    seed: int
    on: RunsElsewhere | None


# The largest float as the limit excludes infinity and NaN, which would limit nothing.
_Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]
_Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]


class _CheckedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a run whose types and ranges msgspec checks; `RunSettings` describes them."""

    name: str | None = msgspec.field(default=None, name="evaluation_name")
    tags: Mapping[str, str] | None = None
    concurrency: Annotated[int, msgspec.Meta(ge=1)] | None = None
    workers: Annotated[int, msgspec.Meta(ge=0)] | None = None
    max_cost: _Amount | None = None
    evaluator_timeout: _Seconds = DEFAULT_TIMEOUT_S
    target_timeout: _Seconds = DEFAULT_TIMEOUT_S
    repeat: Annotated[int, msgspec.Meta(ge=1, le=MOST_TRIALS)] = 1
    calls: CallsChoice | None = None
    margin: _Amount | None = None
    confidence: Annotated[float, msgspec.Meta(ge=0.5, lt=1)] = 0.95


class RunSettings(_CheckedSettings, frozen=True, kw_only=True):
    """Settings of a run, as `evaluate()` and `score()` take them.

    Attributes:
        name: The run's name; by default the data set's.
        tags: Texts by name, kept in `run.json`.
        command: Options of the command line, kept in `run.json` for resuming.
        results_dir: The folder of run folders.
        resume: A run to finish in its own folder.
        reuse: A run with answers and verdicts to reuse in the new run if they are unchanged.
        accept_damage: Continue although records of a run are damaged.
        concurrency: Concurrent calls, at most the endpoint's `limits.concurrency`; by default that limit, else 10.
        workers: Processes for evaluators, 0 for none; by default for CPU-bound evaluators and files of the workspace.
        max_cost: Stop before the calls cost more.
        evaluator_timeout: Time limit of one call of an evaluator, in seconds.
        target_timeout: Time limit of one call of a target, in seconds.
        fail_on_evaluator_errors: Stop at an evaluator's first error.
        progress: Show a bar, or call this with each `Progress`; by default only a notebook shows a bar.
        limit: Take only this many rows, from the first on.
        number_ids: Rename a row with a repeated id to `<id>@<number of the row>` instead of refusing it.
        repeat: Answer each row this many times, at most 1,000, and add `pass_at_k`.
        group_by: Columns; the metrics are also reported for each of their values.
        cluster: The column that identifies dependent rows in comparisons of the run; `none` if all are independent.
        primary: The metric that decides between runs; by default the data's primary metric.
        calls: `strict`: only calls that the API returned count; `lenient`: calls in the text count, too. By default
            strict for an API that returns calls and was sent tools.
        until_decided: Stop once the run is `better_than` a run, or `no_worse_than` a run by `margin`, or worse. If
            False, a resumed run ignores these arguments and asks the rows that it left out.
        decide_on: The metrics that decide.
        confidence: The level of that decision.
        seed: The seed of the random order of rows with `until_decided`.
        allow_simulated: Accept simulated answers for the decision and the upload.
        on: Other machines that process the rows, from `--on`; by default this process does.
        trust: Files that data may name; the default is described in docs/security.md.

    Raises:
        ConfigurationError: A value is out of its range, or values contradict each other.
    """

    command: Mapping[str, JSON] | None = None
    results_dir: str | PathLike[str] = RESULTS_DIR
    resume: RunLike | None = None
    reuse: RunLike | None = None
    accept_damage: bool = False
    fail_on_evaluator_errors: bool = False
    progress: bool | ProgressCallback | None = None
    limit: int | None = None
    number_ids: bool = False
    group_by: str | Sequence[str] = ()
    cluster: str | None = None
    primary: str | None = None
    no_worse_than: RunLike | None = None
    better_than: RunLike | None = None
    until_decided: bool = False
    decide_on: str | Sequence[str] | None = None
    seed: int = 0
    allow_simulated: bool = False
    on: RunsElsewhere | None = None
    trust: Trust | None = None

    def __post_init__(self) -> None:
        """Check all values; raise ConfigurationError for the first wrong one."""
        values = {field.encode_name: getattr(self, field.name) for field in msgspec.structs.fields(_CheckedSettings)}
        # Subclasses of float, such as NumPy's, are numbers, too.
        given = {name: float(value) if isinstance(value, float) else value for name, value in values.items()}
        read_as(given, _CheckedSettings, "wrong argument")

        if is_remote(os.fspath(self.results_dir)):
            raise ConfigurationError("results_dir must be a local folder: only the command's --results-dir takes az://")

        if self.resume is not None and self.reuse is not None:
            raise ConfigurationError("resume finishes a run, but reuse starts a new run: give only one of them")

        self._check_decision()

    def _check_decision(self) -> None:
        """Check the settings of `until_decided`; without it, check that no run, margin or deciding metric is given.

        Raises:
            ConfigurationError: A setting is missing, or does not go with the others.
        """
        base, better, margin = self.no_worse_than, self.better_than, self.margin
        if not self.until_decided:
            # A resumed run may get them, because it was begun with them.
            names = "no_worse_than", "better_than", "margin", "decide_on"
            present = [name for name in names if getattr(self, name) is not None and self.resume is None]
            if present:
                raise ConfigurationError(f"{present[0]} needs until_decided=True; for complete runs, call compare()")
            return

        # Both runs are given, or neither; or no_worse_than is given without a margin, or a margin without it.
        if (base is None) == (better is None) or (base is None) != (margin is None):
            choice = "give either better_than, or no_worse_than and margin (the accepted loss)"
            raise ConfigurationError(f"until_decided compares with one run: {choice}")

        # A decision needs the rows in the order of the seed, which tasks on other machines do not keep.
        if self.on is not None:
            instead = "leave --on out; a higher --concurrency saves time, too"
            raise ConfigurationError(f"--until-decided does not work with --on: {instead}")

    @property
    def folder(self) -> Path:
        """The folder of run folders."""
        return Path(self.results_dir)

    @property
    def grouping(self) -> list[str]:
        """The columns by which metrics are grouped."""
        return [self.group_by] if isinstance(self.group_by, str) else list(self.group_by)

    @property
    def base(self) -> RunLike | None:
        """The run to compare with, if the comparison may stop the run early; else None."""
        base = self.no_worse_than if self.better_than is None else self.better_than
        return base if self.until_decided else None
