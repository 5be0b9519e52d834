"""Runs with damaged files: the damage is reported before the first call, and no broken record becomes a result."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.pipeline_parts import Answering, column, run

from tunecheck import EvaluationResult, Row, Run, RunError, score
from tunecheck.pipeline import Journal, JournalReader

ROWS = 20
DATA = [{"id": f"r{number}", "question": f"q{number}"} for number in range(ROWS)]


def match(response: str) -> dict[str, float]:
    return {"match": float(len(response)), "match_threshold": 3.0}


class Counting(Answering):
    def __init__(self, most: int = ROWS) -> None:
        super().__init__(self._limited)
        self._most = most

    def _limited(self, row: Row) -> dict[str, Any]:
        if len(self.asked) > self._most:
            raise RunError("stopped by the test")
        return {"response": f"answer to {row.values['question']}"}


def begun(folder: Path, answers: int = ROWS) -> Run:
    """A run of 20 rows, stopped after so many answers."""
    target = Counting(answers)
    try:
        result = run(folder, DATA, target=target, evaluators={"match": match}, concurrency=1)
    except RunError:
        (path,) = (folder / "runs").iterdir()
        return Run(path)
    return Run(result.run_dir)


def resumed(folder: Path, target: Answering, **more: Any) -> EvaluationResult:
    return run(folder, DATA, target=target, evaluators={"match": match}, resume="last", concurrency=1, **more)


def flip(path: Path, what: bytes, to: bytes) -> None:
    content = path.read_bytes()
    assert content.count(what) >= 1
    path.write_bytes(content.replace(what, to, 1))


def cut(path: Path, lines: slice) -> None:
    kept = path.read_bytes().splitlines(keepends=True)
    del kept[lines]
    path.write_bytes(b"".join(kept))


def line_of(run: Run, row: str) -> int:
    """The line of the journal, from 0, that holds a row's answer."""
    lines = run.journal.read_bytes().splitlines()
    return next(at for at, line in enumerate(lines) if b'"k":"answer"' in line and f'"{row}"'.encode() in line)


def test_flipped_bytes_do_not_become_results(tmp_path: Path) -> None:
    made = begun(tmp_path)
    flip(made.journal, b'"match_threshold"', b'"match thrgshold"')
    target = Counting()
    with pytest.raises(RunError, match=r"is damaged: 1 record is damaged or missing \(line \d+\)"):
        resumed(tmp_path, target)
    assert target.asked == []
    result = resumed(tmp_path, target, accept_damage=True)
    assert not any("thrgshold" in name for row in result["rows"] for name in row)  # type: ignore[attr-defined]
    assert target.asked == []
    assert any("is damaged" in note for note in result.notes)


def test_a_damaged_answer_names_its_row_and_is_asked_again_once_that_is_accepted(tmp_path: Path) -> None:
    made = begun(tmp_path)
    flip(made.journal, b"answer to q7", b"answer to qX")
    before = {path.name: path.read_bytes() for path in made.folder.iterdir()}
    target = Counting()
    with pytest.raises(
        RunError, match=r"so up to 1 call must be made again, of rows r7; put back whole files .*--accept"
    ):
        resumed(tmp_path, target)
    assert {path.name: path.read_bytes() for path in made.folder.iterdir() if path.suffix != ".synced"} == {
        name: content for name, content in before.items() if not name.endswith(".synced")
    }
    assert column(resumed(tmp_path, target, accept_damage=True), "outputs.response")[7] == "answer to q7"
    assert target.asked == ["r7"]


def test_what_was_accepted_once_is_not_damage_any_more(tmp_path: Path) -> None:
    made = begun(tmp_path)
    flip(made.journal, b"answer to q7", b"answer to qX")
    cut(made.journal, slice(12, 13))
    resumed(tmp_path, Counting(), accept_damage=True)
    resumed(tmp_path, target := Counting())
    assert target.asked == []
    flip(made.journal, b"answer to q3", b"answer to qX")
    with pytest.raises(RunError, match="damaged"):
        resumed(tmp_path, target)


@pytest.mark.parametrize("which", [slice(3, 6), slice(-4, None), slice(0, 3), slice(1, None)])
def test_records_that_are_missing_are_missed_wherever_they_were(tmp_path: Path, which: slice) -> None:
    made = begun(tmp_path)
    lines = made.journal.read_bytes().splitlines()
    cut(made.journal, which)
    with pytest.raises(RunError, match=f"{len(lines[which])} records are damaged or missing"):
        resumed(tmp_path, target := Counting())
    assert target.asked == []


def test_rows_whose_answers_are_missing_are_named(tmp_path: Path) -> None:
    made = begun(tmp_path)
    at = line_of(made, "r5")
    cut(made.journal, slice(at, at + 1))
    with pytest.raises(RunError, match=r"before line \d+\), so up to 1 call must be made again, of rows number 6;"):
        resumed(tmp_path, Counting())


@pytest.mark.parametrize("part", ["eval_results.jsonl", "journal.synced"])
def test_the_end_of_a_journal_is_missed_by_either_count(tmp_path: Path, part: str) -> None:
    made = begun(tmp_path)
    (made.folder / part).unlink()
    if part == "journal.synced":
        cut(made.journal, slice(-2, None))
    else:
        manifest = json.loads(made.manifest_file.read_text())
        del manifest["records"]
        made.manifest_file.write_text(json.dumps(manifest))
        cut(made.journal, slice(-2, None))
    with pytest.raises(RunError, match=r"2 records are damaged or missing \(at the end\)"):
        resumed(tmp_path, Counting())


def test_a_journal_of_a_run_that_was_stopped_and_cut_since_is_missed(tmp_path: Path) -> None:
    made = begun(tmp_path, answers=9)
    cut(made.journal, slice(-3, None))
    with pytest.raises(RunError, match="3 records are damaged or missing"):
        resumed(tmp_path, Counting())


def test_an_overwritten_journal_is_missed(tmp_path: Path) -> None:
    made = begun(tmp_path)
    content = made.journal.read_bytes()
    made.journal.write_bytes(content[:1000] + b"\0" * 700 + content[1700:])
    with pytest.raises(RunError, match="records are damaged or missing"):
        resumed(tmp_path, Counting())


def test_a_part_that_was_written_over_another_is_missed(tmp_path: Path) -> None:
    made = begun(tmp_path)
    lines = made.journal.read_bytes().splitlines(keepends=True)
    lines[8] = lines[4]
    made.journal.write_bytes(b"".join(lines))
    with pytest.raises(RunError, match="1 record is damaged or missing"):
        resumed(tmp_path, Counting())


def test_a_torn_last_line_is_normal(tmp_path: Path) -> None:
    made = begun(tmp_path, answers=9)
    with made.journal.open("ab") as file:
        file.write(b'{"k":"answer","i":9,"id":"r9","h":"0')
    resumed(tmp_path, target := Counting())
    assert target.asked == [f"r{number}" for number in range(9, ROWS)]


def test_a_torn_last_line_is_normal_though_it_was_counted_already(tmp_path: Path) -> None:
    write(path := tmp_path / "journal.jsonl", range(4))
    path.write_bytes(path.read_bytes()[:-9])
    assert read(path).lost == 0
    write(path, range(3, 6))
    assert read(path).lost == 0


@pytest.mark.parametrize("again", ["reuse", "score"])
def test_a_damaged_run_is_not_reused_and_no_folder_is_made(tmp_path: Path, again: str) -> None:
    made = begun(tmp_path)
    flip(made.journal, b"answer to q7", b"answer to qX")
    with pytest.raises(RunError, match=f"run {made.id} is damaged: 1 record"):
        if again == "reuse":
            run(tmp_path, DATA, target=Counting(), evaluators={"match": match}, reuse=made.folder)
        else:
            score(made.folder, evaluators={"other": match}, results_dir=tmp_path / "runs")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [made.id]


def test_rows_that_were_changed_since_are_not_scored_unless_that_is_accepted(tmp_path: Path) -> None:
    made = begun(tmp_path)
    flip(made.results, b'"question":"q7"' if b'"question":"q7"' in made.results.read_bytes() else b'"q7"', b'"qX"')
    with pytest.raises(RunError, match=r"is damaged: eval_results\.jsonl has changed since the run wrote it"):
        score(made.folder, evaluators={"other": match}, results_dir=tmp_path / "runs")
    assert (
        score(made.folder, evaluators={"other": match}, results_dir=tmp_path / "runs", accept_damage=True).row_count
        == ROWS
    )


def write(path: Path, rows: range) -> None:
    journal = Journal(path)
    for row in rows:
        journal.answer(row, f"r{row}", f"{row:016x}", {"response": f"answer {row}"})
    journal.close()


def read(path: Path) -> JournalReader:
    return JournalReader(path, by_row=True, evaluators=frozenset(), answers=True)


@given(st.data())
def test_no_damage_goes_unnoticed_and_none_gives_another_answer(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    write(path, range(6))
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + data.draw(st.binary(max_size=6)) + whole[at + data.draw(st.integers(0, 400)) :]
    path.write_bytes(changed)
    found = read(path)
    for row in range(6):
        assert found.answer(row, f"{row:016x}") in ({"response": f"answer {row}"}, None)
    before_last = whole[: whole.rindex(b"\n", 0, -1) + 1]
    rest = changed.removeprefix(before_last)
    torn = changed.startswith(before_last) and rest != b"" and b"\n" not in rest  # all of a synced record is missed
    assert (found.lost > 0) == (not changed.startswith(whole) and not torn)
    found.close()


def test_numbers_go_on_where_a_damaged_last_record_ends_them(tmp_path: Path) -> None:
    write(path := tmp_path / "journal.jsonl", range(3))
    flip(path, b"answer 2", b"answer X")
    write(path, range(3, 5))
    assert read(path).lost == 1


BREAKS: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "nonsense": lambda path: path.write_bytes(b"\xff" * 30),
    "another number": lambda path: path.write_bytes(path.read_bytes().replace(b"[7", b"[9")),
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_count_that_is_damaged_itself_counts_for_nothing(tmp_path: Path, how: str) -> None:
    write(path := tmp_path / "journal.jsonl", range(6))
    BREAKS[how](path.with_suffix(".synced"))
    assert read(path).lost == 0
