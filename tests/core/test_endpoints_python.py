"""Python functions as endpoints."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tunecheck._errors import EndpointError, PluginError, ReplyError, TimedOutError
from tunecheck.endpoints._base import ChatRequest, Completion
from tunecheck.endpoints._definition import load_endpoint
from tunecheck.endpoints._python import PythonEndpoint

CALL: dict[str, Any] = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
REQUEST = ChatRequest(messages=[{"role": "user", "content": "hi"}], tools=[CALL], parameters={"b": 2})


def make(folder: Path, source: str, **values: Any) -> PythonEndpoint:
    (folder / "mine.py").write_text(source)
    endpoint = load_endpoint({"kind": "python", "function": "mine.py:answer", **values}, workspace=folder)
    assert isinstance(endpoint, PythonEndpoint)
    return endpoint


async def ask(endpoint: PythonEndpoint) -> Completion:
    try:
        return await endpoint.complete(REQUEST)
    finally:
        await endpoint.close()


@pytest.mark.parametrize(
    "signature", ["messages, tools, parameters", "messages, *, tools=None, parameters=None", "**given"]
)
@pytest.mark.parametrize("word", ["def", "async def"])
async def test_a_function_gets_what_its_signature_takes(tmp_path: Path, word: str, signature: str) -> None:
    given = "given" if "given" in signature else "dict(messages=messages, tools=tools, parameters=parameters)"
    done = await ask(
        make(tmp_path, f"import json\n{word} answer({signature}):\n    return json.dumps({given})", parameters={"a": 1})
    )
    assert done.text is not None
    assert '"content": "hi"' in done.text
    assert '"name": "f"' in done.text
    assert '{"a": 1, "b": 2}' in done.text


async def test_messages_alone_will_do(tmp_path: Path) -> None:
    done = await ask(make(tmp_path, "def answer(messages):\n    return messages[-1]['content']"))
    assert done.text == "hi"
    assert done.latency_ms is not None


async def test_a_message_or_calls_or_a_completion_come_back_as_they_are(tmp_path: Path) -> None:
    source = "def answer(messages):\n    return {}"
    message = {"role": "assistant", "content": "so", "tool_calls": [CALL]}
    assert (await ask(make(tmp_path, source.format(message)))).tool_calls == (CALL,)
    (tmp_path / "b").mkdir()
    assert (await ask(make(tmp_path / "b", source.format([CALL])))).tool_calls == (CALL,)
    (tmp_path / "c").mkdir()
    source = (
        "from tunecheck.endpoints import Completion\ndef answer(messages):\n    return Completion('x', request_id='r')"
    )
    assert await ask(make(tmp_path / "c", source)) == Completion("x", request_id="r")


async def test_a_callable_object_will_do(tmp_path: Path) -> None:
    source = "class A:\n    async def __call__(self, messages):\n        return 'async object'\nanswer = A()"
    assert (await ask(make(tmp_path, source))).text == "async object"


async def test_what_it_raises_is_that_calls_error_in_one_line(tmp_path: Path) -> None:
    endpoint = make(tmp_path, "def answer(messages):\n    raise KeyError('a\\nb')")
    with pytest.raises(EndpointError, match=r"^mine.py:answer raised KeyError: 'a\\nb'$") as caught:
        await ask(endpoint)
    assert isinstance(caught.value.__cause__, KeyError)


async def test_what_has_no_json_form_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(ReplyError, match="returned no answer"):
        await ask(make(tmp_path, "def answer(messages):\n    return object()"))


async def test_a_sync_function_runs_in_as_many_threads_as_the_limit_allows(tmp_path: Path) -> None:
    source = (
        "import threading\nbarrier = threading.Barrier(12, timeout=20)\n"
        "def answer(messages):\n    barrier.wait()\n    return threading.current_thread().name"
    )
    endpoint = make(tmp_path, source, limits={"concurrency": 12})
    done = await asyncio.gather(*(endpoint.complete(REQUEST) for _ in range(12)))
    await endpoint.close()
    assert len({one.text for one in done}) == 12


async def test_no_more_calls_at_once_than_the_limit(tmp_path: Path) -> None:
    source = (
        "import asyncio\ninside = most = 0\nasync def answer(messages):\n    global inside, most\n    inside += 1\n"
        "    most = max(most, inside)\n    await asyncio.sleep(0.01)\n    inside -= 1\n    return str(most)"
    )
    endpoint = make(tmp_path, source, limits={"concurrency": 3})
    done = await asyncio.gather(*(endpoint.complete(REQUEST) for _ in range(20)))
    await endpoint.close()
    assert max(int(one.text or 0) for one in done) == 3


@pytest.mark.parametrize("source", ["async def answer(messages):\n    import asyncio\n    await asyncio.sleep(60)",
                                    "def answer(messages, tools):\n    tools[0]['wait'].wait(60)"])  # fmt: skip
async def test_it_is_waited_for_until_its_timeout_only(tmp_path: Path, source: str) -> None:
    let_go = threading.Event()
    endpoint = make(tmp_path, source, timeout_s=0.05)
    tools: Any = [{"wait": let_go}]
    with pytest.raises(TimedOutError, match=r"mine.py:answer gave no answer within 0.05 s"):
        await endpoint.complete(ChatRequest(messages=[], tools=tools))
    let_go.set()
    await endpoint.close()


def test_a_file_that_does_not_load_is_a_plugin_error(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"function: mine.py does not load: ZeroDivisionError"):
        make(tmp_path, "1 / 0")


def test_a_module_is_found_as_python_finds_it() -> None:
    endpoint = load_endpoint({"kind": "python", "function": "json:dumps"})
    assert endpoint.settings() == {"kind": "python", "function": "json:dumps"}


def test_a_module_that_is_not_found_may_be_meant_as_a_file() -> None:
    with pytest.raises(PluginError, match=r"No module named 'mine'.*is named mine.py:<function>"):
        load_endpoint({"kind": "python", "function": "mine:answer"})


def test_a_changed_file_is_another_endpoint(tmp_path: Path) -> None:
    settings = []
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        answer = "'x'" if folder != "b" else "'y'"
        settings.append(make(tmp_path / folder, f"def answer(messages):\n    return {answer}").answer_settings())
    assert settings[0] == settings[2] != settings[1]
