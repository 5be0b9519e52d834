"""The model that a prompt configures, and the page on prompts."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from tests.conftest import ROOT
from tests.prompts_parts import messages, write
from tests.tables import cases

from tunecheck import PromptError
from tunecheck.endpoints import load_endpoint
from tunecheck.plugins import JSON
from tunecheck.prompts import Prompt, load_prompt

SECRET = "sk-1234567890abcdef"


def _prompt(configuration: str) -> Prompt:
    text = f"---\nmodel:\n  configuration: {configuration}\n---\nuser:\nhi\n"
    return load_prompt("p.prompty", text=text)


@cases("prompts")
def test_a_model_configuration_becomes_this_endpoint_definition(
    configuration: str, definition: dict[str, JSON] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_MODEL", "gpt-4o")
    assert _prompt(configuration).model_definition() == definition


def test_a_prompt_without_a_model_has_no_definition() -> None:
    assert load_prompt("p.prompty", text="---\nname: x\n---\nuser:\nhi\n").model_definition() is None


@cases("prompts")
def test_every_definition_makes_an_endpoint(configuration: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JK", "AZURE_OPENAI_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://y.openai.azure.com")
    definition = _prompt(configuration).model_definition()
    assert definition is not None
    endpoint = load_endpoint(definition, name="judge")
    assert SECRET not in str(endpoint.settings())


WRITTEN_OUT: list[tuple[str, str]] = [
    (f"configuration: {{model: m, more: {{api_key: {SECRET}}}}}", "model.configuration.more.api_key"),
    (f"configuration: {{model: m, api_key: 'x${{env:K}}{SECRET}'}}", "model.configuration.api_key"),
    (f"parameters: {{extra_headers: {{api-key: {SECRET}}}}}", "model.parameters.extra_headers.api-key"),
    ("parameters: {extra_headers: {api-key: '${env:JUDGE_KEY}'}}", "model.parameters.extra_headers.api-key"),
]


@pytest.mark.parametrize(("model", "key"), WRITTEN_OUT)
def test_a_secret_in_the_file_is_refused_and_not_shown(model: str, key: str) -> None:
    with pytest.raises(PromptError) as caught:
        load_prompt("p.prompty", text=f"---\nmodel:\n  {model}\n---\nuser:\nhi\n")
    assert str(caught.value).startswith("p.prompty, line 3: ")
    assert key in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_key_in_a_file_that_the_prompt_names_is_refused_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "azure.json").write_text(f'{{"type": "openai", "model": "m", "api_key": "{SECRET}"}}')
    (tmp_path / "p.prompty").write_text("---\nmodel:\n  configuration: ${file:azure.json}\n---\nuser:\nhi\n")
    with pytest.raises(PromptError, match=r"model\.configuration\.api_key: .*write \$\{env:NAME\}") as caught:
        load_prompt(tmp_path / "p.prompty")
    assert SECRET not in str(caught.value)


def test_neither_the_prompt_nor_its_text_form_holds_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", SECRET)
    prompt = _prompt("{type: openai, model: m, api_key: '${env:JUDGE_KEY}'}")
    everything: list[JSON | bytes] = [repr(prompt), str(prompt.configuration), str(prompt.model_definition())]
    assert all(SECRET not in str(item) for item in everything)
    assert SECRET.encode() not in pickle.dumps(prompt)


def test_a_prompt_can_be_pickled_and_is_the_same_even_if_its_file_has_changed(tmp_path: Path) -> None:
    path = write(tmp_path, "p", "system:\n{{ a }}\n", "inputs: {a: {default: 1}}\n")
    prompt = load_prompt(path)
    frozen = pickle.dumps(prompt)
    path.write_text("other")
    thawed = pickle.loads(frozen)
    assert thawed.digest == prompt.digest
    assert thawed.path == path
    assert thawed.render({}) == prompt.render({}) == [{"role": "system", "content": "1"}]


def test_a_prompt_does_not_change() -> None:
    prompt = _prompt("{}")
    with pytest.raises(AttributeError):
        prompt.name = "other"  # type: ignore[misc]


PAGE = (ROOT / "docs" / "prompt-files.md").read_text("utf-8")


def test_the_pages_conversation_becomes_messages() -> None:
    [body] = re.findall(r"```jinja\n(.*?)```", PAGE, re.DOTALL)
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    roles = [role for role, _ in messages(body, chat_history=history, question="And?")]
    assert roles == ["system", "user", "assistant", "user"]
    line_by_line = body.replace("{{ item.role }}:\n{{ item.content }}", "{{ item.role }}: {{ item.content }}")
    assert [role for role, _ in messages(line_by_line, chat_history=history, question="And?")] == ["system", "user"]


def test_the_page_names_every_language_of_templates_and_every_input_that_is_no_text() -> None:
    from tunecheck.prompts._prompty2 import _LANGUAGES, _RICH

    for name in {*_LANGUAGES.values(), *_RICH} - {"jinja2"}:
        assert name in PAGE
