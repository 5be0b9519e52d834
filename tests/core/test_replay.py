"""The replay endpoint: recorded answers by row id or by content, and a file's mistakes told with their lines."""

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.platforms import posix_only
from tests.tables import cases

from tunecheck import ConfigurationError, ContentFilterError, DataError, NoAnswerError, ReplyError, Row
from tunecheck.endpoints import ChatRequest, Completion, ReplayEndpoint, load_endpoint
from tunecheck.plugins import dumps_line, read_yaml

HELLO = [{"role": "user", "content": "hello"}]


def replay(path: Path, **keys: Any) -> ReplayEndpoint:
    """The endpoint of a definition with this file."""
    endpoint = load_endpoint({"kind": "replay", "path": str(path), **keys})
    assert isinstance(endpoint, ReplayEndpoint)
    return endpoint


def a_row(row_id: str) -> Row:
    return Row(index=0, id=row_id, values={}, fingerprint="")


async def answered(path: Path, row_id: str = "r1", messages: Any = HELLO, **options: Any) -> Completion:
    endpoint = replay(path, **options)
    try:
        return await endpoint.complete(ChatRequest(messages=messages, row=a_row(row_id)))
    finally:
        await endpoint.close()


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[Any]:
    """Writes records to a file and gives its path."""

    def write(*records: object) -> Path:
        path = tmp_path / "answers.jsonl"
        path.write_bytes(b"".join(dumps_line(record) for record in records))
        return path

    yield write


async def test_messages_are_equal_whatever_the_order_of_keys_and_with_null_or_text_parts(answers: Any) -> None:
    path = answers({"messages": [{"content": "hello", "role": "user", "name": None}], "response": "hi"})
    parts = [{"role": "user", "content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]}]
    assert [(await answered(path, messages=messages)).text for messages in (HELLO, parts)] == ["hi", "hi"]


@pytest.mark.parametrize(
    ("records", "row_id"),
    [
        ([{"id": "r0", "response": "no"}, {"id": "r1", "response": "hi"}], "r1"),
        ([{"id": 7, "response": "hi"}], "7"),
        ([{"messages": HELLO, "response": "hi"}, {"id": "other", "response": "no"}], "r1"),
        ([{"id": "r2", "messages": HELLO, "response": "no"}, {"id": "r1", "response": "hi"}], "r1"),
    ],
    ids=["by the row's id", "by a whole number", "by the messages without an id", "by the id before the messages"],
)
async def test_an_answer_is_found(answers: Any, records: list[Any], row_id: str) -> None:
    assert (await answered(answers(*records), row_id)).columns()["response"] == "hi"


@cases("endpoints")
async def test_a_record_becomes_these_columns(answers: Any, record: Any, key: str | None, columns: Any) -> None:
    completion = await answered(answers({"id": "r1", **record}), response=key)
    assert completion.columns() == {**Completion("").columns(), **columns}


async def test_a_recorded_completion_that_cannot_be_read_or_was_declined_is_an_error(answers: Any) -> None:
    path = answers(
        {"id": "r1", "response": {"choices": []}},
        {"id": "r2", "response": {"choices": [{"finish_reason": "content_filter"}]}},
    )
    with pytest.raises(ReplyError, match=r"row r1: the answer in .* cannot be read: the reply has no choices"):
        await answered(path)
    with pytest.raises(ContentFilterError, match="row r2"):
        await answered(path, "r2")


async def test_a_row_without_a_recorded_answer_is_an_error_that_names_row_and_file(answers: Any) -> None:
    path = answers({"id": "r0", "response": "hi"})
    with pytest.raises(ReplyError, match=r"answers\.jsonl has no recorded answer for row r1: add a record for it$"):
        await answered(path)
    with pytest.raises(ReplyError, match=r"for a request without a row: add a record for it, or name .* --dataset"):
        await replay(path).complete(ChatRequest(messages=HELLO))


@pytest.mark.parametrize("error", [{"type": "ThrottledError", "message": "too many", "status": 429}, "boom", {}])
async def test_a_record_with_an_error_is_no_answer(answers: Any, error: Any) -> None:
    path = answers({"id": "r1", "response": None, "error": error})
    with pytest.raises(NoAnswerError, match=r"row r1: the record in .*answers\.jsonl holds an error: record an"):
        await answered(path)


def test_two_answers_for_one_id_are_refused_with_both_lines(tmp_path: Path) -> None:
    path = tmp_path / "twice.jsonl"
    path.write_text('{"id":"a","response":"1"}\n\n{"id":"b","response":"2"}\n{"id":"a","response":"3"}\n')
    with pytest.raises(DataError, match=r"twice\.jsonl, lines 1 and 4 both answer the id 'a'"):
        replay(path)


def test_the_same_messages_without_ids_are_refused_with_both_lines(answers: Any) -> None:
    with pytest.raises(DataError, match="lines 1 and 2 both answer the same messages"):
        replay(answers({"messages": HELLO, "response": "a"}, {"messages": HELLO, "response": "b"}))


async def test_the_same_messages_may_belong_to_rows_with_ids_of_their_own(answers: Any) -> None:
    path = answers(*({"id": name, "messages": HELLO, "response": name} for name in ("r1", "r2")))
    assert [(await answered(path, name)).text for name in ("r1", "r2")] == ["r1", "r2"]


@cases("others")
def test_a_broken_line_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text(f'{{"id":"0","response":""}}\n{line}\n', errors="surrogateescape")
    with pytest.raises(DataError, match=complaint):
        replay(path)


def test_deeply_nested_messages_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_text('{"response":"","messages":' + "[" * 100_000 + "]" * 100_000 + "}\n")
    with pytest.raises(DataError, match="line 1"):
        replay(path)


def test_a_missing_and_an_empty_file_are_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the recorded answers .*nowhere\.jsonl cannot be read: No such file"):
        replay(tmp_path / "nowhere.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(DataError, match=r"empty\.jsonl: the file has no recorded answers"):
        replay(tmp_path / "empty.jsonl")


async def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id":"r1","response":"hi"}\r\n{"id":"r2","response":"ho"}')
    assert [(await answered(path, name)).text for name in ("r1", "r2")] == ["hi", "ho"]


async def test_lone_surrogates_and_huge_integers_come_back_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text('{"id":"\\ud83d","response":"\\ud83d","latency_ms":18446744073709551617}\n')
    completion = await answered(path, "\ud83d")
    assert (completion.text, completion.latency_ms) == ("\ud83d", 18446744073709551617)


async def test_a_file_that_changed_under_the_run_is_an_error_not_another_row_s_answer(answers: Any) -> None:
    endpoint = replay(answers({"id": "r1", "response": "first"}))
    answers({"id": "zz", "response": "other"})
    with pytest.raises(ReplyError):
        await endpoint.complete(ChatRequest(messages=[], row=a_row("r1")))
    await endpoint.close()


async def test_memory_stays_flat_whatever_the_size_of_the_answers(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    with path.open("wb") as file:
        for number in range(20_000):
            file.write(dumps_line({"id": f"r{number}", "response": "x" * 2000}))
    tracemalloc.start()
    try:
        endpoint = replay(path)
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 40 MB of answers; the index keeps a key and a place for each record.
    assert kept < 20_000 * 250
    assert most < kept + 1_000_000
    assert (await endpoint.complete(ChatRequest(messages=[], row=a_row("r19999")))).text == "x" * 2000
    await endpoint.close()


def test_settings_show_the_path_and_answers_depend_on_the_content_only(answers: Any, tmp_path: Path) -> None:
    path = answers({"id": "r1", "response": "hi"})
    copied = tmp_path / "copy.jsonl"
    copied.write_bytes(path.read_bytes())
    first, second = replay(path), replay(copied)
    assert first.settings()["path"] == str(path)
    assert first.answer_settings() == second.answer_settings()
    assert first.depends_on_row
    copied.write_bytes(path.read_bytes().replace(b"hi", b"ho"))
    assert replay(copied).answer_settings() != first.answer_settings()


async def test_a_definition_names_the_file_relative_to_itself(answers: Any, tmp_path: Path) -> None:
    answers({"id": "r1", "result": "hi"})
    (tmp_path / "recorded.yaml").write_text("kind: replay\npath: answers.jsonl\nresponse: result\n")
    endpoint = load_endpoint(tmp_path / "recorded.yaml")
    assert (await endpoint.complete(ChatRequest(messages=[], row=a_row("r1")))).text == "hi"
    assert endpoint.name == "recorded"
    await endpoint.close()


def test_a_definition_without_a_path_says_so(tmp_path: Path) -> None:
    (tmp_path / "recorded.yaml").write_text("kind: replay\n")
    with pytest.raises(ConfigurationError, match="path: is missing"):
        load_endpoint(tmp_path / "recorded.yaml")


@posix_only
def test_a_pipe_is_refused_instead_of_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match=r"the recorded answers .*pipe cannot be read: the path is not a regular file"):
        load_endpoint({"kind": "replay", "path": str(tmp_path / "pipe")})
    with pytest.raises(ConfigurationError, match=r"pipe: .*not a regular file"):
        read_yaml(tmp_path / "pipe")
