"""The upload to a Foundry project's evals API: a run of an evaluation, listed with runs made in the portal."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlencode

from tunecheck.plugins import JSON, loads
from tunecheck_azure._foundry.evaluation import DEFINITION, HASH, ITEMS, read_definition
from tunecheck_azure._foundry.service import AzureService, AzureUpload, BlobFolder, ServiceReply
from tunecheck_upload import CREATE, FIND, MARKER, Artifact, Contents, UploadError, UploadRecord, UploadStep, value_at

FIND_EVALUATION = UploadStep("look for the evaluation")
CREATE_EVALUATION = UploadStep("create the evaluation", repeatable=False)
RESERVE = UploadStep("reserve a place for the rows")
REGISTER = UploadStep("register the rows")
REPLACE = UploadStep("delete the run's earlier results")
COMPLETE = UploadStep("complete the run")

MOST_INLINE = 1 << 20
"""The most bytes of rows in the request that creates the run. More rows are first uploaded as a dataset."""

API_VERSION = "v1"

_MOST_PAGES = 50
_WAITS_S = (1.0, 2.0, 4.0, 8.0, *[15.0] * 100)

_MOST_METADATA, _KEY, _VALUE = 16, 64, 512
"""Limits of the API for metadata: number of pairs, characters of a key, characters of a value."""


class EvalsUpload(AzureUpload):
    """The upload of one run: find or create the evaluation, create the run, wait until the service has read it.

    The evaluation is found by the hash of its definition, so that runs with the same data and evaluators share it.
    The service cannot change a run: for changed results, the old run is deleted and a new run is created.
    """

    def __init__(self, endpoint: str, service: AzureService, record: UploadRecord, contents: Contents) -> None:
        super().__init__(service, record, contents)
        self._project, self._base = endpoint, f"{endpoint}/openai/v1/evals"

    def send(self) -> str | None:
        """Delete an outdated run, create the evaluation and the run unless they exist, and wait for the run.

        Returns the address of the run's page, or None if the service gives none.
        """
        if self._known.run_id is not None and self._known.result_of != self._contents.fingerprint:
            self._delete_run()
        if self._known.run_id is None:
            self._known.experiment_id = self._evaluation()
            self._known.result_of = self._contents.fingerprint
            self._record.save()
        self._ensure_run()
        return self._completion()

    def is_there(self) -> bool:
        return self._service.found(FIND, self._run_url) is not None

    def _evaluation(self) -> str:
        """Return the id of the evaluation with this definition, created if there is none yet."""
        definition = read_definition(self._artifact(DEFINITION).path)
        definition_hash = value_at(definition, "metadata", HASH)
        for entry in self._list_entries(FIND_EVALUATION, self._base):
            if value_at(entry.body, "metadata", HASH) == definition_hash:
                return entry.id("id")
        reply = self._service.json(CREATE_EVALUATION, "POST", self._base, definition)
        return reply.id("id")

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
            "data_source": {"type": "jsonl", "source": self._source(self._artifact(ITEMS))},
            "metadata": self._metadata(),
        }
        reply = self._service.json(CREATE, "POST", self._runs_url, body)
        self._known.run_id = reply.id("id")

    def _source(self, items: Artifact) -> JSON:
        """Return the rows as a source for the request: inline, or as an uploaded dataset if they are too large."""
        if items.size <= MOST_INLINE:
            with items.path.open("rb") as file:
                return {"type": "file_content", "content": [loads(line) for line in file]}
        if self._known.result_id is None:
            self._known.result_id = self._send_rows(items)
            self._record.save()
        return {"type": "file_id", "id": self._known.result_id}

    def _send_rows(self, items: Artifact) -> str:
        """Upload the rows as a dataset of the project and return the dataset's id. Each attempt uses a new name."""
        place = f"{self._project}/datasets/tunecheck-{uuid.uuid4()}/versions/1"
        version = f"?api-version={API_VERSION}"
        request: JSON = {"pendingUploadType": "BlobReference"}
        reserved = self._service.json(RESERVE, "POST", f"{place}/startPendingUpload{version}", request)
        sas = reserved.text("blobReference", "credential", "sasUri")
        with contextlib.closing(BlobFolder(self._service, sas)) as folder:
            folder.put(items)
        description: JSON = {"type": "uri_file", "dataUri": f"{sas.partition('?')[0]}/{quote(items.name)}"}
        kind = "application/merge-patch+json"
        reply = self._service.json(REGISTER, "PATCH", f"{place}{version}", description, kind=kind)
        return reply.text("id")

    def _metadata(self) -> dict[str, JSON]:
        """Return the run's metadata within the API's limits: its id and marker, then tags, then metrics."""
        identity = {"tunecheck.run": self._contents.run.id, MARKER: self._known.marker}
        pairs: Mapping[str, object] = identity | {**self._contents.tags} | {**self._contents.metrics}
        fitting = [(key[:_KEY], str(value)[:_VALUE]) for key, value in pairs.items()]
        return dict(fitting[:_MOST_METADATA])

    def _delete_run(self) -> None:
        """Delete the run because its results have changed, and forget it in the record."""
        try:
            self._service.json(REPLACE, "DELETE", self._run_url)
        except UploadError as error:
            if error.status != 404:  # 404: an earlier attempt deleted the run, and the reply was lost
                raise
        self._known.run_id = self._known.result_id = None
        self._record.save()

    def _completion(self) -> str | None:
        """Wait until the service has read the run; return the address of the run's page, or None.

        Raises:
            UploadError: the run failed, and is forgotten in the record; or it is not completed after about 25 minutes.
        """
        for wait_s in _WAITS_S:
            reply = self._service.json(COMPLETE, "GET", self._run_url)
            status = value_at(reply.body, "status")
            if status == "completed":
                return reply.page("report_url")
            if status in ("failed", "canceled"):
                self._known.run_id = None  # the next upload creates another run
                self._record.save()
                raise self._service.failure(COMPLETE, f"status {status}: {value_at(reply.body, 'error', 'message')}")
            time.sleep(wait_s)
        raise self._service.failure(COMPLETE, f"its status is still {status}", unsure=True)

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
        return next(artifact for artifact in self._contents.artifacts if artifact.name == name)

    @property
    def _runs_url(self) -> str:
        return f"{self._base}/{quote(str(self._known.experiment_id), safe='')}/runs"

    @property
    def _run_url(self) -> str:
        return f"{self._runs_url}/{quote(self._run_id, safe='')}"
