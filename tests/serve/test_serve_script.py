"""Scripted answers: rules over real HTTP, seen by the official client and our endpoints."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given, strategies as st
from tests.scripted_rules import ScriptSource, Words, read_script
from tests.serve_parts import Starter, asking, got, posted, servers
from tests.tables import cases

from tunecheck import ConfigurationError, ContentFilterError, ThrottledError
from tunecheck.endpoints import ChatRequest, load_endpoint

VERDICT = {"difference": 1, "reason": "the same city"}
AS_JSON = '{"difference":1,"reason":"the same city"}'
CHAT = "/v1/chat/completions"


@pytest.fixture
async def started() -> AsyncIterator[Starter]:
    async with servers() as start:
        yield start


def script(folder: Path, text: str) -> Path:
    path = folder / "script.yaml"
    path.write_text(textwrap.dedent(text), "utf-8")
    return path


def source(folder: Path, text: str) -> ScriptSource:
    return ScriptSource(read_script(script(folder, text)))


def client_of(url: str, **options: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", **{"api_key": "any", "max_retries": 0, **options})


async def asked(url: str, user: str = "hello", system: str | None = None, **more: Any) -> tuple[int, Any, Any]:
    messages = [{"role": "system", "content": system}] if system else []
    return await posted(f"{url}{CHAT}", {"messages": [*messages, *asking(user)], **more})


async def text_of(url: str, user: str = "hello", **more: Any) -> str:
    status, reply, _ = await asked(url, user, **more)
    assert status == 200, reply
    content: str = reply["choices"][0]["message"]["content"]
    return content


# -- what is answered -------------------------------------------------------------------------------------------------


@cases("serve")
async def test_an_answer_is_text_or_the_json_of_a_value(tmp_path: Path, started: Starter, rule: str, text: str) -> None:
    indented = rule.replace("\n", "\n    ")
    assert await text_of(await started(source(tmp_path, f"rules:\n  - {indented}\n"))) == text


async def test_the_official_client_gets_an_answer_that_says_it_is_simulated(tmp_path: Path, started: Starter) -> None:
    url = await started(source(tmp_path, "rules: [{answer: {difference: 1, reason: the same city}}]"))
    async with client_of(url) as client:
        reply: Any = await client.chat.completions.create(model="m", messages=asking("x"))
        assert json.loads(reply.choices[0].message.content) == VERDICT
        assert (reply.choices[0].finish_reason, reply.simulated) == ("stop", True)


async def test_an_answer_cut_off_ends_for_its_length(tmp_path: Path, started: Starter) -> None:
    url = await started(source(tmp_path, "rules: [{answer: {difference: 1, reason: long}, truncate_at: 18}]"))
    async with client_of(url) as client:
        reply = await client.chat.completions.create(model="m", messages=asking("x"))
    assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == ('{"difference":1,"r', "length")


async def test_a_refusal_stands_beside_the_text_also_in_a_stream(tmp_path: Path, started: Starter) -> None:
    url = await started(source(tmp_path, "rules: [{refusal: I cannot judge this.}]"))
    async with client_of(url) as client:
        reply = await client.chat.completions.create(model="m", messages=asking("x"))
        stream = await client.chat.completions.create(model="m", messages=asking("x"), stream=True)
        pieces = [piece async for piece in stream]
    message = reply.choices[0].message
    assert (message.content, message.refusal) == (None, "I cannot judge this.")
    assert [piece.choices[0].delta.refusal for piece in pieces if piece.choices[0].delta.refusal] == [message.refusal]


async def test_a_declined_prompt_is_azures_400(tmp_path: Path, started: Starter) -> None:
    url = await started(source(tmp_path, "rules: [{content_filter: true}]"))
    async with client_of(url) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model="m", messages=asking("x"))
    assert (caught.value.code, caught.value.param) == ("content_filter", "prompt")
    body: Any = caught.value.body
    assert body["innererror"]["code"] == "ResponsibleAIPolicyViolation"
    assert body["innererror"]["content_filter_result"]["violence"] == {"filtered": True, "severity": "high"}


async def test_a_declined_answer_is_a_finish_reason(tmp_path: Path, started: Starter) -> None:
    url = await started(source(tmp_path, "rules: [{content_filter: answer}]"))
    async with client_of(url) as client:
        reply = await client.chat.completions.create(model="m", messages=asking("x"))
    assert (reply.choices[0].finish_reason, reply.choices[0].message.content) == ("content_filter", None)


@pytest.mark.parametrize("kind", ["prompt", "answer"])
async def test_our_own_endpoint_knows_both_for_what_they_are(tmp_path: Path, started: Starter, kind: str) -> None:
    url = await started(source(tmp_path, f"rules: [{{content_filter: {kind}}}]"))
    endpoint = load_endpoint({"kind": "openai", "url": f"{url}/v1", "model": "m"})
    with pytest.raises(ContentFilterError):
        await endpoint.complete(ChatRequest(asking("x")))
    await endpoint.close()


async def test_a_throttled_client_comes_back_when_it_is_told_to(tmp_path: Path, started: Starter) -> None:
    url = await started(source(tmp_path, "rules: [{status: 429, times: 2, retry_after: 0.02}, {answer: at last}]"))
    status, reply, headers = await asked(url)
    assert (status, reply["error"]["code"]) == (429, "rate_limit_exceeded")
    assert (headers["Retry-After"], headers["retry-after-ms"]) == ("1", "20")
    async with client_of(url, max_retries=1) as client:
        answer = await client.chat.completions.create(model="m", messages=asking("x"))
    assert answer.choices[0].message.content == "at last"


@pytest.mark.parametrize(("written", "header"), [("3", "3"), ("0", "0"), ("2.0", "2")])
async def test_whole_seconds_are_told_as_such(tmp_path: Path, started: Starter, written: str, header: str) -> None:
    url = await started(source(tmp_path, f"rules: [{{status: 503, retry_after: {written}, message: too much}}]"))
    status, reply, headers = await asked(url)
    assert (status, reply["error"]["message"], headers["Retry-After"]) == (503, "too much", header)
    assert "retry-after-ms" not in headers


async def test_our_own_endpoint_rides_out_a_storm_of_429(tmp_path: Path, started: Starter) -> None:
    rules = "rules: [{status: 429, times: 3, retry_after: 0.01}, {answer: done, times: 1}, {status: 429}]"
    url = await started(source(tmp_path, rules))
    definition = {"kind": "openai", "url": f"{url}/v1", "model": "m", "retries": 3}
    endpoint = load_endpoint(definition)
    assert (await endpoint.complete(ChatRequest(asking("x"), idempotency_key="k"))).text == "done"
    await endpoint.close()
    hopeless = load_endpoint({**definition, "retries": 0})
    with pytest.raises(ThrottledError):
        await hopeless.complete(ChatRequest(asking("x"), idempotency_key="k2"))
    await hopeless.close()


async def test_a_server_without_structured_output_says_which_parameter_it_does_not_take(
    tmp_path: Path, started: Starter
) -> None:
    url = await started(source(tmp_path, "rules: [{reject: response_format}, {answer: plain}]"))
    status, reply, _ = await asked(url, response_format={"type": "json_schema", "json_schema": {}})
    assert (status, reply["error"]["param"]) == (400, "response_format")
    assert reply["error"]["message"] == "Invalid parameter: 'response_format' is not supported with this model."
    assert await text_of(url) == "plain"
    assert await text_of(url, response_format=None) == "plain"


async def test_one_type_of_a_parameter_can_be_rejected(tmp_path: Path, started: Starter) -> None:
    url = await started(source(tmp_path, "rules: [{reject: {response_format: json_schema}}, {answer: '{}'}]"))
    status, reply, _ = await asked(url, response_format={"type": "json_schema"})
    assert (status, "of type 'json_schema'" in reply["error"]["message"]) == (400, True)
    assert await text_of(url, response_format={"type": "json_object"}) == "{}"


async def test_usage_is_as_written_or_reckoned_or_kept_back(tmp_path: Path, started: Starter) -> None:
    rules = """
        rules:
          - {when: {user: written}, answer: x, usage: {input_tokens: 7, output_tokens: 3}}
          - {when: {user: kept back}, answer: x, usage: {}}
          - {answer: x}
    """
    url = await started(source(tmp_path, rules))
    usages = [(await asked(url, user))[1]["usage"] for user in ("written", "kept back", "else")]
    assert usages[:2] == [{"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}, None]
    assert usages[2]["prompt_tokens"] > 0


async def test_a_slow_answer_holds_up_no_other(tmp_path: Path, started: Starter) -> None:
    import asyncio

    url = await started(source(tmp_path, "rules: [{when: {user: slow}, answer: s, latency_ms: 400}, {answer: f}]"))
    order: list[str] = []

    async def ask(user: str) -> None:
        order.append(await text_of(url, user))

    await asyncio.gather(ask("slow"), ask("fast"))
    assert order == ["f", "s"]


async def test_several_answers_are_given_in_turn_to_each_question(tmp_path: Path, started: Starter) -> None:
    url = await started(source(tmp_path, "rules: [{answers: [{n: 1}, {n: 0}]}]"))
    users = ["a", "a", "b", "a", "b"]
    texts = [await text_of(url, user) for user in users]
    assert texts == ['{"n":1}', '{"n":0}', '{"n":1}', '{"n":1}', '{"n":0}']


# -- which rule answers -----------------------------------------------------------------------------------------------

WHEN = """
    rules:
      - {name: both, when: {user: [NYC, New York]}, answer: both}
      - {name: either, when: {user: {any: [Oslo, Rome], none: [Berlin]}}, answer: either}
      - {name: system, when: {system: strict}, answer: system}
      - {name: schema, when: {response_format: true, request: my_schema}, answer: schema}
      - {name: earlier, when: {request: said before, response_format: false}, answer: earlier}
"""


@cases("serve")
async def test_the_first_rule_that_holds_answers(tmp_path: Path, started: Starter, body: Any, text: str | None) -> None:
    status, reply, _ = await posted(f"{await started(source(tmp_path, WHEN))}{CHAT}", body)
    assert (reply["choices"][0]["message"]["content"] if status == 200 else None) == text
    assert status == (200 if text else 404)


async def test_what_no_rule_answers_is_named(tmp_path: Path, started: Starter) -> None:
    url = await started(source(tmp_path, "rules: [{when: {user: cats}, answer: x}]"))
    status, reply, _ = await asked(url, "what about\n" + "dogs " * 50)
    assert (status, reply["error"]["code"]) == (404, "no_answer")
    assert re.search(r"no rule of .*script\.yaml holds .*: 'what about dogs dogs .*…'$", reply["error"]["message"])


async def test_a_rule_answers_so_often_as_it_says_and_the_next_one_after_it(tmp_path: Path, started: Starter) -> None:
    url = await started(source(tmp_path, "rules: [{answer: first, times: 2}, {answer: then}]"))
    assert [await text_of(url) for _ in range(4)] == ["first", "first", "then", "then"]


async def test_health_counts_by_rule(tmp_path: Path, started: Starter) -> None:
    rules = "rules: [{name: storm, status: 429, times: 1}, {when: {user: a}, answer: x}]"
    url = await started(source(tmp_path, rules))
    for user in ("a", "a", "b"):
        await asked(url, user)
    health = await got(f"{url}/health")
    assert (health["rules"], health["unmatched"]) == ({"storm": 1, "rule 2": 1}, 1)


async def test_a_repeated_key_is_one_request_to_the_script(tmp_path: Path, started: Starter) -> None:
    url = await started(source(tmp_path, "rules: [{status: 500, times: 1}, {answers: [one, two]}]"))
    replies = [await posted(f"{url}{CHAT}", {"messages": asking("x")}, **{"Idempotency-Key": key}) for key in "aaab"]
    texts = [reply["choices"][0]["message"]["content"] if "choices" in reply else None for _, reply, _ in replies]
    assert texts == [None, "one", "one", "two"], "an error is not kept under its key, an answer is"
    assert (await got(f"{url}/health"))["rules"] == {"rule 1": 1, "rule 2": 2}


@given(st.text("ab"), st.lists(st.text("ab", min_size=1, max_size=3), max_size=3).map(tuple))
def test_all_any_and_none_are_what_they_say(text: str, words: tuple[str, ...]) -> None:
    stands = [word in text for word in words]
    assert Words(all=words).hold(text) == all(stands)
    assert Words(any=words).hold(text) == (any(stands) or not words)
    assert Words(none=words).hold(text) == (not any(stands))


# -- mistakes ---------------------------------------------------------------------------------------------------------


@cases("serve")
def test_a_mistake_names_file_line_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_script(script(tmp_path, text))
    assert complaint in str(caught.value)
    assert "script.yaml" in str(caught.value)
