"""The evaluator of memory tests: words first, then a judge, else not applicable with a reason."""

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ROOT
from tests.judge_parts import Asked, JudgeServer, Scripted
from tests.pipeline_parts import column, metrics_of, run
from tests.tables import cases

from tunecheck import ConfigurationError
from tunecheck.prompts import load_prompt
from tunecheck_memory import MemoryEvaluator

RECALL: dict[str, Any] = {
    "dataset": "Delayed Recall",
    "expected": ["two sisters", "a grey heron"],
    "responses": ["Two sisters do.", "A white swan."],
    "questions": ["Who runs the lighthouse?", "Which bird nests there?"],
    "script": ["Two sisters run the lighthouse. A grey heron nests there.", "Who runs the lighthouse?"],
}
PROMPTS = ("recall", "how_to_think", "conflicting_info", "joke", "route", "trigger")


def says(right: bool, reason: str = "1 yes, 2 yes, 3 yes") -> str:
    return json.dumps({"reason": reason, "right": right})


def test_words_decide_without_a_judge() -> None:
    assert MemoryEvaluator()(dataset="Colours", expected=["Red"], responses=["Red, of course"]) == {
        "memory": 1.0,
        "memory_score": 1.0,
        "memory_passed": True,
        "memory_result": "pass",
        "memory_reason": "the reply says 'red'",
        "memory_status": "completed",
        "memory_threshold": 0.5,
        "memory_properties": {"dataset": "Colours", "by": "words"},
    }


@cases("memory")
def test_a_row_has_the_score_of_its_words_or_of_its_judge(
    row: dict[str, Any], right: list[bool] | None, score: float, by: str, reason: list[str], asked: list[list[str]]
) -> None:
    """`right` has the judge's answers, null without a judge; `reason` patterns; `asked` parts of each question."""
    model = Scripted(*map(says, right or ()))
    found: Any = MemoryEvaluator(None if right is None else model)(**row)
    assert (found["memory"], found["memory_properties"]["by"]) == (pytest.approx(score), by)
    assert all(re.search(part, found["memory_reason"]) for part in reason)
    assert len(model.requests) == len(right or ())
    for request, parts in zip(model.requests, asked, strict=bool(asked)):
        assert all(part in str(request.messages[-1]["content"]) for part in parts)


def test_without_a_judge_what_needs_one_is_not_applicable() -> None:
    found = MemoryEvaluator()(**RECALL)
    assert found["memory"] is None
    assert found["memory_result"] == "not_applicable"
    assert found["memory_status"] == "skipped"
    assert "--judge" in str(found["memory_reason"])


COLOURS = {"dataset": "Colours", "expected": ["Red"], "responses": ["Red"]}
NO_QUESTION = "a judge needs an expected text and a reply"


@pytest.mark.parametrize("most", [0, -2])
def test_points_without_a_most_are_explained(most: int) -> None:
    found = MemoryEvaluator()(**COLOURS, points={"points": 1, "most": most})
    reason = f"`most` in the test's points must be above 0, not {most}; give a judge with --judge ENDPOINT"
    assert found["memory"] is None and str(found["memory_reason"]).startswith(reason)


@pytest.mark.parametrize("model", [None, Scripted()], ids=["no judge", "judge"])
@pytest.mark.parametrize(
    ("row", "score", "reason"),
    [
        ({**RECALL, "responses": []}, None, f"only a judge can score Delayed Recall; {NO_QUESTION}"),
        (
            {**COLOURS, "dataset": "Haiku", "expected": []},
            None,
            f"there are no scoring rules .* 'Haiku'; {NO_QUESTION}",
        ),
        ({**COLOURS, "expected": [], "own_score": 0.5, "own_sure": False}, 0.5, f"rules are not sure; {NO_QUESTION}"),
    ],
)
def test_a_row_without_a_question_for_a_judge_does_not_ask_for_one(
    row: dict[str, Any], score: float | None, reason: str, model: Scripted | None
) -> None:
    found = MemoryEvaluator(model)(**row)
    assert found["memory"] == score
    assert re.search(f"{reason}$", str(found["memory_reason"]))


def test_a_judge_is_asked_about_each_question() -> None:
    model = Scripted(says(True), says(False, "1 no, 2 no, 3 yes"))
    found = MemoryEvaluator(model)(**RECALL)
    assert found["memory"] == 0.5
    assert found["memory_reason"] == "1 yes, 2 yes, 3 yes; 1 no, 2 no, 3 yes"
    properties: Any = found["memory_properties"]
    assert (properties["by"], properties["prompt"]) == ("judge", "memory_recall")
    assert (properties["input_tokens"], properties["output_tokens"]) == (200, 20)
    first, second = (str(request.messages[-1]["content"]) for request in model.requests)
    assert "Who runs the lighthouse?" in first and "Two sisters do." in first
    assert "Which bird nests there?" in second and "a grey heron" in second
    assert "A grey heron nests there." in first


def test_answers_beyond_the_judge_s_limit_of_questions_do_not_count() -> None:
    texts = [f"answer {number}" for number in range(60)]
    model = Scripted(*[says(True)] * 50)
    found = MemoryEvaluator(model)(**{**RECALL, "expected": texts, "responses": texts})
    assert (found["memory"], len(model.requests)) == (1.0, 50)


@cases("memory")
def test_each_sort_of_test_has_its_prompt(dataset: str, prompt: str) -> None:
    found: Any = MemoryEvaluator(Scripted(says(True)))(dataset=dataset, expected=["x"], responses=["x"])
    assert found["memory_properties"]["prompt"] == prompt


def test_columns_may_be_json_text_as_csv_files_have_them() -> None:
    found = MemoryEvaluator()(
        dataset="Shopping",
        expected='[["soap", 2]]',
        responses='["[{\\"item\\": \\"soap\\", \\"quantity\\": 2}]"]',
        script=float("nan"),
    )
    assert found["memory"] == 1.0


@pytest.mark.parametrize("dataset", [None, "", 3, ["Colours"], float("nan")])
def test_a_row_without_a_data_set_is_an_error(dataset: object) -> None:
    with pytest.raises(ValueError, match="`dataset` must be a memory data set's title, like Spy Meeting, not"):
        MemoryEvaluator()(dataset=dataset, expected=["Red"], responses=["Red"])


@pytest.mark.parametrize("threshold", [-0.1, 1.5, True, "half"])
def test_a_threshold_is_a_share(threshold: Any) -> None:
    with pytest.raises(ConfigurationError, match="threshold must be a number from 0 to 1"):
        MemoryEvaluator(threshold=threshold)


def test_it_can_be_pickled_and_names_its_arguments() -> None:
    judge = MemoryEvaluator(threshold=0.7)
    assert pickle.loads(pickle.dumps(judge)).arguments == judge.arguments
    assert judge.arguments["threshold"] == 0.7


def test_another_prompt_in_the_workspace_is_taken(cwd: Path) -> None:
    folder = cwd / "prompty"
    folder.mkdir()
    before = MemoryEvaluator(Scripted()).arguments["judges"]
    own = Path(load_prompt_file("recall")).read_text(encoding="utf-8").replace("Is the reply right?", "Well?")
    (folder / "memory_recall.prompty").write_text(own, encoding="utf-8")
    model = Scripted(says(True))
    judge = MemoryEvaluator(model)
    judge(**{**RECALL, "responses": ["x"]})
    assert str(model.requests[0].messages[-1]["content"]).rstrip().endswith("Well? Reply with the JSON object only.")
    assert judge.arguments["judges"] != before


def load_prompt_file(name: str) -> str:
    return str(ROOT / "src" / "tunecheck_memory" / "data" / "prompts" / f"memory_{name}.prompty")


@pytest.mark.parametrize("name", PROMPTS)
def test_every_prompt_shows_its_data_between_marks(name: str) -> None:
    prompt = load_prompt(load_prompt_file(name))
    values = {
        "told": "TOLD",
        "question": "QUESTION",
        "expected": "EXPECTED",
        "response": "RESPONSE",
        "data_mark": "MARK",
    }
    text = str(prompt.render(values)[-1]["content"])
    for word in ("TOLD", "QUESTION", "EXPECTED", "RESPONSE"):
        before, _, after = text.partition(f"\n{word}\n")
        assert before.rpartition("\n")[2].startswith("=== ") and "MARK" in before.rpartition("\n")[2]
        assert after.startswith("=== end MARK ===")


# -- in a run


def rows() -> list[dict[str, Any]]:
    return [
        {"id": "c0", "dataset": "Colours", "expected": ["Red"], "responses": ["Red"]},
        {"id": "c1", "dataset": "Colours", "expected": ["Red"], "responses": ["Blue"]},
        {"id": "n0", "dataset": "NameList", "expected": ["Ann", "Ben"], "responses": ['["Ann", "Ben"]']},
        {"id": "d0", **RECALL},
    ]


def test_a_run_has_the_mean_of_each_data_set_and_of_all(tmp_path: Path) -> None:
    result = run(tmp_path, rows(), evaluators={"memory": MemoryEvaluator()})
    assert column(result, "outputs.memory.memory") == [1.0, 0.0, 1.0, None]
    metrics = metrics_of(result)
    assert metrics["memory.memory"] == pytest.approx(2 / 3)
    assert metrics["memory.mean_colours"] == 0.5
    assert metrics["memory.mean_namelist"] == 1.0
    assert metrics["memory.score"] == 1.5
    assert metrics["memory.accuracy"] == 0.75
    assert metrics["memory.not_applicable_count"] == 1


def test_a_run_asks_its_judge_through_the_journal(tmp_path: Path) -> None:
    def reply(asked: Asked) -> str:
        return says("Two sisters do." in asked["messages"][-1]["content"])

    with JudgeServer(reply) as server:
        result = run(tmp_path, rows(), evaluators={"memory": MemoryEvaluator(server.endpoint())})
    assert column(result, "outputs.memory.memory") == [1.0, 0.0, 1.0, 0.5]
    assert len(server.asked) == 2
    usage: Any = result.usage["memory"]
    assert usage["calls"] == 2


def test_a_test_that_fails_has_a_fault_with_its_reason_as_data() -> None:
    found: Any = MemoryEvaluator()(dataset="Colours", expected=["red"], responses=["It is blue."])
    (fault,) = found["memory_properties"]["faults"]
    assert fault == {
        "code": "not_remembered",
        "message": found["memory_reason"],
        "expected": ["red"],
        "actual": ["It is blue."],
    }
    right: Any = MemoryEvaluator()(dataset="Colours", expected=["red"], responses=["Red."])
    assert "faults" not in right["memory_properties"]
