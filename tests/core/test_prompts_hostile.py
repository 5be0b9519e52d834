"""A hostile template ends as an error: it neither runs code, nor opens files, nor writes without end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.prompts_parts import FRONT, make, messages, write

from tunecheck import PromptError, PromptRenderError
from tunecheck.prompts import load_prompt

TOO_MUCH = {
    "a long range": "{% for i in range(10**9) %}x{% endfor %}",
    "text in a macro": "{% macro m() %}{% for i in range(99999) %}" + "x" * 99 + "{% endfor %}{% endmacro %}{{ m() }}",
    "text in a capture": "{% set x %}{% for i in range(100000) %}" + "x" * 1000 + "{% endfor %}{% endset %}",
    "text in a filter": "{% filter upper %}{% for i in range(100000) %}" + "x" * 100 + "{% endfor %}{% endfilter %}",
    "recursion": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "a block in itself": "{% block b %}{{ self.b() }}{% endblock %}",
    "a loop in itself": "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
}  # fmt: skip

NOT_ALLOWED = {
    "classes": "{{ ''.__class__.__mro__ }}",
    "classes by item": "{{ ''['__class__'] }}",
    "classes by filter": "{{ '' | attr('__class__') }}",
    "globals": "{{ self.__init__.__globals__ }}",
    "globals of a function": "{{ range.__globals__ }}",
    "globals of a class": "{{ cycler.__init__.__globals__ }}",
    "a changed list": "{% set x = [] %}{{ x.append(1) }}",
    "a changed mapping": "{{ {}.update({}) }}",
    "a value's class": "{{ a.__class__ }}",
    "a method as text": "{{ {}.items }}",
    "a call of a value": "{{ a() }}",
    "a generator's frame": "{{ ([1] | map('abs')).gi_frame }}",
}

REFUSED = {
    "{% include '/etc/passwd' %}": "include, import and extends are not supported",
    "{% import 'os' as os %}": "include, import and extends are not supported",
    "{% from 'x' import y %}": "include, import and extends are not supported",
    "{% extends 'x' %}": "include, import and extends are not supported",
    "{% autoescape true %}x{% endautoescape %}": "the tag autoescape is not supported",
    "{{ a | uper }}": "there is no filter 'uper'; did you mean 'upper'?",
    "{{ [1] | random }}": "there is no filter 'random'",
    "{{ a is defind }}": "there is no test 'defind'; did you mean 'defined'?",
    "{% do 1 %}": "unknown tag 'do'",
    "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}": "nested too deeply",
    "{{ " + "-" * 50_000 + "1 }}": "nested too deeply",
    "{{ 1" + " + 1" * 5_000 + " }}": "cannot be compiled",
    "{% for i in [1] %}" * 100 + "{% endfor %}" * 100: "cannot be compiled",
    "x" * 300_000: "longer than 256 K",
}


@pytest.mark.parametrize("template", TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_template_that_asks_for_too_much_ends_as_an_error_with_its_line(template: str) -> None:
    with pytest.raises(PromptRenderError, match=r"^test\.prompty, line (9|10): [^\n]+$"):
        make(f"system:\n{template}\n").render({})


@pytest.mark.parametrize("template", NOT_ALLOWED.values(), ids=NOT_ALLOWED)
def test_a_template_reaches_nothing_but_its_values(template: str) -> None:
    prompt = make(f"system:\n{template}\n", "inputs: {a: {default: x}}\n")
    with pytest.raises(PromptRenderError, match=r"^test\.prompty, line 10: "):
        prompt.render({})


@pytest.mark.parametrize(("template", "problem"), REFUSED.items(), ids=[text[:30] for text in REFUSED])
def test_a_template_that_cannot_be_used_is_refused_when_it_is_loaded(template: str, problem: str) -> None:
    with pytest.raises(PromptError, match=r"^test\.prompty, line \d+: [^\n]+$") as caught:
        make(f"system:\n{template}\n")
    assert problem in str(caught.value)


LONG = {
    "blank lines": "\n" * 250_000,
    "marks": "#\n" * 120_000,
    "names": "name:\n" * 40_000,
    "roles": "user " * 50_000,
    "images": "![](" * 60_000,
    "openings": "![" * 120_000,
    "closings": "![]\n" * 60_000,
    "many images": "{% for i in range(100000) %}![]({% endfor %}",
    "many marks": "{% for i in range(100000) %}\n\n\n#\n#{% endfor %}",
    "colons": " :\n" * 80_000,
}


@pytest.mark.parametrize("body", LONG.values(), ids=LONG)
def test_splitting_takes_no_longer_than_the_text_is_long(body: str) -> None:
    # Quadratic work would not end within the test's time limit.
    [(role, content)] = messages(f"system:\n{body}\nend")
    assert role == "system"
    assert str(content).endswith("end")


def test_a_prompt_longer_than_one_may_be_is_an_error() -> None:
    with pytest.raises(PromptRenderError, match=r"^test\.prompty, line 8: the template writes more than 4 MB$"):
        messages("system:\n{% for i in range(100000) %}" + "x" * 1000 + "{% endfor %}")
    with pytest.raises(PromptRenderError, match="more than 4 MB"):
        messages("system:\n{{ a }}", a="x" * 5_000_000)
    with pytest.raises(PromptRenderError, match="more than 4 MB"):
        messages("system:\n{{ a }}", a=["x" * 3_000_000] * 2)


def test_a_value_that_is_no_data_is_an_error_of_the_row() -> None:
    with pytest.raises(PromptRenderError, match=r"test\.prompty: the input a\[0\]: a object has no JSON form"):
        messages("system:\n{{ a }}", a=[object()])


def test_values_are_not_changed_by_rendering() -> None:
    value = {"a": [1, {"b": 2}]}
    messages("system:\n{{ a }}{% set b = a.a + [3] %}{{ b }}", a=value)
    assert value == {"a": [1, {"b": 2}]}


AUDITED = """
import sys
from tunecheck.prompts._loading import load_prompt
from tunecheck._errors import PromptRenderError
bodies = {bodies!r}
prompts = [load_prompt("x.prompty", text={front!r} + "---\\nsystem:\\n" + body) for body in bodies]
prompts[0].render({{}})  # what is imported on first use is there by now
seen = []
watching = False
def watch(event, arguments):
    if watching and not event.startswith(("object.__getattr__", "sys._getframe")):
        seen.append((event, str(arguments)[:200]))
sys.addaudithook(watch)
for prompt in prompts:
    watching = True
    try:
        prompt.render({{}})
    except PromptRenderError:
        pass
    watching = False
assert not seen, seen[:5]
print("clean", len(prompts))
"""


def test_rendering_opens_no_file_and_runs_no_code() -> None:
    bodies = [
        "hello",
        *NOT_ALLOWED.values(),
        "{{ 1 / 0 }}",
        "{{ 'x' | int('y') }}{{ [1] | tojson }}{% set b = 2 %}{{ b }}",
    ]
    front = FRONT + "inputs: {a: {default: x}}\n"
    code = AUDITED.format(bodies=bodies, front=front)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.strip() == f"clean {len(bodies)}", done.stderr[-2000:]


def test_a_prompt_reads_a_few_files_only_and_not_too_much_of_them(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("x")
    references = "".join(f"  k{number}: '${{file:x.txt}}'\n" for number in range(21))
    with pytest.raises(
        PromptError, match=r"sample\.k20: 'x\.txt' is one file too many: a prompt may name at most 20 files"
    ):
        load_prompt(write(tmp_path, "p", "system:\n", f"sample:\n{references}"))
    with (tmp_path / "x.png").open("wb") as file:
        file.truncate(17 << 20)
    images = "".join(f"![]({'./' * number}x.png)" for number in range(4))
    with pytest.raises(PromptError, match=r"x\.png' is too large: a prompt's files may have 64 MB in all"):
        load_prompt(write(tmp_path, "p", f"system:\n{images}"))
