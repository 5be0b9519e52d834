"""What several workers share holds in sum, as the service counts it: requests a minute, and money; whoever dies."""

from __future__ import annotations

import bisect
import json
import random
import secrets
import signal
import time
from pathlib import Path

import pytest
from tests.core.test_storage import azurite_variables
from tests.foundry_azurite import ACCOUNT, KEY
from tests.platforms import posix_only
from tests.shared_runs import Workspace, finished, workers_below

from tunecheck.runs._claims import STALE_S

pytestmark = [pytest.mark.slow, posix_only, pytest.mark.timeout(600)]

COST = 0.015
"""Of a call: 10 tokens given and 5 answered, at 0.001 each."""

PRICE = "input_per_million: 1000, output_per_million: 1000"


def most_within(seconds: float, times: list[float]) -> int:
    return max(bisect.bisect_left(times, begin + seconds) - at for at, begin in enumerate(times))


def most_in_a_minute(times: list[float]) -> int:
    return most_within(60, times)


def test_requests_a_minute_hold_over_two_workers_that_are_killed_and_frozen(tmp_path: Path) -> None:
    workspace, rng = Workspace(tmp_path / "w", 1_000), random.Random(1)
    with workspace.serving(0.05, 8, limits="requests_per_minute: 600"):
        run = workspace.evaluate("--name", "shared", "--on", "local:2")
        for disturb in ("kill", "freeze", "kill"):
            time.sleep(rng.uniform(10, 14))
            victim = rng.choice(workers_below(run))
            if disturb == "kill":
                victim.kill()
            else:
                victim.suspend()
                time.sleep(STALE_S + 2)
                victim.resume()
        finished(run, 300)
    times = sorted(workspace.times())
    took, most = times[-1] - times[0], most_in_a_minute(times)
    print(f"at most {most} requests in a minute of 600; {len(times)} in {took:.0f} s")
    assert len(workspace.requests()) == 1_000
    assert most <= 612
    assert most >= 500  # and it is made use of


def test_an_undisturbed_run_makes_use_of_its_limit(tmp_path: Path) -> None:
    workspace, rows, workers = Workspace(tmp_path / "w", 650), 650, 8
    with workspace.serving(0.05, 8, limits="requests_per_minute: 600"):
        finished(workspace.evaluate("--name", "shared", "--on", f"local:{workers}"), 300)
    times = sorted(workspace.times())
    print(f"{workers} workers: {rows / (times[-1] - times[0]) * 60:.0f} requests a minute of 600")
    assert most_in_a_minute(times) <= 612
    assert times[-1] - times[0] < rows / 600 * 60 * 1.25


def wait_until_asked(workspace: Workspace, requests: int) -> None:
    until = time.monotonic() + 60
    while len(workspace.times()) < requests:
        assert time.monotonic() < until, "the run does not get on"
        time.sleep(0.01)


@pytest.mark.parametrize(("disturb", "times"), [("nothing", 0), ("kill", 4), ("freeze", 1)])
def test_the_budget_is_never_exceeded(tmp_path: Path, disturb: str, times: int) -> None:
    workspace, most, rng = Workspace(tmp_path / "w", 1_800), 20.0, random.Random(2)
    with workspace.serving(0.05, 8, price=PRICE):
        run = workspace.evaluate("--name", "shared", "--on", "local:2", "--max-cost", str(most))
        for _ in range(times):
            wait_until_asked(workspace, len(workspace.times()) + rng.randrange(50, 150))
            victim = rng.choice(workers_below(run))
            if disturb == "kill":
                victim.kill()
            else:
                victim.suspend()
                time.sleep(STALE_S + 1)
                victim.resume()
        _, errors = run.communicate(timeout=200)
        spent = len(workspace.times()) * COST
        print(f"{disturb}: {spent:.3f} of {most:g} spent, as the service counts it")
        assert run.returncode == 1
        assert b"reserved by all workers" in errors, errors.decode()
        assert spent <= most + 1e-9
        assert spent >= (0.5 if times else 0.95) * most  # what dead workers held stays reserved
        # More money: it goes on from what is recorded.
        asked = len(workspace.times())
        finished(workspace.begin("evaluate", "--resume", "last", "--on", "local:2", "--max-cost", "90", "--quiet"), 200)
    assert len(workspace.requests()) == 1_800
    assert len(workspace.times()) - asked < 1_800 - 0.5 * most / COST
    metrics = json.loads((workspace.run("shared") / "metrics.json").read_text())
    assert metrics["rows"] == 1_800
    assert metrics["usage"]["target"]["cost"] == pytest.approx(1_800 * COST)


def test_they_hold_through_blob_storage(tmp_path: Path, blob_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs, container = pytest.importorskip("azure.storage.blob"), secrets.token_hex(8)
    service = blobs.BlobServiceClient(f"http://127.0.0.1:{blob_port}/{ACCOUNT}", credential=KEY)
    service.create_container(container)
    azurite_variables(blob_port, monkeypatch)
    monkeypatch.setenv("TUNECHECK_CACHE", str(tmp_path / "cache"))
    workspace, most = Workspace(tmp_path / "w", 600), 4.5
    with workspace.serving(0.05, 8, limits="requests_per_minute: 600", price=PRICE):
        at = ("--results-dir", f"az://{container}/runs")
        run = workspace.evaluate(*at, "--name", "shared", "--on", "local:2", "--max-cost", str(most))
        wait_until_asked(workspace, 100)
        random.Random(3).choice(workers_below(run)).kill()
        _, errors = run.communicate(timeout=300)
    times = sorted(workspace.times())
    print(f"{len(times) * COST:.3f} of {most:g} spent; at most {most_within(20, times)} requests in 20 s of 200")
    assert b"reserved by all workers" in errors, errors.decode()
    assert 0.8 * most <= len(times) * COST <= most + 1e-9
    assert (
        most_within(20, times) <= 200 + 10 + 2
    )  # what a bucket of one second holds, and that in any minute 2% are free


def test_a_driver_that_is_killed_leaves_the_limits_in_force(tmp_path: Path) -> None:
    """The one process that no worker needs; its workers end, and those of another machine go on within the limits."""
    workspace = Workspace(tmp_path / "w", 400)
    with workspace.serving(0.05, 8, limits="requests_per_minute: 600"):
        run = workspace.evaluate("--name", "shared", "--on", "local:1")
        wait_until_asked(workspace, 1)
        others = [workspace.begin("worker", str(workspace.run("shared"))) for _ in range(2)]
        time.sleep(5)
        run.send_signal(signal.SIGKILL)
        run.communicate()
        for other in others:
            finished(other, 200)
        finished(workspace.begin("evaluate", "--resume", "last", "--on", "local:1", "--quiet"), 200)
    assert len(workspace.requests()) == 400
    assert most_in_a_minute(sorted(workspace.times())) <= 612
