"""Numbers as they come in: checked, as arrays, and grouped into clusters."""

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
"""A label for every row; as an array of whole numbers (`as_codes`) they are grouped without Python's help."""

MOST = 1e100
"""No score of a metric is larger; the cube of one that is would not be a number."""

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Rows that came in groups: `codes` has a group's number from 0 for every row."""

    codes: Codes
    count: int

    def sums(self, values: Floats) -> Floats:
        return numpy.bincount(self.codes, weights=values, minlength=self.count).astype(numpy.float64, copy=False)

    def mean_error(self, values: Floats) -> float | None:
        """The cluster-robust standard error of the mean; None of fewer than two groups.

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
        TypeError, ValueError: something is not a number at all.
    """
    return numpy.ascontiguousarray(values, dtype=numpy.float64).reshape(-1)


def as_outcomes(values: Numbers) -> Floats:
    """Return an array of 0 and 1.

    Raises:
        ValueError: a verdict that is neither.
    """
    floats = as_floats(values)
    strange = ~((floats == 0) | (floats == 1))
    if strange.any():
        at = int(strange.argmax())
        raise ValueError(f"a verdict is true or false, 1 or 0; number {at} is {float(floats[at])!r}")
    return floats


def as_codes(labels: Iterable[Hashable]) -> Codes:
    """A number for each row, from 0, equal where the labels are; a label None is like no other."""
    numbers: dict[Hashable, int] = {}
    alone = object()
    codes = [
        numbers.setdefault((alone, row) if label is None else label, len(numbers)) for row, label in enumerate(labels)
    ]
    return numpy.asarray(codes, dtype=numpy.int64)


def as_clusters(labels: Labels | None, rows: int) -> RowGroups | None:
    """Rows with an equal label are one group; one labelled None belongs to none and is a group by itself.

    None where no group has two rows: those rows are independent.

    Raises:
        ValueError: not one label for every row.
    """
    if labels is None:
        return None
    if len(labels) != rows:
        raise ValueError(f"{len(labels)} clusters were given for {rows} rows")
    known = labels if isinstance(labels, numpy.ndarray) and labels.dtype.kind == "i" else as_codes(labels)
    numbers, codes = numpy.unique(known, return_inverse=True)
    return None if len(numbers) == rows else RowGroups(codes.reshape(-1), len(numbers))


def differences(base: Floats, new: Floats) -> Floats:
    """New less base, row by row, in which what rounding alone makes of equal scores is 0.

    Raises:
        ValueError: not as many of one as of the other.
    """
    if len(base) != len(new):
        raise ValueError(f"rows are compared in pairs: there are {len(base)} of the base and {len(new)} of the new run")
    with numpy.errstate(invalid="ignore", over="ignore"):  # infinite, or too large; refused later, by name
        change = new - base
        change[numpy.abs(change) <= _ROUNDING * numpy.maximum(numpy.abs(base), numpy.abs(new))] = 0.0
    return change


def problem(*samples: Floats) -> str | None:
    """Why nothing can be calculated from these, or None."""
    for values in samples:
        usable = numpy.abs(values) <= MOST
        if not usable.all():
            at = int((~usable).argmax())
            return f"number {at} is {float(values[at])!r}: only finite numbers of a usual size have a mean"
    return None
