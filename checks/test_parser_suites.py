"""The texts of servers' own test suites are read as those servers read them, or a rule says why not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from checks.formats_cases import as_pairs, exactly
from checks.parser_suites import RULES, SuiteCase, judged, suite_cases

from tunecheck import read_calls


@pytest.fixture(scope="module")
def cases(shared_data: Path) -> list[SuiteCase]:
    return suite_cases(shared_data)


def shares(of: list[SuiteCase]) -> dict[str, float]:
    """The shares of exact readings, of those that a rule covers, and of the others."""
    counts = Counter(map(judged, of))
    print(len(of), dict(counts))
    exact, wrong = counts["exact"] / len(of), counts["wrong"] / len(of)
    return {"exact": exact, "wrong": wrong, "covered": 1 - exact - wrong}


@pytest.mark.parametrize("held_out", [False, True])
def test_at_most_one_text_in_a_hundred_is_read_otherwise_without_a_reason(
    cases: list[SuiteCase], held_out: bool
) -> None:
    assert shares([case for case in cases if case.held_out == held_out])["wrong"] <= 0.01


def test_95_texts_in_a_hundred_are_read_exactly_and_rules_cover_at_most_four(cases: list[SuiteCase]) -> None:
    found = shares(cases)
    assert found["exact"] >= 0.95
    assert found["covered"] <= 0.04
    assert len(RULES) <= 12


def test_the_calls_of_a_prefix_are_a_prefix_of_the_calls(cases: list[SuiteCase]) -> None:
    for case in cases:
        whole = as_pairs(case.read())
        for length in range(len(case.text)):
            made = as_pairs(read_calls(case.text[:length], tools=case.tools))
            assert len(made) <= len(whole), (case.label, case.text[:length])
            assert all(map(exactly, made, whole)), (case.label, case.text[:length])
