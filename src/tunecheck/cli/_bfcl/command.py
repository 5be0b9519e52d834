"""`tunecheck bfcl`: the Berkeley Function-Calling Leaderboard's V3 evaluation."""

from __future__ import annotations

import typer

from tunecheck.cli._bfcl.run import run
from tunecheck.cli._bfcl.score import score, show


def make_app() -> typer.Typer:
    """The commands about BFCL."""
    app = typer.Typer(help="Run, score and show BFCL V3.")
    app.command()(run)
    app.command()(score)
    app.command()(show)
    return app
