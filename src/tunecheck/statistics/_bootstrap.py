"""Seeded bootstrap of means: bias-corrected and accelerated intervals, in bounded memory."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy

from tunecheck.statistics._distributions import t_quantile
from tunecheck.statistics._samples import Floats

RESAMPLES = 10_000
_AT_ONCE = 1 << 16
_TIE = 1e-12


def resampled_means(columns: Floats, resamples: int, seed: int) -> Floats:
    """The means of `resamples` samples of rows with replacement: shape (resamples, columns).

    `columns` is of shape (rows, columns); all its columns are resampled by the same rows. A sample is held as the
    number of times that each row is in it: then all means of a chunk are one product of matrices.
    """
    rows = len(columns)
    random = numpy.random.Generator(numpy.random.PCG64(seed))
    together = max(1, _AT_ONCE // rows)
    found = numpy.empty((resamples, columns.shape[1]))
    for start in range(0, resamples, together):
        count = min(together, resamples - start)
        drawn = random.integers(0, rows, size=(count, rows))
        drawn += numpy.arange(count)[:, None] * rows
        times = numpy.bincount(drawn.ravel(), minlength=count * rows).reshape(count, rows)
        found[start : start + count] = times.astype(numpy.float64) @ columns
    return found / rows


def bca_intervals(columns: Floats, confidence: float, seed: int, resamples: int) -> list[tuple[float, float]]:
    """The BCa interval of the mean of each column (of at least two rows, and none constant).

    Efron, "Better bootstrap confidence intervals", JASA 82 (1987), 171-185. The normal quantile in it is replaced by
    √(n / (n − 1)) · t(n − 1), without which a bootstrap of few rows is too narrow: Hesterberg, "What teachers should
    know about the bootstrap", The American Statistician 69 (2015), 371-386, section 5.3.
    """
    rows = len(columns)
    reach = math.sqrt(rows / (rows - 1)) * t_quantile((1 + confidence) / 2, rows - 1)
    means = resampled_means(columns, resamples, seed)
    return [_bca(columns[:, at], means[:, at], reach) for at in range(columns.shape[1])]


def _bca(values: Floats, means: Floats, reach: float) -> tuple[float, float]:
    centre = values - values.mean()
    spread = float(centre @ centre)
    acceleration = float((centre**3).sum()) / (6 * spread**1.5)
    tie = _TIE * float(numpy.abs(values).max())
    below = numpy.count_nonzero(means < values.mean() - tie) + numpy.count_nonzero(means <= values.mean() + tie)
    normal, share = NormalDist(), below / (2 * len(means))
    bias = normal.inv_cdf(min(max(share, 0.5 / len(means)), 1 - 0.5 / len(means)))

    def level(side: float) -> float:
        shrink = 1 - acceleration * (bias + side)
        if shrink <= 0:  # only of two or three rows: so far out that the whole distribution is within
            return 0.0 if side < 0 else 1.0
        return normal.cdf(bias + (bias + side) / shrink)

    low, high = numpy.quantile(means, [level(-reach), level(reach)])
    return float(low), float(high)
