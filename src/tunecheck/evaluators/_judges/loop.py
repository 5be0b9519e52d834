"""An event loop in a thread of its own: how a judge that works asynchronously is called like a plain function."""

import asyncio
import concurrent.futures
import contextlib
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from tunecheck._errors import EndpointError

T = TypeVar("T")

_CLOSING_S = 5.0


class JudgeLoop:
    """Runs coroutines for callers in any thread, also one whose own event loop is running (a notebook).

    The thread starts with the first call and ends with `close`, with the owner, or with the process; `at_end` is
    awaited before, to close connections.
    """

    def __init__(self, at_end: Callable[[], Awaitable[None]]) -> None:
        self._at_end = at_end
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = os.getpid()
        self._end: weakref.finalize[Any, Any] | None = None

    @property
    def started(self) -> bool:
        return self._loop is not None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise EndpointError("the judge was closed while it was judging") from None
        except BaseException:  # noqa: BLE001 - Ctrl-C while waiting: nobody is left to take the answer
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread; a later call starts a new one."""
        with self._lock:  # until it has ended: who finds it started waits for that
            if self._end is not None:
                self._end()
            self._end = self._loop = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():  # a forked process has no thread of ours
                self._process = os.getpid()
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_serve, args=(self._loop,), name="tunecheck-judge", daemon=True)
                thread.start()
                # Not a method of this object, which would keep it alive.
                self._end = weakref.finalize(self, _finish, self._loop, thread, self._at_end)
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _finish(loop: asyncio.AbstractEventLoop, thread: threading.Thread, at_end: Callable[[], Awaitable[None]]) -> None:
    if loop.is_closed():
        return

    async def end() -> None:
        with contextlib.suppress(Exception):  # connections of a process that ends
            await at_end()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:  # another thread waits for what would never end
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    if threading.current_thread() is thread:  # collected at the end of its own work: nothing can be waited for
        task = loop.create_task(end())
        task.add_done_callback(lambda _: loop.stop())
        return
    with contextlib.suppress(Exception):  # it may take too long, or the loop is gone
        asyncio.run_coroutine_threadsafe(end(), loop).result(_CLOSING_S)
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(loop.stop)
    thread.join(_CLOSING_S)
