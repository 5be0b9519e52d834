"""Arguments of `evaluate()` and `score()` that say how a run goes and what is kept of it, checked."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._progress import ProgressCallback
from tunecheck._trust import Trust
from tunecheck.pipeline._plan import Pace
from tunecheck.runs._mirrors import is_remote

if TYPE_CHECKING:
    from tunecheck.comparison._deciding import Question
    from tunecheck.evaluation._execution import RunsElsewhere

RunLike: TypeAlias = "str | PathLike[str]"

RESULTS_DIR = "eval_results"
"""Where run folders are, by default."""


class RunArguments(TypedDict, total=False):
    """Arguments of `evaluate` that whatever runs a benchmark by it hands on as they are."""

    concurrency: int | None
    max_cost: float | None
    resume: RunLike | None
    reuse: RunLike | None
    results_dir: str | PathLike[str]
    progress: bool | ProgressCallback | None
    command: Mapping[str, JSON] | None
    accept_damage: bool
    trust: Trust | None


class EvaluateArguments(RunArguments, total=False):
    """Arguments of `evaluate` that Azure's has not; their defaults are those of `Pace` and `Keeping`."""

    workers: int | None
    limit: int | None
    number_ids: bool
    repeat: int
    group_by: str | Sequence[str]
    cluster: str | None
    evaluator_timeout: float
    target_timeout: float
    no_worse_than: RunLike | None
    better_than: RunLike | None
    margin: float | None
    until_decided: bool
    decide_on: str | Sequence[str] | None
    confidence: float
    seed: int
    on: RunsElsewhere | None


def question_of(arguments: EvaluateArguments, *, allow_simulated: bool) -> Question | None:
    """What the run decides, where it may stop early.

    Raises:
        ConfigurationError: the arguments that say so do not go together.
    """
    base, better = arguments.get("no_worse_than"), arguments.get("better_than")
    margin, metrics = arguments.get("margin"), arguments.get("decide_on")
    if not arguments.get("until_decided", False):
        named = [name for name in ("no_worse_than", "better_than", "margin", "decide_on") if arguments.get(name)]
        if named:
            raise ConfigurationError(f"{named[0]} is for until_decided=True; of complete runs, compare() says the same")
        return None
    against = base if better is None else better
    if against is None or None not in (base, better):
        raise ConfigurationError("until_decided needs one run to decide against: no_worse_than, or better_than")
    if (base is None) != (margin is None):
        raise ConfigurationError("no_worse_than and margin go together: how much worse is still accepted")
    if margin is not None and not 0 <= margin < math.inf:
        raise ConfigurationError(f"a margin is 0 or more, not {margin!r}")
    confidence = arguments.get("confidence", 0.95)
    if not 0.5 <= confidence < 1:
        raise ConfigurationError(f"a confidence lies between 0.5 and 1, not {confidence!r}")
    from tunecheck.comparison._deciding import Question  # most runs do not ask

    return Question(
        base=against,
        margin=margin,
        metrics=[metrics] if isinstance(metrics, str) else metrics,
        confidence=confidence,
        seed=arguments.get("seed", 0),
        allow_simulated=allow_simulated,
    )


def pace_of(arguments: EvaluateArguments, *, fail_on_evaluator_errors: bool) -> Pace:
    """Those of the arguments that say how a run goes."""
    own = {field.name: arguments[field.name] for field in fields(Pace) if field.name in arguments}  # type: ignore[literal-required]
    return Pace(**own, fail_on_evaluator_errors=fail_on_evaluator_errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What is kept of a run, and where: its name (the data set's by default) and all that its manifest repeats.

    Raises:
        ConfigurationError: the name or a tag is not text.
    """

    name: str | None
    tags: Mapping[str, str] | None = None
    command: Mapping[str, JSON] | None = None
    group_by: str | Sequence[str] = ()
    cluster: str | None = None
    results_dir: str | PathLike[str] = RESULTS_DIR

    @classmethod
    def of(cls, arguments: EvaluateArguments, *, name: str | None, tags: Mapping[str, str] | None) -> Keeping:
        """Those of the arguments that say what is kept."""
        return cls(
            name=name,
            tags=tags,
            command=arguments.get("command"),
            group_by=arguments.get("group_by", ()),
            cluster=arguments.get("cluster"),
            results_dir=arguments.get("results_dir", RESULTS_DIR),
        )

    def __post_init__(self) -> None:
        if self.name is not None and not isinstance(self.name, str):
            raise ConfigurationError(f"evaluation_name must be a text, not {self.name!r}")
        for name, value in (self.tags or {}).items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise ConfigurationError(f"tags are texts by name; {name!r} is {value!r}")
        if is_remote(os.fspath(self.results_dir)):
            raise ConfigurationError("results_dir is a folder; storage is for the command line: --results-dir az://…")

    @property
    def folder(self) -> Path:
        """Where run folders are."""
        return Path(self.results_dir)

    @property
    def grouping(self) -> list[str]:
        """The columns by whose values metrics are reported."""
        return [self.group_by] if isinstance(self.group_by, str) else list(self.group_by)
