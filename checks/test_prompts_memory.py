"""No template that asks for too much takes more than 200 MB, or two seconds of processor time, before it ends."""

from __future__ import annotations

import time

import pytest
from tests.core.test_prompts_hostile import TOO_MUCH, memory_for
from tests.prompts_parts import make

from tunecheck._errors import PromptRenderError

_INNER = (
    "{{ a }}", "{{ a | length }}", "{{ a | upper | lower }}", "{{ b[i % 3].role }}:\n", "{% set x = a ~ a %}",
    "{% if a in a %}{% endif %}", "{{ a[1:] }}", "{{ b | map(attribute='role') | list }}", "{{ b | tojson }}",
    "{{ b | sort(attribute='content') }}", "{{ b | groupby('role') }}", "{{ a.split() }}", "{{ i ** 50 }}",
    "{% for m in b %}{{ m.role }}:\n{{ m.content }}\n{% endfor %}", "{{ '%s %s' | format(i, j) }}",
    "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(i) }}", "{% set ns = namespace(x=1) %}{% set ns.x = ns.x + 1 %}",
    "{{ loop.index }}{{ loop.cycle(1, 2) }}", "{% filter upper %}x{% endfilter %}", "{{ i is divisibleby 3 }}",
    "{{ a | replace('x', 'y') }}", "{{ b | selectattr('role', 'eq', 'user') | list }}", "user:\n", "![x](https://a/b.png)",
)  # fmt: skip
_LOOPS = {
    **{
        inner: "{% for i in range(99999) %}{% for j in range(99999) %}" + inner + "{% endfor %}" * 2 for inner in _INNER
    },
    "four loops": "{% for i in a %}{% for j in a %}{% for k in a %}{% for l in a %}{{ l }}" + "{% endfor %}" * 4,
}
_TALK = ", ".join(f"{{role: user, content: {text}}}" for text in "xyz")
_INPUTS = f"inputs: {{a: {{default: ''}}, b: {{default: [{_TALK}]}}}}\n"


def test_none_of_these_templates_takes_more_than_200_mb() -> None:
    assert memory_for([*TOO_MUCH.values()]) < 200


@pytest.mark.parametrize("body", [*TOO_MUCH.values(), *_LOOPS.values()], ids=[*TOO_MUCH, *_LOOPS])
def test_none_of_these_templates_takes_two_seconds(body: str) -> None:
    prompt = make(f"system:\n{body}\n", _INPUTS)
    before = time.process_time()
    with pytest.raises(PromptRenderError):
        prompt.render({"a": "xyz x" * 200})
    assert time.process_time() - before < 2
