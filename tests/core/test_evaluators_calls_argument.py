"""`argument_match`: every call has its partner, and their arguments match."""

import re
from typing import Any

import pytest
from tests.matching_parts import call, calls_of
from tests.tables import cases

from tunecheck import ArgumentMatchEvaluator
from tunecheck.calls import FunctionCall, write_calls
from tunecheck.plugins import Verdict

WEATHER = call("get_weather", city="Paris", unit="celsius")
KEYS = ("code", "call", "path", "expected", "actual")
TOOLS = [
    {
        "name": "get_weather",
        "parameters": {
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": "number"},
            },
            "required": ["city"],
        },
    }
]


def judge(response: object, ground_truth: object, tools: object = None, **policies: Any) -> Verdict:
    return ArgumentMatchEvaluator(**policies)(response=response, ground_truth=ground_truth, tool_definitions=tools)


def passed(response: object, ground_truth: object, tools: object = None, **policies: Any) -> object:
    return judge(response, ground_truth, tools, **policies)["argument_match_passed"]


@cases("scoring")
def test_calls_pass_or_fail_by_their_arguments_for_this_reason(
    response: Any, ground_truth: Any, tools: bool, options: dict[str, Any], passed: bool, reason: str | None
) -> None:
    found = judge(calls_of(response), calls_of(ground_truth), TOOLS if tools else None, **options)
    assert found["argument_match_passed"] is passed
    assert reason is None or re.fullmatch(reason, str(found["argument_match_reason"]))


def test_right_arguments_pass() -> None:
    found = judge([WEATHER], write_calls([WEATHER], "glaive"))
    assert found["argument_match"] == 1.0
    assert found["argument_match_result"] == "pass"
    assert found["argument_match_reason"] is None
    assert found["argument_match_properties"] == {"right": 2, "total": 2}


def test_a_wrong_argument_fails_and_is_counted_by_its_kind() -> None:
    found = judge([call("get_weather", city="paris", unit="fahrenheit", days=1)], [WEATHER])
    assert found["argument_match"] == 0.0
    assert found["argument_match_reason"] == (
        'get_weather: argument "city" expected "Paris", got "paris" (case_or_spacing); '
        'get_weather: argument "unit" expected "celsius", got "fahrenheit" (other); '
        'get_weather: unexpected argument "days", got 1'
    )
    properties: Any = found["argument_match_properties"]
    faults = properties.pop("faults")
    assert [[*fault] for fault in faults] == [[*KEYS], [*KEYS], [*KEYS[:3], KEYS[4]]]
    assert [[*fault.values()] for fault in faults] == [
        ["wrong_argument.case_or_spacing", "get_weather", "city", "Paris", "paris"],
        ["wrong_argument.other", "get_weather", "unit", "celsius", "fahrenheit"],
        ["unexpected_argument", "get_weather", "days", 1],
    ]
    assert properties == {"right": 0, "total": 3, "wrong": {"case_or_spacing": 1, "other": 1, "unexpected": 1}}


@cases("scoring")
def test_wrong_arguments_are_counted_by_kind_and_named_by_place(
    response: Any, ground_truth: Any, counts: dict[str, Any], faults: list[list[str]]
) -> None:
    properties: Any = judge(calls_of(response), calls_of(ground_truth))["argument_match_properties"]
    assert [[fault["code"], fault["path"]] for fault in properties.pop("faults")] == faults
    assert properties == counts


@pytest.mark.parametrize("response", [None, "", [], "Sunny."])
def test_it_does_not_apply_where_neither_side_has_a_call(response: object) -> None:
    found = judge(response, "It is sunny.")
    assert found["argument_match_result"] == "not_applicable"
    assert found["argument_match"] is None
    assert found["argument_match_status"] == "skipped"
    assert found["argument_match_properties"] is None


@cases("scoring")
def test_policies_reach_the_comparison(policies: dict[str, Any], argument: str) -> None:
    response = [FunctionCall("get_weather", {"city": argument, "unit": "celsius"})]
    assert passed(response, [WEATHER]) is False
    assert passed(response, [WEATHER], **policies) is True


def test_a_call_with_no_arguments_has_nothing_to_count() -> None:
    assert judge([call("f")], [call("f")])["argument_match_properties"] is None
