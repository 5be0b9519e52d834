"""Pass rates and differences of pass rates, corrected for a judge's errors as measured with human labels.

  labels of                  estimate                              interval
  other rows                 `rogan_gladen`                        score test
  the run's own rows         `prediction_powered`                  score test
  a difference of two runs   `corrected_difference`: divided by    MOVER for a ratio
                             the judge's gain

There is no estimate without labels, and for the first and the third if people passed all or no labelled rows, or if the
judge's gain is not above 0 (`LabelCounts.problem`). The gain is sensitivity + specificity − 1.

The score interval of a rate contains each share that fits all verdicts and labels (`JudgedRows`). For one share,
`_rates` finds the judge's likeliest error rates, `statistic` the test statistic and `limits` its critical value.
`interval` searches the two ends.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Self

import msgspec
import numpy
from msgspec.structs import replace

from tunecheck.statistics._estimates import Flags, Floats
from tunecheck.statistics._results import CONFIDENCE, Estimate, Proportion, Result, normal_quantile, wilson

_STEPS, _REFINEMENTS = 40, 4  # the search for an end of an interval: steps of a grid, and how often it is refined
_HALVINGS = 34  # bisections until the judge's pass rate has about ten digits
_PLACES, _DRAWS, _SEED = 10, 2_000, 0  # critical values: shares at which they are simulated, samples for each share
_MARGIN = 1.5  # times the square of the normal quantile: the search for the interval's ends stops at this statistic
_TINY = 1e-12  # least distance of shares and rates from 0 and 1, and least divisor

ONE_SIDED_LABELS = "every label is {}: how often the judge errs on other rows is unknown"
NO_BETTER_THAN_CHANCE = "the judge is no better than chance on the labels, so its verdicts cannot be corrected"


class LabelCounts(Result, frozen=True):
    """Counts of labelled rows: the first word of each name is the human label, the second the judge's verdict.

    Example: `pass_fail` counts rows that people passed and the judge failed.
    """

    pass_pass: int
    pass_fail: int
    fail_pass: int
    fail_fail: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        """Count the pairs of label and verdict, each `pass` or `fail`."""
        counts = Counter(pairs)
        return cls(counts["pass", "pass"], counts["pass", "fail"], counts["fail", "pass"], counts["fail", "fail"])

    @property
    def total(self) -> int:
        """The number of labelled rows."""
        return self.pass_pass + self.pass_fail + self.fail_pass + self.fail_fail

    def sensitivity(self, confidence: float = CONFIDENCE) -> Proportion:
        """Return the share of the rows passed by people that the judge passes."""
        return wilson(self.pass_pass, self.pass_pass + self.pass_fail, confidence)

    def false_passes(self, confidence: float = CONFIDENCE) -> Proportion:
        """Return the share of the rows failed by people that the judge passes: 1 − specificity."""
        return wilson(self.fail_pass, self.fail_pass + self.fail_fail, confidence)

    @property
    def problem(self) -> str | None:
        """The reason why these labels cannot correct anything, or None."""
        if not self.pass_pass + self.pass_fail:
            return ONE_SIDED_LABELS.format("fail")
        if not self.fail_pass + self.fail_fail:
            return ONE_SIDED_LABELS.format("pass")
        return None if self.gain > 0 else NO_BETTER_THAN_CHANCE

    @property
    def gain(self) -> float:
        """Youden's index: sensitivity + specificity − 1.

        In the judge's verdicts, a true difference appears multiplied by this index. Example: a judge that passes 90% of
        good rows and 20% of bad ones has a gain of 0.7. A true difference of 10 points shows as 7 points.
        """
        return (self.sensitivity().value or 0.0) - (self.false_passes().value or 0.0)


def rogan_gladen(passed: float, rows: float, labelled: LabelCounts, confidence: float = CONFIDENCE) -> Estimate:
    """Estimate the share of rows that people would pass from a judge's verdicts and its error rates on other rows.

    With the judge's pass rate p, it is (p + specificity − 1) / (sensitivity + specificity − 1), kept within 0 and 1.
    The formula is from Rogan and Gladen, "Estimating prevalence from the results of a screening test", American Journal
    of Epidemiology 107 (1978), 71-76. The interval (`JudgedRows.interval`) covers the sampling error of the pass rate,
    the sensitivity and the specificity.

    Example: the judge passes 62% of all rows, 90% of good rows and 20% of bad ones. The estimate is 0.42 / 0.7 = 60%.

    Args:
        passed: number of rows that the judge passes; for clustered rows the effective number, which may be fractional.
        rows: number of rows that the judge judged; effective, like `passed`, for clustered rows.
        labelled: counts of rows of the same kind that people have labelled, none of them among `rows`.
        confidence: level of the two-sided interval.
    """
    method, n = "Rogan–Gladen", round(rows)
    if labelled.problem is not None or rows <= 0:
        remark = labelled.problem or "there are no rows"
        return Estimate(None, None, None, n, confidence, method, remark=remark)

    counts = _counts_array(labelled)
    # Clipped to 0 and 1, because a sample may show fewer passes than the judge's false passes alone.
    value = float(_rogan_gladen_rate(passed / rows, counts))
    low, high = JudgedRows(passed, rows, counts, shared=False).interval(value, confidence)
    return Estimate(value, low, high, n, confidence, method)


def prediction_powered(passed: float, rows: float, labelled: LabelCounts, confidence: float = CONFIDENCE) -> Estimate:
    """Estimate the share of rows that people would pass, from labels of a random sample of these rows.

    The estimate is the share of labelled rows that people passed, plus λ times the difference between the judge's pass
    rates on the unlabelled and on the labelled rows: Angelopoulos, Duchi and Zrnic, "PPI++: Efficient
    prediction-powered inference" (2023), arXiv 2311.01453, λ as in their section 6. Their interval needs many labels:
    for a share of 0.05 and 30 labelled rows its 95% interval covers only three times in four. `JudgedRows.interval`,
    used here, covers as often as its confidence says (`benchmarks/corrected_coverage.py`).

    Args:
        passed: number of rows without a label that the judge passes; may be fractional.
        rows: number of rows without a label.
        labelled: counts of the labelled rows; people passed and the judge failed those of `pass_fail`.
        confidence: level of the two-sided interval.
    """
    method, n = "prediction-powered", round(rows) + labelled.total
    if not labelled.total:
        return Estimate(None, None, None, n, confidence, method, remark="no row has a label")

    counts = _counts_array(labelled)
    value = float(_prediction_powered_rate(passed, rows, counts))
    low, high = JudgedRows(passed, rows, counts, shared=True).interval(value, confidence)
    return Estimate(value, low, high, n, confidence, method)


def errors_alike(base: LabelCounts, new: LabelCounts) -> float | None:
    """Return the p-value of a test whether a judge errs equally often on two sets of labelled rows.

    Return None if neither kind of label, pass or fail, is in both sets.

    The sensitivity and the specificity are each tested with Fisher's exact test, two-sided. The test sums the tables
    that are no more likely than the observed one: Fisher, "The logic of inductive inference", Journal of the Royal
    Statistical Society 98 (1935), 39-82. The smaller p-value is multiplied by the number of tests (Bonferroni).
    """
    tables = (
        (base.pass_pass, base.pass_fail, new.pass_pass, new.pass_fail),
        (base.fail_pass, base.fail_fail, new.fail_pass, new.fail_fail),
    )

    p_values = [_fisher_p_value(*table) for table in tables if any(table[:2]) and any(table[2:])]
    return min(1.0, len(p_values) * min(p_values)) if p_values else None


def _fisher_p_value(hits: int, misses: int, other_hits: int, other_misses: int) -> float:
    """Return the two-sided p-value of Fisher's exact test of equal shares of hits in two samples.

    Example: the judge passes 9 of 10 good rows in one set and 4 of 10 in the other. Then p is 0.057.
    """
    rows, other_rows, all_hits = hits + misses, other_hits + other_misses, hits + other_hits
    possible = range(max(0, all_hits - other_rows), min(rows, all_hits) + 1)
    # In how many ways the hits can be distributed so that this many are in the first sample.
    ways = {number: math.comb(rows, number) * math.comb(other_rows, all_hits - number) for number in possible}
    return sum(count for count in ways.values() if count <= ways[hits]) / math.comb(rows + other_rows, all_hits)


def _counts_array(labelled: LabelCounts) -> Floats:
    """Return the four counts as an array, in the order of the fields."""
    return numpy.array(msgspec.structs.astuple(labelled), dtype=float)


def _rogan_gladen_rate(rate: Floats | float, counts: Floats) -> Floats:
    """Return the corrected rate for the judge's pass rate; NaN if the judge is no better than chance on the labels.

    `counts` has the four counts of `LabelCounts` (label first, then verdict), or an array of simulated counts for each.
    """
    pass_pass, pass_fail, fail_pass, fail_fail = counts
    # Drawn labels may all be passes or all fails; then a rate is 0 / 0.
    with numpy.errstate(divide="ignore", invalid="ignore"):
        sensitivity, false_passes = pass_pass / (pass_pass + pass_fail), fail_pass / (fail_pass + fail_fail)
        corrected = (rate - false_passes) / (sensitivity - false_passes)
    return numpy.where(sensitivity > false_passes, numpy.clip(corrected, 0.0, 1.0), numpy.nan)


def _prediction_powered_rate(passed: Floats | float, rows: float, counts: Floats) -> Floats:
    """Return the estimated pass rate by prediction-powered inference.

    The judge passed `passed` of `rows` unlabelled rows. `counts` has the four counts of labelled rows, or an array of
    simulated counts for each of the four.
    """
    pass_pass, pass_fail, fail_pass, _ = counts
    labelled = counts.sum(axis=0)
    human_rate: Floats = (pass_pass + pass_fail) / labelled
    judge_rate = (pass_pass + fail_pass) / labelled

    # All rows are labelled: the judge adds nothing.
    if not rows:
        return human_rate

    # λ, the weight of the judge's verdicts: the regression coefficient of the label on the verdict, made smaller if the
    # unlabelled rows are few.
    all_passed = pass_pass + fail_pass + passed
    variance = all_passed * (1 - all_passed / (labelled + rows)) / numpy.maximum(labelled + rows - 1, 1.0)
    covariance = pass_pass / labelled - human_rate * judge_rate

    with numpy.errstate(divide="ignore", invalid="ignore"):
        weight = covariance / variance / (1 + labelled / rows)
    weight = numpy.where(variance > 0, numpy.clip(weight, 0.0, 1.0), 0.0)

    rate: Floats = numpy.clip(human_rate + weight * (passed / rows - judge_rate), 0.0, 1.0)
    return rate


class JudgedRows(msgspec.Struct, frozen=True):
    """Rows that a judge has judged, and the four `counts` of labelled rows, which measure its errors.

    The judge passed `passed` of the `rows` without a label. With `shared`, the labelled rows are a sample of the same
    rows and also inform about the share that people would pass: Tenenbein, "A double sampling scheme for estimating
    from binomial data with misclassifications", JASA 65 (1970), 1350-1361. `passed` and each count may be an array of
    simulated numbers.
    """

    passed: Floats | float
    rows: float
    counts: Floats
    shared: bool

    def estimate(self) -> Floats:
        """Return the share of rows that people would pass.

        Without `shared`, the share is NaN if the judge is no better than chance on the labels.
        """
        if self.shared:
            return _prediction_powered_rate(self.passed, self.rows, self.counts)
        return _rogan_gladen_rate(self.passed / self.rows, self.counts)

    def interval(self, value: float, confidence: float) -> tuple[float, float]:
        """Return the lowest and the highest share that a score test does not reject; `value` is the estimate.

        The test is Rao's, with the expected information: the efficient score of the likelihood of all verdicts and
        labels, with the judge's two rates at their maximum likelihood under each share; Cox and Hinkley, "Theoretical
        statistics" (1974), 9.3. The inverted test also holds if the judge is weak or labels are few, when the estimate
        has no useful standard error.

        The statistic of the estimate is subtracted from that of each share. Otherwise the interval could be empty if
        the data fit no share between 0 and 1 well: Feldman and Cousins, "Unified approach to the classical statistical
        analysis of small signals", Physical Review D 57 (1998), 3873-3889.
        """
        estimate_statistic = self.statistic(numpy.array([value]))

        # Critical values are slow to simulate. So the candidates are found with a larger limit first.
        search_limit = _MARGIN * normal_quantile(confidence) ** 2

        def is_candidate(shares: Floats) -> Flags:
            """Return which shares the interval may contain. Critical values are simulated for these shares only."""
            return self.statistic(shares) - estimate_statistic <= search_limit

        left, right = _furthest(is_candidate, value, 0.0), _furthest(is_candidate, value, 1.0)
        # Ten places are simulated; the critical values between them are interpolated.
        places = numpy.linspace(left, right, _PLACES)
        limits = self.limits(places, confidence)

        def accepted(shares: Floats) -> Flags:
            """Return which shares the test does not reject; critical values are interpolated."""
            return self.statistic(shares) - estimate_statistic <= numpy.interp(shares, places, limits)

        return _furthest(accepted, value, left), _furthest(accepted, value, right)

    def limits(self, shares: Floats, confidence: float, draws: int = _DRAWS) -> Floats:
        """Return, for each share, the critical value of its statistic if that share is the truth.

        `draws` is the number of samples for each share. They are drawn with the judge's rates at their maximum
        likelihood under the share: the parametric bootstrap of Efron and Tibshirani, "An introduction to the bootstrap"
        (1993), chapter 6. The square of the normal quantile would be too large if a good judge's errors are so few that
        a sample has at most one or two.
        """
        random = numpy.random.default_rng(_SEED)
        truth, size = numpy.clip(shares, _TINY, 1 - _TINY), (draws, len(shares))

        sensitivity, false_passes, _ = self._rates(truth)
        labelled = numpy.broadcast_to(self.counts.sum(axis=0), size).astype(int)

        # Labels of the run's own rows are a random sample: the number of passes varies. Labels of other rows are fixed.
        if self.shared:
            human_passes = random.binomial(labelled, truth)
        else:
            human_passes = numpy.broadcast_to(self.counts[0] + self.counts[1], size).astype(int)

        human_fails = labelled - human_passes
        # For each sample, the judge's passes among the rows that people pass, and among those that they fail.
        passed_passes = random.binomial(human_passes, sensitivity)
        passed_fails = random.binomial(human_fails, false_passes)
        counts = (passed_passes, human_passes - passed_passes, passed_fails, human_fails - passed_fails)

        # Clustered rows have a fractional number: draw for the nearest whole number, and scale the passes.
        whole_rows = max(round(self.rows), 1)
        judge_rate = numpy.clip(_judge_rate(truth, sensitivity, false_passes), 0.0, 1.0)
        drawn = random.binomial(whole_rows, judge_rate, size).astype(float) * (self.rows / whole_rows)

        samples = JudgedRows(drawn, self.rows, numpy.array(counts, dtype=float), self.shared)
        # The statistic of the sample's own estimate is subtracted, as in `interval`.
        differences = samples.statistic(numpy.broadcast_to(truth, size)) - samples.statistic(samples.estimate())
        default = normal_quantile(confidence) ** 2
        return numpy.array([_middle_quantile(column, confidence, default) for column in differences.T])

    def statistic(self, shares: Floats) -> Floats:
        """Return the squared score statistic of each share, kept away from 0 and 1."""
        share, shared = numpy.clip(shares, _TINY, 1 - _TINY), self.shared
        sensitivity, false_passes, slope = self._rates(share)
        human_passes, human_fails = self.counts[0] + self.counts[1], self.counts[2] + self.counts[3]

        # The judge's pass rate grows by the gain if the share grows by 1.
        gain, own_labels = sensitivity - false_passes, (human_passes + human_fails) * shared
        judge_rate = numpy.clip(_judge_rate(share, sensitivity, false_passes), _TINY, 1 - _TINY)
        score = slope * gain + shared * (human_passes / share - human_fails / (1 - share))

        # The elements of the information matrix of the share, the sensitivity and the false passes.
        per_verdict = self.rows / (judge_rate * (1 - judge_rate))
        share_information = per_verdict * gain**2 + own_labels / (share * (1 - share))

        # Labels of other rows count as they are; of the run's own labels, the share determines how many should pass.
        passes, fails = (own_labels * share, own_labels * (1 - share)) if shared else (human_passes, human_fails)

        sensitivity_term = per_verdict * share**2 + passes / _variance(sensitivity)
        false_pass_term = per_verdict * (1 - share) ** 2 + fails / _variance(false_passes)

        with_sensitivity, with_false_passes = per_verdict * gain * share, per_verdict * gain * (1 - share)
        both_rates = per_verdict * share * (1 - share)

        # The information on the share is smaller because both rates are unknown, too: the Schur complement of their
        # block.
        lost_to_rates = with_sensitivity**2 * false_pass_term - 2 * with_sensitivity * with_false_passes * both_rates
        lost_to_rates = lost_to_rates + with_false_passes**2 * sensitivity_term
        information = share_information - lost_to_rates / (sensitivity_term * false_pass_term - both_rates**2)

        # Without information the share cannot be refuted: its statistic is 0.
        informative = information > _TINY * share_information
        return numpy.where(informative, score**2 / numpy.where(informative, information, 1.0), 0.0)

    def _rates(self, share: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the judge's likeliest sensitivity and false passes for each share of rows that people would pass.

        The third array is a slope: the derivative of the verdicts' log likelihood by the judge's pass rate. An assumed
        pass rate gives the slope, the slope gives the two rates (`_likeliest_rate`), and the two rates give a new pass
        rate. If the assumed pass rate rises, the new one falls. So bisection finds where both are equal.
        """
        # All shares are bisected at the same time.
        low, high = numpy.zeros_like(share), numpy.ones_like(share)
        for _ in range(_HALVINGS):
            judge_rate = (low + high) / 2
            slope = self.passed / judge_rate - (self.rows - self.passed) / (1 - judge_rate)
            sensitivity = _likeliest_rate(self.counts[0], self.counts[1], share * slope)
            false_passes = _likeliest_rate(self.counts[2], self.counts[3], (1 - share) * slope)
            above = _judge_rate(share, sensitivity, false_passes) > judge_rate
            low, high = numpy.where(above, judge_rate, low), numpy.where(above, high, judge_rate)
        return sensitivity, false_passes, slope


def _middle_quantile(values: Floats, share: float, default: float) -> float:
    """Return the largest value with at most this share of values below it, or `default` if all values are NaN.

    Equal values count half. NaN values do not count. The result is at least 0.

    Example: the values 0, 0, 1, 4 have 1, 1, 2.5 and 3.5 values below them, because a value counts as half below
    itself. A share of 0.75 allows 3 of the 4 values, so the result is 1.
    """
    # Rounded, so that equal statistics of different samples are equal in spite of rounding errors.
    ordered = numpy.sort(numpy.round(values[~numpy.isnan(values)], 9))
    if not len(ordered):
        return default
    below = (numpy.searchsorted(ordered, ordered) + numpy.searchsorted(ordered, ordered, side="right")) / 2
    return float(ordered[below <= share * len(ordered)].max(initial=0.0))


def _furthest(accepted: Callable[[Floats], Flags], inside: float, outside: float) -> float:
    """Return the accepted share furthest from `inside`, an accepted one, in the direction of `outside`.

    A grid is searched from the outside. Then the step before the first accepted place is searched with a grid of its
    own. A bisection might stop at a gap between accepted shares.
    """
    for _ in range(_REFINEMENTS):
        steps = numpy.linspace(outside, inside, _STEPS)

        # `inside` is accepted, so the added True is reached at the latest.
        first = int(numpy.append(accepted(steps[:-1]), True).argmax())

        if first == 0:
            return outside
        outside, inside = float(steps[first - 1]), float(steps[first])
    return inside


def _judge_rate(share: Floats, sensitivity: Floats, false_passes: Floats) -> Floats:
    """Return the share of rows that the judge passes if people would pass this share."""
    return share * sensitivity + (1 - share) * false_passes


def _variance(rate: Floats) -> Floats:
    """Return the variance of one verdict with this pass rate, kept above 0."""
    # Rates may be 0 or 1 exactly; the terms divided by this variance then stay finite.
    inside = numpy.clip(rate, 1e-9, 1 - 1e-9)
    return inside * (1 - inside)


def _likeliest_rate(hits: Floats, misses: Floats, slope: Floats) -> Floats:
    """Return the rate r that solves hits / r − misses / (1 − r) + slope = 0, limited to 0 and 1.

    For a slope of 0 it is hits / (hits + misses).
    """
    linear = hits + misses - slope
    root = numpy.sqrt(numpy.maximum(linear**2 + 4 * slope * hits, 0.0))

    # Two forms of the root, each used where it does not subtract nearly equal numbers.
    usual = 2 * hits / numpy.maximum(linear + root, _TINY)
    far = (root - linear) / (2 * numpy.maximum(slope, _TINY))
    rate: Floats = numpy.clip(numpy.where(linear >= 0, usual, far), 0.0, 1.0)
    return rate


# -- differences


def corrected_difference(difference: Estimate, labelled: LabelCounts) -> Estimate:
    """Correct a difference of two pass rates by the same judge for its errors: divide it by the judge's `gain`.

    This assumes that the judge's errors are equally frequent in both runs. A difference of 0 then stays 0, so a test of
    it remains valid. The interval is MOVER's for a ratio, from the interval of the difference and Newcombe's of the
    gain: Donner and Zou, "Closed-form confidence intervals for functions of the normal mean and standard deviation",
    Statistical Methods in Medical Research 21 (2012), 347-359; Newcombe, Statistics in Medicine 17 (1998), 873-890,
    method 10.

    Example: a judge with a gain of 0.7 shows a difference of 7 points. The corrected difference is 10 points. If the
    gain's interval contains 0, the difference's interval is −100 to 100 points.
    """
    if difference.value is None or labelled.problem is not None:
        remark = difference.remark if difference.value is None else labelled.problem
        return replace(difference, value=None, low=None, high=None, standard_error=None, remark=remark)

    value, gain = difference.value, labelled.gain
    error = None if difference.standard_error is None else difference.standard_error / gain
    # A difference of pass rates cannot be larger than 1.
    corrected = min(1.0, max(-1.0, value / gain))

    if difference.low is None or difference.high is None:
        return replace(difference, value=corrected, low=None, high=None, standard_error=error)

    low, high = -1.0, 1.0
    least_gain, most_gain = _gain_interval(labelled, difference.confidence)
    # If the gain may be 0, the true difference may be of any size.
    if least_gain > 0:
        # A smaller gain moves the corrected difference away from 0.
        gain_for_low = least_gain if difference.low < 0 else most_gain
        gain_for_high = least_gain if difference.high > 0 else most_gain
        low = max(-1.0, _ratio_end(value, difference.low, gain, gain_for_low, -1))
        high = min(1.0, _ratio_end(value, difference.high, gain, gain_for_high, 1))

    return replace(difference, value=corrected, low=low, high=high, standard_error=error)


def _gain_interval(labelled: LabelCounts, confidence: float) -> tuple[float, float]:
    """Return the interval of the judge's gain (sensitivity less false passes), by Newcombe's method."""
    sensitivity, false_passes = labelled.sensitivity(confidence), labelled.false_passes(confidence)
    assert sensitivity.value is not None and sensitivity.low is not None and sensitivity.high is not None
    assert false_passes.value is not None and false_passes.low is not None and false_passes.high is not None

    # Newcombe adds the distances from each rate to its Wilson ends like independent errors: √(a² + b²).
    below = math.hypot(sensitivity.value - sensitivity.low, false_passes.high - false_passes.value)
    above = math.hypot(sensitivity.high - sensitivity.value, false_passes.value - false_passes.low)
    return labelled.gain - below, labelled.gain + above


def _ratio_end(value: float, value_end: float, gain: float, gain_end: float, sign: int) -> float:
    """Return an end of MOVER's interval of `value` / `gain`: the lower end for `sign` -1, the upper one for 1.

    `value_end` is the same end of the value's interval, `gain_end` the end of the gain's interval that moves the ratio
    outwards: the caller chooses it by the sign of `value_end`.
    """
    gain_term = gain_end * (2 * gain - gain_end)
    value_term = value_end * (2 * value - value_end)
    # Negative only by rounding.
    root = math.sqrt(max(0.0, (value * gain) ** 2 - gain_term * value_term))
    return (value * gain + sign * root) / gain_term
