"""The inference log of a conversation, in the fields of BFCL's result files."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conversation_parts import had, log_items, said, shelf_row, states

pytestmark = pytest.mark.usefixtures("shelf")


PUT = [("put", {"name": "cup"})]


async def test_states_stand_at_the_beginning_and_after_each_turn_with_the_turns_between() -> None:
    output, _ = await had([PUT, "Done.", "Two."])
    assert [type(entry).__name__ for entry in output["inference_log"]] == ["list", "dict", "list", "dict", "list"]
    assert states(output) == [
        {"Shelf": {"things": {"book": 1}}},
        {"Shelf": {"things": {"book": 1, "cup": 1}}},
        {"Shelf": {"things": {"book": 1, "cup": 1}}},
    ]
    assert output["inference_log"][0] == [
        {"role": "state_info", "class_name": "Shelf", "content": {"things": {"book": 1}}}
    ]


async def test_a_turn_has_its_query_and_its_steps_and_a_step_what_was_answered_decoded_and_executed() -> None:
    output, _ = await had([PUT, "Done.", "Two."])
    turn = output["inference_log"][1]
    assert list(turn) == ["begin_of_turn_query", "step_0", "step_1"]
    assert turn["begin_of_turn_query"] == [{"role": "user", "content": "Put two cups on the shelf."}]
    assistant, decoded, tool = turn["step_0"]
    assert assistant == {"role": "assistant", "content": [{"put": '{"name": "cup"}'}], "finish_reason": "tool_calls"}
    assert decoded["role"] == "handler_log"
    assert (decoded["event"], decoded["model_response_decoded"]) == ("decode_success", ["put(name='cup')"])
    assert tool == {"role": "tool", "content": '{"cup": 1}'}
    assert turn["step_1"][0] == {"role": "assistant", "content": "Done.", "finish_reason": "stop"}
    assert turn["step_1"][1]["event"] == "answer"


@pytest.mark.parametrize("mode", ["tools", "text"])
async def test_a_final_answer_is_no_decode_failure(mode: Any) -> None:
    output, _ = await had(["It is done.", "Two."], mode=mode)
    assert [item["event"] for item in log_items(output, "handler_log")] == ["answer"] * 2


async def test_a_call_that_a_server_left_in_the_text_is_a_decode_failure() -> None:
    output, _ = await had(['<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>', "Two."])
    assert [item["event"] for item in log_items(output, "handler_log")] == ["decode_failure", "answer"]


async def test_arguments_of_tool_calls_are_shown_as_bfcl_shows_them() -> None:
    output, _ = await had([[("put", {"name": "it's", "count": 2})], "Done."])
    assert log_items(output, "handler_log")[0]["model_response_decoded"] == ['put(name="it\'s",count=2)']


async def test_the_states_may_be_left_out() -> None:
    output, _ = await had([PUT, "Done.", "Two."], include_state_log=False)
    assert [type(entry).__name__ for entry in output["inference_log"]] == ["dict", "dict"]


async def test_requests_are_kept_where_they_are_asked_for() -> None:
    output, server = await had([PUT, "Done.", "Two."], include_input_log=True)
    inputs = log_items(output, "inference_input")
    assert [item["content"]["tools"] for item in inputs] == [request["tools"] for request in server.requests]
    assert inputs[0]["content"]["message"] == repr(server.requests[0]["messages"])
    assert "'tool_call_id': 'call_1_0'" in inputs[1]["content"]["message"]
    assert log_items((await had(["Hi."]))[0], "inference_input") == []


async def test_requests_of_prompting_endpoints_are_kept_without_tools() -> None:
    output, _ = await had(["Hi."], shelf_row(said("Hello.")), mode="text", include_input_log=True)
    (item,) = log_items(output, "inference_input")
    assert list(item["content"]) == ["message"]


async def test_the_log_is_plain_json() -> None:
    output, _ = await had([PUT, [("put", "{")], [("look", {})] * 2, "Done."], include_input_log=True)
    assert json.loads(json.dumps(output)) == output


def fields(log: list[Any]) -> set[tuple[str, ...]]:
    """The fields of all items of a log, each with its role."""
    found: set[tuple[str, ...]] = set()
    for entry in log:
        parts = {"state": entry} if isinstance(entry, list) else entry
        for name, items in parts.items():
            assert name in ("state", "begin_of_turn_query") or name.startswith("step_")
            found |= {(item["role"], *sorted(item.keys() - {"role", "event"})) for item in items}
    return found


async def test_every_item_has_the_fields_that_published_result_files_have(shared_data: Path) -> None:
    published: set[tuple[str, ...]] = set()
    for path in shared_data.glob("bfcl_runs/*/result/*/multi_turn/*.json"):
        for line in path.read_bytes().splitlines():
            published |= fields(json.loads(line).get("inference_log", []))
    quit_early, _ = await had(lambda _: PUT, step_limit=2)
    answers: list[Any] = [PUT, "", [("put", "{")]]
    ours = fields(quit_early["inference_log"]) | fields((await had(answers))[0]["inference_log"])
    for role, *names in ours:
        # For undecodable answers their logs keep only the error, for a forced quit nothing: ours say more.
        fewer = tuple(name for name in names if name not in ("model_response_decoded", "finish_reason"))
        assert (role, *names) in published or (role, *fewer) in published
