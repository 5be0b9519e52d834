"""checks/goodai_rescore.py: recorded rows scored again, each written as it was with our score behind it."""

import json
from pathlib import Path
from typing import Any

import pytest
from checks.goodai_rescore import given_of_row, main, rescore_file
from tests.memory_scoring_parts import recorded

from tunecheck.plugins import JSON

ROW = {"dataset": "Colours", "kind": "exact", "expected": ["Red"], "responses": ["Red."], "score": 1.0}


def written(path: Path, *lines: str | bytes) -> Path:
    path.write_bytes(b"".join(line.encode() if isinstance(line, str) else line for line in lines))
    return path


def line(**changes: Any) -> str:
    return json.dumps({**ROW, **changes}) + "\n"


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in path.read_text(encoding="utf-8").splitlines()]


def test_rows_are_written_again_in_order_with_our_score_behind_their_own_keys(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", line(extra={"z": [1, 2**70, 0.1]}), line(responses=["Blue."], score=0))
    rescore_file(source, tmp_path / "out.jsonl")
    first, second = rows_of(tmp_path / "out.jsonl")
    assert list(first) == [*ROW, "extra", "our_score", "our_reasons"]
    assert {key: first[key] for key in (*ROW, "extra")} == {**ROW, "extra": {"z": [1, 2**70, 0.1]}}
    assert (first["our_score"], second["our_score"]) == (1.0, 0.0)
    assert second["our_reasons"] == ["the reply does not say 'red'"]


def test_the_agents_lines_of_a_task_log_are_the_replies_since_the_question() -> None:
    log: list[JSON] = [
        "Test (2024-05-24 12:38): quote, please",
        "Agent (2024-05-24 12:39): Fine.\nAgent (x): no",
        "System (t): trivia",
        "Agent (t): []",
    ]
    given = given_of_row({"dataset": "Prospective Memory", "responses": [], "log_from_question": log})
    assert given.since_question == ["Fine.\nAgent (x): no", "[]"]


def test_every_recorded_row_is_written_again(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "ltm" / "recorded_scores.jsonl"
    summary = rescore_file(source, tmp_path / "out.jsonl")
    assert summary.count("errors") == 0
    for before, after in zip(recorded(shared_data), rows_of(tmp_path / "out.jsonl"), strict=True):
        assert {key: after[key] for key in before} == before


# -- the command


def test_the_command_shows_how_many_scores_are_as_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = written(tmp_path / "in.jsonl", line(), line(score=0.0), line(dataset="How to think", kind="needs_llm"))
    assert main([str(source), "--out", str(tmp_path / "out.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert "1 of 2" in shown
    assert "written" in shown
