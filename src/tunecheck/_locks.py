"""Locks: one process at a time writes a file. The system takes a lock from a process that ends, however it ends."""

import os
import time
from pathlib import Path
from typing import BinaryIO

from tunecheck._errors import RunError, told_as
from tunecheck._regular_files import open_regular

_BESIDE = os.name == "nt"
"""Windows lets nobody read what is locked: there, the lock is on an empty file beside it."""

_TRIES = 5
_PAUSE_S = 0.02


def lock(path: Path, holder: str) -> BinaryIO:
    """Lock a file, which is made if it is not there, until what this gives is closed.

    Raises:
        RunError: another process holds it, as `holder` says, or it cannot be locked.
    """
    with told_as(RunError, path, "cannot be locked"):
        file = open_regular(_locked(path), "ab", buffering=0)
        try:
            if _locked_within(_TRIES, file):
                return file
        except BaseException:  # noqa: BLE001 - nobody else closes a file that is not given back
            file.close()
            raise
    file.close()
    raise RunError(holder)


def is_held(path: Path) -> bool:
    """Whether a process has locked this file."""
    locked = _locked(path)
    try:
        # Network file systems lock only what is open for writing.
        with open_regular(locked, "r+b" if os.access(locked, os.W_OK) else "rb") as file:
            return not _locked_within(2, file)
    except OSError:
        return locked.exists()


def _locked(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock") if _BESIDE else path


def _locked_within(tries: int, file: BinaryIO) -> bool:
    """Whether a file could be locked; somebody else may just be looking whether it is held."""
    from filelock import lock_descriptor  # most commands lock nothing

    for left in reversed(range(tries)):
        if lock_descriptor(file.fileno(), blocking=False):
            return True
        time.sleep(_PAUSE_S if left else 0)
    return False
