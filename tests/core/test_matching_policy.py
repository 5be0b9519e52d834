"""The policies of matching, one by one."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import pytest
from tests.matching_parts import call, matched, passes, tools
from tests.tables import cases

from tunecheck import ConfigurationError
from tunecheck.calls import ToolDefinitions
from tunecheck.calls.matching import MatchPolicy, match_calls
from tunecheck.plugins import JSON, dumps, loads


def equal(expected: JSON, actual: JSON, **policy: Any) -> bool:
    return matched({"x": expected}, {"x": actual}, MatchPolicy(**policy))


def test_the_default_is_strict() -> None:
    policy = MatchPolicy()
    on = [field.name for field in fields(policy) if getattr(policy, field.name)]
    assert on == ["use_defaults"]


def test_a_policy_is_plain_data_and_can_be_pickled() -> None:
    policy = MatchPolicy(ordered=True, absolute_tolerance=0.5)
    assert MatchPolicy.of(loads(dumps(policy.options()))) == policy  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(policy)) == policy


def test_an_unknown_policy_is_named_with_what_was_meant() -> None:
    with pytest.raises(ConfigurationError, match="no matching policy 'orderd'; did you mean 'ordered'"):
        MatchPolicy.of({"orderd": True})


@pytest.mark.parametrize("value", [1, 0, "true", None])
def test_a_switch_takes_true_or_false_only(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="ignore_case is on or off"):
        MatchPolicy(ignore_case=value)


@pytest.mark.parametrize("value", [-1, "0.1", True, float("nan"), float("inf"), None])
def test_a_tolerance_is_a_finite_number_of_at_least_zero(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="relative_tolerance is a number of at least 0"):
        MatchPolicy(relative_tolerance=value)


@pytest.mark.parametrize(
    ("expected", "actual"), [(5, 5.0), (5.0, 5), (2**60, float(2**60)), ([1, {"a": 2}], [1.0, {"a": 2.0}])]
)
def test_int_equals_float(expected: JSON, actual: JSON) -> None:
    assert equal(expected, actual, int_equals_float=True)
    assert not equal(expected, actual)


def test_int_equals_float_is_exact_beyond_two_to_the_53() -> None:
    assert not equal(2**53 + 1, float(2**53), int_equals_float=True)
    assert not equal(1, True, int_equals_float=True)


@pytest.mark.parametrize(
    ("expected", "actual"), [("Paris", "PARIS"), ("Straße", "STRASSE"), (["a", {"b": "C"}], ["A", {"b": "c"}])]
)
def test_ignore_case(expected: JSON, actual: JSON) -> None:
    assert equal(expected, actual, ignore_case=True)
    assert not equal(expected, actual)


def test_ignore_case_is_not_for_keys() -> None:
    assert not matched({"City": "x"}, {"city": "x"}, MatchPolicy(ignore_case=True))


@pytest.mark.parametrize(
    ("expected", "actual"), [("a b", " a  b\n"), ("SELECT a,b", "SELECT a, b"), ("x\u00a0y", "x y")]
)
def test_ignore_whitespace(expected: JSON, actual: JSON) -> None:
    assert equal(expected, actual, ignore_whitespace=True)
    assert not equal(expected, actual)


def test_ignore_case_and_whitespace_together() -> None:
    assert equal("New York", "new  york ", ignore_case=True, ignore_whitespace=True)
    assert not equal("New York", "new  york ", ignore_case=True)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [([1, 2, 3], [3, 1, 2]), ([[1, 2], [3]], [[3], [2, 1]]), ([{"a": [1, 2]}, {"b": 1}], [{"b": 1}, {"a": [2, 1]}])],
)
def test_ignore_list_order(expected: JSON, actual: JSON) -> None:
    assert equal(expected, actual, ignore_list_order=True)
    assert not equal(expected, actual)


def test_ignore_list_order_counts_how_often_an_item_stands() -> None:
    assert not equal([1, 1, 2], [1, 2, 2], ignore_list_order=True)
    assert not equal([1, 2], [1, 2, 2], ignore_list_order=True)
    assert not equal([1], [True], ignore_list_order=True)


def test_ignore_list_order_works_with_other_policies() -> None:
    assert equal(["A", "b"], ["B", "a"], ignore_list_order=True, ignore_case=True)
    # 1.1 is the only partner of 1.2, although it equals the first item.
    assert equal([1.1, 1.0], [1.2, 1.1], ignore_list_order=True, absolute_tolerance=0.1)


@pytest.mark.parametrize(
    ("expected", "actual"), [(5, "5"), ("5", 5), (-1.5, "-1.5"), (10**30, str(10**30)), ("1e3", 1000.0)]
)
def test_number_text_equals_number(expected: JSON, actual: JSON) -> None:
    assert equal(expected, actual, number_text_equals_number=True)
    assert not equal(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual"), [(1, "true"), (True, "1"), (5, "5.0"), (5, "five"), (5, "5 km"), ("1", "1.0"), (1, "0x1")]
)
def test_number_text_is_a_plain_number_and_nothing_else(expected: JSON, actual: JSON) -> None:
    assert not equal(expected, actual, number_text_equals_number=True)


def test_number_text_and_int_float_together() -> None:
    assert equal(5, "5.0", number_text_equals_number=True, int_equals_float=True)


@cases("matching")
def test_absolute_tolerance(expected: JSON, actual: JSON, same: bool) -> None:
    assert equal(expected, actual, absolute_tolerance=1) is same


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [(100, 110, True), (100, 111, False), (110, 99, True), (-100, -90, True), (-100, 100, False), (0, 0.001, False)],
)
def test_relative_tolerance_is_relative_to_the_expected_number(expected: JSON, actual: JSON, same: bool) -> None:
    assert equal(expected, actual, relative_tolerance=0.1) is same


def test_a_decimal_tolerance_is_taken_at_its_word() -> None:
    assert equal(1.0, 1.1, absolute_tolerance=0.1)  # although 1.1 - 1.0 > 0.1 in binary


POSSIBLE: dict[str, JSON] = {"a": [1, 2], "b": ["", "x"]}


@cases("matching")
def test_alternatives(actual: dict[str, JSON], same: bool) -> None:
    assert matched(POSSIBLE, actual, MatchPolicy(alternatives=True)) is same


@cases("matching")
def test_alternatives_inside_lists_and_objects(expected: JSON, actual: JSON, same: bool) -> None:
    assert equal(expected, actual, alternatives=True) is same


def test_an_argument_that_may_only_be_left_out_may_be_left_out() -> None:
    assert matched({"x": [""]}, {}, MatchPolicy(alternatives=True))
    assert not matched({"x": ["a"]}, {}, MatchPolicy(alternatives=True))


# -- what is left out, and names


@pytest.mark.parametrize(
    ("expected", "actual"), [({"x": None}, {}), ({}, {"x": None}), ({"x": {"a": 1, "b": None}}, {"x": {"a": 1}})]
)
def test_null_equals_absent(expected: dict[str, JSON], actual: dict[str, JSON]) -> None:
    assert matched(expected, actual, MatchPolicy(null_equals_absent=True))
    assert not matched(expected, actual)


def test_null_equals_absent_and_nothing_else() -> None:
    assert not matched({"x": ""}, {}, MatchPolicy(null_equals_absent=True))
    assert not matched({"x": 1}, {"x": None}, MatchPolicy(null_equals_absent=True))


def test_null_among_accepted_values_may_be_left_out() -> None:
    policy = MatchPolicy(alternatives=True, null_equals_absent=True)
    assert matched({"x": [None, 1]}, {}, policy)
    assert not matched({"x": [1]}, {}, policy)


def test_null_equals_absent_for_the_schema_too() -> None:
    defined = tools({"properties": {"x": {"type": "string"}, "y": {"type": "null"}}, "required": ["y"]})
    made, policy = [call("f", x=None, y=None)], MatchPolicy(null_equals_absent=True)
    assert match_calls(made, made, None, defined).violations
    assert match_calls([call("f", x=None)], made, policy, defined).violations, "y is required"
    only_x = tools({"properties": {"x": {"type": "string"}}})
    assert not match_calls([call("f", x=None)], [call("f")], policy, only_x).violations


@cases("matching")
def test_names_of_functions_may_be_spelled_otherwise(expected: str, actual: str, policy: Any) -> None:
    for defined in (None, tools({"properties": {}}, expected), tools({"properties": {}}, actual)):
        found = match_calls([call(actual)], [call(expected)], MatchPolicy(**policy), defined)
        assert passes(found)
        assert not found.unknown
    assert not passes(match_calls([call(actual)], [call(expected)]))


def test_two_functions_that_are_both_known_stay_two() -> None:
    defined = ToolDefinitions.read([{"name": "a.b", "parameters": {}}, {"name": "a_b", "parameters": {}}])
    assert not passes(match_calls([call("a_b")], [call("a.b")], MatchPolicy(dots_equal_underscores=True), defined))
