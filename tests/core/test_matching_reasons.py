"""A match in words: everything that is wrong is named, and the text stays short."""

from __future__ import annotations

import pytest
from tests.matching_parts import call, tools

from tunecheck import Fault
from tunecheck._faults import shown_value
from tunecheck.calls import FunctionCall, ToolDefinitions
from tunecheck.calls.matching import MatchPolicy, argument_faults, call_faults, match_calls, schema_faults
from tunecheck.plugins import JSON, sentence


def reason(
    expected: list[FunctionCall],
    actual: list[FunctionCall],
    policy: MatchPolicy | None = None,
    definitions: ToolDefinitions | None = None,
) -> str | None:
    policy = policy or MatchPolicy()
    match = match_calls(actual, expected, policy, definitions)
    return sentence([*call_faults(match, policy), *argument_faults(match), *schema_faults(match)])


def test_a_full_match_has_no_reason() -> None:
    assert reason([call("f", x=1)], [call("f", x=1)]) is None


def test_a_wrong_argument_is_named_with_both_values_and_its_kind() -> None:
    found = reason([call("get_weather", unit="celsius")], [call("get_weather", unit="fahrenheit")])
    assert found == 'get_weather: argument "unit" expected "celsius", got "fahrenheit" (other)'


def test_missing_and_unexpected_arguments_are_named_with_their_value() -> None:
    found = reason([call("f", x=[1, "é"])], [call("f", y={"k": None})])
    assert found == 'f: missing argument "x", expected [1,"é"]; f: unexpected argument "y", got {"k":null}'


def test_missing_extra_and_misnamed_calls_are_named_with_their_arguments() -> None:
    expected = [call("book", room="Orion", hours=2), call("get_weather", city="Paris")]
    actual = [call("get_wether", city="Paris"), call("rm", path="/")]
    assert reason(expected, actual) == (
        'misnamed call get_wether(city="Paris"), expected get_weather(city="Paris"); '
        'missing call book(room="Orion", hours=2); extra call rm(path="/")'
    )


def test_an_allowed_extra_call_is_not_named() -> None:
    assert reason([call("f")], [call("f"), call("log")], MatchPolicy(allow_extra_calls=True)) is None


def test_a_call_out_of_order_is_named_and_so_are_its_wrong_arguments() -> None:
    found = reason([call("a", x=1), call("b")], [call("b"), call("a", x=2)], MatchPolicy(ordered=True))
    assert found == 'call out of order a(x=2); a: argument "x" expected 1, got 2 (other)'


def test_all_accepted_values_are_named() -> None:
    policy = MatchPolicy(alternatives=True)
    assert reason([call("f", x=["a", "b"])], [call("f", x="c")], policy) == (
        'f: argument "x" expected "a" or "b", got "c" (other)'
    )
    assert reason([call("f", x=["", "b"])], [call("f", x="c")], policy) == (
        'f: argument "x" expected "b", got "c" (other)'
    )
    many: list[JSON] = list(range(1000, 1020))
    assert "1004 or 15 other values, got 5" in (reason([call("f", x=many)], [call("f", x=5)], policy) or "")


def test_a_place_inside_an_argument_is_named() -> None:
    assert reason([call("f", o={"a": [1]})], [call("f", o={"a": [2]})]) == (
        'f: argument "o.a[0]" expected 1, got 2 (other)'
    )


def test_broken_schemas_and_unknown_functions_are_named() -> None:
    found = reason(
        [call("f", n="x"), call("g")],
        [call("f", n="x"), call("g")],
        None,
        tools({"properties": {"n": {"type": "integer"}}}),
    )
    assert found == 'g is not among the tools; f breaks its schema: n: "x" is not of type "integer"'


def test_long_texts_are_shown_from_where_they_begin_to_differ() -> None:
    same = "a" * 500
    found = reason([call("f", t=same + "X" + same)], [call("f", t=same + "Y" + same)]) or ""
    assert 'expected "…aaaaaaaaaaaaaaaaX' in found
    assert 'got "…aaaaaaaaaaaaaaaaY' in found
    assert len(found) < 300


def test_long_values_are_cut() -> None:
    assert shown_value("x" * 1000) == '"' + "x" * 80 + '…"'
    assert shown_value(list(range(1000))) == "a list of 1,000 values"
    assert len(shown_value([["x" * 70] * 70])) <= 161
    long = Fault(code="extra_call", call="f" * 500, actual={"k" * 500: "v" * 500, "l": "w" * 500})
    assert len(sentence([long]) or "") < 500


def test_a_reason_is_never_longer_than_is_readable_and_says_how_much_is_left_out() -> None:
    expected = [call(f"function_{n}", text="x" * 60) for n in range(300)]
    found = reason(expected, []) or ""
    assert len(found) < 2_200
    shown = found.count("missing call")
    assert found.endswith(f"and {300 - shown} more")


@pytest.mark.parametrize(
    "value",
    [10**5000, "\ud83d", "\u2028", "\x00\n", float("inf")],
    ids=["huge", "half a character", "line separator", "control", "infinite"],
)
def test_every_value_can_be_shown(value: JSON) -> None:
    text = reason([call("f", x=value)], [call("f", x=1)]) or ""
    assert "expected" in text
    assert text.isprintable() or "\ud83d" in text or "\u2028" in text


def test_names_with_line_breaks_do_not_break_the_line() -> None:
    found = reason([call("f")], [call("rm\n\r\x1b[31m", **{"k\n": 1})]) or ""
    assert found.isprintable()
