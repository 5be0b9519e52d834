"""Safe access to files in folders that other users or processes may write to.

Only ordinary files of limited size are opened: a link could lead out of the folder, a pipe could block forever, and a
device may have no end. A file with a second name (a hard link) is not opened for writing, because the other name's file
would change, too. Readers never see a partly written file. One process at a time holds a lock; the system releases it
when the process ends.
"""

import contextlib
import errno
import functools
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from tunecheck._errors import RunError, raise_as

MOST_BYTES = 64 << 20
"""Size limit of a file that is read as a whole."""

MOST_IN_A_LINE = 256 << 20
"""Size limit of a record or a result row, in bytes."""

# Without this flag, opening a pipe waits until another process writes to it.
_NONBLOCKING = getattr(os, "O_NONBLOCK", 0)
# O_NOFOLLOW is missing on Windows, where `_open` checks the path itself.
_NONBLOCKING_WITHOUT_LINKS = getattr(os, "O_NOFOLLOW", 0) | _NONBLOCKING


def open_regular(path: Path, mode: str = "rb", buffering: int = -1) -> BinaryIO:
    """Open a regular file in a binary mode; links, pipes and devices are refused.

    Raises:
        OSError: the file cannot be opened, is not a regular file, or has a second name (a hard link) and would be
        written.
    """
    return cast("BinaryIO", open(path, mode, buffering, opener=_open))


def _open(path: str, flags: int, *, links: bool = False) -> int:
    """Open a file as the `opener` of Python's `open`; return its descriptor. With `links`, the path may be a link.

    Raises:
        OSError: the file cannot be opened, is not a regular file, or has a second name and would be written.
    """
    # O_TRUNC waits until all checks have passed: a refused file must keep its content.
    try:
        added = _NONBLOCKING if links else _NONBLOCKING_WITHOUT_LINKS
        descriptor = os.open(path, (flags | added) & ~os.O_TRUNC, 0o666)
    except OSError:
        _check_is_regular(Path(path).stat(follow_symlinks=links), path)  # its error is more precise than the system's
        raise

    try:
        # On Windows, which has no O_NOFOLLOW, `os.open` follows a link: only the path shows it.
        status = os.fstat(descriptor) if links or hasattr(os, "O_NOFOLLOW") else os.lstat(path)

        _check_is_regular(status, path)
        if flags & (os.O_WRONLY | os.O_RDWR) and status.st_nlink > 1:
            raise OSError(errno.EMLINK, "the file has more than one hard link: replace the file with a copy", path)
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:  # noqa: BLE001 - the caller never gets the descriptor
        os.close(descriptor)
        raise
    return descriptor


def open_for_reading(path: Path) -> BinaryIO:
    """Open a regular file, also through links; pipes and devices are refused, because they could block forever.

    Raises:
        OSError: the file cannot be opened, or is not a regular file.
    """
    return cast("BinaryIO", open(path, "rb", opener=functools.partial(_open, links=True)))


def _check_is_regular(status: os.stat_result, path: str) -> None:
    """Raise OSError unless the status is that of a regular file; the text says what it is instead."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        reason = "a link" if stat.S_ISLNK(status.st_mode) else "not a regular file, but a pipe, socket or device"
        raise OSError(errno.EINVAL, f"the path is {reason}: use a regular file", path)


def read_regular(path: Path, most: int = MOST_BYTES, *, links: bool = False) -> bytes:
    """Return the content of a file.

    With `links`, the path may be a link to a file. Use it only for files that the user names.

    Raises:
        OSError: the file cannot be read, is not a regular file, or holds more than `most` bytes.
    """
    with open_for_reading(path) if links else open_regular(path) as file:
        # `read(most + 1)` would reserve the memory for `most` bytes first.
        content = file.read() if os.fstat(file.fileno()).st_size <= most else None

    if content is None or len(content) > most:
        raise OSError(errno.EFBIG, f"the file is larger than {most >> 20} MB: make the file smaller", path)
    return content


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal; raises OSError like `open_regular`."""
    with open(path, "rb", opener=_open) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def lines(file: BinaryIO) -> Iterator[bytes]:
    """Return an iterator over the lines of a file, each with its line end.

    Raises:
        OSError: (while iterating) a line is longer than `MOST_IN_A_LINE` bytes.
    """
    # A file below the limit has no line above it.
    return file if os.fstat(file.fileno()).st_size <= MOST_IN_A_LINE else _bounded_lines(file)


def _bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a large file, without reading an overlong line into memory.

    Raises:
        OSError: a line is longer than `MOST_IN_A_LINE`.
    """
    for line in iter(lambda: file.readline(MOST_IN_A_LINE), b""):
        if len(line) == MOST_IN_A_LINE:
            raise OSError(errno.EFBIG, f"a line of the file is longer than {MOST_IN_A_LINE >> 20} MB: shorten the line")
        yield line


def irregular_file(folder: Path) -> str | None:
    """Return the first entry below a folder that is neither file nor folder, such as `"x/y is a link"`, or None."""
    folders = [os.fspath(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    kind = "a link" if entry.is_symlink() else "not a regular file"
                    return f"{Path(entry.path).relative_to(folder).as_posix()} is {kind}"
    return None


# -- whole files

_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Waits between tries to rename a file on Windows; other programs keep a file open only briefly."""


def write_file(path: Path, content: bytes) -> None:
    """Write a whole file so that readers see either the old or the new content."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; at the end it replaces `path`, or is removed if an error was raised."""
    # The name cannot be guessed: in a shared folder, another user could put a link to another file there.
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    try:
        yield temporary
        put_in_place(temporary, path)
    finally:
        with contextlib.suppress(OSError):  # the file in place has its final name
            temporary.unlink()


def put_in_place(temporary: Path, path: Path) -> None:
    """Sync a finished file to the disk and rename it to its final name; on Windows, retry while it is open elsewhere.

    Raises:
        OSError: the file cannot be synced or renamed.
    """
    with temporary.open("r+b") as file:  # Windows can sync only a file that is open for writing
        os.fsync(file.fileno())

    for pause_s in _PAUSES_S if os.name == "nt" else ():
        try:
            temporary.replace(path)
        except PermissionError:  # another program, often a virus scanner, has the file open
            time.sleep(pause_s)
        else:
            return
    temporary.replace(path)


# -- locks

_BESIDE = os.name == "nt"
"""True on Windows, where a locked file cannot be read: the lock is on an empty file next to it."""

_TRIES = 5
_LOCK_PAUSE_S = 0.02
"""Number of tries to get a lock, and the wait between them: a check by `is_held` takes a moment only."""


def lock(path: Path, message_if_held: str) -> BinaryIO:
    """Lock a file until the returned handle is closed; create the file if it does not exist.

    If another process holds the lock, give up after a tenth of a second.

    Raises:
        RunError: another process holds the lock (the text is then `message_if_held`), or the file cannot be locked.
    """
    with raise_as(RunError, path, "cannot be locked"), contextlib.ExitStack() as opened:
        file = opened.enter_context(open_regular(_lock_path(path), "ab", buffering=0))
        if _locked_within(_TRIES, file):
            opened.pop_all()  # the caller closes the file
            return file
    raise RunError(message_if_held)


def is_held(path: Path) -> bool:
    """Return True if a process holds the lock of a file, or if that cannot be tested.

    Return False if this process gets the lock in one of two tries, or if there is no lock file.
    """
    lock_file = _lock_path(path)
    try:
        # Network file systems can lock only a file that is open for writing.
        with open_regular(lock_file, "r+b" if os.access(lock_file, os.W_OK) else "rb") as file:
            return not _locked_within(2, file)
    except OSError:
        return lock_file.exists()


def _lock_path(path: Path) -> Path:
    """Return the file to lock in order to protect `path`: on Windows an empty file next to it, else `path` itself."""
    return path.with_name(f"{path.name}.lock") if _BESIDE else path


def _locked_within(tries: int, file: BinaryIO) -> bool:
    """Try to lock the file; return True on success.

    Several tries, because another process may be checking the lock at the same moment.
    """
    from filelock import lock_descriptor  # most commands lock nothing

    for tries_left in reversed(range(tries)):
        if lock_descriptor(file.fileno(), blocking=False):
            return True
        time.sleep(_LOCK_PAUSE_S if tries_left else 0)
    return False


# -- the user's folders


def cache_folder() -> Path:
    """Return the user's cache folder: `TUNECHECK_CACHE`, else `tunecheck` in the platform's cache folder."""
    from platformdirs import user_cache_path

    own = os.environ.get("TUNECHECK_CACHE")
    return Path(own).expanduser() if own else user_cache_path("tunecheck", appauthor=False)


def user_folder() -> Path:
    """Return the folder of the user's trust records and key.

    This is `TUNECHECK_CONFIG_DIR`, else the folder `tunecheck` in the platform's folder of configurations.

    Raises:
        OSError: the user has no home folder.
    """
    from platformdirs import user_config_path

    given = os.environ.get("TUNECHECK_CONFIG_DIR")
    if given:
        return Path(given).absolute()
    folder = user_config_path("tunecheck", appauthor=False, roaming=True)

    if not folder.is_absolute():  # a user whom the system's list of users lacks, as in some containers
        raise OSError(0, "the user has no home folder: set the environment variable TUNECHECK_CONFIG_DIR to a folder")
    return folder
