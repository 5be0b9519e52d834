"""Agreement of two raters on the same rows: a table of their classes, accuracy, and Cohen's kappa."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from tunecheck.statistics._results import CONFIDENCE, Proportion, Result, normal_quantile, wilson


@dataclass(frozen=True, slots=True)
class Kappa(Result):
    """Cohen's kappa: 1 is full agreement, 0 what chance would give.

    `value` is None where it is not defined; `standard_error` goes with it. `low` and `high` are None, too, where the
    standard error is 0. `remark` says why something is missing, or says little.
    """

    value: float | None
    low: float | None
    high: float | None
    standard_error: float | None
    remark: str | None = None


class Agreement:
    """Counts of pairs: what the first rater said, what the second one said. Here the first is who knows better."""

    def __init__(self, counts: Mapping[tuple[str, str], int]) -> None:
        self.counts = {pair: count for pair, count in counts.items() if count}
        self.first: Counter[str] = Counter()
        self.second: Counter[str] = Counter()
        for (one, other), count in self.counts.items():
            self.first[one] += count
            self.second[other] += count
        self.total = sum(self.counts.values())
        self.agreed = sum(count for (one, other), count in self.counts.items() if one == other)

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Agreement:
        return cls(Counter(pairs))

    def accuracy(self, confidence: float = CONFIDENCE) -> Proportion:
        """The share of rows on which both say the same."""
        return wilson(self.agreed, self.total, confidence)

    def precision(self, name: str, confidence: float = CONFIDENCE) -> Proportion:
        """Return the share of the second rater's rows of this class to which the first rater gives it, too."""
        return wilson(self.counts.get((name, name), 0), self.second[name], confidence)

    def recall(self, name: str, confidence: float = CONFIDENCE) -> Proportion:
        """Return the share of the first rater's rows of this class to which the second rater gives it, too."""
        return wilson(self.counts.get((name, name), 0), self.first[name], confidence)

    def kappa(self, confidence: float = CONFIDENCE) -> Kappa:
        """Cohen's kappa with its asymptotic interval, kept within -1 and 1.

        Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20 (1960),
        37-46; the variance (the one that does not suppose kappa to be 0): Fleiss, Cohen and Everitt, "Large sample
        standard errors of kappa and weighted kappa", Psychological Bulletin 72 (1969), 323-327.
        """
        z = normal_quantile(confidence)
        if self.total == 0:
            return Kappa(None, None, None, None, "there are no rows to compare")
        expected = sum(self.first[name] * self.second[name] for name in self.first)
        if expected == self.total**2:
            return Kappa(None, None, None, None, f"not defined: both say {next(iter(self.first))!r} of every row")
        kappa = Fraction(self.agreed * self.total - expected, self.total**2 - expected)
        error = math.sqrt(self._variance(kappa, Fraction(expected, self.total**2)))
        value = float(kappa)
        if error == 0:
            remark = self._one_class() or "no interval: at an end of its scale kappa has an asymptotic error of 0"
            return Kappa(value, None, None, error, remark)
        low, high = max(-1.0, value - z * error), min(1.0, value + z * error)
        return Kappa(value, low, high, error, self._one_class())

    def _variance(self, kappa: Fraction, expected: Fraction) -> Fraction:
        """In exact arithmetic, so that full agreement has an error of 0 and no rounding ever gives less."""
        rest, total = 1 - kappa, self.total
        same = apart = Fraction(0)
        for (one, other), count in self.counts.items():
            if one == other:
                same += count * (1 - rest * (self.first[one] + self.second[one]) / total) ** 2
            else:
                apart += count * Fraction(self.second[one] + self.first[other], total) ** 2
        spread = (same + rest**2 * apart) / total - (kappa - expected * rest) ** 2
        return spread / (total * (1 - expected) ** 2)

    def _one_class(self) -> str | None:
        for who, said in (("the labels say", self.first), ("the verdicts say", self.second)):
            if len(said) == 1:
                return f"{who} {next(iter(said))!r} of every row: kappa is 0 whatever the others say"
        return None
