"""Properties of every comparison, and comparisons of too little: what is not defined is None and says why."""

import math
from collections.abc import Sequence
from random import Random
from statistics import NormalDist
from typing import Any

import numpy
import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from tunecheck.statistics import (
    Estimate,
    Result,
    as_codes,
    chance_to_show,
    effective_rows,
    estimate_mean,
    estimate_proportion,
    holm,
    margin_result,
    margin_to_show,
    non_inferiority,
    paired_binary,
    paired_scores,
    pass_at_k,
    pass_hat_k,
    rows_to_decide,
    rows_to_show,
    smallest_difference,
    t_quantile,
    tango,
)

Scores = list[tuple[float, float, str | None]]
Verdicts = list[tuple[bool, bool, str | None]]

SCORES = st.one_of(st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 1.0]), st.floats(-1e3, 1e3))
MARKS = st.integers(0, 40).map(lambda mark: mark / 8)
PAIRS = st.lists(st.tuples(SCORES, SCORES, st.sampled_from(["a", "b", "c", None])), max_size=40)
VERDICTS = st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from(["a", "b", "c", None])), max_size=40)
ANY = st.lists(st.tuples(st.floats(), st.floats(), st.integers(0, 3)), max_size=30)


def columns(rows: Sequence[tuple[Any, Any, Any]], clustered: bool = True) -> tuple[list[Any], list[Any], Any]:
    """The verdicts or scores of both runs, and the clusters of the rows."""
    base, new, labels = ([row[side] for row in rows] for side in range(3))
    return base, new, labels if clustered else None


def numbers(result: object) -> list[float]:
    """All numbers in a result, however deep."""
    if isinstance(result, Result):
        return [number for field in structs.fields(result) for number in numbers(getattr(result, field.name))]
    return [result] if isinstance(result, float) else []


@given(ANY, st.booleans())
def test_any_floats_give_figures_or_none_but_never_nan(rows: list[tuple[float, float, int]], clustered: bool) -> None:
    base, new, clusters = columns(rows, clustered)
    found = paired_scores(base, new, clusters, draws=50)
    assert all(math.isfinite(number) for number in numbers(found))
    if not all(abs(value) <= 1e100 for value in (*base, *new)):
        assert (found.difference.value, found.p_value) == (None, None)
        assert found.difference.remark is not None
    assert smallest_difference(found).value is None or found.difference.standard_error


@given(VERDICTS, st.booleans())
def test_swapping_two_runs_turns_the_difference_of_verdicts_around(rows: Verdicts, clustered: bool) -> None:
    base, new, clusters = columns(rows, clustered)
    one, other = paired_binary(base, new, clusters), paired_binary(new, base, clusters)
    assert (one.b, one.c, one.base, one.new) == (other.c, other.b, other.new, other.base)
    assert (one.p_exact, one.p_value) == pytest.approx((other.p_exact, other.p_value))
    assert turned(one.difference) == pytest.approx(plain(other.difference), abs=1e-9)


@given(PAIRS, st.booleans())
def test_swapping_two_runs_turns_the_difference_of_scores_around(rows: Scores, clustered: bool) -> None:
    base, new, clusters = columns(rows, clustered)
    one = paired_scores(base, new, clusters, draws=200)
    other = paired_scores(new, base, clusters, draws=200)
    assert turned(one.difference) == pytest.approx(plain(other.difference), rel=1e-9, abs=1e-9)
    assert (one.p_value, one.p_exact) == (other.p_value, other.p_exact)


def plain(estimate: Estimate) -> list[float]:
    """Value, low and high, without undefined ones."""
    return [end for end in (estimate.value, estimate.low, estimate.high) if end is not None]


def turned(estimate: Estimate) -> list[float]:
    """The same of the difference the other way round."""
    return [-end for end in (estimate.value, estimate.high, estimate.low) if end is not None]


@given(VERDICTS, st.randoms())
def test_the_order_of_rows_changes_no_verdict(rows: Verdicts, random: Random) -> None:
    shuffled = random.sample(rows, len(rows))
    one, other = (paired_binary(*columns(order)) for order in (rows, shuffled))
    assert (one.b, one.c, one.difference.clusters) == (other.b, other.c, other.difference.clusters)
    assert plain(one.difference) == pytest.approx(plain(other.difference), abs=1e-9)
    assert (one.p_exact, one.p_value) == pytest.approx((other.p_exact, other.p_value))


@given(PAIRS, st.randoms())
def test_the_order_of_rows_does_not_matter_to_exact_figures_of_scores(rows: Scores, random: Random) -> None:
    shuffled = random.sample(rows, len(rows))
    one, other = (paired_scores(*columns(order, clustered=False), draws=50) for order in (rows, shuffled))
    assert one.difference.value == pytest.approx(other.difference.value or 0.0, rel=1e-9, abs=1e-9) or not rows
    assert one.difference.method == other.difference.method
    if "(exact)" in one.test:
        assert (one.p_value, one.p_exact) == (other.p_value, other.p_exact)


@given(st.lists(MARKS, min_size=1, max_size=40), st.integers(-100, 100), st.sampled_from([0.01, 0.5, 3.0]))
def test_a_mean_and_its_interval_move_with_the_unit(values: list[float], shift: int, scale: float) -> None:
    one = estimate_mean(values, resamples=200)
    other = estimate_mean([shift + scale * value for value in values], resamples=200)
    if one.low is not None and other.low is not None:
        assert other.low == pytest.approx(shift + scale * one.low, rel=1e-6, abs=1e-6 * (1 + scale))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 60), st.floats(0.5, 4))
def test_intervals_hold_their_difference_and_grow_with_their_reach(b: int, c: int, alike: int, reach: float) -> None:
    n = b + c + alike + 1
    low, high = tango(b, c, n, reach)
    wider_low, wider_high = tango(b, c, n, reach + 0.5)
    assert -1 <= wider_low <= low <= (c - b) / n + 1e-12
    assert (c - b) / n - 1e-12 <= high <= wider_high <= 1


@given(st.integers(0, 20), st.integers(0, 40))
def test_the_more_rows_go_one_way_the_smaller_the_p_value(b: int, c: int) -> None:
    def p_values(b: int, c: int) -> tuple[float, float]:
        found = paired_binary([1] * b + [0] * c, [0] * b + [1] * c)
        return found.p_exact or 1.0, found.p_value or 1.0

    few, many = p_values(b, b + c), p_values(b, b + c + 1)
    assert many[0] <= few[0] + 1e-12
    assert many[1] <= few[1] + 1e-12


@given(VERDICTS)
def test_a_row_for_a_cluster_is_no_cluster(rows: Verdicts) -> None:
    base, new, _ = columns(rows)
    assert paired_binary(base, new, range(len(rows))) == paired_binary(base, new, [None] * len(rows))
    assert paired_binary(base, new, range(len(rows))) == paired_binary(base, new)


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(2, 6))
def test_rows_that_are_copies_are_worth_no_more_than_one_each(outcomes: list[bool], copies: int) -> None:
    # Conversations of equal turns: the clustered error is that of the conversations, a little larger.
    labels = [row for row in range(len(outcomes)) for _ in range(copies)]
    copied = estimate_proportion([outcome for outcome in outcomes for _ in range(copies)], labels)
    single = estimate_proportion(outcomes)
    assert copied.value == pytest.approx(single.value)
    if copied.low is not None and copied.high is not None and single.low is not None and single.high is not None:
        assert copied.low <= single.low + 1e-9
        assert copied.high >= single.high - 1e-9


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holms_correction_keeps_the_order_and_lowers_nothing(p_values: list[float]) -> None:
    adjusted = [value for value in holm(p_values) if value is not None]
    assert all(1 >= after >= before for before, after in zip(p_values, adjusted, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [adjusted[at] for at in order] == sorted(adjusted)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_more_trials_pass_once_more_often_and_always_less_often(counts: list[tuple[int, int]]) -> None:
    trials = [(passed, passed + failed + 3) for passed, failed in counts]
    once = [pass_at_k(trials, k) or 0.0 for k in (1, 2, 3)]
    always = [pass_hat_k(trials, k) or 0.0 for k in (1, 2, 3)]
    assert once == sorted(once)
    assert always == sorted(always, reverse=True)
    assert once[0] == pytest.approx(always[0])


@given(st.floats(1e-6, 1 - 1e-6), st.integers(1, 100_000))
def test_students_quantiles_are_symmetric_and_rise(probability: float, degrees: int) -> None:
    found = t_quantile(probability, degrees)
    assert found == pytest.approx(-t_quantile(1 - probability, degrees), rel=1e-6, abs=1e-9)
    assert t_quantile(min(probability + 1e-3, 1 - 1e-9), degrees) >= found


@given(PAIRS)
def test_the_same_seed_gives_the_same_figures(rows: Scores) -> None:
    base, new, _ = columns(rows)
    first = paired_scores(base, new, draws=100, seed=5)
    assert first == paired_scores(base, new, draws=100, seed=5)


def test_of_no_rows_nothing_is_defined() -> None:
    verdicts, scores = paired_binary([], []), paired_scores([], [])
    for found in (verdicts, scores):
        assert (found.difference.n, found.difference.value, found.difference.low) == (0, None, None)
        assert found.p_value is None
        assert found.difference.remark == "there are no rows"
        assert smallest_difference(found).value is None
        assert non_inferiority(found.difference, 0.1).shown is None
    assert estimate_proportion([]).value is None
    assert estimate_mean([], []).value is None
    assert pass_at_k([], 1) is None


def test_one_score_has_a_mean_and_no_interval() -> None:
    found = estimate_mean([0.7])
    assert (found.value, found.low, found.standard_error) == (0.7, None, None)
    assert found.remark == "there is only one row"


@pytest.mark.parametrize(("clusters", "known"), [(1, False), (2, True)])
def test_equal_scores_of_one_cluster_show_nothing_and_of_two_something(clusters: int, known: bool) -> None:
    found = estimate_mean([0.5] * 6, [number % clusters for number in range(6)], bounds=(0, 1))
    assert (found.value, found.clusters, found.low is not None) == (0.5, clusters, known)


def test_rows_with_twice_the_standard_error_are_worth_a_quarter() -> None:
    """Kish's design effect is the square of the standard errors' ratio; clusters that vary less make no more rows."""
    assert effective_rows(100, 20, plain=0.1, clustered=0.2) == pytest.approx(25)
    assert effective_rows(100, 20, plain=0.2, clustered=0.1) == 100
    assert effective_rows(100, 20, plain=0, clustered=0) == 20


def test_one_pair_shows_nothing() -> None:
    assert paired_binary([1], [0]).p_exact == 1.0
    found = paired_scores([0.25], [0.75])
    assert (found.difference.value, found.difference.low, found.p_exact) == (0.5, None, 1.0)


def test_scores_that_are_all_the_same_have_no_interval_without_bounds() -> None:
    found = estimate_mean([0.5] * 30)
    assert (found.value, found.low, found.high, found.standard_error) == (0.5, None, None, 0.0)
    assert found.remark == "all scores are the same: they show no spread"


def test_with_bounds_scores_that_are_all_the_same_have_the_interval_of_no_other_score() -> None:
    # At most z² / (30 + z²) = 0.1135 of the rows have another score, and that is 0 or 1 at worst.
    found = estimate_mean([1.0] * 30, bounds=(0, 1))
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(1 - 0.11351, abs=1e-5)
    middle = estimate_mean([0.5] * 30, bounds=(0, 1))
    assert (middle.low, middle.high) == pytest.approx((0.5 - 0.11351 / 2, 0.5 + 0.11351 / 2), abs=1e-5)


def test_a_score_outside_the_bounds_makes_no_interval_of_them() -> None:
    assert estimate_mean([1.5] * 30, bounds=(0, 1)).low is None


def test_two_runs_that_are_the_same_are_no_worse_by_what_their_number_of_rows_can_show() -> None:
    scores = [0.1 * (row % 7) for row in range(200)]
    same = paired_scores(scores, scores, bounds=(0, 1))
    assert (same.p_value, same.difference.value, same.difference.standard_error) == (1.0, 0.0, 0.0)
    assert non_inferiority(same.difference, 0.02).shown is True
    assert non_inferiority(same.difference, 0.01).shown is False  # of 200 rows z² / (200 + z²) = 0.0188
    verdicts = [row % 3 > 0 for row in range(200)]
    assert non_inferiority(paired_binary(verdicts, verdicts).difference, 0.02).shown is True


def test_unchanged_scores_of_no_known_range_have_moved_no_further_than_from_0_to_the_furthest() -> None:
    likert = [1.0 + row % 5 for row in range(100)]
    found = paired_scores(likert, likert).difference
    # At most z² / (100 + z²) = 0.03699 of the rows differ, by 5 at most.
    assert (found.low, found.high) == pytest.approx((-5 * 0.036994, 5 * 0.036994), abs=1e-5)
    below = paired_scores([-2.0] * 100, [-2.0] * 100).difference
    assert below.low == pytest.approx(-2 * 0.036994, abs=1e-5)


def test_scores_that_are_all_0_have_no_scale_to_judge_by_unless_it_is_given() -> None:
    assert non_inferiority(paired_scores([0.0] * 100, [0.0] * 100).difference, 0.5).shown is None
    assert non_inferiority(paired_scores([0.0] * 100, [0.0] * 100, bounds=(0, 1)).difference, 0.5).shown is True


def test_unchanged_clusters_of_no_known_range_count_as_clusters() -> None:
    scores = [1.0, 0.0] * 50
    found = paired_scores(scores, scores, [row // 10 for row in range(100)]).difference
    assert found.high == pytest.approx(3.841459 / (10 + 3.841459), abs=1e-6)


def test_rounding_of_a_sum_is_no_change() -> None:
    found = paired_scores([0.1 + 0.2, 0.5], [0.3, 0.5])
    assert (found.p_value, found.difference.value) == (1.0, 0.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
def test_what_is_no_usual_number_is_refused_by_name(bad: float) -> None:
    found = paired_scores([0.5, 0.5, 0.5], [0.5, bad, 0.5])
    assert (found.difference.value, found.base.value, found.p_value) == (None, None, None)
    assert str(found.difference.remark).startswith(f"value 1 is {bad!r}: not finite, or too large")
    assert estimate_mean([bad]).value is None


def test_one_cluster_has_figures_and_no_interval() -> None:
    verdicts = paired_binary([1, 1, 0], [1, 0, 0], ["a", "a", "a"])
    scores = paired_scores([1, 1, 0.5], [1, 0, 0.25], ["a", "a", "a"])
    for found in (verdicts, scores):
        assert found.difference.value is not None
        assert (found.difference.low, found.p_value, found.difference.clusters) == (None, None, 1)
        assert str(found.difference.remark).startswith("all rows are of one cluster")
        assert str(smallest_difference(found).remark).startswith("all rows are of one cluster")
    assert estimate_proportion([1, 0], ["a", "a"]).low is None
    assert scores.base.clusters == 1


def test_clusters_that_are_all_alike_count_as_one_row_each() -> None:
    labels = [row // 8 for row in range(480)]
    found = estimate_proportion([1] * 480, labels)
    assert (found.n, found.clusters, found.high) == (480, 60, 1.0)
    # t(59)² / (60 + t(59)²) with t = 2.000995: as of 60 rows.
    assert found.low == pytest.approx(1 - 2.000995**2 / (60 + 2.000995**2), abs=1e-6)
    none_changed = paired_binary([1] * 480, [1] * 480, labels)
    assert (none_changed.p_value, none_changed.difference.standard_error) == (1.0, 0.0)
    assert none_changed.difference.high == pytest.approx(2.000995**2 / (60 + 2.000995**2), abs=1e-6)
    assert smallest_difference(none_changed).value == pytest.approx(0.12, abs=0.02)
    scores = estimate_mean([1.0] * 480, labels, bounds=(0, 1))
    assert scores.clusters == 60
    assert scores.low == pytest.approx(60 / (60 + 3.841459), abs=1e-6)


def test_rows_of_no_cluster_are_alone() -> None:
    assert paired_scores([0.5] * 4, [0.25] * 4, ["a", "a", None, None]).difference.clusters == 3


def test_where_most_rows_share_a_score_the_others_alone_say_how_far_to_trust_the_spread() -> None:
    scores = [1.0] * 190 + [0.5, 0.25, 0.75, 0.5, 0.9, 0.1, 0.3, 0.6, 0.2, 0.4]
    assert estimate_mean(scores).method == "t(9)"
    assert estimate_mean(scores[150:]).method == "t(9)"
    assert estimate_mean(scores[185:]).method == "BCa bootstrap"


def test_an_interval_is_cut_off_at_what_the_metric_can_give() -> None:
    # For 1, 0.8 and 0.6 the standard error is 0.2 / √3, and t(2) is 4.302653.
    assert estimate_mean([1.0, 0.8, 0.6]).high == pytest.approx(0.8 + 4.302653 * 0.2 / 3**0.5, abs=1e-6)
    assert estimate_mean([1.0, 0.8, 0.6], bounds=(0, 1)).high == 1.0


def test_scores_that_all_moved_alike_say_that_their_differences_have_no_spread() -> None:
    assert paired_scores([0.5] * 9, [0.75] * 9).difference.remark == "all differences are the same: they show no spread"


def test_clusters_may_be_numbers_or_any_labels() -> None:
    base, new = [row % 2 for row in range(24)], [row % 3 > 0 for row in range(24)]
    labels = [None if row > 20 else f"c{row // 4}" for row in range(24)]
    assert paired_binary(base, new, as_codes(labels)) == paired_binary(base, new, labels)
    assert paired_scores(base, new, as_codes(labels)) == paired_scores(base, new, labels)


def test_scores_too_large_to_subtract_have_no_figures_and_raise_no_warning() -> None:
    found = paired_scores([1.7e308], [-1.7e308])
    assert (found.difference.value, found.p_value) == (None, None)


@pytest.mark.parametrize(("gone", "come"), [(2, 2), (0, 3), (2, 1), (9, 1), (0, 0)])
@pytest.mark.parametrize("higher", [True, False])
def test_the_rows_said_to_decide_a_margin_decide_it_and_fewer_do_not(gone: int, come: int, higher: bool) -> None:
    def difference(times: int) -> Estimate:
        passed_before = [1.0] * gone + [0.0] * come + [1.0] * (100 - gone - come)
        passed_after = [0.0] * gone + [1.0] * come + [1.0] * (100 - gone - come)
        return paired_binary(passed_before * times, passed_after * times).difference

    def decided(times: int) -> bool:
        found = difference(times)
        shown = non_inferiority(found, 0.015, higher_is_better=higher).shown
        return bool(shown) or margin_result(found, 0.015, higher_is_better=higher) == "refuted"

    rows = rows_to_decide(difference(1), 0.015, higher_is_better=higher, discordant=(gone, come))
    assert rows is not None
    assert decided(math.ceil(rows / 100))
    assert not decided((rows - 1) // 100) or rows == 100


def test_a_difference_that_is_the_margin_is_never_decided() -> None:
    found = paired_binary([1.0] * 100, [0.0] * 2 + [1.0] * 98).difference
    assert rows_to_decide(found, 0.02, discordant=(2, 0)) is None
    assert rows_to_decide(found, 0.02) is None


@pytest.mark.parametrize(("rows", "change", "margin"), [(150, 0.05, 0.05), (300, 0.1, 0.05), (60, 0.1, 0.1)])
def test_the_power_of_a_gate_is_what_runs_of_an_identical_model_show(rows: int, change: float, margin: float) -> None:
    generator = numpy.random.default_rng(0)
    changed = generator.binomial(rows, change, 500)
    gone = generator.binomial(changed, 0.5)
    width = NormalDist().inv_cdf(0.975)
    shown = [-tango(int(b), int(d - b), rows, width)[0] < margin for b, d in zip(gone, changed, strict=True)]
    assert chance_to_show(rows, change, margin) == pytest.approx(sum(shown) / 500, abs=0.06)


@pytest.mark.parametrize("change", [0.0, 0.02, 0.1])
def test_the_rows_and_the_margin_that_would_do_are_the_least_that_do(change: float) -> None:
    rows, margin = rows_to_show(change, 0.02, 0.8), margin_to_show(150, change, 0.8)
    assert chance_to_show(rows, change, 0.02) >= 0.8 > chance_to_show(rows - 1, change, 0.02)
    assert margin is not None
    assert chance_to_show(150, change, margin) >= 0.8 > chance_to_show(150, change, 0.99 * margin)
    assert margin_to_show(1, 1.0, 0.999) is None


def test_scores_without_a_change_take_rows_in_proportion_and_others_their_square() -> None:
    same = Estimate(0.0, -0.04, 0.04, 100, 0.95, "t", 0.0)
    spread = Estimate(0.0, -0.04, 0.04, 100, 0.95, "t", 0.02)
    assert (rows_to_decide(same, 0.02), rows_to_decide(spread, 0.02)) == (200, 400)
