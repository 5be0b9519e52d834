"""Figures of comparisons that were published, or can be worked out by hand or by counting every case."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
from itertools import combinations, product

import numpy
import pytest
from tests.tables import cases

from tunecheck.statistics import (
    Estimate,
    PairedBinary,
    estimate_proportion,
    flip_counts,
    flip_scores,
    holm,
    mcnemar,
    non_inferiority,
    paired_binary,
    paired_scores,
    pass_at_k,
    pass_hat_k,
    smallest_binary,
    smallest_difference,
    wilson,
)

Z = statistics.NormalDist().inv_cdf(0.975)


def verdicts(b: int, c: int, n: int) -> PairedBinary:
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
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        wilson(1, 2, confidence)


def test_the_standard_error_of_a_share_is_the_usual_one() -> None:
    assert estimate_proportion([1, 1, 1, 0]).standard_error == pytest.approx(math.sqrt(0.75 * 0.25 / 4))


@cases("statistics")
def test_published_verdict_tables(b: int, c: int, n: int, exact: float, mid: float, low: float, high: float) -> None:
    found = verdicts(b, c, n)
    assert (found.p_exact, found.p_mid) == pytest.approx((exact, mid), abs=5e-5)
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
    assert (found.p_exact, found.p_mid, found.clusters) == (2 / 8, 1 / 8, 3)


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
def test_no_worse_by_a_margin_is_what_the_worse_end_of_the_interval_says(
    low: float | None, high: float | None, higher_is_better: bool, margin: float, shown: bool | None
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
    found = paired_scores([0.5, 0.25, 1.0], [0.5, 0.75, 1.0]).as_json()
    assert isinstance(found["difference"], dict)
    assert found["difference"]["value"] == pytest.approx(0.5 / 3)
    assert (found["changed"], found["higher"]) == (1, 1)
