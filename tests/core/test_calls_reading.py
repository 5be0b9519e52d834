"""Calls in values and texts are read; what is no call has no problem, and a broken call has one."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.matching_parts import WEATHER_TOOLS
from tests.tables import cases

from tunecheck.calls import MAX_CALLS, MAX_CHARACTERS, MAX_DEPTH, FunctionCall, Reading, bind_positional, canonical_text
from tunecheck.formats import read_calls, read_python_calls

TOOLS = {
    "get_weather, stop and set_code": WEATHER_TOOLS,
    "no_function": [{"name": "no_function", "parameters": {"type": "object", "properties": {}}}],
}
"""Definitions that many lines of the table name."""


def seen(reading: Reading) -> dict[str, Any]:
    """Return everything that a line of the table may state about what was read."""
    return {
        "calls": [[call.name, call.arguments] for call in reading.calls],
        "complete_calls": [[call.name, call.arguments] for call in reading.complete_calls],
        "names": [call.name for call in reading.calls],
        "ids": [call.id for call in reading.calls],
        "text": reading.text,
        "format": reading.format,
        "problem": reading.problem,
        "is_problem": bool(reading.problem),
        "reasoning": reading.reasoning,
        "cause": reading.cause,
    }


@cases("calls")
def test_a_value_gives_these_calls(value: Any, tools: Any, format: str | None, then: dict[str, Any]) -> None:
    options = {"format": format} if format else {}
    everything = seen(read_calls(value, tools=TOOLS[tools] if isinstance(tools, str) else tools, **options))
    found = {key: everything[key] for key in then}
    assert found == then
    assert json.dumps(found, sort_keys=True) == json.dumps(then, sort_keys=True), "a value has another type"


@cases("calls")
def test_json_text_and_a_fenced_block_of_a_format_read_as_the_format_itself(value: Any) -> None:
    text = json.dumps(value, indent=1)
    reading = read_calls(value)
    assert len(reading.calls) == 2
    assert read_calls(text) == read_calls(text.encode()) == read_calls(f"```json\n{text}\n```") == reading


WEATHER = FunctionCall("get_weather", {"city": "Paris", "days": 3})
STOP = FunctionCall("stop")


def test_call_objects_read_as_themselves() -> None:
    assert read_calls(WEATHER).calls == (WEATHER,)
    assert read_calls([WEATHER, STOP]).calls == read_calls((WEATHER, STOP)).calls == (WEATHER, STOP)


def test_what_was_read_does_not_change_with_the_value_it_came_from() -> None:
    value = {"name": "f", "arguments": {"items": [1]}}
    reading = read_calls(value)
    value["arguments"]["items"].append(2)  # type: ignore[index]
    assert reading.calls[0].arguments == {"items": [1]}


def test_objects_of_the_openai_client_read_as_the_calls_they_hold() -> None:
    openai_types = pytest.importorskip("openai.types.chat")
    calls = [*openai('{"city": "Paris", "days": 3}', "get_weather"), *openai("{}", "stop")]
    message = openai_types.ChatCompletionMessage(role="assistant", tool_calls=calls)
    assert read_calls(message) == read_calls(message.tool_calls) == Reading((WEATHER, STOP), "", "openai")


@cases("calls")
def test_positional_arguments_get_the_names_of_free_parameters(
    given: dict[str, Any], names: list[str], bound: dict[str, Any]
) -> None:
    call = bind_positional(FunctionCall("move", given, "id"), names)
    assert (call, call.id) == (FunctionCall("move", bound), "id")


def test_call_text_without_brackets_is_read_where_it_is_known_to_be_calls() -> None:
    assert read_python_calls("cd(folder='x')").calls == (FunctionCall("cd", {"folder": "x"}),)
    assert read_python_calls(" cd('x'), ls() ").calls == read_python_calls("[cd('x'), ls()]").calls
    assert read_calls("cd(folder='x')") == Reading((), "cd(folder='x')")
    assert read_python_calls("cd(x) and").problem == "arguments must be literals, not the name 'x' at line 1, column 4"
    assert read_python_calls("cd() and more").problem == "unexpected text after the calls, at line 1, column 6"


def test_canonical_text_is_the_same_for_equal_calls() -> None:
    calls = [FunctionCall("f", {"b": [1.0, None], "a": {"z": "ü", "y": True}}), STOP]
    assert canonical_text(calls) == 'f(a={"y":true,"z":"ü"}, b=[1.0,null])\nstop()'
    assert canonical_text([]) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(b"plain", "plain"), (b"\xff\xfe", "\\xff\\xfe"), (object(), ""), (float("nan"), ""), ({1, 2}, "")],
)
def test_any_other_value_is_no_call_and_no_problem(value: object, text: str) -> None:
    assert read_calls(value) == Reading((), text)


def openai(arguments: object, name: object = "f") -> list[dict[str, Any]]:
    return [{"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"a": float("inf")}, "the arguments of call 1 ('f') are unreadable: inf is not a JSON number"),
        ({"a": object()}, "the arguments of call 1 ('f') are unreadable: a value of type object has no JSON form"),
        ({1: "a", "1": "b"}, "the arguments of call 1 ('f') are unreadable: the key '1' is given twice in one object"),
        ({None: "a"}, "the arguments of call 1 ('f') are unreadable: an object's key must be text, not null"),
    ],
)
def test_a_broken_call_is_no_call_with_a_problem_that_says_what_and_where(arguments: object, problem: str) -> None:
    reading = read_calls(openai(arguments))
    assert (reading.calls, reading.problem) == ((), problem)


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
    assert (
        read_calls(openai({"a": grown})).problem
        == "the arguments of call 1 ('f') are unreadable: the arguments contain more than 200,000 values at all levels"
    )
    assert read_calls(grown) == Reading()


def test_a_text_longer_than_what_is_read_is_a_problem_only_where_it_announces_a_call() -> None:
    prose = "x" * MAX_CHARACTERS
    assert read_calls(prose + "y").problem is None
    for call in ('<tool_call>{"name": "f"}', '{"tool_uses": [', "[f(a='"):
        text = call + prose
        assert read_calls(text).problem == f"the text with calls has {len(text)} characters, over the limit of 1000000"


def test_more_calls_than_are_read_are_a_problem() -> None:
    assert len(read_calls(openai("{}") * MAX_CALLS).calls) == MAX_CALLS
    assert read_calls(openai("{}") * (MAX_CALLS + 1)).problem == "the response has more than 1000 calls"


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
    assert (
        read_calls(openai({"a": Lying()})).problem
        == "the arguments of call 1 ('f') are unreadable: a value of type Lying has no JSON form"
    )


def test_values_of_subclasses_become_plain_values() -> None:
    class Name(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "changed"

    (call,) = read_calls(openai({Name("key"): Name("text")}, Name("f"))).calls
    assert call == FunctionCall("f", {"key": "text"})
    assert {type(part) for part in (call.name, *call.arguments, *call.arguments.values())} == {str}


# -- calls that real models and data sets hold


def test_every_call_of_the_glaive_sample_is_read(shared_data: Path) -> None:
    rows = json.loads((shared_data / "glaive" / "glaive_v2_sample.json").read_text(encoding="utf-8"))
    turns = [turn for row in rows for turn in re.split(r"\n\n\n", row["chat"]) if "<functioncall>" in turn]
    readings = [read_calls(turn.removeprefix("ASSISTANT:")) for turn in turns]
    assert [reading.problem for reading in readings if reading.problem] == []
    assert sum(len(reading.calls) for reading in readings) == 137
    for turn, reading in zip(turns, readings, strict=True):
        # the whole argument text stands in the turn between apostrophes
        inner = re.findall(r"'(\{.*\})'\}", turn)
        assert [call.arguments for call in reading.calls] == [json.loads(text) for text in inner]


def test_whole_glaive_conversations_are_read_as_their_calls(shared_data: Path) -> None:
    rows = json.loads((shared_data / "glaive" / "glaive_v2_sample.json").read_text(encoding="utf-8"))
    readings = [read_calls(row["chat"]) for row in rows]
    assert sum(len(reading.calls) for reading in readings) == 137
    assert all("<functioncall>" not in reading.text and reading.text for reading in readings)


def expected(result: list[dict[str, str]]) -> tuple[FunctionCall, ...] | None:
    """The calls in the two models' lists, read by the standard library; None where an argument text is not JSON."""
    try:
        return tuple(FunctionCall(name, json.loads(text)) for call in result for name, text in call.items())
    except ValueError:
        return None


def test_every_call_list_of_real_bfcl_runs_is_read_as_a_value_and_as_json_text(shared_data: Path) -> None:
    files = sorted(shared_data.glob("bfcl_runs/*/result/*/*live/*.json"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    broken = 0
    for line in lines:
        result = json.loads(line)["result"]
        calls = expected(result) if isinstance(result, list) else ()
        reading = read_calls(result)
        assert reading.calls == (calls or ())
        assert isinstance(result, str) or read_calls(json.dumps(result)).calls == reading.calls
        assert (reading.problem is None) == (calls is not None)
        broken += calls is None
    assert len(lines) > 7000
    assert broken == 3  # `1980? `, `"x"+"A".repeat(1001)` and a stray quote: not JSON, whoever reads them
