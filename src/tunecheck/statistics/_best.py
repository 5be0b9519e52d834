"""Several runs on the same rows: how far each may be from the best of the others, with simultaneous intervals.

A run may be the best if it is not shown to be worse than any other run. Example: pass rates of 70, 69 and 50% on 200
rows. The first two may be the best, with differences of +1 and −1 points; the third is 20 points behind.
"""

import math
from statistics import NormalDist

import numpy
from numpy.typing import NDArray

from tunecheck.statistics._estimates import Codes, Floats, as_clusters
from tunecheck.statistics._results import Result, normal_quantile

# Draws of all means for the critical values. At 95%, 1,000 of 20,000 draws lie beyond the quantile.
DRAWS = 20_000
_ROUNDING = 1e-12  # differences and variances this small, as shares of the largest, are rounding errors
_STEP, _STEPS = 0.01, 800  # the grid of the expected maximum: ±8 standard errors in steps of 0.01


class Standing(Result, frozen=True):
    """One run's mean minus the mean of the best other run, with a simultaneous interval.

    `may_be_best` is True if the run cannot be distinguished from the best run. `low` and `high` are None if there are
    fewer than two rows or clusters, because these show no spread.
    """

    difference: float
    low: float | None
    high: float | None
    may_be_best: bool


def multiple_comparisons_with_the_best(
    scores: Floats, clusters: Codes | None, *, verdicts: bool, higher_is_better: bool, confidence: float, seed: int
) -> list[Standing]:
    """Return each run's difference from the best of the others; all intervals hold at once with this confidence.

    Hsu, "Constrained simultaneous confidence intervals for multiple comparisons with the best", Annals of Statistics 12
    (1984), 1136-1144, for unequal errors as in Edwards and Hsu, "Multiple comparisons with the best treatment", JASA 78
    (1983), 965-971. The critical value of each run is the quantile of the largest of its t statistics against the
    others, by the Gaussian multiplier bootstrap over rows or clusters: Chernozhukov, Chetverikov and Kato, Annals of
    Statistics 41 (2013), 2786-2819. Under these multipliers the mean of the rows is normal, with the rows' covariance.
    Means are therefore drawn from that distribution, with Student's spread for small samples.

    Args:
        scores: of shape (rows, runs), two runs or more, without NaN.
        clusters: a number for every row; rows with equal numbers are not independent.
        verdicts: True if the scores are passes and fails.
        higher_is_better: True if the best run has the highest mean.
        confidence: level of all intervals together, between 0 and 1.
        seed: seed of the bootstrap.
    """
    rows, runs = scores.shape
    sign = 1.0 if higher_is_better else -1.0

    # From here on higher is better; `sign` turns the results back at the end.
    means = sign * scores.mean(axis=0)

    # gaps[i, j] is how much better run i is than run j. A run is not its own rival: infinity never is the smallest gap.
    gaps = means[:, None] - means[None, :]
    numpy.fill_diagonal(gaps, numpy.inf)
    differences = gaps.min(axis=1)

    centred = _sum_units(sign * scores - means, clusters)
    units = len(centred)
    if units < 2:
        return [Standing(sign * float(value), None, None, may_be_best=True) for value in differences]

    # The covariance of the means, from sums of units: rows or clusters (C / (C − 1) as in `RowGroups.mean_error`).
    covariance = centred.T @ centred * (units / (units - 1) / rows**2)

    critical_values = _critical_values(covariance, units - 1, confidence, seed)
    errors = _errors(covariance)
    if verdicts:
        errors = numpy.maximum(errors, _errors_of_verdicts(scores))

    # widths[i, j] is run i's critical value times the error of its gap to run j.
    widths = critical_values[:, None] * errors
    highs = (gaps + widths).min(axis=1)
    may_be_best = highs >= -_ROUNDING

    # Hsu's intervals are constrained: the upper end is at least 0, and the lower end at most 0. The lower end counts
    # only rivals that may be the best.
    standings = []
    for run in range(runs):
        rivals = [other for other in numpy.flatnonzero(may_be_best).tolist() if other != run]
        low = min((float(gaps[run, other] - widths[other, run]) for other in rivals), default=0.0)
        ends = sorted((sign * min(0.0, low), sign * max(0.0, float(highs[run]))))
        standings.append(Standing(sign * float(differences[run]), ends[0], ends[1], bool(may_be_best[run])))

    return standings


def expected_optimism(scores: Floats, clusters: Codes | None = None) -> float | None:
    """Return how much the best run's mean exceeds its true mean on average if all runs are equally good.

    This is the expected maximum of one normal error per run. The error leaves out the variation that all runs share.
    Return None for fewer than two runs, or fewer than two rows or clusters.

    Args:
        scores: of shape (rows, runs), without NaN.
        clusters: a number for every row; rows with equal numbers are not independent.
    """
    rows, runs = scores.shape

    # First the mean of each row, then that of each run is removed: the rest is noise if all runs are equally good.
    deviations = scores - scores.mean(axis=1, keepdims=True)
    deviations = _sum_units(deviations - deviations.mean(axis=0), clusters)
    units = len(deviations)
    if units < 2 or runs < 2:
        return None

    # The standard error of a mean from what remains; runs − 1, because the row's mean was removed.
    error: float = math.sqrt(float((deviations**2).sum()) / (runs - 1) * units / (units - 1)) / rows

    # The largest of the normal errors has the distribution F = Φ^runs. Its mean is the integral of 1 − F over the
    # positive numbers less the integral of F over the negative ones.
    chances: list[float] = [NormalDist().cdf(step * _STEP) ** runs for step in range(-_STEPS, _STEPS + 1)]
    below, above = chances[:_STEPS], chances[_STEPS:]
    highest: float = _STEP * (sum(1 - chance for chance in above) - sum(below))

    return error * highest


def _sum_units(scores: Floats, clusters: Codes | None) -> Floats:
    """Return the sum of each cluster's rows in each column; the rows themselves if all are independent."""
    groups = as_clusters(clusters, len(scores))
    return scores if groups is None else numpy.column_stack([groups.sums(column) for column in scores.T])


def _errors(covariance: Floats) -> Floats:
    """Return the standard errors of all differences of two means; 0 if only rounding errors are left."""
    variances = numpy.diag(covariance)
    squares = variances[:, None] + variances[None, :] - 2 * covariance
    # Two runs with the same scores differ by rounding errors only.
    squares[squares < _ROUNDING * variances.max(initial=0.0)] = 0.0
    errors: Floats = numpy.sqrt(squares)
    return errors


def _errors_of_verdicts(scores: Floats) -> Floats:
    """Return the standard errors of all differences of two pass rates, with one row added for each direction of change.

    Without the added rows the errors are too small if few rows changed: Bonett and Price, "Adjusted Wald confidence
    interval for a difference of binomial proportions based on paired data", Journal of Educational and Behavioral
    Statistics 37 (2012), 479-488.
    """
    rows = len(scores) + 2

    # only[i, j] counts the rows that run i passed and run j failed, and the added one.
    only: NDArray[numpy.float64] = scores.T @ (1 - scores) + 1
    changed, difference = (only + only.T) / rows, (only - only.T) / rows
    errors: Floats = numpy.sqrt((changed - difference**2) / rows)
    return errors


def _critical_values(covariance: Floats, degrees: int, confidence: float, seed: int) -> Floats:
    """Return for each run the quantile of its largest t statistic against the others, at this confidence.

    `covariance` is that of the runs' means. `degrees` are the degrees of freedom.
    """
    runs = len(covariance)
    random = numpy.random.Generator(numpy.random.PCG64(seed))

    # Normal draws times a root of the covariance have that covariance. Rounding may make an eigenvalue negative.
    values, vectors = numpy.linalg.eigh(covariance)
    roots = vectors * numpy.sqrt(numpy.maximum(values, 0.0))
    draws = random.standard_normal((DRAWS, runs)) @ roots.T

    # Dividing by the root of chi-squared / degrees turns normal draws into Student's t.
    draws /= numpy.sqrt(random.chisquare(degrees, DRAWS) / degrees)[:, None]
    errors = _errors(covariance)

    critical_values = numpy.empty(runs)
    for run in range(runs):
        # A run without any difference from another has no statistic against it.
        others = errors[run] > 0
        if others.any():
            statistics = (draws[:, others] - draws[:, [run]]) / errors[run, others]
            critical_values[run] = numpy.quantile(statistics.max(axis=1), confidence)
        else:
            critical_values[run] = normal_quantile(confidence)

    return critical_values
