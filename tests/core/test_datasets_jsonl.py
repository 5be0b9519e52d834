"""JSON Lines: what is read exactly, and what is refused with file, line and column."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from tunecheck import DataError, RunError
from tunecheck.datasets import Dataset, _sources as sources_module, open_dataset

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, content: bytes, name: str = "data.jsonl") -> Dataset:
    path = folder / name
    path.write_bytes(content)
    return open_dataset(path)


def values(dataset: Dataset) -> list[dict[str, Any]]:
    return [dict(row.values) for row in dataset.rows()]


def refusal(dataset: Dataset) -> str:
    with pytest.raises(DataError) as caught:
        dataset.scan()
    text = str(caught.value)
    assert "\n" not in text
    return text.removeprefix(str(dataset.path))


def test_each_line_is_a_row_in_order(tmp_path: Path) -> None:
    dataset = written(tmp_path, b'{"a": 1}\n{"a": 2}\n{"b": "x"}')
    assert values(dataset) == [{"a": 1}, {"a": 2}, {"b": "x"}]
    assert [row.index for row in dataset.rows()] == [0, 1, 2]


def test_a_scan_gives_rows_columns_and_the_sha256_of_the_files_bytes(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"b": 2}\r\n'
    scan = written(tmp_path, content).scan()
    assert (scan.rows, scan.total, scan.columns) == (2, 2, frozenset({"a", "b"}))
    assert scan.sha256 == hashlib.sha256(content).hexdigest()


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    assert values(written(tmp_path, b'\xef\xbb\xbf{"a": "x"}\r\n{"a": "y"}\r\n')) == [{"a": "x"}, {"a": "y"}]


def test_blank_lines_are_skipped_and_still_counted(tmp_path: Path) -> None:
    rows = list(written(tmp_path, b'\n{"a": 1}\n \t\r\n\n{"a": 2}\n').rows())
    assert [(row.index, row.id) for row in rows] == [(0, "row-2"), (1, "row-5")]


def test_integers_beyond_64_bits_stay_exact(tmp_path: Path) -> None:
    big = 2**64
    assert values(written(tmp_path, json.dumps({"a": big, "b": [-(2**200)]}).encode())) == [
        {"a": big, "b": [-(2**200)]}
    ]


def test_an_integer_column_with_a_null_keeps_its_integers(tmp_path: Path) -> None:
    dataset = written(tmp_path, b'{"a": 9007199254740993}\n{"a": null}\n{"a": 1.5}\n')
    assert [row["a"] for row in values(dataset)] == [9007199254740993, None, 1.5]
    assert type(values(dataset)[0]["a"]) is int


def test_lone_surrogates_are_kept(tmp_path: Path) -> None:
    assert values(written(tmp_path, b'{"a": "x\\ud83dy"}\n{"a": "\\ud83d\\ude00"}')) == [{"a": "x\ud83dy"}, {"a": "😀"}]


def test_a_date_column_stays_text_and_a_time_stamp_a_number(tmp_path: Path) -> None:
    line = {"date": "2024-01-05", "created_at": 1700000000, "modified": "2024-01-05T10:00:00Z"}
    assert values(written(tmp_path, json.dumps(line).encode())) == [line]


def test_types_may_differ_from_row_to_row(tmp_path: Path) -> None:
    lines = [{"a": 1}, {"a": "1"}, {"a": [1]}, {"a": {"b": True}}, {"a": False}]
    assert values(written(tmp_path, "\n".join(map(json.dumps, lines)).encode())) == lines


def test_a_key_that_is_absent_stays_absent(tmp_path: Path) -> None:
    assert values(written(tmp_path, b'{"a": null}\n{}\n')) == [{"a": None}, {}]


def test_nan_and_infinity_are_read_as_null(tmp_path: Path) -> None:
    assert values(written(tmp_path, b'{"a": NaN, "b": [Infinity, -Infinity]}')) == [{"a": None, "b": [None, None]}]


def test_of_duplicate_keys_the_last_wins(tmp_path: Path) -> None:
    assert values(written(tmp_path, b'{"a": 1, "a": 2}')) == [{"a": 2}]


def test_line_separators_of_unicode_are_no_line_ends(tmp_path: Path) -> None:
    line = {"a": "x\u2028y\u2029z\x85"}
    assert values(written(tmp_path, json.dumps(line, ensure_ascii=False).encode())) == [line]


def test_broken_json_is_refused_with_line_column_and_an_excerpt(tmp_path: Path) -> None:
    text = refusal(written(tmp_path, b'{"a": 1}\n\n{"a": 1 "b": 2}\n'))
    assert text.startswith(", line 3, column 9: not JSON: ")
    assert '"a": 1 "b"' in text


def test_a_line_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    assert refusal(written(tmp_path, b'{"a": 1}\n{"a": "x')).startswith(", line 2, column 7: not JSON: unterminated")


@pytest.mark.parametrize(
    ("line", "kind"),
    [(b"[1]", "an array"), (b"3", "a number"), (b'"x"', "a text"), (b"null", "null"), (b"true", "a boolean")],
)
def test_a_line_that_is_not_an_object_is_refused(tmp_path: Path, line: bytes, kind: str) -> None:
    assert refusal(written(tmp_path, b'{"a": 1}\n' + line)).startswith(f", line 2: holds {kind} where")


def test_a_json_array_under_the_wrong_name_is_told_where_it_belongs(tmp_path: Path) -> None:
    for array in (b'[{"a": 1}]', b'[\n  {"a": 1}\n]', b'[{\n    "a": 1\n  }]'):
        assert "belongs in a .json file" in refusal(written(tmp_path, array))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_recognised_and_refused(tmp_path: Path, encoding: str) -> None:
    dataset = written(tmp_path, '{"answer": "yes"}\n'.encode(encoding))
    assert refusal(dataset) == ": is encoded as UTF-16; save it as UTF-8"


def test_what_is_not_utf_8_is_refused_with_line_and_byte(tmp_path: Path) -> None:
    text = refusal(written(tmp_path, '{"a": 1}\n{"a": "café"}\n'.encode("latin-1")))
    assert text == ", line 2: is not UTF-8 at byte 11 of the line; save the file as UTF-8"


def test_nul_bytes_are_refused_by_name(tmp_path: Path) -> None:
    assert "NUL bytes" in refusal(written(tmp_path, b'{"a": "some longer text before"}\n' + bytes(20)))


@pytest.mark.parametrize("content", [b"", b"\n", b" \r\n\t\n", b"\xef\xbb\xbf"])
def test_a_file_without_rows_is_refused(tmp_path: Path, content: bytes) -> None:
    assert refusal(written(tmp_path, content)) == ": has no rows"


def test_nesting_without_end_is_refused(tmp_path: Path) -> None:
    line = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert refusal(written(tmp_path, line)).startswith(", line 1: is nested too deeply")


def test_a_number_of_thousands_of_digits_is_refused(tmp_path: Path) -> None:
    assert refusal(written(tmp_path, b'{"a": ' + b"9" * 5000 + b"}")).startswith(", line 1: a whole number has more")


def test_a_line_too_long_to_be_a_row_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "MAX_ROW_BYTES", 1 << 20)
    text = refusal(written(tmp_path, b'{"a": 1}\n{"a": "' + b"x" * (2 << 20) + b'"}\n'))
    assert text.startswith(", line 2: is longer than 1 MiB")


def test_rows_are_refused_when_the_file_changed_after_the_scan(tmp_path: Path) -> None:
    dataset = written(tmp_path, b'{"a": 1}\n')
    dataset.scan()
    (tmp_path / "data.jsonl").write_bytes(b'{"a": 1}\n{"a": 2}\n')
    with pytest.raises(DataError, match="has changed since it was checked"):
        dataset.rows()


def test_rows_end_where_the_file_changes_while_they_are_read(tmp_path: Path) -> None:
    dataset = written(tmp_path, b'{"a": 1}\n{"a": 2}\n')
    rows = dataset.rows()
    assert next(rows).values == {"a": 1}
    (tmp_path / "data.jsonl").write_bytes(b'{"a": 1}\n{"a": 3, "b": 1}\n')
    with pytest.raises(RunError, match="has changed since it was checked"):
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
    assert refusal(dataset).startswith(": cannot be opened")


def test_a_limit_gives_the_first_rows_of_a_file_that_is_checked_as_a_whole(tmp_path: Path) -> None:
    written(tmp_path, b'{"a": 1}\n{"b": 2}\n{"c": 3}\n')
    dataset = open_dataset(tmp_path / "data.jsonl", limit=2)
    assert values(dataset) == [{"a": 1}, {"b": 2}]
    assert (dataset.scan().rows, dataset.scan().total) == (2, 3)
    (tmp_path / "data.jsonl").write_bytes(b'{"a": 1}\n{"b": 2}\nbroken\n')
    assert ", line 3, column 1" in refusal(open_dataset(tmp_path / "data.jsonl", limit=2))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), json_values, max_size=4)


@given(lines=st.lists(objects, min_size=1, max_size=8), chunk=st.integers(1, 64), ascii_only=st.booleans())
def test_what_was_written_is_read_back_whatever_the_chunks(
    lines: list[dict[str, Any]], chunk: int, ascii_only: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = "\n".join(json.dumps(line, ensure_ascii=ascii_only) for line in lines)
    folder = tmp_path_factory.mktemp("round")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources_module, "CHUNK", chunk)
        assert values(written(folder, text.encode("utf-8", "surrogatepass"))) == lines


@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_in_one_line(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("any")
    for name in ("x.jsonl", "x.json", "x.csv"):
        (folder / name).write_bytes(content)
        try:
            list(open_dataset(folder / name).rows())
        except DataError as error:
            assert "\n" not in str(error)
