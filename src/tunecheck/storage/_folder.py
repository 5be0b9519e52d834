"""A folder as storage: files that are whole or not there, each made once by whoever is first, by hard links."""

import contextlib
import io
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tunecheck._disk import open_regular, replacing
from tunecheck._errors import RunError, told_as
from tunecheck.storage._store import Stored

_HIDDEN = "."
"""How names begin that are no objects: files that are being written, and locks."""


class FolderStore:
    """Objects as files below a folder that all machines see, on a file system with hard links."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.place = str(folder)

    def create(self, name: str, content: bytes) -> bool:
        """As `Store.create`: a finished file gets its name only where no other has it."""
        with self._writing(name) as path:
            temporary = path.with_name(f"{_HIDDEN}{path.name}.{secrets.token_hex(4)}")
            try:
                with temporary.open("xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(temporary, path)
            except FileExistsError:  # over a network perhaps by this very call, whose reply was lost
                return path.read_bytes() == content
            finally:
                temporary.unlink(missing_ok=True)
        return True

    def replace(self, name: str, content: bytes, version: str) -> bool:
        """As `Store.replace`: under a lock, which the system takes from a process that ends, and nobody waits for."""
        from filelock import lock_descriptor

        with self._writing(name) as path, path.with_name(f"{_HIDDEN}{path.name}.lock").open("ab") as held:
            if not lock_descriptor(held.fileno(), blocking=False):
                return False
            stored = self.read(name)
            if stored is None or stored.version != version:
                return False
            before = path.stat().st_mtime_ns
            with replacing(path) as temporary:
                temporary.write_bytes(content)
                # Within one tick of the file system's clock, two files later, number and size may be the same again.
                os.utime(temporary, ns=(before, max(time.time_ns(), before + 1)))
        return True

    def put(self, name: str, content: bytes | BinaryIO) -> None:
        """As `Store.put`."""
        source = io.BytesIO(content) if isinstance(content, bytes) else content
        with self._writing(name) as path, replacing(path) as temporary, temporary.open("wb") as file:
            shutil.copyfileobj(source, file)

    def read(self, name: str) -> Stored | None:
        """As `Store.read`."""
        path = self._folder / name
        with told_as(RunError, path):
            try:
                with open_regular(path) as file:
                    return Stored(file.read(), _version(os.fstat(file.fileno())))
            except FileNotFoundError:
                return None

    def list(self, prefix: str) -> dict[str, str]:
        """As `Store.list`."""
        above, _, begin = prefix.rpartition("/")
        found = {}
        with told_as(RunError, self._folder / above):
            for folder, folders, files in os.walk(self._folder / above):
                here = Path(folder).relative_to(self._folder)
                folders[:] = [each for each in folders if folder != str(self._folder / above) or each.startswith(begin)]
                for file in files:
                    name = (here / file).as_posix()
                    if name.startswith(prefix) and not file.startswith(_HIDDEN):
                        with contextlib.suppress(FileNotFoundError):
                            found[name] = _version(os.lstat(Path(folder) / file))
        return dict(sorted(found.items()))

    def delete(self, name: str) -> None:
        """As `Store.delete`."""
        with told_as(RunError, self._folder / name, "cannot be removed"):
            (self._folder / name).unlink(missing_ok=True)

    def clear(self) -> None:
        """As `Store.clear`; files that were being written by processes that are gone, too."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextlib.contextmanager
    def _writing(self, name: str) -> Iterator[Path]:
        path = self._folder / name
        with told_as(RunError, path, "cannot be written"):
            self._folder.mkdir(exist_ok=True)  # not what it stands in: a run's folder that was removed stays so
            path.parent.mkdir(parents=True, exist_ok=True)
            yield path


def _version(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
