"""Deciding early: bets that cannot win on average, the complete run's verdict, no pair taken in vain."""

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tunecheck import decide_early
from tunecheck.statistics import EarlyTest, Outcome, non_inferiority, paired_binary
from tunecheck.statistics._sequential import FairWalk, _Capital

BETTER, SAME, WORSE = (0.0, 1.0), (1.0, 1.0), (1.0, 0.0)
OPPOSITE: dict[Outcome, Outcome] = {"better": "worse", "worse": "better", "undecided": "undecided"}


def drawn(fixed: float, broken: float, pairs: int, seed: int) -> list[tuple[float, float]]:
    """Verdicts; these shares of them change."""
    source = random.Random(seed)
    return [
        BETTER if chance < fixed else WORSE if chance < fixed + broken else SAME
        for chance in (source.random() for _ in range(pairs))
    ]


def capital(values: tuple[float, ...], mean: float = 0.0) -> float:
    bets = _Capital()
    for value in values:
        bets.bet((value - mean) / (1 + mean))
    return math.exp(bets.logarithms[0])


@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_a_fair_coin_leaves_the_capital_at_one_on_average(length: int) -> None:
    paths = [capital(path) for path in itertools.product((-1.0, 1.0), repeat=length)]
    assert math.fsum(paths) / len(paths) == pytest.approx(1)


def test_a_change_that_is_as_bad_as_the_margin_on_average_leaves_it_at_one_too() -> None:
    # -1 with chance 0.2 and 0 otherwise has the mean -0.2
    paths = itertools.product(((-1.0, 0.2), (0.0, 0.8)), repeat=5)
    expected = math.fsum(
        capital(tuple(value for value, _ in path), -0.2) * math.prod(chance for _, chance in path) for path in paths
    )
    assert expected == pytest.approx(1)


def test_a_checkpoint_that_fixes_a_fifth_of_the_rows_is_better_after_a_part_of_them() -> None:
    decision = decide_early(drawn(0.2, 0.02, 1_000, seed=3))
    assert decision.outcome == "better"
    assert decision.pairs < 250


def test_no_pair_is_taken_after_the_decision() -> None:
    def pairs() -> Iterator[tuple[float, float]]:
        yield from [WORSE] * 40

    rest = pairs()
    decision = decide_early(rest)
    assert decision.outcome == "worse"
    assert decision.pairs + len(list(rest)) == 40


def test_equal_scores_are_never_decided() -> None:
    assert decide_early([SAME] * 500) == type(decide_early([]))("undecided", 500)


def test_an_equal_checkpoint_is_soon_shown_to_be_no_worse() -> None:
    decision = decide_early([SAME] * 1_000, margin=0.03)
    assert decision.outcome == "not_worse"
    assert decision.pairs < 300


def test_one_that_loses_more_than_the_margin_is_worse() -> None:
    assert decide_early(drawn(0.02, 0.25, 1_000, seed=5), margin=0.05).outcome == "worse"


def test_too_few_rows_for_the_margin_stay_undecided_as_in_the_complete_run() -> None:
    assert decide_early([SAME] * 30, margin=0.01).outcome == "undecided"


def test_pairs_without_a_length_are_a_sample_of_endlessly_many() -> None:
    pairs = [SAME] * 150
    assert decide_early(pairs, margin=0.03).outcome == "not_worse"
    assert decide_early(iter(pairs[:149]), margin=0.03).outcome == decide_early(pairs[:149], margin=0.03).outcome
    assert decide_early(itertools.repeat(SAME), margin=0.03).outcome == "not_worse"


def test_scores_between_zero_and_one_decide_as_well() -> None:
    source = random.Random(1)
    pairs = [(0.4 + 0.2 * source.random(), 0.5 + 0.3 * source.random()) for _ in range(2_000)]
    assert decide_early(pairs).outcome == "better"
    assert decide_early(pairs, margin=0.1).outcome == "not_worse"


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.floats(0, 0.3), st.floats(0, 0.3))
def test_swapped_runs_get_the_opposite_answer(seed: int, fixed: float, broken: float) -> None:
    pairs = drawn(fixed, broken, 300, seed)
    one, other = decide_early(pairs), decide_early([(new, base) for base, new in pairs])
    assert (other.outcome, other.pairs) == (OPPOSITE[one.outcome], one.pairs)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.floats(0, 0.1), st.floats(0, 0.1))
def test_what_is_undecided_at_the_end_is_what_the_whole_run_says(seed: int, fixed: float, broken: float) -> None:
    pairs = drawn(fixed, broken, 120, seed)
    decision = decide_early(pairs, margin=0.1)
    complete = paired_binary([base for base, _ in pairs], [new for _, new in pairs]).difference
    if decision.pairs == len(pairs) and decision.outcome != "worse":
        assert (decision.outcome == "not_worse") == non_inferiority(complete, 0.1).shown


def test_the_interval_of_a_stopped_test_holds_the_difference_and_the_decision() -> None:
    test = EarlyTest(None, 0.95, None, verdicts=False)
    for base, new in drawn(0.2, 0.02, 1_000, seed=3):
        if test.see(base, new) != "undecided":
            break
    interval = test.interval()
    assert interval.low is not None and interval.high is not None and interval.value is not None
    assert 0 <= interval.low < interval.value < interval.high <= 1
    assert interval.low < 0.18 < interval.high


@pytest.mark.parametrize(
    ("pairs", "margin", "confidence", "words"),
    [
        ([(0.0, 1.5)], None, 0.95, "the scores of pair 1 must be from 0 to 1"),
        ([(math.nan, 0.5)], None, 0.95, "from 0 to 1"),
        ([], -0.1, 0.95, "margin must be"),
        ([], 1.0, 0.95, "margin must be"),
        ([], None, 1.0, "confidence must be"),
    ],
)
def test_what_is_out_of_range_is_refused(pairs: Any, margin: float | None, confidence: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        decide_early(pairs, margin, confidence)


def test_the_p_value_is_below_its_level_once_a_difference_is_decided_and_1_of_equal_scores() -> None:
    test, alike = (EarlyTest(None, 0.95, None, verdicts=False) for _ in range(2))
    outcomes = [test.see(*WORSE) for _ in range(20)]
    first = next(pairs for pairs, outcome in enumerate(outcomes, 1) if outcome == "worse")
    alike.see(*SAME)
    assert alike.p_value() == 1
    assert test.p_value() < 0.05
    assert first > 5  # of five coins that all fall alike one in sixteen does: no p-value below 0.05


def test_where_pairs_fall_out_the_complete_run_is_that_much_smaller() -> None:
    fell_out, small = (EarlyTest(0.03, 0.95, total, verdicts=False) for total in (1_000, 300))
    for _ in range(700):
        fell_out.skip()
    taken = [next(n for n in itertools.count(1) if test.see(*SAME) == "not_worse") for test in (fell_out, small)]
    assert taken[0] == pytest.approx(taken[1], abs=10)


@pytest.mark.parametrize("length", [6, 11])
def test_a_fair_walk_leaves_its_bounds_with_no_more_than_what_is_spent_by_then(length: int) -> None:
    left = dict.fromkeys(range(1, length + 1), 0.0)
    for path in itertools.product((1, -1), repeat=length):
        walk = FairWalk(alpha=0.2)
        for step, change in enumerate(path, 1):
            walk.step(change, step / length)
            if walk.p_value is not None:
                left[step] += 0.5**length
                break
    spent = list(itertools.accumulate(left.values()))
    assert spent[-1] > 0
    assert all(chance <= 0.2 * (1 - math.exp(-2 * step / length)) + 1e-12 for step, chance in enumerate(spent, 1))


def test_the_p_value_of_a_walk_that_left_is_the_chance_that_a_fair_one_has_left_by_then() -> None:
    walk = FairWalk(alpha=0.05)
    for _ in range(5):
        walk.step(1, 1.0)
    assert walk.left == 0  # that five coins fall alike has a chance of 2 / 2**5
    walk.step(1, 1.0)
    assert walk.left == 1
    assert walk.p_value == pytest.approx(2 / 2**6)


def test_verdicts_take_fewer_pairs_than_bets_do() -> None:
    families = [drawn(0.1, 0.05, 600, seed) for seed in range(8)]
    by_signs, by_bets = (sum(decide_early(ways(pairs)).pairs for pairs in families) for ways in (list, iter))
    assert by_signs < 0.95 * by_bets


def test_the_interval_holds_0_exactly_until_the_verdicts_are_decided() -> None:
    test = EarlyTest(None, 0.95, 300, verdicts=True)
    lows = [0.0]
    for base, new in drawn(0.15, 0.04, 300, seed=8):
        outcome = test.see(base, new)
        lows.append(test.interval().low or 0.0)
        if outcome != "undecided":
            break
    assert outcome == "better"
    assert max(lows[:-1]) <= 0 < lows[-1] < 0.05
    assert test.p_value() < 0.05
