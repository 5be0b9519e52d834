"""What uploads of finished runs share: checked first, done step by step, repeatable, resumed where they stopped."""

import abc
import asyncio
import os
import random
import tempfile
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import command_line
from tunecheck.endpoints._auth import Auth
from tunecheck.endpoints._limits import Clock
from tunecheck.endpoints._masking import Redactor
from tunecheck.runs._store import Run
from tunecheck_upload._calls import Calls, Step, UploadError
from tunecheck_upload._contents import Artifact, Contents, collect
from tunecheck_upload._record import Destination, UploadRecord, one_at_a_time

FIND = Step("look for the run")
CREATE = Step("create the run", repeatable=False)
FINISH = Step("finish the run")
GONE = Step("the run")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The outcome of an upload.

    `url`: the run's page, where there is one; `left_out`: metrics that are not finite numbers; `unchanged`: all of it
    was there already and nothing was sent.
    """

    to: str
    run_id: str
    url: str | None
    files: tuple[str, ...]
    metrics: int
    left_out: tuple[str, ...]
    unchanged: bool


class Uploader(abc.ABC):
    """Uploads runs to one destination, which a subclass knows how to reach.

    Making one checks what can be checked beforehand, so that an evaluation of hours does not end at a wrong name.
    `destination` is what the record calls it; `option` is how the command line names it.
    """

    def __init__(
        self,
        destination: str,
        option: tuple[str, ...],
        *,
        to: str | None = None,
        allow_simulated: bool = False,
        user_agent: str | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._destination = destination
        self._option = option
        self._to = to or destination
        self._allow_simulated = allow_simulated
        self._agent = user_agent
        self._clock = clock
        self._rng = rng

    def check(self, *, simulated: bool) -> None:
        """Refuse beforehand what would be refused at the end."""
        if simulated and not self._allow_simulated:
            raise ConfigurationError(
                "the answers are simulated and would not be uploaded: "
                "give an endpoint, or --allow-simulated (allow_simulated=True) to try the upload out"
            )

    def upload(self, run: Run | str | os.PathLike[str], *, again: bool = False) -> Uploaded:
        """Upload a finished run (or the one in this folder), resume its upload, or update what is there.

        `again`: make the run anew if it was deleted at the destination.

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
                unchanged = _run_in_loop(self._send(record, contents, again=again))
            except UploadError as error:
                raise self._explained(error, contents) from None
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
    def _upload_of(self, calls: Calls, record: UploadRecord, contents: Contents) -> "RunUpload":
        """The run on its way."""

    def _metric_count(self, contents: Contents) -> int:
        return len(contents.metrics)

    def _page(self, known: Destination) -> str | None:
        return known.url

    def _reopen(self, record: UploadRecord) -> None:
        if record.known.complete:
            record.known.complete = False
            record.save()

    async def _send(self, record: UploadRecord, contents: Contents, *, again: bool) -> bool:
        """Do the steps that are not done yet; gives whether there were none."""
        from tunecheck._version import __version__

        agent = " ".join(filter(None, [f"tunecheck/{__version__}", self._agent]))
        async with Calls(Redactor(), user_agent=agent, clock=self._clock, rng=self._rng) as calls:
            upload = self._upload_of(calls, record, contents)
            if record.known.run_id is not None and not await upload.is_there():
                if not again:
                    raise GONE.failed(f"{record.known.run_id} was deleted at the destination")
                record.renew()
                upload = self._upload_of(calls, record, contents)
            known = record.known
            if known.complete and known.fingerprint == contents.fingerprint:
                return True
            self._reopen(record)
            known.url = await upload.run()
            known.complete, known.fingerprint = True, contents.fingerprint
            record.save()
            return False

    def _explained(self, error: UploadError, contents: Contents) -> UploadError:
        command = ["tunecheck", "upload", str(contents.run.folder), *self._option]
        command += ["--allow-simulated"] if contents.simulated else []
        if error.step == GONE.words:
            advice = f"make it anew with: {command_line([*command, '--again'])}"
        else:
            advice = f"the run itself is whole; go on with: {command_line(command)}"
        return UploadError(
            f"upload failed: {error}; {advice}",
            step=error.step,
            status=error.status,
            request_id=error.request_id,
            unsure=error.unsure,
        )


class RunUpload(abc.ABC):
    """One run on its way to one destination, with the one step that must not happen twice: creating it there."""

    def __init__(self, calls: Calls, auth: Auth, record: UploadRecord, contents: Contents) -> None:
        self._calls = calls
        self._auth = auth
        self._record = record
        self._known = record.known
        self._contents = contents

    @abc.abstractmethod
    async def run(self) -> str | None:
        """Do the steps that are not done yet; gives the run's page, where the service names it."""

    @abc.abstractmethod
    async def is_there(self) -> bool:
        """Whether the run that was made is still there."""

    async def _read(self, step: Step, url: str) -> JSON:
        """What the service says of a thing; None where it has none of that name."""
        try:
            return (await self._calls.json(step, "GET", url, self._auth)).body
        except UploadError as error:
            if error.status != 404:
                raise
            return None

    @property
    def _run_id(self) -> str:
        return str(self._known.run_id)

    async def _ensure_run(self) -> None:
        """Create the run unless it exists: a creation that was sent and never answered is looked for first."""
        if self._known.run_id is not None:
            return
        exists = await self._find_run() if self._known.run_asked_for else False
        if not exists:
            self._known.run_asked_for = True
            self._record.save()
            try:
                await self._create_run()
            except UploadError as error:
                if not error.unsure:
                    self._known.run_asked_for = False
                    self._record.save()
                raise
        self._known.run_asked_for = False
        self._record.save(CREATE)

    @abc.abstractmethod
    async def _find_run(self) -> bool:
        """Look for the run that carries the record's marker; note its id if it is there."""

    @abc.abstractmethod
    async def _create_run(self) -> None:
        """Create the run, and note its id."""

    def _unsent(self) -> list[Artifact]:
        sent = self._known.artifacts
        return [artifact for artifact in self._contents.artifacts if sent.get(artifact.name) != artifact.sha256]

    def _note_sent(self, artifact: Artifact) -> None:
        self._known.artifacts[artifact.name] = artifact.sha256
        self._record.save()


def _run_in_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run this in an event loop of its own: here, or in a thread where this one has a loop already (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, "tunecheck-upload") as pool:
        return pool.submit(asyncio.run, work).result()
