"""MathAPI: arithmetic, statistics and unit conversions. It holds no state.

BFCL compares the text of results, so they must have the digits and the form of its service: Python's floats, `Decimal`
for square roots, and mpmath's `mpf('2.0')` for logarithms.

Arguments come from models. Each operation whose result can be huge has a limit, so that no call takes long: the bits of
a power, the digits of a root and of a logarithm.
"""

import decimal
import functools
import math
import re
from collections.abc import Callable
from typing import ClassVar, TypeVar

import msgspec

from tunecheck.calls import quoted
from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, SimulatorError, tool
from tunecheck_bfcl._services._figures import refuse_if

_Result = TypeVar("_Result")

MAX_PRECISION = 1_000
"""Most decimal digits: beyond them a single call would take too long."""

# A number with at most 400 digits before and after the point, or a fraction such as 1/3.
_NUMBER = re.compile(
    r"\s*[+-]?(?:(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,3})?|\d{1,400}/0*[1-9]\d{0,399})\s*"
)

_MAX_LOGARITHM_BITS = 14_000  # about 4,200 decimal digits
_MAX_ROOT_DIGITS = 10_000
_MAX_BITS = 14_300  # Python does not convert larger integers to text, so they cannot be results
_NOT_TWO_NUMBERS = "both arguments must be numbers"
_NOT_A_NUMBER = "the value must be a number"

# Metres in a unit. A conversion multiplies by this value and by 1 / the other, in this order, because the last digit
# depends on it.
_METRES = {"km": 1000, "m": 1, "cm": 0.01, "mm": 0.001, "um": 1e-6, "nm": 1e-9}

# The factor from the first unit to the second. Both directions are rounded, as in BFCL, so they are no exact inverses.
_FACTORS = {
    ("cm", "in"): 0.393701, ("in", "cm"): 2.54,
    ("m", "ft"): 3.28084, ("ft", "m"): 0.3048,
    ("m", "yd"): 1.09361, ("yd", "m"): 0.9144,
    ("km", "miles"): 0.621371, ("miles", "km"): 1.60934,
    ("kg", "lb"): 2.20462, ("lb", "kg"): 0.453592,
}  # fmt: skip


class Shown(msgspec.Struct, frozen=True):
    """A number that is known only as text. `repr` returns this text."""

    text: str

    def __repr__(self) -> str:
        return self.text


class MathAPI(Simulator):
    """Configuration: none. State: none.

    Numbers may be integers or floats. Results follow Python's rules for numbers.
    """

    bounded: ClassVar[bool] = True

    @tool
    def add(self, a: float, b: float) -> dict[str, float]:
        """Give the sum of two numbers.

        Args:
            a: The first number.
            b: The second number.
        """
        return {"result": _refuse_type_error(lambda: a + b, _NOT_TWO_NUMBERS)}

    @tool
    def subtract(self, a: float, b: float) -> dict[str, float]:
        """Take one number from another.

        Args:
            a: The number to take from.
            b: The number to take away.
        """
        return {"result": _refuse_type_error(lambda: a - b, _NOT_TWO_NUMBERS)}

    @tool
    def multiply(self, a: float, b: float) -> dict[str, float]:
        """Give the product of two numbers.

        Args:
            a: The first number.
            b: The second number.
        """
        return {"result": _number(a, _NOT_TWO_NUMBERS) * _number(b, _NOT_TWO_NUMBERS)}

    @tool
    def divide(self, a: float, b: float) -> dict[str, float]:
        """Give the quotient of two numbers.

        Args:
            a: The number to divide.
            b: The number to divide by, not 0.
        """
        refuse_if(b == 0, "nothing can be divided by 0")
        return {"result": _refuse_type_error(lambda: a / b, _NOT_TWO_NUMBERS)}

    @tool
    def power(self, base: float, exponent: float) -> dict[str, float | complex]:
        """Multiply a number by itself, a given number of times.

        Args:
            base: The number.
            exponent: The power.
        """
        # The result has at least (bits of the base - 1) times the exponent bits.
        if isinstance(base, int) and isinstance(exponent, int) and (base.bit_length() - 1) * exponent > _MAX_BITS:
            raise SimulatorError("the result has too many digits")
        return {"result": _refuse_type_error(lambda: base**exponent, _NOT_TWO_NUMBERS)}

    @tool
    def percentage(self, part: float, whole: float) -> dict[str, float]:
        """Tell how many percent of a whole a part is.

        Args:
            part: The part.
            whole: The whole, not 0.
        """
        refuse_if(whole == 0, "there is no percentage of a whole of 0")
        return {"result": _refuse_type_error(lambda: part / whole * 100, _NOT_TWO_NUMBERS)}

    @tool
    def absolute_value(self, number: float) -> dict[str, float]:
        """Give a number without its sign.

        Args:
            number: The number.
        """
        return {"result": _refuse_type_error(lambda: abs(number), "the argument must be a number")}

    @tool
    def round_number(self, number: float, decimal_places: int = 0) -> dict[str, float]:
        """Round a number.

        Args:
            number: The number.
            decimal_places: How many decimal places to keep.
        """
        # The result would be 0 in any case, but Python would compute a power of 10 of that size.
        if isinstance(number, int) and isinstance(decimal_places, int) and -decimal_places > _MAX_BITS:
            return {"result": 0}

        refusal = "`number` must be a number, and `decimal_places` an integer"
        return {"result": _refuse_type_error(lambda: round(number, decimal_places), refusal)}

    @tool
    def square_root(self, number: float, precision: int) -> dict[str, decimal.Decimal]:
        """Give the square root of a number.

        Args:
            number: The number, not negative.
            precision: How many significant digits to compute.
        """
        refuse_if(isinstance(number, (int, float)) and number < 0, "a negative number has no square root")
        if not isinstance(number, (int, float)) or not isinstance(precision, int):
            raise SimulatorError("`number` must be a number, and `precision` an integer")
        refuse_if(not 1 <= precision <= _MAX_ROOT_DIGITS, f"the precision must be from 1 to {_MAX_ROOT_DIGITS} digits")

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
        digits = int(precision)
        refuse_if(digits > MAX_PRECISION, f"the precision may be {MAX_PRECISION} digits at most")
        return {"result": _logarithm(_check_number(value), _check_number(base), digits)}

    @tool
    def sum_values(self, numbers: list[float]) -> dict[str, float]:
        """Add up numbers.

        Args:
            numbers: The numbers.
        """
        return {"result": _apply_to_list(numbers, sum, "sum")}

    @tool
    def mean(self, numbers: list[float]) -> dict[str, float]:
        """Give the arithmetic mean of numbers.

        Args:
            numbers: The numbers.
        """
        return {"result": _apply_to_list(numbers, _mean, "mean")}

    @tool
    def standard_deviation(self, numbers: list[float]) -> dict[str, float]:
        """Tell how far numbers spread: the standard deviation of all of them (divided by their count).

        Args:
            numbers: The numbers.
        """
        return {"result": _apply_to_list(numbers, _deviation, "standard deviation")}

    @tool
    def min_value(self, numbers: list[float]) -> dict[str, float]:
        """Find the least of several numbers.

        Args:
            numbers: The numbers.
        """
        return {"result": _apply_to_list(numbers, min, "least")}

    @tool
    def max_value(self, numbers: list[float]) -> dict[str, float]:
        """Find the greatest of several numbers.

        Args:
            numbers: The numbers.
        """
        return {"result": _apply_to_list(numbers, max, "greatest")}

    @tool
    def si_unit_conversion(self, value: float, unit_in: str, unit_out: str) -> dict[str, float]:
        """Convert a length from one metric unit into another.

        Args:
            value: The length.
            unit_in: The unit it is in: km, m, cm, mm, um or nm.
            unit_out: The unit to convert it into, one of the same.
        """
        number = _number(value, _NOT_A_NUMBER)
        refuse_if(unit_in not in _METRES or unit_out not in _METRES, _no_conversion(unit_in, unit_out))

        # No division, because the last digit would differ from BFCL's.
        return {"result": number * _METRES[unit_in] * (1 / _METRES[unit_out])}

    @tool
    def imperial_si_conversion(self, value: float, unit_in: str, unit_out: str) -> dict[str, float]:
        """Convert a value between an imperial and a metric unit.

        Args:
            value: The value.
            unit_in: The unit it is in: in, ft, yd, miles, lb, fahrenheit, cm, m, km, kg or celsius.
            unit_out: The unit to convert it into.
        """
        number = _number(value, _NOT_A_NUMBER)
        if unit_in == unit_out:
            return {"result": number}

        if (unit_in, unit_out) == ("celsius", "fahrenheit"):
            return {"result": number * (9 / 5) + 32}
        if (unit_in, unit_out) == ("fahrenheit", "celsius"):
            return {"result": (number - 32) * (5 / 9)}

        if not isinstance(unit_in, str) or not isinstance(unit_out, str) or (unit_in, unit_out) not in _FACTORS:
            raise SimulatorError(_no_conversion(unit_in, unit_out))
        return {"result": number * _FACTORS[unit_in, unit_out]}


def _number(value: float, refusal: str) -> float:
    """Return the value, or raise SimulatorError with the text `refusal` if it is not a number."""
    if not isinstance(value, (int, float)):
        raise SimulatorError(refusal)
    return value


def _refuse_type_error(work: Callable[[], _Result], refusal: str) -> _Result:
    """Return the result of `work`. A TypeError becomes a SimulatorError with the text `refusal`."""
    try:
        return work()
    except TypeError:
        raise SimulatorError(refusal) from None


def _apply_to_list(numbers: list[float], work: Callable[[list[float]], _Result], result_name: str) -> _Result:
    """Return `work(numbers)`, or raise SimulatorError if the list is empty or `work` raises TypeError.

    `result_name` names the result in the message.
    """
    refuse_if(not numbers, f"an empty list has no {result_name}")
    return _refuse_type_error(lambda: work(numbers), "the list must contain only numbers")


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def _deviation(numbers: list[float]) -> float:
    """Return the standard deviation of the whole population (divided by n, not n - 1)."""
    middle = _mean(numbers)
    return math.sqrt(sum((number - middle) ** 2 for number in numbers) / len(numbers))


def _no_conversion(unit_in: str, unit_out: str) -> str:
    return f"there is no conversion from '{unit_in}' into '{unit_out}'"


@functools.lru_cache(maxsize=256, typed=True)
def _logarithm(number: float | str, base: float | str, digits: int) -> Shown:
    """Return the logarithm of a number, complex if the number or the base is negative.

    The logarithm of 100 to the base 10 with 15 digits is shown as `mpf('2.0')`.

    Raises:
        SimulatorError: the base is 1.
    """
    from mpmath import MPContext  # slow to import, and few conversations need it

    context = MPContext()  # a context per call, so that the precision does not affect other calls
    context.dps = digits
    try:
        return Shown(repr(context.log(number) / context.log(base)))
    except ZeroDivisionError:
        raise SimulatorError("there is no logarithm to the base 1") from None


def _check_number(value: JSON) -> int | float | str:
    """Return the value if it is a finite number or the text of one in a form of `_NUMBER`; mpmath reads both.

    Raises:
        SimulatorError: the value is not a number, or has too many digits to process.
    """
    if isinstance(value, int) and value.bit_length() > _MAX_LOGARITHM_BITS:
        raise SimulatorError("a number with thousands of digits is too large")

    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return value

    is_finite = not isinstance(value, float) or math.isfinite(value)
    if not isinstance(value, (int, float)) or not is_finite:
        raise SimulatorError(f"{quoted(value)} is not a number")
    return value
