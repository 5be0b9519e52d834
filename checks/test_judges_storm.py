"""A judge whose service refuses everybody for a while is waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.core.test_judges_scripted import RULES, row
from tests.judge_scripts import JudgedWorkspace, health, serving

if TYPE_CHECKING:
    from pathlib import Path


def test_a_storm_of_429s_is_sat_out(tmp_path: Path) -> None:
    storm = {"name": "storm", "status": 429, "times": 25, "retry_after": 0.05}
    rows = [row(f"right {number}") for number in range(20)]
    with serving(tmp_path, [storm, *RULES]) as url:
        workspace = JudgedWorkspace(tmp_path, url, rows, retries=30)
        said = workspace.judged("--quiet")
        counts = health(url)["rules"]
    assert said.code == 0, said.err
    assert (counts["storm"], counts["right"]) == (25, 20)
    assert [found["outputs.difference.difference"] for found in workspace.rows().values()] == [1] * 20
    assert workspace.written()["usage"]["difference"]["calls"] == 20
