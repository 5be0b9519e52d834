"""Runs that are cut off and taken up again, made anew from others, and judged by others."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import FIRST_TIME, Said, command, environment, inside, process, replay, rows, workspace
from tests.conftest import ROOT
from tests.platforms import hear_ctrl_c, posix_only

SLOW = """\
import pathlib, time

ASKED = pathlib.Path(__file__).with_name("asked.txt")

def slow(messages):
    with ASKED.open("a") as file:
        file.write(messages[0]["content"] + "\\n")
    time.sleep({seconds})
    return "an answer"
"""

COUNT = 12
SLOWLY = ("evaluate", "--dataset", "small.jsonl", "--endpoint", "slow")


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a slow endpoint, named `slow`, that writes down each question and answers two at once."""
    monkeypatch.chdir(workspace(tmp_path, rows(COUNT)))
    slowly(tmp_path, 0.2)
    return tmp_path


def slowly(folder: Path, seconds: float) -> None:
    (folder / "slow.py").write_text(SLOW.format(seconds=seconds), "utf-8")
    definition = "kind: python\nfunction: ../slow.py:slow\nlimits: {concurrency: 2}\n"
    (folder / "endpoints" / "slow.yaml").write_text(definition, "utf-8")


def asked(folder: Path) -> Counter[str]:
    path = folder / "asked.txt"
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def started(folder: Path, *arguments: str, program: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *program, *arguments] if program else command(*arguments),
        cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=hear_ctrl_c,
    )  # fmt: skip


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something that the process does."""
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def interrupted(folder: Path, condition: Callable[[], bool], *arguments: str, **more: Any) -> Said:
    """The output of a command that gets a signal, by default of Ctrl-C, as soon as the condition holds."""
    sent = more.pop("sent", signal.SIGINT)
    running = started(folder, *arguments, **more)
    until(condition, running)
    running.send_signal(sent)
    out, err = running.communicate(timeout=60)
    return Said(running.returncode, out, err)


def gone_on(folder: Path, err: str) -> str:
    """The output of the command that the last line on standard error gives."""
    words = shlex.split(err.strip().splitlines()[-1].partition("go on with: ")[2])
    assert words[:3] == ["python", "-m", "tunecheck"]
    finished = process(folder, *words[3:])
    assert finished.code == 0, finished.err
    return finished.out


@posix_only
def test_a_run_that_is_interrupted_prints_the_command_that_finishes_it(slow: Path) -> None:
    named = (*SLOWLY, "--name", "it 7")
    said = interrupted(slow, lambda: asked(slow).total() >= 4, *named)
    assert (said.code, said.out) == (1, "")
    assert said.err.removeprefix(FIRST_TIME.format("slow.py")).startswith(
        "interrupted; go on with: python -m tunecheck evaluate --resume it-7-"
    )
    assert asked(slow).total() < COUNT
    assert "12 rows · endpoint slow" in gone_on(slow, said.err)
    assert asked(slow) == Counter({f"question {number}": 1 for number in range(COUNT)})
    assert len(list((slow / "eval_results").iterdir())) == 1


@posix_only
def test_evaluate_py_prints_its_own_name_in_the_command_that_resumes(slow: Path) -> None:
    script = str(ROOT / "evaluate.py")
    arguments = ("--dataset", "small.jsonl", "--endpoint", "slow", "--results-dir", "my results")
    said = interrupted(slow, lambda: asked(slow).total() >= 2, *arguments, program=(script,))
    assert f"python {script} --resume small-" in said.err
    assert "--results-dir 'my results'" in said.err


def test_a_call_that_never_ends_does_not_hold_a_run_that_is_done(slow: Path) -> None:
    slowly(slow, 1000)
    definition = "kind: python\nfunction: ../slow.py:slow\ntimeout_s: 0.2\n"
    (slow / "endpoints" / "slow.yaml").write_text(definition, "utf-8")
    said = process(slow, *SLOWLY, "--limit", "2")
    problem = f"error: every row ended in an error: see `tunecheck report {said.out.splitlines()[-1].split(' ')[0]}`"
    assert (said.code, said.err) == (1, FIRST_TIME.format("slow.py") + f"{problem}\n")


@posix_only
def test_an_interrupt_before_the_run_begins_says_so(slow: Path) -> None:
    os.mkfifo(slow / "datasets" / "endless.jsonl")
    (slow / "evaluators").mkdir()
    (slow / "evaluators" / "sleepy.py").write_text(
        "import pathlib, time\npathlib.Path('here').touch()\ntime.sleep(99)\n"
    )
    evaluate = ("evaluate", "--dataset", "small.jsonl", "--evaluators", "sleepy")
    said = interrupted(slow, (slow / "here").exists, *evaluate, sent=signal.SIGTERM)
    assert (said.code, said.err) == (1, FIRST_TIME.format("evaluators/sleepy.py") + "interrupted\n")


@posix_only
def test_an_interrupt_while_files_are_written_still_tells_how_to_go_on(slow: Path) -> None:
    (slow / "evaluators").mkdir()
    (slow / "evaluators" / "late.py").write_text(
        "import time\n\nclass late:\n    def __call__(self, *, response):\n        return {'n': 1}\n\n"
        "    def __aggregate__(self, rows):\n        open('here', 'w').close()\n        time.sleep(99)\n"
    )
    said = interrupted(slow, (slow / "here").exists, "evaluate", "--dataset", "small.jsonl", "--evaluators", "late")
    assert said.code == 1
    assert "go on with: python -m tunecheck evaluate --resume small-" in said.err


def test_a_run_that_was_killed_is_finished_with_the_arguments_it_was_started_with(slow: Path) -> None:
    running = started(
        slow, *SLOWLY, "--limit", "8", "--evaluators", "bleu",
        "--set", "bleu.threshold=0.1", "--group-by", "city", "--fail-under", "bleu>=0.99",
    )  # fmt: skip
    until(lambda: asked(slow).total() >= 4, running)
    running.kill()
    running.communicate()
    assert "killed" in inside(slow, "runs").out
    finished = inside(slow, "evaluate", "--resume", "last", "--json")
    assert finished.code == 3
    found = finished.json()
    assert (found["rows"], set(found["by"])) == (8, {"row_kind", "city"})
    assert set(asked(slow).values()) <= {1, 2}  # a call in flight when it was killed is sent again


def test_a_run_is_not_resumed_with_other_arguments_and_the_change_is_named(slow: Path) -> None:
    slowly(slow, 0)
    assert inside(slow, *SLOWLY, "--quiet").code == 0
    said = inside(slow, "evaluate", "--resume", "last", "--limit", "3")
    assert said.code == 2
    assert "the data had 12 rows, now 3 (--limit)" in said.err
    assert "--reuse small-" in said.err
    said = inside(slow, "evaluate", "--resume", "last", "--name", "other")
    assert (said.code, "cannot change when run" in said.err) == (2, True)


def test_a_run_started_from_python_is_not_resumed_from_here(slow: Path) -> None:
    from tunecheck import evaluate

    evaluate(data=[{"response": "a"}], evaluators={"mine": lambda response: 1})
    said = inside(slow, "evaluate", "--resume", "last")
    assert said.code == 2
    assert "to finish it, use evaluate(…, resume=" in said.err


def test_reuse_asks_only_what_has_changed(slow: Path) -> None:
    slowly(slow, 0)
    inside(slow, *SLOWLY, "--evaluators", "match")
    data = rows(COUNT)
    data[3]["query"] = "another question"
    workspace(slow, data)
    before = asked(slow).total()
    said = inside(slow, "evaluate", "--reuse", "last", "--name", "second", "--evaluators", "match,bleu", "--json")
    assert said.code == 0
    assert asked(slow).total() == before + 1
    manifest = json.loads((slow / said.json()["run_dir"] / "run.json").read_text())
    assert manifest["name"] == "second"
    assert list(manifest["evaluators"]) == ["match", "bleu"]
    assert manifest["parent"].startswith("small-")


def test_how_many_answers_and_verdicts_are_reused_is_said(slow: Path) -> None:
    slowly(slow, 0)
    inside(slow, *SLOWLY, "--evaluators", "match")
    for option in ("--resume", "--reuse"):
        said = inside(slow, "evaluate", option, "last")
        assert f"{COUNT} answers and {COUNT} verdicts reused" in " ".join(said.out.split())
    workspace(slow, [{**row, "query": f"{row['query']}!"} for row in rows(COUNT)])
    said = inside(slow, "evaluate", "--reuse", "last", "--evaluators", "bleu")
    assert "nothing reused" in " ".join(said.out.split())


def test_a_run_from_python_is_scored_and_neither_it_nor_the_score_is_reused(slow: Path) -> None:
    from tunecheck import evaluate

    run = evaluate(data=rows(2), target=lambda: "hello", evaluators={"mine": lambda response: 1}).run_dir.name
    mapping = ("--mapping", "ground_truth=${data.answer}")
    said = inside(slow, "score", run, "--evaluators", "bleu", *mapping, "--json")
    assert said.code == 0
    assert said.json()["metrics"]["bleu.scored_count"] == 1
    for reused in (run, said.json()["run"]):
        refused = inside(slow, "evaluate", "--reuse", reused)
        assert refused.code == 2
        advice = f"judge its answers with `tunecheck score {reused}`"
        assert f"run {reused} was started in Python or by `score`: {advice}" in refused.err


def test_score_judges_recorded_answers_in_a_new_run(slow: Path) -> None:
    slowly(slow, 0)
    inside(slow, *SLOWLY, "--evaluators", "match")
    before = asked(slow).total()
    judged = ("--evaluators", "bleu,function_call_match", "--fail-under", "bleu>=0.9")
    said = inside(slow, "score", "last", *judged, "--json")
    assert said.code == 3
    found = said.json()
    assert asked(slow).total() == before
    assert found["metrics"]["function_call_match.scored_count"] == COUNT
    assert len(list((slow / "eval_results").iterdir())) == 2


def test_score_without_names_takes_the_runs_own_evaluators(slow: Path) -> None:
    replay(slow, {str(row["id"]): row["answer"] for row in rows(COUNT)})
    chosen = ("--evaluators", "match,bleu", "--set", "bleu.threshold=0.25")
    inside(slow, "evaluate", "--dataset", "small.jsonl", "--endpoint", "recorded", *chosen)
    said = inside(slow, "score", "last", "--set", "match.threshold=0.9", "--json")
    manifest = json.loads((slow / said.json()["run_dir"] / "run.json").read_text())
    assert {name: entry["arguments"]["threshold"] for name, entry in manifest["evaluators"].items()} == {
        "match": 0.9,
        "bleu": 0.25,
    }


def test_score_of_a_simulated_run_is_simulated_and_ungated(slow: Path) -> None:
    inside(slow, "evaluate", "--dataset", "small.jsonl")
    assert "SIMULATED answers" in inside(slow, "score", "last", "--evaluators", "bleu").out
    assert inside(slow, "score", "last", "--evaluators", "bleu", "--fail-under", "bleu>=0").code == 2


@posix_only
def test_score_that_was_cut_off_is_finished_by_the_command_it_prints(slow: Path) -> None:
    slowly(slow, 0)
    assert inside(slow, *SLOWLY, "--quiet").code == 0
    (slow / "evaluators").mkdir()
    (slow / "evaluators" / "judge.py").write_text(
        "import pathlib, time\n\ndef judge(*, response):\n"
        "    with open('judged.txt', 'a') as file:\n        file.write('x\\n')\n"
        "    time.sleep(0.3)\n    return {'good': 1}\n"
    )
    judged = slow / "judged.txt"
    score = ("score", "last", "--evaluators", "judge", "--concurrency", "1")
    said = interrupted(slow, lambda: judged.exists() and len(judged.read_text()) >= 6, *score)
    assert said.code == 1
    gone_on(slow, said.err)
    assert len(judged.read_text()) == 2 * COUNT


@posix_only
def test_a_terminal_sees_how_far_the_run_is(slow: Path) -> None:
    leader, follower = os.openpty()
    running = subprocess.Popen(
        command(*SLOWLY),
        cwd=slow, env=environment(TERM="xterm"), stdout=subprocess.DEVNULL, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    seen = b""
    try:
        while chunk := os.read(leader, 4096):
            seen += chunk
    except OSError:  # the end of a pseudo-terminal
        pass
    finally:
        os.close(leader)
    assert running.wait(60) == 0
    assert b"/12" in seen
    assert b"rows/s" in seen
    assert b"no errors" in seen
    assert b" left" in seen


def test_a_run_whose_process_was_killed_names_the_rows_in_flight_and_goes_on(tmp_path: Path) -> None:
    """The function's process kills the run the first time, with another call in flight."""
    crash = "import pathlib, os, time\ndone = pathlib.Path(__file__).with_name('crashed')\n"
    body = (
        "def answer(messages):\n    question = messages[-1]['content']\n    if question == '7' and not done.exists():\n"
        "        time.sleep(0.5)\n        done.touch()\n        os.kill(os.getppid(), 9)\n"
        "    if question == '8' and not done.exists():\n        time.sleep(5)\n    return question\n"
    )
    (tmp_path / "mine.py").write_text(crash + body)
    (tmp_path / "mine.yaml").write_text("kind: python\nfunction: mine.py:answer\nlimits: {concurrency: 2}\n")
    rows = [{"id": f"r{number}", "query": str(number), "ground_truth": str(number)} for number in range(12)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    quiet = ("evaluate", "--quiet", "--workers", "0")
    begun = ("--dataset", "rows.jsonl", "--endpoint", "mine.yaml", "--evaluators", "f1_score")
    assert abs(process(tmp_path, *quiet, *begun).code) == 9  # -9 is POSIX's code of a process that signal 9 killed
    resumed = process(tmp_path, *quiet, "--resume", "last")
    assert resumed.code == 0, resumed.err
    assert "when this run's process died, these rows were in progress; one may be the cause: r7, r8" in resumed.err
