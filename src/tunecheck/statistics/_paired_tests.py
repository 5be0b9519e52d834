"""Tests of paired scores: is a difference as large likely where nothing differs?

The sign-flip test: each row's difference (or each cluster's) could as well have the other sign. Fisher, "The Design of
Experiments" (1935), section 21; two-sided, on the sum of the differences. With clusters the sums of the clusters take
the place of the rows, because only they are independent. And Wilcoxon's signed-rank test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy

from tunecheck.statistics._distributions import log_half_binomial, normal_two_sided
from tunecheck.statistics._results import Wilcoxon
from tunecheck.statistics._samples import Floats

FLIPS = 10_000
_EXACT = 16
_DRAWN = 5_000
_ALIKE = 1_000
_TIE = 1e-12
_WIDE = 9.0
_LEAST = 1e-17


@dataclass(frozen=True, slots=True)
class Flips:
    """p-values of a sign-flip test and how they came about: `mid` counts sums just as large by half, `exact` whole."""

    exact: float
    mid: float
    how: str


def flip_scores(values: Floats, seed: int, flips: int = FLIPS) -> Flips:
    """The p-values of real numbers.

    Up to 16 that are not 0 (2¹⁶ assignments of signs) all are counted. Up to 5,000 signs are drawn, and the observed
    sum is one draw more: p = (b + 1) / (flips + 1), Phipson and Smyth, "Permutation p-values should never be zero"
    (2010). Of more the sum is normal, as long as no few of them make up most of its variance: (Σx²)² / Σx⁴ of at least
    1,000, with which a tail is off by under 0.001.
    """
    values = values[values != 0]
    if len(values) == 0:
        return Flips(1.0, 1.0, "exact")
    values = values / numpy.abs(values).max()
    if len(values) <= _EXACT:
        return _counted(_all_sums(values), values, "exact")
    squares = values**2
    if len(values) > _DRAWN and squares.sum() ** 2 >= _ALIKE * (squares @ squares):
        p_value = normal_two_sided(float(values.sum()) / math.sqrt(float(squares.sum())))
        return Flips(p_value, p_value, "normal limit")
    sums = _drawn_sums(values, seed, flips)
    return _counted(numpy.append(sums, values.sum()), values, f"{flips:,} draws")


def _all_sums(values: Floats) -> Floats:
    sums = numpy.zeros(1)
    for value in values:
        sums = numpy.concatenate((sums + value, sums - value))
    return sums


def _drawn_sums(values: Floats, seed: int, flips: int) -> Floats:
    """Eight values at a time: one random byte is eight signs, and their sum is looked up."""
    bits = numpy.unpackbits(numpy.arange(256, dtype=numpy.uint8)[:, None], axis=1)
    padded = numpy.zeros(-(-len(values) // 8) * 8)
    padded[: len(values)] = values
    looked_up = padded.reshape(-1, 8) @ (1.0 - 2.0 * bits.T)
    random = numpy.random.Generator(numpy.random.PCG64(seed))
    sums = numpy.zeros(flips)
    for table in looked_up:
        sums += table[random.integers(0, 256, size=flips, dtype=numpy.uint8)]
    return sums


def _counted(sums: Floats, values: Floats, how: str) -> Flips:
    """Shares of sums as large as the observed one; added up in another order, an equal sum is off by rounding."""
    tie = _TIE * float(numpy.abs(values).sum())
    observed, sizes = abs(float(values.sum())), numpy.abs(sums)
    beyond, reached = numpy.count_nonzero(sizes > observed + tie), numpy.count_nonzero(sizes >= observed - tie)
    return Flips(reached / len(sums), (beyond + reached) / (2 * len(sums)), how)


def flip_counts(sums: Floats) -> Flips:
    """The p-values of whole numbers, such as each cluster's rows fixed less rows broken.

    No draws are needed: of m clusters of one size s the sum is s times (2 · Binomial(m, ½) − m), and the sizes'
    distributions are convolved. Of each size 9 standard deviations to either side are kept: a p-value under 1e-17 is
    given as that. If each cluster is one row they are McNemar's.
    """
    sizes, counts = numpy.unique(numpy.abs(sums[sums != 0]).astype(numpy.int64), return_counts=True)
    if len(sizes) == 0:
        return Flips(1.0, 1.0, "exact")
    chances, least = numpy.ones(1), 0
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        half = _WIDE / 2 * math.sqrt(count) + 1
        first, last = max(0, math.floor(count / 2 - half)), min(count, math.ceil(count / 2 + half))
        wider = numpy.zeros(len(chances) + 2 * size * (last - first))
        for heads in range(first, last + 1):
            start = 2 * size * (heads - first)
            wider[start : start + len(chances)] += math.exp(log_half_binomial(heads, count)) * chances
        chances, least = wider, least + size * (2 * first - count)
    totals, observed = numpy.abs(numpy.arange(least, least + len(chances))), abs(int(sums.sum()))
    beyond, alike = float(chances[totals > observed].sum()), float(chances[totals == observed].sum())
    exact, mid = (min(1.0, max(_LEAST, share)) for share in (beyond + alike, beyond + alike / 2))
    return Flips(exact, mid, "exact")


# -- Wilcoxon's signed ranks

_EXACT_RANKS = 50
_DIGITS = 12


def signed_ranks(values: Floats) -> Wilcoxon | None:
    """Two-sided, of the differences `values`; None of none.

    Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1 (1945), 80-83: differences of 0 are
    left out. Up to 50 others without ties: the exact distribution. Otherwise the normal one, its variance corrected
    for ties (Hollander and Wolfe, "Nonparametric Statistical Methods", 3.1); no continuity correction.
    """
    if len(values) == 0:
        return None
    values = values[values != 0]
    n = len(values)
    if n == 0:
        return Wilcoxon(0.0, 1.0, 0, exact=True)
    sizes = numpy.abs(values)
    # Equal differences of scores such as 0.3 − 0.2 and 0.2 − 0.1 are not equal as floats, but have one rank.
    _, kind, counts = numpy.unique(numpy.round(sizes / sizes.max(), _DIGITS), return_inverse=True, return_counts=True)
    ranks = (numpy.cumsum(counts) - (counts - 1) / 2)[kind]
    up, down = float(ranks[values > 0].sum()), float(ranks[values < 0].sum())
    smaller = min(up, down)
    if len(counts) == n <= _EXACT_RANKS:
        return Wilcoxon(smaller, _exact(int(smaller), n), n, exact=True)
    return Wilcoxon(smaller, _normal(smaller, n, counts.astype(numpy.float64)), n, exact=False)


def _exact(smaller: int, n: int) -> float:
    """The share of the 2ⁿ sets of ranks whose sum is as small, on both sides; whole numbers under 2⁵³ throughout."""
    ways = numpy.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1
    for rank in range(1, n + 1):
        ways[rank:] += ways[:-rank].copy()
    return min(1.0, 2 * float(ways[: smaller + 1].sum()) / 2.0**n)


def _normal(smaller: float, n: int, tied: Floats) -> float:
    mean = n * (n + 1) / 4
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((tied**3 - tied).sum()) / 48
    return normal_two_sided((smaller - mean) / math.sqrt(variance))
