"""The upload to a project in a hub: a run in the workspace's MLflow service, its files in the workspace's storage."""

from __future__ import annotations

import os
import time
from urllib.parse import urlencode, urlsplit

from tunecheck._json import JSON
from tunecheck.endpoints._auth import Auth
from tunecheck.endpoints._masking import Secret
from tunecheck.upload._foundry.blobs import BlobFolder, StorageToken, hide_sas
from tunecheck.upload._foundry.calls import Answer, Calls, Step
from tunecheck.upload._foundry.contents import Contents, metric_keys, properties
from tunecheck.upload._foundry.faults import UploadError, field
from tunecheck.upload._foundry.files import Artifact
from tunecheck.upload._foundry.projects import HubProject
from tunecheck.upload._foundry.record import UploadRecord

API_VERSION = "2024-07-01-preview"

STORAGE_SCOPE = "https://storage.azure.com/.default"

_USER = "tunecheck"
_EXPERIMENT = "0"

WORKSPACE = Step("find the project's workspace")
FIND = Step("look for the run")
CREATE = Step("create the run", repeatable=False)
STORAGE = Step("find the workspace's storage")
SECRETS = Step("get access to the workspace's storage")
PROPERTIES = Step("write the run's properties")
FINISH = Step("finish the run")


class HubUpload:
    """One run into one hub project: workspace, run, storage, files and their registration, properties, metrics, end.

    All but creating the run can be done again: files are replaced, and a metric that is logged twice with the same time
    is one metric.
    """

    def __init__(
        self,
        project: HubProject,
        calls: Calls,
        auth: Auth,
        storage_auth: Auth,
        record: UploadRecord,
        contents: Contents,
    ) -> None:
        self._project = project
        self._calls = calls
        self._auth = auth
        self._storage_auth = storage_auth
        self._record = record
        self._contents = contents
        self._host = ""

    async def run(self) -> str:
        """Do what is not done yet; gives the run's page in the portal.

        Raises:
            UploadError: a step failed; what was done is kept in the record.
        """
        self._host = await self._tracking_host()
        if self._record.get("run_id") is None:
            await self._create_run()
        waiting = [one for one in self._contents.artifacts if self._record.sent(one.name) != one.sha256]
        if waiting:
            await self._send_files(waiting)
        await self._write_properties()
        await self._log_metrics()
        await self._finish()
        portal = os.environ.get("AI_STUDIO_BASE_URL") or "https://ai.azure.com"
        return f"{portal.rstrip('/')}/build/evaluation/{self._run_id}?wsid={self._project.scope}"

    @property
    def _run_id(self) -> str:
        return str(self._record.get("run_id"))

    async def _tracking_host(self) -> str:
        answer = await self._calls.json(WORKSPACE, "GET", self._managed(), self._auth)
        address = field(answer.body, "properties", "mlFlowTrackingUri")
        host = urlsplit(address).netloc if isinstance(address, str) else ""
        if not host:
            raise UploadError(
                f"{WORKSPACE.words}: the workspace has no MLflow address: is {self._project.project_name} a project?",
                step=WORKSPACE.words,
                status=answer.status,
            )
        return host

    async def _create_run(self) -> None:
        found = await self._existing_run() if self._record.is_true("run_asked_for") else None
        if found is None:
            found = await self._new_run()
        run, experiment = field(found, "run_id"), field(found, "experiment_id")
        if not isinstance(run, str) or not run:
            raise UploadError(f"{CREATE.words}: the service's answer has no run_id", step=CREATE.words, unsure=True)
        experiment = str(experiment) if isinstance(experiment, (str, int)) else _EXPERIMENT
        self._record.keep(CREATE.words, run_id=run, experiment_id=experiment, run_asked_for=None)

    async def _new_run(self) -> JSON:
        self._record.keep(run_asked_for=True)
        own = {"mlflow.user": _USER, **self._contents.tags, "tunecheck.upload": self._record.marker}
        tags: list[JSON] = [{"key": key, "value": value} for key, value in own.items()]
        body: JSON = {
            "experiment_id": _EXPERIMENT,
            "user_id": _USER,
            "start_time": self._record.moment(),
            "tags": tags,
            "run_name": self._contents.name,
        }
        try:
            answer = await self._calls.json(CREATE, "POST", self._mlflow("runs/create"), self._auth, body)
        except UploadError as error:
            if not error.unsure:
                self._record.keep(run_asked_for=None)
            raise
        return field(answer.body, "run", "info")

    async def _existing_run(self) -> JSON:
        """The run whose creation was asked for, and nobody heard the answer."""
        body: JSON = {
            "experiment_ids": [_EXPERIMENT],
            "filter": f"tags.`tunecheck.upload` = '{self._record.marker}'",
            "max_results": 1,
        }
        answer = await self._calls.json(FIND, "POST", self._mlflow("runs/search"), self._auth, body)
        return field(answer.body, "runs", 0, "info")

    # -- files

    async def _send_files(self, artifacts: list[Artifact]) -> None:
        listed = await self._calls.json(
            STORAGE, "GET", self._managed("datastores", isDefault="True", count="1", orderByAsc="false"), self._auth
        )
        store = Answer(listed.status, listed.headers, field(listed.body, "value", 0))
        try:
            name = store.text("name")
            account, end = store.text("properties", "accountName"), store.text("properties", "endpoint")
            container = store.text("properties", "containerName")
        except ValueError as error:
            raise UploadError(f"{STORAGE.words}: {error}", step=STORAGE.words, status=listed.status) from None
        sort = field(store.body, "properties", "credentials", "credentialsType")
        address = f"https://{account}.blob.{end}/{container}"
        prefix = f"promptflow/PromptFlowArtifacts/{self._run_id}/"
        if isinstance(sort, str) and sort.lower() == "none":  # keys are switched off: the identity itself has the right
            folder = BlobFolder(self._calls, address, StorageToken(self._storage_auth), prefix)
        else:
            folder = await self._with_secret(name, account, address, prefix)
        for artifact in artifacts:
            await folder.put(artifact, create_only=False)
            await self._register(artifact, name, prefix)
            self._record.keep_artifact(artifact.name, artifact.sha256)

    async def _with_secret(self, store: str, account: str, address: str, prefix: str) -> BlobFolder:
        body: JSON = {"expirableSecret": True, "expireAfterHours": 1}
        url = self._managed("datastores", store, "listSecrets")
        answer = await self._calls.json(SECRETS, "POST", url, self._auth, body)
        sort = str(field(answer.body, "secretsType")).lower()
        secret = field(answer.body, {"sas": "sasToken", "accountkey": "key"}.get(sort, ""))
        if not isinstance(secret, str) or not secret:
            raise UploadError(
                f"{SECRETS.words}: the service gave no signature and no key", step=SECRETS.words, status=answer.status
            )
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
        own = properties(self._contents, self._record.marker)
        body: JSON = {
            "runId": self._run_id,
            "properties": {**own, "_azureml.evaluation_run": "promptflow.BatchRun"},
        }
        path = f"experimentids/{self._record.get('experiment_id')}/runs/{self._run_id}"
        await self._calls.json(PROPERTIES, "PATCH", self._tracked("history/v1.0", path), self._auth, body)
        self._record.keep(PROPERTIES.words)

    async def _log_metrics(self) -> None:
        moment = self._record.moment()
        keys = metric_keys(self._contents.metrics)
        for name, value in self._contents.metrics.items():
            body: JSON = {
                "run_uuid": self._run_id,
                "key": keys[name],
                "value": value,
                "timestamp": moment,
                "step": 0,
                "run_id": self._run_id,
            }
            step = Step(f"log the metric {name}")
            await self._calls.json(step, "POST", self._mlflow("runs/log-metric"), self._auth, body)
        self._record.keep("log the metrics")

    async def _finish(self) -> None:
        body: JSON = {
            "run_uuid": self._run_id,
            "status": "FINISHED",
            "end_time": time.time_ns() // 1_000_000,
            "run_id": self._run_id,
        }
        await self._calls.json(FINISH, "POST", self._mlflow("runs/update"), self._auth, body)
        self._record.keep(FINISH.words)

    # -- addresses

    def _managed(self, *path: str, **query: str) -> str:
        below = "".join(f"/{part}" for part in path)
        options = urlencode({"api-version": API_VERSION, **query})
        return f"{self._project.resource_manager}{self._project.scope}{below}?{options}"

    def _tracked(self, service: str, path: str) -> str:
        return f"https://{self._host}/{service}{self._project.scope}/{path}"

    def _mlflow(self, path: str) -> str:
        return self._tracked("mlflow/v2.0", f"api/2.0/mlflow/{path}")
