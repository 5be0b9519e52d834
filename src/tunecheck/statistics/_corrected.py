"""Pass rates and differences of pass rates, corrected for a judge's errors as measured with human labels."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from typing import Self

import numpy

from tunecheck.statistics._results import CONFIDENCE, Estimate, Proportion, Result, normal_quantile, wilson
from tunecheck.statistics._samples import Flags, Floats

_STEPS, _REFINEMENTS, _HALVINGS = 40, 4, 34
_PLACES, _DRAWS, _SEED = 10, 2_000, 0
_WIDER = 1.5  # times the square of the normal quantile: the search for the interval's ends stops at this statistic
_NEARLY = 1e-12

ONE_SIDED_LABELS = "the labels say {} of every row: how often the judge errs on others is not known"
NO_BETTER_THAN_CHANCE = "by the labels the judge is no better than chance: nothing follows from its verdicts"


@dataclass(frozen=True, slots=True)
class LabelCounts(Result):
    """Counts of labelled rows: the first word of each name is the human label, the second the judge's verdict."""

    pass_pass: int
    pass_fail: int
    fail_pass: int
    fail_fail: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        """Count the pairs of label and verdict, each `pass` or `fail`."""
        counts = Counter(pairs)
        return cls(*(counts[label, verdict] for label in ("pass", "fail") for verdict in ("pass", "fail")))

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
        """Youden's index, sensitivity + specificity − 1: the judge shows a true difference multiplied by it."""
        return (self.sensitivity().value or 0.0) - (self.false_passes().value or 0.0)


def rogan_gladen(passed: float, rows: float, labelled: LabelCounts, confidence: float = CONFIDENCE) -> Estimate:
    """Estimate the share of rows that people would pass from a judge's verdicts and its error rates on other rows.

    (p + specificity − 1) / (sensitivity + specificity − 1), kept within 0 and 1: Rogan and Gladen, "Estimating
    prevalence from the results of a screening test", American Journal of Epidemiology 107 (1978), 71-76. The interval
    (`_score_interval`) covers the sampling error of the pass rate, the sensitivity and the specificity.

    Args:
        passed: number of rows that the judge passes; for clustered rows the effective number, which may be fractional.
        rows: number of rows that the judge judged.
        labelled: counts of rows of the same kind that people have labelled, none of them among `rows`.
        confidence: level of the two-sided interval.
    """
    method = "Rogan–Gladen"
    n = round(rows)
    if labelled.problem is not None or rows <= 0:
        remark = labelled.problem or "there are no rows"
        return Estimate(None, None, None, n, confidence, method, remark=remark)
    share, counts = passed / rows, _as_counts(labelled)
    value = float(_rogan_gladen_rate(share, counts))
    right, wrong = labelled.sensitivity(), labelled.false_passes()
    assert right.value is not None and wrong.value is not None
    terms = ((1.0, share, rows), (value, right.value, right.of), (1 - value, wrong.value, wrong.of))
    error = math.sqrt(sum(weight**2 * p * (1 - p) / of for weight, p, of in terms)) / labelled.gain
    low, high = _score_interval(value, passed, rows, counts, confidence, shared=False)
    return Estimate(value, low, high, n, confidence, method, error)


def prediction_powered(passed: float, rows: float, labelled: LabelCounts, confidence: float = CONFIDENCE) -> Estimate:
    """Estimate the share of rows that people would pass, from labels of a random sample of these rows.

    The estimate is the share of labelled rows that people passed, plus λ times the difference between the judge's pass
    rates on the unlabelled and on the labelled rows: Angelopoulos, Duchi and Zrnic, "PPI++: Efficient
    prediction-powered inference" (2023), arXiv 2311.01453, λ as in their section 6. Their interval needs many labels:
    for a share of 0.05 and 30 labelled rows its 95% interval covers only three times in four. `_score_interval`, used
    here, covers as often as its confidence says (`checks/test_corrected_simulation.py`).

    Args:
        passed: number of rows without a label that the judge passes; may be fractional.
        rows: number of rows without a label.
        labelled: counts of the labelled rows.
        confidence: level of the two-sided interval.
    """
    method = "prediction-powered"
    known, n, counts = labelled.total, round(rows) + labelled.total, _as_counts(labelled)
    if not known:
        return Estimate(None, None, None, n, confidence, method, remark="no row has a label")
    value, power = (float(each) for each in _prediction_powered_rate(passed, rows, counts))
    truth, seen = ((labelled.pass_pass + other) / known for other in (labelled.pass_fail, labelled.fail_pass))
    rest, both = passed / rows if rows else seen, labelled.pass_pass / known - truth * seen
    rectified = truth * (1 - truth) - 2 * power * both + power**2 * seen * (1 - seen)
    error = math.sqrt(max(0.0, rectified) / known + (power**2 * rest * (1 - rest) / rows if rows else 0.0))
    low, high = _score_interval(value, passed, rows, counts, confidence, shared=True)
    return Estimate(value, low, high, n, confidence, method, error)


def errors_alike(base: LabelCounts, new: LabelCounts) -> float | None:
    """Return the p-value of a test whether a judge errs equally often on two sets of labelled rows.

    Return None if neither kind of label, pass or fail, is in both sets.

    The sensitivity and the specificity are each tested with Fisher's exact test, two-sided. It sums the tables that
    are no more likely than the observed one: Fisher, "The logic of inductive inference", Journal of the Royal
    Statistical Society 98 (1935), 39-82. The smaller p-value is multiplied by the number of tests (Bonferroni).
    """
    kinds = (
        (base.pass_pass, base.pass_fail, new.pass_pass, new.pass_fail),
        (base.fail_pass, base.fail_fail, new.fail_pass, new.fail_fail),
    )
    p_values = [_fisher(*each) for each in kinds if each[0] + each[1] and each[2] + each[3]]
    return min(1.0, len(p_values) * min(p_values)) if p_values else None


def _fisher(hits: int, misses: int, other_hits: int, other_misses: int) -> float:
    """Return the two-sided p-value of Fisher's exact test: does the share of hits differ between two samples?"""
    own, other, taken = hits + misses, other_hits + other_misses, hits + other_hits
    tables = range(max(0, taken - other), min(own, taken) + 1)
    counts = {each: math.comb(own, each) * math.comb(other, taken - each) for each in tables}
    return sum(count for count in counts.values() if count <= counts[hits]) / math.comb(own + other, taken)


def _as_counts(labelled: LabelCounts) -> Floats:
    """Return the four counts in the order of the fields, as the functions below take them.

    For many samples at once, these functions also take an array for each count.
    """
    return numpy.array(astuple(labelled), dtype=float)


def _rogan_gladen_rate(rate: Floats | float, counts: Floats) -> Floats:
    """Return the corrected rate for the judge's pass rate; NaN if the judge is no better than chance on the labels."""
    pass_pass, pass_fail, fail_pass, fail_fail = counts
    with numpy.errstate(divide="ignore", invalid="ignore"):
        right, wrong = pass_pass / (pass_pass + pass_fail), fail_pass / (fail_pass + fail_fail)
        corrected = (rate - wrong) / (right - wrong)
    return numpy.where(right > wrong, numpy.clip(corrected, 0.0, 1.0), numpy.nan)


def _prediction_powered_rate(passed: Floats | float, rows: float, counts: Floats) -> tuple[Floats, Floats]:
    """Return the estimated pass rate by prediction-powered inference, and λ, the weight of the judge's verdicts.

    `counts` are the labelled rows; the judge passed `passed` of `rows` unlabelled ones.
    """
    pass_pass, pass_fail, fail_pass, _ = counts
    known = counts.sum(axis=0)
    truth, seen = (pass_pass + pass_fail) / known, (pass_pass + fail_pass) / known
    if not rows:
        return truth, numpy.zeros_like(truth)
    together = pass_pass + fail_pass + passed
    spread = together * (1 - together / (known + rows)) / numpy.maximum(known + rows - 1, 1.0)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        power = (pass_pass / known - truth * seen) / spread / (1 + known / rows)
    power = numpy.where(spread > 0, numpy.clip(power, 0.0, 1.0), 0.0)
    return numpy.clip(truth + power * (passed / rows - seen), 0.0, 1.0), power


def _score_interval(
    value: float, passed: float, rows: float, counts: Floats, confidence: float, *, shared: bool
) -> tuple[float, float]:
    """Return the lowest and the highest share that a score test does not reject.

    The test is Rao's, with the expected information: the efficient score of the likelihood of all verdicts and labels,
    with the judge's two rates at their maximum likelihood under each share; Cox and Hinkley, "Theoretical statistics"
    (1974), 9.3. The inverted test also holds if the judge is weak or labels are few, when the estimate has no useful
    standard error. With `shared`, the labelled rows are a sample of the same rows and also inform about the share:
    Tenenbein, "A double sampling scheme for estimating from binomial data with misclassifications", JASA 65 (1970),
    1350-1361.

    The statistic of the estimate is subtracted from that of each share. Otherwise the interval could be empty if the
    data fit no share between 0 and 1 well: Feldman and Cousins, "Unified approach to the classical statistical analysis
    of small signals", Physical Review D 57 (1998), 3873-3889.
    """

    def statistic(shares: Floats) -> Floats:
        """Return the score statistic of each share, kept away from 0 and 1."""
        return _score(numpy.clip(shares, _NEARLY, 1 - _NEARLY), passed, rows - passed, counts, shared=shared)

    least, furthest = float(statistic(numpy.array([value]))[0]), _WIDER * normal_quantile(confidence) ** 2
    left, right = (_furthest(lambda shares: statistic(shares) - least <= furthest, value, end) for end in (0.0, 1.0))
    places = numpy.linspace(left, right, _PLACES)
    limits = limits_under(places, passed, rows, counts, confidence, shared=shared)

    def accepted(shares: Floats) -> Flags:
        """Return which shares the test does not reject; critical values are interpolated."""
        return statistic(shares) - least <= numpy.interp(shares, places, limits)

    low, high = (_furthest(accepted, value, end) for end in (left, right))
    return low, high


def limits_under(
    shares: Floats,
    passed: Floats | float,
    rows: float,
    counts: Floats,
    confidence: float,
    *,
    shared: bool,
    draws: int = _DRAWS,
) -> Floats:
    """Return, for each share, the critical value of its statistic if that share is the truth.

    Samples are drawn with the judge's rates at their maximum likelihood under the share: the parametric bootstrap of
    Efron and Tibshirani, "An introduction to the bootstrap" (1993), chapter 6. The square of the normal quantile would
    be too large if a good judge's errors are so few that a sample has at most one or two.
    """
    random = numpy.random.default_rng(_SEED)
    truth, size, whole = numpy.clip(shares, _NEARLY, 1 - _NEARLY), (draws, len(shares)), max(round(rows), 1)
    right, wrong, _ = _rates_under(truth, passed, rows - passed, counts)
    known = numpy.broadcast_to(counts.sum(axis=0), size).astype(int)
    good = random.binomial(known, truth) if shared else numpy.broadcast_to(counts[0] + counts[1], size).astype(int)
    hits, false = random.binomial(good, right), random.binomial(known - good, wrong)
    drawn = numpy.array([hits, good - hits, false, known - good - false], dtype=float)
    rate = numpy.clip(truth * right + (1 - truth) * wrong, 0.0, 1.0)
    seen: Floats = numpy.array(random.binomial(whole, rate, size), dtype=float) * (rows / whole)
    value = _prediction_powered_rate(seen, rows, drawn)[0] if shared else _rogan_gladen_rate(seen / rows, drawn)
    at_truth, at_value = (
        _score(numpy.clip(at, _NEARLY, 1 - _NEARLY), seen, rows - seen, drawn, shared=shared)
        for at in (numpy.broadcast_to(truth, size), value)
    )
    otherwise = normal_quantile(confidence) ** 2
    return numpy.array([_middle_quantile(of_share, confidence, otherwise) for of_share in (at_truth - at_value).T])


def _middle_quantile(values: Floats, share: float, otherwise: float) -> float:
    """Return the largest value with at most this share of values below it, or `otherwise` if all are NaN.

    Equal values count half. NaN values do not count.
    """
    told = numpy.sort(numpy.round(values[~numpy.isnan(values)], 9))
    below = (numpy.searchsorted(told, told) + numpy.searchsorted(told, told, side="right")) / 2
    return float(told[below <= share * len(told)].max(initial=0.0)) if len(told) else otherwise


def _furthest(accepted: Callable[[Floats], Flags], inside: float, outside: float) -> float:
    """Return the accepted share that is furthest from `inside`, towards `outside`."""
    for _ in range(_REFINEMENTS):
        steps = numpy.linspace(outside, inside, _STEPS)
        first = int(numpy.append(accepted(steps[:-1]), True).argmax())
        if first == 0:
            return outside
        outside, inside = float(steps[first - 1]), float(steps[first])
    return inside


def _score(share: Floats, passed: Floats | float, failed: Floats | float, counts: Floats, *, shared: bool) -> Floats:
    """Return the squared score statistic of each share; `shared`: the labels are of the run's own rows."""
    right, wrong, pull = _rates_under(share, passed, failed, counts)
    people_pass, people_fail = counts[0] + counts[1], counts[2] + counts[3]
    known, gain = (people_pass + people_fail) * shared, right - wrong
    seen = numpy.clip(share * right + (1 - share) * wrong, _NEARLY, 1 - _NEARLY)
    slope = pull * gain + shared * (people_pass / share - people_fail / (1 - share))
    of_verdicts = (passed + failed) / (seen * (1 - seen))
    of_share = of_verdicts * gain**2 + known / (share * (1 - share))
    # Labels of other rows count as they are; of the run's own labels, the share determines how many should pass.
    passes, fails = (known * share, known * (1 - share)) if shared else (people_pass, people_fail)
    of_right = of_verdicts * share**2 + passes / _variance(right)
    of_wrong = of_verdicts * (1 - share) ** 2 + fails / _variance(wrong)
    with_right, with_wrong = of_verdicts * gain * share, of_verdicts * gain * (1 - share)
    between = of_verdicts * share * (1 - share)
    taken = with_right**2 * of_wrong - 2 * with_right * with_wrong * between + with_wrong**2 * of_right
    information = of_share - taken / (of_right * of_wrong - between**2)
    known_enough = information > _NEARLY * of_share
    return numpy.where(known_enough, slope**2 / numpy.where(known_enough, information, 1.0), 0.0)


def _variance(rate: Floats) -> Floats:
    """Return the variance of one verdict with this pass rate, kept above 0."""
    inside = numpy.clip(rate, 1e-9, 1 - 1e-9)
    return inside * (1 - inside)


def _rates_under(
    share: Floats, passed: Floats | float, failed: Floats | float, counts: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the judge's two maximum likelihood rates under each share, and the score function of the verdicts.

    The rates are the probabilities of passing what people pass, and what they fail. Given the judge's pass rate `seen`,
    each is the root of a quadratic. The pass rate that follows from both falls as `seen` rises, so bisection finds the
    point at which they are equal.
    """
    low, high = numpy.zeros_like(share), numpy.ones_like(share)
    for _ in range(_HALVINGS):
        seen = (low + high) / 2
        pull = passed / seen - failed / (1 - seen)
        right = _pulled_rate(counts[0], counts[1], share * pull)
        wrong = _pulled_rate(counts[2], counts[3], (1 - share) * pull)
        above = share * right + (1 - share) * wrong > seen
        low, high = numpy.where(above, seen, low), numpy.where(above, high, seen)
    return right, wrong, pull


def _pulled_rate(hits: Floats, misses: Floats, pull: Floats) -> Floats:
    """Return the rate r with hits / r − misses / (1 − r) + pull = 0, limited to 0 and 1."""
    linear = hits + misses - pull
    root = numpy.sqrt(numpy.maximum(linear**2 + 4 * pull * hits, 0.0))
    # Two forms of the root, each used where it does not subtract nearly equal numbers.
    usual = 2 * hits / numpy.maximum(linear + root, _NEARLY)
    far = (root - linear) / (2 * numpy.maximum(pull, _NEARLY))
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
    """
    method, n, confidence, clusters = difference.method, difference.n, difference.confidence, difference.clusters
    if difference.value is None or labelled.problem is not None:
        remark = difference.remark if difference.value is None else labelled.problem
        return Estimate(None, None, None, n, confidence, method, None, clusters, remark)
    value, gain = difference.value, labelled.gain
    error = None if difference.standard_error is None else difference.standard_error / gain
    corrected = min(1.0, max(-1.0, value / gain))
    if difference.low is None or difference.high is None:
        return Estimate(corrected, None, None, n, confidence, method, error, clusters, difference.remark)
    least, most = _gain_interval(labelled, confidence)
    if least <= 0:
        low, high = -1.0, 1.0
    else:
        low = max(-1.0, _ratio_end(value, difference.low, gain, least if difference.low < 0 else most, -1))
        high = min(1.0, _ratio_end(value, difference.high, gain, least if difference.high > 0 else most, 1))
    return Estimate(corrected, low, high, n, confidence, method, error, clusters, difference.remark)


def _gain_interval(labelled: LabelCounts, confidence: float) -> tuple[float, float]:
    """Return the interval of the judge's gain (sensitivity less false passes), by Newcombe's method."""
    right, wrong = labelled.sensitivity(confidence), labelled.false_passes(confidence)
    assert right.value is not None and right.low is not None and right.high is not None
    assert wrong.value is not None and wrong.low is not None and wrong.high is not None
    below = math.hypot(right.value - right.low, wrong.high - wrong.value)
    above = math.hypot(right.high - right.value, wrong.value - wrong.low)
    return labelled.gain - below, labelled.gain + above


def _ratio_end(over: float, over_end: float, under: float, under_end: float, sign: int) -> float:
    """Return an end of MOVER's interval of `over` / `under`, given an end of each of their intervals."""
    square = under_end * (2 * under - under_end)
    rest = over_end * (2 * over - over_end)
    root = math.sqrt(max(0.0, (over * under) ** 2 - square * rest))
    return (over * under + sign * root) / square
