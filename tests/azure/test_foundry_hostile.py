"""Replies of a hostile or broken service: each ends in one clean error, and no key goes to another host."""

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from tests.foundry_fake import Asked, Failure, Fake
from tests.foundry_parts import certificates, fake, run, uploader

from tunecheck import Run
from tunecheck_azure import FoundryUploader
from tunecheck_azure._foundry import service as foundry_service
from tunecheck_upload import UploadError

__all__ = ["certificates", "fake", "run"]

reply = web.json_response
Answer = Callable[[Asked], web.StreamResponse]

CREATED: dict[str, tuple[str, Callable[[object], object]]] = {
    "foundry": ("_create", lambda id_: {"id": id_}),
    "evals": ("_create_run_of_evals", lambda id_: {"id": id_}),
    "hub": ("_create_run", lambda id_: {"run": {"info": {"run_id": id_, "experiment_id": id_}}}),
}
"""The step that creates the run, and the shape of its reply."""

WITHOUT_RESULT = [("foundry", "_complete"), ("evals", "_list_evals"), ("hub", "_properties"), ("hub", "_finish")]
"""Steps whose reply has no value that the upload needs."""


def uploader_of(fake: Fake, kind: str) -> FoundryUploader:
    return uploader(fake.hub if kind == "hub" else fake.project, **({"api": "evals"} if kind == "evals" else {}))


def refusal(fake: Fake, run: Run, kind: str, step: str, answer: Answer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The error's text, if this step answers so."""
    monkeypatch.setattr(fake, step, answer)
    with pytest.raises(UploadError) as caught:
        uploader_of(fake, kind).upload(run)
    text = str(caught.value)
    assert text.isprintable()
    assert "token for" not in text
    return text


@pytest.mark.parametrize("id_", ["../../x", "..", "a/b?c=d", "\x1b[31mred\nnew", "x" * 300, "", 5, None, ["a"]])
@pytest.mark.parametrize("kind", CREATED)
def test_an_id_that_could_lead_elsewhere_is_not_recorded(
    fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch, kind: str, id_: object
) -> None:
    step, shape = CREATED[kind]
    text = refusal(fake, run, kind, step, lambda _: reply(shape(id_)), monkeypatch)
    assert "create the run: the upload service's reply has no valid id" in text
    recorded = (run.folder / "upload.json").read_text("utf-8")
    assert '"run_id"' not in recorded
    assert "x" * 300 not in recorded


def test_a_number_is_an_id_of_an_experiment(fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    create = fake._create_run

    def numbered(asked: Asked) -> web.Response:
        create(asked)
        (run_id,) = fake.runs
        return reply({"run": {"info": {"run_id": run_id, "experiment_id": 5}}})

    monkeypatch.setattr(fake, "_create_run", numbered)
    uploader_of(fake, "hub").upload(run)
    assert '"experiment_id":"5"' in (run.folder / "upload.json").read_text("utf-8").replace(" ", "")


@pytest.mark.parametrize("status", [200, 302, 307])
@pytest.mark.parametrize(("kind", "step"), WITHOUT_RESULT)
def test_a_sign_in_page_or_a_redirect_does_not_pass_for_success(
    fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch, kind: str, step: str, status: int
) -> None:
    def page(_: Asked) -> web.Response:
        headers = {"Location": f"https://localhost:{fake.port}/elsewhere", "Content-Type": "text/html"}
        return web.Response(text="<html>sign in</html>", status=status, headers=headers)

    text = refusal(fake, run, kind, step, page, monkeypatch)
    assert ("is not JSON; check the project" if status == 200 else f": {status} ") in text
    assert fake.of("unknown") == []


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:9/c?sig=AAAA",
        "file:///etc/passwd?sig=AAAA",
        "garbage",
        "https://",
        "https://[::1/c?sig=AAAA",
        "https://user:pw@127.0.0.1:9/c?sig=AAAA",
        "https://127.0.0.1:9/?sig=AAAA",
        f"https://{'x' * 100}/c?sig=AAAA",
        "https://h\x1b[31m/c?sig=AAAA",
    ],
)
def test_files_go_only_to_an_encrypted_address(
    fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    place = {"blobUri": "https://h/c", "credential": {"sasUri": address}}
    answer = {"blobReferenceForConsumption": place}
    text = refusal(fake, run, "foundry", "_reserve", lambda _: reply(answer), monkeypatch)
    assert "AAAA" not in text


def test_storage_that_redirects_gets_no_file_sent_elsewhere(
    fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def elsewhere(asked: Asked, *_: Any) -> web.Response:
        return web.Response(status=307, headers={"Location": f"https://localhost:{fake.port}/elsewhere"})

    monkeypatch.setattr(fake, "_forward", elsewhere)
    with pytest.raises(UploadError, match=r"upload instance_results\.jsonl: 307"):
        uploader(fake.project).upload(run)
    assert fake.of("unknown") == []


@pytest.mark.parametrize(
    ("step", "answer"),
    [
        ("_workspace", {"properties": {"mlFlowTrackingUri": "azureml://127.0.0.1:9/mlflow"}}),
        ("_workspace", {"properties": {"mlFlowTrackingUri": "azureml://x.api.azureml.ms@127.0.0.1:9/mlflow"}}),
        ("_workspace", {"properties": {"mlFlowTrackingUri": "azureml://[::1/mlflow"}}),
        *(
            ("_datastore", {"value": [{"name": "store", "properties": {**given, "credentials": {}}}]})
            for given in (
                {"accountName": "a", "endpoint": "127.0.0.1:9", "containerName": "c"},
                {"accountName": "127.0.0.1/x", "endpoint": "core.windows.net", "containerName": "c"},
                {"accountName": "a", "endpoint": "127.0.0.1/.core.windows.net", "containerName": "c"},
            )
        ),
    ],
)
def test_a_hub_that_names_another_host_gets_no_token_for_it(
    fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch, step: str, answer: dict[str, object]
) -> None:
    monkeypatch.setattr(fake, "secret", "none")
    text = refusal(fake, run, "hub", step, lambda _: reply(answer), monkeypatch)
    assert "names a host outside Azure" in text or "has no valid id" in text


def test_a_reply_that_repeats_the_key_does_not_bring_it_into_the_error(
    fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(asked: Asked) -> web.Response:
        return reply({"status": "failed", "error": {"message": f"\x1b[31m{asked.headers['Authorization']}"}})

    assert "status failed: " in refusal(fake, run, "evals", "_get_run_of_evals", failed, monkeypatch)


@pytest.mark.parametrize(
    "address", ["http://h/", "https://ai.azure.com@h/", "https://h/\x1b[31m", "https://h/\n##vso["]
)
def test_an_address_of_a_page_that_could_mislead_is_left_out(
    fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(fake, "_complete", lambda _: reply({"properties": {"AiStudioEvaluationUri": address}}))
    assert uploader(fake.project).upload(run).url is None


@pytest.mark.parametrize("wait", ["soon", "nan", "-5"])
def test_an_odd_wait_that_the_service_asks_for_does_not_end_an_upload(fake: Fake, run: Run, wait: str) -> None:
    fake.failures["reserve"] = Failure(429, times=2, headers={"Retry-After": wait})
    uploader(fake.project).upload(run)
    assert all(0 <= waited <= 120 for waited in fake.waits)


def test_an_upload_does_not_wait_for_days_because_the_service_asks_for_it(fake: Fake, run: Run) -> None:
    fake.failures["reserve"] = Failure(429, times=2, headers={"Retry-After": "99999999"})
    with pytest.raises(UploadError, match="429"):
        uploader(fake.project).upload(run)
    assert fake.waits == []


def test_a_reply_without_end_is_refused(fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foundry_service, "_MOST_BYTES", 1 << 20)
    text = refusal(fake, run, "foundry", "_reserve", lambda _: reply("x" * (2 << 20)), monkeypatch)
    assert "Azure's reply exceeds 1 MB" in text


def test_a_certificate_file_that_is_not_there_is_named(fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/certificates.pem")
    with pytest.raises(UploadError, match=r"/nowhere/certificates\.pem"):
        uploader(fake.project).upload(run)
