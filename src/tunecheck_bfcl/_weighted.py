"""Figures in which parts of the rows have given weights, regardless of their sizes, and two runs' differences."""

import math
from collections.abc import Sequence

import numpy

from tunecheck.statistics import (
    CONFIDENCE,
    FLIPS,
    Codes,
    Estimate,
    Floats,
    Labels,
    PairedScores,
    RowGroups,
    as_clusters,
    filled,
    flip_scores,
    t_quantile,
)


def paired_weighted(
    base: Floats,
    new: Floats,
    parts: Codes,
    weights: Sequence[float],
    clusters: Labels | None = None,
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> PairedScores:
    """Return the weighted sum of the parts' means in both runs, and the difference of the sums.

    Intervals use Student's t and the standard error of stratified samples (Cochran, "Sampling Techniques", 1977,
    section 5.3). With clusters, which may span several parts, the standard error is computed from the clusters'
    contributions to the figure, as in `RowGroups.mean_error`. The test flips the signs of the contributions of rows or
    clusters to the difference.

    Args:
        base: the base run's score of each row.
        new: the new run's scores of the same rows.
        parts: the number of each row's part, from 0. Each part must have rows.
        weights: the weights of the parts, in order.
        clusters: a label for every row; rows with equal labels are not independent.
        confidence: the level of the two-sided intervals, between 0 and 1.
        seed: seed for the random sign flips.
    """
    sizes = numpy.bincount(parts, minlength=len(weights))
    shares = numpy.asarray(weights)
    of_row = (shares / sizes)[parts]
    groups = as_clusters(clusters, len(parts))
    change = new - base
    added = change * of_row
    flipped = flip_scores(added if groups is None else groups.sums(added), seed, FLIPS)
    of_base, of_new, difference = (
        _estimate(values, parts, shares, sizes, groups, confidence) for values in (base, new, change)
    )
    return filled(change, groups, (of_base, of_new, difference), flipped, ", weighted")


def _estimate(
    values: Floats, parts: Codes, weights: Floats, sizes: Codes, groups: RowGroups | None, confidence: float
) -> Estimate:
    means = numpy.bincount(parts, weights=values, minlength=len(sizes)) / sizes
    spread = (weights / sizes)[parts] * (values - means[parts])
    if groups is None:
        spread *= numpy.sqrt(sizes / numpy.maximum(sizes - 1, 1))[parts]
        units, squares = len(values), float(spread @ spread)
    else:
        sums = groups.sums(spread)
        units = groups.count
        squares = float(sums @ sums) * units / max(units - 1, 1)
    value, error = math.fsum((weights * means).tolist()), math.sqrt(squares)  # fsum: two decimals are printed
    count = None if groups is None else units
    if units < 2 or error == 0:
        remark = "its rows show no spread"
        return Estimate(value, None, None, len(values), confidence, "none", error, count, remark)
    half = t_quantile((1 + confidence) / 2, units - 1) * error
    return Estimate(value, value - half, value + half, len(values), confidence, "stratified t", error, count)
