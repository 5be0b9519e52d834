"""Two runs' scores on the same rows: the difference of their means, and whether it can be chance."""

from __future__ import annotations

from dataclasses import replace

import numpy

from tunecheck.statistics._bootstrap import RESAMPLES
from tunecheck.statistics._estimates import NO_SPREAD, Bounds, means
from tunecheck.statistics._permutation import FLIPS, flip_scores
from tunecheck.statistics._proportions import CONFIDENCE
from tunecheck.statistics._ranks import signed_ranks
from tunecheck.statistics._results import PairedScores
from tunecheck.statistics._samples import Floats, Labels, Numbers, as_clusters, as_floats, differences


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
    """Both means, their difference (new − base) with its interval, the sign-flip test, and Wilcoxon's.

    The intervals are `estimate_mean`'s; rows are resampled as pairs. With clusters the intervals are Student's
    t(C − 1) on the clustered standard error, and the test flips the signs of whole clusters. Where no row differs, at
    most z² / (n + z²) of all rows do (Wilson's limit, which is Tango's for a pass rate), each by no more than the
    metric's range.

    Args:
        base: one score a row; NaN and infinite ones are refused, by a result without figures.
        new: the other run's scores of the same rows.
        clusters: a label for every row; rows with equal labels are not independent.
        bounds: the lowest and the highest score that the metric can give. Without them rows of which none differs
            have the interval of scores between 0 and the furthest one there is.
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
        test=f"sign-flip permutation{'' if groups is None else ' of clusters'}, mid-p ({flipped.how})"
        if flipped
        else "none",
        wilcoxon=signed_ranks(change) if groups is None and difference.value is not None else None,
    )


def _spans(scores: Floats, change: Floats) -> Bounds | None:
    """How far a score can have moved where none did and nobody said what the metric can give."""
    if not len(scores) or change.any():
        return None
    low, high = min(0.0, float(scores.min())), max(0.0, float(scores.max()))
    return (low - high, high - low) if low < high else None
