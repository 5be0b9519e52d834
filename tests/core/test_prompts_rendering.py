"""Rendered prompts of both dialects: roles, names, images, whitespace, definitions of models, and errors of one row."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.prompts_parts import make, messages, write
from tests.tables import cases

from tunecheck import PromptError, PromptRenderError
from tunecheck.prompts import Prompt, load_prompt


@cases("prompts")
def test_a_template_renders_as_these_messages(body: str, values: dict[str, Any], rendered: list[Any]) -> None:
    assert [[*message] for message in messages(body, **values)] == rendered


def test_a_function_message_has_a_name_and_its_content() -> None:
    [message] = make("function:\n## name:\nget_weather\n## content:\n{{ a }}\n").render({"a": {"t": 21}})
    assert message == {"role": "function", "name": "get_weather", "content": "{'t': 21}"}


@cases("prompts")
def test_a_prompt_that_cannot_be_rendered_says_why(body: str, values: dict[str, Any], problem: str) -> None:
    with pytest.raises(PromptRenderError, match=problem):
        messages(body, **values)


def test_a_tool_message_answers_a_call() -> None:
    body = "user:\nhi\ntool:\n## tool_call_id:\ncall_1\n## content:\n{{ a }}\nuser:\nand tool:\ntool:\nhammer\n"
    [_, tool, last] = make(body).render({"a": "21"})
    assert tool == {"role": "tool", "tool_call_id": "call_1", "content": "21"}
    assert last == {"role": "user", "content": "and tool:\ntool:\nhammer"}  # without an id it is text, as in Azure


CALLS: list[dict[str, object]] = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]


@pytest.mark.parametrize("written", ["{{ calls }}", "{{ calls | tojson }}", str(CALLS), f"\n {CALLS}\n"])
def test_an_assistants_calls_stand_below_their_own_header(written: str) -> None:
    _, message, last = make(f"system:\nx\n# assistant:\n## tool_calls:\n{written}\nuser:\ny").render(
        {"calls": CALLS} if "calls }}" in written or "tojson" in written else {}
    )
    assert message == {"role": "assistant", "tool_calls": CALLS}
    assert last["role"] == "user"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "None"), (True, "True"), (1.0, "1.0"), (10**30, "1" + "0" * 30), ([], "[]"), ({"é": "'"}, "{'é': \"'\"}"),
     ("\ud800", "\ud800"), ((1, "a"), "[1, 'a']")],
)  # fmt: skip
def test_values_are_written_as_python_writes_them_as_in_azure(value: object, text: str) -> None:
    assert messages("system:\n{{ a }}", a=value) == [("system", text)]


def test_images_become_parts_of_their_message(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "dot.PNG").write_bytes(b"\x89PNG")
    body = (
        "system:\nno image\nuser:\nSee ![one](sub/dot.PNG) and\n![two](https://example.com/a?b=c)\n"
        "![three](data:image/jpeg;base64,aGk=)![four](data:image/webp;path: sub/dot.PNG)\n"
    )
    [first, second] = load_prompt(write(tmp_path, "p", body)).render({})
    data = base64.b64encode(b"\x89PNG").decode()
    urls = (
        f"data:image/png;base64,{data}",
        "https://example.com/a?b=c",
        "data:image/jpeg;base64,aGk=",
        f"data:image/webp;base64,{data}",
    )
    shown = [{"type": "image_url", "image_url": {"url": url, "detail": "auto"}} for url in urls]
    text = [{"type": "text", "text": text} for text in ("See", "and")]
    assert first["content"] == "no image"
    assert second["content"] == [text[0], shown[0], text[1], *shown[1:]]


@pytest.mark.parametrize("link", ["../x.png", "/tmp/x.png", "missing.png", "link.png", "folder.png"])
def test_an_image_file_stands_in_the_prompts_folder(link: str, tmp_path: Path) -> None:
    folder = tmp_path / "prompts"
    folder.mkdir()
    (tmp_path / "x.png").write_bytes(b"x")
    (folder / "link.png").symlink_to(tmp_path / "x.png")
    (folder / "folder.png").mkdir()
    with pytest.raises(PromptError, match=r"p\.prompty, line 2: the image '"):
        load_prompt(write(folder, "p", f"user:\n![x]({link})\n"))


def test_an_unknown_value_is_refused_with_a_hint() -> None:
    with pytest.raises(PromptError, match=r"^test\.prompty: there is no input 'respons'; did you mean 'response'\?$"):
        messages("system:\n{{ response }}", respons="x")


@cases("prompts")
def test_an_error_of_the_template_names_its_line(expression: str, problem: str) -> None:
    with pytest.raises((PromptRenderError, PromptError)) as caught:
        messages(f"system:\n\n{{% if a %}}\n{{{{ {expression} }}}}\n{{% endif %}}\n", a={"x": "y"})
    assert problem in str(caught.value)
    assert str(caught.value).startswith("test.prompty, line 11: " if "input" not in problem else "test.prompty: ")


def test_one_prompt_renders_in_many_threads_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    prompt = make("system:\n{% for i in range(50) %}{{ a }}{% endfor %}\n\nuser:\n{{ a }}")
    with ThreadPoolExecutor(8) as pool:
        rendered = list(pool.map(lambda number: prompt.render({"a": number}), range(200)))
    for number, found in enumerate(rendered):
        assert found == [{"role": "system", "content": str(number) * 50}, {"role": "user", "content": str(number)}]


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
def test_a_newer_prompt_renders_as_these_messages(text: str, values: dict[str, Any], rendered: list[Any]) -> None:
    assert load_prompt("p.prompty", text=text).render(values) == rendered


@cases("prompts")
def test_what_the_newer_dialect_cannot_render_is_refused(text: str, values: dict[str, Any], problem: str) -> None:
    with pytest.raises(PromptRenderError if values else PromptError, match=problem):
        load_prompt("p.prompty", text=text).render(values)


@cases("prompts")
def test_what_is_not_supported_is_refused_with_file_line_and_key(front: str, problem: str) -> None:
    with pytest.raises(PromptError, match=r"^p\.prompty, line [^\n]+$") as caught:
        _prompt(front).model_definition()
    assert problem in str(caught.value)
