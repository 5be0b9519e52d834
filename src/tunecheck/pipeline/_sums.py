"""Exact sums, kept in a few numbers however many were added, so that memory stays flat."""

import math
from array import array
from collections.abc import Sequence
from itertools import chain
from operator import neg

SHORT = 4_096
"""Numbers that are kept as they are."""


class ExactSum:
    """How many numbers were added, and some whose exact sum is theirs."""

    __slots__ = ("_condensed", "_numbers", "append")

    def __init__(self) -> None:
        self._numbers = array("d")
        self._condensed = 0
        self.append = self._numbers.append
        """Add a number; OverflowError: an integer that is beyond any float."""

    @property
    def count(self) -> int:
        """How many were added."""
        return self._condensed + len(self._numbers)

    @property
    def numbers(self) -> Sequence[float]:
        """Those whose sum it is."""
        return self._numbers

    def condense(self, most: int = 0) -> None:
        """Keep a few numbers in place of more than this many."""
        if len(self._numbers) > most:
            count = self.count
            self._numbers[:] = array("d", _condensed(self._numbers))
            self._condensed = count - len(self._numbers)


def _condensed(numbers: Sequence[float]) -> list[float]:
    """The sum, rounded, then what is left of it, and so on: together exactly the sum."""
    found: list[float] = []
    try:
        while rest := math.fsum(chain(numbers, map(neg, found))):
            if not math.isfinite(rest):
                return [rest]
            found.append(rest)
    except (OverflowError, ValueError):  # it leaves the range of a float
        return [math.inf]
    return found
