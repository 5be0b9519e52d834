"""A run that somebody else is at work on is listed as running, and one whose workers are dead is not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tunecheck._files import RunFile
from tunecheck.cli._app import main
from tunecheck.runs._at_work import at_work_elsewhere
from tunecheck.runs._claims import Claim, Claims, Moment
from tunecheck.runs._store import Run
from tunecheck.storage._mirror import Mirror, mirror_folder
from tunecheck.storage._shipping import Shipping


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunecheck.runs._at_work._LOOKED_EVERY_S", 0.01)
    monkeypatch.setattr("tunecheck.runs._at_work.STALE_S", 0.2)


@pytest.fixture
def claim(tmp_path: Path) -> Claim:
    run = Run(tmp_path / "val-20260101T120000Z-0a1b2c")
    run.folder.mkdir()
    run.write(RunFile(id=run.id, name="val", status="running"))
    run.journal.touch()
    claims = Claims.of(run, "elsewhere")
    claims.prepare([[(0, 1)]])
    claim = claims.claim()
    assert claim is not None
    return claim


@contextmanager
def renewed(claim: Claim) -> Iterator[None]:
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.02):
            claim.renew(Moment())

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["runs", "--results-dir", str(tmp_path)]) == 0
    return capsys.readouterr().out.split()[1]


def test_a_run_whose_workers_renew_their_leases_is_running(
    tmp_path: Path, claim: Claim, capsys: pytest.CaptureFixture[str]
) -> None:
    with renewed(claim):
        assert status(tmp_path, capsys) == "running"


def test_a_run_whose_workers_stand_still_was_killed(
    tmp_path: Path, claim: Claim, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(tmp_path, capsys) == "killed"


def test_for_a_run_that_nobody_holds_anything_of_nobody_waits(
    tmp_path: Path, claim: Claim, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim.release()
    monkeypatch.setattr("tunecheck.runs._at_work._LOOKED_EVERY_S", 3_600)
    assert status(tmp_path, capsys) == "killed"


def test_a_run_of_another_machine_is_running_while_its_mark_in_the_storage_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNECHECK_CACHE", str(tmp_path / "cache"))
    address = str(tmp_path / "store")
    mirror = Mirror(mirror_folder(address), address)
    mirror.push()
    run = Run(mirror.folder / "val-20260101T120000Z-0a1b2c")
    shipping = Shipping(mirror, print)
    assert at_work_elsewhere([run]) == set()
    monkeypatch.setattr("tunecheck.storage._shipping._EACH_S", 0.02)
    shipping.claim(run.id)
    assert at_work_elsewhere([run]) == set()
    shipping.start()
    assert at_work_elsewhere([run]) == {run.id}
    shipping.end()
    assert at_work_elsewhere([run]) == set()
