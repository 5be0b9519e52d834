"""One run's figures with their intervals: pass rates, means, pass@k and pass^k.

Each figure has the interval of the first line that applies. "Same score" means the same within rounding errors. C is
the number of clusters; clusters of one row each count as no clusters.

A pass rate (`estimate_proportion`):

  1. no rows: no figure
  2. no clusters: Wilson's interval
  3. one cluster: no interval
  4. clusters: Wilson's interval for the effective number of rows, with t(C − 1) in place of the normal quantile

A mean (`estimate_mean`):

  1. no rows, or a score that is NaN, infinite or beyond ±1e100: no figure
  2. all rows have the same score: Wilson's limit on the share of other scores, times the range of the metric;
     no interval if the range is unknown or all rows are in one cluster
  3. one cluster: no interval
  4. clusters: Student's t(C − 1) on the clustered standard error
  5. fewer than 10 rows, or more than 5,000: Student's t(n − 1)
  6. all others: the BCa bootstrap, seeded and in bounded memory

Student's intervals end at the range of the metric, if it is known. Lines 4, 5 and 6 have an exception: if most rows
have the same score and fewer than 100 rows (or clusters) have another one, the interval is Student's with the degrees
of freedom of those others. An example is a difference of two runs in which few rows changed.

The module begins with the conversion of numbers to arrays, and of row labels to clusters. Callers check input of users.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from statistics import NormalDist

import msgspec
import numpy
from numpy.typing import NDArray

from tunecheck.statistics._distributions import effective_rows, t_quantile
from tunecheck.statistics._results import CONFIDENCE, Estimate, normal_quantile, wilson_interval

# -- arrays of numbers, and groups of rows

Floats = NDArray[numpy.float64]
Numbers = Sequence[float] | Floats
"""Scores, or verdicts as true and false or 1 and 0."""

Flags = NDArray[numpy.bool_]
Codes = NDArray[numpy.int64]
Labels = Sequence[Hashable] | Codes
"""A label for every row; numpy groups an array of whole numbers (`as_codes`) faster than other labels."""

# Scores are cubed (BCa's acceleration). A double ends at 1.8e308, so (1e100)³ = 1e300 still fits.
MOST = 1e100
"""The largest score accepted: the cube of a much larger one would overflow."""

# Relative to the larger of two scores: 0.3 − (0.1 + 0.2) is a change of 0, not of −5.6e-17.
_ROUNDING = 1e-12


class RowGroups(msgspec.Struct, frozen=True):
    """Groups of rows: `codes` has the number of each row's group, from 0 to `count` − 1.

    Example: the clusters a, b, a, c of four rows have the codes 0, 1, 0, 2 and the count 3.
    """

    codes: Codes
    count: int

    def sums(self, values: Floats) -> Floats:
        """Return the sum of the values in each group."""
        return numpy.bincount(self.codes, weights=values, minlength=self.count).astype(numpy.float64, copy=False)

    def mean_error(self, values: Floats) -> float | None:
        """Return the cluster-robust standard error of the mean; None for fewer than two groups.

        Liang and Zeger, Biometrika 73 (1986), 13-22, with the factor C / (C − 1) for few groups; for evaluations:
        Miller, "Adding Error Bars to Evals" (2024), arXiv 2411.00640.
        """
        if self.count < 2:
            return None

        # Errors of rows in one cluster may add up, so the sums of clusters vary, not the single rows.
        sums = self.sums(values - values.mean())
        return float(numpy.sqrt(self.count / (self.count - 1) * (sums @ sums))) / len(values)


def as_floats(values: Numbers) -> Floats:
    """Return an array of floats.

    Raises:
        TypeError, ValueError: a value is not a number.
    """
    return numpy.ascontiguousarray(values, dtype=numpy.float64).reshape(-1)


def as_codes(labels: Iterable[Hashable]) -> Codes:
    """Return a number for each row; rows with equal labels get equal numbers, a row labelled None gets its own.

    Example: the labels x, None, x, None have the codes 0, 1, 0, 2.
    """
    # No label of the caller equals this object, so the keys of rows without a label never meet other keys.
    known: dict[Hashable, int] = {}
    alone = object()
    codes = [known.setdefault((alone, row) if label is None else label, len(known)) for row, label in enumerate(labels)]
    return numpy.asarray(codes, dtype=numpy.int64)


def as_clusters(labels: Labels | None, rows: int) -> RowGroups | None:
    """Group rows with equal labels; a row labelled None is a group by itself.

    Return None without labels or if no group has two rows: then all rows are independent.
    """
    if labels is None:
        return None

    # Codes made by `as_codes` are grouped as they are; all other labels get codes first.
    known = labels if isinstance(labels, numpy.ndarray) and labels.dtype.kind == "i" else as_codes(labels)
    numbers, codes = numpy.unique(known, return_inverse=True)
    return None if len(numbers) == rows else RowGroups(codes.reshape(-1), len(numbers))


def differences(base: Floats, new: Floats) -> Floats:
    """Return new − base for each row, as 0 within rounding errors."""
    # An infinite value may give any change: callers look for it with `problem`, in base and new.
    with numpy.errstate(invalid="ignore", over="ignore"):
        change = new - base
        change[numpy.abs(change) <= _ROUNDING * numpy.maximum(numpy.abs(base), numpy.abs(new))] = 0.0
    return change


def problem(*samples: Floats) -> str | None:
    """Return the reason why nothing can be calculated from these samples, or None."""
    for values in samples:
        usable = numpy.abs(values) <= MOST
        if not usable.all():
            position = int((~usable).argmax())
            return f"value {position} is {float(values[position])!r}: not finite, or too large for a mean"
    return None


# -- the bootstrap

# Samples of one bootstrap. At 95% confidence, each end of the interval has 250 of the 10,000 means beyond it.
RESAMPLES = 10_000
_AT_ONCE = 1 << 16  # rows that are drawn together: half a megabyte for each array
_TIE = 1e-12  # of the largest score: means that differ by less are equal but for rounding errors


def resampled_means(columns: Floats, resamples: int, seed: int) -> Floats:
    """Return the means of `resamples` samples of rows with replacement: shape (resamples, columns).

    `columns` has the shape (rows, columns); each sample takes the same rows of all columns. A sample is stored as a
    count for each row, so that all means of a chunk are one product of matrices.
    """
    rows = len(columns)
    random = numpy.random.Generator(numpy.random.PCG64(seed))

    # All samples at once would need resamples × rows numbers: 400 MB for 5,000 rows.
    together = max(1, _AT_ONCE // rows)
    sums = numpy.empty((resamples, columns.shape[1]))
    for start in range(0, resamples, together):
        count = min(together, resamples - start)
        drawn = random.integers(0, rows, size=(count, rows))

        # Each sample gets its own range of numbers, so that one count over all of them serves the whole chunk.
        drawn += numpy.arange(count)[:, None] * rows
        times = numpy.bincount(drawn.ravel(), minlength=count * rows).reshape(count, rows)
        # (samples, rows) @ (rows, columns): the sum of each sample in each column.
        sums[start : start + count] = times.astype(numpy.float64) @ columns

    return sums / rows


def bca_intervals(columns: Floats, confidence: float, seed: int, resamples: int) -> list[tuple[float, float]]:
    """Return the BCa interval of the mean of each column; each needs two rows or more and must not be constant.

    Efron, "Better bootstrap confidence intervals", JASA 82 (1987), 171-185. √(n / (n − 1)) · t(n − 1) replaces the
    normal quantile, because otherwise the intervals of few rows are too narrow: Hesterberg, "What teachers should know
    about the bootstrap", The American Statistician 69 (2015), 371-386, section 5.3.
    """
    rows = len(columns)
    reach = math.sqrt(rows / (rows - 1)) * t_quantile((1 + confidence) / 2, rows - 1)

    means = resampled_means(columns, resamples, seed)
    return [_bca(columns[:, column], means[:, column], reach) for column in range(columns.shape[1])]


def _bca(values: Floats, means: Floats, reach: float) -> tuple[float, float]:
    """Return the BCa interval of the mean of `values`, which must not all be equal, given its bootstrap `means`.

    `reach` is the half-width of the interval in standard errors, before the corrections.

    The two corrections of a plain percentile interval: `bias` is the normal quantile of the share of bootstrap means
    below the mean; `acceleration` is a sixth of the skewness of the mean.
    """
    centre = values - values.mean()
    spread = float(centre @ centre)
    acceleration = float((centre**3).sum()) / (6 * spread**1.5)
    tie = _TIE * float(numpy.abs(values).max())

    # Means equal to the observed mean count half: once if they are below, once if they are below or equal.
    below = numpy.count_nonzero(means < values.mean() - tie) + numpy.count_nonzero(means <= values.mean() + tie)
    # A share of 0 or 1 has no normal quantile, so the share is kept half a sample away from both.
    normal, share = NormalDist(), below / (2 * len(means))
    bias = normal.inv_cdf(min(max(share, 0.5 / len(means)), 1 - 0.5 / len(means)))

    def level(side: float) -> float:
        """Return the share of bootstrap means below the interval's end, which is `side` standard errors away."""
        shrink = 1 - acceleration * (bias + side)
        if shrink <= 0:  # only with two or three rows: the level is so extreme that it includes the whole distribution
            return 0.0 if side < 0 else 1.0
        return normal.cdf(bias + (bias + side) / shrink)

    low, high = numpy.quantile(means, [level(-reach), level(reach)])
    return float(low), float(high)


# -- estimates

NO_SPREAD = "all scores are the same: they show no spread"
ONE_CLUSTER = "all rows are of one cluster: the spread between clusters is unknown"

LEAST_RESAMPLED, MOST_RESAMPLED = 10, 5_000
"""The numbers of rows between which the mean's interval may be a bootstrap (see `estimate_mean`).

Fewer rows show too few different scores for a bootstrap; for more rows Student's interval is the same."""

Bounds = tuple[float, float]

_FEW = 100  # with fewer rows that have another score, bootstrap intervals are too narrow: `_degrees_of_freedom`
_DIGITS = 12  # decimals to which scores, as shares of the largest one, are compared; the rest may be rounding
_VANISHING = 1e-100  # differences this small count as 0: their cubes (1e-300) nearly underflow a double


def estimate_proportion(
    outcomes: Numbers, clusters: Labels | None = None, *, confidence: float = CONFIDENCE
) -> Estimate:
    """Estimate the share of rows that passed, with Wilson's interval.

    With clusters, the interval uses the effective number of rows and the t(C − 1) quantile: Korn and Graubard,
    "Confidence intervals for proportions with small expected number of positive counts estimated from survey data",
    Survey Methodology 24 (1998), 193-201. If all rows are equal, the effective number is that of the clusters.

    Args:
        outcomes: 1 or true for a row that passed, 0 or false for one that did not.
        clusters: a label for every row; rows with equal labels are not independent.
        confidence: level of the two-sided interval, between 0 and 1.
    """
    values = as_floats(outcomes)
    return share(values, as_clusters(clusters, len(values)), confidence)


def share(values: Floats, groups: RowGroups | None, confidence: float) -> Estimate:
    """Return the estimate of `estimate_proportion` for an array of 0 and 1.

    `groups` has the clusters of the rows; None if all rows are independent.
    The standard error of independent rows is √(p (1 − p) / n), with the pass rate p. Without rows, the estimate has no
    value.
    """
    value = float(values.mean()) if len(values) else 0.0
    return with_score_interval(
        values, groups, confidence, "Wilson", lambda rows, reach: wilson_interval(value, rows, reach)
    )


def with_score_interval(
    values: Floats, groups: RowGroups | None, confidence: float, method: str, interval: Callable[[float, float], Bounds]
) -> Estimate:
    """Return the mean of rows with a score interval; with groups, for the effective number of rows.

    `interval` takes a number of rows and a half-width in standard errors; `method` is its name in the result. With a
    single cluster there is no interval.
    """
    n = len(values)
    if not n:
        return Estimate(None, None, None, 0, confidence, method, remark="there are no rows")

    value, plain_error = float(values.mean()), float(values.std()) / math.sqrt(n)
    if groups is None:
        return Estimate(value, *interval(n, normal_quantile(confidence)), n, confidence, method, plain_error)

    error = groups.mean_error(values)
    if error is None:
        return Estimate(value, None, None, n, confidence, method, None, groups.count, ONE_CLUSTER)

    # Correlated rows are worth fewer independent ones: `effective_rows` divides by the square of both errors' ratio.
    worth = effective_rows(n, groups.count, plain_error, error)
    ends = interval(worth, t_quantile((1 + confidence) / 2, groups.count - 1))
    return Estimate(value, *ends, n, confidence, f"{method}, effective rows", error, groups.count)


def estimate_mean(
    values: Numbers,
    clusters: Labels | None = None,
    *,
    bounds: Bounds | None = None,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Estimate the mean with its interval. The first of these cases determines the interval:

    * All rows have the same score: Wilson's limit on the share of other scores, within `bounds`; none without them.
    * With clusters: Student's t(C − 1) on the clustered standard error; if few clusters have another score, fewer
      degrees of freedom. A single cluster has no interval.
    * Most rows have the same score and fewer than 100 have another one: Student's, with the degrees of freedom of
      those that have another one.
    * There are fewer than 10 rows, or more than 5,000: Student's t(n − 1).
    * Otherwise: a seeded BCa bootstrap.

    Args:
        values: scores; if one is NaN, infinite or beyond ±1e100, the estimate has no figures.
        clusters: a label for every row; rows with equal labels are not independent.
        bounds: the lowest and the highest score that the metric can give.
        confidence: level of the two-sided interval, between 0 and 1.
        seed: seed of the bootstrap; the same seed gives the same interval.
        resamples: number of bootstrap samples.
    """
    floats = as_floats(values)
    return means([(floats, bounds)], as_clusters(clusters, len(floats)), confidence, (seed, resamples))[0]


def means(
    columns: Sequence[tuple[Floats, Bounds | None]], groups: RowGroups | None, confidence: float, draws: tuple[int, int]
) -> list[Estimate]:
    """Return the estimates of `estimate_mean` for several scores of the same rows, which are resampled together.

    `columns` has scores, each with their range or None. `groups` has the clusters of the rows, None if all rows are
    independent. `draws` are the seed and the number of bootstrap samples.
    Columns that need the bootstrap share one set of samples: a comparison draws its rows once for the base, for the new
    run and for the difference.
    """
    scores = [values for values, _ in columns]
    n = len(scores[0])

    remark = problem(*scores) or (None if n else "there are no rows")
    if remark is not None:
        return [Estimate(None, None, None, n, confidence, "none", remark=remark) for _ in columns]

    degrees = [_degrees_of_freedom(values, groups) for values in scores]
    resampled = [column for column, values in enumerate(scores) if _is_bootstrapped(values, groups, degrees[column])]

    intervals: dict[int, Bounds] = {}
    if resampled:
        together = numpy.column_stack([scores[column] for column in resampled])
        intervals = dict(zip(resampled, bca_intervals(together, confidence, *draws), strict=True))

    return [
        _mean(values, limits, groups, confidence, degrees[column], intervals.get(column))
        for column, (values, limits) in enumerate(columns)
    ]


def _degrees_of_freedom(values: Floats, groups: RowGroups | None) -> int:
    """Return the degrees of freedom of the spread: the number of rows or clusters less one.

    If most rows share one score (such as a change of 0), only the other rows determine the spread. If they are fewer
    than 100, and less than half of all rows or clusters, the degrees are their number less one. For such rows,
    bootstrap intervals are too narrow: with ten changed rows of 200, a 95% interval covers 75% to 90%
    (`benchmarks/comparison_coverage.py`).

    Example: 190 of 200 rows did not change, ten changed. The result is 9, not 199.
    """
    # Values that differ only by rounding errors count as equal.
    # The divisor is at least 1e-100: scores that are all 0 are not divided by 0.
    rounded = numpy.round(values / max(float(numpy.abs(values).max()), _VANISHING), _DIGITS)
    _, kinds, counts = numpy.unique(rounded, return_inverse=True, return_counts=True)
    differs = kinds != counts.argmax()

    # A cluster counts as different if at least one of its rows is.
    if groups is None:
        units, differing = len(values), int(numpy.count_nonzero(differs))
    else:
        units, differing = groups.count, int(numpy.count_nonzero(groups.sums(differs.astype(numpy.float64))))

    most_are_equal = 2 * int(counts.max()) > len(values) and 2 * differing < units
    return max(1, differing - 1) if most_are_equal and differing < _FEW else units - 1


def _is_bootstrapped(values: Floats, groups: RowGroups | None, degrees: int) -> bool:
    """Return whether the interval of the mean is a bootstrap: without clusters, for 10 to 5,000 rows that differ.

    `degrees` are the degrees of freedom.
    """
    # The degrees are below n − 1 if only few rows have another score than most.
    few_differ = degrees < len(values) - 1
    is_in_reach = LEAST_RESAMPLED <= len(values) <= MOST_RESAMPLED
    return groups is None and is_in_reach and not few_differ and not is_constant(values)


def is_constant(values: Floats) -> bool:
    """Return whether all values are equal, or differ so little that powers of the differences may underflow."""
    centre = values - values.mean()
    size = float(numpy.abs(centre).max())
    # The mean of equal values may differ from them by some units in the 16th digit.
    # Doubles have a relative rounding error of 2⁻⁵³, so 1e-14 is about 90 roundings of the mean.
    return size <= 1e-14 * float(numpy.abs(values).max()) or size < _VANISHING


def _mean(
    values: Floats, limits: Bounds | None, groups: RowGroups | None, confidence: float, degrees: int, bca: Bounds | None
) -> Estimate:
    """Return the estimate of a mean, with its bootstrap interval `bca` if there is one, else with Student's.

    Equal scores have the interval of `_constant_mean`, and a single cluster has none. `limits` is the metric's range.
    `degrees` are the degrees of freedom of Student's t.
    """
    n, clusters = len(values), None if groups is None else groups.count
    if is_constant(values):
        return _constant_mean(float(values[0]), n, clusters, limits, confidence)

    value = float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(n) if groups is None else groups.mean_error(values)

    if error is None:
        return Estimate(value, None, None, n, confidence, "none", None, clusters, ONE_CLUSTER)

    if bca is not None:
        return Estimate(value, *bca, n, confidence, "BCa bootstrap", error)

    half = t_quantile((1 + confidence) / 2, degrees) * error
    low, high = value - half, value + half
    if limits is not None:  # clip the interval to the range, but never exclude the value itself
        low, high = max(low, min(limits[0], value)), min(high, max(limits[1], value))

    method = f"t({degrees})" if clusters is None else f"clustered t({degrees})"
    return Estimate(value, low, high, n, confidence, method, error, clusters)


def _constant_mean(value: float, n: int, clusters: int | None, bounds: Bounds | None, confidence: float) -> Estimate:
    """Return the estimate of a mean if all scores are the same; it has an interval only within known, finite bounds.

    `n` is the number of rows, `clusters` the number of clusters, or None without clusters. The share of rows with
    another score is at most Wilson's upper limit for 0 of n rows or clusters, and no score is beyond the bounds.

    Example: 40 rows of 40 have the score 1, and scores range from 0 to 1. Wilson's upper limit for 0 of 40 is 0.088, so
    the interval is 0.912 to 1.
    """
    # The rows of a single cluster are not independent, so they have no interval.
    if bounds is not None and clusters != 1 and -math.inf < bounds[0] <= value <= bounds[1] < math.inf:
        _, other = wilson_interval(0.0, clusters or n, normal_quantile(confidence))
        ends = value - other * (value - bounds[0]), value + other * (bounds[1] - value)
        return Estimate(value, *ends, n, confidence, "Wilson, for equal scores", 0.0, clusters)

    # Without an interval, an error of 0 says that the scores did not vary; one row cannot say even that.
    if n == 1:
        return Estimate(value, None, None, n, confidence, "none", None, clusters, "there is only one row")
    return Estimate(value, None, None, n, confidence, "none", 0.0, clusters, NO_SPREAD)


# -- pass@k and pass^k: several trials of one item passing at least once, or always

Trials = Sequence[tuple[int, int]]
"""For each item, the number of trials that passed and the number of trials."""


def pass_at_k(trials: Trials, k: int) -> float | None:
    """Return the chance that at least one of k trials of an item passes, averaged over the items.

    The unbiased estimate from c passes in n trials is 1 − C(n − c, k) / C(n, k): Chen and others, "Evaluating large
    language models trained on code" (2021), arXiv 2107.03374, equation 1. Items with fewer than k trials are left out;
    if no items remain, return None.

    Example: of 4 trials of one item 2 passed. For k = 2, C(2, 2) / C(4, 2) = 1/6 of the pairs of trials have no pass,
    so the chance is 5/6.
    """
    return _mean_chance(trials, k, lambda c, n: 1 - math.comb(n - c, k) / math.comb(n, k))


def pass_hat_k(trials: Trials, k: int) -> float | None:
    """Return the chance that all of k trials of an item pass, averaged over the items: pass^k.

    The unbiased estimate from c passes in n trials is C(c, k) / C(n, k): Yao and others, "τ-bench" (2024), arXiv
    2406.12045, section 3. Items with too few trials, and None, are as in `pass_at_k`.

    Example: for 2 passed of 4 trials and k = 2, one of six pairs of trials passes twice: 1/6.
    """
    return _mean_chance(trials, k, lambda c, n: math.comb(c, k) / math.comb(n, k))


def _mean_chance(trials: Trials, k: int, chance: Callable[[int, int], float]) -> float | None:
    """Return the mean of `chance(passed, trials)` over items with k trials or more; None if there are none."""
    values = numpy.array([chance(passed, count) for passed, count in trials if count >= k])
    if not len(values):
        return None

    # The mean of equal chances may be off by a rounding error; one of them is exact.
    return float(values[0] if is_constant(values) else values.mean())
