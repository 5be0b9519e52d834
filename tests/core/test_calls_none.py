"""Texts that are not calls: prose and data without a problem, and broken calls with one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tunecheck.calls import MAX_CALLS, MAX_CHARACTERS, MAX_DEPTH, FunctionCall, Reading
from tunecheck.formats import read_calls


@pytest.mark.parametrize(
    ("value", "text"),
    [(b"plain", "plain"), (b"\xff\xfe", "\\xff\\xfe"), (object(), ""), (float("nan"), ""), ({1, 2}, "")],
)
def test_any_other_value_is_no_call_and_no_problem(value: object, text: str) -> None:
    assert read_calls(value) == Reading((), text)


def openai(arguments: object, name: object = "f") -> list[dict[str, Any]]:
    return [{"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}]


BROKEN: list[tuple[object, str]] = [
    (openai({"a": float("inf")}), "call 1 ('f'): inf is not a JSON number"),
    (openai({"a": object()}), "call 1 ('f'): a value of type object has no JSON form"),
    (openai({1: "a", "1": "b"}), "call 1 ('f'): the key '1' is given twice"),
    (openai({None: "a"}), "call 1 ('f'): null is not a key of an object"),
]


@pytest.mark.parametrize(("value", "problem"), BROKEN)
def test_a_broken_call_is_no_call_with_a_problem_that_says_what_and_where(value: object, problem: str) -> None:
    reading = read_calls(value)
    assert (reading.calls, reading.problem) == ((), problem)


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
        assert read_calls(text).problem == f"the text has {len(text)} characters; the limit is 1000000"


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
