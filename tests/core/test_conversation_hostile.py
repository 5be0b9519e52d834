"""After any output of a model or its server, a conversation goes on or ends: nothing crashes, hangs or is run."""

import asyncio
import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.conversation_parts import context, had, log_items, said, serving, shelf_row, states
from tests.tables import cases
from tests.text_fragments import WITH_NAN

from tunecheck.endpoints import ChatRequest, Completion, Endpoint
from tunecheck.episodes import ConversationTarget, decode_step
from tunecheck.plugins import plain
from tunecheck.simulators import Backends

pytestmark = pytest.mark.usefixtures("shelf")

KEYS = ["id", "type", "function", "name", "arguments", "put", "count"]


def message(**parts: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", **parts}}]}


@cases("episodes")
@pytest.mark.parametrize("mode", ["tools", "text"])
async def test_tool_calls_of_the_wrong_types_end_the_turn(calls: Any, mode: Any) -> None:
    output, server = await had([message(tool_calls=calls), "Hello."], mode=mode)
    assert log_items(output, "handler_log")[0]["event"] == "decode_failure"
    assert states(output)[-1] == {"Shelf": {"things": {"book": 1}}}
    assert [sent["role"] for sent in server.requests[1]["messages"][-2:]] == ["assistant", "user"]
    assert isinstance(server.requests[1]["messages"][-2]["content"], str)


@cases("episodes")
async def test_only_operations_are_called_with_their_parameters(name: str, arguments: Any, tmp_path: Path) -> None:
    output, _ = await had([[(name, arguments)], "Done."], shelf_row(said("Go.")))
    (result,) = log_items(output, "tool")
    assert "error" in json.loads(result["content"])
    assert len(result["content"]) < 1_000
    assert states(output)[-1] == {"Shelf": {"things": {"book": 1}}}
    assert not (tmp_path / "pwned").exists()


async def test_a_name_of_a_million_letters_is_told_in_few() -> None:
    output, _ = await had([[("f" * 1_000_000, {})], "Done."], shelf_row(said("Go.")))
    (result,) = log_items(output, "tool")
    assert "error" in json.loads(result["content"])
    assert len(result["content"]) < 1_000


@pytest.mark.parametrize("value", [None, [], {}, -1, 1e308, True, "x" * 100_000, [[[[]]]], {"a": {"b": []}}])
async def test_arguments_of_any_type_are_a_result_or_an_error(value: Any) -> None:
    calls: list[Any] = [("put", {"name": value}), ("put", {"name": "cup", "count": value}), ("take", {"name": value})]
    output, _ = await had([calls, "Done."], shelf_row(said("Go.")))
    assert len(log_items(output, "tool")) == 3
    assert output["result"][0][1] == "Done."


async def test_thousands_of_calls_in_one_answer_are_not_made() -> None:
    output, _ = await had([[("look", {})] * 1_001, "Done."], shelf_row(said("Look.")))
    assert log_items(output, "tool") == []
    assert "the answer has 1001 calls" in log_items(output, "handler_log")[0]["error"]


async def test_a_huge_answer_is_kept_and_passed_on() -> None:
    huge = "x" * 3_000_000
    output, server = await had([huge, "Done."])
    assert output["result"] == [[huge], ["Done."]]
    assert server.requests[1]["messages"][1]["content"] == huge


async def test_an_answer_that_is_text_and_calls_is_the_calls_and_the_text_goes_back_with_them() -> None:
    answer = message(content="Let me see.", tool_calls=[{"id": "a", "function": {"name": "look", "arguments": "{}"}}])
    output, server = await had([answer, "A book."], shelf_row(said("Look.")))
    assert output["result"] == [[[{"look": "{}"}], "A book."]]
    assert server.requests[1]["messages"][1]["content"] == "Let me see."


SLOW = '''
import time
from tunecheck.simulators import Simulator, tool

class Slow(Simulator):
    @tool
    def sleep(self) -> str:
        """Sleep."""
        time.sleep(0.05)
        return "slept"

    @tool
    def hang(self) -> str:
        """Never return."""
        while True:
            time.sleep(0.01)

    @tool
    def leave(self) -> str:
        """Try to end the program."""
        raise SystemExit(5)
'''


async def test_a_simulator_that_hangs_or_leaves_is_an_error_result(tmp_path: Path) -> None:
    (tmp_path / "simulators" / "Slow.py").write_text(SLOW, "utf-8")
    row = shelf_row(said("Go."), involved_classes=["Slow"])
    calls: list[Any] = [[("leave", {}), ("sleep", {}), ("hang", {}), ("sleep", {})], "Done."]
    output, _ = await had(calls, row, time_limit_s=0.3)
    left, slept, hung, out_of_order = [item["content"] for item in log_items(output, "tool")]
    assert "SystemExit" in left
    assert slept == "slept"
    assert "did not return within 0.3 seconds" in hung
    assert "out of order" in out_of_order


async def test_memory_does_not_grow_with_the_number_of_conversations() -> None:
    def reply(body: dict[str, Any]) -> Any:
        return "Done." if body["messages"][-1]["role"] == "tool" else [("put", {"name": "cup"})]

    with serving(reply) as server:
        target = ConversationTarget(server.endpoint())

        async def conversations(count: int) -> int:
            for _ in range(count):
                await target.answer(shelf_row(), context())
                server.requests.clear()
                server.keys.clear()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        await conversations(5)
        tracemalloc.start()
        try:
            first = await conversations(20)
            last = await conversations(60)
        finally:
            tracemalloc.stop()
            await target.close()
    assert last - first < 100_000


json_values = st.recursive(
    WITH_NAN | st.sampled_from(["put", "{}", "["]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner),
    max_leaves=8,
)
completions = st.builds(
    Completion,
    text=st.none() | st.text(max_size=20) | st.sampled_from(["[put('a')]", "[put(name=look())]", "[put(name={})]"]),
    tool_calls=st.lists(st.dictionaries(st.sampled_from(KEYS), json_values, max_size=4), max_size=3).map(tuple),
)


class Answering(Endpoint):
    """Gives these completions one after another, then an empty one."""

    kind = "answering"
    name = "answering"

    def __init__(self, answers: list[Completion]) -> None:
        self.answers = list(answers)

    async def complete(self, request: ChatRequest) -> Completion:
        json.dumps([dict(sent) for sent in request.messages])
        return self.answers.pop(0) if self.answers else Completion(text="")

    def settings(self) -> dict[str, Any]:
        return {}


@given(st.lists(completions, max_size=4), st.sampled_from(["tools", "text"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_answered_the_conversation_ends_with_a_result_that_is_json(
    answers: list[Completion], mode: Any
) -> None:
    target = ConversationTarget(Answering(answers), mode=mode, include_input_log=True)
    output = dict(asyncio.run(target.answer(shelf_row(), context())))
    plain(output)
    result = output["result"]
    assert isinstance(result, list)
    assert len(result) == 2
    tools = Backends().find("Shelf").tool_definitions()
    again = [decode_step(step, text_mode=mode == "text", tools=tools).calls for turn in result for step in turn]
    assert sum(map(len, again)) == len(log_items(output, "tool"))
