"""Distributions and the tests that follow from them: Student's t, the normal, the binomial, McNemar and Tango.

This module works without numpy.
"""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul
from statistics import NormalDist

_MANY = 500  # degrees above which the t quantile comes from the normal one; the series has half as many terms
_HALVINGS = 80  # a double has 53 binary digits: after 80 halvings of these ranges the ends differ by rounding only


def turning_point(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Bisect from `low`, where `holds` is false, to `high`, where it is true; return the last false and first true.

    Examples: the smallest margin that can be shown; the end of an interval that a test accepts.
    """
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def t_quantile(probability: float, degrees: int) -> float:
    """Return the quantile of Student's t with this many degrees of freedom.

    It is found by bisection on the finite series of the distribution (Abramowitz and Stegun 26.7.3 and 26.7.4); above
    500 degrees it is computed from the normal quantile. The relative error is under 1e-9 for tails down to 1e-6.
    """
    if degrees > _MANY:
        return _near_normal(NormalDist().inv_cdf(probability), degrees)

    # `centre` is the chance that t lies between minus and plus the quantile.
    centre, terms = abs(2 * probability - 1), _terms(degrees)
    # With t = √degrees · tan(angle) the infinite range of t is the range from 0 to π/2 of the angle.
    _, angle = turning_point(lambda angle: _within(angle, degrees, terms) >= centre, 0.0, math.pi / 2)
    return math.copysign(math.tan(angle) * math.sqrt(degrees), probability - 0.5) if centre else 0.0


def _terms(degrees: int) -> list[float]:
    """Return the factors of 1, cos², cos⁴ … in the finite series of Student's t distribution.

    For even degrees they are products of 1/2, 3/4 …, for odd degrees of 2/3, 4/5 ….

    Example: 6 degrees have the factors 1, 1/2 and 3/8.
    """
    odd = degrees % 2
    steps = ((2 * term - 1 + odd) / (2 * term + odd) for term in range(1, (degrees - odd) // 2))
    return list(accumulate(steps, mul, initial=1.0))


def _within(angle: float, degrees: int, terms: Sequence[float]) -> float:
    """Return the chance that t lies within ± √degrees · tan(angle); `terms` are the factors of the series."""
    square, power, total = math.cos(angle) ** 2, 1.0, 0.0
    for term in terms:
        total += term * power
        power *= square

    # 26.7.4, even degrees: sin · Σ. Odd degrees (26.7.3): 2/π (angle + sin · cos · Σ); for 1 degree the sum is missing.
    if degrees % 2 == 0:
        return math.sin(angle) * total
    rest = math.sin(angle) * math.cos(angle) * total if degrees > 1 else 0.0
    return 2 / math.pi * (angle + rest)


def _near_normal(z: float, degrees: int) -> float:
    """Return the t quantile from the normal quantile z (Abramowitz and Stegun 26.7.5).

    The first term left out is at most z¹¹ / degrees⁵.
    """
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    fourth = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + first / degrees + second / degrees**2 + third / degrees**3 + fourth / degrees**4


def log_half_binomial(k: int, n: int) -> float:
    """Return the logarithm of the chance of k heads in n throws of a fair coin."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2)


def effective_rows(rows: int, clusters: int, plain: float, clustered: float) -> float:
    """Return the effective number of rows: independent rows with the same standard error as the clustered ones.

    `plain` is the standard error without clusters, `clustered` that with clusters. Kish, "Survey Sampling" (1965), 5.4:
    rows / (clustered / plain)², at most the number of rows. If all rows are equal (a plain error of 0), it is the
    number of clusters.

    Example: 200 rows with a clustered error of twice the plain one are worth 50 independent rows.
    """
    if plain == 0:
        return clusters
    return rows if clustered <= plain else rows * (plain / clustered) ** 2


# -- tests and intervals of counts of changed rows


def mcnemar(b: int, c: int) -> tuple[float, float]:
    """Return the exact p-value and the mid-p-value for b rows passed in one run only and c rows in the other only.

    The exact p-value is the chance of a result as extreme as b heads in b + c throws of a coin: McNemar, Psychometrika
    12 (1947), 153-157. Mid-p counts the observed result by half, which keeps the test's size near its nominal level:
    Fagerland, Lydersen and Laake, BMC Medical Research Methodology 13 (2013), 91. Without discordant rows both are 1.
    """
    n, k = b + c, min(b, c)
    if n == 0:
        return 1.0, 1.0

    observed = term = math.exp(log_half_binomial(k, n))
    tail = term

    # Each smaller count follows from the one before: C(n, k − 1) = C(n, k) · k / (n − k + 1). Terms below a double's
    # precision end the loop.
    for below in range(k, 0, -1):
        term *= below / (n - below + 1)
        tail += term
        if term < 1e-18 * tail:
            break

    exact = min(1.0, 2 * tail)
    # k heads and n − k heads are equally extreme, each with the chance `observed`. With b = c they are one result.
    return exact, 1 - observed / 2 if b == c else 2 * tail - observed


def tango(b: float, c: float, n: float, reach: float) -> tuple[float, float]:
    """Return the score interval of (c − b) / n, `reach` standard errors to either side; counts may be fractional.

    `b` of `n` rows passed in the base only, `c` in the new run only.

    Tango, "Equivalence test and confidence interval for the difference in proportions for the paired-sample design",
    Statistics in Medicine 17 (1998), 891-908. It contains all differences with a score statistic within ± reach, given
    the maximum likelihood estimate of the discordant share under each difference.
    """
    # The score falls as the difference grows from -1 to 1.
    low, _ = turning_point(lambda difference: tango_score(b, c, n, difference) <= reach, -1.0, 1.0)
    _, high = turning_point(lambda difference: tango_score(b, c, n, difference) <= -reach, -1.0, 1.0)
    return low, high


def tango_score(b: float, c: float, n: float, difference: float) -> float:
    """Return Tango's score statistic: how many standard errors (c − b) / n lies above a difference.

    `b` of `n` rows passed in the base only, `c` in the new run only.
    """
    linear = -b - c + (2 * n - c + b) * difference
    # The maximum likelihood estimate in Tango's paper (see `tango`) is the larger root of a quadratic equation.
    root = math.sqrt(max(0.0, linear**2 + 8 * n * b * difference * (1 - difference)))
    variance = n * (2 * (root - linear) / (4 * n) + difference * (1 - difference))

    # For example, the variance is 0 for a difference of 0 if no row changed. A gap of 0 fits; any other refutes it.
    gap = c - b - n * difference
    if variance > 0:
        return gap / math.sqrt(variance)
    return math.copysign(math.inf, gap) if gap else 0.0
