"""Calls that match by the table, with kinds of differences, policies, reasons and real calls."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.matching_parts import call, passes, tools
from tests.tables import cases, table

from tunecheck import ArgumentMatchEvaluator, ConfigurationError, Fault, FunctionCallMatchEvaluator
from tunecheck._faults import shown_value
from tunecheck.calls import FunctionCall, ToolDefinitions
from tunecheck.calls.matching import KINDS, Match, MatchPolicy, argument_faults, call_faults, match_calls, schema_faults
from tunecheck.calls.matching._kinds import kind_of_wrong
from tunecheck.formats import read_calls
from tunecheck.plugins import JSON, dumps, loads, sentence


def calls_of(given: Any) -> list[FunctionCall]:
    """Calls as pairs of name and arguments; an object alone holds the arguments of one call of f."""
    return [FunctionCall("f", given)] if isinstance(given, dict) else [FunctionCall(*pair) for pair in given]


def seen(match: Match, policy: MatchPolicy) -> dict[str, Any]:
    """Return everything that a line of the table may state about a match."""
    differences = [one for pair in match.pairs for one in pair.differences]
    return {
        "passes": passes(match),
        "complete": match.complete,
        "arguments_right": match.arguments_right,
        "pairs": len(match.pairs),
        "moved": len(match.moved),
        "missing": [[one.name, one.arguments] for one in match.missing],
        "extra": [[one.name, one.arguments] for one in match.extra],
        "misnamed": [[pair.expected.name, pair.actual.name] for pair in match.misnamed],
        "differences": [[one.path, one.fault, one.kind] for one in differences],
        "places": [list(one.place) for one in differences],
        "values": [[one.expected, one.actual] for one in differences],
        "any_of": [one.any_of for one in differences],
        "reason": sentence([*call_faults(match, policy), *argument_faults(match), *schema_faults(match)]),
    }


@cases("matching")
def test_calls_match_as_the_table_says(expected: Any, actual: Any, policy: Any, tools: Any, then: Any) -> None:
    wanted, made, rules = calls_of(expected), calls_of(actual), MatchPolicy(**policy)
    match = match_calls(made, wanted, rules, ToolDefinitions.read(tools))
    found = seen(match, rules)
    found["strictly"] = passes(match_calls(made, wanted, None, ToolDefinitions.read(tools)))
    if "partners" in then:
        found["partners"] = [made.index(pair.actual) for pair in match.pairs]
    assert {key: found[key] for key in then} == then
    assert [type(found[key]) for key in then] == [type(value) for value in then.values()]


@cases("matching")
def test_each_wrong_value_has_its_kind_both_ways(kind: str, expected: JSON, actual: JSON) -> None:
    assert kind_of_wrong(expected, actual) == kind
    assert kind_of_wrong(actual, expected) == kind


def test_every_kind_that_the_table_holds_is_a_known_one() -> None:
    rows = table(Path(__file__).parent / "cases" / "matching.jsonl")
    assert {row["kind"] for row in rows if "kind" in row} | {"list_order"} == set(KINDS)


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


def reason(expected: list[FunctionCall], actual: list[FunctionCall]) -> str:
    match = match_calls(actual, expected)
    return sentence([*call_faults(match, MatchPolicy()), *argument_faults(match)]) or ""


def test_long_texts_are_shown_from_where_they_begin_to_differ() -> None:
    same = "a" * 500
    found = reason([call("f", t=same + "X" + same)], [call("f", t=same + "Y" + same)])
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
    found = reason(expected, [])
    assert len(found) < 2_200
    shown = found.count("missing call")
    assert found.endswith(f"and {300 - shown} more")


@pytest.mark.parametrize(
    "value",
    [10**5000, "\ud83d", "\u2028", "\x00\n", float("inf")],
    ids=["huge", "half a character", "line separator", "control", "infinite"],
)
def test_every_value_can_be_shown(value: JSON) -> None:
    text = reason([call("f", x=value)], [call("f", x=1)])
    assert "expected" in text
    assert text.isprintable() or "\ud83d" in text or "\u2028" in text


def test_names_with_line_breaks_do_not_break_the_line() -> None:
    found = reason([call("f")], [call("rm\n\r\x1b[31m", **{"k\n": 1})])
    assert found.isprintable()


SINGLE_TURN = "simple_python multiple parallel parallel_multiple live_simple live_multiple live_parallel".split()


def failing_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows that the leaderboard's own checker failed, with the calls it had read."""
    for category in SINGLE_TURN:
        for path in sorted(folder.glob(f"bfcl_runs/*/score/*/*/BFCL_v4_{category}_score.json")):
            for line in path.read_text(encoding="utf-8").splitlines()[1:]:
                row = json.loads(line)
                if isinstance(row.get("model_result_decoded"), list) and "possible_answer" in row:
                    yield row


def test_what_the_leaderboard_fails_fails_here_too(shared_data: Path) -> None:
    evaluator = ArgumentMatchEvaluator(alternatives=True)
    judged = 0
    for row in failing_rows(shared_data):
        found = evaluator(response=row["model_result_decoded"], ground_truth=row["possible_answer"])
        assert found["argument_match_result"] == "fail", row["id"]
        assert found["argument_match_reason"]
        judged += 1
    assert judged > 1_000


def test_with_definitions_only_defaults_and_whole_numbers_make_a_failing_row_pass(shared_data: Path) -> None:
    evaluator = ArgumentMatchEvaluator(alternatives=True)
    forgiven = {
        "simple_function_checker:missing_optional",  # left out: its default is the accepted value
        "simple_function_checker:unexpected_param",  # given: but with its default
        "value_error:others",
        "type_error:nested",  # whole numbers where the schema says float
    }
    for row in failing_rows(shared_data):
        tools = row["prompt"]["function"]
        found = evaluator(
            response=row["model_result_decoded"], ground_truth=row["possible_answer"], tool_definitions=tools
        )
        assert found["argument_match_result"] == "fail" or row["error_type"] in forgiven, row["id"]


def test_what_a_model_called_matches_itself(shared_data: Path) -> None:
    evaluator = FunctionCallMatchEvaluator(ordered=True)
    judged = 0
    for row in failing_rows(shared_data):
        calls = read_calls(row["model_result_decoded"]).calls
        match = match_calls(calls, calls)
        assert match.arguments_right
        assert match.complete
        assert evaluator(response=calls, ground_truth=row["model_result_decoded"])["function_call_match"] == 1.0
        judged += len(calls)
    assert judged > 500
