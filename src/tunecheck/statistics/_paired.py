"""Two runs on the same rows: the difference of their pass rates or mean scores, and a test for chance.

The first line that applies determines the interval of the difference and the test. C is the number of clusters.

  verdicts (`paired_binary`)   interval                                   test
  no rows                      none                                       none
  no clusters                  Tango's                                    McNemar's, mid-p
  one cluster                  none                                       none
  clusters                     Tango's, effective rows and t(C − 1)       sign flips of clusters, all counted

  scores (`paired_scores`)     interval                                   test
  no rows, NaN, infinite       none                                       none
  one cluster                  none                                       none
  all differences equal        Wilson's limit times the metric's range    sign flips (p = 1 if all are 0)
  all others                   `estimate_mean`'s, of the differences      sign flips

Signs are flipped per row, or with clusters per cluster. The number of values that are not 0 decides how: up to 16 are
counted exactly, up to 5,000 are drawn, and more are treated as normal (`flip_scores`).
"""

import math

import msgspec
import numpy
from msgspec.structs import replace

from tunecheck.statistics import _distributions as distributions, _estimates as estimates
from tunecheck.statistics._results import CONFIDENCE, Estimate, Paired

# -- verdicts


def paired_binary(
    base: estimates.Numbers,
    new: estimates.Numbers,
    clusters: estimates.Labels | None = None,
    *,
    confidence: float = CONFIDENCE,
) -> Paired:
    """Return both pass rates, their difference (new − base) with its interval, and McNemar's tests.

    The difference has Tango's score interval: of the usual intervals, its coverage stayed nearest to its confidence
    (`benchmarks/comparison_coverage.py`). With clusters, the interval uses the effective number of rows and the
    t(C − 1) quantile, and the tests are permutation tests that flip the signs of clusters.

    `b` counts the rows that only the base passed, `c` those that only the new run passed. Rows with the same verdict in
    both runs do not affect the test.

    Args:
        base: one verdict per row: 1 or true for a pass, 0 or false for a fail.
        new: the other run's verdicts on the same rows.
        clusters: a label for every row; rows with equal labels are not independent.
        confidence: level of the two-sided intervals, between 0 and 1.
    """
    before, after = estimates.as_floats(base), estimates.as_floats(new)
    change = estimates.differences(before, after)

    groups = estimates.as_clusters(clusters, len(change))
    b, c = int(numpy.count_nonzero(change < 0)), int(numpy.count_nonzero(change > 0))

    return Paired(
        base=estimates.share(before, groups, confidence),
        new=estimates.share(after, groups, confidence),
        difference=_difference(change, groups, confidence),
        b=b,
        c=c,
        test="McNemar mid-p" if groups is None else "sign-flip permutation of clusters, mid-p",
        **_p_values(change, b, c, groups),
    )


def _p_values(change: estimates.Floats, b: int, c: int, groups: estimates.RowGroups | None) -> dict[str, float | None]:
    """Return the p-values of McNemar's test; with clusters, those of a sign-flip test.

    `change` has the difference of each row. `b` and `c` count the rows that only the base and only the new run passed.
    The p-values are None if there are no rows, or only one cluster.
    """
    exact = mid = None
    if groups is None and len(change):
        exact, mid = distributions.mcnemar(b, c)
    elif groups is not None and groups.count > 1:
        flipped = flip_counts(groups.sums(change))
        exact, mid = flipped.exact, flipped.mid
    return {"p_value": mid, "p_exact": exact}


def _difference(change: estimates.Floats, groups: estimates.RowGroups | None, confidence: float) -> Estimate:
    """Return the difference of two pass rates with Tango's interval; with clusters, by the effective rows.

    `change` has the difference of each row.
    """
    only_base, only_new = numpy.count_nonzero(change < 0), numpy.count_nonzero(change > 0)

    def interval(rows: float, reach: float) -> tuple[float, float]:
        """Return Tango's interval for this many rows."""
        worth = rows / len(change)  # all counts shrink by the same factor, so the difference itself stays
        return distributions.tango(only_base * worth, only_new * worth, len(change) * worth, reach)

    return estimates.with_score_interval(change, groups, confidence, "Tango", interval)


# -- scores


def paired_scores(
    base: estimates.Numbers,
    new: estimates.Numbers,
    clusters: estimates.Labels | None = None,
    *,
    bounds: estimates.Bounds | None = None,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    draws: int = estimates.RESAMPLES,
) -> Paired:
    """Return both means, their difference (new − base) with its interval, and the sign-flip test.

    The intervals are `estimate_mean`'s; rows are resampled as pairs. With clusters the intervals are Student's t(C − 1)
    on the clustered standard error, and the test flips the signs of whole clusters. If no row differs, the interval
    allows for differences in up to z² / (n + z²) of all rows (Wilson's limit; Tango's for pass rates), each at most
    as large as the metric's range.

    Args:
        base: one score per row; if any score is NaN or infinite, the result has no figures.
        new: the other run's scores of the same rows.
        clusters: a label for every row; rows with equal labels are not independent.
        bounds: the lowest and the highest score that the metric can give. Without them, and if no row differs, scores
            range from 0 to the largest one.
        confidence: level of the two-sided intervals, between 0 and 1.
        seed: seed of all random draws; the same seed gives the same figures.
        draws: number of bootstrap samples, and of random sign flips if there are too many combinations to try all. With
            10,000, a p-value near 0.05 has a standard error of 0.002.
    """
    before, after = estimates.as_floats(base), estimates.as_floats(new)
    change = estimates.differences(before, after)
    groups = estimates.as_clusters(clusters, len(change))

    # A difference of two scores ranges from −(high − low) to high − low.
    spans = _spans(before, change) if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])
    columns = [(before, bounds), (after, bounds), (change, spans)]

    base_mean, new_mean, difference = estimates.means(columns, groups, confidence, (seed, draws))
    if difference.remark == estimates.NO_SPREAD:
        difference = replace(difference, remark="all differences are the same: they show no spread")

    # One cluster has only two assignments of signs, which can show nothing.
    is_one_cluster = groups is not None and groups.count < 2
    flipped = None
    if difference.value is not None and not is_one_cluster:
        flipped = flip_scores(change if groups is None else groups.sums(change), seed, draws)

    units = "" if groups is None else " of clusters"
    return make_paired_scores(base_mean, new_mean, difference, flipped, units)


def make_paired_scores(
    base: Estimate, new: Estimate, difference: Estimate, flipped: "Flips | None", units: str
) -> Paired:
    """Return the result, built from its figures and the sign-flip test, which is None if there is too little data.

    `units` completes the test's name, for example " of clusters".
    """
    return Paired(
        base=base,
        new=new,
        difference=difference,
        p_value=None if flipped is None else flipped.mid,
        p_exact=None if flipped is None else flipped.exact,
        test="none" if flipped is None else f"sign-flip permutation{units}, mid-p ({flipped.how})",
    )


def _spans(scores: estimates.Floats, change: estimates.Floats) -> estimates.Bounds | None:
    """Return the assumed range of a difference if no score changed and the metric's bounds are unknown; else None.

    Example: the scores 2 and 4 did not change. Scores are then assumed to range from 0 to 4, and differences from −4 to
    4.
    """
    if not len(scores) or change.any():
        return None
    low, high = min(0.0, float(scores.min())), max(0.0, float(scores.max()))
    return (low - high, high - low) if low < high else None


# -- tests of paired scores. The sign-flip test: if the runs do not differ, each row's difference could as well have
# the other sign. Fisher, "The Design of Experiments" (1935), section 21; two-sided, on the sum of the differences.
# With clusters, the sums of clusters replace the differences of rows, because only clusters are independent.

_EXACT = 16  # values with all 2¹⁶ = 65,536 assignments of signs tried
_DRAWN = 5_000  # values up to which signs are always drawn
_ALIKE = 1_000  # least (Σx²)² / Σx⁴ for the normal limit: the number of values, if all are of equal size
_TIE = 1e-12  # sums that differ by less than this share of Σ|x| are equal
_WIDE = 9.0  # standard deviations at which distributions are cut off; beyond lie 2e-19 of the normal
_LEAST = 1e-17  # smallest p-value reported: smaller ones depend on the cut-off


class Flips(msgspec.Struct, frozen=True):
    """p-values of a sign-flip test; `how` names the method.

    Sums equal to the observed one count half in `mid` and whole in `exact`.
    """

    exact: float
    mid: float
    how: str


def flip_scores(values: estimates.Floats, seed: int, flips: int = estimates.RESAMPLES) -> Flips:
    """Return the p-values for differences that are real numbers.

    The method depends on the number of values that are not 0:

    * up to 16: all (2¹⁶) assignments of signs are counted.
    * up to 5,000: signs are drawn at random, and the observed sum counts as one more draw. If b drawn sums are as
      large, p = (b + 1) / (flips + 1): Phipson and Smyth, "Permutation p-values should never be zero" (2010).
    * more: the sum is treated as normal if (Σx²)² / Σx⁴ is at least 1,000, which makes a tail wrong by less than
      0.001. Otherwise few values make up most of the variance, and signs are drawn.
    """
    # A difference of 0 stays 0 with either sign: it adds to no sum.
    values = values[values != 0]
    if len(values) == 0:
        return Flips(1.0, 1.0, "exact")
    # Dividing by the largest value keeps the squares and fourth powers of any scores within a double's range.
    values = values / numpy.abs(values).max()

    # Each value doubles the list: the sums with it and the sums without it, that is, with the other sign.
    if len(values) <= _EXACT:
        sums = numpy.zeros(1)
        for value in values:
            sums = numpy.concatenate((sums + value, sums - value))
        return _count_flips(sums, values, "exact")

    squares = values**2
    if len(values) > _DRAWN and squares.sum() ** 2 >= _ALIKE * (squares @ squares):
        # P(|Z| ≥ |z|) for a standard normal Z is erfc(|z| / √2).
        p_value = math.erfc(abs(float(values.sum())) / math.sqrt(2 * float(squares.sum())))
        return Flips(p_value, p_value, "normal limit")

    # The observed sum is one of the possible ones. Counting it keeps the p-value above 0.
    sums = _drawn_sums(values, seed, flips)
    return _count_flips(numpy.append(sums, values.sum()), values, f"{flips:,} draws")


def _drawn_sums(values: estimates.Floats, seed: int, flips: int) -> estimates.Floats:
    """Return sums with random signs, eight values at a time: a random byte is eight signs, a table has their sums.

    Row i of `looked_up` has the 256 sums of the i-th eight values, one for each combination of their signs. This needs
    one random byte, not eight random signs.
    """
    bits = numpy.unpackbits(numpy.arange(256, dtype=numpy.uint8)[:, None], axis=1)
    padded = numpy.zeros(-(-len(values) // 8) * 8)
    padded[: len(values)] = values
    looked_up = padded.reshape(-1, 8) @ (1.0 - 2.0 * bits.T)

    random = numpy.random.Generator(numpy.random.PCG64(seed))
    sums = numpy.zeros(flips)
    for table in looked_up:
        sums += table[random.integers(0, 256, size=flips, dtype=numpy.uint8)]
    return sums


def _count_flips(sums: estimates.Floats, values: estimates.Floats, how: str) -> Flips:
    """Return the shares of `sums` that are at least as large as the observed sum of `values`, regardless of sign.

    `how` names the method. Sums within rounding errors count as equal, because they were added up in another order.
    """
    tie = _TIE * float(numpy.abs(values).sum())
    observed, sizes = abs(float(values.sum())), numpy.abs(sums)
    beyond, reached = numpy.count_nonzero(sizes > observed + tie), numpy.count_nonzero(sizes >= observed - tie)

    return Flips(reached / len(sums), (beyond + reached) / (2 * len(sums)), how)


def flip_counts(sums: estimates.Floats) -> Flips:
    """Return the exact p-values for whole numbers, such as the rows fixed minus the rows broken in each cluster.

    No draws are needed: for m clusters with the same absolute value s, the sum is s times (2 · Binomial(m, ½) − m).
    The distributions of all s are convolved, each cut off at 9 standard deviations, so a p-value under 1e-17 is
    reported as 1e-17. If each cluster is one row, the p-values are McNemar's.

    `chances[i]` is the chance of the sum `least` + i.
    """
    sizes, counts = numpy.unique(numpy.abs(sums[sums != 0]).astype(numpy.int64), return_counts=True)
    if len(sizes) == 0:
        return Flips(1.0, 1.0, "exact")

    chances, least = numpy.ones(1), 0
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        # The mean of Binomial(m, ½) is m/2 and its standard deviation √m/2; one more head on each side allows for
        # rounding.
        half = _WIDE / 2 * math.sqrt(count) + 1
        first, last = max(0, math.floor(count / 2 - half)), min(count, math.ceil(count / 2 + half))

        # One head more raises the sum by 2 s: a head counts +s in place of −s.
        wider = numpy.zeros(len(chances) + 2 * size * (last - first))
        for heads in range(first, last + 1):
            start = 2 * size * (heads - first)
            wider[start : start + len(chances)] += math.exp(distributions.log_half_binomial(heads, count)) * chances

        chances, least = wider, least + size * (2 * first - count)

    totals, observed = numpy.abs(numpy.arange(least, least + len(chances))), abs(int(sums.sum()))
    beyond, alike = float(chances[totals > observed].sum()), float(chances[totals == observed].sum())
    exact, mid = (min(1.0, max(_LEAST, chance)) for chance in (beyond + alike, beyond + alike / 2))
    return Flips(exact, mid, "exact")
