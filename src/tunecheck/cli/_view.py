"""`tunecheck view`: the folder of runs in a browser on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tunecheck._messages import clean
from tunecheck.cli._invocation import DEFAULT_RESULTS
from tunecheck.cli._parameters import Debug, ResultsDir

Port = Annotated[int, typer.Option("--port", metavar="PORT", min=0, max=65_535, help="0: any free one.")]


def view(results_dir: ResultsDir = None, port: Port = 8088, debug: Debug = False) -> int:
    """Serve the reports of all runs to a browser on this machine, and let two be compared, until Ctrl-C."""
    from tunecheck.report._serving import view as serve

    folder = Path(results_dir or DEFAULT_RESULTS)
    serve(folder, port=port, on_ready=lambda url: _say_ready(url, folder))
    return 0


def _say_ready(url: str, folder: Path) -> None:
    print(f"showing {clean(folder)} on {url} (this machine only); Ctrl-C ends it", flush=True)
