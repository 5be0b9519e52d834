"""The files in a server's own folder, shown as the state of a service."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from tunecheck.plugins import JSON

FOLDER = "/service"
"""What a server's own folder is called in calls and answers: its real name differs each time."""

_MOST_BYTES = 1_000_000


def files_in(folder: Path) -> dict[str, JSON] | None:
    """Return what each file holds, by the path that calls and answers have; a folder holds None.

    Returns None if the folder holds more than a megabyte, or anything but files and folders.
    """
    found: dict[str, JSON] = {}
    left = _MOST_BYTES
    for path in _below(folder):
        name = f"{FOLDER}/{path.relative_to(folder).as_posix()}"
        if _is_folder(path):
            found[name] = None
        elif path.is_symlink() or not path.is_file() or (left := left - path.stat().st_size) < 0:
            return None
        else:
            found[name] = _text(path.read_bytes(), folder)
    return found


def _below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        yield path
        if _is_folder(path):
            yield from _below(path)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _text(content: bytes, folder: Path) -> str:
    try:
        return content.decode().replace(str(folder), FOLDER)
    except UnicodeDecodeError:
        return f"sha256:{hashlib.sha256(content).hexdigest()}"
