"""Read a run for a report: its evaluators, and the role of each column of a row."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

from tunecheck._files import DatasetEntry, EvaluatorEntry, MetricEntry, RunFile
from tunecheck._json import JSON
from tunecheck.calls._schemas import TOOL_COLUMNS
from tunecheck.calls.matching import MatchPolicy
from tunecheck.pipeline._finished_rows import ResultRow, Verdict, VerdictReader
from tunecheck.results import PASS_RATE, EvaluatorColumns as JudgedColumns, RunTable
from tunecheck.results._first_screen import order_evaluators
from tunecheck.results._run_lines import answered_by, data_of
from tunecheck.runs._manifest import ValueReader, value_reader
from tunecheck.runs._store import Run

_VERDICT = (
    "", "_score", "_passed", "_result", "_reason", "_status", "_threshold", "_properties", "_differences",
)  # fmt: skip
"""The suffixes of a verdict's keys."""

_POLICIES = frozenset(MatchPolicy().options())


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One evaluator of a run: its declared main metric, if any, and its metrics.

    `verdicts` reads its verdicts from rows. `compares` is the part of calls that a built-in evaluator compares.
    `alternatives` is True if expected arguments are lists of accepted values, None if that is unknown.
    """

    name: str
    primary: str | None
    metrics: Sequence[MetricEntry]
    verdicts: VerdictReader
    compares: Literal["arguments", "functions"] | None = None
    alternatives: bool | None = None

    @property
    def graded(self) -> list[MetricEntry]:
        """The metrics that are not binary."""
        return [metric for metric in self.metrics if metric.kind != "binary"]


@dataclass(frozen=True)
class ReportedRun:
    """A finished run.

    `metrics` is the content of `metrics.json`. `table` has the metrics as columns. `folder` is None for results of
    other programs.
    """

    id: str
    manifest: RunFile
    metrics: Mapping[str, JSON]
    evaluators: Sequence[Evaluated]
    table: RunTable
    folder: Run | None = None
    notes: Sequence[str] = ()

    def rows(self, positions: Sequence[int] | None = None) -> Iterator[ResultRow]:
        """Yield all rows, or those at these positions, in this order.

        Rows of another program's results have the ids that comparisons use, and no empty values. The readers of such
        files read all rows into memory anyway.
        """
        if self.folder is not None:
            rows = self.folder.rows()
            yield from rows if positions is None else rows.only(positions)
            return
        named = zip(self.table.row_ids, self.table.opened.rows.records(), strict=False)
        found: list[ResultRow] = [
            {**{key: value for key, value in row.items() if value is not None}, "row_id": name} for name, row in named
        ]
        yield from found if positions is None else (found[at] for at in positions)

    @cached_property
    def ground_truth(self) -> ValueReader:
        """The reader of a row's ground truth."""
        columns = [name for name in ("ground_truth", "answer") if name not in self.table.answers]
        return value_reader(self.manifest, "ground_truth", columns)

    @cached_property
    def response(self) -> ValueReader:
        """The reader of a row's response."""
        return value_reader(self.manifest, "response", ("response",))

    @cached_property
    def tools(self) -> ValueReader:
        """The reader of a row's tool definitions."""
        return value_reader(self.manifest, "tool_definitions", TOOL_COLUMNS)


def read_run(table: RunTable, folder: Run | None) -> ReportedRun:
    """Read a run's description, metrics and evaluators for a report.

    Raises:
        ConfigurationError: the run has not finished, or its files are damaged.
    """
    info = table.info
    if folder is None:
        manifest = RunFile(
            dataset=DatasetEntry(path=info.place),
            group_by=list(table.groups),
            simulated=info.simulated,
            created=info.created,
        )
        return ReportedRun(info.id, manifest, {}, list_evaluators(table, manifest), table, notes=info.notes)
    manifest, measured = folder.manifest(), folder.metrics()
    noted = measured.get("notes")
    notes = [*info.notes, *map(str, noted if isinstance(noted, list) else ())]
    evaluators = list_evaluators(table, manifest)
    return ReportedRun(folder.id, manifest, measured, evaluators, table, folder, notes)


def facts_of(run: ReportedRun) -> Iterator[JSON]:
    """Yield the facts of a run for the head of the page, as `[name, text]`."""
    manifest = run.manifest
    yield ["data" if run.folder else "read from", data_of(manifest)]
    if run.folder:
        yield ["answers", answered_by(manifest)]
    for name, value in (("begun", manifest.created), ("ended", manifest.ended), ("reused from", manifest.parent)):
        if value:
            yield [name, f"{value[:19].replace('T', ' ')} UTC" if value.endswith("+00:00") else value]
    status = run.folder.status() if run.folder and manifest.status else "finished"
    if status != "finished":
        yield ["state", f"not finished ({status}): the rows are those of before"]
    if manifest.tags:
        yield ["tags", ", ".join(f"{name}={value}" for name, value in manifest.tags.items())]
    if version := manifest.versions.get("tunecheck"):
        yield ["tunecheck", version]


def list_evaluators(table: RunTable, manifest: RunFile) -> list[Evaluated]:
    """Return a run's evaluators, the primary one first: charts and lists of rows begin with it."""
    declared = manifest.evaluators
    own = {name: each for name, each in table.evaluators.items() if not declared or name not in table.opened.derived}
    names = order_evaluators(own, manifest.dataset.primary, table.groups.get("row_kind"))
    return [_describe_evaluator(own[name], table, declared.get(name)) for name in names]


def _describe_evaluator(own: JudgedColumns, table: RunTable, entry: EvaluatorEntry | None) -> Evaluated:
    """Describe an evaluator by its declaration, else by its columns."""
    options, name = own.arguments, own.name
    # Only evaluators that match calls have all the options of MatchPolicy.
    kind, has_policies = ((entry and entry.type) or "").rpartition(".")[2], options.keys() >= _POLICIES
    compares: Literal["arguments", "functions"] | None = None
    if has_policies or kind == "CallCheckEvaluator":
        compares = "functions" if kind == "FunctionCallMatchEvaluator" else "arguments"
    verdict, main = table.columns.get(f"{name}.{PASS_RATE}"), table.columns.get(own.main or "")
    metrics = (entry and entry.metrics) or [*_found_metrics(own, table)]
    primary = entry.primary if entry is not None else main.metric if main is not None else None
    shown = verdict.metric if verdict is not None else primary or (metrics[0].name if metrics else name)
    accepted = options.get("alternatives") is True if has_policies else None
    return Evaluated(name, primary, metrics, VerdictReader(name, shown), compares, accepted)


def _found_metrics(own: JudgedColumns, table: RunTable) -> Iterator[MetricEntry]:
    """Yield the metrics of an evaluator without a declaration, from the numbers that it returned."""
    for column in (table.columns[name] for name in own.columns):
        if column.passes != column.name:
            bounds: list[float | None] | None = [*column.bounds] if column.bounds else None
            yield MetricEntry(column.name.removeprefix(f"{own.name}."), "score", bounds, column.higher_is_better)


@dataclass(frozen=True, slots=True)
class EvaluatorKeys:
    """One evaluator's keys in a row.

    `differences` is the key of a judge's list of differences. `others` has name and key of values that are not part of
    the verdict. `any` is True if the row has a key of the evaluator.
    """

    verdicts: VerdictReader
    differences: str
    properties: str
    others: Sequence[tuple[str, str]]
    any: bool


@dataclass(slots=True)
class Columns:
    """The roles of a row's keys, which are the same for all rows with the same keys.

    `inputs` and `target` have pairs of a column's name and its key, `errors` of a stage and its key. `evaluators` are
    in the order of the run.
    """

    inputs: list[tuple[str, str]] = field(default_factory=list)
    target: list[tuple[str, str]] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)
    evaluators: list[EvaluatorKeys] = field(default_factory=list)

    def verdicts(self, row: Mapping[str, JSON]) -> list[Verdict]:
        """Return each evaluator's verdict on the row."""
        return [own.verdicts.read(row, "scored" if own.any else "error") for own in self.evaluators]


class ShapeReader:
    """Determines the columns of rows, once for each shape (set of keys)."""

    def __init__(self, evaluators: Sequence[Evaluated]) -> None:
        self._evaluators = evaluators
        self._of_shape = lru_cache(1_000)(self._columns)  # many different shapes of rows must not fill the memory

    def columns(self, row: Mapping[str, JSON]) -> Columns:
        """Return the columns of this row."""
        return self._of_shape(tuple(row))

    def _columns(self, shape: Sequence[str]) -> Columns:
        """Return the role of each key of a row with this shape: input, target output, evaluator or error."""
        columns = Columns()
        own: dict[str, list[tuple[str, str]]] = {each.name: [] for each in self._evaluators}
        longest_first = sorted(own, key=len, reverse=True)
        for key in shape:
            kind, _, name = key.partition(".")
            if kind == "inputs":
                columns.inputs.append((name, key))
            elif kind == "error":
                columns.errors.append((name, key))
            elif kind == "outputs":
                evaluator = next((each for each in longest_first if name.startswith(f"{each}.")), None)
                place = columns.target if evaluator is None else own[evaluator]
                place.append((name if evaluator is None else name[len(evaluator) + 1 :], key))
        for each in self._evaluators:
            main, keys = each.verdicts.metric, own[each.name]
            start, known = f"outputs.{each.name}.{main}", {f"{main}{ending}" for ending in _VERDICT}
            others = [(name, key) for name, key in keys if name not in known]
            known_keys = (f"{start}_differences", f"{start}_properties")
            columns.evaluators.append(EvaluatorKeys(each.verdicts, *known_keys, others, bool(keys)))
        return columns
