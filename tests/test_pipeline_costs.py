"""Costs of calls counted one by one: each once, whichever is reported first, the call or its answer."""

from __future__ import annotations

import asyncio
import random

import pytest

from tunecheck._errors import StopRunError
from tunecheck.endpoints._base import Price, Usage
from tunecheck.pipeline._costs import Budget, CountedCalls, EndpointCosts, ReportedUsage


def total(parts: list[CountedCalls]) -> tuple[int, int, int]:
    return (
        sum(part.calls for part in parts),
        sum(part.usage.input_tokens or 0 for part in parts),
        sum(part.usage.output_tokens or 0 for part in parts),
    )


def test_a_counted_call_is_not_counted_again_with_its_answer() -> None:
    reported = ReportedUsage()
    parts = [
        reported.add_calls(1, Usage(10, 2)),
        reported.add_calls(1, Usage(5, 1)),
        reported.add_answer(2, Usage(15, 3)),
    ]
    assert parts[:2] == [CountedCalls(1, Usage(10, 2)), CountedCalls(1, Usage(5, 1))]
    assert parts[2] == CountedCalls(0, Usage(0, 0))


def test_what_an_answer_told_is_not_counted_again_when_its_calls_are_heard_of() -> None:
    reported = ReportedUsage()
    parts = [
        reported.add_answer(2, Usage(15, 3)),
        reported.add_calls(1, Usage(10, 2)),
        reported.add_calls(1, Usage(5, 1)),
    ]
    assert total(parts) == (2, 15, 3)


@pytest.mark.parametrize("seed", range(20))
def test_calls_and_answers_in_any_order_come_to_the_calls(seed: int) -> None:
    rng = random.Random(seed)
    calls = [Usage(rng.randrange(100), rng.randrange(10)) for _ in range(40)]
    answers = [calls[at : at + 8] for at in range(0, 40, 8)]
    steps = [("add_calls", 1, call) for call in calls]
    for group in answers:
        usage = Usage(sum(call.input_tokens or 0 for call in group), sum(call.output_tokens or 0 for call in group))
        steps.append(("add_answer", len(group), usage))
    rng.shuffle(steps)
    reported = ReportedUsage()
    parts = [getattr(reported, how)(count, usage) for how, count, usage in steps]
    expected = sum(call.input_tokens or 0 for call in calls), sum(call.output_tokens or 0 for call in calls)
    assert total(parts) == (40, *expected)
    assert all(part.calls >= 0 for part in parts)


def test_tokens_that_nobody_counted_stay_unknown() -> None:
    assert ReportedUsage().add_calls(1, Usage(None, 4)) == CountedCalls(1, Usage(None, 4))


async def test_a_call_waits_for_the_budget_and_then_refuses() -> None:
    budget, counted = Budget(0.001), list[CountedCalls]()

    def count(part: CountedCalls) -> None:
        counted.append(part)
        budget.count(part.usage, 0.0004)

    costs = EndpointCosts(Price(1.0, 1.0), budget, count, ReportedUsage())
    for _ in range(2):
        async with costs.one_call() as count_tokens:
            count_tokens(300, 100)
    with pytest.raises(StopRunError, match="--max-cost"):
        async with costs.one_call():
            pass
    assert total(counted) == (2, 600, 200)


async def test_a_call_without_a_price_counts_and_holds_nobody_up() -> None:
    counted = list[CountedCalls]()
    costs = EndpointCosts(None, Budget(0.0), counted.append, ReportedUsage())
    async with asyncio.timeout(5), costs.one_call() as count_tokens:
        count_tokens(3, 4)
    costs.record(1, None)
    assert total(counted) == (2, 4, 4)
