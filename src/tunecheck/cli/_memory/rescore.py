"""`tunecheck memory rescore`: recorded tests scored again, by words alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tunecheck.cli._parameters import Debug, Json

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck.memory._goodai.rescore import Summary, Tally

DONE, FAILED = 0, 1

File = Annotated[
    Path, typer.Argument(metavar="FILE.jsonl", help="Recorded rows: data set, expected, responses, score.")
]
Out = Annotated[Path, typer.Option("--out", metavar="OUT.jsonl", help="Where the rows go, with our_score added.")]
Compat = Annotated[
    bool,
    typer.Option(
        "--compat",
        help="Exactly as the GoodAI LTM benchmark scores, its defects included; by words where it asks a model.",
    ),
]


def rescore(file: File, out: Out, compat: Compat = False, json: Json = False, debug: Debug = False) -> int:
    """Score recorded memory tests again, by words alone.

    Writes each row again, in order, with our_score and our_reasons; our_score is null where only a judge can tell.
    """
    from tunecheck.memory._goodai.rescore import rescore_file

    summary = rescore_file(file, out, compat=compat)
    if json:
        _write_json(summary, out)
    else:
        _print_table(summary)
        print(f"written {out}")
    for error in summary.errors:
        print(f"note: {error}", file=sys.stderr)
    rows, errors = summary.count("rows"), summary.count("errors")
    return FAILED if rows and rows == errors else DONE


def _print_table(summary: Summary) -> None:
    from rich.table import Table

    from tunecheck._messages import clean
    from tunecheck.cli._console import console

    table = Table(box=None, pad_edge=False)
    for name in ("data set", "kind"):
        table.add_column(name)
    for name in ("rows", "scored", "undecided", "errors", "as recorded"):
        table.add_column(name, justify="right")
    for (title, kind), tally in sorted(summary.tallies.items()):
        counts = (tally.rows, tally.scored, tally.undecided, tally.errors)
        table.add_row(
            clean(title, 60) or "–", clean(kind, 40) or "–", *(f"{count:,}" for count in counts), _equal(tally)
        )
    console(sys.stdout).print(table)


def _equal(tally: Tally) -> str:
    return f"{tally.equal:,} of {tally.compared:,}" if tally.compared else "–"


def _write_json(summary: Summary, out: Path) -> None:
    from tunecheck._json import dumps_line

    groups: list[JSON] = [
        {"dataset": title, "kind": kind, **tally.as_json()} for (title, kind), tally in sorted(summary.tallies.items())
    ]
    errors: list[JSON] = [*summary.errors]
    sys.stdout.write(dumps_line({"out": str(out), "groups": groups, "errors": errors}).decode("utf-8"))
