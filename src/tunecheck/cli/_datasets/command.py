"""`tunecheck datasets`: convert other formats, fetch the BFCL data, check multi-turn data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tunecheck.cli._datasets.data_command import check, get
from tunecheck.cli._parameters import Debug

if TYPE_CHECKING:
    from tunecheck.datasets._conversion import ConversionReport

FORMATS = ("glaive",)

_MOST_SHOWN = 20

Format = Annotated[str, typer.Argument(metavar="FORMAT", help="glaive: raw Glaive function-calling conversations.")]
Source = Annotated[Path, typer.Argument(metavar="FILE", help="A JSON array of conversations, or JSON Lines.")]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The data set to write, e.g. datasets/glaive.jsonl.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace FILE if it is there.")]


def make_app() -> typer.Typer:
    """The commands about data sets."""
    app = typer.Typer(help="Make, fetch and check data sets.")
    app.command()(convert)
    app.command()(get)
    app.command()(check)
    app.callback()(_about)
    return app


def _about() -> None:
    """Make, fetch and check data sets."""


def convert(format_: Format, source: Source, out: Out, overwrite: Overwrite = False, debug: Debug = False) -> int:
    """Turn conversations into rows, one for each assistant's turn, with the defaults that fit them beside it.

    A conversation that cannot be read is reported by its number; the others go on.
    """
    from tunecheck._errors import ConfigurationError
    from tunecheck._messages import did_you_mean
    from tunecheck.datasets._conversion import convert_glaive

    if format_ not in FORMATS:
        raise ConfigurationError(f"there is no converter for {format_!r}{did_you_mean(format_, FORMATS)}")
    _show(convert_glaive(source, out, overwrite=overwrite))
    return 0


def _show(report: ConversionReport) -> None:
    from tunecheck._messages import clean, counted

    left_out = len(report.unreadable)
    read = f"{report.conversations - left_out:,} of {counted(report.conversations, 'conversation')}"
    print(f"{read}: {counted(report.rows, 'row')}, {report.call_rows:,} with {counted(report.calls, 'function call')}")
    for one in report.unreadable[:_MOST_SHOWN]:
        print(f"  left out number {one.number}: {clean(one.reason)}")
    if left_out > _MOST_SHOWN:
        print(f"  and {left_out - _MOST_SHOWN:,} more")
    print(f"written {report.out}")
    kept = "kept as it was, it says something else" if report.sidecar_kept else "its defaults"
    print(f"        {report.sidecar} ({kept})")
