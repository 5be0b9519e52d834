"""Files of rows: what all of them have in common, one JSON object a line, and one array of objects read in pieces.

Records come in order, each with its number, and errors say where.
"""

import codecs
import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, NoReturn

from tunecheck._errors import DataError
from tunecheck._json import JSON, loads
from tunecheck.datasets._columns import kind

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
    "row"); `rereadable` says whether `records` can be called more than once; `note` what users should know of it.
    """

    name: str
    label: str
    unit: str = "row"
    path: Path | None = None
    rereadable: bool = True
    note: str | None = None

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
        self.place = path.absolute()  # evaluators may go to another folder while rows are read
        self.name = path.stem
        self.label = str(path)

    def state(self) -> object:
        try:
            status = self.place.stat()
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns

    def open(self) -> IO[bytes]:
        """The file, unbuffered."""
        try:
            return self.place.open("rb", buffering=0)
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


# -- JSON

_BLANK = b" \t\r\n"
_BLANKS = re.compile(r"[ \t\r\n]*")
_MARGIN = 16  # a word or escape that the end of a piece cut in two is at most this long


def json_source(path: Path) -> FileSource:
    """What reads a `.json` file: its first character tells an array from JSON Lines under the wrong name."""
    array = JsonArraySource(path)
    for chunk in array.chunks():
        start = chunk.lstrip(_BLANK)
        if start:
            return JsonLinesInDisguise(path) if start[:1] == b"{" else array
    return array


_ARRAY_HINT = "; a JSON array of rows belongs in a .json file"


def _ends_early(error: ValueError) -> bool:
    """Whether a value goes on after the text."""
    return isinstance(error, json.JSONDecodeError) and error.pos >= len(error.doc.rstrip())


class JsonLinesSource(FileSource):
    """One object on each line; blank lines are skipped, and still counted."""

    unit = "line"

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        for number, line in enumerate(self.lines(digest), 1):
            try:
                value = loads(line)
            except ValueError as error:
                if not line.strip(_BLANK):
                    continue
                self._broken(line, number, error)
            if not isinstance(value, dict):
                hint = _ARRAY_HINT if isinstance(value, list) else ""
                self.refuse(f"holds {kind(value)} where each line must be one object {{…}}{hint}", number)
            yield number, value

    def _broken(self, line: bytes, number: int, error: ValueError) -> NoReturn:
        if b"\0" in line:
            self.refuse("holds NUL bytes; the file is damaged, or not text", number)
        begun = {b"[": f"an array{_ARRAY_HINT}", b"{": "an object"}.get(line.lstrip(_BLANK)[:1])
        if begun and _ends_early(error):
            self.refuse(f"each line must be one whole object, and this is only the beginning of {begun}", number)
        if isinstance(error, json.JSONDecodeError):
            what = f"not JSON: {_problem(error)} near {excerpt(error.doc, error.pos)}; each line must be one object"
            self.refuse(what, number, error.pos + 1)
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as encoding:
            self.refuse(f"is not UTF-8 at byte {encoding.start + 1} of the line; save the file as UTF-8", number)
        self.refuse(f"{_reason(error)}; each line must be one object of plain JSON", number)


class JsonLinesInDisguise(JsonLinesSource):
    """A `.json` file that starts with an object: more than one line of them are rows, a single one is a mistake."""

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        self._refuse_an_object_over_lines()
        records = super().records(digest)
        ahead = list(islice(records, 2))
        if len(ahead) < 2:
            self._one_object()
        yield from ahead
        yield from records

    def _refuse_an_object_over_lines(self) -> None:
        first = next(line for line in self.lines() if line.strip(_BLANK))
        try:
            loads(first)
        except ValueError as error:  # else `records` says what is wrong with it
            if _ends_early(error):
                self._one_object()

    def _one_object(self) -> NoReturn:
        self.refuse(
            "holds one object, not rows; expected an array of objects [{…}, …], or one object a line (named .jsonl)"
        )


class JsonArraySource(FileSource):
    """One array of objects, decoded one object at a time."""

    unit = "row"

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        for number, value in enumerate(ArrayReader(self, digest).items(), 1):
            if not isinstance(value, dict):
                self.refuse(f"is {kind(value)} where every item of the array must be an object {{…}}", number)
            yield number, value


class ArrayReader:
    """A window over the text of an array: it grows until it holds the next item, and forgets what was read."""

    def __init__(self, source: FileSource, digest: Digest | None) -> None:
        self._source = source
        self._pieces = source.chunks(digest)
        self._decode_utf8 = codecs.getincrementaldecoder("utf-8")()
        self._decode_item = json.JSONDecoder(parse_constant=lambda _: None).raw_decode
        self._text = ""
        self._at = 0
        self._line = 1
        self._line_start = 0  # where the line at the window's start began, relative to the window (never above 0)
        self._lines_read = 0
        self._ended = False

    def items(self) -> Iterator[JSON]:
        first = self._peek()
        if first == "":
            return
        if first != "[":
            self._fail("expecting an array of objects", self._at)
        self._at += 1
        if self._peek() == "]":
            self._at += 1
        else:
            yield from self._items()
        if self._peek():
            self._fail("extra data after the array", self._at)

    def _items(self) -> Iterator[JSON]:
        while True:
            self._peek()
            yield self._item()
            mark = self._peek()
            if mark not in (",", "]"):
                self._fail("expecting ',' or ']'", self._at)
            self._at += 1
            if mark == "]":
                return

    def _item(self) -> JSON:
        while True:
            try:
                value: JSON
                value, end = self._decode_item(self._text, self._at)
            except json.JSONDecodeError as error:
                cut_short = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _MARGIN
                if self._ended or not cut_short:
                    self._fail(_problem(error), error.pos)
            except (ValueError, RecursionError) as error:
                self._fail(_reason(error), self._at)
            else:
                if end < len(self._text) or self._ended:  # a number at the very end might go on
                    if end - self._at > MAX_ROW_BYTES:
                        self._fail(f"an item is longer than {MAX_ROW_BYTES >> 20} MiB", self._at)
                    self._at = end
                    return value
            self._grow()

    def _peek(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            self._at = _BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._grow()

    def _grow(self) -> None:
        """Forget what was read and read at least as much as is left, so that long items cost linear time."""
        self._line += self._text.count("\n", 0, self._at)
        newline = self._text.rfind("\n", 0, self._at)
        self._line_start = (newline + 1 if newline >= 0 else self._line_start) - self._at
        parts = [self._text[self._at :]]
        self._at = 0
        wanted = max(1, len(parts[0]))
        if wanted > MAX_ROW_BYTES:
            self._fail(f"an item is longer than {MAX_ROW_BYTES >> 20} MiB", 0, parts[0])
        while wanted > 0 and not self._ended:
            piece = self._next_piece()
            parts.append(piece)
            wanted -= len(piece)
        self._text = "".join(parts)

    def _next_piece(self) -> str:
        chunk = next(self._pieces, b"")
        self._ended = not chunk
        try:
            piece = self._decode_utf8.decode(chunk, final=self._ended)
        except UnicodeDecodeError as error:
            line = self._lines_read + error.object.count(b"\n", 0, error.start) + 1
            raise DataError(f"{self._source.label}, line {line}: is not UTF-8; save the file as UTF-8") from None
        self._lines_read += chunk.count(b"\n")
        return piece

    def _fail(self, reason: str, at: int, text: str | None = None) -> NoReturn:
        text = self._text if text is None else text
        line = self._line + text.count("\n", 0, at)
        newline = text.rfind("\n", 0, at)
        column = at - (newline + 1 if newline >= 0 else self._line_start) + 1
        if at >= len(text):
            reason += ", but the file ends"
        near = f" near {excerpt(text, at)}" if text else ""
        reason = f"not JSON: {reason}{near}; the file must be one array of objects [{{…}}, …]"
        raise DataError(f"{self._source.label}, line {line}, column {column}: {reason}")


def _problem(error: json.JSONDecodeError) -> str:
    text = error.msg.removesuffix(" at").removesuffix(" starting")
    return text[:1].lower() + text[1:]


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    text = str(error)
    if "digits" in text:
        return "a whole number has more than 4,300 digits"
    return f"is {text}" if text.startswith("nested") else text
