"""A whole copy of BFCL for tests, unpacked from its wheel as `tunecheck bfcl get` does, and kept."""

from pathlib import Path

from filelock import lock_descriptor
from tests.bfcl_reference import reference_wheel

from tunecheck_bfcl import get_bfcl


def bfcl_copy() -> Path:
    """The copy's folder; skips the test where the package index is out of reach."""
    wheel = reference_wheel()
    folder = wheel.parent / "copy"
    with (wheel.parent / "copy.lock").open("w") as lock:
        lock_descriptor(lock.fileno())
        if not (folder / "ready").exists():
            get_bfcl(to=folder, source=wheel)
            (folder / "ready").touch()
    return folder
