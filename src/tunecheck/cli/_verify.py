"""`tunecheck verify`: whether the files of runs are whole, and belong together."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tunecheck._messages import clean, counted
from tunecheck.cli._console import print_json
from tunecheck.cli._options import DONE, FAILED, Invocation, argument, command
from tunecheck.cli._shared_options import JsonOptions, ResultsOptions
from tunecheck.views import Table, Text, View, Words, console, print_view

if TYPE_CHECKING:
    from tunecheck.runs._verify import Verified


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
        print_view(_view(found), console(sys.stdout))
    return DONE if all(each.whole for each in found) else FAILED


def _view(found: list[Verified]) -> View:
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
