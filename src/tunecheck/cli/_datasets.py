"""`tunecheck datasets convert`: convert training files and other forms to a data set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._messages import clean, did_you_mean, plural
from tunecheck.cli._options import CommandOptions, Invocation, argument, command, flag, option

if TYPE_CHECKING:
    from tunecheck.datasets._converting import ConversionReport
    from tunecheck.datasets._training import Form

_MOST_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(CommandOptions):
    source: Path = argument("File of conversations: a JSON array, JSON Lines or Parquet.", "FILE")
    form: str | None = option(
        "Form of the conversations: openai (also TRL's), sharegpt, xlam, glaive (raw) or openai-evals. Default: "
        "detected from the first record.",
        "FORM",
        flags=("--from",),
    )
    graders: Path | None = option("With openai-evals: the eval's JSON, whose graders become evaluators.", "FILE")
    out: Path | None = option("Data set to write; default: datasets/NAME.jsonl, with FILE's name.", "FILE")
    overwrite: bool = flag("Replace an existing data set.")


@command(ConvertOptions)
def convert(options: ConvertOptions, invocation: Invocation) -> int:
    """Convert conversations to rows, one for each turn of the assistant, and write the rows' defaults beside them.

    Conversations that cannot be read are reported by number and left out.
    """
    from tunecheck.datasets._converting import convert as convert_file
    from tunecheck.datasets._reading import file_source, locate, training_form
    from tunecheck.datasets._training import forms

    known = forms()
    if options.form is None:
        form = training_form(file_source(locate(str(options.source), [])))
        if form is None:
            names = ", ".join(known)
            raise ConfigurationError(
                f"{options.source}: the form of the first record is unknown: name the form with --from ({names}). "
                "If the records are rows already, use the file as it is"
            )
    elif (form := known.get(options.form)) is None:
        raise ConfigurationError(f"--from: there is no form {options.form!r}{did_you_mean(options.form, known)}")
    if options.graders is not None:
        if form.with_graders is None:
            raise ConfigurationError(f"--graders: {form.words} has no graders: leave --graders out")
        form = form.with_graders(options.graders)
    out = options.out or Path("datasets") / f"{options.source.stem}.jsonl"
    _print_conversion(convert_file(options.source, form, out, overwrite=options.overwrite), form)
    return 0


def _print_conversion(report: ConversionReport, form: Form) -> None:
    """Print how many conversations and rows were converted, what was left out, and the files written."""
    left_out = len(report.unreadable)
    read = f"{report.conversations - left_out:,} of {plural(report.conversations, form.unit)}"
    calls = f", {report.call_rows:,} with {plural(report.calls, 'function call')}" if report.calls else ""
    print(f"{read}: {plural(report.rows, 'row')}{calls}")
    for one in report.unreadable[:_MOST_SHOWN]:
        print(f"  left out number {one.number}: {clean(one.reason)}")
    if left_out > _MOST_SHOWN:
        print(f"  and {left_out - _MOST_SHOWN:,} more")
    print(f"written {report.out}")
    kept = "not replaced: its content differs" if report.sidecar_kept else "its defaults"
    print(f"        {report.sidecar} ({kept})", *(f"        {name}" for name in form.files), sep="\n")
