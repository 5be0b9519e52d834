"""The endpoint kind `memory_agent`: the requests on the wire, and the results of every sort of answer."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.agent_parts import NOON, NOON_US, memory_agent
from tests.endpoint_parts import HELLO
from tests.fault_server import RESET, FaultServer, Plan, Step, answer, busy, failing, filtered, page, raw, truncated
from tests.tables import cases

from tunecheck import ConfigurationError, EndpointError, RefusedError, ReplyError
from tunecheck.endpoints import ChatRequest, check_endpoint, load_endpoint
from tunecheck_memory import MemoryAgentEndpoint, Outcome, RememberingAgent

Start = Callable[..., "tuple[FaultServer, MemoryAgentEndpoint]"]

TALKING: Any = {"conversation": "c", "sent_at": NOON}


def agent_server(say: object = "Noted.", **more: object) -> Plan:
    """A server of the protocol that always says the same."""
    return lambda seen, attempt: answer({"reply": say, **more} if "/reply" in seen.path else {})


def always(step: Step) -> Plan:
    return lambda seen, attempt: step


def first(step: Step) -> Plan:
    good = agent_server()
    return lambda seen, attempt: step if attempt == 0 else good(seen, attempt)


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """`start(plan, **definition)`: a server, and the endpoint that asks it; both closed at the end."""
    opened: list[tuple[FaultServer, MemoryAgentEndpoint]] = []

    def begin(plan: Plan, **values: Any) -> tuple[FaultServer, MemoryAgentEndpoint]:
        server = FaultServer(plan).__enter__()
        endpoint = memory_agent(server.url.replace("/score", "/agent"), **{"timeout_s": 1, **values})
        opened.append((server, endpoint))
        return server, endpoint

    yield begin
    for server, endpoint in opened:
        await endpoint.close()
        server.__exit__(None, None, None)


def said(server: FaultServer) -> list[tuple[str, object, str]]:
    return [(seen.path, seen.json(), seen.key) for seen in server.requests]


# -- what is sent -----------------------------------------------------------------------------------------------------


async def test_reply_reset_and_advance_are_three_posts_with_time_and_key(start: Start) -> None:
    server, endpoint = start(agent_server())
    later = NOON + timedelta(hours=2)
    await endpoint.reply("My name is Ada.", conversation="c", key="k1", sent_at=NOON)
    await endpoint.advance(conversation="c", key="k2", sent_at=later, seconds=7200)
    await endpoint.reply("Q?", conversation="c", key="k3", sent_at=later, suggested="A!")
    await endpoint.reset(conversation="c", key="k4", sent_at=later)
    noon, two = "2026-03-05T12:00:00Z", "2026-03-05T14:00:00Z"
    assert said(server) == [
        ("/agent/reply", {"conversation": "c", "time": noon, "message": "My name is Ada."}, "k1"),
        ("/agent/advance", {"conversation": "c", "time": two, "seconds": 7200}, "k2"),
        ("/agent/reply", {"conversation": "c", "time": two, "message": "Q?", "suggested_reply": "A!"}, "k3"),
        ("/agent/reset", {"conversation": "c", "time": two}, "k4"),
    ]
    assert [seen.headers["tunecheck-time"] for seen in server.requests] == [noon, two, two, two]


@pytest.mark.parametrize("url", ["{}/agent", "{}/agent/", "{}/agent/reply", "{}/agent/reply?v=1"])
async def test_the_url_is_the_agents_with_or_without_its_operation(start: Start, url: str) -> None:
    server, _ = start(agent_server())
    endpoint = memory_agent(url.format(f"http://127.0.0.1:{server.port}"))
    await endpoint.reply("x", key="k1", **TALKING)
    await endpoint.reset(key="k2", **TALKING)
    await endpoint.close()
    query = url.partition("?")[2]
    ending = f"?{query}" if query else ""
    assert [seen.path for seen in server.requests] == [f"/agent/reply{ending}", f"/agent/reset{ending}"]


@pytest.mark.parametrize("key", ["request", "parameters", "response"])
def test_keys_of_other_kinds_are_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{key}: a memory agent has no key `{key}`"):
        load_endpoint({"kind": "memory_agent", "url": "http://127.0.0.1:1", key: {"a": "b"}})


# -- what comes back --------------------------------------------------------------------------------------------------


async def test_a_reply_with_everything_in_it(start: Start) -> None:
    usage = {"input_tokens": 900, "output_tokens": 4}
    _, endpoint = start(agent_server("Hi Ada.", usage=usage, simulated=True))
    told = await endpoint.reply("x", key="k", **TALKING)
    completion = told.completion
    assert (completion.text, completion.usage.input_tokens, completion.usage.output_tokens) == ("Hi Ada.", 900, 4)
    assert completion.simulated
    assert completion.latency_ms is not None
    assert not told.adopted


@cases("memory")
async def test_adopted_is_believed_where_the_reply_is_the_suggested_one(
    start: Start, suggested: str | None, reply: str, adopted: object, counts: bool
) -> None:
    _, endpoint = start(agent_server(reply, adopted=adopted))
    told = await endpoint.reply("x", key="k", suggested=suggested, **TALKING)
    assert (told.completion.text, told.adopted) == (reply, counts)


@pytest.mark.parametrize(
    "reply",
    [{"text": "hi"}, {"reply": 7}, {"reply": None}, {"reply": ["hi"]}, {"reply": {"text": "hi"}}, [], "hi", None, True],
)
async def test_an_answer_without_a_text_as_its_reply_is_an_error(start: Start, reply: object) -> None:
    _, endpoint = start(always(answer(reply)))
    with pytest.raises(ReplyError, match="has no text in `reply`"):
        await endpoint.reply("x", key="k", **TALKING)


@pytest.mark.parametrize(
    "step",
    [
        raw(b"", status=204),
        raw(b"", status=200),
        raw(b"OK", "text/plain"),
        raw(b"true"),
        raw(b"[]"),
        raw(b'"done"', status=202),
        raw(b"\xff\xfe", "application/octet-stream"),
    ],
)
async def test_reset_and_advance_need_no_more_than_a_yes(start: Start, step: Step) -> None:
    server, endpoint = start(always(step), retries=0)
    await endpoint.reset(key="k1", **TALKING)
    await endpoint.advance(key="k2", seconds=5, **TALKING)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("step", "kind"),
    [(page(), ReplyError), (failing(404), EndpointError), (failing(401), RefusedError), (failing(500), EndpointError)],
)
async def test_reset_and_advance_tell_of_a_no(start: Start, step: Step, kind: type[Exception]) -> None:
    _, endpoint = start(always(step), retries=1)
    with pytest.raises(kind):
        await endpoint.reset(key="k1", **TALKING)
    with pytest.raises(kind):
        await endpoint.advance(key="k2", seconds=5, **TALKING)


@pytest.mark.parametrize("operation", ["reset", "advance"])
@pytest.mark.parametrize("step", [busy("1"), failing(502), RESET, truncated({})], ids=["429", "502", "reset", "cut"])
async def test_reset_and_advance_are_repeated_too(start: Start, step: Step, operation: str) -> None:
    server, endpoint = start(first(step), retries=2)
    more: Any = {"seconds": 5} if operation == "advance" else {}
    await getattr(endpoint, operation)(key="k1", **TALKING, **more)
    assert [seen.key for seen in server.requests] == ["k1", "k1"]


# -- as an agent of the tests -----------------------------------------------------------------------------------------


async def test_the_agent_says_each_message_once_under_its_conversation(start: Start) -> None:
    server, endpoint = start(agent_server("Noted.", usage={"input_tokens": 3, "output_tokens": 1}))
    agent = RememberingAgent(endpoint, "run-1/main")
    agent.observe("heard before", "Noted.")
    reply = await agent.reply("new", key="k1", at_us=NOON_US)
    await agent.advance(NOON_US, NOON_US + 90_000_000, "k2")
    await agent.reset("k3", NOON_US + 90_000_000)
    agent.observe_reset()
    assert (reply.text, reply.input_tokens, reply.output_tokens, reply.adopted) == ("Noted.", 3, 1, False)
    assert [(path, body) for path, body, _ in said(server)] == [
        ("/agent/reply", {"conversation": "run-1/main", "time": "2026-03-05T12:00:00Z", "message": "new"}),
        ("/agent/advance", {"conversation": "run-1/main", "time": "2026-03-05T12:01:30Z", "seconds": 90.0}),
        ("/agent/reset", {"conversation": "run-1/main", "time": "2026-03-05T12:01:30Z"}),
    ]


async def test_declined_content_is_the_agents_empty_answer(start: Start) -> None:
    _, endpoint = start(always(filtered()))
    reply = await RememberingAgent(endpoint, "c").reply("x", key="k", at_us=NOON_US)
    assert reply == Outcome(NOON_US, "", declined=True, asked=1)


# -- as an ordinary endpoint ------------------------------------------------------------------------------------------


async def test_a_single_message_is_said_in_a_conversation_of_its_own(start: Start) -> None:
    server, endpoint = start(agent_server("hello!"))
    completion = await endpoint.complete(HELLO)
    await endpoint.complete(HELLO)
    await endpoint.complete(ChatRequest(HELLO.messages, idempotency_key="k7"))
    assert completion.text == "hello!"
    bodies: Any = [seen.json() for seen in server.requests]
    assert [body["message"] for body in bodies] == ["hello"] * 3
    assert len({body["conversation"] for body in bodies}) == 3
    assert bodies[2] == {"conversation": "single-k7", "message": "hello"}


async def test_system_messages_stand_before_the_users(start: Start) -> None:
    server, endpoint = start(agent_server())
    report = await check_endpoint(endpoint)
    assert report.ok
    body: Any = server.requests[0].json()
    assert body["message"].splitlines()[0].startswith("You are a helpful assistant.")
    assert body["message"].splitlines()[-1] == "What is the weather in Lisbon, in celsius?"


@cases("memory")
async def test_what_is_not_a_single_message_is_that_rows_error(start: Start, messages: Any) -> None:
    server, endpoint = start(agent_server())
    with pytest.raises(ValueError, match="memory agent"):
        await endpoint.complete(ChatRequest(messages))
    assert server.requests == []
