"""Each wire format, as its makers write it, read as calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.tables import cases

from tunecheck.calls import FunctionCall, Reading, bind_positional, canonical_text
from tunecheck.formats import read_calls, read_python_calls

WEATHER = FunctionCall("get_weather", {"city": "Paris", "days": 3})
STOP = FunctionCall("stop")
WEATHER_TEXT = '{"city": "Paris", "days": 3}'


def tool_call(name: str, arguments: object, identity: str = "call_1") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


TWO_TOOL_CALLS = [tool_call("get_weather", WEATHER_TEXT, "call_1"), tool_call("stop", "{}", "call_2")]

BOTH: list[tuple[str, object]] = [
    ("openai", TWO_TOOL_CALLS),
    ("openai", {"role": "assistant", "content": None, "tool_calls": TWO_TOOL_CALLS}),
    ("openai", {"content": "", "tool_calls": TWO_TOOL_CALLS}),
    (
        "openai",
        {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": TWO_TOOL_CALLS}},
    ),
    (
        "openai",
        {"object": "chat.completion", "choices": [{"message": {"role": "assistant", "tool_calls": TWO_TOOL_CALLS}}]},
    ),
    (
        "openai",
        [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "name": "get_weather", "arguments": WEATHER_TEXT, "call_id": "call_1"},
            {"type": "function_call", "name": "stop", "arguments": "{}", "call_id": "call_2"},
        ],
    ),
    (
        "openai",
        {
            "object": "response",
            "output": [
                {"type": "function_call", "name": "get_weather", "arguments": WEATHER_TEXT, "call_id": "call_1"},
                {"type": "function_call", "name": "stop", "arguments": "{}", "call_id": "call_2"},
            ],
        },
    ),
    ("openai", [tool_call("get_weather", {"city": "Paris", "days": 3}), tool_call("stop", None)]),
    ("openai", {"tool_calls": [{"name": "get_weather", "arguments": WEATHER_TEXT}, {"name": "stop"}]}),
    (
        "function_call",
        [{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}, {"name": "stop", "arguments": ""}],
    ),
    (
        "function_call",
        [{"function_call": {"name": "get_weather", "arguments": WEATHER_TEXT}}, {"function_call": {"name": "stop"}}],
    ),
    (
        "tool_uses",
        {
            "tool_uses": [
                {"recipient_name": "functions.get_weather", "parameters": {"city": "Paris", "days": 3}},
                {"recipient_name": "functions.stop", "parameters": {}},
            ]
        },
    ),
    (
        "tool_uses_text",
        "{'tool_uses': [{'recipient_name': 'functions.get_weather', 'parameters': {'city': 'Paris', 'days': 3}}, "
        "{'recipient_name': 'functions.stop', 'parameters': {}}]}",
    ),
    (
        "glaive",
        '<functioncall> {"name": "get_weather", "arguments": \'{"city": "Paris", "days": 3}\'} <|endoftext|>\n'
        '<functioncall> {"name": "stop", "arguments": {}} <|endoftext|>',
    ),
    ("bfcl_text", "[get_weather(city='Paris', days=3), stop()]"),
    ("bfcl", [{"get_weather": WEATHER_TEXT}, {"stop": "{}"}]),
    ("bfcl", [{"get_weather": {"city": "Paris", "days": 3}}, {"stop": {}}]),
    ("bfcl", [{"get_weather": WEATHER_TEXT}, {"stop": {}}]),
    (
        "hermes",
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n</tool_call>\n'
        '<tool_call>\n{"name": "stop", "arguments": {}}\n</tool_call><|im_end|>',
    ),
    (
        "hermes",
        '<tool_call>[{"function": {"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}}, '
        '{"function": {"name": "stop"}}]</tool_call>',
    ),
    (
        "hermes",
        "<tool_call>{'arguments': {'city': 'Paris', 'days': 3}, 'name': 'get_weather'}\n{'name': 'stop'}</tool_call>",
    ),
    (
        "mistral",
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}, '
        '{"name": "stop", "arguments": {}}]</s>',
    ),
    ("mistral", '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 3}[TOOL_CALLS]stop[ARGS]{}</s>'),
    ("mistral", '[TOOL_CALLS]get_weather{"city": "Paris", "days": 3}[TOOL_CALLS]stop{}'),
    (
        "llama",
        '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris", "days": 3}}; '
        '{"name": "stop", "parameters": {}}<|eom_id|>',
    ),
    ("llama", '<|python_tag|>[get_weather(city="Paris", days=3), stop()]<|eot_id|>'),
    (
        "llama",
        '{"name": "get_weather", "parameters": {"city": "Paris", "days": 3}}; {"name": "stop", "parameters": {}}',
    ),
    (
        "azure_agent",
        [
            {"role": "user", "content": [{"type": "text", "text": "How is it?"}]},
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "tool_call",
                        "tool_call_id": "c1",
                        "name": "get_weather",
                        "arguments": {"city": "Paris", "days": 3},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "tool_result", "tool_result": "sun"}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_call", "tool_call_id": "c2", "name": "stop", "arguments": {}}],
            },
        ],
    ),
    (
        "azure_agent",
        [
            {
                "type": "tool_call",
                "tool_call_id": "c1",
                "name": "get_weather",
                "arguments": {"city": "Paris", "days": 3},
            },
            {"type": "tool_call", "tool_call": tool_call("stop", {})},
        ],
    ),
]


@pytest.mark.parametrize(("wire_format", "value"), BOTH)
def test_two_calls_are_read_from_each_format(wire_format: str, value: object) -> None:
    assert read_calls(value) == Reading((WEATHER, STOP), "", wire_format)


@pytest.mark.parametrize(("wire_format", "value"), [case for case in BOTH if not isinstance(case[1], str)])
def test_json_text_of_a_format_reads_as_the_format_itself(wire_format: str, value: object) -> None:
    text = json.dumps(value, indent=1)
    assert read_calls(text) == read_calls(text.encode()) == Reading((WEATHER, STOP), "", wire_format)


@pytest.mark.parametrize(("wire_format", "value"), [case for case in BOTH if not isinstance(case[1], str)])
def test_a_fenced_block_with_a_call_reads_as_the_call(wire_format: str, value: object) -> None:
    assert read_calls(f"```json\n{json.dumps(value)}\n```") == Reading((WEATHER, STOP), "", wire_format)


def test_python_text_of_tool_calls_reads_as_tool_calls() -> None:
    assert read_calls(str(TWO_TOOL_CALLS)) == Reading((WEATHER, STOP), "", "openai")


@cases("calls")
def test_the_ids_of_calls_are_kept(value: object, ids: list[str | None]) -> None:
    assert [call.id for call in read_calls(value).calls] == ids


@cases("calls")
def test_text_beside_a_call_is_kept(value: object, text: str) -> None:
    assert read_calls(value).text == text


def test_several_tool_uses_inside_a_text_are_all_read_and_the_text_around_them_kept() -> None:
    use = '{"tool_uses": [{"recipient_name": "functions.stop", "parameters": {}}]}'
    assert read_calls(f"Sure. {use} And {use} Done.") == Reading((STOP, STOP), "Sure.\nAnd\nDone.", "tool_uses")


@pytest.mark.parametrize("block", ['[{"stop": {}}]', "[stop()]"])
@pytest.mark.parametrize(("before", "after"), [("Such as:\n", ""), ("", "\nfor example."), ("So:\n", "\nfor example.")])
def test_beside_text_a_block_counts_only_where_it_says_itself_that_it_is_a_call(
    block: str, before: str, after: str
) -> None:
    assert read_calls(f"```json\n{block}\n```").calls == (STOP,)
    assert read_calls(f"{before}```json\n{block}\n```{after}").calls == ()


@pytest.mark.parametrize("name", ["two words", "f(x)", "", 5, None])
def test_what_is_named_like_no_function_is_no_call_of_llama(name: object) -> None:
    assert read_calls([{"name": name, "parameters": {"a": 1}}]) == Reading(
        text=json.dumps([{"name": name, "parameters": {"a": 1}}], separators=(",", ":"))
    )


def test_a_reply_in_the_output_file_of_a_batch_is_read_by_itself_and_in_its_line() -> None:
    body = {"object": "chat.completion", "choices": [{"message": {"role": "assistant", "tool_calls": TWO_TOOL_CALLS}}]}
    reply = {"status_code": 200, "request_id": "r-1", "body": body}
    line = {"id": "b-1", "custom_id": "row-1", "response": reply, "error": None}
    assert read_calls(reply).calls == read_calls(line).calls == read_calls(TWO_TOOL_CALLS).calls


def test_a_request_of_a_batch_that_failed_is_no_answer_without_a_call() -> None:
    reading = read_calls({"status_code": 429, "request_id": "r-1", "body": {"error": {"message": "slow down"}}})
    assert reading.problem == "the reply has status 429: it is an error, not an answer"


def test_a_body_or_a_response_that_no_batch_wrote_is_data() -> None:
    held = {"tool_calls": TWO_TOOL_CALLS}
    assert not read_calls({"body": held}).calls
    assert not read_calls({"response": held}).calls


def test_the_text_of_a_completion_without_messages_is_read() -> None:
    text = 'Well. <tool_call>{"name": "stop", "arguments": {}}</tool_call>'
    reading = read_calls({"object": "text_completion", "choices": [{"index": 0, "text": text}]})
    assert reading.calls == (FunctionCall("stop"),)
    assert reading.text == "Well."


def test_an_output_that_is_no_response_is_data() -> None:
    item = {"type": "function_call", "name": "stop", "arguments": "{}"}
    assert read_calls({"object": "other", "output": [item]}).calls == ()
    assert read_calls({"object": "response", "output": "text"}).calls == ()


def test_a_think_block_before_a_call_is_text_whatever_it_holds() -> None:
    thought = '<think>Maybe <tool_call>{"name": "wrong"}</tool_call>?</think>'
    assert read_calls(f'{thought}\n<tool_call>{{"name": "stop"}}</tool_call>') == Reading((STOP,), thought, "hermes")
    assert read_calls(f"{thought}\n[stop()]") == Reading((STOP,), thought, "bfcl_text")
    assert read_calls(f"{thought}\nIt is sunny.") == Reading((), f"{thought}\nIt is sunny.")
    assert read_calls(thought.removesuffix("</think>")).calls == ()


def test_a_message_whose_text_holds_a_call_is_that_call() -> None:
    message = {"role": "assistant", "content": '<functioncall> {"name": "stop", "arguments": \'{}\'} <|endoftext|>'}
    assert read_calls(message) == Reading((STOP,), "", "glaive")
    assert read_calls({"messages": [{"role": "user", "content": "[f(a=1)]"}, message]}) == Reading(
        (STOP,), "", "glaive"
    )


def test_calls_of_other_roles_are_not_the_models() -> None:
    assert read_calls({"role": "user", "content": "x", "tool_calls": [tool_call("stop", "{}")]}).calls == ()


def test_apostrophes_in_glaive_arguments_stay() -> None:
    text = """<functioncall> {"name": "send", "arguments": '{"message": "It's done. [User's Name]"}'} <|endoftext|>"""
    assert read_calls(text).calls == (FunctionCall("send", {"message": "It's done. [User's Name]"}),)


def test_arguments_of_glaive_that_are_nothing_between_apostrophes_are_none() -> None:
    assert read_calls("""<functioncall> {"name": "stop", "arguments": ''} <|endoftext|>""").calls == (STOP,)


def test_escaped_apostrophes_in_glaive_arguments_are_apostrophes() -> None:
    text = r"""<functioncall> {"name": "send", "arguments": '{"message": "It\'s"}'}"""
    assert read_calls(text).calls == (FunctionCall("send", {"message": "It's"}),)


def test_the_wrapper_of_parallel_calls_is_unwrapped() -> None:
    uses = [
        {"recipient_name": "functions.get_weather", "parameters": {"city": "Paris", "days": 3}},
        {"recipient_name": "functions.stop", "parameters": {}},
    ]
    wrapped = [tool_call("multi_tool_use.parallel", json.dumps({"tool_uses": uses}))]
    assert read_calls(wrapped) == Reading((WEATHER, STOP), "", "openai")


@pytest.mark.parametrize("arguments", ["", "  ", None, {}, "{}", "null"])
def test_arguments_that_are_missing_or_empty_are_none(arguments: object) -> None:
    assert read_calls([tool_call("stop", arguments)]).calls == (STOP,)
    assert read_calls([{"id": "c", "function": {"name": "stop"}}]).calls == (STOP,)


def test_values_stay_exactly_what_they_are() -> None:
    arguments = '{"big": 340282366920938463463374607431768211457, "float": 5.0, "text": "1", "yes": true, "no": null}'
    (call,) = read_calls([tool_call("f", arguments)]).calls
    assert call.arguments == {"big": 2**128 + 1, "float": 5.0, "text": "1", "yes": True, "no": None}
    assert [type(value) for value in call.arguments.values()] == [int, float, str, bool, type(None)]


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


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[f(a=-1, b=+2.5, c=1e3, d=0x1F, e=1_000)]", [("f", {"a": -1, "b": 2.5, "c": 1000.0, "d": 31, "e": 1000})]),
        (
            "[f(a=True, b=true, c=None, d=null, e=False)]",
            [("f", {"a": True, "b": True, "c": None, "d": None, "e": False})],
        ),
        ("[a.b.c(x={'k': [1, (2, 3)], 'm': ()})]", [("a.b.c", {"x": {"k": [1, [2, 3]], "m": []}})]),
        ("[get-weather(max-days=2,)]", [("get-weather", {"max-days": 2})]),
        (
            r"""[f(a='it\'s', b="\u00e9\x41\n\N{EM DASH}", c=r'\d', d='a' 'b')]""",
            [("f", {"a": "it's", "b": "éA\n—", "c": r"\d", "d": "ab"})],
        ),
        ("[f(a='''two\nlines''')]", [("f", {"a": "two\nlines"})]),
        ("[f(a='[g(b=1)]', b='f(x), ]')]", [("f", {"a": "[g(b=1)]", "b": "f(x), ]"})]),
        ("[\n  f(a=1),  # the first\n  g()\n]", [("f", {"a": 1}), ("g", {})]),
        ("[f(**{'a b': 1}, c=2)]", [("f", {"a b": 1, "c": 2})]),
        ("[größe(höhe=1)]", [("größe", {"höhe": 1})]),
        ("[f(from=1, class='x')]", [("f", {"from": 1, "class": "x"})]),
    ],
)
def test_call_text_is_read_as_python_means_it(text: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    assert read_calls(text) == Reading(tuple(FunctionCall(*call) for call in calls), "", "bfcl_text")


@cases("calls")
def test_call_text_that_is_no_literal_call_is_a_problem(text: str, problem: str) -> None:
    assert read_calls(text) == Reading((), text, "bfcl_text", problem)


def test_positional_arguments_stand_under_their_position() -> None:
    assert read_calls("[move('doc', -1.5, copy=True)]").calls == (
        FunctionCall("move", {"0": "doc", "1": -1.5, "copy": True}),
    )


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
