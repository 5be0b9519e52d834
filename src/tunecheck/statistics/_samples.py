"""Checks of input numbers, their conversion to arrays, and groups of rows (clusters)."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

Floats = NDArray[numpy.float64]
Numbers = Sequence[float] | Floats
"""Scores, or verdicts as true and false or 1 and 0."""

Flags = NDArray[numpy.bool_]
Codes = NDArray[numpy.int64]
Labels = Sequence[Hashable] | Codes
"""A label for every row; numpy groups an array of whole numbers (`as_codes`) faster than other labels."""

MOST = 1e100
"""The largest score accepted: the cube of a much larger one would overflow."""

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Groups of rows: `codes` has the number of each row's group, from 0 to `count` − 1."""

    codes: Codes
    count: int

    def sums(self, values: Floats) -> Floats:
        """Return the sum of the values in each group."""
        return numpy.bincount(self.codes, weights=values, minlength=self.count).astype(numpy.float64, copy=False)

    def mean_error(self, values: Floats) -> float | None:
        """Return the cluster-robust standard error of the mean; None for fewer than two groups.

        Liang and Zeger, Biometrika 73 (1986), 13-22, with the factor C / (C − 1) for few groups; for evaluations:
        Miller, "Adding Error Bars to Evals" (2024), arXiv 2411.00640.
        """
        if self.count < 2:
            return None
        sums = self.sums(values - values.mean())
        return float(numpy.sqrt(self.count / (self.count - 1) * (sums @ sums))) / len(values)


def as_floats(values: Numbers) -> Floats:
    """Return an array of floats.

    Raises:
        TypeError, ValueError: a value is not a number.
    """
    return numpy.ascontiguousarray(values, dtype=numpy.float64).reshape(-1)


def as_outcomes(values: Numbers) -> Floats:
    """Return verdicts as an array of 0 and 1.

    Raises:
        ValueError: a verdict is neither true or 1, nor false or 0.
    """
    floats = as_floats(values)
    strange = ~((floats == 0) | (floats == 1))
    if strange.any():
        at = int(strange.argmax())
        raise ValueError(f"verdict {at} must be true or false, 1 or 0, not {float(floats[at])!r}")
    return floats


def as_codes(labels: Iterable[Hashable]) -> Codes:
    """Return a number for each row; rows with equal labels get equal numbers, a row labelled None gets its own."""
    known: dict[Hashable, int] = {}
    alone = object()
    codes = [known.setdefault((alone, row) if label is None else label, len(known)) for row, label in enumerate(labels)]
    return numpy.asarray(codes, dtype=numpy.int64)


def as_clusters(labels: Labels | None, rows: int) -> RowGroups | None:
    """Group rows with equal labels; a row labelled None is a group by itself.

    Return None if no group has two rows: then all rows are independent.

    Raises:
        ValueError: there is not one label for every row.
    """
    if labels is None:
        return None
    if len(labels) != rows:
        raise ValueError(f"{len(labels)} clusters were given for {rows} rows: give one for each row")
    known = labels if isinstance(labels, numpy.ndarray) and labels.dtype.kind == "i" else as_codes(labels)
    numbers, codes = numpy.unique(known, return_inverse=True)
    return None if len(numbers) == rows else RowGroups(codes.reshape(-1), len(numbers))


def differences(base: Floats, new: Floats) -> Floats:
    """Return new − base for each row, as 0 within rounding errors.

    Raises:
        ValueError: base and new have different lengths.
    """
    if len(base) != len(new):
        raise ValueError(
            f"rows are compared in pairs: base and new run need equally many values, not {len(base)} and {len(new)}"
        )
    with numpy.errstate(invalid="ignore", over="ignore"):  # `problem` reports infinite and too large values later
        change = new - base
        change[numpy.abs(change) <= _ROUNDING * numpy.maximum(numpy.abs(base), numpy.abs(new))] = 0.0
    return change


def problem(*samples: Floats) -> str | None:
    """Return the reason why nothing can be calculated from these samples, or None."""
    for values in samples:
        usable = numpy.abs(values) <= MOST
        if not usable.all():
            at = int((~usable).argmax())
            return f"value {at} is {float(values[at])!r}: not finite, or too large for a mean"
    return None
