"""The journal: an append-only file of everything a run has finished.

One JSON object a line. `{"k": "answer", …}` is a target's answer to one row, `{"k": "step", …}` a finished part of an
answer that takes several calls, `{"k": "call", …}` a model's answer to an evaluator, `{"k": "verdicts", …}` holds the
verdicts of some evaluators on a chunk of rows, `{"k": "error", …}` notes a failure for people: failures are tried
again, never replayed. Each record is handed to the operating system before it counts, so that a killed process loses
nothing; the file is synced to the disk each second and at the end. A torn last line is cut off when the journal is
opened.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from tunecheck.errors import RunError
from tunecheck.jsontext import JSON, dumps_line
from tunecheck.pipeline.scoring import Output

__all__ = ["Journal", "RowVerdicts", "is_held"]

RowVerdicts: TypeAlias = dict[str, tuple[str | None, Output]]
"""The verdicts of one row in a chunk: by evaluator, the hash of its inputs and its output."""

_SYNC_EVERY_S = 1.0
_LOCK_TRIES = 5
_LOCK_PAUSE_S = 0.02


class Journal:
    """The journal of a running run, open for appending. One process at a time holds it."""

    def __init__(self, path: Path) -> None:
        """Open or create the journal, cut off a torn last line, and lock it.

        Raises:
            RunError: another process holds it, or it cannot be written.
        """
        self.path = path
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise RunError(f"cannot write {path}: {error.strerror}") from error
        try:
            _lock(self._file.fileno(), path)
            _cut_torn_line(path)
        except BaseException:
            self._file.close()
            raise
        self._size = os.fstat(self._file.fileno()).st_size
        self._broken = False
        self._dirty = threading.Event()
        self._closed = threading.Event()
        self._syncer = threading.Thread(target=self._sync_each_second, name="tunecheck-journal", daemon=True)
        self._syncer.start()

    def answer(self, index: int, row_id: str, input_hash: str | None, columns: Mapping[str, JSON]) -> None:
        """Record a target's answer to a row."""
        self._append({"k": "answer", "i": index, "id": row_id, "h": input_hash, "out": columns})

    def step(self, index: int, row_id: str, input_hash: str | None, part: str, value: JSON) -> None:
        """Record a finished part of the answer to a row."""
        self._append({"k": "step", "i": index, "id": row_id, "h": input_hash, "p": part, "out": value})

    def verdicts(self, rows: Sequence[tuple[int, RowVerdicts]]) -> None:
        """Record the verdicts on a chunk of rows; rows without any are left out."""
        rows = [row for row in rows if row[1]]
        if rows:
            self._append({"k": "verdicts", "rows": rows})

    def call(
        self, evaluator: str | None, key: str, cost: float | None, currency: str | None, columns: Mapping[str, JSON]
    ) -> int:
        """Record a model's answer to an evaluator's call; where the record begins.

        `evaluator` is None where the answer is taken over from another run, which paid for it.
        """
        return self._append({"k": "call", "e": evaluator, "h": key, "cost": cost, "cur": currency, "out": columns})

    def error(self, index: int, row_id: str, stage: str, error: Mapping[str, JSON]) -> None:
        """Note a failure."""
        self._append({"k": "error", "i": index, "id": row_id, "stage": stage, **error})

    def _append(self, record: Mapping[str, object]) -> int:
        """Write a record; where it begins."""
        line = memoryview(dumps_line(record))
        written = 0
        try:
            if self._broken:
                raise OSError(None, "an earlier record could not be written")
            while written < len(line):  # a write to a full or remote disk may take only a part
                written += os.write(self._file.fileno(), line[written:])
        except OSError as error:
            self._take_back(written)
            raise RunError(f"cannot write {self.path}: {error.strerror}; nothing recorded before is lost") from error
        self._dirty.set()
        begin, self._size = self._size, self._size + written
        return begin

    def _take_back(self, written: int) -> None:
        """Cut off what was written of a record, so that the next one does not begin in the middle of a line."""
        try:
            os.ftruncate(self._file.fileno(), os.fstat(self._file.fileno()).st_size - written)
        except OSError:
            self._broken = True

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
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # perhaps somebody only looks whether it is held
            time.sleep(_LOCK_PAUSE_S)
        else:
            return
    raise RunError(f"the run {path.parent.name} is being written by another process; wait for it to end")


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
