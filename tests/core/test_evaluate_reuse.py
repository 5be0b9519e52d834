"""Reusing an earlier run: exactly what depends on a change is done again, and nothing else."""

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest
from tests.pipeline_parts import Answering, column, journal_of, metrics_of, only_run, questions, rows_of, run

from tunecheck import ConfigurationError, EvaluationResult, Row, RunError, StopRunError, score
from tunecheck.plugins import load_file

JUDGES = """
CALLS = []

def length(response, question=None):
    CALLS.append(("length", response))
    return {"n": len(response)}

class AtLeast:
    def __init__(self, least=3):
        self.least = least
    def __call__(self, *, response):
        CALLS.append(("at_least", response))
        return {"ok": len(response) >= self.least}

async def later(response):
    CALLS.append(("later", response))
    return {"n": len(response)}
"""


class Judges:
    """A user's module of evaluators, and how often each was called."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "reuse_judges.py"
        self.write(JUDGES)

    def write(self, source: str) -> None:
        self.path.write_text(source)
        self.module: ModuleType = load_file(self.path, "reuse_judges")

    def all(self, least: int = 3) -> dict[str, Any]:
        module = self.module
        return {"length": module.length, "at_least": module.AtLeast(least), "later": module.later}

    def calls(self) -> dict[str, list[str]]:
        """The calls of each evaluator since the last look."""
        calls, self.module.CALLS[:] = list(self.module.CALLS), []
        return {name: sorted(response for by, response in calls if by == name) for name, _ in calls}


@pytest.fixture
def judges(tmp_path: Path) -> Iterator[Judges]:
    yield Judges(tmp_path)
    sys.modules.pop("reuse_judges", None)


def answer_to(number: int) -> str:
    return f"answer to What is {number}?"


@pytest.fixture
def first(tmp_path: Path, judges: Judges) -> EvaluationResult:
    """A finished run over ten questions."""
    result = run(tmp_path, questions(10), target=Answering(), evaluators=judges.all())
    judges.calls()
    return result


class Again:
    """Another run that reuses the first: what it asked and what it scored."""

    def __init__(self, tmp_path: Path, judges: Judges, first: EvaluationResult, **changes: Any) -> None:
        self.target = changes.pop("target", Answering())
        arguments = {"data": questions(10), "evaluators": judges.all(), "reuse": first.run_dir} | changes
        self.result = run(tmp_path, arguments.pop("data"), target=self.target, **arguments)
        self.scored = judges.calls()

    @property
    def asked(self) -> list[str]:
        return sorted(self.target.asked)


@pytest.fixture
def again_with(tmp_path: Path, judges: Judges, first: EvaluationResult) -> Callable[..., Again]:
    """Run again with these changes."""
    return partial(Again, tmp_path, judges, first)


def plain(result: EvaluationResult) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    return rows_of(result), metrics_of(result)


def test_nothing_changed_means_nothing_done(first: EvaluationResult, again_with: Callable[..., Again]) -> None:
    again = again_with()
    assert (again.asked, again.scored) == ([], {})
    assert plain(again.result) == plain(first)
    assert again.result.run_dir != first.run_dir
    assert again.result.notes == []


def test_a_run_that_reused_everything_can_itself_be_reused(
    tmp_path: Path, judges: Judges, first: EvaluationResult, again_with: Callable[..., Again]
) -> None:
    second = again_with()
    shutil.rmtree(first.run_dir)
    third = Again(tmp_path, judges, second.result)
    assert (third.asked, third.scored) == ([], {})
    assert plain(third.result) == plain(first)


def test_a_changed_row_is_asked_and_scored_again_and_no_other(again_with: Callable[..., Again]) -> None:
    data = questions(10)
    data[4]["question"] = "What is it?"
    again = again_with(data=data)
    assert again.asked == ["q4"]
    assert again.scored == {name: ["answer to What is it?"] for name in ("length", "at_least", "later")}
    assert column(again.result, "outputs.length.n")[3:6] == [20, 21, 20]


def test_an_inserted_row_moves_the_others_and_asks_for_none_of_them(again_with: Callable[..., Again]) -> None:
    data = [{"id": "new", "question": "What is new?"}, *questions(10)]
    again = again_with(data=data)
    assert again.asked == ["new"]
    assert again.scored["length"] == ["answer to What is new?"]
    assert column(again.result, "outputs.response")[1:] == [answer_to(n) for n in range(10)]


def test_rows_in_another_order_ask_nobody(again_with: Callable[..., Again]) -> None:
    again = again_with(data=questions(10)[::-1])
    assert (again.asked, again.scored) == ([], {})
    assert column(again.result, "outputs.response") == [answer_to(n) for n in reversed(range(10))]


def test_a_changed_mapping_scores_again_what_it_feeds(again_with: Callable[..., Again]) -> None:
    again = again_with(evaluator_config={"at_least": {"response": "${data.question}"}})
    assert again.asked == []
    assert again.scored == {"at_least": [f"What is {n}?" for n in range(10)]}


def test_a_mapping_that_gives_the_same_values_scores_nothing(again_with: Callable[..., Again]) -> None:
    again = again_with(evaluator_config={"at_least": {"response": "${target.response}"}})
    assert (again.asked, again.scored) == ([], {})


def test_an_evaluator_s_argument_scores_it_again(judges: Judges, again_with: Callable[..., Again]) -> None:
    again = again_with(evaluators=judges.all(least=30))
    assert again.asked == []
    assert list(again.scored) == ["at_least"]
    assert metrics_of(again.result)["at_least.ok"] == 0


def test_an_evaluator_s_source_scores_it_again(judges: Judges, again_with: Callable[..., Again]) -> None:
    judges.write(JUDGES.replace('{"n": len(response)}', '{"n": -len(response)}'))
    again = again_with(evaluators={"length": judges.module.length})
    assert (again.asked, len(again.scored["length"])) == ([], 10)
    assert metrics_of(again.result)["length.n"] == -20


def test_another_evaluator_is_scored_and_the_others_are_not(judges: Judges, again_with: Callable[..., Again]) -> None:
    again = again_with(evaluators={**judges.all(), "more": judges.module.AtLeast(5)})
    assert (again.asked, len(again.scored["at_least"])) == ([], 10)
    assert list(again.scored) == ["at_least"]


def test_a_target_s_setting_asks_again_and_scores_what_came_out_different(again_with: Callable[..., Again]) -> None:
    def answer(row: Row) -> dict[str, Any]:
        return {"response": "other" if row.index == 3 else answer_to(row.index)}

    again = again_with(target=Answering(answer, version="2"))
    assert len(again.asked) == 10
    assert again.scored == {name: ["other"] for name in ("length", "at_least", "later")}


def test_a_closure_is_scored_again_and_its_neighbours_are_not(tmp_path: Path, judges: Judges) -> None:
    counted: list[str] = []

    def closure(response: str) -> int:
        counted.append(response)
        return 1

    evaluators = {**judges.all(), "closure": closure}
    begun = run(tmp_path, questions(10), target=Answering(), evaluators=evaluators)
    judges.calls()
    again = Again(tmp_path, judges, begun, evaluators=evaluators)
    assert (again.asked, again.scored, len(counted)) == ([], {}, 20)


def test_answers_of_a_target_without_a_fingerprint_are_reused_with_a_note(tmp_path: Path, judges: Judges) -> None:
    begun = run(tmp_path, questions(4), target=Answering(version=None), evaluators=judges.all())
    again = Again(tmp_path, judges, begun, data=questions(4), target=Answering(version=None))
    assert again.asked == []
    assert again.result.notes == [
        "answers were reused, but Tunecheck cannot tell whether the target's code is the same: check it"
    ]
    assert "whether the target's code is the same" in (again.result.run_dir / "metrics.json").read_text()


def test_answers_of_a_target_with_a_fingerprint_are_not_given_to_one_without(again_with: Callable[..., Again]) -> None:
    assert len(again_with(target=Answering(version=None)).asked) == 10


def test_a_run_without_a_target_reuses_verdicts(tmp_path: Path, judges: Judges) -> None:
    data = [{"response": "a" * n} for n in range(5)]
    begun = run(tmp_path, data, evaluators=judges.all())
    judges.calls()
    data[2]["response"] = "changed"
    run(tmp_path, data, evaluators=judges.all(), reuse=begun.run_dir)
    assert judges.calls() == {name: ["changed"] for name in ("length", "at_least", "later")}


# -- equal rows, failed rows


def numbering() -> Answering:
    """A target that gives each row of equal content another answer, as a model with a temperature does."""
    return Answering(lambda row: {"response": f"answer number {row.index}"})


def test_rows_of_equal_content_keep_their_own_answers(tmp_path: Path, judges: Judges) -> None:
    data = [{"question": "the same"} for _ in range(6)]
    begun = run(tmp_path, data, target=numbering(), evaluators=judges.all(), concurrency=1)
    again = Again(tmp_path, judges, begun, data=data, target=numbering())
    assert (again.asked, again.result["rows"]) == ([], begun["rows"])
    scored = score(begun.run_dir, evaluators={"other": judges.module.AtLeast(9)}, results_dir=tmp_path / "runs")
    assert column(scored, "outputs.response") == column(begun, "outputs.response")


def test_rows_that_failed_are_asked_again(tmp_path: Path, judges: Judges) -> None:
    def picky(row: Row) -> dict[str, Any]:
        if row.index % 3 == 0:
            raise ValueError("no")
        return {"response": answer_to(row.index)}

    begun = run(tmp_path, questions(10), target=Answering(picky), evaluators=judges.all())
    judges.calls()
    again = Again(tmp_path, judges, begun)
    assert again.asked == ["q0", "q3", "q6", "q9"]
    assert again.scored["length"] == sorted(answer_to(n) for n in (0, 3, 6, 9))
    assert again.result.failed_row_count == 0


def test_verdicts_that_failed_are_tried_again(tmp_path: Path, judges: Judges) -> None:
    fails = 'if response.endswith("7?"): raise ValueError("seven")\n    '
    judges.write(JUDGES.replace("return {", fails + "return {", 1))
    begun = run(tmp_path, questions(10), target=Answering(), evaluators={"length": judges.module.length})
    judges.calls()
    again = Again(tmp_path, judges, begun, evaluators={"length": judges.module.length})
    assert (again.asked, again.scored) == ([], {"length": [answer_to(7)]})


# -- resume


class Interrupted:
    """A run that stopped in the middle, and what it had by then."""

    def __init__(self, tmp_path: Path, judges: Judges, at: int = 6, **arguments: Any) -> None:
        self.refuse = True

        def answer(row: Row) -> dict[str, Any]:
            if self.refuse and row.index == at:
                raise StopRunError("no more")
            return {"response": answer_to(row.index)}

        self.target = Answering(answer)
        self.arguments = {"target": self.target, "evaluators": judges.all(), "concurrency": 1} | arguments
        with pytest.raises(RunError):
            run(tmp_path, questions(10), **self.arguments)
        self.asked = list(self.target.asked)
        self.keys = list(self.target.keys)
        self.target.asked.clear()
        self.target.keys.clear()
        self.refuse = False


def test_a_call_in_flight_is_sent_again_under_the_same_key(tmp_path: Path, judges: Judges) -> None:
    cut = Interrupted(tmp_path, judges)
    run(tmp_path, questions(10), resume="last", **cut.arguments)
    assert cut.asked == [f"q{n}" for n in range(7)]
    assert cut.target.asked == [f"q{n}" for n in range(6, 10)]
    assert cut.target.keys[0] == cut.keys[-1]
    assert len({*cut.keys, *cut.target.keys}) == 10


def test_a_resumed_run_equals_an_unbroken_one(tmp_path: Path, judges: Judges, first: EvaluationResult) -> None:
    (tmp_path / "other").mkdir()
    cut = Interrupted(tmp_path / "other", judges)
    judges.calls()
    resumed = run(tmp_path / "other", questions(10), resume="last", **cut.arguments)
    for file in ("eval_results.jsonl", "eval_results.csv", "metrics.json"):
        assert (resumed.run_dir / file).read_bytes() == (first.run_dir / file).read_bytes()
    assert all(len(calls) <= 10 for calls in judges.calls().values())


def test_a_finished_run_resumed_stays_the_same(tmp_path: Path, judges: Judges, first: EvaluationResult) -> None:
    before = {path.name: path.read_bytes() for path in first.run_dir.iterdir() if path.name != "run.json"}
    target = Answering()
    run(tmp_path, questions(10), target=target, evaluators=judges.all(), resume=first.run_dir)
    assert (target.asked, judges.calls()) == ([], {})
    assert {path.name: path.read_bytes() for path in first.run_dir.iterdir() if path.name != "run.json"} == before


def test_error_rows_are_tried_again_on_resume(tmp_path: Path, judges: Judges) -> None:
    sick = True

    def answer(row: Row) -> dict[str, Any]:
        if sick and row.index in (2, 5):
            raise TimeoutError("slow")
        return {"response": answer_to(row.index)}

    target = Answering(answer)
    begun = run(tmp_path, questions(8), target=target, evaluators=judges.all())
    assert begun.failed_row_count == 2
    sick = False
    target.asked.clear()
    judges.calls()
    healed = run(tmp_path, questions(8), target=target, evaluators=judges.all(), resume="last")
    assert sorted(target.asked) == ["q2", "q5"]
    assert judges.calls()["length"] == sorted([answer_to(2), answer_to(5)])
    assert healed.failed_row_count == 0
    assert not [key for row in rows_of(healed) for key in row if key.startswith("error")]


ANSWERED = [{**question, "response": "x"} for question in questions(10)]
CHANGES: dict[str, Callable[[Judges], dict[str, Any]]] = {
    "the data rows has changed": lambda j: {"data": questions(11)},
    "the data had 10 rows, now 5": lambda j: {"limit": 5},
    "evaluator 'at_least' is missing now": lambda j: {"evaluators": {"length": j.module.length}},
    "evaluator 'new' is new": lambda j: {"evaluators": {**j.all(), "new": j.module.length}},
    "evaluator 'at_least' has other arguments .least 3 → 4.": lambda j: {"evaluators": j.all(least=4)},
    "the target's code has changed": lambda j: {"target": Answering(version="2")},
    "the run had a target, now it has": lambda j: {"target": None, "data": ANSWERED},
    "the mapping of 'length' changed from": lambda j: {"evaluator_config": {"length": {"question": None}}},
    r"group_by changed from \[\] to \['question'\]": lambda j: {"group_by": "question"},
}


# mutmut cannot run a test whose name holds a backslash; pytest writes one for `→`, too.
@pytest.mark.parametrize(
    ("said", "change"), CHANGES.items(), ids=[re.sub(r"[^ -\[\]-~]", "", said) for said in CHANGES]
)
def test_resume_refuses_a_changed_run_and_says_what_changed(
    tmp_path: Path, judges: Judges, change: Callable[[Judges], dict[str, Any]], said: str
) -> None:
    cut = Interrupted(tmp_path, judges)
    before = journal_of(only_run(tmp_path))
    arguments = {"data": questions(10), **cut.arguments, **change(judges)}
    with pytest.raises(ConfigurationError, match=said) as refusal:
        run(tmp_path, arguments.pop("data"), resume="last", **arguments)
    assert f"--reuse {only_run(tmp_path).id}" in str(refusal.value)
    assert journal_of(only_run(tmp_path)) == before
    assert only_run(tmp_path).status() == "stopped"


def test_resume_refuses_a_target_s_changed_mapping(tmp_path: Path, judges: Judges) -> None:
    data = [{"a": "x", "b": "y", "response": "r"}]
    mapped = partial(run, tmp_path, data, target=lambda q: q, evaluators=judges.all())
    mapped(evaluator_config={"target": {"q": "${data.a}"}})
    with pytest.raises(ConfigurationError, match="the mapping of 'target' changed from"):
        mapped(evaluator_config={"target": {"q": "${data.b}"}}, resume="last")


def test_resume_and_reuse_together_are_refused(again_with: Callable[..., Again]) -> None:
    with pytest.raises(ConfigurationError, match="give only one of them"):
        again_with(resume="last")


def test_a_cut_off_run_goes_on_reusing_another(tmp_path: Path, judges: Judges, first: EvaluationResult) -> None:
    """The rows that it had not come to are still taken from the run that it was made from."""
    changed = questions(10)
    changed[1]["question"] = "What else?"

    def answer(row: Row) -> dict[str, Any]:
        if stop:
            raise StopRunError("no more")
        return {"response": "else"}

    stop = True
    target = Answering(answer)
    arguments = {"target": target, "evaluators": judges.all(), "concurrency": 1}
    with pytest.raises(RunError):
        run(tmp_path, changed, reuse=first.run_dir, **arguments)
    stop = False
    target.asked.clear()
    result = run(tmp_path, changed, resume="last", **arguments)
    assert target.asked == ["q1"]
    assert column(result, "outputs.response")[2:] == [answer_to(n) for n in range(2, 10)]


def test_a_cut_off_run_goes_on_without_its_parent(tmp_path: Path, judges: Judges, first: EvaluationResult) -> None:
    def refuse(row: Row) -> NoReturn:
        raise StopRunError("no")

    target = Answering(refuse, version="2")
    with pytest.raises(RunError):
        run(tmp_path, questions(10), target=target, evaluators=judges.all(), reuse=first.run_dir)
    shutil.rmtree(first.run_dir)
    result = run(tmp_path, questions(10), target=Answering(version="2"), evaluators=judges.all(), resume="last")
    assert result.notes == [f"no results are reused from run {first.run_dir.name}: the run is no longer there"]
    assert result.failed_row_count == 0


def test_reusing_a_run_that_is_not_there_says_what_was_meant(tmp_path: Path, judges: Judges) -> None:
    with pytest.raises(ConfigurationError, match="there is no run 'nothing'"):
        run(tmp_path, questions(2), target=Answering(), evaluators=judges.all(), reuse="nothing")


def test_reusing_a_run_whose_journal_is_gone_is_said(first: EvaluationResult, again_with: Callable[..., Again]) -> None:
    (first.run_dir / "journal.jsonl").unlink()
    with pytest.raises(ConfigurationError, match="the run's records cannot be read"):
        again_with()


# -- score


def test_score_asks_nobody_and_equals_evaluate(tmp_path: Path, judges: Judges, first: EvaluationResult) -> None:
    other = {"more": judges.module.AtLeast(21), "later": judges.module.later}
    scored = score(first.run_dir, evaluators=other, results_dir=tmp_path / "runs", workers=0)
    calls = judges.calls()
    assert set(calls) == {"at_least"}, "a verdict that stood there already was made again"
    straight = run(tmp_path, questions(10), target=Answering(), evaluators=other)
    assert plain(scored) == plain(straight)
    assert (scored.run_dir / "eval_results.jsonl").read_bytes() == (
        straight.run_dir / "eval_results.jsonl"
    ).read_bytes()


def test_score_keeps_the_failed_rows_of_the_target_as_errors(tmp_path: Path, judges: Judges) -> None:
    def answer(row: Row) -> dict[str, Any]:
        if row.index == 1:
            raise ValueError("endpoint 500")
        return {"response": "x"}

    begun = run(tmp_path, questions(3), target=Answering(answer), evaluators=judges.all())
    scored = score(begun.run_dir, evaluators={"more": judges.module.AtLeast(1)}, results_dir=tmp_path / "runs")
    assert column(scored, "outputs.more.ok") == [True, None, True]
    assert column(scored, "error.target")[1]["message"].endswith("no answer to this row: ValueError: endpoint 500")


def test_score_uses_the_run_s_mapping_and_that_of_its_evaluators(tmp_path: Path, judges: Judges) -> None:
    config = {"default": {"response": "${target.text}"}, "own": {"response": "${data.question}"}}
    target = Answering(lambda row: {"text": "four"})
    evaluators = {"own": judges.module.length, "other": judges.module.length}
    begun = run(tmp_path, questions(2), target=target, evaluators=evaluators, evaluator_config=config)
    evaluators = {"own": judges.module.length, "fresh": judges.module.length}
    scored = score(begun.run_dir, evaluators=evaluators, results_dir=tmp_path / "runs")
    assert (column(scored, "outputs.own.n")[0], column(scored, "outputs.fresh.n")[0]) == (10, 4)
    changed = {"default": {"response": "${data.id}"}}
    scored = score(begun.run_dir, evaluators=evaluators, evaluator_config=changed, results_dir=tmp_path / "runs")
    assert (column(scored, "outputs.own.n")[0], column(scored, "outputs.fresh.n")[0]) == (10, 2)


def test_a_scored_run_reused_asks_its_target_nothing(tmp_path: Path, judges: Judges, first: EvaluationResult) -> None:
    other = {"more": judges.module.AtLeast(21)}
    scored = score(first.run_dir, evaluators=other, results_dir=tmp_path / "runs")
    judges.calls()
    again = Again(tmp_path, judges, scored, evaluators=other)
    assert (again.asked, again.scored) == ([], {})


def test_score_of_a_scored_run_works(tmp_path: Path, judges: Judges, first: EvaluationResult) -> None:
    once = score(first.run_dir, evaluators={"a": judges.module.AtLeast(21)}, results_dir=tmp_path / "runs")
    twice = score(once.run_dir, evaluators=judges.all(), results_dir=tmp_path / "runs")
    assert rows_of(twice) == rows_of(first)


def test_score_of_a_run_without_a_target_judges_its_rows(tmp_path: Path, judges: Judges) -> None:
    begun = run(tmp_path, [{"response": "a" * n} for n in range(3)], evaluators={"length": judges.module.length})
    scored = score(begun.run_dir, evaluators={"more": judges.module.AtLeast(2)}, results_dir=tmp_path / "runs")
    assert column(scored, "outputs.more.ok") == [False, False, True]


def test_score_of_an_unfinished_run_says_how_to_finish_it(tmp_path: Path, judges: Judges) -> None:
    Interrupted(tmp_path, judges)
    problem = r"has no results, because it is not finished \(\w+\): finish it with the same Python call and resume="
    with pytest.raises(ConfigurationError, match=problem):
        score("last", evaluators=judges.all(), results_dir=tmp_path / "runs")


def test_score_with_a_mapping_typo_is_an_error(tmp_path: Path, judges: Judges, first: EvaluationResult) -> None:
    mapping = {"default": {"response": "${data.questin}"}}
    with pytest.raises(ConfigurationError, match="names no column: there is no 'questin'"):
        score(first.run_dir, evaluators=judges.all(), evaluator_config=mapping, results_dir=tmp_path / "runs")
