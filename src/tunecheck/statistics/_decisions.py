"""Decisions: correction for several metrics, and whether a run is shown to be no worse."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tunecheck.statistics._results import Estimate, NonInferiority


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted so that one in twenty comparisons of several metrics, not of each, is a false alarm at 0.05.

    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979),
    65-70. In the order given; None stays None and is not counted.

    Raises:
        ValueError: a p-value that is not between 0 and 1.
    """
    order = sorted((value, at) for at, value in enumerate(p_values) if value is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    reached = 0.0
    for rank, (value, at) in enumerate(order):
        if not 0 <= value <= 1:
            raise ValueError(f"a p-value lies between 0 and 1, not {value!r}")
        reached = max(reached, min(1.0, (len(order) - rank) * value))
        adjusted[at] = reached
    return adjusted


def non_inferiority(
    difference: Estimate, margin: float, *, higher_is_better: bool = True, alpha: float | None = None
) -> NonInferiority:
    """Shown to be worse by less than `margin`, if that end of the interval which is worse is within it.

    A two-sided interval of 95% is a one-sided test at 0.025: CONSORT for non-inferiority trials, Piaggio and others,
    JAMA 308 (2012), 2594-2604. For another alpha make the interval with a confidence of 1 − 2 · alpha.

    Args:
        difference: new − base, with its interval.
        margin: how much worse is still accepted, in the metric's unit; 0 asks for a shown improvement.
        higher_is_better: whether a lower value is the worse one.
        alpha: one-sided; that of the interval, unless given.

    Raises:
        ValueError: a negative margin, or an alpha that is not the interval's.
    """
    own = round((1 - difference.confidence) / 2, 12)
    if not 0 <= margin < math.inf:
        raise ValueError(f"a margin is 0 or more, not {margin!r}")
    if alpha is not None and not math.isclose(alpha, own, rel_tol=1e-9):
        raise ValueError(f"an interval of {difference.confidence!r} tests at {own:.6g}, not at {alpha!r}")
    bound = difference.low if higher_is_better else difference.high
    if bound is None:
        return NonInferiority(None, None, margin, own, difference.remark or "the difference has no interval")
    worse = -bound if higher_is_better else bound
    return NonInferiority(worse < margin, bound, margin, own)
