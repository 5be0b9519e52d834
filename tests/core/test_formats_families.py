"""Raw output of model families that no server parsed, read as calls by their marks and the row's tools."""

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.matching_parts import WEATHER_TOOLS as TOOLS
from tests.tables import cases, table

from tunecheck import FunctionCallMatchEvaluator, PluginError, read_calls
from tunecheck.calls import FunctionCall
from tunecheck.evaluators import input_text
from tunecheck.formats import JsonCalls, NamedCalls, Profile, choose_profile, server_parsers
from tunecheck.formats._collector import may_hold_marks
from tunecheck.formats._families import ANSWERS, known_marks
from tunecheck.pipeline import row_kind_reader
from tunecheck_bfcl import CallCheckEvaluator

WEATHER = FunctionCall("get_weather", {"city": "Paris", "days": 3})
STOP = FunctionCall("stop")
JSON = '{"city": "Paris", "days": 3}'

CASES = table(Path(__file__).parent / "cases" / "formats.jsonl")
BOTH: dict[str, str] = {row["family"]: row["text"] for row in CASES if "family" in row}
"""The two calls in the form of each family."""


def test_a_family_of_an_unknown_name_is_named_with_what_was_meant() -> None:
    with pytest.raises(PluginError, match="there is no 'hermess' among the formats; did you mean 'hermes'"):
        read_calls("x", format="hermess")


@cases("formats")
def test_tags_are_read_as_servers_read_them_whatever_models_and_tokenizers_make_of_them(text: str) -> None:
    assert read_calls(text, tools=TOOLS).calls == (FunctionCall("get_weather", {"city": "New York", "days": 3}),)


@cases("formats")
def test_minicpm_escapes_values_as_xml_does(written: str, meant: str) -> None:
    text = f'<function name="get_weather"><param name="city">{written}</param></function>'
    assert read_calls(text, tools=TOOLS).calls == (FunctionCall("get_weather", {"city": meant}),)


def test_letters_of_maltese_are_no_spaces() -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Ħal Għargħur, Ġonna ta\' Ċikku"}}</tool_call>'
    assert read_calls(text, tools=TOOLS).calls[0].arguments == {"city": "Ħal Għargħur, Ġonna ta' Ċikku"}


@cases("formats")
def test_what_is_left_without_special_tokens_is_a_call_only_with_the_name_of_a_tool(text: str) -> None:
    assert read_calls(text, tools=TOOLS).calls == (WEATHER,)
    other = text.replace("get_weather", "get_water").replace("get\\_weather", "get\\_water")
    assert read_calls(other, tools=TOOLS).calls in ((), unknown(text))


def unknown(text: str) -> tuple[FunctionCall, ...]:
    """Harmony's recipient, a fenced action and Gemini's tag are unmistakable whatever the name."""
    sure = any(mark in text for mark in ("to=functions", "Action:\n```", "<tool_code>"))
    return (FunctionCall("get_water", WEATHER.arguments),) if sure else ()


@pytest.mark.parametrize("data", [[{"paris": {"weather": "sunny"}}], {"answer": {"text": "sunny"}}])
def test_nor_is_data_that_is_no_text(data: Any) -> None:
    assert read_calls(data, tools=TOOLS).calls == ()
    found = FunctionCallMatchEvaluator()(response=data, ground_truth="It is sunny.", tool_definitions=TOOLS)
    assert found["function_call_match"] == 1.0
    assert row_kind_reader({"default": {}})({"ground_truth": data, "tool_definitions": TOOLS}, {}) == "answer"
    assert input_text(data, TOOLS) == json.dumps(data, separators=(",", ":"))


def test_a_bare_call_of_a_tool_is_one_wherever_a_row_is_read() -> None:
    text = "get_weather(city='Paris', days=3)"
    found = FunctionCallMatchEvaluator()(response=text, ground_truth=text, tool_definitions=TOOLS)
    assert found["function_call_match"] == 1.0
    assert row_kind_reader({"default": {}})({"ground_truth": text, "tool_definitions": TOOLS}, {}) == "call"
    assert input_text(text, TOOLS) == input_text([{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}])
    answer = [{"get_weather": {"city": ["Paris"], "days": [3]}}]
    evaluator = CallCheckEvaluator(compat="strict")
    assert evaluator(response=text, tools=TOOLS, ground_truth=answer)["call_check"] == 1.0
    assert evaluator(response=text, tools=TOOLS, check="irrelevance")["call_check"] == 0.0


THOUGHT = 'Maybe <tool_call>{"name": "stop"}</tool_call>? No.'


@cases("formats")
def test_a_call_in_a_thought_is_no_call(opening: str, closing: str) -> None:
    reading = read_calls(f"{opening}{THOUGHT}{closing}\n\n{BOTH['qwen3_coder']}", tools=TOOLS)
    assert (reading.calls, reading.reasoning) == ((WEATHER, STOP), THOUGHT)
    assert read_calls(f"{opening}{THOUGHT}{closing}Sunny.", tools=TOOLS).calls == ()


@cases("formats")
def test_replies_of_other_apis_are_read_with_what_was_thought(reply: object) -> None:
    for value in (reply, json.dumps(reply)):
        reading = read_calls(value)
        assert (reading.calls, reading.reasoning) == ((WEATHER,), "Hm.")


def test_a_workspaces_family_is_chosen_by_its_files_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "formats").mkdir()
    (tmp_path / "formats" / "acme.py").write_text(
        "from tunecheck.formats import JsonCalls, NamedCalls, Profile\n"
        'acme = Profile("acme", JsonCalls(), marks=("<call>",), closes=("</call>",))\n'
    )
    monkeypatch.chdir(tmp_path)
    text = f'So: <call>{{"name": "get_weather", "arguments": {JSON}}}</call>'
    assert read_calls(text, format="acme").calls == (WEATHER,)
    assert read_calls(text, format=Profile("mine", JsonCalls(), marks=("<call>",))).calls == (WEATHER,)
    assert read_calls(text).calls == ()
    verdict = FunctionCallMatchEvaluator(format="acme")(response=text, ground_truth=[{"get_weather": JSON}])
    assert verdict["function_call_match"] == 1.0


def test_an_evaluator_reads_a_familys_text_by_the_tools_of_the_row() -> None:
    wanted = [{"name": "set_code", "arguments": {"code": "00123", "on": True}}]
    code = "<arg_key>code</arg_key><arg_value>00123</arg_value>"
    on = "<arg_key>on</arg_key><arg_value>true</arg_value>"
    text = f"<tool_call>set_code{code}{on}</tool_call>"
    evaluator = FunctionCallMatchEvaluator()
    assert evaluator(response=text, ground_truth=wanted, tool_definitions=TOOLS)["function_call_match"] == 1.0


def test_a_chosen_family_is_what_call_check_reads() -> None:
    text = f"<call>get_weather={JSON}</call>"
    profile = Profile("mine", NamedCalls(re.compile(r"(?P<name>\w+)=")), marks=("<call>",), closes=("</call>",))
    row = {"response": text, "tools": TOOLS, "ground_truth": [{"get_weather": {"city": ["Paris"], "days": [3]}}]}
    assert CallCheckEvaluator(compat="strict", format=profile)(**row)["call_check"] == 1.0
    assert CallCheckEvaluator(compat="strict")(**row)["call_check"] == 0.0


def test_call_check_takes_what_was_read_and_counts_calls_of_functions_that_nobody_offered() -> None:
    possible = [{"get_weather": {"city": ["Paris"], "days": [3]}}]
    reading = read_calls(BOTH["glm"].partition("\n<tool_call>stop")[0], tools=TOOLS)
    assert CallCheckEvaluator()(response=reading, tools=TOOLS, ground_truth=possible)["call_check"] == 1.0
    for text, passed in (
        ('{"name": "get_water", "arguments": {}}', 0.0),
        ("[None of the tools (or functions) fits.]", 1.0),
    ):
        reading = read_calls(text, tools=TOOLS)
        assert reading.calls == () and read_calls(reading) is reading
        found = CallCheckEvaluator(compat="bfcl")(response=reading, tools=TOOLS, check="irrelevance")
        assert found["call_check"] == passed


def test_mutated_texts_of_all_families_raise_nothing() -> None:
    chance = random.Random(13)
    pieces = [
        *("<think>", "</think>", "{", "]", "</parameter>", "<tool_call>", "[f(", '"', "'", ">", "get_weather"),
        *("\n", ""),
    ]
    for _ in range(4_000):
        text = chance.choice(list(BOTH.values()))
        for _ in range(chance.randint(1, 4)):
            start = chance.randint(0, len(text))
            text = text[:start] + chance.choice(pieces) + text[start + chance.randint(0, 12) :]
        read_calls(text, tools=TOOLS)


@cases("formats")
def test_a_long_text_of_any_family_is_read_in_the_time_that_its_length_takes(piece: str) -> None:
    read_calls(piece * (900_000 // len(piece)), tools=TOOLS)


@cases("formats")
def test_what_names_a_tool_and_cannot_be_read_is_unreadable(text: str, reason: str | None) -> None:
    reading = read_calls(text, tools=TOOLS)
    if reason is None:
        assert (reading.calls, reading.text) == ((WEATHER, STOP), "Let me look.")
    else:
        assert reading.complete_calls == ()
        assert reason in str(reading.problem)


def test_no_mark_of_a_family_passes_for_prose() -> None:
    known = known_marks()
    marks = (*known.profiles, *known.by_opening, *known.endings, *ANSWERS)
    assert [mark for mark in marks if not may_hold_marks(f"Well. {mark}")] == []


@cases("formats")
def test_the_variant_of_the_text_decides_which_parser_reads_it(text: str, vllm: str) -> None:
    family = {"bfcl_text": "pythonic", "function_call": "json", "llama": "json"}
    read = str(read_calls(text, tools=TOOLS).format)
    parsers = server_parsers(family.get(read, read), text)
    assert parsers is not None and parsers.vllm == vllm


@given(st.sampled_from([*BOTH]), st.integers(0, 400))
def test_the_calls_of_a_beginning_are_the_first_calls_of_the_whole_text(name: str, at: int) -> None:
    whole, part = read_calls(BOTH[name], tools=TOOLS), read_calls(BOTH[name][:at], tools=TOOLS)
    assert part.calls == whole.calls[: len(part.calls)]


@given(st.dictionaries(st.sampled_from(["city", "text"]), st.text(max_size=60), max_size=2))
@pytest.mark.parametrize("form", ["qwen3_coder", "glm", "minimax_m2", "deepseek_v32", "muse", "hunyuan_3"])
def test_any_text_between_tags_comes_back_or_is_reported(form: str, arguments: dict[str, Any]) -> None:
    profile = choose_profile(form)
    assert profile is not None and profile.prompt is not None
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "text": {"type": "string"}}}
    reading = read_calls(
        profile.prompt.written([FunctionCall("say", arguments)]), tools=[{"name": "say", "parameters": schema}]
    )
    if reading.problem is None:
        assert reading.calls == (FunctionCall("say", arguments),)


def steps_of(text: str) -> int:
    """The number of Python lines of the readers that run for a text: a measure of work that no clock disturbs."""
    count = 0

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace if "tunecheck" in frame.f_code.co_filename else None

    sys.settrace(trace)
    try:
        read_calls(text, tools=TOOLS)
    finally:
        sys.settrace(None)
    return count


@cases("formats")
def test_the_work_grows_no_faster_than_the_text(piece: str) -> None:
    head = "<tool_call>\n<function=stop>\n<parameter=a>"
    small, large = (steps_of(head + piece * count) for count in (100, 400))
    assert large <= 6 * small + 2_000
