"""Typed equality of single values under a policy: texts, numbers, booleans, null."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from math import isfinite

from tunecheck._json import JSON
from tunecheck.calls._bounds import MAX_DEPTH
from tunecheck.calls._matching.numbers import number_of_text
from tunecheck.calls._matching.policy import MatchPolicy
from tunecheck.calls._schemas.walk import Schema


class ScalarRule:
    """Whether two values that are no objects and no lists are the same under a policy."""

    __slots__ = ("_policy", "_transform")

    def __init__(self, policy: MatchPolicy) -> None:
        self._policy = policy
        self._transform = _transformation(policy)

    def same(self, expected: JSON, actual: JSON, schema: Schema | None) -> bool:
        """Whether they are; the schema says where `5` and `5.0` are one number."""
        if plainly_same(expected, actual):
            return True
        if isinstance(expected, str) and isinstance(actual, str):
            return self._transform is not None and self._transform(expected) == self._transform(actual)
        if self._policy.number_text_equals_number and isinstance(expected, str) != isinstance(actual, str):
            expected = number_of_text(expected) if isinstance(expected, str) else expected
            actual = number_of_text(actual) if isinstance(actual, str) else actual
        if isinstance(expected, bool) or isinstance(actual, bool):
            return False
        if isinstance(expected, (int, float)) and isinstance(actual, (int, float)):
            return self._same_number(expected, actual, schema)
        return False

    def _same_number(self, expected: float, actual: float, schema: Schema | None) -> bool:
        if expected == actual:  # Python compares int and float exactly, beyond 2^53 too
            if type(expected) is type(actual) or self._policy.int_equals_float or self._policy.tolerant:
                return True
            return schema is not None and schema.says_number()
        if not self._policy.tolerant or not _finite(expected) or not _finite(actual):
            return False
        wanted = _decimal(expected)
        relative = _decimal(self._policy.relative_tolerance) * abs(wanted)
        return abs(wanted - _decimal(actual)) <= max(_decimal(self._policy.absolute_tolerance), relative)


def plainly_same(expected: JSON, actual: JSON) -> bool:
    """Equal and of the same type, where that is quickly said: not for objects and lists."""
    return type(expected) is type(actual) and not isinstance(expected, (dict, list)) and expected == actual


def frozen(value: JSON, depth: int = 0) -> Hashable:
    """A hashable stand-in that is equal for values of the same type and content only: `1`, `1.0` and `True` differ.

    What is nested beyond all reason equals nothing.
    """
    if isinstance(value, (bool, float)):
        return (type(value), value)
    if isinstance(value, dict):
        items = ((key, frozen(item, depth + 1)) for key, item in value.items())
        return (dict, frozenset(items)) if depth <= MAX_DEPTH else object()
    if isinstance(value, list):
        return (list, *(frozen(item, depth + 1) for item in value)) if depth <= MAX_DEPTH else object()
    return value


def _transformation(policy: MatchPolicy) -> Callable[[str], str] | None:
    if policy.ignore_case and policy.ignore_whitespace:
        return lambda text: "".join(text.casefold().split())
    if policy.ignore_case:
        return str.casefold
    return (lambda text: "".join(text.split())) if policy.ignore_whitespace else None


def _finite(number: float) -> bool:
    return isinstance(number, int) or isfinite(number)


def _decimal(number: float) -> Fraction:
    """The number as its shortest decimal text has it: 1.1 − 1.0 is within a tolerance of 0.1."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))
