"""Append-only files of records, one JSON object a line: what a process that may be killed keeps of its work.

Each record is handed to the operating system before `append` returns, so that a killed process loses nothing; the file
is synced to the disk each second and at the end. A torn last line, as a crash of the machine leaves it, is cut off when
the file is opened.
"""

import contextlib
import os
import threading
import time
from pathlib import Path

from tunecheck._errors import RunError
from tunecheck._files import check_first_record
from tunecheck._json import dumps_line
from tunecheck._regular_files import open_regular

_SYNC_EVERY_S = 1.0
_LOCK_TRIES = 5
_LOCK_PAUSE_S = 0.02


class RecordFile:
    """A file of records, open for appending. One process at a time holds it."""

    def __init__(self, path: Path, holding: str, *, header: object = None) -> None:
        """Open or create the file, cut off a torn last line, and lock it; `holding` is for people what it belongs to.

        A new file begins with the record `header`, which says the file's version.

        Raises:
            ConfigurationError: a later version of Tunecheck wrote it; it is left as it is.
            RunError: another process holds it, or it cannot be written.
        """
        check_first_record(path)
        self.path = path
        try:
            self._file = open_regular(path, "ab", buffering=0)
        except OSError as error:
            raise RunError(f"cannot write {path}: {error.strerror}") from error
        try:
            _lock(self._file.fileno(), holding)
            _cut_torn_line(path)
        except BaseException:  # noqa: BLE001 - nobody else closes a file whose owner was not made
            self._file.close()
            raise
        self._size = os.fstat(self._file.fileno()).st_size
        self._broken = False
        self._dirty = threading.Event()
        self._closed = threading.Event()
        self._syncer = threading.Thread(target=self._sync_each_second, name="tunecheck-records", daemon=True)
        self._syncer.start()
        if header is not None and not self._size:
            try:
                self.append(header)
            except BaseException:  # noqa: BLE001 - nobody else closes a file whose owner was not made
                self.close()
                raise

    def append(self, record: object) -> int:
        """Write a record; where it begins.

        Raises:
            RunError: it cannot be written.
            TypeError: it has no JSON form.
        """
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
        """Sync and release the file."""
        self._closed.set()
        self._syncer.join()
        self._sync()
        self._file.close()


def _lock(descriptor: int, holding: str) -> None:
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
    raise RunError(f"{holding} is being written by another process; wait for it to end")


def is_held(path: Path) -> bool:
    """Whether a process is writing this file now."""
    try:
        import fcntl

        with open_regular(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except ImportError:
        return False
    except OSError:
        return path.exists()
    return False


def _cut_torn_line(path: Path) -> None:
    size = path.stat().st_size
    with open_regular(path, "r+b") as file:
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
