"""`upload.json` in a run's folder: the state of the run's uploads, from which an interrupted upload resumes."""

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tunecheck import ConfigurationError, Run, RunError
from tunecheck.plugins import (
    FORMAT_VERSION,
    JSON,
    dumps,
    is_signed,
    loads,
    lock,
    plain,
    read_regular,
    signature,
    write_file,
)
from tunecheck.runs import dumps_readably

MARKER = "tunecheck.upload"
"""The tag or property that holds the record's marker in the run at its destination."""


class Destination(msgspec.Struct, omit_defaults=True):
    """The state of the upload to one destination.

    `marker` is a random id, which the run at the destination carries, too. `run_asked_for` is true while the reply to
    the run's creation is missing; the marker then finds the run if it was created. `fingerprint` is the hash of the
    contents at the destination, and `result_of` the hash of those in a Foundry project's result. `artifacts` has the
    SHA-256 of each file at the destination. `traces_of` is the SHA-256 of the table with the rows sent as traces.
    """

    marker: str
    complete: bool = False
    run_asked_for: bool = False
    run_id: str | None = None
    experiment_id: str | None = None
    result_name: str | None = None
    result_id: str | None = None
    result_of: str | None = None
    version: int = 0
    artifacts: dict[str, str] = {}
    traces_of: str | None = None
    fingerprint: str | None = None
    url: str | None = None


class UploadFile(msgspec.Struct):
    """Content of `upload.json`.

    `signature` proves that this user uploaded the run. It is needed because later uploads change the runs that this
    file names.
    """

    format_version: int = FORMAT_VERSION
    uploads: dict[str, Destination] = {}
    signature: str | None = None

    def content(self, run: Run) -> JSON:
        """Return the content for the signature."""
        return [str(run.folder.resolve()), plain(self.uploads)]


class UploadRecord:
    """The part of `upload.json` about one destination. Changes are saved before an upload relies on them."""

    def __init__(self, run: Run, destination: str) -> None:
        """Read the run's record of uploads, and set `known` to the state at this destination, new if there is none."""
        self.path = run.upload_file
        self._run = run
        self._file = _read(run, self.path)
        self._destination = destination
        self.known = self._file.uploads.get(destination) or self.renew()

    def renew(self) -> Destination:
        """Start anew, as after the run was deleted at the destination."""
        self.known = self._file.uploads[self._destination] = Destination(str(uuid.uuid4()))
        return self.known

    def save(self) -> None:
        """Sign the record and write it to `upload.json`.

        Raises:
            RunError: the file cannot be written.
        """
        self._file.signature = signature(self._file.content(self._run))
        try:
            write_file(self.path, dumps_readably(loads(dumps(self._file))))
        except OSError as error:
            raise RunError(f"{self.path}: cannot be written: {error.strerror}") from None


def _read(run: Run, path: Path) -> UploadFile:
    """Return the content of `upload.json`, empty if there is no such file.

    Raises:
        ConfigurationError: the file is damaged, or another user wrote it.
    """
    try:
        file = msgspec.convert(loads(read_regular(path)), UploadFile)
    except FileNotFoundError:
        return UploadFile()
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{path}: cannot be read: {error}; repair the file, or remove the file to upload the run again"
        ) from None
    content = file.content(run)
    # Without a key file, this user has no signature to compare.
    if file.uploads and not is_signed(content, file.signature) and signature(content) is not None:
        raise ConfigurationError(
            f"{path}: another user wrote this file, and the upload would change the runs named in the file; "
            "remove the file to upload the run again"
        )
    return file


@contextlib.contextmanager
def one_at_a_time(run: Run) -> Iterator[None]:
    """Lock a run during its upload, or raise RunError if another process is uploading it."""
    run.manifest()  # an unreadable run is refused before a lock file is written
    with lock(run.folder / ".upload.lock", f"run {run.id} is being uploaded by another process"):
        yield
