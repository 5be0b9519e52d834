"""pass@k and pass^k: what several trials of one item say about it passing at least once, or always."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

from tunecheck.statistics._estimates import RESAMPLES, estimate_mean
from tunecheck.statistics._proportions import CONFIDENCE
from tunecheck.statistics._results import PassEstimate

Trials = Sequence[tuple[int, int]]
"""An item each: how many of its trials passed, and how many there were."""


def pass_at_k(
    trials: Trials,
    k: int,
    clusters: Sequence[Hashable] | None = None,
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> PassEstimate:
    """The chance that at least one of k trials of an item passes, averaged over the items.

    Of c passes in n trials 1 − C(n − c, k) / C(n, k) is the unbiased estimate: Chen and others, "Evaluating large
    language models trained on code" (2021), arXiv 2107.03374, equation 1. The interval is that of a mean over items
    (with clusters, over clusters of items): the items are resampled, with all their trials.

    Args:
        trials: passed and all trials of each item; items with fewer than k trials are counted and left out.
        k: from 1.
        clusters: a label for every item; items with equal labels are not independent.
        confidence: of the two-sided interval, between 0 and 1.
        seed: of the bootstrap.
        resamples: of the bootstrap.

    Raises:
        ValueError: k under 1, more passes than trials, or a label too many or too few.
    """
    return _estimate(
        trials, k, clusters, lambda c, n: 1 - math.comb(n - c, k) / math.comb(n, k), confidence, seed, resamples
    )


def pass_hat_k(
    trials: Trials,
    k: int,
    clusters: Sequence[Hashable] | None = None,
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> PassEstimate:
    """The chance that all of k trials of an item pass, averaged over the items: pass^k.

    Of c passes in n trials C(c, k) / C(n, k) is the unbiased estimate: Yao and others, "τ-bench" (2024),
    arXiv 2406.12045, section 3. Arguments, interval and errors: as of `pass_at_k`.
    """
    return _estimate(trials, k, clusters, lambda c, n: math.comb(c, k) / math.comb(n, k), confidence, seed, resamples)


def _estimate(
    trials: Trials,
    k: int,
    clusters: Sequence[Hashable] | None,
    formula: Callable[[int, int], float],
    confidence: float,
    seed: int,
    resamples: int,
) -> PassEstimate:
    if k < 1:
        raise ValueError(f"k is 1 or more, not {k!r}")
    if clusters is not None and len(clusters) != len(trials):
        raise ValueError(f"{len(clusters)} clusters were given for {len(trials)} items")
    for at, (passed, count) in enumerate(trials):
        if not 0 <= passed <= count:
            raise ValueError(f"item {at}: {passed} of {count} trials cannot have passed")
    long = [at for at, (_, count) in enumerate(trials) if count >= k]
    labels = None if clusters is None else [clusters[at] for at in long]
    values = [formula(*trials[at]) for at in long]
    estimate = estimate_mean(values, labels, bounds=(0.0, 1.0), confidence=confidence, seed=seed, resamples=resamples)
    return PassEstimate(k, estimate, len(trials) - len(long))
