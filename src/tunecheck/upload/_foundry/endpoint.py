"""The upload to a Foundry project: its endpoint takes the results first, then the run that shows them."""

from __future__ import annotations

import uuid
from urllib.parse import quote

from tunecheck._json import JSON
from tunecheck.endpoints._auth import Auth
from tunecheck.upload._foundry.blobs import BlobFolder, hide_sas
from tunecheck.upload._foundry.calls import Answer, Calls, Step
from tunecheck.upload._foundry.contents import Contents, properties
from tunecheck.upload._foundry.faults import UploadError, field
from tunecheck.upload._foundry.projects import FoundryProject
from tunecheck.upload._foundry.record import UploadRecord

API_VERSION = "2025-11-15-preview"

RESERVE = Step("reserve a place for the results")
REGISTER = Step("register the results")
FIND = Step("look for the run")
CREATE = Step("create the run", repeatable=False)
COMPLETE = Step("complete the run")

_MOST_PAGES = 50
_MOST_VERSIONS = 100


class FoundryUpload:
    """One run into one Foundry project: reserve, upload, register, create, complete.

    The results are a version of a result of their own, whose name is made by us; a run refers to that version. What is
    uploaded anew after a change becomes the next version, and the same run refers to it.
    """

    SCOPE = "https://ai.azure.com/.default"

    def __init__(
        self, project: FoundryProject, calls: Calls, auth: Auth, record: UploadRecord, contents: Contents
    ) -> None:
        self._endpoint = project.endpoint
        self._calls = calls
        self._auth = auth
        self._record = record
        self._contents = contents

    async def run(self) -> str | None:
        """Do what is not done yet; gives the run's page in the portal, where the service names it.

        Raises:
            UploadError: a step failed; what was done is kept in the record.
        """
        if self._record.get("result_of") != self._contents.fingerprint:
            await self._send_results()
        if self._record.get("run_id") is None:
            await self._create_run()
        return await self._complete_run()

    async def _send_results(self) -> None:
        if self._record.get("result_name") is None:
            self._record.keep(result_name=str(uuid.uuid4()))
        version, reserved = await self._reserve()
        address = _text(RESERVE, reserved, "blobReferenceForConsumption", "blobUri")
        sas = _text(RESERVE, reserved, "blobReferenceForConsumption", "credential", "sasUri")
        hide_sas(sas, self._calls.redactor)
        folder = BlobFolder(self._calls, sas, None)
        for artifact in self._contents.artifacts:
            await folder.put(artifact, create_only=True)
            self._record.keep(f"upload {artifact.name}")
        await self._register(version, address)

    async def _reserve(self) -> tuple[int, Answer]:
        """A place for the next version that does not exist yet."""
        version = 1 + (self._record.number("version") or 0)
        for tried in range(version, version + _MOST_VERSIONS):
            url = self._url(f"{self._result(tried)}/startPendingUpload")
            try:
                answer = await self._calls.json(
                    RESERVE, "POST", url, self._auth, {"pendingUploadType": "TemporaryBlobReference"}
                )
            except UploadError as error:
                if error.status != 409:  # that version was registered by an attempt that heard no answer
                    raise
                continue
            self._record.keep(RESERVE.words)
            return tried, answer
        raise UploadError(f"{RESERVE.words}: {_MOST_VERSIONS} versions are taken", step=RESERVE.words, status=409)

    async def _register(self, version: int, address: str) -> None:
        metrics: dict[str, JSON] = dict(self._contents.metrics)
        body: JSON = {"blobUri": address, "resultType": "Evaluation", "metrics": metrics}
        answer = await self._calls.json(
            REGISTER,
            "PATCH",
            self._url(self._result(version)),
            self._auth,
            body,
            kind="application/merge-patch+json",
        )
        id_ = _text(REGISTER, answer, "id")
        self._record.keep(REGISTER.words, version=version, result_id=id_, result_of=self._contents.fingerprint)

    async def _create_run(self) -> None:
        id_ = await self._existing_run() if self._record.is_true("run_asked_for") else None
        if id_ is None:
            self._record.keep(run_asked_for=True)
            body: JSON = {
                "displayName": self._contents.name,
                "properties": properties(self._contents, self._record.marker),
                "tags": dict(self._contents.tags),
            }
            try:
                answer = await self._calls.json(CREATE, "POST", self._url("evaluations/runs:upload"), self._auth, body)
            except UploadError as error:
                if not error.unsure:
                    self._record.keep(run_asked_for=None)
                raise
            id_ = _run_name(answer.body) or _text(CREATE, answer, "id")
        self._record.keep(CREATE.words, run_id=id_, run_asked_for=None)

    async def _existing_run(self) -> str | None:
        """The run whose creation was asked for, and nobody heard the answer."""
        url: str | None = self._url("evaluations/runs")
        for _ in range(_MOST_PAGES):
            answer = await self._calls.json(FIND, "GET", str(url), self._auth)
            runs = field(answer.body, "value")
            for run in runs if isinstance(runs, list) else []:
                if field(run, "properties", "tunecheck.upload") == self._record.marker:
                    return _run_name(run)
            url = _next_page(answer.body, self._endpoint)
            if url is None:
                return None
        return None

    async def _complete_run(self) -> str | None:
        id_ = quote(str(self._record.get("run_id")), safe="")
        result: dict[str, JSON] = {"evaluationResultId": self._record.get("result_id")}
        body: JSON = {"displayName": self._contents.name, "status": "Completed", "outputs": result}
        url = self._url(f"evaluations/runs:updateUpload/{id_}")
        answer = await self._calls.json(COMPLETE, "PATCH", url, self._auth, body)
        page = field(answer.body, "properties", "AiStudioEvaluationUri")
        self._record.keep(COMPLETE.words)
        return page if isinstance(page, str) and page.startswith("https://") else None

    def _result(self, version: int) -> str:
        return f"evaluationResults/{self._record.get('result_name')}/versions/{version}"

    def _url(self, path: str) -> str:
        return f"{self._endpoint}/{path}?api-version={API_VERSION}"


def _text(step: Step, answer: Answer, *path: str) -> str:
    try:
        return answer.text(*path)
    except ValueError as error:
        raise UploadError(f"{step.words}: {error}", step=step.words, status=answer.status, unsure=True) from None


def _run_name(run: JSON) -> str | None:
    for key in ("name", "id"):
        value = field(run, key)
        if isinstance(value, str) and value:
            return value
    return None


def _next_page(body: JSON, endpoint: str) -> str | None:
    """Where the list goes on, if that is at the same service: the token is sent there."""
    link = field(body, "nextLink")
    host = endpoint.split("/api/", 1)[0]
    return link if isinstance(link, str) and link.startswith(f"{host}/") else None
