"""The verdict in words, from a test, an interval, and what the rows could have shown."""

from __future__ import annotations

from tunecheck._messages import counted
from tunecheck.comparison._results import BETTER, NO_DIFFERENCE, TOO_LITTLE, WORSE, Verdict
from tunecheck.statistics._results import Estimate, SmallestDifference

FEWEST = 10
"""Of fewer rows (clusters, where there are some), nothing shown says nothing."""

COARSE = 0.2
"""Rows that would not have shown a difference of a fifth of the metric's range (20 points of a pass rate) are too few.

A metric without a range: of a standard deviation of its differences, 0.8, which is large: Cohen, "Statistical power
analysis for the behavioral sciences" (1988), section 2.2."""

ALONE = "shown if it were the only test; among all of them it can be chance"
"""Why a difference whose interval does not hold 0 is none that is shown."""

_LARGE = 0.8


def decide(
    difference: Estimate,
    p_adjusted: float | None,
    smallest: SmallestDifference | None,
    *,
    verdicts: bool,
    bounds: tuple[float, float] | None,
    higher_is_better: bool,
) -> tuple[Verdict, str]:
    """The verdict, and why it is that one.

    Better or worse: the corrected p-value is below 1 − confidence, and the interval does not hold 0. Otherwise, no
    difference shown; or too little data, if these rows could not have shown even a coarse one.
    """
    alpha = round(1 - difference.confidence, 12)
    units = difference.n if difference.clusters is None else difference.clusters
    if difference.value is None or p_adjusted is None:
        return TOO_LITTLE, difference.remark or "there is nothing to test"
    low, high = difference.low, difference.high
    apart = low is None or high is None or low > 0 or high < 0
    if p_adjusted < alpha and apart:
        up = difference.value > 0
        return (BETTER if up == higher_is_better else WORSE), ""
    what = "row" if difference.clusters is None else "cluster"
    if units < FEWEST:
        return TOO_LITTLE, counted(units, what)
    if _too_coarse(verdicts, difference, units, smallest, bounds):
        return TOO_LITTLE, f"{counted(units, what)} show only a large difference"
    return NO_DIFFERENCE, ALONE if low is not None and apart else ""


def _too_coarse(
    verdicts: bool,
    difference: Estimate,
    units: int,
    smallest: SmallestDifference | None,
    bounds: tuple[float, float] | None,
) -> bool:
    found = None if smallest is None else smallest.value
    if verdicts:
        return found is None or found > COARSE
    if found is None:
        return False  # all differences are the same: there is no spread to be lost in
    if bounds is not None:
        return found > COARSE * (bounds[1] - bounds[0])
    large: float = _LARGE * (difference.standard_error or 0.0) * units**0.5
    return found > large
