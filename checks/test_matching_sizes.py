"""Matching of very many calls and of very large, deep or hostile arguments ends, in bounded work."""

import random
from typing import Any

import pytest
from tests.matching_parts import call, nested, passes

from tunecheck.calls import FunctionCall
from tunecheck.calls.matching import MatchPolicy, match_calls
from tunecheck.plugins import JSON


def numbered(count: int, start: int = 0) -> list[FunctionCall]:
    return [
        call("f", number=number, text=f"text {number}", flag=number % 2 == 0) for number in range(start, start + count)
    ]


@pytest.mark.parametrize("ordered", [False, True])
def test_ten_thousand_calls_that_are_right_match(ordered: bool) -> None:
    calls = numbered(10_000)
    made = list(calls) if ordered else random.Random(1).sample(calls, len(calls))
    assert passes(match_calls(made, calls, MatchPolicy(ordered=ordered)))


@pytest.mark.parametrize("ordered", [False, True])
def test_thousands_of_calls_that_are_wrong_end_with_a_note(ordered: bool) -> None:
    match = match_calls(numbered(3_000, start=5), numbered(3_000), MatchPolicy(ordered=ordered))
    assert not passes(match)
    if ordered:
        assert match.notes == ("3000 expected and 3000 actual calls are too many, so they were paired by name",)
    else:  # all but five find their equal
        assert sum(not pair.differences for pair in match.pairs) == 2_995
    far = match_calls(numbered(3_000, start=50_000), numbered(3_000), MatchPolicy(ordered=ordered))
    assert far.notes
    assert len(far.pairs) == 3_000


def test_ten_thousand_extra_calls_beside_one_expected() -> None:
    match = match_calls([*numbered(10_000), call("g", x=1)], [call("g", x=1)])
    assert len(match.pairs) == 1
    assert len(match.extra) == 10_000


def test_ten_thousand_calls_of_different_functions() -> None:
    match = match_calls([call(f"a{n}") for n in range(10_000)], [call(f"b{n}") for n in range(10_000)])
    assert len(match.missing) == len(match.extra) == 10_000


@pytest.mark.parametrize("policy", [MatchPolicy(), MatchPolicy(absolute_tolerance=0.5), MatchPolicy(ordered=True)])
def test_two_hundred_by_two_hundred_calls_are_assigned(policy: MatchPolicy) -> None:
    chance = random.Random(7)
    expected = [
        call("f", a=chance.randrange(20), b=chance.randrange(20), t=f"text {chance.randrange(9)}") for _ in range(200)
    ]
    actual = [FunctionCall("f", {**one.arguments, "c": 1}) for one in expected]
    chance.shuffle(actual)
    match = match_calls(actual, expected, policy)
    assert not match.notes
    if not policy.ordered:
        assert all([one.path for one in pair.differences] == ["c"] for pair in match.pairs)


def test_two_hundred_calls_with_long_texts() -> None:
    expected = [call("f", text=f"{n} " * 2_000) for n in range(200)]
    actual = [call("f", text=f"{n}. " * 2_000) for n in range(200)]
    assert len(match_calls(actual, expected).pairs) == 200


@pytest.mark.parametrize("depth", [90, 1_000, 20_000])
def test_deep_nesting_ends(depth: int) -> None:
    match = match_calls([call("f", x=nested(depth))], [call("f", x=nested(depth))])
    assert passes(match) is (depth < 100)
    policy = MatchPolicy(ignore_list_order=True, alternatives=True)
    match_calls([call("f", x=nested(depth))], [call("f", x=[nested(depth)])], policy)
    match_calls([call("f", x=[nested(depth), 2])] * 2, [call("f", x=[2, nested(depth)])] * 2)


def test_a_million_differences_are_cut() -> None:
    match = match_calls([call("f", x=[1] * 100_000)], [call("f", x=["a"] * 100_000)])
    assert len(match.pairs[0].differences) == 50
    wide = match_calls([FunctionCall("f", {f"a{n}": 1 for n in range(100_000)})], [call("f")])
    assert len(wide.pairs[0].differences) == 50


def test_nested_lists_in_any_order_do_not_multiply() -> None:
    chance = random.Random(3)

    def shuffled(level: int) -> JSON:
        items: list[JSON] = [shuffled(level - 1) if level else number for number in range(12)]
        return chance.sample(items, len(items))

    one, other = shuffled(3), shuffled(3)
    assert isinstance(other, list)
    other[0] = nested(3)
    match = match_calls([call("f", x=other)], [call("f", x=one)], MatchPolicy(ignore_list_order=True))
    assert not passes(match)


def test_many_calls_with_big_lists_do_not_multiply() -> None:
    expected = [call("f", x=[n, *range(2_000)]) for n in range(75)]
    actual = [call("f", x=[-n - 1, *range(2_000)]) for n in range(75)]
    for policy in (MatchPolicy(), MatchPolicy(ignore_list_order=True)):
        assert len(match_calls(actual, expected, policy).pairs) == 75


def test_what_is_too_large_to_compare_is_said() -> None:
    big: Any = [[list(range(100))] * 100] * 40
    odd: Any = [[list(range(99, -1, -1))] * 100] * 39 + [[[0.5] * 100] * 100]
    match = match_calls(
        [call("f", x=odd, n=n) for n in range(3)],
        [call("f", x=big, n=n) for n in range(3)],
        MatchPolicy(ignore_list_order=True),
    )
    assert not passes(match)
    assert match.notes == ("some arguments are too large to be compared in full",)


@pytest.mark.parametrize(
    "text", ["9" * 100_000, "1," * 50_000, "1 " * 50_000, "-" * 100_000, "a-" * 50_000, "٣" * 50_000]
)
def test_long_texts_do_not_slow_the_kinds_down(text: str) -> None:
    for other in (5, text + "x", "2024-01-05", text[::-1] + "y"):
        match = match_calls([call("f", x=other)], [call("f", x=text)], MatchPolicy(number_text_equals_number=True))
        assert not match.arguments_right
