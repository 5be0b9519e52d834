"""`tunecheck serve` over real HTTP: scoring calls, keys, faults, idempotency, starting and stopping."""

import asyncio
import io
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from aiohttp import web
from tests.cli_parts import here, workspace
from tests.platforms import posix_only
from tests.scripted_rules import ScriptSource, read_script
from tests.serve_parts import CALL, TEXT, TOOLS, Counting, Starter, asking, got, posted, recorded_answers, servers
from tests.tables import cases

from tunecheck import ConfigurationError, ContentFilterError, EndpointError, Row, ThrottledError, TimedOutError
from tunecheck.endpoints import is_loopback, load_endpoint
from tunecheck.plugins import dumps_line
from tunecheck.simulators import Backends
from tunecheck_serve import ChatSource, RowAnswers, ServerOptions, make_app, run_server


@pytest.fixture
def recorded(tmp_path: Path) -> ChatSource:
    return recorded_answers(tmp_path)


@pytest.fixture
async def started() -> AsyncIterator[Starter]:
    async with servers() as start:
        yield start


async def test_a_scoring_call_gets_the_text_or_the_calls_as_result(recorded: ChatSource, started: Starter) -> None:
    url = await started(recorded)
    status, reply, headers = await posted(f"{url}/score", {"input_data": asking("talk"), "params": {"temperature": 0}})
    assert (status, reply, headers["x-request-id"]) == (200, {"result": TEXT}, "rq1")
    assert (await posted(f"{url}/score", {"input_data": asking("call")}))[1] == {"result": [CALL]}
    assert (await posted(f"{url}/score", {"input_data": asking("empty")}))[1] == {"result": ""}


@pytest.mark.parametrize("shape", ["input_string", "messages"])
async def test_a_scoring_call_may_wrap_its_messages(recorded: ChatSource, started: Starter, shape: str) -> None:
    body = {"input_data": {shape: asking("talk"), "parameters": {"temperature": 0}}}
    assert (await posted(f"{await started(recorded)}/score", body))[1] == {"result": TEXT}


async def test_a_bare_text_is_what_the_user_says(recorded: ChatSource, started: Starter) -> None:
    assert (await posted(f"{await started(recorded)}/score", {"input_data": "talk"}))[1] == {"result": TEXT}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"{", "the request's body is not JSON"),
        (b"\xff", "the request's body is not JSON"),
        (b"[" * 100_000, "the request's body is not JSON"),
        ([1], "the request's body must be a JSON object, not [1]"),
        ({}, "`messages` must be a list of objects, not None"),
        ({"messages": []}, "`messages` must contain at least one message"),
        ({"messages": ["hello"]}, "`messages` must be a list of objects, not ['hello']"),
        ({"messages": asking("talk"), "tools": {}}, "`tools` must be a list of objects"),
        ({"messages": asking("talk"), "functions": [1]}, "`functions` must be a list of objects"),
        ({"messages": asking("talk"), "n": 2}, "`n` must be 1, not 2: this"),
    ],
)
async def test_a_bad_request_is_told_why(recorded: ChatSource, started: Starter, body: Any, complaint: str) -> None:
    status, reply, _ = await posted(f"{await started(recorded)}/v1/chat/completions", body)
    assert (status, reply["error"]["type"]) == (400, "invalid_request_error")
    assert complaint in reply["error"]["message"]


async def test_unknown_paths_and_oversized_bodies_are_json_errors_too(recorded: ChatSource, started: Starter) -> None:
    url = await started(recorded)
    assert (await posted(f"{url}/v1/completions", {}))[:2] == (404, error_with("POST /v1/completions: Not Found"))
    status, reply, _ = await posted(f"{url}/score", io.BytesIO(b"x" * (17 << 20)))
    assert (status, reply["error"]["message"]) == (413, "POST /score: Request Entity Too Large")


def error_with(message: str) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


async def test_the_health_check_needs_no_key_and_tells_the_counts(recorded: ChatSource, started: Starter) -> None:
    url = await started(recorded, key="right")
    await posted(f"{url}/score", {"input_data": "talk"})
    await posted(f"{url}/score", {"input_data": "talk"}, Authorization="Bearer right")
    health = await got(f"{url}/health")
    assert health == await got(f"{url}/")
    assert (health["status"], health["requests"], health["answers"], health["refusals"]) == ("ok", 2, 1, 1)


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic right"}, {"api-key": ""}, {"api-key": "ré"}],
)
async def test_only_the_key_opens(recorded: ChatSource, started: Starter, headers: Any) -> None:
    status, reply, _ = await posted(f"{await started(recorded, key='right')}/score", {"input_data": "talk"}, **headers)
    assert (status, reply["error"]["code"]) == (401, "invalid_api_key")


async def test_a_repeated_idempotency_key_gets_the_stored_answer(started: Starter) -> None:
    counting = Counting()
    url = f"{await started(counting)}/score"
    first = await posted(url, {"input_data": "a"}, **{"Idempotency-Key": "k1"})
    again = await posted(url, {"input_data": "a"}, **{"Idempotency-Key": "k1"})
    other = await posted(url, {"input_data": "a"}, **{"Idempotency-Key": "k2"})
    assert [reply["result"] for _, reply, _ in (first, again, other)] == ["answer 1", "answer 1", "answer 2"]
    assert [headers.get("Idempotent-Replayed") for _, _, headers in (first, again, other)] == [None, "true", None]
    assert (await got(url.replace("/score", "/health")))["repeats"] == 1


async def test_a_key_in_flight_is_answered_once(started: Starter) -> None:
    counting = Counting(wait=asyncio.Event())
    url = await started(counting)
    asked = [
        asyncio.create_task(posted(f"{url}/score", {"input_data": "a"}, **{"Idempotency-Key": "k"})) for _ in range(5)
    ]
    while (await got(f"{url}/health"))["repeats"] < 4:
        await asyncio.sleep(0.01)
    assert counting.wait
    counting.wait.set()
    assert {(await each)[1]["result"] for each in asked} == {"answer 1"}


async def test_a_key_used_for_another_question_is_refused(started: Starter) -> None:
    url = f"{await started(Counting())}/score"
    await posted(url, {"input_data": "a"}, **{"Idempotency-Key": "k"})
    status, reply, _ = await posted(url, {"input_data": "b"}, **{"Idempotency-Key": "k"})
    assert (status, reply["error"]["message"]) == (
        400,
        "this Idempotency-Key was used with another request; send a new key",
    )


async def test_a_failure_is_not_stored_under_its_key(started: Starter) -> None:
    url = f"{await started(Counting(failures=1))}/score"
    statuses = [(await posted(url, {"input_data": "a"}, **{"Idempotency-Key": "k"}))[0] for _ in range(2)]
    assert statuses == [504, 200]


@pytest.mark.parametrize("error", [TimedOutError("too late"), asyncio.CancelledError()])
async def test_a_call_that_fails_after_its_client_has_hung_up_is_made_again(error: BaseException) -> None:
    counting, left = Counting(failures=1, error=error, wait=asyncio.Event()), asyncio.Event()

    @web.middleware
    async def watch(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            return await handler(request)  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            left.set()
            raise

    app = make_app(counting)
    app.middlewares.insert(0, watch)
    # The server of somebody who embeds the application and cancels requests whose client has hung up.
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        asked = asyncio.create_task(posted(f"{url}/score", {"input_data": "a"}, **{"Idempotency-Key": "k"}))
        while not counting.asked:
            await asyncio.sleep(0.01)
        asked.cancel()
        await left.wait()
        assert counting.wait
        counting.wait.set()
        status, reply, headers = await posted(f"{url}/score", {"input_data": "a"}, **{"Idempotency-Key": "k"})
        health = await got(f"{url}/health")
    finally:
        await runner.cleanup()
    assert (status, reply, headers.get("Idempotent-Replayed")) == (200, {"result": "answer 1"}, None)
    assert (health["answers"], health["repeats"]) == (1, 0)


async def test_a_source_that_breaks_is_a_server_error_and_the_server_goes_on(started: Starter) -> None:
    url = f"{await started(Counting(failures=1, error=ZeroDivisionError('by zero')))}/score"
    status, reply, _ = await posted(url, {"input_data": "a"})
    assert (status, reply["error"]["message"]) == (500, "ZeroDivisionError: by zero")
    assert (await posted(url, {"input_data": "a"}))[0] == 200


async def test_each_request_is_told_to_who_listens(recorded: ChatSource, started: Starter) -> None:
    heard: list[str] = []
    url = await started(recorded, log=heard.append)
    for text in ("talk", "unknown"):
        await posted(f"{url}/score", {"input_data": text})
    assert [re.sub(r"\d+ ms", "N ms", line) for line in heard] == ["POST /score 200 N ms", "POST /score 404 N ms"]


async def test_what_is_simulated_says_so_in_a_scoring_reply(started: Starter) -> None:
    url = await started(Counting(simulated=True))
    assert (await posted(f"{url}/score", {"input_data": "a"}))[1]["simulated"] is True


# -- rows behind the messages -----------------------------------------------------------------------------------------


async def test_messages_find_the_row_that_they_were_made_of(tmp_path: Path, started: Starter) -> None:
    path = tmp_path / "by_id.jsonl"
    path.write_bytes(dumps_line({"id": "r1", "response": "one"}) + dumps_line({"id": "r2", "response": "two"}))
    rows = [Row(number, f"r{number}", {"query": f"question {number}"}, "") for number in (1, 2)]

    url = await started(RowAnswers(load_endpoint({"kind": "replay", "path": str(path)}), rows, Backends()))
    assert (await posted(f"{url}/score", {"input_data": "question 2"}))[1] == {"result": "two"}
    status, reply, _ = await posted(f"{url}/score", {"input_data": "question 3"})
    assert (status, reply["error"]["message"]) == (
        404,
        "no row of the served data set has this request's messages; send a row's own messages",
    )


# -- starting and stopping --------------------------------------------------------------------------------------------


async def test_a_host_that_others_can_reach_needs_a_key(recorded: ChatSource) -> None:
    with pytest.raises(ConfigurationError, match=r"--host 0\.0\.0\.0 lets other machines send requests; require a key"):
        await run_server(recorded, host="0.0.0.0")


@cases("serve")
def test_only_loopback_counts_as_this_machine(host: str, closed: bool) -> None:
    assert is_loopback(host) is closed


async def test_a_port_in_use_is_said_to_be_so(recorded: ChatSource) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"cannot serve pages on 127\.0\.0\.1:{port}"):
            await run_server(recorded, port=port)


async def test_the_server_runs_until_it_is_told_to_stop(recorded: ChatSource) -> None:
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    running_server = asyncio.create_task(run_server(recorded, port=0, on_ready=ready.set_result, stop=stop))
    url = await ready
    assert (await posted(f"{url}/score", {"input_data": "talk"}))[0] == 200
    stop.set()
    await running_server
    with pytest.raises(aiohttp.ClientConnectionError):
        await got(url)


@posix_only
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_stops_the_process_in_order(tmp_path: Path, name: str) -> None:
    (tmp_path / "answers.jsonl").write_bytes(dumps_line({"messages": asking("talk"), "response": "hi"}))
    script = """
        import asyncio
        from tunecheck.endpoints import load_endpoint
        from tunecheck_serve import ServerOptions, key_from, run_server

        source = load_endpoint({"kind": "replay", "path": "answers.jsonl"})
        options = ServerOptions(key_from("SERVE_KEY"))
        asyncio.run(run_server(source, options, port=0, on_ready=lambda url: print(url, flush=True)))
        print("stopped in order")
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        env={**os.environ, "SERVE_KEY": "right"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+\n", process.stdout.readline())
        process.send_signal(getattr(signal, name))
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err) == (0, "stopped in order\n", "")
    finally:
        process.kill()
        process.wait()


def test_a_key_that_is_not_set_is_an_error(recorded: ChatSource, monkeypatch: pytest.MonkeyPatch) -> None:
    from tunecheck_serve import key_from

    monkeypatch.delenv("SERVE_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="SERVE_KEY: the environment variable is unset or blank"):
        key_from("SERVE_KEY")


def test_the_key_is_not_shown() -> None:
    assert "secret" not in repr(ServerOptions(key="secret"))


@cases("serve")
async def test_only_who_names_this_machine_is_answered_and_nothing_else_prints_a_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], request_text: str, status: int
) -> None:
    async with servers() as start:
        url = await start(recorded_answers(tmp_path))
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(request_text.encode())
        await writer.drain()
        first = await asyncio.wait_for(reader.readline(), 10)
        writer.close()
    assert int(first.split()[1]) == status
    assert "Traceback" not in "".join(capfd.readouterr())


# -- wrong use of `tunecheck serve`: one clear line, and the exit code 2


@cases("serve")
def test_a_mistake_is_one_line_that_says_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    problem: str,
) -> None:
    monkeypatch.chdir(workspace(tmp_path))
    said = here(capsys, "serve", *arguments)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith("error: ")
    assert problem in said.err


# -- `tunecheck serve`, asked over real HTTP by the official OpenAI client


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


async def test_a_wrong_key_is_the_official_clients_authentication_error(recorded: ChatSource, started: Starter) -> None:
    url = await started(recorded, key="right")
    async with client_of(url, api_key="wrong") as client:
        with pytest.raises(openai.AuthenticationError, match="the API key is missing or wrong"):
            await client.chat.completions.create(model="m", messages=asking("talk"))
    async with client_of(url, api_key="right") as client:
        assert [model.id for model in (await client.models.list()).data] == ["recorded"]


async def test_the_official_client_takes_unknown_messages_as_not_found(recorded: ChatSource, started: Starter) -> None:
    async with client_of(await started(recorded)) as client:
        with pytest.raises(openai.NotFoundError, match="no recorded answer") as raised:
            await client.chat.completions.create(model="m", messages=asking("something else"))
    assert raised.value.code == "no_answer"


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (ThrottledError("slow down", status=429), openai.RateLimitError, "ThrottledError"),
        (ContentFilterError("not this"), openai.BadRequestError, "content_filter"),
        (EndpointError("odd", status=200), openai.InternalServerError, "EndpointError"),
    ],
)
async def test_errors_of_a_source_reach_the_official_client_as_they_are(
    started: Starter, error: EndpointError, kind: type[openai.APIStatusError], code: str
) -> None:
    async with client_of(await started(Counting(failures=1, error=error))) as client:
        with pytest.raises(kind, match=str(error)) as raised:
            await client.chat.completions.create(model="m", messages=asking("a"))
    assert raised.value.code == code


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


async def test_what_is_simulated_says_so_in_a_chat_completion(started: Starter) -> None:
    async with client_of(await started(Counting(simulated=True))) as client:
        reply: Any = await client.chat.completions.create(model="m", messages=asking("a"))
        assert reply.simulated is True


async def test_a_stream_is_refused(recorded: ChatSource, started: Starter) -> None:
    async with client_of(await started(recorded)) as client:
        with pytest.raises(openai.BadRequestError, match="streaming is not supported by this server: leave out `str"):
            await client.chat.completions.create(model="m", messages=asking("talk"), stream=True)


def scripted(folder: Path, rules: str) -> ScriptSource:
    (folder / "script.yaml").write_text(f"rules: {rules}", "utf-8")
    return ScriptSource(read_script(folder / "script.yaml"))


async def test_a_refusal_stands_beside_the_text(tmp_path: Path, started: Starter) -> None:
    async with client_of(await started(scripted(tmp_path, "[{refusal: I cannot judge this.}]"))) as client:
        reply = await client.chat.completions.create(model="m", messages=asking("x"))
    message = reply.choices[0].message
    assert (message.content, message.refusal) == (None, "I cannot judge this.")


async def test_a_problem_of_a_source_reaches_the_official_client_in_full(tmp_path: Path, started: Starter) -> None:
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
