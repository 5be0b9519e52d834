"""Wilcoxon's signed-rank test."""

from __future__ import annotations

import math

import numpy

from tunecheck.statistics._distributions import normal_two_sided
from tunecheck.statistics._results import Wilcoxon
from tunecheck.statistics._samples import Floats

_EXACT = 50
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
    if len(counts) == n <= _EXACT:
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
