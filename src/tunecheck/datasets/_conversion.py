"""Convert a file of raw Glaive conversations into a data set, with the defaults that fit it beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tunecheck._errors import ConfigurationError, DataError
from tunecheck._json import JSON, dumps_line, loads
from tunecheck.datasets._defaults import DatasetDefaults, sidecar_path, sidecar_text
from tunecheck.datasets._glaive import UnreadableError, conversation_rows
from tunecheck.datasets._json_files import ArrayReader, JsonArraySource
from tunecheck.datasets._locate import locate

DEFAULTS = DatasetDefaults(
    column_mapping={
        "ground_truth": "${data.answer}",
        "tool_definitions": "${data.tools}",
        "response": "${target.response}",
    },
    evaluators=["bleu", "gleu", "meteor", "rouge", "function_call_match", "argument_match", "match"],
)
"""What a converted data set declares in its sidecar."""


@dataclass(frozen=True)
class UnreadableConversation:
    """A conversation that was left out: its number in the source (the line of a JSON Lines file), and why."""

    number: int
    reason: str


@dataclass
class ConversionReport:
    """What a conversion did.

    `calls` counts the function calls in all answers, `call_rows` the rows whose answer is calls. `sidecar_kept` says
    that another sidecar stood there already and was left as it is.
    """

    source: Path
    out: Path
    sidecar: Path
    sidecar_kept: bool = False
    conversations: int = 0
    rows: int = 0
    calls: int = 0
    call_rows: int = 0
    unreadable: list[UnreadableConversation] = field(default_factory=list)


def convert_glaive(
    source: Path, out: Path, *, overwrite: bool = False, overwrite_defaults: bool = False
) -> ConversionReport:
    """Write the rows of all raw conversations in `source` (a JSON array or JSON Lines) to `out` (JSON Lines).

    A conversation that cannot be converted is left out and reported; the others go on. `out` appears when it is
    complete. The sidecar `<out>.yaml` is written too; one that is there and says something else is kept, unless
    `overwrite_defaults`.

    Raises:
        ConfigurationError: `out` exists and `overwrite` is not set, is not named .jsonl, or cannot be written.
        DataError: `source` cannot be read, or no conversation in it can.
    """
    source = locate(str(source), ())
    _check_out(source, out, overwrite=overwrite)
    report = ConversionReport(source, out, sidecar_path(out))
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write(report, temporary)
            _write_sidecar(report, overwrite=overwrite_defaults)
            temporary.replace(out)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{out}: cannot be written: {error.strerror or error}") from None
    return report


def _check_out(source: Path, out: Path, *, overwrite: bool) -> None:
    if out.suffix.lower() not in (".jsonl", ".ndjson"):
        raise ConfigurationError(f"{out}: a converted data set is JSON Lines; name it {out.with_suffix('.jsonl').name}")
    if out.exists() and out.samefile(source):
        raise ConfigurationError(f"{out} is the source itself; choose another name for the result")
    if out.exists() and not overwrite:
        raise ConfigurationError(f"{out} exists; choose another name, or ask to overwrite it")


def _write(report: ConversionReport, path: Path) -> None:
    with path.open("wb") as file:
        for number, raw in _conversations(report.source):
            report.conversations += 1
            try:
                if isinstance(raw, UnreadableError):
                    raise raw
                rows = conversation_rows(raw, number)
                lines = [dumps_line(row) for row in rows]
            except (UnreadableError, TypeError) as error:  # a TypeError: nested too deeply to be written
                report.unreadable.append(UnreadableConversation(number, str(error)))
                continue
            file.writelines(lines)
            _count(report, rows)
        file.flush()
        os.fsync(file.fileno())
    if not report.conversations:
        raise DataError(f"{report.source} has no conversations")
    if not report.rows:
        first = report.unreadable[0]
        raise DataError(
            f"{report.source}: none of {report.conversations} conversations can be converted; "
            f"number {first.number}: {first.reason}"
        )


def _count(report: ConversionReport, rows: list[dict[str, JSON]]) -> None:
    report.rows += len(rows)
    for row in rows:
        answer = row["answer"]
        if isinstance(answer, dict) and isinstance(answer["tool_uses"], list):
            report.call_rows += 1
            report.calls += len(answer["tool_uses"])


def _conversations(path: Path) -> Iterator[tuple[int, JSON | UnreadableError]]:
    """Each conversation with its number; one that is not JSON, by itself, as the error it is."""
    source = JsonArraySource(path)
    start = b"".join(_first_text(source))
    if start == b"[":
        yield from enumerate(ArrayReader(source, None).items(), 1)
        return
    for number, line in enumerate(source.lines(), 1):
        if line.strip():
            yield number, _loaded(line)


def _first_text(source: JsonArraySource) -> Iterator[bytes]:
    for chunk in source.chunks():
        if text := chunk.lstrip():
            yield text[:1]
            return


def _loaded(line: bytes) -> JSON | UnreadableError:
    try:
        return loads(line)
    except ValueError as error:
        return UnreadableError(f"is not JSON: {error}")


def _write_sidecar(report: ConversionReport, *, overwrite: bool) -> None:
    text = sidecar_text(DEFAULTS, description="Converted from raw Glaive conversations, one row an assistant's turn.")
    path = report.sidecar
    if path.exists() and not overwrite and path.read_text("utf-8", errors="replace") != text:
        report.sidecar_kept = True
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)
