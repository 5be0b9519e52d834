"""Scripted servers play what real servers do wrong: to requests, and to what their model says."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.scripted_rules import ScriptSource, read_script
from tests.serve_parts import Starter, asking, posted, servers
from tests.tables import cases

from tunecheck import ConfigurationError
from tunecheck.formats import read_calls
from tunecheck.plugins import dumps

TOOLS: Any = [{"type": "function", "function": {"name": name}} for name in ("maps.find", "plan")]

RULES = """
rules:
  - when: {last: tool}
    answer: It is near the river.
  - when: {user: find, tools: true}
    calls: [{name: maps.find, arguments: {city: Paris}}, {name: plan, arguments: {stops: [{city: Rome}]}}]
    reasoning: They want a city.
  - answer: I know no such place.
"""


@pytest.fixture
async def started() -> AsyncIterator[Starter]:
    async with servers() as start:
        yield start


def served(folder: Path, text: str) -> ScriptSource:
    path = folder / "script.yaml"
    path.write_text(textwrap.dedent(text) + RULES, "utf-8")
    return ScriptSource(read_script(path))


async def chat(url: str, messages: Any = None, **more: Any) -> tuple[int, Any]:
    body = {"messages": messages or asking("find Paris"), "tools": TOOLS, **more}
    status, reply, _ = await posted(f"{url}/v1/chat/completions", body)
    return status, reply


async def choice(start: Starter, folder: Path, behaviour: str) -> Any:
    _, reply = await chat(await start(served(folder, f"behaviour: {{{behaviour}}}")))
    return reply["choices"][0]


def called(message: Any) -> list[tuple[str, Any]]:
    return [(call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]]


FIND, PLAN = ("maps.find", '{"city":"Paris"}'), ("plan", '{"stops":[{"city":"Rome"}]}')


async def test_calls_are_given_as_an_api_gives_them(tmp_path: Path, started: Starter) -> None:
    answer = await choice(started, tmp_path, "")
    assert (called(answer["message"]), answer["finish_reason"]) == ([FIND, PLAN], "tool_calls")
    assert answer["message"]["reasoning_content"] == "They want a city."
    assert answer["message"]["content"] is None


@pytest.mark.parametrize(
    ("behaviour", "calls"),
    [
        ("one_call: true", [FIND]),
        ("names: underscored", [("maps_find", FIND[1]), PLAN]),
        ("names: 'functions.{}'", [("functions.maps.find", FIND[1]), ("functions.plan", PLAN[1])]),
        ("arguments: double_encoded", [(FIND[0], dumps(FIND[1]).decode()), (PLAN[0], dumps(PLAN[1]).decode())]),
        ("arguments: objects", [(FIND[0], {"city": "Paris"}), (PLAN[0], {"stops": [{"city": "Rome"}]})]),
        ("arguments: python", [(FIND[0], "{'city': 'Paris'}"), (PLAN[0], "{'stops': [{'city': 'Rome'}]}")]),
        ("arguments: nested_as_text", [FIND, (PLAN[0], '{"stops":"[{\\"city\\":\\"Rome\\"}]"}')]),
        ("repeat: 2", [FIND, PLAN, FIND, PLAN]),
        ("cut_at_tokens: 6", [(FIND[0], '{"city"')]),  # 24 characters, of which the thought takes 17
    ],
)
async def test_calls_can_reach_the_client_otherwise(
    tmp_path: Path, started: Starter, behaviour: str, calls: Any
) -> None:
    assert called((await choice(started, tmp_path, behaviour))["message"]) == calls


@pytest.mark.parametrize("family", ["hermes", "mistral", "llama", "glaive", "<call>{name}:{arguments}</call>"])
async def test_calls_can_be_left_in_the_text(tmp_path: Path, started: Starter, family: str) -> None:
    answer = await choice(started, tmp_path, f"calls_in_text: '{family}'")
    text = answer["message"]["content"]
    assert ("tool_calls" in answer["message"], answer["finish_reason"]) == (False, "stop")
    if "{name}" in family:
        assert text == f"<call>{FIND[0]}:{FIND[1]}</call><call>{PLAN[0]}:{PLAN[1]}</call>"
    else:
        assert [call.name for call in read_calls(text).calls] == ["maps.find", "plan"]


@cases("serve")
async def test_reasoning_stands_where_servers_put_it(
    tmp_path: Path, started: Starter, where: str, content: str | None, field: str | None
) -> None:
    message = (await choice(started, tmp_path, f"reasoning: {where}"))["message"]
    fields = [name for name in ("reasoning_content", "reasoning") if name in message]
    assert (message["content"], fields) == (content, [field] if field else [])


async def test_a_budget_may_be_spent_thinking(tmp_path: Path, started: Starter) -> None:
    answer = await choice(started, tmp_path, "cut_at_tokens: 2")
    assert (answer["message"]["reasoning_content"], answer["message"]["content"]) == ("They wan", None)
    assert ("tool_calls" in answer["message"], answer["finish_reason"]) == (False, "length")


async def test_text_can_end_in_a_stop_token_vary_and_give_a_wrong_reason(tmp_path: Path, started: Starter) -> None:
    behaviour = "behaviour: {stop_token: <|im_end|>, varies: true, finish_reason: length}"
    url = await started(served(tmp_path, behaviour))
    answers = [(await chat(url, asking("hello")))[1]["choices"][0] for _ in range(2)]
    assert [answer["message"]["content"] for answer in answers] == [
        "I know no such place. (1)<|im_end|>",
        "I know no such place. (2)<|im_end|>",
    ]
    assert answers[0]["finish_reason"] == "length"


async def test_a_rule_s_own_behaviour_goes_before_the_script_s(tmp_path: Path, started: Starter) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("behaviour: {stop_token: '</s>'}\nrules: [{answer: one, behaviour: {}, times: 1}, {answer: two}]")
    url = await started(ScriptSource(read_script(path)))
    texts = [(await chat(url))[1]["choices"][0]["message"]["content"] for _ in range(2)]
    assert texts == ["one", "two</s>"]


async def test_tools_that_are_not_rendered_cost_no_tokens_and_bring_no_calls(tmp_path: Path, started: Starter) -> None:
    url = await started(served(tmp_path, "server: {tools: ignored}"))
    (_, with_tools), (_, without) = await chat(url), await chat(url, tools=None)
    assert with_tools["choices"] == without["choices"]
    assert with_tools["usage"] == without["usage"]


RESULT: Any = [
    *asking("find Paris"),
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "maps.find"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "by the river"},
]


@pytest.mark.parametrize(
    ("results", "outcome"), [("ignored", "maps.find"), ("refused", "Conversation roles must alternate")]
)
async def test_tool_results_can_be_lost_or_refused(
    tmp_path: Path, started: Starter, results: str, outcome: str
) -> None:
    status, reply = await chat(await started(served(tmp_path, f"server: {{tool_results: {results}}}")), RESULT)
    assert status == (200 if results == "ignored" else 400)
    assert outcome in str(reply)
    assert "river" in str((await chat(await started(served(tmp_path, "server: {}")), RESULT))[1])


@cases("serve")
async def test_what_a_server_refuses_it_names(
    tmp_path: Path, started: Starter, server: str, body: Any, code: str, param: str
) -> None:
    status, reply = await chat(await started(served(tmp_path, f"server: {{{server}}}")), **body)
    assert (status, reply["error"]["code"], reply["error"]["param"]) == (400, code, param)


async def test_a_server_may_tell_no_usage_and_headers_of_its_own(tmp_path: Path, started: Starter) -> None:
    url = await started(served(tmp_path, "server: {usage: false, headers: {x-ratelimit-remaining-requests: '9'}}"))
    _, reply, headers = await posted(f"{url}/v1/chat/completions", {"messages": asking("x")})
    assert (reply["usage"], headers["x-ratelimit-remaining-requests"]) == (None, "9")


@cases("serve")
def test_a_behaviour_that_there_is_not_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        served(tmp_path, text)
    assert complaint in str(caught.value)
