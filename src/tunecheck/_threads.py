"""Daemon threads for functions that are not ours: one that does not come back in time is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

MOST_LEFT = 32
"""Calls left behind after which no more are made: each of them holds a thread, and what it works on, for good."""


def end_if_forked(process: int) -> None:
    """End a child that somebody's code forked from this process and that came back here: it has no part in the run."""
    if os.getpid() != process:
        os._exit(0)


class LateError(TimeoutError):
    """A call takes too long, or is not made because too many before it did; the text goes on from who is called."""


class Call(Future[T]):
    """A call that waits for its thread, is under way, or done: a future of what the function returns or raises."""

    def __init__(self, function: Callable[[], T]) -> None:
        super().__init__()
        self._function: Callable[[], T] | None = function
        self.begun: float | None = None
        """When its thread took it up, by time.monotonic()."""
        self.left = False
        """Nobody waits for it any longer."""

    def run(self) -> None:
        """Make the call, unless it was cancelled."""
        function, self._function = self._function, None  # else its arguments live as long as its result
        if function is None or not self.set_running_or_notify_cancel():
            return
        self.begun, process = time.monotonic(), os.getpid()
        try:
            try:
                result = function()
            finally:
                end_if_forked(process)
        except StopIteration as error:  # which no coroutine can raise
            self.set_exception(RuntimeError(f"StopIteration: {error}"))
        except BaseException as error:  # noqa: BLE001 - it is for whoever waits
            self.set_exception(error)
        else:
            self.set_result(result)


class Threads:
    """At most `most` daemon threads, each started when there is work for it.

    The standard library's pool waits for its threads when Python ends, for ever if need be.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._work: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._idle = 0
        self._waiting = 0
        self._closed = False
        self.left = 0
        """Calls that were left behind and have not come back."""

    def submit(self, function: Callable[[], T]) -> Call[T]:
        """Have a function called.

        Raises:
            RuntimeError: the threads were let go.
        """
        call = Call(function)
        with self._lock:
            if self._closed:
                raise RuntimeError("the threads were let go")
            self._work.put(call)
            self._waiting += 1
            self._start_where_needed()
        return call

    def _start_where_needed(self) -> None:
        if self._waiting > self._idle and self._count < self._most:
            self._count += 1
            self._idle += 1
            threading.Thread(target=self._serve, name=f"{self._name}_{self._count}", daemon=True).start()

    def _serve(self) -> None:
        while (call := self._work.get()) is not None:
            with self._lock:
                self._idle -= 1
                self._waiting -= 1
            call.run()
            with self._lock:
                if call.left:  # another thread has this one's place
                    self.left -= 1
                    self._count -= 1
                    self._most -= 1
                    return
                self._idle += 1
            del call  # else its result lives until the next one comes

    async def call(
        self, function: Callable[[], T], limit_s: float, begun: Callable[[], float | None] | None = None
    ) -> T:
        """What the function returns; its limit counts since `begun`, by default since its thread took it up.

        Raises:
            LateError: it takes longer, and its thread is left behind; or too many have been before.
        """
        if self.left >= MOST_LEFT:
            raise LateError(f"is not called: {self.left} calls before have not come back")
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        call = self.submit(function)

        def end() -> None:
            if not ended.done():
                ended.set_result(None)

        def tell(_: Future[T]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any longer
                loop.call_soon_threadsafe(end)

        call.add_done_callback(tell)
        left_s = limit_s
        try:
            while not ended.done() and left_s > 0:
                await asyncio.wait((ended,), timeout=left_s)
                since = call.begun if begun is None else begun()
                left_s = limit_s if since is None else since + limit_s - time.monotonic()
        finally:
            call.cancel()  # where it has not begun
        if self._leave(call):
            raise LateError(f"took longer than {limit_s:g} s")
        return call.result()

    def _leave(self, call: Call[T]) -> bool:
        """Leave a call behind, unless it is done."""
        with self._lock:
            call.left = not call.done()
            if call.left:
                self.left += 1
                self._most += 1
                self._start_where_needed()
            return call.left

    def shutdown(self) -> None:
        """Let the threads end when they have done what was not cancelled of their work; nobody waits for them."""
        with self._lock:
            self._closed = True
            for _ in range(self._count):
                self._work.put(None)
