"""The tables of cases: every line belongs to a test, and its id is one of its table's own."""

from pathlib import Path

import pytest
from tests.conftest import ROOT
from tests.tables import table


@pytest.mark.parametrize("path", sorted((ROOT / "tests").glob("*/cases/*.jsonl")), ids=lambda path: path.stem)
def test_every_line_of_a_table_belongs_to_a_test(path: Path) -> None:
    tests = "".join(file.read_text("utf-8") for file in path.parent.parent.glob("test_*.py"))
    names = {"test_" + row["test"].replace(" ", "_") for row in table(path)}
    assert {name for name in names if f"def {name}(" not in tests} == set()
    assert len({row["id"] for row in table(path)}) == len(table(path))
