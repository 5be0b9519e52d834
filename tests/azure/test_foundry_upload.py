"""Runs go to both kinds of project: the calls, the files, the figures, and what a second upload does."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.foundry_fake import SCOPE, Fake
from tests.foundry_parts import ROWS, certificates, fake, finished_run, run, uploader

from tunecheck import ConfigurationError, Run, RunError
from tunecheck_azure import FoundryUploader
from tunecheck_azure._foundry import service as foundry_service
from tunecheck_upload import UploadError

__all__ = ["certificates", "fake", "run"]

HUB_PREFIX = "promptflow/PromptFlowArtifacts"


@pytest.fixture(params=["foundry", "hub"])
def project(request: pytest.FixtureRequest, fake: Fake) -> Any:
    return fake.project if request.param == "foundry" else fake.hub


def table(fake: Fake) -> list[dict[str, Any]]:
    name = next(blob for blob in fake.blobs() if blob.endswith("instance_results.jsonl"))
    return fake.rows(name)


def sent_metrics(fake: Fake) -> dict[str, float]:
    if fake.results:
        found: dict[str, float] = next(iter(fake.results.values()))["metrics"]
        return found
    return {key: next(iter(values))[1] for key, values in next(iter(fake.runs.values()))["metrics"].items()}


def test_a_foundry_project_gets_the_results_and_then_the_run(fake: Fake, run: Run) -> None:
    done = uploader(fake.project).upload(run)
    assert fake.steps() == ["reserve", "blob", "register", "create", "complete"]
    (shown,) = fake.runs.values()
    assert (shown["displayName"], shown["status"], shown["tags"]) == ("iteration 7", "Completed", {"team": "blue"})
    assert shown["outputs"]["evaluationResultId"].endswith("/versions/1")
    assert done.url == f"https://ai.azure.com/resource/build/evaluation/{done.run_id}"


def test_a_hub_project_gets_a_run_its_files_and_its_figures(fake: Fake, run: Run) -> None:
    done = uploader(fake.hub).upload(run)
    assert [step for step in fake.steps() if step != "metric"] == [
        "workspace",
        "create run",
        "datastore",
        "secrets",
        "blob",
        "register artifact",
        "properties",
        "finish",
    ]
    (shown,) = fake.runs.values()
    assert (shown["status"], shown["tags"]["team"], shown["info"]["run_name"]) == ("FINISHED", "blue", "iteration 7")
    assert fake.blobs() == [f"{HUB_PREFIX}/{done.run_id}/instance_results.jsonl"]
    assert fake.registered[0]["container"] == f"dcid.{done.run_id}"
    assert done.url == f"https://ai.azure.com/build/evaluation/{done.run_id}?wsid={SCOPE}"


@pytest.mark.parametrize("secret", ["sas", "key", "none"])
def test_a_hubs_storage_is_written_with_a_signature_a_key_or_the_identity(fake: Fake, run: Run, secret: str) -> None:
    fake.secret = secret
    if secret == "none":  # Azurite without TLS takes no tokens: the call is looked at instead
        with pytest.raises(Exception, match=r"upload instance_results\.jsonl"):
            uploader(fake.hub).upload(run)
        assert fake.of("blob")[0].headers["Authorization"] == "Bearer token for https://storage.azure.com/.default"
        assert fake.of("secrets") == []
        return
    done = uploader(fake.hub).upload(run)
    assert len(fake.rows(f"{HUB_PREFIX}/{done.run_id}/instance_results.jsonl")) == 3
    assert ("sig" in fake.of("blob")[0].query) == (secret == "sas")


def test_each_row_of_a_table_has_all_columns_and_numbers_to_the_last_digit(fake: Fake, project: Any, run: Run) -> None:
    uploader(project).upload(run)
    rows = table(fake)
    assert [row["line_number"] for row in rows] == [0, 1, 2]
    assert len({tuple(row) for row in rows}) == 1
    assert [row["inputs.weight"] for row in rows] == [row["weight"] for row in ROWS]
    assert rows[1]["inputs.response"] == "café = 5 €"
    assert all(key.startswith(("inputs.", "outputs.")) for row in rows for key in row if key != "line_number")


def test_errors_of_rows_are_columns_of_the_table(fake: Fake, tmp_path: Path) -> None:
    def target(*, response: str) -> dict[str, str]:
        if not response:
            raise ValueError("no answer")
        return {"said": response}

    uploader(fake.project).upload(finished_run(tmp_path, target=target))
    assert [row["outputs.error.target"] for row in table(fake)] == [None, None, "ValueError: no answer"]
    assert [row["outputs.cause"] for row in table(fake)] == [None, None, "server_fault"]
    assert sent_metrics(fake)["cause.server_fault"] == 1 / 3


def test_metrics_that_are_no_finite_numbers_are_left_out_and_named(fake: Fake, project: Any, tmp_path: Path) -> None:
    run = finished_run(tmp_path)
    summary = json.loads(run.metrics_file.read_text("utf-8"))
    summary["metrics"] |= {"own.best": "bleu", "own.none": None, "own.huge": 10**400}
    run.metrics_file.write_text(json.dumps(summary), "utf-8")
    done = uploader(project).upload(run)
    assert done.left_out == ("own.best", "own.none", "own.huge")
    assert sent_metrics(fake) == {
        name: value for name, value in summary["metrics"].items() if not name.startswith("own.")
    }


def test_the_properties_tell_the_portal_of_its_table_and_known_evaluators(fake: Fake, project: Any, run: Run) -> None:
    uploader(project).upload(run)
    (shown,) = fake.runs.values()
    found = shown["properties"]
    assert found["runType"] == "eval_run"
    assert json.loads(found["_azureml.evaluate_artifacts"]) == [{"path": "instance_results.jsonl", "type": "table"}]
    assert found["_azureml.evaluation_name_map_length"] == 1
    assert json.loads(found["_azureml.evaluation_name_map_0"]) == {"my_f1": "f1_score"}
    assert found["tunecheck.run"] == run.id


def test_report_and_logs_of_conversations_are_files_of_their_own(fake: Fake, project: Any, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": "a", "response": "x"}, {"id": "b", "response": "y"}]
    run = finished_run(
        tmp_path,
        rows,
        target=lambda response: {"inference_log": [[response, "step"]]},
        evaluators={"n": lambda response: {"n": len(response)}},
    )
    (run.folder / "report.html").write_text("<p>report", "utf-8")
    uploader(project).upload(run)
    names = {name.rpartition("PromptFlowArtifacts/")[2].partition("/")[2] or name for name in fake.blobs()}
    assert names == {"instance_results.jsonl", "multi_turn_logs.jsonl", "report.html"}
    assert "outputs.inference_log" not in table(fake)[0]
    logs = next(name for name in fake.blobs() if name.endswith("multi_turn_logs.jsonl"))
    assert [line["inference_log"] for line in fake.rows(logs)] == [[["x", "step"]], [["y", "step"]]]


def test_a_large_file_goes_in_blocks_and_arrives_whole(
    fake: Fake, project: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foundry_service, "BLOCK_BYTES", 1000)
    rows = [{"id": f"r{index}", "response": "word " * 30, "ground_truth": "word", "weight": 1.0} for index in range(40)]
    uploader(project).upload(finished_run(tmp_path, rows))
    blocks = [asked for asked in fake.of("blob") if asked.query.get("comp") == "block"]
    name = next(name for name in fake.blobs() if name.endswith("instance_results.jsonl"))
    assert len(blocks) > 5
    assert all(len(asked.body) <= 1000 for asked in blocks)
    assert b"".join(asked.body for asked in blocks) == fake.blob(name)
    assert fake.blob_md5(name) == hashlib.md5(fake.blob(name)).digest()
    assert len(fake.rows(name)) == 40


def test_an_upload_of_what_is_there_already_changes_nothing(fake: Fake, project: Any, run: Run) -> None:
    first = uploader(project).upload(run)
    calls = len(fake.asked)
    second = uploader(project).upload(run)
    assert {asked.method for asked in fake.asked[calls:]} == {"GET"}
    assert (second.unchanged, second.url, second.run_id) == (True, first.url, first.run_id)


def test_a_run_deleted_over_there_is_noticed_and_made_anew_when_asked(fake: Fake, project: Any, run: Run) -> None:
    first = uploader(project).upload(run)
    fake.runs.clear()
    with pytest.raises(
        UploadError, match=rf"uploaded run: run {first.run_id} was deleted at the destination; .* --again"
    ):
        uploader(project).upload(run)
    assert fake.runs == {}
    second = uploader(project).upload(run, again=True)
    assert list(fake.runs) == [second.run_id] != [first.run_id]
    assert uploader(project).upload(run, again=True).unchanged
    assert list(fake.runs) == [second.run_id]


def test_a_report_made_later_is_added_to_the_same_run(fake: Fake, project: Any, run: Run) -> None:
    uploader(project).upload(run)
    (run.folder / "report.html").write_text("<p>report", "utf-8")
    done = uploader(project).upload(run)
    (shown,) = fake.runs.values()
    assert not done.unchanged
    if fake.results:  # a Foundry project keeps both versions of the result
        assert shown["outputs"]["evaluationResultId"].endswith("/versions/2")
        assert len(fake.results) == 2
    assert any(name.endswith("report.html") for name in fake.blobs())


def test_one_run_goes_to_two_projects_side_by_side(fake: Fake, run: Run) -> None:
    uploader(fake.project).upload(run)
    uploader(fake.hub).upload(run)
    assert len(fake.runs) == 2
    record = json.loads((run.folder / "upload.json").read_text("utf-8"))
    assert len(record["uploads"]) == 2


def test_what_somebody_else_says_they_uploaded_changes_nothing_over_there(fake: Fake, run: Run) -> None:
    uploader(fake.project).upload(run)
    record = json.loads((run.folder / "upload.json").read_text("utf-8"))
    for known in record["uploads"].values():
        known |= {"run_id": "another-run", "complete": False}
    (run.folder / "upload.json").write_text(json.dumps(record), "utf-8")
    asked = len(fake.asked)
    with pytest.raises(ConfigurationError, match=r"upload\.json: another user wrote this record of uploads"):
        uploader(fake.project).upload(run)
    assert len(fake.asked) == asked


def test_a_simulated_run_is_refused_unless_allowed_and_then_tagged(fake: Fake, project: Any, tmp_path: Path) -> None:
    rows = [{"id": "a", "query": "hello", "ground_truth": "hi"}]
    run = finished_run(tmp_path, rows, target="simulated", evaluators={"f1_score": "f1_score"})
    with pytest.raises(ConfigurationError, match="has simulated answers; give --allow-simulated"):
        uploader(project).upload(run)
    assert fake.asked == []
    uploader(project, allow_simulated=True).upload(run)
    (shown,) = fake.runs.values()
    assert shown["tags"]["simulated"] == "true"


def test_nothing_secret_is_written_down(fake: Fake, project: Any, run: Run) -> None:
    uploader(project).upload(run)
    kept = (run.folder / "upload.json").read_text("utf-8")
    assert "token" not in kept
    assert "sig=" not in kept


def test_signing_in_happens_once_for_all_calls(fake: Fake, run: Run) -> None:
    from tests.foundry_parts import Credential

    credential = Credential()
    uploader(fake.project, credential=credential).upload(run)
    assert credential.scopes == ["https://ai.azure.com/.default"]


def test_a_run_that_has_not_finished_is_refused(fake: Fake, run: Run) -> None:
    run.write(structs.replace(run.manifest(), status="interrupted"))
    with pytest.raises(ConfigurationError, match="has not finished"):
        uploader(fake.project).upload(run)


def test_another_process_that_uploads_the_same_run_is_waited_for_by_the_user(fake: Fake, run: Run) -> None:
    from tunecheck.plugins import lock

    with lock(run.folder / ".upload.lock", "the test holds it"), pytest.raises(RunError, match="another process"):
        uploader(fake.project).upload(run)


def test_a_credential_without_get_token_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="get_token"):
        FoundryUploader("s/g/p", credential="a key")
