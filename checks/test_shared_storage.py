"""A run shared by workers through Azure storage, as Azurite has it: workers, an owner, the driver, the storage fail."""

from __future__ import annotations

import os
import random
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from checks.test_storage_runs import FaultyProxy, proxy
from tests.foundry_azurite import ACCOUNT, KEY
from tests.platforms import posix_only
from tests.shared_runs import Workspace, finished, workers_below
from tunecheck.runs._claims import STALE_S

pytest.importorskip("obstore", reason="az:// is spoken by obstore, which is not installed")
from azure.storage.blob import BlobServiceClient

__all__ = ["proxy"]

pytestmark = [pytest.mark.slow, posix_only, pytest.mark.timeout(900)]

ROWS, SECONDS, CALLS, WORKERS, KILLS = 2_000, 0.05, 16, 4, 10


class Stored(Workspace):
    """Runs stand in the storage; what a command has read of them, in the cache."""

    address: str

    def run(self, name: str) -> Path:
        (folder,) = (self.folder / "cache").glob(f"results/*/{name}-*")
        return folder

    def share(self, name: str) -> Any:
        return self.evaluate("--name", name, "--on", f"local:{WORKERS}", "--results-dir", self.address)


@pytest.fixture
def workspace(tmp_path: Path, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stored]:
    container = secrets.token_hex(8)
    BlobServiceClient(f"http://127.0.0.1:{proxy.blobs}/{ACCOUNT}", credential=KEY).create_container(container)
    for name, value in {
        "TUNECHECK_CACHE": str(tmp_path / "cache"),
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{proxy.server_port}/{ACCOUNT}",
        "AZURE_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    workspace = Stored(tmp_path, ROWS)
    workspace.address = f"az://{container}/team"
    with workspace.serving(SECONDS, CALLS):
        yield workspace


def check(workspace: Stored, name: str, begun: float, what: str) -> None:
    """Every row is there once, with the answer that belongs to it."""
    rows, metrics = workspace.results(name)
    assert [row["inputs.id"] for row in rows] == [f"r{number}" for number in range(ROWS)]
    assert all(row["outputs.f1_score.f1_score"] == 1 for row in rows)
    assert metrics["metrics"]["f1_score.f1_score"] == 1
    asked = workspace.requests()
    print(f"{what}: {time.monotonic() - begun:.1f} s; {sum(asked.values()) - ROWS} calls sent again")
    assert len(asked) == ROWS


def test_workers_killed(workspace: Stored) -> None:
    rng, begun, kills = random.Random(3), time.monotonic(), 0
    run = workspace.share("killed")
    while run.poll() is None and kills < KILLS:
        time.sleep(rng.uniform(0.2, 1.0))
        workers = workers_below(run)
        if workers and sum(workspace.requests().values()) > 100:
            rng.choice(workers).kill()
            kills += 1
    finished(run, 600)
    check(workspace, "killed", begun, f"{kills} workers killed")


def test_an_owner_frozen_past_its_lease(workspace: Stored) -> None:
    begun = time.monotonic()
    run = workspace.share("frozen")
    while not sum(workspace.requests().values()) or not workers_below(run):
        time.sleep(0.1)
    time.sleep(1)
    frozen: psutil.Process = workers_below(run)[0]
    frozen.suspend()
    time.sleep(STALE_S + 2)
    frozen.resume()
    finished(run, 600)
    check(workspace, "frozen", begun, f"an owner frozen for {STALE_S + 2:g} s")


def test_the_driver_killed_and_the_run_resumed(workspace: Stored) -> None:
    begun = time.monotonic()
    run = workspace.share("driverless")
    while sum(workspace.requests().values()) < ROWS // 3:
        time.sleep(0.05)
    workers = workers_below(run)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    psutil.wait_procs(workers, timeout=30)
    resumed = ("--resume", "last", "--on", f"local:{WORKERS}", "--results-dir", workspace.address, "--quiet")
    finished(workspace.begin("evaluate", *resumed), 600)
    check(workspace, "driverless", begun, "driver killed")


@pytest.mark.parametrize("lost", [False, True], ids=["refused", "reply lost"])
def test_calls_to_the_storage_fail_now_and_then(workspace: Stored, proxy: FaultyProxy, lost: bool) -> None:
    """One of sixty: the run ends well, or says what it could not do, and goes on from there."""
    begun, proxy.lost = time.monotonic(), lost
    proxy.failing = 60
    run = workspace.share("faults")
    while run.poll() is None:
        time.sleep(0.05)
        if proxy.seen > (proxy.failing or 0):
            proxy.failing = proxy.seen + 60
    proxy.failing = None
    _, told = run.communicate()
    for _ in range(3):
        if run.returncode == 0:
            break
        assert told.decode().splitlines()[-1].startswith("error: "), told.decode()
        resumed = ("--resume", "last", "--on", f"local:{WORKERS}", "--results-dir", workspace.address, "--quiet")
        run = workspace.begin("evaluate", *resumed)
        _, told = run.communicate(timeout=600)
    assert run.returncode == 0, told.decode()
    check(workspace, "faults", begun, f"calls {'whose replies were lost' if lost else 'that were refused'}")
    assert os.environ["AZURE_STORAGE_ACCOUNT_KEY"] not in told.decode()
