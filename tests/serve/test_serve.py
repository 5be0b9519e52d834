"""`tunecheck serve` over real HTTP: scoring calls, keys, faults, idempotency, starting and stopping."""

from __future__ import annotations

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
import pytest
from tests.platforms import posix_only
from tests.serve_parts import CALL, TEXT, Counting, Starter, asking, got, posted, recorded_answers, servers
from tests.tables import cases

from tunecheck import ConfigurationError, Row
from tunecheck.endpoints import ReplayEndpoint, is_loopback, load_endpoint
from tunecheck.plugins import dumps_line
from tunecheck.simulators import Backends
from tunecheck_serve import (
    ChatSource,
    EndpointSource,
    RowAnswers,
    Served,
    ServerOptions,
    make_app,
    parse_faults,
    run_server,
)


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
        (b"{", "the body is not JSON"),
        (b"\xff", "the body is not JSON"),
        (b"[" * 100_000, "the body is not JSON"),
        ([1], "the body must be a JSON object"),
        ({}, "messages: must be a list of objects"),
        ({"messages": []}, "messages: must not be empty"),
        ({"messages": ["hello"]}, "messages: must be a list of objects"),
        ({"messages": asking("talk"), "tools": {}}, "tools: must be a list of objects"),
        ({"messages": asking("talk"), "functions": [1]}, "functions: must be a list of objects"),
        ({"messages": asking("talk"), "n": 2}, "n: only one choice is offered"),
    ],
)
async def test_a_bad_request_is_told_what_is_wrong(
    recorded: ChatSource, started: Starter, body: Any, complaint: str
) -> None:
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
    assert (status, reply["error"]["message"]) == (400, "this Idempotency-Key was used with another request")


async def test_a_failure_is_not_stored_under_its_key(started: Starter) -> None:
    url = f"{await started(Counting(failures=1))}/score"
    statuses = [(await posted(url, {"input_data": "a"}, **{"Idempotency-Key": "k"}))[0] for _ in range(2)]
    assert statuses == [504, 200]


async def test_a_source_that_breaks_is_a_server_error_and_the_server_goes_on(started: Starter) -> None:
    url = f"{await started(Counting(failures=1, error=ZeroDivisionError('by zero')))}/score"
    status, reply, _ = await posted(url, {"input_data": "a"})
    assert (status, reply["error"]["message"]) == (500, "ZeroDivisionError: by zero")
    assert (await posted(url, {"input_data": "a"}))[0] == 200


async def test_faults_come_at_their_rates_and_say_when_to_come_back(recorded: ChatSource, started: Starter) -> None:
    url = f"{await started(recorded, faults={429: 0.3, 503: 0.2}, seed=5)}/score"
    replies = [await posted(url, {"input_data": "talk"}) for _ in range(200)]
    statuses = [status for status, _, _ in replies]
    # Binomial with n = 200: four standard deviations are 26 and 23 around 60 and 40.
    assert 34 <= statuses.count(429) <= 86
    assert 17 <= statuses.count(503) <= 63
    assert statuses.count(429) + statuses.count(503) + statuses.count(200) == 200
    assert {headers.get("Retry-After") for status, _, headers in replies if status != 200} == {"1"}
    assert (await got(url.replace("/score", "/health")))["faults"] == 200 - statuses.count(200)


async def test_the_same_seed_makes_the_same_faults(recorded: ChatSource, started: Starter) -> None:
    runs = []
    for _ in range(2):
        url = f"{await started(recorded, faults={500: 0.5}, seed=9)}/score"
        runs.append([(await posted(url, {"input_data": "talk"}))[0] for _ in range(20)])
    assert runs[0] == runs[1]
    assert set(runs[0]) == {200, 500}


async def test_each_request_is_told_to_who_listens(recorded: ChatSource, started: Starter) -> None:
    heard: list[Served] = []
    url = await started(recorded, on_request=heard.append)
    for text in ("talk", "unknown"):
        await posted(f"{url}/score", {"input_data": text})
    assert [(each.method, each.path, each.status) for each in heard] == [
        ("POST", "/score", 200),
        ("POST", "/score", 404),
    ]
    assert all(each.duration_ms > 0 for each in heard)


async def test_a_client_that_hangs_up_mid_stream_harms_nobody(started: Starter) -> None:
    url = await started(Counting(text="word " * 200_000))
    body = {"messages": asking("a"), "stream": True}
    async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/chat/completions", json=body) as response:
        await response.content.readline()
    assert (await posted(f"{url}/score", {"input_data": "a"}))[0] == 200


async def test_what_is_simulated_says_so_in_a_scoring_reply(started: Starter) -> None:
    url = await started(Counting(simulated=True))
    assert (await posted(f"{url}/score", {"input_data": "a"}))[1]["simulated"] is True


# -- rows behind the messages -----------------------------------------------------------------------------------------


async def test_messages_find_the_row_that_they_were_made_of(tmp_path: Path, started: Starter) -> None:
    path = tmp_path / "by_id.jsonl"
    path.write_bytes(dumps_line({"id": "r1", "response": "one"}) + dumps_line({"id": "r2", "response": "two"}))
    rows = [Row(number, f"r{number}", {"query": f"question {number}"}, "") for number in (1, 2)]

    url = await started(RowAnswers(ReplayEndpoint(path), rows, Backends()))
    assert (await posted(f"{url}/score", {"input_data": "question 2"}))[1] == {"result": "two"}
    status, reply, _ = await posted(f"{url}/score", {"input_data": "question 3"})
    assert (status, reply["error"]["message"]) == (404, "no row of the data set has these messages")


async def test_a_definition_s_endpoint_may_be_served(tmp_path: Path, started: Starter) -> None:
    recorded_answers(tmp_path)
    (tmp_path / "replay.yaml").write_text("kind: replay\npath: answers.jsonl\n")
    url = await started(EndpointSource(load_endpoint(tmp_path / "replay.yaml")))
    assert (await posted(f"{url}/score", {"input_data": "talk"}))[1] == {"result": TEXT}


# -- starting and stopping --------------------------------------------------------------------------------------------


async def test_a_host_that_others_can_reach_needs_a_key(recorded: ChatSource) -> None:
    with pytest.raises(ConfigurationError, match=r"serving on 0\.0\.0\.0 would let others in: ask for a key"):
        await run_server(recorded, host="0.0.0.0")


@cases("serve")
def test_only_loopback_counts_as_this_machine(host: str, closed: bool) -> None:
    assert is_loopback(host) is closed


async def test_a_port_in_use_is_said_to_be_so(recorded: ChatSource) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"cannot serve on 127\.0\.0\.1:{port}"):
            await run_server(recorded, port=port)


async def test_a_port_that_is_none_is_said_to_be_so(recorded: ChatSource) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot serve on 127\.0\.0\.1:70000"):
        await run_server(recorded, port=70_000)


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
        from tunecheck.endpoints._replay import ReplayEndpoint
        import asyncio
        from tunecheck_serve._server import ServerOptions
        from tunecheck_serve._server import key_from, run_server
        from tunecheck_serve._wire import EndpointSource

        source = EndpointSource(ReplayEndpoint("answers.jsonl"))
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
    with pytest.raises(ConfigurationError, match="SERVE_KEY, which should hold the key, is not set"):
        key_from("SERVE_KEY")


def test_the_key_is_not_shown() -> None:
    assert "secret" not in repr(ServerOptions(key="secret"))


def test_faults_are_written_as_status_and_rate() -> None:
    assert parse_faults(["429=0.05", "500=.1"]) == {429: 0.05, 500: 0.1}
    with pytest.raises(ConfigurationError, match="'429' is not a fault"):
        parse_faults(["429"])


@pytest.mark.parametrize("faults", [{200: 0.5}, {429: 1.5}, {429: -0.1}, {429: 0.6, 500: 0.6}, {429: float("nan")}])
def test_faults_that_cannot_be_are_refused(recorded: ChatSource, faults: dict[int, float]) -> None:
    with pytest.raises(ConfigurationError):
        make_app(recorded, ServerOptions(faults=faults))


HOSTS = {
    b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n": 403,
    b"GET /health HTTP/1.1\r\nHost: 127.0.0.1.evil.example:80\r\n\r\n": 403,
    b"GET /health HTTP/1.1\r\nHost: localhost@evil.example\r\n\r\n": 403,
    b"GET /health HTTP/1.1\r\nHost:\r\n\r\n": 403,
    b"GET /health HTTP/1.1\r\nHost: [::1\r\n\r\n": 403,
    b"GET /health HTTP/1.0\r\n\r\n": 403,
    b"GET /health HTTP/1.1\r\n\r\n": 400,
    b"GET http://[/ HTTP/1.1\r\nHost: localhost\r\n\r\n": 400,
    b"GET /health HTTP/1.1\r\nHost: localhost:80\r\n\r\n": 200,
    b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n": 200,
    b"GET /health HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n": 200,
    b"GET /health HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n\r\n": 200,
    # A page elsewhere may have its browser send this without asking whether it may.
    **{
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nOrigin: %b\r\n"
        b"Content-Length: 2\r\n\r\n{}" % origin: 403
        for origin in (b"https://evil.example", b"null", b"http://localhost.evil.example", b"http://[")
    },
    b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}": 400,
}


@pytest.mark.parametrize(("request_", "status"), HOSTS.items())
async def test_only_who_names_this_machine_is_answered_and_nothing_else_prints_a_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], request_: bytes, status: int
) -> None:
    async with servers() as start:
        url = await start(recorded_answers(tmp_path))
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(request_)
        await writer.drain()
        first = await asyncio.wait_for(reader.readline(), 10)
        writer.close()
    assert int(first.split()[1]) == status
    assert "Traceback" not in "".join(capfd.readouterr())
