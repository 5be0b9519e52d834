"""The stages of `datasets author`, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from tunecheck.authoring._author.files import VARIANTS, Variant, WorldFile
from tunecheck.authoring._author.stages import Workbench
from tunecheck.authoring._author.world import World, described, find_world
from tunecheck.simulators._backend import Backends

Stage: TypeAlias = Literal["world", "graph", "paths", "truth", "tasks", "variants", "rows"]
STAGES: tuple[Stage, ...] = get_args(Stage)


@dataclass(frozen=True, kw_only=True)
class AuthorPlan:
    """What to author.

    `simulators` are plugin names; `turns` the least and the most of a conversation; `split` the share of the tasks
    that goes to the training set; `variants` the kinds of which each task gets one, in turn. `work` is where the
    stages leave their files, `out` the data set. `last` is the last stage to run.
    """

    name: str
    simulators: Sequence[str]
    tasks: int = 50
    turns: tuple[int, int] = (2, 4)
    seed: int = 0
    split: float = 0.0
    variants: Sequence[Variant] = VARIANTS
    work: Path
    out: Path
    draw: Path | None = None
    last: Stage = "rows"
    overwrite: bool = False


@dataclass
class AuthorReport:
    """What became of it: each stage's file, and what was done with it."""

    work: Path
    files: dict[str, str] = field(default_factory=dict)


def author(plan: AuthorPlan, backends: Backends) -> AuthorReport:
    """Author a data set, as far as `plan.last`.

    Raises:
        ConfigurationError: a simulator or a stage's file cannot be used, or a file is there already.
    """
    bench = Workbench(plan.work, plan.name)
    read_world(plan, backends, bench)
    return AuthorReport(plan.work, bench.notes)


def read_world(plan: AuthorPlan, backends: Backends, bench: Workbench) -> World:
    """The first stage: which services, functions and configurations there are."""
    classes = find_world(plan.simulators, backends)
    file = bench.document("world.yaml", WorldFile, [*classes], lambda: described(classes))
    if list(file.simulators) != [*classes]:
        classes = find_world(file.simulators, backends)
    return World.of(classes, file)
