"""How families are shown tools and write calls: what is written is read back by the same profile."""

from typing import Any

import pytest

from tunecheck.calls import FunctionCall
from tunecheck.formats import Profile, ToolPrompt, read_calls
from tunecheck.formats._families import families_with_marks, family

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "book",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "late": {"type": "boolean"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "guest": {"type": "object"},
                },
            },
        },
    }
]
CALLS = [
    FunctionCall("book", {"city": "São Paulo", "days": 3, "late": True, "tags": ["a b", "c"], "guest": {"age": 41}}),
    FunctionCall("book", {"city": "{name} <b>", "days": -1}),
]
PROFILES = families_with_marks()


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_calls_that_are_written_are_read_back_by_the_same_profile(profile: Profile) -> None:
    assert profile.prompt is not None
    for calls in (CALLS[:1], CALLS):
        reading = read_calls(profile.prompt.written(calls), tools=TOOLS, format=profile)
        assert (reading.problem, list(reading.calls)) == (None, calls)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_the_prompt_shows_the_definitions_and_the_form_of_a_call(profile: Profile) -> None:
    assert profile.prompt is not None
    system = profile.prompt.system(TOOLS)
    assert '"late":{"type":"boolean"}' in system
    assert profile.prompt.written([FunctionCall("function_name", {"parameter_name": "value"})]) in system


def test_values_within_values_are_written_as_the_family_writes_them() -> None:
    call = [FunctionCall("book", {"guest": {"names": ["Ann", "Bo"], "age": 41}})]
    written = {name: _prompt(name).written(call) for name in ("gemma4", "functiongemma", "minimax_m3", "kimi_k3")}
    assert written["gemma4"] == '<|tool_call>call:book{guest:{names:[<|"|>Ann<|"|>,<|"|>Bo<|"|>],age:41}}<tool_call|>'
    assert "call:book{guest:{names:[<escape>Ann<escape>,<escape>Bo<escape>],age:41}}" in written["functiongemma"]
    plain = written["minimax_m3"].replace("]<]minimax[>[", "")
    assert "<guest><names><item>Ann</item><item>Bo</item></names><age>41</age></guest>" in plain
    assert '<|open|>argument key="guest" type="object"<|sep|>' in written["kimi_k3"]


def test_an_agent_is_told_what_its_one_call_came_to() -> None:
    prompt = _prompt("react")
    assert prompt.written(CALLS[:1]).startswith('Action: book\nAction Input: {"city":"São Paulo"')
    assert prompt.results(["sun"]) == "Observation: sun"


def _prompt(name: str) -> ToolPrompt:
    prompt = family(name).prompt
    assert prompt is not None
    return prompt
