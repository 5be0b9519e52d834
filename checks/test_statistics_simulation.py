"""Runs whose true difference is known: intervals hold it as often as they promise, and tests seldom raise false alarms.

With 4,000 draws a share of 95% is known to ± 0.7 points, one of 5% too; the seed is fixed.
"""

from __future__ import annotations

import random
from itertools import product

import numpy
import pytest
from checks.statistics_worlds import World, binary, clustered_binary, clustered_scores, scores, watched
from tests.core.test_statistics_figures import Z, tables

from tunecheck.statistics._distributions import mcnemar, tango
from tunecheck.statistics._sequential import EarlyTest
from tunecheck_bfcl._comparison import paired_weighted

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("world", "draws"),
    [
        (binary(50, 0.3), 4_000),
        (binary(200, 0.1), 4_000),
        (binary(200, 0.2, 0.05), 4_000),
        (binary(1_000, 0.05, -0.02), 4_000),
        (clustered_binary(0.2), 4_000),
        (clustered_binary(0.1, 0.03), 2_000),
        (clustered_scores("normal"), 4_000),
        (clustered_scores("skewed", shift=0.1), 2_000),
        (scores("normal", 200), 3_000),
        (scores("marks", 200, 0.3), 3_000),
        (scores("skewed", 50, shift=0.1), 3_000),
    ],
    ids=lambda value: value.name if isinstance(value, World) else "",
)
def test_intervals_hold_the_truth_and_false_alarms_are_rare(world: World, draws: int) -> None:
    found = watched(world, draws, seed=7, resamples=999)
    for name in ("base", "new", "difference"):
        assert 0.93 <= found[name] <= 0.97, (name, found)
    if world.difference == 0:
        assert found.get("exact", 0.0) <= 0.06, found
    if world.difference == 0 and world.rows >= 200:
        assert 0.04 <= found["mid-p"] <= 0.06, found


def test_the_simulation_notices_when_conversations_are_taken_as_independent_rows() -> None:
    found = watched(clustered_binary(0.2), 500, seed=7, clustered=False)
    assert found["difference"] < 0.8
    assert found["mid-p"] > 0.2


@pytest.mark.parametrize(("changed", "difference"), [(0.2, 0.0), (0.2, 0.01), (0.2, 0.05), (0.1, 0.1)])
def test_the_interval_of_a_run_that_stops_once_it_is_decided_holds_the_truth(changed: float, difference: float) -> None:
    source, draws, missed, decided = random.Random(11), 800, 0, 0
    up = (changed + difference) / 2
    for _ in range(draws):
        test = EarlyTest(None, 0.95, 300, verdicts=True)
        for _ in range(300):
            chance = source.random()
            pair = (0.0, 1.0) if chance < up else (1.0, 0.0) if chance < changed else (1.0, 1.0)
            if test.see(*pair) != "undecided":
                decided += 1
                break
        interval = test.interval()
        assert interval.low is not None
        assert interval.high is not None
        missed += not interval.low <= difference <= interval.high
    assert missed / draws <= 0.065  # 0.05, and two standard errors
    if difference == 0:
        assert decided / draws <= 0.065


@pytest.mark.parametrize(("changed", "better"), [(0.03, 0.0), (0.1, 0.0), (0.25, 0.05)])
@pytest.mark.parametrize("variants", [1, 4])
def test_intervals_of_weighted_figures_hold_the_truth(changed: float, better: float, variants: int) -> None:
    """Parts as unequal as the leaderboard's; of four `variants` each scenario is in all, and changes in all."""
    source = numpy.random.default_rng(11)
    sizes, weights = [400, 100, 50, *[200] * variants], [0.2, 0.2, 0.1, *[0.5 / variants] * variants]
    parts = numpy.repeat(numpy.arange(len(sizes)), sizes)
    units = numpy.concatenate([numpy.arange(550), *[550 + numpy.arange(200)] * variants])
    chances = [(changed - better) / 2, 1 - changed, (changed + better) / 2]
    held, draws = 0, 1_500
    for _ in range(draws):
        change = source.choice([-1.0, 0.0, 1.0], size=750, p=chances)[units]
        base = (change <= 0).astype(float)
        found = paired_weighted(base, base + change, parts, weights, units if variants > 1 else None).difference
        assert found.low is not None
        assert found.high is not None
        held += found.low <= better <= found.high
    assert 0.93 <= held / draws <= 0.97


@pytest.mark.parametrize(
    ("rows", "discordance"), [(50, 0.2), (50, 0.3), (200, 0.05), (200, 0.1), (200, 0.3), (1_000, 0.02), (1_000, 0.1)]
)
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_intervals_of_verdicts_hold_the_truth_93_to_97_percent_of_the_time(
    rows: int, discordance: float, part: float
) -> None:
    # Summed over all tables, so without any error of a simulation; ten discordant rows are expected, or more.
    truth = part * discordance
    covered = 0.0
    for b, c, chance in tables(rows, discordance, truth):
        low, high = tango(b, c, rows, Z)
        covered += chance * (low <= truth <= high)
    assert 0.93 <= covered <= 0.97


@pytest.mark.parametrize(("rows", "discordance"), [(50, 0.02), (50, 0.05), (50, 0.1), (200, 0.02)])
@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 1.0])
def test_of_fewer_than_ten_discordant_rows_the_interval_is_rather_too_wide(
    rows: int, discordance: float, part: float
) -> None:
    truth = part * discordance
    covered = 0.0
    for b, c, chance in tables(rows, discordance, truth):
        low, high = tango(b, c, rows, Z)
        covered += chance * (low - 1e-12 <= truth <= high + 1e-12)
    assert covered >= 0.93


@pytest.mark.parametrize(("rows", "discordance"), list(product([200, 1_000], [0.1, 0.2, 0.3])))
def test_false_alarms_of_mid_p_are_4_to_6_percent_and_of_the_exact_test_no_more(rows: int, discordance: float) -> None:
    exact = mid = 0.0
    for b, c, chance in tables(rows, discordance, 0.0):
        found = mcnemar(b, c)
        exact += chance * (found[0] <= 0.05)
        mid += chance * (found[1] <= 0.05)
    assert 0.04 <= mid <= 0.06
    assert exact <= 0.05
