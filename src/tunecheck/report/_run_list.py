"""The page that lists a folder's runs: what was run, who answered, what came of it, how long it took, what it cost."""

from __future__ import annotations

from pathlib import Path

from tunecheck._json import JSON
from tunecheck.report._page import RUNS, as_data, embedded, page
from tunecheck.results import RunLine, describe_run
from tunecheck.runs._store import list_runs

_MOST_RUNS = 2_000


def runs_page(results_dir: Path) -> str:
    """The page that lists the runs of a folder, the newest first."""
    runs = [*list_runs(results_dir)][::-1]
    listed: list[JSON] = [_as_json(describe_run(run)) for run in runs[:_MOST_RUNS]]
    data: dict[str, JSON] = {"folder": str(results_dir), "runs": listed, "all": len(runs)}
    whole = page(RUNS)
    return whole.start("Runs · Tunecheck") + embedded("head", as_data(data)) + whole.end()


def _as_json(line: RunLine) -> dict[str, JSON]:
    """A run as the page reads it; a figure is `[evaluator, kind, number, remark, low, high]`."""
    figures: list[JSON] = [
        [
            each.evaluator,
            "binary" if each.is_rate else "score",
            each.value,
            "uncalibrated" if each.is_uncalibrated else None,
            each.low,
            each.high,
        ]
        for each in line.figures
        if each.value is not None
    ]
    return {
        "id": line.id,
        "status": line.status,
        "begun": line.created,
        "simulated": line.simulated,
        "stopped": line.stopped,
        "data": line.data,
        "answers": line.answers,
        "took": line.seconds,
        "finished": line.is_finished,
        "rows": line.rows if line.is_finished else None,
        "errors": line.failed_rows,
        "cost": None if line.cost is None else [[amount, currency] for currency, amount in line.cost.items()],
        "figures": figures,
        "problem": line.problem or None,
    }
