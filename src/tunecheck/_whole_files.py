"""Writing files so that they are whole or not there: under another name first, which is then changed."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)


def write_file(path: Path, content: bytes) -> None:
    """Write a whole file so that no reader ever sees half of it."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name to write to; it is synced and takes the file's place at the end, or goes if writing fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)  # in a folder of somebody else's, it may be a second name of another file
    try:
        yield temporary
        put_in_place(temporary, path)
    except BaseException:  # noqa: BLE001 - whatever ends the writing, its file goes
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def put_in_place(temporary: Path, path: Path) -> None:
    """Rename a finished file to the name it is meant to have; it is on the disk before.

    Raises:
        OSError: it cannot be renamed.
    """
    with temporary.open("r+b") as file:  # Windows syncs only what is open for writing
        os.fsync(file.fileno())
    for pause_s in _PAUSES_S if os.name == "nt" else ():
        try:
            temporary.replace(path)
        except PermissionError:  # somebody has the file open, often a virus scanner that looks at what is new
            time.sleep(pause_s)
        else:
            return
    temporary.replace(path)
