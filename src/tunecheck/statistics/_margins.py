"""Non-inferiority margins: shown, refuted or open, how many rows would decide, and what to expect before a run."""

import math
from statistics import NormalDist
from typing import Literal

from tunecheck.statistics._decisions import non_inferiority
from tunecheck.statistics._distributions import turning_point
from tunecheck.statistics._paired import tango_score
from tunecheck.statistics._results import CONFIDENCE, Estimate, normal_quantile

_NO_ROOM = 1e-9
"""Differences this close to the margin count as equal to it."""


def refutes(difference: Estimate, margin: float, *, higher_is_better: bool = True) -> bool:
    """Return whether the interval shows a loss of `margin` or more: even its better end is as bad."""
    best = difference.high if higher_is_better else difference.low
    return best is not None and (-best if higher_is_better else best) >= margin


MarginResult = Literal["shown", "refuted", "open"]


def margin_result(difference: Estimate, margin: float, *, higher_is_better: bool = True) -> MarginResult:
    """Return `shown` if the interval shows a loss below `margin`, `refuted` if it shows a larger loss, else `open`."""
    if non_inferiority(difference, margin, higher_is_better=higher_is_better).shown:
        return "shown"
    return "refuted" if refutes(difference, margin, higher_is_better=higher_is_better) else "open"


def rows_to_decide(
    difference: Estimate, margin: float, *, higher_is_better: bool = True, discordant: tuple[int, int] | None = None
) -> int | None:
    """Return the total number of rows that would show a difference of this size to be within the margin, or beyond it.

    Verdicts without clusters need `discordant`: how many rows passed in the base only, and in the new run only. For
    them, all counts are scaled up until Tango's interval decides. For all others the interval's width is extrapolated:
    it shrinks with the root of the number of rows, or if no row differs, with the number of rows. Return None if no
    number of rows would decide, because the difference equals the margin or has no interval.
    """
    value, low, high = difference.value, difference.low, difference.high
    if value is None or low is None or high is None:
        return None
    loss, reach = (-value, value - low) if higher_is_better else (value, high - value)
    if loss > margin:
        reach = high - value if higher_is_better else value - low
    room = abs(margin - loss)
    if room < _NO_ROOM:
        return None
    if discordant is None or difference.clusters is not None:
        return math.ceil(difference.n * (reach / room) ** (2 if difference.standard_error else 1))
    gone, come = discordant if higher_is_better else discordant[::-1]
    return _rows_of_verdicts(gone, come, difference, margin)


def _rows_of_verdicts(gone: int, come: int, difference: Estimate, margin: float) -> int:
    """Return how many rows would decide the margin by Tango's score, if all counts grow in proportion."""
    n, width = difference.n, normal_quantile(difference.confidence)

    def decided(times: float) -> bool:
        """Return whether `times` as many rows would show the loss to be below or beyond the margin."""
        score = tango_score(gone * times, come * times, n * times, -margin)
        return score > width or score <= -width

    most = 1.0
    while not decided(most):
        most *= 2
    return math.ceil(n * turning_point(decided, most / 2, most)[1])


# -- before a run


def chance_to_show(rows: int, change: float, margin: float, confidence: float = CONFIDENCE) -> float:
    """Return the chance to show that an identical model's pass rate is worse by less than the margin.

    Nam, "Establishing equivalence of two treatments and sample size requirements in matched-pairs design", Biometrics
    53 (1997), 1422-1430. The variance of the difference is the share of rows that change; Tango's interval decides.

    Args:
        rows: the number of pairs.
        change: the share of rows with another verdict in the next run, half of them better and half worse.
        margin: the accepted loss, larger than 0.
        confidence: level of the two-sided interval.
    """
    room = math.sqrt(rows) - normal_quantile(confidence) / _score_of_a_row(change, margin)
    if change == 0:
        return float(room > 0)
    return NormalDist().cdf(margin * room / math.sqrt(change))


def rows_to_show(change: float, margin: float, chance: float) -> int:
    """Return how many rows show an identical model to be within the margin with this chance."""
    limit = normal_quantile(CONFIDENCE) / _score_of_a_row(change, margin)
    return math.floor((limit + NormalDist().inv_cdf(chance) * math.sqrt(change) / margin) ** 2) + 1


def margin_to_show(rows: int, change: float, chance: float) -> float | None:
    """Return the smallest margin within which this many rows show an identical model to be, with this chance.

    Return None if no margin under 1 does.
    """
    _, found = turning_point(lambda margin: chance_to_show(rows, change, margin) >= chance, 0.0, 1.0)
    return found if found < 1 else None


def _score_of_a_row(change: float, margin: float) -> float:
    """Return Tango's score at the margin for one row and no difference; for n rows it is √n times as large."""
    return tango_score(change / 2, change / 2, 1.0, -margin)
