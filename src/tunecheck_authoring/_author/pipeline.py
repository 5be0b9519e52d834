"""Run the stages of `datasets author` one after another, keep their files in a folder, and write the data set.

| stage | files | inputs besides the earlier files |
|---|---|---|
| world | `world.yaml` | the simulators and their code |
| graph | `graph.yaml` | the seed, and the simulators' code |
| tasks | `tasks.jsonl`, `refused.jsonl` | the number of tasks, turns, seed, writer and personas |
| variants | `variants.jsonl` | the kinds of variants, and the seed |
| rows | `rejected.jsonl`, `review.jsonl`, the data set and its card | |

**When a file is made** (`Workbench.content`). `author.json` has the hash of each file's inputs, and of the file as it
was written. A file with another hash was edited by a person.

| the file | its inputs are unchanged | its inputs have changed |
|---|---|---|
| is missing | made | made |
| as written | kept | made again |
| edited | kept | kept; `graph.yaml` is made again, with the edges that the person added |

Each file's content is an input of all later files.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeAlias, TypeVar

import msgspec

import tunecheck_authoring as authoring
from tunecheck import ConfigurationError, plugins
from tunecheck.datasets import JsonLinesSource
from tunecheck.plugins import JSON
from tunecheck.runs import dumps_readably
from tunecheck.simulators import Backends
from tunecheck_authoring._author import files
from tunecheck_authoring._author.graph import check_graph, drawing, find_graph, keep_own
from tunecheck_authoring._author.paths import Coverage, check_tasks, sample_tasks
from tunecheck_authoring._author.rows import Trial, question_row, render_task, task_rows
from tunecheck_authoring._author.world import World, describe_world, find_world, fingerprints, load_shipped
from tunecheck_authoring._author.writing import EndpointModels, read_personas, reject_unsolved, reword_tasks

RECORD = "author.json"
"""The name of the record of stages in the folder."""

T = TypeVar("T")
Lines: TypeAlias = Sequence[files.Line]


class Workbench:
    """The stages' files of one data set. A file is kept if its inputs are unchanged or a person edited it.

    Args:
        folder: The folder of the files; it is created.
        name: The data set's name.

    `notes` says for each file whether it was made, kept or edited; `input` is a hash of the name and all files so far.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Create the folder if needed, and read its record of earlier stages.

        Raises:
            ConfigurationError: the folder cannot be created, or its record is damaged.
        """
        self.folder = folder
        self.notes: dict[str, str] = {}
        self.input = plugins.content_hash(name)
        with plugins.raise_as(ConfigurationError, folder, "cannot be made"):
            folder.mkdir(parents=True, exist_ok=True)

        known = folder / RECORD
        self._record = files.AuthorFile(name=name)
        if known.is_file():
            self._record = plugins.read_fitting(plugins.read_object(known), files.AuthorFile, str(known))

    def content(
        self, file: str, kind: type[T], inputs: JSON, make: Callable[[], T], merge: Callable[[T, T], T] | None = None
    ) -> T:
        """Return a file's content, which is an input of all later stages.

        The file is read if a person edited it or its `inputs` are unchanged; otherwise `make` makes it and it is
        written. With `merge`, an edited file, too, is made again if its inputs changed, and `merge(old, new)` keeps
        parts of the old content. `kind` is the type of the content: a struct for a YAML file, a list of structs for a
        JSON Lines file.
        """
        path, record = self.folder / file, self._record.stages.get(file)
        input_hash = plugins.content_hash([self.input, inputs])

        with plugins.raise_as(ConfigurationError, path):
            file_hash = plugins.sha256_of(path) if path.is_file() else None

        is_edited = file_hash is not None and (record is None or record.made != file_hash)
        is_current = record is not None and record.input == input_hash

        if file_hash is not None and (is_current or (is_edited and merge is None)):
            self.notes[file] = "edited, and kept" if is_edited else "unchanged"
            self.input = plugins.content_hash([input_hash, file_hash])
            return _read(path, kind)

        self.notes[file] = "made" if file_hash is None else "made again"
        content = make() if merge is None or file_hash is None else merge(_read(path, kind), make())

        with plugins.raise_as(ConfigurationError, path, "cannot be written"):
            plugins.write_file(path, _text(content))
            self._record.stages[file] = files.StageRecord(input_hash, plugins.sha256_of(path))
            plugins.write_file(self.folder / RECORD, dumps_readably(self._record))

        self.input = plugins.content_hash([input_hash, self._record.stages[file].made])
        return content


def _read(path: Path, kind: type[T]) -> T:
    """Return the content of a stage's file.

    `kind` is the type of the content.

    Raises:
        ConfigurationError: the file, which people may edit, has another structure.
    """
    if path.suffix == ".jsonl":
        return plugins.read_as([record for _, record in JsonLinesSource(path).records()], kind, str(path))

    document = plugins.read_yaml(path)
    if isinstance(document.value, dict):
        plugins.check_version(document.value, path)
    return plugins.read_as(document.value, kind, document.where)


def _text(content: object) -> bytes:
    """Return content as a stage's file: JSON Lines for a list, otherwise YAML."""
    import yaml

    plain = msgspec.to_builtins(content)
    if isinstance(plain, list):
        return b"".join(map(plugins.dumps_line, plain))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120).encode()


STAGES = ("world", "graph", "tasks", "variants", "rows")

_MOST_LISTED = 20
"""The most reasons for rejected rows in the card."""


class AuthorReport(msgspec.Struct):
    """The result of authoring: what happened to each stage's file (`stages`), the written files, and their contents.

    `work` is the folder of the stages' files. `rows` and `train` count the test and training rows, `variants` both by
    kind, and `rejected` the rejected rows by reason. `plain` counts, by reason, the turns that keep the plain request
    because the writer's words were unusable.
    """

    work: Path
    stages: dict[str, str] = msgspec.field(default_factory=dict)
    written: list[Path] = msgspec.field(default_factory=list)
    rows: int = 0
    train: int = 0
    variants: Counter[str] = msgspec.field(default_factory=Counter)
    rejected: Counter[str] = msgspec.field(default_factory=Counter)
    plain: Counter[str] = msgspec.field(default_factory=Counter)


def author(
    options: authoring.AuthorOptions,
    simulators: Sequence[str],
    backends: Backends,
    *,
    command: str = "tunecheck datasets author",
    models: EndpointModels | None = None,
) -> AuthorReport:
    """Author a data set with these simulators up to the stage of the options.

    With `models`, a writer words the requests, and a solver checks that the words ask for the right calls. `command` is
    the command line for the card.

    Raises:
        ConfigurationError: An option, a simulator or a stage's file cannot be used, or an output file exists.
    """
    last = options.stage or "rows"
    if last == "rows" and not options.overwrite:
        # Making the stages may take long, so existing files are refused first.
        for path in (options.out, train_path(options.out)):
            if path.exists():
                raise ConfigurationError(f"{path} exists; choose another NAME, or replace the file with --overwrite")

    pipeline = AuthorPipeline(options, simulators, backends, command, models)
    steps = (pipeline.make_world, pipeline.make_graph, pipeline.make_tasks, pipeline.make_variants, pipeline.make_rows)
    for make in steps[: STAGES.index(last) + 1]:
        make()
    return pipeline.report


@dataclass
class AuthorPipeline:
    """The stages; each reads the files of the stages before it."""

    _options: authoring.AuthorOptions
    _simulators: Sequence[str]
    _backends: Backends
    _command: str
    _models: EndpointModels | None

    def __post_init__(self) -> None:
        """Check the options, and open the folder of the stages' files."""
        options = self._options
        self._turns, self._kinds = options.turn_range(), options.kinds()
        personas = options.personas
        self._personas = load_shipped().personas if personas is None else read_personas(personas)
        self._bench = Workbench(options.folder, options.name)
        self.report = AuthorReport(options.folder, self._bench.notes)

    def make_world(self) -> None:
        """Make or read `world.yaml`, and load its simulators. The file must name the command's simulators.

        Raises:
            ConfigurationError: the file names other simulators.
        """
        classes = find_world(self._simulators, self._backends)
        inputs: JSON = [[*classes], fingerprints(classes)]
        file = self._bench.content("world.yaml", files.WorldFile, inputs, lambda: describe_world(classes))

        if {*file.simulators} != {*classes}:
            named = f"has the simulators {', '.join(file.simulators)}, but the command names {', '.join(classes)}"
            advice = "give the same --simulator options, or delete the file"
            raise ConfigurationError(f"{self._options.folder / 'world.yaml'} {named}; {advice}")
        # The built-in simulators may serve as distractors.
        built_in = {name: self._backends.find(name) for name in load_shipped().configurations}
        self._world = World.of(classes, file, built_in)

    def make_graph(self) -> None:
        """Make or read `graph.yaml`, check it, and write the diagram if the options ask for one."""
        world, seed, draw = self._world, self._options.seed, self._options.draw
        inputs: JSON = [seed, fingerprints(world.classes)]
        graph = self._bench.content("graph.yaml", files.GraphFile, inputs, lambda: find_graph(world, seed), keep_own)
        self._graph = graph
        check_graph(self._graph, world)

        if draw is not None:
            with plugins.raise_as(ConfigurationError, draw, "cannot be written"):
                plugins.write_file(draw, drawing(self._graph).encode())

    def make_tasks(self) -> None:
        """Make or read `tasks.jsonl` and `refused.jsonl`, the rejected tasks. Tasks without words get plain words."""
        options, models = self._options, self._models
        self._trial = Trial(self._world, options.seed)
        inputs: list[JSON] = [options.tasks, [*self._turns], options.seed]
        if models is not None:
            inputs += [models.writer, dict(self._personas)]

        refused: list[files.Weakness] = []
        tasks = self._bench.content("tasks.jsonl", list[files.AuthoredTask], inputs, lambda: self._sample(refused))
        check_tasks(tasks, self._world)
        self._tasks = [task if task.words else render_task(self._world, task, options.seed) for task in tasks]
        # `refused` is filled only while tasks are sampled. An unchanged tasks.jsonl keeps refused.jsonl, too.
        self._refused = self._bench.content("refused.jsonl", list[files.Weakness], None, lambda: refused)

    def _sample(self, refused: list[files.Weakness]) -> list[files.AuthoredTask]:
        """Return new tasks with words, reworded by the writer if there is one.

        Rejected tasks are appended to `refused`.
        """
        models, seed = self._models, self._options.seed

        def weakness(task: files.AuthoredTask) -> files.Weakness | None:
            """Return the weakness of a task's row, or None; keep it in `refused`."""
            # A task is tried as a row before it is accepted: with plain words and without a variant.
            row = next(self._rows_of(render_task(self._world, task, seed), ()))
            weakness_of_row = self._trial.weakness(row)
            if weakness_of_row is not None:
                refused.append(msgspec.structs.replace(weakness_of_row, variant="task"))
            return weakness_of_row

        sampled = sample_tasks(self._world, self._graph, self._options.tasks, self._turns, seed, weakness)
        tasks = [render_task(self._world, task, seed) for task in sampled]
        return tasks if models is None else reword_tasks(tasks, self._personas, seed, models)

    def make_variants(self) -> None:
        """Make or read `variants.jsonl`: each task as a row, with one variant of it."""
        inputs: JSON = [[*self._kinds], self._options.seed]
        kind: type[list[files.Line]] = list[files.QuestionLine] if self._turns == (1, 1) else list[files.RowLine]  # type: ignore[assignment]
        self._candidates = self._bench.content("variants.jsonl", kind, inputs, lambda: [*self._vary()])

    def _vary(self) -> Iterator[files.Line]:
        """Yield the rows of all tasks. Each task gets a variant of the kind that is rarest so far."""
        counts: Counter[str] = Counter()
        for task in self._tasks:
            for row in self._rows_of(task, sorted(self._kinds, key=counts.__getitem__)):  # the rarest kinds first
                counts[row.variant] += 1
                yield row

    def _rows_of(self, task: files.AuthoredTask, kinds: Sequence[files.Variant]) -> Iterator[files.Line]:
        """Return the task's row and, for a conversation, a variant of the first of these kinds that is possible."""
        seed, name = self._options.seed, self._options.name
        if self._turns == (1, 1):
            return iter([question_row(self._world, name, task)])
        return task_rows(self._world, self._graph, seed, name, task, kinds)

    def make_rows(self) -> None:
        """Check all rows, write the data set with its card, and fill the report.

        Raises:
            ConfigurationError: no row is valid.
        """
        options, report = self._options, self.report
        valid, rejected = self._judge_rows()
        if not valid:
            reasons = "rejected.jsonl and, if the solver judged the rows, in review.jsonl"
            raise ConfigurationError(f"{options.folder}: no row is valid; read the reasons in {reasons}")

        used, coverage = {row.task for row in valid}, Coverage()
        for task in self._tasks:
            if f"{options.name}-{task.id}" in used:
                coverage.add(task)
                report.plain.update(task.plain.values())

        test, train = split(valid, options.split, options.seed)
        text = self._card(test, train, rejected, coverage)
        report.written = write_dataset(options.out, test, train, text, options.name)
        report.rows, report.train = len(test), len(train)
        report.variants.update(row.variant for row in (*test, *train))
        report.rejected.update(each.reason for each in rejected if each.variant != "task")

    def _judge_rows(self) -> tuple[list[files.Line], list[files.Weakness]]:
        """Return the valid rows and the weaknesses of all rejected rows and tasks; write the files of rejected rows.

        With models, rows that the solver does not solve as meant are rejected, too.
        """
        judged = [(row, self._trial.weakness(row)) for row in self._candidates]
        valid = [row for row, weakness in judged if weakness is None]
        rejected = [weakness for _, weakness in judged if weakness is not None]

        self._bench.content("rejected.jsonl", list[files.Weakness], None, lambda: rejected)
        if self._models is None or not valid:
            return valid, [*rejected, *self._refused]

        valid, review = reject_unsolved(valid, self._models)
        self._bench.content("review.jsonl", list[files.Weakness], [each.id for each in review], lambda: review)
        return valid, [*rejected, *review, *self._refused]

    def _card(self, test: Lines, train: Lines, rejected: Sequence[files.Weakness], used: Coverage) -> str:
        """Return the data set's card: contents, coverage (`used`), and rejected rows with reasons."""
        graph, rows = self._graph, [*test, *train]
        # A question has one list of calls, a conversation one for each turn.
        truths = [[row.ground_truth] if isinstance(row, files.QuestionLine) else row.ground_truth for row in rows]
        turns = [turn for truth in truths for turn in truth]

        usable = {name for name, each in graph.functions.items() if each.problem is None}
        edges = {(edge.source, edge.target) for edge in graph.edges if edge.target.partition(".")[0] in usable}
        reasons = Counter(f"{'tasks' if each.variant == 'task' else 'rows'}: {each.reason}" for each in rejected)

        lines = [
            f"# {self._options.name}",
            "",
            f"Conversations with {', '.join(self._world.classes)}, authored with Tunecheck: `{self._command}`",
            "",
            f"* {plugins.plural(len({row.task for row in rows}), 'conversation')}: "
            f"{plugins.plural(len(test), 'test row')}, {plugins.plural(len(train), 'training row')}.",
            *(["* Test and training rows share no sequence of calls and no configuration."] if train else []),
            f"* {plugins.plural(len(turns), 'turn')}, {plugins.plural(sum(map(len, turns)), 'call')}.",
            f"* Functions used: {len(used.functions.keys() & usable):,} of {len(graph.functions):,}.",
            f"* Edges (values that feed parameters) used: {len(used.edges.keys() & edges):,} of {len(edges):,}.",
            f"* Distinct error replies to a first attempt: {len(used.errors):,}.",
            "* Each row's ground truth passes; without its calls or one of them, or with a changed argument, it fails.",
            *(f"* {line}" for line in plain_turns(self.report.plain)),
            "* License: not chosen yet; the words of the requests are made from your services' own descriptions.",
            "",
            *_table("variant", "rows", Counter(row.variant for row in rows)),
            *_table("function", "calls", {name: count for name in graph.functions if (count := used.functions[name])}),
            *_section("Functions that no row uses", _unused_functions(graph, used, rejected)),
            *_section("Rejected", [f"{count:,} {reason}" for reason, count in reasons.most_common(_MOST_LISTED)]),
        ]
        return "\n".join(lines).rstrip() + "\n"


def split(rows: Lines, share: float, seed: int) -> tuple[list[files.Line], list[files.Line]]:
    """Split rows into test rows (first) and training rows, which share no sequence of calls and no configuration.

    `share` is the largest share of training rows; with 0, all rows are test rows. Groups of linked rows are shuffled,
    and each one that still fits joins the training rows.

    Raises:
        ConfigurationError: All rows are linked by common sequences of calls or configurations.
    """
    if not share:
        return [*rows], []
    groups = _together(rows)
    if len(groups) == 1:
        advice = "raise --tasks, or add configurations with $one_of or $between to world.yaml"
        raise ConfigurationError(f"--split: all rows share calls or a configuration, so they stay together; {advice}")

    Random(f"{seed} split").shuffle(groups)
    train: set[str] = set()
    for group in groups[:-1]:  # at least one group stays in the test set
        if len(train) + len(group) <= share * len(rows):
            train |= {row.id for row in group}
    return [row for row in rows if row.id not in train], [row for row in rows if row.id in train]


def _together(rows: Lines) -> list[list[files.Line]]:
    """Group rows that share a task, a path, or another key that training and test rows must not share (`apart`).

    Rows are also linked through other rows.
    If rows 1 and 2 have the same path, and rows 2 and 3 the same configuration, all three are one group.
    """
    parents: dict[str, str] = {}  # union-find: rows with a common key get a common root

    def root(key: str) -> str:
        """Return the representative of all keys linked with this key, and shorten the way to it in `parents`."""
        while parents.setdefault(key, key) != key:
            parents[key] = parents[parents[key]]
            key = parents[key]
        return key

    for row in rows:
        keys = [f"task {row.task}", *row.apart, *([f"path {row.path}"] if row.path else [])]
        for key in keys[1:]:
            parents[root(key)] = root(keys[0])

    groups: dict[str, list[files.Line]] = defaultdict(list)
    for row in rows:
        groups[root(f"task {row.task}")].append(row)
    return [*groups.values()]


def write_dataset(out: Path, test: Lines, train: Lines, card: str, name: str) -> list[Path]:
    """Write the data set and the training set with their sidecars, and the card; return the paths of the files.

    A training set without rows is not written.

    Raises:
        ConfigurationError: A file cannot be written.
    """
    written = files.write_rows(out, test, f"Test rows of the data set {name}.")
    if train:
        written += files.write_rows(train_path(out), train, f"Training rows of the data set {name}.")
    card_path = out.with_name(f"{out.stem}.card.md")
    with plugins.raise_as(ConfigurationError, card_path, "cannot be written"):
        plugins.write_file(card_path, card.encode())
    return [*written, card_path]


def train_path(out: Path) -> Path:
    return out.with_name(f"{out.stem}-train.jsonl")


def plain_turns(plain: Counter[str]) -> list[str]:
    """Return one line with the number of turns that keep the plain request and the reasons; no line without turns."""
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in plain.most_common())
    turns = plugins.plural(plain.total(), "turn")
    return [f"In {turns}, the plain request stays because the writer's words are unusable: {reasons}."] if plain else []


def _unused_functions(graph: files.GraphFile, used: Coverage, rejected: Sequence[files.Weakness]) -> list[str]:
    """Return a line for each function that no row uses, with the reason.

    `used` counts the used functions, and `rejected` has the rejected tasks and rows.
    """
    reasons = {each.function: f"{each.reason}: {each.detail}" for each in reversed(rejected)}  # the first one counts
    unused = [name for name in graph.functions if not used.functions[name]]
    return [f"`{name}`: {graph.functions[name].problem or reasons.get(name, 'no task reached it')}" for name in unused]


def _section(title: str, lines: Sequence[str]) -> list[str]:
    """Return the Markdown lines of a list with a heading, or nothing for an empty list."""
    return [f"## {title}", "", *(f"* {line}" for line in lines), ""] if lines else []


def _table(title: str, unit: str, counts: Mapping[str, int]) -> list[str]:
    """Return the Markdown lines of a table: names in the column `title`, and counts in the column `unit` ("rows")."""
    return [f"| {title} | {unit} |", "|---|---|", *(f"| {name} | {count:,} |" for name, count in counts.items()), ""]
