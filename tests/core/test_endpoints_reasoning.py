"""A model's reasoning is part of its answer, in any field of the API, and no part of its text."""

from typing import Any

from tests.conversation_parts import serving
from tests.endpoint_parts import ask_once
from tests.tables import cases

from tunecheck import evaluate
from tunecheck.endpoints import Completion, Price, Redactor, Secret, mask_answer, read_answer, read_usage
from tunecheck.pipeline import cost_of

CALL: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SIGNED: dict[str, Any] = {"type": "thinking", "thinking": "It is a city.", "signature": "c2lnbmVk"}


def message(**parts: Any) -> Completion:
    return read_answer({"choices": [{"message": {"role": "assistant", **parts}}]})


@cases("endpoints")
def test_reasoning_is_told_from_the_text_wherever_it_stands(parts: dict[str, Any]) -> None:
    answer = message(**parts)
    assert (answer.reasoning, answer.text) == ("It is a city.", "Paris")


def test_the_raw_text_is_kept_where_it_held_the_reasoning() -> None:
    assert message(content="<think>Hm.</think>Paris").columns()["raw_text"] == "<think>Hm.</think>Paris"
    assert "raw_text" not in message(content="Paris", reasoning="Hm.").columns()


def test_a_thought_that_was_never_closed_is_all_there_is() -> None:
    answer = message(content="<think>The user wants")
    assert (answer.reasoning, answer.text) == ("The user wants", "")


def test_a_mark_of_thoughts_inside_a_call_ends_none() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"text": "a</think>b"}}</tool_call>'
    assert message(content=text) == Completion(text)


def test_a_plain_text_of_a_scoring_script_is_parted_too() -> None:
    answer = read_answer("Hm.</think>Paris")
    assert (answer.reasoning, answer.text) == ("Hm.", "Paris")


@cases("endpoints")
def test_another_apis_reply_behind_a_scoring_call_gives_calls_and_reasoning(reply: dict[str, Any]) -> None:
    answer = read_answer(reply)
    assert (answer.reasoning, answer.text, answer.tool_calls) == ("It is a city.", None, (CALL,))


def test_reasoning_that_a_service_counts_beside_the_answer_is_priced_as_output() -> None:
    told: Any = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 35,
            "completion_tokens_details": {"reasoning_tokens": 20}}  # fmt: skip
    usage = read_usage({"usage": told})
    assert cost_of(usage, Price(output_per_million=1_000_000)) == 25


def test_an_answer_is_the_same_after_the_journal() -> None:
    answer = message(content=[SIGNED, {"type": "text", "text": "<think>more</think>Paris"}], reasoning="It is.")
    assert Completion.of_columns(answer.journaled()) == answer


def test_a_secret_is_masked_in_reasoning_too() -> None:
    redactor = Redactor()
    redactor.add(Secret("hunter2-hunter2"))
    answer = mask_answer(message(content="<think>hunter2-hunter2</think>Paris", reasoning="hunter2-hunter2"), redactor)
    assert answer.masked and "hunter2" not in repr(answer)


def test_evaluators_see_the_text_without_its_thought_and_the_row_has_both(tmp_path: Any) -> None:
    with serving(["<think>Nice is in France.</think>Paris"]) as server:
        result: Any = evaluate(
            data=[{"query": "Capital of France?", "ground_truth": "Paris"}],
            target=server.endpoint(),
            evaluators={"same": lambda response, ground_truth: {"same": response == ground_truth}},
            results_dir=tmp_path,
        )
    (row,) = result["rows"]
    assert row["outputs.same.same"] is True
    assert row["outputs.reasoning"] == "Nice is in France."
    assert row["outputs.raw_text"] == "<think>Nice is in France.</think>Paris"


async def test_an_answer_without_reasoning_has_no_column_for_it() -> None:
    with serving(["Paris"]) as server:
        columns = (await ask_once(server.endpoint())).columns()
    assert not {"reasoning", "raw_text", "first_token_ms"} & columns.keys()
