"""Code that is not ours, in daemon threads and in event loops there: what does not come back in time is left behind.

The loops are for callers that have none, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

P = ParamSpec("P")
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


# -- event loops

_MOST_BLOCKED = 5
"""Loops that one function has blocked for good, after which it is no longer called."""

_PATIENCE_S = 5.0
"""How long a loop may take to answer, at most: what is not blocked does so at once."""

_CLOSING_S = 2.0

_FOREIGN = ContextVar("_FOREIGN", default=False)


def is_in_foreign_loop() -> bool:
    """Whether this code was called through a `ForeignLoop`."""
    return _FOREIGN.get()


class PerLoop(Generic[T]):
    """What belongs to an event loop, as connections and locks do: made in each loop that asks for it."""

    def __init__(self) -> None:
        self._made: dict[asyncio.AbstractEventLoop, T] = {}

    def here(self, make: Callable[[], T]) -> T:
        """The running loop's own."""
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            for ended in [each for each in [*self._made] if each.is_closed()]:
                self._made.pop(ended, None)
            self._made[loop] = make()
        return self._made[loop]

    def take(self) -> T | None:
        """The running loop's own, which is then forgotten."""
        return self._made.pop(asyncio.get_running_loop(), None)

    def all(self) -> list[T]:
        """Each loop's."""
        return [*self._made.values()]


class LoopThread:
    """An event loop in a daemon thread of its own, which ends with `end`, or with the process."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(_DaemonPool())
        self.ended: Future[None] = Future()
        self._is_over = False
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self.thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have a coroutine run."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def end(self, first: Callable[[], Awaitable[object]] | None = None) -> None:
        """Await `first`, cancel the rest and close the loop: as soon as it comes to it, after which `ended` is done."""
        if not self.loop.is_closed():
            self.submit(self._wind_up(first))

    async def _wind_up(self, first: Callable[[], Awaitable[object]] | None) -> None:
        with contextlib.suppress(Exception):  # connections that nobody will use
            if first is not None:
                await first()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await self.loop.shutdown_asyncgens()
        self._is_over = True
        self.loop.stop()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._is_over:
            with contextlib.suppress(SystemExit, KeyboardInterrupt):  # a task's, which whoever awaits it is told
                self.loop.run_forever()
        self.loop.close()
        self.ended.set_result(None)


class _DaemonPool(ThreadPoolExecutor):
    """The threads of `asyncio.to_thread`: the standard library's keep Python from ending while one of them hangs."""

    def __init__(self) -> None:
        super().__init__(max_workers=32)
        self._threads_of_our_own = Threads(32, "tunecheck-to-thread")

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
        return self._threads_of_our_own.submit(partial(fn, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._threads_of_our_own.shutdown()


@dataclass(eq=False)
class _Call:
    """One call of somebody's function in the shared loop; `reply` is in the loop of whoever waits for it."""

    who: str
    function: Callable[[], object]
    reply: asyncio.Future[Any]
    task: asyncio.Task[None] | None = None
    blocks: bool = False
    """It was left behind with its loop."""

    async def run(self) -> None:
        """Call the function, in the shared loop."""
        _FOREIGN.set(True)
        process = os.getpid()
        try:
            settle = partial(self.reply.set_result, await _awaited(self.function))
        except asyncio.CancelledError:
            end_if_forked(process)
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit, too, is for whoever waits, and not for the loop
            settle = partial(self.reply.set_exception, error)
        end_if_forked(process)
        self._settle(settle)

    def ended(self, task: asyncio.Task[None]) -> None:
        """Say so where it was cancelled, which it may have been before it began."""
        self.task = None  # a task in the loop's table of owners is kept by the call that stands there for it
        if task.cancelled():
            self._settle(self.reply.cancel)

    def _settle(self, settle: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # nobody waits any longer: their loop is closed
            self.reply.get_loop().call_soon_threadsafe(lambda: None if self.reply.done() else settle())


async def _awaited(function: Callable[[], object]) -> object:
    value = function()
    return await value if inspect.isawaitable(value) else value


class _Shared(LoopThread):
    """A loop and the calls in it."""

    def __init__(self) -> None:
        super().__init__("tunecheck-async")
        self.calls: set[_Call] = set()
        self.left = False
        self._owners: WeakKeyDictionary[asyncio.Task[Any], _Call | None] = WeakKeyDictionary()
        self.loop.set_task_factory(self._task)  # type: ignore[arg-type]  # who still makes tasks of generators?

    def _task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T], **settings: object
    ) -> asyncio.Task[T]:
        """A task that belongs to the call which begins it."""
        task, begun_by = asyncio.Task(coroutine, loop=loop, **settings), asyncio.current_task()  # type: ignore[arg-type]
        self._owners[task] = None if begun_by is None else self._owners.get(begun_by)
        return task

    def begin(self, call: _Call) -> None:
        """Run a call; in this thread."""
        call.task = self.loop.create_task(call.run())
        self._owners[call.task] = call
        call.task.add_done_callback(call.ended)

    def cancel(self, call: _Call) -> None:
        """Give a call up that has begun; in this thread."""
        if call.task is not None:
            call.task.cancel()

    @property
    def running(self) -> _Call | None:
        """The call whose task has the loop now; None where there is none, or a callback has it."""
        task = asyncio.current_task(self.loop)
        return None if task is None else self._owners.get(task)

    async def answers(self, within_s: float) -> bool:
        """Whether the loop comes to something else in time."""
        answer = asyncio.wrap_future(self.submit(asyncio.sleep(0)))
        try:
            await asyncio.wait([answer], timeout=within_s)
            return answer.done()
        finally:
            answer.cancel()


class ForeignLoop:
    """The event loop of coroutines that are not ours, apart from our own: one that blocks it keeps nothing of ours.

    They share it, for they may share a client. A call that blocks it for longer than its limit is left behind with the
    loop; the others that were in it are made again in a new one.
    """

    def __init__(self) -> None:
        self._shared: _Shared | None = None
        self._blocked: Counter[str] = Counter()

    async def call(self, who: str, function: Callable[[], Awaitable[T] | T], limit_s: float) -> T:
        """What the function returns, or raises; awaited where that can be.

        Raises:
            CancelledError: other code in its loop cancelled it, or the caller's own task is.
            LateError: it takes longer, or too many calls of `who` before it have blocked a loop for good.
        """
        while self._blocked[who] < _MOST_BLOCKED:
            shared = self._shared = self._shared or _Shared()
            call = _Call(who, function, asyncio.get_running_loop().create_future())
            shared.calls.add(call)
            shared.loop.call_soon_threadsafe(shared.begin, call)
            try:
                await asyncio.wait([call.reply], timeout=limit_s)
                if call.blocks or not await self._done_after_all(shared, call, limit_s):
                    raise LateError(f"took longer than {limit_s:g} s")
            finally:
                shared.calls.discard(call)
                if call.reply.cancel() and not shared.left:
                    shared.loop.call_soon_threadsafe(shared.cancel, call)
            if not (shared.left and call.reply.cancelled()):
                return call.reply.result()  # type: ignore[no-any-return]
        raise LateError(f"is not called: {_MOST_BLOCKED} calls before have blocked its event loop for good")

    async def _done_after_all(self, shared: _Shared, call: _Call, limit_s: float) -> bool:
        """Whether a call has ended; one that has not, though the loop answers, is late."""
        while not call.reply.done():
            if await shared.answers(min(limit_s, _PATIENCE_S)):
                return call.reply.done()
            culprit = shared.running
            if culprit in (None, call):  # another one is held to its own limit
                self._leave(shared, {culprit} if culprit else set(shared.calls))
        return not call.blocks

    def _leave(self, shared: _Shared, culprits: set[_Call]) -> None:
        if self._shared is shared:
            self._shared = None
        shared.left = True
        self._blocked.update({culprit.who for culprit in culprits})
        for culprit in culprits:
            culprit.blocks = True
        for call in shared.calls:
            call.reply.cancel()
        shared.end()  # where it ever comes to it

    def running(self) -> tuple[asyncio.AbstractEventLoop, str] | None:
        """The loop, where there is one, and whose call has it now, as far as that is known; from any thread."""
        shared = self._shared
        if shared is None:
            return None
        return shared.loop, call.who if (call := shared.running) is not None else ""

    async def close(self) -> None:
        """Cancel what is left in the loop and wait for it to end, for some seconds."""
        shared, self._shared = self._shared, None
        if shared is None:
            return
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def tell(_: Future[None]) -> None:
            with contextlib.suppress(RuntimeError):  # nobody waits any longer
                loop.call_soon_threadsafe(ended.set)

        shared.ended.add_done_callback(tell)
        shared.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_S):
                await ended.wait()
