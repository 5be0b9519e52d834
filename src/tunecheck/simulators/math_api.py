"""MathAPI: arithmetic, statistics and unit conversions. It holds no state."""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from tunecheck.jsontext import JSON
from tunecheck.simulators.base import Simulator, SimulatorError, tool
from tunecheck.simulators.logarithms import Shown, logarithm

if TYPE_CHECKING:
    from tunecheck.simulators.long_context import LongContext

__all__ = ["MathAPI"]

_MAX_ROOT_DIGITS = 10_000
_MAX_BITS = 14_300
"""A larger whole number has more digits than Python writes as text, and is no result either way."""

_METRES = {"km": 1000, "m": 1, "cm": 0.01, "mm": 0.001, "um": 1e-6, "nm": 1e-9}
_FACTORS = {
    ("cm", "in"): 0.393701,
    ("in", "cm"): 2.54,
    ("m", "ft"): 3.28084,
    ("ft", "m"): 0.3048,
    ("m", "yd"): 1.09361,
    ("yd", "m"): 0.9144,
    ("km", "miles"): 0.621371,
    ("miles", "km"): 1.60934,
    ("kg", "lb"): 2.20462,
    ("lb", "kg"): 0.453592,
}


class MathAPI(Simulator):
    """Configuration: none. State: none.

    Numbers may be whole or floating; what comes out follows Python's rules for them.
    """

    bounded: ClassVar[bool] = True

    def load(self, config: Mapping[str, JSON], *, long_context: LongContext | None = None) -> None:
        """There is nothing to load."""

    @tool
    def add(self, a: float, b: float) -> dict[str, float]:
        """Add two numbers.

        Args:
            a: The first number.
            b: The second number.
        """
        return {"result": a + b}

    @tool
    def subtract(self, a: float, b: float) -> dict[str, float]:
        """Take one number from another.

        Args:
            a: The number to take from.
            b: The number to take away.
        """
        return {"result": a - b}

    @tool
    def multiply(self, a: float, b: float) -> dict[str, float]:
        """Multiply two numbers.

        Args:
            a: The first number.
            b: The second number.
        """
        return {"result": _number(a) * _number(b)}

    @tool
    def divide(self, a: float, b: float) -> dict[str, float]:
        """Divide one number by another.

        Args:
            a: The number to divide.
            b: The number to divide by, not 0.
        """
        return {"result": a / _not_zero(b)}

    @tool
    def power(self, base: float, exponent: float) -> dict[str, float | complex]:
        """Raise a number to a power.

        Args:
            base: The number.
            exponent: The power.
        """
        if isinstance(base, int) and isinstance(exponent, int) and (base.bit_length() - 1) * exponent > _MAX_BITS:
            raise SimulatorError("power: the result is too large")
        return {"result": base**exponent}

    @tool
    def percentage(self, part: float, whole: float) -> dict[str, float]:
        """Tell how many percent of a whole a part is.

        Args:
            part: The part.
            whole: The whole, not 0.
        """
        return {"result": part / _not_zero(whole) * 100}

    @tool
    def absolute_value(self, number: float) -> dict[str, float]:
        """Give a number without its sign.

        Args:
            number: The number.
        """
        return {"result": abs(number)}

    @tool
    def round_number(self, number: float, decimal_places: int = 0) -> dict[str, float]:
        """Round a number.

        Args:
            number: The number.
            decimal_places: How many decimal places to keep.
        """
        if isinstance(number, int) and isinstance(decimal_places, int) and -decimal_places > _MAX_BITS:
            return {"result": 0}
        return {"result": round(number, decimal_places)}

    @tool
    def square_root(self, number: float, precision: int) -> dict[str, decimal.Decimal]:
        """Give the square root of a number.

        Args:
            number: The number, not negative.
            precision: How many significant digits to compute.
        """
        if isinstance(number, str) or number < 0:
            raise SimulatorError("square_root: the number must not be negative")
        if not isinstance(precision, int) or not 1 <= precision <= _MAX_ROOT_DIGITS:
            raise SimulatorError(f"square_root: the precision must be from 1 to {_MAX_ROOT_DIGITS} digits")
        context = decimal.Context(prec=precision)
        return {"result": context.sqrt(decimal.Decimal(number))}

    @tool
    def logarithm(self, value: float, base: float, precision: int) -> dict[str, Shown]:
        """Give the logarithm of a number.

        Args:
            value: The number.
            base: The base of the logarithm.
            precision: How many decimal digits to compute.
        """
        return {"result": logarithm(value, base, int(precision))}

    @tool
    def sum_values(self, numbers: list[float]) -> dict[str, float]:
        """Add up numbers.

        Args:
            numbers: The numbers.
        """
        return {"result": sum(_some(numbers))}

    @tool
    def mean(self, numbers: list[float]) -> dict[str, float]:
        """Give the arithmetic mean of numbers.

        Args:
            numbers: The numbers.
        """
        return {"result": sum(_some(numbers)) / len(numbers)}

    @tool
    def standard_deviation(self, numbers: list[float]) -> dict[str, float]:
        """Tell how far numbers spread: the standard deviation of all of them (divided by their count).

        Args:
            numbers: The numbers.
        """
        middle = sum(_some(numbers)) / len(numbers)
        return {"result": math.sqrt(sum((number - middle) ** 2 for number in numbers) / len(numbers))}

    @tool
    def min_value(self, numbers: list[float]) -> dict[str, float]:
        """Find the least of several numbers.

        Args:
            numbers: The numbers.
        """
        return {"result": min(_some(numbers))}

    @tool
    def max_value(self, numbers: list[float]) -> dict[str, float]:
        """Find the greatest of several numbers.

        Args:
            numbers: The numbers.
        """
        return {"result": max(_some(numbers))}

    @tool
    def si_unit_conversion(self, value: float, unit_in: str, unit_out: str) -> dict[str, float]:
        """Convert a length from one metric unit into another.

        Args:
            value: The length.
            unit_in: The unit it is in: km, m, cm, mm, um or nm.
            unit_out: The unit to convert it into, one of the same.
        """
        if unit_in not in _METRES or unit_out not in _METRES:
            raise SimulatorError(f"si_unit_conversion: the units are {', '.join(_METRES)}")
        return {"result": _number(value) * _METRES[unit_in] * (1 / _METRES[unit_out])}

    @tool
    def imperial_si_conversion(self, value: float, unit_in: str, unit_out: str) -> dict[str, float]:
        """Convert a value between an imperial and a metric unit.

        Args:
            value: The value.
            unit_in: The unit it is in: in, ft, yd, miles, lb, fahrenheit, cm, m, km, kg or celsius.
            unit_out: The unit to convert it into.
        """
        number = _number(value)
        if unit_in == unit_out:
            return {"result": number}
        if (unit_in, unit_out) == ("celsius", "fahrenheit"):
            return {"result": number * (9 / 5) + 32}
        if (unit_in, unit_out) == ("fahrenheit", "celsius"):
            return {"result": (number - 32) * (5 / 9)}
        if (unit_in, unit_out) not in _FACTORS:
            raise SimulatorError("imperial_si_conversion: there is no such conversion")
        return {"result": number * _FACTORS[unit_in, unit_out]}


def _number(value: float) -> float:
    if not isinstance(value, (int, float)):
        raise SimulatorError("a number is needed")
    return value


def _not_zero(value: float) -> float:
    if value == 0:
        raise SimulatorError("cannot divide by zero")
    return value


def _some(numbers: list[float]) -> list[float]:
    if not numbers:
        raise SimulatorError("at least one number is needed")
    return numbers
