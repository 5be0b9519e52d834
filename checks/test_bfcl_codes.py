"""Verdicts and cause codes of both published runs are those of commit c1f5049, row by row.

Strict verdicts on single questions are the core's matching since then. Their codes are others, and 34 verdicts of the
14,564 differ: they are listed here with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from checks.bfcl_published_codes import TABLE, table
from tests.bfcl_copy import bfcl_copy

PASSING = {
    # an argument left out that has its schema's default, or given with it
    ("2025-11-12-main", "live_multiple"): "198-90-0 506-149-3 508-149-5 510-149-7 1037-264-0 1038-265-0 1039-266-0 "
    "1040-267-0",
    ("v0.11.0", "live_multiple"): "198-90-0 505-149-2 506-149-3 508-149-5 509-149-6 510-149-7 1037-264-0 1038-265-0 "
    "1039-266-0 1040-267-0",
    # a list written as JSON in Java or JavaScript
    ("2025-11-12-main", "simple_javascript"): "37",
    ("v0.11.0", "simple_java"): "78 89 91",
}
"""Rows that failed at c1f5049 and pass now."""

FAILING = {
    # one of `./-_*^`, a comma or a quotation mark is another: they count now
    ("2025-11-12-main", "simple_python"): "15 16",
    ("2025-11-12-main", "multiple"): "29 99",
    ("2025-11-12-main", "live_multiple"): "407-140-3 598-158-4",
    ("v0.11.0", "simple_python"): "16 126 172",
    ("v0.11.0", "simple_java"): "70",
    ("v0.11.0", "multiple"): "33 99",
}
"""Rows that passed at c1f5049 and fail now."""


@pytest.fixture
def runs(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUNECHECK_BFCL", str(bfcl_copy()))
    return shared_data / "bfcl_runs"


def recorded(mode: str) -> list[str]:
    lines = [line for line in TABLE.read_text("utf-8").splitlines() if line.split("\t")[1] == mode]
    assert len(lines) > 100
    return lines


def by_row(lines: Iterable[str]) -> dict[tuple[str, ...], str]:
    """The codes of each row, and the counts of each category.

    A name that ends in a token of the model's template was an unknown function at c1f5049.
    """
    found: dict[tuple[str, ...], str] = {}
    for run, mode, category, *rest in (line.split("\t") for line in lines):
        codes = " ".join(rest[:2]).replace("decorated_name.token@", "unknown_function@")
        for row in rest[2].split() if len(rest) == 3 else ["all"]:
            found[run, mode, category, row] = codes
    return found


def conversations(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if line.split("\t")[2].startswith("multi_turn")]


def failing(lines: Iterable[str]) -> dict[tuple[str, str, bool], set[str]]:
    """The ids of the questions that failed, and of those that were not scored, by run and category."""
    found: dict[tuple[str, str, bool], set[str]] = {}
    for run, _, category, *rest in (line.split("\t") for line in lines):
        if len(rest) == 3 and not category.startswith("multi_turn"):
            found.setdefault((run, category, rest[0] == "invalid_entry"), set()).update(rest[2].split())
    return found


def test_published_runs_have_the_leaderboards_codes_of_commit_c1f5049(runs: Path) -> None:
    assert by_row(table(runs, True)) == by_row(recorded("bfcl"))


def test_published_conversations_have_the_strict_codes_of_commit_c1f5049(runs: Path) -> None:
    assert by_row(conversations(table(runs, False))) == by_row(conversations(recorded("strict")))


def test_published_questions_have_the_strict_verdicts_of_commit_c1f5049_but_for_those_listed(runs: Path) -> None:
    expected = failing(recorded("strict"))
    for (run, category), ids in PASSING.items():
        expected[run, category, False] -= set(ids.split())
    for (run, category), ids in FAILING.items():
        expected[run, category, False] |= set(ids.split())
    assert failing(table(runs, False)) == {key: ids for key, ids in expected.items() if ids}
