"""The jobs that `azureml job` writes: Azure ML's own loader takes them, and their command runs in their environment."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import ROOT, ReferenceEnvironment

from tunecheck.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_LOADED = """
import json, sys
from azure.ai.ml import load_job
job = load_job(sys.argv[1])
print(json.dumps({"command": job.command, "compute": job.compute, "outputs": sorted(job.outputs),
                  "inputs": sorted(job.inputs), "identity": str(job.identity),
                  "instances": job.resources.instance_count, "distribution": str(job.distribution)}))
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "."]) == 0
    return tmp_path


def test_the_official_loader_takes_a_job_with_everything(workspace: Path, reference_env: ReferenceEnvironment) -> None:
    python = reference_env("azure-ai-ml", "azure-ai-ml==1.35.2")
    options = ["--identity", "managed", "--env", "A=1", "--output", "azureml://datastores/evals/paths/val/"]
    evaluate = ["--dataset", "azureml:val:3", "--set", "bleu.threshold=0.4"]
    assert main(["azureml", "job", "--compute", "cpu", "--name", "all", *options, "--", *evaluate]) == 0
    said = subprocess.run([python, "-c", _LOADED, "azureml/all/job.yml"], capture_output=True, text=True, check=True)
    loaded = json.loads(said.stdout.splitlines()[-1])
    assert loaded["command"].endswith("--set bleu.threshold=0.4 --results-dir ${{outputs.results}}")
    assert (loaded["compute"], loaded["instances"]) == ("cpu", 1)
    assert (loaded["inputs"], loaded["outputs"]) == (["dataset"], ["results"])
    assert "managed" in loaded["identity"]


def test_the_official_loader_takes_a_job_of_several_machines(
    workspace: Path, reference_env: ReferenceEnvironment
) -> None:
    python = reference_env("azure-ai-ml", "azure-ai-ml==1.35.2")
    options = ["--instances", "3", "--output", "az://evals/team"]
    assert main(["azureml", "job", "--compute", "cpu", "--name", "all", *options, "--", "--dataset", "val.jsonl"]) == 0
    said = subprocess.run([python, "-c", _LOADED, "azureml/all/job.yml"], capture_output=True, text=True, check=True)
    loaded = json.loads(said.stdout.splitlines()[-1])
    assert (loaded["instances"], loaded["outputs"]) == (3, [])
    assert "ray" in loaded["distribution"].lower()


def test_the_command_of_a_job_runs_in_the_environment_that_its_docker_file_makes(workspace: Path) -> None:
    """The steps of the Docker file, in a virtual environment: a container tool is not needed."""
    uv = [sys.executable, "-m", "uv"]
    wheels = workspace.parent / "wheels"
    subprocess.run([*uv, "build", "-q", "--wheel", "--out-dir", wheels, ROOT], check=True)
    (wheel,) = wheels.glob("*.whl")
    assert main(["azureml", "job", "--compute", "cpu", "--wheel", str(wheel), "--", "--dataset", "val.jsonl"]) == 0

    environment, fresh = workspace / "azureml/val/environment", workspace.parent / "fresh"
    _, copied, installed = (environment / "Dockerfile").read_text("utf-8").splitlines()
    assert (environment / copied.split()[1]).read_bytes() == wheel.read_bytes()
    subprocess.run([*uv, "venv", "-q", fresh], check=True)
    requirements = shlex.split(installed.removeprefix("RUN pip install --no-cache-dir "))
    subprocess.run([*uv, "pip", "install", "-q", "--python", fresh, *requirements], cwd=environment, check=True)

    import yaml

    command = yaml.safe_load((workspace / "azureml/val/job.yml").read_text("utf-8"))["command"]
    filled = command.replace("${{outputs.results}}", str(workspace.parent / "results"))
    done = subprocess.run(f"PATH={fresh}/bin:$PATH {filled}", shell=True, cwd=workspace, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list((workspace.parent / "results").glob("*/eval_results.jsonl"))
