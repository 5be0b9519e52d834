"""Differences of figures that weigh parts: against the formulae by hand, and coverage where parts are unequal."""

import math

import numpy
import pytest

from tunecheck_bfcl._comparison import paired_weighted


def test_a_weighted_difference_and_its_error_are_those_of_stratified_samples() -> None:
    base = numpy.array([1.0, 0, 0, 1, 1, 1])
    new = numpy.array([1.0, 1, 0, 1, 0, 1])
    found = paired_weighted(base, new, numpy.array([0, 0, 0, 0, 1, 1]), [0.25, 0.75])
    # Changes 0 1 0 0 with mean 1/4 and variance 1/4; −1 0 with mean −1/2 and variance 1/2.
    assert found.difference.value == pytest.approx(0.25 / 4 - 0.75 / 2)
    assert found.difference.standard_error == pytest.approx(math.sqrt(0.25**2 / 4 / 4 + 0.75**2 / 2 / 2))
    assert (found.base.value, found.new.value) == (0.25 * 0.5 + 0.75, 0.25 * 0.75 + 0.75 / 2)
    # Two rows changed, by 1/16 and −3/8: of four sums of their signs all are as large, or two larger.
    assert found.p_exact == 1
    assert found.p_value == pytest.approx((2 + 4) / (2 * 4))


def test_equal_weights_by_size_are_the_pooled_mean() -> None:
    random = numpy.random.default_rng(1)
    base, new = random.integers(0, 2, (2, 300)).astype(float)
    parts = numpy.repeat([0, 1, 2], 100)
    found = paired_weighted(base, new, parts, [1 / 3] * 3)
    assert found.difference.value == pytest.approx((new - base).mean())


def test_clusters_may_lie_across_parts() -> None:
    random = numpy.random.default_rng(2)
    once = random.integers(0, 2, (2, 100)).astype(float)
    parts, labels = numpy.repeat([0, 1], 100), numpy.tile(numpy.arange(100), 2)
    base, new = numpy.tile(once, 2)
    together = paired_weighted(base, new, parts, [0.5, 0.5], labels)
    alone = paired_weighted(once[0], once[1], numpy.zeros(100, dtype=numpy.int64), [1.0])
    assert together.difference.clusters == 100
    assert together.difference.standard_error == pytest.approx(alone.difference.standard_error)


def test_parts_that_show_no_spread_have_no_interval() -> None:
    found = paired_weighted(numpy.ones(4), numpy.ones(4), numpy.array([0, 0, 1, 1]), [0.5, 0.5])
    assert (found.difference.value, found.difference.low, found.p_value) == (0, None, 1)
