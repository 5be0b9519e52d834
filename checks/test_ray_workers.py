"""Runs on Ray: workers, a raylet and the driver killed; the results are those of one process."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tests.conftest import ROOT, ReferenceEnvironment
from tests.shared_runs import Workspace, finished

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROWS, SECONDS, CALLS, KILLS = 3_000, 0.05, 8, 25


@pytest.fixture(scope="module")
def python(reference_env: ReferenceEnvironment) -> str:
    return str(reference_env("ray", "ray==2.60.0", "-e", str(ROOT)))


@pytest.fixture
def workspace(tmp_path: Path, python: str) -> Iterator[Workspace]:
    made = Workspace(tmp_path / "workspace", ROWS)
    with made.serving(SECONDS, CALLS):
        finished(made.evaluate("--name", "alone"), 300)
        made.log.write_text("")
        made.python = python
        yield made


@contextmanager
def cluster(python: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Two nodes on this machine; gives the address, and whom to tell to kill one."""
    command = [python, str(ROOT / "checks" / "ray_cluster.py")]
    env = os.environ | {"RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        address = next(line for line in process.stdout if ":" in line and line[0].isdigit()).strip()
        try:
            yield address, process
        finally:
            process.stdin.close()


def workers(workspace: Workspace) -> list[psutil.Process]:
    """The worker processes of the workspace's run, wherever Ray has them."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if "worker" in words and "tunecheck" in words and any(str(workspace.folder) in word for word in words):
            found.append(process)
    return found


def until_asked(workspace: Workspace, rows: int) -> None:
    until = time.monotonic() + 240
    while sum(workspace.requests().values()) < rows:
        assert time.monotonic() < until, "the run does not get on"
        time.sleep(0.1)


def test_killed_workers_change_no_result(workspace: Workspace, python: str) -> None:
    chance = random.Random(7)
    with cluster(python) as (address, _):
        run = workspace.evaluate("--name", "shared", "--on", f"ray:{address}")
        until_asked(workspace, 1)
        begun, killed = time.monotonic(), 0
        while killed < KILLS and run.poll() is None:
            time.sleep(chance.uniform(0.2, 0.6))
            alive = workers(workspace)
            if alive:
                victim = chance.choice(alive)
                # Half of the time Ray's own process above it: then Ray starts the actor anew.
                (victim.parent() if chance.random() < 0.5 else victim).kill()
                killed += 1
        finished(run, 300)
        seconds = time.monotonic() - begun
    asked = workspace.requests()
    again = sum(asked.values()) - ROWS
    ideal = ROWS * SECONDS / (4 * CALLS)
    print(f"{killed} kills: {seconds:.1f} s ({seconds / ideal:.2f} x ideal), {again} calls sent again of {ROWS}")
    assert killed == KILLS
    assert workspace.results("shared") == workspace.results("alone")
    assert len(asked) == ROWS


def test_a_killed_raylet_changes_no_result(workspace: Workspace, python: str) -> None:
    with cluster(python) as (address, nodes):
        run = workspace.evaluate("--name", "shared", "--on", f"ray:{address}")
        until_asked(workspace, ROWS // 5)
        assert nodes.stdin is not None
        nodes.stdin.write("kill\n")
        nodes.stdin.flush()
        finished(run, 300)
    again = sum(workspace.requests().values()) - ROWS
    print(f"{again} calls sent again of {ROWS}")
    assert workspace.results("shared") == workspace.results("alone")


def test_a_killed_driver_leaves_a_run_that_another_process_finishes(workspace: Workspace) -> None:
    run = workspace.evaluate("--name", "shared", "--on", "ray")
    until_asked(workspace, ROWS // 5)
    run.kill()
    run.communicate()
    finished(workspace.begin("evaluate", "--resume", "last", "--on", "local:2", "--quiet"), 300)
    again = sum(workspace.requests().values()) - ROWS
    print(f"{again} calls sent again of {ROWS}")
    assert workspace.results("shared") == workspace.results("alone")
    left = [process for process in workers(workspace) if process.is_running()]
    assert left == []


def test_ctrl_c_ends_the_workers_in_order(workspace: Workspace) -> None:
    run = workspace.evaluate("--name", "shared", "--on", "ray")
    until_asked(workspace, ROWS // 5)
    run.send_signal(2)
    _, errors = run.communicate(timeout=60)
    assert b"interrupted; go on with" in errors
    assert workers(workspace) == []
