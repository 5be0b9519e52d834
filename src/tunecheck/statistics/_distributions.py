"""Quantiles of Student's t, tails of the normal, and the symmetric binomial: what the standard library has not."""

import math
from statistics import NormalDist

_STEPS = 200
_MANY, _RARE = 5_000, 1e-9
_LARGE = 100.0
"""From here on the ratio of two gamma functions comes from its series, without the loss of a difference of logs."""


def t_quantile(probability: float, degrees: float) -> float:
    """The value that Student's t with so many degrees of freedom stays under with this probability.

    Solved on the incomplete beta function (Abramowitz and Stegun 26.7.1, 26.5.8) by Newton's method between bounds,
    which takes the longer the more degrees there are: above 5,000 a series does. Relative error under 1e-10.

    Raises:
        ValueError: a probability that is not between 0 and 1, or degrees that are not above 0.
    """
    if not (0 < probability < 1 and 0 < degrees < math.inf):
        raise ValueError(f"no t quantile for the probability {probability!r} and {degrees!r} degrees of freedom")
    if probability == 0.5:
        return 0.0
    tail = min(probability, 1 - probability)
    if degrees > _MANY and tail > _RARE:
        return _near_normal(NormalDist().inv_cdf(probability), degrees)
    size = _solve(tail, abs(2 * probability - 1), degrees)
    return size if probability > 0.5 else -size


def _near_normal(z: float, degrees: float) -> float:
    """From the normal quantile (Abramowitz and Stegun 26.7.5); the next term is z¹¹ / degrees⁵ at most."""
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    fourth = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + first / degrees + second / degrees**2 + third / degrees**3 + fourth / degrees**4


def _solve(tail: float, centre: float, degrees: float) -> float:
    """The t > 0 above which `tail` lies and within ± which `centre` lies: on logarithms of whichever is smaller."""
    outside = tail < 0.25
    wanted = math.log(tail if outside else centre)
    low, high = -math.inf, math.inf
    at = math.log(NormalDist().inv_cdf(0.5 + centre / 2) if tail > 1e-12 else 8.0)
    for _ in range(_STEPS):
        t = math.exp(at)
        beyond, within = _areas(t, degrees)
        area = beyond / 2 if outside else within
        slope = t * _density(t, degrees) / area * (-1 if outside else 2)
        error = math.log(area) - wanted
        low, high = (at, high) if (error > 0) == outside else (low, at)
        step = at - error / slope
        if abs(step - at) < 1e-14 * max(1.0, abs(at)):
            return math.exp(step)
        # A power tail can throw Newton far out: never further than one factor of e past the known side.
        if low < step < high:
            at = step
        else:
            at = (low + high) / 2 if math.isfinite(low + high) else at + (1 if outside else -1)
    return math.exp(at)


def _density(t: float, degrees: float) -> float:
    return (
        math.exp(-(degrees + 1) / 2 * math.log1p(t * t / degrees))
        * _gamma_ratio(degrees / 2)
        / math.sqrt(degrees * math.pi)
    )


def _gamma_ratio(a: float) -> float:
    """Γ(a + ½) / Γ(a)."""
    if a < _LARGE:
        return math.exp(math.lgamma(a + 0.5) - math.lgamma(a))
    # Tricomi and Erdélyi (1951): the asymptotic series; at a = 100 the next term is under 1e-14.
    series = 1 - 1 / (8 * a) + 1 / (128 * a**2) + 5 / (1024 * a**3) - 21 / (32768 * a**4) - 399 / (262144 * a**5)
    return math.sqrt(a) * series


def _areas(t: float, degrees: float) -> tuple[float, float]:
    """P(|T| > t) and P(|T| < t): the first is I_x(degrees/2, ½) with x = degrees / (degrees + t²)."""
    a, x = degrees / 2, degrees / (degrees + t * t)
    if x < (a + 1) / (a + 2.5):
        outside = _front(t, degrees) / a * _fraction(x, a, 0.5)
        return outside, 1 - outside
    within = _front(t, degrees) * 2 * _fraction(t * t / (degrees + t * t), 0.5, a)
    return 1 - within, within


def _front(t: float, degrees: float) -> float:
    """x^a (1 − x)^½ / B(a, ½), of which both tails are multiples."""
    power = math.exp(-degrees / 2 * math.log1p(t * t / degrees))
    return power * (t / math.sqrt(degrees + t * t)) * _gamma_ratio(degrees / 2) / math.sqrt(math.pi)


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 + term * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + term / c
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return value


def normal_two_sided(z: float) -> float:
    """P(|Z| ≥ |z|) of a standard normal Z."""
    return math.erfc(abs(z) / math.sqrt(2))


def log_half_binomial(k: int, n: int) -> float:
    """The logarithm of the chance of k heads in n throws of a fair coin."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2)


def effective_rows(rows: int, clusters: int, plain: float, clustered: float) -> float:
    """As many independent rows as these are worth: those whose standard error would be the clustered one.

    Kish, "Survey Sampling" (1965), 5.4: rows / (clustered / plain)². No more than there are; of rows that are all
    alike (a plain error of 0), as many as there are clusters.
    """
    if plain == 0:
        return clusters
    return rows if clustered <= plain else rows * (plain / clustered) ** 2
