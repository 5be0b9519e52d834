"""Agreement of two raters' scores: figures worked out by hand."""

from __future__ import annotations

import math

import pytest

from tunecheck.statistics import as_floats, correlation, fit_threshold, score_agreement, weighted_kappa


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
