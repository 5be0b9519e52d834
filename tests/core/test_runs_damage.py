"""Runs with damaged files: `tunecheck runs --verify` and resuming report it, and no broken record becomes a result."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET, structs
from tests.pipeline_parts import Answering, column, rewrite, rows_of, run
from tests.tables import cases

from tunecheck import EvaluationResult, Row, Run, RunError, compare, score
from tunecheck.cli import main
from tunecheck.pipeline import Journal, JournalReader
from tunecheck.plugins import sha256_of
from tunecheck.runs import changed_since, verify
from tunecheck.runs._manifest import Verified

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


def contents(run: Run) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.folder.iterdir() if path.suffix != ".synced"}


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
    before = contents(made)
    target = Counting()
    said = r"so up to 1 call may be lost, of rows r7; restore its files .*--accept"
    with pytest.raises(RunError, match=said):
        resumed(tmp_path, target)
    assert contents(made) == before
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
    with pytest.raises(RunError, match=r"before line \d+\), so up to 1 call may be lost, of rows number 6;"):
        resumed(tmp_path, Counting())


@pytest.mark.parametrize("part", ["eval_results.jsonl", "journal.synced"])
def test_the_end_of_a_journal_is_missed_by_either_count(tmp_path: Path, part: str) -> None:
    made = begun(tmp_path)
    (made.folder / part).unlink()
    if part == "journal.synced":
        cut(made.journal, slice(-2, None))
    else:
        rewrite(made.manifest_file, records=None)
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
    restore = f"restore its files (`tunecheck runs {made.id} --verify` checks them), or continue with --accept-damage"
    said = f"run {made.id} is damaged: eval_results.jsonl {CHANGED}; {restore} (accept_damage=True)"
    with pytest.raises(RunError, match=f"^{re.escape(said)}$"):
        score(made.folder, evaluators={"other": match}, results_dir=tmp_path / "runs")
    again = score(made.folder, evaluators={"other": match}, results_dir=tmp_path / "runs", accept_damage=True)
    assert again.row_count == ROWS


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


def test_a_finished_run_is_whole_and_so_are_those_made_from_it(tmp_path: Path) -> None:
    made = begun(tmp_path)
    other = score(made.folder, evaluators={"n": lambda response: len(response)}, results_dir=tmp_path / "runs")
    for each in (made, Run(other.run_dir)):
        found = verify(each)
        assert (found.whole, found.status, found.rows) == (True, "finished", 20)


@pytest.mark.parametrize("change", [{"name": "other"}, {"row_count": 21}, {"sha256": {}}, {"later": 1}, {"digest": ""}])
def test_a_change_of_run_json_is_found(tmp_path: Path, change: dict[str, Any]) -> None:
    made = begun(tmp_path)
    rewrite(made.manifest_file, **change)
    assert "run.json has changed since the run wrote it" in verify(made).damage


def test_another_layout_of_run_json_is_no_change(tmp_path: Path) -> None:
    made = begun(tmp_path)
    made.manifest_file.write_text(json.dumps(json.loads(made.manifest_file.read_text()), sort_keys=True))
    assert verify(made).whole


def test_a_run_with_rows_in_error_is_whole(tmp_path: Path) -> None:
    def refuses(row: Any) -> dict[str, object]:
        if row.index % 3 == 0:
            raise ValueError("no")
        return {"response": row.values["n"]}

    result = run(tmp_path, [{"n": n} for n in range(12)], target=Answering(refuses), evaluators={"e": lambda n: n})
    assert sum("error.target" in row for row in rows_of(result)) == 4
    assert verify(Run(result.run_dir)).damage == ()


def test_a_run_that_was_stopped_is_whole_as_far_as_it_came(tmp_path: Path) -> None:
    found = verify(made := begun(tmp_path, answers=9))
    assert found == Verified(made, "stopped", ROWS, (), ())


def other_metrics(run: Run) -> None:
    flip(run.metrics_file, b'"rows": 20', b'"rows": 19')


def spoil(path: Path, how: Any) -> None:
    """Remove a file, replace a text in it, or cut lines out of it."""
    if how is None:
        path.unlink()
    elif isinstance(how[0], str):
        flip(path, *(each.encode() for each in how))
    else:
        cut(path, slice(*how))


CHANGED = "has changed since the run wrote it"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return begun(tmp_path_factory.mktemp("finished"))


@cases("runs")
def test_damage_is_found_and_told(
    tmp_path: Path, finished: Run, capsys: Any, file: str, how: Any, forged: bool, status: str, damage: list[str]
) -> None:
    run = Run(shutil.copytree(finished.folder, tmp_path / "runs" / finished.id))
    spoil(run.folder / file, how)
    if forged:
        digests = run.manifest_data()["sha256"]
        rewrite(run.manifest_file, sha256=digests | {file: sha256_of(run.folder / file)})  # type: ignore[operator]
    found = verify(run)
    texts = [re.sub(r"line \d+", "line N", each.replace(f"{run.folder}{os.sep}", "")) for each in found.damage]
    assert (texts, found.status, found.unchecked) == (damage, status, ())
    assert found.rows == (ROWS if status == "finished" else None)
    assert main(["runs", finished.id, "--verify", "--results-dir", str(tmp_path / "runs")]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert f"DAMAGED {finished.id}" in out
    assert damage[0] in re.sub(r"line \d+", "line N", out)


def test_a_run_from_before_there_were_digests_says_what_was_not_checked(tmp_path: Path) -> None:
    made = begun(tmp_path)
    rewrite(made.manifest_file, sha256=None, digest=None, records=None)
    found = verify(made)
    assert found.whole
    assert found.unchecked == ("results and metrics, because run.json has no digests of them",)


def test_several_runs_are_told_of_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = begun(tmp_path)
    other = tmp_path / "runs" / "other"
    shutil.copytree(made.folder, other)
    flip(other / "journal.jsonl", b"q7", b"q8")
    assert main(["runs", made.id, "other", "--verify", "--results-dir", str(tmp_path / "runs"), "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert (first["whole"], second["whole"]) == (True, False)
    assert first["rows"] == 20


def test_a_run_that_is_being_written_says_so(tmp_path: Path) -> None:
    made = begun(tmp_path, answers=9)
    rewrite(made.manifest_file, status="running")
    journal = Journal(made.journal)
    assert verify(made).unchecked == ("another process is still writing this run",)
    journal.close()


def test_a_memory_run_s_logs_are_read_too(tmp_path: Path) -> None:
    made = begun(tmp_path)
    log = made.folder / "memory" / "session-1" / "events.jsonl"
    log.parent.mkdir(parents=True)
    shutil.copy(made.journal, log)
    flip(log, b"q7", b"q8")
    shutil.copytree(log.parent, made.folder / "memory" / "session-0")
    shutil.copytree(log.parent, made.folder / "memory" / "whole")
    (made.folder / "memory" / "whole" / log.name).write_bytes(made.journal.read_bytes())
    lost = "1 record is damaged or missing (line N)"
    damage = tuple(f"memory/session-{number}/events.jsonl: {lost}" for number in (0, 1))
    assert tuple(re.sub(r"line \d+", "line N", each) for each in verify(made).damage) == damage


def answers_edited(run: Run) -> None:
    flip(run.results, b"answer to q7", b"answer to q8")


def cut_and_copied_with_its_times(run: Run) -> None:
    before = run.results.stat()
    cut(run.results, slice(0, 5))
    os.utime(run.results, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("alter", [answers_edited, cut_and_copied_with_its_times, other_metrics])
def test_shown_results_that_were_changed_say_so(tmp_path: Path, alter: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made = begun(tmp_path)
    base = shutil.copytree(made.folder, tmp_path / "runs" / "base")
    alter(made)
    ending = "" if alter is other_metrics else "l"
    said = f"json{ending} has changed since the run wrote it (see `tunecheck runs {made.id} --verify`)"
    assert [note.endswith(said) for note in compare(base, made).against[0].new.notes] == [True]
    assert main(["report", str(made.folder), "--out", str(tmp_path / "page.html")]) == 0
    assert said in capsys.readouterr().err
    assert "has changed since the run wrote it" in (tmp_path / "page.html").read_text("utf-8")


def test_a_quick_check_compares_sizes_and_reads_only_files_newer_than_run_json(tmp_path: Path) -> None:
    made = begun(tmp_path)
    written, ended = made.manifest(), made.manifest_file.stat().st_mtime_ns
    for path in (made.metrics_file, made.table, made.results):
        content = path.read_bytes()
        for changed, later, known, noticed in (
            (content, 1, written, False),
            (content[:-2] + b"x\n", 0, written, False),
            (content[:-2] + b"x\n", 1, written, True),
            (content + b"\n", 0, written, True),
            (content + b"\n", 0, structs.replace(written, sizes=UNSET), False),
            (content + b"\n", 1, structs.replace(written, sizes=UNSET), True),
            (content + b"\n", 1, structs.replace(written, sha256=UNSET), False),
        ):
            path.write_bytes(changed)
            os.utime(path, ns=(ended, ended + later * 10**9))
            note = f"run {made.id}: {path.name} {CHANGED} (see `tunecheck runs {made.id} --verify`)"
            assert changed_since(made, known) == (note if noticed and path != made.table else None)
        path.unlink()
        assert changed_since(made, written) is None


def test_a_copy_of_a_run_is_as_good_as_the_run(tmp_path: Path) -> None:
    made = begun(tmp_path)
    copy = Run(shutil.copytree(made.folder, tmp_path / "copy", copy_function=shutil.copy))
    assert changed_since(copy, copy.manifest()) is None
