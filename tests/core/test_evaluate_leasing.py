"""A worker's share of a run's budget and limits, as its calls see it: real storage, two workers in one event loop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.endpoint_parts import azure_ml, user
from tests.fault_server import FaultServer, answer

from tunecheck._errors import RunError, StopRunError
from tunecheck.evaluation import _leasing
from tunecheck.evaluation._leasing import Leasing
from tunecheck.pipeline._leased_budget import LeasedBudget
from tunecheck.runs._shares import SharedLimits
from tunecheck.storage._address import open_store


@pytest.fixture(autouse=True)
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_leasing, "_ASKED", 600)
    monkeypatch.setattr(_leasing, "_TOGETHER", 6000)


def limits(folder: Path, owner: str) -> SharedLimits:
    return SharedLimits(open_store(str(folder)), owner)


def no_stop(error: Exception) -> None:
    raise AssertionError(error)


async def spend(leasing: Leasing, chunk: int, costs: list[float], calls: int = 8) -> float:
    """Make calls, several at once, until there is no more money; what they came to."""
    budget, left, spent = leasing.budget, iter(costs), 0.0
    assert budget is not None
    leasing.begin()

    async def call() -> None:
        nonlocal spent
        for cost in left:
            async with budget.reserved("target", cost) as reservation:
                await asyncio.sleep(0.001)
                budget.count(cost)
                reservation.cost = cost
                spent += cost

    async with leasing.during(chunk, no_stop) as work:
        ended = await asyncio.gather(*(call() for _ in range(calls)), return_exceptions=True)
        work.finished = not any(ended)
    assert all(error is None or isinstance(error, StopRunError) for error in ended), ended
    return spent


async def test_workers_spend_the_budget_of_the_run_and_no_more(tmp_path: Path) -> None:
    limits(tmp_path, "driver").prepare(3.0)
    workers = [Leasing(limits(tmp_path, name), [], LeasedBudget()) for name in ("one", "other")]
    spent = await asyncio.gather(*(spend(worker, at, [0.01] * 1000) for at, worker in enumerate(workers)))
    assert 2.9 < sum(spent) <= 3.0 + 1e-9
    assert min(spent) > 0.2
    with pytest.raises(StopRunError, match=r"--max-cost 3: .*reserved by all workers"):
        async with asyncio.timeout(10), workers[0].budget.reserved("target", 0.01):  # type: ignore[union-attr]
            pass


async def test_a_worker_spends_all_that_the_others_do_not_need(tmp_path: Path) -> None:
    limits(tmp_path, "driver").prepare(3.0)
    idle, busy = (Leasing(limits(tmp_path, name), [], LeasedBudget()) for name in ("idle", "busy"))
    async with asyncio.timeout(10):
        spent = await asyncio.gather(spend(idle, 0, [0.01] * 5), spend(busy, 1, [0.01] * 200))
    assert spent == pytest.approx([0.05, 2.0])
    shares, _ = limits(tmp_path, "driver").read()
    assert shares.granted() == pytest.approx(2.05)


async def test_no_call_is_made_before_a_share_of_the_limits_is_held_nor_after(tmp_path: Path) -> None:
    limits(tmp_path, "driver").prepare(None)
    with FaultServer(lambda *_: answer("ok")) as server:
        endpoint = azure_ml(server.url, limits={"requests_per_minute": 6000})
        leasing = Leasing(limits(tmp_path, "worker"), [endpoint], None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await endpoint.complete(user("a"))
        async with asyncio.timeout(10), leasing.during(0, no_stop):
            await endpoint.complete(user("a"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await endpoint.complete(user("a"))
        await endpoint.close()
    assert len(server.requests) == 1


async def test_storage_that_cannot_be_reached_stops_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_leasing, "STALE_S", 0.05)
    told = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(10), Leasing(limits(tmp_path, "w"), [], LeasedBudget()).during(0, told.set_result):
        assert isinstance(await told, RunError)  # there are no shares
