"""Results of the statistics: defined numbers, or None with a remark that gives the reason."""

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from msgspec import to_builtins

from tunecheck._json import JSON, plain


class Result:
    """A dataclass that writes itself as JSON: its fields are those of a file or of an output."""

    __slots__ = ()

    def as_json(self) -> dict[str, JSON]:
        """All fields by name, as plain JSON values."""
        found = plain(to_builtins(self, enc_hook=_json_value))
        assert isinstance(found, dict)
        return found


def _json_value(value: object) -> object:
    return str(value) if isinstance(value, Path) else plain(value)


@dataclass(frozen=True, slots=True)
class Estimate(Result):
    """A figure and its two-sided interval, in the metric's own unit (a pass rate: 0 to 1; a difference: new − base).

    `n` counts rows, `clusters` the groups they came in (None: rows are taken as independent). `method` names the
    interval. `standard_error` is the plain one, or the clustered one; the interval need not be built on it.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    confidence: float
    method: str
    standard_error: float | None = None
    clusters: int | None = None
    remark: str | None = None

    @property
    def excludes_zero(self) -> bool:
        """Whether there is an interval, and 0 is not in it."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired(Result):
    """Two runs on the same rows; `p_value` is that of `test`, and `p_exact` is never too small."""

    n: int
    clusters: int | None
    base: Estimate
    new: Estimate
    difference: Estimate
    p_value: float | None
    p_exact: float | None
    test: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedBinary(Paired):
    """Verdicts of two runs.

    `b` rows passed in the base only, `c` in the new run only. `p_value` is `p_mid`; `p_exact` is often too large.
    Without clusters both are McNemar's, with clusters those of a permutation.
    """

    b: int
    c: int
    p_mid: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedScores(Paired):
    """Scores of two runs; of `n` rows `changed` differ, `higher` of them upwards.

    `p_value` is that of a permutation test that counts sums just as large by half. In `p_exact` they count whole; of
    scores with few steps it is too large.
    """

    changed: int
    higher: int


@dataclass(frozen=True, slots=True)
class NonInferiority(Result):
    """Is the new run shown to be worse by less than `margin`? `bound` is the one-sided limit of the difference.

    `bound` is in the metric's unit, and the worst difference that the data does not rule out at `alpha`; `shown` is
    None where there is no such limit.
    """

    shown: bool | None
    bound: float | None
    margin: float
    alpha: float
    remark: str | None = None


@dataclass(frozen=True, slots=True)
class SmallestDifference(Result):
    """The smallest true difference that these rows would have shown with this power, tested two-sided at `alpha`."""

    value: float | None
    power: float
    alpha: float
    remark: str | None = None


# -- proportions


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
