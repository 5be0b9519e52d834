"""Rates corrected by how often a judge errs, and how scores agree with people."""

from __future__ import annotations

import math

import pytest

from tunecheck.statistics import (
    Estimate,
    LabelCounts,
    as_floats,
    corrected_difference,
    correlation,
    errors_alike,
    fit_threshold,
    prediction_powered,
    rogan_gladen,
    score_agreement,
    weighted_kappa,
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
    assert found.low is not None and found.high is not None
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
        assert found.low is not None and found.high is not None
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


def test_weighted_kappa_weighs_a_disagreement_by_the_square_of_how_far_it_goes() -> None:
    # Squares of the differences: 0, 1, 0 and 4, in the mean 1.25. Means are 2 and 2.75, variances 0.5 and 2.1875: any
    # of the one against any of the other differ by 0.5 + 2.1875 + 0.75² = 3.25.
    found = weighted_kappa(as_floats([1, 2, 2, 3]), as_floats([1, 3, 2, 5]))
    assert found.value == pytest.approx(1 - 1.25 / 3.25)


def test_of_two_classes_weighted_kappa_is_cohens() -> None:
    # 20 and 15 of 50 alike, 5 and 10 apart: 0.4 (see Cohen's).
    pairs = [(0, 0)] * 20 + [(0, 1)] * 5 + [(1, 0)] * 10 + [(1, 1)] * 15
    first, second = (as_floats([pair[side] for pair in pairs]) for side in (0, 1))
    found = weighted_kappa(first, second)
    assert found.value == pytest.approx(0.4)
    # Fleiss, Cohen and Everitt (1969): (0.10972 + 0.10188 - 0.01) / (50 · 0.5²) = 0.016128; its root is 0.126996.
    assert found.low == pytest.approx(0.151093, abs=1e-5)
    assert found.high == pytest.approx(0.648907, abs=1e-5)
    assert weighted_kappa(first, second, confidence=0.5).low == pytest.approx(0.4 - 0.67449 * 0.126996, abs=1e-5)


def test_scores_that_are_a_point_too_high_correlate_and_err_by_a_point() -> None:
    found = score_agreement([(label, label + 1) for label in (1, 2, 3, 4, 2, 3)])
    assert (found.correlation.value, found.mean_error.value, found.mean_absolute_error) == (1, 1, 1)
    assert found.weighted_kappa.value is not None
    assert found.weighted_kappa.value < 1


def test_the_interval_of_a_correlation_is_fishers() -> None:
    found = correlation(as_floats([1, 2, 3, 4, 5]), as_floats([2, 1, 4, 3, 5]))
    assert found.value == pytest.approx(0.8)
    assert found.low == pytest.approx(math.tanh(math.atanh(0.8) - 1.959964 / math.sqrt(2)), abs=1e-6)


def test_what_is_not_defined_says_so() -> None:
    same = score_agreement([(3, 3), (3, 3)])
    assert (same.weighted_kappa.value, same.correlation.value) == (None, None)
    assert "both give 3 to every row" in str(same.weighted_kappa.remark)
    assert score_agreement([]).mean_error.value is None


def test_the_threshold_that_fits_is_between_what_people_fail_and_pass() -> None:
    fitted = fit_threshold([(score >= 4, score) for score in (1, 2, 3, 4, 5)] * 6)
    assert fitted is not None
    assert (fitted.threshold, fitted.accuracy.value, fitted.kappa.value) == (4, 1, 1)


def test_where_less_is_better_rows_pass_up_to_it() -> None:
    fitted = fit_threshold([(score <= 2, score) for score in (1, 2, 3, 4, 5)] * 6, higher_is_better=False)
    assert fitted is not None
    assert fitted.threshold == 2


def test_what_it_reaches_is_told_of_rows_that_did_not_choose_it() -> None:
    # Every score is given once and labels alternate: a threshold fits them by chance alone, and no new row.
    pairs = [(at % 2 == 0, float(at % 7)) for at in range(40)]
    fitted = fit_threshold(pairs)
    assert fitted is not None
    on_all = sum((score >= fitted.threshold) == label for label, score in pairs)
    assert fitted.accuracy.hits < on_all


@pytest.mark.parametrize("pairs", [[], [(True, 1.0), (False, 0.0)] * 9, [(True, float(at)) for at in range(30)]])
def test_few_rows_or_one_label_choose_no_threshold(pairs: list[tuple[bool, float]]) -> None:
    assert fit_threshold(pairs) is None
