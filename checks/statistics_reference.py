"""Runs in an environment with scipy and statsmodels: a list of questions in, their figures out, as JSON."""

import json
import math
import sys
import warnings
from typing import Any

import numpy
from scipy import optimize, stats  # type: ignore[import-untyped, import-not-found, unused-ignore]
from statsmodels.regression.linear_model import OLS  # type: ignore[import-untyped, import-not-found, unused-ignore]
from statsmodels.stats.contingency_tables import mcnemar  # type: ignore[import-untyped, import-not-found, unused-ignore]
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped, import-not-found, unused-ignore]
from statsmodels.stats.power import TTestPower  # type: ignore[import-untyped, import-not-found, unused-ignore]
from statsmodels.stats.proportion import proportion_confint  # type: ignore[import-untyped, import-not-found, unused-ignore]

warnings.simplefilter("ignore")  # the normal limit of few ranks


def t_quantile(probability: float, degrees: float) -> list[float]:
    found = stats.t.ppf(probability, degrees)
    return [found, stats.t.cdf(found, degrees)]


def binary(b: int, c: int) -> dict[str, float]:
    return {
        "mcnemar": mcnemar([[3, b], [c, 5]], exact=True).pvalue,
        "binomial": stats.binomtest(b, b + c, 0.5).pvalue,
        # Twice the tail with half of its last step: the definition, which neither package offers as a test.
        "mid": min(1.0, 2 * stats.binom.cdf(min(b, c), b + c, 0.5) - stats.binom.pmf(min(b, c), b + c, 0.5))
        if b != c
        else 1 - stats.binom.pmf(b, b + c, 0.5) / 2,
    }


def score_interval(b: int, c: int, n: int, confidence: float) -> list[float]:
    """Where the score statistic reaches the quantile; the likelihood under each difference is maximised numerically."""
    reach = stats.norm.ppf((1 + confidence) / 2)

    def statistic(difference: float) -> float:
        def loss(lost: float) -> float:
            chances = (lost, lost + difference, 1 - 2 * lost - difference)
            return -sum(
                count * math.log(max(chance, 1e-300))
                for count, chance in zip((b, c, n - b - c), chances, strict=True)
                if count
            )

        low, high = max(0.0, -difference), (1 - difference) / 2
        best = optimize.minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-13}).x
        return float((c - b - n * difference) / math.sqrt(n * (2 * best + difference - difference**2)))

    value, edge = (c - b) / n, 1e-9
    return [
        optimize.brentq(lambda at: statistic(at) - reach, -1 + edge, value - edge),
        optimize.brentq(lambda at: statistic(at) + reach, value + edge, 1 - edge),
    ]


def flips(values: list[float]) -> float:
    def total(x: Any, axis: int) -> Any:
        return numpy.sum(x, axis=axis)

    test = stats.permutation_test(
        (numpy.array(values),), total, permutation_type="samples", n_resamples=math.inf, vectorized=True
    )
    return float(test.pvalue)


def clustered(values: list[float], groups: list[int], confidence: float) -> dict[str, float]:
    # use_correction is C / (C − 1) here, where one mean is fitted; the quantile is t(C − 1).
    fit = OLS(values, numpy.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)
    low, high = fit.conf_int(1 - confidence)[0]
    return {"value": fit.params[0], "error": fit.bse[0], "low": low, "high": high}


def bca(values: list[float], confidence: float) -> list[float]:
    """At the confidence at which the normal quantile is √(n / (n − 1)) · t(n − 1)."""
    n = len(values)
    reach = math.sqrt(n / (n - 1)) * stats.t.ppf((1 + confidence) / 2, n - 1)
    found = stats.bootstrap(
        (numpy.array(values),),
        numpy.mean,
        method="BCa",
        n_resamples=50_000,
        confidence_level=2 * stats.norm.cdf(reach) - 1,
        batch=1_000,
        rng=numpy.random.default_rng(7),
    ).confidence_interval
    return [found.low, found.high]


def student(values: list[float], confidence: float) -> list[float]:
    return list(stats.t.interval(confidence, len(values) - 1, numpy.mean(values), stats.sem(values)))


def wilson(hits: int, n: int, confidence: float) -> list[float]:
    return list(proportion_confint(hits, n, alpha=1 - confidence, method="wilson"))


def holm(p_values: list[float]) -> list[float]:
    return list(multipletests(p_values, method="holm")[1])


def effect(n: int, power: float, alpha: float) -> float:
    return float(TTestPower().solve_power(nobs=n, alpha=alpha, power=power))


if __name__ == "__main__":
    json.dump([globals()[name](**question) for name, question in json.load(sys.stdin)], sys.stdout, default=float)
