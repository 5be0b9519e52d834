"""Runs in Azure blob storage, as Azurite has it: each call to the storage fails once, machines die; nothing is lost."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.fault_server import FaultServer, Request, Step, answer
from tests.foundry_azurite import ACCOUNT, KEY
from tests.platforms import posix_only

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_500)]

pytest.importorskip("azure.storage.blob")
from azure.storage.blob import BlobServiceClient  # noqa: E402 - of the extra, which may not be there

TIMES = ("outputs.latency_ms", "outputs.request_id")


class FaultyProxy(ThreadingHTTPServer):
    """Passes requests on to the blob store; the one with the number `failing` is refused instead, or its reply lost."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.blobs = port
        self.failing: int | None = None
        self.lost = False
        self.down = False
        """Every connection is closed at once."""
        self.seen = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyProxy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen += 1
        if self.server.down:
            self.close_connection = True
            self.connection.close()
            return
        fails = self.server.seen == self.server.failing
        if fails and not self.server.lost:
            self._reply(403, b"<Error><Code>AuthorizationFailure</Code></Error>", {})
            return
        connection = http.client.HTTPConnection("127.0.0.1", self.server.blobs, timeout=30)
        connection.request(self.command, self.path, body, dict(self.headers))
        reply = connection.getresponse()
        content = reply.read()
        if fails:  # it was done, and nobody hears of it
            self.close_connection = True
            self.connection.close()
            return
        hop = ("connection", "transfer-encoding", "content-length", "keep-alive")
        self._reply(reply.status, content, {k: v for k, v in reply.getheaders() if k.lower() not in hop})

    do_GET = do_PUT = do_DELETE = do_HEAD = do_POST = _pass_on

    def _reply(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def proxy(blob_port: int) -> Iterator[FaultyProxy]:
    server = FaultyProxy(blob_port)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def container(blob_port: int) -> str:
    name = secrets.token_hex(8)
    BlobServiceClient(f"http://127.0.0.1:{blob_port}/{ACCOUNT}", credential=KEY).create_container(name)
    return name


class Machine:
    """A machine: a cache and a workspace of its own, the storage through the proxy."""

    def __init__(self, folder: Path, proxy: FaultyProxy, address: str, endpoint: str | None = None) -> None:
        self.folder, self.address = folder, address
        folder.mkdir(exist_ok=True)
        rows = ({"id": f"r{n}", "query": f"{n}", "ground_truth": f"answer to {n}"} for n in range(60))
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        if endpoint is not None:
            definition = {"kind": "openai", "url": endpoint, "model": "m", "auth": {"type": "none"}}
            (folder / "endpoint.yaml").write_text(json.dumps({**definition, "limits": {"concurrency": 4}}), "utf-8")
        self.env = os.environ | {
            "TUNECHECK_CACHE": str(folder / "cache"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{proxy.server_port}/{ACCOUNT}",
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tunecheck", *arguments, "--results-dir", self.address]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def says(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def rows(self) -> list[dict[str, object]]:
        """The rows of the last run, without what no two runs share."""
        assert self.says("runs", "last", "--verify")[0] == 0
        (file,) = (self.folder / "cache").glob("results/*/*/eval_results.jsonl")
        found = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        return [{key: value for key, value in row.items() if key not in TIMES} for row in found]


def reply(request: Request, attempt: int) -> Step:
    body = request.json()
    assert isinstance(body, dict)
    time.sleep(0.05)
    said = f"answer to {body['messages'][-1]['content']}"
    return answer({"choices": [{"message": {"role": "assistant", "content": said}}]})


RUN = ("evaluate", "--dataset", "rows.jsonl", "--evaluators", "f1_score", "--quiet")


@pytest.mark.parametrize("lost", [False, True], ids=["refused", "reply lost"])
def test_whichever_call_to_the_storage_fails_no_row_is_lost(
    tmp_path: Path, proxy: FaultyProxy, container: str, lost: bool
) -> None:
    first = Machine(tmp_path / "first", proxy, f"az://{container}/whole")
    assert first.says(*RUN)[0] == 0
    calls, expected = proxy.seen, first.rows()
    told = 0
    for number in range(1, calls + 1):
        machine = Machine(tmp_path / f"m{number}", proxy, f"az://{container}/{number}")
        proxy.seen, proxy.failing, proxy.lost = 0, number, lost
        code, _, err = machine.says(*RUN)
        proxy.failing = None
        if code != 0:
            told += 1
            assert code == 1
            assert "Traceback" not in err
            assert "error: " in err
            assert KEY not in err
            if "nothing is lost" in err:  # the way on that it names: the next command
                assert machine.says("runs")[0] == 0
            else:
                assert machine.says(*RUN)[0] == 0
        reader = Machine(tmp_path / f"r{number}", proxy, machine.address)
        assert reader.rows() == expected, f"call {number} of {calls}"
    print(f"{calls} calls to the storage, each failed once: {told} of the commands said so")


def test_a_run_whose_machine_died_goes_on_on_another_one(tmp_path: Path, proxy: FaultyProxy, container: str) -> None:
    with FaultServer(reply) as server:
        endpoint = server.url.removesuffix("/score")
        first = Machine(tmp_path / "first", proxy, f"az://{container}/runs", endpoint)
        process = first.start(*RUN, "--endpoint", "endpoint.yaml")
        wait_until(lambda: shipped(container, proxy) > 0)
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(0.5)  # requests that were under way arrive
        recorded = shipped(container, proxy)
        before = len(server.requests)
        second = Machine(tmp_path / "second", proxy, first.address, endpoint)
        assert second.says("evaluate", "--resume", "last", "--endpoint", "endpoint.yaml", "--quiet")[0] == 0
        assert len(second.rows()) == 60
        assert len(server.requests) - before == 60 - recorded


def test_a_run_that_is_at_work_elsewhere_is_not_resumed(tmp_path: Path, proxy: FaultyProxy, container: str) -> None:
    def slow(request: Request, attempt: int) -> Step:
        time.sleep(0.8)
        return reply(request, attempt)

    with FaultServer(slow) as server:
        endpoint = server.url.removesuffix("/score")
        first = Machine(tmp_path / "first", proxy, f"az://{container}/runs", endpoint)
        process = first.start(*RUN, "--endpoint", "endpoint.yaml")
        wait_until(lambda: shipped(container, proxy) > 0)
        second = Machine(tmp_path / "second", proxy, first.address, endpoint)
        code, _, err = second.says("evaluate", "--resume", "last", "--endpoint", "endpoint.yaml", "--quiet")
        assert (code, "is working on run" in err) == (1, True)
        process.terminate()
        process.wait()


@posix_only
def test_a_machine_that_was_cut_off_gives_way_to_the_one_that_went_on(
    tmp_path: Path, proxy: FaultyProxy, container: str
) -> None:
    def slow(request: Request, attempt: int) -> Step:
        time.sleep(0.4)
        return reply(request, attempt)

    with FaultServer(slow) as server:
        endpoint = server.url.removesuffix("/score")
        first = Machine(tmp_path / "first", proxy, f"az://{container}/runs", endpoint)
        process = first.start(*RUN, "--endpoint", "endpoint.yaml")
        wait_until(lambda: len(server.requests) >= 8)
        time.sleep(2.5)
        process.send_signal(signal.SIGSTOP)
        second = Machine(tmp_path / "second", proxy, first.address, endpoint)
        code, _, told = second.says("evaluate", "--resume", "last", "--endpoint", "endpoint.yaml", "--quiet")
        assert code == 0, told
        process.send_signal(signal.SIGCONT)
        _, told = process.communicate(timeout=60)
        assert (process.returncode, "another machine has continued" in told) == (1, True), told
    assert second.says("runs", "last", "--verify")[0] == 0
    code, _, told = first.says("runs")
    assert (code, "this machine's results are in" in told) == (0, True), told
    assert first.rows() == second.rows()


@pytest.mark.parametrize("on", [[], ["--on", "ray", "--task-cpus", str(os.cpu_count())]], ids=["here", "on ray"])
def test_an_outage_of_a_minute_pauses_only_the_mirror(
    tmp_path: Path, proxy: FaultyProxy, container: str, on: list[str]
) -> None:
    if on:
        pytest.importorskip("ray")

    def slow(request: Request, attempt: int) -> Step:
        time.sleep(4)
        return reply(request, attempt)

    with FaultServer(slow) as server:
        endpoint = server.url.removesuffix("/score")
        machine = Machine(tmp_path / "first", proxy, f"az://{container}/runs", endpoint)
        process = machine.start(*RUN, "--endpoint", "endpoint.yaml", *on)
        wait_until(lambda: shipped(container, proxy) > 0)
        proxy.down, before = True, len(server.requests)
        time.sleep(60)
        proxy.down = False
        assert len(server.requests) > before
        _, told = process.communicate(timeout=200)
    assert (process.returncode, "Tunecheck tries again" in told) == (0, True), told
    assert len(Machine(tmp_path / "second", proxy, machine.address).rows()) == 60


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for at most a minute; it fails where the condition never holds."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "it did not happen within a minute"
        time.sleep(0.1)


def shipped(container: str, proxy: FaultyProxy) -> int:
    """How many answers stand in the storage."""
    service = BlobServiceClient(f"http://127.0.0.1:{proxy.blobs}/{ACCOUNT}", credential=KEY)
    blobs = service.get_container_client(container)
    parts = [each.name for each in blobs.list_blobs() if ".parts/" in each.name]
    lines = b"".join(blobs.download_blob(name).readall() for name in parts).splitlines()
    return sum(json.loads(line)["k"] == "answer" for line in lines)
