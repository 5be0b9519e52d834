"""Over a run: precision, recall and F1 of calls, rates of broken ones, and how arguments are wrong. By hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.matching_parts import call

from tunecheck import ArgumentMatchEvaluator, FunctionCallMatchEvaluator
from tunecheck.evaluators import FAULTS

F, G, H = call("f", x=1), call("g", x=1), call("h", x=1)
BROKEN = '<tool_call>{"name": "f", "arguments": {</tool_call>'
TOOLS = [{"name": name, "parameters": {"properties": {"x": {"type": "integer"}}}} for name in "fg"]


def over(rows: list[tuple[object, object]], tools: object = None) -> dict[str, float]:
    evaluator = FunctionCallMatchEvaluator()
    verdicts = [evaluator(response=one, ground_truth=other, tool_definitions=tools) for one, other in rows]
    return evaluator.__aggregate__(verdicts)


def arguments_over(rows: list[tuple[object, object]]) -> dict[str, float]:
    evaluator = ArgumentMatchEvaluator()
    return evaluator.__aggregate__([evaluator(response=one, ground_truth=other) for one, other in rows])


def test_precision_recall_and_f1_are_of_all_calls_of_the_run() -> None:
    rows: list[tuple[object, object]] = [
        ([F], [F]),  # 1 expected, 1 called, 1 right
        ([F, G], [F]),  # 1, 2, 1
        ([F], [F, G, H]),  # 3, 1, 1
        ("text", [G]),  # 1, 0, 0
        ([H], "text"),  # 0, 1, 0
        ("text", "text"),
    ]
    assert over(rows) == {
        "call_precision": 3 / 5,
        "call_recall": 3 / 6,
        "call_f1": 2 * (3 / 5) * (1 / 2) / (3 / 5 + 1 / 2),
        "unreadable_call_rate": 0.0,
    }


def test_unreadable_calls_are_a_share_of_all_that_were_tried() -> None:
    found = over([([F], [F]), ([F, G], [F, G]), (BROKEN, [F]), ("text", "text")])
    assert found["unreadable_call_rate"] == 1 / 4
    assert found["call_recall"] == 3 / 4
    assert found["call_precision"] == 1.0


def test_schema_invalid_calls_are_a_share_of_those_that_were_checked() -> None:
    bad = call("f", x="one")
    found = over([([F, bad], [F, F]), ([G], [G]), ([H, H], [H, H])], TOOLS)
    assert found["schema_invalid_call_rate"] == 1 / 3
    assert found["unknown_function_count"] == 2


def test_without_definitions_there_is_nothing_about_schemas() -> None:
    assert set(over([([F], [F])])) == {"call_precision", "call_recall", "call_f1", "unreadable_call_rate"}


def test_a_run_of_answers_only_has_no_rates() -> None:
    assert over([("text", "text")]) == {}
    assert over([]) == {}


def test_every_way_in_which_arguments_are_wrong_is_counted() -> None:
    rows: list[tuple[object, object]] = [
        ([call("f", a=1, b="x", c=True)], [call("f", a=1, b="x", c=True)]),  # 3 right of 3
        ([call("f", a="1", b="X")], [call("f", a=1, b="x")]),  # 0 of 2
        ([call("f", a=1, d=1)], [call("f", a=1, b=2)]),  # 1 of 3
        ([call("f", a="Jan 5, 2024", l=[2, 1])], [call("f", a="2024-01-05", l=[1, 2])]),  # 0 of 2
        ([call("f", a="10k", b="colour", c=2)], [call("f", a=10_000, b="color", c=7)]),  # 0 of 3
        ("text", [call("f", a=1)]),  # a call without a partner counts nowhere here
        ("text", "text"),
    ]
    assert arguments_over(rows) == {
        "argument_accuracy": 4 / 13,
        "wrong_arguments.number_as_text": 1,
        "wrong_arguments.number_conversion": 1,
        "wrong_arguments.date_or_time_format": 1,
        "wrong_arguments.case_or_spacing": 1,
        "wrong_arguments.list_order": 1,
        "wrong_arguments.close_wording": 1,
        "wrong_arguments.other": 1,
        "wrong_arguments.missing": 1,
        "wrong_arguments.unexpected": 1,
    }


def test_counts_are_there_even_where_they_are_zero() -> None:
    assert arguments_over([]) == {f"wrong_arguments.{name}": 0 for name in FAULTS}


@pytest.mark.parametrize("evaluator", [FunctionCallMatchEvaluator(), ArgumentMatchEvaluator()])
def test_rows_of_another_shape_are_passed_over(evaluator: Any) -> None:
    metric = evaluator.primary
    odd: list[Any] = [{}, {f"{metric}_properties": None}, {f"{metric}_properties": float("nan")}]
    odd += [{f"{metric}_properties": {"expected": "x", "right": None, "wrong": 5}}, {"other": 1}]
    assert evaluator.__aggregate__(odd) == evaluator.__aggregate__([])


@pytest.mark.parametrize("evaluator", [FunctionCallMatchEvaluator(), ArgumentMatchEvaluator()])
def test_every_value_is_a_number(evaluator: Any) -> None:
    verdicts = [evaluator(response=[F, G, H], ground_truth=[F, call("g", x="1")], tool_definitions=TOOLS)]
    assert all(type(value) in (int, float) for value in evaluator.__aggregate__(verdicts).values())
