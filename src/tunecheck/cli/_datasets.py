"""`tunecheck datasets convert`: convert training files and other forms to a data set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._messages import clean, counted, did_you_mean
from tunecheck.cli._options import CommandOptions, Invocation, argument, command, flag, option

if TYPE_CHECKING:
    from tunecheck.datasets._converting import ConversionReport

_MOST_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(CommandOptions):
    format: str = argument("openai (TRL's, too), sharegpt, xlam, or glaive (raw).", "FORMAT")
    source: Path = argument("A JSON array of conversations, JSON Lines, or Parquet.", "FILE")
    out: Path | None = option("The data set to write; by default datasets/, with FILE's name.", "FILE")
    overwrite: bool = flag("Replace FILE if it is there.")


@command(ConvertOptions)
def convert(options: ConvertOptions, invocation: Invocation) -> int:
    """Convert conversations to rows, one for each turn of the assistant, and write a file with fitting defaults.

    A conversation that cannot be read is reported by its number; the others go on.
    """
    from tunecheck.datasets._converting import convert as convert_file
    from tunecheck.datasets._training.forms import forms

    known = forms()
    form = known.get(options.format)
    if form is None:
        raise ConfigurationError(f"there is no converter for {options.format!r}{did_you_mean(options.format, known)}")
    out = options.out or Path("datasets") / f"{options.source.stem}.jsonl"
    _print_conversion(convert_file(options.source, form, out, overwrite=options.overwrite))
    return 0


def _print_conversion(report: ConversionReport) -> None:
    left_out = len(report.unreadable)
    read = f"{report.conversations - left_out:,} of {counted(report.conversations, 'conversation')}"
    print(f"{read}: {counted(report.rows, 'row')}, {report.call_rows:,} with {counted(report.calls, 'function call')}")
    for one in report.unreadable[:_MOST_SHOWN]:
        print(f"  left out number {one.number}: {clean(one.reason)}")
    if left_out > _MOST_SHOWN:
        print(f"  and {left_out - _MOST_SHOWN:,} more")
    print(f"written {report.out}")
    kept = "kept: its content differs" if report.sidecar_kept else "its defaults"
    print(f"        {report.sidecar} ({kept})")
