"""Converting a file of raw Glaive conversations: the real sample, the report, the sidecar, and files in the way."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tunecheck import ConfigurationError, DataError
from tunecheck.datasets import ConversionReport, convert, forms, open_dataset
from tunecheck.formats import read_calls


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


def test_an_empty_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no conversations"):
        convert_glaive(source(tmp_path, []), tmp_path / "x.jsonl")


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


def test_the_source_is_never_overwritten(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_text(json.dumps(GOOD))
    with pytest.raises(ConfigurationError, match="is the source itself"):
        convert_glaive(raw, raw, overwrite=True)


def test_a_result_of_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"such as x\.jsonl"):
        convert_glaive(source(tmp_path, [GOOD]), tmp_path / "x.csv")


def test_a_missing_source_and_an_impossible_folder_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no data file"):
        convert_glaive(tmp_path / "none.json", tmp_path / "x.jsonl")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        convert_glaive(source(tmp_path, [GOOD]), tmp_path / "raw.json" / "x.jsonl")
