"""`tunecheck serve`, asked over real HTTP by the official OpenAI client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.scripted_rules import ScriptSource, read_script
from tests.serve_parts import ARGUMENTS, CALL, TEXT, TOOLS, Counting, Starter, asking, recorded_answers, servers

from tunecheck_serve import ChatSource


@pytest.fixture
def recorded(tmp_path: Path) -> ChatSource:
    return recorded_answers(tmp_path)


@pytest.fixture
async def started() -> AsyncIterator[Starter]:
    async with servers() as start:
        yield start


def client_of(url: str, **options: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", **{"api_key": "any", "max_retries": 0, **options})


async def test_the_official_client_gets_a_text(recorded: ChatSource, started: Starter) -> None:
    async with client_of(await started(recorded)) as client:
        reply = await client.chat.completions.create(model="m", messages=asking("talk"))
    choice = reply.choices[0]
    assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == (TEXT, None, "stop")
    assert reply.usage
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.total_tokens) == (11, 5, 16)
    assert (reply.model, reply.id, reply._request_id) == ("m", "chatcmpl-rq1", "rq1")


async def test_the_official_client_gets_tool_calls(recorded: ChatSource, started: Starter) -> None:
    async with client_of(await started(recorded)) as client:
        reply = await client.chat.completions.create(model="m", messages=asking("call"), tools=TOOLS)
    choice = reply.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert [call.model_dump() for call in choice.message.tool_calls or ()] == [CALL]
    assert reply.usage is None  # nothing was recorded, and nothing is made up


async def test_the_official_client_puts_a_streamed_text_together(recorded: ChatSource, started: Starter) -> None:
    async with client_of(await started(recorded)) as client:
        stream = await client.chat.completions.create(model="m", messages=asking("talk"), stream=True)
        pieces = [piece async for piece in stream]
    deltas = [piece.choices[0].delta for piece in pieces]
    assert "".join(delta.content or "" for delta in deltas) == TEXT
    assert deltas[0].role == "assistant"
    assert len(deltas) > 5
    assert [piece.choices[0].finish_reason for piece in pieces] == [None] * (len(pieces) - 1) + ["stop"]


async def test_the_official_client_s_stream_helper_puts_calls_together(recorded: ChatSource, started: Starter) -> None:
    async with client_of(await started(recorded)) as client:
        with_usage: Any = {"include_usage": True}
        async with client.chat.completions.stream(
            model="m", messages=asking("both"), tools=TOOLS, stream_options=with_usage
        ) as stream:
            reply = await stream.get_final_completion()
    message = reply.choices[0].message
    assert message.content == "One moment."
    assert [(call.id, call.function.arguments) for call in message.tool_calls or ()] == [
        ("call_7", ARGUMENTS),
        ("call_8", ARGUMENTS),
    ]
    assert reply.choices[0].finish_reason == "tool_calls"


async def test_usage_comes_last_in_a_stream_that_asks_for_it(recorded: ChatSource, started: Starter) -> None:
    async with client_of(await started(recorded)) as client:
        stream = await client.chat.completions.create(
            model="m", messages=asking("talk"), stream=True, stream_options={"include_usage": True}
        )
        pieces = [piece async for piece in stream]
    assert pieces[-1].choices == []
    assert pieces[-1].usage
    assert pieces[-1].usage.total_tokens == 16
    assert all(piece.usage is None for piece in pieces[:-1])


async def test_the_official_client_takes_a_wrong_key_as_an_authentication_error(
    recorded: ChatSource, started: Starter
) -> None:
    url = await started(recorded, key="right")
    async with client_of(url, api_key="wrong") as client:
        with pytest.raises(openai.AuthenticationError, match="the key is missing or wrong"):
            await client.chat.completions.create(model="m", messages=asking("talk"))
    async with client_of(url, api_key="right") as client:
        assert [model.id for model in (await client.models.list()).data] == ["recorded"]


async def test_the_official_client_takes_unknown_messages_as_not_found(recorded: ChatSource, started: Starter) -> None:
    async with client_of(await started(recorded)) as client:
        with pytest.raises(openai.NotFoundError, match="no recorded answer") as raised:
            await client.chat.completions.create(model="m", messages=asking("something else"))
    assert raised.value.code == "no_answer"


async def test_recorded_errors_reach_the_official_client_as_what_they_are(
    recorded: ChatSource, started: Starter
) -> None:
    async with client_of(await started(recorded)) as client:
        with pytest.raises(openai.RateLimitError, match="slow down"):
            await client.chat.completions.create(model="m", messages=asking("throttled"))
        with pytest.raises(openai.BadRequestError, match="not this") as declined:
            await client.chat.completions.create(model="m", messages=asking("declined"))
        with pytest.raises(openai.InternalServerError, match="odd"):
            await client.chat.completions.create(model="m", messages=asking("strange"))
    assert declined.value.code == "content_filter"


async def test_azure_s_official_client_finds_its_paths_and_key_header(recorded: ChatSource, started: Starter) -> None:
    url = await started(recorded, key="right")
    async with openai.AsyncAzureOpenAI(
        azure_endpoint=url, api_key="right", api_version="2024-10-21", max_retries=0
    ) as client:
        reply = await client.chat.completions.create(model="my-deployment", messages=asking("talk"))
    assert (reply.choices[0].message.content, reply.model) == (TEXT, "my-deployment")
    async with openai.AsyncOpenAI(base_url=f"{url}/openai/v1", api_key="right", max_retries=0) as client:
        reply = await client.chat.completions.create(model="m", messages=asking("talk"))
    assert reply.choices[0].message.content == TEXT


async def test_the_official_client_s_own_retries_get_past_made_faults(recorded: ChatSource, started: Starter) -> None:
    # Seed 1 draws 0.13, 0.85: the first request fails with 500, the second is answered.
    async with client_of(await started(recorded, faults={500: 0.2}, seed=1), max_retries=2) as client:
        reply = await client.chat.completions.create(model="m", messages=asking("talk"))
    assert reply.choices[0].message.content == TEXT


async def test_what_is_simulated_says_so_in_every_reply_and_piece(started: Starter) -> None:
    async with client_of(await started(Counting(simulated=True))) as client:
        reply: Any = await client.chat.completions.create(model="m", messages=asking("a"))
        stream: Any = await client.chat.completions.create(model="m", messages=asking("a"), stream=True)
        assert reply.simulated is True
        assert all([piece.simulated is True async for piece in stream])


def scripted(folder: Path, rules: str) -> ScriptSource:
    (folder / "script.yaml").write_text(f"rules: {rules}", "utf-8")
    return ScriptSource(read_script(folder / "script.yaml"))


async def test_a_refusal_stands_beside_the_text_also_in_a_stream(tmp_path: Path, started: Starter) -> None:
    async with client_of(await started(scripted(tmp_path, "[{refusal: I cannot judge this.}]"))) as client:
        reply = await client.chat.completions.create(model="m", messages=asking("x"))
        stream = await client.chat.completions.create(model="m", messages=asking("x"), stream=True)
        pieces = [piece async for piece in stream]
    message = reply.choices[0].message
    assert (message.content, message.refusal) == (None, "I cannot judge this.")
    assert [piece.choices[0].delta.refusal for piece in pieces if piece.choices[0].delta.refusal] == [message.refusal]


async def test_a_problem_of_a_source_reaches_the_official_client_with_all_that_it_says(
    tmp_path: Path, started: Starter
) -> None:
    rules = "[{content_filter: prompt, times: 1}, {status: 429, retry_after: 0.02, times: 1}, {answer: at last}]"
    async with client_of(await started(scripted(tmp_path, rules)), max_retries=1) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model="m", messages=asking("x"))
        answer = await client.chat.completions.create(model="m", messages=asking("x"))
    body: Any = caught.value.body
    assert (caught.value.code, caught.value.param) == ("content_filter", "prompt")
    assert body["innererror"]["content_filter_result"]["violence"] == {"filtered": True, "severity": "high"}
    assert answer.choices[0].message.content == "at last"


async def test_a_reason_to_finish_and_thoughts_are_those_of_the_source(tmp_path: Path, started: Starter) -> None:
    rules = "[{content_filter: answer, times: 1}, {answer: Paris, reasoning: They want a city.}]"
    async with client_of(await started(scripted(tmp_path, rules))) as client:
        declined, answered = [
            (await client.chat.completions.create(model="m", messages=asking("x"))).choices[0] for _ in range(2)
        ]
    assert (declined.finish_reason, declined.message.content) == ("content_filter", None)
    assert answered.message.model_dump()["reasoning_content"] == "They want a city."
