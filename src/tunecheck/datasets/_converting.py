"""Convert training files to data sets: JSON Lines of rows, and a file of suitable defaults.

The steps of `convert`:

1. Check the names of the files, before anything is written.
2. Write the rows of each conversation to a temporary file. A conversation that cannot be converted is only reported.
3. Write the defaults and the form's own files, such as graders, and rename the temporary file to the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from tunecheck._disk import replacing, write_file
from tunecheck._errors import ConfigurationError, DataError, raise_as
from tunecheck._json import JSON, dumps_line, value_of
from tunecheck.datasets._reading import SUFFIXES, file_source, locate, training_form
from tunecheck.datasets._sources import JsonArraySource, json_source, sidecar_path, sidecar_text
from tunecheck.datasets._training import ConversationError, Form, own_keys


class ConversionReport(msgspec.Struct):
    """The result of a conversion.

    `calls` counts the function calls in all answers, `call_rows` the rows with calls as their answer. `unreadable` has
    the reason of each conversation that was left out, by its number (its line in a JSON Lines file). `sidecar_kept`: a
    different sidecar existed and was not changed.
    """

    source: Path
    out: Path
    sidecar: Path
    sidecar_kept: bool = False
    conversations: int = 0
    rows: int = 0
    calls: int = 0
    call_rows: int = 0
    unreadable: dict[int, str] = msgspec.field(default_factory=dict)


def convert(source: Path, form: Form, out: Path, *, overwrite: bool = False) -> ConversionReport:
    """Convert the conversations in `source` (a JSON array, JSON Lines, Parquet) to rows in `out` (JSON Lines).

    A conversation that cannot be converted is left out and reported. `out` appears only when it is complete. The
    sidecar `<out>.yaml` and the form's own files are written, too. An existing sidecar with other content is kept.

    Raises:
        ConfigurationError: `out` has another suffix, is the source or cannot be written; or `out` or one of the form's
            files exists, and `overwrite` is not set.
        DataError: `source` cannot be read, or no conversation in it can be converted.
    """
    source = locate(str(source), ())
    check_out(source, out, overwrite=overwrite)
    if not overwrite and (existing := [name for name in form.files if Path(name).exists()]):
        raise ConfigurationError(f"{existing[0]} would be replaced: rename it, or pass --overwrite (overwrite=True)")

    report = ConversionReport(source, out, sidecar_path(out))

    with raise_as(ConfigurationError, out, "cannot be written"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as temporary:
            _write_rows(report, form, temporary)
            _write_sidecar(report, form)
            for name, text in form.files.items():
                Path(name).parent.mkdir(exist_ok=True)
                write_file(Path(name), text.encode())
    return report


def check_out(source: Path, out: Path, *, overwrite: bool) -> None:
    """Check the file for the result before anything is written.

    Raises:
        ConfigurationError: `out` ends in neither .jsonl nor .ndjson, is the source, or exists and `overwrite` is not
            set.
    """
    if out.suffix.lower() not in (".jsonl", ".ndjson"):
        raise ConfigurationError(f"{out} must end in .jsonl or .ndjson, such as {out.with_suffix('.jsonl').name}")
    if out.exists() and out.samefile(source):
        raise ConfigurationError(f"{out} is the source itself: choose another name for the result")
    if out.exists() and not overwrite:
        raise ConfigurationError(f"{out} exists: choose another name, or pass --overwrite (in Python overwrite=True)")


def _write_rows(report: ConversionReport, form: Form, path: Path) -> None:
    """Write the rows of all conversations to `path`; count rows, calls and unreadable conversations in the report.

    Raises:
        DataError: there are no conversations, or none can be converted.
    """
    with path.open("wb") as file:
        for number, conversation in _conversations(report.source):
            report.conversations += 1
            try:
                if isinstance(conversation, bytes):
                    conversation = value_of(conversation)
                if not isinstance(conversation, dict):
                    raise ConversationError("the conversation must be a JSON object")
                rows = form.rows(conversation, number)
                # All rows are written as text first, so that a conversation is converted as a whole or not at all.
                lines = [dumps_line(row) for row in rows]
            except (ConversationError, TypeError) as error:  # TypeError: nested too deeply to be written
                report.unreadable[number] = str(error)
                continue

            # A row expects calls if its answer is {"tool_uses": [one or more]}.
            file.writelines(lines)
            report.rows += len(rows)
            answers = [row.get("answer") for row in rows]
            answer_calls = [answer.get("tool_uses") for answer in answers if isinstance(answer, dict)]
            counts = [len(calls) for calls in answer_calls if isinstance(calls, list) and calls]
            report.call_rows += len(counts)
            report.calls += sum(counts)

    if not report.conversations:
        raise DataError(f"{report.source} has no conversations to convert: give a training file")

    if not report.rows and report.unreadable:
        number, reason = next(iter(report.unreadable.items()))
        hint = _other_form_hint(report.source, form)
        problem = f"none of {report.conversations} conversations can be converted"
        raise DataError(f"{report.source}: {problem} (conversation {number}: {reason}){hint}")


def _other_form_hint(path: Path, form: Form) -> str:
    """Return advice for an error message if the file seems to have another training form; else an empty text."""
    other = training_form(file_source(path)) if path.suffix.lower() in SUFFIXES else None
    return f"; the file is {other.words}: use --from {other.name}" if other not in (None, form) else ""


def _conversations(path: Path) -> Iterator[tuple[int, JSON | bytes]]:
    """Return each conversation of the file with its number; in JSON Lines, the bytes of each line that is not blank.

    Unlike a data set, JSON Lines with a broken line are converted without this line, so lines are not parsed here.
    """
    if path.suffix.lower() in (".csv", ".parquet"):
        file = file_source(path)
        return ((number, own_keys(file, record)) for number, record in file.records())

    source = json_source(path)
    if isinstance(source, JsonArraySource):
        return iter(enumerate(source.items(), 1))
    return ((number, line) for number, line in enumerate(source.lines(), 1) if line.strip())


def _write_sidecar(report: ConversionReport, form: Form) -> None:
    """Write the form's defaults to the result's YAML file.

    Keep an existing file with other content and set `sidecar_kept` in the report.
    """
    unit = "assistant turn" if form.unit == "conversation" else form.unit
    text = sidecar_text(form.defaults, description=f"Converted from {form.words}, one row per {unit}.")

    path = report.sidecar
    if path.exists() and path.read_text("utf-8", errors="replace") != text:
        report.sidecar_kept = True
        return
    write_file(path, text.encode())
