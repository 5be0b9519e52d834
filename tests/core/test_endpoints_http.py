"""Calls over HTTP against a server that fails in every way: what is tried again, and what each failure becomes."""

import asyncio
import gzip
import json
from typing import Any

import pytest
from aiohttp import web
from tests.endpoint_parts import HELLO, HandClock, ask_once, azure_ml, failure, serving, user
from tests.fault_server import (
    HANG,
    RESET,
    TRICKLE,
    FaultServer,
    Plan,
    Request,
    Step,
    answer,
    busy,
    failing,
    filtered,
    page,
    raw,
    truncated,
)
from tests.tables import cases

from tunecheck import (
    ContentFilterError,
    EndpointError,
    RefusedError,
    ReplyError,
    StopRunError,
    ThrottledError,
    TimedOutError,
)
from tunecheck.endpoints import Completion, Usage, load_endpoint
from tunecheck.report import running

OK = answer({"result": "hi"})


def first_then_ok(*steps: Step) -> Plan:
    """These steps in turn, then the answer."""
    return lambda _, attempt: steps[attempt] if attempt < len(steps) else OK


def always(step: Step) -> Plan:
    return lambda *_: step


async def ask(plan: Plan, **settings: Any) -> tuple[Completion, FaultServer, HandClock]:
    clock = HandClock()
    with FaultServer(plan) as server:
        done = await ask_once(azure_ml(server.url, clock=clock, response="result", **settings))
    return done, server, clock


async def test_an_answer_carries_usage_latency_and_request_id() -> None:
    reply = answer({"result": "hi", "usage": {"prompt_tokens": 7, "completion_tokens": 2}}, x_request_id="abc")
    done, server, _ = await ask(always(reply))
    assert (done.text, done.usage, done.request_id) == ("hi", Usage(7, 2), "abc")
    assert done.latency_ms is not None
    assert server.requests[0].json() == {"input_data": [{"role": "user", "content": "hello"}], "params": {}}


@pytest.mark.parametrize("header", ["x-request-id", "x-ms-request-id", "apim-request-id"])
async def test_the_request_id_is_found_under_the_names_that_azure_uses(header: str) -> None:
    done, _, _ = await ask(always(Step(200, {header: "id-1"}, b'{"result": "hi"}')))
    assert done.request_id == "id-1"


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_a_passing_status_is_tried_again(status: int) -> None:
    done, server, _ = await ask(first_then_ok(failing(status)))
    assert done.text == "hi"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "step",
    [truncated({"result": "hi"}), raw(b'{"result": '), raw(b""), RESET, Step(then="close", silent=True)],
    ids=["truncated", "invalid JSON", "empty", "reset", "closed"],
)
async def test_a_broken_answer_is_tried_again(step: Step) -> None:
    done, server, _ = await ask(first_then_ok(step, step))
    assert done.text == "hi"
    assert len(server.requests) == 3


@pytest.mark.parametrize("step", [HANG, TRICKLE], ids=["hang", "trickle"])
async def test_an_answer_that_does_not_come_in_time_is_cut_and_tried_again(step: Step) -> None:
    done, server, _ = await ask(first_then_ok(step), timeout_s=1.0)
    assert done.text == "hi"
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 422, 501, 505])
async def test_a_lasting_status_is_not_tried_again(status: int) -> None:
    error, server = await failure(always(failing(status)))
    assert len(server.requests) == 1
    assert error.status == status


async def test_all_attempts_of_a_call_carry_the_same_idempotency_key() -> None:
    _, server, _ = await ask(first_then_ok(failing(500), failing(503), RESET))
    assert len(server.requests) == 4
    assert len({request.key for request in server.requests}) == 1


async def test_the_callers_idempotency_key_is_sent() -> None:
    async with serving(always(OK)) as (endpoint, server):
        await endpoint.complete(user("a", key="k-1"))
    assert server.requests[0].key == "k-1"


async def test_calls_without_a_key_get_different_ones() -> None:
    async with serving(always(OK)) as (endpoint, server):
        await asyncio.gather(*(endpoint.complete(HELLO) for _ in range(20)))
    assert len({request.key for request in server.requests}) == 20


async def test_retries_end_as_the_last_failure_with_the_number_of_attempts() -> None:
    error, server = await failure(always(failing(503, "down for maintenance", x_request_id="r9")), retries=2)
    assert str(error) == (
        "endpoint 'azure_ml' answered 503 Service Unavailable: down for maintenance (after 3 attempts)"
    )
    assert (error.status, error.request_id, len(server.requests)) == (503, "r9", 3)


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (failing(401), RefusedError),
        (failing(403), RefusedError),
        (busy(), ThrottledError),
        (failing(408), TimedOutError),
        (failing(504), TimedOutError),
        (HANG, TimedOutError),
        (filtered(), ContentFilterError),
        (raw(b"{"), ReplyError),
        (page(), ReplyError),
        (truncated({"result": "hi"}), ReplyError),
        (answer({"other": 1}), ReplyError),
        (failing(500), EndpointError),
        (RESET, EndpointError),
    ],
)
async def test_each_failure_has_its_type(step: Step, kind: type[EndpointError]) -> None:
    error, _ = await failure(always(step), retries=0, timeout_s=0.3)
    assert type(error) is kind


async def test_a_web_page_instead_of_an_answer_asks_whether_the_url_is_right() -> None:
    error, _ = await failure(always(page()))
    assert "a web page, not JSON: check the endpoint's url" in str(error)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (raw(b'data: {"a": 1}\n\n', "text/event-stream"), "not a chat completion"),
        (page(404), "404 Not Found: a web page titled 'Sign in'"),
        (filtered(), "declined the content: violence"),
    ],
    ids=["a stream of something else", "an error page, by its title", "declined content, with its category"],
)
async def test_what_no_retry_changes_is_asked_for_once_and_named(step: Step, words: str) -> None:
    error, server = await failure(always(step))
    assert len(server.requests) == 1
    assert words in str(error)
    assert "<html" not in str(error)


async def test_a_redirect_is_not_followed_and_its_query_is_not_shown() -> None:
    with FaultServer(always(OK)) as other:
        moved = Step(307, {"Location": f"{other.url}?sig=SECRETSECRET"})
        error, server = await failure(always(moved))
    assert (len(server.requests), len(other.requests)) == (1, 0)
    assert "redirects are not followed" in str(error)
    assert "SECRETSECRET" not in str(error)


async def test_azure_mls_424_is_taken_by_the_containers_own_status() -> None:
    step = failing(424, ms_azureml_model_error_statuscode="429")
    done, server, _ = await ask(first_then_ok(step))
    assert done.text == "hi"
    assert len(server.requests) == 2
    error, _ = await failure(always(failing(424, ms_azureml_model_error_statuscode="400")))
    assert "424 Failed Dependency (the model's own status: 400 Bad Request)" in str(error)


async def test_a_servers_words_are_one_clean_short_line() -> None:
    hostile = "bad\x00\x1b[31m\r\nred \u202e\u2028 text" + "x" * 5000
    error, _ = await failure(always(failing(400, hostile)))
    text = str(error)
    assert text.isprintable()
    assert len(text) < 300
    assert "bad[31m red text" in text


async def test_no_server_at_all_is_a_connection_error() -> None:
    with pytest.raises(EndpointError, match=r"cannot connect to 127.0.0.1:1.*after 2 attempts") as raised:
        await ask_once(azure_ml("http://127.0.0.1:1/score", retries=1))
    assert raised.value.cause == "unreachable"


@pytest.mark.parametrize("line", [b"HTTP/9.9 huh\r\n\r\n", b"\x00\x01\x02\r\n\r\n", b"HTTP/1.1 200 OK\r\nA" * 3000])
async def test_a_server_that_does_not_speak_http_is_a_typed_error(line: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(line)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with pytest.raises(EndpointError):
        await ask_once(azure_ml(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/score", retries=1))
    server.close()


@pytest.mark.parametrize("encoding", ["", "gzip"])
@pytest.mark.parametrize("over", [-1, 0, 1])
async def test_a_reply_of_the_limit_is_taken_and_a_larger_one_is_asked_for_once(over: int, encoding: str) -> None:
    text = "x" * ((1 << 20) + over - len(json.dumps("")))
    body = json.dumps(text).encode()
    assert len(body) == (1 << 20) + over
    sent = raw(gzip.compress(body), Content_Encoding="gzip") if encoding else raw(body)
    async with serving(always(sent), retries=3, max_reply_bytes=1 << 20) as (endpoint, server):
        if over > 0:
            with pytest.raises(ReplyError, match=r"the reply is larger than 1,048,576 bytes: raise max_reply_bytes"):
                await endpoint.complete(HELLO)
        else:
            assert (await endpoint.complete(HELLO)).text == text
    assert len(server.requests) == 1


async def test_a_compressed_bomb_is_refused_too() -> None:
    bomb = gzip.compress(json.dumps({"result": "x" * (30 << 20)}).encode())
    error, _ = await failure(always(raw(bomb, Content_Encoding="gzip")), retries=0)
    assert "the reply is larger than 8,388,608 bytes" in str(error)


async def test_a_large_request_is_sent_whole() -> None:
    async with serving(always(OK), response="result") as (endpoint, server):
        await endpoint.complete(user("ä" * (2 << 20)))
    sent: Any = server.requests[0].json()
    assert sent["input_data"] == [{"role": "user", "content": "ä" * (2 << 20)}]


async def test_cookies_are_not_kept() -> None:
    async with serving(always(answer({"result": "hi"}, Set_Cookie="session=1"))) as (endpoint, server):
        await endpoint.complete(HELLO)
        await endpoint.complete(HELLO)
    assert all("cookie" not in request.headers for request in server.requests)


async def test_connections_are_shared_and_no_more_than_the_concurrency() -> None:
    async with serving(always(OK), limits={"concurrency": 3}) as (endpoint, server):
        await asyncio.gather(*(endpoint.complete(HELLO) for _ in range(50)))
    assert server.connections <= 3
    assert server.most_under_way <= 3


def test_an_endpoint_serves_one_event_loop_after_another() -> None:
    with FaultServer(always(OK)) as server:
        endpoint = azure_ml(server.url, response="result")

        assert [asyncio.run(ask_once(endpoint)).text for _ in range(3)] == ["hi"] * 3


async def test_the_seconds_that_a_service_asks_for_are_waited() -> None:
    _, _, clock = await ask(first_then_ok(busy("7")))
    assert 7 <= clock.waits[0] <= 7.5


async def test_waits_that_no_service_asks_for_stay_below_the_doubling_bound() -> None:
    _, _, clock = await ask(first_then_ok(*[busy()] * 5))
    assert len(clock.waits) == 5
    assert all(0 <= wait <= 0.5 * 2**n for n, wait in enumerate(clock.waits, 1))


class TestRefusals:
    async def test_the_tenth_in_a_row_stops_the_run(self) -> None:
        async with serving(always(failing(401, "bad key"))) as (endpoint, server):
            for _ in range(9):
                with pytest.raises(RefusedError):
                    await endpoint.complete(HELLO)
            with pytest.raises(StopRunError, match=r"the service refused or did not get 10 calls in a row; .*bad key"):
                await endpoint.complete(HELLO)
        assert len(server.requests) == 10

    async def test_a_service_that_was_never_reached_stops_the_run_too(self) -> None:
        endpoint = azure_ml("http://127.0.0.1:1/score", retries=0)
        for _ in range(9):
            with pytest.raises(EndpointError, match="cannot connect"):
                await endpoint.complete(HELLO)
        with pytest.raises(
            StopRunError, match=r"refused or did not get 10 calls in a row; .*cannot connect to 127.0.0.1:1"
        ):
            await endpoint.complete(HELLO)
        await endpoint.close()

    async def test_an_outage_after_an_answer_stops_nothing(self) -> None:
        with FaultServer(always(OK)) as server:
            endpoint = azure_ml(server.url, retries=0)
            await endpoint.complete(HELLO)
        for _ in range(12):
            with pytest.raises(EndpointError):
                await endpoint.complete(HELLO)
        await endpoint.close()

    async def test_afterwards_nothing_more_is_sent(self) -> None:
        async with serving(always(failing(403)), limits={"concurrency": 4}) as (endpoint, server):
            results = await asyncio.gather(*(endpoint.complete(HELLO) for _ in range(100)), return_exceptions=True)
        assert len(server.requests) <= 13  # those in flight together with the tenth
        assert sum(isinstance(result, RefusedError) for result in results) >= 9
        assert all(isinstance(result, (RefusedError, StopRunError)) for result in results)

    async def test_anything_else_in_between_starts_the_count_again(self) -> None:
        def plan(request: Request, _: int) -> Step:
            return OK if request.key == "fine" else failing(401)

        async with serving(plan) as (endpoint, server):
            for key in [*["no"] * 9, "fine", *["no"] * 9]:
                if key == "fine":
                    await endpoint.complete(user("a", key))
                else:
                    with pytest.raises(RefusedError):
                        await endpoint.complete(user("a", key))
        assert len(server.requests) == 19

    @cases("endpoints")
    async def test_an_unknown_model_stops_the_run_and_the_offered_models_are_named(
        self, status: int, error: dict[str, Any]
    ) -> None:
        async def models(_: web.Request) -> web.Response:
            return web.json_response({"data": [{"id": "tuned-2"}, {"id": "zephyr"}]})

        async def chat(_: web.Request) -> web.Response:
            return web.json_response({"error": error}, status=status)

        app = web.Application()
        app.add_routes([web.get("/v1/models", models), web.post("/v1/chat/completions", chat)])
        async with running(app) as url:
            endpoint = load_endpoint({"kind": "openai", "url": f"{url}/v1", "model": "tuned-3"})
            for _ in range(9):
                with pytest.raises(EndpointError) as raised:
                    await endpoint.complete(HELLO)
            with pytest.raises(StopRunError, match=r"offers tuned-2, zephyr; did you mean 'tuned-2'\?") as stopped:
                await endpoint.complete(HELLO)
            await endpoint.close()
        assert (raised.value.cause, stopped.value.resumable) == ("unknown_model", False)

    @pytest.mark.parametrize(
        "step",
        [
            failing(404, "the path /score was not found"),
            failing(400, "the model's maximum context length is 8192 tokens"),
            failing(422, "The model `m` does not exist."),
        ],
    )
    async def test_another_error_of_the_request_is_an_error_of_its_row_alone(self, step: Step) -> None:
        async with serving(always(step)) as (endpoint, _):
            for _ in range(12):
                with pytest.raises(EndpointError) as raised:
                    await endpoint.complete(HELLO)
        assert raised.value.cause is None

    async def test_closing_lets_a_later_run_begin_anew(self) -> None:
        refuse = True
        with FaultServer(lambda *_: failing(401) if refuse else OK) as server:
            endpoint = azure_ml(server.url)
            await asyncio.gather(*(endpoint.complete(HELLO) for _ in range(10)), return_exceptions=True)
            await endpoint.close()
            refuse = False
            await ask_once(endpoint)


async def test_cancelling_a_call_gives_its_place_to_the_next() -> None:
    async with serving(
        lambda request, _: HANG if request.key == "slow" else OK, limits={"concurrency": 1}, response="result"
    ) as (endpoint, _):
        slow = asyncio.create_task(endpoint.complete(user("a", "slow")))
        await asyncio.sleep(0.1)
        waiting = asyncio.create_task(endpoint.complete(user("a", "next")))
        await asyncio.sleep(0)
        slow.cancel()
        assert (await waiting).text == "hi"
