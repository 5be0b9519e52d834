"""The threads that untrusted functions run in."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import wait
from functools import partial

import pytest

from tunecheck._loops import Threads


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
    with pytest.raises(RuntimeError, match="have ended"):
        threads.submit(int)
    for thread in [thread for thread in threading.enumerate() if thread.name.startswith("gone_")]:
        thread.join(30)
        assert not thread.is_alive()


# -- calls that do not come back


async def test_a_call_that_waits_for_a_thread_is_not_late() -> None:
    threads, release = Threads(1, "busy"), threading.Event()
    first = asyncio.create_task(threads.call(partial(release.wait, 30), 30))
    second = asyncio.create_task(threads.call(partial(pow, 2, 3), 0.05))
    await asyncio.sleep(0.2)
    release.set()
    assert (await first, await second) == (True, 8)
