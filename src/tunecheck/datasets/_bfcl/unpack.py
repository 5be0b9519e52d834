"""Take BFCL's data out of a wheel or a tree of it: only files that are read, and none outside the folder."""

from __future__ import annotations

import shutil
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tunecheck._errors import DataError
from tunecheck.datasets._bfcl.files import TEXTS, BfclFiles

MAX_BYTES = 256 << 20
"""Most bytes that are unpacked; the release has 16 MB."""

_PACKAGE = "bfcl_eval"
_CHUNK = 1 << 20


def unpack_wheel(wheel: Path, folder: Path) -> None:
    """The data and texts in a wheel, as files below `folder`.

    Raises:
        DataError: it is no wheel, is damaged, or a name in it leads elsewhere.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            left = MAX_BYTES
            for member in archive.infolist():
                path = _inside(member, wheel)
                if _wanted(path):
                    left -= _write(archive, member, folder / path, left)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise DataError(f"{wheel}: is not a wheel that can be read: {error}") from None


def copy_tree(files: BfclFiles, folder: Path) -> None:
    """The same out of a tree.

    Raises:
        DataError: it holds more than any release does.
    """
    left = MAX_BYTES
    for source, target in _tree(files):
        left -= source.stat().st_size
        if left < 0:
            raise DataError(f"{files.package}: holds more than {MAX_BYTES >> 20} MiB of data")
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / target)


def _tree(files: BfclFiles) -> Iterator[tuple[Path, Path]]:
    """Each file to be copied, and where it belongs."""
    for source in sorted(files.data.rglob("*.json")):
        if source.is_file():
            yield source, Path(_PACKAGE, "data") / source.relative_to(files.data)
    for text in TEXTS:
        if (files.package / text).is_file():
            yield files.package / text, Path(_PACKAGE) / text


def _inside(member: zipfile.ZipInfo, wheel: Path) -> PurePosixPath:
    path = PurePosixPath(member.filename)
    odd = path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in member.filename
    if odd or stat.S_ISLNK(member.external_attr >> 16):
        raise DataError(f"{wheel}: the name {member.filename[:200]!r} in it leads elsewhere; nothing of it is used")
    return path


def _wanted(path: PurePosixPath) -> bool:
    data = path.parts[:2] == (_PACKAGE, "data") and path.suffix == ".json"
    return data or any(path == PurePosixPath(_PACKAGE) / text.as_posix() for text in TEXTS)


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path, most: int) -> int:
    """Unpack one file; by what comes out, not by what its header says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with archive.open(member) as packed, path.open("wb") as file:
        while chunk := packed.read(_CHUNK):
            written += len(chunk)
            if written > most:
                raise DataError(f"{archive.filename}: holds more than {MAX_BYTES >> 20} MiB of data")
            file.write(chunk)
    return written
