"""Prompts of the newer dialect: what its front matter says, and which messages its templates become."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.tables import cases

from tunecheck import PromptError, PromptRenderError
from tunecheck.prompts import Prompt, load_prompt


def _prompt(front: str, body: str = "user:\nhi\n") -> Prompt:
    return load_prompt("p.prompty", text=f"---\n{front}\n---\n{body}")


def test_the_secret_of_a_connection_stays_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "s3cret-s3cret")
    prompt = _prompt("model: {id: m, connection: {kind: key, apiKey: '${env:JUDGE_KEY}'}}")
    assert "s3cret" not in repr(prompt) + json.dumps([prompt.configuration, prompt.model_definition()])


@cases("prompts")
def test_other_connections_become_definitions_too(connection: str, provider: str, expected: dict[str, object]) -> None:
    definition = _prompt(f"model: {{id: j, provider: {provider}, connection: {connection}}}").model_definition()
    name = "model" if expected["kind"] == "openai" else "deployment"
    assert definition == {**expected, name: "j"}


def test_a_default_gives_way_to_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_URL", "https://set")
    connection = "{kind: anonymous, endpoint: '${env:JUDGE_URL:https://default}'}"
    definition = _prompt(f"model: {{id: j, connection: {connection}}}").model_definition()
    assert definition is not None
    assert definition["url"] == "${env:JUDGE_URL}"


@cases("prompts")
def test_a_prompt_of_the_newer_dialect_renders_as_these_messages(
    text: str, values: dict[str, Any], rendered: list[dict[str, Any]]
) -> None:
    assert load_prompt("p.prompty", text=text).render(values) == rendered


@cases("prompts")
def test_a_value_or_template_that_the_newer_dialect_cannot_render_is_refused(
    text: str, values: dict[str, Any], problem: str
) -> None:
    with pytest.raises(PromptRenderError if values else PromptError, match=problem):
        load_prompt("p.prompty", text=text).render(values)


@cases("prompts")
def test_what_is_not_supported_is_refused_with_file_line_and_key(front: str, problem: str) -> None:
    with pytest.raises(PromptError, match=r"^p\.prompty, line [^\n]+$") as caught:
        _prompt(front).model_definition()
    assert problem in str(caught.value)
