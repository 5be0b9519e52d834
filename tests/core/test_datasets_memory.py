"""Rows in memory: lists, DataFrames and iterables; ids and fingerprints of rows."""

import datetime as dt
import hashlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.tables import cases

from tunecheck import DataError
from tunecheck.datasets import open_dataset, usable_id


def values(data: Any, **options: Any) -> list[dict[str, Any]]:
    return [dict(row.values) for row in open_dataset(data, **options).rows()]


def refusal(data: Any) -> str:
    with pytest.raises(DataError) as caught:
        list(open_dataset(data).rows())
    return str(caught.value)


def test_a_list_can_be_read_again_and_again() -> None:
    dataset = open_dataset([{"a": 1}, {"a": 2}])
    assert dataset.scan().rows == 2
    assert [row.values["a"] for _ in range(2) for row in dataset.rows()] == [1, 2, 1, 2]


def test_the_sha256_of_a_list_is_that_of_its_rows_as_canonical_json() -> None:
    rows = [{"b": 1, "a": "é"}, {"c": [None, True]}]
    lines = [json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n" for row in rows]
    assert open_dataset(rows).scan().sha256 == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_the_order_of_a_rows_columns_changes_nothing() -> None:
    one, other = open_dataset([{"a": 1, "b": 2}]), open_dataset([{"b": 2, "a": 1}])
    assert one.scan().sha256 == other.scan().sha256
    assert next(one.rows()).fingerprint == next(other.rows()).fingerprint


def test_a_value_without_json_form_survives_in_its_row_and_leaves_no_fingerprint() -> None:
    thing = object()
    dataset = open_dataset([{"a": thing}, {"a": 1}])
    first, second = dataset.rows()
    assert first.values["a"] is thing
    assert first.fingerprint == ""
    assert len(second.fingerprint) == 16
    assert dataset.scan().sha256 is None


def test_a_row_that_holds_itself_does_not_crash() -> None:
    row: dict[str, Any] = {}
    row["self"] = row
    assert next(open_dataset([row]).rows()).fingerprint == ""


def test_rows_may_be_any_mapping_and_are_copied() -> None:
    row = {"a": 1}
    (read,) = values([MappingProxyType(row)])
    read["a"] = 2
    assert row == {"a": 1}


def test_a_name_that_is_not_text_is_refused_with_its_row() -> None:
    assert "row 2: the column name 7 is not text" in refusal([{"a": 1}, {7: 1}])


@pytest.mark.parametrize("row", [1, "text", None, ["a"], ("a", 1)])
def test_an_item_that_is_not_a_dict_is_refused_with_its_row(row: object) -> None:
    assert f"row 2: the row is of type {type(row).__name__}: pass each row as a dict" in refusal([{"a": 1}, row])
    assert f"row 2: the row is of type {type(row).__name__}: pass each row as a dict" in refusal(iter([{"a": 1}, row]))


@pytest.mark.parametrize("data", [[], (), iter([])])
def test_no_rows_are_refused(data: Any) -> None:
    assert refusal(data).endswith("there are no rows: give data with at least one row")


def test_an_iterable_is_read_into_a_list_of_copies() -> None:
    def numbers() -> Iterator[dict[str, int]]:
        same: dict[str, int] = {}
        for number in range(5_000):
            same["n"] = number
            yield same

    dataset = open_dataset(numbers())
    scan = dataset.scan()
    assert (scan.rows, scan.columns) == (5_000, frozenset({"n"}))
    assert scan == open_dataset([{"n": number} for number in range(5_000)]).scan()
    for _ in range(2):
        assert [row.values["n"] for row in dataset.rows()] == list(range(5_000))


def test_a_limited_iterable_is_not_read_beyond_the_limit() -> None:
    source = iter([{"n": 1}, {"n": 2}, {"n": 3}])
    assert values(source, limit=2) == [{"n": 1}, {"n": 2}]
    assert next(source) == {"n": 3}


def test_an_id_that_comes_twice_late_in_an_iterable_is_refused_with_its_row() -> None:
    assert "row 1501: the id '0' occurs twice (first in row 1)" in refusal(
        {"id": number % 1_500} for number in range(3_000)
    )


def test_an_iterable_that_raises_is_one_error_with_its_row() -> None:
    def broken() -> Iterator[dict[str, int]]:
        yield {"a": 1}
        raise RuntimeError("no connection\nto the server")

    assert "row 2: the iterable raised RuntimeError: no connection to the server" in refusal(broken())


async def no_rows() -> Any:
    yield {}


@pytest.mark.parametrize("data", [{"a": 1}, b"x", 3, None, io.StringIO("{}"), no_rows()])
def test_what_holds_no_rows_is_refused_with_what_to_give_instead(data: Any) -> None:
    found = refusal(data)
    assert f"data is of type {type(data).__name__}" in found
    assert "pass a path, a DataFrame, or any iterable of dicts" in found


# -- DataFrames -------------------------------------------------------------------------------------------------------

pandas = pytest.importorskip("pandas")
numpy = pytest.importorskip("numpy")


def test_missing_values_of_a_frame_become_none() -> None:
    frame = pandas.DataFrame(
        {
            "float": [1.5, numpy.nan],
            "text": ["x", None],
            "time": pandas.to_datetime(["2024-01-05", None]),
            "int": pandas.array([2**62 + 1, None], dtype="Int64"),
            "object": [numpy.nan, pandas.NaT],
        }
    )
    assert values(frame) == [
        {"float": 1.5, "text": "x", "time": "2024-01-05T00:00:00", "int": 2**62 + 1, "object": None},
        {"float": None, "text": None, "time": None, "int": None, "object": None},
    ]


def test_numpys_values_become_pythons() -> None:
    frame = pandas.DataFrame({"n": numpy.array([1], "int32"), "b": [numpy.bool_(True)], "x": [numpy.float32(0.5)]})
    frame["list"] = [numpy.array([[1, 2]])]
    frame["dict"] = [{"k": [numpy.int64(3), numpy.datetime64("2024-01-05")]}]
    (row,) = values(frame)
    assert row == {"n": 1, "b": True, "x": 0.5, "list": [[1, 2]], "dict": {"k": [3, "2024-01-05"]}}
    assert [type(row[name]) for name in ("n", "b", "x")] == [int, bool, float]
    assert type(row["dict"]["k"][0]) is int


def test_time_stamps_decimals_and_durations_of_a_frame_become_text() -> None:
    frame = pandas.DataFrame(
        {
            "t": [pandas.Timestamp("2024-01-05T10:00:00.123456789", tz="Europe/Oslo")],
            "d": [Decimal("1.10")],
            "s": [pandas.Timedelta("90s")],
            "day": [dt.date(2024, 1, 5)],
        }
    )
    assert values(frame) == [
        {"t": "2024-01-05T10:00:00.123456789+01:00", "d": "1.10", "s": "PT90S", "day": "2024-01-05"}
    ]


def test_a_frames_rows_go_by_position_whatever_its_index() -> None:
    frame = pandas.DataFrame({"a": range(1_500)}, index=range(1_500, 0, -1))
    rows = list(open_dataset(frame).rows())
    assert [rows[0].id, rows[-1].id, rows[-1].values["a"]] == ["row-1", "row-1500", 1499]


def test_a_frame_with_bad_column_names_is_refused() -> None:
    assert "the column name 0 is not text" in refusal(pandas.DataFrame({0: [1]}))
    assert "2 columns have the name 'a'" in refusal(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    assert "there are no rows" in refusal(pandas.DataFrame({"a": []}))


def test_reading_files_and_lists_imports_neither_pandas_nor_pyarrow_nor_numpy() -> None:
    code = (
        "import sys; from tunecheck.datasets._reading import open_dataset; list(open_dataset([{'a': 1}]).rows()); "
        "print([name for name in ('pandas', 'pyarrow', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row.id for row in open_dataset(rows).rows()]


@cases("datasets")
def test_rows_have_these_ids(rows: list[dict[str, Any]], numbered: bool, ids: list[str]) -> None:
    for data in (rows, iter(rows)):
        assert [row.id for row in open_dataset(data, number_ids=numbered).rows()] == ids


def test_a_number_as_long_as_content_is_no_id() -> None:
    assert usable_id(10**5_000) is None


def test_an_id_that_occurs_twice_is_refused_with_both_rows_and_the_way_on() -> None:
    said = r"row 3: the id 'a' occurs twice \(first in row 1\): make the ids unique, .* --number-ids"
    with pytest.raises(DataError, match=said):
        ids([{"id": "a"}, {"id": "b"}, {"id": "a"}])


def test_a_number_and_its_text_are_the_same_id() -> None:
    with pytest.raises(DataError, match="'1' occurs twice"):
        ids([{"id": 1}, {"id": "1"}])


def test_ids_are_judged_over_the_whole_file_with_a_limit_too(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b"}\n{"id": "a"}\n')
    with pytest.raises(DataError, match=r"x.jsonl, line 3: the id 'a' occurs twice \(first in line 1\)"):
        list(open_dataset(path, limit=1).rows())


def test_the_fingerprint_is_a_short_hash_of_canonical_json() -> None:
    values = {"b": [1, 2.5, None], "a": "é"}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    expected = hashlib.blake2b(text, digest_size=8).hexdigest()
    assert next(open_dataset([values]).rows()).fingerprint == expected


def test_fingerprints_tell_true_from_one_and_text_from_number() -> None:
    rows = [{"a": True}, {"a": 1}, {"a": "1"}, {"a": 1.0}, {"a": None}, {}]
    assert len({row.fingerprint for row in open_dataset(rows).rows()}) == len(rows)


def test_content_with_lone_surrogates_and_huge_integers_has_a_fingerprint() -> None:
    rows = list(open_dataset([{"a": "\ud83d"}, {"a": 2**100}]).rows())
    assert all(len(row.fingerprint) == 16 for row in rows)


@given(st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=60))
def test_ids_are_refused_exactly_when_two_are_the_same(names: list[str]) -> None:
    rows = [{"id": name} for name in names]
    if len(set(names)) == len(names):
        assert ids(rows) == names
    else:
        with pytest.raises(DataError, match="occurs twice"):
            ids(rows)
