"""The files of a run that every destination is given, and the cells of the table of its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tunecheck._json import JSON, dumps_line
from tunecheck.runs._store import Run

_LOGS, _REPORT = "multi_turn_logs.jsonl", "report.html"

_LOG_COLUMN = "outputs.inference_log"
"""A conversation's whole log: too long for a cell of a table, so it goes into a file of its own."""

_BYTES = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file to upload: its name over there, where it is here, its type, size and SHA-256."""

    name: str
    path: Path
    kind: str
    size: int
    sha256: str


def artifact(name: str, path: Path, kind: str = _BYTES) -> Artifact:
    """A file as it is now."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return Artifact(name, path, kind, path.stat().st_size, digest.hexdigest())


def common_artifacts(run: Run, folder: Path) -> Iterator[Artifact]:
    """The logs of conversations, where there are any, and the report, where it was made."""
    with (folder / _LOGS).open("wb") as file:
        written = _write_logs(run, file)
    if written:
        yield artifact(_LOGS, folder / _LOGS)
    if (run.folder / _REPORT).is_file():
        yield artifact(_REPORT, run.folder / _REPORT, "text/html")


def _write_logs(run: Run, file: BinaryIO) -> int:
    written = 0
    for number, row in enumerate(run.rows()):
        log = row.get(_LOG_COLUMN)
        if log is not None:
            line = {"line_number": number, "row_id": row.get("row_id"), "inference_log": log}
            written += file.write(dumps_line(line))
    return written


def table_columns(rows: Iterable[Mapping[str, JSON]]) -> list[str]:
    """The columns of the table: inputs, outputs, and `outputs.error.<stage>` where rows have errors.

    Every row of the table has every column, null where it has no value: readers take the columns from any row.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    shown = [name for name in names if name.startswith(("inputs.", "outputs.")) and name != _LOG_COLUMN]
    errors = (f"outputs.{name}" for name in names if name.startswith("error."))
    return [*shown, *(name for name in errors if name not in names)]


def cell(row: Mapping[str, JSON], name: str) -> JSON:
    """What stands in a column of the table."""
    if name in row or not name.startswith("outputs.error."):
        return row.get(name)
    error = row.get(name.removeprefix("outputs."))
    return f"{error.get('type')}: {error.get('message')}" if isinstance(error, dict) else error
