"""`tunecheck memory rescore`: recorded tests scored again, by words alone."""

from __future__ import annotations

import sys
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._messages import clean
from tunecheck.cli._console import console, print_json
from tunecheck.cli._invocation import DONE, FAILED, Invocation
from tunecheck.cli._options import argument, command, flag, option
from tunecheck.cli._shared_options import JsonOptions

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck_memory._goodai.rescore import Summary


@dataclass(frozen=True, kw_only=True)
class RescoreOptions(JsonOptions):
    file: Path = argument("Recorded rows: data set, expected, responses, score.", "FILE.jsonl")
    out: Path = option("Where the rows go, with our_score added.", "OUT.jsonl", default=MISSING)
    compat: bool = flag(
        "Exactly as the GoodAI LTM benchmark scores, its defects included; by words where it asks a model."
    )


@command(RescoreOptions)
def rescore(options: RescoreOptions, invocation: Invocation) -> int:
    """Score recorded memory tests again, by words alone.

    Writes each row again, in order, with our_score and our_reasons; our_score is null where only a judge can tell.
    """
    from tunecheck_memory._goodai.rescore import rescore_file

    summary = rescore_file(options.file, options.out, compat=options.compat)
    if options.json:
        groups: list[JSON] = [
            {"dataset": title, "kind": kind, **tally.as_json()}
            for (title, kind), tally in sorted(summary.tallies.items())
        ]
        print_json({"out": str(options.out), "groups": groups, "errors": [*summary.errors]})
    else:
        _print_table(summary)
        print(f"written {options.out}")
    for error in summary.errors:
        print(f"note: {error}", file=sys.stderr)
    rows, errors = summary.count("rows"), summary.count("errors")
    return FAILED if rows and rows == errors else DONE


def _print_table(summary: Summary) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("data set", "kind"):
        table.add_column(name)
    for name in ("rows", "scored", "undecided", "errors", "as recorded"):
        table.add_column(name, justify="right")
    for (title, kind), tally in sorted(summary.tallies.items()):
        equal = f"{tally.equal:,} of {tally.compared:,}" if tally.compared else "–"
        counts = (tally.rows, tally.scored, tally.undecided, tally.errors)
        table.add_row(clean(title, 60) or "–", clean(kind, 40) or "–", *(f"{count:,}" for count in counts), equal)
    console(sys.stdout).print(table)
