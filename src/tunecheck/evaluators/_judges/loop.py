"""An event loop in a thread of its own: how a judge that works asynchronously is called like a plain function."""

import concurrent.futures
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from tunecheck._errors import EndpointError
from tunecheck._loops import LoopThread

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
        self._thread: LoopThread | None = None
        self._process = os.getpid()
        self._end: weakref.finalize[Any, Any] | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future = self._started().submit(work)
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
            self._end = self._thread = None

    def _started(self) -> LoopThread:
        with self._lock:
            if self._thread is None or self._process != os.getpid():  # a forked process has no thread of ours
                self._process = os.getpid()
                self._thread = LoopThread("tunecheck-judge")
                # Not a method of this object, which would keep it alive.
                self._end = weakref.finalize(self, _finish, self._thread, self._at_end)
            return self._thread


def _finish(loop: LoopThread, at_end: Callable[[], Awaitable[None]]) -> None:
    loop.end(at_end)
    if threading.current_thread() is not loop.thread:  # else collected at the end of its own work
        concurrent.futures.wait([loop.ended], _CLOSING_S)
