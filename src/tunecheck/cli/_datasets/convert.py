"""`tunecheck datasets convert`: turn conversations of other formats into data sets."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._messages import clean, counted, did_you_mean
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._options import CommandOptions, argument, command, flag, option

if TYPE_CHECKING:
    from tunecheck.datasets._glaive import ConversionReport

FORMATS = ("glaive",)

_MOST_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(CommandOptions):
    """The options of `datasets convert`."""

    format: str = argument("glaive: raw Glaive function-calling conversations.", "FORMAT")
    source: Path = argument("A JSON array of conversations, or JSON Lines.", "FILE")
    out: Path = option("The data set to write, e.g. datasets/glaive.jsonl.", "FILE", default=MISSING)
    overwrite: bool = flag("Replace FILE if it is there.")


@command(ConvertOptions)
def convert(options: ConvertOptions, invocation: Invocation) -> int:
    """Turn conversations into rows, one for each assistant's turn, with the defaults that fit them beside it.

    A conversation that cannot be read is reported by its number; the others go on.
    """
    from tunecheck.datasets._glaive import convert_glaive

    if options.format not in FORMATS:
        raise ConfigurationError(f"there is no converter for {options.format!r}{did_you_mean(options.format, FORMATS)}")
    _show(convert_glaive(options.source, options.out, overwrite=options.overwrite))
    return 0


def _show(report: ConversionReport) -> None:
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
