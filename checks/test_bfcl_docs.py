"""The commands of the page about BFCL that take long, and its Python code."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.bfcl.test_bfcl_docs import Run, blocks, run, workspace
from tests.cli_parts import run_process

__all__ = ["run", "workspace"]


def test_the_page_s_other_commands_and_its_python_code_work(workspace: Path, run: Run) -> None:
    assert run("tunecheck bfcl get").code == 0
    outputs = {}
    for line in "".join(blocks("sh")).splitlines():
        said = run(line)
        talks = line.startswith("tunecheck check")  # the stand-in answers its questions with a text: findings
        assert said.code == (3 if talks else 0), (line, said.err, said.out)
        outputs[line] = said.out
    recorded = outputs["tunecheck evaluate --dataset bfcl:multi_turn_base --endpoint recorded"]
    assert "95 of 200 rows passed (47.5%)" in recorded
    assert "92 of 200 rows passed (46.0%)" in outputs["tunecheck score last --set multi_turn_state.compat=strict"]
    (code,) = blocks("python")
    said = run_process(workspace, [sys.executable, "-c", code], XDG_CACHE_HOME=str(workspace / "cache"))
    assert said.code == 0, said.err
    assert said.out.splitlines() == re.findall(r"^print\(.*\)  # (.*)$", code, re.M)
