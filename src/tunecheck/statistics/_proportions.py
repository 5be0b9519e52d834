"""A share of rows, with its Wilson score interval."""

import math
from dataclasses import dataclass
from statistics import NormalDist

from tunecheck.statistics._results import Result

CONFIDENCE = 0.95
"""What intervals cover unless another confidence is given."""


@dataclass(frozen=True, slots=True)
class Proportion(Result):
    """`hits` of `of` rows, and the interval from `low` to `high`; of no rows at all, the three figures are None."""

    value: float | None
    low: float | None
    high: float | None
    hits: int
    of: int


def wilson(hits: int, of: int, confidence: float = CONFIDENCE) -> Proportion:
    """The share and its score interval, which also holds for few rows and for shares near 0 and 1.

    Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927), 209-212; without
    continuity correction.

    Raises:
        ValueError: a confidence that is not between 0 and 1.
    """
    z = normal_quantile(confidence)
    if of == 0:
        return Proportion(None, None, None, hits, of)
    share, shrink = hits / of, 1 + z * z / of
    centre = (share + z * z / (2 * of)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    # At the ends the bound is exactly 0 or 1; rounding must not move it.
    low = 0.0 if hits == 0 else max(0.0, centre - half)
    high = 1.0 if hits == of else min(1.0, centre + half)
    return Proportion(share, low, high, hits, of)


def normal_quantile(confidence: float) -> float:
    """Return the half-width of an interval of this confidence in standard errors: 1.96 for 0.95.

    Raises:
        ValueError: a confidence that is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1, not {confidence!r}")
    return NormalDist().inv_cdf((1 + confidence) / 2)
