"""Odd result files, hostile arithmetic, and the places where a run, its verdicts and its scores must agree."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.authoring_parts import findings
from tests.bfcl_copy import bfcl_copy
from tests.cli_parts import inside
from tests.conversation_parts import had, log_items

from tunecheck import MultiTurnStateEvaluator, Row
from tunecheck_bfcl import CallCheckEvaluator, score_results
from tunecheck_bfcl._decoding import UndecodableError, decode_text

NAME = "BFCL_v4_multi_turn_base_result.json"


def write_results(folder: Path, *lines: object, name: str = NAME) -> Path:
    file = folder / "model" / "multi_turn" / name
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return file


@pytest.mark.parametrize("command", ["score", "show"])
def test_a_folder_that_cannot_be_written_is_said_in_a_line(tmp_path: Path, command: str) -> None:
    file = write_results(tmp_path, {"id": "multi_turn_base_1", "result": []})
    (tmp_path / "taken").write_text("")
    what = str(file) if command == "score" else "multi_turn_base_1"
    said = inside(tmp_path, "bfcl", command, what, "--out", str(tmp_path / "taken"), "--data", str(bfcl_copy()))
    assert said.code == 2
    assert said.err.startswith(f"error: {tmp_path / 'taken'}: cannot be written: ")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    "argument",
    [
        "[[1] * 9000] * 9000",
        "[[0] * 90, [0] * 90] * 900",
        "['a' * 9999] * 9000",
        "[" + ", ".join(["'a' * 9999"] * 9000) + "]",
        "[0] * 9000" + " + [0]" * 900,
    ],
)
def test_arithmetic_that_makes_lists_of_lists_does_not_grow(argument: str) -> None:
    with pytest.raises(UndecodableError):
        decode_text(f"[f(a={argument})]")


def test_arithmetic_of_an_ordinary_size_is_done() -> None:
    assert decode_text("[f(a=[0] * 3 + [1], b=2 * 60)]") == [{"f": {"a": [0, 0, 0, 1], "b": 120}}]


def test_texts_are_decoded_alike_in_many_threads() -> None:
    text = "[f(a=[" + ", ".join(f"{{'k': {number}}}" for number in range(200)) + "])]"
    with ThreadPoolExecutor(8) as pool:
        assert len({repr(found) for found in pool.map(decode_text, [text] * 400)}) == 1


def test_a_row_of_somebody_elses_is_not_judged_by_the_leaderboard_for_its_categorys_name() -> None:
    truth = [{"f": {"a": ["x", ""]}}]
    documents = [
        {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}, "required": []}}
    ]
    judged: dict[str, Any] = {"ground_truth": truth, "functions": documents, "result": [{"f": '{"a": " -_."}'}]}
    check = CallCheckEvaluator()
    assert check(**judged, category="multiple")["call_check_result"] == "fail"
    assert check(**judged, category="multiple", check="multiple")["call_check_result"] == "pass"


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False},
    ],
)
@pytest.mark.parametrize("column", ["functions", "tools"])
def test_definitions_may_be_openai_tools_and_need_not_say_what_is_required(parameters: object, column: str) -> None:
    definitions = {column: [{"type": "function", "function": {"name": "f", "parameters": parameters}}]}
    truth = [{"f": {"a": ["x"]}}]
    check = CallCheckEvaluator()
    assert check(result=[{"f": '{"a": "x"}'}], ground_truth=truth, **definitions)["call_check_result"] == "pass"
    assert check(result=[{"f": '{"a": "y"}'}], ground_truth=truth, **definitions)["call_check_result"] == "fail"


def test_a_configuration_that_cannot_do_without_a_part_is_no_problem_of_the_data() -> None:
    root = {"tmp": {"type": "directory", "contents": {"a.txt": {"type": "file", "content": "a"}}}}
    row = {
        "id": "one",
        "turns": [[{"role": "user", "content": "Into tmp, and list it."}]],
        "involved_classes": ["GorillaFileSystem"],
        "initial_config": {"GorillaFileSystem": {"root": root}},
        "ground_truth": [["cd(folder='tmp')", "ls()"]],
    }
    assert [(each.problem, each.turn) for each in list(findings([row]))] == [("call_fails", 0)]


@pytest.mark.parametrize("mode", ["tools", "text"])
def test_a_run_its_evaluators_and_the_score_of_its_files_agree(tmp_path: Path, mode: str) -> None:
    categories = "multi_turn_base,simple_python,simple_javascript,irrelevance"
    asked = ["--endpoint", "simulated", "--mode", mode, "--categories", categories, "--limit", "12"]
    said = inside(tmp_path, "bfcl", "run", *asked, "--data", str(bfcl_copy()), "--quiet")
    run = tmp_path / said.out.strip()
    assert verdicts_of_run(run) == scored_again(run)
    results = [json.loads(line)["result"] for line in next(run.rglob("*simple_python_result.json")).open()]
    assert all(isinstance(result, str) for result in results) is (mode == "text")


def verdicts_of_run(run: Path) -> dict[str, object]:
    rows = [json.loads(line) for line in (run / "eval_results.jsonl").open()]
    keys = ("outputs.multi_turn_state.multi_turn_state_passed", "outputs.call_check.call_check_passed")
    return {row["row_id"]: next(row[key] for key in keys if row.get(key) is not None) for row in rows}


def scored_again(run: Path) -> dict[str, object]:
    scores = score_results(run / "bfcl", data=bfcl_copy())
    categories = scores.models["simulated"].categories.values()
    return {name: verdict.valid for category in categories for name, verdict in category.verdicts}


async def test_a_conversation_of_bfcl_in_text_executes_the_calls_that_its_verdict_is_on() -> None:
    """The leaderboard drops positional arguments: `cd('docs')` fails there, and the model sees the error."""
    root = {"home": {"type": "directory", "contents": {"docs": {"type": "directory", "contents": {}}}}}
    values: dict[str, Any] = {
        "id": "multi_turn_base_0",
        "category": "multi_turn_base",
        "check": "multi_turn",
        "turns": [[{"role": "user", "content": "Into docs."}]],
        "involved_classes": ["GorillaFileSystem"],
        "initial_config": {"GorillaFileSystem": {"root": root}},
        "ground_truth": [["cd(folder='docs')"]],
    }
    answers = ["[cd('docs')]", "[cd(folder='docs')]", "Done."]
    output, _ = await had(answers, Row(0, "multi_turn_base_0", values, "h"), mode="text", data=bfcl_copy())
    first, second = (json.loads(item["content"]) for item in log_items(output, "tool"))
    assert "error" in first
    assert second == {"current_working_directory": "docs"}
    judged = {name: values[name] for name in ("ground_truth", "involved_classes", "initial_config", "category")}
    verdict = MultiTurnStateEvaluator(mode="text")(result=output["result"], **judged)
    assert verdict["multi_turn_state_result"] == "pass"
