"""Figures that were published or can be worked out by hand, and rates corrected by how often a judge errs."""

import math
import statistics
import subprocess
import sys
from itertools import combinations, product
from typing import Any

import numpy
import pytest
from tests.tables import cases

from tunecheck.statistics import (
    Estimate,
    LabelCounts,
    Paired,
    as_floats,
    corrected_difference,
    correlation,
    errors_alike,
    estimate_proportion,
    fit_threshold,
    flip_counts,
    flip_scores,
    holm,
    mcnemar,
    non_inferiority,
    paired_binary,
    paired_scores,
    pass_at_k,
    pass_hat_k,
    prediction_powered,
    rogan_gladen,
    score_agreement,
    smallest_binary,
    smallest_difference,
    weighted_kappa,
    wilson,
)

Z = statistics.NormalDist().inv_cdf(0.975)


def verdicts(b: int, c: int, n: int) -> Paired:
    return paired_binary([1] * b + [0] * (n - b), [0] * b + [1] * c + [0] * (n - b - c))


def difference(low: float | None, high: float | None, confidence: float = 0.95) -> Estimate:
    return Estimate(0.0, low, high, 100, confidence, "by hand")


@cases("statistics")
def test_published_intervals_of_shares(hits: int, of: int, low: float, high: float) -> None:
    found = wilson(hits, of)
    assert (found.value, found.hits, found.of) == (hits / of, hits, of)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)
    other = wilson(of - hits, of)
    assert (other.low, other.high) == pytest.approx((1 - high, 1 - low), abs=5e-5)


def test_of_none_or_all_rows_the_interval_ends_exactly_at_0_or_1() -> None:
    for of in range(1, 400):
        assert (wilson(0, of).low, wilson(of, of).high) == (0.0, 1.0)


@pytest.mark.parametrize("confidence", [-0.1, 0, 1, 1.5, 95])
def test_a_confidence_lies_between_0_and_1(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence must be above 0 and below 1"):
        wilson(1, 2, confidence)


def test_the_standard_error_of_a_share_is_the_usual_one() -> None:
    assert estimate_proportion([1, 1, 1, 0]).standard_error == pytest.approx(math.sqrt(0.75 * 0.25 / 4))


@cases("statistics")
def test_published_verdict_tables(b: int, c: int, n: int, exact: float, mid: float, low: float, high: float) -> None:
    found = verdicts(b, c, n)
    assert (found.p_exact, found.p_value) == pytest.approx((exact, mid), abs=5e-5)
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high), abs=5e-4)
    assert found.difference.value == (c - b) / n


def test_mcnemars_test_worked_out_by_hand() -> None:
    # 20 discordant rows, 5 one way: twice the chance of 0 to 5 heads in 20 throws; mid-p leaves out one chance of 5.
    ways = [math.comb(20, heads) for heads in range(6)]
    assert mcnemar(15, 5) == pytest.approx((2 * sum(ways) / 2**20, (2 * sum(ways) - ways[5]) / 2**20), rel=1e-12)


def test_without_a_discordant_row_the_interval_is_that_of_none_in_n() -> None:
    # The score statistic of b = c = 0 is −√n · d / √(|d| (1 − |d|)): within ± z up to z² / (n + z²), as Wilson's.
    found = verdicts(0, 0, 50)
    limit = Z**2 / (50 + Z**2)
    assert (found.difference.low, found.difference.high) == pytest.approx((-limit, limit))
    assert (found.p_value, found.p_exact) == (1.0, 1.0)


@pytest.mark.parametrize(("b", "c"), [(0, 1), (3, 3), (2, 9), (40, 61), (0, 0), (700, 640)])
def test_clusters_of_one_row_have_mcnemars_p_values(b: int, c: int) -> None:
    sums = numpy.array([-1.0] * b + [1.0] * c + [0.0] * 7)
    found = flip_counts(sums)
    assert (found.exact, found.mid) == pytest.approx(mcnemar(b, c), rel=1e-9)


def test_flipping_clusters_counted_by_hand() -> None:
    # Conversations that gained 3, 2 and 1 rows: of the eight sums only 6 and −6 are as large.
    base = [0, 0, 0, 0, 0, 0, 1]
    found = paired_binary(base, [1, 1, 1, 1, 1, 1, 1], ["a", "a", "a", "b", "b", "c", "c"])
    assert (found.p_exact, found.p_value, found.difference.clusters) == (2 / 8, 1 / 8, 3)


def test_a_comparison_names_the_methods_of_its_figures() -> None:
    base, new, labels = [1, 0, 1, 1], [0, 0, 1, 0], ["a", "a", "b", "c"]
    assert paired_binary(base, new).difference.method == "Tango"
    assert estimate_proportion(base, labels).method == "Wilson, effective rows"
    assert paired_scores(base, new).test == "sign-flip permutation, mid-p (exact)"
    assert paired_scores(base, new, labels).test == "sign-flip permutation of clusters, mid-p (exact)"


def test_drawn_signs_are_within_their_error_of_all_signs() -> None:
    random = numpy.random.Generator(numpy.random.PCG64(3))
    for rows in (25, 40, 300, 2_000):
        values = random.integers(-4, 6, size=rows).astype(numpy.float64)
        exact = flip_counts(values)
        drawn = flip_scores(values, seed=rows)
        assert drawn.how == "10,000 draws"
        error = 4 * math.sqrt(exact.exact * (1 - exact.exact) / 10_000) + 2e-4
        assert (drawn.exact, drawn.mid) == pytest.approx((exact.exact, exact.mid), abs=error)


def test_of_many_rows_the_normal_limit_is_the_exact_p_value() -> None:
    random = numpy.random.Generator(numpy.random.PCG64(4))
    for shift in (0, 1, 2):
        values = random.integers(-40, 41, size=8_000).astype(numpy.float64) + shift
        found = flip_scores(values, seed=0)
        assert found.how == "normal limit"
        # Sums of whole numbers come in steps; the limit counts half of the last step, as mid-p does.
        assert found.mid == pytest.approx(flip_counts(values).mid, abs=1e-4)


def test_where_few_rows_make_up_most_of_the_sum_signs_are_drawn_though_there_are_many() -> None:
    values = numpy.full(6_000, -1e-6)
    values[:4] = 1.0
    found = flip_scores(values, seed=0)
    assert found.how == "10,000 draws"
    assert found.exact == pytest.approx(2 / 16, abs=0.02)  # all four alike


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_pass_at_k_and_pass_hat_k_are_those_of_all_choices_of_k_trials(k: int) -> None:
    trials = [(0, 5), (1, 5), (3, 5), (5, 5), (4, 6), (2, 7)]
    chosen = [list(combinations([1] * c + [0] * (n - c), k)) for c, n in trials]
    once = [sum(any(choice) for choice in choices) / len(choices) for choices in chosen]
    always = [sum(all(choice) for choice in choices) / len(choices) for choices in chosen]
    assert pass_at_k(trials, k) == pytest.approx(sum(once) / 6)
    assert pass_hat_k(trials, k) == pytest.approx(sum(always) / 6)


def test_items_with_too_few_trials_are_left_out() -> None:
    assert pass_hat_k([(3, 3), (2, 2), (0, 4)], 3) == 0.5
    assert pass_at_k([(1, 1)], 2) is None


def test_holms_correction_worked_out_by_hand() -> None:
    # Of four: 4 × 0.01, 3 × 0.02, then 2 × 0.025 is under the one before it, and 1 × 0.4.
    assert holm([0.4, 0.01, None, 0.025, 0.02]) == pytest.approx([0.4, 0.04, None, 0.06, 0.06])
    assert holm([]) == []


@cases("statistics")
def test_no_worse_by_a_margin_is_what_the_worse_end_says(
    low: Any, high: Any, higher_is_better: bool, margin: float, shown: Any
) -> None:
    found = non_inferiority(difference(low, high), margin, higher_is_better=higher_is_better)
    assert (found.shown, found.alpha) == (shown, 0.025)


def test_an_interval_of_90_percent_tests_at_5_percent_one_sided() -> None:
    found = non_inferiority(difference(-0.02, 0.05, 0.9), 0.03)
    assert (found.shown, found.alpha) == (True, 0.05)


def test_the_smallest_difference_of_verdicts_is_that_of_the_usual_formula() -> None:
    # n ≈ (1.96 + 0.84)² · ψ / d²: 3 points of 1,308 rows and 5 of 471, where 15% differ.
    assert smallest_binary(1_308, 0.15, 0.8, 0.05) == pytest.approx(0.03, rel=0.01)
    assert smallest_binary(471, 0.15, 0.8, 0.05) == pytest.approx(0.05, rel=0.01)
    assert smallest_difference(verdicts(75, 75, 1_000)).value == smallest_binary(1_000, 0.15, 0.8, 0.05)


@pytest.mark.parametrize(("rows", "discordance"), [(50, 0.3), (200, 0.1), (200, 0.3), (1_000, 0.05)])
def test_the_smallest_difference_is_shown_with_the_power_it_names(rows: int, discordance: float) -> None:
    smallest = smallest_binary(rows, discordance, 0.8, 0.05)
    assert smallest is not None
    power = sum(chance for b, c, chance in tables(rows, discordance, smallest) if mcnemar(b, c)[1] <= 0.05 and c > b)
    assert power == pytest.approx(0.8, abs=0.04)


def test_the_smallest_difference_of_scores_is_that_of_the_usual_formula() -> None:
    # Five rows 1 up and five 1 down: the standard error is √(10 / 9) / √10, t(0.975, 9) 2.262157, t(0.8, 9) 0.883404.
    found = smallest_difference(paired_scores([0.0, 1.0] * 5, [1.0, 0.0] * 5))
    assert found.value == pytest.approx((2.262157 + 0.883404) / 3, abs=1e-6)
    assert found.remark is None


def test_so_few_rows_that_nothing_would_be_shown_say_so() -> None:
    found = smallest_difference(verdicts(1, 0, 3))
    assert (found.value, found.remark) == (None, "too few rows: even a change of every row would not be significant")


def test_without_a_discordant_row_the_smallest_difference_is_that_of_rows_that_all_go_one_way() -> None:
    # √(n d) = z + 0.8416 · √(1 − d): for n = 100, d = 0.0748.
    found = smallest_difference(verdicts(0, 0, 100)).value
    assert found is not None
    assert math.sqrt(100 * found) == pytest.approx(Z + 0.8416212 * math.sqrt(1 - found))


def tables(rows: int, discordance: float, truth: float) -> list[tuple[int, int, float]]:
    """Every b and c that is likely at all, with its chance: that of the trinomial distribution."""
    lost, won = (discordance - truth) / 2, (discordance + truth) / 2
    log = math.lgamma
    found = []
    for b, c in product(likely(rows, lost), likely(rows, won)):
        if b + c > rows or (b and not lost):
            continue
        chance = log(rows + 1) - log(b + 1) - log(c + 1) - log(rows - b - c + 1)
        chance += (b * math.log(lost) if b else 0.0) + c * math.log(won)
        found.append((b, c, math.exp(chance + (rows - b - c) * math.log(1 - discordance))))
    assert sum(chance for _, _, chance in found) == pytest.approx(1, abs=1e-4)
    return found


def likely(rows: int, chance: float) -> range:
    reach = 4.2 * math.sqrt(rows * chance) + 4
    return range(max(0, int(rows * chance - reach)), min(rows, int(rows * chance + reach)) + 1)


def test_results_are_read_without_numpy_and_the_standard_library_keeps_its_name() -> None:
    code = (
        "import sys, tunecheck.statistics._decisions, statistics\n"
        "from tunecheck.statistics._decisions import holm, smallest_difference\n"
        "from tunecheck.statistics._results import Estimate\n"
        "assert statistics.median([1, 2, 3]) == 2 and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_result_is_written_as_json_by_its_fields() -> None:
    found = paired_scores([0.5, 0.25, 1.0], [0.5, 0.75, 1.0]).to_json()
    assert isinstance(found["difference"], dict)
    assert found["difference"]["value"] == pytest.approx(0.5 / 3)
    assert (found["difference"]["n"], found["b"]) == (3, None)


# 90 of 100 good rows and 20 of 100 bad ones pass: sensitivity 0.9, specificity 0.8, so that differences shrink to 0.7.
LENIENT = LabelCounts(90, 10, 20, 80)
NEVER_WRONG = LabelCounts(10**7, 0, 0, 10**7)


def tango_difference(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, low, high, 500, 0.95, "Tango", 0.02)


def test_the_rate_is_rogan_and_gladens() -> None:
    found = rogan_gladen(550, 1_000, LENIENT)
    # (0.55 + 0.8 - 1) / (0.9 + 0.8 - 1) = 0.5; Var(p) / 0.49 and, a half squared of each, those of the two rates.
    assert found.value == pytest.approx(0.5)
    variance = (0.55 * 0.45 / 1_000 + 0.25 * 0.9 * 0.1 / 100 + 0.25 * 0.2 * 0.8 / 100) / 0.49
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
        (LabelCounts(9, 1, 0, 0), "every label is pass"),
        (LabelCounts(0, 0, 3, 7), "every label is fail"),
        (LabelCounts(5, 5, 6, 4), "no better than chance"),
    ],
)
def test_labels_that_say_nothing_of_its_errors_correct_nothing(labels: LabelCounts, why: str) -> None:
    found = rogan_gladen(500, 1_000, labels)
    assert found.value is found.low is found.high is None
    assert why in str(found.remark)
    assert why in str(corrected_difference(tango_difference(0.1, 0.0, 0.2), labels).remark)


def test_labelled_rows_of_the_run_move_its_rate_by_what_the_judge_sees_in_the_others() -> None:
    # 50 of 100 labelled rows are good, and the judge passes 45 of them and 10 others; of 900 unlabelled ones 540.
    labels = LabelCounts(45, 5, 10, 40)
    # 595 of all 1,000 verdicts pass: their variance is 0.595 · 0.405 · 1000/999. cov = 0.45 - 0.5 · 0.55 = 0.175.
    power = 0.175 / (0.595 * 0.405 * 1_000 / 999) / (1 + 100 / 900)
    found = prediction_powered(540, 900, labels)
    assert found.value == pytest.approx(0.5 + power * (0.6 - 0.55))
    assert found.n == 1_000
    labels_alone = wilson(50, 100)
    assert None not in (found.low, found.high, labels_alone.low, labels_alone.high)
    assert found.high - found.low < labels_alone.high - labels_alone.low, "the judge adds to what the labels say"  # type: ignore[operator]


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
    found = corrected_difference(tango_difference(0.07, 0.0, 0.14), LENIENT)
    assert found.value == pytest.approx(0.1)
    assert found.low == 0, "where nothing is shown, nothing is"
    assert found.high is not None
    assert found.high > 0.14 / 0.7, "how often it errs is not known exactly"
    assert found.standard_error == pytest.approx(0.02 / 0.7)


def test_a_judge_that_never_errs_leaves_a_difference_as_it_is() -> None:
    found = corrected_difference(tango_difference(-0.05, -0.09, -0.01), NEVER_WRONG)
    assert (found.value, found.low, found.high) == pytest.approx((-0.05, -0.09, -0.01), abs=1e-4)


def test_a_loss_is_corrected_as_a_gain_is() -> None:
    gain, loss = (
        corrected_difference(each, LENIENT)
        for each in (tango_difference(0.05, 0.01, 0.09), tango_difference(-0.05, -0.09, -0.01))
    )
    assert (loss.value, loss.low, loss.high) == pytest.approx(
        tuple(-(x or 0) for x in (gain.value, gain.high, gain.low))
    )


def test_a_judge_not_shown_to_be_better_than_chance_shows_no_difference() -> None:
    found = corrected_difference(tango_difference(0.1, 0.05, 0.15), LabelCounts(6, 4, 5, 5))
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
    assert "both raters give every row 3" in str(same.weighted_kappa.remark)
    assert score_agreement([]).mean_error.value is None


@pytest.mark.parametrize("score", [0.1, 0.2, 0.3, 0.7])
@pytest.mark.parametrize("rows", [5, 10, 23])
@pytest.mark.parametrize("constant_side", [0, 1])
def test_rounding_does_not_hide_a_rater_who_always_gives_the_same_score(
    score: float, rows: int, constant_side: int
) -> None:
    pairs = [(score, at % 5 / 4) if constant_side == 0 else (at % 5 / 4, score) for at in range(rows)]
    found = score_agreement(pairs)

    assert (found.correlation.value, found.correlation.low) == (None, None)
    assert found.correlation.remark == "one rater gives every row the same score"
    assert (found.weighted_kappa.value, found.weighted_kappa.low, found.weighted_kappa.high) == (0, None, None)
    assert found.weighted_kappa.remark == "one rater gives every row the same score, so kappa is always 0"


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
