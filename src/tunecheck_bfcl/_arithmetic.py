"""Arithmetic on literals, `2 * 60`, worked out within bounds: nothing grows beyond what an argument can be."""

import operator
from collections.abc import Callable
from typing import TypeAlias

Folded: TypeAlias = "int | float | complex | bool | str | bytes | list[Folded] | tuple[Folded, ...] | None"

_MOST_BITS = 10_000
_MOST_ELEMENTS = 10_000

_OPERATIONS: dict[str, Callable[[object, object], object]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}


def computed(sign: str, left: Folded, right: Folded) -> Folded:
    """What an operator makes of two values.

    Raises:
        ValueError: it is too large.
        TypeError, ArithmeticError, MemoryError: there is no such value.
    """
    if sign == "%" and isinstance(left, (str, bytes)):
        raise ValueError("formatting is not arithmetic")
    if sign in ("**", "<<") and isinstance(left, int) and isinstance(right, int):
        bits = right * left.bit_length() if sign == "**" else right + left.bit_length()
        if bits > _MOST_BITS:
            raise ValueError("a number too large")
    if sign == "*":
        for repeated, count in ((left, right), (right, left)):
            if not isinstance(count, int) or not isinstance(repeated, (str, bytes, list, tuple)):
                continue
            if _size(repeated) * count > _MOST_ELEMENTS:
                raise ValueError("a repetition too long")
    return checked(_OPERATIONS[sign](left, right))


def _size(value: Folded) -> int:
    """Characters and elements, those of lists in it included: `[[0] * 1000] * 1000` has a million."""
    if isinstance(value, (list, tuple)):
        return len(value) + sum(map(_size, value))
    return len(value) if isinstance(value, (str, bytes)) else 0


def checked(value: object) -> Folded:
    """A value that has been worked out, unless it is too large.

    Raises:
        ValueError: it is.
    """
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError("a number too large")
    if isinstance(value, (str, bytes, list, tuple)) and _size(value) > _MOST_ELEMENTS:
        raise ValueError("a text or list too long")
    return value  # type: ignore[return-value]
