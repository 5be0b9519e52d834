"""Tokens and requests per minute, and a concurrency that backs off and recovers; the clock is turned by hand."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.endpoint_parts import HandClock, azure_ml, user
from tests.fault_server import FaultServer, Request, Step, answer, busy, failing

from tunecheck import evaluate
from tunecheck.endpoints._limits import AdaptiveGate, TokenBucket


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

    async def test_what_is_given_back_shortens_the_next_wait(self) -> None:
        clock = HandClock()
        bucket = TokenBucket(600, clock=clock, burst_s=10)
        await bucket.take(100)
        bucket.give_back(90)
        await bucket.take(90)
        assert clock.time == 0

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


class TestAdaptiveGate:
    async def test_it_starts_low_and_never_above_the_limit(self) -> None:
        assert AdaptiveGate(200, clock=HandClock()).limit == 10
        assert AdaptiveGate(4, clock=HandClock()).limit == 4

    async def test_it_doubles_each_clean_round_up_to_the_limit(self) -> None:
        gate = AdaptiveGate(64, clock=HandClock())
        limits = []
        for _ in range(5):
            await succeed(gate, gate.limit)
            limits.append(gate.limit)
        assert limits == [20, 40, 64, 64, 64]

    async def test_it_does_not_grow_while_its_room_is_not_used(self) -> None:
        gate = AdaptiveGate(64, clock=HandClock())
        for _ in range(100):
            await succeed(gate, 2)
        assert gate.limit == 10

    async def test_a_refusal_now_and_then_does_not_lower_it(self) -> None:
        gate = AdaptiveGate(100, clock=HandClock(), start=100)
        for _ in range(50):
            gate.overloaded()
            await succeed(gate, 49)
        assert gate.limit == 100

    async def test_each_refusal_beyond_a_few_in_a_hundred_lowers_it_by_one(self) -> None:
        gate = AdaptiveGate(100, clock=HandClock(), start=100)
        for _ in range(15):
            gate.overloaded()
        # 1 - 0.99 ** 5 is below 5%, 1 - 0.99 ** 6 above it: the first five are tolerated.
        assert gate.limit == 90

    async def test_calls_refused_together_take_no_more_than_half_of_it(self) -> None:
        clock = HandClock()
        gate = AdaptiveGate(100, clock=clock, start=100)
        for _ in range(200):
            gate.overloaded()
        assert gate.limit == 50
        clock.time += 1
        for _ in range(200):
            gate.overloaded()
        assert gate.limit == 25

    async def test_the_wait_that_the_service_asks_for_delays_the_next_half(self) -> None:
        clock = HandClock()
        gate = AdaptiveGate(100, clock=clock, start=100)
        for _ in range(200):
            gate.overloaded(retry_after_s=30)
        clock.time += 29
        gate.overloaded()
        assert gate.limit == 50
        clock.time += 1
        gate.overloaded()
        assert gate.limit == 49

    async def test_it_never_falls_below_one(self) -> None:
        clock = HandClock()
        gate = AdaptiveGate(100, clock=clock)
        for _ in range(200):
            clock.time += 1
            gate.overloaded()
        assert gate.limit == 1
        await succeed(gate, 3)

    async def test_after_a_cut_it_grows_by_a_tenth_and_faster_with_each_clean_round(self) -> None:
        gate = AdaptiveGate(200, clock=HandClock(), start=100)
        for _ in range(200):
            gate.overloaded()
        limits = [gate.limit]
        for _ in range(5):
            await succeed(gate, gate.limit)
            limits.append(gate.limit)
        # 50 + 10%, + 15%, + 22.5%, + 33.75%, and no more than 200.
        assert limits == [50, 55, 63, 77, 102, 153]

    async def test_a_pause_within_a_call_ends_when_there_is_room_again(self) -> None:
        clock = HandClock()
        gate = AdaptiveGate(10, clock=clock, start=10)
        order: list[str] = []
        refused, pausing = asyncio.Event(), asyncio.Event()

        async def call(name: str) -> None:
            async with gate:
                order.append(name)
                await (pausing if name == "refused" else refused).wait()
                if name == "refused":
                    await gate.rejoin()
                    order.append("again")

        calls = [asyncio.create_task(call(name)) for name in ["refused", *"abcdefghi"]]
        await asyncio.sleep(0)
        for _ in range(11):  # five are tolerated, and five lower the limit to half
            gate.overloaded()
        calls.append(asyncio.create_task(call("new")))
        pausing.set()
        await asyncio.sleep(0)
        assert "again" not in order  # nine are still inside, and there is room for five
        refused.set()
        await asyncio.wait_for(asyncio.gather(*calls), 5)
        assert order[-2:] == ["again", "new"]
        assert gate.under_way == 0

    async def test_a_call_cancelled_while_it_waits_to_go_on_leaves_no_place_taken(self) -> None:
        gate = AdaptiveGate(2, clock=HandClock(), start=2)
        for _ in range(20):
            gate.overloaded()
        gate._limit = 2

        async def call() -> None:
            async with gate:
                await asyncio.sleep(0)
                await gate.rejoin()

        calls = [asyncio.create_task(call()) for _ in range(2)]
        await asyncio.sleep(0)
        gate._limit = 1
        await asyncio.sleep(0)
        calls[0].cancel()
        await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 5)
        assert gate.under_way == 0

    async def test_no_more_than_its_limit_are_inside(self) -> None:
        gate = AdaptiveGate(100, clock=HandClock(), start=3)
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
        gate = AdaptiveGate(1, clock=HandClock())

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


async def test_requests_per_minute_hold_for_every_attempt() -> None:
    clock = HandClock()
    with FaultServer(lambda _, attempt: failing(500) if attempt == 0 else answer("ok")) as server:
        endpoint = azure_ml(server.url, clock=clock, limits={"requests_per_minute": 60})
        for number in range(5):
            await endpoint.complete(user("a", str(number)))
        await endpoint.close()
    assert len(server.requests) == 10
    assert clock.time >= 9


async def test_tokens_are_reserved_by_estimate_and_corrected_by_usage() -> None:
    clock = HandClock()
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    with FaultServer(lambda *_: answer({"result": "ok", "usage": usage})) as server:
        endpoint = azure_ml(server.url, clock=clock, limits={"tokens_per_minute": 6000}, parameters={"max_tokens": 900})
        for _ in range(30):
            await endpoint.complete(user("a"))
        await endpoint.close()
    # 100 a second, a bucket of 1,000. By estimates alone, 30 times 900 would take 260 s and more. 15 each are used: at
    # the last call 435 are gone, and it waits until about 920 are there.
    assert 3 < clock.time < 4


async def test_tokens_are_counted_as_estimated_where_the_service_says_nothing() -> None:
    clock = HandClock()
    with FaultServer(lambda *_: answer({"result": "ok"})) as server:
        endpoint = azure_ml(server.url, clock=clock, limits={"tokens_per_minute": 6000}, parameters={"max_tokens": 900})
        for _ in range(5):
            await endpoint.complete(user("a"))
        await endpoint.close()
    # A bucket of 1,000 and 100 a second: five calls of 900 and a few tokens.
    assert 35 < clock.time < 40


async def test_an_overloaded_service_is_asked_less_at_once_and_then_more_again() -> None:
    overloaded = True

    def plan(request: Request, attempt: int) -> Step:
        return busy("1") if overloaded and attempt == 0 else answer("ok")

    with FaultServer(plan) as server:
        endpoint = azure_ml(server.url, clock=HandClock(), limits={"concurrency": 10})
        await asyncio.gather(*(endpoint.complete(user("a", f"busy {n}")) for n in range(20)))
        cut = endpoint.load()
        overloaded = False
        for wave in range(12):
            await asyncio.gather(*(endpoint.complete(user("a", f"{wave} {n}")) for n in range(10)))
        grown = endpoint.load()
        await endpoint.close()
    assert cut is not None
    assert cut.limit < 10
    assert grown is not None
    assert grown.limit == 10
    assert grown.brief() == "10 of 10 at once, 20 refused (429)"
    assert grown.sentence().startswith("20 of 160 attempts were refused (429)")


SLOW = dataclasses.replace(answer({"result": "ok"}), then="trickle")
"""Some 0.3 s."""


class TestTheConcurrencyThatIsAskedFor:
    """16 is what an endpoint is asked at once where nobody says more; whoever says more is heard."""

    @staticmethod
    def most_at_once(server: FaultServer, limits: dict[str, int], folder: Path) -> int:
        """The most requests that were under way together, with 40 asked for."""
        endpoint = azure_ml(server.url, limits=limits)
        rows = [{"id": str(number), "query": str(number)} for number in range(80)]
        result = evaluate(
            data=rows,
            target=endpoint,
            evaluators={"length": lambda response: {"length": len(response)}},
            concurrency=40,
            results_dir=folder,
        )
        assert result.failed_row_count == 0
        return server.most_under_way

    def test_it_is_used_where_the_definition_states_no_limit(self, tmp_path: Path) -> None:
        with FaultServer(lambda *_: SLOW) as server:
            assert self.most_at_once(server, {}, tmp_path) == 40

    def test_the_definitions_own_limit_holds(self, tmp_path: Path) -> None:
        with FaultServer(lambda *_: SLOW) as server:
            assert self.most_at_once(server, {"concurrency": 8}, tmp_path) == 8
