"""Read a run for a report: its evaluators, and the role of each column of a row.

`report._writing` calls `read_run` for each run of the page, and `report._details` calls `columns_of` for rows.

The prefix of a column's key is its role. An evaluator's name may contain dots, so the longest matching name counts:

  inputs.query               a column of the data
  outputs.match.match_score  a value of the evaluator `match`
  outputs.response           a value of the target: no evaluator has this name
  error.target               an error of a stage
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from tunecheck._files import DatasetEntry, EvaluatorEntry, MetricEntry, RunFile
from tunecheck._json import JSON
from tunecheck.calls.matching import MatchPolicy
from tunecheck.pipeline._finished_rows import RecordedVerdict, ResultRow, VerdictReader, order_evaluators
from tunecheck.results import PASS_RATE, EvaluatorColumns as JudgedColumns, RunTable
from tunecheck.results._overviews import answered_by, data_of
from tunecheck.runs._store import Run

_VERDICT = ("", "_score", "_passed", "_result", "_reason", "_status", "_threshold", "_properties", "_differences")
"""The suffixes of a verdict's keys."""

_POLICIES = frozenset(MatchPolicy().options())


class Evaluated(msgspec.Struct, frozen=True):
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


class ReportedRun(msgspec.Struct, frozen=True):
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
            return iter(rows if positions is None else rows.only(positions))

        # Other programs write null where a run of Tunecheck has no key.
        read: list[ResultRow] = []
        for row_id, row in zip(self.table.row_ids, self.table.opened.rows.records(), strict=False):
            read.append({**{key: value for key, value in row.items() if value is not None}, "row_id": row_id})
        return iter(read if positions is None else [read[position] for position in positions])


def read_run(table: RunTable) -> ReportedRun:
    """Read a run's description, metrics and evaluators for a report, from its folder if it has one.

    Raises:
        ConfigurationError: the run has not finished, or its files are damaged.
    """
    info, folder = table.info, table.opened.run
    if folder is None:
        # Results of another program have no manifest, so one is made from the table.
        data = DatasetEntry(path=info.place)
        manifest = RunFile(dataset=data, group_by=list(table.groups), simulated=info.simulated, created=info.created)
        return ReportedRun(info.id, manifest, {}, list_evaluators(table, manifest), table, notes=info.notes)

    manifest, metrics = folder.manifest(), folder.metrics()
    # Notes of the run are data from a file, so their type is checked.
    run_notes = metrics.get("notes")
    notes = [*info.notes, *map(str, run_notes if isinstance(run_notes, list) else ())]

    evaluators = list_evaluators(table, manifest)
    return ReportedRun(folder.id, manifest, metrics, evaluators, table, folder, notes)


def facts_of(run: ReportedRun) -> Iterator[JSON]:
    """Yield the facts of a run for the head of the page, as `[name, text]`."""
    manifest = run.manifest
    yield ["data" if run.folder else "read from", data_of(manifest)]
    if run.folder:
        yield ["answers", answered_by(manifest)]

    for name, value in (("begun", manifest.created), ("ended", manifest.ended), ("reused from", manifest.parent)):
        if value:
            yield [name, f"{value[:19].replace('T', ' ')} UTC" if value.endswith("+00:00") else value]

    # A finished run that was resumed has its old rows until it finishes again.
    status = run.folder.status() if run.folder and manifest.status else "finished"
    if status != "finished":
        yield ["state", f"resumed but not finished ({status}): showing older rows"]

    if manifest.tags:
        yield ["tags", ", ".join(f"{name}={value}" for name, value in manifest.tags.items())]
    version = manifest.versions.get("tunecheck")
    if version:
        yield ["tunecheck", version]


def list_evaluators(table: RunTable, manifest: RunFile) -> list[Evaluated]:
    """Return a run's evaluators, the primary one first: charts and lists of rows begin with it."""
    entries = manifest.evaluators
    derived = table.opened.derived if entries else ()
    judged = {name: columns for name, columns in table.evaluators.items() if name not in derived}

    # Derived evaluators are computed from the verdicts of others; their figures are a plug-in's tables.
    names = order_evaluators(judged, manifest.dataset.primary, table.groups.get("row_kind"))
    return [_describe_evaluator(judged[name], table, entries.get(name)) for name in names]


def _describe_evaluator(columns: JudgedColumns, table: RunTable, entry: EvaluatorEntry | None) -> Evaluated:
    """Describe an evaluator by its `entry` in the manifest; without an entry, by its columns."""
    options, name = columns.entry.arguments or {}, columns.name
    kind = "" if entry is None or entry.type is None else entry.type.rpartition(".")[2]

    matches_calls = options.keys() >= _POLICIES  # no other evaluators have all the options of MatchPolicy
    compares: Literal["arguments", "functions"] | None = None
    if matches_calls or kind == "CallCheckEvaluator":
        # `FunctionCallMatchEvaluator` has the same options, but compares only names.
        compares = "functions" if kind == "FunctionCallMatchEvaluator" else "arguments"

    # A declaration in the manifest replaces what the columns tell.
    main = table.columns.get(columns.main or "")
    primary = None if main is None else main.metric
    metrics = [*_undeclared_metrics(columns, table)]
    if entry is not None:
        primary, metrics = entry.primary, entry.metrics or metrics

    pass_rate = table.columns.get(f"{name}.{PASS_RATE}")
    # The verdict reader needs the metric that decides: that of the pass rate, if there is one.
    default_metric = primary or (metrics[0].name if metrics else name)
    verdicts = VerdictReader(name, default_metric if pass_rate is None else pass_rate.metric)
    alternatives = options.get("alternatives") is True if matches_calls else None

    return Evaluated(name, primary, metrics, verdicts, compares, alternatives)


def _undeclared_metrics(columns: JudgedColumns, table: RunTable) -> Iterator[MetricEntry]:
    """Yield the metrics of an evaluator without a declaration, from the numbers that it returned."""
    for column in (table.columns[name] for name in columns.columns):
        if column.passes != column.name:
            bounds: list[float | None] | None = [*column.bounds] if column.bounds else None
            yield MetricEntry(column.name.removeprefix(f"{columns.name}."), "score", bounds, column.higher_is_better)


class EvaluatorKeys(msgspec.Struct, frozen=True):
    """One evaluator's keys in a row.

    `verdicts` reads the verdict. `others` has name and key of each value that is not part of the verdict. `has_keys`
    is True if the row has a key of the evaluator.
    """

    verdicts: VerdictReader
    others: Sequence[tuple[str, str]]
    has_keys: bool


class Columns(msgspec.Struct):
    """The roles of a row's keys, which are the same for all rows with the same keys.

    `inputs` and `target` have pairs of a column's name and its key, `errors` of a stage and its key. `evaluators` are
    in the order of the run.
    """

    inputs: list[tuple[str, str]] = []
    target: list[tuple[str, str]] = []
    errors: list[tuple[str, str]] = []
    evaluators: list[EvaluatorKeys] = []

    def verdicts(self, row: Mapping[str, JSON]) -> list[RecordedVerdict]:
        """Return each evaluator's verdict on the row."""
        return [keys.verdicts.read(row, "scored" if keys.has_keys else "error") for keys in self.evaluators]


def columns_of(evaluators: Sequence[Evaluated], row_keys: Sequence[str]) -> Columns:
    """Return the role of each key of a row with these keys: input, target output, evaluator or error."""
    columns = Columns()
    keys_of: dict[str, list[tuple[str, str]]] = {evaluator.name: [] for evaluator in evaluators}

    for key in row_keys:
        # For example `outputs.match.match_score`: the kind `outputs`, the name `match.match_score`.
        kind, _, name = key.partition(".")
        if kind == "inputs":
            columns.inputs.append((name, key))
        elif kind == "error":
            columns.errors.append((name, key))
        elif kind == "outputs":
            owners = [evaluator for evaluator in keys_of if name.startswith(f"{evaluator}.")]
            owner = max(owners, key=len, default=None)
            if owner is None:
                columns.target.append((name, key))
            else:
                keys_of[owner].append((name.removeprefix(f"{owner}."), key))

    for evaluator in evaluators:
        # For the metric `match`, `match_reason` is a part of the verdict, and `match_note` is another value.
        verdict_names = {f"{evaluator.verdicts.metric}{suffix}" for suffix in _VERDICT}
        keys = keys_of[evaluator.name]
        others = [(name, key) for name, key in keys if name not in verdict_names]
        columns.evaluators.append(EvaluatorKeys(evaluator.verdicts, others, bool(keys)))
    return columns
