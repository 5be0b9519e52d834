"""Results of the statistics: defined numbers, or None with a remark that gives the reason."""

import math
from pathlib import Path
from statistics import NormalDist

import msgspec

from tunecheck._json import JSON, dumps, loads, plain


class Result(msgspec.Struct, frozen=True):
    """Base of result types that convert to JSON; their fields are those of a file or an output."""

    def to_json(self) -> dict[str, JSON]:
        """Return all fields by name, as plain JSON values."""
        # This is much faster than `plain` for large results.
        found = loads(dumps(msgspec.to_builtins(self, enc_hook=_json_value)))
        assert isinstance(found, dict)
        return found


def _json_value(value: object) -> object:
    """Return a path as text, and any other value that msgspec does not know as plain JSON."""
    return str(value) if isinstance(value, Path) else plain(value)


class Estimate(Result, frozen=True):
    """A figure and its two-sided interval, in the metric's own unit (a pass rate: 0 to 1; a difference: new − base).

    `n` is the number of rows and `clusters` the number of clusters (None: rows count as independent). `method` names
    the interval. `standard_error` is clustered if there are clusters; the interval may not be based on it. It is None
    for rates that are corrected for a judge's errors.

    Example: 31 of 46 rows passed. `value` is 0.674, `low` 0.530, `high` 0.791, `n` 46, `method` "Wilson". If a figure
    is missing, `remark` gives the reason.
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
        """True if there is an interval that does not contain 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


class Paired(Result, frozen=True, kw_only=True):
    """Two runs on the same rows.

    For verdicts, `b` rows passed in the base only, `c` in the new run only; both are None for scores. `p_value` comes
    from `test`, which counts results equal to the observed one by half (mid-p). `p_exact` counts them whole, which is
    conservative and often too large. Without clusters, both p-values of verdicts come from McNemar's test. All others
    come from a permutation test.
    """

    base: Estimate
    new: Estimate
    difference: Estimate
    p_value: float | None
    p_exact: float | None
    test: str
    b: int | None = None
    c: int | None = None


class NonInferiority(Result, frozen=True):
    """The result of a non-inferiority test: `shown` is True if the new run is worse by less than `margin`, if at all.

    `bound` is the worst difference, in the metric's unit, that the data does not rule out at `alpha` (one-sided).
    `shown` is None if there is no such bound.
    """

    shown: bool | None
    bound: float | None
    margin: float
    alpha: float
    remark: str | None = None


class SmallestDifference(Result, frozen=True):
    """The smallest true difference that these rows would have shown with this power, tested two-sided at `alpha`."""

    value: float | None
    power: float
    alpha: float
    remark: str | None = None


# -- proportions


CONFIDENCE = 0.95
"""The default confidence level of intervals."""


class Proportion(Result, frozen=True):
    """The share `hits` / `of` with its interval from `low` to `high`; without rows, all three figures are None."""

    value: float | None
    low: float | None
    high: float | None
    hits: int
    of: int


def wilson(hits: int, of: int, confidence: float = CONFIDENCE) -> Proportion:
    """Return the share `hits` / `of` with Wilson's score interval.

    The interval is valid for few rows and for shares near 0 and 1, too. Without rows, all figures are None.

    Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927), 209-212; without
    continuity correction.

    Raises:
        ValueError: a confidence that is not between 0 and 1.
    """
    z = normal_quantile(confidence)
    if of == 0:
        return Proportion(None, None, None, hits, of)
    return Proportion(hits / of, *wilson_interval(hits / of, of, z), hits, of)


def wilson_interval(share: float, rows: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of this many rows (may be fractional), `z` standard errors to either side."""
    shrink = 1 + z * z / rows
    centre = (share + z * z / (2 * rows)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows))

    # At the ends the bound is exactly 0 or 1; rounding must not move it.
    return 0.0 if share == 0 else max(0.0, centre - half), 1.0 if share == 1 else min(1.0, centre + half)


def normal_quantile(confidence: float) -> float:
    """Return the half-width of an interval of this confidence in standard errors: 1.96 for 0.95.

    Raises:
        ValueError: a confidence that is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be above 0 and below 1, not {confidence!r}")
    return NormalDist().inv_cdf((1 + confidence) / 2)
