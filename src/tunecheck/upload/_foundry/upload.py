"""The upload of a finished run to Azure AI Foundry: checked first, done step by step, and gone on with if cut off.

azure-ai-evaluation offers no public way to do this: only its `evaluate()` uploads, what it has just computed itself,
with floats cut to ten decimals. The calls here are those that it makes.
"""

from __future__ import annotations

import asyncio
import importlib.util
import random
import shlex
import tempfile
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from tunecheck._errors import ConfigurationError, MissingExtraError
from tunecheck.endpoints._auth import EntraAuth, TokenCredential
from tunecheck.endpoints._limits import Clock
from tunecheck.endpoints._masking import Redactor
from tunecheck.runs._store import Run
from tunecheck.upload._foundry.calls import Calls
from tunecheck.upload._foundry.contents import Contents, collect, refuse_simulated
from tunecheck.upload._foundry.endpoint import FoundryUpload
from tunecheck.upload._foundry.faults import UploadError
from tunecheck.upload._foundry.files import portal_artifacts
from tunecheck.upload._foundry.hub import STORAGE_SCOPE, HubUpload
from tunecheck.upload._foundry.projects import FoundryProject, Project, read_project
from tunecheck.upload._foundry.record import UploadRecord, one_at_a_time

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What an upload came to.

    `url`: the run's page, where there is one; `left_out`: metrics that are no finite numbers; `unchanged`: all of it
    was there already and nothing was sent.
    """

    to: str
    run_id: str
    url: str | None
    files: tuple[str, ...]
    metrics: int
    left_out: tuple[str, ...]
    unchanged: bool


class FoundryUploader:
    """Uploads runs to one project.

    Making one checks what can be checked beforehand, so that an evaluation of hours does not end at a wrong name.

    Args:
        project: see `read_project`.
        credential: any object with `get_token`, of azure-identity or not; by default `DefaultAzureCredential`.
        allow_simulated: upload runs that no model answered; they are tagged as such.
        user_agent: appended to ours.
        clock, rng: the time and the chance of waits, for tests.

    Raises:
        ConfigurationError: the project is none.
        MissingExtraError: a package is missing.
    """

    def __init__(
        self,
        project: object,
        *,
        credential: object = None,
        allow_simulated: bool = False,
        user_agent: str | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.project: Project = read_project(project)
        if credential is not None and not callable(getattr(credential, "get_token", None)):
            raise ConfigurationError(
                f"credential must be an object with get_token, as of azure-identity, not a {type(credential).__name__}"
            )
        for package in ("azure.storage.blob", *([] if credential is not None else ["azure.identity"])):
            if not _installed(package):
                raise MissingExtraError("uploading to Azure AI Foundry", "foundry")
        self._credential = cast("TokenCredential | None", credential)
        self._allow_simulated = allow_simulated
        self._agent = user_agent
        self._clock = clock
        self._rng = rng

    def check(self, *, simulated: bool) -> None:
        """Refuse before anything is asked what would be refused at the end.

        Raises:
            ConfigurationError: the answers would be simulated, and those are not uploaded.
        """
        refuse_simulated(simulated=simulated, allowed=self._allow_simulated)

    def upload(self, run: Run) -> Uploaded:
        """Upload a finished run, or go on with its upload, or bring what is over there up to date.

        Raises:
            ConfigurationError: the run cannot be uploaded.
            UploadError: a step failed; the run's folder is whole, and the upload can be repeated.
        """
        with one_at_a_time(run), tempfile.TemporaryDirectory(prefix="tunecheck-") as folder:
            files = portal_artifacts(run, Path(folder))
            contents = collect(run, files, allow_simulated=self._allow_simulated)
            record = UploadRecord(run, str(self.project))
            if record.is_true("complete") and record.get("fingerprint") == contents.fingerprint:
                return self._uploaded(record, contents, unchanged=True)
            if record.is_true("complete"):
                record.keep(complete=False, moment_ms=None)
            try:
                url = run_in_loop(self._upload(record, contents))
            except UploadError as error:
                again = f"{shlex.quote(str(run.folder))} --project {shlex.quote(self.project.text)}"
                again += " --allow-simulated" if contents.simulated else ""
                raise error.explained(again, record.path, deleted=record.get("run_id") is not None) from None
            record.keep(complete=True, fingerprint=contents.fingerprint, url=url)
            return self._uploaded(record, contents, unchanged=False)

    async def _upload(self, record: UploadRecord, contents: Contents) -> str | None:
        redactor = Redactor()
        async with Calls(redactor, user_agent=user_agent(self._agent), clock=self._clock, rng=self._rng) as calls:
            if isinstance(self.project, FoundryProject):
                auth = self._auth(FoundryUpload.SCOPE, redactor)
                return await FoundryUpload(self.project, calls, auth, record, contents).run()
            auth = self._auth(f"{self.project.resource_manager}/.default", redactor)
            storage = self._auth(STORAGE_SCOPE, redactor)
            return await HubUpload(self.project, calls, auth, storage, record, contents).run()

    def _auth(self, scope: str, redactor: Redactor) -> EntraAuth:
        return EntraAuth(scope, redactor, credential=self._credential, clock=self._clock)

    def _uploaded(self, record: UploadRecord, contents: Contents, *, unchanged: bool) -> Uploaded:
        return Uploaded(
            to=str(self.project),
            run_id=str(record.get("run_id")),
            url=record.get("url"),
            files=tuple(artifact.name for artifact in contents.artifacts),
            metrics=len(contents.metrics),
            left_out=contents.left_out,
            unchanged=unchanged,
        )


def user_agent(appended: str | None) -> str:
    """What our calls say they are."""
    from tunecheck._version import __version__

    return f"tunecheck/{__version__}{' ' if appended else ''}{appended or ''}"


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def run_in_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run this in an event loop of its own: here, or in a thread where this one has a loop already (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - carried over to the calling thread as it is
            failures.append(error)

    thread = threading.Thread(target=run, name="tunecheck-upload")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]
