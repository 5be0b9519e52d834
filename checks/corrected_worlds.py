"""Judges of known error: how often the intervals of corrected pass rates hold the truth.

The run and its labelled rows are drawn from the same world: a share of good rows, a judge's sensitivity and
specificity. Each draw asks whether the test that the interval inverts accepts the truth. Draws whose labels correct
nothing (all of one kind, or a judge no better than chance) have no interval, and are counted apart. The interval was
chosen on judges of (.6, .6), (.7, .9), (.85, .85), (.9, .7), (.99, .9) and (.95, .99), 30, 100 and 500 labels and
shares of .05, .2, .5, .8 and .95; that its limits are simulated, on a few of the cells below that had held too often.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy
from numpy.typing import NDArray

from tunecheck.statistics._corrected import JudgedRows
from tunecheck.statistics._results import CONFIDENCE, normal_quantile

JUDGES = ((0.6, 0.99), (0.65, 0.75), (0.8, 0.95), (0.92, 0.8), (0.97, 0.97), (0.99, 0.6))
_PAIRS = 600
_DRAWS = 300
LABELS, SHARES, ROWS = (40, 75, 150, 400), (0.06, 0.3, 0.65, 0.94), 800

Floats = NDArray[numpy.float64]


def draws(
    random: numpy.random.Generator, count: int, share: float, right: float, wrong: float, labels: int
) -> tuple[Floats, Floats]:
    """Counts of labels, an array each, and how many of the run's rows pass."""
    good = random.binomial(labels, share, count)
    hits, false = random.binomial(good, right), random.binomial(labels - good, wrong)
    counts = numpy.array([hits, good - hits, false, labels - good - false], dtype=float)
    return counts, random.binomial(ROWS, share * right + (1 - share) * wrong, count).astype(float)


def coverage(counts: Floats, passed: Floats, share: float, *, shared: bool) -> tuple[float, float]:
    """The share of intervals that hold the truth, and of draws that have none."""
    value = JudgedRows(passed, ROWS, counts, shared).estimate()
    defined = ~numpy.isnan(value)
    judged, truth = JudgedRows(passed[defined], ROWS, counts[:, defined], shared), numpy.full(defined.sum(), share)
    of_truth, of_value = judged.statistic(truth), judged.statistic(value[defined])
    limits = judged.limits(truth, CONFIDENCE, draws=_DRAWS)
    return float((of_truth - of_value <= limits).mean()), float(1 - defined.mean())


def normal_coverage(counts: Floats, passed: Floats, share: float) -> float:
    """Of prediction-powered inference's own interval, without a judge's part: that of labels alone is no better."""
    n, pass_pass = counts.sum(axis=0), counts[0]
    with numpy.errstate(all="ignore"):
        truth, seen = (pass_pass + counts[1]) / n, (pass_pass + counts[2]) / n
        rate = passed / ROWS
        both = pass_pass / n - truth * seen
        power = numpy.clip(numpy.nan_to_num(both / (rate * (1 - rate)) / (1 + n / ROWS)), 0, 1)
        value = truth + power * (rate - seen)
        variance = (truth * (1 - truth) - 2 * power * both + power**2 * seen * (1 - seen)) / n
        variance = variance + power**2 * rate * (1 - rate) / ROWS
    return float((abs(value - share) <= normal_quantile(CONFIDENCE) * numpy.sqrt(variance)).mean())


def cells(count: int, seed: int) -> Iterator[tuple[float, float, int, float, float, float, float, float]]:
    """Judge, labels and share, and of that cell the coverage of each interval, in percent."""
    random = numpy.random.default_rng(seed)
    for right, specific in JUDGES:
        for labels in LABELS:
            for share in SHARES:
                labelled, passed = draws(random, count, share, right, 1 - specific, labels)
                held, none = coverage(labelled, passed, share, shared=False)
                powered, _ = coverage(labelled, passed, share, shared=True)
                plain = normal_coverage(labelled, passed, share)
                yield right, specific, labels, share, 100 * held, 100 * none, 100 * powered, 100 * plain


def paired_runs(
    random: numpy.random.Generator, share: float, lost: float, won: float, right: float, specific: float
) -> tuple[Floats, Floats, float]:
    """A judge's verdicts on two runs of 600 rows, and their true difference; a row that did not change is judged alike.

    `lost` of the good rows turn bad, `won` of the bad ones good.
    """
    base = random.random(_PAIRS) < share
    new = numpy.where(base, random.random(_PAIRS) >= lost, random.random(_PAIRS) < won)

    def judged(truth: NDArray[numpy.bool_]) -> NDArray[numpy.bool_]:
        passed: NDArray[numpy.bool_] = random.random(_PAIRS) < numpy.where(truth, right, 1 - specific)
        return passed

    before = judged(base)
    after = numpy.where(base == new, before, judged(new))
    return before.astype(float), after.astype(float), won * (1 - share) - lost * share
