"""A definition with `api: responses` uses the Responses API; its answers equal those of others."""

from typing import Any

import pytest
from tests.endpoint_parts import ask_once
from tests.fault_server import FaultServer, Request, Step, answer, failing
from tests.tables import cases

from tunecheck import ContentFilterError, ReplyError
from tunecheck.endpoints import ChatRequest, Completion, Usage, examine, load_endpoint
from tunecheck.endpoints._chat import responses_body

FUNCTION: dict[str, Any] = {"name": "f", "parameters": {"type": "object", "properties": {}}}
CALL: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
REQUEST = ChatRequest(
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
    tools=[{"type": "function", "function": FUNCTION}],
    parameters={"max_completion_tokens": 9},
)
REPLY: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "error": None,
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "f will do"}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
    ],
    "usage": {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 15,
        "output_tokens_details": {"reasoning_tokens": 10},
        "total_tokens": 35,
    },
}
SAID: dict[str, Any] = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}


def only_responses(request: Request, attempt: int) -> Step:
    if request.path.partition("?")[0].endswith("/chat/completions"):
        return failing(404, "This model is only supported in v1/responses and not in v1/chat/completions.")
    return answer(REPLY)


async def asked(
    reply: Any = None, path: str = "/v1", calls: int = 1, **definition: Any
) -> tuple[Completion, list[Request]]:
    plan = only_responses if reply is None else (lambda *_: answer(reply))
    with FaultServer(plan) as server:
        url = server.url.removesuffix("/score") + path
        endpoint = load_endpoint({"kind": "openai", "url": url, "retries": 0, **definition})
        done = [await endpoint.complete(REQUEST) for _ in range(calls)]
        await endpoint.close()
    return done[-1], server.requests


async def test_the_model_is_asked_there_if_the_definition_says_so() -> None:
    done, requests = await asked(model="o", api="responses", calls=2)
    assert [request.path for request in requests] == ["/v1/responses", "/v1/responses"]
    assert requests[1].json() == {
        "model": "o",
        "store": False,
        "input": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "strict": False, **FUNCTION}],
        "max_output_tokens": 9,
    }
    assert (done.text, done.reasoning) == (None, "f will do")
    assert (done.tool_calls, done.finish_reason) == ((CALL,), "tool_calls")
    assert done.usage == Usage(20, 15, 4, 10)


@cases("endpoints")
async def test_azure_has_one_address_for_all_deployments(path: str, given: dict[str, Any]) -> None:
    _, requests = await asked(kind="azure_openai", path=path, api="responses", **given)
    assert requests[0].path == "/openai/v1/responses"
    body: Any = requests[0].json()
    assert body["model"] == "my o"


async def test_the_doctor_prints_the_line_that_asks_there() -> None:
    with FaultServer(only_responses) as server:
        url = server.url.removesuffix("/score") + "/v1"
        definition: dict[str, Any] = {"kind": "openai", "model": "o", "url": url, "retries": 0}
        changes = (await examine(load_endpoint(definition), definition)).changes
        done = await ask_once(load_endpoint({**definition, **changes}), REQUEST)
    assert changes == {"api": "responses"}
    assert done.tool_calls == (CALL,)


@pytest.mark.parametrize("kind", ["openai", "azure_openai"])
async def test_an_address_of_the_responses_api_is_asked_from_the_first_call_on(kind: str) -> None:
    named: Any = {"model" if kind == "openai" else "deployment": "m"}
    _, (request,) = await asked(kind=kind, path="/openai/v1/responses?api-version=preview", **named)
    assert request.path == "/openai/v1/responses?api-version=preview"
    body: Any = request.json()
    assert body["model"] == "m"


def test_a_conversation_with_calls_and_results_becomes_items() -> None:
    body = responses_body(
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]},
                {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "1"},
            ],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
            "reasoning_effort": "low",
        }
    )
    assert body == {
        "store": False,
        "input": [
            {"role": "user", "content": [{"type": "input_image", "image_url": "https://x/y.png"}]},
            {"role": "assistant", "content": "I look."},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
        ],
        "tool_choice": {"type": "function", "name": "f"},
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {}}},
        "reasoning": {"effort": "low"},
    }


@cases("endpoints")
async def test_texts_and_how_they_ended_are_read(changes: Any, text: str, finish: str) -> None:
    done, _ = await asked({**REPLY, **changes}, model="o")
    assert (done.text, done.tool_calls, done.finish_reason) == (text, (), finish)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, ContentFilterError),
        ({"status": "failed", "error": {"code": "server_error", "message": "no luck"}}, ReplyError),
    ],
)
async def test_a_reply_that_failed_is_an_error(changes: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        await asked({**REPLY, **changes}, model="o")


async def test_a_parameter_that_only_the_responses_api_refuses_is_left_out() -> None:
    def plan(request: Request, attempt: int) -> Step:
        body: Any = request.json()
        return failing(400, "Unknown parameter: 'seed'.") if "seed" in body else answer(REPLY)

    with FaultServer(plan) as server:
        url = server.url.removesuffix("/score") + "/v1/responses"
        endpoint = load_endpoint({"kind": "openai", "url": url, "model": "o", "parameters": {"seed": 1}, "retries": 0})
        assert (await ask_once(endpoint, REQUEST)).tool_calls == (CALL,)
    assert len(server.requests) == 2
