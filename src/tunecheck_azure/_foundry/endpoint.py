"""The upload to a Foundry project: first the results, then the run that refers to them."""

import contextlib
import uuid
from urllib.parse import quote

from tunecheck.plugins import JSON
from tunecheck_azure._foundry.portal import properties
from tunecheck_azure._foundry.service import AzureService, AzureUpload, BlobFolder, ServiceReply
from tunecheck_upload import CREATE, FIND, MARKER, Contents, UploadError, UploadRecord, UploadStep, value_at

API_VERSION = "2025-11-15-preview"

RESERVE = UploadStep("reserve a place for the results")
REGISTER = UploadStep("register the results")
COMPLETE = UploadStep("complete the run")

_MOST_PAGES = 50
_MOST_VERSIONS = 100


class FoundryUpload(AzureUpload):
    """The upload of one run to one Foundry project: reserve, upload, register, create, complete.

    The results become a version of a result with a random name, and the run refers to that version. Changed results
    become the next version, to which the same run then refers.
    """

    def __init__(self, endpoint: str, service: AzureService, record: UploadRecord, contents: Contents) -> None:
        super().__init__(service, record, contents)
        self._endpoint = endpoint

    def send(self) -> str | None:
        """Upload the results unless the record says that they are there, create or find the run, and complete it.

        Returns the address of the run's page, or None if the service gives none.
        """
        if self._known.result_of != self._contents.fingerprint:
            self._send_results()
        self._ensure_run()
        return self._complete_run()

    def is_there(self) -> bool:
        return self._service.found(FIND, self._url(f"evaluations/runs/{quote(self._run_id, safe='')}")) is not None

    def _send_results(self) -> None:
        """Upload the artifacts and register them as a result's next version. The result's name is recorded first."""
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
            url = self._url(f"{self._result(candidate)}/startPendingUpload")
            try:
                reply = self._service.json(RESERVE, "POST", url, body)
            except UploadError as error:
                if error.status != 409:  # 409: an earlier attempt registered that version, and the reply was lost
                    raise
                continue
            return candidate, reply
        taken = f"versions {version} to {version + _MOST_VERSIONS - 1} of this run's results are taken"
        raise UploadError(RESERVE, f"{taken}; check in Foundry who registered them", status=409)

    def _register(self, version: int, address: str) -> None:
        """Register the uploaded files as a version of the result, and record that."""
        metrics: dict[str, JSON] = dict(self._contents.metrics)
        body: JSON = {"blobUri": address, "resultType": "Evaluation", "metrics": metrics}
        url = self._url(self._result(version))
        reply = self._service.json(REGISTER, "PATCH", url, body, kind="application/merge-patch+json")
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
            link = value_at(reply.body, "nextLink")
            # The token goes with the request, so a link to another service is not followed.
            if not isinstance(link, str) or not link.startswith(self._endpoint.split("/api/", 1)[0] + "/"):
                break
            url = link
        return False

    def _complete_run(self) -> str | None:
        """Mark the run as completed with its results; return the address of its page, or None."""
        result: JSON = {"evaluationResultId": self._known.result_id}
        body: JSON = {"displayName": self._contents.name, "status": "Completed", "outputs": result}
        url = self._url(f"evaluations/runs:updateUpload/{quote(self._run_id, safe='')}")
        reply = self._service.json(COMPLETE, "PATCH", url, body)
        return reply.page("properties", "AiStudioEvaluationUri")

    def _result(self, version: int) -> str:
        return f"evaluationResults/{self._known.result_name}/versions/{version}"

    def _url(self, path: str) -> str:
        return f"{self._endpoint}/{path}?api-version={API_VERSION}"


def _run_name(run: ServiceReply) -> str:
    """Return the name, or else the id, of a run in a reply; raise UploadError if it has none."""
    return run.id("name" if value_at(run.body, "name") else "id")
