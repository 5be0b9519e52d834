"""Trying an endpoint out: one request, the checks of how it is served, and the lines to put into its definition."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from tests.cli_parts import here
from tests.doctor_parts import model, verdicts
from tests.endpoint_parts import azure_ml
from tests.fault_server import RESET, FaultServer, Request, Step, answer, busy, failing, filtered, page, raw
from tests.serve_parts import Starter, servers, serving
from tests.tables import cases

from tunecheck.endpoints import CHECKS, Diagnosis, check_endpoint, examine, load_endpoint
from tunecheck.plugins import JSON
from tunecheck.report import running


@pytest.fixture
async def started() -> AsyncIterator[Starter]:
    async with servers() as start:
        yield start


async def test_a_healthy_server_passes_clean(tmp_path: Path, started: Starter) -> None:
    found = await verdicts(await started(model(tmp_path)))
    assert len(found) == len(CHECKS) == 19
    assert {check: verdict.evidence for check, verdict in found.items() if verdict.status != "pass"} == {}


ASKED = "when: {user: weather, last: user, tools: true}"
ANOTHER_UNIT = f"- {{{ASKED}, calls: [{{name: get_weather, arguments: {{city: Lisbon, unit: C}}}}]}}"
NO_CALL = f"- {{{ASKED}, answer: It is sunny there.}}"
IN_REASONING = (
    "- {when: {tools: true}, answer: '', "
    """reasoning: '<tool_call>{"name": "get_weather", "arguments": {"city": "Lisbon"}}</tool_call>'}"""
)
HIDDEN = f"- {{answer: No., reasoning: {'let me see ' * 30}, when: {{tools: false}}}}"


@cases("endpoints")
async def test_what_is_served_wrong_is_found(
    tmp_path: Path, started: Starter, top: str, rules: str, check: str, status: str, evidence: str
) -> None:
    verdict = (await verdicts(await started(model(tmp_path, top, f"  {rules}\n" if rules else ""))))[check]
    assert (verdict.status, evidence in verdict.evidence) == (status, True), verdict


async def test_one_wrong_flag_is_one_failure(tmp_path: Path, started: Starter) -> None:
    found = await verdicts(await started(model(tmp_path, "behaviour: {calls_in_text: hermes}")))
    wrong = [check for check, verdict in found.items() if verdict.status == "fail"]
    assert wrong == ["calls are parsed"], "calls in the text are read, so that the rest is still checked"
    assert "--tool-call-parser hermes" in found[wrong[0]].advice


@pytest.mark.parametrize(
    "top", ["behaviour: {calls_in_text: hermes}", "behaviour: {calls_in_text: hermes, reasoning: text}"]
)
async def test_what_it_says_to_change_puts_it_right(tmp_path: Path, started: Starter, top: str) -> None:
    url = await started(model(tmp_path, top))
    changes = (await verdicts(url))["calls are parsed"].change
    found = await verdicts(url, **changes)
    assert changes == {"format": "hermes"}
    assert {check: verdict.status for check, verdict in found.items() if verdict.status != "pass"} == {
        "arguments are JSON": "skip"  # they are written by ourselves
    }


async def test_limits_that_the_service_tells_are_compared_with_the_definition(tmp_path: Path, started: Starter) -> None:
    url = await started(model(tmp_path, "server: {headers: {x-ratelimit-limit-requests: '60'}}"))
    assert (await verdicts(url))["rate limits"].evidence == "60 requests a minute"
    found = (await verdicts(url, limits={"requests_per_minute": 600, "concurrency": 4}))["rate limits"]
    assert found.change == {"limits": {"requests_per_minute": 60, "concurrency": 4}}


def statuses(found: Mapping[str, Diagnosis], status: str) -> set[str]:
    return {check for check, verdict in found.items() if verdict.status == status}


OF_CALLS = {check.name for check in CHECKS if check.about == "calls"}


async def test_a_model_that_never_calls_passes_no_check_of_calls(tmp_path: Path, started: Starter) -> None:
    found = await verdicts(await started(model(tmp_path, rules="  - {when: {tools: true}, answer: It is 17 there.}\n")))
    assert statuses(found, "fail") == {"calls are parsed"}
    assert statuses(found, "skip") == {*OF_CALLS, "streamed calls match"}
    assert found["names are kept"].evidence == "no question was answered with a call"
    assert found["finish reasons are correct"].evidence == "stop"


async def test_a_limit_that_is_too_low_is_one_failure(tmp_path: Path, started: Starter) -> None:
    found = await verdicts(await started(model(tmp_path, "behaviour: {cut_at_tokens: 5}")))
    assert statuses(found, "fail") == {"nothing is cut off"}
    assert found["long lists of tools"].evidence == "the answer was cut off: archive_voucher {}"
    assert statuses(found, "warn") & {"finish reasons are correct"} == set()


async def test_tools_that_are_not_shown_are_one_failure_and_told_in_the_prompt(
    tmp_path: Path, started: Starter
) -> None:
    told = "system: [You can call functions], user: weather, last: user"
    rules = f"""
  - {{when: {{{told}}}, calls: [{{name: get_weather, arguments: {{city: Lisbon, unit: celsius}}}}]}}
  - {{when: {{user: weather, last: user}}, answer: I cannot look that up.}}
  - {{when: {{user: {{any: [Review, thermostat, Eva, calendar, voucher]}}}}, answer: I cannot do that.}}
"""
    url = await started(model(tmp_path, "server: {tools: ignored}\nbehaviour: {calls_in_text: hermes}", rules))
    found = await verdicts(url)
    assert statuses(found, "fail") == {"tools are shown to the model"}
    assert "hermes is a guess: no answer shows the family" in found["tools are shown to the model"].advice
    changes = found["tools are shown to the model"].change
    found = await verdicts(url, **changes)
    assert changes == {"tools": "text", "format": "hermes"}
    assert found["enums are obeyed"].status == "pass"


async def test_what_changes_is_laid_over_the_parameters_that_are_taken(tmp_path: Path, started: Starter) -> None:
    url = await started(
        model(tmp_path, "server: {parameters: o_series}\nbehaviour: {cut_at_tokens: 50, stop_token: </s>}")
    )
    parameters: JSON = {"max_tokens": 50, "temperature": 0}
    written: dict[str, JSON] = {"kind": "openai", "url": f"{url}/v1", "model": "m", "parameters": parameters}
    found = await examine(load_endpoint(written), written)
    assert found.changes == {"parameters": {"max_completion_tokens": 4096, "stop": ["</s>"]}}


async def test_what_a_template_has_no_place_for_is_not_looked_at(tmp_path: Path, started: Starter) -> None:
    url = f"{await started(model(tmp_path))}/score"
    definition: dict[str, JSON] = {"kind": "azure_ml", "url": url, "response": "result"}
    found = dict((await examine(load_endpoint(definition), definition)).findings)
    assert len(found) == len(CHECKS)
    assert statuses(found, "skip") == {check.name for check in CHECKS if check.about != "answers"}
    assert found["calls are parsed"].evidence == "requests contain no tools"
    assert found["tools are shown to the model"].status == "warn"
    assert found["nothing is cut off"].status == "pass"


async def test_an_answer_inside_other_json_is_reported_with_the_path_of_its_text(tmp_path: Path) -> None:
    with FaultServer(lambda *_: answer([{"0": "Hello!"}])) as server:
        definition: dict[str, JSON] = {"kind": "azure_ml", "url": server.url}
        found = await examine(load_endpoint(definition), definition)
        assert not found.ok
        assert found.changes == {"response": "[0]['0']"}
        definition |= found.changes
        mended = await examine(load_endpoint(definition), definition)
    assert mended.answer.text == "Hello!"
    assert {*mended.findings} == {check.name for check in CHECKS}


async def test_an_endpoint_that_answers_rows_is_asked_one_question_only() -> None:
    found = await examine(load_endpoint({"kind": "simulated"}), {"kind": "simulated"})
    assert (found.ok, found.findings, found.simulated) == (True, {}, True)


def test_each_check_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text("utf-8")
    told = {
        name.strip() for cell in re.findall(r"^\* \*\*([^*]+)\*\*: ", page, re.MULTILINE) for name in cell.split(",")
    }
    assert {check.name for check in CHECKS} - told == set()


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_the_lines_to_put_into_the_definition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", "a-key-of-mine-1234")
    with serving(model(tmp_path, "behaviour: {cut_at_tokens: 50}")) as url:
        definition = f'kind: openai\nurl: {url}/v1\nmodel: m\nauth: {{type: key, value: "${{env:MY_KEY}}"}}  # mine\n'
        Path("mine.yaml").write_text(definition)
        said = here(capsys, "check", "mine.yaml")
        as_json = here(capsys, "check", "mine.yaml", "--json")
    assert (said.code, as_json.code) == (3, 3)
    assert "fail  nothing is cut off: cut off after" in said.out
    assert "SIMULATED answers" in said.out
    line = next(line for line in said.out.splitlines() if line.startswith("  parameters: "))
    assert yaml.safe_load(line) == {"parameters": {"max_tokens": 4096}}
    assert "a-key-of-mine" not in said.out
    found = json.loads(as_json.out)
    assert (found["changes"], found["fail"] > 0) == ({"parameters": {"max_tokens": 4096}}, True)
    assert {check["status"] for check in found["checks"]} <= {"pass", "warn", "fail", "skip"}


CALL = {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Lisbon"}'}}


async def test_an_answer_is_reported_with_all_that_is_known_of_it() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    reply = {
        "choices": [{"message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 9},
    }
    with FaultServer(lambda *_: answer(reply, x_request_id="r-1")) as server:
        report = await check_endpoint(load_endpoint({"kind": "openai", "url": server.url, "model": "m"}))
    body: Any = server.requests[0].json()
    assert [tool["function"]["name"] for tool in body["tools"]] == ["get_weather"]
    assert report.ok
    text = "\n".join(report.lines())
    for part in ("openai (openai): answered", "get_weather", "Lisbon", "50 in, 9 out", "tool_calls", "r-1", " ms"):
        assert part in text


async def test_a_stream_whose_pieces_repeat_earlier_ones_is_read() -> None:
    called = '{"city": "Lisbon"}'

    def plan(request: Request, attempt: int) -> Step:
        asked: Any = request.json()
        function = {"name": "get_weather", "arguments": called}
        if not asked.get("stream"):
            message = {"tool_calls": [{"id": "a", "type": "function", "function": function}]}
            return answer({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
        texts = [called[:length] for length in range(4, 19, 7)]
        deltas = [{"tool_calls": [{"index": 0, "function": {**function, "arguments": text}}]} for text in texts]
        pieces = [*({"delta": delta} for delta in deltas), {"delta": {}, "finish_reason": "tool_calls"}]
        events = (f"data: {json.dumps({'choices': [piece]})}\n\n" for piece in pieces)
        return raw("".join(events).encode(), "text/event-stream")

    with FaultServer(plan) as server:
        found = (await verdicts(server.url))["streamed calls match"]
    assert (found.status, found.evidence[:20]) == ("pass", "the call is the same")


async def test_an_empty_stream_fails_its_check_and_a_refused_temperature_is_a_warning() -> None:
    called = {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Lisbon"}'}}
    choice = {"message": {"tool_calls": [called]}, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 50, "completion_tokens": 9}
    empty = [{"choices": [{"delta": {"role": "assistant"}}]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]}]

    def plan(request: Request, attempt: int) -> Step:
        asked: Any = request.json() if request.body else {}
        if asked.get("temperature") == 0:
            return failing(400)
        if asked.get("stream"):
            events = "".join(f"data: {json.dumps(each)}\n\n" for each in empty)
            return raw(f"{events}data: [DONE]\n\n".encode(), "text/event-stream")
        return answer({"choices": [choice], "usage": usage})

    with FaultServer(plan) as server:
        found = await verdicts(server.url)
    streamed, repeated = found["streamed calls match"], found["answers repeat"]
    assert (streamed.status, streamed.evidence[:19]) == ("fail", "the stream is empty")
    assert (repeated.status, repeated.evidence) == ("warn", "no answer at temperature 0: 400: it did not work")


async def test_two_answers_of_which_one_is_empty_differ() -> None:
    def plan(request: Request, attempt: int) -> Step:
        asked: Any = request.json() if request.body else {}
        text = "" if asked.get("temperature") == 0 and len(server.requests) % 2 else "2, 3, 5"
        return answer({"choices": [{"message": {"content": text, "reasoning": "Hm."}, "finish_reason": "length"}]})

    with FaultServer(plan) as server:
        found = await verdicts(server.url, limits={"concurrency": 1})
    assert found["answers repeat"].status == "warn"
    assert found["finish reasons are correct"].status == "skip"


async def test_an_object_for_an_answer_gets_a_hint() -> None:
    with FaultServer(lambda *_: answer({"output": "It is 20 degrees."})) as server:
        report = await check_endpoint(azure_ml(server.url))
    assert "set `response:` to the text's path" in "\n".join(report.lines())


@pytest.mark.parametrize(
    ("step", "name", "advice"),
    [
        (failing(401), "RefusedError", "check auth"),
        (busy(), "ThrottledError", "lower limits"),
        (failing(504), "TimedOutError", "raise timeout_s"),
        (filtered(), "ContentFilterError", "content policy"),
        (page(), "ReplyError", "check the keys `url` and `response`"),
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
    assert error.strip().startswith("endpoint 'azure_ml'")
    assert type(report.answer.error).__name__ == name
    assert advice in what_to_do


async def test_a_template_that_needs_a_row_is_reported_too() -> None:
    with FaultServer(lambda *_: answer("ok")) as server:
        report = await check_endpoint(azure_ml(server.url, request={"a": "${data.user}"}))
    assert "the row has no value for" in "\n".join(report.lines())


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
    return str(found.findings[check].advice)


def models(owner: str, **more: object) -> dict[str, object]:
    return {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": owner, **more}]}


TGI_INFO = {"model_id": "org/m", "max_total_tokens": 4096, "router": "text-generation-router", "version": "3.3.2"}

OWN_ADVICE = {
    "vLLM": ("--enable-auto-tool-choice --tool-call-parser hermes", "--reasoning-parser"),
    "SGLang": ("--tool-call-parser qwen25", "--reasoning-parser"),
    "llama.cpp": ("--jinja", "--reasoning-format"),
    "Ollama": (".ToolCalls", ".Thinking"),
    "TGI": ("no tool parser for model families", "no parser of reasoning"),
}


@cases("endpoints")
async def test_each_program_is_recognised_and_gets_its_own_advice(
    examined: Examine, program: str, pages: Mapping[str, object], headers: Mapping[str, str]
) -> None:
    found = await examined(Server(pages, headers))
    assert (found.serving.program, found.serving.guess) == (program, False)
    of_calls, of_reasoning = advice(found, "calls are parsed"), advice(found, "reasoning is kept apart")
    assert of_calls.startswith(f"{program}: ")
    assert OWN_ADVICE[program][0] in of_calls
    assert OWN_ADVICE[program][1] in of_reasoning
    assert not [name for name in OWN_ADVICE if name != program and f"{name}: " in of_calls]
    assert any(line.startswith("  server      " + program) for line in found.lines())


async def test_a_version_alone_makes_vllm_a_guess(examined: Examine) -> None:
    found = await examined(Server({"/version": {"version": "0.33.0"}}, {}))
    assert str(found.serving) == "vLLM (guessed from its address /version)"
    assert "(assuming that the server is vLLM)" in advice(found, "calls are parsed")


async def test_a_program_that_is_not_known_is_not_named(examined: Examine) -> None:
    found = await examined(Server({"/v1/models": models("openai"), "/version": {"version": "1", "commit": "a1"}}, {}))
    assert not found.serving.program
    assert not any(line.startswith("  server") for line in found.lines())
    assert "SGLang: --tool-call-parser qwen25; llama.cpp: --jinja" in advice(found, "calls are parsed")


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        (
            {},
            "in the deployment's environment, for vLLM: --enable-auto-tool-choice --tool-call-parser hermes (assuming",
        ),
        ({"/v1/models": models("sglang")}, "in the deployment's environment, for SGLang: --tool-call-parser qwen25"),
    ],
)
@pytest.mark.parametrize("header", ["azureml-model-deployment", "x-ms-server-version"])
async def test_on_azure_ml_the_program_in_the_container_is_told(
    examined: Examine, pages: Mapping[str, object], said: str, header: str
) -> None:
    found = await examined(Server(pages, {header: "azmlinfsrv/1.5.1"}))
    assert found.serving.on_azure_ml
    assert advice(found, "calls are parsed").startswith(said)


@pytest.mark.parametrize(("model", "named"), [("m", False), ("m-2", True)])
async def test_a_model_that_the_server_does_not_list_is_reported_with_those_that_it_lists(
    examined: Examine, model: str, named: bool
) -> None:
    found = await examined(Server({"/v1/models": models("vllm")}, {}), model=model)
    lines = found.lines()
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
    assert not found.serving.program
    assert elsewhere.asked == []


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"data": 7}', '{"data": [7, {"owned_by": ["vllm"]}]}', "", "{", "NaN"]
)
async def test_pages_of_any_content_are_no_error(examined: Examine, text: str) -> None:
    pages = {path: web.Response(text=text) for path in ("/v1/models", "/props", "/version", "/info", "/model_info")}
    found = await examined(Server(pages, {}))
    assert not found.serving.program
    assert found.answered


async def test_a_suggested_limit_leaves_half_of_the_context_for_prompts(examined: Examine) -> None:
    pages = {"/v1/models": models("vllm", max_model_len=2048)}
    found = await examined(Server(pages, {}, "Count"), parameters={"max_tokens": 50})
    assert found.changes == {"parameters": {"max_tokens": 1024}}
    assert "vLLM: --max-model-len" in advice(found, "nothing is cut off")


async def test_azure_openai_is_not_searched(examined: Examine) -> None:
    server = Server({"/openai/v1/models": models("vllm")}, {})
    found = await examined(server, "", kind="azure_openai", deployment="m")
    assert (found.serving.program, server.asked) == ("", [])
