"""Result rows: their columns, and the file that they are written to as they finish.

Two other files are made of them: a table that is safe in a spreadsheet, and Azure AI Evaluation's one JSON file.
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
    """Worker queues that still have work to do on it."""
    abandoned: bool = False
    """The run stops before the row has its result."""
    kind: str | None = None
    target: Mapping[str, JSON] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    errors: dict[str, Failure] = field(default_factory=dict)
    unread: bool = False
    """The calls in its response do not count."""
    cause: Fault | None = None
    """The cause of its failure: a fault with a code of codes.toml."""
    readings: RowCache | None = None
    """The readings of its values that pure evaluators share."""

    @property
    def needs_cause(self) -> bool:
        """True if the row failed: it has no answer, or an evaluator's result is `fail`."""
        for output in self.outputs.values():
            if "fail" in output.values():
                return True
        return "target" in self.errors


def check_columns(columns: Iterable[str], evaluators: Iterable[str]) -> None:
    """Raise ValueError if an answer's column is named like an evaluator's results."""
    for column in columns:
        name = next((name for name in evaluators if column.startswith(f"{name}.")), None)
        if name is not None:
            raise ValueError(
                f"the answer's column {column!r} clashes with the results of evaluator {name!r}; rename one"
            )


def result_row(state: RowState, evaluators: Sequence[str]) -> ResultRow:
    """Return the row of `eval_results.jsonl`, with the evaluators in their given order."""
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
    for stage in ("target", *evaluators):  # not in the order in which they happened, which is another one each time
        if stage in state.errors:
            result[f"error.{stage}"] = to_builtins(state.errors[stage])
    return result


class ResultsWriter:
    """`eval_results.jsonl` while a run goes on: rows are written as they finish and put in order at the end.

    Only each row's place in the file is kept in memory (8 bytes a row), so a row that takes long holds up no other.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(path.name + ".partial")
        self._file = open_regular(self._partial, "wb", buffering=1 << 18)
        self._starts = array("Q")
        self._end = 0
        self._next = 0
        self._in_order = True
        self.indices: Sequence[int] | None = None
        """The rows of a finished file, if it does not have all."""
        self.shapes: dict[tuple[str, ...], int] = {}
        """The sets of columns that rows have, each with the first row that has it."""

    def write(self, index: int, row: ResultRow) -> Failure | None:
        """Write one finished row; return a failure that names the values left out because they have no JSON form."""
        failure = None
        try:
            line = dumps_line(row)
        except TypeError:
            failure = _leave_out_unserialisable(row)
            line = dumps_line(row)
        shape = tuple(row)
        self.shapes[shape] = min(index, self.shapes.get(shape, index))
        if index != self._next:
            self._in_order = False
        self._next = index + 1
        if index >= len(self._starts):
            self._starts.extend([0] * (index + 1 - len(self._starts)))
        self._starts[index] = self._end + 1  # 0 stands for a row that is not there
        self._file.write(line)
        self._end += len(line)
        return failure

    def finish(self) -> RowsView:
        """Put the rows in order, make the file final, and give access to them.

        Raises:
            OSError: the disk is full.
        """
        self._file.close()
        if 0 in self._starts:
            self.indices = [index for index, start in enumerate(self._starts) if start]
        starts = array("Q", (start - 1 for start in self._starts if start))
        if not self._in_order:
            starts = self._sort(starts)
        put_in_place(self._partial, self._path)
        return RowsView(self._path, starts, self.indices)

    def _sort(self, starts: array[int]) -> array[int]:
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
        """Close and remove the partial file: the journal holds all that is in it."""
        with contextlib.suppress(OSError):  # a full disk, on which closing writes the last block
            self._file.close()
        with contextlib.suppress(OSError):  # a folder that cannot be written any more
            self._partial.unlink()


def columns_of(shapes: Mapping[tuple[str, ...], int]) -> list[str]:
    """Return every column of rows with these shapes, in the order of the rows that have them."""
    ordered = sorted(shapes.items(), key=lambda shape: shape[1])
    return list(dict.fromkeys(column for shape, _ in ordered for column in shape))


def _leave_out_unserialisable(row: ResultRow) -> Failure:
    refused = []
    for column, value in row.items():
        try:
            dumps(value)
        except TypeError as error:
            refused.append(f"{column}: {error}")
            row[column] = None
    failure = Failure("TypeError", f"left out of the results: {'; '.join(refused)}")
    row["error.results"] = to_builtins(failure)
    return failure


# -- other shapes

# Quotes, white space and what has no width may stand before the sign: spreadsheets and importers drop them. The
# apostrophe is among them, so that a text that has one of its own before a formula gets a second one, and text_of_cell
# always takes away the one that was added.
_FORMULA = re.compile(
    r"[\s\x00-\x1f'\"`´‘’‚“”„«»\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]*[=+\-@\t\r\n＝＋－＠−﹢﹣﹦﹫]"
)

# All but a tab and the ends of lines: a terminal that shows the file would obey some.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")

MAX_COLUMNS = 16_384
"""Most columns of the table, which is what a spreadsheet can hold; eval_results.jsonl has all of them."""


LONGEST_CELL = 32_767
"""Most characters of a cell, which is what a spreadsheet can hold; eval_results.jsonl has all of them."""

LONGEST_INPUT = 1_000
"""Most characters of a cell with a column of the data: tool definitions and conversations would fill the table."""


def write_table(path: Path, columns: Sequence[str], rows: Iterable[ResultRow]) -> None:
    """Write the rows as CSV (UTF-8 with a mark, which spreadsheets need to recognise it).

    Lists and objects are written as JSON, numbers as numbers. A text that a spreadsheet would run as a formula gets an
    apostrophe before it, because it is model output; `text_of_cell` takes it away. A cell is cut at `LONGEST_CELL`
    characters, one of the data at `LONGEST_INPUT`, and says so.
    """
    columns = columns[:MAX_COLUMNS]
    limits = [(each, LONGEST_INPUT if each.startswith("inputs.") else LONGEST_CELL) for each in columns]
    with replacing(path) as temporary, temporary.open("w", -1, "utf-8-sig", "backslashreplace", "") as file:
        writer = csv.writer(file)
        writer.writerow(map(_cell, columns))
        writer.writerows([_cell(row.get(column), longest) for column, longest in limits] for row in rows)


def _cell(value: JSON, longest: int = LONGEST_CELL) -> str:
    """Return a value as the text of a cell."""
    kind = type(value)
    if kind is float or kind is int:  # as most are
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
    elif value[:1].isalnum() and value.isprintable():  # as most texts: no formula, no controls
        text = value
    else:
        shown = _without_controls(value)
        text = f"'{shown}" if _FORMULA.match(shown) else shown
    if len(text) <= longest:
        return text
    end = f" … [{len(text):,} characters in all: see eval_results.jsonl]"
    return text[: longest - len(end)] + end


def _without_controls(text: str) -> str:
    if text.isprintable():  # as most are, which is seen ten times as fast
        return text
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def text_of_cell(cell: str) -> str:
    """Return the text that `write_table` wrote as a cell: remove the apostrophe that guards against formulas.

    Exact but for control characters, which stand in the file as `\\u001b`, and for halves of surrogate pairs.
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def check_output_path(output_path: str | os.PathLike[str]) -> Path:
    """Return the path of Azure's one file: in a folder, `evaluation_results.json`.

    Raises:
        ConfigurationError: its folder does not exist.
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
    """Write `{"rows", "metrics", "studio_url"}`, row by row, and rename it into place."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(b'{"rows": [')
        for number, row in enumerate(rows):
            file.write((b",\n" if number else b"\n") + dumps_line(row).rstrip())
        rest = dumps_line({"metrics": dict(metrics), "studio_url": studio_url})
        file.write(b"\n], " + rest.removeprefix(b"{"))
