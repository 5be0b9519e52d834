"""Writing files so that they are whole or not there: under another name first, which is then changed."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)


def write_file(path: Path, content: bytes, *, synced: bool = True) -> None:
    """Write a whole file so that no reader ever sees half of it.

    Not `synced`, it is as safe from a killed process, and not from a power cut: for many files that can be made again.
    """
    with replacing(path, synced=synced) as temporary:
        temporary.write_bytes(content)


@contextlib.contextmanager
def replacing(path: Path, *, synced: bool = True) -> Iterator[Path]:
    """A temporary name to write to; it is synced and takes the file's place at the end, or goes if writing fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)  # in a folder of somebody else's, it may be a second name of another file
    try:
        yield temporary
        put_in_place(temporary, path, synced=synced)
    except BaseException:  # noqa: BLE001 - whatever ends the writing, its file goes
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def put_in_place(temporary: Path, path: Path, *, synced: bool = True) -> None:
    """Rename a finished file to the name it is meant to have; `synced`, it is on the disk before.

    Raises:
        OSError: it cannot be renamed.
    """
    if synced:
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
