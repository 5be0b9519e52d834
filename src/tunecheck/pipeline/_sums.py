"""Exact sums in constant memory (Shewchuk 1997)."""

import math
from array import array
from collections.abc import Sequence
from itertools import chain
from operator import neg

SHORT = 4_096
"""Number of values that are kept before they are condensed."""


class ExactSum:
    """An exact running sum: a few floats with the same exact sum as all added numbers, and their count."""

    __slots__ = ("_condensed", "_numbers", "append")

    def __init__(self) -> None:
        self._numbers = array("d")
        self._condensed = 0
        self.append = self._numbers.append
        """Add a number. Raises OverflowError for an integer outside the range of a float."""

    @property
    def count(self) -> int:
        """The number of numbers added."""
        return self._condensed + len(self._numbers)

    @property
    def numbers(self) -> Sequence[float]:
        """A few numbers with the same exact sum as all numbers added."""
        return self._numbers

    def condense(self, most: int = 0) -> None:
        """Replace the kept numbers by fewer ones with the same sum, if there are more than `most`."""
        if len(self._numbers) > most:
            count = self.count
            self._numbers[:] = array("d", _condensed(self._numbers))
            self._condensed = count - len(self._numbers)


def _condensed(numbers: Sequence[float]) -> list[float]:
    """Return the rounded sum, its rounding error, and so on; their exact sum equals that of the numbers."""
    found: list[float] = []
    try:
        while rest := math.fsum(chain(numbers, map(neg, found))):
            if not math.isfinite(rest):
                return [rest]
            found.append(rest)
    except (OverflowError, ValueError):  # the sum is outside the range of a float
        return [math.inf]
    return found
