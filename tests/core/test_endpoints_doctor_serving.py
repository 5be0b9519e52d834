"""`tunecheck check` recognises the program that serves a model, and names that program's own settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import web
from tests.tables import cases

from tunecheck.endpoints import examine, load_endpoint
from tunecheck.report import running

KEY = "a-key-of-mine-1234"
LEFT_IN_TEXT = (
    '<think>\nThey ask.\n</think>\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Lisbon"}}\n</tool_call>'
)


class Server:
    """Answers chats with a call in the text, and GET requests with these pages; remembers who brought a key where."""

    def __init__(self, pages: Mapping[str, object], headers: Mapping[str, str], text: str = LEFT_IN_TEXT) -> None:
        self.pages, self.headers, self.text = pages, headers, text
        self.asked: list[str] = []
        self.keys: set[str] = set()

    async def reply(self, request: web.Request) -> web.Response:
        if KEY in str(request.headers):
            self.keys.add(request.path)
        if request.method == "POST":
            message = {"role": "assistant", "content": self.text}
            usage = {"prompt_tokens": 100 if "tools" in await request.json() else 30, "completion_tokens": 9}
            choices = [{"index": 0, "message": message, "finish_reason": "length" if "Count" in self.text else "stop"}]
            return web.json_response({"choices": choices, "usage": usage}, headers=self.headers)
        self.asked.append(request.path)
        page = self.pages.get(request.path)
        if isinstance(page, web.Response):
            return page
        return web.json_response(page, status=404 if page is None else 200)

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.reply)
        return app


Examine = Callable[..., Awaitable[Any]]


@pytest.fixture
async def examined(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Examine]:
    monkeypatch.setenv("MY_KEY", KEY)
    async with AsyncExitStack() as stack:

        async def examine_served(server: Server, path: str = "/v1", **keys: Any) -> Any:
            url = await stack.enter_async_context(running(server.app()))
            auth = {"type": "key", "value": "${env:MY_KEY}"}
            named = {} if "deployment" in keys else {"model": "m"}
            definition = {"kind": "openai", "url": url + path, "retries": 0, "auth": auth, **named, **keys}
            return await examine(load_endpoint(definition), definition)

        yield examine_served


def advice(found: Any, check: str) -> str:
    return next(str(finding.verdict.advice) for finding in found.findings if finding.check == check)


def models(owner: str, **more: object) -> dict[str, object]:
    return {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": owner, **more}]}


TGI_INFO = {"model_id": "org/m", "max_total_tokens": 4096, "router": "text-generation-router", "version": "3.3.2"}

OWN_ADVICE = {
    "vLLM": ("--enable-auto-tool-choice --tool-call-parser hermes", "--reasoning-parser"),
    "SGLang": ("--tool-call-parser qwen25", "--reasoning-parser"),
    "llama.cpp": ("--jinja", "--reasoning-format"),
    "Ollama": (".ToolCalls", ".Thinking"),
    "TGI": ("parses no model family's form", "no parser of reasoning"),
}


@cases("endpoints")
async def test_each_program_is_recognised_and_gets_its_own_advice(
    examined: Examine, program: str, pages: Mapping[str, object], headers: Mapping[str, str]
) -> None:
    found = await examined(Server(pages, headers))
    assert (found.report.serving.program, found.report.serving.guess) == (program, False)
    of_calls, of_reasoning = advice(found, "calls are parsed"), advice(found, "reasoning is kept apart")
    assert of_calls.startswith(f"{program}: ")
    assert OWN_ADVICE[program][0] in of_calls
    assert OWN_ADVICE[program][1] in of_reasoning
    assert not [name for name in OWN_ADVICE if name != program and f"{name}: " in of_calls]
    assert any(line.startswith("  server      " + program) for line in found.report.lines())


async def test_a_version_alone_makes_vllm_a_guess(examined: Examine) -> None:
    found = await examined(Server({"/version": {"version": "0.33.0"}}, {}))
    assert str(found.report.serving) == "vLLM (a guess by its address /version)"
    assert "(that it is vLLM is a guess)" in advice(found, "calls are parsed")


async def test_a_program_that_is_not_known_is_not_named(examined: Examine) -> None:
    found = await examined(Server({"/v1/models": models("openai"), "/version": {"version": "1", "commit": "a1"}}, {}))
    assert not found.report.serving.program
    assert not any(line.startswith("  server") for line in found.report.lines())
    assert "SGLang: --tool-call-parser qwen25; llama.cpp: --jinja" in advice(found, "calls are parsed")


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ({}, "in the deployment's environment, for vLLM: --enable-auto-tool-choice --tool-call-parser hermes (that"),
        ({"/v1/models": models("sglang")}, "in the deployment's environment, for SGLang: --tool-call-parser qwen25"),
    ],
)
@pytest.mark.parametrize("header", ["azureml-model-deployment", "x-ms-server-version"])
async def test_on_azure_ml_the_program_in_the_container_is_told(
    examined: Examine, pages: Mapping[str, object], said: str, header: str
) -> None:
    found = await examined(Server(pages, {header: "azmlinfsrv/1.5.1"}))
    assert found.report.serving.on_azure_ml
    assert advice(found, "calls are parsed").startswith(said)


@pytest.mark.parametrize(("model", "named"), [("m", False), ("m-2", True)])
async def test_a_model_that_the_server_does_not_list_is_reported_with_those_that_it_lists(
    examined: Examine, model: str, named: bool
) -> None:
    found = await examined(Server({"/v1/models": models("vllm")}, {}), model=model)
    lines = found.report.lines()
    assert any("the model is not in the server's list: the server offers m" in line for line in lines) is named


async def test_the_key_is_sent_to_the_api_alone(examined: Examine) -> None:
    server = Server({}, {})
    await examined(server, "/team/v1", headers={"X-Api-Key": "${env:MY_KEY}"})
    assert {"/team/version", "/team/props", "/team/info", "/team/api/version"} <= set(server.asked)
    assert server.keys == {"/team/v1/chat/completions", "/team/v1/models"}


async def test_a_redirect_is_not_followed(examined: Examine) -> None:
    elsewhere = Server({"/version": {"version": "1"}}, {})
    async with running(elsewhere.app()) as url:
        moved = {
            path: web.Response(status=302, headers={"location": f"{url}/version"})
            for path in ("/v1/models", "/version")
        }
        found = await examined(Server(moved, {}))
    assert not found.report.serving.program
    assert elsewhere.asked == []


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"data": 7}', '{"data": [7, {"owned_by": ["vllm"]}]}', "", "{", "NaN"]
)
async def test_pages_of_any_content_are_no_error(examined: Examine, text: str) -> None:
    pages = {path: web.Response(text=text) for path in ("/v1/models", "/props", "/version", "/info", "/model_info")}
    found = await examined(Server(pages, {}))
    assert not found.report.serving.program
    assert found.report.ok


async def test_a_suggested_limit_leaves_half_of_the_context_for_prompts(examined: Examine) -> None:
    pages = {"/v1/models": models("vllm", max_model_len=2048)}
    found = await examined(Server(pages, {}, "Count"), parameters={"max_tokens": 50})
    assert found.changes == {"parameters": {"max_tokens": 1024}}
    assert "vLLM: --max-model-len" in advice(found, "nothing is cut off")


async def test_azure_openai_is_not_searched(examined: Examine) -> None:
    server = Server({"/openai/v1/models": models("vllm")}, {})
    found = await examined(server, "", kind="azure_openai", deployment="m")
    assert (found.report.serving.program, server.asked) == ("", [])
