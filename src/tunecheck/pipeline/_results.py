"""Result rows: their columns, and the file to which they are written as they finish.

Two other files are made from them: a table that is safe in a spreadsheet, and Azure AI Evaluation's JSON file.
"""

from __future__ import annotations

import contextlib
import csv
import os
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import to_builtins

from tunecheck._disk import open_regular, put_in_place, replacing
from tunecheck._errors import ConfigurationError
from tunecheck._faults import Fault, fault_json
from tunecheck._files import Failure
from tunecheck._json import JSON, dumps, dumps_line
from tunecheck._targets import Row
from tunecheck.formats._reading import RowCache
from tunecheck.pipeline._finished_rows import ResultRow, RowsView
from tunecheck.pipeline._scoring import Output

_COPY_BLOCK = 1 << 20


@dataclass(slots=True)
class RowState:
    """One row on its way through the pipeline."""

    row: Row
    group: str | None = None
    """Rows of one group are answered one after another."""
    waiting: int = 0
    """Number of worker queues that have not finished this row."""
    abandoned: bool = False
    """True if the run stops before the row has its result."""
    kind: str | None = None
    target: Mapping[str, JSON] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    errors: dict[str, Failure] = field(default_factory=dict)
    unread: bool = False
    """True if the calls in the response's text do not count."""
    cause: Fault | None = None
    """The cause of the row's failure: a fault with a code of codes.toml."""
    readings: RowCache | None = None
    """The readings of its values that pure evaluators share."""

    @property
    def needs_cause(self) -> bool:
        """True if the target failed on the row, or an evaluator's result is `fail`."""
        for output in self.outputs.values():
            if "fail" in output.values():
                return True
        return "target" in self.errors


def check_columns(columns: Iterable[str], evaluators: Iterable[str]) -> None:
    """Raise ValueError if a column of the answer has the prefix of an evaluator's results."""
    for column in columns:
        if "." in column and (name := next((each for each in evaluators if column.startswith(f"{each}.")), None)):
            raise ValueError(
                f"the answer's column {column!r} clashes with the results of evaluator {name!r}; rename the column"
            )


def result_row(state: RowState, evaluators: Sequence[str]) -> ResultRow:
    """Return a row of `eval_results.jsonl`: inputs, answer, cause, verdicts and errors, by order of `evaluators`."""
    row = state.row
    result: ResultRow = {"row_id": row.id, "row_fingerprint": row.fingerprint}
    if state.kind is not None:
        result["row_kind"] = state.kind
    result["cause"] = None
    if state.cause is not None:
        evidence = fault_json(state.cause)
        result["cause"] = evidence.pop("code")
        if evidence:
            result["cause_evidence"] = evidence
    for column, value in row.values.items():
        result[f"inputs.{column}"] = value
    for column, value in state.target.items():
        result[f"outputs.{column}"] = value
    for name in evaluators:
        for key, value in state.outputs.get(name, {}).items():
            result[f"outputs.{name}.{key}"] = value
    for stage in ("target", *evaluators):  # in a fixed order, because errors occur in a different order each time
        if stage in state.errors:
            result[f"error.{stage}"] = to_builtins(state.errors[stage])
    return result


class ResultsWriter:
    """Writes `eval_results.jsonl`: rows are written as they finish and sorted at the end.

    Only each row's offset is kept in memory (8 bytes a row), so a slow row delays no other.
    """

    def __init__(self, path: Path) -> None:
        """Create the partial file next to `path`; `finish` gives it its name."""
        self._path = path
        self._partial = path.with_name(path.name + ".partial")
        self._file = open_regular(self._partial, "wb", buffering=1 << 18)
        self._starts = array("Q")
        self._end = 0
        self._next_index = 0
        self._is_in_order = True
        self.indices: Sequence[int] | None = None
        """The rows' indices in the data, if the finished file lacks some rows."""
        self.shapes: dict[tuple[str, ...], int] = {}
        """Each set of columns that rows have, with the index of the first such row."""

    def write(self, index: int, row: ResultRow) -> Failure | None:
        """Write one finished row; return None, or the failure that names values without a JSON form.

        Such values become null in the row.
        """
        failure = None
        try:
            line = dumps_line(row)
        except TypeError:
            failure = _remove_values_without_json(row)
            line = dumps_line(row)
        shape = tuple(row)
        self.shapes[shape] = min(index, self.shapes.get(shape, index))
        if index != self._next_index:
            self._is_in_order = False
        self._next_index = index + 1
        if index >= len(self._starts):
            self._starts.extend([0] * (index + 1 - len(self._starts)))
        self._starts[index] = self._end + 1  # 0 marks a missing row
        self._file.write(line)
        self._end += len(line)
        return failure

    def finish(self) -> RowsView:
        """Sort the rows into the order of the data, move the file to its final name, and return a view of it.

        Raises:
            OSError: the disk is full.
        """
        self._file.close()
        if 0 in self._starts:
            self.indices = [index for index, start in enumerate(self._starts) if start]
        starts = array("Q", (start - 1 for start in self._starts if start))
        if not self._is_in_order:
            starts = self._sort_file(starts)
        put_in_place(self._partial, self._path)
        return RowsView(self._path, starts, self.indices)

    def _sort_file(self, starts: array[int]) -> array[int]:
        """Rewrite the partial file in the order of the data; return each row's new offset."""
        ordered = self._partial.with_name(self._partial.name + ".sorted")
        final = array("Q")
        position = 0
        with self._partial.open("rb") as source, open_regular(ordered, "wb", _COPY_BLOCK) as target:
            for start in starts:
                source.seek(start)
                line = source.readline()
                final.append(position)
                position += target.write(line)
        ordered.replace(self._partial)
        return final

    def abandon(self) -> None:
        """Close and remove the partial file; the journal contains its data."""
        with contextlib.suppress(OSError):  # closing writes the last block, which fails on a full disk
            self._file.close()
        with contextlib.suppress(OSError):  # the folder may have become read-only
            self._partial.unlink()


def columns_of(shapes: Mapping[tuple[str, ...], int]) -> list[str]:
    """Return all columns of a run's rows; `shapes` has each set of columns with the index of its first row.

    Columns are in the order of these rows.
    """
    ordered = sorted(shapes.items(), key=lambda shape: shape[1])
    return list(dict.fromkeys(column for shape, _ in ordered for column in shape))


def _remove_values_without_json(row: ResultRow) -> Failure:
    """Set the row's values without a JSON form to None; store the error that names them in the row and return it."""
    problems = []
    for column, value in row.items():
        try:
            dumps(value)
        except TypeError as error:
            problems.append(f"{column}: {error}")
            row[column] = None
    failure = Failure("TypeError", f"values left out of the results: {'; '.join(problems)}")
    row["error.results"] = to_builtins(failure)
    return failure


# -- other shapes

# Quotes, white space and zero-width characters may precede the sign, because spreadsheets and importers drop them. They
# include the apostrophe: a text that already has one before a formula gets a second one, so text_of_cell can always
# remove the added one.
_FORMULA = re.compile(
    r"[\s\x00-\x1f'\"`´‘’‚“”„«»\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]*"
    r"[=+\-@\t\r\n＝＋－＠−﹢﹣﹦﹫]"
)

# Programs that also split at semicolons or tabs begin a cell inside a text: Excel in many countries, LibreOffice.
_CELL_INSIDE, _GUARD_INSIDE = (
    re.compile(rf"(?<=[;\t]){guard}(?='*[^\S\t\r\n]{{0,8}}[=+\-@＝＋－＠−﹢﹣﹦﹫])") for guard in ("", "'")
)

# All controls except tab and line ends, because a terminal that shows the file may interpret them.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")

MAX_COLUMNS = 16_384
"""Maximum number of columns of the table, a spreadsheet's limit; eval_results.jsonl has all columns."""


LONGEST_CELL = 32_767
"""Maximum number of characters of a cell, a spreadsheet's limit; eval_results.jsonl has all characters."""

LONGEST_INPUT = 1_000
"""Maximum number of characters of a data cell: tool definitions and conversations would fill the table."""


def write_table(path: Path, columns: Sequence[str], rows: Iterable[ResultRow]) -> None:
    """Write the rows as CSV in UTF-8 with a byte order mark, which spreadsheets need.

    Lists and objects are written as JSON, numbers as numbers. A text that a spreadsheet would run as a formula gets a
    leading apostrophe, because it may be model output; `text_of_cell` removes it. A cell is cut at `LONGEST_CELL`
    characters, a data cell at `LONGEST_INPUT`, with a note.
    """
    columns = columns[:MAX_COLUMNS]
    limits = [(each, LONGEST_INPUT if each.startswith("inputs.") else LONGEST_CELL) for each in columns]
    with replacing(path) as temporary, temporary.open("w", -1, "utf-8-sig", "backslashreplace", "") as file:
        writer = csv.writer(file)
        writer.writerow(map(_cell, columns))
        writer.writerows([_cell(row.get(column), longest) for column, longest in limits] for row in rows)


def _cell(value: JSON, longest: int = LONGEST_CELL) -> str:
    """Return a value as the text of a CSV cell: safe from formulas and controls, and at most `longest` characters."""
    kind = type(value)
    if kind is float or kind is int:  # the common case first
        return repr(value)
    if value is None:
        return ""
    if kind is bool:
        return "true" if value else "false"
    if not isinstance(value, str):
        encoded = dumps(value)
        text = encoded.decode("utf-8")
        if not encoded.isascii() or b"\x7f" in encoded:  # JSON escapes the other controls
            text = _without_controls(text)
        if ";" in text and _CELL_INSIDE.search(text):  # JSON has no tabs, and most has no semicolon
            text = text.replace(";", "\\u003b")
    elif value[:1].isalnum() and value.isprintable() and ";" not in value:  # the common case: no formula, no controls
        text = value
    else:
        escaped = _CELL_INSIDE.sub("'", _without_controls(value))
        text = f"'{escaped}" if _FORMULA.match(escaped) else escaped
    if len(text) <= longest:
        return text
    note = f" … [{len(text):,} characters in all: see eval_results.jsonl]"
    return text[: longest - len(note)] + note


def _without_controls(text: str) -> str:
    """Return the text with controls escaped, as `\\u001b`; keep tabs and the line ends `\\n` and `\\r\\n`."""
    if text.isprintable():  # ten times as fast as the substitution, and true of most texts
        return text
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def text_of_cell(cell: str) -> str:
    """Return the text that `write_table` wrote as a cell, without the apostrophes that guard against formulas.

    Control characters stay escaped, and halves of surrogate pairs are not restored.
    """
    return _GUARD_INSIDE.sub("", cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell)


def check_output_path(output_path: str | os.PathLike[str]) -> Path:
    """Return the path of Azure's JSON file; if `output_path` is a folder, `evaluation_results.json` in it.

    Raises:
        ConfigurationError: the parent folder does not exist.
    """
    path = Path(output_path)
    if path.is_dir():
        return path / "evaluation_results.json"
    if not path.parent.is_dir():
        raise ConfigurationError(f"output_path: the folder {path.parent} does not exist; make it first")
    return path


def write_azure_results(
    path: Path, rows: Iterable[ResultRow], metrics: Mapping[str, JSON], studio_url: str | None
) -> None:
    """Write Azure AI Evaluation's JSON file row by row to a temporary file, and rename it at the end.

    Its keys are `rows`, `metrics` and `studio_url`, which is null without an upload.
    """
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(b'{"rows": [')
        for number, row in enumerate(rows):
            file.write((b",\n" if number else b"\n") + dumps_line(row).rstrip())
        rest = dumps_line({"metrics": dict(metrics), "studio_url": studio_url})
        file.write(b"\n], " + rest.removeprefix(b"{"))
