"""`check` of single questions that have several right answers."""

from typing import Any

import pytest

from tunecheck_authoring import Finding, RowCheck, findings

TOOL = {
    "type": "function",
    "function": {
        "name": "road_length",
        "parameters": {
            "type": "object",
            "properties": {"metres": {"type": "integer"}, "unit": {"type": "string", "enum": ["m", "km"]}},
            "required": ["metres"],
        },
    },
}


def _found(answer: dict[str, Any], **columns: Any) -> list[Finding]:
    check = RowCheck(lambda row: row["ground_truth"], lambda row: row["tools"])
    row = {"id": "one", "check": "simple", "tools": [TOOL], "ground_truth": [answer]} | columns
    return [*findings([row], row_check=check)]


@pytest.mark.parametrize(
    "arguments",
    [{"metres": [5]}, {"metres": [5, 6], "unit": ["m", ""]}, {"metres": ["five", 5]}, {"metres": [5], "unit": [""]}],
    ids=["one value", "several", "one of them fits", "left out"],
)
def test_a_possible_answer_is_right_when_any_of_its_values_keeps_to_the_schema(arguments: dict[str, Any]) -> None:
    assert _found({"road_length": arguments}) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({"metres": [5], "unit": ["miles", "mi"]}, "unit"), ({"unit": ["m", ""]}, "'metres' is a required property")],
    ids=["no value fits", "required"],
)
def test_a_parameter_without_a_right_value_is_found(arguments: dict[str, Any], text: str) -> None:
    [found] = _found({"road_length": arguments})
    assert (found.problem, text in found.text) == ("breaks_schema", True)


def test_a_name_may_have_dots_for_underscores() -> None:
    assert _found({"road.length": {"metres": [5]}}) == []


def test_answers_in_another_language_are_source_text_and_not_held_against_the_schema() -> None:
    assert _found({"road_length": {"metres": ["5L"]}}, language="java") == []
