"""How a wrong argument is wrong: a kind for every pair of values, decided by rules."""

from __future__ import annotations

from pathlib import Path

from tests.tables import cases, table

from tunecheck.calls.matching import KINDS
from tunecheck.calls.matching._kinds import kind_of_wrong
from tunecheck.plugins import JSON


@cases("matching")
def test_each_wrong_value_has_its_kind_both_ways(kind: str, expected: JSON, actual: JSON) -> None:
    assert kind_of_wrong(expected, actual) == kind
    assert kind_of_wrong(actual, expected) == kind


def test_every_kind_that_the_table_holds_is_a_known_one() -> None:
    rows = table(Path(__file__).parent / "cases" / "matching.jsonl")
    assert {row["kind"] for row in rows if "kind" in row} | {"list_order"} == set(KINDS)
