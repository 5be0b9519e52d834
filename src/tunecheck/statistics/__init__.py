"""Statistics of runs and of their differences: pure functions over numbers; only resampling and sums load numpy.

estimate_proportion(outcomes)          # a pass rate
estimate_mean(values)                  # a mean
paired_binary(base, new)               # two runs' verdicts on the same rows
paired_scores(base, new)               # two runs' scores on the same rows
smallest_difference(comparison)        # what these rows could have shown
non_inferiority(difference, margin)    # is it shown to be no worse?
holm(p_values)                         # several metrics at once
pass_at_k(trials, k), pass_hat_k(trials, k)

What is not defined (of no rows, of one conversation, of values that are no numbers) is None, and `remark` says why.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tunecheck.statistics.binary import paired_binary
    from tunecheck.statistics.decisions import holm, non_inferiority
    from tunecheck.statistics.estimates import estimate_mean, estimate_proportion
    from tunecheck.statistics.power import smallest_difference
    from tunecheck.statistics.results import (
        Estimate,
        NonInferiority,
        PairedBinary,
        PairedScores,
        PassEstimate,
        SmallestDifference,
        Wilcoxon,
    )
    from tunecheck.statistics.scores import paired_scores
    from tunecheck.statistics.trials import pass_at_k, pass_hat_k

__all__ = [
    "Estimate",
    "NonInferiority",
    "PairedBinary",
    "PairedScores",
    "PassEstimate",
    "SmallestDifference",
    "Wilcoxon",
    "estimate_mean",
    "estimate_proportion",
    "holm",
    "non_inferiority",
    "paired_binary",
    "paired_scores",
    "pass_at_k",
    "pass_hat_k",
    "smallest_difference",
]

_HOMES = {
    "estimate_mean": "estimates",
    "estimate_proportion": "estimates",
    "holm": "decisions",
    "non_inferiority": "decisions",
    "paired_binary": "binary",
    "paired_scores": "scores",
    "pass_at_k": "trials",
    "pass_hat_k": "trials",
    "smallest_difference": "power",
}


def __getattr__(name: str) -> object:
    """Import what is asked for, and no more: results are read where nothing is calculated."""
    if name in __all__:
        return getattr(import_module(f"tunecheck.statistics.{_HOMES.get(name, 'results')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
