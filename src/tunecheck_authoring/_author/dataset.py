"""Write the authored data set: valid rows, split without overlap into training and test, a sidecar and a card."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec

from tunecheck import ConfigurationError
from tunecheck.datasets import DatasetDefaults, sidecar_path, sidecar_text
from tunecheck.plugins import dumps_line, plural, raise_as, write_file
from tunecheck_authoring._author.files import GraphFile, Line, RowLine, Weakness
from tunecheck_authoring._author.paths import Coverage

_MOST_LISTED = 20


@dataclass
class Authored:
    """Valid and rejected rows, and the coverage of the valid ones.

    `plain` counts, by reason, the turns that keep the plain request because the writer's words were unusable.
    """

    rows: list[Line] = field(default_factory=list)
    rejected: list[Weakness] = field(default_factory=list)
    train: list[Line] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    plain: Counter[str] = field(default_factory=Counter)


def split(rows: Sequence[Line], share: float, seed: int) -> tuple[list[Line], list[Line]]:
    """Split rows into test rows (first) and training rows, which share no sequence of calls and no configuration.

    `share` is the largest share of training rows; with 0, all rows are test rows.

    Raises:
        ConfigurationError: All rows are linked by common sequences of calls or configurations.
    """
    if not share:
        return [*rows], []
    groups = _together(rows)
    if len(groups) == 1:
        raise ConfigurationError(
            "--split: the conversations cannot be split, because they share calls or a configuration; "
            "add configurations with $one_of or $between to world.yaml"
        )
    Random(f"{seed} split").shuffle(groups)
    train: set[str] = set()
    for group in groups[:-1]:  # at least one group stays in the test set
        if len(train) + len(group) <= share * len(rows):
            train |= {row.id for row in group}
    return [row for row in rows if row.id not in train], [row for row in rows if row.id in train]


def _together(rows: Sequence[Line]) -> list[list[Line]]:
    """Group rows that share a task, a path or a key of `apart`, directly or through other rows."""
    parents: dict[str, str] = {}  # union-find: rows with a common key get a common root

    def root(key: str) -> str:
        while parents.setdefault(key, key) != key:
            parents[key] = parents[parents[key]]
            key = parents[key]
        return key

    for row in rows:
        keys = [f"task {row.task}", *row.apart, *([f"path {row.path}"] if row.path else [])]
        for key in keys[1:]:
            parents[root(key)] = root(keys[0])
    groups: dict[str, list[Line]] = defaultdict(list)
    for row in rows:
        groups[root(f"task {row.task}")].append(row)
    return [*groups.values()]


def write_dataset(out: Path, authored: Authored, card: str, name: str) -> list[Path]:
    """Write the data set and the training set with their sidecars, and the card; return the paths of the files.

    A set without rows is not written.

    Raises:
        ConfigurationError: A file cannot be written.
    """
    written: list[Path] = []
    for path, rows, what in ((out, authored.rows, "Test rows"), (train_path(out), authored.train, "Training rows")):
        if not rows:
            continue
        write_rows(path, rows, f"{what} of the data set {name}.")
        written += [path, sidecar_path(path)]
    with raise_as(ConfigurationError, card_path(out), "cannot be written"):
        write_file(card_path(out), card.encode())
    return [*written, card_path(out)]


def write_rows(path: Path, rows: Sequence[Line], description: str) -> None:
    """Write rows, and a sidecar that declares their target and evaluator.

    Raises:
        ConfigurationError: A file cannot be written.
    """
    talk = isinstance(rows[0], RowLine)
    target, evaluator = ("conversation", "multi_turn_state") if talk else (None, "call_check")
    defaults = DatasetDefaults(target=target, evaluators=[evaluator], cluster="task")
    with raise_as(ConfigurationError, path, "cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, b"".join(dumps_line(msgspec.to_builtins(row)) for row in rows))
        write_file(sidecar_path(path), sidecar_text(defaults, description=description).encode())


def train_path(out: Path) -> Path:
    return out.with_name(f"{out.stem}-train.jsonl")


def card_path(out: Path) -> Path:
    return out.with_name(f"{out.stem}.card.md")


def card(name: str, authored: Authored, graph: GraphFile, command: str, world: Iterable[str]) -> str:
    """Return the data set's card: contents, coverage, and rejected rows with reasons."""
    usable = {name for name, each in graph.functions.items() if each.problem is None}
    used = authored.coverage
    edges = {(edge.source, edge.target) for edge in graph.edges if edge.target.partition(".")[0] in usable}
    rows = [*authored.rows, *authored.train]
    reasons = Counter(f"{'tasks' if each.variant == 'task' else 'rows'}: {each.reason}" for each in authored.rejected)
    lines = [
        f"# {name}",
        "",
        f"Conversations with {', '.join(world)}, authored with Tunecheck: `{command}`",
        "",
        f"* {plural(len({row.task for row in rows}), 'conversation')}: "
        f"{plural(len(authored.rows), 'test row')}, {plural(len(authored.train), 'training row')}.",
        *(["* Test and training rows share no sequence of calls and no configuration."] if authored.train else []),
        f"* {plural(sum(row.turn_count for row in rows), 'turn')}, "
        f"{plural(sum(row.call_count for row in rows), 'call')}.",
        f"* Functions used: {len(used.functions.keys() & usable):,} of {len(graph.functions):,}.",
        f"* Edges (values that feed parameters) used: {len(used.edges.keys() & edges):,} of {len(edges):,}.",
        f"* Distinct error replies to a first attempt: {len(used.errors):,}.",
        "* The ground truth passes every row. An agent fails if it does nothing, omits a call or changes an argument.",
        *(f"* {line}" for line in plain_turns(authored.plain)),
        "* License: not chosen yet; the words of the requests are made from your services' own descriptions.",
        "",
        *_table("variant", Counter(row.variant for row in rows)),
        *_table("function", Counter({each: used.functions[each] for each in graph.functions if used.functions[each]})),
        *_section("Functions that no row uses", _unused_functions(graph, authored)),
        *_section("Rejected", [f"{count:,} {reason}" for reason, count in reasons.most_common(_MOST_LISTED)]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def plain_turns(plain: Counter[str]) -> list[str]:
    """Return a line with the number of turns that keep the plain request and the reasons, if there are any."""
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in plain.most_common())
    turns = plural(plain.total(), "turn")
    return [f"In {turns}, the plain request stays because the writer's words are unusable: {reasons}."] if plain else []


def _unused_functions(graph: GraphFile, authored: Authored) -> list[str]:
    """Return a line for each function that no row uses, with the reason."""
    said: dict[str, str] = {}
    for each in authored.rejected:
        if each.function is not None:
            said.setdefault(each.function, f"{each.reason}: {each.detail}")
    unused = [name for name in graph.functions if not authored.coverage.functions[name]]
    return [f"`{name}`: {graph.functions[name].problem or said.get(name, 'no task reached it')}" for name in unused]


def _section(title: str, lines: Sequence[str]) -> list[str]:
    """Return the Markdown lines of a list with a heading, or nothing for an empty list."""
    return [f"## {title}", "", *(f"* {line}" for line in lines), ""] if lines else []


def _table(title: str, counts: Mapping[str, int]) -> list[str]:
    """Return the Markdown lines of a table with the number of rows by name."""
    return [f"| {title} | rows |", "|---|---|", *(f"| {name} | {count:,} |" for name, count in counts.items()), ""]
