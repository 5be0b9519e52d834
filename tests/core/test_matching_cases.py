"""The cases that other scorers get wrong, and the issue's own list: each comes out right here."""

from __future__ import annotations

import pytest
from tests.matching_parts import matched, passes
from tests.tables import cases

from tunecheck.calls import FunctionCall, ToolDefinitions
from tunecheck.calls.matching import Match, MatchPolicy, match_calls
from tunecheck.plugins import JSON

A, B = FunctionCall("f", {"x": "a"}), FunctionCall("f", {"x": "b"})


@cases("matching")
def test_values_of_different_type_or_content_differ(expected: JSON, actual: JSON) -> None:
    assert not matched({"x": expected}, {"x": actual})


def test_one_point_zero_is_one_only_where_a_schema_or_a_policy_says_so() -> None:
    tools = ToolDefinitions.read([{"name": "f", "parameters": {"properties": {"x": {"type": "number"}}}}])
    calls = [FunctionCall("f", {"x": 1.0})], [FunctionCall("f", {"x": 1})]
    assert not passes(match_calls(*calls))
    assert passes(match_calls(*calls, MatchPolicy(int_equals_float=True)))
    assert passes(match_calls(*calls, MatchPolicy(), tools))


def test_an_extra_argument_is_never_ignored() -> None:
    match = match_calls([FunctionCall("f", {"x": 1, "made_up": 2})], [FunctionCall("f", {"x": 1})])
    assert [(one.path, one.fault, one.actual) for one in match.pairs[0].differences] == [("made_up", "unexpected", 2)]


def test_two_identical_calls_expected_and_made_twice_match() -> None:
    assert passes(match_calls([A, A], [A, A]))


def test_one_call_is_not_enough_where_two_are_expected() -> None:
    match = match_calls([A], [A, A])
    assert (len(match.pairs), match.missing, match.extra) == (1, (A,), ())


def test_a_call_made_twice_is_one_too_many() -> None:
    match = match_calls([A, A], [A])
    assert (len(match.pairs), match.missing, match.extra) == (1, (), (A,))


@pytest.mark.parametrize("ordered", [False, True])
def test_a_a_b_is_not_a_b_b(ordered: bool) -> None:
    match = match_calls([A, A, B], [A, B, B], MatchPolicy(ordered=ordered))
    assert len(match.pairs) == 3
    assert not match.arguments_right


def test_an_extra_destructive_call_is_named() -> None:
    rm = FunctionCall("rm", {"path": "/"})
    assert match_calls([A, rm], [A]).extra == (rm,)


def test_the_order_of_keys_never_matters() -> None:
    one, other = {"x": 1, "y": {"a": 1, "b": 2}}, {"y": {"b": 2, "a": 1}, "x": 1}
    assert matched(one, other)  # type: ignore[arg-type]


def test_the_order_of_a_list_matters() -> None:
    match = match_calls([FunctionCall("f", {"x": [2, 1]})], [FunctionCall("f", {"x": [1, 2]})])
    assert match.pairs[0].differences[0].kind == "list_order"


def test_no_arguments_equal_no_arguments() -> None:
    assert matched({}, {})


def test_no_calls_expected_and_none_made_match() -> None:
    assert match_calls([], []) == Match()


def test_two_by_two_calls_are_assigned_optimally() -> None:
    # Taking the first good partner (x=1 alone is right) would leave the second call with nothing right: the scorers
    # that do so give 0.583 where the best assignment gives 0.667.
    expected = [FunctionCall("f", {"x": 1, "y": 1, "z": 1}), FunctionCall("f", {"x": 1, "y": 2, "z": 2})]
    actual = [FunctionCall("f", {"x": 1, "y": 2, "z": 1}), FunctionCall("f", {"x": 1, "y": 1, "z": 1})]
    match = match_calls(actual, expected)
    assert [(pair.expected, pair.actual) for pair in match.pairs] == [
        (expected[0], actual[1]),
        (expected[1], actual[0]),
    ]
    assert [one.path for pair in match.pairs for one in pair.differences] == ["z"]


def test_an_earlier_possible_answer_does_not_take_the_only_partner_of_a_later_one() -> None:
    expected = [FunctionCall("f", {"x": [1, 2]}), FunctionCall("f", {"x": [1]})]
    actual = [FunctionCall("f", {"x": 1}), FunctionCall("f", {"x": 2})]
    assert passes(match_calls(actual, expected, MatchPolicy(alternatives=True)))


def test_a_tolerance_does_not_let_an_equal_call_take_the_only_partner_of_another() -> None:
    expected = [FunctionCall("f", {"x": 1.0}), FunctionCall("f", {"x": 1.1})]
    actual = [FunctionCall("f", {"x": 1.1}), FunctionCall("f", {"x": 1.2})]
    assert passes(match_calls(actual, expected, MatchPolicy(absolute_tolerance=0.1)))


def test_a_default_given_explicitly_equals_one_left_out() -> None:
    tools = ToolDefinitions.read([{"name": "f", "parameters": {"properties": {"x": {"default": "c"}, "y": {}}}}])
    with_default, without = FunctionCall("f", {"x": "c", "y": 1}), FunctionCall("f", {"y": 1})
    for expected, actual in ((with_default, without), (without, with_default)):
        assert passes(match_calls([actual], [expected], None, tools))
        assert not passes(match_calls([actual], [expected], MatchPolicy(use_defaults=False), tools))
        assert not passes(match_calls([actual], [expected]))


def test_an_optional_argument_with_another_value_than_its_default_is_missing_or_unexpected() -> None:
    tools = ToolDefinitions.read([{"name": "f", "parameters": {"properties": {"x": {"default": "c"}}}}])
    with_other, without = FunctionCall("f", {"x": "d"}), FunctionCall("f")
    assert match_calls([without], [with_other], None, tools).pairs[0].differences[0].fault == "missing"
    assert match_calls([with_other], [without], None, tools).pairs[0].differences[0].fault == "unexpected"


def test_a_required_argument_has_no_default() -> None:
    schema: JSON = {"properties": {"x": {"default": "c"}}, "required": ["x"]}
    tools = ToolDefinitions.read([{"name": "f", "parameters": schema}])
    assert not passes(match_calls([FunctionCall("f")], [FunctionCall("f", {"x": "c"})], None, tools))


def test_defaults_inside_an_object_count_too() -> None:
    schema: JSON = {"properties": {"o": {"properties": {"a": {}, "b": {"default": [1]}}}}}
    tools = ToolDefinitions.read([{"name": "f", "parameters": schema}])
    one, other = FunctionCall("f", {"o": {"a": 1}}), FunctionCall("f", {"o": {"a": 1, "b": [1]}})
    assert passes(match_calls([one], [other], None, tools))
    assert passes(match_calls([other], [one], None, tools))


def test_five_is_five_point_zero_inside_lists_and_references_to_a_number() -> None:
    schema: JSON = {
        "properties": {
            "l": {"type": "array", "items": {"$ref": "#/$defs/n"}},
            "o": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "i": {"type": "integer"},
        },
        "$defs": {"n": {"type": "number"}},
    }
    tools = ToolDefinitions.read([{"name": "f", "parameters": schema}])
    expected = FunctionCall("f", {"l": [1, 2], "o": 3})
    assert passes(match_calls([FunctionCall("f", {"l": [1.0, 2.0], "o": 3.0})], [expected], None, tools))
    whole = FunctionCall("f", {"i": 3})
    assert passes(match_calls([FunctionCall("f", {"i": 3.0})], [whole], None, tools)), (
        "3.0 is an integer of JSON Schema"
    )
    assert not passes(match_calls([FunctionCall("f", {"i": 3.5})], [whole], None, tools))


def test_positional_arguments_get_the_names_of_their_parameters() -> None:
    schema: JSON = {"properties": {"city": {"type": "string"}, "unit": {"type": "string"}}}
    tools = ToolDefinitions.read([{"name": "f", "parameters": schema}])
    positional = FunctionCall("f", {"0": "Paris", "unit": "c"})
    named = FunctionCall("f", {"city": "Paris", "unit": "c"})
    assert passes(match_calls([positional], [named], None, tools))
    assert passes(match_calls([named], [positional], None, tools))
    assert not passes(match_calls([positional], [named]))
