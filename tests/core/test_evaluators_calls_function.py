"""`function_call_match`: the right functions were called, whatever their arguments."""

import re
from typing import Any

import pytest
from tests.matching_parts import calls_of
from tests.tables import cases

from tunecheck import FunctionCallMatchEvaluator
from tunecheck.calls import FORMATS, FunctionCall, write_calls
from tunecheck.plugins import Verdict, dumps

WEATHER = FunctionCall("get_weather", {"city": "Paris"})
NOTHING: list[object] = [None, "", [], "Sunny.", {"role": "assistant", "content": "Sunny."}, float("nan")]
BOOK = FunctionCall("book", {"room": "Orion", "hours": 2})
TOOLS = [
    {
        "type": "function",
        "function": {"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}},
    },
    {"name": "book", "parameters": {"properties": {"room": {}, "hours": {"type": "integer"}}, "required": ["room"]}},
]


def judge(response: object, ground_truth: object, tools: object = None, **policies: Any) -> Verdict:
    return FunctionCallMatchEvaluator(**policies)(response=response, ground_truth=ground_truth, tool_definitions=tools)


def passed(response: object, ground_truth: object, **policies: Any) -> bool:
    return judge(response, ground_truth, **policies)["function_call_match_passed"] is True


def reason(response: object, ground_truth: object, **policies: Any) -> str:
    found = judge(response, ground_truth, **policies)["function_call_match_reason"]
    assert isinstance(found, str)
    return found


def properties(response: object, ground_truth: object, tools: object = None, **policies: Any) -> dict[str, Any]:
    found = judge(response, ground_truth, tools, **policies)["function_call_match_properties"]
    assert found is None or isinstance(found, dict)
    return found or {}


@cases("scoring")
def test_calls_pass_or_fail_by_their_functions_for_this_reason(
    response: Any, ground_truth: Any, options: dict[str, Any], passed: bool, reason: str | None
) -> None:
    found = judge(calls_of(response), calls_of(ground_truth), **options)
    assert found["function_call_match_result"] == ("pass" if passed else "fail")
    assert found["function_call_match_passed"] is passed
    assert found["function_call_match"] == found["function_call_match_score"] == float(passed)
    assert reason is None or re.fullmatch(reason, str(found["function_call_match_reason"]))


def test_a_call_that_cannot_be_read_is_counted() -> None:
    for ground_truth in ([WEATHER], "It is sunny."):
        assert properties('<tool_call>{"name": "f", "arguments": {</tool_call>', ground_truth)["unreadable"] == 1


@pytest.mark.parametrize("one", FORMATS)
@pytest.mark.parametrize("other", FORMATS)
def test_both_sides_may_be_in_any_format(one: str, other: str) -> None:
    assert passed(write_calls([WEATHER], one), write_calls([WEATHER], other))
    assert not passed(write_calls([BOOK], one), write_calls([WEATHER], other))


@pytest.mark.parametrize("nothing", NOTHING)
def test_an_answer_where_an_answer_was_wanted_passes(nothing: object) -> None:
    assert passed(nothing, "It is sunny.")
    assert passed("It is sunny.", nothing)
    assert properties(nothing, "It is sunny.") == {}


@pytest.mark.parametrize("nothing", NOTHING)
def test_an_answer_where_a_call_was_wanted_fails(nothing: object) -> None:
    assert not passed(nothing, [WEATHER])
    assert reason(nothing, [WEATHER]) == 'answered instead of calling get_weather(city="Paris")'


@pytest.mark.parametrize(
    "ground_truth",
    ['<tool_call>{"name": "f", "arguments": {</tool_call>', {"function": {"x": 1}, "a": 2}, [{"x": 1}], [1, 2]],
)
def test_a_ground_truth_that_cannot_be_read_is_the_rows_error(ground_truth: object) -> None:
    with pytest.raises(ValueError, match="the ground truth"):
        judge("text", ground_truth)


def test_tool_definitions_that_cannot_be_read_are_the_rows_error() -> None:
    with pytest.raises(ValueError, match="tool_definitions is not JSON"):
        judge([WEATHER], [WEATHER], "not json")


def test_absent_definitions_are_none() -> None:
    assert passed([WEATHER], [WEATHER])
    assert judge([WEATHER], [WEATHER], float("nan")) == judge([WEATHER], [WEATHER], None)


@pytest.mark.parametrize("as_text", [False, True])
def test_possible_answers_are_read_as_they_stand(as_text: bool) -> None:
    answers: Any = [{"get_weather": {"city": ["Paris", "Paris, France"], "unit": ["", "c"]}}]
    for ground_truth in (answers, answers[0]):
        given = dumps(ground_truth).decode() if as_text else ground_truth
        assert passed([WEATHER], given, alternatives=True)
        assert not passed([BOOK], given, alternatives=True)


@cases("scoring")
def test_a_row_has_these_counts_and_these_faults(
    response: Any, ground_truth: Any, counts: dict[str, Any], faults: list[str] | None
) -> None:
    found: dict[str, Any] = judge(calls_of(response), calls_of(ground_truth))
    listed = found["function_call_match_properties"]
    assert [fault["code"] for fault in listed.pop("faults", [])] == (faults or [])
    assert listed == counts
    assert (found["function_call_match_reason"] is None, found["function_call_match_threshold"]) == (not faults, None)


def test_broken_schemas_are_counted_and_do_not_fail_the_row_unless_asked() -> None:
    broken = FunctionCall("book", {"hours": "two"})
    found = properties([broken], [BOOK], TOOLS)
    assert (found["checked"], found["schema_invalid"]) == (1, 1)
    (violation,) = found["schema_violations"]
    assert set(violation.removeprefix("book: ").split("; ")) == {
        '"room" is a required property',
        'hours: "two" is not of type "integer"',
    }
    assert judge([broken], [BOOK], TOOLS)["function_call_match_passed"] is True


def test_unknown_functions_are_counted_and_fail_the_row_where_asked() -> None:
    rm = FunctionCall("rm")
    assert properties([WEATHER, rm], [WEATHER, rm], TOOLS)["unknown_functions"] == ["rm"]
    assert properties([WEATHER, rm], [WEATHER, rm], TOOLS)["unknown"] == 1
    assert judge([rm], [rm], TOOLS)["function_call_match_passed"] is True
    strict = judge([rm], [rm], TOOLS, validate_schema=True)
    assert strict["function_call_match_passed"] is False
    assert strict["function_call_match_reason"] == "rm is not among the tools"


def test_a_schema_that_cannot_be_used_is_noted() -> None:
    tools = [{"name": "get_weather", "parameters": {"type": "strange"}}]
    found = properties([WEATHER], [WEATHER], tools)
    assert "the schema of get_weather cannot be used" in found["notes"]
    assert "checked" not in found
