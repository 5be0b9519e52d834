"""The files in a server's own folder: taken down as they are, put back as they were, and shown as a state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tunecheck._json import JSON

FOLDER = "/service"
"""What a server's own folder is called in calls and answers: its real name differs each time."""

Files = Mapping[str, "bytes | None"]
"""By path in the folder what a file holds; None: it is a folder. `_OWN` stands for the folder's own name."""

_OWN = b"\0folder\0"
_MOST_BYTES = 1_000_000


def taken_down(folder: Path) -> Files | None:
    """What the folder holds; None where that is more than is kept, or other than files and folders."""
    found: dict[str, bytes | None] = {}
    left = _MOST_BYTES
    for path in _below(folder):
        name = path.relative_to(folder).as_posix()
        if _is_folder(path):
            found[name] = None
        elif path.is_symlink() or not path.is_file() or (left := left - path.stat().st_size) < 0:
            return None
        else:
            found[name] = path.read_bytes().replace(str(folder).encode(), _OWN)
    return found


def put_back(folder: Path, files: Files) -> None:
    """Make the folder hold this: what stays is not touched, since the server may have it open."""
    for path in reversed([*_below(folder)]):
        name = path.relative_to(folder).as_posix()
        if name not in files or _is_folder(path) != (files[name] is None):
            path.rmdir() if _is_folder(path) else path.unlink()
    for name, content in files.items():
        path = folder / name
        if content is None:
            path.mkdir(exist_ok=True)
        else:
            _write(path, content.replace(_OWN, str(folder).encode()))


def shown_files(files: Files) -> dict[str, JSON]:
    """The files as the state of a service: what each holds, by the path that calls and answers have."""
    return {f"{FOLDER}/{name}": None if content is None else _text(content) for name, content in files.items()}


def _below(folder: Path) -> Iterator[Path]:
    """All that is in a folder, each folder before what is in it."""
    for path in sorted(folder.iterdir()):
        yield path
        if _is_folder(path):
            yield from _below(path)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _write(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        path.write_bytes(content)


def _text(content: bytes) -> str:
    try:
        return content.replace(_OWN, FOLDER.encode()).decode()
    except UnicodeDecodeError:
        return f"sha256:{hashlib.sha256(content).hexdigest()}"
