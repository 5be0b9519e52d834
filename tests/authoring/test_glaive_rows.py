"""One raw Glaive conversation into rows: what becomes messages, answers and tools, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.tables import cases

from tunecheck import ConfigurationError, DataError
from tunecheck.datasets import MAX_GROWTH, ConversationError, ConversionReport, convert, forms, open_dataset
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


@cases("authoring")
def test_a_conversation_that_cannot_be_read_says_why(raw: dict[str, Any], reason: str) -> None:
    assert reason in refusal(raw)


def test_functions_nested_without_end_are_not_json() -> None:
    assert "are not JSON" in refusal({"system": '{"a":' * 100_000, "chat": "USER: a\nASSISTANT: b"})


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


# -- converting a file of raw Glaive conversations: the real sample, the report, the sidecar, and files in the way


def convert_glaive(source: Path, out: Path, **options: bool) -> ConversionReport:
    return convert(source, forms()["glaive"], out, **options)


GOOD = {"system": "", "chat": "USER: Hi\nASSISTANT: Hello! <|endoftext|>"}
BAD = {"system": "", "chat": "Hi"}


def source(folder: Path, conversations: Any) -> Path:
    path = folder / "raw.json"
    path.write_text(json.dumps(conversations))
    return path


def rows_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def sample(shared_data: Path) -> Path:
    return shared_data / "glaive" / "glaive_v2_sample.json"


def test_the_whole_sample_converts_and_no_call_is_dropped(sample: Path, tmp_path: Path) -> None:
    raw = json.loads(sample.read_text("utf-8"))
    report = convert_glaive(sample, tmp_path / "glaive.jsonl")
    assert (report.conversations, report.unreadable) == (200, [])
    assert report.calls == report.call_rows == 137
    turns = sum(len(re.findall(r"^ASSISTANT:", item["chat"], re.MULTILINE)) for item in raw)
    assert report.rows == turns == len(rows_in(tmp_path / "glaive.jsonl"))


def test_every_call_of_the_sample_has_the_arguments_that_were_written(sample: Path, tmp_path: Path) -> None:
    convert_glaive(sample, tmp_path / "glaive.jsonl")
    written = []
    for item in json.loads(sample.read_text("utf-8")):
        for name, text in re.findall(r"""<functioncall> {"name": "(.*?)", "arguments": '(.*)'}""", item["chat"]):
            written.append((name, json.loads(text)))
    found = []
    for row in rows_in(tmp_path / "glaive.jsonl"):
        found += [(call.name, call.arguments) for call in read_calls(row["answer"]).calls]
    assert len(found) == 137
    assert found == written
    assert sum("[User's Name]" in json.dumps(arguments) for _, arguments in found) == 3


def test_the_messages_of_the_sample_are_ones_a_chat_completions_server_accepts(sample: Path, tmp_path: Path) -> None:
    convert_glaive(sample, tmp_path / "glaive.jsonl")
    for row in rows_in(tmp_path / "glaive.jsonl"):
        waiting: list[str] = []
        for message in row["query"]:
            if message["role"] == "tool":
                assert waiting.pop(0) == message["tool_call_id"]
            else:
                assert not waiting
            for call in message.get("tool_calls", ()):
                waiting.append(call["id"])
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
        assert not waiting
        assert row["query"][-1]["role"] in ("user", "tool")
        assert all(tool["type"] == "function" and tool["function"]["parameters"] for tool in row["tools"])


def test_the_converted_sample_is_a_data_set_with_defaults(sample: Path, tmp_path: Path) -> None:
    convert_glaive(sample, tmp_path / "glaive.jsonl")
    dataset = open_dataset(tmp_path / "glaive.jsonl")
    assert dataset.scan().ids_unique
    assert dataset.defaults.column_mapping == {
        "ground_truth": "${data.answer}",
        "tool_definitions": "${data.tools}",
        "response": "${target.response}",
    }
    assert dataset.defaults.evaluators == ["function_call_match", "argument_match", "match"]


def test_a_conversation_that_cannot_be_read_is_reported_by_number_and_the_others_go_on(tmp_path: Path) -> None:
    report = convert_glaive(source(tmp_path, [GOOD, BAD, 7, GOOD]), tmp_path / "x.jsonl")
    assert [(item.number, bool(item.reason)) for item in report.unreadable] == [(2, True), (3, True)]
    assert [row["id"] for row in rows_in(tmp_path / "x.jsonl")] == ["glaive-1-1", "glaive-4-1"]
    assert (report.conversations, report.rows, report.calls) == (4, 2, 0)


def test_json_lines_are_read_too_and_a_broken_line_is_one_conversation(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    path.write_text(f"\ufeff{json.dumps(GOOD)}\n\n{{broken\n{json.dumps(GOOD)}\n")
    report = convert_glaive(path, tmp_path / "x.jsonl")
    assert [item.number for item in report.unreadable] == [3]
    assert [row["id"] for row in rows_in(tmp_path / "x.jsonl")] == ["glaive-1-1", "glaive-4-1"]


def test_lone_surrogates_survive(tmp_path: Path) -> None:
    chat = "USER: a\ud83d\nASSISTANT: b\ude00"
    convert_glaive(source(tmp_path, [{"system": "", "chat": chat}]), tmp_path / "x.jsonl")
    (row,) = rows_in(tmp_path / "x.jsonl")
    assert (row["query"][0]["content"], row["answer"]) == ("a\ud83d", "b\ude00")


@pytest.mark.parametrize("conversations", [[BAD], [1, 2]])
def test_when_none_can_be_read_nothing_is_written(tmp_path: Path, conversations: list[Any]) -> None:
    with pytest.raises(DataError, match=r"none of \d conversations can be converted; number 1: "):
        convert_glaive(source(tmp_path, conversations), tmp_path / "out" / "x.jsonl")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_file_that_breaks_off_leaves_what_was_there_before(tmp_path: Path) -> None:
    raw = tmp_path / "raw.json"
    raw.write_text(json.dumps([GOOD])[:-1] + ', {"system": ')
    (tmp_path / "x.jsonl").write_text("before")
    with pytest.raises(DataError, match="line 1, column"):
        convert_glaive(raw, tmp_path / "x.jsonl", overwrite=True)
    assert (tmp_path / "x.jsonl").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw.json", "x.jsonl"]


def test_an_existing_data_set_is_overwritten_only_when_asked(tmp_path: Path) -> None:
    raw = source(tmp_path, [GOOD])
    (tmp_path / "x.jsonl").write_text("before")
    with pytest.raises(ConfigurationError, match="exists"):
        convert_glaive(raw, tmp_path / "x.jsonl")
    convert_glaive(raw, tmp_path / "x.jsonl", overwrite=True)
    assert len(rows_in(tmp_path / "x.jsonl")) == 1


def test_a_sidecar_that_says_something_else_is_kept_unless_asked(tmp_path: Path) -> None:
    raw, out = source(tmp_path, [GOOD]), tmp_path / "x.jsonl"
    out.with_suffix(".yaml").write_text("evaluators: [bleu]\n")
    assert convert_glaive(raw, out).sidecar_kept
    assert open_dataset(out).defaults.evaluators == ["bleu"]
    assert not convert_glaive(raw, out, overwrite=True, overwrite_defaults=True).sidecar_kept
    assert open_dataset(out).defaults.evaluators == ["function_call_match", "argument_match", "match"]
    assert not convert_glaive(raw, out, overwrite=True).sidecar_kept


@pytest.mark.parametrize(
    ("raw", "out", "error", "words"),
    [
        ("empty.json", "x.jsonl", DataError, "has no conversations"),
        ("raw.jsonl", "raw.jsonl", ConfigurationError, "is the source itself"),
        ("raw.jsonl", "x.csv", ConfigurationError, r"such as x\.jsonl"),
        ("none.json", "x.jsonl", DataError, "there is no data file"),
        ("raw.jsonl", "raw.jsonl/x.jsonl", ConfigurationError, "cannot be written"),
    ],
)
def test_a_source_or_a_result_that_cannot_be_is_a_clear_error(
    tmp_path: Path, raw: str, out: str, error: type[Exception], words: str
) -> None:
    (tmp_path / "empty.json").write_text("[]")
    (tmp_path / "raw.jsonl").write_text(json.dumps(GOOD))
    with pytest.raises(error, match=words):
        convert_glaive(tmp_path / raw, tmp_path / out, overwrite=True)
