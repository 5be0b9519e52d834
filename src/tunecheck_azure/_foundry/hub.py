"""The upload to a project in a hub: a run in the workspace's MLflow service, its files in the workspace's storage."""

import os
from urllib.parse import urlencode, urlsplit

from tunecheck._json import JSON
from tunecheck.endpoints._auth import Auth
from tunecheck.endpoints._masking import Secret
from tunecheck_azure._foundry.blobs import BlobFolder, StorageToken, hide_sas
from tunecheck_azure._foundry.portal import properties
from tunecheck_azure._foundry.projects import HubProject
from tunecheck_mlflow._run import MlflowRun
from tunecheck_upload._calls import Calls, ServiceReply, Step, UploadError, value_at
from tunecheck_upload._contents import Artifact, Contents, metric_keys
from tunecheck_upload._record import UploadRecord

API_VERSION = "2024-07-01-preview"

STORAGE_SCOPE = "https://storage.azure.com/.default"

_USER = "tunecheck"

WORKSPACE = Step("find the project's workspace")
STORAGE = Step("find the workspace's storage")
SECRETS = Step("get access to the workspace's storage")
PROPERTIES = Step("write the run's properties")
METRICS = Step("log the metrics")


class HubUpload(MlflowRun):
    """One run into one hub project: workspace, run, storage, files and their registration, properties, metrics, end.

    All but creating the run can be done again: files are replaced, and a metric that is logged twice with the same time
    is one metric.
    """

    _experiment = "0"

    def __init__(
        self,
        project: HubProject,
        calls: Calls,
        auth: Auth,
        storage_auth: Auth,
        record: UploadRecord,
        contents: Contents,
    ) -> None:
        super().__init__(calls, auth, record, contents)
        self._project = project
        self._storage_auth = storage_auth
        self._host = ""

    async def run(self) -> str:
        self._host = self._host or await self._tracking_host()
        await self._ensure_run()
        unsent = self._unsent()
        if unsent:
            await self._send_files(unsent)
        await self._write_properties()
        await self._log_metrics()
        await self._finish(run_uuid=self._run_id)
        portal = os.environ.get("AI_STUDIO_BASE_URL") or "https://ai.azure.com"
        return f"{portal.rstrip('/')}/build/evaluation/{self._run_id}?wsid={self._project.scope}"

    async def is_there(self) -> bool:
        self._host = await self._tracking_host()
        return await super().is_there()

    async def _tracking_host(self) -> str:
        reply = await self._calls.json(WORKSPACE, "GET", self._managed(), self._auth)
        address = value_at(reply.body, "properties", "mlFlowTrackingUri")
        host = urlsplit(address).netloc if isinstance(address, str) else ""
        if not host:
            reason = f"the workspace has no MLflow address: is {self._project.project_name} a project?"
            raise WORKSPACE.failed(reason, status=reply.status)
        return host

    async def _create_run(self) -> None:
        await self._create({"mlflow.user": _USER, **self._contents.tags}, {"user_id": _USER})

    # -- files

    async def _send_files(self, artifacts: list[Artifact]) -> None:
        listed = await self._calls.json(
            STORAGE, "GET", self._managed("datastores", isDefault="True", count="1", orderByAsc="false"), self._auth
        )
        store = ServiceReply(STORAGE, listed.status, value_at(listed.body, "value", 0))
        name = store.text("name")
        account, end = store.text("properties", "accountName"), store.text("properties", "endpoint")
        container = store.text("properties", "containerName")
        sort = value_at(store.body, "properties", "credentials", "credentialsType")
        address = f"https://{account}.blob.{end}/{container}"
        prefix = f"promptflow/PromptFlowArtifacts/{self._run_id}/"
        if isinstance(sort, str) and sort.lower() == "none":  # keys are switched off: the identity itself has the right
            folder = BlobFolder(self._calls, address, StorageToken(self._storage_auth), prefix)
        else:
            folder = await self._with_secret(name, account, address, prefix)
        for artifact in artifacts:
            await folder.put(artifact, create_only=False)
            await self._register(artifact, name, prefix)
            self._note_sent(artifact)

    async def _with_secret(self, store: str, account: str, address: str, prefix: str) -> BlobFolder:
        body: JSON = {"expirableSecret": True, "expireAfterHours": 1}
        url = self._managed("datastores", store, "listSecrets")
        reply = await self._calls.json(SECRETS, "POST", url, self._auth, body)
        sort = str(value_at(reply.body, "secretsType")).lower()
        secret = value_at(reply.body, {"sas": "sasToken", "accountkey": "key"}.get(sort, ""))
        if not isinstance(secret, str) or not secret:
            raise SECRETS.failed("the service gave no signature and no key", status=reply.status)
        self._calls.redactor.add(Secret(secret))
        if sort == "accountkey":
            return BlobFolder(self._calls, address, {"account_name": account, "account_key": secret}, prefix)
        hide_sas(secret, self._calls.redactor)
        return BlobFolder(self._calls, f"{address}?{secret.lstrip('?')}", None, prefix)

    async def _register(self, artifact: Artifact, store: str, prefix: str) -> None:
        step = Step(f"register {artifact.name}")
        body: JSON = {
            "origin": "ExperimentRun",
            "container": f"dcid.{self._run_id}",
            "path": artifact.name,
            "dataPath": {"dataStoreName": store, "relativePath": prefix + artifact.name},
        }
        try:
            await self._calls.json(step, "POST", self._tracked("artifact/v2.0", "artifacts/register"), self._auth, body)
        except UploadError as error:
            if error.status != 409:  # an attempt before got through unanswered
                raise

    # -- figures

    async def _write_properties(self) -> None:
        own = properties(self._contents, self._known.marker)
        body: JSON = {"runId": self._run_id, "properties": {**own, "_azureml.evaluation_run": "promptflow.BatchRun"}}
        path = f"experimentids/{self._known.experiment_id}/runs/{self._run_id}"
        await self._calls.json(PROPERTIES, "PATCH", self._tracked("history/v1.0", path), self._auth, body)
        self._record.save(PROPERTIES)

    async def _log_metrics(self) -> None:
        moment = self._record.moment()
        keys = metric_keys(self._contents.metrics)
        for name, value in self._contents.metrics.items():
            body: dict[str, JSON] = {
                "key": keys[name],
                "value": value,
                "timestamp": moment,
                "step": 0,
                "run_id": self._run_id,
            }
            await self._post(Step(f"log the metric {name}"), "runs/log-metric", {"run_uuid": self._run_id, **body})
        self._record.save(METRICS)

    # -- addresses

    def _managed(self, *path: str, **query: str) -> str:
        below = "".join(f"/{part}" for part in path)
        options = urlencode({"api-version": API_VERSION, **query})
        return f"{self._project.resource_manager}{self._project.scope}{below}?{options}"

    def _tracked(self, service: str, path: str) -> str:
        return f"https://{self._host}/{service}{self._project.scope}/{path}"

    def _url(self, path: str) -> str:
        return self._tracked("mlflow/v2.0", f"api/2.0/mlflow/{path}")
