"""Conversations in the leaderboard's dialect: its decoding, its wording, its endings."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.bfcl_copy import bfcl_copy
from tests.conversation_parts import call, context, had, log_items, said, serving, shelf_row, shelf_workspace
from tests.core.test_conversation_decoding import HOSTILE, TEXTS
from tests.core.test_conversation_hostile import Answering, completions
from tests.tables import cases
from tests.text_fragments import WITH_NAN

from tunecheck import ConversationTarget, Row
from tunecheck.episodes import source_text
from tunecheck.plugins import plain
from tunecheck_bfcl._decoding import decode_step
from tunecheck_bfcl._dialect import BfclWording


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shelf_workspace(tmp_path))


def texts(step: Any, **options: Any) -> list[str] | None:
    """The calls of a step as text, None where it cannot be decoded."""
    decoded = decode_step(step, **options)
    assert decoded.problem is None or not decoded.calls
    return None if decoded.problem is not None else [source_text(each) for each in decoded.calls]


# The results of BFCL's own decoder for these texts, recorded from a run of it.


@cases("bfcl")
def test_compat_takes_text_as_bfcl_does(text: str, calls: list[str] | None) -> None:
    assert texts(text, text_mode=True) == calls


@cases("bfcl")
def test_compat_takes_tool_calls_as_bfcl_does(step: Any, calls: list[str] | None) -> None:
    assert texts(step) == calls


async def test_in_compat_positional_arguments_are_dropped_as_bfcl_drops_them() -> None:
    output, _ = await had(["[put('cup', count=2)]", "Done."], mode="text", compat="bfcl")
    assert log_items(output, "handler_log")[0]["model_response_decoded"] == ["put(count=2)"]
    assert "needs 'name'" in log_items(output, "tool")[0]["content"]


@pytest.mark.parametrize(("compat", "made"), [(None, "[put(name='cup')]"), ("bfcl", None)])
async def test_another_form_is_written_as_the_leaderboard_reads_it(compat: str | None, made: str | None) -> None:
    answer = '<tool_call>{"name": "put", "arguments": {"name": "cup"}}</tool_call>'
    row = shelf_row(said("Put a cup."), category="multi_turn_base", check="multi_turn")
    output, server = await had([answer, "Done."], row, mode="text", compat=compat, data=bfcl_copy())
    assert output["result"][0][0] == (made or answer)
    assert len(server.requests) == (2 if made else 1)
    if made:
        assert output["inference_log"][1]["step_0"][0]["raw_text"] == answer
        assert server.requests[1]["messages"][-2] == {"role": "assistant", "content": answer}


@cases("bfcl")
def test_a_brace_in_a_function_document_is_no_place_to_fill(prompts: dict[str, str]) -> None:
    wording = BfclWording(prompts)
    assert wording.system([{"name": "{task} {0.__class__}"}]) == (
        'PT|as [f()]|M|json: [\n    {\n        "name": "{task} {0.__class__}"\n    }\n]'
    )
    assert wording.added([{"name": "f"}]) == "[{'name': 'f'}] added"
    assert wording.added(None) == "added"
    assert wording.results(["f(a='x')"], ["1"]) == repr([{"role": "tool", "name": "f(a='x')", "content": "1"}])


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_decoded_at_once_without_running_anything(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    decoded = decode_step(text, text_mode=True)
    assert decoded.calls or decoded.problem is not None
    for each in decoded.calls:
        source_text(each)
    assert not list(folder.iterdir())


@given(WITH_NAN, st.booleans())
def test_any_value_is_decoded_or_has_a_problem(step: Any, text_mode: bool) -> None:
    texts(step, text_mode=text_mode)


@given(TEXTS)
def test_any_text_is_decoded_or_has_a_problem(text: str) -> None:
    texts(text, text_mode=True)


@pytest.mark.parametrize("mode", ["tools", "text"])
async def test_a_final_answer_is_a_decode_failure(mode: Any) -> None:
    output, _ = await had(["It is done.", "Two."], mode=mode, compat="bfcl")
    assert [item["event"] for item in log_items(output, "handler_log")] == ["decode_failure"] * 2


@pytest.mark.parametrize("limit", [20, 3])
async def test_a_turn_has_one_query_more_than_the_limit(limit: int) -> None:
    output, server = await had(lambda _: [("look", "{}")], step_limit=limit, compat="bfcl")
    assert len(server.requests) == limit + 1
    assert (output["forced_quit"], output["ended_by"]) == (True, "step_limit")
    assert str(limit) in log_items(output, "handler_log")[-1]["content"]


async def test_calls_that_cannot_be_read_go_back_as_they_came() -> None:
    _, server = await had([[("put", "{")], "Fine."], compat="bfcl")
    assert server.requests[1]["messages"][1]["tool_calls"] == [call("put", "{", "call_1_0")]


@given(st.lists(completions, max_size=4), st.sampled_from(["tools", "text"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_answered_the_conversation_ends_with_a_result_that_is_json(answers: Any, mode: Any) -> None:
    target = ConversationTarget(Answering(answers), mode=mode, compat="bfcl", include_input_log=True)
    output = dict(asyncio.run(target.answer(shelf_row(), context())))
    plain(output)
    result: Any = output["result"]
    assert len(result) == 2
    again = [decode_step(step, text_mode=mode == "text").calls for turn in result for step in turn]
    assert sum(map(len, again)) == len(log_items(output, "tool"))


def test_the_fingerprint_tells_the_dialect_apart() -> None:
    with serving([]) as server:
        plainly, exactly = ConversationTarget(server.endpoint()), ConversationTarget(server.endpoint(), compat="bfcl")
        assert plainly.fingerprint() != exactly.fingerprint()


async def test_texts_among_another_languages_values_are_written_as_its_source() -> None:
    arguments = '{"email": "a@b.c", "code": "\\"x\\"", "list": "new int[]{1}", "count": 3}'
    kinds: Any = {name: {"type": "String"} for name in ("email", "code")}
    kinds |= {"list": {"type": "Array"}, "count": {"type": "int"}}
    declared: Any = [{"name": "check.it", "parameters": {"type": "dict", "properties": kinds}}]
    of_bfcl = {"category": "simple_java", "check": "simple"}
    row = Row(0, "r", {"id": "r", "query": "Check it.", "language": "java", "declared": declared, **of_bfcl}, "f")
    text = f'<tool_call>{{"name": "check.it", "arguments": {arguments}}}</tool_call>'
    with serving([text]) as server:
        target = ConversationTarget(server.endpoint(), mode="text", format="hermes")
        output = await target.answer(row, context())
        await target.close()
    assert output["result"] == '[check.it(email="a@b.c", code="x", list=new int[]{1}, count=3)]'
