"""Costs of calls counted one by one: each once, whichever is reported first, the call or its answer."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tunecheck import StopRunError
from tunecheck.endpoints import ChatRequest, Completion, Endpoint, Price, Usage
from tunecheck.pipeline import Budget, CachedResults, Journal, RunCalls, Spending, cost_of
from tunecheck.pipeline._costs import ReportedUsage, charged_usage
from tunecheck.plugins import JSON, CallsMade


def total(parts: list[CallsMade]) -> tuple[int, int, int]:
    return (
        sum(part.calls for part in parts),
        sum(part.input_tokens or 0 for part in parts),
        sum(part.output_tokens or 0 for part in parts),
    )


@pytest.mark.parametrize("seed", range(20))
def test_calls_and_answers_in_any_order_come_to_the_calls(seed: int) -> None:
    rng = random.Random(seed)
    calls = [Usage(rng.randrange(100), rng.randrange(10)) for _ in range(40)]
    answers = [calls[at : at + 8] for at in range(0, 40, 8)]
    steps = [("add_calls", CallsMade(1, call.input_tokens, call.output_tokens)) for call in calls]
    for group in answers:
        usage = Usage(sum(call.input_tokens or 0 for call in group), sum(call.output_tokens or 0 for call in group))
        steps.append(("add_answer", CallsMade(len(group), usage.input_tokens, usage.output_tokens)))
    rng.shuffle(steps)
    reported = ReportedUsage()
    parts = [getattr(reported, how)(made) for how, made in steps]
    expected = sum(call.input_tokens or 0 for call in calls), sum(call.output_tokens or 0 for call in calls)
    assert total(parts) == (40, *expected)
    assert all(part.calls >= 0 for part in parts)


def test_calls_are_charged_by_what_was_counted_and_four_characters_a_token_where_nothing_was() -> None:
    assert charged_usage(CallsMade(3, 100, 20, 90, asked=401, answered=8)) == Usage(201, 22, 90)


class Priced(Endpoint):
    """An endpoint that is not called."""

    kind = name = "priced"
    price = Price(1.0, 1.0)

    async def complete(self, request: ChatRequest) -> Completion:
        raise NotImplementedError

    def settings(self) -> dict[str, JSON]:
        return {}


async def test_a_call_waits_for_the_budget_and_then_refuses(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    calls = RunCalls("run", journal, CachedResults(), Budget(0.001))
    costs = calls.of_endpoint("target", Priced(), "a conversation")
    for _ in range(2):
        async with costs.one_call() as told:
            told(CallsMade(1, 300, 100))
    with pytest.raises(StopRunError, match="--max-cost"):
        async with costs.one_call():
            pass
    journal.close()
    used: dict[str, JSON] = calls.usage()["target"]  # type: ignore[assignment]
    assert (used["calls"], used["input_tokens"], used["output_tokens"]) == (2, 600, 200)


@pytest.mark.parametrize("seed", range(10))
async def test_calls_side_by_side_exceed_a_budget_by_less_than_they_cost(seed: int) -> None:
    rng, budget, side_by_side = random.Random(seed), Budget(0.05), asyncio.Semaphore(8)
    costs = [rng.lognormvariate(-7, 1) for _ in range(500)]

    async def call(cost: float) -> None:
        async with side_by_side, budget.reserved("target", 0.01) as reservation:
            await asyncio.sleep(rng.random() / 1000)
            budget.count(cost)
            reservation.cost = cost

    results = await asyncio.gather(*map(call, costs), return_exceptions=True)
    assert any(isinstance(result, StopRunError) for result in results)
    assert 0.04 <= budget.spent <= 0.05 + sum(sorted(costs)[-8:]) / 2


def spent(*calls: tuple[Usage, float | None, str | None]) -> dict[str, object]:
    spending = Spending()
    for call in calls:
        spending.add(*call)
    return dict(spending.summary())


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [(Usage(1, 1), None, None)],
        [(Usage(1, 1), 0.1, "EUR"), (Usage(1, 1), None, "EUR")],
        [(Usage(1, 1), 0.1, "EUR"), (Usage(1, 1), 0.1, "USD")],
    ],
    ids=["no calls", "no price", "one without a price", "two currencies"],
)
def test_a_cost_of_which_a_part_is_unknown_is_unknown(calls: list[tuple[Usage, float | None, str | None]]) -> None:
    found = spent(*calls)
    assert (found["cost"], found["currency"]) == (None, None)


def test_cached_input_costs_what_its_own_price_says() -> None:
    usage = Usage(1_000_000, 0, 750_000)
    assert cost_of(usage, Price(2.0, 8.0)) == 2.0
    assert cost_of(usage, Price(2.0, 8.0, cached_input_per_million=0.5)) == 0.25 * 2 + 0.75 * 0.5
    assert cost_of(Usage(100, 0, 5_000), Price(1.0, 1.0, cached_input_per_million=0.0)) == 0.0
