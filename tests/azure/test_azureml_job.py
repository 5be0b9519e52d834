"""`tunecheck azureml job`: an evaluation as a job of Azure Machine Learning."""

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.tables import cases

from tunecheck.cli import main


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "workspace"
    (folder / "datasets").mkdir(parents=True)
    (folder / "endpoints").mkdir()
    (folder / "datasets/val.jsonl").write_text('{"query": "hello"}\n', "utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return folder


def job(*arguments: str, evaluate: Sequence[str] = ("--dataset", "val.jsonl")) -> int:
    return main(["azureml", "job", "--compute", "cpu", *arguments, "--", *evaluate])


def written(folder: Path, name: str = "val") -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load((folder / f"azureml/{name}/job.yml").read_text("utf-8"))
    return made


def fake_az(workspace: Path, script: str) -> None:
    """An `az` on the path: a shell script that keeps what it was given."""
    az = workspace.parent / "bin" / "az"
    az.parent.mkdir()
    az.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{workspace.parent}/given"\n{script}\n', "utf-8")
    az.chmod(az.stat().st_mode | stat.S_IXUSR)


@cases("azure")
def test_a_job_runs_what_was_asked_for(
    workspace: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    evaluate: list[str],
    job: dict[str, Any],
    docker: str,
    said: str,
) -> None:
    assert main(["azureml", "job", "--compute", "cpu", "--name", "val", *options, "--", *evaluate]) == 0
    made = written(workspace)
    assert {key: made.get(key) for key in job} == job
    assert docker in (workspace / "azureml/val/environment/Dockerfile").read_text("utf-8")
    assert said in capsys.readouterr().out


def test_a_job_without_a_compute_is_refused(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["azureml", "job", "--", "--dataset", "val.jsonl"]) == 2
    assert capsys.readouterr().err == "error: Missing option '--compute' (see tunecheck azureml job --help)\n"
    assert not (workspace / "azureml").exists()


def test_data_from_elsewhere_are_an_input_of_the_job(workspace: Path) -> None:
    elsewhere = workspace.parent / "other.jsonl"
    elsewhere.write_text('{"query": "hello"}\n', "utf-8")
    assert job(evaluate=(f"--dataset={elsewhere}",)) == 0
    made = written(workspace, "other")
    assert "--dataset ${{inputs.dataset}} " in made["command"]
    assert (workspace / "azureml/other" / made["inputs"]["dataset"]["path"]).resolve() == elsewhere.resolve()


@cases("azure")
def test_what_a_job_could_not_run_is_told_before_it_is_written(
    workspace: Path, capsys: pytest.CaptureFixture[str], evaluate: list[str], says: str
) -> None:
    (workspace.parent / "other.jsonl").write_text('{"query": "hello"}\n', "utf-8")
    (workspace.parent / "other.yaml").write_text("description: other\n", "utf-8")
    assert job(evaluate=evaluate) == 2
    assert says in capsys.readouterr().err
    assert not (workspace / "azureml").exists()


def test_a_secret_of_the_endpoint_stays_here_and_is_named(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_KEY", "hunter2-hunter2")
    definition = "kind: openai\nurl: http://127.0.0.1:1/v1\nmodel: m\nauth: {type: key, value: '${env:MY_KEY}'}\n"
    (workspace / "endpoints/mine.yaml").write_text(definition, "utf-8")
    assert job("--json", evaluate=("--dataset", "val.jsonl", "--endpoint", "mine")) == 0
    assert json.loads(capsys.readouterr().out)["variables_needed"] == ["MY_KEY"]
    assert "hunter2" not in "".join(path.read_text("utf-8") for path in workspace.rglob("azureml/**/*.*"))


def test_files_with_secrets_are_not_copied_into_the_job(workspace: Path) -> None:
    (workspace / ".gitignore").write_text("models/")
    assert job() == 0
    ignored = (workspace / ".amlignore").read_text("utf-8").splitlines()
    assert ignored[:2] == ["models/", "eval_results/"]
    assert {".env", "*.pem", ".netrc"} <= {*ignored}


@pytest.mark.parametrize("variable", ["HF_TOKEN=x", "ANYTHING=sk-abcdefghijklmnopqrstuvwx"])
def test_a_secret_is_not_written_into_the_job(
    workspace: Path, capsys: pytest.CaptureFixture[str], variable: str
) -> None:
    assert job("--env", variable) == 2
    assert (
        f"--env {variable.partition('=')[0]}: job.yml would show this possible secret. For secrets, use auth"
        in capsys.readouterr().err
    )
    assert not (workspace / "azureml").exists()


def test_a_job_that_is_there_is_replaced_only_when_told(workspace: Path) -> None:
    assert job() == 0
    before = (workspace / "azureml/val/job.yml").read_bytes()
    assert job("--experiment", "other") == 2
    assert (workspace / "azureml/val/job.yml").read_bytes() == before
    assert job("--experiment", "other", "--overwrite") == 0
    assert written(workspace)["experiment_name"] == "other"


@pytest.mark.skipif(os.name == "nt", reason="the az of this test is a shell script")
def test_az_is_handed_the_file_and_says_where_the_job_is(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake_az(workspace, "echo https://ml.example/runs/1")
    assert job("--submit", "--workspace", "w", "--resource-group", "g") == 0
    given = (workspace.parent / "given").read_text("utf-8").split()
    assert given[:5] == ["ml", "job", "create", "--file", "azureml/val/job.yml"]
    assert given[5:9] == ["--workspace-name", "w", "--resource-group", "g"]
    assert "submitted: https://ml.example/runs/1" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="the az of this test is a shell script")
def test_what_az_says_of_a_refused_job_is_passed_on(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake_az(workspace, "echo 'ERROR: no such compute' >&2; exit 1")
    assert job("--submit") == 1
    assert "no such compute" in capsys.readouterr().err


def test_without_az_and_its_package_the_error_says_what_to_install(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert job("--submit") == 2
    assert "az extension add --name ml" in capsys.readouterr().err
    assert (workspace / "azureml/val/job.yml").exists()


def test_a_package_without_its_sign_in_is_not_used(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunecheck.endpoints.can_import", lambda package: package == "azure.ai.ml")
    assert job("--submit") == 2
    assert "azure-ai-ml azure-identity" in capsys.readouterr().err
