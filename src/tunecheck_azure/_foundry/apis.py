"""Azure AI Foundry's APIs for finished runs: results and evals of a Foundry project, and the API of a hub project.

A project in a hub has an MLflow service for runs, and a storage for files.

  class          steps of `send`, in this order                          a repeated upload of changed results
  FoundryUpload  reserve, send files, register, create run, complete     next version of the result, same run
  EvalsUpload    find or create evaluation, send rows, create run, wait  deletes the run and creates another
  HubUpload      create run, send and register files, properties,        replaces files and metrics in the same run
                 metrics, end run

An upload can stop anywhere, also between a request and its reply. These rules let the next attempt continue:

  * A name or id is in the record (`self._known`) before a later step relies on it.
  * A step for which the service refuses a repetition treats the refusal as success: 409 (it exists already) when a
    version is reserved or a file registered, 404 (it is gone) when a run is deleted.
  * A request that creates a run is repeated only if the service certainly did nothing. Otherwise the next attempt
    looks for a run with the upload's marker, a random id from the record (`_find_run`; see `RunUpload._ensure_run`).

Addresses from replies are checked, because tokens go with the requests: `_find_run` follows links only to the
project's own host, and `_checked_host` accepts only hosts of Azure.
"""

import contextlib
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlencode, urlsplit

from tunecheck.plugins import JSON, loads, read_object
from tunecheck_azure._foundry.contents import DEFINITION, HASH, ITEMS, properties
from tunecheck_azure._foundry.projects import HubProject
from tunecheck_azure._foundry.service import AzureUpload, BlobFolder, ServiceReply
from tunecheck_upload import (
    CREATE,
    FIND,
    FINISH,
    MARKER,
    Artifact,
    UploadError,
    UploadStep,
    checked_id,
    metric_keys,
    value_at,
)

RESULTS_VERSION, DATASETS_VERSION = "2025-11-15-preview", "v1"
"""Versions of a Foundry project's APIs for results and their runs, and for datasets."""

MANAGEMENT_VERSION = "2024-07-01-preview"
"""Version of Azure Resource Manager's API for the workspace of a project in a hub."""

_RESERVE = UploadStep("reserve a place for the results")
_COMPLETE = UploadStep("complete the run")
_MERGE_PATCH = "application/merge-patch+json"

_MOST_PAGES = 50
"""The most pages of a list that a search for a run or an evaluation reads. A page of the evals API has 100 entries."""

_MOST_VERSIONS = 100
"""The most versions of a result that are tried, if earlier attempts took some of them."""

MOST_INLINE = 1 << 20
"""The most bytes of rows in the request that creates a run of the evals API. More rows are first sent as a dataset."""

_WAITS_S = (1.0, 2.0, 4.0, 8.0, *[15.0] * 100)
"""Seconds between questions for a run's status: 25 minutes in all. Short at first, because small runs end soon."""

_MOST_METADATA, _KEY, _VALUE = 16, 64, 512
"""Limits of the evals API for metadata: number of pairs, characters of a key, characters of a value."""

_AZURE = (
    ".api.azureml.ms .api.ml.azure.us .api.ml.azure.cn "
    ".core.windows.net .core.usgovcloudapi.net .core.chinacloudapi.cn .storage.azure.net"
).split()
"""Domains of Azure's clouds with workspaces' MLflow services and storage accounts."""

# Matches "eastus.api.azureml.ms" and "localhost:8443", but nothing with a path, a user or a query.
_HOST = re.compile(r"[\w.-]+(:\d+)?", re.ASCII)

_USER, _EXPERIMENT = "tunecheck", "0"
"""The user and the experiment of runs in a hub's MLflow service. azure-ai-evaluation uses experiment 0, too."""


class FoundryUpload(AzureUpload[str]):
    """The upload of one run to one Foundry project: reserve, upload, register, create, complete.

    The results become a version of a result with a random name, and the run refers to that version. Changed results
    become the next version, to which the same run then refers.
    """

    def send(self) -> str | None:
        """Upload the results unless the record says that they are there, create or find the run, and complete it.

        Returns the address of the run's page, or None if the service gives none.
        """
        if self._known.result_of != self._contents.fingerprint:
            self._send_results()
        self._ensure_run()
        return self._complete_run()

    def is_there(self) -> bool:
        """Return whether the recorded run still exists in the project."""
        return self._service.find(FIND, self._url(f"evaluations/runs/{quote(self._run_id, safe='')}")) is not None

    def _send_results(self) -> None:
        """Upload the artifacts and register them as a result's next version. The result's name is recorded first."""
        # Saved at once: the next attempt then adds versions to this name instead of creating a second result.
        if self._known.result_name is None:
            self._known.result_name = str(uuid.uuid4())
            self._record.save()

        version, reserved = self._reserve()
        address = reserved.text("blobReferenceForConsumption", "blobUri")
        sas = reserved.text("blobReferenceForConsumption", "credential", "sasUri")

        with contextlib.closing(BlobFolder(self._service, sas)) as folder:
            for artifact in self._contents.artifacts:
                folder.put(artifact)

        self._register(version, address)

    def _reserve(self) -> tuple[int, ServiceReply]:
        """Reserve an upload for the next free version; return the version and the service's reply.

        Raises:
            UploadError: many versions in a row are taken, or the service refused.
        """
        version = 1 + self._known.version
        body: JSON = {"pendingUploadType": "TemporaryBlobReference"}

        for candidate in range(version, version + _MOST_VERSIONS):
            url = self._url(f"{self._result_path(candidate)}/startPendingUpload")
            # 409: an earlier attempt registered that version, and the reply was lost.
            reply = self._service.json_unless(409, _RESERVE, "POST", url, body)
            if reply is not None:
                return candidate, reply

        reason = f"{_MOST_VERSIONS} versions from {version} on exist; check in Foundry who registered them"
        raise UploadError(_RESERVE, reason, status=409)

    def _register(self, version: int, address: str) -> None:
        """Register the files at this storage address, and the metrics, as a version of the result; record that."""
        body: JSON = {"blobUri": address, "resultType": "Evaluation", "metrics": {**self._contents.metrics}}
        url = self._url(self._result_path(version))
        step = UploadStep("register the results")
        reply = self._service.json(step, "PATCH", url, body, kind=_MERGE_PATCH)

        # From here on, `send` does not send these results again.
        self._known.result_id = reply.text("id")
        self._known.version, self._known.result_of = version, self._contents.fingerprint
        self._record.save()

    def _create_run(self) -> None:
        """Create the run and note its name in the record, which the caller saves."""
        body: JSON = {
            "displayName": self._contents.name,
            "properties": properties(self._contents, self._known.marker),
            "tags": dict(self._contents.tags),
        }
        reply = self._service.json(CREATE, "POST", self._url("evaluations/runs:upload"), body)
        self._known.run_id = _run_name(reply)

    def _find_run(self) -> bool:
        """Look for a run with this upload's marker, and note its name. Returns whether it was found.

        An earlier attempt may have created it before its reply was lost.
        """
        url = self._url("evaluations/runs")
        for _ in range(_MOST_PAGES):
            reply = self._service.json(FIND, "GET", url)
            runs = value_at(reply.body, "value")
            for run in runs if isinstance(runs, list) else []:
                if value_at(run, "properties", MARKER) == self._known.marker:
                    self._known.run_id = _run_name(ServiceReply(FIND, reply.status, run))
                    return True

            # The last page has no link.
            link = value_at(reply.body, "nextLink")
            # The token goes with the request, so a link to another host is not followed.
            if not isinstance(link, str) or not link.startswith(self._project.split("/api/", 1)[0] + "/"):
                break
            url = link
        return False

    def _complete_run(self) -> str | None:
        """Mark the run as completed with its results; return the address of its page, or None."""
        result: JSON = {"evaluationResultId": self._known.result_id}
        body: JSON = {"displayName": self._contents.name, "status": "Completed", "outputs": result}

        url = self._url(f"evaluations/runs:updateUpload/{quote(self._run_id, safe='')}")
        return self._service.json(_COMPLETE, "PATCH", url, body).page("properties", "AiStudioEvaluationUri")

    def _result_path(self, version: int) -> str:
        """Return the path of a version of the run's result, below the project's endpoint."""
        return f"evaluationResults/{self._known.result_name}/versions/{version}"

    def _url(self, path: str) -> str:
        """Return the address of a path below the project's endpoint, with the API's version."""
        return f"{self._project}/{path}?api-version={RESULTS_VERSION}"


def _run_name(run: ServiceReply) -> str:
    """Return the name, or else the id, of a run in a reply; raise UploadError if it has none."""
    return run.id("name" if value_at(run.body, "name") else "id")


class EvalsUpload(AzureUpload[str]):
    """The upload of one run: find or create the evaluation, create the run, wait until the service has read it.

    The evaluation is found by the hash of its definition, so that runs with the same data and evaluators share it.
    The service cannot change a run: for changed results, the old run is deleted and a new run is created.

    The record's `result_of` is the fingerprint of the contents for which the run was created. `result_id` is the
    dataset with the rows, if they were too large for the request.
    """

    def send(self) -> str | None:
        """Delete an outdated run, create the evaluation and the run unless they exist, and wait for the run.

        Returns the address of the run's page, or None if the service gives none.
        """
        if self._known.run_id is not None and self._known.result_of != self._contents.fingerprint:
            self._delete_run()

        # Also after a deletion, and if an earlier attempt stopped before the run was created.
        if self._known.run_id is None:
            self._known.experiment_id = self._evaluation_id()
            self._known.result_of = self._contents.fingerprint
            self._record.save()

        self._ensure_run()
        return self._wait_for_completion()

    def is_there(self) -> bool:
        """Return whether the recorded run still exists in the recorded evaluation."""
        return self._service.find(FIND, self._run_url) is not None

    def _evaluation_id(self) -> str:
        """Return the id of the evaluation with this definition, created if there is none yet."""
        definition = read_object(self._artifact(DEFINITION).path)
        definition_hash = value_at(definition, "metadata", HASH)

        # Another run, of this user or of others, may have created the evaluation.
        for entry in self._list_entries(UploadStep("look for the evaluation"), self._evals_url):
            if value_at(entry.body, "metadata", HASH) == definition_hash:
                return entry.id("id")

        step = UploadStep("create the evaluation", repeatable=False)
        return self._service.json(step, "POST", self._evals_url, definition).id("id")

    def _find_run(self) -> bool:
        """Look for a run with this upload's marker, and note its id. Returns whether it was found."""
        for found in self._list_entries(FIND, self._runs_url):
            if value_at(found.body, "metadata", MARKER) == self._known.marker:
                self._known.run_id = found.id("id")
                return True
        return False

    def _create_run(self) -> None:
        """Create the run with its rows and note its id in the record, which the caller saves."""
        body: JSON = {
            "name": self._contents.name,
            "data_source": {"type": "jsonl", "source": self._row_source(self._artifact(ITEMS))},
            "metadata": self._metadata(),
        }
        self._known.run_id = self._service.json(CREATE, "POST", self._runs_url, body).id("id")

    def _row_source(self, items: Artifact) -> JSON:
        """Return the file of rows as a source for the request: inline, or as an uploaded dataset if it is too large."""
        if items.size <= MOST_INLINE:
            with items.path.open("rb") as file:
                return {"type": "file_content", "content": [loads(line) for line in file]}

        # Recorded, so that an attempt after a failed creation of the run does not send the rows again.
        if self._known.result_id is None:
            self._known.result_id = self._send_rows(items)
            self._record.save()
        return {"type": "file_id", "id": self._known.result_id}

    def _send_rows(self, items: Artifact) -> str:
        """Upload the rows as a dataset of the project and return the dataset's id.

        Each attempt uses a new random name, so it never meets a version that a lost attempt reserved.
        """
        dataset_url = f"{self._project}/datasets/tunecheck-{uuid.uuid4()}/versions/1"
        query = f"?api-version={DATASETS_VERSION}"

        request: JSON = {"pendingUploadType": "BlobReference"}
        step = UploadStep("reserve a place for the rows")
        reserved = self._service.json(step, "POST", f"{dataset_url}/startPendingUpload{query}", request)
        sas = reserved.text("blobReference", "credential", "sasUri")

        with contextlib.closing(BlobFolder(self._service, sas)) as folder:
            folder.put(items)

        description: JSON = {"type": "uri_file", "dataUri": f"{sas.partition('?')[0]}/{quote(items.name)}"}
        step = UploadStep("register the rows")
        return self._service.json(step, "PATCH", f"{dataset_url}{query}", description, kind=_MERGE_PATCH).text("id")

    def _metadata(self) -> dict[str, JSON]:
        """Return the run's metadata within the API's limits: its id and marker, then tags, then metrics.

        The id and marker come first, because the API takes 16 pairs and `_find_run` needs the marker. With 4 tags there
        is room for 10 metrics; the items contain all verdicts anyway.
        """
        identity = {"tunecheck.run": self._contents.run.id, MARKER: self._known.marker}
        pairs: Mapping[str, object] = identity | {**self._contents.tags} | {**self._contents.metrics}

        fitting = [(key[:_KEY], str(value)[:_VALUE]) for key, value in pairs.items()]
        return dict(fitting[:_MOST_METADATA])

    def _delete_run(self) -> None:
        """Delete the run because its results have changed, and forget it in the record."""
        # 404: an earlier attempt deleted the run, and the reply was lost.
        self._service.json_unless(404, UploadStep("delete the run's earlier results"), "DELETE", self._run_url)

        # Without `result_id`, the new rows are sent: the dataset has those of the deleted run.
        self._known.run_id = self._known.result_id = None
        self._record.save()

    def _wait_for_completion(self) -> str | None:
        """Wait until the service has read the run; return the address of the run's page, or None.

        Raises:
            UploadError: the run failed or was canceled, so the record forgets it; or it lasts over about 25 minutes.
        """
        for wait_s in _WAITS_S:
            reply = self._service.json(_COMPLETE, "GET", self._run_url)
            status = value_at(reply.body, "status")

            if status == "completed":
                return reply.page("report_url")

            if status in ("failed", "canceled"):
                self._known.run_id = None  # the next upload creates another run
                self._record.save()
                reason = f"status {status}: {value_at(reply.body, 'error', 'message')}"
                raise self._service.step_error(_COMPLETE, reason)

            time.sleep(wait_s)

        # Its id stays in the record, so a repeated upload waits for the same run.
        raise self._service.step_error(_COMPLETE, f"the run's status is still {status}", unsure=True)

    def _list_entries(self, step: UploadStep, url: str) -> Iterator[ServiceReply]:
        """Yield the entries of a list of the API, newest first, from at most `_MOST_PAGES` pages."""
        after: dict[str, str] = {}
        for _ in range(_MOST_PAGES):
            query = urlencode({"limit": "100", "order": "desc", **after})
            reply = self._service.json(step, "GET", f"{url}?{query}")

            data = value_at(reply.body, "data")
            yield from (ServiceReply(step, reply.status, entry) for entry in (data if isinstance(data, list) else []))

            last = value_at(reply.body, "last_id")
            if value_at(reply.body, "has_more") is not True or not isinstance(last, str):
                return
            after = {"after": last}

    def _artifact(self, name: str) -> Artifact:
        """Return the file of the upload with this name."""
        return next(artifact for artifact in self._contents.artifacts if artifact.name == name)

    @property
    def _evals_url(self) -> str:
        """The address of the project's evaluations."""
        return f"{self._project}/openai/v1/evals"

    @property
    def _runs_url(self) -> str:
        """The address of the runs of the recorded evaluation."""
        return f"{self._evals_url}/{quote(str(self._known.experiment_id), safe='')}/runs"

    @property
    def _run_url(self) -> str:
        """The address of the recorded run."""
        return f"{self._runs_url}/{quote(self._run_id, safe='')}"


class HubUpload(AzureUpload[HubProject]):
    """The upload of one run to one hub project.

    The steps are: find the workspace, create the run, find the storage, upload and register files, write properties,
    log metrics, end the run. Every step except creating the run can be repeated: files are replaced, and a metric that
    is logged twice with the same time counts once.
    """

    _host = ""
    """The host of the workspace's MLflow service, once it is known."""

    def send(self) -> str:
        """Create or find the run, send what is missing, end it, and return the address of its page."""
        self._host = self._host or self._tracking_host()
        self._ensure_run()

        if unsent := self._unsent():
            self._send_files(unsent)

        self._write_properties()
        self._log_metrics()
        self._end_run()

        portal = os.environ.get("AI_STUDIO_BASE_URL") or "https://ai.azure.com"
        return f"{portal.rstrip('/')}/build/evaluation/{self._run_id}?wsid={self._project.scope}"

    def is_there(self) -> bool:
        """Return whether the recorded run still exists in the workspace and is not deleted."""
        self._host = self._tracking_host()
        found = self._service.find(FIND, self._runs_address(f"get?{urlencode({'run_id': self._run_id})}"))
        info = value_at(found, "run", "info")
        return info is not None and value_at(info, "lifecycle_stage") != "deleted"

    def _tracking_host(self) -> str:
        """Return the host of the workspace's MLflow service, or raise UploadError if the workspace has none."""
        step = UploadStep("find the project's workspace")
        reply = self._service.json(step, "GET", self._management_url())

        # Such as azureml://eastus.api.azureml.ms/mlflow/v1.0/…; only its host is used.
        address = value_at(reply.body, "properties", "mlFlowTrackingUri")
        host = address.partition("://")[2].partition("/")[0] if isinstance(address, str) else ""

        if not host:
            reason = f"the workspace has no MLflow address: check that {self._project.project_name} is a project"
            raise UploadError(step, reason, status=reply.status)
        return self._checked_host(step, host)

    def _create_run(self) -> None:
        """Create the run with the upload's marker as a tag, which wins over a user's tag, and note the run's ids."""
        marked = {"mlflow.user": _USER, **self._contents.tags, MARKER: self._known.marker}
        body: JSON = {
            "experiment_id": _EXPERIMENT,
            "run_name": self._contents.name,
            "user_id": _USER,
            "start_time": self._contents.moment_ms,
            "tags": [{"key": key, "value": value} for key, value in marked.items()],
        }

        self._note_run(self._service.json(CREATE, "POST", self._runs_address("create"), body).part("run", "info"))

    def _find_run(self) -> bool:
        """Look for a run with this upload's marker, and note its ids. Returns whether it was found."""
        marked = f"tags.`{MARKER}` = '{self._known.marker}'"
        body: JSON = {"experiment_ids": [_EXPERIMENT], "filter": marked, "max_results": 1}

        run = self._service.json(FIND, "POST", self._runs_address("search"), body).part("runs", 0, "info")
        if run.body is None:
            return False

        self._note_run(run)
        return True

    def _note_run(self, run: ServiceReply) -> None:
        """Note the ids of a run and its experiment in the record, or raise UploadError if the reply has no run id."""
        # The id may be a number.
        experiment = value_at(run.body, "experiment_id")
        self._known.experiment_id = _EXPERIMENT if experiment is None else checked_id(run.step, str(experiment))
        self._known.run_id = run.id("run_id")

    # -- files

    def _send_files(self, artifacts: list[Artifact]) -> None:
        """Upload files to the workspace's default storage and register each with the run.

        Each file is noted as sent at once, so that a later attempt sends only the rest.
        """
        step = UploadStep("find the workspace's storage")
        url = self._management_url("datastores", isDefault="True", count="1", orderByAsc="false")
        store = self._service.json(step, "GET", url).part("value", 0)

        store_name = store.id("name")
        account, domain = store.id("properties", "accountName"), store.text("properties", "endpoint")
        container = store.id("properties", "containerName")

        credentials = str(value_at(store.body, "properties", "credentials", "credentialsType") or "")
        address = f"https://{self._checked_host(step, f'{account}.blob.{domain}')}/{container}"
        prefix = f"promptflow/PromptFlowArtifacts/{self._run_id}/"

        # The identity itself has access to a storage without keys. A storage with keys is opened by a secret.
        if credentials.lower() == "none":
            blob_folder = BlobFolder(self._service, address, self._service.sign_in, prefix)
        else:
            blob_folder = self._open_with_secret(store_name, account, address, prefix)

        with contextlib.closing(blob_folder) as folder:
            for artifact in artifacts:
                folder.put(artifact)
                self._register(artifact, store_name, prefix)
                self._note_sent(artifact)

    def _open_with_secret(self, store: str, account: str, address: str, prefix: str) -> BlobFolder:
        """Return the folder `prefix` of the storage, opened with a temporary secret: a signature or an account key.

        The workspace gives the secret for its datastore with the name `store`.

        The reply is `{"secretsType": "Sas", "sasToken": "sv=…"}` or `{"secretsType": "AccountKey", "key": "…"}`. The
        secret is masked in errors.

        Raises:
            UploadError: the reply has no secret.
        """
        # The secret is valid for one hour. A repeated upload asks for another.
        body: JSON = {"expirableSecret": True, "expireAfterHours": 1}
        url = self._management_url("datastores", store, "listSecrets")
        step = UploadStep("get access to the workspace's storage")
        reply = self._service.json(step, "POST", url, body)

        kind = str(value_at(reply.body, "secretsType")).lower()
        secret = value_at(reply.body, {"sas": "sasToken", "accountkey": "key"}.get(kind, ""))

        if not isinstance(secret, str) or not secret:
            raise UploadError(step, "Azure's reply has neither a SAS token nor an account key", status=reply.status)

        self._service.mask(secret)
        if kind == "accountkey":
            return BlobFolder(self._service, address, {"account_name": account, "account_key": secret}, prefix)

        return BlobFolder(self._service, f"{address}?{secret.lstrip('?')}", None, prefix)

    def _register(self, artifact: Artifact, store: str, prefix: str) -> None:
        """Register a file with the run; it was uploaded to the folder `prefix` of the datastore with the name `store`.

        A file that is registered already is no error.
        """
        step = UploadStep(f"register {artifact.name}")
        body: JSON = {
            "origin": "ExperimentRun",
            "container": f"dcid.{self._run_id}",
            "path": artifact.name,
            "dataPath": {"dataStoreName": store, "relativePath": prefix + artifact.name},
        }

        # 409: an earlier attempt registered it, and the reply was lost.
        self._service.json_unless(409, step, "POST", self._tracking_url("artifact/v2.0", "artifacts/register"), body)

    # -- figures

    def _write_properties(self) -> None:
        """Write the properties by which the portal shows the run as an evaluation, as azure-ai-evaluation does."""
        run_properties = properties(self._contents, self._known.marker)
        run_properties["_azureml.evaluation_run"] = "promptflow.BatchRun"

        body: JSON = {"runId": self._run_id, "properties": run_properties}

        path = f"experimentids/{self._known.experiment_id}/runs/{self._run_id}"
        step = UploadStep("write the run's properties")
        self._service.json(step, "PATCH", self._tracking_url("history/v1.0", path), body)

    def _log_metrics(self) -> None:
        """Log each metric of the run with the time of the results, so that a repetition counts once.

        MLflow allows only some characters in a name; `metric_keys` replaces the others with `_`.
        """
        keys, moment_ms = metric_keys(self._contents.metrics), self._contents.moment_ms
        for name, value in self._contents.metrics.items():
            metric: dict[str, JSON] = {"key": keys[name], "value": value, "timestamp": moment_ms, "step": 0}
            body: JSON = {"run_uuid": self._run_id, **metric, "run_id": self._run_id}
            self._service.json(UploadStep(f"log the metric {name}"), "POST", self._runs_address("log-metric"), body)

    def _end_run(self) -> None:
        """Set the status of the run to finished, with the present time as its end."""
        end = time.time_ns() // 1_000_000
        body: JSON = {"run_uuid": self._run_id, "run_id": self._run_id, "status": "FINISHED", "end_time": end}
        self._service.json(FINISH, "POST", self._runs_address("update"), body)

    # -- addresses

    def _checked_host(self, step: UploadStep, host: str) -> str:
        """Return a host that the service names, or raise UploadError if it is not Azure's: it would get a token."""
        manager_host = urlsplit(self._project.resource_manager).netloc

        # Hosts of the resource manager count, because the user named it. The dot before each domain keeps out hosts
        # such as evilcore.windows.net.
        if not _HOST.fullmatch(host) or (host != manager_host and not host.endswith((f".{manager_host}", *_AZURE))):
            raise UploadError(step, f"Azure's reply names a host outside Azure, so nothing is sent there: {host}")
        return host

    def _management_url(self, *path: str, **query: str) -> str:
        """Return an address of the workspace, or of something below it, in Azure Resource Manager."""
        below = "".join(f"/{part}" for part in path)
        options = urlencode({"api-version": MANAGEMENT_VERSION, **query})
        return f"{self._project.resource_manager}{self._project.scope}{below}?{options}"

    def _tracking_url(self, service: str, path: str) -> str:
        """Return the address of a path of one of the workspace's tracking services."""
        return f"https://{self._host}/{service}{self._project.scope}/{path}"

    def _runs_address(self, path: str) -> str:
        """Return an address of MLflow's API for runs."""
        return self._tracking_url("mlflow/v2.0", f"api/2.0/mlflow/runs/{path}")
