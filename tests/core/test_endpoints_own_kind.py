"""A kind of endpoint in a file of the workspace: the page's own example, and what its mistakes are answered with."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from tests.cli_parts import here
from tests.endpoint_parts import user
from tests.tables import cases

from tunecheck import ConfigurationError, PluginError
from tunecheck.endpoints import ChatRequest, EndpointTarget, check_endpoint, load_endpoint
from tunecheck.prompts import load_prompt

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
    with pytest.raises(PluginError, match=r"bot\.yaml, line 1: kind: plugin 'keyword_bot' .* does not load: Module"):
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
