"""`tunecheck report`: a run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tunecheck.cli._invocation import DEFAULT_RESULTS
from tunecheck.cli._parameters import Debug, ResultsDir

RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run: its id, the beginning of it, its folder, or last.")]
Against = Annotated[str | None, typer.Option("--against", metavar="BASE", help="A run to hold it against, row by row.")]
Out = Annotated[
    str | None, typer.Option("--out", metavar="FILE", help="The file; by default report.html in the run's folder.")
]
PairBy = Annotated[
    str,
    typer.Option("--pair-by", metavar="HOW", help="With --against: content, or id alone, whatever is in the rows."),
]


def report(
    run: RunName,
    against: Against = None,
    out: Out = None,
    pair_by: PairBy = "content",
    results_dir: ResultsDir = None,
    debug: Debug = False,
) -> int:
    """Write a run's report: one HTML file that loads nothing."""
    from tunecheck.report._writing import write_report
    from tunecheck.runs._store import find_run

    folder = Path(results_dir or DEFAULT_RESULTS)
    found = find_run(run, folder)
    base = find_run(against, folder) if against is not None else None
    path = _checked(Path(out)) if out is not None else found.folder / "report.html"
    write_report(found, path, against=base, pair_by=pair_by)
    print(path)
    return 0


def _checked(path: Path) -> Path:
    from tunecheck._errors import ConfigurationError

    if path.is_dir() or not path.parent.is_dir():
        raise ConfigurationError(f"--out {path}: its folder does not exist, or it is one itself")
    return path
