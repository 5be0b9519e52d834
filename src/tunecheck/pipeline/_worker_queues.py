"""Worker queues run evaluators: each takes rows in batches and runs its evaluators on them.

Each asynchronous evaluator has a queue in the event loop. Each synchronous user evaluator has a queue in threads,
because it may wait for I/O, or in a worker process. CPU-bound evaluators share one queue in worker processes or a
thread, so that a row's text is parsed once. Queues do not wait for each other.

A queue adapts to its evaluators:

*   Batch size: one row at first. A full batch that took less than 0.025 s doubles it, up to the executor's `largest`. A
    batch that took more than 0.1 s halves it.
*   Slots: one at first if batches share memory, else all. All open once a batch after the first one waits for I/O, or
    any batch takes longer than 5 s.
*   Retries: if batches share memory and several slots are open, a failed call is retried alone. A timeout is not
    retried, nor is an error type whose retries have failed three times.
*   One at a time: all further batches run alone once three retries have succeeded, and at least one per 20 batches.

An executor runs a queue's batches and stops waiting for calls that exceed the time limit.

`AnswerQueue` hands the engine's rows to the target, the rows of a group one after another.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tunecheck._files import Failure
from tunecheck._loops import LateError, Threads, UserLoop
from tunecheck.formats._reading import RowCache, begin_row
from tunecheck.pipeline._scoring import BoundEvaluator, Outcome, Scorer, as_failure, call, call_async, cancels_this_task

if TYPE_CHECKING:
    from tunecheck.endpoints._base import ModelCalls
    from tunecheck.pipeline._results import RowState

Arguments: TypeAlias = "dict[str, object] | None"
"""One evaluator's bound arguments for one row, or None if it is not called."""


class Work(Struct):
    """One row's work in one queue: the arguments of each evaluator, and parsed values that pure evaluators share.

    For example, a queue with the evaluators `match` and `f1` gets `[{"response": "…"}, None]`: `f1` is not called.
    """

    arguments: list[Arguments]
    row: RowCache | None


DEFAULT_TIMEOUT_S = 600.0
"""Default time limit of one evaluator call; long, because it may wait for a model."""

_MOST_THREADS = 64
"""Maximum number of threads of a queue, at any concurrency of the run."""

ROW: ContextVar[int | None] = ContextVar("row", default=None)
"""Index of the row that an evaluator is judging; it is recorded with the evaluator's model calls."""

LATE = "EvaluatorTimeoutError"
"""The error type of a call that exceeded its time limit."""

CRASHED = "WorkerDied"
"""The error type of a call that crashed its process."""

_SHORT_S, _WAITING = 0.001, 0.25
"""A batch of at least `_SHORT_S` seconds counts as waiting if less than this share of its time is CPU time."""


class QueueReply(NamedTuple):
    """The outcomes of a batch, by row and evaluator; `waits` if the batch mostly waited for I/O.

    `took_s` is the CPU time of a batch that mostly computes, independent of other load, else the elapsed time.
    """

    outcomes: list[list[Outcome]]
    took_s: float = 0.0
    waits: bool = False


class Executor(Protocol):
    """Runs batches."""

    slots: int
    """Maximum number of concurrent batches."""
    largest: int
    """Maximum number of rows in a batch."""
    shares_memory: bool
    """True if concurrent batches share an interpreter and may interfere with each other."""

    async def run(self, batch: Sequence[Work]) -> QueueReply:
        """Run one batch; an exception ends the run."""

    async def close(self) -> None:
        """Shut threads and processes down."""


class _Progress(msgspec.Struct):
    """The progress of a batch in its thread: the outcomes so far, and the start time of the current call."""

    outcomes: list[list[Outcome]] = msgspec.field(default_factory=list)
    begun: float | None = None
    abandoned: bool = False
    """True if the caller no longer waits for the batch."""


_SCHEDULING = Path("/proc/thread-self/schedstat")
"""Linux's counters for this thread: `1523000 48000 7` are ns on a core, ns of waiting for a core, and time slices."""


def _queued_s() -> float:
    """Return how long this thread was ready to run but had no core (Linux only, else 0)."""
    try:
        with _SCHEDULING.open("rb", buffering=0) as file:  # a fifth of the time of read_text
            return int(file.read(100).split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def run_batch(evaluators: Sequence[Scorer], batch: Sequence[Work], progress: _Progress | None = None) -> QueueReply:
    """Run synchronous evaluators on some rows in the current thread; return the outcomes and the time that they took.

    `progress` shows other threads the progress; if its `abandoned` becomes true, the batch ends after the current call.
    """
    progress = progress or _Progress()
    queued_before, wall_before, cpu_before = _queued_s(), time.perf_counter(), time.thread_time()

    for work in batch:
        outcomes: list[Outcome] = []
        progress.outcomes.append(outcomes)
        begin_row(work.row)
        for evaluator, arguments in zip(evaluators, work.arguments, strict=True):
            progress.begun = time.monotonic()
            outcomes.append(None if arguments is None else call(evaluator, arguments))
            if progress.abandoned:
                return QueueReply(progress.outcomes)

    wall_s, cpu_s = time.perf_counter() - wall_before, time.thread_time() - cpu_before
    # On a busy machine, a thread also waits for a core. That time must not count as waiting for I/O, or a computing
    # evaluator would get slots that compete with it. The file is read outside of the measured time, because a read lets
    # other threads have the interpreter's lock.
    wall_s -= _queued_s() - queued_before
    waits = wall_s > _SHORT_S and cpu_s < _WAITING * wall_s
    return QueueReply(progress.outcomes, wall_s if waits else cpu_s, waits)


def timeout_failure(name: str, error: LateError) -> Failure:
    """Return a call's timeout as a row's error."""
    return Failure(LATE, f"evaluator {name!r}: {error}")


class ThreadExecutor:
    """Runs batches in its own threads; a call that exceeds the time limit stays in its thread, unawaited."""

    largest = 128
    shares_memory = True

    def __init__(self, evaluators: Sequence[Scorer], slots: int, limit_s: float) -> None:
        """Prepare a thread for each of the `slots`, at most 64; `limit_s` is the time limit of one call in seconds."""
        self._evaluators = evaluators
        self._limit_s = limit_s
        self._threads = Threads(min(_MOST_THREADS, slots), "tunecheck")
        self.slots = slots

    async def run(self, batch: Sequence[Work]) -> QueueReply:
        """Run a batch in a thread; a call that takes too long fails, and the remaining calls run in another thread."""
        progress = _Progress()
        try:
            work = partial(copy_context().run, run_batch, self._evaluators, batch, progress)
            return await self._threads.call(work, self._limit_s, lambda: progress.begun)
        except LateError as error:
            progress.abandoned = True
            return await self._without_last(batch, [list(row) for row in progress.outcomes], error)

    async def _without_last(self, batch: Sequence[Work], outcomes: list[list[Outcome]], error: LateError) -> QueueReply:
        """Return the outcomes of a batch after its last started call timed out; run the calls after it.

        `outcomes` are those of the calls before it. For example, in a batch of four rows with the evaluators `a` and
        `b`, the call of `a` on row 2 is late. Then `b` on row 2 and the whole rows 3 and 4 run in another thread.
        """
        failures = [timeout_failure(evaluator.name, error) for evaluator in self._evaluators]
        if not outcomes:  # no call had started, because earlier late calls hold the threads: every call fails
            rows = [zip(failures, work.arguments, strict=True) for work in batch]
            return QueueReply([[None if arguments is None else failure for failure, arguments in row] for row in rows])

        late_row, calls_done = batch[len(outcomes) - 1], len(outcomes[-1]) + 1  # with the late call
        outcomes[-1].append(failures[calls_done - 1])

        rest_of_row = replace(late_row, arguments=[*[None] * calls_done, *late_row.arguments[calls_done:]])
        first, *others = (await self.run([rest_of_row, *batch[len(outcomes) :]])).outcomes

        return QueueReply([*outcomes[:-1], outcomes[-1] + first[calls_done:], *others], self._limit_s, waits=True)

    async def close(self) -> None:
        """Shut the threads down."""
        self._threads.shutdown()


class AsyncExecutor(msgspec.Struct):
    """Awaits one asynchronous evaluator, one row at a time in each slot.

    `calls` makes the model calls of an evaluator with a `call_with`, which runs in the run's own loop.
    """

    evaluator: Scorer
    slots: int
    limit_s: float
    loop: UserLoop
    calls: ModelCalls | None = None

    largest = 1
    shares_memory = False

    async def run(self, batch: Sequence[Work]) -> QueueReply:
        """Await the evaluator on each row of the batch; a timeout or exception is an outcome."""
        return QueueReply([[await self._call(arguments) for arguments in work.arguments] for work in batch])

    async def _call(self, arguments: Arguments) -> Outcome:
        """Return the outcome of one call, None without arguments; exceptions and a timeout become a Failure.

        An evaluator that asks models runs in the run's own loop, without this time limit.

        Raises:
            CancelledError: the run cancelled this task; a cancellation by user code is a Failure.
        """
        if arguments is None:
            return None

        make_call = partial(call_async, self.evaluator, arguments)
        try:
            if self.calls is not None:
                return await make_call(self.calls)
            # User code gets a loop of its own, so that a blocking coroutine does not stop the run's loop.
            return await self.loop.call(f"evaluator {self.evaluator.name!r}", make_call, self.limit_s)
        except LateError as error:
            return timeout_failure(self.evaluator.name, error)
        except asyncio.CancelledError as error:
            if cancels_this_task(error):
                raise
            return as_failure(error)

    async def close(self) -> None:
        """Do nothing: there are no threads or processes."""


# -- worker queues


class QueueEntry(Work):
    """One row in one worker queue: the arguments of each evaluator, their hashes, and the outcomes."""

    state: RowState
    hashes: list[str | None] = []
    outcomes: list[Outcome] = []


_PATIENCE_S = 5.0
"""After this many seconds of a batch, more slots open for the waiting rows: the first call may load something."""

_BATCH_S = 0.05
"""Target duration of a batch: long enough to keep overhead low, short enough for waiting rows."""

_GATHER_S = 0.005
"""Wait for more rows before a batch of fast evaluators; it delays no request."""

_MOST_RESCUED, _RESCUED_OF = 3, 20
"""Batches run one at a time after this many rescued calls, if these are also at least one per 20 batches."""

_MOST_CONFIRMED = 3
"""After this many failed retries of an error type it is not retried: threads are not its cause."""


@dataclass(eq=False)
class WorkerQueue:
    """A queue of rows for some evaluators, and the slots that process it.

    The event loop calls `finished` with each batch that has outcomes, `failed` with each batch that raised.

    If batches share memory, evaluators may not be thread-safe. So the first batch runs alone, because a first call may
    load something, and a call that fails while others run is retried alone. If retries often help, all further batches
    run one at a time.
    """

    evaluators: Sequence[BoundEvaluator]
    executor: Executor
    finished: Callable[[WorkerQueue, list[QueueEntry]], None]
    failed: Callable[[list[QueueEntry], Exception], None]

    def __post_init__(self) -> None:
        """Prepare an empty queue."""
        binders = [evaluator.bind for evaluator in self.evaluators]
        self.bound_like = [binders.index(binder) for binder in binders]
        """For each evaluator, the index of the first one with the same arguments, which are bound and hashed once.

        That is the evaluator's own index if no earlier one has the same arguments.
        """

        self._entries: asyncio.Queue[QueueEntry | None] = asyncio.Queue()

        self._rows = 1
        """Rows per batch; adjusted so that a batch takes about `_BATCH_S`."""
        self._slots: list[asyncio.Task[None]] = []
        self.begun: list[float] = []
        """Start time of each running batch, by time.monotonic()."""
        self._batches = 0
        self._turn, self._permits = asyncio.Lock(), asyncio.Semaphore(self.executor.slots)
        """A batch takes its permits in its turn: one, or all if it must run alone."""
        self._rescued = 0
        """Number of failed calls that succeeded when they were retried alone."""
        self._confirmed: Counter[str] = Counter()
        """Number of calls that failed again when they were retried alone, by error type."""
        self.one_at_a_time = False

    def feed(self, entry: QueueEntry) -> None:
        """Add a row, which the next free slot takes."""
        self._entries.put_nowait(entry)

    def take_all(self) -> list[QueueEntry]:
        """Remove and return all waiting rows, because the run stops. An end mark goes back into the queue."""
        entries = [self._entries.get_nowait() for _ in range(self._entries.qsize())]
        if None in entries:
            self.close()
        return [entry for entry in entries if entry is not None]

    async def serve(self) -> None:
        """Process rows until `close` was called and the queue is empty.

        If batches share memory, the queue starts with one slot. More slots help evaluators that wait for I/O but slow
        down evaluators that compute.
        """
        async with asyncio.TaskGroup() as group:
            self._open_slots(group, 1 if self.executor.shares_memory else self.executor.slots)

    def _open_slots(self, group: asyncio.TaskGroup, count: int) -> None:
        """Start slots until there are `count`; each takes batches from the queue until its end."""
        while len(self._slots) < count:
            self._slots.append(group.create_task(self._serve_slot(group)))

    def close(self) -> None:
        """Add an end mark: no more rows will be fed."""
        self._entries.put_nowait(None)

    async def _serve_slot(self, group: asyncio.TaskGroup) -> None:
        """Run batches until the queue ends; adjust their size, and pass outcomes or errors on.

        All slots open once a batch waits for I/O, or takes longer than 5 seconds; they run as tasks of `group`.
        """
        while batch := await self._next_batch():
            ROW.set(batch[0].state.row.index)  # asynchronous evaluators, which ask models, get one row at a time

            open_slots = partial(self._open_slots, group, self.executor.slots)
            impatient = asyncio.get_running_loop().call_later(_PATIENCE_S, open_slots)
            begun = time.monotonic()
            self.begun.append(begun)
            try:
                reply = await self._run(batch)
            except Exception as error:  # noqa: BLE001 - whatever is wrong, the run stops in order
                self.failed(batch, error)
                continue
            finally:
                impatient.cancel()
                self.begun.remove(begun)

            # The first batch may load something, so its time says nothing about the next ones.
            if self._batches or not self.executor.shares_memory:
                self._adjust_batch_size(len(batch), reply.took_s)
                if reply.waits:
                    open_slots()

            self._batches += 1
            for entry, outcomes in zip(batch, reply.outcomes, strict=True):
                entry.outcomes = outcomes
            self.finished(self, batch)

    async def _next_batch(self) -> list[QueueEntry]:
        """Wait for the next row and return it with others that already wait; an empty list at the end of the queue."""
        first = await self._entries.get()
        if self._rows > 1 and self._entries.empty():  # fast evaluators: one hand-over to a thread for several rows
            await asyncio.sleep(_GATHER_S)

        batch: list[QueueEntry] = []
        while first is not None:
            batch.append(first)
            if len(batch) >= self._rows or self._entries.empty():
                return batch
            first = self._entries.get_nowait()

        self._entries.put_nowait(None)  # the other slots must see the end, too
        return batch

    def _adjust_batch_size(self, rows: int, took_s: float) -> None:
        """Halve the rows per batch after a slow batch (over 0.1 s); double them after a fast, full one (< 0.025 s)."""
        if took_s > 2 * _BATCH_S:
            self._rows = max(1, self._rows // 2)
        elif took_s < _BATCH_S / 2 and rows == self._rows:
            self._rows = min(2 * self._rows, self.executor.largest)

    # -- beside others, and alone

    async def _run(self, batch: Sequence[Work]) -> QueueReply:
        """Run a batch, alone if `one_at_a_time`; with several slots in shared memory, retry its failed calls."""
        # Only calls that ran beside others in the same memory can have failed because of them.
        alone = self.one_at_a_time
        reply = await self._run_batch(batch, exclusively=alone)
        if not alone and self.executor.shares_memory and len(self._slots) > 1:
            for work, outcomes in zip(batch, reply.outcomes, strict=True):
                await self._try_again(work, outcomes)
        return reply

    async def _run_batch(self, batch: Sequence[Work], *, exclusively: bool) -> QueueReply:
        """Run a batch beside others, or `exclusively`: while no other batch of this queue runs."""
        # The turn is kept while waiting, so that no batch begins before one that must run alone.
        permits = range(self.executor.slots if exclusively else 1)
        async with self._turn:
            for _ in permits:
                await self._permits.acquire()
        try:
            return await self.executor.run(batch)
        finally:
            for _ in permits:
                self._permits.release()

    async def _try_again(self, work: Work, outcomes: list[Outcome]) -> None:
        """Retry a row's failed calls while nothing else runs, and replace their outcomes.

        If retries often succeed, the evaluators are not thread-safe: all later batches run one at a time.
        """
        # Late calls are not retried, nor errors of a type that retries have confirmed often enough.
        failures = {position: outcome for position, outcome in enumerate(outcomes) if isinstance(outcome, Failure)}
        kinds = {position: failure.type for position, failure in failures.items() if failure.type != LATE}
        kinds = {position: kind for position, kind in kinds.items() if self._confirmed[kind] < _MOST_CONFIRMED}
        if not kinds:
            return

        arguments = [given if position in kinds else None for position, given in enumerate(work.arguments)]
        (retried,) = (await self._run_batch([replace(work, arguments=arguments)], exclusively=True)).outcomes

        for position, kind in kinds.items():
            outcomes[position] = retried[position]
            if isinstance(retried[position], Failure):
                self._confirmed[kind] += 1
            else:
                self._rescued += 1

        self.one_at_a_time |= self._rescued >= max(_MOST_RESCUED, self._batches / _RESCUED_OF)


class AnswerQueue:
    """Hands out rows for the target; the next row of a group follows after the previous one is answered.

    For example, the rows a1, a2 and b1 of the groups a and b are put. `next` returns a1 and b1, and `next_of_group(a1)`
    returns a2.
    """

    def __init__(self) -> None:
        self._ready: asyncio.Queue[RowState | None] = asyncio.Queue()
        """The rows that can be answered, and the end marker None."""
        self._behind: dict[str | None, deque[RowState]] = {}
        """The rows of each group that wait until the group's current row is answered."""

    def put(self, state: RowState) -> None:
        """Queue a row for the target; hold it back while an earlier row of its group is unanswered."""
        if state.group in self._behind:
            self._behind[state.group].append(state)
            return

        if state.group is not None:
            self._behind[state.group] = deque()
        self._ready.put_nowait(state)

    async def next(self) -> RowState | None:
        """Wait for the next row that can be answered and return it; return None once the queue is closed and empty.

        Each None puts the end marker back, so that every waiting task sees it.
        """
        state = await self._ready.get()
        if state is None:
            self.close()
        return state

    def next_of_group(self, state: RowState) -> RowState | None:
        """Return the group's next waiting row once this one is answered; None if no row waits for it."""
        if behind := self._behind.get(state.group):
            return behind.popleft()
        self._behind.pop(state.group, None)  # no row of the group is unanswered any more
        return None

    def close(self) -> None:
        """Add the end marker: no more rows will be added."""
        self._ready.put_nowait(None)

    def clear(self) -> int:
        """Remove all waiting rows and close the queue; return the number of removed rows."""
        ready = [self._ready.get_nowait() for _ in range(self._ready.qsize())]
        removed = len(ready) - ready.count(None)

        for behind in self._behind.values():
            removed += len(behind)
            behind.clear()
        self.close()
        return removed
