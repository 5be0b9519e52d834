"""Why rows failed, put into kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli_parts import TOOLS, call

from tunecheck import ArgumentMatchEvaluator, BleuScoreEvaluator, FunctionCallMatchEvaluator, MatchEvaluator
from tunecheck._json import JSON
from tunecheck.runs import _reasons as reasons
from tunecheck.runs._reasons import BELOW, OTHER, fault_kinds, read_failures


def row(row_id: str, name: str, verdict: dict[str, JSON], **more: JSON) -> dict[str, JSON]:
    return {"row_id": row_id, **{f"outputs.{name}.{key}": value for key, value in verdict.items()}, **more}


def kinds(evaluator: MatchEvaluator | ArgumentMatchEvaluator, response: object, ground_truth: object) -> list[str]:
    verdict = evaluator(response=response, ground_truth=ground_truth)
    failures = read_failures([row("r", "e", verdict)], {"e": evaluator.primary})
    return list(failures.reasons["e"])


@pytest.mark.parametrize(
    ("response", "ground_truth", "kind"),
    [
        (call(people="2"), call(people=2), "wrong argument: number as text"),
        (call(day="March 5, 2026"), call(day="2026-03-05"), "wrong argument: date or time format"),
        (call(people=7), call(people=2), "wrong argument: another value"),
        ("It is booked.", call(), "answered when it should have called"),
        (call(), "It is booked.", "called when it should have answered"),
        (call(name="cancel"), call(name="book_table"), "misnamed call"),
        (next(iter(call().values())) * 2, call(), "extra call"),  # type: ignore[operator]
    ],
)
def test_both_evaluators_of_arguments_tell_the_same_kinds(response: object, ground_truth: object, kind: str) -> None:
    if isinstance(response, list):
        response = {"tool_uses": response}
    assert kinds(ArgumentMatchEvaluator(), response, ground_truth) == [kind]
    assert kinds(MatchEvaluator(), response, ground_truth) == [kind]


def test_missing_and_unexpected_arguments_are_told_apart() -> None:
    more = {"tool_uses": [{"recipient_name": "functions.book", "parameters": {"day": "2026-03-05", "note": "x"}}]}
    assert set(kinds(MatchEvaluator(), more, call())) == {"missing argument", "unexpected argument"}
    assert set(kinds(ArgumentMatchEvaluator(), more, call())) == {"missing argument", "unexpected argument"}


def test_a_row_with_two_wrong_arguments_counts_for_both_kinds_once() -> None:
    verdict = MatchEvaluator()(response=call(day="5 March 2026", people="2"), ground_truth=call())
    found = read_failures([row("r", "e", verdict)], {"e": "match"})
    assert {kind: of.rows for kind, of in found.reasons["e"].items()} == {
        "wrong argument: date or time format": 1,
        "wrong argument: number as text": 1,
    }
    assert found.failed == {"e": 1}


def test_calls_that_break_their_schema_are_one_kind() -> None:
    evaluator = FunctionCallMatchEvaluator(validate_schema=True)
    verdict = evaluator(response=call(name="bok"), ground_truth=call(name="bok"), tool_definitions=TOOLS)
    found = read_failures([row("r", "e", verdict)], {"e": "function_call_match"})
    assert list(found.reasons["e"]) == ["called a function that is not among the tools"]


def test_a_call_in_place_of_a_text_is_told_by_the_text_metrics_too() -> None:
    verdict = BleuScoreEvaluator()(response=call(), ground_truth="It is booked.")
    found = read_failures([row("r", "bleu", verdict)], {"bleu": "bleu"})
    assert list(found.reasons["bleu"]) == ["called when it should have answered"]


def test_a_score_below_its_threshold_is_a_kind_without_words() -> None:
    verdict = BleuScoreEvaluator()(response="Nothing alike", ground_truth="It is booked.")
    found = read_failures([row("r", "bleu", verdict)], {"bleu": "bleu"})
    assert list(found.reasons["bleu"]) == [BELOW]


def test_reasons_in_unknown_words_are_told_apart_without_their_values() -> None:
    assert fault_kinds('the city "Oslo; Norway" is 12.5, too far') == ["the city … is …, too far"]
    assert fault_kinds('the city "Rome" is 3, too far') == ["the city … is …, too far"]


@given(st.text())
def test_any_reason_gives_printable_kinds(reason: str) -> None:
    assert all(kind.isprintable() and len(kind) <= 120 for kind in fault_kinds(reason))


@pytest.mark.parametrize("unit", ["(a", "a(", '"', "[{", "f: argument ", "1,", "; ", "missing call (", '\\"'])
def test_a_hostile_reason_takes_no_time(unit: str) -> None:
    fault_kinds(unit * 1_000_000)


def test_errors_that_differ_in_numbers_and_row_ids_are_one_kind_with_an_example() -> None:
    rows: list[dict[str, JSON]] = [
        {"row_id": f"row-{n}", "error.target": {"type": "TimedOutError", "message": f"row row-{n}: nothing in {n} s"}}
        for n in range(10, 15)
    ]
    (kind,) = read_failures(rows, {}).errors["target"].values()
    assert (kind.rows, kind.example, kind.words) == (5, "row-10", "TimedOutError: row row-10: nothing in 10 s")


def test_answers_that_no_model_gave_are_counted() -> None:
    rows: list[dict[str, JSON]] = [{"row_id": "a", "outputs.simulated": True}, {"row_id": "b"}]
    assert read_failures(rows, {}).simulated_answers == 1


def test_an_evaluator_that_declares_nothing_is_judged_by_its_first_result() -> None:
    found = read_failures([row("r", "mine", {"tone_result": "fail", "tone_reason": "rude"})], {"mine": None})
    assert list(found.reasons["mine"]) == ["rude"]


def test_rows_that_pass_or_do_not_apply_have_no_reason() -> None:
    rows = [row("a", "e", {"m_result": "pass", "m_reason": "x"}), row("b", "e", {"m_result": "not_applicable"})]
    assert read_failures(rows, {"e": "m"}).reasons == {}


def test_memory_is_bounded_where_every_reason_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasons, "MAX_KINDS", 3)

    def failing() -> Iterator[dict[str, JSON]]:
        for letter in "abcdefgh":
            yield row(letter, "e", {"m_result": "fail", "m_reason": f"because of {letter}"})

    found = read_failures(failing(), {"e": "m"}).reasons["e"]
    assert len(found) == 4
    assert found[OTHER].rows == 5


def test_an_answer_worded_too_differently_is_one_kind_whatever_its_score() -> None:
    assert kinds(MatchEvaluator(), "Nothing alike at all", "It is booked.") == ["ROUGE-L F below the threshold"]
    assert kinds(MatchEvaluator(), "It is", "It is booked for you.") == ["ROUGE-L F below the threshold"]


def test_a_judges_differences_are_counted_by_kind() -> None:
    def row(number: int, *kinds: str) -> dict[str, Any]:
        return {
            "row_id": f"r{number}",
            "outputs.difference.difference_result": "fail",
            "outputs.difference.difference_reason": f"words of the judge, number {number}",
            "outputs.difference.difference_differences": [{"kind": kind, "expected": "a"} for kind in kinds],
        }

    rows = [row(1, "argument", "date format"), row(2, "argument", "argument"), row(3)]
    found = read_failures(rows, {"difference": "difference"}).reasons["difference"]
    assert (found["argument"].rows, found["date format"].rows) == (2, 1)
