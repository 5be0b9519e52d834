"""A definition's `format`: calls in an endpoint's text are its tool calls; `tools: text` puts tools into the prompt."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import write_files
from tests.conversation_parts import context, log_items, said, serving, shelf_row, shelf_workspace

from tunecheck import ConfigurationError, FunctionCallMatchEvaluator, compare, evaluate
from tunecheck.endpoints import load_endpoint
from tunecheck.episodes import ConversationTarget
from tunecheck.plugins import Trust

PUT = '<tool_call>\n{"name": "put", "arguments": {"name": "cup", "count": 2}}\n</tool_call>'
CUP = {"name": "cup", "count": 2}
PUT_XML = (
    "<tool_call>\n<function=put>\n<parameter=name>\ncup\n</parameter>\n"
    "<parameter=count>\n2\n</parameter>\n</function>\n</tool_call>"
)
ROW = {
    "query": "Put two cups.",
    "tools": [{"name": "put", "parameters": {"type": "object", "properties": {"count": {"type": "integer"}}}}],
    "ground_truth": [{"name": "put", "arguments": {"name": "cup", "count": 2}}],
}


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(shelf_workspace(tmp_path))
    return tmp_path


def evaluated(text: str, calls: Any = None, **keys: Any) -> Any:
    """The result of one question that is answered with this text."""
    with serving([text]) as server:
        return evaluate(
            data=[ROW], target=server.endpoint(**keys), evaluators={"calls": FunctionCallMatchEvaluator()}, calls=calls
        )


def answered(text: str, **keys: Any) -> dict[str, Any]:
    """The result row of one question that is answered with this text."""
    (row,) = evaluated(text, **keys)["rows"]
    return row  # type: ignore[no-any-return]


@pytest.mark.parametrize(("text", "form"), [(PUT, "hermes"), (PUT_XML, "qwen3_coder")])
def test_calls_in_the_text_of_the_chosen_family_are_the_answers_calls(text: str, form: str) -> None:
    row = answered(f"<think>Two.</think>Here you are.\n{text}", format=form)
    (call,) = row["outputs.tool_calls"]
    assert call["function"] == {"name": "put", "arguments": '{"name":"cup","count":2}'}
    assert row["outputs.text"] == "Here you are."
    assert row["outputs.raw_text"] == f"<think>Two.</think>Here you are.\n{text}"
    assert row["outputs.calls.function_call_match"] == 1


def test_a_chosen_family_is_strict() -> None:
    text = '{"name": "put", "arguments": {"name": "cup", "count": 2}}'
    row = answered(text, format="hermes")
    assert row["outputs.tool_calls"] is None
    assert row["outputs.calls.function_call_match"] == 0
    assert answered(text, calls="lenient")["outputs.calls.function_call_match"] == 1


def test_a_call_that_the_server_left_in_the_text_does_not_count_and_is_told_with_both_figures() -> None:
    result = evaluated(PUT)
    (row,) = result["rows"]
    assert (row["outputs.calls.function_call_match"], row["cause"]) == (0, "call_left_in_text")
    assert result.notes[-2:] == [
        "1 of 1 answers contain calls that the server did not parse. Production clients could not "
        "use these calls; with --calls strict, they do not count",
        "calls: pass rate 0.0% with --calls strict, 100.0% with --calls lenient",
    ]


def test_calls_in_the_text_count_if_the_user_says_so_and_are_told_still() -> None:
    result = evaluated(PUT, calls="lenient")
    (row,) = result["rows"]
    assert row["outputs.calls.function_call_match"] == 1
    assert [note.partition(". ")[0] for note in result.notes[-2:]] == [
        "1 of 1 answers contain calls that the server did not parse",
        "calls: pass rate 100.0% with --calls lenient, 0.0% with --calls strict",
    ]


@pytest.mark.parametrize("arguments", [json.dumps(json.dumps(json.dumps(CUP))), f"```json\n{json.dumps(CUP)}\n```"])
def test_calls_that_only_a_lenient_reader_understands_count_if_the_user_says_so_and_are_told(arguments: str) -> None:
    figures = {}
    for calls in (None, "lenient"):
        with serving([[("put", arguments)]]) as server:
            evaluators = {"calls": FunctionCallMatchEvaluator()}
            result: Any = evaluate(data=[ROW], target=server.endpoint(), evaluators=evaluators, calls=calls)
        figures[calls] = result["rows"][0]["outputs.calls.function_call_match"], result.notes[-1]
        assert "1 of 1 answers contain calls that the server did not parse" in result.notes[-2]
    assert figures == {
        None: (0, "calls: pass rate 0.0% with --calls strict, 100.0% with --calls lenient"),
        "lenient": (1, "calls: pass rate 100.0% with --calls lenient, 0.0% with --calls strict"),
    }


@pytest.mark.parametrize(("calls", "cause"), [(None, "bad_arguments.fenced"), ("lenient", "unknown_function")])
def test_the_encoding_of_a_call_that_was_read_leniently_explains_no_failure(calls: Any, cause: str) -> None:
    with serving([[("take", f"```json\n{json.dumps(CUP)}\n```")]]) as server:
        evaluators = {"calls": FunctionCallMatchEvaluator()}
        result: Any = evaluate(data=[ROW], target=server.endpoint(), evaluators=evaluators, calls=calls)
    assert result["rows"][0]["cause"] == cause


def test_runs_that_count_calls_in_the_text_differently_cannot_be_decided() -> None:
    strict, lenient = evaluated(PUT), evaluated(PUT, calls="lenient")
    found = compare(strict, lenient).decision
    assert {each.code: each.effect for each in found.objections}["calls_reading_changed"] == "undecided"


def test_answers_in_a_column_are_read_by_all_calls_in_them_unless_the_user_says_strict() -> None:
    data = [{**ROW, "response": PUT}]
    choices: list[tuple[Any, int]] = [(None, 1), ("strict", 0)]
    for calls, matches in choices:
        result: Any = evaluate(data=data, evaluators={"calls": FunctionCallMatchEvaluator()}, calls=calls)
        assert result["rows"][0]["outputs.calls.function_call_match"] == matches


def test_another_word_for_the_calls_that_count_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="calls: 'all' is unknown; known: lenient, strict"):
        evaluated(PUT, calls="all")


def test_a_call_in_the_chosen_form_that_cannot_be_read_is_unreadable_with_the_reason() -> None:
    row = answered('<tool_call>{"name": "put", "arg', format="hermes")
    assert row["outputs.response"] == '<tool_call>{"name": "put", "arg'
    assert row["cause"] == "unreadable"


def test_a_format_that_there_is_not_is_refused_with_the_one_that_was_meant() -> None:
    definition = {"kind": "openai", "url": "https://x/v1", "model": "m", "format": "hermse"}
    with pytest.raises(ConfigurationError, match=r"format: .*'hermse'.*did you mean 'hermes'"):
        load_endpoint(definition)


@pytest.mark.parametrize("form", [{}, {"format": "mine"}])
def test_tools_in_text_need_a_family_that_says_how(workspace: Path, form: dict[str, str]) -> None:
    profile = "from tunecheck.formats import JsonCalls, Profile\nmine = Profile('mine', JsonCalls())\n"
    write_files(workspace, {"formats/mine.py": profile})
    with pytest.raises(ConfigurationError, match=r"tools: the format .* cannot describe tools"):
        load_endpoint({"kind": "openai", "url": "https://x/v1", "model": "m", "tools": "text", **form})


def test_a_definition_that_data_names_loads_no_format_of_another_folder(workspace: Path, tmp_path: Path) -> None:
    write_files(workspace, {"formats/mine.py": "raise SystemExit('it ran')"})
    definition = {"kind": "openai", "url": "https://x/v1", "model": "m", "format": "mine"}
    with pytest.raises(ConfigurationError, match="--trust"):
        load_endpoint(definition, trust=Trust(workspace).of(Path("/elsewhere/data.jsonl")))


async def had(answers: list[Any], *, mode: Any = "tools", **keys: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A conversation's output, and the requests that it took."""
    with serving(answers) as server:
        target = ConversationTarget(server.endpoint(**keys), mode=mode)
        output = dict(await target.answer(shelf_row(said("Put two cups.", "Thanks.")), context()))
        await target.close()
    return output, server.requests


async def test_a_conversation_makes_the_calls_that_stand_in_the_text() -> None:
    output, requests = await had([PUT, "Done.", "Bye."], format="hermes")
    assert output["result"][0] == [[{"put": '{"name":"cup","count":2}'}], "Done."]
    assert requests[1]["messages"][1]["tool_calls"][0]["function"]["name"] == "put"
    assert log_items(output, "assistant")[0]["raw_text"] == PUT


async def test_with_tools_in_text_nothing_is_sent_but_text() -> None:
    _, requests = await had([PUT, "Done.", "Bye."], format="hermes", tools="text")
    system, _, call, result = requests[1]["messages"]
    assert not any("tools" in request for request in requests)
    assert '"name":"put"' in system["content"] and "<tools>" in system["content"]
    assert call["role"] == "assistant"
    assert call["content"] == '<tool_call>\n{"name": "put", "arguments": {"name":"cup","count":2}}\n</tool_call>'
    assert result == {"role": "user", "content": '<tool_response>\n{"cup": 2}\n</tool_response>'}


async def test_in_text_mode_the_definitions_family_says_how_tools_are_shown_and_read() -> None:
    output, requests = await had([f"<think>Two.</think>{PUT_XML}", "Done.", "Bye."], mode="text", format="qwen3_coder")
    assert "<function=function_name>" in requests[0]["messages"][0]["content"]
    assert output["result"][0] == ["[put(name='cup', count=2)]", "Done."]
    assert requests[1]["messages"][2:] == [
        {"role": "assistant", "content": PUT_XML},
        {"role": "user", "content": '<tool_response>\n{"cup": 2}\n</tool_response>'},
    ]
    assert output["reasoning_content"] == [["Two.", ""], [""]]
