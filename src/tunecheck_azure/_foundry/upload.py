"""The upload of a finished run to a Foundry project or a hub project of Azure AI Foundry.

azure-ai-evaluation has no public function for this: only its `evaluate()` uploads, and only its own results, with
floats cut to ten decimals. This package makes the same calls as that function.

  project                   files                 upload (`apis.py`)
  Foundry, no `api`         portal_artifacts      FoundryUpload
  Foundry, `api="evals"`    evaluation_artifacts  EvalsUpload
  in a hub, no `api`        portal_artifacts      HubUpload
"""

from collections.abc import Iterator
from pathlib import Path

from tunecheck import ConfigurationError, MissingExtraError, Run, __version__
from tunecheck.endpoints import can_import
from tunecheck.plugins import read_object
from tunecheck_azure._foundry.contents import evaluation_artifacts, portal_artifacts
from tunecheck_azure._foundry.projects import HubProject, read_project
from tunecheck_upload import Artifact, Contents, RunUpload, Uploader, UploadRecord

EVALS = "evals"
_SCOPE = "https://ai.azure.com/.default"
"""The scope of tokens for a Foundry project. A hub needs tokens for Azure Resource Manager instead."""


class FoundryUploader(Uploader):
    """The uploader to one project.

    Args:
        project: see `read_project`.
        api: "evals" for a run in the project's evals API, or None for a result as azure-ai-evaluation uploads it.
        credential: an object with `get_token`, of azure-identity or another package; by default
            `DefaultAzureCredential`.
        allow_simulated: upload runs with simulated answers, too; they are tagged as simulated.
        user_agent: text to append to Tunecheck's User-Agent header.

    Raises:
        ConfigurationError: `project` names no project, or has no such API, or the credential has no `get_token`.
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
        """Check all arguments before a run. This sends no request.

        Raises:
            ConfigurationError: an argument is wrong.
            MissingExtraError: a package is missing.
        """
        self.project = read_project(project)

        if api not in (None, EVALS):
            raise ConfigurationError(f"Foundry has no API {api!r} for uploads; use --foundry {EVALS} (api={EVALS!r})")
        if api is not None and isinstance(self.project, HubProject):
            raise ConfigurationError("a project in a hub has no evals API; omit --foundry, or give a Foundry project")

        self._evals = api == EVALS
        text = self.project.text if isinstance(self.project, HubProject) else self.project
        # The project as the user named it: a file may also name the resource manager, which `text` omits.
        named = str(project).strip() if isinstance(project, (str, Path)) else text
        option = ("--project", named, *(("--foundry", EVALS) if self._evals else ()))

        # The record of uploads has one entry per destination: a project's two APIs have one each.
        destination = f"{self.project} {EVALS}" if self._evals else str(self.project)
        super().__init__(destination, option, allow_simulated=allow_simulated)

        if credential is not None and not callable(getattr(credential, "get_token", None)):
            raise ConfigurationError(f"`credential` must have a method get_token; {type(credential).__name__} has none")

        # Both imports would fail only at the upload, after a long run.
        for package in ("azure.storage.blob", *([] if credential is not None else ["azure.identity"])):
            if not can_import(package):
                raise MissingExtraError("uploading to Azure AI Foundry", "foundry")

        self._credential = credential
        self._user_agent = " ".join(filter(None, [f"tunecheck/{__version__}", user_agent]))

    def _artifacts(self, run: Run, folder: Path) -> Iterator[Artifact]:
        """Yield the files for the evals API, or otherwise for the portal."""
        return (evaluation_artifacts if self._evals else portal_artifacts)(run, folder)

    def _metric_count(self, contents: Contents) -> int:
        """Return the number of figures that the service will show: criteria for the evals API, otherwise metrics."""
        if not self._evals:
            return super()._metric_count(contents)
        # The definition is the first artifact (`evaluation_artifacts`).
        criteria = read_object(contents.artifacts[0].path)["testing_criteria"]
        return len(criteria) if isinstance(criteria, list) else 0

    def _upload_of(self, record: UploadRecord, contents: Contents) -> RunUpload:
        """Return the upload of a run: to a hub project, to a Foundry project's evals API, or to its results."""
        # Azure's packages are imported only now: importing takes time, and they belong to an extra.
        from tunecheck_azure._foundry.apis import EvalsUpload, FoundryUpload, HubUpload
        from tunecheck_azure._foundry.service import AzureService

        project = self.project
        credential = self._credential or _default_credential()
        scope = f"{project.resource_manager}/.default" if isinstance(project, HubProject) else _SCOPE
        service = AzureService(credential, scope, user_agent=self._user_agent)

        if isinstance(project, HubProject):
            return HubUpload(project, service, record, contents)

        return (EvalsUpload if self._evals else FoundryUpload)(project, service, record, contents)


def _default_credential() -> object:
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()
