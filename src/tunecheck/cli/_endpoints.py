"""`tunecheck endpoints check`: one request to an endpoint, and what came back."""

from __future__ import annotations

from typing import Annotated

import typer

from tunecheck.cli._parameters import Debug

Definition = Annotated[str, typer.Argument(metavar="FILE", help="A definition, or the name of one in endpoints/.")]


def make_app() -> typer.Typer:
    """The commands about endpoints."""
    app = typer.Typer(help="Try endpoints out.")
    app.command()(check)
    app.callback()(_about)
    return app


def _about() -> None:
    """Try endpoints out."""


def check(definition: Definition, debug: Debug = False) -> int:
    """Send one small request with a tool, and say what came back.

    Exit codes: 0 it answered; 1 it did not; 2 the definition is wrong.
    """
    import asyncio

    from tunecheck._messages import printable
    from tunecheck.cli._evaluate.answer_source import load_named
    from tunecheck.endpoints._check import check_endpoint

    report = asyncio.run(check_endpoint(load_named(definition)))
    for line in report.lines():
        print(printable(line))
    return 0 if report.ok else 1
