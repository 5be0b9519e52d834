"""The options of `evaluate` and `score` as data: from the command line, a configuration file, or a run's manifest.

They are laid over one another: the command line over the file, the file over what a run recorded. None is not given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from tunecheck._json import JSON
from tunecheck.cli._entries import parse_assignments, parse_names

OF_THE_OUTPUT = frozenset(
    {"quiet", "json", "debug", "dry_run", "resume", "reuse", "results_dir", "junit", "markdown"}
    | {"upload", "project", "mlflow"}
)
"""Options that belong to one start of the program rather than to the run, and are not recorded with it."""

_EXCLUSIVE = (("endpoint", "response_column"), ("dataset", "run"))

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for; `run` is the run that `score` judges again."""

    dataset: str | None = None
    endpoint: str | None = None
    response_column: str | None = None
    judge: str | None = None
    prices: str | None = None
    max_cost: float | None = None
    evaluators: list[str] | None = None
    set: dict[str, JSON] | None = None
    mapping: dict[str, JSON] | None = None
    name: str | None = None
    limit: int | None = None
    repeat: int | None = None
    concurrency: int | None = None
    workers: int | None = None
    group_by: list[str] | None = None
    seed: int | None = None
    fail_under: list[str] | None = None
    max_error_rate: float | None = None
    no_worse_than: str | None = None
    margin: float | None = None
    junit: str | None = None
    markdown: str | None = None
    allow_simulated: bool | None = None
    upload: bool | None = None
    project: str | None = None
    mlflow: str | None = None
    run: str | None = None
    resume: str | None = None
    reuse: str | None = None
    results_dir: str | None = None
    quiet: bool | None = None
    json: bool | None = None
    debug: bool | None = None
    dry_run: bool | None = None

    @classmethod
    def of_command_line(cls, parameters: Mapping[str, Any]) -> Options:
        """From a command's parameters, as typer has read them.

        Raises:
            ConfigurationError: a repeated `name=value` option is none.
        """
        given = {name.rstrip("_"): value for name, value in parameters.items() if _is_given(value)}
        given.pop("config", None)
        if "evaluators" in given:
            given["evaluators"] = parse_names(given["evaluators"], "--evaluators")
        for option in ("set", "mapping"):
            if option in given:
                given[option] = parse_assignments(given[option], f"--{option}")
        for option in ("group_by", "fail_under"):
            if option in given:
                given[option] = list(given[option])
        return cls(**given)

    def over(self, lower: Options) -> Options:
        """These options, and the lower ones where these give none; `set` and `mapping` entry by entry.

        What says the same in two ways is taken from one place only: an endpoint given here does away with a response
        column below, and data with a run.
        """
        for group in _EXCLUSIVE:
            if any(getattr(self, name) is not None for name in group):
                lower = replace(lower, **dict.fromkeys(group))
        return Options(
            **{field.name: _laid(getattr(self, field.name), getattr(lower, field.name)) for field in fields(self)}
        )

    def recorded(self) -> dict[str, JSON]:
        """What a run's manifest keeps, so that the run can be taken up again."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in OF_THE_OUTPUT and getattr(self, field.name) is not None
        }

    @property
    def folder(self) -> Path:
        """Where run folders are."""
        from tunecheck.cli._invocation import DEFAULT_RESULTS

        return Path(self.results_dir or DEFAULT_RESULTS)


def _is_given(value: object) -> bool:
    return not (value is None or value is False or value == () or value == [])


def _laid(upper: T, lower: T) -> T:
    if isinstance(upper, dict) and isinstance(lower, dict):
        return {**lower, **upper}  # type: ignore[return-value]
    return lower if upper is None else upper
