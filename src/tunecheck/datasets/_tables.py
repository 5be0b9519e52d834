"""Rows from CSV and Parquet files and from DataFrames, and the conversion of table cells to JSON.

CSV has a header of distinct names, and all cells stay text. Parquet is read in batches. A cell becomes JSON as follows:

| cell                              | JSON                                  |
|-----------------------------------|---------------------------------------|
| None, NaN, NaT, NA, an infinity   | null                                  |
| a date, time or timestamp         | ISO 8601 text, "2024-05-01T09:30:00"  |
| a duration                        | ISO 8601 seconds, "PT1.5S"            |
| a decimal, a UUID                 | text with all digits, "12.50"         |
| Arrow's map, [("a", 1), ("b", 2)] | an object, {"a": 1, "b": 2}           |
| numpy's scalar or array           | a number, text or list                |
| bytes                             | an error of the column                |
"""

from __future__ import annotations

import csv
import math
from collections import deque
from collections.abc import Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING
from uuid import UUID

from tunecheck._errors import MissingExtraError
from tunecheck._json import JSON
from tunecheck.datasets._sources import MAX_ROW_BYTES, Digest, FileSource, Record, Source

if TYPE_CHECKING:
    import pandas
    import pyarrow
    import pyarrow.parquet

MAX_CELL = 16 << 20
"""Maximum length of a cell in characters, so that an unclosed quote does not include the rest of the file."""


class CsvSource(FileSource):
    """Comma-separated values as in RFC 4180; a blank cell is an empty text, blank lines are skipped.

    A row's number is the line in which it starts.
    """

    unit = "line"

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """Yield each row as a dict of texts by the header's names, with its line number.

        Raises:
            DataError: the header is unusable, or a row has another number of cells.
        """
        rows = self._numbered_rows(digest)
        # The first row that is not blank is the header.
        number, header = next(rows, (1, []))
        self._check_header(header, number)

        width = len(header)
        for number, cells in rows:
            if len(cells) != width:
                hint = "quote each cell that holds a comma" if len(cells) > width else "write empty cells, too"
                self.refuse(f"the row has {len(cells)} cell(s), but the header has {width}: {hint}", number)
            yield number, dict(zip(header, cells, strict=True))

    def _numbered_rows(self, digest: Digest | None) -> Iterator[tuple[int, list[str]]]:
        """Yield the cells of each row that is not blank, after the number of the line in which the row starts.

        Raises:
            DataError: a row is not CSV.
        """
        # The limit applies to the whole process and cannot be set per reader, so it is only raised.
        csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))
        numbered = enumerate(self.lines(digest), 1)
        reader = csv.reader((f"{self.decode_line(line, number)}\n" for number, line in numbered), strict=True)

        start = 1
        try:
            for cells in reader:
                if cells:
                    yield start, cells
                # A cell in quotes may contain line breaks, so the next row starts after the last line that was read.
                start = reader.line_num + 1
        except csv.Error as error:
            advice = f"close each quote, keep cells below {MAX_CELL:,} characters, and end lines with line feeds"
            self.refuse(f"the row is not CSV ({error}): write quotes inside a quoted cell twice, {advice}", start)

    def _check_header(self, header: list[str], number: int) -> None:
        """Raise DataError for a header that names a column twice, or seems to be separated by semicolons or tabs."""
        if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
            mark = ";" if ";" in header[0] else "tab"
            self.refuse(f"the columns are separated by {mark!r}: save the file with commas", number)
        self.refuse_repeated_columns(header, number)


BATCH_ROWS = 1_000  # rows in memory at once
_TOO_LONG = f"a row is larger than {MAX_ROW_BYTES >> 20} MiB: leave out columns that no evaluator needs"


class ParquetSource(FileSource):
    """A Parquet file: timestamps become ISO 8601 text, decimals text; binary columns are refused."""

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """Yield each row as a dict of JSON values with its number from 1; the digest covers the file's bytes.

        Raises:
            MissingExtraError: pyarrow is not installed.
            DataError: the file or a value cannot be read.
        """
        try:
            import pyarrow
            import pyarrow.parquet as parquet
        except ImportError:
            raise MissingExtraError("reading .parquet files", "parquet") from None

        if digest is not None:
            deque(self.raw_chunks(digest), maxlen=0)  # reads the whole file, and keeps nothing

        number = 0
        try:
            with parquet.ParquetFile(self.absolute_path) as file:
                self._check_columns(file.schema_arrow)
                for group in map(file.metadata.row_group, range(file.metadata.num_row_groups)):
                    if group.total_byte_size > MAX_ROW_BYTES * group.num_rows:  # before it fills the memory
                        self.refuse(_TOO_LONG)

                for batch in file.iter_batches(batch_size=BATCH_ROWS):
                    self._check_row_sizes(batch, number)
                    for row in batch.to_pylist():
                        record: Record = to_json(row)  # type: ignore[assignment]  # a dict stays a dict
                        number += 1
                        yield number, record
        except (pyarrow.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            # If no row was read, the error is that of the file, not of a row.
            self.refuse(f"the Parquet file cannot be read ({reason}): write it again", number + 1 if number else None)
        except (ValueError, OverflowError) as error:
            self.refuse(f"a value in this row cannot be read ({error}): store its column as text", number + 1)

    def _check_row_sizes(self, batch: pyarrow.RecordBatch, rows_before: int) -> None:
        """Raise DataError if a row of the batch is too long; `rows_before` counts the rows before the batch."""
        # Only a batch above the limit can contain a row above it.
        for position in range(batch.num_rows if batch.nbytes > MAX_ROW_BYTES else 0):
            if batch.slice(position, 1).nbytes > MAX_ROW_BYTES:
                self.refuse(_TOO_LONG, rows_before + position + 1)

    def _check_columns(self, schema: pyarrow.Schema) -> None:
        """Raise DataError if two columns have the same name, or a column has bytes at any depth."""
        self.refuse_repeated_columns(schema.names)
        for field in schema:
            if _holds_bytes(field.type):
                self.refuse(f"the column {field.name!r} holds bytes: leave it out, or store it as text")


class FrameSource(Source):
    """A pandas DataFrame: missing values become None, numpy numbers Python numbers, timestamps ISO 8601 text."""

    name = "dataframe"
    label = "the DataFrame"

    def __init__(self, frame: pandas.DataFrame) -> None:
        """Take the frame; raise DataError if a column's name is no text or occurs twice."""
        self._frame = frame

        for column in frame.columns.tolist():
            if not isinstance(column, str):
                self.refuse(f"the column name {column!r} is not text: set df.columns = df.columns.map(str)")
        self.refuse_repeated_columns(frame.columns.tolist())

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """Yield each row as a dict of JSON values with its number from 1; add its content to the digest."""
        names = self._frame.columns.tolist()
        for number, cells in enumerate(self._frame.itertuples(index=False, name=None), 1):
            record: Record = dict(zip(names, map(to_json, cells), strict=True))  # type: ignore[arg-type]
            if digest is not None:
                digest.add(record)
            yield number, record


def without_nulls(value: JSON) -> JSON:
    """Return the value without null entries of objects, at any depth.

    A Parquet column of objects gives each object the keys of all objects, with null for missing ones.
    """
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def _holds_bytes(kind: pyarrow.DataType) -> bool:
    """Return True if values of this type contain bytes at any depth."""
    import pyarrow.types as types

    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return True

    if types.is_dictionary(kind):
        return _holds_bytes(kind.value_type)
    return any(_holds_bytes(kind.field(position).type) for position in range(kind.num_fields))


def to_json(value: object) -> object:
    """Return a cell as plain JSON; values of unknown types are unchanged.

    Missing values (None, NaN, NaT, NA) and infinities become None; dates and times ISO 8601 text; durations ISO 8601
    seconds (`PT1.5S`); decimals text with all digits; Arrow's maps (lists of pairs) objects.
    """
    # `bool` before `int`, because True is an int; subclasses of int are converted below.
    if value is None or isinstance(value, (str, bool)) or type(value) is int:
        return value

    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        # Arrow gives a map as a list of pairs.
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {str(item[0]): to_json(item[1]) for item in value}
        return [to_json(item) for item in value]

    return _object_to_json(value)


def _object_to_json(value: object) -> object:
    """Return a date, duration, decimal, UUID, numpy value or missing value as plain JSON; other values unchanged."""
    # by name, so that pandas is not imported
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    if isinstance(value, (date, time)):  # a datetime and a pandas Timestamp are dates, too
        return value.isoformat()

    if isinstance(value, timedelta):
        return f"PT{value.total_seconds():.9f}".rstrip("0").rstrip(".") + "S"
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() else None
    if isinstance(value, UUID):
        return str(value)
    if type(value).__name__ == "datetime64":
        return None if str(value) == "NaT" else str(value)

    to_list = getattr(value, "tolist", None)  # of a scalar, it returns the Python value
    has_shape = isinstance(getattr(value, "shape", None), tuple)
    return to_json(to_list()) if has_shape and callable(to_list) else value
