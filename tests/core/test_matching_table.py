"""What matches and what does not, with its reason: a table of expected and made calls, policies and definitions."""

from __future__ import annotations

from typing import Any

from tests.matching_parts import passes
from tests.tables import cases

from tunecheck.calls import FunctionCall, ToolDefinitions
from tunecheck.calls.matching import Match, MatchPolicy, argument_faults, call_faults, match_calls, schema_faults
from tunecheck.plugins import sentence


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
def test_calls_match_as_the_table_says(
    expected: Any, actual: Any, policy: dict[str, Any], tools: Any, then: dict[str, Any]
) -> None:
    wanted, made, rules = calls_of(expected), calls_of(actual), MatchPolicy(**policy)
    match = match_calls(made, wanted, rules, ToolDefinitions.read(tools))
    found = seen(match, rules)
    found["strictly"] = passes(match_calls(made, wanted, None, ToolDefinitions.read(tools)))
    if "partners" in then:
        found["partners"] = [made.index(pair.actual) for pair in match.pairs]
    assert {key: found[key] for key in then} == then
    assert [type(found[key]) for key in then] == [type(value) for value in then.values()]
