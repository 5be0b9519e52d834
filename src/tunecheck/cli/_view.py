"""`tunecheck view`: the folder of runs in a browser on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tunecheck._messages import clean
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._options import command, option
from tunecheck.cli._shared_options import ResultsOptions


@dataclass(frozen=True, kw_only=True)
class ViewOptions(ResultsOptions):
    """The options of `view`."""

    port: int = option("0: any free one.", "PORT", default=8088, least=0, most=65_535)


@command(ViewOptions)
def view(options: ViewOptions, invocation: Invocation) -> int:
    """Serve the reports of all runs to a browser on this machine, and let two be compared, until Ctrl-C."""
    from tunecheck.report._serving import view as serve

    serve(options.folder, port=options.port, on_ready=lambda url: _say_ready(url, options.folder))
    return 0


def _say_ready(url: str, folder: Path) -> None:
    print(f"showing {clean(folder)} on {url} (this machine only); Ctrl-C ends it", flush=True)
