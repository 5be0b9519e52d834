"""Differences inside arguments: their places, their kinds, and what happens to lists."""

from __future__ import annotations

import pytest
from tests.matching_parts import call

from tunecheck.calls import FunctionCall
from tunecheck.calls.matching import Difference, MatchPolicy, match_calls
from tunecheck.plugins import JSON


def differences(
    expected: dict[str, JSON], actual: dict[str, JSON], policy: MatchPolicy | None = None
) -> list[Difference]:
    match = match_calls([FunctionCall("f", actual)], [FunctionCall("f", expected)], policy)
    return list(match.pairs[0].differences)


def places(expected: JSON, actual: JSON) -> list[tuple[str, str, str | None]]:
    return [(one.path, one.fault, one.kind) for one in differences({"x": expected}, {"x": actual})]


@pytest.mark.parametrize(
    ("expected", "actual", "found"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, "2"]}}, [("x.a.b[1]", "wrong", "number_as_text")]),
        ({"a": 1, "b": 2}, {"a": 1}, [("x.b", "missing", None)]),
        ({"a": 1}, {"a": 1, "b": 2}, [("x.b", "unexpected", None)]),
        ([{"d": "2024-01-05"}], [{"d": "Jan 5, 2024"}], [("x[0].d", "wrong", "date_or_time_format")]),
        ([1, 2, 3], [3, 2, 1], [("x", "wrong", "list_order")]),
        ([[1, 2], 3], [[2, 1], 3], [("x[0]", "wrong", "list_order")]),
        ([1, 2], [1, 2, 3], [("x", "wrong", "other")]),
        ([1, 2], [1, 3], [("x[1]", "wrong", "other")]),
        ([1, 2], ["2", 1], [("x[0]", "wrong", "other"), ("x[1]", "wrong", "other")]),
        ({"a": 1}, [1], [("x", "wrong", "other")]),
    ],
)
def test_a_difference_names_its_place(expected: JSON, actual: JSON, found: list[tuple[str, str, str | None]]) -> None:
    assert places(expected, actual) == found


def test_a_difference_holds_both_values() -> None:
    (one,) = differences({"x": {"a": "b"}}, {"x": {"a": "c"}})
    assert (one.place, one.expected, one.actual) == (("x", "a"), "b", "c")


def test_a_difference_of_order_holds_both_lists() -> None:
    (one,) = differences({"x": [1, 2, 3]}, {"x": [3, 2, 1]})
    assert (one.kind, one.expected, one.actual) == ("list_order", [1, 2, 3], [3, 2, 1])


def test_a_name_with_dots_is_one_argument() -> None:
    (one,) = differences({"a.b[0]": 1}, {"a.b[0]": 2})
    assert one.place == ("a.b[0]",)


def test_of_several_accepted_values_all_are_expected() -> None:
    (one,) = differences({"x": [1, 2]}, {"x": "1"}, MatchPolicy(alternatives=True))
    assert (one.expected, one.any_of, one.kind) == ([1, 2], True, "number_as_text")


def test_a_single_accepted_object_is_compared_key_by_key() -> None:
    (one,) = differences({"x": [{"a": [1, 2], "b": ["c"]}]}, {"x": {"a": 3, "b": "c"}}, MatchPolicy(alternatives=True))
    assert (one.path, one.expected) == ("x.a", [1, 2])


def test_missing_accepted_values_are_listed() -> None:
    (one,) = differences({"x": [1, 2]}, {}, MatchPolicy(alternatives=True))
    assert (one.fault, one.expected, one.any_of) == ("missing", [1, 2], True)


def test_a_wrong_function_name_close_to_the_right_one_is_a_misnamed_call() -> None:
    match = match_calls([call("get_wether", city="Rome")], [call("get_weather", city="Paris")])
    assert [(pair.expected.name, pair.actual.name) for pair in match.misnamed] == [("get_weather", "get_wether")]
    assert not match.missing
    assert not match.extra


def test_the_right_arguments_under_another_name_are_a_misnamed_call() -> None:
    match = match_calls([call("forecast", city="Paris", days=2)], [call("get_weather", city="Paris", days=2)])
    assert len(match.misnamed) == 1


def test_calls_with_nothing_in_common_are_missing_and_extra() -> None:
    match = match_calls([call("rm", path="/")], [call("get_weather", city="Paris")])
    assert ([one.name for one in match.missing], [one.name for one in match.extra]) == (["get_weather"], ["rm"])
    assert not match.misnamed


def test_misnamed_calls_find_their_best_counterpart() -> None:
    expected = [call("get_weather", city="Paris"), call("get_weather_alerts", city="Rome")]
    actual = [call("get_weather_alert", city="Rome"), call("get_weathr", city="Paris")]
    match = match_calls(actual, expected)
    assert [(pair.expected.name, pair.actual.name) for pair in match.misnamed] == [
        ("get_weather", "get_weathr"),
        ("get_weather_alerts", "get_weather_alert"),
    ]


def test_in_order_calls_that_changed_places_are_out_of_order() -> None:
    match = match_calls([call("b"), call("a")], [call("a"), call("b")], MatchPolicy(ordered=True))
    assert len(match.pairs) == len(match.moved) == 1
    assert not match.complete
    assert match_calls([call("b"), call("a")], [call("a"), call("b")]).complete


def test_in_order_extra_calls_between_do_not_disturb_the_order() -> None:
    actual = [call("a"), call("log"), call("b"), call("log")]
    match = match_calls(actual, [call("a"), call("b")], MatchPolicy(ordered=True))
    assert match.complete
    assert len(match.extra) == 2


def test_in_order_the_alignment_with_the_fewest_wrong_arguments_wins() -> None:
    actual = [call("f", x=1), call("f", x=2), call("f", x=3)]
    match = match_calls(actual, [call("f", x=2), call("f", x=3)], MatchPolicy(ordered=True))
    assert match.arguments_right
    assert match.extra == (call("f", x=1),)


def test_in_order_more_pairs_count_more_than_right_arguments() -> None:
    actual = [call("g"), call("f", x=9), call("h")]
    match = match_calls(actual, [call("f", x=1), call("g"), call("h")], MatchPolicy(ordered=True))
    assert {pair.actual.name for pair in match.pairs} == {"g", "h"} or {pair.actual.name for pair in match.pairs} == {
        "f",
        "h",
    }
    assert len(match.pairs) == 2
    assert len(match.moved) == 1
