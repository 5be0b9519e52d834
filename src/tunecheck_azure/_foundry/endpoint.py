"""The upload to a Foundry project: its endpoint takes the results first, then the run that shows them."""

import uuid
from urllib.parse import quote

from tunecheck._json import JSON
from tunecheck.endpoints._auth import Auth
from tunecheck_azure._foundry.blobs import BlobFolder, hide_sas
from tunecheck_azure._foundry.portal import properties
from tunecheck_upload._calls import Calls, ServiceReply, Step, UploadError, value_at
from tunecheck_upload._contents import Contents
from tunecheck_upload._record import UploadRecord
from tunecheck_upload._uploader import CREATE, FIND, RunUpload

SCOPE = "https://ai.azure.com/.default"

API_VERSION = "2025-11-15-preview"

RESERVE = Step("reserve a place for the results")
REGISTER = Step("register the results")
COMPLETE = Step("complete the run")

_MOST_PAGES = 50
_MOST_VERSIONS = 100


class FoundryUpload(RunUpload):
    """One run into one Foundry project: reserve, upload, register, create, complete.

    The results are a version of a result of their own, whose name is made by us; a run refers to that version. What is
    uploaded anew after a change becomes the next version, and the same run refers to it.
    """

    def __init__(self, endpoint: str, calls: Calls, auth: Auth, record: UploadRecord, contents: Contents) -> None:
        super().__init__(calls, auth, record, contents)
        self._endpoint = endpoint

    async def run(self) -> str | None:
        if self._known.result_of != self._contents.fingerprint:
            await self._send_results()
        await self._ensure_run()
        return await self._complete_run()

    async def is_there(self) -> bool:
        return await self._read(FIND, self._url(f"evaluations/runs/{quote(self._run_id, safe='')}")) is not None

    async def _send_results(self) -> None:
        if self._known.result_name is None:
            self._known.result_name = str(uuid.uuid4())
            self._record.save()
        version, reserved = await self._reserve()
        address = reserved.text("blobReferenceForConsumption", "blobUri")
        sas = reserved.text("blobReferenceForConsumption", "credential", "sasUri")
        hide_sas(sas, self._calls.redactor)
        folder = BlobFolder(self._calls, sas, None)
        for artifact in self._contents.artifacts:
            self._record.save(await folder.put(artifact, create_only=True))
        await self._register(version, address)

    async def _reserve(self) -> tuple[int, ServiceReply]:
        """A place for the next version that does not exist yet."""
        version = 1 + self._known.version
        body: JSON = {"pendingUploadType": "TemporaryBlobReference"}
        for candidate in range(version, version + _MOST_VERSIONS):
            url = self._url(f"{self._result(candidate)}/startPendingUpload")
            try:
                reply = await self._calls.json(RESERVE, "POST", url, self._auth, body)
            except UploadError as error:
                if error.status != 409:  # that version was registered by an attempt whose answer was lost
                    raise
                continue
            self._record.save(RESERVE)
            return candidate, reply
        raise RESERVE.failed(f"{_MOST_VERSIONS} versions are taken", status=409)

    async def _register(self, version: int, address: str) -> None:
        metrics: dict[str, JSON] = dict(self._contents.metrics)
        body: JSON = {"blobUri": address, "resultType": "Evaluation", "metrics": metrics}
        url = self._url(self._result(version))
        reply = await self._calls.json(REGISTER, "PATCH", url, self._auth, body, kind="application/merge-patch+json")
        self._known.result_id = reply.text("id")
        self._known.version, self._known.result_of = version, self._contents.fingerprint
        self._record.save(REGISTER)

    async def _create_run(self) -> None:
        body: JSON = {
            "displayName": self._contents.name,
            "properties": properties(self._contents, self._known.marker),
            "tags": dict(self._contents.tags),
        }
        reply = await self._calls.json(CREATE, "POST", self._url("evaluations/runs:upload"), self._auth, body)
        self._known.run_id = _run_name(reply.body) or reply.text("id")

    async def _find_run(self) -> bool:
        url = self._url("evaluations/runs")
        for _ in range(_MOST_PAGES):
            reply = await self._calls.json(FIND, "GET", url, self._auth)
            runs = value_at(reply.body, "value")
            for run in runs if isinstance(runs, list) else []:
                if value_at(run, "properties", "tunecheck_upload") == self._known.marker:
                    self._known.run_id = _run_name(run)
                    return self._known.run_id is not None
            link = value_at(reply.body, "nextLink")
            # The token is sent there: only where the list goes on at the same service.
            if not isinstance(link, str) or not link.startswith(self._endpoint.split("/api/", 1)[0] + "/"):
                break
            url = link
        return False

    async def _complete_run(self) -> str | None:
        result: JSON = {"evaluationResultId": self._known.result_id}
        body: JSON = {"displayName": self._contents.name, "status": "Completed", "outputs": result}
        url = self._url(f"evaluations/runs:updateUpload/{quote(self._run_id, safe='')}")
        reply = await self._calls.json(COMPLETE, "PATCH", url, self._auth, body)
        page = value_at(reply.body, "properties", "AiStudioEvaluationUri")
        self._record.save(COMPLETE)
        return page if isinstance(page, str) and page.startswith("https://") else None

    def _result(self, version: int) -> str:
        return f"evaluationResults/{self._known.result_name}/versions/{version}"

    def _url(self, path: str) -> str:
        return f"{self._endpoint}/{path}?api-version={API_VERSION}"


def _run_name(run: JSON) -> str | None:
    names = (value_at(run, "name"), value_at(run, "id"))
    return next((name for name in names if isinstance(name, str) and name), None)
