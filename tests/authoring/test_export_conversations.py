"""`datasets export` of conversations: the right calls with the results on which the next ones depend."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.authoring_parts import export, lines, workspace
from tests.cli_parts import write_lines
from tests.pipeline_parts import run

from tunecheck import EvaluationResult, MultiTurnStateEvaluator
from tunecheck.formats import read_python_calls

Message = dict[str, Any]

LOAN: dict[str, Any] = {
    "id": "loan",
    "turns": [
        [{"role": "user", "content": "I am reader 7."}],
        [{"role": "user", "content": "Borrow Emma, and leave a note that I have it."}],
        [{"role": "user", "content": "Give it back."}],
    ],
    "ground_truth": [
        ["sign_in(reader_id=7)"],
        ["borrow(title='Emma')", "leave_note(text='Emma')"],
        ["give_back(loan_id=5)"],
    ],
    "involved_classes": ["library"],
    "initial_config": {"library": {"shelf": ["Emma", "Walden"], "next_loan": 4}},
}
STEPS = [[["sign_in(reader_id=7)"]], [["list_shelf()"], ["borrow(title='Walden')"]], []]
"""What a model calls that looks at the shelf and takes the wrong book."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    with workspace(tmp_path):
        yield tmp_path


def answered(*turns: list[list[str]], words: str = "Done.") -> dict[str, Any]:
    """The answer of a model that makes these calls, step by step, and ends each turn with these words."""
    calls = [[[call for text in step for call in read_python_calls(text).calls] for step in turn] for turn in turns]
    result = [[[{call.name: json.dumps(call.arguments)} for call in step] for step in turn] for turn in calls]
    return {"result": [[*turn, words] for turn in result], "calls_made": [[*turn, []] for turn in turns]}


def made(folder: Path, answers: dict[str, dict[str, Any]], *rows: dict[str, Any]) -> EvaluationResult:
    data = write_lines(folder / "test.jsonl", rows or (LOAN,))
    return run(
        folder, str(data), target=lambda id: answers[id], evaluators={"multi_turn_state": MultiTurnStateEvaluator()}
    )


def called(message: Message) -> tuple[str, dict[str, Any]]:
    (call,) = message["tool_calls"]
    arguments = call["function"]["arguments"]
    return call["function"]["name"], json.loads(arguments) if isinstance(arguments, str) else arguments


def test_each_right_call_from_the_failed_turn_on_is_an_example_after_the_results_before_it(folder: Path) -> None:
    examples = export(folder, made(folder, {"loan": answered(*STEPS)}), "sft")
    assert [called(line["completion"][0]) for line in examples] == [
        ("borrow", {"title": "Emma"}),
        ("leave_note", {"text": "Emma"}),
        ("give_back", {"loan_id": 5}),
    ]
    last = examples[-1]["prompt"]
    assert [message["role"] for message in last] == [
        *("user", "assistant", "tool", "assistant"),
        *("user", "assistant", "tool", "assistant", "tool", "assistant"),
        "user",
    ]
    assert json.loads(last[6]["content"]) == {"loan_id": 5}
    assert last[6]["tool_call_id"] == last[5]["tool_calls"][0]["id"]


def test_a_pair_stands_where_the_model_did_something_else(folder: Path) -> None:
    """Looking at the shelf is no mistake, and is not rejected."""
    (line,) = export(folder, made(folder, {"loan": answered(*STEPS)}), "dpo")
    assert called(line["chosen"][0]) == ("borrow", {"title": "Emma"})
    assert called(line["rejected"][0]) == ("borrow", {"title": "Walden"})
    assert line["prompt"][-1] == LOAN["turns"][1][0]


def test_what_a_model_did_right_in_the_failed_turn_stands_before_the_pair(folder: Path) -> None:
    steps = [STEPS[0], [["borrow(title='Emma')"]], [["give_back(loan_id=5)"]]]
    (line,) = export(folder, made(folder, {"loan": answered(*steps, words="It is yours.")}), "dpo")
    assert called(line["chosen"][0]) == ("leave_note", {"text": "Emma"})
    assert line["rejected"] == [{"role": "assistant", "content": "It is yours."}]
    assert json.loads(line["prompt"][-1]["content"]) == {"loan_id": 5}


def test_one_call_too_many_leaves_nothing_to_prefer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    too_many = [STEPS[0], [["borrow(title='Emma')"], ["leave_note(text='Emma')"], ["ring_bell(tone='high')"]], []]
    answers = {"loan": answered(*STEPS), "bell": answered(*too_many)}
    export(folder, made(folder, answers, LOAN, {**LOAN, "id": "bell"}), "dpo")
    assert "left out 1: the model made every expected call" in capsys.readouterr().out


def test_an_example_offers_the_functions_that_were_on_offer_then(folder: Path) -> None:
    turns, truth = LOAN["turns"], LOAN["ground_truth"]
    row = {**LOAN, "turns": [*turns[:2], [], turns[2]], "ground_truth": [*truth[:2], [], truth[2]]}
    row["held_out"] = {"2": ["give_back"]}
    examples = export(folder, made(folder, {"loan": answered(*STEPS, [])}, row), "openai")
    offered = [{tool["function"]["name"] for tool in line["tools"]} for line in examples]
    assert [("give_back" in names) for names in offered] == [False, False, True]


def test_conversations_are_chats_that_openais_file_check_takes(folder: Path) -> None:
    for line in export(folder, made(folder, {"loan": answered(*STEPS)}), "openai"):
        assert not [*complaints(line["messages"], line["tools"])]
        assert [message.get("weight") for message in line["messages"] if message["role"] == "assistant"][-1] is None


def complaints(messages: list[Message], tools: list[Message]) -> Iterator[str]:
    """The problems that OpenAI's check of chat files refuses, by its guides to fine-tuning."""
    names = [tool["function"]["name"] for tool in tools]
    if len(set(names)) < len(names) or not all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names):
        yield "names of tools"
    if messages[-1]["role"] != "assistant":
        yield "the last message is the assistant's"
    open_calls: list[str] = []
    for message in messages:
        known = {"role", "content", "name", "tool_calls", "tool_call_id", "weight"}
        if not message.keys() <= known or message["role"] not in ("system", "user", "assistant", "tool"):
            yield f"unknown: {message}"
        if message.get("weight", 1) not in (0, 1) or ("weight" in message and message["role"] != "assistant"):
            yield "weight is 0 or 1, and the assistant's"
        if not isinstance(message.get("content", ""), str) or not (message.get("content") or message.get("tool_calls")):
            yield f"nothing is said: {message}"
        if (message["role"] == "tool") != bool(open_calls):
            yield "each call is answered by a tool message, at once"
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
        for call in message.get("tool_calls", []):
            open_calls.append(call["id"])
            if call["function"]["name"] not in names or not isinstance(json.loads(call["function"]["arguments"]), dict):
                yield f"call: {call}"
    if len(open_calls) > len(messages[-1].get("tool_calls", [])):
        yield "calls without an answer"


def test_a_conversation_leaves_the_test_set_with_all_its_examples(folder: Path) -> None:
    answers = {"loan": answered(*STEPS), "right": answered(*[[each] for each in LOAN["ground_truth"]])}
    result = made(folder, answers, LOAN, {**LOAN, "id": "right"})
    export(folder, result, "sft", "--leave-test-set", str(folder / "rest.jsonl"), free=False)
    assert [row["id"] for row in lines(folder / "rest.jsonl")] == ["right"]
