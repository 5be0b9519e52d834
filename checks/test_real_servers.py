"""Our endpoints against servers that we did not write: Azure ML's inference server and llama.cpp's."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.platforms import posix_only

from tunecheck import EndpointError, RefusedError, ReplyError, StopRunError, ThrottledError
from tunecheck.calls import FunctionCall
from tunecheck.endpoints import ChatRequest, Completion, Endpoint, check_endpoint, examine, load_endpoint
from tunecheck.formats import read_calls

# Making the environments is most of it, the first time; the servers are ended with all their children.
pytestmark = [pytest.mark.timeout(900), posix_only]

LLAMA_SERVER = Path(__file__).with_name("llama_server.py")
KEY = "a-key-for-tests-only"

PLAIN_SCORE = """
    import json, pathlib

    def init():
        global ANSWERS
        ANSWERS = json.loads(pathlib.Path(__file__).with_name("answers.json").read_text("utf-8"))

    def run(raw):
        asked = json.loads(raw)
        return {"result": ANSWERS[asked["input_data"][-1]["content"]]}
"""

RAW_SCORE = """
    import json
    from azureml_inference_server_http.api.aml_request import rawhttp
    from azureml_inference_server_http.api.aml_response import AMLResponse

    SEEN = {}

    def init():
        pass

    @rawhttp
    def run(request):
        if request.headers.get("Authorization") != "Bearer %s":
            return AMLResponse({"error": {"message": "no such key"}}, 401, {}, json_str=True)
        asked = json.loads(request.get_data())
        question, key = asked["input_data"][-1]["content"], request.headers["Idempotency-Key"]
        SEEN[key] = SEEN.get(key, 0) + 1
        if question == "full" or (question == "busy" and SEEN[key] == 1):
            return AMLResponse({"message": "too many requests"}, 429, {"Retry-After": "1"}, json_str=True)
        if question == "stream":
            return AMLResponse((f"data: {n}\\n\\n" for n in range(3)), 200, {"Content-Type": "text/event-stream"})
        told = {
            "attempts": SEEN[key],
            "params": asked["params"],
            "deployment": request.headers.get("azureml-model-deployment"),
        }
        return AMLResponse({"result": json.dumps(told)}, 200, {}, json_str=True)
"""

WEATHER = FunctionCall("get_weather", {"city": "L'Aquila", "days": 3, "units": None})
ALARM = FunctionCall("set_alarm", {"time": "07:30", "repeat": ["Mon", "Tue"], "label": "näher"})

QUESTIONS: dict[str, tuple[Any, tuple[FunctionCall, ...]]] = {
    "glaive text": (
        '<functioncall> {"name": "get_weather", "arguments": \'{"city": "L\'Aquila", "days": 3, "units": null}\'}',
        (WEATHER,),
    ),
    "glaive text with an end mark": (
        '<functioncall> {"name": "get_weather", "arguments": {"city": "L\'Aquila", "days": 3, "units": null}} '
        "<|endoftext|>",
        (WEATHER,),
    ),
    "tool_uses as an object": (
        {
            "tool_uses": [
                {"recipient_name": "functions.get_weather", "parameters": WEATHER.arguments},
                {"recipient_name": "functions.set_alarm", "parameters": ALARM.arguments},
            ]
        },
        (WEATHER, ALARM),
    ),
    "tool_uses as text": (
        "{'tool_uses': [{'recipient_name': 'functions.set_alarm', 'parameters': "
        "{'time': '07:30', 'repeat': ['Mon', 'Tue'], 'label': 'näher'}}]}",
        (ALARM,),
    ),
    "openai tool calls": (
        [{"id": "c1", "type": "function", "function": {"name": "set_alarm", "arguments": json.dumps(ALARM.arguments)}}],
        (ALARM,),
    ),
    "prose": ("It is 21 °C in L'Aquila; no alarm is set. {not a call}", ()),
    "nothing": (None, ()),
}

Run = Callable[..., AbstractContextManager[str]]


@contextmanager
def running(command: list[str], folder: Path, port: int, health: str) -> Iterator[str]:
    """A server process that sees only its own packages; it is ended with all its children, whatever happens."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"HOME": str(folder)},
            start_new_session=True,
        )
    try:
        wait_until_ready(process, f"http://127.0.0.1:{port}{health}", folder / "server.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        end(process)


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(url, timeout=5) as reply:
                if reply.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        if process.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"the server did not start (exit {process.poll()}):\n{log.read_text('utf-8', 'replace')[-3000:]}")


def end(process: subprocess.Popen[bytes]) -> None:
    for name in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, name)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            continue
    process.wait(timeout=10)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


async def answers_of(endpoint: Endpoint, *questions: str, **parameters: Any) -> list[Completion | BaseException]:
    """What comes of asking all questions at once."""
    requests = [ChatRequest(messages=[{"role": "user", "content": each}], parameters=parameters) for each in questions]
    try:
        return await asyncio.gather(*map(endpoint.complete, requests), return_exceptions=True)
    finally:
        await endpoint.close()


async def answer_of(endpoint: Endpoint, question: str, **parameters: Any) -> Completion:
    (outcome,) = await answers_of(endpoint, question, **parameters)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


# -- azureml-inference-server-http ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scoring(reference_env: Any, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """`with scoring(script, **files) as url`: Microsoft's scoring server around that script."""
    bin_folder = reference_env("azmlinfsrv", "azureml-inference-server-http==1.5.1").parent

    @contextmanager
    def run(script: str, **files: object) -> Iterator[str]:
        folder, port = tmp_path_factory.mktemp("scoring"), free_port()
        (folder / "score.py").write_text(textwrap.dedent(script), "utf-8")
        for name, content in files.items():
            (folder / f"{name}.json").write_text(json.dumps(content), "utf-8")
        options = ["--entry_script", "score.py", "--port", str(port), "--health_port", str(port)]
        with running([str(bin_folder / "azmlinfsrv"), *options], folder, port, "/") as url:
            yield url

    return run


@pytest.fixture(scope="module")
def plain_scoring(scoring: Run) -> Iterator[str]:
    with scoring(PLAIN_SCORE, answers={name: answer for name, (answer, _) in QUESTIONS.items()}) as url:
        yield url


@pytest.fixture(scope="module")
def raw_scoring(scoring: Run) -> Iterator[str]:
    with scoring(RAW_SCORE % KEY) as url:
        yield url


def azure_ml(url: str, **settings: Any) -> Endpoint:
    return load_endpoint({"kind": "azure_ml", "url": f"{url}/score", "response": "result", "retries": 1, **settings})


def with_key(url: str, monkeypatch: pytest.MonkeyPatch, key: str = KEY, **settings: Any) -> Endpoint:
    monkeypatch.setenv("TEST_SCORING_KEY", key)
    return azure_ml(url, auth={"type": "key", "value": "${env:TEST_SCORING_KEY}"}, **settings)


async def test_a_data_set_s_calls_come_out_of_azure_ml_s_server_in_every_form(plain_scoring: str) -> None:
    outcomes = await answers_of(azure_ml(plain_scoring), *QUESTIONS)
    for (question, (_, expected)), outcome in zip(QUESTIONS.items(), outcomes, strict=True):
        assert isinstance(outcome, Completion), f"{question}: {outcome!r}"
        reading = read_calls(outcome.columns()["response"])
        assert (question, reading.calls, reading.problem) == (question, expected, None)
        assert outcome.latency_ms
        assert outcome.request_id
        assert outcome.simulated is False


async def test_text_comes_out_of_azure_ml_s_server_unchanged(plain_scoring: str) -> None:
    completion = await answer_of(azure_ml(plain_scoring), "prose")
    assert (completion.text, completion.tool_calls) == (QUESTIONS["prose"][0], ())


async def test_a_scoring_script_that_raises_is_an_error_with_the_server_s_words_and_id(plain_scoring: str) -> None:
    with pytest.raises(EndpointError, match="An unexpected error occurred in scoring script") as raised:
        await answer_of(azure_ml(plain_scoring, retries=0), "a question without an answer")
    assert raised.value.status == 500
    assert raised.value.request_id


async def test_a_wrong_answer_path_is_told_with_what_the_reply_has(plain_scoring: str) -> None:
    with pytest.raises(ReplyError, match=r"no value at 'output'.*result"):
        await answer_of(azure_ml(plain_scoring, response="output"), "prose")


async def test_key_headers_and_parameters_reach_the_script(raw_scoring: str, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = with_key(
        raw_scoring, monkeypatch, headers={"azureml-model-deployment": "blue"}, parameters={"temperature": 0.1}
    )
    completion = await answer_of(endpoint, "tell me", max_new_tokens=5)
    assert json.loads(completion.text or "") == {
        "attempts": 1,
        "params": {"temperature": 0.1, "max_new_tokens": 5},
        "deployment": "blue",
    }


async def test_a_wrong_key_is_refused_without_being_shown(raw_scoring: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError, match="no such key") as raised:
        await answer_of(with_key(raw_scoring, monkeypatch, key="not-the-right-one"), "tell me")
    assert raised.value.status == 401
    assert "not-the-right-one" not in str(raised.value)


async def test_ten_refusals_in_a_row_stop_the_run(raw_scoring: str) -> None:
    endpoint = azure_ml(raw_scoring, limits={"concurrency": 1})
    outcomes = await answers_of(endpoint, *["tell me"] * 12)
    assert [type(outcome) for outcome in outcomes] == [RefusedError] * 9 + [StopRunError] * 3


async def test_a_throttled_call_is_sent_again_under_its_key(raw_scoring: str, monkeypatch: pytest.MonkeyPatch) -> None:
    completion = await answer_of(with_key(raw_scoring, monkeypatch), "busy")
    assert json.loads(completion.text or "")["attempts"] == 2


async def test_throttling_that_does_not_end_is_an_error(raw_scoring: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ThrottledError, match="too many requests") as raised:
        await answer_of(with_key(raw_scoring, monkeypatch), "full")
    assert raised.value.status == 429


async def test_a_script_that_streams_is_told_to_stop_streaming(
    raw_scoring: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ReplyError, match="turn off streaming in the service"):
        await answer_of(with_key(raw_scoring, monkeypatch), "stream")


# -- llama.cpp --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def llama(reference_env: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """llama.cpp's server over a tiny random model, which the script writes."""
    python = reference_env("llamacpp", "xllamacpp==2026.10.11549", "gguf==0.19.0")
    folder, port = tmp_path_factory.mktemp("llama"), free_port()
    command = [str(python), str(LLAMA_SERVER), str(folder / "tiny.gguf"), str(port), KEY]
    with running(command, folder, port, "/health") as url:
        yield url


def openai_kind(url: str, monkeypatch: pytest.MonkeyPatch, key: str = KEY, **settings: Any) -> Endpoint:
    monkeypatch.setenv("TEST_LLAMA_KEY", key)
    definition = {"kind": "openai", "url": f"{url}/v1", "model": "tiny", "retries": 1}
    return load_endpoint({**definition, "auth": {"type": "key", "value": "${env:TEST_LLAMA_KEY}"}, **settings})


async def test_llama_cpp_answers_in_plain_text_and_counts_its_tokens(
    llama: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    completion = await answer_of(openai_kind(llama, monkeypatch), "hello", max_tokens=12, seed=3)
    assert isinstance(completion.text, str)
    assert completion.tool_calls == ()
    assert completion.finish_reason in ("length", "stop")
    assert (completion.usage.input_tokens or 0) > len("hello")  # one token a character, and the template's
    assert 1 <= (completion.usage.output_tokens or 0) <= 12


async def test_llama_cpp_obeys_a_json_schema_given_as_parameter(llama: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = {
        "type": "object",
        "properties": {
            "score": {"type": "integer", "minimum": 1, "maximum": 5},
            "label": {"type": "string", "enum": ["pass", "fail"]},
        },
        "required": ["score", "label"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": verdict}}
    endpoint = openai_kind(llama, monkeypatch, parameters={"response_format": wanted, "max_tokens": 300})
    outcomes = await answers_of(endpoint, *(f"judge {number}" for number in range(8)))
    for outcome in outcomes:
        assert isinstance(outcome, Completion)
        told = json.loads(outcome.text or "")
        assert set(told) == {"score", "label"}
        assert told["score"] in range(1, 6)
        assert told["label"] in ("pass", "fail")


async def test_llama_cpp_s_refusal_of_a_wrong_key_is_ours(llama: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError, match="Invalid API Key"):
        await answer_of(openai_kind(llama, monkeypatch, key="wrong-key-here"), "hello")


async def test_llama_cpp_s_own_words_reach_the_error_of_a_bad_request(
    llama: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EndpointError) as raised:
        await answer_of(openai_kind(llama, monkeypatch), "hello", response_format={"type": "nonsense"})
    assert raised.value.status == 400
    assert "response_format" in str(raised.value)


async def test_checking_an_endpoint_over_llama_cpp_says_that_it_answers(
    llama: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = await check_endpoint(openai_kind(llama, monkeypatch, parameters={"max_tokens": 8}))
    assert report.ok, report.lines()


async def test_the_doctor_recognises_llama_cpp(llama: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await examine(openai_kind(llama, monkeypatch, parameters={"max_tokens": 8}), {})
    assert (found.serving.program, found.serving.guess) == ("llama.cpp", False)
