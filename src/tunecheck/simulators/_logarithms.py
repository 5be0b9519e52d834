"""Logarithms at any precision, digit for digit as binary floating point of that precision gives them.

A precision of n decimal digits means p = (n + 1) · log2(10) bits. Each step (a logarithm of an argument, then their
quotient) is rounded to p bits, to the nearest and to even; and as many decimal digits are written as tell two such
numbers apart, with three to spare. These are the rules of mpmath, whose numbers BFCL's answers show (`mpf('3.0')`).
Everything is computed from fractions, and in contexts of the decimal module made for the call: no state outlives it.
"""

import decimal
import re
from dataclasses import dataclass
from fractions import Fraction

from tunecheck._json import JSON
from tunecheck.calls._strict_json import quoted
from tunecheck.simulators._base import SimulatorError

MAX_PRECISION = 1_000
"""Most decimal digits: beyond them a single call would take too long."""

_BITS_A_DIGIT = 3.3219280948873626
_NUMBER = re.compile(r"\s*([+-]?)(\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE]([+-]?\d{1,3}))?\s*")
_FRACTION = re.compile(r"\s*([+-]?\d{1,400})/(\d{1,400})\s*")
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
    if digits > MAX_PRECISION:
        raise SimulatorError(f"the precision may be {MAX_PRECISION} digits at most")
    bits = max(1, round((digits + 1) * _BITS_A_DIGIT))
    number, of_base = _exact(value, bits), _exact(base, bits)
    if of_base == 1:
        raise SimulatorError("there is no logarithm to the base 1")
    if not number or not of_base:
        return Shown(_at_zero(number, of_base, bits))
    return Shown(_quotient(_ln(number, bits), _ln(of_base, bits), bits))


def _exact(value: JSON, bits: int) -> Fraction:
    """A number as it is; text is rounded to so many bits."""
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise SimulatorError("a number of thousands of digits is too large")
    if isinstance(value, str):
        return _rounded(_read(value), bits)
    if not isinstance(value, (int, float)) or value in (float("inf"), float("-inf")) or value != value:
        raise SimulatorError(f"{quoted(value)} is no number")
    return Fraction(value)


def _read(text: str) -> Fraction:
    number, fraction = _NUMBER.fullmatch(text), _FRACTION.fullmatch(text)
    if number:
        return Fraction(f"{number[1]}{number[2]}e{number[3] or 0}")
    if fraction and int(fraction[2]):
        return Fraction(int(fraction[1]), int(fraction[2]))
    raise SimulatorError(f"{quoted(text)} is no number")


def _rounded(value: Fraction, bits: int, *, down: bool = False) -> Fraction:
    """The nearest number of so many bits, of two the even one; or the next one towards zero."""
    if not value:
        return value
    shift = bits - value.numerator.bit_length() + value.denominator.bit_length()
    scaled = abs(value) * Fraction(2) ** shift
    if scaled >= 1 << bits:
        scaled, shift = scaled / 2, shift - 1
    whole = int(scaled) if down else round(scaled)
    return Fraction(whole if value > 0 else -whole) / Fraction(2) ** shift


def _ln(value: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    size = abs(value)
    halvings = size.denominator.bit_length() - 1
    whole = decimal.Decimal(size.numerator * 5**halvings)  # exactly the number, times 10**halvings
    exact = whole.scaleb(-halvings, decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN))
    context = decimal.Context(prec=int(bits / _BITS_A_DIGIT) + 30)
    return _rounded(Fraction(context.ln(exact)), bits), _rounded(_pi(bits + 30), bits) if value < 0 else Fraction(0)


def _pi(bits: int) -> Fraction:
    """16 arctan(1/5) - 4 arctan(1/239), Machin 1706."""
    one = 1 << (bits + 20)

    def arctan_of_inverse(divisor: int) -> int:
        power = total = one // divisor
        place, sign = 1, 1
        while power:
            power //= divisor * divisor
            place, sign = place + 2, -sign
            total += sign * (power // place)
        return total

    return Fraction(16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239), one)


def _quotient(above: tuple[Fraction, Fraction], below: tuple[Fraction, Fraction], bits: int) -> str:
    a, b = above
    c, d = below
    if not d:
        parts = _rounded(a / c, bits), _rounded(b / c, bits)
        return _complex(*parts, bits) if b else f"mpf('{_written(parts[0], bits)}')"
    # Sums of products carry ten bits more, and are cut off there, before the division.
    size = _rounded(c * c + d * d, bits + 10, down=True)
    real = _rounded(a * c + b * d, bits + 10, down=True) if b else a * c
    imaginary = _rounded(b * c - a * d, bits + 10, down=True) if b else -a * d
    return _complex(_rounded(real / size, bits), _rounded(imaginary / size, bits), bits)


def _complex(real: Fraction, imaginary: Fraction, bits: int) -> str:
    return f"mpc(real='{_written(real, bits)}', imag='{_written(imaginary, bits)}')"


def _at_zero(number: Fraction, base: Fraction, bits: int) -> str:
    """Where the number or the base is 0, whose logarithm is minus infinity."""
    if not base:
        if not number:
            return "mpf('nan')"
        return "mpf('0.0')" if number > 0 else "mpc(real='0.0', imag='0.0')"
    real, imaginary = _ln(base, bits)
    sign = "nan" if not real else "-inf" if real > 0 else "+inf"
    return f"mpc(real='{sign}', imag='+inf')" if imaginary else f"mpf('{sign}')"


def _written(value: Fraction, bits: int) -> str:
    """As many digits as tell numbers of so many bits apart, and three more; an exponent where that is shorter."""
    places = max(1, round(bits / _BITS_A_DIGIT) - 1)
    places = 17 if places == 15 else places + 3
    if not value:
        return "0.0"
    sign, size = "-" if value < 0 else "", abs(value)
    exponent = int((size.numerator.bit_length() - size.denominator.bit_length()) / _BITS_A_DIGIT) - 2
    while size >= Fraction(10) ** (exponent + 1):
        exponent += 1
    whole = int(size * Fraction(10) ** (places - 1 - exponent) + Fraction(1, 2))
    if whole == 10**places:
        whole, exponent = whole // 10, exponent + 1
    return sign + _placed(str(whole), exponent, places)


def _placed(digits: str, exponent: int, places: int) -> str:
    ending = ""
    if min(-(places // 3), -5) < exponent < places:
        digits = "0" * -exponent + digits
        point = max(exponent, 0) + 1
    else:
        point = 1
        ending = f"e{exponent:+d}"
    fraction = digits[point:].rstrip("0") or "0"
    return f"{digits[:point]}.{fraction}{ending}"
