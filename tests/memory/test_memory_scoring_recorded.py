"""Recorded scores of the GoodAI LTM benchmark: the compatible mode equals them, the default one but for defects."""

import re
from pathlib import Path
from typing import Any

import pytest
from checks.goodai_rescore import given_of_row
from tests.memory_scoring_parts import judged, recorded

from tunecheck_memory import Score

AGREEMENT = {"Locations Directions": 0.92, "Jokes": 0.97, "Trigger Response": 0.85}


@pytest.fixture(scope="module")
def rows(shared_data: Path) -> list[dict[str, Any]]:
    return list(recorded(shared_data))


def scored(row: dict[str, Any], *, compat: bool) -> float | None:
    found = judged(given_of_row(row), compat=compat)
    return found.score if isinstance(found, Score) else None


def equals(row: dict[str, Any], *, compat: bool) -> bool:
    found = scored(row, compat=compat)
    return found is not None and abs(found - row["score"]) < 1e-9


def test_the_compatible_mode_equals_every_score_that_words_decided(rows: list[dict[str, Any]]) -> None:
    decided = [row for row in rows if row["kind"] in ("exact", "score_only")]
    assert len(decided) > 800
    assert [row for row in decided if not equals(row, compat=True)] == []


def test_the_compatible_mode_has_no_score_where_the_benchmark_asked_a_model(rows: list[dict[str, Any]]) -> None:
    asked = [row for row in rows if row["kind"] == "needs_llm"]
    assert {scored(row, compat=True) for row in asked} == {None}


def test_the_compatible_mode_has_no_score_where_the_benchmark_breaks_off(rows: list[dict[str, Any]]) -> None:
    broken = [row for row in rows if row["kind"] == "exception"]
    assert broken and {scored(row, compat=True) for row in broken} == {None}


@pytest.mark.parametrize(("title", "least"), AGREEMENT.items())
def test_words_agree_with_the_recorded_judge(rows: list[dict[str, Any]], title: str, least: float) -> None:
    judged = [row for row in rows if row["kind"] == "needs_llm" and row["dataset"] == title]
    agreed = sum(equals(row, compat=False) for row in judged)
    assert agreed / len(judged) >= least, f"{agreed} of {len(judged)}"


def reason_to_differ(row: dict[str, Any]) -> str | None:
    """The defect of the benchmark that stands in a row: why the default mode's score may be another one."""
    reply = row["responses"][-1]
    words = set(re.findall(r"\w+", reply))
    if row["dataset"] == "Colours" and row["expected"][-1].lower() not in {word.lower() for word in words}:
        return "a colour's letters within a word"
    if row["dataset"] == "Colours" and len(COLOURS & {word.lower() for word in words}) > 1:
        return "several colours, and not settled on the last one"
    if row["dataset"] == "SallyAnne" and row["kind"] == "exception":
        return "an answer that is not text is wrong, and no crash"
    if row["dataset"] == "Spy Meeting" and row["kind"] in ("exact", "score_mismatch", "score_only"):
        return "a word counts in any number, and one of another message where all are understood"
    if row["dataset"] in ("NameList", "Shopping") and re.search(
        r"\{\s*\"\w*(?:list|names?)\"\s*:|access|cannot see", reply, re.I
    ):
        return "a list in an object, and one that is an example"
    if row["dataset"] == "Prospective Memory" and "append" in row["responses"][0]:
        return "who says what it is going to append has not appended it yet"
    if row["dataset"] == "Jokes" and row["kind"] == "score_mismatch":
        return "tells several jokes without settling on the right one"
    if row["kind"] == "needs_llm" or (row["dataset"] == "Trigger Response" and row["kind"] == "score_mismatch"):
        return "words decide where the benchmark asks a model"
    return None


COLOURS = {"red", "cream", "cyan", "magenta", "brown", "purple", "tan", "yellow"}


def test_the_default_mode_differs_only_where_a_defect_is_repaired(rows: list[dict[str, Any]]) -> None:
    differing = [row for row in rows if scored(row, compat=True) != scored(row, compat=False)]
    assert [row for row in differing if reason_to_differ(row) is None] == []


def test_where_people_corrected_a_score_ours_is_theirs_or_words_are_not_sure(rows: list[dict[str, Any]]) -> None:
    corrected = [row for row in rows if row["hand_score"] is not None]
    assert len(corrected) >= 12
    found = [(judged(given_of_row(row)), row["hand_score"]) for row in corrected]
    right = [score for score, by_hand in found if isinstance(score, Score) and abs(score.score - by_hand) < 1e-9]
    unsure = [score for score, _ in found if isinstance(score, Score) and not score.sure]
    assert len(right) >= 8
    assert len({id(score) for score in (*right, *unsure)}) == len(corrected)


def test_colours_differ_only_where_a_reply_does_not_settle_on_one(rows: list[dict[str, Any]]) -> None:
    differing = [
        row for row in rows if row["dataset"] == "Colours" and scored(row, compat=True) != scored(row, compat=False)
    ]
    for row in differing:
        found = judged(given_of_row(row))
        assert isinstance(found, Score)
        assert found.score == 0
        assert "choosing" in found.reasons[0] or "does not say" in found.reasons[0]


def test_every_recorded_row_has_a_score_from_0_to_1_by_default(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        found = scored(row, compat=False)
        assert found is not None, row["dataset"]
        assert 0 <= found <= 1


def test_rows_where_the_benchmark_fails_are_scored_sensibly(rows: list[dict[str, Any]]) -> None:
    assert {scored(row, compat=False) for row in rows if row["kind"] == "exception"} == {0.0}
    other_case = [row for row in rows if row["dataset"] == "SallyAnne" and row["kind"] == "score_mismatch"]
    assert {scored(row, compat=False) for row in other_case} == {1.0}
