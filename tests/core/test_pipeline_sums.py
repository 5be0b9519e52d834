"""Exact sums stay exact, however many numbers are added and however few are kept."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given, strategies as st

from tunecheck.pipeline._sums import ExactSum

numbers = st.lists(st.floats(-1e300, 1e300), max_size=30)


@given(st.lists(numbers, max_size=5))
def test_the_sum_stays_exact_when_it_is_condensed(parts: list[list[float]]) -> None:
    total = ExactSum()
    for part in parts:
        for number in part:
            total.append(number)
        total.condense()
    every = [number for part in parts for number in part]
    assert total.count == len(every)
    assert sum(map(Fraction, total.numbers)) == sum(map(Fraction, every))


def test_however_many_are_added_few_are_kept() -> None:
    total = ExactSum()
    for _ in range(50_000):
        total.append(0.1)
    total.condense()
    assert (total.count, len(total.numbers) < 5) == (50_000, True)
    assert math.fsum(total.numbers) == math.fsum([0.1] * 50_000)


def test_what_is_beyond_any_float_stays_so() -> None:
    total = ExactSum()
    for number in (1.0, math.inf, 2.0):
        total.append(number)
    total.condense()
    assert (total.count, list(total.numbers)) == (3, [math.inf])
