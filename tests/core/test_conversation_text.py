"""Conversations with prompting endpoints: functions in the system prompt, calls and results as text."""

import json

import pytest
from tests.cli_parts import like
from tests.conversation_parts import completion, had, log_items, said, shelf_row, states
from tests.tables import cases

from tunecheck import PluginError
from tunecheck.episodes import BenchmarkDialect, Episode

pytestmark = pytest.mark.usefixtures("shelf")


async def test_functions_stand_in_the_system_prompt_and_no_tools_are_sent() -> None:
    _, server = await had(["Hello."], shelf_row(said("Hello.")), mode="text")
    system, user = server.requests[0]["messages"]
    assert system["role"] == "system"
    assert '"name":"put"' in system["content"]
    assert user == {"role": "user", "content": "Hello."}
    assert "tools" not in server.requests[0]


async def test_a_system_message_of_the_row_follows_in_the_same_one() -> None:
    turns = [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."}]]
    _, server = await had(["Hi."], shelf_row(turns), mode="text")
    system, _ = server.requests[0]["messages"]
    assert system["content"].endswith("\n\nBe brief.")


async def test_calls_in_the_text_are_made_and_their_results_come_back_in_one_user_message() -> None:
    output, server = await had(["[put(name='cup'), look()]", "Done."], shelf_row(said("Put a cup.")), mode="text")
    assert output["result"] == [["[put(name='cup'), look()]", "Done."]]
    assistant, results = server.requests[1]["messages"][2:]
    assert assistant == {"role": "assistant", "content": "[put(name='cup'), look()]"}
    assert results["role"] == "user"
    assert json.loads(results["content"]) == [
        {"call": "put(name='cup')", "result": '{"cup": 1}'},
        {"call": "look()", "result": "['book', 'cup']"},
    ]


@cases("episodes")
async def test_a_call_in_the_text_has_this_result(answer: str, result: str, things: dict[str, int]) -> None:
    output, _ = await had([answer, "Done."], mode="text")
    assert like(result, log_items(output, "tool")[0]["content"])
    assert log_items(output, "handler_log")[0]["model_response_decoded"] == [answer[1:-1]]
    assert states(output)[1] == {"Shelf": {"things": things}}


async def test_an_answer_in_the_format_that_the_model_was_trained_on_is_read_too() -> None:
    answer = '<tool_call>{"name": "put", "arguments": {"name": "cup"}}</tool_call>'
    output, _ = await had([answer, "Done."], mode="text")
    assert log_items(output, "tool")[0]["content"] == '{"cup": 1}'
    assert output["result"][0] == [answer, "Done."]


async def test_calls_that_the_server_took_out_of_the_text_are_made_as_well() -> None:
    output, server = await had([[("put", {"name": "cup"})], "Done."], shelf_row(said("Put a cup.")), mode="text")
    assert output["result"] == [["[put(name='cup')]", "Done."]]
    assert server.requests[1]["messages"][-2] == {"role": "assistant", "content": "[put(name='cup')]"}


async def test_the_text_beside_calls_that_the_server_took_out_stays_in_the_log_and_the_model_sees_both() -> None:
    answer = completion([("put", {"name": "cup"})], 1)
    answer["choices"][0]["message"]["content"] = "I put a cup."
    output, server = await had([answer, "Done."], shelf_row(said("Put a cup.")), mode="text", format="hermes")
    assert output["result"] == [["[put(name='cup')]", "Done."]]
    assert log_items(output, "assistant")[0]["raw_text"] == "I put a cup."
    sent_back = {"role": "assistant", "content": "I put a cup.\n[put(name='cup')]"}
    assert server.requests[1]["messages"][-2] == sent_back


async def test_functions_that_are_added_are_listed_in_a_user_message() -> None:
    row = shelf_row(said("How many books?", ""), held_out={"1": ["count"]})
    output, server = await had(["No.", "[count(name='book')]", "One."], row, mode="text")
    assert '"name":"count"' not in server.requests[0]["messages"][0]["content"]
    added = server.requests[1]["messages"][-1]
    assert added["role"] == "user"
    assert '"name":"count"' in added["content"]
    assert log_items(output, "tool")[0]["content"] == "1"


async def test_a_row_of_one_question_is_asked_once_with_the_functions_in_the_prompt() -> None:
    row = shelf_row(turns=None, messages=[{"role": "user", "content": "Add."}], tools=[{"name": "add"}])
    row.values["turns"] = None  # type: ignore[index]
    output, server = await had(["[add(a=1)]"], row, mode="text")
    assert output["result"] == "[add(a=1)]"
    assert '"name":"add"' in server.requests[0]["messages"][0]["content"]
    assert "tools" not in server.requests[0]


async def test_a_row_of_one_question_is_asked_once_with_tools() -> None:
    row = shelf_row(messages=[{"role": "user", "content": "Add."}], tools=[{"name": "add"}])
    row.values["turns"] = None  # type: ignore[index]
    output, server = await had([[("add", {"a": 1})]], row)
    assert output["result"] == [{"add": '{"a": 1}'}]
    assert output["response"][0]["function"]["name"] == "add"
    assert (output["input_token_count"], output["output_token_count"], output["steps"]) == (10, 1, 1)
    assert isinstance(output["latency"], float)
    assert len(server.requests) == 1


def test_a_benchmark_without_a_check_of_its_own_is_refused_when_its_class_is_made() -> None:
    problem = "the benchmark class Unchecked lacks the class attribute 'state_check': set it"
    with pytest.raises(PluginError, match=problem):
        type("Unchecked", (BenchmarkDialect,), {})


def test_an_episode_is_not_restored_from_misspelt_columns() -> None:
    with pytest.raises(TypeError, match="force_quit"):
        Episode.of_columns(force_quit=True)  # type: ignore[call-arg]
