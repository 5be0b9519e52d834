"""Runs on a real MLflow server: by `--mlflow`, and as a hub project's runs, whose service speaks MLflow."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from checks.foundry_mlflow import MLFLOW, mlflow_server
from msgspec import structs
from tests.conftest import ReferenceEnvironment
from tests.foundry_fake import Failure, Fake
from tests.foundry_parts import ROWS, certificates, fake, finished_run, run, uploader

from tunecheck import ConfigurationError, Run
from tunecheck.cli import main
from tunecheck_mlflow import MlflowUploader
from tunecheck_upload import UploadError

pytest.importorskip("mlflow", reason="uploads to MLflow need its client: pip install 'tunecheck[mlflow]'")

pytestmark = pytest.mark.slow

__all__ = ["certificates", "fake", "run"]

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def python(reference_env: ReferenceEnvironment) -> Path:
    return reference_env("mlflow", *MLFLOW)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mlflow")


@pytest.fixture(scope="module")
def server(python: Path, folder: Path) -> Iterator[str]:
    with mlflow_server(python, folder) as address:
        yield address


def ask(server: str, path: str, **query: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{server}/api/2.0/mlflow/{path}?{urlencode(query)}") as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def file(server: str, run_id: str, name: str) -> bytes:
    with urllib.request.urlopen(f"{server}/get-artifact?{urlencode({'run_uuid': run_id, 'path': name})}") as answer:
        content: bytes = answer.read()
        return content


def search(server: str, experiment: str, **more: object) -> list[dict[str, Any]]:
    body = json.dumps({"experiment_ids": [experiment], **more}).encode()
    request = urllib.request.Request(f"{server}/api/2.0/mlflow/runs/search", body, JSON)
    with urllib.request.urlopen(request) as answer:
        runs: list[dict[str, Any]] = json.load(answer).get("runs", [])
        return runs


def test_a_run_is_logged_with_parameters_figures_tags_and_files(server: str, run: Run) -> None:
    (run.folder / "report.html").write_text("<p>report", "utf-8")
    done = MlflowUploader(server).upload(run)
    found = ask(server, "runs/get", run_id=done.run_id)["run"]
    assert (found["info"]["status"], found["info"]["run_name"]) == ("FINISHED", "iteration 7")
    metrics = {metric["key"]: metric["value"] for metric in found["data"]["metrics"]}
    named_twice = {"my_f1.f1_score_score", "my_f1.f1_score_passed"}
    assert metrics == {name: value for name, value in run.metrics()["metrics"].items() if name not in named_twice}  # type: ignore[union-attr]
    assert done.metrics == len(metrics)
    parameters = {parameter["key"]: parameter["value"] for parameter in found["data"]["params"]}
    assert parameters["dataset.rows"] == "3"
    assert parameters["evaluators.my_f1.threshold"] == "0.5"
    tags = {tag["key"]: tag["value"] for tag in found["data"]["tags"]}
    assert (tags["team"], tags["tunecheck.run"]) == ("blue", run.id)
    assert json.loads(tags["mlflow.loggedArtifacts"]) == [{"path": "eval_results.json", "type": "table"}]
    assert file(server, done.run_id, "report.html") == b"<p>report"
    assert json.loads(file(server, done.run_id, "metrics.json")) == run.metrics()


READ_TRACES = """
import json, sys
from mlflow import MlflowClient

client = MlflowClient(tracking_uri=sys.argv[1])
run = client.get_run(sys.argv[2])
found = []
for trace in client.search_traces(locations=[run.info.experiment_id], run_id=run.info.run_id):
    (span,) = trace.data.spans
    assessments = [[each.name, each.value, each.rationale, each.source.source_type] for each in trace.info.assessments]
    found.append([trace.info.client_request_id, span.inputs, span.outputs, trace.info.state.value, sorted(assessments)])
inputs = [[each.dataset.name, each.dataset.digest, each.tags[0].value] for each in run.inputs.dataset_inputs]
print(json.dumps({"traces": sorted(found), "inputs": inputs}))
"""


def traces(python: Path, server: str, run_id: str) -> Any:
    """The run's traces and data set inputs, as MLflow's own client reads them."""
    command = [str(python), "-c", READ_TRACES, server, run_id]
    quiet = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=quiet, timeout=120)
    return json.loads(done.stdout)


def test_rows_are_traces_with_an_assessment_by_each_evaluator(python: Path, server: str, tmp_path: Path) -> None:
    def target(*, weight: float) -> dict[str, object]:
        if weight > 1:
            raise ValueError("too heavy")
        return {"response": "café = 5 €", "latency_ms": 1500}

    run = finished_run(tmp_path, target=target, evaluators={"my_f1": "f1_score"})
    done = MlflowUploader(server, experiment="traces").upload(run)
    found = traces(python, server, done.run_id)
    first, second, third = found["traces"]
    assert (first[0], first[1]["ground_truth"], first[2]["response"]) == ("a", "Rome is very sunny", "café = 5 €")
    assert (second[3], third[3]) == ("OK", "ERROR")
    ((name, passed, _, source),) = second[4]
    assert (name, passed, source) == ("my_f1", True, "CODE")
    assert first[4][0][1] is False
    ((_, value, _, _),) = third[4]
    assert value is None, "an evaluator without an answer has an error, no verdict"
    manifest = run.manifest()
    assert found["inputs"] == [[manifest.dataset.name, str(manifest.dataset.sha256)[:36], "evaluation"]]


def test_traces_that_are_sent_again_are_the_same_ones(python: Path, server: str, run: Run) -> None:
    first = MlflowUploader(server, experiment="twice").upload(run)
    record = json.loads((run.folder / "upload.json").read_text())
    before = traces(python, server, first.run_id)
    for known in record["uploads"].values():
        known.update(complete=False, traces_of=None)
    (run.folder / "upload.json").write_text(json.dumps(record | {"signature": None}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tunecheck.plugins.is_signed", lambda *_: True)
        MlflowUploader(server, experiment="twice").upload(run)
    assert traces(python, server, first.run_id) == before
    assert len(before["traces"]) == 3


def test_several_runs_are_uploaded_and_one_that_fails_keeps_none_back(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [finished_run(tmp_path, evaluation_name=name) for name in ("one", "two", "three")]
    runs[1].write(structs.replace(runs[1].manifest(), tags={"": "no name"}))
    names = [run.id for run in runs]
    assert main(["upload", *names, "--mlflow", server, "--results-dir", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.out.count("uploaded to ") == 2
    assert f"upload {runs[1].folder}" in said.err


def test_the_table_holds_every_row_to_the_last_digit(server: str, run: Run) -> None:
    done = MlflowUploader(server).upload(run)
    table = json.loads(file(server, done.run_id, "eval_results.json"))
    rows = [dict(zip(table["columns"], line, strict=True)) for line in table["data"]]
    assert [row["row_id"] for row in rows] == ["a", "b", "c"]
    assert [row["inputs.weight"] for row in rows] == [row["weight"] for row in ROWS]


def test_logging_again_changes_nothing_and_adds_no_run(server: str, run: Run) -> None:
    first = MlflowUploader(server, experiment="again").upload(run)
    (run.folder / "report.html").write_text("<p>report", "utf-8")
    second = MlflowUploader(server, experiment="again").upload(run)
    third = MlflowUploader(server, experiment="again").upload(run)
    assert first.run_id == second.run_id == third.run_id
    assert (second.unchanged, third.unchanged) == (False, True)
    experiment = ask(server, "experiments/get-by-name", experiment_name="again")["experiment"]["experiment_id"]
    assert len(search(server, experiment)) == 1
    history = ask(server, "metrics/get-history", run_id=first.run_id, metric_key="my_f1.f1_score")
    assert len(history["metrics"]) == 1


def test_a_run_that_was_deleted_on_the_server_is_noticed_and_made_anew_when_asked(server: str, run: Run) -> None:
    first = MlflowUploader(server).upload(run)
    body = json.dumps({"run_id": first.run_id}).encode()
    urllib.request.urlopen(urllib.request.Request(f"{server}/api/2.0/mlflow/runs/delete", body, JSON)).close()
    with pytest.raises(
        UploadError, match=f"{first.run_id} was deleted at the destination; upload the run again with: .* --again"
    ):
        MlflowUploader(server).upload(run)
    results = str(run.folder.parent)
    assert main(["upload", run.id, "--mlflow", server, "--again", "--results-dir", results]) == 0
    second = MlflowUploader(server).upload(run)
    assert (second.unchanged, second.run_id != first.run_id) == (True, True)
    assert ask(server, "runs/get", run_id=second.run_id)["run"]["info"]["lifecycle_stage"] == "active"


def test_more_figures_than_one_request_takes_are_logged(server: str, tmp_path: Path) -> None:
    many = {f"m{index}": index / 7 for index in range(1200)}
    run = finished_run(tmp_path, evaluators={"many": lambda response: many})
    done = MlflowUploader(server).upload(run)
    found = ask(server, "runs/get", run_id=done.run_id)["run"]["data"]["metrics"]
    assert len(found) == done.metrics > 1200


def test_the_command_logs_a_run(server: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    results = str(run.folder.parent)
    assert main(["upload", run.id, "--mlflow", server, "--results-dir", results]) == 0
    assert f"{server}/#/experiments/" in capsys.readouterr().out


def test_a_refusal_names_the_step_and_what_the_server_said(server: str, run: Run) -> None:
    run.write(structs.replace(run.manifest(), tags={"": "no name"}))
    with pytest.raises(UploadError, match=r"upload failed: could not write the tags: INVALID_PARAMETER_VALUE: "):
        MlflowUploader(server).upload(run)
    run.write(structs.replace(run.manifest(), tags={}))
    MlflowUploader(server).upload(run)


def test_files_that_are_left_to_clients_are_written_and_mlflows_package_reads_the_table(
    server: str, python: Path, run: Run, tmp_path: Path
) -> None:
    body = json.dumps({"name": "shared", "artifact_location": str(tmp_path / "shared")}).encode()
    request = urllib.request.Request(f"{server}/api/2.0/mlflow/experiments/create", body, JSON)
    with urllib.request.urlopen(request) as answer:
        experiment = json.load(answer)["experiment_id"]
    done = MlflowUploader(server, experiment="shared").upload(run)
    script = "import sys, mlflow; print(list(mlflow.load_table('eval_results.json', [sys.argv[1]])['row_id']))"
    read = subprocess.run(
        [str(python), "-c", script, done.run_id],
        env=os.environ | {"MLFLOW_TRACKING_URI": server, "MLFLOW_EXPERIMENT_NAME": "shared"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert read.returncode == 0, read.stderr[-3000:]
    assert read.stdout.splitlines()[-1] == "['a', 'b', 'c']"
    assert len(list((tmp_path / "shared").rglob("eval_results.json"))) == 1
    assert len(search(server, experiment)) == 1


@contextmanager
def answering(run_id: str, artifact_uri: str) -> Iterator[str]:
    """A server that gives every request the same answer, with this run and store."""
    known = {"run_id": run_id, "run_uuid": run_id, "experiment_id": "1", "artifact_uri": artifact_uri}
    known |= {"status": "RUNNING", "lifecycle_stage": "active"}
    experiment = {"experiment_id": "1", "name": "tunecheck", "lifecycle_stage": "active"}
    body = json.dumps({"experiment": experiment, "run": {"info": known, "data": {}}, "runs": []}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_PATCH = do_POST

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


@pytest.mark.parametrize("store", ["http://127.0.0.2:9/x", "mlflow-artifacts://127.0.0.2:9/x", "ftp://127.0.0.2:9/x"])
def test_a_server_cannot_send_files_and_tokens_elsewhere(run: Run, store: str) -> None:
    refusal = "upload failed: could not find the file storage: Tunecheck cannot write to the server's files at"
    with answering("a" * 32, store) as server, pytest.raises(UploadError, match=refusal):
        MlflowUploader(server).upload(run)


def test_a_text_that_is_no_id_is_not_recorded(run: Run) -> None:
    with answering("##vso[x]y/..\n", "mlflow-artifacts:/1") as server, pytest.raises(UploadError, match="no valid id"):
        MlflowUploader(server).upload(run)
    assert "vso" not in (run.folder / "upload.json").read_text("utf-8")


@pytest.mark.parametrize("uri", ["databricks", "file:///tmp/mlruns", "https://me:word@host", "sqlite:///m.db", ""])
def test_what_is_no_servers_address_is_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=r"the MLflow (server's )?address") as caught:
        MlflowUploader(uri)
    assert "word" not in str(caught.value).replace("password", "").replace("PASSWORD", "")


def test_a_password_does_not_go_over_a_plain_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret-token")
    with pytest.raises(ConfigurationError, match="only over https; use an https"):
        MlflowUploader("http://mlflow.example.org")


# -- a hub project, with a real MLflow server as its service of runs


def test_a_hubs_run_is_a_run_of_mlflow(server: str, fake: Fake, run: Run) -> None:
    fake.mlflow = server
    done = uploader(fake.hub).upload(run)
    found = ask(server, "runs/get", run_id=done.run_id)["run"]
    assert (found["info"]["status"], found["info"]["run_name"]) == ("FINISHED", "iteration 7")
    assert {metric["key"]: metric["value"] for metric in found["data"]["metrics"]} == run.metrics()["metrics"]
    assert {"key": "team", "value": "blue"} in found["data"]["tags"]
    assert len(fake.rows(f"promptflow/PromptFlowArtifacts/{done.run_id}/instance_results.jsonl")) == 3


@pytest.mark.parametrize("step", ["create run", "metric", "finish"])
def test_a_hubs_upload_that_is_repeated_leaves_one_run_in_mlflow(server: str, fake: Fake, run: Run, step: str) -> None:
    fake.mlflow = server
    fake.failures[step] = Failure(500, after=True, times=100)
    with pytest.raises(UploadError):
        uploader(fake.hub).upload(run)
    fake.failures.clear()
    done = uploader(fake.hub).upload(run)
    marker = json.loads((run.folder / "upload.json").read_text("utf-8"))["uploads"].popitem()[1]["marker"]
    found = search(server, "0", filter=f"tags.`tunecheck.upload` = '{marker}'")
    assert [one["info"]["run_id"] for one in found] == [done.run_id]
    assert found[0]["info"]["status"] == "FINISHED"
    history = ask(server, "metrics/get-history", run_id=done.run_id, metric_key="my_f1.f1_score")
    assert len(history["metrics"]) == 1
