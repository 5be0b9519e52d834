"""The journal: an append-only file of everything a run has finished, and the reading of one that a run left behind.

One JSON object a line. `{"k": "answer", …}` is a target's answer to one row, `{"k": "verdicts", …}` holds the verdicts
of some evaluators on a chunk of rows, `{"k": "error", …}` notes a failure for people: failures are tried again, never
replayed. Each record is handed to the operating system before it counts, so that a killed process loses nothing; the
file is synced to the disk each second and at the end. A torn last line is cut off when the journal is opened.
"""

from __future__ import annotations

import contextlib
import os
import threading
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from tunecheck.errors import RunError
from tunecheck.jsontext import JSON, dumps_line, loads
from tunecheck.pipeline.scoring import Output

__all__ = ["Journal", "Recorded", "RowVerdicts", "Takeover"]

RowVerdicts: TypeAlias = dict[str, tuple[str | None, Output]]
"""The verdicts of one row in a chunk: by evaluator, the hash of its inputs and its output."""

_SYNC_EVERY_S = 1.0
_CHUNKS_KEPT = 64


class Journal:
    """The journal of a running run, open for appending. One process at a time holds it."""

    def __init__(self, path: Path) -> None:
        """Open or create the journal, cut off a torn last line, and lock it.

        Raises:
            RunError: another process holds it.
        """
        self._path = path
        self._file = path.open("ab", buffering=0)
        _lock(self._file.fileno(), path)
        _cut_torn_line(path)
        self._dirty = threading.Event()
        self._closed = threading.Event()
        self._syncer = threading.Thread(target=self._sync_each_second, name="tunecheck-journal", daemon=True)
        self._syncer.start()

    def answer(self, index: int, row_id: str, input_hash: str | None, columns: Mapping[str, JSON]) -> None:
        """Record a target's answer to a row."""
        self._append({"k": "answer", "i": index, "id": row_id, "h": input_hash, "out": columns})

    def verdicts(self, rows: Sequence[tuple[int, RowVerdicts]]) -> None:
        """Record the verdicts on a chunk of rows; rows without any are left out."""
        rows = [row for row in rows if row[1]]
        if rows:
            self._append({"k": "verdicts", "rows": rows})

    def error(self, index: int, row_id: str, stage: str, error: Mapping[str, JSON]) -> None:
        """Note a failure."""
        self._append({"k": "error", "i": index, "id": row_id, "stage": stage, **error})

    def _append(self, record: Mapping[str, object]) -> None:
        line = memoryview(dumps_line(record))
        try:
            while line:  # a write to a full or remote disk may take only a part
                line = line[os.write(self._file.fileno(), line) :]
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {error.strerror}; nothing recorded before is lost") from error
        self._dirty.set()

    def _sync_each_second(self) -> None:
        while not self._closed.wait(_SYNC_EVERY_S):
            if self._dirty.is_set():
                self._dirty.clear()
                self._sync()

    def _sync(self) -> None:
        with contextlib.suppress(OSError):  # some file systems cannot sync; the record itself was written
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Sync and release the journal."""
        self._closed.set()
        self._syncer.join()
        self._sync()
        self._file.close()


def _lock(descriptor: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise RunError(f"the run {path.parent.name} is being written by another process; wait for it to end") from None


def is_held(path: Path) -> bool:
    """Whether a process is writing this journal now."""
    try:
        import fcntl

        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except ImportError:
        return False
    except OSError:
        return path.exists()
    return False


def _cut_torn_line(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        position = size
        while position:
            start = max(0, position - 65536)
            file.seek(start)
            block = file.read(position - start)
            newline = block.rfind(b"\n")
            if newline >= 0:
                file.truncate(start + newline + 1)
                return
            position = start
        file.truncate(0)


class _Record(msgspec.Struct):
    """As much of a record as the index needs."""

    k: str
    i: int = -1
    h: str | None = None
    rows: list[tuple[int, dict[str, tuple[str | None, msgspec.Raw]]]] = []


class _Place(NamedTuple):
    offset: int
    row: int


class _ByRow:
    """Places found by the row's index: 8 bytes a row."""

    def __init__(self) -> None:
        self._offsets = array("Q")

    def add(self, _: str | None, place: _Place) -> None:
        if place.row >= len(self._offsets):
            self._offsets.extend([0] * (place.row + 1024 - len(self._offsets)))
        self._offsets[place.row] = place.offset + 1

    def find(self, _: str | None, index: int) -> _Place | None:
        offset = self._offsets[index] if index < len(self._offsets) else 0
        return _Place(offset - 1, index) if offset else None


class _ByContent:
    """Places found by the hash of the inputs; the n-th asking for equal inputs gets the n-th place, then the last."""

    def __init__(self) -> None:
        self._places: dict[int, _Place | deque[_Place]] = {}

    def add(self, input_hash: str | None, place: _Place) -> None:
        if input_hash is None:
            return
        key = int(input_hash, 16)
        known = self._places.get(key)
        if isinstance(known, deque):
            known.append(place)
        else:
            self._places[key] = place if known is None else deque([known, place])

    def find(self, input_hash: str | None, _: int) -> _Place | None:
        if input_hash is None:
            return None
        known = self._places.get(int(input_hash, 16))
        if isinstance(known, deque):
            return known.popleft() if len(known) > 1 else known[0]
        return known


class Recorded:
    """What an earlier run's journal holds, looked up when a row comes by.

    Only places in the file are kept in memory. With `by_row`, a row's records are found by its index (a run that goes
    on in its own folder), else by the hash of their inputs (a new run that takes over what has not changed). Either way
    the hash must be equal.
    """

    def __init__(self, path: Path, *, by_row: bool, evaluators: frozenset[str], answers: bool) -> None:
        """Read the journal once; `evaluators` and `answers` say whose records may be used."""
        self._file = path.open("rb")
        make = _ByRow if by_row else _ByContent
        self._answers: _ByRow | _ByContent = make()
        self._verdicts: dict[str, _ByRow | _ByContent] = {name: make() for name in evaluators}
        self._chunks: OrderedDict[int, dict[int, RowVerdicts]] = OrderedDict()
        self._index(answers)

    def _index(self, answers: bool) -> None:
        decode = msgspec.json.Decoder(_Record).decode
        for offset, line in _lines(self._file):
            try:
                record = decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                record = _read_leniently(line)
            if record.k == "answer" and answers and record.i >= 0:
                self._answers.add(record.h, _Place(offset, record.i))
            for index, verdicts in record.rows:
                for name, (input_hash, _) in verdicts.items():
                    if name in self._verdicts and input_hash is not None:
                        self._verdicts[name].add(input_hash, _Place(offset, index))

    def answer(self, index: int, input_hash: str | None) -> dict[str, JSON] | None:
        """The recorded answer to a row with these inputs, if there is one."""
        place = self._answers.find(input_hash, index)
        if place is None:
            return None
        record = self._read(place.offset)
        columns = record.get("out")
        return columns if record.get("h") == input_hash and isinstance(columns, dict) else None

    def answer_hash(self, index: int) -> str | None:
        """The hash of the inputs that a row's answer was recorded under."""
        place = self._answers.find(None, index)
        return cast("str | None", self._read(place.offset).get("h")) if place is not None else None

    def verdict(self, name: str, index: int, input_hash: str | None) -> Output | None:
        """The recorded verdict of an evaluator on these inputs, if there is one."""
        places = self._verdicts.get(name)
        place = places.find(input_hash, index) if places and input_hash is not None else None
        if place is None:
            return None
        recorded_hash, output = self._chunk(place.offset)[place.row][name]
        return output if recorded_hash == input_hash else None

    def _chunk(self, offset: int) -> dict[int, RowVerdicts]:
        chunk = self._chunks.get(offset)
        if chunk is None:
            rows = cast("list[tuple[int, RowVerdicts]]", self._read(offset)["rows"])
            chunk = self._chunks[offset] = dict(rows)
            if len(self._chunks) > _CHUNKS_KEPT:
                self._chunks.popitem(last=False)
        return chunk

    def _read(self, offset: int) -> dict[str, JSON]:
        self._file.seek(offset)
        return cast("dict[str, JSON]", loads(self._file.readline()))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


Found = TypeVar("Found")


class Takeover:
    """What a run may take over: from its own journal (it goes on), and from that of the run it was made from.

    Each finding comes with whether it stands elsewhere, so that it must be recorded again.
    """

    def __init__(self, own: Recorded | None = None, parent: Recorded | None = None) -> None:
        self._own = own
        self._parent = parent

    def __bool__(self) -> bool:
        return self._own is not None or self._parent is not None

    def answer(self, index: int, input_hash: str | None) -> tuple[dict[str, JSON], bool] | None:
        """The answer to a row with these inputs, if there is one."""
        # The parent is asked in any case: the n-th row with equal inputs gets its n-th answer.
        elsewhere = self._parent.answer(index, input_hash) if self._parent else None
        return _first(self._own.answer(index, input_hash) if self._own else None, elsewhere)

    def verdict(self, name: str, index: int, input_hash: str | None) -> tuple[Output, bool] | None:
        """The verdict of an evaluator on these inputs, if there is one."""
        own = self._own.verdict(name, index, input_hash) if self._own else None
        parent = self._parent if own is None else None
        return _first(own, parent.verdict(name, index, input_hash) if parent else None)

    def close(self) -> None:
        """Close the files."""
        for recorded in (self._own, self._parent):
            if recorded is not None:
                recorded.close()


def _first(own: Found | None, elsewhere: Found | None) -> tuple[Found, bool] | None:
    if own is not None:
        return own, False
    return None if elsewhere is None else (elsewhere, True)


def _read_leniently(line: bytes) -> _Record:
    """A record that the fast reader refuses (a lone surrogate in an answer); a damaged one is work not done."""
    try:
        return msgspec.convert(loads(line), _Record)
    except (ValueError, msgspec.ValidationError):
        return _Record("damaged")


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    offset = 0
    for line in file:
        if line.endswith(b"\n"):
            yield offset, line
        offset += len(line)
