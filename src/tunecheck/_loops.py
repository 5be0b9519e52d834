"""User code in daemon threads and their event loops: after a timeout, a call is abandoned but keeps its thread.

Python cannot end a thread. So user code that hangs must not hold a thread or an event loop that others need:

* A sync function runs in `Threads`. After its time limit, the call is abandoned, and a new thread may take the place
  of its thread. After 32 abandoned calls, no further calls are made.
* Coroutines share the event loop of a `UserLoop`. If one of them blocks the loop, each call in progress is repeated in
  a loop of its own, so that only the blocking call fails. A function that has blocked five loops is no longer called.

Callers without an event loop use these loops, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

MOST_ABANDONED = 32
"""Number of abandoned calls after which no further calls are made; each one holds a thread and its data forever."""


def end_if_forked(process: int) -> None:
    """Exit if this is a child process that user code forked from `process`; only the parent continues the run."""
    if os.getpid() != process:
        os._exit(0)


class LateError(TimeoutError):
    """A call exceeds its time limit or is refused after too many such calls; the function's name precedes the text."""

    @classmethod
    def after(cls, limit_s: float) -> LateError:
        """Return the error of a call that exceeded this time limit."""
        return cls(f"the call took longer than its time limit of {limit_s:g} s: make it faster, or raise the limit")


class Call(Future[T]):
    """A call in a thread: a future for its result or exception."""

    def __init__(self, function: Callable[[], T]) -> None:
        """Prepare a call of `function` without arguments; `run` makes it."""
        super().__init__()
        self._function: Callable[[], T] | None = function
        self.begun: float | None = None
        """Start time of the call in its thread, by time.monotonic()."""
        self.abandoned = False
        """True if the caller has abandoned the call."""

    def run(self) -> None:
        """Make the call in this thread and store its result or exception, unless the call was cancelled."""
        function, self._function = self._function, None  # else the arguments live as long as the result
        if function is None or not self.set_running_or_notify_cancel():
            return

        self.begun, process_id = time.monotonic(), os.getpid()
        try:
            # The child must end before it can report a result in the parent's name.
            try:
                result = function()
            finally:
                end_if_forked(process_id)
        except StopIteration as error:  # a future cannot hold StopIteration
            self.set_exception(RuntimeError(f"StopIteration: {error}"))
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            self.set_exception(error)
        else:
            self.set_result(result)


class Threads(ThreadPoolExecutor):
    """At most `most` daemon threads, each started when there is work for it.

    The class has the interface of the standard library's pool. That pool waits for its threads when Python ends, even
    for a thread that hangs.
    """

    def __init__(self, most: int, name: str) -> None:
        """Prepare up to `most` threads whose names begin with `name`; none is started yet."""
        super().__init__(most)  # its own threads start only with its own `submit`
        self._most = most
        self._name = name
        self._work: SimpleQueue[Call[Any] | None] = SimpleQueue()
        """Calls that wait for a thread; None ends the thread that takes it."""
        self._lock = threading.Lock()
        self._count = 0
        self._idle = 0
        """Number of threads without work, minus the number of calls that wait for a thread."""
        self._closed = False
        self.abandoned = 0
        """Number of abandoned calls that still run."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
        """Call a function in a thread; return its future.

        Raises:
            RuntimeError: the threads were shut down.
        """
        call: Call[T] = Call(partial(fn, *args, **kwargs) if args or kwargs else cast("Callable[[], T]", fn))
        with self._lock:
            if self._closed:
                raise RuntimeError("no call can start after `shutdown`: create another `Threads`")
            self._work.put(call)
            self._idle -= 1
            self._start_where_needed()
        return call

    def _start_where_needed(self) -> None:
        """Start a thread if a call waits for one and fewer than the maximum run; the lock must be held."""
        if self._idle < 0 and self._count < self._most:  # below 0, calls wait for a thread
            self._count += 1
            self._idle += 1
            threading.Thread(target=self._serve, name=f"{self._name}_{self._count}", daemon=True).start()

    def _serve(self) -> None:
        """Make the calls in the queue. End when the queue gives None, or when an abandoned call returns."""
        while (call := self._work.get()) is not None:
            call.run()
            with self._lock:
                if call.abandoned:  # its place was freed for another thread
                    self.abandoned -= 1
                    return
                self._idle += 1
            del call  # else its result lives until the next one comes

    async def call(
        self, function: Callable[[], T], limit_s: float, begun: Callable[[], float | None] | None = None
    ) -> T:
        """Call a function in a thread and return what it returns; raise what it raises.

        The time limit counts from the call's start in its thread. If `begun` is given, it returns another start of the
        limit, such as that of the current item of a batch, or None if nothing has begun.

        Raises:
            LateError: the time limit is exceeded and the call is abandoned, or too many calls were abandoned before.
        """
        if self.abandoned >= MOST_ABANDONED:
            unfinished_calls = f"{self.abandoned} earlier calls still run after their time limit"
            raise LateError(f"no further call is made, because {unfinished_calls}: make calls end in time")

        call = self.submit(function)
        remaining_s = limit_s

        try:
            # Waiting in a queue does not count: the rest of the limit is known only after the call has begun.
            while not call.done() and remaining_s > 0:
                await _wait(call, remaining_s)
                started = call.begun if begun is None else begun()
                remaining_s = limit_s if started is None else started + limit_s - time.monotonic()
            if call.done():
                return call.result()
        finally:
            call.cancel()  # does nothing if a thread has begun it

        # The call may have ended between the last wait and this check.
        if self._abandon_unless_done(call):
            raise LateError.after(limit_s)
        return call.result()

    def _abandon_unless_done(self, call: Call[T]) -> bool:
        """Abandon a call unless it is done, and free its place for another thread; return True if it was abandoned."""
        with self._lock:
            call.abandoned = not call.done()
            if call.abandoned:
                self.abandoned += 1
                self._count -= 1
                self._start_where_needed()
            return call.abandoned

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the threads end after the calls that were submitted and not cancelled; do not wait for them.

        `wait` and `cancel_futures`, which every executor of Python has, have no effect.
        """
        with self._lock:
            self._closed = True
            for _ in range(self._count):
                self._work.put(None)


_SHORT_S, _LONG_S, _LARGEST_BATCH = 0.0002, 0.001, 64
"""A batch that takes less time than `_SHORT_S` may double, up to `_LARGEST_BATCH` calls; `_LONG_S` is too long."""


class CallBatches:
    """Makes calls in threads like `Threads.call`, but several short calls in one thread, one after another.

    Handing a call over to a thread and its result back takes about 70 µs, longer than a short call itself. A batch may
    have one call at first. After a batch that took under 0.2 ms, the next may have twice as many, at most 64; after a
    slower one, one again. If a batch takes 1 ms, other threads make the calls that it has not begun. So calls that wait
    or compute for long have a thread each.
    """

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._waiting: dict[Call[Any], asyncio.Future[None]] = {}
        """The calls that are handed over in the loop's next turn, each with a future that ends its caller's wait."""
        self._size = 1
        """Maximum number of calls in the next batch."""
        self._running: set[asyncio.Task[None]] = set()

    async def call(self, function: Callable[[], T], limit_s: float) -> T:
        """Call a function in a thread and return what it returns; raise what it raises.

        Raises:
            LateError: the time limit is exceeded and the call is abandoned, or too many calls were abandoned before.
        """
        loop = asyncio.get_running_loop()
        call, ended = Call(function), loop.create_future()
        if not self._waiting:
            loop.call_soon(self._start, limit_s)
        self._waiting[call] = ended
        try:
            await ended
        finally:
            call.cancel()  # does nothing if a thread has begun it
        return call.result()

    def _start(self, limit_s: float) -> None:
        """Hand all waiting calls over to threads, in batches of the current size."""
        waiting, self._waiting = [*self._waiting.items()], {}
        for first in range(0, len(waiting), self._size):
            batch = _Batch(dict(waiting[first : first + self._size]))
            task = asyncio.get_running_loop().create_task(self._run(batch, limit_s))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run(self, batch: _Batch, limit_s: float) -> None:
        """Make a batch's calls in one thread. A late call fails, and other threads make the calls after it."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle

        def hand_on_if_begun(next_check_s: float) -> None:
            """Hand the other calls on if the thread has begun one; else check again later: the machine may be busy."""
            nonlocal timer
            if batch.has_begun():
                self._hand_on(batch, limit_s)
            else:
                timer = loop.call_later(next_check_s, hand_on_if_begun, 2 * next_check_s)

        timer = loop.call_later(_LONG_S, hand_on_if_begun, _LONG_S)
        try:
            took_s = await self._threads.call(batch.run, limit_s, batch.current_start)
            self._size = min(2 * self._size, _LARGEST_BATCH) if took_s < _SHORT_S else 1
        except Exception as error:  # noqa: BLE001 - whatever is wrong, each caller gets it
            # If no call has begun, the batch was refused (too many late calls, or a shutdown); others would be, too.
            if batch.has_begun():
                self._hand_on(batch, limit_s)
            batch.fail(error)
        timer.cancel()
        batch.wake_callers()

    def _hand_on(self, batch: _Batch, limit_s: float) -> None:
        """Let other threads make the calls that the batch's thread has not taken, one call in each thread."""
        self._size = 1
        self._waiting |= batch.take_rest()
        self._start(limit_s)


class _Batch:
    """Calls that one thread makes one after another."""

    def __init__(self, callers: dict[Call[Any], asyncio.Future[None]]) -> None:
        """`callers` maps each call to the future that its caller awaits."""
        self._callers = callers
        self._queue = deque(callers)
        """The calls that the thread has not taken yet."""

    def run(self) -> float:
        """Make the calls in this thread until none is left; return the seconds."""
        begun = time.perf_counter()
        with contextlib.suppress(IndexError):  # only `popleft` raises it: `run` keeps the errors of calls
            while True:
                self._queue.popleft().run()
        return time.perf_counter() - begun

    def has_begun(self) -> bool:
        """Return True if the thread has begun a call."""
        return any(call.begun is not None for call in self._callers)

    def current_start(self) -> float | None:
        """Return the start time of the call that is running now, or None."""
        return next((call.begun for call in self._callers if not call.done()), None)

    def take_rest(self) -> dict[Call[Any], asyncio.Future[None]]:
        """Remove and return the calls that the thread has not taken; wake the callers of calls that are done."""
        rest: dict[Call[Any], asyncio.Future[None]] = {}
        with contextlib.suppress(IndexError):  # the thread takes calls from the queue at the same time
            while True:
                call = self._queue.popleft()
                rest[call] = self._callers.pop(call)
        self.wake_callers()
        return rest

    def fail(self, error: Exception) -> None:
        """Pass an error to the callers of all calls that are not done."""
        for call, awaited in self._callers.items():
            if not call.done() and not awaited.done():
                awaited.set_exception(error)

    def wake_callers(self) -> None:
        """Wake the callers of all calls that are done; a caller that was cancelled no longer waits."""
        for call, awaited in self._callers.items():
            if call.done() and not awaited.done():
                awaited.set_result(None)


async def _wait(call: Future[Any], limit_s: float) -> None:
    """Wait until the call is done, or for this many seconds; asyncio.wait and wrap_future take twice the CPU time."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def wake() -> None:
        if not ended.done():
            ended.set_result(None)

    def wake_from_thread(_: Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller waits
            loop.call_soon_threadsafe(wake)

    timer = loop.call_later(limit_s, wake)
    call.add_done_callback(wake_from_thread)
    try:
        await ended
    finally:
        timer.cancel()


# -- event loops

_MOST_BLOCKED = 5
"""Number of event loops that one function may block, perhaps forever, before it is no longer called."""

_PATIENCE_S = 5.0
"""A loop that does not respond within this many seconds counts as blocked; others respond at once."""

_CLOSING_S = 2.0
"""Time to wait for the loop to end before it is left to the end of the process."""

_MOST_ALONE = 16
"""Maximum number of concurrent repeated calls; each has its own loop and thread."""

IN_USER_LOOP = ContextVar("IN_USER_LOOP", default=False)
"""True in the calls of a `UserLoop`; nested calls of user code then need no other loop."""


class PerLoop(Generic[T]):
    """One object per event loop, such as a connection or a lock."""

    def __init__(self) -> None:
        self._made: dict[asyncio.AbstractEventLoop, T] = {}

    def here(self, make: Callable[[], T]) -> T:
        """Return the running loop's object; without one, make it, and drop the objects of closed loops."""
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            # A closed loop never comes back, so its objects can go.
            for ended in [known for known in [*self._made] if known.is_closed()]:
                self._made.pop(ended, None)
            self._made[loop] = make()
        return self._made[loop]

    def take(self) -> T | None:
        """Remove and return the running loop's object; None if it has none."""
        return self._made.pop(asyncio.get_running_loop(), None)

    def all(self) -> list[T]:
        """Return the objects of all loops."""
        return [*self._made.values()]


class LoopThread:
    """An event loop in its own daemon thread; it ends with `end` or with the process."""

    def __init__(self, name: str) -> None:
        """Start the loop in a daemon thread with this name."""
        self.loop = asyncio.new_event_loop()
        # Python can exit while one of these threads hangs.
        self.loop.set_default_executor(Threads(32, "tunecheck-to-thread"))
        self.ended: Future[None] = Future()
        # Without this state, a task that waits for the future could cancel it.
        self.ended.set_running_or_notify_cancel()
        self._is_over = False
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self.thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the loop; return its future."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def end(self, first: Callable[[], Awaitable[object]] | None = None) -> None:
        """Let the loop end, without waiting: await `first()` if given, cancel its tasks, close it, then set `ended`."""
        if not self.loop.is_closed():
            self.submit(self._wind_up(first))

    async def _wind_up(self, first: Callable[[], Awaitable[object]] | None) -> None:
        """Call and await `first` if given, cancel all other tasks, and stop the loop; errors of `first` are ignored."""
        with contextlib.suppress(Exception):  # closing unused connections may fail
            if first is not None:
                await first()

        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()

        await asyncio.gather(*rest, return_exceptions=True)
        await self.loop.shutdown_asyncgens()

        # Callbacks of tasks that have just finished must still run, to wake waiting threads.
        await asyncio.sleep(0)

        self._is_over = True
        self.loop.stop()

    def _serve(self) -> None:
        """Run the loop in this thread until it is wound up; then close it and set `ended`."""
        asyncio.set_event_loop(self.loop)
        while not self._is_over:
            with contextlib.suppress(SystemExit, KeyboardInterrupt):  # the awaiting caller gets it from the task
                self.loop.run_forever()
        self.loop.close()
        self.ended.set_result(None)


class _LoopBlockedError(Exception):
    """The event loop of the call no longer responds: this call or another one blocks it."""


class _CallLoop(LoopThread):
    """An event loop for user coroutines, and its calls."""

    def __init__(self) -> None:
        """Start the loop, without calls."""
        super().__init__("tunecheck-async")
        self._replies: set[Future[Future[Any]]] = set()
        self._blocked = False

    async def call(self, function: Callable[[], Awaitable[T] | T], limit_s: float) -> T:
        """Call a function in this loop and return what it returns, awaited if needed; raise what it raises.

        Raises:
            LateError: the function exceeds `limit_s`.
            _LoopBlockedError: this call or another one blocks the loop, which is abandoned with all its calls.
        """
        reply = self.submit(_answer(function))
        self._replies.add(reply)
        try:
            # No reply within the limit: either this call is slow, or some call blocks the loop.
            await _wait(reply, limit_s)
            if not reply.done() and not await self._responds(min(limit_s, _PATIENCE_S)):
                self._abandon()

            if reply.cancelled():
                raise _LoopBlockedError if self._blocked else asyncio.CancelledError
            if not reply.done():
                raise LateError.after(limit_s)
            return reply.result().result()
        finally:
            self._replies.discard(reply)
            reply.cancel()  # the call is late or its caller was cancelled: its result is not needed

    async def _responds(self, patience_s: float) -> bool:
        """Return True if the loop responds within this many seconds: then no call blocks it."""
        response = self.submit(asyncio.sleep(0))
        await _wait(response, patience_s)
        return response.done()

    def _abandon(self) -> None:
        """Mark the loop as blocked and cancel the replies to all its calls."""
        self._blocked = True
        for reply in [*self._replies]:
            reply.cancel()
        self.end()  # takes effect when the blocking call returns


async def _answer(function: Callable[[], Awaitable[T] | T]) -> Future[T]:
    """Call a function in a user loop; return a future that has its result, awaited if needed, or its error.

    Raises:
        CancelledError: the call was cancelled.
    """
    IN_USER_LOOP.set(True)

    outcome: Future[T] = Future()
    process = os.getpid()
    try:
        value = function()
        outcome.set_result(await value if inspect.isawaitable(value) else value)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - the caller gets SystemExit too; it must not end the loop
        outcome.set_exception(error)
    finally:
        end_if_forked(process)
    return outcome


class UserLoop:
    """The event loop of user coroutines, in its own thread, so that a blocking coroutine does not block the run.

    All coroutines share the loop, because they may share a client. If a call blocks it, each call in progress is
    repeated in its own loop, so that only the blocking call fails.
    """

    def __init__(self) -> None:
        self._shared: _CallLoop | None = None
        self._alone = asyncio.Semaphore(_MOST_ALONE)
        self._blocked: Counter[str] = Counter()

    async def call(
        self,
        name: str,
        function: Callable[[], Awaitable[T] | T],
        limit_s: float,
        threads: Threads | CallBatches | None = None,
    ) -> T:
        """Call a function of user code in the user loop; return what it returns, awaited if needed.

        With `threads`, one of these threads calls the function, and the loop only awaits an awaitable result. Errors of
        the function are raised. `name` identifies the function, to count the loops that its calls have blocked.

        Raises:
            CancelledError: other code in the loop cancelled the call, or the caller's own task is cancelled.
            LateError: the call exceeds its time limit, or too many earlier calls of this name have blocked a loop.
        """
        if threads is not None:
            value = await threads.call(function, limit_s)
            if not inspect.isawaitable(value):
                return value
            # An awaitable can be awaited only once: if another call blocks the loop, the function is called again.
            returned = [value]
            return await self.call(name, lambda: returned.pop() if returned else function(), limit_s)

        shared = self._shared = self._shared or _CallLoop()
        try:
            self._check(name)
            return await shared.call(function, limit_s)
        except _LoopBlockedError:
            if self._shared is shared:
                self._shared = None

        # Some call blocks the shared loop. In a loop of its own, this one fails only if it is that call.
        async with self._alone:
            self._check(name)
            alone = _CallLoop()
            try:
                return await alone.call(function, limit_s)
            except _LoopBlockedError:
                self._blocked[name] += 1
                raise LateError.after(limit_s) from None
            finally:
                alone.end()

    def _check(self, name: str) -> None:
        """Refuse a further call of the function with this name if it has blocked event loops too often.

        Raises:
            LateError: five earlier calls have blocked a loop, whether or not they have ended since.
        """
        if self._blocked[name] >= _MOST_BLOCKED:
            blocking_calls = f"{_MOST_BLOCKED} earlier calls blocked the event loop"
            raise LateError(f"no further call is made, because {blocking_calls}: use await for blocking work")

    async def close(self) -> None:
        """Cancel the loop's tasks and wait a few seconds for it to end."""
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.end()
            await _wait(shared.ended, _CLOSING_S)
