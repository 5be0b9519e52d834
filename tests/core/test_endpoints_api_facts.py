"""A limit of an API is learned from one refused call; other ways of asking are keys of the definition."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.endpoint_parts import ask_once
from tests.fault_server import FaultServer, Request, Step, answer, failing
from tests.judge_parts import chat
from tests.tables import cases

from tunecheck import EndpointError
from tunecheck.endpoints import ApiFacts, ChatRequest, Endpoint, Redactor, check_endpoint, load_endpoint
from tunecheck.endpoints._api_facts import remedy_for
from tunecheck.endpoints._transport import Reply, error_failure

SCHEMA = {"type": "object", "properties": {"minimum": {"type": "integer", "minimum": 1}}, "required": ["minimum"]}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": SCHEMA}}
SENT: dict[str, Any] = {
    "temperature": 0.2,
    "top_p": 1.0,
    "max_tokens": 100,
    "stop": ["."],
    "seed": 1,
    "parallel_tool_calls": True,
    "presence_penalty": 0,
    "response_format": FORMAT,
}
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]


def openai(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def error(body: Any, status: int = 400) -> EndpointError:
    """Return the error that such a reply of a service raises."""
    return error_failure(Reply(status, {}, json.dumps(body).encode()), body, "endpoint 'e'", Redactor()).error


def refused(body: Any, status: int = 400, sent: dict[str, Any] = SENT) -> ApiFacts | None:
    """Return what is learned from such an error."""
    return ApiFacts().learned(error(body, status), sent)


@cases("endpoints")
def test_a_refused_parameter_is_known_by_several_services_words(body: Any, name: str) -> None:
    found = refused(body)
    assert found == ApiFacts(parameters={name: None if name == "stop" else SENT[name]})
    assert name not in found.parameters_of(SENT)


@cases("endpoints")
def test_a_refused_answer_format_gives_way_to_a_json_object(body: Any, status: int) -> None:
    found = refused(body, status)
    assert found == ApiFacts(formats=("json_schema",))
    assert found.parameters_of(SENT)["response_format"] == {"type": "json_object"}
    assert "response_format" not in ApiFacts(formats=("json_schema", "json_object")).parameters_of(SENT)


@cases("endpoints")
def test_a_mistake_of_the_user_stays_an_error(body: Any) -> None:
    assert refused(body, sent={key: value for key, value in SENT.items() if key != "response_format"}) is None


@cases("endpoints")
def test_a_refused_way_of_asking_has_a_key_of_the_definition(body: Any, status: int, change: dict[str, Any]) -> None:
    assert remedy_for(error(body, status)) == change
    assert not change or refused(body, status) is None


@pytest.mark.parametrize("formats", [("json_schema",), ("text", "json_schema")])
def test_what_was_found_out_is_told_with_the_value_that_was_typed(formats: tuple[str, ...]) -> None:
    facts = ApiFacts(parameters={"temperature": 0.1, "max_tokens": 9, "stop": None}, formats=formats)
    assert list(facts.sentences()) == [
        "this model refuses temperature 0.1, so Tunecheck leaves it out",
        "this model refuses max_tokens 9, so Tunecheck sends it as max_completion_tokens",
        "this model refuses stop, so Tunecheck leaves it out",
        "this model refuses response_format json_schema, so Tunecheck asks for a JSON object instead",
    ]


# -- over HTTP


def model(server: FaultServer, **settings: Any) -> Endpoint:
    url = server.url.removesuffix("/score") + "/v1"
    return load_endpoint({"kind": "openai", "url": url, "model": "m", "retries": 0, **settings})


async def answers(endpoint: Endpoint, count: int = 1, **request: Any) -> list[str | None]:
    asked = ChatRequest(messages=MESSAGES, **request)
    try:
        return [each.text for each in await asyncio.gather(*(endpoint.complete(asked) for _ in range(count)))]
    finally:
        await endpoint.close()


def picky(*names: str) -> Callable[[Request, int], Step]:
    """A model that refuses these parameters, as OpenAI's reasoning models do, the first of them first."""

    def plan(request: Request, attempt: int) -> Step:
        asked: Any = request.json()
        name = next((name for name in names if name in asked), None)
        return chat("yes") if name is None else failing(400, f"Unsupported parameter: '{name}' is not supported.")

    return plan


async def test_each_call_in_flight_learns_what_is_refused_and_is_answered() -> None:
    with FaultServer(picky("max_tokens", "temperature", "seed")) as server:
        endpoint = model(server, limits={"concurrency": 50}, parameters={"temperature": 0.1, "max_tokens": 9})
        assert await answers(endpoint, 50, parameters={"seed": 7}) == ["yes"] * 50
        assert endpoint.facts.parameters == {"max_tokens": 9, "temperature": 0.1, "seed": 7}
        assert server.requests[-1].json() == {"model": "m", "messages": MESSAGES, "max_completion_tokens": 9}
        assert len({request.key for request in server.requests}) == len(server.requests)


async def test_equal_requests_have_one_idempotency_key_whoever_found_out_what_is_refused() -> None:
    with FaultServer(picky("temperature")) as server:
        for _ in range(2):
            endpoint = model(server, parameters={"temperature": 0.1})
            for _ in range(2):
                await endpoint.complete(ChatRequest(MESSAGES, idempotency_key="k"))
            await endpoint.close()
    bodies = [request.body for request in server.requests]
    keys = [request.key for request in server.requests]
    assert [bodies.index(body) for body in bodies] == [0, 1, 1, 0, 1, 1]
    assert [keys.index(key) for key in keys] == [0, 1, 1, 0, 1, 1]


async def test_a_parameter_refused_with_status_500_is_not_sent_again_and_again() -> None:
    def plan(request: Request, attempt: int) -> Step:
        return failing(500, "Unsupported param: seed") if "seed" in json.loads(request.body) else chat("yes")

    with FaultServer(plan) as server:
        assert await answers(model(server, retries=5), parameters={"seed": 7}) == ["yes"]
    assert len(server.requests) == 2


PARTS: list[Any] = [{"type": "image_url", "image_url": {"url": "x"}}]
BRIEF: dict[str, Any] = {"type": "text", "text": "Be brief."}


@cases("endpoints")
async def test_a_system_message_is_sent_in_the_role_that_the_definition_names(
    role: str, question: Any, sent: list[Any]
) -> None:
    asked: list[Any] = MESSAGES[:1] if question is None else [MESSAGES[0], {"role": "user", "content": question}]
    with FaultServer(lambda *_: chat("yes")) as server:
        await ask_once(model(server, system_role=role), ChatRequest(messages=asked))
    assert server.requests[0].json()["messages"] == sent  # type: ignore[index]


async def test_trying_an_endpoint_out_says_what_it_does_not_take() -> None:
    with FaultServer(picky("temperature")) as server:
        report = await check_endpoint(model(server, parameters={"temperature": 0.1}))
    assert "this model refuses temperature 0.1, so Tunecheck leaves it out" in "\n".join(report.lines())


async def test_a_refusal_that_says_nothing_of_the_request_is_the_calls_error() -> None:
    with FaultServer(lambda *_: failing(400, "this is not my day")) as server:
        with pytest.raises(EndpointError, match="not my day"):
            await answers(model(server, parameters={"temperature": 0.1}))
        assert len(server.requests) == 1


def thinking(enough: int) -> Callable[[Request, int], Step]:
    def plan(request: Request, attempt: int) -> Step:
        asked: Any = request.json()
        limit = asked.get("max_tokens", 100)
        return chat("yes", usage=(10, 50)) if limit >= enough else chat("", finish="length", usage=(10, limit))

    return plan


async def test_a_judge_that_is_cut_off_while_it_thinks_gets_more_room_from_then_on() -> None:
    with FaultServer(thinking(5_000)) as server:
        endpoint = model(server, parameters={"max_tokens": 800})
        first = await endpoint.complete(ChatRequest(MESSAGES, may_raise_limit=True))
        assert (first.text, first.usage.output_tokens) == ("yes", 800 + 4_096 + 50)
        assert await answers(endpoint, 1, may_raise_limit=True) == ["yes"]
    limits = [json.loads(request.body)["max_tokens"] for request in server.requests]
    assert limits == [800, 4_096, 8_192, 8_192]


async def test_a_model_that_is_measured_keeps_the_limit_it_was_given() -> None:
    with FaultServer(thinking(5_000)) as server:
        endpoint = model(server, parameters={"max_tokens": 800})
        assert await answers(endpoint) == [""]
        assert await answers(endpoint, may_raise_limit=True) == ["yes"]
        assert await answers(endpoint) == [""]
    assert json.loads(server.requests[-1].body)["max_tokens"] == 800


async def test_thinking_without_an_end_stops_at_the_highest_limit() -> None:
    with FaultServer(thinking(10**9)) as server:
        assert await answers(model(server), may_raise_limit=True) == [""]
    limits = [json.loads(request.body).get("max_tokens") for request in server.requests]
    assert limits == [None, 4_096, 8_192, 16_384, 32_768]


async def test_a_limit_that_the_service_refuses_is_not_raised_to() -> None:
    def plan(request: Request, attempt: int) -> Step:
        asked: Any = request.json()
        if asked["max_tokens"] > 5_000:
            return failing(400, "max_tokens is too large: this model supports at most 5000 completion tokens")
        return answer({"choices": [{"finish_reason": "length", "message": {"content": "<think>hm"}}]})

    with FaultServer(plan) as server:
        assert await answers(model(server, parameters={"max_tokens": 800}), may_raise_limit=True) == [""]
