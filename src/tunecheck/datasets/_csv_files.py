"""Rows from CSV: a header of distinct names, then cells that all stay text."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from typing import NoReturn

from tunecheck.datasets._sources import Digest, FileSource, Record

MAX_CELL = 16 << 20
"""Longest cell in characters: a quote that is never closed would otherwise swallow the rest of the file."""


class CsvSource(FileSource):
    """Comma-separated values as RFC 4180 has them; a blank cell is the empty text, blank lines are skipped.

    A row's number is the physical line it starts in.
    """

    unit = "line"

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """See Source."""
        table = self._table(digest)
        number, header = next(table, (1, []))
        self._check_header(header, number)
        width = len(header)
        for number, cells in table:
            if len(cells) != width:
                self._ragged(len(cells), width, number)
            yield number, dict(zip(header, cells, strict=True))

    def _table(self, digest: Digest | None) -> Iterator[tuple[int, list[str]]]:
        # The limit belongs to the process and cannot be set for one reader; it is only ever raised.
        csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))
        reader = csv.reader(self._text_lines(digest), strict=True)
        start = 1
        while True:
            try:
                cells = next(reader, None)
            except csv.Error as error:
                self._broken(error, start, reader.line_num)
            if cells is None:
                return
            if cells:
                yield start, cells
            start = reader.line_num + 1

    def _text_lines(self, digest: Digest | None) -> Iterator[str]:
        for number, line in enumerate(self.lines(digest), 1):
            if b"\0" in line:
                self.refuse("holds NUL bytes; the file is damaged, or not text", number)
            try:
                yield line.decode("utf-8") + "\n"
            except UnicodeDecodeError as error:
                self.refuse(f"is not UTF-8 at byte {error.start + 1} of the line; save the file as UTF-8", number)

    def _check_header(self, header: list[str], number: int) -> None:
        if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
            mark = ";" if ";" in header[0] else "tab"
            self.refuse(f"the columns seem to be separated by {mark!r}; save the file with commas", number)
        twice = [name for name, count in Counter(header).items() if count > 1]
        if twice:
            self.refuse(f"the header has the column {twice[0]!r} {header.count(twice[0])} times; rename one", number)

    def _ragged(self, found: int, expected: int, number: int) -> NoReturn:
        cells = f"{found} cell" + "s" * (found != 1)
        self.refuse(
            f"has {cells}, the header {expected}; quote a cell that holds a comma or line break, fill in blank ones",
            number,
        )

    def _broken(self, error: csv.Error, start: int, end: int) -> NoReturn:
        text = str(error)
        if "unexpected end of data" in text or "field larger" in text:
            self.refuse("a quote that opens in this row is never closed, or its cell is too long", start)
        if "new-line character" in text:
            self.refuse("lines end with carriage returns only; save the file with line feeds", end)
        self.refuse(f"not CSV: {text}; a quote inside a quoted cell must be doubled", end)
