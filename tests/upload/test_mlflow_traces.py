"""Rows of a run as traces, as a server gets them from MLflow's client."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import pytest
from tests.foundry_parts import finished_run

from tunecheck_mlflow import MlflowUploader
from tunecheck_upload import UploadError

pytest.importorskip("mlflow", reason="uploads to MLflow need its client: pip install 'tunecheck[mlflow]'")

Posted = list[tuple[str, Any]]


@contextmanager
def receiving() -> Iterator[tuple[str, Posted]]:
    """The address of a server that answers every request like one with a single run, and the bodies sent to it."""
    info = {"run_id": "a" * 32, "experiment_id": "1", "artifact_uri": "mlflow-artifacts:/1", "status": "RUNNING"}
    experiment = {"experiment_id": "1", "name": "tunecheck", "lifecycle_stage": "active"}
    run = {"info": info | {"lifecycle_stage": "active"}, "data": {}}
    answer = json.dumps({"experiment": experiment, "run": run, "runs": []}).encode()
    posted: Posted = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if "traces" in self.path:
                posted.append((self.path, json.loads(body)))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_PATCH = do_POST

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", posted
        server.shutdown()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"type": "TimedOutError", "message": "too late"}, "TimedOutError: too late"),
        ("too late", "Error: too late"),
        (None, "Error: "),
        ({}, "Error: "),
    ],
)
def test_a_trace_and_its_span_agree_that_the_target_failed(tmp_path: Path, error: object, message: str) -> None:
    infos, spans = sent(tmp_path, {"error.target": error})
    assert [info["state"] for info in infos] == ["ERROR", "OK", "OK"]
    assert [span["status"] for span in spans] == [{"code": 2, "message": message}, {"code": 1}, {"code": 1}]


def test_an_evaluators_error_that_is_only_a_text_is_sent_with_this_text(tmp_path: Path) -> None:
    infos, _ = sent(tmp_path, {"error.my_f1": "too late"})
    (assessment,) = infos[0]["assessments"]
    assert assessment["feedback"] == {"value": None, "error": {"error_code": "Error", "error_message": "too late"}}


@pytest.mark.parametrize(("retries", "connections"), [(None, 3), ("0", 1)])
def test_a_server_that_cannot_be_reached_is_given_up_soon_unless_the_user_sets_retries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retries: str | None, connections: int
) -> None:
    if retries is not None:
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", retries)
    run = finished_run(tmp_path)

    with hanging_up() as (server, attempts):
        with pytest.raises(UploadError, match=r"^upload failed: could not reach the server: .*; the run itself is in"):
            MlflowUploader(server).upload(run)
        assert len(attempts) == connections
    assert os.environ.get("MLFLOW_HTTP_REQUEST_MAX_RETRIES") == retries


@contextmanager
def hanging_up() -> Iterator[tuple[str, list[object]]]:
    """The address of a server that closes every connection without a reply, and the connections."""
    attempts: list[object] = []

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            attempts.append(self.client_address)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", attempts
        server.shutdown()


def sent(folder: Path, changes: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The descriptions of traces and the spans of an uploaded run, whose first row has these changes."""
    run = finished_run(folder)
    rows = [json.loads(line) for line in run.results.read_text("utf-8").splitlines()]
    rows[0] |= changes
    run.results.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")

    with receiving() as (server, posted):
        MlflowUploader(server).upload(run)

    infos = [body["trace"]["trace_info"] for path, body in posted if path.startswith("/api/3.0/")]
    spans = [span for path, body in posted if path == "/v1/traces" for span in sent_spans(body)]
    return infos, spans


def sent_spans(body: Any) -> list[Any]:
    """The spans of a request in OTLP's JSON."""
    (resource,) = body["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    spans: list[Any] = scope["spans"]
    return spans
