"""Lanes: where evaluators run. One lane takes rows from its queue in batches and runs its evaluators on them.

Asynchronous evaluators have a lane each in the event loop; users' synchronous ones a lane each in threads (they may
wait for something); those that burn CPU share one lane, so that a row's text is read once, in worker processes or a
thread. No lane waits for another, so any number of evaluators and any number of workers makes progress.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor as Pool, Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeAlias, TypeVar

from tunecheck._files import Failure
from tunecheck.calls._formats.reading import one_row
from tunecheck.pipeline._results import RowState
from tunecheck.pipeline._scoring import BoundEvaluator, Output, Scorer, call, call_async

if TYPE_CHECKING:
    from tunecheck.endpoints._base import ModelCalls

P = ParamSpec("P")
T = TypeVar("T")

Arguments: TypeAlias = "dict[str, object] | None"
"""One evaluator's bound arguments for one row; None: nothing to do."""

Outcome: TypeAlias = "Output | Failure | None"


@dataclass(slots=True)
class Job:
    """One row's work in one lane: for each of the lane's evaluators its arguments, their hash, and what came of it."""

    state: RowState
    arguments: list[Arguments]
    hashes: list[str | None] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a batch took: seconds by the clock, and of them seconds of CPU."""

    wall: float
    cpu: float


_PATIENCE_S = 0.2
"""How long a batch may take before the rows behind it get slots of their own."""


class Executor(Protocol):
    """Runs a batch: for each row, one outcome for each evaluator."""

    slots: int
    """Batches that may run at once."""
    largest: int
    """Most rows in a batch."""

    async def run(self, batch: Sequence[list[Arguments]]) -> tuple[list[list[Outcome]], Spent]:
        """Run one batch; what it raises ends the run."""
        ...


def run_batch(evaluators: Sequence[Scorer], batch: Sequence[list[Arguments]]) -> list[list[Outcome]]:
    """Run synchronous evaluators on some rows, here and now."""
    outcomes: list[list[Outcome]] = []
    for row in batch:
        with one_row(value for arguments in row if arguments for value in arguments.values()):
            calls = zip(evaluators, row, strict=True)
            outcomes.append([None if arguments is None else call(each, arguments) for each, arguments in calls])
    return outcomes


class Threads(Pool):
    """At most `most` daemon threads for functions that are not ours, each started when there is work for it.

    The standard library's pool waits for its threads when Python ends, for ever if need be.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._idle = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a function called; its future has what it returned or raised."""
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - it is for whoever waits for the future
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            if self._closed:
                raise RuntimeError("the threads were let go")
            self._work.put(call)
            if self._idle:
                self._idle -= 1
            elif self._count < self._most:
                self._count += 1
                threading.Thread(target=self._serve, name=f"{self._name}_{self._count}", daemon=True).start()
        return future

    def _serve(self) -> None:
        while (call := self._work.get()) is not None:
            call()
            del call  # else it holds its arguments until the next one comes
            with self._lock:
                self._idle += 1

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Let the threads end when they have done what was not cancelled of their work; nobody waits for them."""
        with self._lock:
            self._closed = True
            for _ in range(self._count):
                self._work.put(None)


class ThreadExecutor:
    """Runs batches in threads."""

    largest = 128

    def __init__(self, evaluators: Sequence[Scorer], pool: Pool, slots: int) -> None:
        self._evaluators = evaluators
        self._pool = pool
        self.slots = slots

    async def run(self, batch: Sequence[list[Arguments]]) -> tuple[list[list[Outcome]], Spent]:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, batch)

    def _run(self, batch: Sequence[list[Arguments]]) -> tuple[list[list[Outcome]], Spent]:
        wall, cpu = time.perf_counter(), time.thread_time()
        outcomes = run_batch(self._evaluators, batch)
        return outcomes, Spent(time.perf_counter() - wall, time.thread_time() - cpu)


class AsyncExecutor:
    """Awaits one asynchronous evaluator, a row at a time in each slot."""

    largest = 1

    def __init__(self, evaluator: Scorer, slots: int, calls: ModelCalls | None = None) -> None:
        """`calls` asks models for it, where it has a `call_with`."""
        self._evaluator = evaluator
        self._calls = calls
        self.slots = slots

    async def run(self, batch: Sequence[list[Arguments]]) -> tuple[list[list[Outcome]], Spent]:
        started = time.perf_counter()
        outcomes = [
            [None if each is None else await call_async(self._evaluator, each, self._calls) for each in row]
            for row in batch
        ]
        return outcomes, Spent(time.perf_counter() - started, 0.0)


class Lane:
    """A queue of rows before some evaluators, and the slots that serve it."""

    def __init__(
        self,
        evaluators: Sequence[BoundEvaluator],
        executor: Executor,
        finished: Callable[[Lane, list[Job]], None],
        failed: Callable[[list[Job], Exception], None],
    ) -> None:
        """`finished` is called in the event loop with each batch that has outcomes, `failed` with one that has none."""
        self.evaluators = evaluators
        self._executor = executor
        self._finished = finished
        self._failed = failed
        self._queue: asyncio.Queue[Job | None] = asyncio.Queue()
        self._size = _BatchSize(executor.largest)
        self._slots: list[asyncio.Task[None]] = []

    def feed(self, job: Job) -> None:
        self._queue.put_nowait(job)

    def take_all(self) -> list[Job]:
        """Empty the queue: the run stops, and these will not be started."""
        jobs = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        if None in jobs:
            self.close()
        return [job for job in jobs if job is not None]

    async def serve(self) -> None:
        """Work until `close` was called and the queue is empty.

        A lane of threads starts with one slot: more only help evaluators that wait, and cost those that compute. Those
        that wait are known by the CPU they spent, and by a batch that does not come back.
        """
        at_once = 1 if isinstance(self._executor, ThreadExecutor) else self._executor.slots
        async with asyncio.TaskGroup() as group:
            self._open_slots(group, at_once)

    def _open_slots(self, group: asyncio.TaskGroup, count: int) -> None:
        while len(self._slots) < min(count, self._executor.slots):
            self._slots.append(group.create_task(self._serve_slot(group)))

    def close(self) -> None:
        self._queue.put_nowait(None)

    async def _serve_slot(self, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = await self._next_batch()
            if not batch:
                return
            impatient = loop.call_later(_PATIENCE_S, self._open_slots, group, self._executor.slots)
            try:
                outcomes, spent = await self._executor.run([job.arguments for job in batch])
            except Exception as error:  # noqa: BLE001 - whatever is wrong, the run stops in order
                self._failed(batch, error)
                continue
            finally:
                impatient.cancel()
            for job, outcome in zip(batch, outcomes, strict=True):
                job.outcomes = outcome
            self._size.learn(len(batch), spent)
            if self._size.waits:
                self._open_slots(group, self._executor.slots)
            self._finished(self, batch)

    async def _next_batch(self) -> list[Job]:
        first = await self._queue.get()
        batch: list[Job] = []
        while first is not None:
            batch.append(first)
            if len(batch) >= self._size.rows or self._queue.empty():
                return batch
            first = self._queue.get_nowait()
        self._queue.put_nowait(None)  # the end is for the other slots too
        return batch


class _BatchSize:
    """How many rows to take at once, learnt from what they took: about 20 ms of work, so that nothing waits long."""

    _SECONDS = 0.02

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._per_row: float | None = None
        self.rows = 1
        self.waits = False

    def learn(self, rows: int, spent: Spent) -> None:
        cost = spent.wall / rows
        self._per_row = cost if self._per_row is None else 0.7 * self._per_row + 0.3 * cost
        self.rows = max(1, min(self._largest, int(self._SECONDS / max(self._per_row, 1e-7))))
        self.waits = self.waits or (spent.wall > 0.001 and spent.cpu < 0.25 * spent.wall)


class AnswerQueue:
    """Hands out rows to be answered; of each group the next one only when the one before has its answer."""

    def __init__(self) -> None:
        self._ready: deque[RowState] = deque()
        self._behind: dict[str, deque[RowState]] = {}
        self._waiting_behind = 0
        self._permits = asyncio.Semaphore(0)
        """One for each row that is ready, and one that says the end, which is passed on and on."""
        self._closed = False
        self._ended = False

    def put(self, state: RowState) -> None:
        behind = None if state.group is None else self._behind.get(state.group)
        if behind is not None:
            behind.append(state)
            self._waiting_behind += 1
            return
        if state.group is not None:
            self._behind[state.group] = deque()
        self._ready.append(state)
        self._permits.release()

    async def next(self) -> RowState | None:
        """The next row to be answered, when there is one; None when no more will come."""
        await self._permits.acquire()
        if self._ready:
            return self._ready.popleft()
        self._permits.release()
        return None

    def done(self, state: RowState) -> None:
        """A row has its answer (or will get none): the next one of its group may follow."""
        behind = None if state.group is None else self._behind.get(state.group)
        if behind:
            self._waiting_behind -= 1
            self._ready.appendleft(behind.popleft())
            self._permits.release()
            self._end_if_all_out()
        elif behind is not None and state.group is not None:
            del self._behind[state.group]

    def close(self) -> None:
        self._closed = True
        self._end_if_all_out()

    def clear(self) -> int:
        """Forget the rows that were not handed out, and close; how many they were."""
        waiting = len(self._ready) + self._waiting_behind
        self._ready.clear()
        self._behind.clear()
        self._waiting_behind = 0
        self.close()
        return waiting

    def _end_if_all_out(self) -> None:
        if self._closed and not self._waiting_behind and not self._ended:
            self._ended = True
            self._permits.release()
