"""An evaluation that ends with its upload: in Python by `azure_ai_project`, on the command line by `--upload`."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.foundry_fake import Failure, Fake
from tests.foundry_parts import ROWS, Credential, certificates, fake, length

from tunecheck import ConfigurationError, evaluate
from tunecheck.cli import main
from tunecheck_upload import UploadError

__all__ = ["certificates", "fake"]


def run(folder: Path, fake: Fake, **options: Any) -> Any:
    given = {"data": ROWS, "evaluators": {"length": length}, "azure_ai_project": fake.project, **options}
    return evaluate(results_dir=folder / "runs", **{"credential": Credential(), **given})


def test_the_result_and_the_output_file_have_the_page_in_the_portal(fake: Fake, tmp_path: Path) -> None:
    result = run(tmp_path, fake, output_path=tmp_path / "out.json")
    (id_,) = fake.runs
    assert result["studio_url"] == f"https://ai.azure.com/resource/build/evaluation/{id_}"
    assert json.loads((tmp_path / "out.json").read_text("utf-8"))["studio_url"] == result["studio_url"]


def test_results_are_on_disk_when_the_upload_fails(fake: Fake, tmp_path: Path) -> None:
    fake.failures["create"] = Failure(403)
    with pytest.raises(UploadError, match="create the run"):
        run(tmp_path, fake, output_path=tmp_path / "out.json")
    assert len(json.loads((tmp_path / "out.json").read_text("utf-8"))["rows"]) == 3
    assert len(list(tmp_path.glob("runs/*/eval_results.jsonl"))) == 1


def test_a_wrong_project_is_said_before_anything_runs(fake: Fake, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"must be a Foundry project's endpoint \(https"):
        run(tmp_path, fake, azure_ai_project="http://x/api/projects/p")
    assert not (tmp_path / "runs").exists()


def test_simulated_answers_are_refused_before_anything_runs(fake: Fake, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="simulated"):
        run(tmp_path, fake, target="simulated", evaluators={"f1": "f1_score"})
    assert not (tmp_path / "runs").exists()


def test_a_credential_without_a_project_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="azure_ai_project"):
        evaluate(data=ROWS, evaluators={"length": length}, credential=Credential(), results_dir=tmp_path)


@pytest.fixture
def command(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("azure.identity.DefaultAzureCredential", Credential)
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    return [
        *("evaluate", "--dataset", str(data), "--response-column", "response", "--evaluators", "f1_score"),
        *("--results-dir", str(tmp_path / "runs"), "--upload", "--project", fake.project),
    ]


def test_the_command_prints_the_page(fake: Fake, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 0
    assert f"https://ai.azure.com/resource/build/evaluation/{next(iter(fake.runs))}" in capsys.readouterr().out


def test_the_upload_is_printed_as_json(fake: Fake, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["uploads"][0]["run_id"] in fake.runs


def test_a_gate_is_judged_and_the_upload_done_all_the_same(fake: Fake, command: list[str]) -> None:
    assert main([*command, "--fail-under", "f1_score.f1_score>=1"]) == 3
    assert len(fake.runs) == 1


def test_a_failed_upload_shows_the_results_and_exits_with_1(
    fake: Fake, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    fake.failures["create"] = Failure(403)
    assert main(command) == 1
    said = capsys.readouterr()
    assert "f1_score" in said.out
    assert "upload failed: could not create the run" in said.err


def test_uploading_needs_a_project(fake: Fake, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command[:-2]) == 2
    assert "--upload needs a destination" in capsys.readouterr().err
    assert fake.asked == []


def test_taking_a_run_up_does_not_upload_by_itself(fake: Fake, command: list[str]) -> None:
    assert main(command) == 0
    assert main(["evaluate", "--reuse", "last", *command[7:9]]) == 0
    assert len(fake.runs) == 1
