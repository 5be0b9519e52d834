"""Properties of every comparison: symmetry, order that does not matter, figures that are where they can be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tunecheck.statistics import (
    Estimate,
    estimate_mean,
    estimate_proportion,
    holm,
    paired_binary,
    paired_scores,
    pass_at_k,
    pass_hat_k,
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
    if is_dataclass(result):
        return [number for field in fields(result) for number in numbers(getattr(result, field.name))]
    return [result] if isinstance(result, float) else []


@given(ANY, st.booleans())
def test_any_floats_give_figures_or_none_but_never_nan(rows: list[tuple[float, float, int]], clustered: bool) -> None:
    base, new, clusters = columns(rows, clustered)
    found = paired_scores(base, new, clusters, resamples=50, flips=50)
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
    assert (one.p_exact, one.p_mid) == pytest.approx((other.p_exact, other.p_mid))
    assert turned(one.difference) == pytest.approx(plain(other.difference), abs=1e-9)


@given(PAIRS, st.booleans())
def test_swapping_two_runs_turns_the_difference_of_scores_around(rows: Scores, clustered: bool) -> None:
    base, new, clusters = columns(rows, clustered)
    one = paired_scores(base, new, clusters, resamples=200, flips=200)
    other = paired_scores(new, base, clusters, resamples=200, flips=200)
    assert turned(one.difference) == pytest.approx(plain(other.difference), rel=1e-9, abs=1e-9)
    assert (one.p_value, one.p_exact) == (other.p_value, other.p_exact)
    assert (one.changed, one.higher) == (other.changed, other.changed - other.higher)


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
    assert (one.b, one.c, one.clusters) == (other.b, other.c, other.clusters)
    assert plain(one.difference) == pytest.approx(plain(other.difference), abs=1e-9)
    assert (one.p_exact, one.p_mid) == pytest.approx((other.p_exact, other.p_mid))


@given(PAIRS, st.randoms())
def test_the_order_of_rows_does_not_matter_to_exact_figures_of_scores(rows: Scores, random: Random) -> None:
    shuffled = random.sample(rows, len(rows))
    one, other = (paired_scores(*columns(order, clustered=False), resamples=50, flips=50) for order in (rows, shuffled))
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
        return found.p_exact or 1.0, found.p_mid or 1.0

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
    first = paired_scores(base, new, resamples=100, flips=100, seed=5)
    assert first == paired_scores(base, new, resamples=100, flips=100, seed=5)
