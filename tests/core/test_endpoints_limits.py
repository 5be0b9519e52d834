"""Tokens and requests per minute, waits, and a concurrency that backs off and recovers; the clock is turned by hand."""

import asyncio
import bisect
import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.endpoint_parts import HandClock, LoopClock, azure_ml, serving, user
from tests.fault_server import FaultServer, Request, Step, answer, busy, failing
from tests.pipeline_parts import run
from tests.tables import cases
from tests.virtual_time import run_virtually

from tunecheck.endpoints import TokenBucket
from tunecheck.endpoints._limits import AdaptiveGate, backoff_s, retry_after_s
from tunecheck.plugins import JSON


async def succeed(gate: AdaptiveGate, calls: int) -> None:
    """So many calls, as many at once as there is room for."""

    async def one() -> None:
        async with gate:
            await asyncio.sleep(0)
            gate.succeeded()

    await asyncio.gather(*(one() for _ in range(calls)))


class TestTokenBucket:
    async def test_units_are_spread_evenly_over_the_minute(self) -> None:
        clock = HandClock()
        bucket = TokenBucket(60, clock=clock)
        times = []
        for _ in range(5):
            await bucket.take(1)
            times.append(clock.time)
        assert times == pytest.approx([0, 1, 2, 3, 4])

    async def test_a_burst_is_one_seconds_worth(self) -> None:
        clock = HandClock()
        bucket = TokenBucket(600, clock=clock)
        for _ in range(10):
            await bucket.take(1)
        assert clock.time == 0
        await bucket.take(1)
        assert clock.time == pytest.approx(0.1)

    async def test_waiters_are_served_in_the_order_of_asking(self) -> None:
        bucket = TokenBucket(60, clock=HandClock())
        order: list[int] = []

        async def taker(number: int) -> None:
            await bucket.take(1)
            order.append(number)

        await asyncio.gather(*(taker(number) for number in range(10)))
        assert order == list(range(10))

    async def test_more_than_the_bucket_holds_is_let_through_and_paid_off(self) -> None:
        clock = HandClock()
        bucket = TokenBucket(600, clock=clock, burst_s=10)  # holds 100
        await bucket.take(250)
        assert clock.time == 0
        await bucket.take(10)  # the debt of 150 and these 10, at 10 a second
        assert clock.time == pytest.approx(16)

    async def test_units_that_a_call_did_not_use_shorten_the_next_wait(self) -> None:
        clock = HandClock()
        bucket = TokenBucket(600, clock=clock, burst_s=10)
        end = await bucket.take(100)
        end(10)
        await bucket.take(90)
        assert clock.time == 0

    @pytest.mark.parametrize("rate", [1, 60, 120, 6000])
    def test_a_shared_bucket_lets_through_no_more_than_the_rate_in_any_minute(self, rate: int) -> None:
        taken = run_virtually(_taken_with_pauses(rate, seconds=300 if rate < 1_000 else 120))
        most = max(bisect.bisect_right(taken, begin + 59.99) - at for at, begin in enumerate(taken))
        assert 0.7 * rate < most <= rate

    @given(st.lists(st.integers(1, 500), min_size=1, max_size=40), st.integers(60, 6000))
    def test_never_more_than_the_rate_and_one_burst(self, sizes: list[int], rate: int) -> None:
        async def run() -> float:
            clock = HandClock()
            bucket = TokenBucket(rate, clock=clock)
            for size in sizes[:-1]:
                await bucket.take(size)
            await bucket.take(0.0)
            return clock.time

        spent = sum(sizes[:-1])
        burst = max(1.0, rate / 60)
        # A take of nothing waits only for the debt to be paid off.
        assert asyncio.run(run()) >= (spent - burst - max(sizes)) / (rate / 60) - 1e-6


async def _taken_with_pauses(rate: int, seconds: float) -> list[float]:
    """When units are taken from a shared bucket by eight takers that pause at random."""
    clock, rng, taken = LoopClock(), random.Random(rate), list[float]()
    bucket = TokenBucket.within_a_minute(rate, clock=clock)

    async def take() -> None:
        while True:
            await bucket.take(1)
            taken.append(clock.now())
            if rng.random() < 0.02:
                await asyncio.sleep(rng.uniform(0, 5))

    takers = [asyncio.create_task(take()) for _ in range(8)]
    await asyncio.sleep(seconds)
    for taker in takers:
        taker.cancel()
    return taken


@dataclasses.dataclass
class Service:
    """A service that takes 0.8 s an answer, refuses a share of requests at random, and all beyond its capacity."""

    share: float = 0.0
    capacity: int = 10_000
    down: tuple[float, float] = (0.0, 0.0)
    under_way: int = 0
    refused: int = 0

    async def takes(self, rng: random.Random) -> bool:
        now = asyncio.get_running_loop().time()
        if rng.random() < self.share or self.under_way >= self.capacity or self.down[0] <= now < self.down[1]:
            self.refused += 1
            return False
        self.under_way += 1
        await asyncio.sleep(0.8 * rng.uniform(0.8, 1.2))
        self.under_way -= 1
        return True


@dataclasses.dataclass
class Outcome:
    seconds: float
    failed: int
    refused: int


def ask(service: Service, rows: int = 3_000, most: int = 200) -> Outcome:
    """So many calls through a gate, retried as a client does, with a Retry-After of 0.1 s; in virtual time."""

    async def main() -> Outcome:
        gate, rng, failed = AdaptiveGate(most, start=64), random.Random(3), 0

        async def call() -> bool:
            async with gate:
                for failures in range(1, 7):
                    cuts = gate.cuts
                    if await service.takes(rng):
                        gate.succeeded()
                        return True
                    gate.overloaded(cuts)
                    await asyncio.sleep(backoff_s(failures, 0.1, rng))
                    await gate.rejoin()
            return False

        async def work(numbers: Iterator[int]) -> int:
            return sum([not await call() for _ in numbers])

        numbers = iter(range(rows))
        failed = sum(await asyncio.gather(*(work(numbers) for _ in range(most))))
        assert gate.under_way == 0
        return Outcome(asyncio.get_running_loop().time(), failed, service.refused)

    return run_virtually(main())


class TestAdaptiveGate:
    @pytest.mark.parametrize(("share", "times"), [(0.005, 1.1), (0.02, 1.2), (0.05, 1.5), (0.2, 2.5)])
    def test_refusals_at_random_cost_little(self, share: float, times: float) -> None:
        faultless, found = ask(Service()), ask(Service(share=share))
        assert found.failed == 0
        assert found.seconds <= times * faultless.seconds

    @pytest.mark.parametrize("capacity", [1, 5, 50, 150])
    def test_a_real_limit_is_found_with_few_refusals_and_no_call_lost(self, capacity: int) -> None:
        rows = min(3_000, 60 * capacity)
        found = ask(Service(capacity=capacity), rows)
        assert found.failed == 0
        assert found.seconds <= 1.3 * (rows * 0.8 / capacity)
        assert found.refused <= 64 + rows / 4  # the first of all: the limit was not known yet

    def test_a_real_limit_is_found_among_refusals_at_random(self) -> None:
        found = ask(Service(capacity=50, share=0.02))
        assert found.failed == 0
        assert found.seconds <= 1.3 * (3_000 * 0.8 / 50)

    def test_it_comes_back_within_seconds_after_the_service_was_down(self) -> None:
        faultless = ask(Service(), rows=12_000)
        found = ask(Service(down=(5.0, 7.0)), rows=12_000)
        assert found.failed == 0
        assert found.seconds <= faultless.seconds + 2 + 20

    async def test_it_starts_low_and_never_above_the_limit(self) -> None:
        assert AdaptiveGate(200).limit == 10
        assert AdaptiveGate(4).limit == 4

    async def test_it_doubles_each_clean_round_up_to_the_limit(self) -> None:
        gate = AdaptiveGate(64)
        limits = []
        for _ in range(5):
            await succeed(gate, gate.limit)
            limits.append(gate.limit)
        assert limits == [20, 40, 64, 64, 64]

    async def test_it_does_not_grow_while_its_room_is_not_used(self) -> None:
        gate = AdaptiveGate(64)
        for _ in range(100):
            await succeed(gate, 2)
        assert gate.limit == 10

    async def test_no_more_than_its_limit_are_inside(self) -> None:
        gate = AdaptiveGate(100, start=3)
        inside = most = 0

        async def one() -> None:
            nonlocal inside, most
            async with gate:
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(one() for _ in range(50)))
        assert most == 3
        assert gate.under_way == 0

    async def test_waiters_that_are_cancelled_leave_no_place_taken(self) -> None:
        gate = AdaptiveGate(1)

        async def enter() -> None:
            async with gate:
                await asyncio.sleep(0)

        async with gate:
            waiting = [asyncio.create_task(enter()) for _ in range(10)]
            await asyncio.sleep(0)
            for task in waiting[::2]:
                task.cancel()
        # One that has just been let in is cancelled before it runs.
        waiting[1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert gate.under_way == 0
        await asyncio.wait_for(enter(), 5)

    async def test_a_call_cancelled_while_it_waits_to_go_on_leaves_no_place_taken(self) -> None:
        gate = AdaptiveGate(1)
        answered = asyncio.Event()

        async def refused() -> None:
            async with gate:
                await asyncio.sleep(0)
                await gate.rejoin()

        async def slow() -> None:
            async with gate:
                await answered.wait()

        calls = [asyncio.create_task(refused()), asyncio.create_task(slow())]
        for _ in range(5):
            await asyncio.sleep(0)
        calls[0].cancel()  # it waits for the place that the slow one was given
        answered.set()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(outcomes[0], asyncio.CancelledError)
        assert gate.under_way == 0


async def test_requests_per_minute_hold_for_every_attempt() -> None:
    clock = HandClock()
    async with serving(
        lambda _, attempt: failing(500) if attempt == 0 else answer("ok"),
        clock=clock,
        limits={"requests_per_minute": 60},
    ) as (endpoint, server):
        for number in range(5):
            await endpoint.complete(user("a", str(number)))
    assert len(server.requests) == 10
    assert clock.time >= 9


async def seconds_of(calls: int, reply: JSON) -> float:
    """The time that calls of 900 tokens and a few take, by their estimates, at 6,000 tokens a minute."""
    clock = HandClock()
    settings: dict[str, Any] = {"limits": {"tokens_per_minute": 6000}, "parameters": {"max_tokens": 900}}
    async with serving(lambda *_: answer(reply), clock=clock, **settings) as (endpoint, _):
        for _ in range(calls):
            await endpoint.complete(user("a"))
    return clock.time


async def test_tokens_are_reserved_by_estimate_and_corrected_by_usage() -> None:
    # 100 a second, a bucket of 1,000. By estimates alone, 30 times 900 would take 260 s and more. 15 each are used: at
    # the last call 435 are gone, and it waits until about 920 are there.
    usage: JSON = {"prompt_tokens": 10, "completion_tokens": 5}
    assert 3 < await seconds_of(30, {"result": "ok", "usage": usage}) < 4


async def test_tokens_are_counted_as_estimated_where_the_service_says_nothing() -> None:
    # A bucket of 1,000 and 100 a second: five calls of 900 and a few tokens.
    assert 35 < await seconds_of(5, {"result": "ok"}) < 40


async def test_an_overloaded_service_is_asked_less_at_once_and_then_more_again() -> None:
    overloaded = True

    def plan(request: Request, attempt: int) -> Step:
        return busy("1") if overloaded and attempt == 0 else answer("ok")

    async with serving(plan, clock=HandClock(), limits={"concurrency": 10}) as (endpoint, _):
        await asyncio.gather(*(endpoint.complete(user("a", f"busy {n}")) for n in range(20)))
        cut = endpoint.load()
        overloaded = False
        for wave in range(12):
            await asyncio.gather(*(endpoint.complete(user("a", f"{wave} {n}")) for n in range(10)))
        grown = endpoint.load()
    assert cut is not None
    assert cut.limit < 10
    assert grown is not None
    assert grown.limit == 10
    assert grown.brief() == "10 of 10 calls at once, 20 refused (429)"
    assert grown.sentence().startswith("20 of 160 attempts were refused (429)")


SLOW = dataclasses.replace(answer({"result": "ok"}), then="trickle")
"""Some 0.3 s."""


HELD = "at most 8 calls at once (limits.concurrency of the endpoint), not 40 as requested"


@pytest.mark.parametrize(("limits", "rows", "most", "notes"), [({}, 80, 40, []), ({"concurrency": 8}, 24, 8, [HELD])])
def test_a_run_has_the_concurrency_that_is_asked_for_unless_the_definition_states_a_limit(
    tmp_path: Path, limits: dict[str, int], rows: int, most: int, notes: list[str]
) -> None:
    """An endpoint gets 16 calls at once by default; a higher setting is honoured."""
    data = [{"id": str(number), "query": str(number)} for number in range(rows)]
    with FaultServer(lambda *_: SLOW) as server:
        endpoint = azure_ml(server.url, limits=limits)
        result = run(tmp_path, data, target=endpoint, evaluators={"e": lambda response: 1}, concurrency=40)
    assert (result.failed_row_count, result.notes) == (0, notes)
    assert server.most_under_way == most


NOW = 1_700_000_000.0


@given(st.integers(1, 10_000), st.integers())
def test_a_wait_lies_between_nothing_and_the_doubling_bound_or_the_cap(failures: int, seed: int) -> None:
    wait = backoff_s(failures, None, random.Random(seed))
    assert 0 <= wait <= min(30.0, 0.5 * 2 ** min(failures, 10))


def test_waits_spread_over_the_whole_range() -> None:
    rng = random.Random(1)
    waits = [backoff_s(3, None, rng) for _ in range(2000)]
    assert min(waits) < 0.1
    assert max(waits) > 3.9
    assert 1.9 < sum(waits) / len(waits) < 2.1  # half of 4 s: full jitter


@given(st.floats(0, 120), st.integers(1, 50), st.integers())
def test_no_less_is_waited_than_the_server_asks_for(asked: float, failures: int, seed: int) -> None:
    wait = backoff_s(failures, asked, random.Random(seed))
    assert asked <= wait <= asked + 15


@cases("endpoints")
def test_what_a_server_asks_for_is_read_in_all_its_forms(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers, NOW) == expected


@given(st.text(max_size=80))
def test_any_other_text_is_no_request_or_a_number_that_is_not_negative(text: str) -> None:
    for name in ("retry-after", "retry-after-ms", "x-ms-retry-after-ms"):
        wait = retry_after_s({name: text}, NOW)
        assert wait is None or wait >= 0
