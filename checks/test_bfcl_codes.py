"""Verdicts and cause codes of both published runs are those of commit c1f5049, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest
from checks.bfcl_published_codes import TABLE, table
from tests.bfcl_copy import bfcl_copy


@pytest.mark.parametrize("mode", ["bfcl", "strict"])
def test_published_runs_have_the_codes_of_commit_c1f5049(
    mode: str, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNECHECK_BFCL", str(bfcl_copy()))
    recorded = [line for line in TABLE.read_text("utf-8").splitlines() if line.split("\t")[1] == mode]
    assert len(recorded) > 100
    assert [*table(shared_data / "bfcl_runs", mode == "bfcl")] == recorded
