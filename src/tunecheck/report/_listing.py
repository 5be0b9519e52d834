"""The runs of a folder as a page lists them: how each ended, and its main figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tunecheck._errors import ConfigurationError
from tunecheck._files.versions import NewerFileError
from tunecheck._json import JSON
from tunecheck.report._page import RUNS, as_data, embedded, page
from tunecheck.report._reading import Evaluated, evaluators_of
from tunecheck.runs._store import Run, list_runs

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
    found: dict[str, JSON] = {"id": run.id, "status": "damaged", "finished": False, "figures": []}
    try:
        manifest = run.manifest()
        found |= {"status": run.status(), "created": manifest.get("created"), "simulated": manifest.get("simulated")}
        if run.results.exists() and run.metrics_file.exists():
            summary = run.metrics()
            metrics = summary.get("metrics")
            own = metrics if isinstance(metrics, dict) else {}
            found |= {"finished": True, "rows": summary.get("rows"), "failed_rows": summary.get("failed_rows")}
            evaluators = evaluators_of(manifest, own, {})
            found["figures"] = [figure for each in evaluators for figure in _figure(each, own)]
    except (ConfigurationError, OSError) as error:
        found |= {"status": "unreadable"} if isinstance(error, NewerFileError) else {}
        found["problem"] = str(error)
    return found


def _figure(evaluator: Evaluated, metrics: Mapping[str, JSON]) -> Iterator[JSON]:
    """An evaluator's pass rate, else its main mean."""
    rate = metrics.get(f"{evaluator.name}.binary_aggregate")
    main = evaluator.primary or (evaluator.metrics[0].name if evaluator.metrics else evaluator.name)
    mean = metrics.get(f"{evaluator.name}.{main}")
    if isinstance(rate, (int, float)):
        yield [evaluator.name, f"{rate:.1%}"]
    elif isinstance(mean, (int, float)):
        yield [evaluator.name, f"{mean:.3g}"]
