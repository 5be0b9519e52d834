"""A match in words: everything that is wrong is named, and the text stays short."""

from __future__ import annotations

import pytest
from tests.matching_parts import call

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
