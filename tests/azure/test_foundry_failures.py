"""Every step fails in every way: the error says which and why, and a repeat ends with one run in the portal."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.foundry_fake import FAILURES, Failure, Fake
from tests.foundry_parts import certificates, fake, finished_run, run, uploader

from tunecheck import Run
from tunecheck.cli import main
from tunecheck_azure._foundry import service as foundry_service
from tunecheck_upload import UploadError

__all__ = ["certificates", "fake", "run"]

STEPS = [(kind, step) for kind, steps in FAILURES.items() for step in steps]


def place(fake: Fake, kind: str) -> Any:
    return fake.project if kind == "foundry" else fake.hub


@pytest.mark.parametrize(("kind", "step"), [pair for pair in STEPS if pair[1] != "blob"])
def test_a_busy_service_is_asked_again_after_the_time_that_it_names(fake: Fake, run: Run, kind: str, step: str) -> None:
    fake.failures[step] = Failure(429, times=2, headers={"Retry-After": "7"})
    uploader(place(fake, kind)).upload(run)
    assert fake.waits == [7, 7]
    assert len(fake.runs) == 1


@pytest.mark.parametrize("kind", FAILURES)
def test_a_busy_storage_is_asked_again(fake: Fake, run: Run, kind: str) -> None:
    fake.failures["blob"] = Failure(503, times=2)
    uploader(place(fake, kind)).upload(run)
    assert len(fake.waits) == 2
    assert len(fake.runs) == 1


@pytest.mark.parametrize(("kind", "step"), [pair for pair in STEPS if not pair[1].startswith("create")])
def test_a_step_that_can_be_done_twice_survives_a_short_outage(fake: Fake, run: Run, kind: str, step: str) -> None:
    fake.failures[step] = Failure(502, after=True, times=2)
    uploader(place(fake, kind)).upload(run)
    assert len(fake.runs) == 1


@pytest.mark.parametrize(("kind", "step"), [("foundry", "create"), ("hub", "create run")])
def test_a_run_is_not_asked_for_twice_when_the_answer_is_lost(fake: Fake, run: Run, kind: str, step: str) -> None:
    fake.failures[step] = Failure(504, after=True, times=100)
    with pytest.raises(UploadError) as caught:
        uploader(place(fake, kind)).upload(run)
    assert caught.value.unsure
    assert len(fake.of(step)) == 1
    fake.failures.clear()
    uploader(place(fake, kind)).upload(run)
    assert len(fake.of(step)) == 1
    assert len(fake.of("list" if kind == "foundry" else "search")) >= 1


@pytest.mark.parametrize(("kind", "step"), [("foundry", "create"), ("hub", "create run")])
def test_a_run_certainly_not_made_is_asked_again_without_a_search(fake: Fake, run: Run, kind: str, step: str) -> None:
    fake.failures[step] = Failure(403, times=1)
    with pytest.raises(UploadError, match="lacks a permission"):
        uploader(place(fake, kind)).upload(run)
    uploader(place(fake, kind)).upload(run)
    assert fake.of("list") == fake.of("search") == []


def test_files_that_are_there_are_not_sent_again(fake: Fake, run: Run) -> None:
    fake.failures["finish"] = Failure(403)
    with pytest.raises(UploadError):
        uploader(fake.hub).upload(run)
    uploader(fake.hub).upload(run)
    assert len(fake.of("blob")) == 1


def test_a_failed_block_is_sent_again_by_itself(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foundry_service, "BLOCK_BYTES", 1000)
    fake.failures["blob"] = Failure(503, times=1)
    rows = [{"id": f"r{index}", "response": "word " * 30, "ground_truth": "word", "weight": 1.0} for index in range(20)]
    uploader(fake.project).upload(finished_run(tmp_path, rows))
    blocks = [asked.query["blockid"] for asked in fake.of("blob") if asked.query.get("comp") == "block"]
    assert len(blocks) == len(set(blocks)) + 1


def test_an_answer_of_another_shape_is_said_to_be_one(fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from aiohttp import web

    monkeypatch.setattr(fake, "_reserve", lambda asked: web.json_response([{"strange": None}]))
    with pytest.raises(
        UploadError, match=r"the service's reply has no usable text in blobReferenceForConsumption\.blobUri"
    ):
        uploader(fake.project).upload(run)


def test_a_signature_that_storage_refuses_is_not_shown(fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fake._sas
    monkeypatch.setattr(fake, "_sas", lambda container: real(container).replace("sig=", "sig=AAAA"))
    with pytest.raises(UploadError, match=r"403 Forbidden: \(AuthorizationFailure\)|403") as caught:
        uploader(fake.project).upload(run)
    assert "AAAA" not in str(caught.value)
    assert caught.value.request_id


def test_a_token_that_cannot_be_had_is_said_at_the_step_that_needed_it(fake: Fake, run: Run) -> None:
    class NoCredential:
        def get_token(self, *scopes: str, **options: Any) -> None:
            raise RuntimeError("no one is\nsigned in")

    with pytest.raises(
        UploadError, match=r"reserve a place .*: the credential gave no Microsoft Entra token: no one is signed in"
    ):
        uploader(fake.project, credential=NoCredential()).upload(run)


def test_an_untrusted_certificate_is_not_argued_with(fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(UploadError, match=r"no secure connection: .*SSL_CERT_FILE"):
        uploader(fake.project).upload(run)
    assert fake.waits == []


def test_a_damaged_record_is_said_instead_of_uploading_anew(fake: Fake, run: Run) -> None:
    (run.folder / "upload.json").write_text('{"uploads": [', "utf-8")
    with pytest.raises(Exception, match=r"upload\.json: cannot be read"):
        uploader(fake.project).upload(run)
    assert fake.asked == []


def test_the_command_says_the_step_and_exits_with_1(
    fake: Fake, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.foundry_parts import Credential

    monkeypatch.setattr("azure.identity.DefaultAzureCredential", Credential)
    fake.failures["create"] = Failure(403)
    code = main(["upload", run.id, "--project", fake.project, "--results-dir", str(run.folder.parent)])
    said = capsys.readouterr().err
    assert code == 1
    assert said.startswith("error: upload failed: could not create the run: 403 Forbidden: (Broken) create is down")
    assert f"continue with: tunecheck upload {run.folder} --project {fake.project}" in said
    assert main(["upload", "last", "--project", fake.project, "--results-dir", str(run.folder.parent), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["run_id"] in fake.runs
    assert told["unchanged"] is False


def test_the_command_to_go_on_with_works_for_a_simulated_run_too(fake: Fake, tmp_path: Path) -> None:
    rows = [{"id": "a", "query": "hello", "ground_truth": "hi"}]
    run = finished_run(tmp_path, rows, target="simulated", evaluators={"f1_score": "f1_score"})
    fake.failures["create"] = Failure(403)
    with pytest.raises(UploadError, match=r"continue with: tunecheck upload \S+ --project \S+ --allow-simulated$"):
        uploader(fake.project, allow_simulated=True).upload(run)


def test_the_command_to_go_on_with_names_the_projects_file_which_may_name_the_resource_manager(
    fake: Fake, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "project.json"
    file.write_text(json.dumps(fake.hub))
    fake.failures["create run"] = Failure(403)
    with pytest.raises(UploadError, match=rf"continue with: tunecheck upload \S+ --project {re.escape(str(file))}$"):
        uploader(file).upload(run)
