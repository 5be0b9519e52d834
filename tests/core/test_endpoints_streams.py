"""Streamed answers: the same as whole ones, with the time to the first token, whatever comes over the wire."""

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as some
from tests.endpoint_parts import HELLO, ask_once, azure_ml, serving
from tests.fault_server import FaultServer, Step, raw
from tests.scripted_rules import StreamingServer
from tests.serve_parts import RECORDS, Starter, asking, recorded_answers, servers
from tests.tables import cases

from tunecheck import EndpointError
from tunecheck.endpoints import Completion, UnreadableReplyError, Usage, load_endpoint, read_chat, read_stream

THOUGHT = {
    "messages": asking("think"),
    "text": "Paris",
    "reasoning": "It is a city.",
    "reasoning_fields": {"reasoning_content": "It is a city."},
}


def events(*pieces: Any, done: bool = True) -> bytes:
    texts = [
        piece if isinstance(piece, str) else json.dumps(piece) for piece in (*pieces, *(["[DONE]"] if done else []))
    ]
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def deltas(*each: dict[str, Any], finish: str | None = "stop") -> list[dict[str, Any]]:
    pieces: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in each]
    return [*pieces, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]


def read(*each: dict[str, Any]) -> Completion:
    return read_chat(read_stream(events(*deltas(*each)))[0])


@pytest.fixture
async def started() -> AsyncIterator[Starter]:
    async with servers() as start:
        yield start


async def asked(url: str, text: str, **keys: Any) -> Completion:
    endpoint = load_endpoint({"kind": "openai", "url": f"{url}/v1", "model": "m", **keys})
    return await ask_once(endpoint, replace(HELLO, messages=asking(text)))


@pytest.mark.parametrize("text", ["talk", "call", "both", "empty", "think"])
async def test_a_streamed_answer_of_a_real_server_equals_the_whole_one(
    text: str, tmp_path: Path, started: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.serve_parts.RECORDS", (*RECORDS, THOUGHT))
    url = await started(StreamingServer(recorded_answers(tmp_path)))
    whole, streamed = await asked(url, text), await asked(url, text, stream=True)
    assert replace(streamed, latency_ms=None, first_token_ms=None, request_id=None) == replace(
        whole, latency_ms=None, request_id=None
    )
    assert whole.first_token_ms is None
    assert streamed.first_token_ms is None if text == "empty" else 0 < streamed.first_token_ms <= streamed.latency_ms  # type: ignore[operator]


async def test_the_request_asks_for_a_stream_with_usage() -> None:
    stream = raw(
        events(*deltas({"content": "hi"}), {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}})
    )
    with FaultServer(lambda *_: stream) as server:
        done = await asked(server.url.removesuffix("/score"), "hello", stream=True)
    body: Any = server.requests[0].json()
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert (done.text, done.usage) == ("hi", Usage(3, 1))


async def test_an_azure_ml_chat_says_beside_the_messages_that_it_wants_a_stream() -> None:
    with FaultServer(lambda *_: raw(events(*deltas({"content": "hi"})))) as server:
        chat = {"messages": "${messages}", "options": "${parameters}"}
        endpoint = azure_ml(server.url, request=chat, stream=True, parameters={"seed": 1})
        assert (await ask_once(endpoint)).text == "hi"
    body: Any = server.requests[0].json()
    assert (body["stream"], body["options"]) == (True, {"seed": 1})


@cases("endpoints")
def test_calls_are_read_however_a_server_streams_them(choices: list[Any], calls: list[Any]) -> None:
    body = events(*({"choices": each} for each in choices), {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    assert read_chat(read_stream(body)[0]) == Completion(None, tuple(calls), finish_reason="tool_calls")


WEATHER = "The weather in Paris is fine."


@pytest.mark.parametrize(
    "texts",
    [
        [WEATHER[:length] for length in range(4, 30, 5)],
        [*(WEATHER[:length] for length in range(4, 30, 5)), WEATHER],
        [WEATHER[:12], WEATHER[12:], WEATHER],
    ],
)
def test_pieces_that_repeat_earlier_ones_are_read_once(texts: Sequence[str]) -> None:
    assert read(*({"content": text} for text in texts)).text == WEATHER


@pytest.mark.parametrize("pieces", [("ha", "haha"), ("1", "1", "1"), ("no", " no", " no, never say so again")])
def test_words_that_are_said_again_are_kept(pieces: Sequence[str]) -> None:
    assert read(*({"content": piece} for piece in pieces)).text == "".join(pieces)


def test_more_calls_than_any_answer_has_are_refused() -> None:
    piece = {"tool_calls": [{"index": at, "function": {"name": "f"}} for at in range(1_001)]}
    with pytest.raises(UnreadableReplyError, match="over 1,000 calls or parts came"):
        read(piece)


def test_the_answer_is_the_choice_with_the_first_number() -> None:
    choices: list[Any] = [{"index": at, "message": {"role": "assistant", "content": str(at)}} for at in (1, 0)]
    assert read_chat({"choices": choices}).text == "0"


@cases("endpoints")
def test_reasoning_in_pieces_is_put_together(pieces: list[Any], text: str, fields: dict[str, Any]) -> None:
    done = read(*pieces)
    assert (done.reasoning, done.text, done.reasoning_fields) == ("It is a city.", text, fields)


def plan(*steps: Step) -> FaultServer:
    return FaultServer(lambda _, attempt: steps[min(attempt, len(steps) - 1)])


GOOD = raw(events(*deltas({"content": "hi"})), "text/event-stream")
CUT = events(*deltas({"content": "h"})[:1], done=False)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (CUT, "broke off"),
        (b"", "broke off"),
        (CUT + b"data: {oops\n\n", "not JSON"),
        (CUT + events({"error": {"message": "out of memory", "code": 500}}), "out of memory"),
    ],
    ids=["cut off", "empty", "a broken piece", "an error in the stream"],
)
async def test_a_stream_that_fails_is_asked_for_again(body: bytes, problem: str) -> None:
    with plan(raw(body, "text/event-stream"), GOOD) as server:
        assert (await ask_once(azure_ml(server.url))).text == "hi"
        with pytest.raises(EndpointError, match=problem):
            await ask_once(azure_ml(server.url, retries=0), replace(HELLO, idempotency_key="once"))


async def test_an_open_connection_after_the_last_event_keeps_nobody_waiting() -> None:
    async with serving(lambda *_: replace(GOOD, length=1 << 20, then="hang"), timeout_s=30, retries=0) as (endpoint, _):
        assert (await endpoint.complete(HELLO)).text == "hi"


def test_signs_of_life_and_comments_are_passed_over() -> None:
    body = b"\xef\xbb\xbfdata:\n\n: wait\n\nevent: ping\ndata: {}\n\n" + events(*deltas({"content": "hi"})).replace(
        b"\n", b"\r\n"
    )
    assert read_chat(read_stream(body)[0]).text == "hi"


def test_the_end_is_known_by_the_finish_reason_too() -> None:
    assert read_chat(read_stream(events(*deltas({"content": "hi"}), done=False))[0]).text == "hi"


async def test_a_stream_of_the_responses_api_ends_with_the_whole_reply() -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
    body = events(
        {"type": "response.created", "response": {"output": []}},
        {"type": "response.output_text.delta", "delta": "hi"},
        {"type": "response.completed", "response": {"status": "completed", "output": [said]}},
        done=False,
    )
    with FaultServer(lambda *_: raw(body, "text/event-stream")) as server:
        url = f"{server.url.removesuffix('/score')}/v1/responses"
        endpoint = load_endpoint({"kind": "openai", "url": url, "model": "m", "stream": True})
        done = await ask_once(endpoint)
    assert done.text == "hi"
    assert done.first_token_ms is not None


json_values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3)
    | some.dictionaries(
        some.sampled_from(["choices", "delta", "content", "tool_calls", "function", "arguments", "index", "id", "type",
                           "text", "thinking", "reasoning_details", "reasoning", "usage", "error", "finish_reason"]),
        inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(some.lists(json_values, max_size=5), some.booleans())
@settings(max_examples=150, deadline=None)
def test_no_stream_breaks_the_reader(pieces: Sequence[Any], wrapped: bool) -> None:
    given_pieces = [{"choices": [{"index": 0, "delta": piece}]} for piece in pieces] if wrapped else pieces
    with contextlib.suppress(UnreadableReplyError):
        json.dumps(read_stream(events(*given_pieces))[0])
