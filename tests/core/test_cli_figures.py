"""Which figures of a run stand in the table."""

from __future__ import annotations

import pytest

from tunecheck.cli._evaluate.summary import lines_of
from tunecheck.plugins import JSON, EvaluatorEntry, MetricEntry, RunFile, read_fitting
from tunecheck.results import main_figure_of

CALLS = EvaluatorEntry(primary="calls", metrics=[MetricEntry("calls", "binary")])
TEXT = EvaluatorEntry(primary="bleu", metrics=[MetricEntry("bleu")])
STRANGE = EvaluatorEntry()


def counts(name: str, scored: int, not_applicable: int = 0, errors: int = 0) -> dict[str, JSON]:
    return {
        f"{name}.scored_count": scored,
        f"{name}.not_applicable_count": not_applicable,
        f"{name}.error_count": errors,
    }


def table(name: str, evaluator: EvaluatorEntry, *groups: dict[str, JSON]) -> list[tuple[str, ...]]:
    return [(line.label, *line.cells) for line in lines_of(name, evaluator, groups)]


def test_a_pass_rate_says_how_many_of_how_many() -> None:
    metrics = {"calls.calls": 85 / 102, "calls.binary_aggregate": 85 / 102, **counts("calls", 102)}
    assert table("calls", CALLS, metrics) == [("calls", "85 of 102 (83.3%)")]


def test_where_rows_neither_passed_nor_failed_only_the_rate_is_said() -> None:
    metrics = {"calls.binary_aggregate": 2 / 3, **counts("calls", 10)}
    assert table("calls", CALLS, metrics) == [("calls", "66.7%")]


def test_the_mean_of_a_graded_metric_has_a_line_of_its_own_and_its_copies_have_none() -> None:
    metrics: dict[str, JSON] = {
        "bleu.bleu": 0.51234, "bleu.bleu_score": 0.51234, "bleu.bleu_passed": 0.5, "bleu.binary_aggregate": 0.5,
        **counts("bleu", 2),
    }  # fmt: skip
    assert table("bleu", TEXT, metrics) == [("bleu", "1 of 2 (50.0%)"), ("mean", "0.512")]


def test_a_metric_whose_name_ends_like_a_copy_is_kept_where_there_is_no_original() -> None:
    metrics = {"f1.f1_score": 0.5, "f1.f1_score_score": 0.5, "f1.binary_aggregate": 1.0, **counts("f1", 1)}
    assert table("f1", EvaluatorEntry(primary="f1_score"), metrics) == [("f1", "1 of 1 (100.0%)"), ("mean", "0.500")]


def test_rows_not_applicable_and_errors_have_lines_where_there_are_any() -> None:
    metrics = {"calls.binary_aggregate": 1.0, **counts("calls", 2, not_applicable=3, errors=1)}
    group = {"calls.binary_aggregate": 1.0, **counts("calls", 2)}
    assert table("calls", CALLS, metrics, group) == [
        ("calls", "2 of 2 (100.0%)", "2 of 2 (100.0%)"),
        ("not applicable", "3", "0"),
        ("errors", "1", "0"),
    ]


def test_an_evaluators_own_sums_are_shown_but_not_its_lists_of_counts_and_absent_troubles() -> None:
    metrics: dict[str, JSON] = {
        "calls.binary_aggregate": 1.0, **counts("calls", 1), "calls.call_recall": 0.0, "calls.unreadable_rate": 0.0,
        "calls.invalid_rate": 0.25, "calls.wrong.other": 3,
    }  # fmt: skip
    assert table("calls", CALLS, metrics)[1:] == [("call recall", "0.000"), ("invalid rate", "25.0%")]


def test_an_undeclared_number_is_shown_by_its_full_name() -> None:
    metrics = {"mine.words": 12.5, "mine.lines": 3.0, **counts("mine", 4)}
    assert table("mine", STRANGE, metrics) == [("mine words", "12.500"), ("lines", "3.000")]


def test_a_number_under_the_evaluators_own_name_needs_no_other() -> None:
    assert table("mine", STRANGE, {"mine.mine": 7.0, **counts("mine", 4)}) == [("mine", "7.000")]


def test_an_evaluator_without_any_number_has_a_dash() -> None:
    assert table("mine", STRANGE, counts("mine", 0, errors=4)) == [("mine", "–"), ("errors", "4")]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1e300, "1e+300"), (123456.0, "123,456.0"), (10**30, "1e+30"), (10**400, "huge"), (True, "true"), ("x", "–")],
)
def test_odd_values_stay_readable(value: JSON, shown: str) -> None:
    assert table("m", STRANGE, {"m.m": value, **counts("m", 1)}) == [("m", shown)]


def test_the_main_figure_is_the_pass_rate_else_the_mean() -> None:
    assert main_figure_of("calls", CALLS, {"calls.binary_aggregate": 0.5, **counts("calls", 2)}).text == "50.0%"
    assert main_figure_of("mine", STRANGE, {"mine.mine": 7.0, **counts("mine", 2)}).text == "7.000"
    assert main_figure_of("calls", CALLS, {"calls.binary_aggregate": None, **counts("calls", 0)}).text == "–"


def test_what_a_manifest_declares_is_read_and_what_is_damaged_in_it_is_passed_over() -> None:
    metrics: list[JSON] = [{"name": "a", "kind": "binary"}, "rubbish"]
    manifest: dict[str, JSON] = {"evaluators": {"good": {"primary": "a", "metrics": metrics}, "bad": 5}}
    assert read_fitting(manifest, RunFile, "run.json").evaluators == {
        "good": EvaluatorEntry(primary="a", metrics=[MetricEntry("a", "binary")])
    }
