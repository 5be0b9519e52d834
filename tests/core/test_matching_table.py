"""Calls that match by the table, with kinds of differences and reasons, and tool definitions to compare them with."""

import json
import pickle
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.matching_parts import call, passes, tools
from tests.tables import cases, table

from tunecheck import ArgumentMatchEvaluator, ConfigurationError, Fault, FunctionCallMatchEvaluator
from tunecheck._faults import shown_value
from tunecheck.calls import FunctionCall, FunctionDefinition, ToolDefinitions, _model, _python_text, _schemas
from tunecheck.calls._schemas import Schema, SchemaCheck
from tunecheck.calls.matching import KINDS, Match, MatchPolicy, argument_faults, call_faults, match_calls, schema_faults
from tunecheck.calls.matching._kinds import kind_of_wrong
from tunecheck.formats import read_calls
from tunecheck.plugins import JSON, dumps, loads, sentence, to_json


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
        "notes": list(match.notes),
        "faults": to_json([*call_faults(match, policy), *argument_faults(match), *schema_faults(match)]),
        "reason": sentence([*call_faults(match, policy), *argument_faults(match), *schema_faults(match)]),
    }


SPECIAL: dict[str, Callable[..., Any]] = {
    "values": lambda count: len(_model.exact([0] * count)),  # type: ignore[arg-type]
    "python": lambda text: [[one.name, one.arguments] for one in _python_text.PythonScanner(text).all_calls()],
    "write": lambda name, arguments, form: _model.write_calls([FunctionCall(name, arguments)], form),
    "types": lambda schema: sorted(Schema(schema, schema).types()),
    "says number": lambda schema: Schema(schema, schema).says_number(),
    "default": lambda schema, name: Schema(schema, schema).default(name),
    "property": lambda schema, name: getattr(Schema(schema, schema).property(name), "node", None),
    "item": lambda schema, index: getattr(Schema(schema, schema).item(index), "node", None),
    "definitions": lambda value: {name: ToolDefinitions.read(value).get(name) for name in ToolDefinitions.read(value)},
    "hints": lambda value: [*ToolDefinitions.read(value).misspelt_keys()],
    "spelled": lambda value, name: getattr(ToolDefinitions.read(value).spelled(name), "name", None),
    "check": lambda schema, arguments: checked(schema, arguments),
}


@cases("matching")
def test_each_function_gives_this(function: str, given: list[Any], told: Any) -> None:
    homes = (_model, _python_text, _schemas)
    act = SPECIAL.get(function) or next(getattr(home, function) for home in homes if hasattr(home, function))
    try:
        found = act(*given)
    except (ValueError, ConfigurationError) as error:
        found = f"{type(error).__name__}: {error}"
    found = loads(dumps([*found] if isinstance(found, Iterator) else found))
    assert (found, str(found)) == (told, str(told)), "1, 1.0 and true differ"


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
    with pytest.raises(ConfigurationError, match="relative_tolerance must be a finite number of at least 0"):
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


PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
    "required": ["city"],
}
BARE = {"name": "get_weather", "description": "d", "parameters": PARAMETERS}
OPENAI = {"type": "function", "function": BARE}


def deep(levels: int) -> dict[str, JSON]:
    """An object in an object, and so on."""
    value: dict[str, JSON] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def checked(schema: JSON, arguments: dict[str, JSON]) -> SchemaCheck:
    definition = tools(schema).get("f")
    assert definition is not None
    return definition.check(arguments)


@cases("matching")
def test_every_form_of_a_definition_is_read(value: object) -> None:
    definition = ToolDefinitions.read(value).get("get_weather")
    assert definition is not None
    assert definition.parameter_names == ("city", "unit")
    assert definition.check({"unit": "kelvin"}).violations
    assert not definition.check({"city": "Paris", "unit": "celsius"}).violations


@pytest.mark.parametrize("value", [None, "", [], {}, (), "[]"])
def test_nothing_is_no_definitions(value: object) -> None:
    definitions = ToolDefinitions.read(value)
    assert not definitions
    assert not match_calls([call("f")], [call("f")], None, definitions).unknown


@pytest.mark.parametrize("parameters", [None, [], "x", 5, {}])
def test_a_function_without_a_schema_takes_anything(parameters: JSON) -> None:
    definition = ToolDefinitions.read([{"name": "f", "parameters": parameters}]).get("f")
    assert definition == FunctionDefinition("f", {})
    assert definition.check({"x": 1}) == SchemaCheck()


@cases("matching")
def test_arguments_break_their_schema_here(schema: JSON, arguments: dict[str, JSON], violations: list[str]) -> None:
    assert checked(schema, arguments) == SchemaCheck(tuple(violations))


def test_unknown_functions_are_those_no_definition_has() -> None:
    match = match_calls([call("get_weather", city="x"), call("rm")], [], None, ToolDefinitions.read([OPENAI]))
    assert [one.name for one in match.unknown] == ["rm"]
    assert match.checked == 1


NUMBER: dict[str, JSON] = {"type": "number"}


def same(schema: JSON, expected: JSON, actual: JSON) -> bool:
    return passes(match_calls([call("f", a=actual)], [call("f", a=expected)], None, tools(schema)))


@cases("matching")
def test_a_number_may_be_written_either_way_wherever_the_schema_says_that_it_is_one(schema: JSON) -> None:
    assert same(schema, 5, 5.0)
    assert not same(schema, 5, 6.0)
    assert not same({"properties": {"a": {}}}, 5, 5.0)


@cases("matching")
def test_an_item_of_a_list_has_the_type_of_its_place(schema: dict[str, JSON], right: list[bool]) -> None:
    whole: JSON = {"$defs": {"n": NUMBER}, "properties": {"a": schema}}
    assert [same(whole, [5, 7], [5.0, 7]), same(whole, [5, 7], [5, 7.0])] == right


def test_calls_find_their_partners_by_what_the_schema_calls_the_same() -> None:
    expected = [call("f", a=5, b="x"), call("f", a=6, b="y")]
    actual = [call("f", a=6.0, b="?"), call("f", a=5.0, b="!")]
    match = match_calls(actual, expected, None, tools({"properties": {"a": NUMBER}}))
    assert [[one.path for one in pair.differences] for pair in match.pairs] == [["b"], ["b"]]


@cases("matching")
def test_a_schema_that_cannot_be_used_is_a_reason_and_not_a_violation(schema: JSON, why: str) -> None:
    check = checked(schema, {"a": "x"})
    assert check.violations == ()
    assert check.problem is not None
    assert why in check.problem
    match = match_calls([call("f", a="x")], [call("f", a="x")], None, tools(schema))
    assert match.notes == (check.problem,)
    assert match.checked == 0


def test_a_schema_of_hundreds_of_kilobytes_cannot_be_used() -> None:
    long: JSON = {"properties": {"a": {"description": "x" * 300_000}}}
    test_a_schema_that_cannot_be_used_is_a_reason_and_not_a_violation(long, "longer than")


def test_references_out_of_a_schema_are_never_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        schemas: list[JSON] = [
            {"properties": {"a": {"$ref": url}}},
            {"$schema": url},
            {"allOf": [{"$dynamicRef": url}]},
        ]
        for schema in schemas:
            assert checked(schema, {"a": 1}).problem
        with pytest.raises(BlockingIOError):
            server.accept()  # a connection would wait in the backlog


def test_a_schema_may_refer_to_itself() -> None:
    tree: JSON = {"properties": {"v": {"type": "integer"}, "left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    value: JSON = {"v": 1}
    for _ in range(8):
        value = {"v": 1, "left": value, "right": {"v": 2}}
    assert isinstance(value, dict)
    assert checked(tree, value) == SchemaCheck()
    assert checked(tree, {"left": {"left": {"v": "x"}}}).violations


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}])
def test_a_schema_that_is_nothing_but_itself_ends(schema: JSON) -> None:
    checked(schema, {"a": 1})
    match_calls([call("f", a=1.0)], [call("f", a=1)], None, tools(schema))


def doubling(levels: int, combine: str) -> JSON:
    """A few lines that ask for 2^levels checks of one value."""
    levelled: dict[str, JSON] = {f"d{n}": {combine: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**levelled, f"d{levels}": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/d0"}}}


@pytest.mark.parametrize("combine", ["allOf", "anyOf", "oneOf"])
def test_a_schema_whose_references_multiply_is_refused(combine: str) -> None:
    assert "too large" in (checked(doubling(60, combine), {"a": 1}).problem or "")
    assert checked(doubling(4, combine), {"a": 1}).violations


def test_a_schema_that_multiplies_with_the_depth_of_a_value_is_refused_for_deep_values() -> None:
    twice: JSON = {"anyOf": [{"required": ["z"], "properties": {"a": {"$ref": "#"}}}] * 2}
    assert "too large" in (checked(twice, deep(60)).problem or "")
    assert checked(twice, {"a": {}}).violations


def test_a_schema_deep_in_itself_is_refused_for_deep_values() -> None:
    inner: JSON = {"$ref": "#"}
    for _ in range(10):
        inner = {"allOf": [inner]}
    schema: JSON = {"properties": {"a": inner}}
    assert "too large" in (checked(schema, deep(60)).problem or "")
    assert checked(schema, {"a": {"a": {}}}) == SchemaCheck()


def test_a_long_text_under_many_rules_is_refused() -> None:
    rules: list[JSON] = [{"minLength": length, "$ref": "#/$defs/x"} for length in range(999)]
    schema: JSON = {"properties": {"a": {"anyOf": rules}}, "$defs": {"x": {"type": "string"}}}
    assert "too large" in (checked(schema, {"a": "x" * 1_000_000}).problem or "")
    assert checked(schema, {"a": "x"}) == SchemaCheck()


def test_how_large_arguments_miss_thousands_of_names_is_not_listed() -> None:
    schema: JSON = {"required": [f"a{n}" for n in range(3_000)]}
    assert checked(schema, {"x": [1] * 3_000}) == SchemaCheck(("the arguments do not fit the schema",))
    assert "required" in checked(schema, {"x": 1}).violations[0]


def test_a_pattern_that_would_take_forever_elsewhere_takes_no_time() -> None:
    schema: JSON = {"properties": {"a": {"pattern": "^(a+)+$"}}}
    assert checked(schema, {"a": "a" * 100_000 + "b"}).violations


def test_a_long_chain_of_references_is_refused_and_does_not_overflow_the_stack() -> None:
    chain: dict[str, JSON] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(3000)}
    schema: JSON = {"$defs": {**chain, "d3000": {}}, "$ref": "#/$defs/d0"}
    assert "too large" in (checked(schema, {}).problem or "")


def test_deep_arguments_are_refused_and_do_not_overflow_the_stack() -> None:
    value: JSON = deep(100_000)
    assert isinstance(value, dict)
    assert "too large" in (checked({"properties": {"a": {"$ref": "#"}}}, value).problem or "")
    while isinstance(value, dict) and value:  # so that the interpreter need not take it apart recursively
        value = value.pop("a")


@pytest.mark.parametrize("value", ["\ud83d", 10**5000, float("inf")], ids=["half a character", "huge", "infinite"])
def test_values_that_the_validator_cannot_hold_are_no_crash(value: JSON) -> None:
    checked({"properties": {"a": {"type": "integer"}}}, {"a": value})


KEYS = st.sampled_from("type $ref $id $schema properties items anyOf not required default enum pattern a".split())
TEXTS = st.text(max_size=5) | st.sampled_from(["#", "#/properties", "string"])
SCHEMAS: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=15,
)


@given(SCHEMAS)
def test_no_schema_raises_anything(schema: JSON) -> None:
    definitions = tools(schema)
    match_calls([call("f", a=1.0), call("f", a={"a": [1]})], [call("f", a=1), call("f")], None, definitions)


def test_one_definition_is_checked_by_many_threads() -> None:
    definitions = ToolDefinitions.read(json.dumps([OPENAI]))

    def go(number: int) -> int:
        match = match_calls([call("get_weather", city=number)], [call("get_weather", city="x")], None, definitions)
        return len(match.violations)

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(go, range(500))) == 500


def test_the_same_schema_is_compiled_once() -> None:
    from tunecheck.calls import _schemas as schemas_check

    schemas_check._cached.cache_clear()
    for _ in range(50):
        checked(json.loads(json.dumps(PARAMETERS)), {"city": "x"})
    assert schemas_check._cached.cache_info().misses == 1
    assert schemas_check._cached.cache_info().maxsize == 512


def test_time_is_not_spent_on_definitions_that_are_not_called() -> None:
    from tunecheck.calls import _schemas as schemas_check

    schemas_check._cached.cache_clear()
    many = [{"name": f"f{n}", "parameters": PARAMETERS | {"title": str(n)}} for n in range(400)]
    match_calls([call("f7", city="x")], [call("f7", city="x")], None, ToolDefinitions.read(many))
    assert schemas_check._cached.cache_info().misses == 1
