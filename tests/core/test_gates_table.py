"""eval_results.csv: safe to open in a spreadsheet, whatever the model said, and nothing of it lost."""

import csv
import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.tables import cases

from tunecheck import text_of_cell
from tunecheck.pipeline import write_table
from tunecheck.plugins import JSON

SIGNS = "=+-@\t\r\n"


def cells(*values: JSON) -> list[str]:
    """The cells that a CSV reader finds for a row's values."""
    columns = [f"c{number}" for number in range(len(values))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_table(path, columns, [dict(zip(columns, values, strict=True))])
        with path.open(encoding="utf-8-sig", newline="") as file:
            _, row = csv.reader(file)
    return row


@cases("cli")
def test_a_text_that_could_be_a_formula_has_an_apostrophe_before_it(text: str) -> None:
    assert cells(text) == [f"'{text}"]


@pytest.mark.parametrize("text", ["", "plain", "a=b", "it's", "'quoted'", "1-2", "a\n=1", "{=1}"])
def test_any_other_text_is_as_it_was(text: str) -> None:
    assert cells(text) == [text]


@pytest.mark.parametrize(
    "text", ["x;=cmd|' /C calc'!A0;y", "x; -2+3", "x;'=1", "x\t@SUM(A1)", "\t=1", ";\t=1", "=1;=2"]
)
def test_nor_can_a_part_of_a_text_at_which_some_spreadsheets_begin_a_cell(text: str) -> None:
    (cell,) = cells(text)
    assert not any(re.match(r"\s*[=+@-]", part) for part in re.split("[;\t]", cell))
    assert text_of_cell(cell) == text
    (cell,) = cells([text.replace("\t", ";")])
    assert not re.search(r";\s*[=+@-]", cell)
    assert json.loads(cell) == [text.replace("\t", ";")]


def test_numbers_stay_numbers() -> None:
    assert cells(-5, -0.25, 1e-9, 10**20, True, False, None) == [
        "-5", "-0.25", "1e-09", "100000000000000000000", "true", "false", ""
    ]  # fmt: skip


def test_lists_and_objects_are_json_and_begin_as_such() -> None:
    assert cells(["=1"], {"=a": "-1"}) == ['["=1"]', '{"=a":"-1"}']


def test_the_name_of_a_column_is_a_text_too(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", ["=1+1"], [])
    assert (tmp_path / "t.csv").read_text("utf-8-sig").strip() == "'=1+1"


def test_the_file_has_the_line_ends_and_quotes_of_the_standard(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", ["a", "b,c"], [{"a": "\ud83d", "b,c": 'x"y'}, {"a": "\r\nz"}])
    assert (tmp_path / "t.csv").read_bytes() == b'\xef\xbb\xbfa,"b,c"\r\n\\ud83d,"x""y"\r\n"\'\r\nz",\r\n'
    write_table(tmp_path / "t.csv", ["a"], [{}])
    assert (tmp_path / "t.csv").read_bytes() == b'\xef\xbb\xbfa\r\n""\r\n'


ANY = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\t\n"), max_size=30)
LIKE_FORMULAS = st.text(st.sampled_from("'\"= +-@\t\n\ufeff\u200b＝a1"), max_size=12)
CONTROLS = [*range(9), 11, 12, *range(14, 32), *range(127, 160)]


@given(st.lists(st.one_of(ANY, LIKE_FORMULAS), min_size=1, max_size=5))
def test_every_text_comes_back_from_its_cell(texts: list[str]) -> None:
    assert [text_of_cell(cell) for cell in cells("row", *texts)] == ["row", *texts]


@given(st.one_of(ANY, LIKE_FORMULAS))
def test_no_cell_begins_with_a_formula_even_without_its_white_space(text: str) -> None:
    (_, cell) = cells("row", text)
    assert not cell.startswith(tuple(SIGNS))
    assert not cell.lstrip(' \t\r\n"\ufeff\u200b').startswith(tuple(SIGNS))


def test_control_characters_are_written_as_text(tmp_path: Path) -> None:
    hostile = "".join(map(chr, CONTROLS))
    assert cells("row", "\0=1", "a\x1b[31m\x9b") == ["row", "\\u0000=1", "a\\u001b[31m\\u009b"]
    assert cells("one\r\ntwo\tthree\rfour") == ["one\r\ntwo\tthree\\u000dfour"]
    write_table(tmp_path / "t.csv", [f"c{hostile}"], [{f"c{hostile}": [hostile, {hostile: hostile}]}])
    assert not set(hostile) & set((tmp_path / "t.csv").read_text("utf-8-sig"))


def test_a_very_long_run_of_spaces_takes_no_long_time() -> None:
    assert len(cells(" " * 100_000 + "x")[0]) == 32_767


def test_a_long_cell_is_cut_to_what_a_spreadsheet_can_hold(tmp_path: Path) -> None:
    long = ["definition"] * 10_000
    row: dict[str, JSON] = {
        "outputs.tools": [*long],
        "outputs.response": "a" * 40_000,
        "outputs.text": "=" + "b" * 40_000,
    }
    write_table(tmp_path / "t.csv", [*row], [row])
    with (tmp_path / "t.csv").open(encoding="utf-8-sig", newline="") as file:
        _, (tools, answer, text) = csv.reader(file)
    assert [len(tools), len(answer), len(text)] == [32_767] * 3
    assert tools.endswith("[130,001 characters in all: see eval_results.jsonl]")
    assert text.startswith("'=bbb") and text.endswith("[40,002 characters in all: see eval_results.jsonl]")
    assert answer.endswith("a … [40,000 characters in all: see eval_results.jsonl]")


def test_a_column_of_the_data_is_cut_at_a_thousand_characters(tmp_path: Path) -> None:
    row: dict[str, JSON] = {"inputs.short": "a" * 1_000, "inputs.long": ["b" * 1_000], "outputs.response": "c" * 2_000}
    write_table(tmp_path / "t.csv", [*row], [row])
    with (tmp_path / "t.csv").open(encoding="utf-8-sig", newline="") as file:
        _, (short, long, answer) = csv.reader(file)
    assert (short, answer) == ("a" * 1_000, "c" * 2_000)
    assert len(long) == 1_000 and long.endswith("b … [1,004 characters in all: see eval_results.jsonl]")
