"""Opening the files of folders that somebody else may have made: ordinary files only, and no endless ones.

A link would lead out of the folder, a pipe would never answer, and a device may have no end. What is written to must
have no second name (a hard link) either: the file of that name would change, too.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

MOST_BYTES = 64 << 20
"""Of a file that is read as a whole."""

MOST_IN_A_LINE = 256 << 20
"""Bytes of a record, or of a result row."""

_NEITHER_FOLLOWED_NOR_WAITED_FOR = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def open_regular(path: Path, mode: str = "rb", buffering: int = -1) -> BinaryIO:
    """Open a file in a binary mode.

    Raises:
        OSError: it cannot be opened, or is a link, a pipe, a device or a folder; or would be written under two names.
    """
    return cast("BinaryIO", open(path, mode, buffering, opener=_open))


def _open(path: str, flags: int) -> int:
    try:
        descriptor = os.open(path, (flags | _NEITHER_FOLLOWED_NOR_WAITED_FOR) & ~os.O_TRUNC, 0o666)
    except OSError:
        _refuse_if_odd(os.lstat(path), path)  # says more than what the system says of it
        raise
    try:
        status = os.fstat(descriptor) if hasattr(os, "O_NOFOLLOW") else os.lstat(path)
        _refuse_if_odd(status, path)
        if flags & (os.O_WRONLY | os.O_RDWR) and status.st_nlink > 1:
            raise OSError(errno.EMLINK, "has a second name (a hard link): put a copy in its place", path)
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:  # noqa: BLE001 - nobody else knows of the descriptor
        os.close(descriptor)
        raise
    return descriptor


def _refuse_if_odd(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        what = "a link, which is not followed" if stat.S_ISLNK(status.st_mode) else "not an ordinary file"
        raise OSError(errno.EINVAL, f"is {what}", path)


def read_regular(path: Path, most: int = MOST_BYTES) -> bytes:
    """All that a file holds.

    Raises:
        OSError: it cannot be read, is not an ordinary file, or holds more than `most` bytes.
    """
    with open_regular(path) as file:
        content = file.read(most + 1) if os.fstat(file.fileno()).st_size <= most else None
    if content is None or len(content) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MB, as no file of its kind is", path)
    return content


def sha256_of(path: Path) -> str:
    """The digest of a file's content, in hexadecimal; raises OSError as `open_regular` does."""
    with open(path, "rb", opener=_open) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file.

    Raises:
        OSError: one is longer than any record or row is.
    """
    return file if os.fstat(file.fileno()).st_size <= MOST_IN_A_LINE else _bounded_lines(file)


def _bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    for line in iter(lambda: file.readline(MOST_IN_A_LINE), b""):
        if len(line) == MOST_IN_A_LINE:
            raise OSError(errno.EFBIG, f"a line of it is longer than {MOST_IN_A_LINE >> 20} MB, as none of ours is")
        yield line


def odd_file(folder: Path) -> str | None:
    """What keeps a folder, with all below it, from being files and folders only: `"x/y is a link"`."""
    folders = [os.fspath(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    what = "a link" if entry.is_symlink() else "not an ordinary file"
                    return f"{Path(entry.path).relative_to(folder).as_posix()} is {what}"
    return None
