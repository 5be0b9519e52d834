"""Prompts of the newer dialect: what its front matter says, and which messages its templates become."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.tables import cases

from tunecheck import PromptError, PromptRenderError
from tunecheck.plugins import JSON
from tunecheck.prompts import Prompt, load_prompt

FULL = """---
name: answer_quality
description: How good an answer is
model:
  id: gpt-4o
  provider: openai
  connection:
    kind: key
    endpoint: ${env:JUDGE_URL}
    apiKey: ${env:JUDGE_KEY}
  options:
    temperature: 0.5
    maxOutputTokens: 100
    stopSequences: [END]
    additionalProperties:
      logprobs: true
      stream: true
inputs:
  - name: question
    kind: string
    default: What is it?
  - name: answer
    kind: string
    required: true
    example: A cat.
  - name: note
    kind: string
    required: false
outputs:
  - name: score
    kind: integer
    description: from 1 to 5
  - name: tags
    kind: array
    items:
      kind: string
template:
  format:
    kind: jinja2
  parser:
    kind: prompty
judge:
  threshold: 3
---
system:
Judge.
user:
{{ question }} {{ answer }}{{ note }} {{ other }}
"""


def _prompt(front: str, body: str = "user:\nhi\n") -> Prompt:
    return load_prompt("p.prompty", text=f"---\n{front}\n---\n{body}")


def test_the_front_matter_says_the_same_as_in_the_older_dialect() -> None:
    prompt = load_prompt("p.prompty", text=FULL)
    assert (prompt.name, prompt.dialect, prompt.description) == ("answer_quality", "prompty2", "How good an answer is")
    inputs = {item.name: (item.type, item.required, item.default, item.sample) for item in prompt.inputs.values()}
    assert inputs == {
        "question": ("string", False, "What is it?", None),
        "answer": ("string", True, None, "A cat."),
        "note": ("string", False, "", None),
        "other": (None, True, None, None),
    }
    assert prompt.outputs == {
        "score": {"type": "integer", "description": "from 1 to 5"},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    assert prompt.parameters == {
        "temperature": 0.5, "max_completion_tokens": 100, "stop": ["END"], "logprobs": True
    }  # fmt: skip
    assert prompt.extra == {"threshold": 3}


def test_inputs_may_stand_by_name_and_have_all_sorts_of_types() -> None:
    prompt = _prompt(
        "inputs:\n  a: {kind: object, properties: {b: {kind: float, required: true}}}\noutputs:\n"
        "  c: {kind: union, anyOf: [{kind: string}, {kind: integer}], nullable: true}\n"
        "  d: {kind: string, enumValues: [x, y]}\n  e: {kind: object, properties: [{name: f, kind: boolean}]}"
    )
    assert prompt.inputs["a"].type == "object"
    assert prompt.outputs == {
        "c": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        "d": {"type": "string", "enum": ["x", "y"]},
        "e": {"type": "object", "properties": {"f": {"type": "boolean"}}},
    }


def test_an_input_may_be_given_as_an_example_alone() -> None:
    inputs = _prompt("model: m\ninputs: {a: Paris, b: 2, c: true, d: 1.5}").inputs
    kinds = {name: (item.type, item.sample, item.required) for name, item in inputs.items()}
    assert kinds == {
        "a": ("string", "Paris", True),
        "b": ("integer", 2, True),
        "c": ("boolean", True, True),
        "d": ("float", 1.5, True),
    }


TOOLS = """model: m
tools:
  - name: get_weather
    kind: function
    description: The weather
    strict: true
    parameters:
      - {name: city, kind: string, required: true}
      - {name: unit, kind: string, enumValues: [c, f]}
      - {name: user, kind: string}
    bindings: {user: {input: user_id}}
  - name: files
    kind: mcp
    serverName: s
"""


def test_functions_are_offered_with_the_request_and_other_tools_are_not() -> None:
    unit: JSON = {"type": ["string", "null"], "enum": ["c", "f", None]}
    prompt = _prompt(TOOLS)
    assert prompt.notes == ("p.prompty, line 13: tools.1: a tool of kind mcp is not offered to the model: no function",)
    assert prompt.parameters["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "The weather",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "unit": unit},
                    "required": ["city", "unit"],
                    "additionalProperties": False,
                },
                "strict": True,
            },
        }
    ]


def test_the_connection_becomes_an_endpoint_definition_whose_secret_stays_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "s3cret-s3cret")
    prompt = load_prompt("p.prompty", text=FULL)
    assert prompt.model_definition() == {
        "kind": "openai",
        "url": "${env:JUDGE_URL}",
        "model": "gpt-4o",
        "auth": {"type": "key", "value": "${env:JUDGE_KEY}"},
    }
    assert "s3cret" not in repr(prompt) + json.dumps(prompt.configuration)


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
