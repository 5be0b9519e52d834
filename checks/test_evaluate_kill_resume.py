"""`kill -9` at any moment, then resume: no recorded call is made again, none is lost, and the results are the same."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipeline_parts import strict_json, strict_lines
from tests.platforms import posix_only

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ROWS = 300


@dataclass
class Server:
    port: int
    log: Path

    def requests(self) -> list[tuple[str, int]]:
        """The key and the row of each request so far, in order."""
        lines = self.log.read_text().splitlines()
        return [(key, int(number)) for key, number in (line.split() for line in lines)]


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """The service, as a process of its own."""
    folder.mkdir(exist_ok=True)
    log = folder / "requests.log"
    log.touch()
    command = [sys.executable, str(HERE / "kill_server.py"), str(log)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield Server(int(process.stdout.readline()), log)
        finally:
            process.stdin.close()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "rows.jsonl"
    rows = [{"id": f"r{n}", "n": n, "expected": f"answer {n} word", "kind": "abc"[n % 3]} for n in range(ROWS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def begin(data: Path, folder: Path, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(HERE / "kill_run.py"), str(data), str(folder / "runs"), str(port), "resume"]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> None:
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()


def run_folder(folder: Path) -> Path:
    (manifest,) = (folder / "runs").glob("*/run.json")
    return manifest.parent


def journal_lines(folder: Path) -> list[bytes]:
    """The whole lines of the journal; a last one may be torn."""
    return [line for path in (folder / "runs").glob("*/journal.jsonl") for line in path.read_bytes().split(b"\n")[:-1]]


@pytest.fixture(scope="module")
def unbroken(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("unbroken")
    with serving(folder) as server:
        finish(begin(data, folder, server.port))
    return run_folder(folder)


def wait_for_lines(process: subprocess.Popen[bytes], folder: Path, count: int) -> None:
    while process.poll() is None and len(journal_lines(folder)) < count:
        time.sleep(0.001)


def test_an_unbroken_run_is_what_was_meant(unbroken: Path) -> None:
    """Else the other tests would compare nothing with nothing."""
    metrics = strict_json((unbroken / "metrics.json").read_bytes())
    assert (metrics["rows"], metrics["metrics"]["later.scored_count"]) == (ROWS, ROWS)
    assert 0 < metrics["metrics"]["length.error_count"] == metrics["failed_rows"] < ROWS / 2
    assert metrics["metrics"]["overlap.scored_count"] == ROWS
    assert set(metrics["by"]["kind"]) == {"a", "b", "c"}
    assert metrics["notes"] == ["these evaluators run in this process, as workers cannot import them: length"]


def as_before_it_ended(folder: Path) -> None:
    """What a crash leaves says of no more records than were on the disk then."""
    (folder / "journal.synced").unlink()
    manifest = strict_json((folder / "run.json").read_bytes())
    del manifest["records"], manifest["row_count"]
    (folder / "run.json").write_text(json.dumps(manifest | {"status": "running"}))


def test_a_run_torn_in_its_last_record_resumes_to_the_same_result(data: Path, unbroken: Path, tmp_path: Path) -> None:
    """Cut as a crash of the machine may cut it; a few cuts go the whole way, with a process and a server."""
    with serving(tmp_path) as server:
        finish(begin(data, tmp_path, server.port))
        folder = run_folder(tmp_path)
        path = folder / "journal.jsonl"
        whole = path.read_bytes()
        answer = whole[: whole.rindex(b'{"k":"answer"')]
        last = whole[len(answer) : whole.index(b"\n", len(answer)) + 1]
        row = json.loads(last)["i"]
        for cut in (0, len(last) // 2, len(last)):
            path.write_bytes(answer + last[:cut])
            as_before_it_ended(folder)
            asked = len(server.requests())
            finish(begin(data, tmp_path, server.port))
            again = {number for _, number in server.requests()[asked:]}
            assert again == (set() if cut == len(last) else {row})
            assert (folder / "eval_results.jsonl").read_bytes() == (unbroken / "eval_results.jsonl").read_bytes()


def test_a_journal_that_was_cut_after_its_process_was_killed_is_not_taken_for_a_shorter_run(
    data: Path, tmp_path: Path
) -> None:
    with serving(tmp_path) as server:
        process = begin(data, tmp_path, server.port)
        while not (synced := list((tmp_path / "runs").glob("*/journal.synced"))) or not synced[0].stat().st_size:
            time.sleep(0.01)
        process.kill()
        process.communicate()
        path = run_folder(tmp_path) / "journal.jsonl"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:4]))
        asked = len(server.requests())
        again = begin(data, tmp_path, server.port)
        _, errors = again.communicate(timeout=60)
        assert again.returncode == 1
        assert b"records are damaged or missing (at the end)" in errors
        assert len(server.requests()) == asked


def test_a_second_process_on_the_same_run_is_refused_and_harms_nothing(
    data: Path, unbroken: Path, tmp_path: Path
) -> None:
    with serving(tmp_path) as server:
        first = begin(data, tmp_path, server.port)
        wait_for_lines(first, tmp_path, 5)
        second = begin(data, tmp_path, server.port)
        _, errors = second.communicate(timeout=60)
        finish(first)
        assert len({number for _, number in server.requests()}) == ROWS
    if second.returncode:
        assert b"another process is writing" in errors
    assert (run_folder(tmp_path) / "eval_results.jsonl").read_bytes() == (unbroken / "eval_results.jsonl").read_bytes()


@posix_only
def test_an_interrupted_process_says_how_to_go_on_and_goes_on(data: Path, unbroken: Path, tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        process = begin(data, tmp_path, server.port)
        wait_for_lines(process, tmp_path, 20)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        folder = run_folder(tmp_path)
        assert f"interrupted; go on with the same Python call and resume='{folder.name}'".encode() in errors
        assert strict_json((folder / "run.json").read_bytes())["status"] == "interrupted"
        answered = {record["i"] for record in strict_lines(folder / "journal.jsonl") if record["k"] == "answer"}
        assert answered == {number for _, number in server.requests()}, "a call under way was not waited for"
        asked = len(server.requests())
        finish(begin(data, tmp_path, server.port))
        assert not answered & {number for _, number in server.requests()[asked:]}
    assert (folder / "eval_results.jsonl").read_bytes() == (unbroken / "eval_results.jsonl").read_bytes()
