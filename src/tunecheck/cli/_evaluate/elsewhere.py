"""Computes rows elsewhere with `--on`: rebuilds a task's execution there from the command's options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunecheck import plugins
from tunecheck._trust import Trust
from tunecheck.cli._evaluate.options import Options
from tunecheck.datasets._defaults import DatasetDefaults

if TYPE_CHECKING:
    from tunecheck.datasets._reading import Dataset
    from tunecheck.evaluation._execution import Execution
    from tunecheck.evaluation._settings import RunsElsewhere

_DRIVER_ONLY = (
    "on", "repeat", "limit", "resume", "reuse", "junit", "markdown", "no_worse_than", "better_than", "config",
)  # fmt: skip
"""Options that only the driver uses."""


@dataclass(frozen=True)
class TaskOptions:
    """Makes the execution of a run's tasks from the command's options. It is pickled and holds no secrets.

    `columns`, `defaults`, `name` and `path` describe the data set, because tasks get rows instead of the file. `make`
    is `task_execution`.
    """

    make: Callable[[Options, Dataset, Trust], Execution]
    options: Options
    columns: tuple[str, ...]
    defaults: DatasetDefaults
    name: str
    path: Path | None
    allowed: tuple[Path, ...]

    def __call__(self) -> Execution:
        """Create endpoint, evaluators and mapping in this process.

        Raises:
            TunecheckError: something that the options name is missing on this machine.
        """
        from tunecheck.datasets._reading import described_dataset

        dataset = described_dataset(self.columns, self.defaults, self.name, self.path)
        return self.make(self.options, dataset, Trust(allowed=self.allowed))


def runs_elsewhere(
    options: Options, dataset: Dataset, trust: Trust, make: Callable[[Options, Dataset, Trust], Execution]
) -> RunsElsewhere | None:
    """Return the runner named by `--on`, or None; `make` creates a task's execution.

    Raises:
        ConfigurationError: there is no such runner.
    """
    if options.on is None:
        return None
    name, colon, address = options.on.partition(":")
    open_runner = plugins.runner(name)
    values: dict[str, Any] = {each.name: getattr(options, each.name) for each in fields(Options)}
    given = Options(**{**values, **dict.fromkeys(_DRIVER_ONLY), "quiet": True})
    path = None if dataset.path is None else dataset.path.resolve()
    inside = path is not None and trust.has(path)
    shown = path.relative_to(trust.workspace) if path is not None and inside else path
    recipe = TaskOptions(
        make, given, tuple(dataset.scan().columns), dataset.defaults, dataset.name, shown, trust.allowed
    )
    found: RunsElsewhere = open_runner(address if colon else None, options, recipe)
    return found
