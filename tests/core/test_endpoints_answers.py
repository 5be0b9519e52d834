"""The answer in a reply: every shape that services give, and no shape that breaks anything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.endpoint_parts import HELLO, azure_ml, definition
from tests.fault_server import FaultServer, answer, raw
from tests.tables import cases

from tunecheck import EndpointError, ReplyError
from tunecheck.endpoints import (
    Completion,
    FilteredError,
    OpenAIEndpoint,
    UnreadableReplyError,
    Usage,
    read_answer,
    read_chat,
    read_definition,
    read_usage,
)
from tunecheck.plugins import dumps, loads

CALL: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
MESSAGE: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}


def chat(message: object, **choice: object) -> Any:
    return {"choices": [{"message": message, **choice}]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", Completion("text")),
        ("", Completion("")),
        (None, Completion("")),
        ('<tool_call>{"name": "f"}</tool_call>', Completion('<tool_call>{"name": "f"}</tool_call>')),
        (MESSAGE, Completion(None, (CALL,))),
        ({"role": "assistant", "content": "hi"}, Completion("hi")),
        ({"role": "assistant", "content": "so", "tool_calls": [CALL]}, Completion("so", (CALL,))),
        ({"tool_calls": [CALL]}, Completion(None, (CALL,))),
        ({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
         Completion(None, ({"type": "function", "function": {"name": "f", "arguments": "{}"}},))),
        ([CALL, CALL], Completion(None, (CALL, CALL))),
        ([], Completion("[]")),
        (["a", "b"], Completion('["a","b"]')),
        ([CALL, "a"], Completion(dumps([CALL, "a"]).decode())),
        ({"name": "f", "arguments": {"a": 1}}, Completion('{"name":"f","arguments":{"a":1}}')),
        ({"output": "text"}, Completion('{"output":"text"}')),
        (5, Completion("5")),
        (True, Completion("true")),
        (chat(MESSAGE, finish_reason="tool_calls"), Completion(None, (CALL,), finish_reason="tool_calls")),
    ],
)  # fmt: skip
def test_a_scoring_scripts_answer_is_taken_for_what_it_is(value: Any, expected: Completion) -> None:
    assert read_answer(value) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": "hi"}, Completion("hi")),
        ({"content": ""}, Completion("")),
        ({"content": None}, Completion("")),
        ({}, Completion("")),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, Completion("ab")),
        ({"content": []}, Completion("")),
        ({"content": None, "refusal": "I cannot"}, Completion("I cannot")),
        ({"content": [{"type": "refusal", "refusal": "no"}]}, Completion("no")),
        ({"content": "hi", "tool_calls": None}, Completion("hi")),
        ({"content": "hi", "tool_calls": []}, Completion("hi")),
        ({"content": None, "tool_calls": [CALL, {"odd": 1}]}, Completion(None, (CALL, {"odd": 1}))),
    ],
)
def test_a_chat_completions_message_gives_text_and_calls(message: Any, expected: Completion) -> None:
    assert read_chat(chat(message)) == expected


@cases("endpoints")
def test_what_is_no_chat_completion_says_why(reply: Any, problem: str) -> None:
    with pytest.raises(UnreadableReplyError) as caught:
        read_chat(reply)
    assert problem in str(caught.value)


def test_an_answer_that_the_content_filter_stopped_is_none() -> None:
    with pytest.raises(FilteredError):
        read_chat(chat({"content": "half an ans"}, finish_reason="content_filter"))


@cases("endpoints")
def test_why_an_answer_of_another_api_ended_is_kept(reply: Any, text: str, reason: str | None) -> None:
    answer = read_answer(reply)
    assert (answer.text, answer.finish_reason) == (text, reason)


GEMINI_COUNTS = {"promptTokenCount": 9, "candidatesTokenCount": 5, "thoughtsTokenCount": 20, "totalTokenCount": 34,
                 "cachedContentTokenCount": 4}  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"usageMetadata": GEMINI_COUNTS}, Usage(9, 25, 4, 20)),
        ({"usage": {"inputTokens": 9, "outputTokens": 5, "totalTokens": 14}}, Usage(9, 5)),
        (
            {"usage": {"inputTokens": 9, "outputTokens": 5, "cacheReadInputTokens": 40, "cacheWriteInputTokens": 2}},
            Usage(51, 5, 40),
        ),
        ({"usage": {"input_tokens": 9, "output_tokens": 5, "cache_read_input_tokens": 40}}, Usage(49, 5, 40)),
        ({"usage": {"prompt_tokens": 49, "completion_tokens": 5, "cache_read_input_tokens": 40}}, Usage(49, 5, 40)),
    ],
    ids=["gemini", "bedrock", "bedrock cached", "anthropic", "anthropic through a gateway"],
)
def test_tokens_of_other_apis_are_counted(reply: Any, expected: Usage) -> None:
    assert read_usage(reply) == expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4}, Usage(3, 4)),
        ({"input_tokens": 3, "output_tokens": 4}, Usage(3, 4)),
        ({"prompt_tokens": 0, "completion_tokens": None}, Usage(0, None)),
        ({"prompt_tokens": "3", "completion_tokens": 1.5}, Usage()),
        ({"prompt_tokens": True, "completion_tokens": -1}, Usage()),
        ({"prompt_tokens": 10**30}, Usage()),
        ([], Usage()),
        ("many", Usage()),
        (None, Usage()),
    ],
)
def test_usage_is_taken_only_where_it_counts_tokens(usage: Any, expected: Usage) -> None:
    assert read_usage({"usage": usage}) == expected


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def or_anything(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(usual, usual, ANYTHING)


FUNCTION = st.fixed_dictionaries(
    {}, optional={"name": or_anything(st.just("f")), "arguments": or_anything(st.just('{"a": 1}'))}
)
TOOL_CALL = st.fixed_dictionaries(
    {}, optional={"id": or_anything(st.just("c")), "type": or_anything(st.just("function")),
                  "function": or_anything(FUNCTION)},
)  # fmt: skip
A_MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": or_anything(st.just("assistant")),
        "content": or_anything(st.just("hi") | st.just([{"type": "text", "text": "hi"}])),
        "tool_calls": or_anything(st.lists(or_anything(TOOL_CALL), max_size=3)),
        "function_call": or_anything(FUNCTION),
        "refusal": or_anything(st.none()),
    },
)
CHOICE = st.fixed_dictionaries(
    {}, optional={"message": or_anything(A_MESSAGE), "finish_reason": or_anything(st.just("stop")),
                  "index": or_anything(st.just(0))},
)  # fmt: skip
COMPLETION = st.fixed_dictionaries(
    {},
    optional={
        "choices": or_anything(st.lists(or_anything(CHOICE), max_size=2)),
        "usage": or_anything(st.fixed_dictionaries({}, optional={"prompt_tokens": ANYTHING})),
        "error": or_anything(st.fixed_dictionaries({}, optional={"message": ANYTHING, "code": ANYTHING})),
        "id": ANYTHING,
        "model": ANYTHING,
    },
)


def openai() -> OpenAIEndpoint:
    return OpenAIEndpoint(read_definition({"kind": "openai", "url": "http://127.0.0.1:1/v1", "model": "m"}))


@given(or_anything(COMPLETION))
def test_wrong_types_anywhere_in_a_chat_completion_give_a_completion_or_a_typed_error(reply: Any) -> None:
    try:
        done = openai()._completion(loads(dumps(reply)))
    except ValueError:
        pass
    else:
        assert_storable(done)


@given(or_anything(COMPLETION) | or_anything(A_MESSAGE) | st.lists(TOOL_CALL, max_size=2))
def test_and_so_does_anything_that_a_scoring_script_returns(reply: Any) -> None:
    endpoint = azure_ml("http://127.0.0.1:1/score")
    try:
        done = endpoint._completion(loads(dumps(reply)))
    except ValueError:
        pass
    else:
        assert_storable(done)


def assert_storable(done: Completion) -> None:
    columns = loads(dumps(done.columns()))
    assert isinstance(columns, dict)
    assert isinstance(columns["response"], (str, list))
    assert columns["text"] is None or isinstance(columns["text"], str)


HOSTILE = {
    "deep": b'{"result": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep within reason": b'{"result": {"role": "a", "tool_calls": [' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"]}}",
    "deep arguments": b'{"result": [{"type": "function", "function": {"a": ' + b"[" * 150 + b"]" * 150 + b"}}]}",
    "NaN": b'{"result": {"role": "assistant", "content": NaN}}',
    "Infinity": b'{"result": [1, -Infinity]}',
    "a huge number": b'{"result": 1' + b"0" * 10_000 + b"}",
    "a lone surrogate": b'{"result": "\\ud83d"}',
    "not UTF-8": b'{"result": "\xff\xfe"}',
    "a zero byte": b'{"result": "\x00"}',
    "keys twice": b'{"result": "a", "result": "b"}',
    "nothing": b"",
    "spaces": b" " * 10_000,
    "a byte order mark": b'\xef\xbb\xbf{"result": "a"}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_hostile_body_ends_as_an_answer_or_as_a_typed_error(body: bytes) -> None:
    with FaultServer(lambda *_: raw(body)) as server:
        endpoint = azure_ml(server.url, response="result", retries=1)
        try:
            done = await endpoint.complete(HELLO)
        except EndpointError as error:
            assert str(error).isprintable()
            assert len(str(error)) < 500
        else:
            dumps(done.columns())
        await endpoint.close()


async def test_hostile_headers_end_as_an_answer() -> None:
    step = answer("ok", x_request_id="\x7f" * 5 + "i" * 5000, Retry_After="x" * 5000)
    with FaultServer(lambda *_: step) as server:
        endpoint = azure_ml(server.url)
        done = await endpoint.complete(HELLO)
        await endpoint.close()
    assert done.request_id is not None
    assert len(done.request_id) <= 128
    assert done.request_id.isprintable()


class TestAnswersPath:
    @pytest.mark.parametrize(
        ("path", "reply", "text"),
        [
            ("result", {"result": "hi"}, "hi"),
            ("output.0.text", {"output": [{"text": "hi"}]}, "hi"),
            ("choices[0].message", chat({"role": "assistant", "content": "hi"}), "hi"),
            ("['a key'].b", {"a key": {"b": "hi"}}, "hi"),
            ("[0]", ["hi"], "hi"),
            ("0", ["hi"], "hi"),
            ("0", {"0": "hi"}, "hi"),
            ("result", '{"result": "hi"}', "hi"),
            ("result.text", {"result": {"text": None}}, ""),
        ],
    )
    async def test_it_leads_to_the_answer(self, path: str, reply: Any, text: str) -> None:
        with FaultServer(lambda *_: answer(reply)) as server:
            endpoint = azure_ml(server.url, response=path)
            assert (await endpoint.complete(HELLO)).text == text
            await endpoint.close()

    @pytest.mark.parametrize("reply", [{"output": 1, "usage": {}}, ["a"], "text", 5, None, {}])
    async def test_a_path_that_leads_nowhere_says_what_is_there(self, reply: Any) -> None:
        with FaultServer(lambda *_: answer(reply)) as server:
            endpoint = azure_ml(server.url, response="result")
            with pytest.raises(ReplyError, match="the reply has nothing at 'result'"):
                await endpoint.complete(HELLO)
            await endpoint.close()
        assert len(server.requests) == 1

    async def test_plain_text_is_an_answer_too(self) -> None:
        with FaultServer(lambda *_: raw(b"just text", "text/plain; charset=utf-8")) as server:
            endpoint = azure_ml(server.url)
            assert (await endpoint.complete(HELLO)).text == "just text"
            await endpoint.close()


def test_an_endpoint_is_not_a_secretive_thing() -> None:
    assert repr(azure_ml("http://127.0.0.1:1/score")) == "AzureMLEndpoint('azure_ml', 'http://127.0.0.1:1/score')"
    assert definition().kind == "azure_ml"
