"""Several runs on the same rows: how far each may be from the best of the others, all of them at once."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy
from numpy.typing import NDArray

from tunecheck.statistics._results import CONFIDENCE, Result, normal_quantile
from tunecheck.statistics._samples import Codes, Floats, as_clusters

DRAWS = 20_000
_ROUNDING = 1e-12
_STEP, _STEPS = 0.01, 800


@dataclass(frozen=True, slots=True)
class Standing(Result):
    """One run's mean less that of the best of the others, with its part of the simultaneous intervals.

    `may_be_best` is whether it cannot be told from the best. Both ends are None where rows show no spread to judge by:
    of fewer than two rows, or clusters.
    """

    difference: float
    low: float | None
    high: float | None
    may_be_best: bool


def multiple_comparisons_with_the_best(
    scores: Floats,
    clusters: Codes | None = None,
    *,
    verdicts: bool = False,
    higher_is_better: bool = True,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> list[Standing]:
    """Each run's difference from the best of the others; all intervals hold at once with this confidence.

    Hsu, "Constrained simultaneous confidence intervals for multiple comparisons with the best", Annals of Statistics 12
    (1984), 1136-1144, for unequal errors as in Edwards and Hsu, "Multiple comparisons with the best treatment", JASA 78
    (1983), 965-971. The critical value of each run is the quantile of the largest of its t statistics against the
    others, by the Gaussian multiplier bootstrap over rows or clusters: Chernozhukov, Chetverikov and Kato, Annals of
    Statistics 41 (2013), 2786-2819. The mean of rows under such multipliers is normal, with the rows' covariance, so it
    is drawn as such, with Student's spread for few of them.

    Args:
        scores: of shape (rows, runs), two runs or more, without gaps.
        clusters: a number for every row; rows with equal ones are not independent.
        verdicts: whether the scores are passes and fails.
        higher_is_better: whether the best run has the highest mean.
        confidence: of all intervals together, between 0 and 1.
        seed: of the bootstrap.

    Raises:
        ValueError: a confidence not between 0 and 1, a label too many or too few, fewer than two runs.
    """
    normal_quantile(confidence)  # refuses what is not a confidence
    rows, runs = scores.shape
    if runs < 2:
        raise ValueError("a comparison with the best of the others needs at least two runs")
    sign = 1.0 if higher_is_better else -1.0
    means = sign * scores.mean(axis=0)
    apart = means[:, None] - means[None, :]
    numpy.fill_diagonal(apart, numpy.inf)
    differences = apart.min(axis=1)
    centred = sign * scores - means
    groups = as_clusters(clusters, rows)
    if groups is not None:
        centred = numpy.column_stack([groups.sums(column) for column in centred.T])
    units = len(centred)
    if units < 2:
        return [Standing(sign * float(value), None, None, may_be_best=True) for value in differences]
    covariance = centred.T @ centred * (units / (units - 1) / rows**2)
    reach = _critical_values(covariance, units - 1, confidence, seed)
    errors = _errors(covariance)
    if verdicts:
        errors = numpy.maximum(errors, _errors_of_verdicts(scores))
    widths = reach[:, None] * errors
    highs = (apart + widths).min(axis=1)
    possible = highs >= -_ROUNDING
    found = []
    for run in range(runs):
        rivals = [other for other in numpy.flatnonzero(possible).tolist() if other != run]
        low = min((float(apart[run, other] - widths[other, run]) for other in rivals), default=0.0)
        ends = sorted((sign * min(0.0, low), sign * max(0.0, float(highs[run]))))
        found.append(Standing(sign * float(differences[run]), ends[0], ends[1], bool(possible[run])))
    return found


def expected_optimism(scores: Floats, clusters: Codes | None = None) -> float | None:
    """Return how far the best of these runs' means is from its true one on average, if all runs are equal.

    This is the expected maximum of as many normal errors, those of a run's mean without the part that all runs share.

    Args:
        scores: of shape (rows, runs), without gaps.
        clusters: a number for every row; rows with equal ones are not independent.
    """
    rows, runs = scores.shape
    apart = scores - scores.mean(axis=1, keepdims=True)
    apart -= apart.mean(axis=0)
    groups = as_clusters(clusters, rows)
    if groups is not None:
        apart = numpy.column_stack([groups.sums(column) for column in apart.T])
    units = len(apart)
    if units < 2 or runs < 2:
        return None
    error: float = math.sqrt(float((apart**2).sum()) / (runs - 1) * units / (units - 1)) / rows
    chances: list[float] = [NormalDist().cdf(at * _STEP) ** runs for at in range(-_STEPS, _STEPS + 1)]
    below, above = chances[:_STEPS], chances[_STEPS:]
    highest: float = _STEP * (sum(1 - chance for chance in above) - sum(below))
    return error * highest


def _errors(covariance: Floats) -> Floats:
    """The standard errors of all differences of two means; 0 where rounding is all that is left."""
    variances = numpy.diag(covariance)
    squares = variances[:, None] + variances[None, :] - 2 * covariance
    squares[squares < _ROUNDING * variances.max(initial=0.0)] = 0.0
    errors: Floats = numpy.sqrt(squares)
    return errors


def _errors_of_verdicts(scores: Floats) -> Floats:
    """Those of differences of pass rates with one more row that changed in each direction.

    Without them few changed rows seem surer than they are: Bonett and Price, "Adjusted Wald confidence interval for a
    difference of binomial proportions based on paired data", Journal of Educational and Behavioral Statistics 37
    (2012), 479-488.
    """
    rows = len(scores) + 2
    only: NDArray[numpy.float64] = scores.T @ (1 - scores) + 1
    changed, apart = (only + only.T) / rows, (only - only.T) / rows
    errors: Floats = numpy.sqrt((changed - apart**2) / rows)
    return errors


def _critical_values(covariance: Floats, degrees: int, confidence: float, seed: int) -> Floats:
    """Of each run: what its largest t statistic against the others stays below with this confidence."""
    runs = len(covariance)
    random = numpy.random.Generator(numpy.random.PCG64(seed))
    values, vectors = numpy.linalg.eigh(covariance)
    roots = vectors * numpy.sqrt(numpy.maximum(values, 0.0))
    draws = random.standard_normal((DRAWS, runs)) @ roots.T
    draws /= numpy.sqrt(random.chisquare(degrees, DRAWS) / degrees)[:, None]
    errors = _errors(covariance)
    reach = numpy.empty(runs)
    for run in range(runs):
        others = errors[run] > 0
        if others.any():
            statistics = (draws[:, others] - draws[:, [run]]) / errors[run, others]
            reach[run] = numpy.quantile(statistics.max(axis=1), confidence)
        else:
            reach[run] = normal_quantile(confidence)
    return reach
