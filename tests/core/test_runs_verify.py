"""`tunecheck runs --verify`: whole runs are whole, and whatever is done to a file of one is found."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.core.test_runs_damage import begun, cut, flip
from tests.pipeline_parts import Answering, rows_of, run

from tunecheck import Run, compare, score
from tunecheck.cli import main
from tunecheck.pipeline import Journal
from tunecheck.runs import changed_since, verify


def test_a_finished_run_is_whole_and_so_are_those_made_from_it(tmp_path: Path) -> None:
    made = begun(tmp_path)
    other = score(made.folder, evaluators={"n": lambda response: len(response)}, results_dir=tmp_path / "runs")
    for each in (made, Run(other.run_dir)):
        found = verify(each)
        assert (found.whole, found.status, found.rows) == (True, "finished", 20)


@pytest.mark.parametrize("change", [{"name": "other"}, {"row_count": 21}, {"sha256": {}}, {"later": 1}, {"digest": ""}])
def test_a_change_of_run_json_is_found(tmp_path: Path, change: dict[str, Any]) -> None:
    made = begun(tmp_path)
    manifest = json.loads(made.manifest_file.read_text())
    made.manifest_file.write_text(json.dumps({**manifest, **change}))
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
    found = verify(begun(tmp_path, answers=9))
    assert (found.whole, found.status) == (True, "stopped")


def dropped_row(run: Run) -> None:
    cut(run.results, slice(4, 5))


def other_metrics(run: Run) -> None:
    flip(run.metrics_file, b'"rows": 20', b'"rows": 19')


def results_of_another_run(run: Run) -> None:
    """With their digest, as a forger would write it."""
    from tunecheck.plugins import sha256_of

    flip(run.results, b"answer to q7", b"answer to q8")
    manifest = json.loads(run.manifest_file.read_text())
    manifest["sha256"][run.results.name] = sha256_of(run.results)
    run.manifest_file.write_text(json.dumps(manifest))


DAMAGE: dict[str, tuple[Callable[[Run], object], str]] = {
    "a flipped byte in the journal": (lambda run: flip(run.journal, b"q7", b"q8"), "1 record is damaged"),
    "a cut journal": (lambda run: cut(run.journal, slice(-4, None)), "4 records are damaged or missing"),
    "no journal": (lambda run: run.journal.unlink(), "the run's records cannot be read"),
    "a flipped byte in the rows": (lambda run: flip(run.results, b"q7", b"q8"), "eval_results.jsonl has changed"),
    "a dropped row": (dropped_row, "eval_results.jsonl has 19 rows, but the run has 20"),
    "no rows": (lambda run: run.results.unlink(), "eval_results.jsonl"),
    "a cut table": (lambda run: cut(run.table, slice(3, None)), "eval_results.csv has changed since the run wrote it"),
    "other metrics": (other_metrics, "metrics.json covers 19 rows, but the run has 20"),
    "no metrics": (lambda run: run.metrics_file.unlink(), "metrics.json"),
    "answers of another run": (results_of_another_run, "differ in the answers to rows r7"),
    "no manifest": (lambda run: run.manifest_file.write_text("{"), "run.json: cannot be read"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return begun(tmp_path_factory.mktemp("finished"))


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_and_named(
    tmp_path: Path, finished: Run, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, said = DAMAGE[name]
    shutil.copytree(finished.folder, folder := tmp_path / "eval_results" / finished.id)
    damage(Run(folder))
    assert any(said in each for each in verify(Run(folder)).damage), verify(Run(folder))
    assert main(["runs", finished.id, "--verify", "--results-dir", str(folder.parent)]) == 1
    out = capsys.readouterr().out
    assert f"DAMAGED  {finished.id}" in out
    assert said in " ".join(out.split())


def test_a_run_from_before_there_were_digests_says_what_was_not_checked(tmp_path: Path) -> None:
    made = begun(tmp_path)
    manifest = json.loads(made.manifest_file.read_text())
    del manifest["sha256"], manifest["digest"], manifest["records"]
    made.manifest_file.write_text(json.dumps(manifest))
    found = verify(made)
    assert found.whole
    assert found.unchecked == ("results and metrics: they have no digests to check them by",)


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
    manifest = json.loads(made.manifest_file.read_text()) | {"status": "running"}
    made.manifest_file.write_text(json.dumps(manifest))
    journal = Journal(made.journal)
    assert verify(made).unchecked == ("another process is writing it now",)
    journal.close()


def test_a_memory_run_s_logs_are_read_too(tmp_path: Path) -> None:
    made = begun(tmp_path)
    log = made.folder / "memory" / "session-1" / "events.jsonl"
    log.parent.mkdir(parents=True)
    shutil.copy(made.journal, log)
    flip(log, b"q7", b"q8")
    assert any("memory/session-1/events.jsonl: 1 record" in each for each in verify(made).damage)


def answers_edited(run: Run) -> None:
    flip(run.results, b"answer to q7", b"answer to q8")


def cut_and_copied_with_its_times(run: Run) -> None:
    before = run.results.stat()
    cut(run.results, slice(0, 5))
    os.utime(run.results, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("alter", [answers_edited, cut_and_copied_with_its_times, other_metrics])
def test_where_results_are_shown_it_is_said_that_they_are_not_the_run_s(
    tmp_path: Path, alter: Callable[[Run], None], capsys: pytest.CaptureFixture[str]
) -> None:
    made = begun(tmp_path)
    base = shutil.copytree(made.folder, tmp_path / "runs" / "base")
    alter(made)
    ending = "" if alter is other_metrics else "l"
    said = f"json{ending} has changed since the run wrote it: see `tunecheck runs {made.id} --verify`"
    assert [note.endswith(said) for note in compare(base, made).against[0].new.notes] == [True]
    assert main(["report", str(made.folder), "--out", str(tmp_path / "page.html")]) == 0
    assert said in capsys.readouterr().err
    assert "has changed since the run wrote it" in (tmp_path / "page.html").read_text("utf-8")


def test_a_copy_of_a_run_is_as_good_as_the_run(tmp_path: Path) -> None:
    made = begun(tmp_path)
    copy = Run(shutil.copytree(made.folder, tmp_path / "copy", copy_function=shutil.copy))
    assert changed_since(copy, copy.manifest()) is None
