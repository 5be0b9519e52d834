"""The upload of a finished run to Azure AI Foundry, projects of both kinds.

azure-ai-evaluation offers no public way to do this: only its `evaluate()` uploads, what it has just computed itself,
with floats cut to ten decimals. The calls here are those that it makes.
"""

from collections.abc import Iterator
from pathlib import Path

from tunecheck import ConfigurationError, MissingExtraError, Run, __version__
from tunecheck.endpoints import can_import
from tunecheck_azure._foundry.evaluation import evaluation_artifacts, read_definition
from tunecheck_azure._foundry.portal import portal_artifacts
from tunecheck_azure._foundry.projects import FoundryProject, Project, read_project
from tunecheck_upload import Artifact, Contents, RunUpload, Uploader, UploadRecord

EVALS = "evals"
_SCOPE = "https://ai.azure.com/.default"


class FoundryUploader(Uploader):
    """Uploads runs to one project.

    Args:
        project: see `read_project`.
        api: "evals" for a run of the project's evals API, instead of a result as azure-ai-evaluation uploads it.
        credential: any object with `get_token`, of azure-identity or not; by default `DefaultAzureCredential`.
        allow_simulated: upload runs that no model answered; they are tagged as such.
        user_agent: appended to ours.

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
        )
        if credential is not None and not callable(getattr(credential, "get_token", None)):
            raise ConfigurationError(
                f"credential must be an object with get_token, as of azure-identity, not a {type(credential).__name__}"
            )
        for package in ("azure.storage.blob", *([] if credential is not None else ["azure.identity"])):
            if not can_import(package):
                raise MissingExtraError("uploading to Azure AI Foundry", "foundry")
        self._credential = credential
        self._user_agent = " ".join(filter(None, [f"tunecheck/{__version__}", user_agent]))

    def _artifacts(self, run: Run, folder: Path) -> Iterator[Artifact]:
        return (evaluation_artifacts if self._evals else portal_artifacts)(run, folder)

    def _metric_count(self, contents: Contents) -> int:
        if not self._evals:
            return super()._metric_count(contents)
        criteria = read_definition(contents.artifacts[0].path)["testing_criteria"]
        return len(criteria) if isinstance(criteria, list) else 0

    def _upload_of(self, record: UploadRecord, contents: Contents) -> RunUpload:
        # Azure's packages are imported only now: they take time, and belong to the extra.
        from tunecheck_azure._foundry.endpoint import FoundryUpload
        from tunecheck_azure._foundry.evals import EvalsUpload
        from tunecheck_azure._foundry.hub import HubUpload
        from tunecheck_azure._foundry.service import AzureService

        project = self.project
        credential = self._credential or _default_credential()
        scope = _SCOPE if isinstance(project, FoundryProject) else f"{project.resource_manager}/.default"
        service = AzureService(credential, scope, user_agent=self._user_agent)
        if not isinstance(project, FoundryProject):
            return HubUpload(project, service, credential, record, contents)
        kind = EvalsUpload if self._evals else FoundryUpload
        return kind(project.endpoint, service, record, contents)


def _default_credential() -> object:
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()
