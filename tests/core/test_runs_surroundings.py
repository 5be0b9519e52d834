"""Events around a run: its folder is taken away or locked, the clock is set back, an evaluator goes elsewhere."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.cli_parts import FIRST_TIME, inside, rows, workspace
from tests.pipeline_parts import Answering, column, length, metrics_of, only_run, run

from tunecheck import RunError, find_run
from tunecheck.runs import _store, create_run, list_runs

DATA = [{"id": f"r{number}", "question": f"q{number}"} for number in range(6)]


class Meddling(Answering):
    """A target that changes the run's folder, given to it, when the last row comes."""

    def __init__(self, folder: Path, meddle: object) -> None:
        super().__init__()
        self._folder, self._meddle = folder, meddle

    async def answer(self, row: object, context: object) -> object:  # type: ignore[override]
        if row.values["question"] == "q5":  # type: ignore[attr-defined]
            self._meddle(only_run(self._folder).folder)  # type: ignore[operator]
        return await super().answer(row, context)  # type: ignore[arg-type]


def make_unwritable(folder: Path, undo: ExitStack) -> None:
    """No file can be made or renamed in it; root is kept out by nothing less than `chattr`."""
    if not hasattr(os, "geteuid") or os.geteuid():
        folder.chmod(0o555)
        undo.callback(folder.chmod, 0o755)
        return
    if subprocess.run(["chattr", "+i", folder], capture_output=True, check=False).returncode:
        pytest.skip("nothing keeps root from writing here")
    undo.callback(lambda: subprocess.run(["chattr", "-i", folder], check=True))


def test_a_folder_that_becomes_read_only_ends_the_run_in_a_line_and_loses_nothing(tmp_path: Path) -> None:
    with ExitStack() as undo:
        target = Meddling(tmp_path, lambda folder: make_unwritable(folder, undo))
        with pytest.raises(
            RunError, match=r"eval_results\.jsonl.*: .*not permitted|denied.*; go on with --resume rows-"
        ):
            run(tmp_path, DATA, target=target, evaluators={"n": length}, concurrency=1)
    again = Answering()
    result = run(tmp_path, DATA, target=again, evaluators={"n": length}, resume="last")
    assert (result.row_count, again.asked) == (6, [])


def test_a_folder_that_is_moved_is_resumed_where_it_is_now(tmp_path: Path) -> None:
    target = Meddling(tmp_path, lambda folder: folder.rename(tmp_path / "moved"))
    with pytest.raises(RunError, match=r"if it was moved, --resume its new folder"):
        run(tmp_path, DATA, target=target, evaluators={"n": length}, concurrency=1)
    again = Answering()
    result = run(tmp_path, DATA, target=again, evaluators={"n": length}, resume=str(tmp_path / "moved"))
    assert (result.row_count, again.asked) == (6, [])


def test_nobody_is_asked_for_long_once_the_folder_is_gone(tmp_path: Path) -> None:
    asked = 0

    def slowly(question: str) -> str:
        nonlocal asked
        asked += 1
        if asked == 3:
            shutil.rmtree(only_run(tmp_path).folder)
        time.sleep(0.05)
        return question

    with pytest.raises(RunError, match="was removed or moved while it went on; start it again"):
        run(
            tmp_path, [{"question": str(n)} for n in range(400)], target=slowly, evaluators={"n": length}, concurrency=1
        )
    assert asked < 200


def test_the_command_line_says_it_without_a_traceback(tmp_path: Path) -> None:
    workspace(tmp_path)
    (tmp_path / "evaluators").mkdir()
    (tmp_path / "evaluators" / "remover.py").write_text(
        "import pathlib, shutil\n\ndef remover(response):\n"
        "    for run in pathlib.Path('eval_results').glob('*'):\n        shutil.rmtree(run)\n    return 1\n"
    )
    said = inside(tmp_path, "evaluate", "--dataset", "small.jsonl", "--evaluators", "remover")
    complaints = said.err.removeprefix(FIRST_TIME.format("evaluators/remover.py"))
    assert (said.code, complaints.count("\n")) == (1, 1), said.err
    assert "was removed or moved while it went on" in said.err


@pytest.mark.parametrize("back_s", [1, 86_400, 400 * 86_400])
def test_a_clock_set_back_leaves_the_last_run_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back_s: int
) -> None:
    ids = []
    real, real_ns = _store.utc_now, time.time_ns
    for number in range(4):
        ids.append(run(tmp_path, [{"response": "x"}], evaluators={"n": length}).run_dir.name)
        monkeypatch.setattr(_store, "utc_now", lambda: real() - datetime.timedelta(seconds=back_s * number))  # noqa: B023
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() - back_s * number * 10**9)  # noqa: B023
    assert [found.id for found in list_runs(tmp_path / "runs")] == ids
    assert find_run("last", tmp_path / "runs").id == ids[-1]


def test_an_evaluator_in_another_folder_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"response": "{n}"}}\n' for n in range(3_000)))

    def wanders(response: str) -> int:
        os.chdir(elsewhere)
        return len(response)

    result = run(Path(), "rows.jsonl", evaluators={"n": wanders}, output_path="out.json", repeat=2)
    assert Path.cwd() == tmp_path
    assert metrics_of(result)["n.scored_count"] == 6_000
    assert len(column(result, "outputs.n.n")) == 6_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "out.json", "rows.jsonl", "runs"]
    assert [*elsewhere.iterdir()] == []


def test_no_file_of_a_command_goes_where_an_evaluator_went(tmp_path: Path) -> None:
    workspace(tmp_path, rows(6))
    (tmp_path / "evaluators").mkdir()
    (tmp_path / "evaluators" / "wanders.py").write_text(
        "import os\n\ndef wanders(response):\n    os.chdir('/')\n    return 1\n"
    )
    files = ("--markdown", "it.md", "--junit", "it.xml")
    said = inside(tmp_path, "evaluate", "--dataset", "small.jsonl", "--evaluators", "wanders", *files)
    assert (said.code, said.err) == (0, FIRST_TIME.format("evaluators/wanders.py"))
    assert {"it.md", "it.xml", "eval_results"} <= {path.name for path in tmp_path.iterdir()}


def test_a_run_begun_while_another_one_is_being_made_is_another_one(tmp_path: Path) -> None:
    assert len({create_run(tmp_path, "same")[0].id for _ in range(20)}) == 20
