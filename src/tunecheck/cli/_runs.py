"""`tunecheck runs`: what was run, how it ended, and its main figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._messages import clean, counted
from tunecheck.cli._console import print_json
from tunecheck.cli._options import Invocation, command, option
from tunecheck.cli._shared_options import JsonOptions, ResultsOptions
from tunecheck.views import Text, View, Words, console, print_view

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck.runs._store import Run


@dataclass(frozen=True, kw_only=True)
class RunsOptions(JsonOptions, ResultsOptions):
    limit: int | None = option("Only the last so many.", "N", least=1)


@command(RunsOptions)
def runs(options: RunsOptions, invocation: Invocation) -> int:
    """List runs, the oldest first."""
    from tunecheck.runs._store import list_runs

    found = [*list_runs(options.folder)]
    listed: list[dict[str, JSON]] = [_described(run) for run in found[-(options.limit or len(found)) :]]
    _mark_running(listed, options.folder)
    if options.json:
        print_json([*listed])
    elif not listed:
        print(f"there are no runs in {options.folder}")
    else:
        print_view(_view(listed), console(sys.stdout))
    return 0


def _mark_running(listed: list[dict[str, JSON]], folder: Path) -> None:
    """Mark runs as running that another machine works on; no process of this machine holds their journal."""
    killed = {folder / str(each["run"]): each for each in listed if each["status"] == "killed"}
    if killed:
        from tunecheck.storage._shipping import running_elsewhere

        for run in running_elsewhere([*killed]):
            killed[run]["status"] = "running"


def _described(run: Run) -> dict[str, JSON]:
    """A run as data; one whose manifest is damaged says so and hides no other."""
    from tunecheck._files import NewerFileError
    from tunecheck.cli._main_figures import main_figure
    from tunecheck.runs._calibrations import is_uncalibrated
    from tunecheck.runs._decision import stopped_text

    described: dict[str, JSON] = {"run": run.id, "status": "damaged"}
    described |= dict.fromkeys(("created", "rows", "failed_rows"))
    try:
        manifest = run.manifest()
        described |= {"status": run.status(), "created": manifest.created, "rows": manifest.dataset.rows}
        described |= {"simulated": manifest.simulated, "parent": manifest.parent}
        described |= {"stopped": stopped_text(manifest.stopped)}
        if described["status"] == "finished":
            results = run.metrics()
            metrics = results["metrics"] if isinstance(results.get("metrics"), dict) else {}
            assert isinstance(metrics, dict)
            figures = {
                name: main_figure(name, evaluator, metrics)
                + " uncalibrated" * is_uncalibrated(run.folder.parent, evaluator)
                for name, evaluator in manifest.evaluators.items()
            }
            described |= {
                "rows": results.get("rows"),
                "failed_rows": results.get("failed_rows"),
                "figures": {**figures},
            }
    except (ConfigurationError, OSError) as error:
        status = "unreadable" if isinstance(error, NewerFileError) else described["status"]
        described |= {"status": status, "problem": str(error)}
    return described


def _view(runs: list[dict[str, JSON]]) -> View:
    return View("runs", [Text([line for run in runs for line in _lines(run)])])


def _lines(run: dict[str, JSON]) -> Iterator[Words]:
    yield Words(clean(run["run"], 200), "strong", foreign=True)
    yield Words("  " + " · ".join(clean(fact) for fact in [str(run["status"]), *_facts(run)]))
    figures = run.get("figures")
    if isinstance(figures, dict) and figures:
        yield Words("  " + "  ".join(f"{clean(name, 60)} {figure}" for name, figure in figures.items()), "dim")


def _facts(run: dict[str, JSON]) -> list[str]:
    facts = [str(run["created"])] if run.get("created") else []
    rows, failed = run.get("rows"), run.get("failed_rows")
    facts += [counted(rows, "row")] if isinstance(rows, int) else []
    facts += [f"{counted(failed, 'row')} with an error"] if isinstance(failed, int) and failed else []
    facts += [str(run["stopped"])] if run.get("stopped") else []
    facts += ["SIMULATED"] if run.get("simulated") else []
    facts += [f"from {run['parent']}"] if run.get("parent") else []
    return [*facts, str(run["problem"])] if run.get("problem") else facts
