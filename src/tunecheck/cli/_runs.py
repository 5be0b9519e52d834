"""`tunecheck runs` lists runs with their main figures; `tunecheck verify` checks that their files are whole."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._messages import clean, counted
from tunecheck.cli._console import print_json
from tunecheck.cli._options import DONE, FAILED, Invocation, argument, command, option
from tunecheck.cli._shared_options import JsonOptions, ResultsOptions
from tunecheck.runs._store import mirror_at
from tunecheck.views import Table, Text, View, Words, console, print_view

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck.results import RunLine
    from tunecheck.runs._verify import Verified


@dataclass(frozen=True, kw_only=True)
class RunsOptions(JsonOptions, ResultsOptions):
    limit: int | None = option("Only the last so many.", "N", least=1)


@command(RunsOptions)
def runs(options: RunsOptions, invocation: Invocation) -> int:
    """List runs, the oldest first."""
    from tunecheck.results import describe_run
    from tunecheck.runs._store import list_runs

    found = [*list_runs(options.folder)]
    listed = [describe_run(run) for run in found[-(options.limit or len(found)) :]]
    _mark_running(listed, options.folder)
    if options.json:
        print_json([_as_json(line) for line in listed])
    elif not listed:
        print(f"there are no runs in {options.folder}")
    else:
        print_view(View("runs", [Text([said for line in listed for said in _said(line)])]), console(sys.stdout))
    return 0


def _mark_running(listed: list[RunLine], folder: Path) -> None:
    """Mark runs of another machine as running: no process of this machine holds their journal."""
    killed = {line.id: line for line in listed if line.status == "killed"}
    mirror = mirror_at(folder) if killed else None
    for run in mirror.running(killed) if mirror is not None else ():
        killed[run].status = "running"


def _figures(line: RunLine) -> dict[str, JSON]:
    return {each.evaluator: each.text + " uncalibrated" * each.is_uncalibrated for each in line.figures}


def _as_json(line: RunLine) -> dict[str, JSON]:
    described: dict[str, JSON] = {"run": line.id, "status": line.status, "created": line.created, "rows": line.rows}
    described |= {"failed_rows": line.failed_rows, "simulated": line.simulated, "parent": line.parent}
    described |= {"stopped": line.stopped}
    described |= {"figures": _figures(line)} if line.is_finished else {}
    return described | ({"problem": line.problem} if line.problem else {})


def _said(line: RunLine) -> Iterator[Words]:
    rows, failed = line.rows, line.failed_rows
    facts = [
        line.status,
        line.created,
        counted(rows, "row") if isinstance(rows, int) else "",
        f"{counted(failed, 'row')} with an error" if isinstance(failed, int) and failed else "",
        line.stopped,
        "SIMULATED" if line.simulated else "",
        f"from {line.parent}" if line.parent else "",
        line.problem,
    ]
    yield Words(clean(line.id, 200), "strong", foreign=True)
    yield Words("  " + " · ".join(clean(fact) for fact in facts if fact))
    if line.figures:
        yield Words("  " + "  ".join(f"{clean(name, 60)} {text}" for name, text in _figures(line).items()), "dim")


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(JsonOptions, ResultsOptions):
    runs: list[str] = argument("Runs: their ids, the beginning of them, their folders, or last.", "RUN [MORE…]")


@command(VerifyOptions)
def verify(options: VerifyOptions, invocation: Invocation) -> int:
    """Check that runs are whole: no record damaged or missing, all rows there, results as they were written.

    Exit codes:
    0 all are whole
    1 one is damaged
    2 wrong use, such as a run that is not there
    """
    from tunecheck.runs._store import find_run
    from tunecheck.runs._verify import verify as read_all

    found = [read_all(run) for run in [find_run(name, options.folder) for name in options.runs]]
    if options.json:
        print_json(
            [
                {
                    "run": each.run.id,
                    "status": each.status,
                    "rows": each.rows,
                    "whole": each.whole,
                    "damage": [*each.damage],
                    "unchecked": [*each.unchecked],
                }
                for each in found
            ]
        )
    else:
        print_view(_verified_view(found), console(sys.stdout))
    return DONE if all(each.whole for each in found) else FAILED


def _verified_view(found: list[Verified]) -> View:
    rows = [
        (
            Words("whole" if each.whole else "DAMAGED", "" if each.whole else "bad"),
            Words(clean(each.run.id, 200), foreign=True),
            clean(each.status),
            "" if each.rows is None else counted(each.rows, "row"),
        )
        for each in found
    ]
    lines = [f"{clean(each.run.id)}: {clean(line, 2_000)}" for each in found for line in each.damage]
    lines += [f"{clean(each.run.id)}: not checked: {clean(line)}" for each in found for line in each.unchecked]
    return View("runs", [Table(("", "", "", ""), rows, "l"), *([Text(lines)] if lines else [])])
