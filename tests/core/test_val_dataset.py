"""The shipped sample `datasets/val.jsonl` keeps its promises."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tunecheck.calls import FunctionCall
from tunecheck.datasets import Dataset, open_dataset
from tunecheck.formats import read_calls

FILE = Path(__file__).resolve().parents[2] / "datasets" / "val.jsonl"


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return open_dataset(FILE)


@pytest.fixture(scope="module")
def rows(dataset: Dataset) -> list[dict[str, Any]]:
    return [dict(row.values) for row in dataset.rows()]


def calls_of(row: dict[str, Any]) -> tuple[FunctionCall, ...]:
    return () if isinstance(row["answer"], str) else read_calls(row["answer"]).calls


def test_it_has_more_than_a_hundred_rows_over_more_than_eighteen_functions(rows: list[dict[str, Any]]) -> None:
    assert len(rows) >= 110
    assert len({call.name for row in rows for call in calls_of(row)}) >= 18


def test_its_ids_are_unique_and_its_rows_have_the_shape_of_a_converted_data_set(dataset: Dataset) -> None:
    scan = dataset.scan()
    assert scan.has_ids
    assert scan.columns == {"id", "query", "answer", "tools"}
    assert len({row.fingerprint for row in dataset.rows()}) == scan.rows


def test_every_call_names_a_tool_of_its_row_and_is_valid_by_its_schema(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in row["tools"]}
        for schema in schemas.values():
            jsonschema_rs.meta.validate(schema)
        history = [read_calls(message).calls for message in row["query"] if message["role"] == "assistant"]
        for call in (*calls_of(row), *(call for calls in history for call in calls)):
            validator = jsonschema_rs.validator_for(schemas[call.name], validate_formats=True)
            assert [error.message for error in validator.iter_errors(call.arguments)] == [], row["id"]


def test_it_has_single_parallel_and_multi_step_calls_and_rows_without_any(rows: list[dict[str, Any]]) -> None:
    counts = [len(calls_of(row)) for row in rows]
    after_results = [row["query"][-1]["role"] == "tool" for row in rows]
    assert sum(count == 1 for count in counts) >= 40
    assert sum(count >= 2 for count in counts) >= 10
    assert sum(count == 0 and not later for count, later in zip(counts, after_results, strict=True)) >= 15
    assert sum(any(message["role"] == "tool" for message in row["query"]) for row in rows) >= 20


def test_its_arguments_are_of_every_type(rows: list[dict[str, Any]]) -> None:
    kinds = {type(value) for row in rows for call in calls_of(row) for value in call.arguments.values()}
    assert kinds == {str, int, float, bool, list, dict}
    text = json.dumps([call.arguments for row in rows for call in calls_of(row)], ensure_ascii=False)
    assert "'" in text
    assert not text.isascii()


def test_every_answer_is_read_as_what_it_is(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        reading = read_calls(row["answer"])
        assert reading.problem is None
        assert bool(reading.calls) == isinstance(row["answer"], dict), row["id"]


def test_its_text_answers_are_of_ordinary_length(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if isinstance(row["answer"], str):
            assert 8 <= len(row["answer"].split()) <= 30, row["id"]


def test_its_messages_are_ones_a_chat_completions_server_accepts(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        waiting: list[str] = []
        for message in row["query"]:
            assert message["role"] in ("system", "user", "assistant", "tool")
            if message["role"] == "tool":
                assert waiting.pop(0) == message["tool_call_id"]
            else:
                assert not waiting
            waiting += [call["id"] for call in message.get("tool_calls", ())]
        assert not waiting
        assert row["query"][-1]["role"] in ("user", "tool")


def test_it_declares_its_mapping_and_evaluators(dataset: Dataset) -> None:
    from_data = {"ground_truth": "${data.answer}", "tool_definitions": "${data.tools}"}
    evaluators = ["bleu", "gleu", "meteor", "rouge", "function_call_match", "argument_match", "match"]
    assert dataset.defaults.column_mapping == {**from_data, "response": "${target.response}"}
    assert dataset.defaults.evaluators == evaluators
