"""Trying an endpoint out with one request."""

from __future__ import annotations

import pytest
from tests.endpoint_parts import azure_ml
from tests.fault_server import RESET, FaultServer, Step, answer, busy, failing, filtered, page

from tunecheck.endpoints import check_endpoint, load_endpoint

CALL = {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Lisbon"}'}}


async def test_an_answer_is_reported_with_all_that_is_known_of_it() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    reply = {
        "choices": [{"message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 9},
    }
    with FaultServer(lambda *_: answer(reply, x_request_id="r-1")) as server:
        report = await check_endpoint(load_endpoint({"kind": "openai", "url": server.url, "model": "m"}))
    body = server.requests[0].json()
    assert isinstance(body, dict)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["get_weather"]
    assert report.ok
    text = "\n".join(report.lines())
    for part in ("openai (openai): answered", "get_weather", "Lisbon", "50 in, 9 out", "tool_calls", "r-1", " ms"):
        assert part in text


async def test_an_object_for_an_answer_gets_a_hint() -> None:
    with FaultServer(lambda *_: answer({"output": "It is 20 degrees."})) as server:
        report = await check_endpoint(azure_ml(server.url))
    assert "name its place with `response:`" in "\n".join(report.lines())


@pytest.mark.parametrize(
    ("step", "name", "advice"),
    [
        (failing(401), "RefusedError", "environment variable holds a valid key"),
        (busy(), "ThrottledError", "lower limits"),
        (failing(504), "TimedOutError", "raise timeout_s"),
        (filtered(), "ContentFilterError", "content policy"),
        (page(), "ReplyError", "check url and response"),
        (failing(404), "EndpointError", "against the service's own documentation"),
        (RESET, "EndpointError", "against the service's own documentation"),
    ],
)
async def test_a_failure_is_reported_with_what_to_do(step: Step, name: str, advice: str) -> None:
    with FaultServer(lambda *_: step) as server:
        report = await check_endpoint(azure_ml(server.url, retries=1))
    head, error, what_to_do = report.lines()
    assert not report.ok
    assert head == "azure_ml (azure_ml): failed"
    assert error.strip().startswith(name)
    assert advice in what_to_do


async def test_a_template_that_needs_a_row_is_reported_too() -> None:
    with FaultServer(lambda *_: answer("ok")) as server:
        report = await check_endpoint(azure_ml(server.url, request={"a": "${data.user}"}))
    assert "this row does not have" in "\n".join(report.lines())
