"""Recorded conversations: BFCL's result files as an endpoint, and made-up result files."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli_parts import write_lines
from tests.conversation_parts import Values, context, log_items, said, shelf_row, states

from tunecheck import DataError, EndpointError
from tunecheck.endpoints import load_endpoint
from tunecheck.episodes import ConversationTarget

pytestmark = pytest.mark.usefixtures("shelf")


def recorded(folder: Path, *records: Values, name: str = "BFCL_v4_multi_turn_base_result.json") -> Path:
    return write_lines(folder / name, records)


async def replayed(path: Path, row: Any = None, **options: Any) -> Values:
    target = ConversationTarget(load_endpoint({"kind": "replay", "path": str(path)}), **options)
    try:
        return dict(await target.answer(row or shelf_row(), context()))
    finally:
        await target.close()


RESULT: list[Any] = [[[{"put": '{"name": "cup", "count": 2}'}], []], [[{"count": '{"name": "cup"}'}], "Two."]]


async def test_recorded_steps_are_made_against_the_simulators_and_nobody_is_asked(tmp_path: Path) -> None:
    counts = {"input_token_count": [[5, 6], [7, 8]], "output_token_count": [[1, 1], [1, 1]]}
    record = {"id": "shelf_0", "result": RESULT, **counts, "latency": [[0.5, 0.25], [1, 0.25]]}
    output = await replayed(recorded(tmp_path, record))
    assert output["result"] == RESULT
    assert {name: output[name] for name in counts} == counts
    assert output["usage"] == {"input_tokens": 26, "output_tokens": 4}
    assert output["latency_ms"] == 2000
    assert states(output)[-1] == {"Shelf": {"things": {"book": 1, "cup": 2}}}
    assert [item["content"] for item in log_items(output, "tool")] == ['{"cup": 2}', "2"]
    assert (output["response"], output["forced_quit"], output["error"]) == ("Two.", False, None)


async def test_a_conversation_that_ended_early_was_forced_to_quit(tmp_path: Path) -> None:
    looks = [[[{"look": "{}"}]] * 21]
    output = await replayed(recorded(tmp_path, {"id": "shelf_0", "result": looks}))
    assert output["result"] == looks
    assert len(log_items(output, "tool")) == 21
    assert output["forced_quit"] is True


async def test_recorded_text_with_calls_is_decoded_as_text(tmp_path: Path) -> None:
    record = {"id": "shelf_0", "result": [["[put(name='cup')]", "done"], ["ok"]]}
    output = await replayed(recorded(tmp_path, record))
    assert states(output)[-1] == {"Shelf": {"things": {"book": 1, "cup": 1}}}


async def test_a_recorded_error_is_the_result_and_the_error(tmp_path: Path) -> None:
    record = {"id": "shelf_0", "result": "Error during inference: 500", "traceback": "…"}
    output = await replayed(recorded(tmp_path, record))
    assert output["result"] == output["error"] == "Error during inference: 500"
    assert output["forced_quit"] is False


@pytest.mark.parametrize(
    "result",
    ["text", [], None, 5, {"a": 1}, ["text"], [None], [[5]], [[None]], [[["put"]]], [[[5]]], [[{"put": "{}"}]],
     [[[{"put": 5}]]], [[[{5: "{}"}]]], [[]] * 5, [[[]], [[]], [[]]], [[[{"put": "{}", "look": "{}"}]]]],
)  # fmt: skip
async def test_a_malformed_result_comes_through_as_it_is(tmp_path: Path, result: Any) -> None:
    output = await replayed(recorded(tmp_path, {"id": "shelf_0", "result": result}))
    assert output["result"] == json.loads(json.dumps(result))


@pytest.mark.parametrize("result", [[["Hello."], []], [["Hello."], None], [[], ["Hello."]]])
async def test_a_recorded_turn_without_steps_is_a_turn_without_answers(tmp_path: Path, result: Any) -> None:
    output = await replayed(recorded(tmp_path, {"id": "shelf_0", "result": result}))
    assert output["result"] == result
    assert output["calls_made"] == [[[] for _ in turn or ()] for turn in result]
    ends = [item["event"] for item in log_items(output, "handler_log")]
    assert ends == ["answer"]
    assert (output["response"], output["forced_quit"], output["error"]) == ("Hello.", False, None)


async def test_a_row_that_was_not_recorded_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EndpointError, match=r"has no recorded answer for row shelf_0: add"):
        await replayed(recorded(tmp_path, {"id": "shelf_1", "result": []}))


async def test_a_folder_of_result_files_is_searched_as_deep_as_it_goes(tmp_path: Path) -> None:
    folder = tmp_path / "result"
    recorded(folder / "m" / "multi_turn", {"id": "shelf_0", "result": RESULT})
    recorded(folder / "m" / "non_live", {"id": "x", "result": []}, name="BFCL_v4_multiple_result.json")
    assert (await replayed(folder))["result"] == RESULT
    with pytest.raises(DataError, match="the folder has no BFCL result files"):
        await replayed(tmp_path / "simulators")


async def test_a_single_call_s_record_comes_through_as_it_is(tmp_path: Path) -> None:
    row = shelf_row(messages=[{"role": "user", "content": "Add."}])
    row.values["turns"] = None  # type: ignore[index]
    record = {"id": "shelf_0", "result": [{"add": "{}"}], "input_token_count": 5, "latency": 0.5}
    output = await replayed(recorded(tmp_path, record), row)
    assert output["result"] == output["response"] == [{"add": "{}"}]
    assert (output["input_token_count"], output["latency"]) == (5, 0.5)


async def test_a_call_that_was_not_read_when_the_conversation_took_place_is_not_made_later(tmp_path: Path) -> None:
    failed: Values = {"role": "handler_log", "content": "Error decoding the model response. Proceed to next turn."}
    log = [{"begin_of_turn_query": [], "step_0": [{"role": "assistant", "content": RESULT[0]}, failed]}]
    record: Values = {"id": "shelf_0", "result": RESULT, "inference_log": log}
    output = await replayed(recorded(tmp_path, record))
    assert output["calls_made"] == [[[]], [["count(name='cup')"], []]]
    assert states(output)[-1] == {"Shelf": {"things": {"book": 1}}}


async def test_the_simulated_model_plays_the_ground_truth() -> None:
    target = ConversationTarget(load_endpoint({"kind": "simulated", "rates": {}}))
    row = shelf_row(
        said("Put two cups.", "How many?", "Thanks."), ground_truth=[["put('cup', 2)"], ["count('cup')"], []]
    )
    output: Values = dict(await target.answer(row, context()))
    assert output["result"][0][0] == [{"put": '{"name":"cup","count":2}'}]
    assert output["result"][1][0] == [{"count": '{"name":"cup"}'}]
    assert [len(turn) for turn in output["result"]] == [2, 2, 1]
    assert output["simulated"] is True
    assert states(output)[-1] == {"Shelf": {"things": {"book": 1, "cup": 2}}}
