"""The files of a run that several workers shared, put together from what each has made of its chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import msgspec

from tunecheck._disk import replacing
from tunecheck._errors import RunError
from tunecheck._json import loads
from tunecheck.pipeline._finished_rows import ResultRow, RowsView
from tunecheck.pipeline._outcome import Outcome
from tunecheck.pipeline._results import MAX_COLUMNS, ResultsWriter, table_bytes, write_table
from tunecheck.runs._claims import Claims, size_of


class Merge:
    """What workers have committed; no more of it is in memory at once than a part of one chunk's file."""

    def __init__(self, claims: Claims, outcome: Outcome) -> None:
        """Add what was counted to the outcome.

        Raises:
            RunError: something is not as it was committed.
        """
        self._claims = claims
        self._columns: list[list[str]] = []
        self._in_order = all(len(ranges) == 1 for ranges in claims.chunks)
        for chunk in range(len(self._claims.chunks)):
            stored = b"".join(self._claims.contents(self._claims.done_with(chunk).results.outcome))
            try:
                self._columns.append(outcome.add(stored)[:MAX_COLUMNS])
            except (ValueError, msgspec.MsgspecError) as error:
                raise RunError(f"what was counted of chunk {chunk} is damaged ({error}): begin a new run") from None

    def write_rows(self, path: Path) -> RowsView:
        """Write the rows of all chunks, in the order of the data."""
        if not self._in_order:
            return self._sorted(path)
        chunks = self._claims.chunks
        with replacing(path) as temporary, temporary.open("wb") as file:
            for chunk, ranges in enumerate(chunks):
                count = 0
                for block in self._claims.contents(self._claims.done_with(chunk).results.rows):
                    count += block.count(b"\n")
                    file.write(block)
                _check(chunk, count, size_of(ranges))
        return RowsView(path, count=sum(map(size_of, chunks)))

    def _sorted(self, path: Path) -> RowsView:
        """The same where chunks have rows from all over the data: those of a group."""
        results = ResultsWriter(path)
        try:
            for chunk, ranges in enumerate(self._claims.chunks):
                lines = [*self._lines(chunk)]
                _check(chunk, len(lines), size_of(ranges))
                for index, line in zip(chain.from_iterable(range(*each) for each in ranges), lines, strict=True):
                    results.take(index, line)
            return results.finish()
        finally:
            results.abandon()

    def _lines(self, chunk: int) -> Iterator[bytes]:
        """The rows of a chunk, whose parts end anywhere."""
        torn = b""
        for block in self._claims.contents(self._claims.done_with(chunk).results.rows):
            *lines, torn = (torn + block).split(b"\n")
            yield from (line + b"\n" for line in lines)

    def write_table(self, path: Path, columns: list[str], rows: Iterable[ResultRow]) -> None:
        """Write the table: a chunk's own where it has all columns of the run, else one made of its rows."""
        if not self._in_order:
            write_table(path, columns, rows)
            return
        head = b"".join(table_bytes(columns, ()))
        with replacing(path) as temporary, temporary.open("wb") as file:
            file.write(head)
            for chunk, own in enumerate(self._columns):
                if own == columns[:MAX_COLUMNS]:
                    parts = self._claims.contents(self._claims.done_with(chunk).results.table)
                else:
                    parts = table_bytes(columns, map(_row, self._lines(chunk)))
                file.write(next(parts, head).removeprefix(head))
                file.writelines(parts)


def _row(line: bytes) -> ResultRow:
    row = loads(line)
    assert isinstance(row, dict)
    return row


def _check(chunk: int, count: int, size: int) -> None:
    if count != size:
        raise RunError(f"chunk {chunk} has {count} rows of {size}: what workers wrote is damaged; begin a new run")
