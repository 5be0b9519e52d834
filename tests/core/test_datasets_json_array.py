"""A `.json` file: an array of objects, or JSON Lines under the wrong name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.tables import cases

from tunecheck import DataError
from tunecheck.datasets import _sources as sources, open_dataset


def values(path: Path) -> list[dict[str, Any]]:
    return [dict(row.values) for row in open_dataset(path).rows()]


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "data.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        open_dataset(path).scan()
    return str(caught.value).removeprefix(str(path))


def test_the_items_of_an_array_are_rows_that_go_by_their_position(tmp_path: Path) -> None:
    path = write(tmp_path, '[\n  {"a": 1},\n\n  {"a": [2, {"b": null}]}\n]\n')
    assert values(path) == [{"a": 1}, {"a": [2, {"b": None}]}]
    assert [row.id for row in open_dataset(path).rows()] == ["row-1", "row-2"]


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    assert values(write(tmp_path, b'\xef\xbb\xbf[{"a": "\xc3\xa9"}]')) == [{"a": "é"}]


def test_values_are_as_exact_as_in_json_lines(tmp_path: Path) -> None:
    line = '{"a": 18446744073709551616, "b": "\\ud83d", "c": NaN, "d": 1, "d": 2, "date": "2024-01-05"}'
    expected = {"a": 2**64, "b": "\ud83d", "c": None, "d": 2, "date": "2024-01-05"}
    assert values(write(tmp_path, f"[{line}]")) == [expected]


def test_json_lines_under_the_wrong_name_are_read_as_such(tmp_path: Path) -> None:
    path = write(tmp_path, '\n{"a": 1}\n{"a": 2}\n')
    assert values(path) == [{"a": 1}, {"a": 2}]
    assert [row.id for row in open_dataset(path).rows()] == ["row-2", "row-3"]


def test_a_broken_first_line_of_json_lines_is_told_by_line_and_column(tmp_path: Path) -> None:
    assert refusal(write(tmp_path, '{"a": 1,}\n{"a": 2}\n')).startswith(", line 1, column ")


def test_one_object_over_several_lines_is_refused(tmp_path: Path) -> None:
    text = refusal(write(tmp_path, '{\n  "rows": [\n    {"a": 1}\n  ]\n}\n'))
    assert text.startswith(", line 1: each line must be one whole object, and this is only the beginning of an object")


def test_an_item_that_is_not_an_object_is_refused_by_its_position(tmp_path: Path) -> None:
    assert refusal(write(tmp_path, '[{"a": 1}, 3]')).startswith(", row 2: is a number where every item")


@cases("datasets")
def test_broken_json_is_refused_with_line_and_column(tmp_path: Path, content: str, line: int, column: int) -> None:
    assert refusal(write(tmp_path, content)).startswith(f", line {line}, column {column}: not JSON: ")


def test_what_is_not_an_array_is_refused(tmp_path: Path) -> None:
    assert refusal(write(tmp_path, "3")) == ": holds a number; expected one array of objects [{…}, …]"


def test_what_is_not_utf_8_is_refused_with_its_place(tmp_path: Path) -> None:
    text = refusal(write(tmp_path, '[{"a": 1},\n\n{"a": "café"}]'.encode("latin-1")))
    assert text == ": is not UTF-8 at byte 22"


@pytest.mark.parametrize("content", ["", "  \n", "[]", " [ \n ] "])
def test_an_array_without_items_has_no_rows(tmp_path: Path, content: str) -> None:
    assert refusal(write(tmp_path, content)) == ": has no rows"


def test_nesting_without_end_is_refused(tmp_path: Path) -> None:
    assert "nested too deeply" in refusal(write(tmp_path, '[{"a": ' + "[" * 100_000 + "]" * 100_000 + "}]"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    rows=st.lists(st.dictionaries(st.text(), json_values, max_size=3), min_size=1, max_size=6),
    chunk=st.integers(1, 40),
    indent=st.sampled_from([None, 0, 3, 25]),
    ascii_only=st.booleans(),
)
def test_what_was_written_is_read_back_whatever_the_chunks(
    rows: list[dict[str, Any]],
    chunk: int,
    indent: int | None,
    ascii_only: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    text = json.dumps(rows, indent=indent, ensure_ascii=ascii_only)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "CHUNK", chunk)
        assert values(write(tmp_path_factory.mktemp("round"), text)) == rows


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
        path = write(tmp_path_factory.mktemp("any"), text)
        if usable:
            assert values(path) == expected
        else:
            refusal(path)
