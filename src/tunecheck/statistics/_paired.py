"""Two runs on the same rows: the difference of their pass rates or mean scores, and whether it can be chance."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy

from tunecheck.statistics._distributions import (
    effective_rows,
    log_half_binomial,
    normal_two_sided,
    t_quantile,
    turning_point,
)
from tunecheck.statistics._estimates import NO_SPREAD, ONE_CLUSTER, RESAMPLES, Bounds, means, share
from tunecheck.statistics._results import CONFIDENCE, Estimate, PairedBinary, PairedScores, normal_quantile
from tunecheck.statistics._samples import (
    Floats,
    Labels,
    Numbers,
    RowGroups,
    as_clusters,
    as_floats,
    as_outcomes,
    differences,
)

# -- verdicts

FLIPS = 10_000


def paired_binary(
    base: Numbers, new: Numbers, clusters: Labels | None = None, *, confidence: float = CONFIDENCE
) -> PairedBinary:
    """Both pass rates, their difference (new − base) with its interval, and McNemar's tests.

    The difference has Tango's score interval: of the usual ones its coverage stayed nearest to what it promises
    (`benchmarks/comparison_coverage.py`). With clusters: the same interval for as many independent rows as would give
    the clustered standard error, reaching t(C − 1) of it; the tests are those of a permutation of the clusters' signs.

    Args:
        base: one verdict a row, 1 or true for a pass.
        new: the other run's verdicts on the same rows.
        clusters: a label for every row; rows with equal labels are not independent.
        confidence: of the two-sided intervals, between 0 and 1.

    Raises:
        ValueError: a verdict that is neither, unequal lengths, a confidence not between 0 and 1.
    """
    before, after = as_outcomes(base), as_outcomes(new)
    change = differences(before, after)
    groups = as_clusters(clusters, len(change))
    b, c = int(numpy.count_nonzero(change < 0)), int(numpy.count_nonzero(change > 0))
    return PairedBinary(
        n=len(change),
        clusters=None if groups is None else groups.count,
        base=share(before, groups, confidence),
        new=share(after, groups, confidence),
        difference=_difference(change, b, c, groups, confidence),
        b=b,
        c=c,
        test="McNemar mid-p" if groups is None else "sign-flip permutation of clusters, mid-p",
        **_p_values(change, b, c, groups),
    )


def _p_values(change: Floats, b: int, c: int, groups: RowGroups | None) -> dict[str, float | None]:
    exact = mid = None
    if groups is None and len(change):
        exact, mid = mcnemar(b, c)
    elif groups is not None and groups.count > 1:
        flipped = flip_counts(groups.sums(change))
        exact, mid = flipped.exact, flipped.mid
    return {"p_value": mid, "p_exact": exact, "p_mid": mid}


def mcnemar(b: int, c: int) -> tuple[float, float]:
    """The exact p-value and the mid-p-value of b rows that only one run passed and c that only the other passed.

    The exact one is that of b heads in b + c throws: McNemar, Psychometrika 12 (1947), 153-157. Mid-p counts half the
    chance of what was observed, and keeps the test's size near what it promises: Fagerland, Lydersen and Laake, BMC
    Medical Research Methodology 13 (2013), 91. Without a discordant row both are 1.
    """
    n, k = b + c, min(b, c)
    if n == 0:
        return 1.0, 1.0
    here = term = math.exp(log_half_binomial(k, n))
    tail = term
    for below in range(k, 0, -1):
        term *= below / (n - below + 1)
        tail += term
        if term < 1e-18 * tail:
            break
    exact = min(1.0, 2 * tail)
    return exact, 1 - here / 2 if b == c else 2 * tail - here


def tango(b: float, c: float, n: float, reach: float) -> tuple[float, float]:
    """Return the score interval of (c − b) / n, `reach` standard errors wide; the counts need not be whole.

    Tango, "Equivalence test and confidence interval for the difference in proportions for the paired-sample design",
    Statistics in Medicine 17 (1998), 891-908: all differences with a score statistic within ± reach, with the
    discordant share under each difference at its maximum likelihood.
    """

    def score(difference: float) -> float:
        return tango_score(b, c, n, difference)

    return _where(score, reach), _where(score, -reach)


def tango_score(b: float, c: float, n: float, difference: float) -> float:
    """Tango's score statistic: how many standard errors (c − b) / n lies above a difference."""
    linear = -b - c + (2 * n - c + b) * difference
    root = math.sqrt(max(0.0, linear**2 + 8 * n * b * difference * (1 - difference)))
    variance = n * (2 * (root - linear) / (4 * n) + difference * (1 - difference))
    gap = c - b - n * difference
    return gap / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, gap) if gap else 0.0


def _where(score: Callable[[float], float], level: float) -> float:
    """The difference at which the score, which falls from -1 to 1, is at this level."""
    low, high = turning_point(lambda difference: score(difference) <= level, -1.0, 1.0)
    return low if level > 0 else high


def _difference(change: Floats, b: int, c: int, groups: RowGroups | None, confidence: float) -> Estimate:
    n, count = len(change), None if groups is None else groups.count
    if n == 0:
        return Estimate(None, None, None, 0, confidence, "Tango", remark="there are no rows")
    value, plain = (c - b) / n, math.sqrt(b + c - (c - b) ** 2 / n) / n
    if groups is None:
        low, high = tango(b, c, n, normal_quantile(confidence))
        return Estimate(value, low, high, n, confidence, "Tango", plain)
    error = groups.mean_error(change)
    if error is None:
        return Estimate(value, None, None, n, confidence, "Tango", None, count, ONE_CLUSTER)
    worth = effective_rows(n, groups.count, plain, error) / n
    low, high = tango(b * worth, c * worth, n * worth, t_quantile((1 + confidence) / 2, groups.count - 1))
    return Estimate(value, low, high, n, confidence, "Tango, effective rows", error, count)


# -- scores


def paired_scores(
    base: Numbers,
    new: Numbers,
    clusters: Labels | None = None,
    *,
    bounds: Bounds | None = None,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    resamples: int = RESAMPLES,
    flips: int = FLIPS,
) -> PairedScores:
    """Return both means, their difference (new − base) with its interval, and the sign-flip test.

    The intervals are `estimate_mean`'s; rows are resampled as pairs. With clusters the intervals are Student's t(C − 1)
    on the clustered standard error, and the test flips the signs of whole clusters. If no row differs, the interval
    allows for differences in up to z² / (n + z²) of all rows (Wilson's limit; Tango's for pass rates), each at most
    as large as the metric's range.

    Args:
        base: one score a row; if one is NaN or infinite, the result has no figures.
        new: the other run's scores of the same rows.
        clusters: a label for every row; rows with equal labels are not independent.
        bounds: the lowest and the highest score that the metric can give. Without them, and if no row differs, scores
        range from 0 to the largest one.
        confidence: of the two-sided intervals, between 0 and 1.
        seed: of all random draws; the same seed gives the same figures.
        resamples: of the bootstrap.
        flips: of the signs, where there are too many to count all.

    Raises:
        ValueError: unequal lengths, a confidence not between 0 and 1.
    """
    before, after = as_floats(base), as_floats(new)
    change = differences(before, after)
    groups = as_clusters(clusters, len(change))
    spans = _spans(before, change) if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])
    of_base, of_new, difference = means(
        [before, after, change], [bounds, bounds, spans], groups, confidence, seed, resamples
    )
    if difference.remark == NO_SPREAD:
        difference = replace(difference, remark="all differences are the same: they show no spread")
    alone = groups is not None and groups.count < 2
    flipped = None
    if difference.value is not None and not alone:
        flipped = flip_scores(change if groups is None else groups.sums(change), seed, flips)
    return filled(change, groups, (of_base, of_new, difference), flipped, "" if groups is None else " of clusters")


def filled(
    change: Floats,
    groups: RowGroups | None,
    estimates: tuple[Estimate, Estimate, Estimate],
    flipped: "Flips | None",
    of_what: str,
) -> PairedScores:
    """Two runs' scores: the estimates of both and of their difference, and the test by flipped signs."""
    of_base, of_new, difference = estimates
    return PairedScores(
        n=len(change),
        clusters=None if groups is None else groups.count,
        base=of_base,
        new=of_new,
        difference=difference,
        changed=int(numpy.count_nonzero(change)),
        higher=int(numpy.count_nonzero(change > 0)),
        p_value=None if flipped is None else flipped.mid,
        p_exact=None if flipped is None else flipped.exact,
        test="none" if flipped is None else f"sign-flip permutation{of_what}, mid-p ({flipped.how})",
    )


def _spans(scores: Floats, change: Floats) -> Bounds | None:
    """Return the assumed range of each score if no score changed and the metric's bounds are unknown."""
    if not len(scores) or change.any():
        return None
    low, high = min(0.0, float(scores.min())), max(0.0, float(scores.max()))
    return (low - high, high - low) if low < high else None


# -- tests of paired scores. The sign-flip test: each row's difference (or each cluster's) could as well have the other
# sign. Fisher, "The Design of Experiments" (1935), section 21; two-sided, on the sum of the differences. With clusters
# the sums of the clusters take the place of the rows, because only they are independent.

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
    (2010). With more values the sum is treated as normal, unless a few of them make up most of its variance: (Σx²)² /
    Σx⁴ of at least 1,000, with which a tail is off by under 0.001.
    """
    values = values[values != 0]
    if len(values) == 0:
        return Flips(1.0, 1.0, "exact")
    values = values / numpy.abs(values).max()
    if len(values) <= _EXACT:
        sums = numpy.zeros(1)
        for value in values:
            sums = numpy.concatenate((sums + value, sums - value))
        return _count_flips(sums, values, "exact")
    squares = values**2
    if len(values) > _DRAWN and squares.sum() ** 2 >= _ALIKE * (squares @ squares):
        p_value = normal_two_sided(float(values.sum()) / math.sqrt(float(squares.sum())))
        return Flips(p_value, p_value, "normal limit")
    sums = _drawn_sums(values, seed, flips)
    return _count_flips(numpy.append(sums, values.sum()), values, f"{flips:,} draws")


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


def _count_flips(sums: Floats, values: Floats, how: str) -> Flips:
    """Shares of sums as large as the observed one; added up in another order, an equal sum is off by rounding."""
    tie = _TIE * float(numpy.abs(values).sum())
    observed, sizes = abs(float(values.sum())), numpy.abs(sums)
    beyond, reached = numpy.count_nonzero(sizes > observed + tie), numpy.count_nonzero(sizes >= observed - tie)
    return Flips(reached / len(sums), (beyond + reached) / (2 * len(sums)), how)


def flip_counts(sums: Floats) -> Flips:
    """The p-values of whole numbers, such as each cluster's rows fixed less rows broken.

    No draws are needed: of m clusters of one size s the sum is s times (2 · Binomial(m, ½) − m), and the sizes'
    distributions are convolved. Each size keeps 9 standard deviations to either side, so a p-value under 1e-17 is
    reported as 1e-17. If each cluster is one row they are McNemar's.
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
