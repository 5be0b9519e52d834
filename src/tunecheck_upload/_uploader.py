"""The base of uploads of finished runs: checked first, done step by step, repeatable, resumed after a failure."""

import abc
import contextlib
import copy
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tunecheck import ConfigurationError, Run, RunError
from tunecheck.plugins import JSON, command_line
from tunecheck_upload._contents import Artifact, Contents, collect
from tunecheck_upload._record import Destination, UploadRecord, one_at_a_time


class UploadError(RunError):
    """An upload that did not get through.

    `step` says where, `status` is the service's HTTP status and `request_id` its own id of the call, where there are
    any. `unsure`: it is unknown whether the service did what it was asked.
    """

    def __init__(
        self,
        message: str,
        *,
        step: str = "",
        status: int | None = None,
        request_id: str | None = None,
        unsure: bool = False,
    ) -> None:
        super().__init__(message)
        self.step = step
        self.status = status
        self.request_id = request_id
        self.unsure = unsure


@dataclass(frozen=True, slots=True)
class UploadStep:
    """One step of an upload, in words that an error begins with. `repeatable`: safe to do twice."""

    words: str
    repeatable: bool = True

    def failed(
        self, reason: object, *, status: int | None = None, request_id: str | None = None, unsure: bool = False
    ) -> UploadError:
        message = f"{self.words}: {reason}"
        return UploadError(message, step=self.words, status=status, request_id=request_id, unsure=unsure)


FIND = UploadStep("look for the run")
CREATE = UploadStep("create the run", repeatable=False)
FINISH = UploadStep("finish the run")
GONE = UploadStep("the run")


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The outcome of an upload.

    `url`: the run's page, if there is one. `left_out`: metrics that are not finite numbers. `unchanged`: everything
    was there already and nothing was sent.
    """

    to: str
    run_id: str
    url: str | None
    files: tuple[str, ...]
    metrics: int
    left_out: tuple[str, ...]
    unchanged: bool


class RunUpload(abc.ABC):
    """One run on its way to one destination, with the one step that must not happen twice: creating it there."""

    def __init__(self, record: UploadRecord, contents: Contents) -> None:
        self._record = record
        self._known = record.known
        self._contents = contents

    @abc.abstractmethod
    def send(self) -> str | None:
        """Do the steps that are not done yet, and return the run's page if the service names it."""

    @abc.abstractmethod
    def is_there(self) -> bool:
        """Whether the run that was created is still there."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close connections."""

    @abc.abstractmethod
    def _find_run(self) -> bool:
        """Look for the run that carries the record's marker; note its id if it is there."""

    @abc.abstractmethod
    def _create_run(self) -> None:
        """Create the run, and note its id."""

    @property
    def _run_id(self) -> str:
        return str(self._known.run_id)

    def _ensure_run(self) -> None:
        """Create the run unless it exists. If a creation was sent and never answered, look for its run first."""
        if self._known.run_id is not None:
            return
        exists = self._find_run() if self._known.run_asked_for else False
        if not exists:
            self._known.run_asked_for = True
            self._record.save()
            try:
                self._create_run()
            except UploadError as error:
                if not error.unsure:
                    self._known.run_asked_for = False
                    self._record.save()
                raise
        self._known.run_asked_for = False
        self._record.save()

    def _unsent(self) -> list[Artifact]:
        sent = self._known.artifacts
        return [artifact for artifact in self._contents.artifacts if sent.get(artifact.name) != artifact.sha256]

    def _note_sent(self, artifact: Artifact) -> None:
        self._known.artifacts[artifact.name] = artifact.sha256
        self._record.save()


class Uploader(abc.ABC):
    """Uploads runs to one destination, which a subclass knows how to reach.

    Making one checks what can be checked beforehand, so that an evaluation of hours does not end at a wrong name.
    `destination` is what the record calls it; `option` is how the command line names it.
    """

    def __init__(
        self, destination: str, option: tuple[str, ...], *, to: str | None = None, allow_simulated: bool = False
    ) -> None:
        self._destination = destination
        self._option = option
        self._to = to or destination
        self._allow_simulated = allow_simulated

    def check(self, *, simulated: bool) -> None:
        """Refuse before the run what an upload would refuse after it."""
        if simulated and not self._allow_simulated:
            raise ConfigurationError(
                "the answers are simulated and would not be uploaded: "
                "give an endpoint, or --allow-simulated (allow_simulated=True) to try the upload out"
            )

    def upload(self, run: Run | str | os.PathLike[str], *, again: bool = False) -> Uploaded:
        """Upload a finished run (or the one in this folder), resume its upload, or update what is there.

        `again`: create the run anew if it was deleted at the destination.

        Raises:
            ConfigurationError: the run cannot be uploaded.
            UploadError: a step failed, or the run was deleted at the destination; the run's folder is whole, and the
                upload can be repeated.
        """
        run = run if isinstance(run, Run) else Run(Path(run))
        with one_at_a_time(run), tempfile.TemporaryDirectory(prefix="tunecheck-") as folder:
            contents = collect(run, self._artifacts(run, Path(folder)), allow_simulated=self._allow_simulated)
            record = UploadRecord(run, self._destination)
            try:
                unchanged = self._send(record, contents, again=again)
            except UploadError as error:
                raise self._with_advice(error, contents) from None
            known = record.known
            return Uploaded(
                to=self._to,
                run_id=str(known.run_id),
                url=self._page(known),
                files=tuple(artifact.name for artifact in contents.artifacts),
                metrics=self._metric_count(contents),
                left_out=contents.left_out,
                unchanged=unchanged,
            )

    @abc.abstractmethod
    def _artifacts(self, run: Run, folder: Path) -> Iterator[Artifact]:
        """The files to upload; those that are not in the run's folder are made in `folder`."""

    @abc.abstractmethod
    def _upload_of(self, record: UploadRecord, contents: Contents) -> RunUpload:
        """The run on its way."""

    def _metric_count(self, contents: Contents) -> int:
        return len(contents.metrics)

    def _page(self, known: Destination) -> str | None:
        return known.url

    def _send(self, record: UploadRecord, contents: Contents, *, again: bool) -> bool:
        """Do the steps that are not done yet, and return whether there were none."""
        with contextlib.closing(self._upload_of(record, contents)) as upload:
            if record.known.run_id is not None and not upload.is_there():
                if not again:
                    raise GONE.failed(f"{record.known.run_id} was deleted at the destination")
                record.renew()
                return self._send(record, contents, again=False)
            known = record.known
            if known.complete and known.fingerprint == contents.fingerprint:
                return True
            known.complete = False
            record.save()
            known.url = upload.send()
            known.complete, known.fingerprint = True, contents.fingerprint
            record.save()
            return False

    def _with_advice(self, error: UploadError, contents: Contents) -> UploadError:
        command = ["tunecheck", "upload", str(contents.run.folder), *self._option]
        command += ["--allow-simulated"] if contents.simulated else []
        if error.step == GONE.words:
            advice = f"make it anew with: {command_line([*command, '--again'])}"
        else:
            advice = f"the run itself is whole; go on with: {command_line(command)}"
        advised = copy.copy(error)
        advised.args = (f"upload failed: {error}; {advice}",)
        return advised


def value_at(value: JSON, *path: str | int) -> JSON:
    """The value under these keys and positions, None if there is none."""
    for key in path:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and key < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value
