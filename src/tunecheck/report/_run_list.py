"""The page that lists a folder's runs: what was run, who answered, what came of it, how long it took, what it cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from tunecheck._errors import ConfigurationError
from tunecheck._files import NewerFileError, RunFile
from tunecheck._json import JSON
from tunecheck.report._facts import answered_by, data_of
from tunecheck.report._page import RUNS, as_data, embedded, page
from tunecheck.report._reading import Evaluated, evaluated
from tunecheck.runs._calibrations import is_uncalibrated
from tunecheck.runs._decision import stopped_text
from tunecheck.runs._store import Run, list_runs
from tunecheck.statistics._proportions import wilson

_MOST_RUNS = 2_000


def runs_page(results_dir: Path) -> str:
    """The page that lists the runs of a folder, the newest first."""
    runs = [*list_runs(results_dir)][::-1]
    listed: list[JSON] = [_described(run) for run in runs[:_MOST_RUNS]]
    data: dict[str, JSON] = {"folder": str(results_dir), "runs": listed, "all": len(runs)}
    whole = page(RUNS)
    return whole.start("Runs · Tunecheck") + embedded("head", as_data(data)) + whole.end()


def _described(run: Run) -> dict[str, JSON]:
    """One run; a damaged one says so and hides no other."""
    described: dict[str, JSON] = {"id": run.id, "status": "damaged", "finished": False, "figures": []}
    try:
        manifest = run.manifest()
        described |= {"status": run.status(), "begun": manifest.created, "simulated": manifest.simulated}
        described |= {"stopped": stopped_text(manifest.stopped)}
        described |= {"data": data_of(manifest), "answers": answered_by(manifest), "took": _seconds(manifest)}
        if run.results.exists() and run.metrics_file.exists():
            summary = run.metrics()
            metrics = summary.get("metrics")
            own = metrics if isinstance(metrics, dict) else {}
            described |= {"finished": True, "rows": summary.get("rows"), "errors": summary.get("failed_rows")}
            described |= {"cost": _cost(summary.get("usage"))}
            evaluators = evaluated(manifest, own, {})
            entries, place = manifest.evaluators, run.folder.parent
            uncalibrated = {name for name, entry in entries.items() if is_uncalibrated(place, entry)}
            described["figures"] = [figure for each in evaluators for figure in _figure(each, own, uncalibrated)]
    except (ConfigurationError, OSError) as error:
        described |= {"status": "unreadable"} if isinstance(error, NewerFileError) else {}
        described["problem"] = str(error)
    return described


def _seconds(manifest: RunFile) -> float | None:
    """From the beginning to the end of the run, or of its last part where it was resumed."""
    try:
        begun, ended = (
            datetime.fromisoformat(str(time)) for time in (manifest.started or manifest.created, manifest.ended)
        )
        return (ended - begun).total_seconds()
    except (TypeError, ValueError):  # it has not ended, or its times were written by hand
        return None


def _cost(usage: JSON) -> JSON:
    """`[[amount, currency], …]`, one of each currency; None where no call has a price, or some have none."""
    spent = [each for each in usage.values() if isinstance(each, dict)] if isinstance(usage, dict) else []
    sums: defaultdict[str, float] = defaultdict(float)
    for each in spent:
        cost, currency = each.get("cost"), each.get("currency")
        if not isinstance(cost, (int, float)) or each.get("uncounted_calls"):
            return None
        sums[str(currency or "")] += cost
    return [[amount, currency] for currency, amount in sums.items()] or None


def _figure(evaluator: Evaluated, metrics: Mapping[str, JSON], uncalibrated: Container[str]) -> Iterator[JSON]:
    """An evaluator's pass rate, else its main mean, as `[evaluator, kind, number, remark, low, high]`."""
    rate = metrics.get(f"{evaluator.name}.binary_aggregate")
    main = evaluator.primary or (evaluator.metrics[0].name if evaluator.metrics else evaluator.name)
    mean = metrics.get(f"{evaluator.name}.{main}")
    remark = "uncalibrated" if evaluator.name in uncalibrated else None
    scored = metrics.get(f"{evaluator.name}.scored_count")
    if isinstance(rate, (int, float)):
        trials = f"{evaluator.name}.pass_at_1" in metrics  # those of one row are not independent
        of = scored if isinstance(scored, int) and 0 <= rate <= 1 and not trials else 0
        share = wilson(round(rate * of), of)
        yield [evaluator.name, "rate", rate, remark, share.low, share.high]
    elif isinstance(mean, (int, float)):
        yield [evaluator.name, "mean", mean, remark, None, None]
