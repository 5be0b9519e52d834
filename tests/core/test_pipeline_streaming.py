"""Rows stream through the pipeline: in order, side by side and in threads, and none waits for another."""

import asyncio
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline_parts import Answering, column, metrics_of, rows_of, run

from tunecheck import CallContext, Row
from tunecheck._loops import MOST_ABANDONED, CallBatches, LateError, Threads, UserLoop
from tunecheck.datasets import Dataset, Digest, Source
from tunecheck.pipeline import _engine as engine


def numbers(count: int) -> list[dict[str, Any]]:
    return [{"id": f"r{n}", "n": n} for n in range(count)]


class Rows(Source):
    """Rows that are read with `read` once the scan is over."""

    name = label = "rows"

    def __init__(self, count: int, read: Callable[[dict[str, Any]], object]) -> None:
        self.count, self.read = count, read

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, row in enumerate(numbers(self.count), 1):
            if digest is None:  # else it is the scan
                self.read(row)
            yield number, row


@pytest.mark.parametrize("seed", range(3))
def test_rows_finish_in_any_order_and_come_out_in_their_own(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    finished: list[int] = []

    async def answer(n: int) -> int:
        for _ in range(rng.randrange(30)):
            await asyncio.sleep(0)
        finished.append(n)
        return n

    async def judge(response: int) -> dict[str, int]:
        for _ in range(rng.randrange(30)):
            await asyncio.sleep(0)
        return {"n": response}

    result = run(tmp_path, numbers(500), target=answer, evaluators={"e": judge, "f": lambda n: n}, concurrency=40)
    assert finished != sorted(finished)
    assert column(result, "row_id") == [f"r{n}" for n in range(500)]
    assert column(result, "outputs.e.n") == column(result, "outputs.f.f") == list(range(500))
    assert [row["row_id"] for row in result["rows"][10:13]] == ["r10", "r11", "r12"]  # type: ignore[index]


def test_one_slow_row_holds_up_no_other(tmp_path: Path) -> None:
    """The slow row is only answered when all others are finished with everything."""
    others = asyncio.Event()
    seen: set[int] = set()

    async def answer(n: int) -> int:
        if n == 0:
            async with asyncio.timeout(60):
                await others.wait()
        return n

    async def judge(response: int) -> int:
        seen.add(response)
        if len(seen) == 4999:
            others.set()
        return 1

    result = run(tmp_path, numbers(5000), target=answer, evaluators={"e": judge}, concurrency=4)
    assert result.failed_row_count == 0
    assert column(result, "row_id")[0] == "r0"


@pytest.mark.parametrize("stuck", [0, 3, 2_500])
def test_an_evaluator_that_waits_holds_up_few_rows(tmp_path: Path, stuck: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of its batch wait with it; the others get threads of their own, however quick it was before."""
    monkeypatch.setattr("tunecheck.pipeline._worker_queues._PATIENCE_S", 0.5)  # the first row may load something
    released = threading.Event()
    seen: list[int] = []

    def judge(n: int) -> int:
        if n == stuck:
            assert released.wait(60)
        seen.append(n)
        if len(seen) == 4_400:
            released.set()
        return 1

    result = run(tmp_path, numbers(5_000), evaluators={"e": judge})
    assert result.failed_row_count == 0


def test_one_evaluator_does_not_wait_for_another(tmp_path: Path) -> None:
    quick = threading.Event()

    def slow(n: int) -> int:
        assert quick.wait(60)
        return 1

    async def last(n: int) -> int:
        if n == 19:
            quick.set()
        return 1

    result = run(tmp_path, numbers(20), evaluators={"slow": slow, "last": last})
    assert result.failed_row_count == 0


@pytest.mark.parametrize("concurrency", [1, 2, 10, 100])
def test_twenty_synchronous_evaluators_that_wait_for_each_other_make_progress(tmp_path: Path, concurrency: int) -> None:
    """Azure hangs with as many evaluators as it has threads."""
    together = threading.Barrier(20, timeout=60)

    def waits(n: int) -> int:
        together.wait()  # passes only if all twenty evaluators are at work at once
        return 1

    evaluators = {f"e{number}": (lambda n: waits(n)) for number in range(20)}
    result = run(tmp_path, numbers(2), evaluators=evaluators, concurrency=concurrency)
    assert all(metrics_of(result)[f"e{number}.e{number}"] == 1 for number in range(20))


def test_rows_are_read_as_they_are_needed(tmp_path: Path) -> None:
    read = answered = 0
    most_ahead = 0

    def count(row: dict[str, Any]) -> None:
        nonlocal read, most_ahead
        read += 1
        most_ahead = max(most_ahead, read - answered)

    async def answer(n: int) -> int:
        nonlocal answered
        answered += 1
        return n

    run(tmp_path, Dataset(Rows(6_000, count)), target=answer, evaluators={"e": lambda response: 1})
    assert read == 6_000
    assert most_ahead < 2 * 1_024, "a window of 1,024"


def test_data_that_comes_slowly_is_worked_on_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading gives the loop a turn after some time, however few rows came."""
    monkeypatch.setattr(engine, "_TURN_S", 0.0)
    monkeypatch.setattr(engine, "_BURST", 1_100)  # no turn after a number of rows
    answered: list[int] = []
    seen_while_reading: list[int] = []

    async def answer(n: int) -> int:
        answered.append(n)
        return n

    def wait_a_little(row: dict[str, Any]) -> None:
        if row["n"] > 1_000:
            time.sleep(0.005)
        seen_while_reading.append(len(answered))

    run(tmp_path, Dataset(Rows(1_020, wait_a_little)), target=answer, evaluators={"e": lambda response: 1})
    assert seen_while_reading[-1] > 0


def test_at_most_1_024_calls_are_under_way_at_once_and_as_many_are(tmp_path: Path) -> None:
    class Waiting(Answering):
        under_way = most = 0
        full = asyncio.Event()

        async def answer(self, row: Row, context: CallContext) -> Any:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            if self.under_way == 1_024:
                asyncio.get_running_loop().call_later(0.3, self.full.set)  # time for one call too many
            async with asyncio.timeout(60):
                await self.full.wait()
            self.under_way -= 1
            return {"response": 1}

    target = Waiting()
    result = run(tmp_path, numbers(5_000), target=target, evaluators={"e": lambda response: 1}, concurrency=2_000)
    assert (result.failed_row_count, target.most) == (0, 1_024)


def test_above_a_limit_the_rows_stay_in_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["tunecheck.pipeline._finished_rows"], "ROWS_IN_MEMORY", 50)
    pandas = pytest.importorskip("pandas")
    result = run(tmp_path, numbers(60), evaluators={"e": lambda n: n})
    rows: Any = result["rows"]
    assert not isinstance(rows, list)
    assert (len(rows), rows[0]["row_id"], rows[-1]["inputs.n"]) == (60, "r0", 59)
    assert [row["inputs.n"] for row in rows[5:8]] == [5, 6, 7]
    assert [row["inputs.n"] for row in rows] == list(range(60))
    assert [row["inputs.n"] for row in reversed(rows)][:2] == [59, 58]
    assert list(rows[::20])[2]["inputs.n"] == 40
    with pytest.raises(IndexError):
        rows[60]
    assert list(pandas.DataFrame(rows)["outputs.e.e"]) == list(range(60))
    assert list(result.to_pandas()["inputs.n"]) == list(range(60))


def test_up_to_the_limit_the_rows_are_a_plain_list(tmp_path: Path) -> None:
    result = run(tmp_path, numbers(3), evaluators={"e": lambda n: n})
    assert type(result["rows"]) is list
    assert rows_of(result)[2]["outputs.e.e"] == 2


def test_as_many_calls_as_there_are_threads_run_at_once_and_no_more() -> None:
    threads = Threads(3, "t")
    together = threading.Barrier(3, timeout=30)
    running: set[str] = set()

    def call() -> None:
        running.add(threading.current_thread().name)
        together.wait()

    calls = [threads.submit(call) for _ in range(30)]
    assert not wait(calls, timeout=60).not_done
    assert all(call.exception() is None for call in calls)
    assert len(running) == 3


def test_threads_are_started_when_there_is_work_for_them() -> None:
    threads = Threads(50, "few")
    for _ in range(20):
        threads.submit(int).result(30)
    names = {thread.name for thread in threading.enumerate() if thread.name.startswith("few_")}
    assert 1 <= len(names) <= 20


def test_a_cancelled_call_is_not_made() -> None:
    threads = Threads(1, "t")
    release = threading.Event()
    made: list[int] = []
    first = threads.submit(partial(release.wait, 30))
    second = threads.submit(partial(made.append, 1))
    assert second.cancel()
    release.set()
    assert first.result(30)
    assert threads.submit(partial(list, made)).result(30) == []


def test_threads_that_were_let_go_finish_their_work_and_take_no_more() -> None:
    threads = Threads(2, "gone")
    calls = [threads.submit(partial(pow, 2, number)) for number in range(10)]
    threads.shutdown()
    assert [call.result(30) for call in calls] == [2**number for number in range(10)]
    with pytest.raises(RuntimeError, match="after `shutdown`"):
        threads.submit(int)
    for thread in [thread for thread in threading.enumerate() if thread.name.startswith("gone_")]:
        thread.join(30)
        assert not thread.is_alive()


async def test_a_call_that_waits_for_a_thread_is_not_late() -> None:
    threads, release = Threads(1, "busy"), threading.Event()
    first = asyncio.create_task(threads.call(partial(release.wait, 30), 30))
    second = asyncio.create_task(threads.call(partial(pow, 2, 3), 0.05))
    await asyncio.sleep(0.2)
    release.set()
    assert (await first, await second) == (True, 8)


async def test_short_calls_share_a_thread_and_each_gets_its_own_result() -> None:
    class Counting(Threads):
        submitted = 0

        def submit(self, *args: Any, **kwargs: Any) -> Any:
            self.submitted += 1
            return super().submit(*args, **kwargs)

    threads = Counting(8, "short")
    batches = CallBatches(threads)
    for _ in range(40):
        calls = [batches.call(partial(divmod, number, 3), 30) for number in range(25)]
        assert await asyncio.gather(*calls) == [divmod(number, 3) for number in range(25)]
    assert threads.submitted < 1_000

    calls = [batches.call(partial(divmod, 1, number), 30) for number in range(2)]
    first, second = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(first, ZeroDivisionError)
    assert second == (1, 0)


async def test_no_call_is_made_while_late_calls_hold_every_thread() -> None:
    threads, release = Threads(1, "held"), threading.Event()
    batches = CallBatches(threads)
    late = [batches.call(partial(release.wait, 60), 0.01) for _ in range(MOST_ABANDONED)]
    ended = await asyncio.gather(*late, return_exceptions=True)
    assert all(isinstance(error, LateError) for error in ended)
    with pytest.raises(LateError, match="no further call is made"):
        await batches.call(int, 30)
    release.set()


async def test_coroutines_that_start_together_each_see_their_caller_s_context() -> None:
    number: ContextVar[int] = ContextVar("number")
    loop = UserLoop()

    async def read() -> int:
        return number.get()

    async def call(value: int) -> int:
        number.set(value)
        return await loop.call("read", read, 30)

    assert await asyncio.gather(*map(call, range(50))) == [*range(50)]
    await loop.close()
