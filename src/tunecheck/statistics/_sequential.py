"""Early decisions: tests of pairs that arrive one by one in random order, valid at any stopping time.

The arguments of `EarlyTest` choose the test:

  margin   scores and total                 `better` and `worse`      `not_worse`
  none     0 or 1, total known              `FairWalk`                -
  none     all others                       `_Capital`, two bets      -
  given    total known                      `worse`: `_Capital`       `_Forecast` of the complete run
  given    total unknown                    `worse`: `_Capital`       `_Capital`

A bet multiplies a capital that starts at 1. If the claim that it bets against is true, the chance that the capital ever
reaches 1 / alpha is at most alpha. So the test may look after each pair and stop at once.

`decide_early` decides about a list of pairs. `comparison._deciding` gives an `EarlyTest` each pair of a running
evaluation, and reads the figures when the test has decided.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy
from numpy.typing import NDArray

from tunecheck.statistics._decisions import non_inferiority
from tunecheck.statistics._distributions import tango, tango_score, turning_point
from tunecheck.statistics._estimates import Floats
from tunecheck.statistics._paired import paired_binary, paired_scores
from tunecheck.statistics._results import CONFIDENCE, Estimate, Result, normal_quantile

Outcome: TypeAlias = Literal["better", "worse", "not_worse", "undecided"]

ANY_STOPPING = "valid at any stopping"
"""The method name of intervals and tests that hold at any stopping time."""

_STAKES = 32  # stakes of one bet: the points of a Gauss-Legendre rule between 0 and 1
_FOCUS = 3.0
"""Stakes have the weights of a Beta(3, 3) distribution of the share of changed rows that got better. If checkpoints
differ at all, the difference is mostly a tenth to a half of the changed rows."""

_DIRECTIONS: Mapping[int, Outcome] = MappingProxyType({1: "better", 0: "undecided", -1: "worse"})

_CANDIDATES = 101  # candidate means of the complete run
_REACH = 4.0  # candidate means reach this many standard errors (if all rows change) above −margin
_EXCESS = 2.5  # standard errors by which the complete run's share of changed rows may exceed the share so far


class EarlyDecision(Result, frozen=True):
    """The decision and the number of pairs that it took; an `undecided` one took all pairs.

    `better` and `worse` refer to the new scores; `not_worse` means worse by less than the margin, if at all.
    """

    outcome: Outcome
    pairs: int


def decide_early(
    pairs: Iterable[tuple[float, float]], margin: float | None = None, confidence: float = CONFIDENCE
) -> EarlyDecision:
    """Decide from as few pairs as possible whether the new scores are better or worse than the base's.

    The pairs must come in random order. Rows that are not independent, such as the turns of a conversation, must come
    as one pair of their means. The function takes no more pairs than the decision needs.

    Without a margin, equal scores are called better or worse with a chance of at most 1 − confidence, however often
    the test is evaluated. With a margin, the outcome is `not_worse` once the complete run is expected to show it; the
    chance that it would not is at most 1 − confidence. `worse` means worse by more than the margin. Pairs without a
    length (an iterator) are treated as a sample of an infinite run.

    Args:
        pairs: (base, new), each between 0 and 1, or true and false; higher is better.
        margin: how much worse is still accepted, between 0 and 1; None tests for better or worse.
        confidence: level of the decision, between 0 and 1.

    Raises:
        ValueError: a score, the margin or the confidence is out of range.
    """
    total = len(pairs) if isinstance(pairs, Sized) else None
    # An iterator cannot be looked through beforehand, so its scores count as any scores.
    verdicts = isinstance(pairs, Sequence) and all(score in (0, 1) for pair in pairs for score in pair)
    test = EarlyTest(margin, confidence, total, verdicts=verdicts)

    for base, new in pairs:
        outcome = test.see(base, new)
        if outcome != "undecided":
            return EarlyDecision(outcome, test.pairs)
    return EarlyDecision(test.complete(), test.pairs)


class EarlyTest:
    """The decision while pairs arrive; `total` is the number of pairs of the complete run, None if unknown.

    With a margin, bets test whether the new scores are worse by more than it, and a forecast of the complete run tests
    whether they are worse by less. Without a margin, bets test better or worse. For `verdicts` (every score is 0 or 1)
    and a known total, a walk over the signs of the changed pairs tests this instead, with fewer pairs.
    """

    def __init__(self, margin: float | None, confidence: float, total: int | None, *, verdicts: bool) -> None:
        """Begin without pairs; `total` is the number of pairs of the complete run, None if unknown.

        `margin` is the accepted loss; with None, the test is for better or worse. `verdicts` is True if every score is
        0 or 1.

        Raises:
            ValueError: the margin or the confidence is out of range.
        """
        if margin is not None and not 0 <= margin < 1:
            raise ValueError(f"margin must be 0 or more and below 1, not {margin!r}")

        self._margin, self._confidence = margin, confidence
        normal_quantile(confidence)  # raises an error for an invalid confidence

        # The logarithm of the capital at which a bet decides: 2 / alpha, because there are two directions.
        self._enough = math.log(2 / (1 - confidence))

        # All scores are kept: the means, the interval and `complete` need them.
        self._base: list[float] = []
        self._new: list[float] = []
        self._for_better, self._for_worse = _Capital(), _Capital()

        self._total = total
        self._forecast: _Forecast | None = None
        self._walk: FairWalk | None = None
        # Without a total there is no complete run to forecast or to walk through.
        if margin is not None and total is not None:
            self._forecast = _Forecast(margin, total, confidence)
        elif verdicts and total is not None:
            self._walk = FairWalk(1 - confidence)

    @property
    def pairs(self) -> int:
        """The number of pairs so far."""
        return len(self._base)

    def see(self, base: float, new: float) -> Outcome:
        """Take one more pair and return what can be decided by now.

        Raises:
            ValueError: a score is not between 0 and 1.
        """
        if not (0 <= base <= 1 and 0 <= new <= 1):
            raise ValueError(f"the scores of pair {self.pairs + 1} must be from 0 to 1, not {base!r} and {new!r}")

        self._base.append(float(base))
        self._new.append(float(new))

        change = self._new[-1] - self._base[-1]
        # Without a margin, the walk tests verdicts; bets test all other scores.
        if self._walk is None or self._total is None:
            return self._bet(change, self._margin or 0.0)

        # Verdicts that did not change are no steps. They only move the share of rows that the walk has seen.
        if change:
            self._walk.step(int(change), self.pairs / self._total)
        return _DIRECTIONS[self._walk.left]

    def _bet(self, change: float, margin: float) -> Outcome:
        """Bet that the new scores are worse by more than the margin, and that they are not; return what is decided.

        Without a margin, `margin` is 0 and the second bet shows an improvement. With a margin and a known total, a
        forecast of the complete run replaces the second bet.
        """
        # The claim: the mean loss is at most the margin.
        self._for_worse.bet((-change - margin) / (1 + margin))
        if self._for_worse.logarithms[0] >= self._enough:
            return "worse"

        # With a known total the complete run decides. Otherwise bets must show that the true loss is below the margin.
        if self._forecast is not None:
            return "not_worse" if self._forecast.shows_not_worse(change) else "undecided"
        self._for_better.bet((change + margin) / (1 - margin))
        if self._for_better.logarithms[0] < self._enough:
            return "undecided"
        return "better" if self._margin is None else "not_worse"

    @property
    def means(self) -> tuple[float, float]:
        """The means of the base's scores and of the new scores; needs a pair."""
        return float(numpy.mean(self._base)), float(numpy.mean(self._new))

    def skip(self) -> None:
        """Note that a pair will never arrive, because one side has no score: the complete run has one pair fewer."""
        if self._total is not None:
            self._total -= 1
        if self._forecast is not None:
            self._forecast.total -= 1

    def complete(self) -> Outcome:
        """Return the decision after the last pair: `not_worse` if the interval of all pairs shows it for the margin.

        Otherwise, and without a margin, it is `undecided`.
        """
        if self._margin is None or not self._base:
            return "undecided"

        # The complete run is tested once, as `compare` tests it.
        base, new = self._base, self._new
        if all(score in (0.0, 1.0) for score in (*base, *new)):
            difference = paired_binary(base, new, confidence=self._confidence).difference
        else:
            difference = paired_scores(base, new, bounds=(0.0, 1.0), confidence=self._confidence).difference

        return "not_worse" if non_inferiority(difference, self._margin).shown else "undecided"

    def interval(self) -> Estimate:
        """Return the mean difference so far, with an interval that is valid at any stopping: a confidence sequence.

        Bets refute all differences beyond its ends: Waudby-Smith and Ramdas, "Estimating means of bounded random
        variables by betting", JRSS B 86 (2024), 1-27. For verdicts after a decision, the interval is the repeated
        confidence interval of Jennison and Turnbull, "Interim analyses: the repeated confidence interval approach",
        JRSS B 51 (1989), 305-361.
        """
        n = self.pairs
        if n == 0:
            return Estimate(None, None, None, 0, self._confidence, ANY_STOPPING, remark="there are no rows")

        changes = self._changes()
        # The upper end is the lower one of the reversed changes.
        low = _largest_refuted(changes, self._enough)
        high = -_largest_refuted(-changes, self._enough)
        if self._walk is not None and self._walk.left:
            # The walk's bound, in standard errors of the changed rows, replaces the normal quantile.
            better, worse = int((changes > 0).sum()), int((changes < 0).sum())
            low, high = tango(worse, better, n, self._walk.bound / math.sqrt(better + worse))
        elif self._walk is not None:  # only the walk may exclude 0, and it has not
            low, high = min(low, 0.0), max(high, 0.0)

        return Estimate(float(changes.mean()), low, high, n, self._confidence, ANY_STOPPING)

    def p_value(self) -> float:
        """Return the two-sided p-value of no difference, valid at any stopping.

        If a walk has left its bounds, the p-value is the walk's. Otherwise it is twice the inverse of the larger
        capital, and with a walk at least 1 − confidence.
        """
        if self._walk is not None and self._walk.p_value is not None:
            return self._walk.p_value

        changes = self._changes()
        # 1 / capital is a p-value: it is at most alpha with a chance of at most alpha. Two directions double it.
        logarithm = max(_capital_of(changes)(0.0), _capital_of(-changes)(0.0))
        p_value = min(1.0, 2 * math.exp(-logarithm))
        # With a walk, only the walk may find a difference, and it has not.
        return p_value if self._walk is None else max(p_value, 1 - self._confidence)

    def _changes(self) -> Floats:
        """Return new − base for each pair so far."""
        changes: Floats = numpy.array(self._new) - numpy.array(self._base)
        return changes


def _weighted_stakes() -> tuple[Floats, Floats]:
    """Return the stakes of the bets, between 0 and 1, and the logarithms of their weights, which add up to 1.

    A stake of λ wins most if a changed row gets better with the chance (1 + λ) / 2. The weights are the density of
    Beta(3, 3) at this chance.
    """
    points, weights = numpy.polynomial.legendre.leggauss(_STAKES)
    stakes = (points + 1) / 2

    weights = weights * (1 - stakes**2) ** (_FOCUS - 1)
    return stakes, numpy.log(weights / weights.sum())


class _Capital:
    """The capital of bets, for each of several claimed means; it starts with 1.

    For each stake λ, ∏ (1 + λ (x − m) / (1 + m)) is a martingale if x ≥ −1 has the mean m, and so is the weighted sum
    over all stakes. So bets win on average only if the true mean exceeds the claimed mean m. The chance that the
    capital ever reaches 1 / α is at most α (Ville 1939). For x of −1, 0 and 1 and m = 0 it is the likelihood ratio of
    the signs of the changed rows, as in Robbins, "Statistical methods related to the law of the iterated logarithm",
    Annals of Mathematical Statistics 41 (1970), 1397-1409.

    Example: after 6 changes for the better and none for the worse, a stake of 0.5 has grown to 1.5⁶ = 11. With alpha =
    0.05 a bet decides at 2 / 0.05 = 40.
    """

    def __init__(self, claims: int = 1) -> None:
        """Begin with the capital 1 for each of `claims` means; `logarithms` has the logarithms of the capitals."""
        self._stakes, weights = _weighted_stakes()
        self._parts = numpy.tile(weights, (claims, 1))  # the logarithm of each stake's part
        self.logarithms: Floats = numpy.zeros(claims)

    def bet(self, gains: Floats | float) -> None:
        """Bet on the next value x: `gains` has (x − m) / (1 + m) for each claimed mean m."""
        # Divided by 1 + m, the largest loss (x = −1) takes a share λ of the capital, so it stays positive.
        self._parts += numpy.log1p(numpy.outer(gains, self._stakes))
        self.logarithms = numpy.logaddexp.reduce(self._parts, axis=1)


def _largest_refuted(changes: Floats, enough: float) -> float:
    """Return the largest claimed mean that the bets refute, at least −1; their capital falls as the claim grows.

    `enough` is the logarithm of the capital that refutes a claim.
    """
    mean, capital = float(changes.mean()), _capital_of(changes)
    # All changes are −1: no larger claim is left to refute.
    if mean == -1:
        return -1.0
    return turning_point(lambda claimed: capital(claimed) < enough, -1.0, mean)[0]


def _capital_of(changes: Floats) -> Callable[[float], float]:
    """Return the function that gives, for a claimed mean, the logarithm of the capital after bets on all changes."""
    stakes, weights = _weighted_stakes()
    # Verdicts have at most three different changes, so a bet is placed once for all equal ones.
    values, counts = numpy.unique(changes, return_counts=True)

    def logarithm(mean: float) -> float:
        """Return the logarithm of the capital after bets on all changes against this mean."""
        gains = numpy.log1p(numpy.outer(stakes, (values - mean) / (1 + mean))) @ counts
        return float(numpy.logaddexp.reduce(weights + gains))

    return logarithm


class _Forecast:
    """The test whether the complete run will show that the new scores are worse by less than the margin.

    If the complete run has a mean difference of θ or less, its remaining pairs have a mean of at most (N θ − sum so
    far) / (N − pairs so far). Bets against this claim win on average only if the complete run's mean is larger than θ:
    Waudby-Smith and Ramdas, "Confidence sequences for sampling without replacement", NeurIPS 33 (2020). The complete
    run's lower limit depends on its share of changed rows, which may be somewhat larger than so far.
    """

    def __init__(self, margin: float, total: int, confidence: float) -> None:
        """Place one bet against each candidate mean of the complete run, from −margin upwards.

        The complete run has `total` pairs.
        """
        self._margin, self.total = margin, total
        # One direction, so alpha is not halved: `worse` has bets of its own.
        self._quantile, self._enough = normal_quantile(confidence), math.log(1 / (1 - confidence))

        # No mean is above 1, so no candidate is more than 1 + margin away. A mean's standard error is at most 1 / √n.
        span = min(1 + margin, _REACH / math.sqrt(max(total, 1)) + 1 / max(total, 1))
        self._means: Floats = numpy.linspace(-margin, -margin + span, _CANDIDATES)

        self._capital = _Capital(_CANDIDATES)
        self._pairs, self._sum, self._sum_of_squares, self._verdicts = 0, 0.0, 0.0, True

    def shows_not_worse(self, change: float) -> bool:
        """Take one more difference; return True if the complete run will show non-inferiority.

        This is so if bets refute a mean, and already a run with this mean would show it.
        """
        # The pair that arrives now is one of the remaining ones.
        remaining = self.total - self._pairs
        if remaining <= 0:
            return False

        means_of_rest = (self.total * self._means - self._sum) / remaining
        # No difference is below −1: a candidate that needs a mean of −1 or less of the remaining pairs is impossible.
        with numpy.errstate(divide="ignore", invalid="ignore"):
            gains = numpy.where(means_of_rest > -1, (change - means_of_rest) / (1 + means_of_rest), numpy.inf)

        self._capital.bet(gains)
        self._pairs += 1
        self._sum += change
        self._sum_of_squares += change * change
        self._verdicts = self._verdicts and change in (-1.0, 0.0, 1.0)

        # A mean may be refuted and still be too low to show non-inferiority; one candidate must be both.
        refuted = self._capital.logarithms >= self._enough
        return bool(refuted.any()) and bool((refuted & self._would_show()).any())

    def _would_show(self) -> NDArray[numpy.bool_]:
        """Return for each candidate mean whether a complete run with this mean is expected to show non-inferiority.

        Its lower limit must lie above −margin. The squared differences of the run are predicted from the pairs so far.
        """
        n, pairs = self.total, self._pairs
        # The share of changed rows, for verdicts; for other scores the mean squared change.
        share = self._sum_of_squares / pairs

        # 1 − pairs / n: the error of a share falls to 0 as the sample becomes the complete run.
        error = math.sqrt(max(share * (1 - share), 0.0) / pairs * (1 - pairs / n))
        sum_of_squares = min(1.0, share + _EXCESS * error + (1 - pairs / n) / pairs) * n

        if not self._verdicts:
            errors = numpy.sqrt(numpy.maximum(sum_of_squares / n - self._means**2, 0.0) / n)
            return self._means - self._quantile * errors > -self._margin

        # Verdicts: the complete run uses Tango's score, which takes the numbers of rows that got worse and better.
        differences = n * self._means
        changed = numpy.maximum(sum_of_squares, numpy.abs(differences))
        counts = zip((changed - differences) / 2, (changed + differences) / 2, strict=True)
        scores = [tango_score(worse, better, n, -self._margin) for worse, better in counts]
        return numpy.array(scores) > self._quantile


# -- a sequential test whether changed verdicts got better as often as worse, for a known number of rows


class FairWalk:
    """A walk: a step up for a row that got better, a step down for one that got worse; fair if both are equally likely.

    Up to the share t of the rows a fair walk leaves its bounds with a chance of at most alpha · (1 − exp(−2 t)). This
    is the spending function of Hwang, Shih and De Cani, "Group sequential designs using a family of type I error
    probability spending functions", Statistics in Medicine 9 (1990), 1439-1445, for γ = 2. The chance is computed step
    by step, so it is exact for any number of steps: Armitage, McPherson and Rowe, "Repeated significance tests on
    accumulating data", Journal of the Royal Statistical Society A 132 (1969), 235-244. A seventh of alpha is never
    spent. It is a reserve for walks that are not fair but end where the complete run shows no difference, so that of
    these, too, at most alpha leave the bounds (`benchmarks/deciding_early.py`).
    """

    def __init__(self, alpha: float) -> None:
        """Begin at 0; `alpha` is the chance that a fair walk may ever leave its bounds."""
        self._alpha = alpha
        self._inside: Floats = numpy.ones(1)
        """For a fair walk, the chance of each place inside the bounds; places are two apart and begin at `-_reach`."""
        self._reach = 0
        self._place = 0
        self.p_value: float | None = None
        """Once this walk has left its bounds, the chance that a fair walk has left by now: Tsiatis, Rosner and Mehta,
        "Exact confidence intervals following a group sequential test", Biometrics 40 (1984), 797-803."""

    @property
    def left(self) -> int:
        """The side on which the walk has left its bounds: 1 above, -1 below, 0 if it has not left them."""
        if self.p_value is None:
            return 0
        return 1 if self._place > 0 else -1

    @property
    def bound(self) -> int:
        """The point halfway between the last place inside the bounds and the first place outside."""
        return self._reach + 1

    def step(self, change: int, share: float) -> None:
        """Take a step up (`change` 1) or down (−1) after this `share` of all rows, and recompute the bounds.

        After the walk has left its bounds, further steps change nothing.

        Example: alpha is 0.05, and all of the first changed rows of 200 got better. The place of a walk that only went
        up has the chance 1/2 after one step and 1/512 after nine. The place is outside the bounds once this chance
        may be spent.
        """
        if self.p_value is not None:
            return

        # Half of each place's chance moves up, half moves down.
        inside = numpy.zeros(len(self._inside) + 1)
        inside[:-1] += self._inside / 2
        inside[1:] += self._inside / 2
        # A step makes the range of places one wider on both sides.
        self._reach += 1
        self._place += change
        spent = 1 - float(self._inside.sum())

        # The chance of leaving that each side may still spend. The outermost places within this chance are cut off.
        unspent = (-self._alpha * math.expm1(-2 * min(share, 1.0)) - spent) / 2
        outside = int(numpy.searchsorted(numpy.cumsum(inside), unspent, side="right"))

        self._inside = inside[outside : len(inside) - outside]
        self._reach -= 2 * outside

        # The walk is outside if its place has just been cut off.
        if abs(self._place) > self._reach:
            self.p_value = 1 - float(self._inside.sum())
