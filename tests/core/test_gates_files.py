"""`--junit` and `--markdown`: what a pipeline reads of a run, whole and harmless whatever the texts hold."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st
from tests.cli_parts import SCREEN, Said, call, here, outside_code, replay, rows, workspace

from tunecheck import EvaluationResult, Run
from tunecheck._files import Summary
from tunecheck.cli import Options
from tunecheck.cli._evaluate.summary import RunPage, run_view
from tunecheck.cli._gates import GateOutcome
from tunecheck.pipeline import Failures
from tunecheck.pipeline._plan import Tally
from tunecheck.plugins import JSON, EvaluatorEntry
from tunecheck.results import FirstScreen
from tunecheck.views import junit

Evaluated = Callable[..., Said]

HOSTILE = "<!-- ]]> & \x1b[31m \x00 | `x` ![i](http://evil.example/p.png) @everyone <script>alert(1)</script>"


class PageInMemory(RunPage, frozen=True):
    """The page of a run without a folder."""

    @property
    def screen(self) -> FirstScreen:
        return SCREEN


def summary(text: str = "run", *gates: GateOutcome, errors: int = 0) -> RunPage:
    metrics: dict[str, JSON] = {f"{text}.error_count": errors}
    declared = {text: EvaluatorEntry()}
    counted: dict[str, Any] = {"rows": 10, "failed_rows": errors, "simulated": False, "usage": {}, "notes": []}
    result = EvaluationResult(Run(Path(text)), Summary(metrics=metrics, by={}, **counted), [], Tally())
    return PageInMemory(Options(), text, text, result, declared, Failures(), gates, [text])


def junit_xml(summary: RunPage) -> bytes:
    return junit(run_view(summary), summary.seconds)


def the_cases(content: bytes) -> dict[str, ElementTree.Element]:
    return {str(case.get("name")): case for case in ElementTree.fromstring(content).iter("testcase")}


def test_there_is_a_test_for_each_gate() -> None:
    gates = [GateOutcome("a >= 0.5", 0.25, False, "mean of a"), GateOutcome("b >= 0.5", 0.75, True)]
    content = junit_xml(summary("match", *gates, errors=2))
    suite = ElementTree.fromstring(content).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    cases = the_cases(content)
    assert list(cases) == ["a >= 0.5", "b >= 0.5"]
    failure = cases["a >= 0.5"].find("failure")
    assert failure is not None
    assert failure.get("message") == "required a >= 0.5, found 0.25 (mean of a)"
    assert cases["b >= 0.5"].find("failure") is None


def test_without_a_gate_errors_fail_only_if_every_row_has_one() -> None:
    assert the_cases(junit_xml(summary("m", errors=9)))["error rate"].find("failure") is None
    failure = the_cases(junit_xml(summary("m", errors=10)))["error rate"].find("failure")
    assert failure is not None
    assert failure.text == "10 of 10 rows with an error"


@given(st.text(min_size=1), st.text())
def test_any_text_gives_valid_xml(name: str, remark: str) -> None:
    content = junit_xml(summary(name, GateOutcome(name, None, False, remark)))
    assert len(list(ElementTree.fromstring(content).iter("testcase"))) == 1


def test_hostile_text_is_text_and_loses_its_control_characters() -> None:
    (first,) = the_cases(junit_xml(summary("m", GateOutcome(HOSTILE, None, False))))
    assert first == HOSTILE.replace("\x1b", "").replace("\x00", "")


@pytest.fixture
def evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Evaluated:
    """The command `evaluate` over ten rows that hold hostile text, answered rightly but for the named rows.

    A row whose answer is None gets an error.
    """
    monkeypatch.chdir(workspace(tmp_path, rows(10, city=HOSTILE)))
    right = {str(row["id"]): row["answer"] for row in rows(10)}

    def run(*more: str, **answers: object) -> Said:
        replay(tmp_path, {name: answer for name, answer in {**right, **answers}.items() if answer is not None})
        return here(capsys, "evaluate", "--dataset", "small.jsonl", "--endpoint", "endpoints/recorded.yaml", *more)

    return run


FILES = ("--junit", "out.xml", "--markdown", "out.md")


def test_both_files_are_written_when_gates_are_met(evaluated: Evaluated, tmp_path: Path) -> None:
    said = evaluated(*FILES, "--fail-under", "function_call_match>=0.8")
    assert said.code == 0, said
    cases = the_cases((tmp_path / "out.xml").read_bytes())
    assert list(cases) == ["function_call_match >= 0.8", "error rate <= 0"]
    page = (tmp_path / "out.md").read_text("utf-8")
    assert page.startswith("### ✅ `small-")
    # Wilson's interval of 10 of 10 at 95%: n / (n + z²) = 10 / 13.8415 = 0.7225
    assert "| `function_call_match` | 10 of 10 (100.0%) | 72.2% to 100.0% |" in page
    assert not list(tmp_path.glob(".out.*"))


def test_both_files_are_written_when_a_gate_is_not_met(evaluated: Evaluated, tmp_path: Path) -> None:
    wrong = call(name=HOSTILE)
    said = evaluated(*FILES, "--fail-under", "function_call_match>=0.95", r0=wrong, r1=wrong)
    assert said.code == 3, said
    case = the_cases((tmp_path / "out.xml").read_bytes())["function_call_match >= 0.95"]
    failure = case.find("failure")
    assert failure is not None
    assert failure.get("message") == "required function_call_match >= 95%, found 80.0%"
    page = (tmp_path / "out.md").read_text("utf-8")
    assert page.startswith("### ❌ `small-")
    assert "| ❌ gate NOT met | required `function_call_match >= 95%`, found 80.0% |" in page
    assert "| 2 | 20.0% | called a function that is not among the tools e.g. `r0` |" in page


def test_a_row_without_an_answer_fails_one_test(evaluated: Evaluated, tmp_path: Path) -> None:
    """One error of the endpoint is no failure of each evaluator."""
    assert evaluated(*FILES, "--fail-under", "function_call_match>=0.5", r3=None).code == 3
    content = (tmp_path / "out.xml").read_bytes()
    assert [name for name, case in the_cases(content).items() if case.find("failure") is not None] == [
        "error rate <= 0"
    ]


def test_nothing_that_a_model_says_acts_in_the_markdown(evaluated: Evaluated, tmp_path: Path) -> None:
    wrong = call(people=2, name="book`` <img src=x> | @everyone ![a](http://evil.example)")
    evaluated(*FILES, r0=wrong)
    outside = outside_code((tmp_path / "out.md").read_text("utf-8"))
    for mark in ("<", "@", "![", "evil", "]("):
        assert mark not in outside


@pytest.mark.parametrize("option", ["--junit", "--markdown"])
def test_a_folder_that_is_not_there_is_said_before_the_run(evaluated: Evaluated, tmp_path: Path, option: str) -> None:
    said = evaluated(option, "nowhere/out")
    assert said.code == 2
    assert f"{option} nowhere/out: the folder nowhere does not exist" in said.err
    assert not (tmp_path / "eval_results").exists()


def test_each_test_says_that_the_answers_are_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace(tmp_path, rows(3))
    options = ("--dataset", f"{tmp_path}/datasets/small.jsonl", "--results-dir", f"{tmp_path}/runs")
    files = ("--junit", f"{tmp_path}/out.xml", "--fail-under", "function_call_match>=0", "--allow-simulated")
    here(capsys, "evaluate", *options, *files)
    cases = the_cases((tmp_path / "out.xml").read_bytes())
    found = [case.findtext("system-out") for case in cases.values()]
    assert len(found) == 2
    assert all(str(text).startswith("SIMULATED answers: no model was asked; required ") for text in found)


def test_score_writes_them_too(evaluated: Evaluated, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluated()
    assert here(capsys, "score", "last", *FILES).code == 0
    assert (tmp_path / "out.xml").is_file()
    assert (tmp_path / "out.md").is_file()
