"""Parquet: Arrow's types as JSON, or a refusal that names the column."""

import datetime as dt
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tunecheck import DataError, MissingExtraError
from tunecheck.datasets import open_dataset

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def written(folder: Path, table: Any, name: str = "data.parquet") -> Path:
    path = folder / name
    parquet.write_table(table, path)
    return path


def values(path: Path) -> list[dict[str, Any]]:
    return [dict(row.values) for row in open_dataset(path).rows()]


def test_plain_and_nested_columns_become_json(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "n": 2**63 - 1, "x": 1.5, "yes": True, "list": [1, None], "nested": {"k": [{"v": "é"}]}},
        {"id": "b", "n": None, "x": float("nan"), "yes": None, "list": None, "nested": None},
    ]
    found = values(written(tmp_path, pyarrow.Table.from_pylist(rows)))
    assert found == [rows[0], {**rows[1], "x": None}]


def test_dates_and_times_become_iso_text(tmp_path: Path) -> None:
    moment = dt.datetime.fromisoformat("2024-01-05T10:30:00.000250")
    table = pyarrow.table(
        {
            "day": [dt.date(2024, 1, 5)],
            "moment": pyarrow.array([moment], pyarrow.timestamp("us")),
            "zoned": pyarrow.array([dt.datetime(2024, 1, 5, tzinfo=dt.UTC)], pyarrow.timestamp("ms", tz="UTC")),
            "inside": [[{"at": dt.datetime.fromisoformat("2024-01-05")}]],
            "time": [dt.time(7, 5)],
            "span": [dt.timedelta(minutes=1, milliseconds=500)],
        }
    )
    assert values(written(tmp_path, table)) == [
        {
            "day": "2024-01-05",
            "moment": "2024-01-05T10:30:00.000250",
            "zoned": "2024-01-05T00:00:00+00:00",
            "inside": [{"at": "2024-01-05T00:00:00"}],
            "time": "07:05:00",
            "span": "PT60.5S",
        }
    ]


MAP = pyarrow.map_(pyarrow.string(), pyarrow.int64())
PRICE = "12345678901234567890.10"
NANOSECONDS = pyarrow.array([1_704_448_800_123_456_789], pyarrow.timestamp("ns"))


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        pytest.param(NANOSECONDS, ["2024-01-05T10:00:00.123456789"], id="nanoseconds are kept"),
        pytest.param([Decimal(PRICE), None], [PRICE, None], id="decimals become text with all their digits"),
        pytest.param(pyarrow.array([[("a", 1), ("b", 2)]], MAP), [{"a": 1, "b": 2}], id="a map becomes an object"),
        pytest.param(pyarrow.array(["x", "y", "x"]).dictionary_encode(), ["x", "y", "x"], id="encoded text is text"),
    ],
)
def test_a_column_of_an_arrow_type_becomes_these_cells(tmp_path: Path, column: Any, cells: list[Any]) -> None:
    assert values(written(tmp_path, pyarrow.table({"c": column}))) == [{"c": cell} for cell in cells]


@pytest.mark.parametrize("cell", [b"\x00\x01", [b"x"], {"inner": b"x"}])
def test_bytes_are_refused_by_column(tmp_path: Path, cell: object) -> None:
    path = written(tmp_path, pyarrow.table({"id": ["a"], "picture": [cell]}))
    with pytest.raises(DataError, match="the column 'picture' holds bytes"):
        open_dataset(path).scan()


def test_a_duplicate_column_is_refused_by_name(tmp_path: Path) -> None:
    table = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["a", "a"])
    with pytest.raises(DataError, match="2 columns have the name 'a'"):
        open_dataset(written(tmp_path, table)).scan()


def test_ids_and_positions_count_over_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "groups.parquet"
    parquet.write_table(pyarrow.table({"n": list(range(2500))}), path, row_group_size=700)
    rows = list(open_dataset(path).rows())
    assert [row.values["n"] for row in rows] == list(range(2500))
    assert (rows[-1].index, rows[-1].id) == (2499, "row-2500")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"a,b\n1,2\n"])
def test_a_broken_file_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.parquet"
    path.write_bytes(content)
    with pytest.raises(DataError, match="the Parquet file cannot be read") as caught:
        open_dataset(path).scan()
    assert "\n" not in str(caught.value)


def test_a_file_cut_in_the_middle_is_one_clear_error(tmp_path: Path) -> None:
    whole = written(tmp_path, pyarrow.table({"text": [str(number) * 50 for number in range(1000)]}))
    content = bytearray(whole.read_bytes())
    content[200:4000] = bytes(3800)
    whole.write_bytes(content)
    with pytest.raises(DataError):
        list(open_dataset(whole).rows())


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, pyarrow.table({"a": [1]}))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tunecheck\[parquet\]'"):
        open_dataset(path).scan()


def test_a_row_that_is_too_long_is_refused_before_or_as_it_is_read(tmp_path: Path) -> None:
    long = "x" * (65 << 20)
    alone = written(tmp_path, pyarrow.table({"text": [long]}), "alone.parquet")
    among = written(tmp_path, pyarrow.table({"text": ["short", long, "short"]}), "among.parquet")
    for path, where in ((alone, ""), (among, ", row 2")):
        with pytest.raises(DataError, match=f"{path.name}{where}: a row is larger than 64 MiB"):
            open_dataset(path).scan()
