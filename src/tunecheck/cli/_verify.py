"""`tunecheck verify`: whether the files of runs are whole, and belong together."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tunecheck._messages import clean, counted
from tunecheck.cli._console import console, print_json
from tunecheck.cli._invocation import DONE, FAILED, Invocation
from tunecheck.cli._options import argument, command
from tunecheck.cli._shared_options import JsonOptions, ResultsOptions

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
        _show(found)
    return DONE if all(each.whole for each in found) else FAILED


def _show(found: list[Verified]) -> None:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for each in found:
        rows = "" if each.rows is None else counted(each.rows, "row")
        table.add_row("whole" if each.whole else "DAMAGED", clean(each.run.id, 200), clean(each.status), rows)
    console(sys.stdout).print(table)
    for each in found:
        for line in each.damage:
            print(f"{clean(each.run.id)}: {clean(line, 2_000)}")
        for line in each.unchecked:
            print(f"{clean(each.run.id)}: not checked: {clean(line)}")
