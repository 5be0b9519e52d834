"""A limit of requests a minute, held for many tasks: counted where requests arrive, however late that is."""

import asyncio
import bisect
import random

import pytest
from tests.endpoint_parts import LoopClock
from tests.virtual_time import run_virtually

from tunecheck_ray import RequestWindow


def most_within_a_minute(times: list[float]) -> int:
    times = sorted(times)
    return max(bisect.bisect_left(times, begin + 60 - 1e-6) - at for at, begin in enumerate(times))


async def arrivals(
    rate: int, seconds: float, *, callers: int = 40, late_s: float = 3.0, slow: float = 0.1
) -> list[float]:
    """When requests arrive that start up to `late_s` after their grant, some of them in calls of half a minute."""
    clock, rng, arrived = LoopClock(), random.Random(rate), list[float]()
    window = RequestWindow(rate, clock=clock)

    async def call() -> None:
        while True:
            end = await window.take(1)
            await asyncio.sleep(rng.uniform(0, late_s))
            arrived.append(clock.now())
            await asyncio.sleep(30 if rng.random() < slow else rng.uniform(0, 0.5))
            end(1)
            if rng.random() < 0.02:
                await asyncio.sleep(rng.uniform(0, 30))

    calls = [asyncio.create_task(call()) for _ in range(callers)]
    await asyncio.sleep(seconds)
    for each in calls:
        each.cancel()
    return arrived


@pytest.mark.parametrize("rate", [1, 60, 300])
def test_no_more_requests_arrive_in_any_minute_than_the_limit_says(rate: int) -> None:
    assert most_within_a_minute(run_virtually(arrivals(rate, 900))) <= rate


def test_nearly_as_many_requests_arrive_as_the_limit_allows() -> None:
    arrived = run_virtually(arrivals(300, 900, late_s=0.2, slow=0))
    assert sum(300 <= each < 900 for each in arrived) >= 0.95 * 10 * 300


def test_the_minute_before_the_start_counts_as_used_up() -> None:
    arrived = run_virtually(arrivals(300, 59, late_s=0))
    assert all(sum(each < second for each in arrived) <= 5 * second for second in range(1, 60))


def test_after_a_pause_requests_are_spread_again() -> None:
    async def run() -> list[float]:
        clock, granted = LoopClock(), list[float]()
        window = RequestWindow(60, clock=clock)
        await asyncio.sleep(600)
        for _ in range(30):
            (await window.take(1))(1)
            granted.append(clock.now())
        return granted

    granted = run_virtually(run())
    assert max(sum(begin <= each < begin + 10 for each in granted) for begin in granted) <= 11


def test_a_call_without_an_end_frees_its_place_after_some_seconds() -> None:
    async def run() -> float:
        window = RequestWindow(1, clock=LoopClock())
        for _ in range(3):
            await window.take(1)
        return asyncio.get_running_loop().time()

    assert run_virtually(run()) == pytest.approx(60 + 2 * 65)
