"""Arguments of `evaluate()` and `score()` that say how a run goes and what is kept of it, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import TypeAlias, TypedDict

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._progress import ProgressCallback
from tunecheck._trust import Trust
from tunecheck.pipeline._plan import Pace

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
    progress: bool | ProgressCallback
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
    evaluator_timeout: float
    target_timeout: float


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
    results_dir: str | PathLike[str] = RESULTS_DIR

    @classmethod
    def of(cls, arguments: EvaluateArguments, *, name: str | None, tags: Mapping[str, str] | None) -> Keeping:
        """Those of the arguments that say what is kept."""
        return cls(
            name=name,
            tags=tags,
            command=arguments.get("command"),
            group_by=arguments.get("group_by", ()),
            results_dir=arguments.get("results_dir", RESULTS_DIR),
        )

    def __post_init__(self) -> None:
        if self.name is not None and not isinstance(self.name, str):
            raise ConfigurationError(f"evaluation_name must be a text, not {self.name!r}")
        for name, value in (self.tags or {}).items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise ConfigurationError(f"tags are texts by name; {name!r} is {value!r}")

    @property
    def folder(self) -> Path:
        """Where run folders are."""
        return Path(self.results_dir)

    @property
    def grouping(self) -> list[str]:
        """The columns by whose values metrics are reported."""
        return [self.group_by] if isinstance(self.group_by, str) else list(self.group_by)
