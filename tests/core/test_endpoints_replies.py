"""Replies that look like answers and are none, and refusals that no retry changes."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.endpoint_parts import HELLO, EagerClock, HandClock, ask_once, azure_ml, serving
from tests.fault_server import FaultServer, Plan, Step, answer, failing, raw
from tests.pipeline_parts import questions, run
from tests.tables import cases

from tunecheck import EndpointError, RefusedError, ReplyError, RunError, StopRunError, ThrottledError
from tunecheck.endpoints import Endpoint, OpenAIEndpoint, load_endpoint, read_definition
from tunecheck_memory import MemoryAgentEndpoint

GOOD = {"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}


def chat(server: FaultServer, **values: Any) -> OpenAIEndpoint:
    definition = read_definition({"kind": "openai", "url": server.url, "model": "m", **values})
    return OpenAIEndpoint(definition, clock=HandClock())


async def ask(endpoint: Endpoint) -> str | None:
    return (await ask_once(endpoint)).text


def once_then(bad: Step, good: object) -> Plan:
    return lambda _, attempt: bad if attempt == 0 else answer(good)


@cases("endpoints")
async def test_a_200_that_is_no_answer_is_asked_for_again(body: str, content_type: str) -> None:
    with FaultServer(once_then(raw(body.encode(), content_type), GOOD)) as server:
        assert await ask(chat(server)) == "hi"
    assert len(server.requests) == 2


@cases("endpoints")
async def test_nor_is_it_a_scoring_servers_answer(body: str, content_type: str, path: str | None) -> None:
    with FaultServer(once_then(raw(body.encode(), content_type), {"result": "hi"} if path else "hi")) as server:
        assert await ask(azure_ml(server.url, response=path)) == "hi"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("error", "kind", "words", "requests"),
    [
        ({"message": "out of memory"}, ReplyError, r"200 OK with an error: out of memory \(after 3 attempts\)", 3),
        ({"message": "slow down", "code": 429}, ThrottledError, "slow down", 3),
        ({"message": "no such model", "code": "404"}, EndpointError, "no such model", 1),
    ],
    ids=["no code", "429", "404"],
)
async def test_an_error_at_200_that_stays_is_told_in_its_own_words_and_counts_as_the_status_in_its_code(
    error: object, kind: type[EndpointError], words: str, requests: int
) -> None:
    with FaultServer(lambda *_: answer({"error": error})) as server, pytest.raises(kind, match=words):
        await ask(azure_ml(server.url, retries=2))
    assert len(server.requests) == requests


async def test_an_error_at_200_without_an_error_key_counts_as_the_status_in_its_code() -> None:
    missing = {"object": "error", "message": "The model `m` does not exist.", "code": 404}
    with (
        FaultServer(lambda *_: answer(missing)) as server,
        pytest.raises(EndpointError, match="status: 404 Not Found\\): The model `m` does not exist") as caught,
    ):
        await ask(chat(server))
    assert [each.path for each in server.requests] == ["/score/chat/completions", "/score/models"]  # not asked again
    assert caught.value.cause == "unknown_model"


async def test_a_models_own_answer_may_speak_of_an_error() -> None:
    said = {"result": {"error": "no such city"}, "error": None}
    with FaultServer(lambda *_: answer(said)) as server:
        assert await ask(azure_ml(server.url, response="result")) == '{"error":"no such city"}'


@pytest.mark.parametrize("spaces", [b"", b"\r\n "])
async def test_a_reply_with_a_byte_order_mark_is_read(spaces: bytes) -> None:
    with FaultServer(lambda *_: raw(b"\xef\xbb\xbf" + spaces + json.dumps(GOOD).encode())) as server:
        assert await ask(chat(server)) == "hi"
    assert len(server.requests) == 1


async def test_colons_and_halves_of_characters_in_an_answer_change_nothing() -> None:
    body = rb'{"choices": [{"message": {"content": "a: {\"b\": \ud83d}"}}]}'
    with FaultServer(lambda *_: raw(body)) as server:
        assert await ask(chat(server)) == 'a: {"b": \ud83d}'


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'{"result": 1, "result": 2}', r"unusable \(the key 'result' is given twice .*; the reply begins with: \{"),
        (b"Bad gateway", r"unusable \(the text is not JSON: Expecting value .*; the reply begins with: Bad gateway$"),
        (b"", r"unusable \(the text is not JSON: .*; the reply is empty$"),
    ],
)
async def test_the_problem_is_named(body: bytes, problem: str) -> None:
    with FaultServer(lambda *_: raw(body)) as server, pytest.raises(ReplyError, match=problem):
        await ask(azure_ml(server.url, response="result", retries=0))


async def test_an_agent_that_answers_with_an_error_has_not_been_told() -> None:
    plan = once_then(answer({"error": {"message": "restarting"}}), {"reply": "hi"})
    with FaultServer(plan) as server:
        agent = MemoryAgentEndpoint(read_definition({"kind": "memory_agent", "url": server.url}))
        agent._client.clock = EagerClock()
        await agent.reset(conversation="c", key="k", sent_at=datetime(2026, 1, 1, tzinfo=UTC))
        await agent.close()
    assert len(server.requests) == 2


# -- refusals


@cases("endpoints")
async def test_an_account_with_nothing_left_stops_the_run_after_ten_calls(status: int, error: dict[str, Any]) -> None:
    with FaultServer(lambda *_: raw(json.dumps({"error": error}).encode(), status=status)) as server:
        endpoint = chat(server, limits={"concurrency": 1})
        for _ in range(9):
            with pytest.raises(RefusedError, match="add credit to the account"):
                await endpoint.complete(HELLO)
        with pytest.raises(StopRunError):
            await endpoint.complete(HELLO)
        await endpoint.close()
    assert len(server.requests) == 10


async def test_a_rate_limit_that_only_speaks_of_quota_is_waited_for() -> None:
    busy = failing(429, "Rate limit reached: insufficient_quota? billing? no, try again in 20 ms")
    with FaultServer(once_then(busy, GOOD)) as server:
        assert await ask(chat(server)) == "hi"


def test_a_run_on_an_empty_account_stops_and_says_how_to_go_on(tmp_path: Path) -> None:
    empty = raw(b'{"error": {"message": "no quota", "code": "insufficient_quota"}}', status=429)
    with FaultServer(lambda *_: empty) as server:
        endpoint = load_endpoint({"kind": "azure_ml", "url": server.url, "limits": {"concurrency": 2}})
        rows = [{**row, "query": row["question"]} for row in questions(200)]
        with pytest.raises(RunError, match=r"no quota .*go on with the same Python call and resume="):
            run(tmp_path, rows, target=endpoint, evaluators={"n": lambda response: 1})
    assert len(server.requests) <= 12


class TestLongWaits:
    async def test_a_longer_wait_than_a_call_waits_is_an_error_at_once(self) -> None:
        clock = HandClock()
        async with serving(lambda *_: failing(429, "come back tomorrow", Retry_After="86400"), clock=clock) as (
            endpoint,
            server,
        ):
            with pytest.raises(ThrottledError, match=r"asks to wait 86,400 s, more than the 120 s that a run waits"):
                await endpoint.complete(HELLO)
        assert (len(server.requests), clock.waits) == (1, [])

    async def test_ten_of_them_in_a_row_stop_the_run(self) -> None:
        async with serving(lambda *_: failing(503, Retry_After="3600")) as (endpoint, server):
            results = await asyncio.gather(*(endpoint.complete(HELLO) for _ in range(60)), return_exceptions=True)
        assert isinstance(results[-1], StopRunError)
        assert len(server.requests) < 40

    async def test_as_long_as_a_call_waits_is_waited(self) -> None:
        clock = HandClock()
        with FaultServer(once_then(failing(429, Retry_After="120"), "hi")) as server:
            assert await ask(azure_ml(server.url, clock=clock)) == "hi"
        assert 120 <= clock.waits[0] <= 120.5
