"""The stages of `datasets author`, one after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from tunecheck._errors import ConfigurationError, told_as
from tunecheck._json import JSON
from tunecheck._whole_files import write_file
from tunecheck.simulators._backend import Backends
from tunecheck_authoring._author.dataset import Authored, card, covered, split, train_path, write_dataset
from tunecheck_authoring._author.drawing import drawing
from tunecheck_authoring._author.files import (
    VARIANTS,
    GraphFile,
    Line,
    PathLine,
    QuestionLine,
    RejectedLine,
    RowLine,
    TaskLine,
    TruthLine,
    Variant,
    WorldFile,
)
from tunecheck_authoring._author.graph import check_graph, find_graph, keep_own
from tunecheck_authoring._author.paths import check_paths, sample_paths
from tunecheck_authoring._author.questions import question_row
from tunecheck_authoring._author.shipped import configurations, personas
from tunecheck_authoring._author.stages import Workbench
from tunecheck_authoring._author.tasks import execute, put_into_words
from tunecheck_authoring._author.trial import Trial, Weakness
from tunecheck_authoring._author.variants import RowAuthor
from tunecheck_authoring._author.world import World, described, find_world
from tunecheck_authoring._author.writing import Models, reworded, set_aside

Stage: TypeAlias = Literal["world", "graph", "paths", "truth", "tasks", "variants", "rows"]
STAGES: tuple[Stage, ...] = get_args(Stage)


@dataclass(frozen=True, kw_only=True)
class AuthorPlan:
    """What to author.

    `simulators` are plugin names; `turns` the least and the most of a conversation; `split` the share of the tasks
    that goes to the training set; `variants` the kinds of which each task gets one, in turn. `work` is where the
    stages leave their files, `out` the data set. `last` is the last stage to run. With `models`, one words the requests
    in the voice of `personas` (by default those that are shipped), and one tries whether they say what they should.
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
    command: str = "tunecheck datasets author"
    overwrite: bool = False
    personas: Mapping[str, str] | None = None
    models: Models | None = None

    @property
    def questions(self) -> bool:
        """Whether each row has a single turn."""
        return self.turns == (1, 1)


@dataclass
class AuthorReport:
    """What became of it: each stage's file and what was done with it, the files of the data set, and what is in them.

    `plain` counts, by reason, the turns in which the plain request stands for what a writer wrote.
    """

    work: Path
    files: dict[str, str] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)
    rows: int = 0
    train: int = 0
    variants: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    plain: Counter[str] = field(default_factory=Counter)


def author(plan: AuthorPlan, backends: Backends) -> AuthorReport:
    """Author a data set, as far as `plan.last`.

    Raises:
        ConfigurationError: a simulator or a stage's file cannot be used, or a file is there already.
    """
    _check_files(plan)
    making = _Making(plan, backends)
    for stage in STAGES[: STAGES.index(plan.last) + 1]:
        getattr(making, stage)()
    return making.report


class _Making:
    """The stages; each reads what those before it left."""

    def __init__(self, plan: AuthorPlan, backends: Backends) -> None:
        self._plan, self._backends = plan, backends
        self._bench = Workbench(plan.work, plan.name)
        self.report = AuthorReport(plan.work, self._bench.notes)

    def world(self) -> None:
        classes = find_world(self._plan.simulators, self._backends)
        inputs: JSON = [[*classes], World(classes, WorldFile(simulators=[])).fingerprint()]
        file = self._bench.document("world.yaml", WorldFile, inputs, lambda: described(classes))
        if {*file.simulators} != {*classes}:
            raise ConfigurationError(
                f"{self._plan.work / 'world.yaml'} is about {', '.join(file.simulators)}, and the command about "
                f"{', '.join(classes)}: name the same, or delete the file"
            )
        self._world = World.of(classes, file, {name: self._backends.find(name) for name in configurations()})

    def graph(self) -> None:
        world, seed = self._world, self._plan.seed
        self._graph = self._bench.document(
            "graph.yaml", GraphFile, [seed, world.fingerprint()], lambda: find_graph(world, seed), keep_own
        )
        check_graph(self._graph, world)
        if self._plan.draw is not None:
            with told_as(ConfigurationError, self._plan.draw, "cannot be written"):
                write_file(self._plan.draw, drawing(self._graph).encode())

    def paths(self) -> None:
        plan, world = self._plan, self._world
        self._trial = Trial(world, plan.seed)
        inputs: JSON = [plan.tasks, [*plan.turns], plan.seed]
        refused: list[RejectedLine] = []
        self._paths = self._bench.lines("paths.jsonl", PathLine, inputs, lambda: [*self._sampled(refused)])
        check_paths(self._paths, world)
        self._refused = self._bench.lines("refused.jsonl", RejectedLine, None, lambda: refused)

    def _sampled(self, refused: list[RejectedLine]) -> Iterator[PathLine]:
        plan = self._plan

        def weakness(path: PathLine) -> Weakness | None:
            truth, task = execute(self._world, path), put_into_words(self._world, path, plan.seed)
            row = next(iter(self._rows_of(path, truth, task, ())))
            found = self._trial.weakness(row)
            if found is not None:
                refused.append(_rejected(row, "path", found))
            return found

        return sample_paths(self._world, self._graph, plan.tasks, plan.turns, plan.seed, weakness)

    def truth(self) -> None:
        self._truths = self._bench.lines(
            "truth.jsonl", TruthLine, None, lambda: [execute(self._world, path) for path in self._paths]
        )

    def tasks(self) -> None:
        models = self._plan.models
        inputs: JSON = self._plan.seed
        if models is not None:
            inputs = [inputs, models.label(), dict(self._personas)]
        self._tasks = self._bench.lines("tasks.jsonl", TaskLine, inputs, self._in_words)

    @property
    def _personas(self) -> Mapping[str, str]:
        return self._plan.personas or personas()

    def _in_words(self) -> list[TaskLine]:
        seed, models = self._plan.seed, self._plan.models
        tasks = [put_into_words(self._world, path, seed) for path in self._paths]
        return tasks if models is None else reworded(tasks, self._paths, self._personas, seed, models)

    def variants(self) -> None:
        kinds = self._plan.variants
        inputs: JSON = [[*kinds], self._plan.seed]
        kind: type[Line] = QuestionLine if self._plan.questions else RowLine
        self._candidates = self._bench.lines("variants.jsonl", kind, inputs, lambda: [*self._varied(kinds)])

    def _varied(self, kinds: Sequence[Variant]) -> Iterator[Line]:
        truths = {each.id: each for each in self._truths}
        tasks = {each.id: each for each in self._tasks}
        made: Counter[str] = Counter()
        for path in self._paths:
            if path.id in truths and path.id in tasks:  # who takes a line out of a file takes its rows out
                rarest = sorted(kinds, key=made.__getitem__)
                for row in self._rows_of(path, truths[path.id], tasks[path.id], rarest):
                    made[row.variant] += 1
                    yield row

    def _rows_of(self, path: PathLine, truth: TruthLine, task: TaskLine, kinds: Sequence[Variant]) -> Iterable[Line]:
        """The task's row and that of a variant of the first of these kinds that there can be."""
        plan = self._plan
        if plan.questions:
            return [question_row(self._world, plan.name, path, task)]
        return RowAuthor(self._world, self._graph, plan.seed).rows(plan.name, path, truth, task, kinds)

    def rows(self) -> None:
        plan, authored = self._plan, Authored()
        for row in self._candidates:
            weakness = self._trial.weakness(row)
            if weakness is None:
                authored.rows.append(row)
            else:
                authored.rejected.append(_rejected(row, row.variant, weakness))
        self._bench.lines("rejected.jsonl", RejectedLine, None, lambda: authored.rejected)
        if plan.models is not None:
            authored.rows, review = set_aside(authored.rows, plan.models)
            self._bench.lines("review.jsonl", RejectedLine, [each.id for each in review], lambda: review)
            authored.rejected += review
        if not authored.rows:
            raise ConfigurationError(f"{plan.work}: no row holds; see rejected.jsonl and review.jsonl")
        authored.rejected += self._refused
        used = {row.task for row in authored.rows}
        authored.coverage = covered(path for path in self._paths if f"{plan.name}-{path.id}" in used)
        tasks = (each for each in self._tasks if f"{plan.name}-{each.id}" in used)
        authored.plain.update(reason for each in tasks for reason in each.plain.values())
        authored.rows, authored.train = split(authored.rows, plan.split, plan.seed)
        text = card(plan.name, authored, self._graph, plan.command, self._world.classes)
        report = self.report
        report.written = write_dataset(plan.out, authored, text, plan.name)
        report.rows, report.train = len(authored.rows), len(authored.train)
        report.variants.update(row.variant for row in (*authored.rows, *authored.train))
        report.plain = authored.plain
        report.rejected.update(each.reason for each in authored.rejected if each.variant != "path")


def _rejected(row: Line, variant: str, weakness: Weakness) -> RejectedLine:
    return RejectedLine(
        id=row.id, variant=variant, reason=weakness.reason, detail=weakness.detail, function=weakness.function
    )


def _check_files(plan: AuthorPlan) -> None:
    if plan.last != "rows" or plan.overwrite:
        return
    for path in (plan.out, train_path(plan.out)):
        if path.exists():
            raise ConfigurationError(f"{path} exists; choose another name, or replace it with --overwrite")
