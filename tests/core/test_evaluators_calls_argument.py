"""`argument_match`: every call has its partner, and their arguments match."""

from __future__ import annotations

from typing import Any

import pytest
from tests.matching_parts import call
from tests.tables import cases

from tunecheck import ArgumentMatchEvaluator
from tunecheck.calls import FunctionCall, write_calls
from tunecheck.plugins import Verdict

WEATHER = call("get_weather", city="Paris", unit="celsius")
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


def reason(response: object, ground_truth: object, tools: object = None, **policies: Any) -> object:
    return judge(response, ground_truth, tools, **policies)["argument_match_reason"]


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
    assert found["argument_match_properties"] == {
        "right": 0,
        "total": 3,
        "wrong": {"case_or_spacing": 1, "other": 1, "unexpected": 1},
        "faults": [
            {
                "code": "wrong_argument.case_or_spacing",
                "call": "get_weather",
                "path": "city",
                "expected": "Paris",
                "actual": "paris",
            },
            {
                "code": "wrong_argument.other",
                "call": "get_weather",
                "path": "unit",
                "expected": "celsius",
                "actual": "fahrenheit",
            },
            {"code": "unexpected_argument", "call": "get_weather", "path": "days", "actual": 1},
        ],
    }


def test_an_argument_wrong_in_many_places_in_one_way_counts_once() -> None:
    found = judge([call("f", x=["1", "2", "3"])], [call("f", x=[1, 2, 3])])
    properties: Any = found["argument_match_properties"]
    faults = properties.pop("faults")
    assert properties == {"right": 0, "total": 1, "wrong": {"number_as_text": 1}}
    assert [(fault["code"], fault["path"]) for fault in faults] == [
        ("wrong_argument.number_as_text", f"x[{place}]") for place in range(3)
    ]


def test_an_argument_wrong_in_two_ways_counts_for_both() -> None:
    found = judge([call("f", x=["1", "A"], y=0)], [call("f", x=[1, "a"], y=0)])
    properties: Any = found["argument_match_properties"]
    assert [fault["path"] for fault in properties.pop("faults")] == ["x[0]", "x[1]"]
    assert properties == {"right": 1, "total": 2, "wrong": {"number_as_text": 1, "case_or_spacing": 1}}


@pytest.mark.parametrize("response", [None, "", [], "Sunny."])
def test_it_does_not_apply_where_neither_side_has_a_call(response: object) -> None:
    found = judge(response, "It is sunny.")
    assert found["argument_match_result"] == "not_applicable"
    assert found["argument_match"] is None
    assert found["argument_match_status"] == "skipped"
    assert found["argument_match_properties"] is None


@pytest.mark.parametrize(
    ("response", "ground_truth", "why"),
    [
        ("Sunny.", [WEATHER], 'answered instead of calling get_weather(city="Paris", unit="celsius")'),
        ([WEATHER], "Sunny.", 'called get_weather(city="Paris", unit="celsius") when it should have answered'),
        ([WEATHER, call("rm")], [WEATHER], "extra call rm()"),
        ([WEATHER], [WEATHER, call("book")], "missing call book()"),
        ([WEATHER], [WEATHER, WEATHER], 'missing call get_weather(city="Paris", unit="celsius")'),
    ],
)
def test_a_call_without_a_partner_on_either_side_fails(response: object, ground_truth: object, why: str) -> None:
    assert passed(response, ground_truth) is False
    assert reason(response, ground_truth) == why


def test_an_unreadable_call_fails_even_where_an_answer_was_wanted() -> None:
    broken = '<tool_call>{"name": "f", "arguments": {</tool_call>'
    for ground_truth in ("Sunny.", [WEATHER]):
        assert passed(broken, ground_truth) is False
        assert str(reason(broken, ground_truth)).startswith("the response's call cannot be read: ")


def test_an_extra_call_does_no_harm_where_allowed() -> None:
    assert passed([WEATHER, call("log", text="x")], [WEATHER], allow_extra_calls=True) is True


def test_calls_out_of_order_fail_where_order_is_asked_for() -> None:
    calls = [call("a", x=1), call("b", x=2)]
    assert passed(calls[::-1], calls) is True
    assert passed(calls[::-1], calls, ordered=True) is False


def test_definitions_give_defaults_and_numbers() -> None:
    assert passed([call("get_weather", city="Paris")], [WEATHER], TOOLS) is True
    assert passed([call("get_weather", city="Paris")], [WEATHER]) is False
    forecast = call("get_weather", city="Paris", days=5)
    assert passed([call("get_weather", city="Paris", days=5.0)], [forecast], TOOLS) is True
    assert passed([call("get_weather", city="Paris", days=5.0)], [forecast]) is False


def test_positional_arguments_of_call_text_get_their_names() -> None:
    assert passed("[get_weather('Paris', 'celsius')]", [WEATHER], TOOLS) is True
    assert passed("[get_weather('Paris', 'celsius')]", [WEATHER]) is False


def test_a_schema_violation_fails_only_where_asked() -> None:
    kelvin = call("get_weather", city="Paris", unit="kelvin")
    assert passed([kelvin], [kelvin], TOOLS) is True
    assert passed([kelvin], [kelvin], TOOLS, validate_schema=True) is False
    assert "get_weather breaks its schema: unit: " in str(reason([kelvin], [kelvin], TOOLS, validate_schema=True))


def test_possible_answers_are_accepted() -> None:
    answers = [{"get_weather": {"city": ["Paris", "Paris, France"], "unit": ["", "celsius"]}}]
    for city in ("Paris", "Paris, France"):
        assert passed([call("get_weather", city=city)], answers, alternatives=True) is True
    found = reason([call("get_weather", city="Rome")], answers, alternatives=True)
    assert found == 'get_weather: argument "city" expected "Paris" or "Paris, France", got "Rome" (other)'


@cases("scoring")
def test_policies_reach_the_comparison(policies: dict[str, Any], argument: str) -> None:
    response = [FunctionCall("get_weather", {"city": argument, "unit": "celsius"})]
    assert passed(response, [WEATHER]) is False
    assert passed(response, [WEATHER], **policies) is True


def test_missing_calls_are_shown_with_what_is_accepted() -> None:
    answers = [{"f": {"a": [1], "b": ["x", "y"], "c": [""]}}]
    assert reason("text", answers, alternatives=True) == ('answered instead of calling f(a=1, b="x" or "y", c="")')
    assert reason([call("rm")], answers, alternatives=True) == (
        'missing call f(a=1, b="x" or "y", c=""); extra call rm()'
    )


def test_a_call_with_no_arguments_has_nothing_to_count() -> None:
    assert judge([call("f")], [call("f")])["argument_match_properties"] is None
