"""`upload.json` in a run's folder: what was sent where, so that an upload is gone on with, not done a second time."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from tunecheck._errors import ConfigurationError, RunError
from tunecheck._json import JSON, loads
from tunecheck.runs._store import Run, dumps_readably, utc_now, write_file

_FILE = "upload.json"


class UploadRecord:
    """The part of `upload.json` that is about one destination.

    `marker` is a fresh id that the run over there carries, too: by it a run is found again whose creation was sent and
    never answered. Every change is on the disk before it is relied on.
    """

    def __init__(self, run: Run, destination: str) -> None:
        self._path = run.folder / _FILE
        self._all = _read(self._path)
        self.known = destination in self._all
        fresh: dict[str, JSON] = {"marker": str(uuid.uuid4()), "complete": False, "steps": []}
        found = self._all.setdefault(destination, fresh)
        if not isinstance(found, dict):
            raise _damaged(self._path, "an upload is no object")
        self._entry = found

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def marker(self) -> str:
        """The id that the run over there carries."""
        return str(self.get("marker"))

    def get(self, name: str) -> str | None:
        """A text that was kept."""
        value = self._entry.get(name)
        return value if isinstance(value, str) else None

    def number(self, name: str) -> int | None:
        """A number that was kept."""
        value = self._entry.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def is_true(self, name: str) -> bool:
        """Whether something was noted."""
        return self._entry.get(name) is True

    def sent(self, artifact: str) -> str | None:
        """The hash of the artifact of that name as it was sent, if it was."""
        artifacts = self._entry.get("artifacts")
        value = artifacts.get(artifact) if isinstance(artifacts, dict) else None
        return value if isinstance(value, str) else None

    def keep(self, step: str | None = None, **values: JSON) -> None:
        """Write values down (None takes one out), and that a step is done.

        Raises:
            RunError: the disk is full.
        """
        for name, value in values.items():
            if value is None:
                self._entry.pop(name, None)
            else:
                self._entry[name] = value
        steps = self._entry.setdefault("steps", [])
        if step is not None and isinstance(steps, list):
            steps[:] = [done for done in steps if not (isinstance(done, dict) and done.get("step") == step)]
            steps.append({"step": step, "at": utc_now().isoformat()})
        self._write()

    def keep_artifact(self, name: str, digest: str) -> None:
        """Write down that an artifact is there."""
        artifacts = self._entry.setdefault("artifacts", {})
        if isinstance(artifacts, dict):
            artifacts[name] = digest
        self._write()

    def moment(self) -> int:
        """When what is being sent was first sent, in milliseconds: one figure logged twice then counts once."""
        known = self.number("moment_ms")
        if known is None:
            known = time.time_ns() // 1_000_000
            self.keep(moment_ms=known)
        return known

    def _write(self) -> None:
        try:
            write_file(self._path, dumps_readably({"format": 1, "uploads": self._all}))
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {error.strerror}") from None


def _read(path: Path) -> dict[str, JSON]:
    try:
        content = loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from None
    uploads = content.get("uploads") if isinstance(content, dict) else None
    if not isinstance(uploads, dict):
        raise _damaged(path, "it has no uploads")
    return uploads


def _damaged(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(f"{path}: cannot be read: {why}; without that file the run would be uploaded anew")


@contextlib.contextmanager
def one_at_a_time(run: Run) -> Iterator[None]:
    """Keep a second upload of the same run out while one is under way.

    Raises:
        ConfigurationError: one is.
        RunError: the folder cannot be written to.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    try:
        lock = (run.folder / ".upload.lock").open("wb")
    except OSError as error:
        raise RunError(f"cannot write to {run.folder}: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigurationError(f"run {run.id} is being uploaded by another process") from None
        yield
