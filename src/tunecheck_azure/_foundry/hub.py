"""The upload to a hub project: a run in the workspace's MLflow service, with files in the workspace's storage."""

import contextlib
import os
import re
import time
from urllib.parse import urlencode, urlsplit

from tunecheck.plugins import JSON
from tunecheck_azure._foundry.portal import properties
from tunecheck_azure._foundry.projects import HubProject
from tunecheck_azure._foundry.service import AzureService, AzureUpload, BlobFolder, ServiceReply
from tunecheck_upload import (
    CREATE,
    FIND,
    FINISH,
    MARKER,
    Artifact,
    Contents,
    UploadError,
    UploadRecord,
    UploadStep,
    checked_id,
    metric_keys,
    value_at,
)

API_VERSION = "2024-07-01-preview"

_AZURE = (
    ".api.azureml.ms .api.ml.azure.us .api.ml.azure.cn "
    ".core.windows.net .core.usgovcloudapi.net .core.chinacloudapi.cn .storage.azure.net"
).split()
"""Domains of Azure's clouds with workspaces' MLflow services and storage accounts."""

_HOST = re.compile(r"[\w.-]+(:\d+)?", re.ASCII)

_USER = "tunecheck"
_EXPERIMENT = "0"

WORKSPACE = UploadStep("find the project's workspace")
STORAGE = UploadStep("find the workspace's storage")
SECRETS = UploadStep("get access to the workspace's storage")
PROPERTIES = UploadStep("write the run's properties")


class HubUpload(AzureUpload):
    """The upload of one run to one hub project.

    The steps are: find the workspace, create the run, find the storage, upload and register files, write properties,
    log metrics, end the run. Every step except creating the run can be repeated: files are replaced, and a metric that
    is logged twice with the same time counts once.
    """

    def __init__(self, project: HubProject, service: AzureService, record: UploadRecord, contents: Contents) -> None:
        super().__init__(service, record, contents)
        self._project = project
        self._host = ""

    def send(self) -> str:
        """Create or find the run, send what is missing, end it, and return the address of its page."""
        self._host = self._host or self._tracking_host()
        self._ensure_run()
        unsent = self._unsent()
        if unsent:
            self._send_files(unsent)
        self._write_properties()
        self._log_metrics()
        self._finish()
        portal = os.environ.get("AI_STUDIO_BASE_URL") or "https://ai.azure.com"
        return f"{portal.rstrip('/')}/build/evaluation/{self._run_id}?wsid={self._project.scope}"

    def is_there(self) -> bool:
        """Return whether the recorded run still exists in the workspace and is not deleted."""
        self._host = self._tracking_host()
        info = value_at(
            self._service.found(FIND, self._runs(f"get?{urlencode({'run_id': self._run_id})}")), "run", "info"
        )
        return info is not None and value_at(info, "lifecycle_stage") != "deleted"

    def _tracking_host(self) -> str:
        """Return the host of the workspace's MLflow service, or raise UploadError if the workspace has none."""
        reply = self._service.json(WORKSPACE, "GET", self._management_url())
        address = value_at(reply.body, "properties", "mlFlowTrackingUri")
        host = address.partition("://")[2].partition("/")[0] if isinstance(address, str) else ""
        if not host:
            reason = f"the workspace has no MLflow address: check that {self._project.project_name} is a project"
            raise UploadError(WORKSPACE, reason, status=reply.status)
        return self._trusted(WORKSPACE, host)

    def _create_run(self) -> None:
        """Create the run with the upload's marker as a tag, and note its ids."""
        marked = {"mlflow.user": _USER, **self._contents.tags, MARKER: self._known.marker}
        body: JSON = {
            "experiment_id": _EXPERIMENT,
            "run_name": self._contents.name,
            "user_id": _USER,
            "start_time": self._contents.moment_ms,
            "tags": [{"key": key, "value": value} for key, value in marked.items()],
        }
        reply = self._service.json(CREATE, "POST", self._runs("create"), body)
        self._note_run(value_at(reply.body, "run", "info"))

    def _find_run(self) -> bool:
        """Look for a run with this upload's marker, and note its ids. Returns whether it was found."""
        body: JSON = {
            "experiment_ids": [_EXPERIMENT],
            "filter": f"tags.`{MARKER}` = '{self._known.marker}'",
            "max_results": 1,
        }
        info = value_at(self._service.json(FIND, "POST", self._runs("search"), body).body, "runs", 0, "info")
        if info is not None:
            self._note_run(info)
        return info is not None

    def _note_run(self, info: JSON) -> None:
        """Note the ids of a run and its experiment in the record, or raise UploadError if the reply has none."""
        experiment = value_at(info, "experiment_id")
        self._known.experiment_id = _EXPERIMENT if experiment is None else checked_id(CREATE, str(experiment))
        self._known.run_id = checked_id(CREATE, value_at(info, "run_id"))

    # -- files

    def _send_files(self, artifacts: list[Artifact]) -> None:
        """Upload files to the workspace's default storage and register each with the run.

        Each file is noted as sent at once, so that a later attempt sends only the rest.
        """
        listed = self._service.json(
            STORAGE, "GET", self._management_url("datastores", isDefault="True", count="1", orderByAsc="false")
        )
        store = ServiceReply(STORAGE, listed.status, value_at(listed.body, "value", 0))
        name = store.id("name")
        account, end = store.id("properties", "accountName"), store.text("properties", "endpoint")
        container = store.id("properties", "containerName")
        sort = value_at(store.body, "properties", "credentials", "credentialsType")
        address = f"https://{self._trusted(STORAGE, f'{account}.blob.{end}')}/{container}"
        prefix = f"promptflow/PromptFlowArtifacts/{self._run_id}/"
        if isinstance(sort, str) and sort.lower() == "none":  # no keys: the identity itself has access
            opened = BlobFolder(self._service, address, self._service.sign_in, prefix)
        else:
            opened = self._with_secret(name, account, address, prefix)
        with contextlib.closing(opened) as folder:
            for artifact in artifacts:
                folder.put(artifact)
                self._register(artifact, name, prefix)
                self._note_sent(artifact)

    def _with_secret(self, store: str, account: str, address: str, prefix: str) -> BlobFolder:
        """Return the storage's folder, opened with a temporary secret of the workspace: a signature or an account key.

        The secret is masked in errors. Raises UploadError if the service gives none.
        """
        body: JSON = {"expirableSecret": True, "expireAfterHours": 1}
        url = self._management_url("datastores", store, "listSecrets")
        reply = self._service.json(SECRETS, "POST", url, body)
        sort = str(value_at(reply.body, "secretsType")).lower()
        secret = value_at(reply.body, {"sas": "sasToken", "accountkey": "key"}.get(sort, ""))
        if not isinstance(secret, str) or not secret:
            raise UploadError(SECRETS, "the reply has neither a SAS token nor an account key", status=reply.status)
        self._service.hide(secret)
        if sort == "accountkey":
            return BlobFolder(self._service, address, {"account_name": account, "account_key": secret}, prefix)
        return BlobFolder(self._service, f"{address}?{secret.lstrip('?')}", None, prefix)

    def _register(self, artifact: Artifact, store: str, prefix: str) -> None:
        """Register an uploaded file with the run. A file that is registered already is no error."""
        step = UploadStep(f"register {artifact.name}")
        body: JSON = {
            "origin": "ExperimentRun",
            "container": f"dcid.{self._run_id}",
            "path": artifact.name,
            "dataPath": {"dataStoreName": store, "relativePath": prefix + artifact.name},
        }
        try:
            self._service.json(step, "POST", self._tracking_url("artifact/v2.0", "artifacts/register"), body)
        except UploadError as error:
            if error.status != 409:  # 409: an earlier attempt registered it, and the reply was lost
                raise

    # -- figures

    def _write_properties(self) -> None:
        """Write the properties by which the portal shows the run as an evaluation."""
        own = properties(self._contents, self._known.marker)
        body: JSON = {"runId": self._run_id, "properties": {**own, "_azureml.evaluation_run": "promptflow.BatchRun"}}
        path = f"experimentids/{self._known.experiment_id}/runs/{self._run_id}"
        self._service.json(PROPERTIES, "PATCH", self._tracking_url("history/v1.0", path), body)

    def _log_metrics(self) -> None:
        """Log each metric of the run with the time of the results, so that a repetition counts once."""
        keys = metric_keys(self._contents.metrics)
        for name, value in self._contents.metrics.items():
            body: dict[str, JSON] = {
                "key": keys[name],
                "value": value,
                "timestamp": self._contents.moment_ms,
                "step": 0,
                "run_id": self._run_id,
            }
            step = UploadStep(f"log the metric {name}")
            self._service.json(step, "POST", self._runs("log-metric"), {"run_uuid": self._run_id, **body})

    def _finish(self) -> None:
        end = time.time_ns() // 1_000_000
        body: JSON = {"run_uuid": self._run_id, "run_id": self._run_id, "status": "FINISHED", "end_time": end}
        self._service.json(FINISH, "POST", self._runs("update"), body)

    # -- addresses

    def _trusted(self, step: UploadStep, host: str) -> str:
        """Return a host that the service names, or raise UploadError if it is not Azure's: it would get a token."""
        own = urlsplit(self._project.resource_manager).netloc
        if not _HOST.fullmatch(host) or (host != own and not host.endswith((f".{own}", *_AZURE))):
            raise UploadError(step, f"the reply names a host outside Azure, to which nothing is sent: {host}")
        return host

    def _management_url(self, *path: str, **query: str) -> str:
        """Return an address of the workspace, or of something below it, in Azure Resource Manager."""
        below = "".join(f"/{part}" for part in path)
        options = urlencode({"api-version": API_VERSION, **query})
        return f"{self._project.resource_manager}{self._project.scope}{below}?{options}"

    def _tracking_url(self, service: str, path: str) -> str:
        return f"https://{self._host}/{service}{self._project.scope}/{path}"

    def _runs(self, path: str) -> str:
        return self._tracking_url("mlflow/v2.0", f"api/2.0/mlflow/runs/{path}")
