"""Faulty user-written kinds: one line names the problem and its owner; a stopped run can be resumed."""

from pathlib import Path
from typing import Any

import pytest
from tests.memory.test_memory_run import Recalling
from tests.memory_run_parts import run_benchmark
from tests.tables import cases

from tunecheck import ConfigurationError, Run, RunError
from tunecheck.runs import list_runs
from tunecheck_memory import MemoryOutcome

CONFIG = """\
config: {run_name: Own}
datasets:
  args: {memory_span: 900, dataset_examples: 2}
  datasets: [{name: colours}, {name: own.py}]
"""

KIND = """\
from tunecheck_memory import AskJudge, MemoryTest, Kind, Points, Say, Score, Wait, scripted_test

class Own(Kind):
    name = "own"
    title = "Own"

    def __init__(self):
        <init>

    def definitions(self, count, making):
        <definitions>
        return [scripted_test(self, str(number), ["A thing."], ["Which?"], ["thing"]) for number in range(count)]
"""

STEPS = """
    def steps(self, definition, scene):
        reply = yield Say("Hello.", question=True)
        <steps>
"""


@pytest.fixture(autouse=True)
def workspace(cwd: Path) -> Path:
    (cwd / "own.yml").write_text(CONFIG, "utf-8")
    return cwd


def write(init: str = "pass", definitions: str = "pass", steps: str | None = None, more: str = "") -> None:
    text = KIND.replace("<init>", init).replace("<definitions>", definitions)
    text += "" if steps is None else STEPS.replace("<steps>", steps)
    Path("own.py").write_text(text + more, "utf-8")


def had(**more: Any) -> MemoryOutcome:
    return run_benchmark("own.yml", Recalling(), **more)


@cases("memory")
def test_a_kind_that_cannot_be_made_is_refused_in_one_line_before_the_run(wrong: dict[str, str], said: str) -> None:
    write(**wrong)
    with pytest.raises(ConfigurationError) as refused:
        had()
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert [*list_runs(Path("eval_results"))] == []


@cases("memory")
def test_steps_that_are_wrong_stop_the_run_name_the_test_and_do_no_harm(steps: str, said: str) -> None:
    write(steps=steps)
    with pytest.raises(RunError) as stopped:
        had()
    assert "stopped: test 'Own - 0': steps() of its kind failed: " in str(stopped.value)
    assert said in str(stopped.value)
    assert "\n" not in str(stopped.value)
    write(steps="return Points(1, 1, ())")
    (found,) = list_runs(Path("eval_results"))
    assert found.status() == "stopped"
    outcome = had(resume="last")
    assert [row["outputs.memory.memory"] for row in Run(outcome.result.run_dir).rows()][-2:] == [1.0, 1.0]


def test_a_question_that_nobody_can_judge_stops_the_run_and_is_no_error_of_every_test() -> None:
    write(steps="yield AskJudge('ripe', {})")
    with pytest.raises(
        RunError, match="stopped: a test asks a judge while it runs; name the judge's model with --judge"
    ):
        had()
    (found,) = list_runs(Path("eval_results"))
    assert found.status() == "stopped"


def test_a_score_that_is_none_is_the_error_of_its_test_alone() -> None:
    write(more="\n    def score(self, given):\n        return 'good'\n")
    outcome = had()
    assert (outcome.result.row_count, outcome.result.failed_row_count) == (4, 2)
    errors = [str(row.get("error.target") or row) for row in Run(outcome.result.run_dir).rows()][-2:]
    assert all("must return a Score or None, not str" in error for error in errors)
