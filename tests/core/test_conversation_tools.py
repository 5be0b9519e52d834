"""Conversations with function-calling endpoints: turns, steps, calls against simulators, the speaker for the user."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.conversation_parts import Values, call, context, had, log_items, said, serving, shelf_row, states
from tests.tables import cases

from tunecheck import CallContext, ConfigurationError, EndpointError, PluginError, Row
from tunecheck.episodes import ConversationTarget, Message

pytestmark = pytest.mark.usefixtures("shelf")


PUT = [("put", {"name": "cup", "count": 2})]
COUNT = [("count", {"name": "cup"})]


async def test_the_calls_of_each_turn_are_made_until_the_model_answers_without_one() -> None:
    output, server = await had([PUT, "Two cups.", COUNT, "There are two."])
    assert output["result"] == [
        [[{"put": '{"name": "cup", "count": 2}'}], "Two cups."],
        [[{"count": '{"name": "cup"}'}], "There are two."],
    ]
    assert [len(request["messages"]) for request in server.requests] == [1, 3, 5, 7]


async def test_the_model_sees_its_calls_and_a_tool_message_for_each_result() -> None:
    _, server = await had([[("put", {"name": "cup"}), ("look", "{}")], "Done."], shelf_row(said("Put a cup.")))
    user, assistant, first, second = server.requests[1]["messages"]
    assert user == {"role": "user", "content": "Put a cup."}
    assert assistant["tool_calls"] == [call("put", {"name": "cup"}, "call_1_0"), call("look", {}, "call_1_1")]
    assert first == {"role": "tool", "content": '{"cup": 1}', "tool_call_id": "call_1_0"}
    assert second == {"role": "tool", "content": "['book', 'cup']", "tool_call_id": "call_1_1"}


async def test_tools_come_from_the_simulators_where_the_row_has_none() -> None:
    _, server = await had(["Nothing to do."], shelf_row(said("Hello.")))
    names = [tool["function"]["name"] for tool in server.requests[0]["tools"]]
    assert names == ["put", "count", "look", "take"]
    assert server.requests[0]["tools"][0]["function"]["parameters"]["required"] == ["name"]


async def test_tools_of_the_row_are_sent_as_they_are_and_bare_schemas_are_wrapped() -> None:
    schema = {"name": "put", "parameters": {"type": "object", "properties": {}}}
    _, server = await had(["Hm."], shelf_row(said("Hello."), tools=[schema]))
    assert server.requests[0]["tools"] == [{"type": "function", "function": schema}]


async def test_a_failing_call_is_shown_to_the_model_as_an_error_and_the_turn_goes_on() -> None:
    calls = [[("take", {"name": "cup"})], [("fly", {})], [("put", {"nme": "cup"})], "Sorry."]
    output, server = await had(calls, shelf_row(said("Take a cup.")))
    results = [json.loads(item["content"])["error"] for item in log_items(output, "tool")]
    assert results[0] == "there is no cup"
    assert "no operation 'fly'" in results[1]
    assert "no parameter 'nme'" in results[2]
    assert server.requests[-1]["messages"][-1]["content"] == log_items(output, "tool")[-1]["content"]


async def test_held_out_functions_are_offered_from_their_turn_on_and_a_message_says_so() -> None:
    turns = said("How many cups?", "", "Thanks. And books?")
    output, server = await had(["I cannot.", COUNT, "None.", "One."], shelf_row(turns, held_out={"1": ["count"]}))
    offered = [[tool["function"]["name"] for tool in request["tools"]] for request in server.requests]
    assert offered == [["put", "look", "take"], *[["put", "look", "take", "count"]] * 3]
    added = server.requests[1]["messages"][-1]
    assert added["role"] == "user"
    assert "more functions" in added["content"]
    assert [entry["begin_of_turn_query"] for entry in output["inference_log"][1::2]][1] == [added]


async def test_functions_may_be_added_in_a_turn_in_which_the_user_speaks() -> None:
    schema = {"name": "count", "parameters": {"type": "object", "properties": {}}}
    row = shelf_row(said("Hello.", "Count now."), tools=[], held_out={"1": [schema]})
    _, server = await had(["Hi.", "One."], row)
    assert server.requests[1]["messages"][-1] == {"role": "user", "content": "Count now."}
    assert [tool["function"] for tool in server.requests[1]["tools"]] == [schema]


async def test_a_turn_in_which_a_parameter_is_missing_ends_with_the_model_s_question() -> None:
    turns = said("Put some cups on the shelf.", "Three of them.")
    output, _ = await had(["How many?", [("put", {"name": "cup", "count": 3})], "Done."], shelf_row(turns))
    assert output["result"][0] == ["How many?"]
    assert states(output)[-1] == {"Shelf": {"things": {"book": 1, "cup": 3}}}


@pytest.mark.parametrize("limit", [20, 3])
async def test_a_model_that_never_stops_calling_is_forced_to_quit(limit: int) -> None:
    output, server = await had(lambda _: [("look", "{}")], step_limit=limit)
    assert len(server.requests) == limit
    assert (output["forced_quit"], output["ended_by"]) == (True, "step_limit")
    assert [len(turn) for turn in output["result"]] == [limit]  # the second turn never begins
    last = log_items(output, "handler_log")[-1]
    assert last["event"] == "force_quit"
    assert str(limit) in last["content"]
    assert last["model_response_decoded"] == ["look()"]


FULL = b'{"error": {"message": "The maximum context length is 8192 tokens.", "code": "context_length_exceeded"}}'


async def test_a_conversation_that_outgrows_the_context_ends_with_the_turns_that_were_done() -> None:
    def reply(body: Values) -> Any:
        if len(body["messages"]) > 4:
            return 400, FULL
        return "Done." if body["messages"][-1]["role"] == "tool" else [("put", {"name": "cup"})]

    output, _ = await had(reply)
    assert output["result"] == [[[{"put": '{"name": "cup"}'}], "Done."], []]
    assert (output["forced_quit"], output["ended_by"]) == (True, "overflow")
    assert log_items(output, "handler_log")[-1]["event"] == "overflow"


async def test_a_conversation_that_stops_just_below_the_limit_is_not_forced_to_quit() -> None:
    output, _ = await had([[("look", "{}")]] * 2 + ["Done."], shelf_row(said("Look.")), step_limit=3)
    assert output["forced_quit"] is False


@pytest.mark.parametrize("empty", [None, "", "  \n"])
async def test_an_empty_answer_ends_the_turn(empty: Any) -> None:
    output, server = await had([empty, "Hello."])
    assert len(server.requests) == 2
    assert [item["event"] for item in log_items(output, "handler_log")][:2] == ["decode_success", "empty_response"]
    assert output["result"][0] == [empty or ""]


@pytest.mark.parametrize(
    "arguments", ["{", "[1]", "5", "null", '"x"', "{'name': 'cup'}", '{"name": NaN}', '{"a": 1, "a": 2}', "[" * 5000]
)
async def test_calls_whose_arguments_cannot_be_read_end_the_turn_and_are_not_made(arguments: str) -> None:
    output, server = await had([[("put", {"name": "cup"}), ("put", arguments)], "Fine."])
    assert len(server.requests) == 2
    failure = log_items(output, "handler_log")[0]
    assert failure["event"] == "decode_failure"
    assert failure["error"].startswith("call 2 ('put'): the arguments ")
    assert failure["model_response_decoded"] == []
    assert states(output)[1] == {"Shelf": {"things": {"book": 1}}}
    assert output["result"][0] == [[{"put": '{"name": "cup"}'}, {"put": arguments}]]


async def test_calls_that_cannot_be_read_go_back_as_text_because_servers_refuse_broken_ones() -> None:
    _, server = await had([[("put", "{")], "Fine."])
    assert server.requests[1]["messages"][1] == {"role": "assistant", "content": '[{"put":"{"}]'}


async def test_no_arguments_at_all_are_an_empty_object() -> None:
    empty: list[Any] = ["", None, {}]
    for nothing in empty:
        answer = {"choices": [{"message": {"tool_calls": [{"function": {"name": "look", "arguments": nothing}}]}}]}
        output, server = await had([answer, "A book."], shelf_row(said("Look.")))
        assert output["result"] == [[[{"look": "{}"}], "A book."]]
        assistant, result = server.requests[1]["messages"][1:]
        assert assistant["tool_calls"] == [call("look", {}, "call_0_0_0")]
        assert result["tool_call_id"] == "call_0_0_0"


async def test_counts_and_latencies_stand_in_the_same_nesting_as_the_steps() -> None:
    output, _ = await had([PUT, "Two cups.", "Two."])
    assert output["input_token_count"] == [[10, 20], [30]]
    assert output["output_token_count"] == [[1, 2], [3]]
    assert [[isinstance(seconds, float) for seconds in turn] for turn in output["latency"]] == [[True, True], [True]]
    assert output["usage"] == {"input_tokens": 60, "output_tokens": 6}
    assert output["latency_ms"] == pytest.approx(1000 * sum(sum(turn) for turn in output["latency"]))
    assert output["steps"] == 3


async def test_the_response_is_the_last_answer() -> None:
    output, _ = await had([PUT, "Two cups.", "Two."])
    assert (output["response"], output["finish_reason"], output["error"]) == ("Two.", "stop", None)
    output, _ = await had(lambda _: PUT, step_limit=1)
    assert output["response"] == [call("put", {"name": "cup", "count": 2}, "call_1_0")]


async def test_each_attempt_has_simulators_of_its_own() -> None:
    with serving(lambda body: PUT if len(body["messages"]) == 1 else "Done.") as server:
        target = ConversationTarget(server.endpoint())
        row = shelf_row(said("Put two cups."))
        first, second = [dict(await target.answer(row, context())) for _ in range(2)]
        await target.close()
    assert states(first) == states(second) == [
        {"Shelf": {"things": {"book": 1}}},
        {"Shelf": {"things": {"book": 1, "cup": 2}}},
    ]  # fmt: skip
    assert row.values["initial_config"] == {"Shelf": {"things": {"book": 1}}}


async def test_every_step_has_an_idempotency_key_of_its_own_and_the_same_in_another_attempt() -> None:
    keys = []
    for _ in range(2):
        _, server = await had([PUT, "Two cups.", "Two."])
        keys.append(server.keys)
    assert len(set(keys[0])) == 3
    assert keys[0] == keys[1]


async def test_a_call_that_fails_for_good_is_the_row_s_error() -> None:
    with pytest.raises(EndpointError, match="not JSON"):
        await had([b"no"])


@cases("episodes")
async def test_a_row_that_describes_no_conversation_says_why(columns: Values, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        await had([], shelf_row(**columns))


async def test_a_simulator_that_is_not_there_is_named() -> None:
    with pytest.raises(PluginError, match=r"no 'Shelv' among the simulators.*did you mean 'Shelf'"):
        await had([], shelf_row(involved_classes=["Shelv"], tools=[]))


async def test_a_conversation_needs_no_simulators() -> None:
    output, server = await had(["Hi.", "Bye."], shelf_row(involved_classes=None, initial_config=None))
    assert output["result"] == [["Hi."], ["Bye."]]
    assert "tools" not in server.requests[0]


@pytest.mark.parametrize(("option", "value"), [("mode", "prompt"), ("step_limit", 0), ("step_limit", True)])
def test_an_option_that_cannot_be_is_refused(option: str, value: Any) -> None:
    with serving([]) as server, pytest.raises(ConfigurationError, match=f"{option}(: .* is unknown| must be)"):
        ConversationTarget(server.endpoint(), **{option: value})


# -- the speaker for the user: the data set's turns, or a simulated user in their place


class Insisting:
    """Asks again until the model says please."""

    def __init__(self, row: Row) -> None:
        self.row = row

    async def say(self, turn: int, so_far: Sequence[Message], context: CallContext) -> Sequence[Message] | None:
        if so_far and so_far[-1].get("content") == "Please.":
            return None
        return [{"role": "user", "content": f"Say please ({turn})."}]


async def test_a_user_of_one_s_own_speaks_until_it_has_no_more_to_say() -> None:
    output, server = await had(["No.", "No!", "Please."], user=Insisting)
    assert output["result"] == [["No."], ["No!"], ["Please."]]
    assert server.requests[-1]["messages"][-1]["content"] == "Say please (2)."


async def test_a_user_who_never_stops_is_stopped() -> None:
    output, server = await had(lambda _: "No.", user=Insisting)
    assert len(output["result"]) == len(server.requests) == 200


class Silent(Insisting):
    async def say(self, turn: int, so_far: Sequence[Message], context: CallContext) -> Sequence[Message] | None:
        return []


async def test_a_user_who_says_nothing_is_the_row_s_error() -> None:
    problem = r"turn 0 \(counted from 0\) needs a user message, or functions that `held_out` adds"
    with pytest.raises(ValueError, match=problem):
        await had([], user=Silent)


def test_answers_depend_on_the_whole_row_where_somebody_else_speaks() -> None:
    with serving([]) as server:
        row = shelf_row(mood="bad")
        assert "mood" not in str(ConversationTarget(server.endpoint()).inputs(row))
        assert "mood" in str(ConversationTarget(server.endpoint(), user=Insisting).inputs(row))


def test_the_fingerprint_tells_settings_apart_that_answers_depend_on() -> None:
    with serving([]) as server:
        targets = [
            ConversationTarget(server.endpoint()),
            ConversationTarget(server.endpoint(), mode="text"),
            ConversationTarget(server.endpoint(), step_limit=3),
            ConversationTarget(server.endpoint(model="n")),
        ]
        prints = [target.fingerprint() for target in targets]
        assert len({*prints}) == len(targets)
        assert None not in prints
        assert ConversationTarget(server.endpoint(timeout_s=5)).fingerprint() == prints[0]
