"""What a model says, in the files and on the terminal that people look at: no control characters in any of them."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import here, write_lines
from tests.pipeline_parts import only_run, run

from tunecheck import write_report

HOSTILE = "".join(map(chr, [*range(1, 9), *range(11, 32), *range(127, 160)])) + "\x1b]0;pwned\x07\x1b[2J"


def controls(text: str) -> set[str]:
    return {letter for letter in text if unicodedata.category(letter) == "Cc"} - {"\n", "\r", "\t"}


def hostile(response: str) -> dict[str, Any]:
    return {"score": 0.5, "score_passed": False, "score_result": "fail", "score_reason": f"because {HOSTILE}"}


def test_the_table_and_the_report_of_a_run_hold_none(tmp_path: Path) -> None:
    rows = [{"id": f"r{HOSTILE}", "response": HOSTILE, f"column {HOSTILE}": {"a": [HOSTILE]}}]
    run(tmp_path, rows, evaluators={"own": hostile}, evaluation_name=f"name {HOSTILE}", tags={"t": HOSTILE})
    kept = only_run(tmp_path)
    write_report(kept, kept.folder / "report.html")
    for name in ("eval_results.csv", "report.html"):
        assert not controls((kept.folder / name).read_text("utf-8-sig")), name


@pytest.mark.parametrize("form", ["markdown", "junit"])
def test_nor_do_summaries_and_what_the_terminal_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evaluators").mkdir()
    (tmp_path / "evaluators" / "own.py").write_text(
        "def own(response):\n"
        "    return {'own': 0.5, 'own_passed': False, 'own_result': 'fail', 'own_reason': response}\n"
    )
    write_lines(tmp_path / "data.jsonl", [{"id": f"r{HOSTILE}{n}", "response": f"{n}{HOSTILE}"} for n in range(3)])
    arguments = ["--dataset", "data.jsonl", "--response-column", "response", "--evaluators", "own"]
    said = here(capsys, "evaluate", *arguments, f"--{form}", f"out.{form}", "--fail-under", "own>=0.9")
    assert said.code == 3, said.err
    assert not controls(said.out + said.err)
    assert not controls((tmp_path / f"out.{form}").read_text())
