"""Agreement of two raters on the same rows: a table of their classes, accuracy, and Cohen's kappa.

  classes (`Agreement`)                 accuracy, precision and recall with Wilson's interval; kappa
  scores (`score_agreement`)            kappa with quadratic weights, correlation, mean error
  labels and scores (`fit_threshold`)   the score from which rows should pass

The first rater is the reference: a person, if the second is a judge.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy
from msgspec.structs import replace

from tunecheck.statistics._estimates import Codes, Flags, Floats, as_floats, estimate_mean, is_constant
from tunecheck.statistics._results import CONFIDENCE, Estimate, Proportion, Result, normal_quantile, wilson


class Kappa(Result, frozen=True):
    """Cohen's kappa: 1 is full agreement, 0 agreement by chance.

    `value` and `standard_error` are None if kappa is not defined, `low` and `high` also if the standard error is 0.
    `remark` gives the reason for a missing or weak figure.
    """

    value: float | None
    low: float | None
    high: float | None
    standard_error: float | None
    remark: str | None = None


class Agreement:
    """Counts of pairs of classes, from the first rater (the reference) and the second rater.

    Example: both pass 40 rows and fail 40; the first passes and the second fails 12, the reverse is 8. They agree on
    80%; 50% were expected by chance (0.52 · 0.48 + 0.48 · 0.52 = 0.499), so kappa is 0.60.
    """

    def __init__(self, pairs: Mapping[tuple[str, str], int] | Iterable[tuple[str, str]]) -> None:
        """Count the classes of each rater, and the rows on which both agree.

        `pairs` are the classes of each row by the first and the second rater, or the number of rows by these pairs.
        """
        counts: Counter[tuple[str, str]] = Counter(pairs)
        self.counts = {pair: count for pair, count in counts.items() if count}
        self.first: Counter[str] = Counter()
        self.second: Counter[str] = Counter()
        for (first, second), count in self.counts.items():
            self.first[first] += count
            self.second[second] += count
        self.total = sum(self.counts.values())
        self.agreed = sum(count for (first, second), count in self.counts.items() if first == second)

    def accuracy(self, confidence: float = CONFIDENCE) -> Proportion:
        """Return the share of rows on which both raters agree."""
        return wilson(self.agreed, self.total, confidence)

    def precision(self, name: str, confidence: float = CONFIDENCE) -> Proportion:
        """Return the share of the second rater's rows of this class that the first rater puts into it, too."""
        return wilson(self.counts.get((name, name), 0), self.second[name], confidence)

    def recall(self, name: str, confidence: float = CONFIDENCE) -> Proportion:
        """Return the share of the first rater's rows of this class that the second rater puts into it, too."""
        return wilson(self.counts.get((name, name), 0), self.first[name], confidence)

    def kappa(self, confidence: float = CONFIDENCE) -> Kappa:
        """Return Cohen's kappa with its asymptotic interval, limited to -1 and 1.

        Figures that are not defined are None, with a remark. Cohen, "A coefficient of agreement for nominal scales",
        Educational and Psychological Measurement 20 (1960), 37-46.
        """
        if self.total == 0:
            return Kappa(None, None, None, None, "there are no rows to compare")
        # Agreement by chance is then certain: 1 − e is 0, and kappa 0 / 0.
        if self.agreed == self.total and len(self.counts) == 1:
            return Kappa(None, None, None, None, f"not defined: both raters give every row {next(iter(self.first))!r}")

        weights = numpy.array([first == second for first, second in self.counts], dtype=float)
        # The number of rows on which the other rater chose the class.
        first_sums = numpy.array([self.second[first] for first, _ in self.counts])
        second_sums = numpy.array([self.first[second] for _, second in self.counts])

        kappa = _kappa(weights, first_sums, second_sums, numpy.array([*self.counts.values()]), confidence)
        return replace(kappa, remark=self._one_class() or kappa.remark)

    def _one_class(self) -> str | None:
        """Return a remark if a rater uses only one class, else None."""
        for subject, counts in (("label", self.first), ("verdict", self.second)):
            if len(counts) == 1:
                return f"every {subject} is {next(iter(counts))!r}, so kappa is always 0"
        return None


def _kappa(
    weights: Floats, first_sums: Floats | Codes, second_sums: Floats | Codes, counts: Codes, confidence: float
) -> Kappa:
    """Return weighted kappa and its asymptotic interval, limited to -1 and 1.

    `counts` has the number of rows with each pair of classes or scores, and `weights` how far they agree, from 0 to 1.
    `first_sums` has the sum of the weights of the first rater's class against the second rater's classes of all rows,
    and `second_sums` the reverse.

    The variance is the form that does not assume a kappa of 0: Fleiss, Cohen and Everitt, "Large sample standard errors
    of kappa and weighted kappa", Psychological Bulletin 72 (1969), 323-327.
    """
    total = int(counts.sum())
    expected = float(counts @ first_sums) / total**2
    value = (float(counts @ weights) / total - expected) / (1 - expected)

    rest = 1 - value
    squares = float(counts @ (weights - (first_sums + second_sums) / total * rest) ** 2) / total
    spread = squares - (value - expected * rest) ** 2
    # Apart from rounding errors, the spread is 0 for full agreement and at some other extremes.
    if spread < _ROUNDING:
        return Kappa(value, None, None, 0.0, "no interval: the estimated error is 0")

    error = math.sqrt(spread / total) / (1 - expected)
    half = normal_quantile(confidence) * error
    return Kappa(value, max(-1.0, value - half), min(1.0, value + half), error)


# -- agreement of scores


_CONSTANT = "one rater gives every row the same score"
_ROUNDING = 1e-12
_FOLDS, _FEWEST = 10, 20  # folds of the cross-validation, and rows for at least two in each fold
_MOST_THRESHOLDS = 200  # each is compared with all rows at once, so more would need more memory

Pairs = Sequence[tuple[float, float]]
"""For each row, the first rater's score and the second rater's score."""


class ScoreAgreement(Result, frozen=True):
    """Agreement of scores; an error is the second rater's score minus the first rater's score."""

    weighted_kappa: Kappa
    correlation: Estimate
    mean_error: Estimate
    mean_absolute_error: float | None


def score_agreement(pairs: Pairs, confidence: float = CONFIDENCE) -> ScoreAgreement:
    """Return every measure of agreement between the two raters' scores; without rows, all are None."""
    first, second = (as_floats([pair[side] for pair in pairs]) for side in (0, 1))
    return ScoreAgreement(
        weighted_kappa(first, second, confidence),
        correlation(first, second, confidence),
        estimate_mean(second - first, confidence=confidence),
        float(numpy.abs(second - first).mean()) if pairs else None,
    )


def weighted_kappa(first: Floats, second: Floats, confidence: float = CONFIDENCE) -> Kappa:
    """Return kappa with quadratic weights and its interval: a disagreement counts by its squared difference.

    Cohen, "Weighted kappa", Psychological Bulletin 70 (1968), 213-220; the variance as in `_kappa`. Differences are
    those of the scores, not of their ranks.
    """
    if not len(first):
        return Kappa(None, None, None, None, "there are no rows to compare")

    widest = max(float(side.max()) for side in (first, second)) - min(float(side.min()) for side in (first, second))
    if not widest:
        return Kappa(None, None, None, None, f"not defined: both raters give every row {float(first[0]):g}")
    if is_constant(first) or is_constant(second):
        return Kappa(0.0, None, None, 0.0, f"{_CONSTANT}, so kappa is always 0")

    # A disagreement over the whole range has the weight 0, and full agreement the weight 1.
    scale = widest**2
    weights = 1 - (first - second) ** 2 / scale

    # The mean weight of each score against all scores of the other rater.
    first_weights = 1 - (first**2 - 2 * first * second.mean() + (second**2).mean()) / scale
    second_weights = 1 - (second**2 - 2 * second * first.mean() + (first**2).mean()) / scale
    counts = numpy.ones(len(first), dtype=numpy.int64)
    return _kappa(weights, first_weights * len(first), second_weights * len(first), counts, confidence)


def correlation(first: Floats, second: Floats, confidence: float = CONFIDENCE) -> Estimate:
    """Return Pearson's correlation with the interval of Fisher's z (standard error 1 / √(n − 3)).

    Fisher, "On the probable error of a coefficient of correlation deduced from a small sample", Metron 1 (1921), 3-32.
    The correlation is None if one rater gives every row the same score.
    """
    n, method = len(first), "Fisher's z"
    if not n or is_constant(first) or is_constant(second):
        remark = _CONSTANT if n else "there are no rows to compare"
        return Estimate(None, None, None, n, confidence, method, remark=remark)

    value = float(numpy.corrcoef(first, second)[0, 1])

    # The standard error 1 / √(n − 3) needs four rows, and ±1 has no finite z.
    if n < 4 or abs(value) == 1:
        return Estimate(value, None, None, n, confidence, method, remark="no interval: too few rows, or no spread")

    centre, half = math.atanh(value), normal_quantile(confidence) / math.sqrt(n - 3)
    return Estimate(value, math.tanh(centre - half), math.tanh(centre + half), n, confidence, method)


# -- thresholds


class FittedThreshold(Result, frozen=True):
    """The score from which a row should pass, so that verdicts agree best with labels.

    `accuracy` and `kappa` come from ten-fold cross-validation: each fold is judged by the best threshold of the nine
    others, because agreement on the rows that chose a threshold is too high.
    """

    threshold: float
    accuracy: Proportion
    kappa: Kappa


def fit_threshold(
    scores: Sequence[tuple[bool, float]], *, higher_is_better: bool = True, confidence: float = CONFIDENCE
) -> FittedThreshold | None:
    """Return the threshold with the highest kappa; if several are equal, the middle one.

    Return None for fewer than 20 rows, or if all labels are equal.

    Args:
        scores: for each row, True if people pass it, and its score.
        higher_is_better: True if rows pass at or above the threshold, False if at or below.
        confidence: level of the intervals.
    """
    labels = numpy.array([label for label, _ in scores], dtype=bool)
    if len(scores) < _FEWEST or labels.all() or not labels.any():
        return None

    # With lower scores as better, all signs are turned; the cut is turned back below.
    values = as_floats([score for _, score in scores]) * (1 if higher_is_better else -1)

    # Every fold gets its share of each label: every tenth passed row, then every tenth failed row.
    folds = numpy.empty(len(labels), dtype=numpy.int64)
    folds[numpy.argsort(~labels, kind="stable")] = numpy.arange(len(labels)) % _FOLDS

    held_out: list[tuple[str, str]] = []
    for fold in range(_FOLDS):
        inside = folds == fold
        passed = values[inside] >= _best_cut(labels[~inside], values[~inside])
        held_out += zip(labels[inside].astype(str).tolist(), passed.astype(str).tolist(), strict=True)

    # Every row is judged once, by a threshold that it did not help to choose.
    agreement = Agreement(held_out)
    best = _best_cut(labels, values) * (1 if higher_is_better else -1)
    return FittedThreshold(best, agreement.accuracy(confidence), agreement.kappa(confidence))


def _best_cut(labels: Flags, values: Floats) -> float:
    """Return the threshold with the highest kappa; if several have it, the middle one.

    Rows at or above it pass. `labels` tell which rows people pass. At most 200 of the scores in `values` are tried.
    """
    cuts = numpy.unique(values)
    # Evenly by rank, so that there are more cuts where scores are close together.
    if len(cuts) > _MOST_THRESHOLDS:
        cuts = cuts[numpy.linspace(0, len(cuts) - 1, _MOST_THRESHOLDS).astype(int)]

    passed = values >= cuts[:, None]
    right = numpy.count_nonzero(passed == labels, axis=1) / len(labels)
    chance = passed.mean(axis=1) * labels.mean() + (1 - passed.mean(axis=1)) * (1 - labels.mean())

    # If people and the cut both pass all rows, or none, chance agreement is 1 and kappa undefined: it counts as 0.
    kappas = numpy.where(chance < 1, (right - chance) / numpy.maximum(1 - chance, 1e-12), 0.0)
    # Kappas that differ by rounding errors are equal.
    best = numpy.flatnonzero(kappas >= kappas.max() - 1e-12)
    return float(cuts[best[len(best) // 2]])
