"""Pass rates corrected for a judge's errors: closed forms by hand, and what must hold at the ends."""

from __future__ import annotations

import pytest

from tunecheck.statistics import (
    Estimate,
    LabelCounts,
    corrected_difference,
    errors_alike,
    prediction_powered,
    rogan_gladen,
    wilson,
)

# 90 of 100 good rows and 20 of 100 bad ones pass: sensitivity 0.9, specificity 0.8, so that differences shrink to 0.7.
LENIENT = LabelCounts(90, 10, 20, 80)
NEVER_WRONG = LabelCounts(10**7, 0, 0, 10**7)


def difference(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, low, high, 500, 0.95, "Tango", 0.02)


def test_the_rate_is_rogan_and_gladens() -> None:
    found = rogan_gladen(550, 1_000, LENIENT)
    # (0.55 + 0.8 - 1) / (0.9 + 0.8 - 1) = 0.5; Var(p) / 0.49 and, a half squared of each, those of the two rates.
    assert found.value == pytest.approx(0.5)
    variance = (0.55 * 0.45 / 1_000 + 0.25 * 0.9 * 0.1 / 100 + 0.25 * 0.2 * 0.8 / 100) / 0.49
    assert found.standard_error == pytest.approx(variance**0.5)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.5 - 1.5 * variance**0.5 < 0.5 + 1.5 * variance**0.5 < found.high


def test_a_judge_that_never_errs_leaves_the_rate_and_wilsons_interval() -> None:
    found, plain = rogan_gladen(30, 200, NEVER_WRONG), wilson(30, 200)
    assert found.value == pytest.approx(plain.value)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), abs=0.006)


def test_fewer_passes_than_its_errors_alone_explain_are_a_rate_of_0() -> None:
    found = rogan_gladen(100, 1_000, LENIENT)
    assert (found.value, found.low) == (0, 0)
    assert found.high is not None
    assert 0 < found.high < 0.1


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (LabelCounts(9, 1, 0, 0), "the labels say pass of every row"),
        (LabelCounts(0, 0, 3, 7), "the labels say fail of every row"),
        (LabelCounts(5, 5, 6, 4), "no better than chance"),
    ],
)
def test_labels_that_say_nothing_of_its_errors_correct_nothing(labels: LabelCounts, why: str) -> None:
    found = rogan_gladen(500, 1_000, labels)
    assert found.value is found.low is found.high is None
    assert why in str(found.remark)
    assert why in str(corrected_difference(difference(0.1, 0.0, 0.2), labels).remark)


def test_labelled_rows_of_the_run_move_its_rate_by_what_the_judge_sees_in_the_others() -> None:
    # 50 of 100 labelled rows are good, and the judge passes 45 of them and 10 others; of 900 unlabelled ones 540.
    labels = LabelCounts(45, 5, 10, 40)
    # 595 of all 1,000 verdicts pass: their variance is 0.595 · 0.405 · 1000/999. cov = 0.45 - 0.5 · 0.55 = 0.175.
    power = 0.175 / (0.595 * 0.405 * 1_000 / 999) / (1 + 100 / 900)
    found = prediction_powered(540, 900, labels)
    assert found.value == pytest.approx(0.5 + power * (0.6 - 0.55))
    assert found.n == 1_000
    assert found.standard_error is not None
    assert found.standard_error < (0.5 * 0.5 / 100) ** 0.5, "the judge adds to what the labels say"


def test_where_every_row_is_labelled_the_labels_are_the_rate() -> None:
    found, plain = prediction_powered(0, 0, LabelCounts(20, 5, 10, 65)), wilson(25, 100)
    assert found.value == pytest.approx(plain.value)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), abs=0.006)


def test_more_labels_and_more_rows_narrow_the_interval() -> None:
    def width(rows: int, times: int) -> float:
        found = rogan_gladen(0.55 * rows, rows, LabelCounts(9 * times, times, 2 * times, 8 * times))
        assert found.low is not None
        assert found.high is not None
        return found.high - found.low

    assert width(1_000, 10) < width(1_000, 3) < width(50, 3)


def test_a_difference_grows_by_what_the_judges_errors_hide_of_it() -> None:
    found = corrected_difference(difference(0.07, 0.0, 0.14), LENIENT)
    assert found.value == pytest.approx(0.1)
    assert found.low == 0, "where nothing is shown, nothing is"
    assert found.high is not None
    assert found.high > 0.14 / 0.7, "how often it errs is not known exactly"
    assert found.standard_error == pytest.approx(0.02 / 0.7)


def test_a_judge_that_never_errs_leaves_a_difference_as_it_is() -> None:
    found = corrected_difference(difference(-0.05, -0.09, -0.01), NEVER_WRONG)
    assert (found.value, found.low, found.high) == pytest.approx((-0.05, -0.09, -0.01), abs=1e-4)


def test_a_loss_is_corrected_as_a_gain_is() -> None:
    gain, loss = (
        corrected_difference(each, LENIENT) for each in (difference(0.05, 0.01, 0.09), difference(-0.05, -0.09, -0.01))
    )
    assert (loss.value, loss.low, loss.high) == pytest.approx(
        tuple(-(x or 0) for x in (gain.value, gain.high, gain.low))
    )


def test_a_judge_not_shown_to_be_better_than_chance_shows_no_difference() -> None:
    found = corrected_difference(difference(0.1, 0.05, 0.15), LabelCounts(6, 4, 5, 5))
    assert (found.low, found.high) == (-1, 1)


def test_a_judges_errors_are_held_alike_by_fishers_exact_test() -> None:
    # Fisher's example: of 13 convicts' identical twins 10 were convicted, of 17 others' twins 2. R: 0.0005367.
    assert errors_alike(LabelCounts(10, 3, 0, 0), LabelCounts(2, 15, 0, 0)) == pytest.approx(0.0005367, abs=5e-8)
    # His tea tasting, 34 of 70; with a second test whose p-value is 1 it counts twice.
    assert errors_alike(LabelCounts(0, 0, 3, 1), LabelCounts(0, 0, 1, 3)) == pytest.approx(34 / 70)
    assert errors_alike(LabelCounts(5, 0, 3, 1), LabelCounts(5, 0, 1, 3)) == pytest.approx(68 / 70)


def test_no_kind_of_label_in_both_runs_tests_nothing() -> None:
    assert errors_alike(LabelCounts(9, 1, 0, 0), LabelCounts(0, 0, 5, 5)) is None
