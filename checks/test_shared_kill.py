"""10,000 rows of 50 ms over four workers that are killed, frozen and begun again: results are those of one process."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.platforms import posix_only
from tests.shared_runs import Workspace, finished, workers_below

from tunecheck.runs._claims import STALE_S

pytestmark = [pytest.mark.slow, posix_only, pytest.mark.timeout(900)]

ROWS, SECONDS, CALLS, WORKERS, KILLS = 10_000, 0.05, 16, 4, 25


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """The data, the service, and a run of one process and one of four that nothing happened to."""
    workspace = Workspace(tmp_path_factory.mktemp("shared"), ROWS)
    with workspace.serving(SECONDS, CALLS):
        finished(workspace.evaluate("--name", "alone"), 600)
        begun = time.monotonic()
        finished(workspace.evaluate("--name", "whole", "--on", f"local:{WORKERS}"), 600)
        workspace.unbroken_s = time.monotonic() - begun
        assert workspace.results("whole") == workspace.results("alone")
        workspace.log.write_text("")
        yield workspace


def check(workspace: Workspace, name: str, begun: float, what: str) -> None:
    """Everything is as one process has it; calls sent again are told."""
    took, asked = time.monotonic() - begun, workspace.requests()
    assert workspace.results(name) == workspace.results("alone")
    assert len(asked) == ROWS
    again = sum(asked.values()) - ROWS
    print(f"{what}: {took:.1f} s, {workspace.unbroken_s:.1f} s unbroken; {again} calls sent again")
    workspace.log.write_text("")


def test_twenty_five_workers_killed(workspace: Workspace) -> None:
    rng, begun = random.Random(3), time.monotonic()
    run = workspace.evaluate("--name", "killed", "--on", f"local:{WORKERS}")
    kills = 0
    while run.poll() is None and kills < KILLS:
        time.sleep(rng.uniform(0.1, 0.7))
        workers = workers_below(run)
        if workers and sum(workspace.requests().values()) > 100:
            rng.choice(workers).kill()
            kills += 1
    finished(run, 600)
    check(workspace, "killed", begun, f"{kills} workers killed")
    assert kills == KILLS


def test_owners_frozen_past_their_lease(workspace: Workspace) -> None:
    rng, begun = random.Random(4), time.monotonic()
    run = workspace.evaluate("--name", "frozen", "--on", f"local:{WORKERS}")
    frozen = 0
    while run.poll() is None and frozen < 3:
        time.sleep(1)
        workers = workers_below(run)
        if workers and sum(workspace.requests().values()):
            owner: psutil.Process = rng.choice(workers)
            owner.suspend()
            time.sleep(STALE_S + 2)
            owner.resume()
            frozen += 1
    finished(run, 600)
    check(workspace, "frozen", begun, f"{frozen} owners frozen for {STALE_S + 2:g} s")
    assert frozen > 0


def test_the_driver_killed_and_the_run_resumed_from_another_process(workspace: Workspace) -> None:
    begun = time.monotonic()
    run = workspace.evaluate("--name", "driverless", "--on", f"local:{WORKERS}")
    while sum(workspace.requests().values()) < ROWS // 3:
        time.sleep(0.05)
    workers = workers_below(run)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    psutil.wait_procs(workers, timeout=30)
    assert not any(worker.is_running() for worker in workers)
    finished(workspace.begin("evaluate", "--resume", workspace.run("driverless").name, "--quiet"), 600)
    check(workspace, "driverless", begun, "driver killed")


def test_a_worker_joins_from_a_shell(workspace: Workspace) -> None:
    begun = time.monotonic()
    run = workspace.evaluate("--name", "joined", "--on", "local:1")
    while not sum(workspace.requests().values()):
        time.sleep(0.05)
    folder: Path = workspace.run("joined")
    finished(workspace.begin("worker", str(folder)), 600)
    finished(run, 600)
    check(workspace, "joined", begun, "one worker, and one that joined")
