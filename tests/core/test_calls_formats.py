"""Each wire format, as its makers write it, read as calls."""

from __future__ import annotations

from typing import Any

import pytest

from tunecheck.calls import FunctionCall, Reading, bind_positional, canonical_text
from tunecheck.formats import read_calls, read_python_calls

WEATHER = FunctionCall("get_weather", {"city": "Paris", "days": 3})
STOP = FunctionCall("stop")
WEATHER_TEXT = '{"city": "Paris", "days": 3}'


def tool_call(name: str, arguments: object, identity: str = "call_1") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


TWO_TOOL_CALLS = [tool_call("get_weather", WEATHER_TEXT, "call_1"), tool_call("stop", "{}", "call_2")]


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
    message = openai_types.ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None, "tool_calls": TWO_TOOL_CALLS}
    )
    assert read_calls(message) == read_calls(message.tool_calls) == Reading((WEATHER, STOP), "", "openai")


# -- BFCL's call text -------------------------------------------------------------------------------------------------


def test_positional_arguments_get_the_names_of_the_parameters() -> None:
    call = FunctionCall("move", {"0": "doc", "1": 2, "copy": True}, "id")
    bound = bind_positional(call, ["source", "count", "copy"])
    assert (bound, bound.id) == (FunctionCall("move", {"source": "doc", "count": 2, "copy": True}), "id")


@pytest.mark.parametrize("names", [[], ["0", "1"], ["copy", "x"]])
def test_positional_arguments_that_have_no_free_parameter_stay(names: list[str]) -> None:
    call = FunctionCall("move", {"0": "doc", "copy": True})
    assert bind_positional(call, names) == call


def test_more_positional_arguments_than_parameters_stay_visible() -> None:
    assert bind_positional(FunctionCall("f", {"0": 1, "1": 2}), ["a"]).arguments == {"a": 1, "1": 2}


def test_call_text_without_brackets_is_read_where_it_is_known_to_be_calls() -> None:
    assert read_python_calls("cd(folder='x')").calls == (FunctionCall("cd", {"folder": "x"}),)
    assert read_python_calls(" cd('x'), ls() ").calls == read_python_calls("[cd('x'), ls()]").calls
    assert read_calls("cd(folder='x')") == Reading((), "cd(folder='x')")
    assert read_python_calls("cd(x) and").problem == "not a literal: the name 'x' at line 1, column 4"
    assert read_python_calls("cd() and more").problem == "more text after the calls at line 1, column 6"


def test_canonical_text_is_the_same_for_equal_calls() -> None:
    calls = [FunctionCall("f", {"b": [1.0, None], "a": {"z": "ü", "y": True}}), STOP]
    assert canonical_text(calls) == 'f(a={"y":true,"z":"ü"}, b=[1.0,null])\nstop()'
    assert canonical_text([]) == ""
