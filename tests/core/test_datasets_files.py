"""Files of rows in JSON Lines, JSON and CSV: what is read exactly, and what is refused with file, line and column."""

import csv
import hashlib
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.tables import cases
from tests.text_fragments import JSON_VALUES

from tunecheck import DataError, RunError
from tunecheck.datasets import Dataset, _sources as sources, _tables as tables, open_dataset


def written(folder: Path, content: str | bytes, suffix: str = "jsonl") -> Dataset:
    path = folder / f"data.{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_dataset(path)


def values(dataset: Dataset) -> list[dict[str, Any]]:
    return [dict(row.values) for row in dataset.rows()]


def refused(dataset: Dataset) -> str:
    with pytest.raises(DataError) as caught:
        dataset.scan()
    text = str(caught.value)
    assert "\n" not in text
    return text.removeprefix(str(dataset.path))


@cases("datasets")
def test_a_text_is_read_exactly(
    tmp_path: Path, suffix: str, content: str, rows: list[dict[str, Any]], ids: list[str] | None
) -> None:
    read = list(written(tmp_path, content, suffix).rows())
    assert repr([dict(row.values) for row in read]) == repr(rows)
    assert [row.index for row in read] == list(range(len(rows)))
    assert ids is None or [row.id for row in read] == ids


@cases("datasets")
def test_a_text_that_holds_no_rows_is_refused_with_its_place(
    tmp_path: Path, suffix: str, content: str, encoding: str, refusal: str
) -> None:
    found = refused(written(tmp_path, content.encode(encoding), suffix))
    assert re.fullmatch(refusal, found), found


@cases("datasets")
def test_broken_json_is_refused_with_line_and_column(tmp_path: Path, content: str, line: int, column: int) -> None:
    assert refused(written(tmp_path, content, "json")).startswith(
        f", line {line}, column {column}: the file is not JSON: "
    )


def test_nesting_without_end_is_refused(tmp_path: Path) -> None:
    line = '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"
    assert refused(written(tmp_path, line)).startswith(
        ", line 1: the line cannot be read: the JSON is nested too deeply"
    )
    assert "nested too deeply" in refused(written(tmp_path, f"[{line}]", "json"))


def test_a_cell_of_hundreds_of_kilobytes_is_read(tmp_path: Path) -> None:
    text = "x" * 400_000
    assert values(written(tmp_path, f"a\n{text}\n", "csv")) == [{"a": text}]


def test_a_quote_that_swallows_the_file_ends_at_a_largest_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_CELL", 200_000)
    before = csv.field_size_limit(100_000)
    try:
        text = refused(written(tmp_path, 'a,b\n"x,3\n' + "4,5\n" * 100_000, "csv"))
    finally:
        csv.field_size_limit(before)
    assert text.startswith(", line 2: the row is not CSV (field larger than field limit")


def test_a_scan_gives_rows_columns_and_the_sha256_of_the_files_bytes(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"b": 2}\r\n'
    scan = written(tmp_path, content).scan()
    assert (scan.rows, scan.columns) == (2, frozenset({"a", "b"}))
    assert scan.sha256 == hashlib.sha256(content).hexdigest()


def test_a_number_of_thousands_of_digits_is_refused(tmp_path: Path) -> None:
    assert refused(written(tmp_path, b'{"a": ' + b"9" * 5000 + b"}")).startswith(
        ", line 1: the line cannot be read: a whole number has"
    )


def test_a_line_too_long_to_be_a_row_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_ROW_BYTES", 1 << 20)
    text = refused(written(tmp_path, b'{"a": 1}\n{"a": "' + b"x" * (2 << 20) + b'"}\n'))
    assert text.startswith(", line 2: the line is longer than 1 MiB")


def test_rows_are_refused_when_the_file_changed_after_the_scan(tmp_path: Path) -> None:
    dataset = written(tmp_path, b'{"a": 1}\n')
    dataset.scan()
    (tmp_path / "data.jsonl").write_bytes(b'{"a": 1}\n{"a": 2}\n')
    with pytest.raises(DataError, match="has changed since it was first read"):
        dataset.rows()


def test_rows_end_where_the_file_changes_while_they_are_read(tmp_path: Path) -> None:
    dataset = written(tmp_path, b'{"a": 1}\n{"a": 2}\n')
    rows = dataset.rows()
    assert next(rows).values == {"a": 1}
    (tmp_path / "data.jsonl").write_bytes(b'{"a": 1}\n{"a": 3, "b": 1}\n')
    with pytest.raises(RunError, match="has changed since it was first read"):
        list(rows)


def test_a_file_that_got_a_new_date_only_has_not_changed(tmp_path: Path) -> None:
    dataset = written(tmp_path, b'{"a": 1}\n{"a": 2}\n')
    rows = dataset.rows()
    next(rows)
    os.utime(tmp_path / "data.jsonl", (1, 1))
    assert [row.values for row in rows] == [{"a": 2}]


def test_a_file_that_vanished_is_one_clear_error(tmp_path: Path) -> None:
    dataset = written(tmp_path, b'{"a": 1}\n')
    (tmp_path / "data.jsonl").unlink()
    assert refused(dataset).startswith(": cannot be read")


def test_a_limit_gives_the_first_rows_of_a_file_that_is_checked_as_a_whole(tmp_path: Path) -> None:
    written(tmp_path, b'{"a": 1}\n{"b": 2}\n{"c": 3}\n')
    dataset = open_dataset(tmp_path / "data.jsonl", limit=2)
    assert values(dataset) == [{"a": 1}, {"b": 2}]
    assert dataset.scan().rows == 2
    (tmp_path / "data.jsonl").write_bytes(b'{"a": 1}\n{"b": 2}\nbroken\n')
    assert ", line 3, column 1" in refused(open_dataset(tmp_path / "data.jsonl", limit=2))


objects = st.dictionaries(st.text(), JSON_VALUES, max_size=4)


@given(
    lines=st.lists(objects, min_size=1, max_size=8),
    chunk=st.integers(1, 64),
    indent=st.sampled_from([None, 0, 3, 25]),
    ascii_only=st.booleans(),
)
def test_what_was_written_is_read_back_whatever_the_chunks(
    lines: list[dict[str, Any]], chunk: int, indent: int | None, ascii_only: bool, tmp_path_factory: Any
) -> None:
    text = "\n".join(json.dumps(line, ensure_ascii=ascii_only) for line in lines)
    array = json.dumps(lines, indent=indent, ensure_ascii=ascii_only)
    folder = tmp_path_factory.mktemp("round")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "CHUNK", chunk)
        assert values(written(folder, text.encode("utf-8", "surrogatepass"))) == lines
        assert values(written(folder, array.encode("utf-8", "surrogatepass"), "json")) == lines


@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_in_one_line(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("any")
    for name in ("x.jsonl", "x.json", "x.csv"):
        (folder / name).write_bytes(content)
        try:
            list(open_dataset(folder / name).rows())
        except DataError as error:
            assert "\n" not in str(error)


@given(text=st.text(alphabet='[]{}",:\\ \n1-.eEtrufalsn', max_size=30), chunk=st.integers(1, 8))
def test_a_text_is_read_exactly_when_the_standard_library_reads_an_array_of_objects(
    text: str, chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = f"[{text}"
    try:
        expected = json.loads(text)
    except (ValueError, RecursionError):
        expected = None
    usable = isinstance(expected, list) and bool(expected) and all(isinstance(item, dict) for item in expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "CHUNK", chunk)
        dataset = written(tmp_path_factory.mktemp("any"), text, "json")
        if usable:
            assert values(dataset) == expected
        else:
            refused(dataset)


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@given(
    header=st.lists(st.text("abcäß 👋", min_size=1, max_size=5), min_size=2, max_size=4, unique=True),
    data=st.data(),
    chunk=st.integers(1, 30),
)
def test_what_pythons_writer_wrote_is_read_back(
    header: list[str], data: st.DataObject, chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = data.draw(st.lists(st.lists(cells, min_size=len(header), max_size=len(header)), min_size=1, max_size=5))
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "CHUNK", chunk)
        dataset = written(tmp_path_factory.mktemp("round"), text.getvalue(), "csv")
        assert [list(row.values()) for row in values(dataset)] == rows
