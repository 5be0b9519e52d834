"""Chat completions: addresses, headers and bodies of OpenAI, its look-alikes and Azure OpenAI."""

from typing import Any

import pytest
from tests.endpoint_parts import ask_once
from tests.fault_server import FaultServer, Request, answer
from tests.tables import cases

from tunecheck import ConfigurationError
from tunecheck.endpoints import ChatRequest, Endpoint, Usage, load_endpoint

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
}
CALL: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
REPLY = {
    "id": "x",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"content": None, "tool_calls": [CALL]}}],
    "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14},
}
REQUEST = ChatRequest(messages=[{"role": "user", "content": "hi"}], tools=[TOOL], parameters={"seed": 7})


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_KEY", "sk-0123456789")


async def sent(base: str = "", **values: Any) -> Request:
    with FaultServer(lambda *_: answer(REPLY)) as server:
        url = server.url.removesuffix("/score") + base
        await ask_once(load_endpoint({"url": url, **values}), REQUEST)
    return server.requests[0]


async def test_openai_gets_model_messages_tools_and_parameters() -> None:
    request = await sent("/v1", kind="openai", model="m-1", parameters={"temperature": 0, "seed": 1})
    assert request.path == "/v1/chat/completions"
    assert request.json() == {
        "model": "m-1",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [TOOL],
        "temperature": 0,
        "seed": 7,
    }
    assert "authorization" not in request.headers


async def test_the_answer_is_read_with_usage_and_finish_reason() -> None:
    with FaultServer(lambda *_: answer(REPLY, x_request_id="r1")) as server:
        done = await ask_once(load_endpoint({"kind": "openai", "url": server.url, "model": "m"}), REQUEST)
    assert (done.text, done.tool_calls, done.finish_reason, done.request_id) == (None, (CALL,), "tool_calls", "r1")
    assert done.usage == Usage(11, 3)
    assert done.columns()["response"] == [CALL]


async def test_no_tools_are_sent_where_there_are_none() -> None:
    with FaultServer(lambda *_: answer(REPLY)) as server:
        endpoint = load_endpoint({"kind": "openai", "url": server.url, "model": "m"})
        await ask_once(endpoint, ChatRequest(messages=[], tools=[]))
    body: Any = server.requests[0].json()
    assert set(body) == {"model", "messages"}


async def test_a_key_is_a_bearer_token_for_openai_and_api_key_for_azure() -> None:
    auth = {"type": "key", "value": "${env:TC_KEY}"}
    openai = await sent("/v1", kind="openai", model="m", auth=auth)
    azure = await sent(kind="azure_openai", deployment="d", auth=auth)
    assert openai.headers["authorization"] == "Bearer sk-0123456789"
    assert azure.headers["api-key"] == "sk-0123456789"
    assert "authorization" not in azure.headers


@cases("endpoints")
async def test_addresses(base: str, values: dict[str, Any], path: str) -> None:
    assert (await sent(base, **values)).path == path


async def test_the_versionless_form_sends_the_deployment_as_the_model() -> None:
    body: Any = (await sent(kind="azure_openai", deployment="d")).json()
    assert body["model"] == "d"


def test_a_deployment_that_is_not_the_urls_is_an_error() -> None:
    url = "https://a.b/openai/deployments/one/chat/completions?api-version=1"
    with pytest.raises(ConfigurationError, match="deployment: the url names another deployment"):
        load_endpoint({"kind": "azure_openai", "url": url, "deployment": "two"})


async def test_a_request_template_replaces_the_whole_body() -> None:
    request = await sent(
        "/v1", kind="openai", model="m", request={"msgs": "${messages}", "opts": "${parameters}", "tools": "${tools}"}
    )
    assert request.json() == {"msgs": [{"role": "user", "content": "hi"}], "opts": {"seed": 7}, "tools": [TOOL]}


@pytest.mark.parametrize("kind", ["openai", "azure_openai"])
def test_the_answers_settings_hold_what_names_the_model(kind: str) -> None:
    def settings(name: str) -> object:
        endpoint: Endpoint = load_endpoint(
            {"kind": kind, "url": "https://a.b/v1", ("model" if kind == "openai" else "deployment"): name}
        )
        return endpoint.answer_settings()

    assert settings("one") != settings("two")
