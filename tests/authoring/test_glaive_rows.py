"""Raw Glaive conversations, from any text to a converted file; test_datasets_training has the table of their rows."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tunecheck import ConfigurationError, DataError
from tunecheck.datasets import MAX_GROWTH, ConversationError, ConversionReport, convert, forms, open_dataset
from tunecheck.formats import read_calls
from tunecheck.plugins import dumps
from tunecheck_authoring._training.other_forms import glaive_rows

WEATHER = {"name": "weather", "description": "Forecast", "parameters": {"type": "object", "properties": {"city": {}}}}
FUNCTIONS = (
    "SYSTEM: You are a helpful assistant with access to the following functions. Use them if required -\n"
    f"{json.dumps(WEATHER, indent=4)}\n"
)
CALL = """<functioncall> {"name": "weather", "arguments": '{"city": "Oslo"}'}"""


def refusal(raw: dict[str, Any]) -> str:
    with pytest.raises(ConversationError) as caught:
        glaive_rows(raw, 1)
    return str(caught.value)


def test_text_beside_a_call_is_kept_and_read_back() -> None:
    chat = f"USER: Rain?\nASSISTANT: Let me see. {CALL}\nFUNCTION RESPONSE: 3\nASSISTANT: Yes."
    call: Any = glaive_rows({"system": FUNCTIONS, "chat": chat}, 1)[0]
    assert call["answer"]["content"] == "Let me see."
    reading = read_calls(call["answer"])
    assert [found.name for found in reading.calls] == ["weather"]
    assert reading.text == "Let me see."


def test_functions_nested_without_end_are_not_json() -> None:
    assert "are not JSON" in refusal({"system": '{"a":' * 100_000, "chat": "USER: a\nASSISTANT: b"})


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
    assert (report.conversations, report.unreadable) == (200, {})
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
    assert dataset.scan().has_ids
    assert dataset.defaults.column_mapping == {
        "ground_truth": "${data.answer}",
        "tool_definitions": "${data.tools}",
        "response": "${target.response}",
    }
    assert dataset.defaults.evaluators == ["function_call_match", "argument_match", "match"]


def test_a_conversation_that_cannot_be_read_is_reported_by_number_and_the_others_go_on(tmp_path: Path) -> None:
    report = convert_glaive(source(tmp_path, [GOOD, BAD, 7, GOOD]), tmp_path / "x.jsonl")
    assert [(number, bool(reason)) for number, reason in report.unreadable.items()] == [(2, True), (3, True)]
    assert [row["id"] for row in rows_in(tmp_path / "x.jsonl")] == ["glaive-1-1", "glaive-4-1"]
    assert (report.conversations, report.rows, report.calls) == (4, 2, 0)


def test_json_lines_are_read_too_and_a_broken_line_is_one_conversation(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    path.write_text(f"\ufeff{json.dumps(GOOD)}\n\n{{broken\n{json.dumps(GOOD)}\n")
    report = convert_glaive(path, tmp_path / "x.jsonl")
    assert [*report.unreadable] == [3]
    assert [row["id"] for row in rows_in(tmp_path / "x.jsonl")] == ["glaive-1-1", "glaive-4-1"]


def test_lone_surrogates_survive(tmp_path: Path) -> None:
    chat = "USER: a\ud83d\nASSISTANT: b\ude00"
    convert_glaive(source(tmp_path, [{"system": "", "chat": chat}]), tmp_path / "x.jsonl")
    (row,) = rows_in(tmp_path / "x.jsonl")
    assert (row["query"][0]["content"], row["answer"]) == ("a\ud83d", "b\ude00")


@pytest.mark.parametrize("conversations", [[BAD], [1, 2]])
def test_when_none_can_be_read_nothing_is_written(tmp_path: Path, conversations: list[Any]) -> None:
    with pytest.raises(DataError, match=r"none of \d conversations can be converted \(conversation 1: "):
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


def test_a_sidecar_that_says_something_else_is_kept(tmp_path: Path) -> None:
    raw, out = source(tmp_path, [GOOD]), tmp_path / "x.jsonl"
    out.with_suffix(".yaml").write_text("evaluators: [bleu]\n")
    assert convert_glaive(raw, out).sidecar_kept
    assert open_dataset(out).defaults.evaluators == ["bleu"]
    out.with_suffix(".yaml").unlink()
    convert_glaive(raw, out, overwrite=True)
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
