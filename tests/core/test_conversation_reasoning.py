"""Reasoning in conversations: kept in results and logs, sent back within the turn, dropped at the next one."""

import json
from typing import Any

import pytest
from tests.conversation_parts import call, had, log_items, said, shelf_row
from tests.tables import cases

pytestmark = pytest.mark.usefixtures("shelf")

LOOK = [call("look", {}, "c1")]


def message(**parts: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": None, **parts}}]}


async def test_what_a_model_thought_in_each_step_stands_in_log_and_result_file() -> None:
    answers = [message(tool_calls=LOOK, reasoning_content="I look."), "<think>A book.</think>One book."]
    output, _ = await had(answers, shelf_row(said("What is there?")))
    first, second = log_items(output, "assistant")
    assert first["reasoning_content"] == "I look."
    assert (second["content"], second["reasoning_content"]) == ("One book.", "A book.")
    assert second["raw_text"] == "<think>A book.</think>One book."
    assert output["reasoning_content"] == [["I look.", "A book."]]
    assert output["result"] == [[[{"look": "{}"}], "One book."]]
    assert output["reasoning"] == "A book."


async def test_a_conversation_without_reasoning_says_nothing_of_it() -> None:
    output, _ = await had(["Nothing."], shelf_row(said("What is there?")))
    assert "reasoning_content" not in output
    assert "reasoning" not in output


def thought(request: Any, at: int) -> Any:
    return request["messages"][at]


@cases("episodes")
async def test_reasoning_goes_back_as_it_came_within_the_turn_and_is_dropped_at_the_next(parts: Any) -> None:
    answers = [message(tool_calls=LOOK, **parts), "One book.", "Bye."]
    _, server = await had(answers, shelf_row(said("What is there?", "Thanks.")))
    within, later = thought(server.requests[1], 1), thought(server.requests[2], 1)
    assert {name: within[name] for name in parts} == parts
    assert within["tool_calls"] == later["tool_calls"] == LOOK
    assert not later.keys() & {"reasoning_content", "reasoning", "reasoning_details"}
    assert not later["content"]


async def test_a_signature_beside_a_call_goes_back_unchanged() -> None:
    signed = {**LOOK[0], "extra_content": {"google": {"thought_signature": "c2ln"}}}
    _, server = await had([message(tool_calls=[signed]), "One book."], shelf_row(said("What is there?")))
    assert thought(server.requests[1], 1)["tool_calls"] == [signed]


@pytest.mark.parametrize(("sent", "within", "later"), [("never", False, False), ("conversation", True, True)])
async def test_a_definition_says_how_long_reasoning_goes_back(sent: str, within: bool, later: bool) -> None:
    answers = [message(tool_calls=LOOK, reasoning_content="I look."), "One book.", "Bye."]
    _, server = await had(answers, shelf_row(said("What is there?", "Thanks.")), {"send_reasoning": sent})
    found = ["reasoning_content" in thought(request, 1) for request in server.requests[1:]]
    assert found == [within, later]


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        ("turn", "Missing `reasoning_content` field in the assistant message at message index 1"),
        ("never", "messages[1].reasoning_content: Extra inputs are not permitted"),
    ],
    ids=["wants it, as by default", "refuses it, as the definition says"],
)
async def test_a_service_gets_the_reasoning_that_it_wants_and_none_that_it_refuses(sent: str, complaint: str) -> None:
    left = [message(tool_calls=LOOK, reasoning_content=text) for text in ("I look.", "Again.")]

    def reply(request: Any) -> Any:
        own = [each for each in request["messages"] if each["role"] == "assistant"]
        refused = any(("reasoning_content" in each) == (sent == "never") for each in own)
        if refused:
            return 400, json.dumps({"error": {"message": complaint}}).encode()
        return left.pop(0) if left else "One book."

    definition = {} if sent == "turn" else {"send_reasoning": sent}
    output, server = await had(reply, shelf_row(said("What is there?")), definition)
    assert output["steps"] == len(server.requests) == 3
