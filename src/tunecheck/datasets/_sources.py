"""What every kind of data has in common: records in order, each with its number, and errors that say where."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NoReturn

from tunecheck._errors import DataError
from tunecheck._json import JSON

Record = dict[str, JSON]

CHUNK = 1 << 18
"""Bytes read at a time."""

MAX_ROW_BYTES = 64 << 20
"""Longest row of a text file: what is longer is not a row, and would be read whole into memory."""

MAX_ERROR = 1_000
"""Longest error in characters."""


class Digest:
    """The SHA-256 of a source, fed as it is read; None where some part of it has no stable bytes."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._stable = True

    def update(self, part: bytes | None) -> None:
        """Add the next bytes; None says that the part has none that are stable."""
        if part is None:
            self._stable = False
        else:
            self._hash.update(part)

    def result(self) -> str | None:
        return self._hash.hexdigest() if self._stable else None


class Source(ABC):
    """Where rows come from.

    `name` is short, for a run's name; `label` stands in errors; `unit` is what a record's number counts ("line" or
    "row"); `rereadable` says whether `records` can be called more than once.
    """

    name: str
    label: str
    unit: str = "row"
    path: Path | None = None
    rereadable: bool = True

    @abstractmethod
    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """Every record with its number, counted from 1 in `unit`s, in order.

        Raises:
            DataError: something cannot be read; the text says what, where, and what to do.
        """

    def refuse(self, what: str, number: int | None = None, column: int | None = None) -> NoReturn:
        """Raise the DataError of this source, of its record `number`, and of a column (a character) in it."""
        where = self.label if number is None else f"{self.label}, {self.unit} {number}"
        if column is not None:
            where += f", column {column}"
        raise DataError(f"{where}: {one_line(what)}")

    def state(self) -> object:
        """Something that differs when the source has changed since it was last looked at."""
        return None


class FileSource(Source):
    """A file on disk, read in chunks."""

    def __init__(self, path: Path) -> None:
        self.path: Path = path
        self.name = path.stem
        self.label = str(path)

    def state(self) -> object:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns

    def open(self) -> IO[bytes]:
        """The file, unbuffered."""
        try:
            return self.path.open("rb", buffering=0)
        except OSError as error:
            self.refuse(f"cannot be opened: {error.strerror or error}")

    def raw_chunks(self, digest: Digest | None = None) -> Iterator[bytes]:
        """All of the file's bytes."""
        with self.open() as file:
            while True:
                try:
                    chunk = file.read(CHUNK)
                except OSError as error:
                    self.refuse(f"cannot be read: {error.strerror or error}")
                if not chunk:
                    return
                if digest is not None:
                    digest.update(chunk)
                yield chunk

    def chunks(self, digest: Digest | None = None) -> Iterator[bytes]:
        """The bytes of a text file, without a byte order mark; the digest is of all of them."""
        raw = self.raw_chunks(digest)
        for first in raw:
            start = first[:64]
            if start.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
                self.refuse("is encoded as UTF-32; save it as UTF-8")
            # Every other byte is zero in ASCII text that was written as UTF-16 without a mark.
            unmarked = len(start) >= 4 and (not any(start[::2]) or not any(start[1::2]))
            if unmarked or start.startswith((b"\xff\xfe", b"\xfe\xff")):
                self.refuse("is encoded as UTF-16; save it as UTF-8")
            yield first.removeprefix(b"\xef\xbb\xbf")
            yield from raw

    def lines(self, digest: Digest | None = None) -> Iterator[bytes]:
        """The physical lines, without their line feed; a last line that is empty is left out."""
        held: list[bytes] = []
        size = number = 0
        for chunk in self.chunks(digest):
            first, *others = chunk.split(b"\n")
            held.append(first)
            size += len(first)
            if size > MAX_ROW_BYTES:
                self.refuse(f"is longer than {MAX_ROW_BYTES >> 20} MiB; one row must stand on each line", number + 1)
            if others:
                yield b"".join(held)
                last = others.pop()
                yield from others
                number += 1 + len(others)
                held, size = [last], len(last)
        if size:
            yield b"".join(held)


def one_line(text: str) -> str:
    """Text from outside as part of an error: on one line, and not endless."""
    return " ".join(text.split())[:MAX_ERROR]


def excerpt(text: str, at: int, *, width: int = 40) -> str:
    """A short piece of the text around a position: quoted, on one line, safe to print."""
    return ascii(text[max(0, at - width // 2) : at + width // 2])
