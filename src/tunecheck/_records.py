"""Append-only files of records, one JSON object per line: a run's journal, and other work that outlives its process.

Each record is passed to the operating system before `append` returns, so a killed process loses nothing. The file is
synced to the disk every second and at the end. A torn last line, which a crash of the machine can leave, is cut off
when the file is opened.

A record's last key, `"c": [number, checksum]`, holds its number and the CRC-32 of the line up to that key, started with
that number. A small file next to the records holds the number of synced records. Both let a reader find damaged and
missing records. The second record of a journal may look like this:

    {"k":"answer","i":0,"id":"row-1","h":"5d0e3a0c8d7f4b21","out":{"response":"Hello"},"c":[1,2277375747]}
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import msgspec
from msgspec.structs import astuple

from tunecheck import _files as files
from tunecheck._disk import MOST_IN_A_LINE, lines, lock, open_regular, read_regular
from tunecheck._errors import RunError, raise_as
from tunecheck._json import JSON, dumps, object_or_empty, value_of
from tunecheck._messages import plural

_SYNC_EVERY_S = 1.0
"""Interval of syncs: a crash of the machine, unlike that of a process, loses the records of up to one second."""

_SEAL = b',"c":['
"""Begins the last key of a record."""

_BLOCK = 1 << 16
"""Bytes that are read at once, from the end of the file, to find its last line."""

# Limits of a report on damage: the places that it names, and the damaged lines that it keeps.
_MOST_PLACES = 5
_MOST_PIECES = 1_000


class RecordFile:
    """A file of records, open for appending. Only one process can hold it."""

    def __init__(self, path: Path, subject: str, *, header: object = None, at_least: int = 0) -> None:
        """Open or create the file, lock it, and cut off a torn last line; `subject` names its content in errors.

        A new file begins with the record `header`, which holds the file's version. `at_least` is the number of records
        that the file is known to have had.

        Raises:
            ConfigurationError: a later version of Tunecheck wrote the file, which stays unchanged.
            RunError: another process holds the file, or it cannot be written.
        """
        files.check_first_record(path)
        self.path = path
        self._problem: str | None = None
        """The reason why no further record can be written, or None."""
        self._removed = False
        self._dirty = threading.Event()
        self._syncing = threading.Lock()
        self._appending = threading.Lock()

        # If one of the steps fails, the stack closes what the steps before it opened.
        with raise_as(RunError, path, "cannot be written"), contextlib.ExitStack() as opened:
            held = f"another process is writing {subject}; wait until that process ends"
            self._file = opened.enter_context(open_regular(path, "ab", buffering=0))
            opened.enter_context(lock(path, held))
            self._size, number, torn = _cut_torn_line(path)
            self._synced = opened.enter_context(open_regular(synced_file(path), "ab", buffering=0))

            # A torn record does not count: `torn` is 1 if there was one, else 0.
            self.count = max(number, at_least, _synced_count(path) - torn)
            """The number of the next record: the count of all records ever written."""
            if torn:
                self.sync()  # the torn record must not be counted
            if header is not None and not self._size:
                self.append_encoded(dumps(header))
            self._opened = opened.pop_all()

        self._closed = threading.Event()
        self._syncer = threading.Thread(target=self._sync_each_second, name="tunecheck-records", daemon=True)
        self._syncer.start()

    def append(self, record: object) -> int:
        """Write a record, from any thread; return its offset.

        Raises:
            RunError: the record cannot be written.
            TypeError: the record has no JSON form.
        """
        return self.append_encoded(dumps(record))

    def append_encoded(self, record: bytes) -> int:
        """Write a record that is already JSON, with number and checksum, from any thread; return its offset.

        Raises:
            RunError: the record cannot be written; a partly written record is cut off.
        """
        with self._appending:
            line = memoryview(seal_record(record, self.count))
            if len(line) >= MOST_IN_A_LINE:
                raise RunError(f"{self.path}: a record is longer than {MOST_IN_A_LINE >> 20} MB: shorten its texts")

            written = 0
            try:
                if self._problem is not None:
                    raise OSError(None, self._problem)
                while written < len(line):  # a write to a full or remote disk may be partial
                    written += os.write(self._file.fileno(), line[written:])
            except OSError as error:
                self._take_back(written)
                earlier_records = "its earlier records are lost" if self._removed else "its earlier records are kept"
                raise RunError(f"{self.path}: cannot be written: {error.strerror} ({earlier_records})") from error

            self.count += 1
            if not self._dirty.is_set():  # setting it takes ten times as long
                self._dirty.set()
            begin, self._size = self._size, self._size + written
            return begin

    def _take_back(self, written: int) -> None:
        """Cut off the written part of a record, so that the next record begins a line.

        If that fails, no further record is written.
        """
        try:
            os.ftruncate(self._file.fileno(), os.fstat(self._file.fileno()).st_size - written)
        except OSError:
            self._problem = "a part of an earlier record could not be removed"

    def _sync_each_second(self) -> None:
        """Sync new records to the disk every second until the file is closed; refuse further ones if it was removed."""
        while not self._closed.wait(_SYNC_EVERY_S):
            # No name leads to the file any more, so its records would be lost at the end of the run.
            if not os.fstat(self._file.fileno()).st_nlink:
                self._removed, self._problem = True, "the file was removed"

            if self._dirty.is_set():
                self._dirty.clear()
                self.sync()

    def sync(self) -> int:
        """Sync all records so far to the disk and store their number beside the file; return the number."""
        with self._syncing:
            count = self.count
            with contextlib.suppress(OSError):  # some file systems cannot sync; the record was written all the same
                os.fsync(self._file.fileno())
            with contextlib.suppress(OSError):  # last, because the counted records must be on the disk first
                os.ftruncate(self._synced.fileno(), 0)
                os.write(self._synced.fileno(), seal_record(b'{"k":"synced"}', count))
        return count

    def close(self) -> None:
        """Sync and release the file."""
        self._closed.set()
        self._syncer.join()
        self.sync()
        self._opened.close()


def seal_record(record: bytes, number: int) -> bytes:
    """Return a JSON record as a line of the file, with its number and checksum as the last key."""
    body = record[:-1]
    return b"%b%b%d,%d]}\n" % (body, _SEAL, number, crc32(body, number))


def _number_of(line: bytes) -> int | None:
    """Return the number of the record in a line, or None if it is damaged or has no checksum."""
    body, _, seal = line.rpartition(_SEAL)
    try:
        number, checksum = map(int, seal.removesuffix(b"]}\n").split(b","))
        return number if number < files.MOST_COUNTED and crc32(body, number) == checksum else None
    except (ValueError, OverflowError):
        return None


def synced_file(path: Path) -> Path:
    """Return the path of the file with the number of synced records."""
    return path.with_suffix(".synced")


def _synced_count(path: Path) -> int:
    """Return the number of records known to be on the disk; 0 if it was not stored or is damaged."""
    try:
        return _number_of(read_regular(synced_file(path))) or 0
    except OSError:
        return 0


def _cut_torn_line(path: Path) -> tuple[int, int, bool]:
    """Cut off a torn last line; return the file's new end, the next record's number, and True if a line was torn.

    Raises:
        OSError: the file cannot be opened or written, or a line that must be read is too long.
    """
    with open_regular(path, "r+b") as file:
        # Cut off a part of a line after the last line feed.
        size = file.seek(0, os.SEEK_END)
        end = _end_of_line(file, size)
        if end < size:
            file.truncate(end)

        start = _end_of_line(file, end - 1)  # of the last whole line
        file.seek(start)
        number = _number_of(file.read(end - start)) if end - start < MOST_IN_A_LINE else None

        # If the last whole line is damaged, continue after the highest number in the file. `lines` refuses a long line.
        if number is None:
            file.seek(0)
            number = max((-1 if found is None else found for found in map(_number_of, lines(file))), default=-1)

        return end, number + 1, end < size


def _end_of_line(file: BinaryIO, position: int) -> int:
    """Return the offset after the last line feed before `position`, or 0 if there is none."""
    while position > 0:
        start = max(0, position - _BLOCK)
        file.seek(start)
        newline = file.read(position - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        position = start
    return 0


class Damage(msgspec.Struct):
    """The damage of a file: `lost` records at `places`, and the `pieces` that remain of them."""

    lost: int = 0
    places: list[str] = msgspec.field(default_factory=list)
    pieces: list[bytes] = msgspec.field(default_factory=list)

    def add(self, missing: int, broken: Sequence[tuple[int, bytes]], before: int | None) -> None:
        """Add a place of damage: its `broken` lines with their line numbers, or a gap without lines.

        `missing` is the number of records that the place lacks. `before` is the number of the next undamaged line, or
        None at the end of the file.
        """
        if broken:
            first, last = broken[0][0], broken[-1][0]
            self.places.append(f"line {first}" if first == last else f"lines {first} to {last}")
        elif missing:
            self.places.append("at the end" if before is None else f"before line {before}")

        self.lost += max(missing, len(broken))
        self.pieces += [piece for _, piece in broken[: _MOST_PIECES - len(self.pieces)]]

    def __str__(self) -> str:
        """Return `3 records are damaged or missing (line 7, at the end)`, with at most five places."""
        hidden = len(self.places) - _MOST_PLACES
        more = f", and at {plural(hidden, 'place')} more" if hidden > 0 else ""
        verb = "is" if self.lost == 1 else "are"
        places = f"{', '.join(self.places[:_MOST_PLACES])}{more}"
        return f"{plural(self.lost, 'record')} {verb} damaged or missing ({places})"


class WholeRecords:
    """Yields the undamaged records of a file, with their offsets; collects the others as `damage`.

    The numbers of undamaged records must increase by one from 0 on. Damage is:

    * a line with a wrong checksum, or with a number that was read before (a copied line)
    * a gap in the numbers; broken lines in its place count as the missing records
    * records at the end that were synced before, except for one torn line

    `at_least` is the number of records that the file is known to have had, if more than were synced.
    """

    def __init__(self, path: Path, file: BinaryIO, at_least: int = 0) -> None:
        """`path` is the path of the file, which is known to have had `at_least` records."""
        self.damage = Damage()
        self._file = file
        self._least_records = max(at_least, _synced_count(path))

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and line of each undamaged record, reading the file once; note the damage."""
        self._file.seek(0)

        offset, expected = 0, 0  # the next line's offset and the next record's number
        broken: list[tuple[int, bytes]] = []
        least_records = self._least_records

        for line_number, line in enumerate(lines(self._file), 1):
            # A line without an end was torn by a crash; it counts as never written.
            if not line.endswith(b"\n"):
                least_records -= 1
                break

            number = _number_of(line)

            # A number that was read before shows a copied line.
            if number is None or number < expected:
                broken.append((line_number, line))
            else:
                if broken or number > expected:
                    self.damage.add(number - expected, broken, line_number)
                    broken = []
                expected = number + 1
                yield offset, line
            offset += len(line)

        if broken or least_records > expected:
            self.damage.add(max(0, least_records - expected), broken, None)

    def read(self) -> Damage:
        """Read the file only to find its damage, and return it."""
        deque(self, maxlen=0)
        return self.damage

    def accept(self, lost: int) -> None:
        """Forget the damage so far if at most this many records are lost."""
        if self.damage.lost <= lost:
            self.damage = Damage()


# -- the journal: the records of all finished work of a run; `tunecheck._files` describes them


class Journal(RecordFile):
    """The journal of a running run, open for appending. Only one process can hold it."""

    def __init__(self, path: Path, *, at_least: int = 0) -> None:
        """Open or create the journal, lock it, and cut off a torn last line.

        `at_least` is the number of records that the journal is known to have had.

        Raises:
            ConfigurationError: a later version of Tunecheck wrote the journal.
            RunError: another process holds the journal, or it cannot be written.
        """
        super().__init__(path, f"the run {path.parent.name}", header=files.Header(), at_least=at_least)

    def answer(self, index: int, row_id: str, input_hash: str | None, columns: Mapping[str, JSON]) -> None:
        """Record a target's answer to a row.

        The record leaves out `text` or `tool_calls` if this column equals `response`; `same` then names the column.
        """
        out = dict(columns)
        # Columns in another order could not be restored in their order.
        others = files.FIRST_COLUMNS[1:] if [*out][:3] == files.FIRST_COLUMNS else []
        same = next((name for name in others if out[name] is not None and out[name] == out["response"]), None)
        if same is not None:
            del out[same]

        self.append(files.Answer(index, row_id, input_hash, out, same))

    def step(self, index: int, row_id: str, input_hash: str | None, part: str, value: JSON) -> None:
        """Record a finished part of the answer to a row; `part` is its name."""
        self.append(files.Step(index, row_id, input_hash, part, value))

    def verdicts(self, rows: Sequence[tuple[int, files.RowVerdicts]]) -> None:
        """Record the verdicts on several rows, in several records if one would be too long; skip rows without any."""
        rows = [row for row in rows if row[1]]

        try:
            if rows:
                self.append(files.Verdicts(rows))
        except RunError:  # the records may be too long together
            # Half of the rows may fit; a single row that is too long cannot be split.
            if len(rows) == 1:
                raise
            half = len(rows) // 2
            self.verdicts(rows[:half])
            self.verdicts(rows[half:])

    def error(self, index: int, row_id: str, stage: str, failure: files.Failure) -> None:
        """Record the failure of a stage (`target`, or an evaluator's name) on a row."""
        self.append(files.Error(index, row_id, stage, *astuple(failure)))

    def read(self, offset: int) -> dict[str, JSON]:
        """Return the record at this offset; an empty one if it is damaged."""
        with self.path.open("rb") as file:
            file.seek(offset)
            return object_or_empty(value_of(file.readline()))
