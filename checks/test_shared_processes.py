"""Workers that are processes: killed or interrupted, they change no result."""

from __future__ import annotations

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


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.01)
