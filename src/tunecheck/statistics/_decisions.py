"""Holm's correction for several metrics, the test of non-inferiority, and the smallest detectable difference."""

import math
from collections.abc import Sequence
from statistics import NormalDist

from tunecheck.statistics._distributions import effective_rows, t_quantile, turning_point
from tunecheck.statistics._results import Estimate, NonInferiority, PairedBinary, PairedScores, SmallestDifference


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the p-values adjusted for the number of tests, in the order given; None stays None and does not count.

    At 0.05, the chance of any false alarm among all tests together is at most 5%: Holm, "A simple sequentially
    rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979), 65-70.

    Raises:
        ValueError: a p-value is not between 0 and 1.
    """
    order = sorted((value, at) for at, value in enumerate(p_values) if value is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    reached = 0.0
    for rank, (value, at) in enumerate(order):
        if not 0 <= value <= 1:
            raise ValueError(f"a p-value must be between 0 and 1, not {value!r}")
        reached = max(reached, min(1.0, (len(order) - rank) * value))
        adjusted[at] = reached
    return adjusted


def non_inferiority(difference: Estimate, margin: float, *, higher_is_better: bool = True) -> NonInferiority:
    """Test non-inferiority: it is shown if the worse end of the interval is worse than 0 by less than `margin`.

    A two-sided interval of 95% is a one-sided test at 0.025: CONSORT for non-inferiority trials, Piaggio and others,
    JAMA 308 (2012), 2594-2604. For another alpha make the interval with a confidence of 1 − 2 · alpha.

    Args:
        difference: new − base, with its interval.
        margin: how much worse is still accepted, in the metric's unit; 0 requires a shown improvement.
        higher_is_better: True if a lower value is worse.

    Raises:
        ValueError: the margin is negative or not finite.
    """
    own = round((1 - difference.confidence) / 2, 12)
    if not 0 <= margin < math.inf:
        raise ValueError(f"margin must be 0 or more, not {margin!r}")
    bound = difference.low if higher_is_better else difference.high
    if bound is None:
        return NonInferiority(None, None, margin, own, difference.remark or "the difference has no interval")
    worse = -bound if higher_is_better else bound
    return NonInferiority(worse < margin, bound, margin, own)


# -- power


def smallest_difference(comparison: PairedBinary | PairedScores, *, power: float = 0.8) -> SmallestDifference:
    """Return the smallest true difference that a two-sided test of these rows shows with this power.

    For verdicts it follows from the share of discordant rows: Connor, "Sample size for testing differences in
    proportions for the paired-sample design", Biometrics 43 (1987), 207-211. In clusters, the effective number of rows
    replaces the number of rows, and Student's t the normal quantile. For scores it is t(1 − alpha/2) + t(power)
    standard errors of the difference, with n − 1 (clusters: C − 1) degrees of freedom.

    Args:
        comparison: the statistics of two runs.
        power: the chance to show the difference.

    Raises:
        ValueError: the power is not between 0 and 1.
    """
    alpha = round(1 - comparison.difference.confidence, 12)
    if not 0 < power < 1:
        raise ValueError(f"power must be between 0 and 1, not {power!r}")
    error = comparison.difference.standard_error
    value: float | None
    remark: str | None
    if error is None:
        value, remark = None, comparison.difference.remark or "the error of the difference is unknown"
    elif isinstance(comparison, PairedBinary):
        value, remark = _smallest_verdict_change(comparison, error, power, alpha)
    elif error == 0:
        value, remark = None, "all differences are the same: they show no spread"
    else:
        degrees = (comparison.clusters or comparison.n) - 1
        value, remark = (t_quantile(1 - alpha / 2, degrees) + t_quantile(power, degrees)) * error, None
    return SmallestDifference(value, power, alpha, remark)


def _smallest_verdict_change(
    comparison: PairedBinary, error: float, power: float, alpha: float
) -> tuple[float | None, str | None]:
    """Return the smallest detectable difference of pass rates; or None and why there is none."""
    n, b, c = comparison.n, comparison.b, comparison.c
    rows, degrees = float(n), None
    if comparison.clusters is not None:
        unclustered = math.sqrt(b + c - (c - b) ** 2 / n) / n
        rows, degrees = effective_rows(n, comparison.clusters, unclustered, error), comparison.clusters - 1
    value = smallest_binary(rows, (b + c) / n, power, alpha, degrees)
    return value, None if value is not None else "too few rows: even a change of every row would not be significant"


def smallest_binary(
    rows: float, discordance: float, power: float, alpha: float, degrees: int | None = None
) -> float | None:
    """Return Connor's difference d: √n · d = z(1 − alpha/2) · √ψ + z(power) · √(ψ − d²), ψ the discordant share.

    Return None if even a change of all rows would not be shown. The difference cannot exceed the share of rows that
    differ, so ψ is at least d. With `degrees`, Student's t replaces z.
    """
    size, chance = (
        NormalDist().inv_cdf(probability) if degrees is None else t_quantile(probability, degrees)
        for probability in (1 - alpha / 2, power)
    )

    def shown(difference: float) -> bool:
        """Return whether the test shows this difference with the wanted power."""
        share = max(discordance, difference)
        spread = size * math.sqrt(share) + chance * math.sqrt(max(0.0, share - difference**2))
        return math.sqrt(rows) * difference >= spread

    return turning_point(shown, 0.0, 1.0)[1] if shown(1.0) else None
