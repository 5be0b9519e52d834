"""Rows in memory: lists of dicts, DataFrames, and other iterables, which are read into a list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from tunecheck._errors import DataError
from tunecheck.datasets._sources import Digest, Record, Source

if TYPE_CHECKING:
    import pandas


class ListSource(Source):
    """A list of dicts. Values are not converted, even if they have no JSON form."""

    name = "rows"
    label = "the list of rows"

    def __init__(self, rows: Sequence[Mapping[str, object]]) -> None:
        self._rows = rows

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """Yield a copy of each dict with its number from 1; add its content to the digest."""
        for number, row in enumerate(self._rows, 1):
            record = copy_row(self, row, number)
            if digest is not None:
                digest.add(record)
            yield number, record


def listed_rows(rows: Iterable[object], limit: int | None) -> ListSource:
    """Return the first `limit` rows of an iterable as a list (None: all rows); the iterable is read at once.

    Raises:
        DataError: the iterable raises an exception, or a row is not a dict with texts as keys.
    """
    listed: list[Record] = []
    source = ListSource(listed)
    source.label = "the iterable of rows"
    try:
        for row in islice(rows, limit):
            listed.append(copy_row(source, row, len(listed) + 1))  # the iterable may yield the same dict again
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - a user's generator may raise anything
        source.refuse(f"the iterable raised {type(error).__name__}: {error}", len(listed) + 1)
    return source


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
        from tunecheck.datasets._tables import to_json

        names = self._frame.columns.tolist()
        for number, cells in enumerate(self._frame.itertuples(index=False, name=None), 1):
            record: Record = dict(zip(names, map(to_json, cells), strict=True))  # type: ignore[arg-type]
            if digest is not None:
                digest.add(record)
            yield number, record


def copy_row(source: Source, row: object, number: int) -> Record:
    """Return a copy of a user's row; `number` is the row's number in errors.

    Raises:
        DataError: the row is not a dict, or a column's name is not text.
    """
    if not isinstance(row, Mapping):
        source.refuse(f"the row is of type {type(row).__name__}: pass each row as a dict of columns", number)

    # A copy, so that the user's dict stays as it is.
    record: Record = dict(row)
    for key in record:
        if not isinstance(key, str):
            source.refuse(f"the column name {key!r} is not text: use texts as the keys of rows", number)
    return record
