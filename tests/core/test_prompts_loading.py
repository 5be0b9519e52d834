"""Reading a `.prompty` file: its contents, the model that it configures, and the errors for a broken one."""

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.conftest import ROOT
from tests.prompts_parts import FRONT, make, messages, write
from tests.tables import cases

from tunecheck import ConfigurationError, PromptError, TunecheckError
from tunecheck.endpoints import load_endpoint
from tunecheck.plugins import JSON
from tunecheck.prompts import Prompt, PromptInput, load_prompt

BODY = "system:\n{{ a }}\n"


def _error(front: str, body: str = BODY) -> str:
    with pytest.raises(PromptError) as caught:
        load_prompt("p.prompty", text=f"---\n{front}\n---\n{body}").model_definition()
    return str(caught.value)


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = write(tmp_path, "quality", BODY, "outputs:\n  score:\n    type: int\n")
    prompt = load_prompt(path)
    assert prompt.path == path
    assert (prompt.name, prompt.dialect) == ("a test", "prompty1")
    assert prompt.parameters == {"temperature": 0}
    assert prompt.inputs == {"a": PromptInput("a")}
    assert prompt.outputs == {"score": {"type": "integer"}}
    assert (prompt.model_definition(), prompt.extra) == (None, {})


def test_a_name_may_be_left_out_and_is_then_the_files(tmp_path: Path) -> None:
    path = tmp_path / "relevance.prompty"
    path.write_text("---\n{}\n---\nuser:\nhi\n")
    assert load_prompt(str(path)).name == "relevance"


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    plain, windows = write(tmp_path, "a", "system:\nhi\nuser:\n{{ a }}\nyou\n"), tmp_path / "b.prompty"
    windows.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes().replace(b"\n", b"\r\n"))
    assert load_prompt(windows).render({"a": "x"}) == load_prompt(plain).render({"a": "x"})
    assert load_prompt(windows).digest == load_prompt(plain).digest


def test_a_rule_in_the_body_is_text() -> None:
    # Azure's loader takes the last line of dashes for the end of the front matter, and then refuses the file.
    prompt = load_prompt("p.prompty", text="---\nname: x\n---\nsystem:\nabove\n---\nbelow\n-----\nend\n")
    assert prompt.render({}) == [{"role": "system", "content": "above\n---\nbelow\n-----\nend"}]


def test_what_stands_before_the_front_matter_is_ignored_as_in_azure() -> None:
    prompt = load_prompt("p.prompty", text="# a comment\n\n----\nname: x\n---  \nuser:\nhi\n")
    assert prompt.name == "x"
    assert _line(_broken("# a comment\n\n----\nmodel: [\n---\nuser:\nhi\n")) in (4, 5)


def test_unknown_keys_are_ignored_as_in_azure() -> None:
    assert make(BODY, "authors: [me]\ntags: {x: 1}\nversion: 1\ntemplate: jinja2\n").render({"a": "x"})


def seen(prompt: Prompt) -> dict[str, object]:
    """Return everything that a line of the table may state about a prompt."""
    inputs = prompt.inputs.values()
    return {
        "name": prompt.name,
        "dialect": prompt.dialect,
        "inputs": [[one.name, one.type, one.required, one.default] for one in inputs],
        "outputs": prompt.outputs,
        "parameters": prompt.parameters,
        "extra": prompt.extra,
        "notes": [*prompt.notes],
        "definition": prompt.model_definition(),
    }


@cases("prompts")
def test_a_prompt_file_says_these_things(text: str, then: dict[str, object]) -> None:
    found = seen(load_prompt("p.prompty", text=text))
    assert {key: found[key] for key in then} == then


def test_a_default_counts_where_no_value_is_given_as_in_azure() -> None:
    body = "system:\n{{ a }} {{ b }}"
    front = "inputs:\n  a: {default: null}\n  b: {default: [1]}\n"
    assert make(body, front).render({}) == [{"role": "system", "content": "None [1]"}]
    assert make(body, front).render({"a": 1, "b": ""}) == [{"role": "system", "content": "1"}]


def test_a_variable_that_only_the_template_names_is_a_required_input() -> None:
    prompt = make("system:\n{{ b }}{% for x in c %}{{ x }}{% endfor %}{{ a }}", "inputs: {a: }\n")
    assert list(prompt.inputs) == ["a", "b", "c"]
    with pytest.raises(PromptError, match=r"^test\.prompty: no value is given for b, c: pass a value for each input$"):
        prompt.render({"a": 1})


def test_a_variable_that_the_template_looks_for_itself_may_be_left_out() -> None:
    prompt = make("system:\n{{ b | default('none') }} {% if c is defined %}{{ c }}{% endif %}.")
    assert [item.required for item in prompt.inputs.values()] == [False, False]
    assert prompt.render({}) == [{"role": "system", "content": "none ."}]
    assert prompt.render({"b": 1, "c": 2}) == [{"role": "system", "content": "1 2."}]


def test_a_sample_may_stand_in_a_json_file(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps({"a": "x", "more": [1]}))
    for form in ("one.json", "file:one.json", "${file:one.json}"):
        prompt = load_prompt(write(tmp_path, "p", BODY, f"sample: {form}\n"))
        assert list(prompt.inputs) == ["a", "more"]
        assert not prompt.inputs["more"].required


def test_a_sample_that_is_not_there_is_none(tmp_path: Path) -> None:
    prompt = load_prompt(write(tmp_path, "p", BODY, "sample: sample.json\n"))
    assert list(prompt.inputs) == ["a"]


def test_a_sample_is_never_used_as_a_value() -> None:
    with pytest.raises(PromptError, match="no value is given for a: pass"):
        make(BODY, "sample: {a: x}\n").render({})


def test_a_reference_to_a_file_is_its_content(tmp_path: Path) -> None:
    (tmp_path / "rules.txt").write_text("Be strict.\r\n", encoding="utf-8")
    (tmp_path / "parameters.yaml").write_text("max_tokens: 10\nstop: [x]\n")
    text = (
        "---\nmodel:\n  parameters: ${file:parameters.yaml}\ninputs:\n  rules:\n    default: ${file:rules.txt}\n---\n"
        "system:\n{{ rules }}!"
    )
    (tmp_path / "p.prompty").write_text(text)
    prompt = load_prompt(tmp_path / "p.prompty")
    assert prompt.parameters == {"max_tokens": 10, "stop": ["x"]}
    assert prompt.render({}) == [{"role": "system", "content": "Be strict.\n!"}]


def test_a_reference_to_the_environment_is_the_variables_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_EFFORT", "low")
    front = "---\nmodel: {parameters: {reasoning_effort: '${env:JUDGE_EFFORT}', x: 'a ${env:NOT} b'}}\n---\n"
    prompt = load_prompt("p.prompty", text=front + BODY)
    assert prompt.parameters == {"reasoning_effort": "low", "x": "a ${env:NOT} b"}


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/hostname", "link.txt", "missing.txt", ".", "a\0b"])
def test_a_reference_leads_nowhere_but_into_the_prompts_folder(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "prompts"
    folder.mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    quoted = json.dumps("${file:" + name + "}")
    path = write(folder, "p", BODY, f"inputs:\n  a:\n    default: {quoted}\n")
    with pytest.raises(PromptError, match=r"p\.prompty, line 9: inputs\.a\.default: ") as caught:
        load_prompt(path)
    assert "secret" not in str(caught.value)


def test_prompts_of_a_workspace_share_its_visible_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("prompty", "data", ".keys"):
        (tmp_path / name).mkdir()
    for name in ("data/p.json", "data/p.txt", ".keys/p.json"):
        (tmp_path / name).write_text('{"seed": 1}')
    monkeypatch.chdir(tmp_path)

    def loaded(name: str) -> object:
        text = f"---\nmodel: {{parameters: '${{file:{name}}}'}}\n---\nuser:\nhi\n"
        (tmp_path / "prompty" / "p.prompty").write_text(text)
        return load_prompt(tmp_path / "prompty" / "p.prompty").parameters

    assert loaded("../data/p.json") == {"seed": 1}
    for name in ("../data/p.txt", "../.keys/p.json"):
        with pytest.raises(PromptError, match="is outside the prompt's folder: move it there; only JSON"):
            loaded(name)
    monkeypatch.chdir(tmp_path / "data")
    with pytest.raises(PromptError, match="is outside the prompt's folder: move it there; only JSON"):
        loaded("../data/p.json")


@pytest.mark.parametrize("depth", [102, 300, 5_000])
def test_a_file_that_is_nested_too_deeply_is_an_error_of_its_key(depth: int, tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * depth + "]" * depth)
    path = write(tmp_path, "p", BODY, "inputs:\n  a:\n    default: ${file:deep.json}\n")
    problem = r"line 9: inputs\.a\.default: the file 'deep\.json': (the JSON is|lists and objects are) nested "
    with pytest.raises(PromptError, match=r"p\.prompty, " + problem):
        load_prompt(path)


def test_lists_around_a_file_count_for_its_depth(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100 + "]" * 100)
    path = write(tmp_path, "p", BODY, 'inputs:\n  a:\n    default: [["${file:deep.json}"]]\n')
    problem = r"p\.prompty, line \d+: inputs\.a: lists and objects are nested more than 100 levels"
    with pytest.raises(PromptError, match=problem):
        load_prompt(path)


def test_a_prompt_that_was_given_as_text_has_no_folder() -> None:
    assert "line 3: inputs.a: 'x.txt' cannot be read, because the prompt is a text" in _error(
        "inputs:\n  a: ${file:x.txt}"
    )


def test_prompts_that_render_alike_have_one_digest_and_others_another(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"1")
    body = "user:\n![x](x.png) {{ a }}"
    first = load_prompt(write(tmp_path, "p", body)).digest
    assert load_prompt(write(tmp_path, "q", body, "description: other\n")).digest == first
    assert load_prompt(write(tmp_path, "q", body + ".")).digest != first
    assert load_prompt(write(tmp_path, "q", body, "inputs: {a: {default: 1}}\n")).digest != first
    (tmp_path / "x.png").write_bytes(b"2")
    assert load_prompt(write(tmp_path, "p", body)).digest != first


@cases("prompts")
def test_the_error_for_a_broken_front_matter_names_file_line_and_key(front: str, problem: str) -> None:
    error = _error(front)
    assert error.startswith("p.prompty, line ")
    assert "\n" not in error
    if "\\d" in problem:
        assert _line(error) in (2, 3)
    else:
        assert problem in error


@cases("prompts")
def test_the_error_for_a_broken_template_names_its_line(body: str, problem: str) -> None:
    error = _error("name: x\nmodel: {api: chat}\n\n", body)
    assert error.startswith("p.prompty, line ")
    assert problem in error


@pytest.mark.parametrize("text", ["", "---\nname: x\n", "---\nname: x\n---", "--\na: 1\n--\nuser:\nx\n"])
def test_a_front_matter_that_is_not_closed_and_a_file_without_body_are_refused(text: str) -> None:
    assert _broken(text) == "p.prompty, line 1: a prompt needs YAML between two `---` lines and a template below them"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"the prompt .*none\.prompty cannot be read: No such file"):
        load_prompt(tmp_path / "none.prompty")
    with pytest.raises(PromptError, match="cannot be read"):
        load_prompt(tmp_path)
    with pytest.raises(PromptError, match="cannot be read"):
        load_prompt("a\0b")
    (tmp_path / "bytes.prompty").write_bytes(b"---\nname: x\n---\nuser:\n\xff\n")
    with pytest.raises(PromptError, match=r"bytes\.prompty, line 5 is not UTF-8 \(byte 22 of the file\)"):
        load_prompt(tmp_path / "bytes.prompty")
    (tmp_path / "large.prompty").write_bytes(b"x" * (1 << 21))
    with pytest.raises(PromptError, match="larger than 1 MB: make the file smaller"):
        load_prompt(tmp_path / "large.prompty")


def _broken(text: str) -> str:
    with pytest.raises(PromptError) as caught:
        load_prompt("p.prompty", text=text)
    return str(caught.value)


def _line(error: str) -> int:
    return int(error.split(" line ")[1].split(",")[0].split(":")[0])


WORDS = (
    "---", "\n", "\n", "\n", "  ", "model:", "inputs:", "outputs:", "sample:", "judge:", " a:", " {", "}", "[", "]",
    " 1", " api: chat", "- ", "type: string", "default: ", "${file:x}", "${env:PATH}", "&a", " *a", "!!x", '"', "'",
    "|", "kind: x", "system:\n", "user:\n", "{{ a }}", "{{", "}}", "{% if a %}", "{% endif %}", "{% for a in b %}",
    "{% endfor %}", "| join", "![x](", ")", "\t", "\u0000", "é", "function:\n", "name:\n", "content:\n",
    "threshold: 1", "configuration:", "parameters:",
)  # fmt: skip

garbage = st.lists(st.sampled_from(WORDS), max_size=30).map("".join)


@given(front=garbage | st.text(max_size=40), body=garbage | st.text(max_size=40), whole=st.booleans())
def test_whatever_a_file_holds_it_is_a_prompt_or_an_error_of_one_line(front: str, body: str, whole: bool) -> None:
    above = FRONT if len(front) % 2 else "---\n"
    text = front if whole else f"{above}{front}\n---\nsystem:\n{body}"
    try:
        prompt = load_prompt("p.prompty", text=text)
        prompt.model_definition()
        prompt.render(dict.fromkeys(prompt.inputs, "x"))
    except TunecheckError as error:
        assert str(error).startswith("p.prompty")
        assert "\n" not in str(error)
    else:
        assert isinstance(prompt, Prompt)


def test_prompt_errors_are_configuration_errors() -> None:
    assert issubclass(PromptError, ConfigurationError)


def test_the_room_is_imported_without_jinja() -> None:
    code = "import sys, tunecheck.prompts._prompt; print({'jinja2', 'prompty', 'aiohttp'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


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


@pytest.mark.parametrize(
    ("model", "key"),
    [
        (f"configuration: {{model: m, more: {{api_key: {SECRET}}}}}", "model.configuration.more.api_key"),
        (f"configuration: {{model: m, api_key: 'x${{env:K}}{SECRET}'}}", "model.configuration.api_key"),
        (f"parameters: {{extra_headers: {{api-key: {SECRET}}}}}", "model.parameters.extra_headers.api-key"),
        ("parameters: {extra_headers: {api-key: '${env:JUDGE_KEY}'}}", "model.parameters.extra_headers.api-key"),
    ],
)
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
    everything: list[JSON | bytes] = [repr(prompt), str(prompt.model_definition())]
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
    from tunecheck.prompts._prompty2 import _INSERTED_KINDS, _LANGUAGES

    for name in {*_LANGUAGES.values(), *_INSERTED_KINDS} - {"jinja2"}:
        assert name in PAGE
