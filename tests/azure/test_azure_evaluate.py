"""`tunecheck_azure.evaluate`: rows, metrics, mappings, targets and files as the documentation of Azure's has them."""

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from azure.core.exceptions import AzureError
from tests.azure_parts import CONVERSATION, QA, column, evaluate, jsonl
from tests.tables import cases

import tunecheck_azure as azure
from tunecheck import ConfigurationError


def length(response: str) -> dict[str, int]:
    return {"length": len(response)}


def picky(response: str) -> dict[str, Any]:
    if response == "red":
        raise ValueError("not red")
    return {"n": len(response), "ok": True, "word": "w", "none": None}


def test_a_row_has_its_inputs_and_outputs_and_nothing_else(tmp_path: Path) -> None:
    result = evaluate(tmp_path, evaluators={"e": length})
    assert list(result) == ["rows", "metrics", "studio_url"]
    assert list(result["rows"][0]) == [*(f"inputs.{name}" for name in QA[0]), "outputs.e.length"]
    assert result["metrics"] == {"e.length": 6.0}
    assert result["studio_url"] is None


def test_a_row_that_fails_is_nan_and_the_mean_that_of_the_others(tmp_path: Path) -> None:
    result = evaluate(tmp_path, evaluators={"e": picky})
    failed = {key: value for key, value in result["rows"][1].items() if key.startswith("outputs.")}
    assert list(failed) == ["outputs.e.n", "outputs.e.ok", "outputs.e.word", "outputs.e.none"]
    assert all(math.isnan(value) for value in failed.values())
    assert column(result, "outputs.e.word")[0] == "w"


def test_the_log_says_how_many_rows_have_a_metric_that_is_nan(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    numbers = iter((1.0, math.nan, 3.0))
    evaluators = {"e": picky, "f": length, "g": lambda response: {"n": next(numbers)}, "h": lambda response: 1 / 0}
    result = evaluate(tmp_path, evaluators=evaluators)
    (line,) = caplog.messages
    assert line.startswith(
        "metrics are missing or NaN: 'e' in 1 of 3 rows, 'g' in 1 of 3 rows, 'h' in 3 of 3 rows; means exclude these "
    )
    assert line.endswith(f"see {result.run_dir}/eval_results.jsonl")


@dataclasses.dataclass
class Aggregating:
    """An evaluator with an `__aggregate__`, as people write them."""

    judge: Callable[[str], Any]
    total: Callable[[list[Any]], Any]

    def __call__(self, response: str) -> Any:
        return self.judge(response)

    def __aggregate__(self, rows: list[Any]) -> Any:
        return self.total(rows)


async def later(response: str) -> int:
    return len(response)


def failing(response: str) -> NoReturn:
    raise ValueError(response)


def sum_of_n(rows: list[Any]) -> dict[str, Any]:
    return {"total": sum(row.n for row in rows if row.n == row.n), "rows": len(rows)}


SAID = {"red": "fail", "the sea": "not_applicable"}
DETAILS: dict[str, Any] = {"blue sky": {"sql": True, "path": False}, "red": {"sql": False}}
METRICS: dict[str, tuple[Any, dict[str, float]]] = {
    "a number is the column `output`": (lambda response: 3, {"e.output": 3.0}),
    "a text has no mean": (lambda response: "a text", {}),
    "nor has a list": (lambda response: [1, 2], {}),
    "an asynchronous evaluator": (later, {"e.output": 6.0}),
    "one that fails on every row": (failing, {}),
    "one that fails on some; truths with a gap have no mean": (picky, {"e.n": 7.5}),
    "pass rates are of all rows, of two digits": (
        lambda response: {"m_result": SAID.get(response, "pass")},
        {"e.binary_aggregate": 0.33},
    ),
    "thresholds, words and tokens have no mean": (
        lambda response: {
            "m_threshold": 3,
            "said": "5",
            "relevance_total_tokens": 7,
            "own_total_tokens": 7,
            "m_passed": True,
        },
        {"e.own_total_tokens": 7.0, "e.m_passed": 1.0},
    ),
    "the safety service's are defect rates": (
        lambda response: {
            "violence_score": len(response) - 1,
            "xpia_label": response == "red",
            "groundedness_pro_label": True,
        },
        {
            "e.violence_score": 5.0,
            "e.violence_defect_rate": 0.67,
            "e.xpia_defect_rate": 0.33,
            "e.groundedness_pro_passing_rate": 1.0,
        },
    ),
    "details of a safety label are rates by kind": (
        lambda response: {"code_vulnerability_details": DETAILS.get(response)},
        {"e.code_vulnerability_details.sql_defect_rate": 0.5, "e.code_vulnerability_details.path_defect_rate": 0.0},
    ),
    "an aggregate gets all rows, also those that failed": (
        Aggregating(picky, sum_of_n),
        {"e.n": 7.5, "e.total": 15, "e.rows": 3},
    ),
    "and is called where every row failed": (Aggregating(failing, sum_of_n), {"e.total": 0, "e.rows": 0}),
    "an aggregate of numbers": (Aggregating(len, lambda rows: {"total": sum(rows)}), {"e.output": 6.0, "e.total": 18}),
    "an aggregate that is a number is left out": (Aggregating(len, lambda rows: 7), {"e.output": 6.0}),
}


@pytest.mark.parametrize("case", METRICS)
def test_metrics_are_those_of_azure_s(tmp_path: Path, case: str) -> None:
    evaluator, metrics = METRICS[case]
    result = evaluate(tmp_path, evaluators={"e": evaluator})
    assert result["metrics"] == metrics
    if evaluator is failing:
        assert list(result["rows"][0]) == [f"inputs.{name}" for name in QA[0]]


def test_a_mapping_to_a_column_with_a_dot_in_its_name_takes_that_column(tmp_path: Path) -> None:
    row = {"a.b": "dotted", "a": {"b": "nested"}}
    config = {"e": {"column_mapping": {"text": "${data.a.b}"}}}
    result = evaluate(tmp_path, row, evaluators={"e": lambda text: {"text": text}}, evaluator_config=config)
    assert column(result, "outputs.e.text") == ["dotted"]


# -- column mapping


def given(**kwargs: Any) -> dict[str, Any]:
    return {"names": sorted(kwargs)}


def mapping(**columns: str) -> dict[str, Any]:
    return {"column_mapping": columns}


def test_a_mapping_of_its_own_replaces_the_default_one(tmp_path: Path) -> None:
    config = {"default": mapping(a="${data.context}"), "own": mapping(b="${data.query}")}

    def optional(query: str, a: str = "no", b: str = "no", context: str = "no") -> dict[str, str]:
        return {"seen": f"{query} {a} {b} {context}"}

    evaluators = {"own": optional, "other": optional, "own_any": given}
    config["own_any"] = mapping(x="${data.query}")
    result = evaluate(tmp_path, evaluators=evaluators, evaluator_config=config)
    assert column(result, "outputs.own.seen")[0] == "q1 no q1 no"
    assert column(result, "outputs.other.seen")[0] == "q1 c1 no c1"
    assert column(result, "outputs.own_any.names")[0] == ["x"]


@pytest.mark.parametrize("config", [[], "", {"e": None}])
def test_a_configuration_that_is_no_dictionary_is_refused(tmp_path: Path, config: Any) -> None:
    with pytest.raises(azure.EvaluationException):
        evaluate(tmp_path, evaluators={"e": length}, evaluator_config=config)


def test_parameters_without_a_column_are_told_of_all_evaluators_at_once(tmp_path: Path) -> None:
    def needs(nope: str, query: str, neither: int) -> int:
        return 1

    with pytest.raises(azure.EvaluationException) as raised:
        evaluate(tmp_path, evaluators={"e": needs, "f": lambda nope: 1, "fine": length})
    lines = ["Some evaluators are missing required inputs:", "- e: ['nope', 'neither']", "- f: ['nope']", ""]
    assert raised.value.args[0].splitlines()[:5] == [*lines, "To resolve this issue:"]
    assert raised.value.category is azure.ErrorCategory.MISSING_FIELD


@pytest.mark.parametrize("reference", ["${data.answer}", "${data.meta.answer}"])
def test_a_mapping_to_what_no_row_has_is_a_missing_input(tmp_path: Path, reference: str) -> None:
    config = {"e": mapping(response=reference)}
    with pytest.raises(azure.EvaluationException, match=r"- e: \['response'\]"):
        evaluate(tmp_path, {"meta": {"truth": 1}}, evaluators={"e": length}, evaluator_config=config)


def test_an_optional_parameter_mapped_to_nothing_leaves_the_evaluator_out(tmp_path: Path) -> None:
    config = {"e": mapping(x="${data.nope}")}
    result = evaluate(tmp_path, evaluators={"e": lambda x=1: {"x": x}}, evaluator_config=config)
    assert result["metrics"] == {}
    assert "outputs.e.x" not in result["rows"][0]


NESTED = ({"id": 1, "meta": {"response": "x", "deep": {"k": 1}}}, {"id": 2, "meta": {"response": "y"}})


def test_leaves_of_objects_go_by_their_own_names(tmp_path: Path) -> None:
    def evaluator(id: int, response: str = "none", k: int | None = None) -> dict[str, Any]:
        return {"seen": [id, response, k]}

    result = evaluate(tmp_path, *NESTED, evaluators={"e": evaluator})
    assert column(result, "outputs.e.seen") == [[1, "x", 1], [2, "y", None]]
    assert column(result, "inputs.meta.response") == ["x", "y"]


def test_a_column_with_a_dot_in_its_name_is_a_leaf_too(tmp_path: Path) -> None:
    row = {"meta.answer": "of meta", "answer": "own"}
    result = evaluate(tmp_path, row, evaluators={"e": lambda answer: {"got": answer}})
    assert result["rows"][0]["outputs.e.got"] == "of meta"


# -- targets


def test_a_target_gets_the_columns_of_its_required_parameters(tmp_path: Path) -> None:
    def target(query: str, context: str = "the default") -> dict[str, str]:
        return {"answer": f"{query}, {context}", "response": "new"}

    result = evaluate(tmp_path, target=target, evaluators={"e": length, "any": given})
    assert column(result, "outputs.answer")[0] == "q1, the default"
    assert column(result, "outputs.e.length") == [3, 3, 3]  # the target's column before the data's
    assert column(result, "inputs.response")[0] == "blue sky"
    assert column(result, "inputs.line_number") == [0, 1, 2]
    assert "answer" in column(result, "outputs.any.names")[0]


@dataclasses.dataclass
class Answer:
    answer: str


@pytest.mark.parametrize(
    ("answer", "name"), [(7, "output"), ("text", "output"), (Answer("yes"), "answer"), ({"a": 1, "b": 2}, "b")]
)
def test_what_a_target_returns_becomes_columns(tmp_path: Path, answer: Any, name: str) -> None:
    async def later(query: str) -> Any:
        return answer

    for target in (later, lambda query: later(query), lambda query: answer):
        result = evaluate(tmp_path, target=target, evaluators={"e": given})
        assert f"outputs.{name}" in result["rows"][0]


def test_what_a_target_needs_and_the_data_lacks_is_told(tmp_path: Path) -> None:
    with pytest.raises(azure.EvaluationException) as raised:
        evaluate(tmp_path, target=lambda nope, query: 1, evaluators={"e": given})
    assert raised.value.args[0] == "Missing required inputs for target: ['nope']."


def test_what_the_target_did_not_answer_is_a_missing_input(tmp_path: Path) -> None:
    with pytest.raises(azure.EvaluationException, match="- e: \\['answer'\\]") as raised:
        evaluate(tmp_path, target=lambda query: {"other": 1}, evaluators={"e": lambda answer: 1})
    assert "Currently generated columns: {'other'}" in raised.value.args[0]


def test_data_may_not_have_columns_called_as_a_target_s(tmp_path: Path) -> None:
    with pytest.raises(azure.EvaluationException) as raised:
        evaluate(tmp_path, {"__outputs.x": 1, "query": "q"}, target=lambda query: 1, evaluators={"e": given})
    assert raised.value.args[0] == 'The column cannot start from "__outputs." if target was defined.'


# -- data and files


def test_any_file_that_is_not_called_csv_is_read_as_json_lines(tmp_path: Path) -> None:
    result = evaluate(tmp_path, data=jsonl(tmp_path, name="data.txt"), evaluators={"e": length})
    assert result["metrics"] == {"e.length": 6.0}


def test_csv_is_text_and_what_is_empty_is_nan(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("query,response\n1,abc\n2,\n")
    result = evaluate(tmp_path, data=path, evaluators={"e": lambda query, response: {"t": type(response).__name__}})
    assert column(result, "outputs.e.t") == ["str", "float"]
    assert math.isnan(column(result, "inputs.response")[1])
    assert column(result, "inputs.query") == ["1", "2"]


def test_what_a_row_lacks_is_nan_and_what_is_null_stays_none(tmp_path: Path) -> None:
    rows = {"a": "x", "n": 1}, {"n": 2}, {"a": None}
    result = evaluate(tmp_path, *rows, evaluators={"e": lambda a, n: {"seen": type(a).__name__}})
    assert column(result, "outputs.e.seen") == ["str", "float", "NoneType"]
    values = [column(result, "inputs.a"), column(result, "inputs.n")]
    assert [["nan" if value != value else value for value in each] for each in values] == [
        ["x", "nan", None],
        [1.0, 2.0, "nan"],
    ]


def test_evaluators_of_one_kind_stand_beside_each_other_and_unknown_keywords_are_ignored(tmp_path: Path) -> None:
    rows = [{**row, "messages": CONVERSATION["messages"]} for row in QA]  # which text metrics do not look at
    evaluators = {"low": azure.F1ScoreEvaluator(), "high": azure.F1ScoreEvaluator(threshold=1)}
    unused: dict[str, Any] = {"credential": object(), "user_agent": "script/1", "_use_pf_client": False}
    metrics = evaluate(tmp_path, *rows, evaluators=evaluators, evaluator_configs={}, **unused)["metrics"]
    assert (metrics["low.binary_aggregate"], metrics["high.binary_aggregate"]) == (0.67, 0.67)


def test_ids_may_repeat(tmp_path: Path) -> None:
    result = evaluate(tmp_path, {"id": 1, "response": "a"}, {"id": 1, "response": "b"}, evaluators={"e": length})
    assert column(result, "inputs.id") == [1, 1]


@pytest.mark.parametrize("place", ["results.json", ""])
def test_the_results_are_written_as_one_json_file(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    rows = ({"response": "한국어"}, {"response": "red"})
    result = evaluate(tmp_path, *rows, evaluators={"e": picky}, output_path=folder / place)
    text = (folder / (place or "evaluation_results.json")).read_text("utf-8")
    written = json.loads(text, parse_constant=pytest.fail)
    assert written["metrics"] == result["metrics"]
    assert [row["inputs.response"] for row in written["rows"]] == ["한국어", "red"]
    assert written["rows"][1]["outputs.e.n"] is None
    assert "한국어" in text


def test_a_conversation_is_judged_turn_by_turn_and_its_turns_are_columns(tmp_path: Path) -> None:
    result = evaluate(tmp_path, {"conversation": CONVERSATION}, evaluators={"f1": azure.F1ScoreEvaluator()})
    row = result["rows"][0]
    assert row["outputs.f1.evaluation_per_turn.f1_score"] == [1.0, 0.0]
    assert row["outputs.f1.evaluation_per_turn.f1_score_result"] == ["pass", "fail"]
    assert (row["outputs.f1.f1_score"], row["outputs.f1.f1_score_result"]) == (0.5, "fail")  # the last turn's word
    assert result["metrics"] == {
        "f1.f1_score": 0.5,
        "f1.f1_score_score": 0.5,
        "f1.f1_score_passed": 0.5,
        "f1.binary_aggregate": 0.0,
    }


# -- what is wrong

NAMED = {"e": length}
WRONG = [
    ({"data": None}, "The 'data' parameter is required for evaluation."),
    ({"data": 3}, "The 'data' parameter must be a string or a path-like object."),
    ({"data": "nope.jsonl"}, "The input data file path 'nope.jsonl' does not exist."),
    ({"data": ""}, "The input data file path '' does not exist."),
    ({"target": "name"}, "The 'target' parameter must be a callable function."),
    ({"evaluators": None}, "The 'evaluators' parameter is required and cannot be None or empty."),
    ({"evaluators": [length]}, "The 'evaluators' parameter must be a dictionary."),
    ({"output_path": 3}, "The 'output_path' parameter must be a string or a path-like object."),
    (
        {"output_path": "/nope/x.json"},
        "The output directory '/nope' does not exist. Please create the directory manually.",
    ),
    ({"evaluation_name": " "}, "The 'evaluation_name' parameter must be a non-empty string."),
    *(
        (
            {"evaluator_config": {"e": mapping(response=reference)}},
            "Unexpected references detected in 'column_mapping'. Ensure only ${target.} and ${data.} are used.",
        )
        for reference in ("${foo.query}", "data.query", "${data.items[0]}", "literal", "${run.outputs.x}")
    ),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_a_wrong_argument_is_told_in_azure_s_words(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(azure.EvaluationException) as raised:
        evaluate(tmp_path, **({"evaluators": NAMED} | wrong))
    error = raised.value
    internal = None if "does not exist" in said else said  # paths are personal data
    assert (error.args[0], str(error), error.internal_message) == (said, f"(UserError) {said}", internal)
    assert (error.category, error.blame, error.target) == (
        azure.ErrorCategory.INVALID_VALUE,
        azure.ErrorBlame.USER_ERROR,
        azure.ErrorTarget.EVALUATE,
    )


PROJECT = {"subscription_id": "s", "resource_group_name": "g", "project_name": "p"}


@cases("azure")
def test_a_project_that_is_none_is_refused(tmp_path: Path, project: Any, said: str) -> None:
    with pytest.raises(azure.EvaluationException, match=said) as raised:
        evaluate(tmp_path, evaluators=NAMED, azure_ai_project=project)
    assert raised.value.blame is azure.ErrorBlame.USER_ERROR


def test_a_file_that_cannot_be_read_is_told_with_what_could(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    with pytest.raises(azure.EvaluationException) as raised:
        evaluate(tmp_path, data=path, evaluators=NAMED)
    said = f"Unable to load data from '{path}'. Supported formats are JSONL and CSV. Detailed error: "
    assert raised.value.args[0].startswith(said)
    assert raised.value.internal_message is None, "it would name the path, which is personal data"


def test_what_is_raised_is_azure_s_exception_and_ours(tmp_path: Path) -> None:
    with pytest.raises(azure.EvaluationException) as raised:
        evaluate(tmp_path, evaluators=NAMED, concurrency=0)
    assert isinstance(raised.value, ConfigurationError)
    assert isinstance(raised.value, AzureError)
    assert raised.value.blame is azure.ErrorBlame.USER_ERROR


def test_the_first_error_ends_the_run_where_that_is_asked_for(tmp_path: Path) -> None:
    evaluators = {"f": azure.F1ScoreEvaluator()}
    with pytest.raises(azure.EvaluationException) as raised:
        evaluate(tmp_path, {"query": "q"}, evaluators=evaluators, fail_on_evaluator_errors=True)
    assert "F1ScoreEvaluator: Either 'conversation' or individual inputs must be provided." in raised.value.args[0]
    assert (raised.value.target, raised.value.blame) == (azure.ErrorTarget.EVAL_RUN, azure.ErrorBlame.UNKNOWN)
    assert evaluate(tmp_path, {"query": "q"}, evaluators=evaluators)["metrics"] == {}


def test_a_ground_truth_that_is_mapped_from_a_missing_column_costs_its_evaluators_only(tmp_path: Path) -> None:
    config = {"default": mapping(response="${data.nope}", ground_truth="${data.nope}")}
    evaluators = {"f1": azure.F1ScoreEvaluator(), "gleu": azure.GleuScoreEvaluator()}
    assert evaluate(tmp_path, evaluators=evaluators, evaluator_config=config)["metrics"] == {}


def test_leaves_of_a_target_s_objects_are_columns_of_the_results(tmp_path: Path) -> None:
    def target(query: str) -> dict[str, Any]:
        return {"answer": {"text": query, "score": 2}}

    row = evaluate(tmp_path, target=target, evaluators={"e": lambda answer: {"text": answer["text"]}})["rows"][0]
    assert (row["outputs.answer.text"], row["outputs.answer.score"], row["outputs.e.text"]) == ("q1", 2, "q1")


def test_an_evaluator_that_takes_places_only_is_asked_for_by_name(tmp_path: Path) -> None:
    with pytest.raises(azure.EvaluationException, match=r"- e: \['obj'\]"):
        evaluate(tmp_path, evaluators={"e": len})


def test_tags_are_made_texts(tmp_path: Path) -> None:
    result = evaluate(tmp_path, evaluators={"e": lambda query: 1}, tags={"try": 1})
    assert json.loads((result.run_dir / "run.json").read_text())["tags"] == {"try": "1"}
