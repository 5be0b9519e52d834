"""One line in a list of runs: the data, the source of answers, the status, main figures, duration and cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tunecheck._disk import open_regular
from tunecheck._errors import ConfigurationError
from tunecheck._files import EvaluatorEntry, NewerFileError, RunFile
from tunecheck._json import JSON
from tunecheck.results._table import PASS_RATE
from tunecheck.runs._store import Run, is_uncalibrated, stopped_text
from tunecheck.statistics._results import wilson


@dataclass(frozen=True, slots=True)
class MainFigure:
    """An evaluator's pass rate with its 95% interval, else its main mean; `value` is None if it has neither."""

    evaluator: str
    is_rate: bool
    value: float | None
    low: float | None = None
    high: float | None = None
    is_uncalibrated: bool = False

    @property
    def text(self) -> str:
        """The figure as text, such as `86.7%` or `0.833`."""
        return f"{self.value:.1%}" if self.is_rate and self.value is not None else number_text(self.value)


def number_text(value: JSON) -> str:
    """Return a number as text with few digits; `–` for anything else."""
    if isinstance(value, bool) or value is None:
        return "–" if value is None else str(value).lower()
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**15 else f"{float(value):.3g}" if abs(value) < 10**300 else "huge"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}" if abs(value) < 1e9 else f"{value:.3g}"
    return "–"


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
            found = summary.get("metrics")
            metrics = found if isinstance(found, dict) else {}
            line.is_finished, line.rows, line.failed_rows = True, summary.get("rows"), summary.get("failed_rows")
            line.cost = _cost(summary.get("usage"))
            line.figures = [
                main_figure_of(name, entry, metrics, is_uncalibrated=is_uncalibrated(run.folder.parent, entry))
                for name, entry in manifest.evaluators.items()
            ]
    except (ConfigurationError, OSError) as error:
        line.status = "unreadable" if isinstance(error, NewerFileError) else line.status
        line.problem = str(error)
    return line


def data_of(manifest: RunFile) -> str:
    """Return the path or name of the run's data set as it was given, or "?"."""
    return manifest.dataset.path or manifest.dataset.name or "?"


def answered_by(manifest: RunFile) -> str:
    """Describe the source of the answers: an endpoint with its model, or the data."""
    target = manifest.target
    if not target:
        return "as the data holds them"
    model = target.get("model") or target.get("deployment")
    kind = target.get("kind") or target.get("type")
    return " · ".join(str(part) for part in (target.get("name"), kind, model) if part)


def main_figure_of(
    name: str, entry: EvaluatorEntry, metrics: Mapping[str, JSON], *, is_uncalibrated: bool = False
) -> MainFigure:
    """Return an evaluator's pass rate with its interval, else its main mean, from a run's or group's metrics."""
    rate = metrics.get(f"{name}.{PASS_RATE}")
    if isinstance(rate, (int, float)):
        trials = f"{name}.pass_at_1" in metrics  # trials of a row are not independent, so there is no interval
        scored = metrics.get(f"{name}.scored_count")
        of = scored if isinstance(scored, int) and 0 <= rate <= 1 and not trials else 0
        share = wilson(round(rate * of), of)
        return MainFigure(name, True, rate, share.low, share.high, is_uncalibrated)
    means = (metrics.get(f"{name}.{key}") for key in _main_keys(name, entry, metrics))
    value = next((mean for mean in means if isinstance(mean, (int, float))), None)
    return MainFigure(name, False, value, is_uncalibrated=is_uncalibrated)


def _main_keys(name: str, entry: EvaluatorEntry, metrics: Mapping[str, JSON]) -> Iterator[str]:
    """Yield the keys of an evaluator's metrics, the most important first."""
    yield from (key for key in (entry.primary, *(metric.name for metric in entry.metrics or ()), name) if key)
    own = [key.removeprefix(f"{name}.") for key in metrics if key.startswith(f"{name}.")]
    yield from own[: own.index("scored_count") if "scored_count" in own else len(own)]


def _seconds(manifest: RunFile) -> float | None:
    """Return the duration of the run, or of its last part if it was resumed; None if it has not ended."""
    try:
        begun, ended = (
            datetime.fromisoformat(str(time)) for time in (manifest.started or manifest.created, manifest.ended)
        )
        return (ended - begun).total_seconds()
    except (TypeError, ValueError):  # the run has not ended, or its times were edited by hand
        return None


def _cost(usage: JSON) -> Mapping[str, float] | None:
    """Return the cost of a run by currency; None if a price or token count is unknown, or nothing was paid for."""
    spent = [each for each in usage.values() if isinstance(each, dict)] if isinstance(usage, dict) else []
    sums: defaultdict[str, float] = defaultdict(float)
    for each in spent:
        cost, currency = each.get("cost"), each.get("currency")
        if not isinstance(cost, (int, float)) or each.get("uncounted_calls"):
            return None
        sums[str(currency or "")] += cost
    return sums or None
