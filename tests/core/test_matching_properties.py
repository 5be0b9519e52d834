"""Properties of all calls: the same in any order, optimal, typed."""

import itertools
import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from tests.matching_parts import call, matched, passes

from tunecheck.calls import FunctionCall, ToolDefinitions
from tunecheck.calls.matching import MatchPolicy, assign, match_calls
from tunecheck.calls.matching._values import align, frozen
from tunecheck.plugins import JSON

Calls = list[FunctionCall]

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES: st.SearchStrategy[JSON] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
ARGUMENTS = st.dictionaries(st.text(max_size=6), VALUES, max_size=4)
CALLS = st.lists(st.builds(FunctionCall, st.sampled_from(["f", "g", "get_weather"]), ARGUMENTS), max_size=6)

FEW_VALUES = st.sampled_from([1, 1.0, True, "1", "x", "xy", [1, 2], [2, 1], {"k": 1}])
FEW_CALLS = st.lists(
    st.builds(
        FunctionCall, st.sampled_from(["f", "g"]), st.dictionaries(st.sampled_from("abc"), FEW_VALUES, max_size=3)
    ),
    max_size=5,
)
POLICIES = st.builds(
    MatchPolicy,
    ordered=st.booleans(),
    int_equals_float=st.booleans(),
    ignore_case=st.booleans(),
    ignore_whitespace=st.booleans(),
    ignore_list_order=st.booleans(),
    number_text_equals_number=st.booleans(),
    absolute_tolerance=st.sampled_from([0, 0.5]),
    relative_tolerance=st.sampled_from([0, 0.1]),
)
SCHEMA: JSON = {
    "properties": {"a": {"type": "number", "default": 1}, "b": {"default": "x"}, "c": {}},
    "required": ["c"],
}
TOOLS = ToolDefinitions.read([{"name": "f", "parameters": SCHEMA}])


@given(CALLS, POLICIES)
def test_calls_match_themselves_and_their_json_under_every_policy(calls: Calls, policy: MatchPolicy) -> None:
    again = [FunctionCall(one.name, json.loads(json.dumps(one.arguments, sort_keys=True))) for one in calls]
    assert passes(match_calls(calls, calls, policy))
    assert passes(match_calls(again, calls, policy))


@given(FEW_CALLS, FEW_CALLS, POLICIES, st.randoms(use_true_random=False), st.booleans())
def test_in_any_order_the_order_makes_no_difference(
    actual: Calls, expected: Calls, policy: MatchPolicy, chance: random.Random, defined: bool
) -> None:
    policy = replace(policy, ordered=False)
    tools = TOOLS if defined else None
    first = match_calls(actual, expected, policy, tools)
    chance.shuffle(actual)
    chance.shuffle(expected)
    second = match_calls(actual, expected, policy, tools)
    assert passes(first) == passes(second)
    assert len(first.pairs) == len(second.pairs)
    assert len(first.missing) + len(first.misnamed) == len(second.missing) + len(second.misnamed)


@given(FEW_CALLS, FEW_CALLS, POLICIES)
def test_missing_one_way_is_extra_the_other_way(one: Calls, other: Calls, policy: MatchPolicy) -> None:
    policy = replace(policy, relative_tolerance=0.0)  # which is relative to the expected number
    there, back = match_calls(one, other, policy), match_calls(other, one, policy)
    assert passes(there) == passes(back)
    assert len(there.pairs) == len(back.pairs)
    if not policy.ordered:  # in order, equally good pairings may leave different calls open
        assert (len(there.missing), len(there.extra)) == (len(back.extra), len(back.missing))
        assert len(there.misnamed) == len(back.misnamed)


@given(FEW_CALLS, FEW_CALLS, POLICIES)
def test_every_call_is_accounted_for_once(actual: Calls, expected: Calls, policy: MatchPolicy) -> None:
    match = match_calls(actual, expected, policy)
    partnered = [*match.pairs, *match.moved, *match.misnamed]
    assert sorted(map(id, expected)) == sorted([*(id(p.expected) for p in partnered), *map(id, match.missing)])
    assert sorted(map(id, actual)) == sorted([*(id(p.actual) for p in partnered), *map(id, match.extra)])


def fully_right(expected: Calls, actual: Calls, policy: MatchPolicy) -> bool:
    """By trying every order: whether some permutation pairs all calls rightly."""
    return len(expected) == len(actual) and any(
        all(
            one.name == other.name and matched(one.arguments, other.arguments, policy)
            for one, other in zip(expected, order, strict=True)
        )
        for order in itertools.permutations(actual)
    )


@given(FEW_CALLS, FEW_CALLS, POLICIES)
def test_calls_match_where_some_permutation_does(expected: Calls, actual: Calls, policy: MatchPolicy) -> None:
    policy = replace(policy, ordered=False)
    actual = [*expected, *actual][: len(expected)] if len(actual) % 2 else actual
    assert passes(match_calls(actual, expected, policy)) == fully_right(expected, actual, policy)


def right_arguments(pairs: list[tuple[FunctionCall, FunctionCall]]) -> int:
    return sum(
        frozen(one.arguments[name]) == frozen(other.arguments[name])
        for one, other in pairs
        for name in one.arguments.keys() & other.arguments.keys()
    )


ONE_FUNCTION = st.lists(
    st.builds(FunctionCall, st.just("f"), st.fixed_dictionaries({name: st.integers(0, 2) for name in "abc"})),
    min_size=1,
    max_size=5,
)


@given(ONE_FUNCTION, ONE_FUNCTION)
def test_no_permutation_has_more_right_arguments(expected: Calls, actual: Calls) -> None:
    match = match_calls(actual, expected)
    found = right_arguments([(pair.expected, pair.actual) for pair in match.pairs])
    shorter, longer = sorted((expected, actual), key=len)
    best = max(
        right_arguments(list(zip(shorter, order, strict=False)))
        for order in itertools.permutations(longer, len(shorter))
    )
    assert found == best


MATRICES = st.integers(1, 5).flatmap(
    lambda width: st.lists(st.lists(st.integers(0, 20), min_size=width, max_size=width), min_size=1, max_size=5)
)


@given(MATRICES)
def test_an_assignment_is_the_cheapest_of_all_permutations(costs: list[list[int]]) -> None:
    rows, columns = len(costs), len(costs[0])
    pairs = assign(costs)
    assert len(pairs) == len({row for row, _ in pairs}) == len({column for _, column in pairs}) == min(rows, columns)
    turned = costs if rows <= columns else [list(line) for line in zip(*costs, strict=True)]
    best = min(
        sum(turned[row][column] for row, column in enumerate(order))
        for order in itertools.permutations(range(len(turned[0])), len(turned))
    )
    assert sum(costs[row][column] for row, column in pairs) == best


GAPPED = st.integers(1, 5).flatmap(
    lambda width: st.lists(
        st.lists(st.none() | st.integers(0, 9), min_size=width, max_size=width), min_size=1, max_size=5
    )
)


@given(GAPPED)
def test_an_alignment_is_the_best_of_all_that_do_not_cross(costs: list[list[int | None]]) -> None:
    rows, columns = len(costs), len(costs[0])
    pairs = align(costs)
    assert all(one < two and one_at < two_at for (one, one_at), (two, two_at) in itertools.pairwise(pairs))
    found = -len(pairs), sum(costs[row][column] or 0 for row, column in pairs)
    options = []
    for size in range(min(rows, columns) + 1):
        for chosen in itertools.combinations(range(rows), size):
            for places in itertools.combinations(range(columns), size):
                values = [costs[row][column] for row, column in zip(chosen, places, strict=True)]
                if None not in values:
                    options.append((-size, sum(value or 0 for value in values)))
    assert found == min(options)


@given(VALUES, VALUES)
def test_only_values_of_the_same_type_and_content_match(one: JSON, other: JSON) -> None:
    # Python's JSON text is equal only for equal types and contents; sorted keys, 0.0 for -0.0.
    def text(value: JSON) -> str:
        return json.dumps(value, sort_keys=True).replace("-0.0", "0.0")

    assert matched({"x": one}, {"x": other}) == (text(one) == text(other))


@given(VALUES)
def test_a_value_and_the_same_in_a_list_differ(value: JSON) -> None:
    assert not matched({"x": value}, {"x": [value]})


@given(ARGUMENTS, VALUES)
def test_an_added_argument_is_always_seen(arguments: dict[str, JSON], value: JSON) -> None:
    assert not matched(arguments, {**arguments, "an added name": value})
    assert not matched({**arguments, "an added name": value}, arguments)


@pytest.mark.parametrize(
    "number",
    [10**5000, -(10**400), 1e308, 5e-324, float("inf"), float("-inf")],
    ids=["huge", "very negative", "largest", "smallest", "infinite", "minus infinite"],
)
def test_extreme_numbers_are_compared(number: float) -> None:
    for policy in (MatchPolicy(), MatchPolicy(absolute_tolerance=1, relative_tolerance=0.1, int_equals_float=True)):
        assert passes(match_calls([call("f", x=number)], [call("f", x=number)], policy))
        assert not passes(match_calls([call("f", x=number)], [call("f", x=123)], policy))
        assert not passes(match_calls([call("f", x=123)], [call("f", x=number)], policy))
        assert not passes(match_calls([call("f", x="12 km")], [call("f", x=number)], policy))
