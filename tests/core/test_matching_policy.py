"""The policies of matching, one by one."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import pytest
from tests.matching_parts import call, passes, tools
from tests.tables import cases

from tunecheck import ConfigurationError
from tunecheck.calls import ToolDefinitions
from tunecheck.calls.matching import MatchPolicy, match_calls
from tunecheck.plugins import dumps, loads


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
    with pytest.raises(ConfigurationError, match="ignore_case must be true or false"):
        MatchPolicy(ignore_case=value)


@pytest.mark.parametrize("value", [-1, "0.1", True, float("nan"), float("inf"), None])
def test_a_tolerance_is_a_finite_number_of_at_least_zero(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="relative_tolerance must be a number of at least 0"):
        MatchPolicy(relative_tolerance=value)


# -- what is left out, and names


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
