"""One line in a list of runs: the data, the source of answers, the status, main figures, duration and cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from tunecheck._disk import open_regular
from tunecheck._errors import ConfigurationError
from tunecheck._files import NewerFileError, RunFile
from tunecheck._json import JSON, object_or_empty
from tunecheck.results._first_screen import MainFigure, main_figure_of
from tunecheck.runs._store import Run, is_uncalibrated, stopped_text
from tunecheck.statistics._results import wilson


@dataclass(slots=True)
class RunLine:
    """One line in a list of runs.

    A damaged run has a `problem`. `cost` has the amount by currency. `answered` counts the answers of a run in
    progress.
    """

    id: str
    status: str = "damaged"
    created: str | None = None
    simulated: bool = False
    parent: str | None = None
    stopped: str = ""
    data: str = ""
    answers: str = ""
    seconds: float | None = None
    is_finished: bool = False
    rows: JSON = None
    answered: int | None = None
    failed_rows: JSON = None
    cost: Mapping[str, float] | None = None
    figures: list[MainFigure] = field(default_factory=list)
    problem: str = ""


def describe_run(run: Run) -> RunLine:
    """Return a run's line for a list; for a damaged run, `problem` says why, and the rest is what could be read."""
    line = RunLine(run.id)
    try:
        manifest = run.manifest()
        line.status, line.created, line.simulated = run.status(), manifest.created, manifest.simulated
        line.parent, line.stopped, line.rows = manifest.parent, stopped_text(manifest.stopped), manifest.dataset.rows
        line.data, line.answers, line.seconds = data_of(manifest), answered_by(manifest), _seconds(manifest)
        if line.status == "running" and run.journal.exists():
            with open_regular(run.journal) as journal:
                line.answered = sum(record.startswith(b'{"k":"answer"') for record in journal)
        if run.results.exists() and run.metrics_file.exists():
            summary = run.metrics()
            metrics = object_or_empty(summary.get("metrics"))
            line.is_finished, line.rows, line.failed_rows = True, summary.get("rows"), summary.get("failed_rows")
            line.cost = _cost(summary.get("usage"))
            for name, entry in manifest.evaluators.items():
                uncalibrated = is_uncalibrated(run.folder.parent, entry)
                figure = main_figure_of(name, entry, metrics, is_uncalibrated=uncalibrated)
                line.figures.append(with_interval(figure, metrics))
    except (ConfigurationError, OSError) as error:
        line.status = "unreadable" if isinstance(error, NewerFileError) else line.status
        line.problem = str(error)
    return line


def with_interval(figure: MainFigure, metrics: Mapping[str, JSON]) -> MainFigure:
    """Return the figure with its rate's 95% interval; a mean, and a rate over repeated rows, get none.

    `metrics` are the run's. The trials of a row depend on each other, so Wilson's interval would be too narrow.
    """
    scored = metrics.get(f"{figure.evaluator}.scored_count")
    is_repeated = f"{figure.evaluator}.pass_at_1" in metrics
    rate = figure.value if figure.is_rate else None
    if rate is None or is_repeated or not isinstance(scored, int) or not 0 <= rate <= 1:
        return figure
    share = wilson(round(rate * scored), scored)
    return replace(figure, low=share.low, high=share.high)


def data_of(manifest: RunFile) -> str:
    """Return the path or name of the run's data set as it was given, or "?"."""
    return manifest.dataset.path or manifest.dataset.name or "?"


def answered_by(manifest: RunFile) -> str:
    """Describe the source of the answers: an endpoint with its model, or the data."""
    target = manifest.target
    if not target:
        return "recorded in the data"
    model = target.get("model") or target.get("deployment")
    kind = target.get("kind") or target.get("type")
    return " · ".join(str(part) for part in (target.get("name"), kind, model) if part)


def _seconds(manifest: RunFile) -> float | None:
    """Return the duration of the run, or of its last part if it was resumed; None if it has not ended."""
    try:
        began = datetime.fromisoformat(str(manifest.started or manifest.created))
        return (datetime.fromisoformat(str(manifest.ended)) - began).total_seconds()
    except (TypeError, ValueError):  # the run has not ended, or its times were edited by hand
        return None


def _cost(usage: JSON) -> Mapping[str, float] | None:
    """Return the cost of a run by currency; None if a price or token count is unknown, or nothing was paid for."""
    sums: defaultdict[str, float] = defaultdict(float)
    for spending in object_or_empty(usage).values():
        if isinstance(spending, dict):
            cost, currency = spending.get("cost"), spending.get("currency")
            if not isinstance(cost, (int, float)) or spending.get("uncounted_calls"):
                return None
            sums[str(currency or "")] += cost
    return sums or None
