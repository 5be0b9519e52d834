"""Exact sums in flat memory (Shewchuk 1997)."""

import math
from array import array
from collections.abc import Sequence
from itertools import chain
from operator import neg

SHORT = 4_096
"""Numbers that are kept before they are condensed."""


class ExactSum:
    """An exact running sum: a few floats with the same sum as all numbers added, and their count."""

    __slots__ = ("_condensed", "_numbers", "append")

    def __init__(self) -> None:
        self._numbers = array("d")
        self._condensed = 0
        self.append = self._numbers.append
        """Add a number; OverflowError: an integer that is beyond any float."""

    @property
    def count(self) -> int:
        """The number of numbers added."""
        return self._condensed + len(self._numbers)

    @property
    def numbers(self) -> Sequence[float]:
        """Numbers with the same exact sum."""
        return self._numbers

    def condense(self, most: int = 0) -> None:
        """Replace more than `most` numbers by a few with the same sum."""
        if len(self._numbers) > most:
            count = self.count
            self._numbers[:] = array("d", _condensed(self._numbers))
            self._condensed = count - len(self._numbers)


def _condensed(numbers: Sequence[float]) -> list[float]:
    """Return the rounded sum, then the rest, and so on: their exact sum is that of the numbers."""
    found: list[float] = []
    try:
        while rest := math.fsum(chain(numbers, map(neg, found))):
            if not math.isfinite(rest):
                return [rest]
            found.append(rest)
    except (OverflowError, ValueError):  # it leaves the range of a float
        return [math.inf]
    return found
