"""Workers that are processes: killed or interrupted, they change no result."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

from tests.platforms import posix_only
from tests.shared_runs import Workspace, finished, workers_below

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@posix_only
def test_a_killed_worker_process_changes_no_result(tmp_path: Path) -> None:
    """Real processes: one is killed with calls under way, another takes its place."""
    workspace = Workspace(tmp_path, rows=120)
    with workspace.serving(seconds=0.05, calls=2):
        finished(workspace.evaluate("--name", "alone"))
        run = workspace.evaluate("--name", "shared", "--on", "local:2")
        wait_until(lambda: sum(workspace.requests().values()) > 120 + 30)
        workers_below(run)[0].kill()
        finished(run)
    assert workspace.results("shared") == workspace.results("alone")
    assert set(workspace.requests().values()) <= {2, 3}  # once for each run; in flight or not kept yet: once more
    assert not (workspace.run("shared") / "shared").exists()


@posix_only
def test_ctrl_c_ends_workers_in_order_and_the_run_goes_on_elsewhere(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, rows=120)
    with workspace.serving(seconds=0.05, calls=2):
        finished(workspace.evaluate("--name", "alone"))
        run = workspace.evaluate("--name", "shared", "--on", "local:2")
        wait_until(lambda: sum(workspace.requests().values()) > 120 + 30)
        workers = workers_below(run)
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
        assert b"interrupted; go on with" in errors
        assert not any(worker.is_running() for worker in workers)
        asked = sum(workspace.requests().values())
        finished(workspace.begin("evaluate", "--resume", "last", "--quiet"))
    assert workspace.results("shared") == workspace.results("alone")
    assert asked > 150
    assert set(workspace.requests().values()) == {2}  # what was under way was let finish, and kept


@posix_only
def test_a_worker_that_is_to_be_preempted_gives_back_what_it_has(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, rows=400)
    with workspace.serving(seconds=0.1, calls=2):
        run = workspace.evaluate("--name", "shared", "--on", "local:1")
        wait_until(lambda: sum(workspace.requests().values()) > 5)
        folder = workspace.run("shared")
        worker = workspace.begin("worker", str(folder))
        leases = folder / "shared" / "lease"
        wait_until(lambda: any(f".{worker.pid}." in path.read_text() for path in leases.glob("*-*[0-9]")))
        worker.send_signal(signal.SIGTERM)
        _, errors = worker.communicate(timeout=60)
        assert (worker.returncode, b"go on with: python -m tunecheck worker" in errors) == (143, True)
        held = [json.loads(path.read_bytes()) for path in leases.glob("[0-9]*")]
        assert [lease["released"] for lease in held if f".{worker.pid}." in lease["owner"]] == [True]
        finished(run)
    assert set(workspace.requests().values()) == {1}


@posix_only
def test_workers_may_be_started_before_the_run_that_they_wait_for(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, rows=120)
    with workspace.serving(seconds=0.05, calls=2):
        finished(workspace.evaluate("--name", "alone"))
        early = workspace.begin("worker", "shared", "--wait", "60")
        time.sleep(2)
        finished(workspace.evaluate("--name", "shared", "--on", "local:1"))
        finished(early)
    assert workspace.results("shared") == workspace.results("alone")
    manifest = json.loads((workspace.run("shared") / "run.json").read_bytes())
    assert str(early.pid) in json.dumps(manifest["workers"])


@posix_only
def test_a_worker_of_the_run_s_own_that_is_told_to_end_is_replaced(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, rows=120)
    with workspace.serving(seconds=0.05, calls=2):
        run = workspace.evaluate("--name", "shared", "--on", "local:2")
        wait_until(lambda: sum(workspace.requests().values()) > 30)
        workers_below(run)[0].terminate()
        finished(run)
    assert set(workspace.requests().values()) == {1}


@posix_only
def test_all_processes_of_a_run_told_to_end_at_once_let_their_calls_end(tmp_path: Path) -> None:
    """As a scheduler does it: workers get the signal twice, from it and from who began the run."""
    workspace = Workspace(tmp_path, rows=120)
    with workspace.serving(seconds=0.5, calls=4):
        run = workspace.evaluate("--name", "shared", "--on", "local:2")
        wait_until(lambda: sum(workspace.requests().values()) > 20)
        for process in [*workers_below(run), run]:
            process.terminate()
        _, errors = run.communicate(timeout=60)
        assert (run.returncode, b"interrupted; go on with" in errors) == (1, True)
        finished(workspace.begin("evaluate", "--resume", "last", "--quiet"))
    assert set(workspace.requests().values()) == {1}


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.01)
