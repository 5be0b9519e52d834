"""How to think: every problem's answer, worked out again in another way from the stated rule."""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from math import ceil

from hypothesis import given, strategies as st
from tests.memory_kinds_parts import test_of, tests_of


def numbers(text: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", text)]


def budget(rule: str, problem: str) -> str:
    (reserve, step), (count, price) = numbers(rule), numbers(problem)
    total = Decimal(count * price) * (1 + Decimal(reserve) / 100)
    return f"{int((total / step).to_integral_value(ROUND_CEILING)) * step} euros"


def deadline(rule: str, problem: str) -> str:
    names = "|".join(calendar.day_name)
    off = set(re.findall(names, rule))
    (start,) = re.findall(names, problem)
    (length,) = numbers(problem)
    day = datetime.date(2024, 1, 1)  # a Monday
    while day.strftime("%A") != start:
        day += datetime.timedelta(days=1)
    days = [day + datetime.timedelta(days=ahead) for ahead in range(60)]
    return [each.strftime("%A") for each in days if each.strftime("%A") not in off][length - 1]


def estimate(_: str, problem: str) -> str:
    inner = sorted(numbers(problem))[1:-1]
    return str(Fraction(sum(inner), len(inner)))


def pick(_: str, problem: str) -> str:
    offers = re.findall(r"(\w+) \((\d+) ", problem)
    return str(sorted(offers, key=lambda offer: int(offer[1]))[1][0])


def tip(_: str, problem: str) -> str:
    people, bill = numbers(problem)
    return f"{Fraction(bill, 1) / (people - 1 + Fraction(1, 2)) / 2} euros"


def packing(rule: str, problem: str) -> str:
    (each, more), (nights,) = numbers(rule), numbers(problem)
    return str(each * nights + more * ceil(nights / 3))


def order(rule: str, problem: str) -> str:
    tasks = re.split(r", | and ", re.sub(r"Today I have to (.*)\. Which.*", r"\1", problem))
    tasks.sort(key=str, reverse="from Z to A" in rule)
    return tasks[0 if "do first?" in problem else -1]


def temperature(rule: str, problem: str) -> str:
    (less, per), (degrees, wind) = numbers(rule), numbers(problem)
    while wind >= per:
        degrees, wind = degrees - less, wind - per
    return f"{degrees} degrees"


SOLVERS: dict[str, Callable[[str, str], str]] = {
    "what something costs": budget,
    "count working days": deadline,
    "several estimates": estimate,
    "choose between several": pick,
    "a bill is shared": tip,
    "pack for a journey": packing,
    "in which order to do things": order,
    "how cold it feels": temperature,
}


@given(st.integers(0, 2**62))
def test_the_rule_leads_to_the_expected_answer(seed: int) -> None:
    test = test_of("how_to_think", seed)
    rule, problem = test.script
    (solve,) = [solver for words, solver in SOLVERS.items() if words in rule]
    assert list(test.expected) == [solve(rule, problem)]


def test_there_are_many_hundreds_of_different_ones_of_all_sorts() -> None:
    tests = tests_of("how_to_think", 0, 1500)
    assert len({test.script for test in tests}) > 1000
    assert len({test.script[0] for test in tests}) > 100
    assert all(any(words in test.script[0] for test in tests) for words in SOLVERS)
