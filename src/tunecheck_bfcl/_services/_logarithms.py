"""Logarithms at any precision, as mpmath gives them: BFCL's answers show its numbers (`mpf('3.0')`)."""

import re
from dataclasses import dataclass

from tunecheck.calls import quoted
from tunecheck.plugins import JSON
from tunecheck.simulators import SimulatorError

MAX_PRECISION = 1_000
"""Most decimal digits: beyond them a single call would take too long."""

_NUMBER = re.compile(
    r"\s*[+-]?(?:(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,3})?|\d{1,400}/0*[1-9]\d{0,399})\s*"
)
_MAX_BITS = 14_000


@dataclass(frozen=True, slots=True)
class Shown:
    """A number known only by how it is written; `repr` gives that text."""

    text: str

    def __repr__(self) -> str:
        return self.text


def logarithm(value: JSON, base: JSON, digits: int) -> Shown:
    """The logarithm of a number, complex where it or the base is negative.

    Raises:
        SimulatorError: no number, the base is 1, or more digits than `MAX_PRECISION`.
    """
    from mpmath import MPContext  # takes a while to load, and few conversations need it

    if digits > MAX_PRECISION:
        raise SimulatorError(f"the precision may be {MAX_PRECISION} digits at most")
    context = MPContext()  # one for the call, so that no precision outlives it
    context.dps = digits
    number, of_base = _checked(value), _checked(base)
    try:
        return Shown(repr(context.log(number) / context.log(of_base)))
    except ZeroDivisionError:
        raise SimulatorError("there is no logarithm to the base 1") from None


def _checked(value: JSON) -> int | float | str:
    """A number that is read in a moment."""
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise SimulatorError("a number of thousands of digits is too large")
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return value
    if not isinstance(value, (int, float)) or value in (float("inf"), float("-inf")) or value != value:
        raise SimulatorError(f"{quoted(value)} is not a number")
    return value
