"""The answer in a reply: every shape that services give, and no shape that breaks anything."""

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.endpoint_parts import HELLO, azure_ml, definition, serving
from tests.fault_server import answer, raw
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


def chat(message: object, **choice: object) -> Any:
    return {"choices": [{"message": message, **choice}]}


@cases("endpoints")
def test_a_scoring_scripts_answer_is_taken_for_what_it_is(
    value: Any, text: str | None, calls: list[Any], ended: str | None
) -> None:
    assert read_answer(value) == Completion(text, tuple(calls), finish_reason=ended)


@cases("endpoints")
def test_a_chat_completions_message_gives_text_and_calls(message: Any, text: str | None, calls: list[Any]) -> None:
    assert read_chat(chat(message)) == Completion(text, tuple(calls))


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


@cases("endpoints")
def test_tokens_of_other_apis_are_counted(reply: Any, expected: list[int]) -> None:
    assert read_usage(reply) == Usage(*expected)


@cases("endpoints")
def test_usage_is_taken_only_where_it_counts_tokens(usage: Any, expected: list[int | None]) -> None:
    assert read_usage({"usage": usage}) == Usage(*expected)


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
    async with serving(lambda *_: raw(body), response="result", retries=1) as (endpoint, _):
        try:
            done = await endpoint.complete(HELLO)
        except EndpointError as error:
            assert str(error).isprintable()
            assert len(str(error)) < 500
        else:
            dumps(done.columns())


async def test_hostile_headers_end_as_an_answer() -> None:
    step = answer("ok", x_request_id="\x7f" * 5 + "i" * 5000, Retry_After="x" * 5000)
    async with serving(lambda *_: step) as (endpoint, _):
        done = await endpoint.complete(HELLO)
    assert done.request_id is not None
    assert len(done.request_id) <= 128
    assert done.request_id.isprintable()


class TestAnswersPath:
    @cases("endpoints")
    async def test_the_path_leads_to_the_answer(self, path: str, reply: Any, text: str) -> None:
        async with serving(lambda *_: answer(reply), response=path) as (endpoint, _):
            assert (await endpoint.complete(HELLO)).text == text

    @pytest.mark.parametrize("reply", [{"output": 1, "usage": {}}, ["a"], "text", 5, None, {}])
    async def test_a_path_that_leads_nowhere_says_what_is_there(self, reply: Any) -> None:
        async with serving(lambda *_: answer(reply), response="result") as (endpoint, server):
            with pytest.raises(ReplyError, match="the reply has no value at 'result'"):
                await endpoint.complete(HELLO)
        assert len(server.requests) == 1

    async def test_a_path_that_leads_nowhere_in_a_list_names_the_path_of_its_text(self) -> None:
        async with serving(lambda *_: answer([{"0": "Hello!"}]), response="result") as (endpoint, _):
            with pytest.raises(ReplyError, match=re.escape("(the reply's text is at [0]['0'])")):
                await endpoint.complete(HELLO)

    @pytest.mark.parametrize("path", ["choices[0].message", "choices.0.message"])
    async def test_the_path_of_a_chat_completions_message_keeps_its_finish_reason(self, path: str) -> None:
        reply = chat({"role": "assistant", "content": "Hel"}, finish_reason="length")
        async with serving(lambda *_: answer(reply), response=path) as (endpoint, _):
            done = await endpoint.complete(HELLO)
        assert (done.text, done.finish_reason) == ("Hel", "length")

    async def test_plain_text_is_an_answer_too(self) -> None:
        async with serving(lambda *_: raw(b"just text", "text/plain; charset=utf-8")) as (endpoint, _):
            assert (await endpoint.complete(HELLO)).text == "just text"


def test_an_endpoint_is_not_a_secretive_thing() -> None:
    assert repr(azure_ml("http://127.0.0.1:1/score")) == "AzureMLEndpoint('azure_ml', 'http://127.0.0.1:1/score')"
    assert definition().kind == "azure_ml"
