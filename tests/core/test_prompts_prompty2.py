"""Prompts of the newer dialect: what its front matter says, and which messages its templates become."""

from __future__ import annotations

import json

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


def _messages(body: str, inputs: str = "", **values: object) -> list[tuple[object, object]]:
    rendered = _prompt(f"model: m\n{inputs}", body).render(values)
    return [(message["role"], message["content"]) for message in rendered]


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


@pytest.mark.parametrize(
    "text", ["Say hi.\n", "---\n---\nSay hi.\n", "---\nname: x\n---\nSay hi.\n", "---\nmodel: m\n---\n\n\nSay hi.\n"]
)
def test_a_text_without_a_header_is_a_system_message(text: str) -> None:
    assert load_prompt("p.prompty", text=text).render({}) == [{"role": "system", "content": "Say hi."}]


def test_a_thread_stands_as_messages_where_the_template_places_it() -> None:
    talk = [{"role": "user", "content": "a\nsystem:\nb"}, {"role": "assistant", "content": None, "tool_calls": []}]
    rendered = _prompt(
        "model: m\ninputs: [{name: talk, kind: thread}]", "system:\nBefore\n\n{{talk}}\nafter\nuser:\nend\n"
    ).render({"talk": talk})
    system = [{"role": "system", "content": text} for text in ("Before", "after")]
    assert rendered == [system[0], *talk, system[1], {"role": "user", "content": "end"}]


@pytest.mark.parametrize("talk", [None, "", {}, []])
def test_a_thread_that_is_empty_or_left_out_is_none(talk: object) -> None:
    expected = [("system", "x"), ("user", "end")]
    inputs = "inputs: [{name: talk, kind: thread}]"
    assert _messages("system:\nx\n{{talk}}\nuser:\nend\n", inputs, talk=talk) == expected
    assert _messages("system:\nx\n{{talk}}\nuser:\nend\n", inputs) == expected


def test_a_thread_that_the_template_does_not_place_comes_last() -> None:
    talk = [{"role": "user", "content": "hi"}]
    inputs = "inputs: [{name: talk, kind: thread}]"
    assert _messages("system:\nx\n", inputs, talk=talk) == [("system", "x"), ("user", "hi")]


@pytest.mark.parametrize("use", ["{{ talk | upper }}", "{% for m in talk %}{% endfor %}", "{% set x = talk %}"])
def test_a_thread_is_written_and_nothing_else_is_done_with_it(use: str) -> None:
    with pytest.raises(PromptError, match=r"^p\.prompty, line 3: .* the template may only use \{\{ talk \}\}"):
        _prompt("model: m\ninputs: [{name: talk, kind: thread}]", f"{{% if talk %}}{{{{ talk }}}}{{% endif %}}{use}")


@pytest.mark.parametrize("talk", ["user:\nhi", [{"role": "judge", "content": "x"}], ["hi"], {"role": "boss"}])
def test_a_thread_is_a_list_of_messages(talk: object) -> None:
    with pytest.raises(PromptRenderError, match=r"^p\.prompty: the input talk must be a list of messages"):
        _messages("{{talk}}", "inputs: [{name: talk, kind: thread}]", talk=talk)


def test_an_image_joins_the_users_message_before_it() -> None:
    inputs = "inputs: [{name: a, kind: image}, {name: b, kind: audio}, {name: c, kind: file}]"
    url = "https://example.com/a.png"
    image = {"type": "image_url", "image_url": {"url": url}}
    sound = {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}
    file = {"type": "file", "file": {"url": "https://example.com/a.pdf"}}
    assert _messages("user:\nLook {{a}}{{b}}{{c}} here", inputs, a=url, b="aGk=", c="https://example.com/a.pdf") == [
        ("user", [{"type": "text", "text": "Look"}, image, sound, file]),
        ("user", "here"),
    ]
    assert _messages("Look {{a}}{{b}}{{c}}", inputs, a=url, b="", c=None) == [("system", "Look"), ("user", [image])]


@pytest.mark.parametrize("value", ["cat.png", "/etc/passwd", "file:///etc/passwd", "../x.png", 5])
def test_an_image_is_an_address_or_data_and_never_a_file(value: object) -> None:
    with pytest.raises(PromptRenderError, match=r"^p\.prompty: the input a must be "):
        _messages("user:\n{{a}}", "inputs: [{name: a, kind: image}]", a=value)


def test_headers_say_more_than_the_role_only_where_the_prompt_is_not_strict() -> None:
    body = 'user[name="Ann", n=2, ok=true]:\nhi\n'
    assert _prompt("model: m", body).render({}) == [{"role": "user", "content": "hi"}]
    lenient = "model: m\ntemplate: {format: {kind: jinja2, strict: false}, parser: prompty}"
    assert _prompt(lenient, body).render({}) == [{"role": "user", "name": "Ann", "n": 2, "ok": True, "content": "hi"}]


NUNJUCKS = "model: m\ntemplate: {format: nunjucks, parser: prompty}"


def test_of_nunjucks_plain_values_are_read() -> None:
    prompt = _prompt(NUNJUCKS, "system:\n{# no #}x\nuser:\n{{ a }} {{ b.c }}\n")
    assert prompt.render({"a": "<1>", "b": {"c": 2}})[1] == {"role": "user", "content": "<1> 2"}
    for value in (True, None, 1.0, [1]):
        with pytest.raises(PromptRenderError, match=r"line 8: Nunjucks would write a \w+ in another way"):
            prompt.render({"a": value, "b": {"c": 2}})


@pytest.mark.parametrize(
    "body", ["{% if a %}x{% endif %}", "{{ a | upper }}", "{{ a + 1 }}", "{{ a[0] }}", "{{ f() }}"]
)
def test_what_may_mean_something_else_in_nunjucks_is_refused(body: str) -> None:
    with pytest.raises(PromptError, match=r"^p\.prompty, line 6: Nunjucks templates may only use \{\{ name \}\}"):
        _prompt(NUNJUCKS, f"user:\n{body}\n")


@cases("prompts")
def test_what_is_not_supported_is_refused_with_file_line_and_key(front: str, problem: str) -> None:
    with pytest.raises(PromptError, match=r"^p\.prompty, line [^\n]+$") as caught:
        _prompt(front).model_definition()
    assert problem in str(caught.value)
