"""`tunecheck worker --wait`: started beside the run that it waits for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunecheck.cli._app import main


@pytest.mark.parametrize(
    ("run", "says"),
    [("nightly", "there is no run 'nightly' in eval_results; waited 1 s for it"), ("last", "give the name of the one")],
)
def test_a_run_that_does_not_come_is_told(
    run: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["worker", run, "--wait", "1"]) == 2
    assert says in capsys.readouterr().err
