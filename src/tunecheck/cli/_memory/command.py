"""`tunecheck memory`: the long-term-memory benchmark."""

from __future__ import annotations

import typer

from tunecheck.cli._memory.replay import replay
from tunecheck.cli._memory.rescore import rescore
from tunecheck.cli._memory.run import ResumingCommand, run


def make_app() -> typer.Typer:
    """The commands about long-term memory."""
    app = typer.Typer(help="Test an agent's long-term memory; check runs of the GoodAI benchmark.")
    app.command(cls=ResumingCommand)(run)
    app.command()(replay)
    app.command()(rescore)
    return app
