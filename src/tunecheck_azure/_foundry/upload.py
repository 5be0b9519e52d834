"""The upload of a finished run to Azure AI Foundry, projects of both kinds.

azure-ai-evaluation offers no public way to do this: only its `evaluate()` uploads, what it has just computed itself,
with floats cut to ten decimals. The calls here are those that it makes.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from tunecheck._errors import ConfigurationError, MissingExtraError
from tunecheck.endpoints._auth import EntraAuth, TokenCredential, installed
from tunecheck.endpoints._limits import Clock
from tunecheck.endpoints._masking import Redactor
from tunecheck.runs._store import Run
from tunecheck_azure._foundry.endpoint import SCOPE, FoundryUpload
from tunecheck_azure._foundry.evals import EvalsUpload
from tunecheck_azure._foundry.evaluation import evaluation_artifacts, read_definition
from tunecheck_azure._foundry.hub import STORAGE_SCOPE, HubUpload
from tunecheck_azure._foundry.portal import portal_artifacts
from tunecheck_azure._foundry.projects import FoundryProject, Project, read_project
from tunecheck_upload._calls import Calls
from tunecheck_upload._contents import Artifact, Contents
from tunecheck_upload._record import UploadRecord
from tunecheck_upload._uploader import RunUpload, Uploader

EVALS = "evals"


class FoundryUploader(Uploader):
    """Uploads runs to one project.

    Args:
        project: see `read_project`.
        api: "evals" for a run of the project's evals API, instead of a result as azure-ai-evaluation uploads it.
        credential: any object with `get_token`, of azure-identity or not; by default `DefaultAzureCredential`.
        allow_simulated: upload runs that no model answered; they are tagged as such.
        user_agent: appended to ours.
        clock, rng: the time and the random numbers of waits, for tests.

    Raises:
        ConfigurationError: the project cannot be read.
        MissingExtraError: a package is missing.
    """

    def __init__(
        self,
        project: object,
        *,
        api: str | None = None,
        credential: object = None,
        allow_simulated: bool = False,
        user_agent: str | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.project: Project = read_project(project)
        if api not in (None, EVALS):
            raise ConfigurationError(f"there is no API {api!r} of Foundry to upload to; there is {EVALS!r}")
        if api is not None and not isinstance(self.project, FoundryProject):
            raise ConfigurationError("a project in a hub has no evals API: give a Foundry project's endpoint")
        self._evals = api == EVALS
        super().__init__(
            f"{self.project} {EVALS}" if self._evals else str(self.project),
            ("--project", self.project.text, *(("--foundry", EVALS) if self._evals else ())),
            allow_simulated=allow_simulated,
            user_agent=user_agent,
            clock=clock,
            rng=rng,
        )
        if credential is not None and not callable(getattr(credential, "get_token", None)):
            raise ConfigurationError(
                f"credential must be an object with get_token, as of azure-identity, not a {type(credential).__name__}"
            )
        for package in ("azure.storage.blob", *([] if credential is not None else ["azure.identity"])):
            if not installed(package):
                raise MissingExtraError("uploading to Azure AI Foundry", "foundry")
        self._credential = cast("TokenCredential | None", credential)

    def _artifacts(self, run: Run, folder: Path) -> Iterator[Artifact]:
        return (evaluation_artifacts if self._evals else portal_artifacts)(run, folder)

    def _metric_count(self, contents: Contents) -> int:
        if not self._evals:
            return super()._metric_count(contents)
        criteria = read_definition(contents.artifacts[0].path)["testing_criteria"]
        return len(criteria) if isinstance(criteria, list) else 0

    def _reopen(self, record: UploadRecord) -> None:
        if record.known.complete:
            record.known.moment_ms = None  # a hub's metrics that are logged again get another time
        super()._reopen(record)

    def _upload_of(self, calls: Calls, record: UploadRecord, contents: Contents) -> RunUpload:
        if isinstance(self.project, FoundryProject):
            auth = self._auth(SCOPE, calls.redactor)
            kind = EvalsUpload if self._evals else FoundryUpload
            return kind(self.project.endpoint, calls, auth, record, contents)
        auth = self._auth(f"{self.project.resource_manager}/.default", calls.redactor)
        storage = self._auth(STORAGE_SCOPE, calls.redactor)
        return HubUpload(self.project, calls, auth, storage, record, contents)

    def _auth(self, scope: str, redactor: Redactor) -> EntraAuth:
        return EntraAuth(scope, redactor, credential=self._credential, clock=self._clock)
