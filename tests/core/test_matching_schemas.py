"""Tool definitions: every form is read, calls are compared with them, and no schema can do harm."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.matching_parts import call, passes, tools
from tests.tables import cases

from tunecheck.calls import FunctionDefinition, ToolDefinitions
from tunecheck.calls._schemas import SchemaCheck
from tunecheck.calls.matching import match_calls
from tunecheck.plugins import JSON

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


@cases("matching")
def test_what_is_no_definition_is_refused_with_its_place(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ToolDefinitions.read(value)


@pytest.mark.parametrize("parameters", [None, [], "x", 5, {}])
def test_a_function_without_a_schema_takes_anything(parameters: JSON) -> None:
    definition = ToolDefinitions.read([{"name": "f", "parameters": parameters}]).get("f")
    assert definition == FunctionDefinition("f", {})
    assert definition.check({"x": 1}) == SchemaCheck()


def test_of_two_definitions_of_a_name_the_first_counts() -> None:
    definitions = ToolDefinitions.read([BARE, {"name": "get_weather", "parameters": {}}])
    assert len(definitions) == 1
    assert definitions.get("get_weather") == FunctionDefinition("get_weather", PARAMETERS, "d")


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


def test_a_reference_past_the_end_of_a_list_says_nothing() -> None:
    assert not same({"properties": {"a": {"$ref": "#/anyOf/1"}}, "anyOf": [NUMBER]}, 5, 5.0)


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
