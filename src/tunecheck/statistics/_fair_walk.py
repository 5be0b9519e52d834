"""Whether verdicts that changed got better as often as worse, looked at after each one, of a known number of rows."""

import math

import numpy

from tunecheck.statistics._samples import Floats


class FairWalk:
    """One step up for a row that got better, one down for one that got worse; where neither is likelier, it is fair.

    Up to the share t of the rows a fair walk leaves its bounds with a chance of at most alpha · (1 − exp(−2 t)). That
    is spending as Hwang, Shih and De Cani, "Group sequential designs using a family of type I error probability
    spending functions", Statistics in Medicine 9 (1990), 1439-1445, do for γ = 2; worked out step by step, so that it
    is exact for any number of steps: Armitage, McPherson and Rowe, "Repeated significance tests on accumulating data",
    Journal of the Royal Statistical Society A 132 (1969), 235-244. The seventh of alpha that is never spent is for
    walks that are not fair, and yet end where the complete run shows nothing: so that of these, too, at most alpha have
    left (`benchmarks/deciding_early.py`).
    """

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        self._inside: Floats = numpy.ones(1)
        """The chances of the places that a fair walk may be at, two apart from `-_reach` on, if it never left."""
        self._reach = 0
        self._place = 0
        self.p_value: float | None = None
        """The chance that a fair walk leaves by now, once this one has: Tsiatis, Rosner and Mehta, "Exact confidence
        intervals following a group sequential test", Biometrics 40 (1984), 797-803."""

    @property
    def left(self) -> int:
        """1 if the walk has left its bounds upwards, -1 if downwards, else 0."""
        return 0 if self.p_value is None else 1 if self._place > 0 else -1

    @property
    def bound(self) -> int:
        """Halfway between the last place inside and the first outside."""
        return self._reach + 1

    def step(self, change: int, share: float) -> None:
        """Take a step, after this share of all rows."""
        if self.p_value is not None:
            return
        inside = numpy.zeros(len(self._inside) + 1)
        inside[:-1] += self._inside / 2
        inside[1:] += self._inside / 2
        self._reach += 1
        self._place += change
        spent = 1 - float(self._inside.sum())
        may = (-self._alpha * math.expm1(-2 * min(share, 1.0)) - spent) / 2
        outside = int(numpy.searchsorted(numpy.cumsum(inside), may, side="right"))
        self._inside = inside[outside : len(inside) - outside]
        self._reach -= 2 * outside
        if abs(self._place) > self._reach:
            self.p_value = 1 - float(self._inside.sum())
