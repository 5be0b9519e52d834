"""checks/goodai_rescore.py: recorded rows scored again, each written as it was with our score behind it."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from checks.goodai_rescore import given_of_row, main, rescore_file, rescore_line
from tests.memory_scoring_parts import recorded
from tests.platforms import posix_only

from tunecheck import ConfigurationError
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


def test_what_only_a_judge_can_score_has_null_and_says_why(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", line(dataset="Delayed Recall"))
    rescore_file(source, tmp_path / "out.jsonl")
    (row,) = rows_of(tmp_path / "out.jsonl")
    assert row["our_score"] is None
    assert row["our_reasons"] == ["only a judge can score Delayed Recall"]
    assert "our_error" not in row


def test_the_compatible_mode_is_the_benchmarks(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", line(responses=["You never shared a preferred colour."]))
    rescore_file(source, tmp_path / "ours.jsonl")
    rescore_file(source, tmp_path / "theirs.jsonl", compat=True)
    assert rows_of(tmp_path / "ours.jsonl")[0]["our_score"] == 0
    assert rows_of(tmp_path / "theirs.jsonl")[0]["our_score"] == 1


def test_words_stand_in_where_the_benchmark_asks_a_model(tmp_path: Path) -> None:
    route = line(dataset="Jokes", expected=["A joke of eight words, or even more."], responses=["I do not know."])
    rescore_file(written(tmp_path / "in.jsonl", route), tmp_path / "out.jsonl", compat=True)
    (row,) = rows_of(tmp_path / "out.jsonl")
    assert row["our_score"] == 0
    assert row["our_reasons"][-1] == "compatible: the reference asks a model"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("{not JSON}\n", ""),
        ("[1, 2]\n", "a row must be an object, not a list"),
        ("3\n", "a row must be an object, not 3"),
        ('{"dataset": "Colours"}\n', 'no list of "responses"'),
        ('{"responses": ["Red"]}\n', '"dataset" must be a text'),
        (b'{"dataset": "\xff"}\n', "not UTF-8"),
        ("[" * 100_000 + "\n", ""),
    ],
)
def test_a_line_that_is_no_row_is_written_with_its_error(tmp_path: Path, broken: str | bytes, said: str) -> None:
    source = written(tmp_path / "in.jsonl", line(), "\n", broken, line())
    summary = rescore_file(source, tmp_path / "out.jsonl")
    first, bad, last = rows_of(tmp_path / "out.jsonl")
    assert first["our_score"] == last["our_score"] == 1.0
    assert bad["our_score"] is None
    assert bad["our_error"].startswith(f"{source}, line 3: ")
    assert said in bad["our_error"]
    assert summary.errors == [bad["our_error"]]


@pytest.mark.parametrize("depth", [300, 900, 990, 1_100, 5_000])
def test_a_row_nested_deeply_is_written_whole_or_with_its_error(tmp_path: Path, depth: int) -> None:
    deep = (
        '{"dataset": "Names", "expected": ["Ann"], "responses": ["Ann"], "deep": ' + "[" * depth + "]" * depth + "}\n"
    )
    source = written(tmp_path / "in.jsonl", deep, line())
    rescore_file(source, tmp_path / "out.jsonl")
    first, second = (tmp_path / "out.jsonl").read_bytes().splitlines()
    assert b"our_error" in first or b"[" * depth in first
    assert json.loads(second)["our_score"] == 1.0


def test_nan_is_written_as_null_and_scores_nothing(tmp_path: Path) -> None:
    source = written(
        tmp_path / "in.jsonl",
        '{"dataset": "Shopping", "expected": [["soap", NaN]], "responses": ["[]"], "score": NaN}\n',
    )
    summary = rescore_file(source, tmp_path / "out.jsonl")
    (row,) = rows_of(tmp_path / "out.jsonl")
    assert row["score"] is None
    assert summary.count("compared") == 0


def test_a_line_beyond_every_measure_is_an_error_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checks.goodai_rescore.MAX_LINE_BYTES", 1_000)
    source = written(tmp_path / "in.jsonl", line(padding="x" * 5_000), line())
    rescore_file(source, tmp_path / "out.jsonl")
    long, fine = rows_of(tmp_path / "out.jsonl")
    assert "line 1" in long["our_error"]
    assert fine["our_score"] == 1.0


def test_the_agents_lines_of_a_task_log_are_the_replies_since_the_question() -> None:
    log: list[JSON] = [
        "Test (2024-05-24 12:38): quote, please",
        "Agent (2024-05-24 12:39): Fine.\nAgent (x): no",
        "System (t): trivia",
        "Agent (t): []",
    ]
    given = given_of_row({"dataset": "Prospective Memory", "responses": [], "log_from_question": log})
    assert given.since_question == ["Fine.\nAgent (x): no", "[]"]


def test_a_broken_line_alone_never_raises() -> None:
    assert rescore_line(b"\x00", where="a.jsonl, line 9").error is not None


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


def test_the_commands_json_has_the_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = written(tmp_path / "in.jsonl", line(), "{\n")
    assert main([str(source), "--out", str(tmp_path / "out.jsonl"), "--json"]) == 0
    captured = capsys.readouterr()
    said = json.loads(captured.out)
    assert [group["dataset"] for group in said["groups"]] == ["", "Colours"]
    assert said["groups"][1]["equal"] == 1
    assert "line 2" in captured.err


def test_only_broken_rows_end_with_1(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", "{\n", "[]\n")
    assert main([str(source), "--out", str(tmp_path / "out.jsonl")]) == 1
    assert len(rows_of(tmp_path / "out.jsonl")) == 2


@pytest.mark.parametrize(
    "arguments", [["absent.jsonl", "--out", "out.jsonl"], ["in.jsonl", "--out", "no/folder/out.jsonl"]]
)
def test_a_file_that_cannot_be_read_or_written_is_wrong_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "in.jsonl", line())
    assert main([*arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_is_never_written_over_itself(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", line())
    with pytest.raises(ConfigurationError, match="is the file that is read"):
        rescore_file(source, tmp_path / "." / "in.jsonl")
    assert source.read_text(encoding="utf-8") == line()


def test_a_file_is_never_held_in_memory(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", *[line(padding="x" * 2_000)] * 5_000)  # 10 MB
    tracemalloc.start()
    rescore_file(source, tmp_path / "out.jsonl")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_a_folder_is_no_file_to_write_to(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", line())
    with pytest.raises(ConfigurationError, match=r"is a folder; name a file, --out OUT\.jsonl"):
        rescore_file(source, tmp_path)
    assert [*tmp_path.iterdir()] == [source]


@posix_only
def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", line(), line())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert rescore_file(source, pipe).count("scored") == 2
        assert os.read(reading, 1 << 16).count(b"our_score") == 2
    finally:
        os.close(reading)
    assert pipe.is_fifo()
    assert sorted(tmp_path.iterdir()) == [source, pipe]
