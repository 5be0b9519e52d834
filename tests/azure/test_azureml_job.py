"""`tunecheck azureml job`: an evaluation as a job of Azure Machine Learning."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

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


def job(*arguments: str, evaluate: tuple[str, ...] = ("--dataset", "val.jsonl")) -> int:
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


def test_the_job_runs_evaluate_with_what_was_typed_and_keeps_its_results_as_an_output(workspace: Path) -> None:
    assert job(evaluate=("--dataset", "val.jsonl", "--mapping", "response=${data.an answer}")) == 0
    made = written(workspace)
    assert made["command"] == (
        "tunecheck evaluate --dataset val.jsonl --mapping 'response=${data.an answer}' "
        "--results-dir ${{outputs.results}}"
    )
    assert made["outputs"]["results"] == {"type": "uri_folder", "mode": "upload"}
    assert (workspace / "azureml/val" / made["code"]).resolve() == workspace.resolve()


def test_several_machines_are_a_ray_cluster_whose_head_runs_the_command(workspace: Path) -> None:
    assert job("--instances", "3") == 0
    made = written(workspace)
    assert made["command"] == "tunecheck evaluate --dataset val.jsonl --results-dir ${{outputs.results}} --on ray:auto"
    assert (made["distribution"], made["resources"]) == ({"type": "ray"}, {"instance_count": 3})
    assert "tunecheck[ray]==" in (workspace / "azureml/val/environment/Dockerfile").read_text("utf-8")


def test_results_may_go_to_blob_storage(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert job("--instances", "3", "--output", "az://evals/team") == 0
    made = written(workspace)
    assert made["command"] == "tunecheck evaluate --dataset val.jsonl --results-dir az://evals/team --on ray:auto"
    assert "outputs" not in made
    assert "tunecheck[azure-storage,ray]==" in (workspace / "azureml/val/environment/Dockerfile").read_text("utf-8")
    assert "AZURE_STORAGE_ACCOUNT_NAME is read from the environment" in capsys.readouterr().out


def test_where_rows_are_answered_is_said_by_the_number_of_machines(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert job("--instances", "2", evaluate=("--dataset", "val.jsonl", "--on", "ray")) == 2
    assert "--on: a job cannot choose its machines; give --instances" in capsys.readouterr().err


def test_data_from_elsewhere_are_an_input_of_the_job(workspace: Path) -> None:
    elsewhere = workspace.parent / "other.jsonl"
    elsewhere.write_text('{"query": "hello"}\n', "utf-8")
    assert job(evaluate=(f"--dataset={elsewhere}",)) == 0
    made = written(workspace, "other")
    assert "--dataset ${{inputs.dataset}} " in made["command"]
    assert (workspace / "azureml/other" / made["inputs"]["dataset"]["path"]).resolve() == elsewhere.resolve()


def test_data_that_azure_ml_holds_are_named_by_its_address(workspace: Path) -> None:
    assert job("--name", "held", evaluate=("--dataset", "azureml:val:3")) == 0
    assert written(workspace, "held")["inputs"]["dataset"]["path"] == "azureml:val:3"


def test_a_sidecar_that_would_stay_behind_is_told(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace.parent / "other.jsonl").write_text('{"query": "hello"}\n', "utf-8")
    (workspace.parent / "other.yaml").write_text("description: other\n", "utf-8")
    assert job(evaluate=("--dataset", "../other.jsonl")) == 2
    assert "copy it and ../other.jsonl into datasets/" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("evaluate", "says"),
    [
        (("--dataset", "vla.jsonl"), "vla.jsonl"),
        (("--datset", "val.jsonl"), "--datset"),
        (("--dataset", "val.jsonl", "--resume", "last"), "--resume"),
        (("--evaluators", "bleu"), "no data"),
        (("--dataset", "val.jsonl", "--set", "x.y=${{inputs.secret}}"), "Azure ML replaces"),
    ],
)
def test_what_a_job_could_not_run_is_told_before_it_is_written(
    workspace: Path, capsys: pytest.CaptureFixture[str], evaluate: tuple[str, ...], says: str
) -> None:
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


def test_variables_are_texts_and_the_identity_is_azure_mls_word(workspace: Path) -> None:
    assert job("--env", "DEPTH=8", "--env", "ON=true", "--identity", "user") == 0
    made = written(workspace)
    assert made["environment_variables"] == {"DEPTH": "8", "ON": "true"}
    assert made["identity"] == {"type": "user_identity"}
    assert "azure-identity" in (workspace / "azureml/val/environment/Dockerfile").read_text("utf-8")


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
def test_what_az_says_of_a_job_that_it_does_not_take_is_passed_on(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_az(workspace, "echo 'ERROR: no such compute' >&2; exit 1")
    assert job("--submit") == 1
    assert "no such compute" in capsys.readouterr().err


def test_without_az_and_its_package_the_error_says_what_to_install(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert job("--submit") == 2
    assert "az extension add --name ml" in capsys.readouterr().err
    assert (workspace / "azureml/val/job.yml").exists()
