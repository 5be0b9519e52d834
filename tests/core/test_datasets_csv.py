"""CSV: text in, text out, and errors that name the line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tunecheck import DataError
from tunecheck.datasets import Dataset, _sources as sources, _tables as tables, open_dataset


def written(folder: Path, content: str | bytes) -> Dataset:
    path = folder / "data.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_dataset(path)


def values(dataset: Dataset) -> list[dict[str, object]]:
    return [dict(row.values) for row in dataset.rows()]


def refusal(dataset: Dataset) -> str:
    with pytest.raises(DataError) as caught:
        dataset.scan()
    return str(caught.value).removeprefix(str(dataset.path))


def test_every_cell_stays_text_and_a_blank_one_is_the_empty_text(tmp_path: Path) -> None:
    dataset = written(tmp_path, "n,date,word,blank\n007,2024-01-05,NA,\n1e3,null,true,\n")
    assert values(dataset) == [
        {"n": "007", "date": "2024-01-05", "word": "NA", "blank": ""},
        {"n": "1e3", "date": "null", "word": "true", "blank": ""},
    ]


def test_quotes_commas_and_line_breaks_inside_cells_are_kept(tmp_path: Path) -> None:
    dataset = written(tmp_path, 'a,b\r\n"say ""hi"", you","two\r\nlines"\r\n')
    assert values(dataset) == [{"a": 'say "hi", you', "b": "two\r\nlines"}]


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert written(tmp_path, "\ufeffgröße,b\n1,2\n").scan().columns == {"größe", "b"}


def test_a_rows_number_is_the_physical_line_it_starts_in(tmp_path: Path) -> None:
    dataset = written(tmp_path, 'a,b\n\n1,"x\ny\nz"\n\n2,3\n')
    assert [row.id for row in dataset.rows()] == ["row-3", "row-7"]


def test_a_cell_of_hundreds_of_kilobytes_is_read(tmp_path: Path) -> None:
    text = "x" * 400_000
    assert values(written(tmp_path, f"a\n{text}\n")) == [{"a": text}]


def test_a_duplicate_column_is_refused_by_name(tmp_path: Path) -> None:
    assert refusal(written(tmp_path, "response,b,response\n1,2,3\n")).startswith(
        ", line 1: the header has the column 'response' 2 times"
    )


@pytest.mark.parametrize(("row", "found"), [("1", "1 cell"), ("1,2,3", "3 cells")])
def test_a_row_with_cells_too_few_or_too_many_is_refused(tmp_path: Path, row: str, found: str) -> None:
    assert refusal(written(tmp_path, f'a,b\n"x\ny",2\n{row}\n')).startswith(f", line 4: has {found}, the header 2")


def test_a_quote_that_is_never_closed_is_refused_where_it_opens(tmp_path: Path) -> None:
    assert refusal(written(tmp_path, 'a,b\n1,2\n"x,3\n4,5\n')).startswith(", line 3: a quote that opens in this row")


def test_a_quote_that_swallows_the_file_stops_at_the_largest_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MAX_CELL", 200_000)
    before = csv.field_size_limit(100_000)
    try:
        text = refusal(written(tmp_path, 'a,b\n"x,3\n' + "4,5\n" * 100_000))
    finally:
        csv.field_size_limit(before)
    assert text.startswith(", line 2: a quote that opens in this row is never closed, or its cell is too long")


def test_text_after_a_closing_quote_is_refused(tmp_path: Path) -> None:
    assert refusal(written(tmp_path, 'a,b\n1,2\n"x"y,3\n')).startswith(", line 3: not CSV: ")


def test_nul_bytes_are_refused(tmp_path: Path) -> None:
    assert "line 2: holds NUL bytes" in refusal(written(tmp_path, b"name,answer\n1,\x002\n"))


def test_what_is_not_utf_8_is_refused_with_line_and_byte(tmp_path: Path) -> None:
    text = refusal(written(tmp_path, "a\nx\ncafé\n".encode("cp1252")))
    assert text == ", line 3: is not UTF-8 at byte 4 of the line; save the file as UTF-8"


def test_utf_16_as_spreadsheets_save_it_is_refused(tmp_path: Path) -> None:
    assert refusal(written(tmp_path, "a,b\n1,2\n".encode("utf-16"))) == ": is encoded as UTF-16; save it as UTF-8"


@pytest.mark.parametrize("content", ["", "\n\n", "a,b\n", "a,b"])
def test_an_empty_file_and_one_with_a_header_only_have_no_rows(tmp_path: Path, content: str) -> None:
    assert refusal(written(tmp_path, content)) == ": has no rows"


@pytest.mark.parametrize("mark", [";", "\t"])
def test_another_separator_is_recognised(tmp_path: Path, mark: str) -> None:
    assert "save the file with commas" in refusal(written(tmp_path, f"a{mark}b\n1{mark}2\n"))


def test_old_line_ends_are_refused_with_what_to_do(tmp_path: Path) -> None:
    assert "save the file with line feeds" in refusal(written(tmp_path, "a,b\r1,2\r3,4\r"))


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
        dataset = written(tmp_path_factory.mktemp("round"), text.getvalue())
        assert [list(row.values()) for row in values(dataset)] == rows
