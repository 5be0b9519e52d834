"""Decisions on differences: Holm's correction, non-inferiority, the smallest detectable difference, and margins.

A loss is how much worse the new run is; a negative loss is a gain. With an interval of the loss from its better to its
worse end, `margin_result` returns the first that applies:

  shown     the worse end is below the margin (non-inferiority)
  refuted   the better end is at the margin or beyond
  open      the margin lies within the interval, or there is no interval

Example: the pass rate changed by −1 point, interval −4 to +2. A margin of 5 points is shown, and one of 3 points is
open. `rows_to_decide` says after a run how many rows would decide a margin; `chance_to_show`, `rows_to_show` and
`margin_to_show` say it before a run, for an identical model.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

from tunecheck.statistics._distributions import effective_rows, t_quantile, tango_score, turning_point
from tunecheck.statistics._results import (
    CONFIDENCE,
    Estimate,
    NonInferiority,
    Paired,
    SmallestDifference,
    normal_quantile,
)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the p-values adjusted for the number of tests, in the order given; None stays None and does not count.

    At 0.05, the chance of any false alarm among all tests together is at most 5%: Holm, "A simple sequentially
    rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979), 65-70.

    Example: 0.01, 0.04 and 0.03 become 0.03, 0.06 and 0.06. The smallest is multiplied by 3, the next by 2, the last by
    1. An adjusted p-value is never below a smaller one's, so the last is 0.06, not 0.04.
    """
    order = sorted((value, position) for position, value in enumerate(p_values) if value is not None)
    adjusted: list[float | None] = [None] * len(p_values)

    reached = 0.0
    for rank, (value, position) in enumerate(order):
        reached = max(reached, min(1.0, (len(order) - rank) * value))
        adjusted[position] = reached
    return adjusted


def non_inferiority(difference: Estimate, margin: float, *, higher_is_better: bool = True) -> NonInferiority:
    """Test non-inferiority: it is shown if the worse end of the interval is worse than 0 by less than `margin`.

    A two-sided interval of 95% is a one-sided test at 0.025: CONSORT for non-inferiority trials, Piaggio and others,
    JAMA 308 (2012), 2594-2604. For another alpha make the interval with a confidence of 1 − 2 · alpha.

    `shown` is None if the difference has no interval.

    Args:
        difference: new − base, with its interval.
        margin: how much worse is still accepted, in the metric's unit; 0 requires a shown improvement.
        higher_is_better: True if a lower value is worse.
    """
    # Rounded, so that 1 − 0.95 is 0.05 and not 0.050000000000000044.
    alpha = round((1 - difference.confidence) / 2, 12)
    bound = difference.low if higher_is_better else difference.high
    if bound is None:
        return NonInferiority(None, None, margin, alpha, difference.remark or "the difference has no interval")

    worse = -bound if higher_is_better else bound
    return NonInferiority(worse < margin, bound, margin, alpha)


# -- power


def smallest_difference(comparison: Paired, *, power: float = 0.8) -> SmallestDifference:
    """Return the smallest true difference that a two-sided test of these rows shows with this power.

    For verdicts it follows from the share of discordant rows: Connor, "Sample size for testing differences in
    proportions for the paired-sample design", Biometrics 43 (1987), 207-211. In clusters, the effective number of rows
    replaces the number of rows, and Student's t the normal quantile. For scores it is t(1 − alpha/2) + t(power)
    standard errors of the difference, with n − 1 (clusters: C − 1) degrees of freedom. If there is no such difference,
    its `value` is None and `remark` gives the reason.

    Args:
        comparison: the statistics of two runs.
        power: the chance to show the difference.
    """
    difference = comparison.difference
    n, clusters = difference.n, difference.clusters
    alpha, error = round(1 - difference.confidence, 12), difference.standard_error
    if error is None:
        return SmallestDifference(None, power, alpha, difference.remark or "the error of the difference is unknown")

    if comparison.b is None or comparison.c is None:  # scores
        if error == 0:
            return SmallestDifference(None, power, alpha, "all differences are the same: they show no spread")
        degrees = (clusters or n) - 1
        reach = t_quantile(1 - alpha / 2, degrees) + t_quantile(power, degrees)
        return SmallestDifference(reach * error, power, alpha)

    changed, rows = comparison.b + comparison.c, float(n)
    if clusters is not None:
        independent_error = math.sqrt(changed - (comparison.c - comparison.b) ** 2 / n) / n
        rows = effective_rows(n, clusters, independent_error, error)

    value = smallest_binary(rows, changed / n, power, alpha, None if clusters is None else clusters - 1)
    remark = None if value is not None else "too few rows: even a change of every row would not be significant"
    return SmallestDifference(value, power, alpha, remark)


def smallest_binary(
    rows: float, discordance: float, power: float, alpha: float, degrees: int | None = None
) -> float | None:
    """Return Connor's difference d: √n · d = z(1 − alpha/2) · √ψ + z(power) · √(ψ − d²), ψ the discordant share.

    n is `rows`. ψ is `discordance`, but at least d, because a difference cannot exceed the share of rows that differ.
    Return None if even a change of all rows would not be shown. With `degrees` of freedom, Student's t replaces z.
    """
    alpha_quantile, power_quantile = (
        NormalDist().inv_cdf(probability) if degrees is None else t_quantile(probability, degrees)
        for probability in (1 - alpha / 2, power)
    )

    def shown(difference: float) -> bool:
        """Return whether the test shows this difference with the wanted power."""
        share = max(discordance, difference)
        spread = alpha_quantile * math.sqrt(share) + power_quantile * math.sqrt(max(0.0, share - difference**2))
        return math.sqrt(rows) * difference >= spread

    return turning_point(shown, 0.0, 1.0)[1] if shown(1.0) else None


# -- margins

_NO_ROOM = 1e-9
"""Differences this close to the margin count as equal to it."""


MarginResult = Literal["shown", "refuted", "open"]


def margin_result(difference: Estimate, margin: float, *, higher_is_better: bool = True) -> MarginResult:
    """Return `shown` if the interval shows a loss below `margin`, `refuted` if one of `margin` or more, else `open`.

    Without an interval, the result is `open`.
    """
    if non_inferiority(difference, margin, higher_is_better=higher_is_better).shown:
        return "shown"
    best = difference.high if higher_is_better else difference.low
    is_refuted = best is not None and (-best if higher_is_better else best) >= margin
    return "refuted" if is_refuted else "open"


def rows_to_decide(
    difference: Estimate, margin: float, *, higher_is_better: bool = True, discordant: tuple[int, int] | None = None
) -> int | None:
    """Return the total number of rows that would show a difference of this size to be within the margin, or beyond it.

    Verdicts without clusters need `discordant`: how many rows passed in the base only, and in the new run only. For
    them, all counts are scaled up until Tango's interval decides. For all others the interval's width is extrapolated:
    it shrinks with the root of the number of rows, or if no row differs, with the number of rows. Return None if no
    number of rows would decide, because the difference equals the margin or has no interval.

    Example: 200 rows show a loss of 1 point with an interval 3 points to either side. For a margin of 2 points it must
    shrink from 3 points to 1, so 9 times as many rows are needed: 1,800.
    """
    value, low, high = difference.value, difference.low, difference.high
    if value is None or low is None or high is None:
        return None

    # The end that must move: the worse end if the loss is within the margin, the better end if it is beyond.
    loss, reach = (-value, value - low) if higher_is_better else (value, high - value)
    if loss > margin:
        reach = high - value if higher_is_better else value - low

    room = abs(margin - loss)
    if room < _NO_ROOM:
        return None

    # A standard error of 0: no row differs. The interval's ends are then z² / (n + z²), which shrinks with n itself.
    if discordant is None or difference.clusters is not None:
        return math.ceil(difference.n * (reach / room) ** (2 if difference.standard_error else 1))

    worse, better = discordant if higher_is_better else discordant[::-1]
    return _rows_of_verdicts(worse, better, difference, margin)


def _rows_of_verdicts(worse: int, better: int, difference: Estimate, margin: float) -> int:
    """Return how many rows would decide the margin by Tango's score, if all counts grow in proportion.

    `worse` and `better` count the rows that got worse and better in the new run.
    """
    n, width = difference.n, normal_quantile(difference.confidence)

    def decided(times: float) -> bool:
        """Return whether `times` as many rows would show the loss to be below or beyond the margin."""
        score = tango_score(worse * times, better * times, n * times, -margin)
        return score > width or score <= -width

    # Doubling finds a number of rows that is enough; it exists because the loss is not equal to the margin.
    most = 1.0
    while not decided(most):
        most *= 2
    return math.ceil(n * turning_point(decided, most / 2, most)[1])


# -- before a run


def chance_to_show(rows: int, change: float, margin: float, confidence: float = CONFIDENCE) -> float:
    """Return the chance to show that an identical model's pass rate is worse by less than the margin.

    Nam, "Establishing equivalence of two treatments and sample size requirements in matched-pairs design", Biometrics
    53 (1997), 1422-1430. The variance of the difference is the share of rows that change; Tango's interval decides.

    `margin` and `change` are shares, so 0.02 is 2 points.

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
    """Return how many rows show an identical model to be within the margin with this chance, at 95% confidence.

    `change` is the share of rows with another verdict in the next run.
    """
    limit = normal_quantile(CONFIDENCE) / _score_of_a_row(change, margin)
    return math.floor((limit + NormalDist().inv_cdf(chance) * math.sqrt(change) / margin) ** 2) + 1


def margin_to_show(rows: int, change: float, chance: float) -> float | None:
    """Return the smallest margin for which `chance_to_show` is at least `chance`; None if no margin under 1 is enough.

    `change` is the share of rows with another verdict in the next run.
    """
    _, found = turning_point(lambda margin: chance_to_show(rows, change, margin) >= chance, 0.0, 1.0)
    return found if found < 1 else None


def _score_of_a_row(change: float, margin: float) -> float:
    """Return Tango's score at the margin for one row and no difference; for n rows it is √n times as large."""
    return tango_score(change / 2, change / 2, 1.0, -margin)
