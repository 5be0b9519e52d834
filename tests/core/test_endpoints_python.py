"""Endpoints in a user's own code: functions and kinds of one's own."""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from tests.cli_parts import here
from tests.endpoint_parts import ask_once, user
from tests.tables import cases

from tunecheck import (
    ConfigurationError,
    EndpointError,
    PluginError,
    ReplyError,
    ThrottledError,
    TimedOutError,
    evaluate,
)
from tunecheck.endpoints import ChatRequest, Completion, EndpointTarget, PythonEndpoint, check_endpoint, load_endpoint
from tunecheck.prompts import load_prompt

CALL: dict[str, Any] = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
REQUEST = ChatRequest(messages=[{"role": "user", "content": "hi"}], tools=[CALL], parameters={"b": 2})


def make(folder: Path, source: str, **values: Any) -> PythonEndpoint:
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(source)
    endpoint = load_endpoint({"kind": "python", "function": "mine.py:answer", **values}, workspace=folder)
    assert isinstance(endpoint, PythonEndpoint)
    return endpoint


async def ask(endpoint: PythonEndpoint) -> Completion:
    return await ask_once(endpoint, REQUEST)


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.py").write_text("def answer(messages): return 'at home'")
    endpoint = load_endpoint({"kind": "python", "function": "~/mine.py:answer"}, workspace=tmp_path / "elsewhere")
    assert asyncio.run(ask_once(endpoint, REQUEST)).text == "at home"


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
    assert (await ask(make(tmp_path / "b", source.format([CALL])))).tool_calls == (CALL,)
    source = (
        "from tunecheck.endpoints import Completion\ndef answer(messages):\n    return Completion('x', request_id='r')"
    )
    assert await ask(make(tmp_path / "c", source)) == Completion("x", request_id="r")


async def test_a_callable_object_will_do(tmp_path: Path) -> None:
    source = "class A:\n    async def __call__(self, messages):\n        return 'async object'\nanswer = A()"
    assert (await ask(make(tmp_path, source))).text == "async object"


async def test_what_it_raises_is_that_calls_error_in_one_line(tmp_path: Path) -> None:
    endpoint = make(tmp_path, "def answer(messages):\n    raise KeyError('a\\nb')")
    with pytest.raises(EndpointError, match=r"^mine.py:answer raised KeyError: 'a\\nb'$"):
        await ask(endpoint)


async def test_what_has_no_json_form_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(EndpointError, match=r"raised TypeError: .*object"):
        await ask(make(tmp_path, "def answer(messages):\n    return object()"))
    with pytest.raises(ReplyError, match="returned a value that is not an answer"):
        await ask(make(tmp_path, "def answer(messages):\n    return {'choices': []}"))


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
                                    "def answer(messages):\n    import time\n    time.sleep(60)"])  # fmt: skip
async def test_it_is_waited_for_until_its_timeout_only(tmp_path: Path, source: str) -> None:
    endpoint = make(tmp_path, source, timeout_s=0.05)
    with pytest.raises(
        TimedOutError, match=r"mine.py:answer .timeout_s: 0.05.: the call took longer than its time limit of 0.05 s"
    ):
        await endpoint.complete(ChatRequest(messages=[]))
    await endpoint.close()


def test_a_file_that_does_not_load_is_a_plugin_error(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"function: mine.py does not load: ZeroDivisionError"):
        make(tmp_path, "1 / 0")


def test_a_module_is_found_as_python_finds_it() -> None:
    endpoint = load_endpoint({"kind": "python", "function": "json:dumps"})
    assert endpoint.settings() == {"kind": "python", "function": "json:dumps"}


def test_a_module_that_is_not_found_may_be_meant_as_a_file() -> None:
    with pytest.raises(PluginError, match=r"No module named 'mine'.*write mine.py:answer"):
        load_endpoint({"kind": "python", "function": "mine:answer"})


def test_a_changed_file_is_another_endpoint(tmp_path: Path) -> None:
    settings = []
    for folder in ("a", "b", "c"):
        answer = "'x'" if folder != "b" else "'y'"
        settings.append(make(tmp_path / folder, f"def answer(messages):\n    return {answer}").answer_settings())
    assert settings[0] == settings[2] != settings[1]


# -- in a process of its own


async def test_an_error_of_ours_and_an_answer_come_through_as_they_are(tmp_path: Path) -> None:
    source = "from tunecheck import ThrottledError\ndef answer(messages):\n    raise ThrottledError('slow down')"
    endpoint = make(tmp_path, source)
    with pytest.raises(ThrottledError, match="slow down"):
        await ask(endpoint)


def test_a_run_calls_the_function_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import os\ndef answer(messages):\n    return str(os.getpid())")
    endpoint = load_endpoint({"kind": "python", "function": "mine.py:answer"}, workspace=tmp_path)
    evaluators = {"n": lambda response: 1}
    made = evaluate(data=[{"query": "who?"}], target=endpoint, evaluators=evaluators, results_dir=tmp_path)
    (row,) = cast("list[dict[str, Any]]", made["rows"])
    assert row["outputs.text"].isdecimal()
    assert row["outputs.text"] != str(os.getpid())


PAGE = (Path(__file__).parents[2] / "docs" / "endpoints.md").read_text("utf-8")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "endpoints"
    folder.mkdir()
    files = r"```\w+\n# endpoints/(keyword_bot\.py|bot\.yaml|mirror\.py)\n(.*?)```\n"
    for name, text in re.findall(files, PAGE, re.DOTALL):
        (folder / name).write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_the_example_of_the_page_answers(workspace: Path) -> None:
    endpoint = load_endpoint("bot")
    assert (endpoint.name, endpoint.kind) == ("bot", "keyword_bot")
    assert (await endpoint.complete(user("What is the capital of Portugal?"))).text == "Lisbon"
    assert (await endpoint.complete(user("Who are you?"))).text == "I do not know."
    assert endpoint.settings() == {"kind": "keyword_bot", "answers": {"capital": "Lisbon", "weather": "sunny"}}
    assert (await check_endpoint(endpoint)).ok


async def test_the_pages_example_masks_what_a_prompt_takes_from_the_environment(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TC_USER", "ann-4f3G9a8B")
    file = workspace / "asked.prompty"
    file.write_text('---\nmodel: {parameters: {user: "${env:TC_USER}"}}\n---\nuser:\nWho am I?\n')
    prompt = load_prompt(file)
    endpoint = load_endpoint({"kind": "mirror"})
    endpoint.hide(prompt.secrets)
    answer = await endpoint.complete(ChatRequest(prompt.render({}), parameters=prompt.parameters))
    assert (answer.text, answer.masked) == ("*** asked: Who am I?", True)


@pytest.mark.parametrize(("kind", "others"), [("azure_ml", {"api"}), ("openai", {"request", "response"})])
def test_the_common_keys_of_the_page_are_read(kind: str, others: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "a-key-of-mine-1234")
    keys = yaml.safe_load(PAGE.partition("## Common keys\n\n```yaml\n")[2].partition("```")[0])
    own = {"kind": kind, "url": "https://models.example", **({"model": "m"} if kind == "openai" else {})}
    definition = {**own, **{key: value for key, value in keys.items() if key not in others}}
    assert load_endpoint(definition).kind == kind


def test_the_workspace_may_lie_elsewhere(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "elsewhere").mkdir()
    monkeypatch.chdir(workspace / "elsewhere")
    with pytest.raises(ConfigurationError, match="no endpoint definition 'bot'"):
        load_endpoint("bot")
    assert load_endpoint("bot", workspace=workspace).kind == "keyword_bot"
    assert load_endpoint({"kind": "keyword_bot", "answers": {}}, workspace=workspace).name == "keyword_bot"


@cases("endpoints")
def test_mistakes_in_its_definition_name_file_line_and_key(workspace: Path, text: str, message: str) -> None:
    (workspace / "endpoints" / "bot.yaml").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_endpoint("bot")
    assert message in str(caught.value)


def test_a_file_that_does_not_load_is_one_line(workspace: Path) -> None:
    (workspace / "endpoints" / "keyword_bot.py").write_text("import nothing_of_that_name")
    with pytest.raises(PluginError, match=r"bot\.yaml, line 1: kind: plug-in 'keyword_bot' .* does not load: Module"):
        load_endpoint("bot")


def test_another_source_or_definition_is_another_endpoint(workspace: Path) -> None:
    first = EndpointTarget(load_endpoint("bot")).fingerprint()
    assert EndpointTarget(load_endpoint("bot")).fingerprint() == first
    source = workspace / "endpoints" / "keyword_bot.py"
    source.write_text(source.read_text() + "\n# changed\n")
    changed = EndpointTarget(load_endpoint("bot")).fingerprint()
    (workspace / "endpoints" / "bot.yaml").write_text("kind: keyword_bot\nanswers: {}")
    assert len({first, changed, EndpointTarget(load_endpoint("bot")).fingerprint()}) == 3


def test_the_command_asks_it(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"query": "How is the weather?", "answer": "sunny"}
    (workspace / "rows.jsonl").write_text(json.dumps(row) + "\n")
    said = here(capsys, "evaluate", "--dataset", "rows.jsonl", "--endpoint", "bot", "--evaluators", "f1_score",
               "--mapping", "ground_truth=${data.answer}", "--mapping", "response=${target.response}")  # fmt: skip
    assert said.code == 0, said.err
    (results,) = (workspace / "eval_results").glob("*/eval_results.jsonl")
    assert '"outputs.response":"sunny"' in results.read_text()
