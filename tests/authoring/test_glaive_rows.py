"""One raw Glaive conversation into rows: what becomes messages, answers and tools, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tunecheck.datasets import MAX_GROWTH, ConversationError
from tunecheck.formats import read_calls
from tunecheck.plugins import dumps
from tunecheck_authoring._training.glaive import glaive_rows

WEATHER = {"name": "weather", "description": "Forecast", "parameters": {"type": "object", "properties": {"city": {}}}}
NO_FUNCTIONS = "SYSTEM: You are a helpful assistant, with no access to external functions.\n"
FUNCTIONS = (
    "SYSTEM: You are a helpful assistant with access to the following functions. Use them if required -\n"
    f"{json.dumps(WEATHER, indent=4)}\n"
)
CALL = """<functioncall> {"name": "weather", "arguments": '{"city": "Oslo"}'}"""


def rows_of(chat: str, system: str = FUNCTIONS, number: int = 1) -> list[dict[str, Any]]:
    return glaive_rows({"system": system, "chat": chat}, number)


def refusal(raw: dict[str, Any]) -> str:
    with pytest.raises(ConversationError) as caught:
        glaive_rows(raw, 1)
    return str(caught.value)


def test_each_turn_of_the_assistant_is_a_row_with_all_that_was_said_before() -> None:
    first, second = rows_of(
        "USER: Hi\n\n\nASSISTANT: Hello! <|endoftext|>\n\n\nUSER: Bye\n\n\nASSISTANT: See you. <|endoftext|>",
        NO_FUNCTIONS,
        number=17,
    )
    system = {"role": "system", "content": "You are a helpful assistant, with no access to external functions."}
    assert first == {
        "id": "glaive-17-1",
        "conversation_id": "glaive-17",
        "query": [system, {"role": "user", "content": "Hi"}],
        "answer": "Hello!",
        "tools": [],
    }
    assert second["id"] == "glaive-17-2"
    assert second["query"] == [
        *first["query"],
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "Bye"},
    ]


def test_a_call_is_an_answer_and_then_a_message_with_its_result() -> None:
    call, text = rows_of(
        f'USER: Rain?\nASSISTANT: {CALL} <|endoftext|>\nFUNCTION RESPONSE: {{"rain": 3}}\nASSISTANT: Yes. <|endoftext|>'
    )
    assert call["answer"] == {"tool_uses": [{"recipient_name": "functions.weather", "parameters": {"city": "Oslo"}}]}
    assert text["answer"] == "Yes."
    assert text["query"][2:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": '{"rain": 3}'},
    ]


def test_the_functions_become_tools_and_the_sentence_stays_the_system_message() -> None:
    (row,) = rows_of("USER: Hi\nASSISTANT: Hello!")
    assert row["tools"] == [{"type": "function", "function": WEATHER}]
    assert row["query"][0]["content"] == (
        "You are a helpful assistant with access to the following functions. Use them if required"
    )


@pytest.mark.parametrize("written", [f"{json.dumps(WEATHER)}\n\n{json.dumps(WEATHER)}\n", json.dumps([WEATHER] * 2)])
def test_several_functions_may_follow_one_another_or_stand_in_a_list(written: str) -> None:
    (row,) = rows_of("USER: Hi\nASSISTANT: Hello!", f"SYSTEM: Use these: {written} Be brief.")
    assert [tool["function"]["name"] for tool in row["tools"]] == ["weather", "weather"]
    assert row["query"][0]["content"] == "Use these:\nBe brief."


def test_a_function_without_parameters_takes_none() -> None:
    (row,) = rows_of("USER: Hi\nASSISTANT: Hello!", 'SYSTEM: - {"name": "now", "parameters": {}}')
    assert row["tools"][0]["function"]["parameters"] == {"type": "object", "properties": {}}


def test_braces_in_a_sentence_are_no_functions() -> None:
    (row,) = rows_of("USER: Hi\nASSISTANT: Hello!", "SYSTEM: Call the user {name} [sic].")
    assert (row["tools"], row["query"][0]["content"]) == ([], "Call the user {name} [sic].")


def test_without_a_system_text_there_is_no_system_message() -> None:
    (row,) = rows_of("USER: Hi\nASSISTANT: Hello!", "")
    assert row["query"] == [{"role": "user", "content": "Hi"}]


def test_apostrophes_inside_arguments_stay_intact() -> None:
    call = """<functioncall> {"name": "send", "arguments": '{"message": "I'm late. [User's Name]"}'}"""
    (row,) = rows_of(f"USER: Write\nASSISTANT: {call} <|endoftext|>")
    assert row["answer"]["tool_uses"][0]["parameters"] == {"message": "I'm late. [User's Name]"}


def test_text_beside_a_call_is_kept_and_read_back() -> None:
    call, _ = rows_of(f"USER: Rain?\nASSISTANT: Let me see. {CALL}\nFUNCTION RESPONSE: 3\nASSISTANT: Yes.")
    assert call["answer"]["content"] == "Let me see."
    reading = read_calls(call["answer"])
    assert [found.name for found in reading.calls] == ["weather"]
    assert reading.text == "Let me see."


def test_two_calls_in_one_turn_get_their_results_in_order() -> None:
    rows = rows_of(
        f"USER: Rain?\nASSISTANT: {CALL} {CALL}\nFUNCTION RESPONSE: 1\nFUNCTION RESPONSE: 2\nASSISTANT: Yes."
    )
    assert len(rows[0]["answer"]["tool_uses"]) == 2
    assert [message.get("tool_call_id") for message in rows[1]["query"][-2:]] == ["call_1", "call_2"]


def test_words_inside_a_line_begin_no_turn() -> None:
    (row,) = rows_of("USER: Spell it\nas USER: or\n ASSISTANT: please\nASSISTANT: Say\n\nFUNCTION: x", NO_FUNCTIONS)
    assert row["query"][1]["content"] == "Spell it\nas USER: or\n ASSISTANT: please"
    assert row["answer"] == "Say\n\nFUNCTION: x"


def test_the_mark_of_the_end_is_left_in_what_the_user_wrote() -> None:
    (row,) = rows_of("USER: What is <|endoftext|>?\nASSISTANT: A mark.<|endoftext|>", NO_FUNCTIONS)
    assert (row["query"][1]["content"], row["answer"]) == ("What is <|endoftext|>?", "A mark.")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ({"chat": "USER: Hi"}, "'system' is missing"),
        ({"system": ""}, "'chat' is missing"),
        ({"system": "", "chat": ["USER: Hi"]}, "'chat' is a list, not text"),
        ({"system": "", "chat": ""}, "holds no turn of the assistant"),
        ({"system": "", "chat": "USER: Hi"}, "holds no turn of the assistant"),
        ({"system": "", "chat": "Hi\nASSISTANT: Hello"}, "does not begin with USER:"),
        ({"system": "S", "chat": "ASSISTANT: Hello"}, "no turn of the assistant that answers anything"),
        ({"system": "", "chat": "USER: Hi\nASSISTANT: <|endoftext|>"}, "message 2: the assistant says nothing"),
        ({"system": "", "chat": "USER: Hi\nFUNCTION RESPONSE: 3"}, "message 2: is a function's response"),
        ({"system": "", "chat": f"USER: Hi\nASSISTANT: {CALL}\nUSER: And?\nASSISTANT: Yes"}, "response is missing"),
        ({"system": "", "chat": 'USER: Hi\nASSISTANT: <functioncall> {"name": '}, "message 2: "),
        ({"system": 'Use {"name": "f", }', "chat": "USER: a\nASSISTANT: b"}, "are not JSON"),
        ({"system": 'Use {"title": "f"}', "chat": "USER: a\nASSISTANT: b"}, "has no name"),
        ({"system": 'Use {"name": "f", "parameters": [1]}', "chat": "USER: a\nASSISTANT: b"}, "are not an object"),
        ({"system": '{"a":' * 100_000, "chat": "USER: a\nASSISTANT: b"}, "are not JSON"),
    ],
)
def test_a_conversation_that_cannot_be_read_says_why(raw: dict[str, Any], reason: str) -> None:
    assert reason in refusal(raw)


def test_a_call_at_the_very_end_needs_no_result() -> None:
    assert len(rows_of(f"USER: Rain?\nASSISTANT: {CALL}")) == 1


def test_a_conversation_whose_rows_would_fill_the_disk_is_refused() -> None:
    turn = "USER: a\nASSISTANT: b\n"
    chat = turn * int((MAX_GROWTH / 25) ** 0.5 + 1)  # the two messages of a turn have 63 bytes
    assert "is too long" in refusal({"system": "", "chat": chat})


parts = st.sampled_from(
    [
        "USER: ",
        "ASSISTANT: ",
        "FUNCTION RESPONSE: ",
        "\n",
        "<functioncall> ",
        CALL,
        "<|endoftext|>",
        '{"name": "f"',
        "'",
        "}",
    ]
)


@given(system=st.text(max_size=30) | st.just(FUNCTIONS), chat=st.lists(parts | st.text(max_size=5), max_size=25))
def test_any_text_becomes_rows_or_a_reason(system: str, chat: list[str]) -> None:
    try:
        rows = glaive_rows({"system": system, "chat": "".join(chat)}, 1)
    except ConversationError as error:
        assert str(error)
        return
    assert rows
    for row in rows:
        dumps(row)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)))
def test_any_value_is_refused_or_read(raw: Any) -> None:
    for value in ({"system": raw, "chat": raw}, {"system": "", "chat": raw}):
        with pytest.raises(ConversationError):
            glaive_rows(value, 1)
