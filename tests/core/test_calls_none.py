"""What is not a call: prose and data without a problem, and broken calls with one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.tables import cases

from tunecheck.calls import MAX_CALLS, MAX_CHARACTERS, MAX_DEPTH, FunctionCall, Reading
from tunecheck.formats import read_calls


@pytest.mark.parametrize(
    "text",
    [
        "",
        "It is sunny in Paris.",
        "Call f(x) with x=1, then g('y').",
        "f(a=1)",
        "print('hello')",
        "[see f(x)] for more",
        "[see f(x)]",
        "[Note (important)]",
        "[Name(s) and date]",
        'The {"tool_uses": 5} key',
        "[f(1)](https://example.com) explains it",
        "[foo()] is a function of my library.",
        "[1] A reference (see above)",
        "[link(s)] are below",
        "a < b and b > c",
        "<b>bold</b> <tool> </tool_calls>",
        "Use:\n```python\nf(a=1)\n```",
        "Use:\n```python\n[f(a=1)]\n```\nto call it.",
        'Like this:\n```json\n{"tool_calls": [...]}\n```',
        'Two:\n```json\n{"name": "f", "arguments": {}}\n```\n```json\n{"name": "g", "arguments": {}}\n```',
        "The word tool_uses means nothing here.",
        "{curly} braces begin this text",
        "[" * 5000,
        "{" * 5000,
    ],
)
def test_prose_is_no_call_and_no_problem(text: str) -> None:
    assert read_calls(text) == Reading((), text)


@cases("calls")
def test_json_that_is_data_is_no_call_and_no_problem(text: str) -> None:
    assert read_calls(text) == Reading((), text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (5, "5"),
        (True, "true"),
        (1.5, "1.5"),
        ({}, "{}"),
        ([], "[]"),
        ({"temperature": 5}, '{"temperature":5}'),
        (b"plain", "plain"),
        (b"\xff\xfe", "\\xff\\xfe"),
        (object(), ""),
        (float("nan"), ""),
        ({1, 2}, ""),
    ],
)
def test_any_other_value_is_no_call_and_no_problem(value: object, text: str) -> None:
    assert read_calls(value) == Reading((), text)


@cases("calls")
def test_an_empty_list_of_calls_is_no_call(value: object) -> None:
    reading = read_calls(value)
    assert (reading.calls, reading.problem, reading.text) == ((), None, "")


def openai(arguments: object, name: object = "f") -> list[dict[str, Any]]:
    return [{"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}]


BROKEN: list[tuple[object, str]] = [
    (openai("[1, 2]"), "call 1 ('f'): the arguments are a list, not an object"),
    (openai([1, 2]), "call 1 ('f'): the arguments are a list, not an object"),
    (openai("5"), "call 1 ('f'): the arguments are a number, not an object"),
    (openai(True), "call 1 ('f'): the arguments are true or false, not an object"),
    (openai('"{}"'), "call 1 ('f'): the arguments are text, not an object"),
    (openai('{"a": 1'), "call 1 ('f'): the arguments are not JSON: Expecting ',' delimiter at line 1, column 8"),
    (openai('{"a": 1} x'), "call 1 ('f'): in the arguments, more text after the JSON value at line 1, column 10"),
    (openai('{"a": 1, "a": 2}'), "call 1 ('f'): in the arguments, the key 'a' is given twice"),
    (openai('{"a": {"b": 1, "b": 2}}'), "call 1 ('f'): in the arguments, the key 'b' is given twice"),
    (openai('{"a": NaN}'), "call 1 ('f'): the arguments are not JSON: NaN is not a JSON number"),
    (openai('{"a": 1e999}'), "call 1 ('f'): in the arguments, the number '1e999' is out of range"),
    (openai({"a": float("inf")}), "call 1 ('f'): inf is not a JSON number"),
    (openai({"a": object()}), "call 1 ('f'): a value of type object has no JSON form"),
    (openai({1: "a", "1": "b"}), "call 1 ('f'): the key '1' is given twice"),
    (openai({None: "a"}), "call 1 ('f'): null is not a key of an object"),
    (openai("{}", ""), "call 1 has no name"),
    (openai("{}", None), "call 1 has no name"),
    (openai("{}", 5), "call 1 has no name"),
    ([*openai("{}"), *openai("[]", "g")], "call 2 ('g'): the arguments are a list, not an object"),
    ([*openai("{}"), 5], "item 2 of the list of calls is a number that is not a call"),
    ([*openai("{}"), {"temperature": 5}], "item 2 of the list of calls is an object that is not a call"),
    ({"role": "assistant", "tool_calls": [5]}, "call 1 has no function"),
    ({"role": "assistant", "tool_calls": "f"}, "tool_calls is text, not a list"),
    ({"tool_uses": {"recipient_name": "f"}}, "tool_uses is an object, not a list"),
    ({"tool_uses": ["f"]}, "call 1 is text, not an object"),
    ({"tool_uses": [{"parameters": {}}]}, "call 1 has no name"),
    ({"function_call": {"name": "f", "arguments": "{"}}, "call 1 ('f'): the arguments are not JSON: "
     "Expecting property name enclosed in double quotes at line 1, column 2"),
    ([{"f": '{"a": 1'}], "call 1 ('f'): the arguments are not JSON: Expecting ',' delimiter at line 1, column 8"),
    (openai('{"x": 1}', "multi_tool_use.parallel"), "call 1 (multi_tool_use.parallel) has no list 'tool_uses'"),
    ('{"name": "f", "arguments": {"a": 1}', "the last call is cut off: "
     "not JSON: Expecting ',' delimiter at line 1, column 36"),
    ('{"name": "f", "arguments": {"a": 1, "a": 2}}', "the key 'a' is given twice"),
    ('{"tool_calls": [{"id": "c",', "the last call is cut off: "
     "not JSON: Expecting property name enclosed in double quotes at line 1, column 28"),
    ("{'tool_uses': [{'recipient_name': 'functions.f', 'parameters': {'a': User's}}]}",
     "not a literal: the name 'User' at line 1, column 70"),
    ('[{"f": "{\\"a\\": 1', "the last call is cut off: not JSON: Unterminated string starting at at line 1, column 8"),
    ('```json\n{"name": "f", "arguments": {"a": }}\n```', "not JSON: Expecting value at line 2, column 34"),
    ('Well {"tool_uses": [...]}', "not JSON: Expecting value at line 1, column 21"),
    ("<tool_call>get weather</tool_call>", "<tool_call> is not followed by an object at line 1, column 12"),
    ('<tool_call>\n{"name": "f", "arguments": {"a": 1}',
     "the last call is cut off: not JSON: Expecting ',' delimiter at line 2, column 36"),
    ('<tool_call>{"arguments": {}}</tool_call>', "call 1 has no name"),
    ("<tool_call>[5]</tool_call>", "call 1 is a number, not an object"),
    ("<functioncall> hello", "the last call is cut off: "
     "<functioncall> is not followed by an object at line 1, column 16"),
    ("<functioncall> {\"name\": \"f\", \"arguments\": '{\"a\": }'}", "not JSON: Expecting value at line 1, column 50"),
    ("<functioncall> {\"name\": \"f\", \"arguments\": '[1]'}",
     "call 1 ('f'): the arguments are a list, not an object"),
    ("<functioncall> {\"name\": \"f\", \"arguments\": '{\"a\": 1}}", "expected \"'\" at line 1, column 52"),
    ('{"tool_name": ["directly-answer"], "parameters": {}}', "call 1 has no name"),
    ('<functioncall> {"name": "f", "name": "g"}', "the key 'name' is given twice"),
    ("[TOOL_CALLS]f", "the last call is cut off: [TOOL_CALLS]'f' has no arguments at line 1, column 14"),
    ("[TOOL_CALLS]", "the last call is cut off: [TOOL_CALLS] is not followed by a call at line 1, column 13"),
    ("[TOOL_CALLS]f[ARGS][1]", "[TOOL_CALLS]'f' has no arguments at line 1, column 20"),
    ("<|python_tag|>import math\nprint(1)", "<|python_tag|> is followed by code, not by a call, at line 1, column 15"),
    ("<|python_tag|>print(1)\nprint(2)", "<|python_tag|> is followed by code, not by a call, at line 2, column 1"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "problem"), BROKEN)
def test_a_broken_call_is_no_call_with_a_problem_that_says_what_and_where(value: object, problem: str) -> None:
    reading = read_calls(value)
    assert (reading.calls, reading.problem) == ((), problem)


def test_a_broken_call_in_a_text_leaves_the_text_as_it_is() -> None:
    text = 'I look. <tool_call>{"name": "f"</tool_call>'
    assert read_calls(text).text == text


@cases("calls")
def test_calls_before_a_broken_one_are_read_beside_the_problem(text: str, problem: str) -> None:
    reading = read_calls(text)
    assert (reading.calls, reading.problem) == ((FunctionCall("f"),), problem)
    assert reading.complete_calls == ()


@cases("calls")
def test_a_call_that_is_cut_off_or_inside_a_thought_says_so(text: str, cause: str | None) -> None:
    assert read_calls(text).cause == cause


# -- bounds -----------------------------------------------------------------------------------------------------------


def nested(levels: int) -> str:
    return f'{{"a": {"[" * (levels - 1)}{"]" * (levels - 1)}}}'


DEEP_CALLS: list[Callable[[str], object]] = [
    openai,
    lambda arguments: openai(json.loads(arguments)),
    lambda arguments: [{"f": arguments}],
    lambda arguments: f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>',
    lambda arguments: json.dumps({"messages": [{"role": "assistant", "tool_calls": openai(json.loads(arguments))}]}),
    lambda arguments: f"[f(**{arguments})]",
    lambda arguments: f"{{'tool_uses': [{{'recipient_name': 'f', 'parameters': {arguments}}}]}}",
]


@pytest.mark.parametrize("write", DEEP_CALLS)
def test_arguments_are_read_down_to_the_deepest_level_allowed(write: Callable[[str], object]) -> None:
    assert read_calls(write(nested(MAX_DEPTH))).problem is None
    assert "nested deeper than 100 levels" in str(read_calls(write(nested(MAX_DEPTH + 1))).problem)


def test_brackets_in_texts_are_not_levels() -> None:
    assert read_calls(openai(f'{{"a": "{"[" * 1000}"}}')).problem is None


@pytest.mark.parametrize("value", ["{}", "[]", '{"a": [{}]}'])
def test_values_beside_each_other_are_not_levels(value: str) -> None:
    many = f'{{"a": [{", ".join([value] * 5 * MAX_DEPTH)}]}}'
    assert read_calls(openai(many)).problem is None
    assert read_calls(f'<tool_call>{{"name": "f", "arguments": {many}}}').problem is None


@pytest.mark.parametrize("opener", ["[", '{"a":'])
def test_endless_nesting_is_a_problem(opener: str) -> None:
    assert "nested deeper" in str(read_calls(openai(f'{{"a": {opener * 150_000}')).problem)
    assert "nested deeper" in str(read_calls(f'<tool_call>{{"name": "f", "arguments": {opener * 150_000}').problem)


def test_a_value_that_holds_itself_is_a_problem_only_as_a_call() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    loop: dict[str, Any] = {}
    loop["tool_uses"] = [loop]
    assert read_calls(cycle) == Reading()
    assert read_calls(loop).problem == "call 1 has no name"
    assert "nested deeper" in str(read_calls(openai({"a": cycle})).problem)


def test_a_value_that_grows_without_end_is_a_problem() -> None:
    grown: list[Any] = [1]
    for _ in range(60):
        grown = [grown, grown]
    assert read_calls(openai({"a": grown})).problem == "call 1 ('f'): more than 200000 values"
    assert read_calls(grown) == Reading()


def test_a_text_longer_than_what_is_read_is_a_problem_only_where_it_announces_a_call() -> None:
    prose = "x" * MAX_CHARACTERS
    assert read_calls(prose + "y").problem is None
    for call in ('<tool_call>{"name": "f"}', '{"tool_uses": [', "[f(a='"):
        text = call + prose
        assert read_calls(text).problem == f"a text of {len(text)} characters; calls are read from up to 1000000"


def test_more_calls_than_are_read_are_a_problem() -> None:
    assert len(read_calls(openai("{}") * MAX_CALLS).calls) == MAX_CALLS
    assert read_calls(openai("{}") * (MAX_CALLS + 1)).problem == "more than 1000 calls"


@pytest.mark.parametrize("digits", ["1" * 5000, "-" + "9" * 100_000])
def test_an_integer_beyond_all_measure_is_a_problem(digits: str) -> None:
    assert "too many digits" in str(read_calls(openai(f'{{"a": {digits}}}')).problem)
    assert read_calls(f"[f(a={digits})]").problem is not None
    assert "too many digits" in str(read_calls(openai({"a": 1 << 20_000})).problem)


class Hostile(dict[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(key)

    get = items = keys = values = __iter__ = __contains__ = __getitem__  # type: ignore[assignment]


class Lying:
    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)


def test_objects_that_raise_at_every_touch_raise_nothing_here() -> None:
    assert read_calls(Lying()).calls == ()
    assert read_calls(Hostile(name="f", arguments={})).calls == ()
    assert read_calls([Lying(), Hostile(a=1)]).calls == ()
    assert read_calls(openai({"a": Lying()})).problem == "call 1 ('f'): a value of type Lying has no JSON form"


def test_values_of_subclasses_become_plain_values() -> None:
    class Name(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "changed"

    (call,) = read_calls(openai({Name("key"): Name("text")}, Name("f"))).calls
    assert call == FunctionCall("f", {"key": "text"})
    assert {type(part) for part in (call.name, *call.arguments, *call.arguments.values())} == {str}
