"""Open runs by name, folder or file, and read their rows as tables.

`open_run` takes a run in any form. The first form that fits decides:

| form | example |
|---|---|
| rows that a run is about to judge | `AboutToRun(dataset, None)` |
| a result of Tunecheck's `evaluate()`, with its `run_dir` | `evaluate(…)` |
| a run | `Run(Path("eval_results/val-20260101T120000Z-0a1b2c"))` |
| an object with `rows`, such as a result of Azure's `evaluate()` | `{"rows": […]}` |
| a run's folder, or its `eval_results.jsonl` | `"eval_results/val-20260101T120000Z-0a1b2c"` |
| another program's file or folder: a plug-in's, else Azure's | `"azure/evaluation_results.json"` |
| a run's id, name, the beginning of its id, or `last` | `"val"` |
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import msgspec

from tunecheck import plugins
from tunecheck._describe import read_as
from tunecheck._errors import ConfigurationError
from tunecheck._files import CallsRead
from tunecheck._json import rare_collections
from tunecheck.datasets._reading import Dataset
from tunecheck.pipeline._mapping import read_reference
from tunecheck.results._building import KnownContents, TableBuilder
from tunecheck.results._table import AskedRows, AzureFile, GivenRows, OpenedRun, ResultsFile, RunInfo, RunTable
from tunecheck.runs._manifest import changed_since
from tunecheck.runs._store import Run, find_run


class AboutToRun(msgspec.Struct, frozen=True):
    """The rows of a run that has not started; they are paired with a base before the endpoint is called.

    `mapping` has the layers of the column mapping if the data holds the answers; None if an endpoint answers.
    `cluster` (the column of dependent rows) and `primary` (the metric that decides) replace those of the data.
    """

    dataset: Dataset
    mapping: Iterable[Mapping[str, object]] | None
    cluster: str | None = None
    primary: str | None = None


RunLike: TypeAlias = "str | os.PathLike[str] | Run | Mapping[str, object]"
"""A run's folder, id, the beginning of its id, or `last`; files of other programs; or the result of `evaluate`."""

_AZURE = "evaluation_results.json"
"""The name of Azure AI Evaluation's file of results."""


def read_runs(runs: Sequence[RunLike | AboutToRun], results_dir: Path, *, cluster: str | None = None) -> list[RunTable]:
    """Return each run's rows as a table.

    A row's content excludes columns that hold the answers of any of the runs, so that two iterations with their
    answers in columns of the data have the same rows. `cluster` names the column that identifies dependent rows, or is
    `none`. By default it is the column that the data declares, or else a column with repeated ids.

    Raises:
        ConfigurationError: a run does not exist, has not finished, or was written by a newer version.
        DataError: a run's rows are damaged, or some of its files are missing.
    """
    opened = [open_run(run, results_dir, f"run {number}" if number else "base") for number, run in enumerate(runs)]

    answers = frozenset[str]().union(*(run.answers for run in opened))

    # Runs of the same data share fingerprints: each row is fingerprinted once.
    known_contents: KnownContents = {}
    with rare_collections():
        return [TableBuilder(run, answers, cluster, known_contents).read() for run in opened]


def read_run(run: RunLike, results_dir: Path) -> RunTable:
    """Return one run's rows as a table; raises the errors of `read_runs`."""
    return read_runs([run], results_dir)[0]


def open_run(run: RunLike | AboutToRun, results_dir: Path, name: str = "run") -> OpenedRun:
    """Open a run given in any form, without reading its rows; `name` is the id of a run given as rows.

    Raises the errors of `read_runs`.
    """
    if isinstance(run, AboutToRun):
        answers = frozenset[str]() if run.mapping is None else _answer_columns(run.mapping)
        declared = run.dataset.defaults
        return OpenedRun(
            RunInfo(run.dataset.name, "run", "memory", rows=0),
            AskedRows(run.dataset),
            answers=answers,
            cluster=run.cluster or declared.cluster or declared.group_key,
            primary=run.primary or declared.primary,
            dataset=run.dataset.name,
        )

    # `evaluate` returns an object with the run's folder, which is read instead of its rows in memory.
    run_dir = getattr(run, "run_dir", None)
    if isinstance(run_dir, Path):
        return _run_folder(Run(run_dir))
    if isinstance(run, Run):
        return _run_folder(run)
    if isinstance(run, Mapping):
        return _open_given(run, name)

    path = Path(run)
    # The file of rows stands for its run.
    folder = path.parent if path.name == "eval_results.jsonl" else path
    if os.path.lexists(folder / "run.json"):
        return _run_folder(Run(folder))

    # An empty text is no path, although `Path("")` is the current folder.
    foreign = _foreign(path) if os.fspath(run) and path.exists() else None
    return foreign or _run_folder(find_run(run, results_dir))


def _foreign(path: Path) -> OpenedRun | None:
    """Open results of another program: with a plug-in, or as Azure's file; None if the path holds neither.

    The path may be the folder with Azure's `evaluation_results.json`, or a `.json` file, which is checked when it is
    read. The run's id is the folder's name; for a file with another name, the file's.
    """
    opened: OpenedRun | None = None
    for _, source in plugins.load_all("sources"):  # each gets the result of the one before
        opened = source(path, opened)

    azure = path / _AZURE if path.is_dir() else path
    if opened is None and azure.is_file() and azure.suffix == ".json":
        name = azure.parent.name if path.is_dir() or azure.name == _AZURE else azure.stem
        # A path such as `.` has no name. The rows are counted when they are read.
        info = RunInfo(name or azure.stem, "azure", str(path), rows=0)
        # The column `response` holds answers, so it is no part of a row's content.
        return OpenedRun(info, AzureFile(azure), answers=frozenset({"response"}))

    return opened


def _open_given(run: Mapping[str, object], name: str) -> OpenedRun:
    """Open a run given as an object with `rows`; `name` becomes its id.

    Raises:
        ConfigurationError: it has no list under "rows".
    """
    rows = run.get("rows")
    if not isinstance(rows, Sequence) or isinstance(rows, (str, bytes)):
        raise ConfigurationError('a run given as an object needs a list under "rows", like the result of evaluate()')

    return OpenedRun(RunInfo(name, "rows", "memory", rows=0), GivenRows(rows), answers=frozenset({"response"}))


def _run_folder(run: Run) -> OpenedRun:
    """Open a run's folder, completed by plug-ins.

    A note tells if the rows have changed or come from before a resume.

    Raises:
        ConfigurationError: the run has no results.
    """
    manifest = run.manifest()
    run.require_results()

    status = run.status() if manifest.status else "finished"
    # A run that finished and was then resumed still has the results from before.
    resumed = f"{run.id} was resumed but not finished ({status}): using older rows"
    note = changed_since(run, manifest) if status == "finished" else resumed

    info = RunInfo(
        run.id,
        "run",
        str(run.folder),
        rows=0,
        simulated=manifest.simulated,
        created=manifest.created,
        notes=() if note is None else (note,),
        stopped=manifest.stopped,
        calls=_calls_read(run),
    )

    opened = OpenedRun(
        info,
        ResultsFile(run.results),
        declared=manifest.evaluators or None,
        answers=_answer_columns(manifest.mapping.values()) if manifest.target is None else frozenset(),
        cluster=manifest.dataset.cluster,
        primary=manifest.dataset.primary,
        groups=("row_kind", *manifest.group_by),
        dataset=manifest.dataset.name,
    )

    for _, source in plugins.load_all("sources"):
        opened = source(run.folder, opened) or opened
    return opened


def _calls_read(run: Run) -> CallsRead | None:
    """Return how calls that the server did not parse were counted, by metrics.json.

    Return None if there were no such calls, or if the entry in the file is damaged.
    """
    recorded = run.metrics().get("calls") if run.metrics_file.is_file() else None
    with suppress(ConfigurationError):
        return read_as(recorded, CallsRead, str(run.metrics_file)) if recorded else None
    return None


def _answer_columns(mapping: Iterable[Mapping[str, object]]) -> frozenset[str]:
    """Return the data's columns with the answers of a run without a target: `response`, and those mapped to it.

    For the mapping `response: ${data.answer_v7}`, the columns are `response` and `answer_v7`.
    """
    answers = {"response"}
    for layer in mapping:
        reference = read_reference(str(layer.get("response")).strip())
        if reference is not None and reference.source == "data":
            answers.add(str(reference.steps[0]))
    return frozenset(answers)
