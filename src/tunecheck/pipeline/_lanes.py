"""Lanes: where evaluators run. One lane takes rows from its queue in batches and runs its evaluators on them.

Asynchronous evaluators have a lane each in the event loop; users' synchronous ones a lane each in threads (they may
wait for something), or in a worker process; those that burn CPU share one lane, so that a row's text is read once, in
worker processes or a thread. No lane waits for another, so any number of evaluators and workers makes progress.

An executor is what runs a lane's batches, and ends a call that takes too long.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from tunecheck._files import Failure
from tunecheck._loops import ForeignLoop, LateError, Threads, end_if_forked
from tunecheck.formats._reading import RowCache, begin_row
from tunecheck.pipeline._model_calls import ROW
from tunecheck.pipeline._scoring import BoundEvaluator, Outcome, Scorer, call, call_async, failure, is_our_own

if TYPE_CHECKING:
    from tunecheck.endpoints._base import ModelCalls
    from tunecheck.pipeline._results import RowState

Arguments: TypeAlias = "dict[str, object] | None"
"""One evaluator's bound arguments for one row; None: nothing to do."""


class Work(NamedTuple):
    """One row's work in one lane: the arguments of each of its evaluators, and what those that are pure share."""

    arguments: list[Arguments]
    row: RowCache | None


DEFAULT_TIMEOUT_S = 600.0
"""How long one call of an evaluator may take where nobody says: generous, for it may wait for a model."""

_MOST_THREADS = 64

LATE = "EvaluatorTimeoutError"
"""The type of error of a call that took too long."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a batch took: seconds by the clock, as far as there was a core for it, and of them seconds of CPU."""

    wall: float
    cpu: float


Reply: TypeAlias = "tuple[list[list[Outcome]], Spent]"


class Executor(Protocol):
    """Runs a batch: for each row, one outcome for each evaluator."""

    slots: int
    """Batches that may run at once."""
    largest: int
    """Most rows in a batch."""
    shares_memory: bool
    """Whether batches that run at once share an interpreter, and may get in each other's way there."""

    async def run(self, batch: Sequence[Work]) -> Reply:
        """Run one batch; what it raises ends the run."""
        ...

    def under_way(self) -> Iterable[tuple[str, float]]:
        """The calls under way: who is called, and since when (time.monotonic)."""
        ...

    async def close(self) -> None:
        """Let threads and processes go."""
        ...


@dataclass(slots=True)
class UnderWay:
    """A batch that a thread works on: its outcomes so far, and since when its present call runs."""

    outcomes: list[list[Outcome]] = field(default_factory=list)
    begun: float | None = None
    left: bool = False
    """Nobody waits for it any longer: there is no use in going on."""


def run_batch(
    evaluators: Sequence[Scorer], batch: Sequence[Work], under_way: UnderWay | None = None
) -> list[list[Outcome]]:
    """Run synchronous evaluators on some rows, here and now, in a context of its own."""
    under_way = under_way or UnderWay()
    process = os.getpid()
    with closing(asyncio.Runner()) as runner:  # which has no event loop before its first run
        for work in batch:
            outcomes: list[Outcome] = []
            under_way.outcomes.append(outcomes)
            begin_row(work.row)
            for evaluator, arguments in zip(evaluators, work.arguments, strict=True):
                under_way.begun = time.monotonic()
                outcomes.append(None if arguments is None else call(evaluator, arguments, runner))
                end_if_forked(process)
                if under_way.left:
                    return under_way.outcomes
    return under_way.outcomes


def _queued_s() -> float:
    """How long this thread could have run and got no core, where the system tells (Linux).

    On a busy machine, one that computes would seem to wait, and be given company that it can only fight with.
    """
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def late(name: str, error: LateError) -> Failure:
    """The error of a row whose call of this evaluator took too long."""
    return Failure(LATE, f"evaluator {name!r} {error}")


def fail(batch: Sequence[Work], failures: Sequence[Failure]) -> Reply:
    """The outcomes of a batch of which nothing came; `failures` has each evaluator's."""
    return [
        [None if arguments is None else failure for arguments, failure in zip(work.arguments, failures, strict=True)]
        for work in batch
    ], Spent(0.0, 0.0)


class ThreadExecutor:
    """Runs batches in threads of its own; a call that takes too long is left behind in its thread."""

    largest = 128
    shares_memory = True

    def __init__(self, evaluators: Sequence[Scorer], slots: int, limit_s: float) -> None:
        """`limit_s` is how long one call may take."""
        self._evaluators = evaluators
        self._limit_s = limit_s
        self._threads = Threads(min(_MOST_THREADS, slots), "tunecheck")
        self._running: list[UnderWay] = []
        self.slots = slots

    async def run(self, batch: Sequence[Work]) -> Reply:
        under_way = UnderWay()
        self._running.append(under_way)
        try:
            work = partial(copy_context().run, self._run, batch, under_way)
            return await self._threads.call(work, self._limit_s, lambda: under_way.begun)
        except LateError as error:
            under_way.left = True
            return await self._without_last(batch, [list(row) for row in under_way.outcomes], error)
        finally:
            self._running.remove(under_way)

    def _run(self, batch: Sequence[Work], under_way: UnderWay) -> Reply:
        wall, cpu = time.perf_counter() - _queued_s(), time.thread_time()
        outcomes = run_batch(self._evaluators, batch, under_way)
        return outcomes, Spent(time.perf_counter() - _queued_s() - wall, time.thread_time() - cpu)

    async def _without_last(self, batch: Sequence[Work], outcomes: list[list[Outcome]], error: LateError) -> Reply:
        """A batch's outcomes, whose last call so far took too long: those that there are, and of the rest."""
        if not outcomes:  # no more calls are made
            return fail(batch, [late(evaluator.name, error) for evaluator in self._evaluators])
        work, done = batch[len(outcomes) - 1], len(outcomes[-1]) + 1
        outcomes[-1].append(late(self._evaluators[done - 1].name, error))
        rest = [work._replace(arguments=[*[None] * done, *work.arguments[done:]]), *batch[len(outcomes) :]]
        (first, *others), spent = await self.run(rest)
        outcomes[-1] += first[done:]
        return [*outcomes, *others], Spent(spent.wall + self._limit_s, spent.cpu)

    def under_way(self) -> Iterator[tuple[str, float]]:
        for each in self._running:
            if each.begun is not None and each.outcomes:
                position = min(len(each.outcomes[-1]), len(self._evaluators) - 1)
                yield self._evaluators[position].name, each.begun

    async def close(self) -> None:
        """Let the threads go."""
        self._threads.shutdown()


class AsyncExecutor:
    """Awaits one asynchronous evaluator, a row at a time in each slot."""

    largest = 1
    shares_memory = False

    def __init__(
        self, evaluator: Scorer, slots: int, limit_s: float, loop: ForeignLoop, calls: ModelCalls | None = None
    ) -> None:
        """`calls` asks models for it where it has a `call_with`, in our own loop, with limits of their own."""
        self._evaluator = evaluator
        self._limit_s = limit_s
        self._loop = loop
        self._calls = calls
        self._running: dict[asyncio.Task[object] | None, float] = {}
        self.slots = slots

    async def run(self, batch: Sequence[Work]) -> Reply:
        started = time.monotonic()
        outcomes = [[None if each is None else await self._call(each) for each in work.arguments] for work in batch]
        return outcomes, Spent(time.monotonic() - started, 0.0)

    async def _call(self, arguments: dict[str, object]) -> Outcome:
        task, called = asyncio.current_task(), partial(call_async, self._evaluator, arguments)
        self._running[task] = time.monotonic()
        try:
            if self._calls is not None:
                return await called(self._calls)
            return await self._loop.call(f"evaluator {self._evaluator.name!r}", called, self._limit_s)
        except LateError as error:
            return late(self._evaluator.name, error)
        except asyncio.CancelledError as error:
            if is_our_own(error):
                raise
            return failure(error)
        finally:
            del self._running[task]

    def runs(self, task: asyncio.Task[object] | None) -> bool:
        """Whether this task makes one of its calls."""
        return task in self._running

    def under_way(self) -> Iterator[tuple[str, float]]:
        return ((self._evaluator.name, begun) for begun in self._running.values())

    async def close(self) -> None:
        """Nothing is open."""


# -- lanes


@dataclass(slots=True)
class Job:
    """One row in one lane: for each of the lane's evaluators its arguments, their hash, and what came of it."""

    state: RowState
    work: Work
    hashes: list[str | None] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)


_PATIENCE_S = 1.0
"""How long a batch may take before the rows behind it get slots of their own."""

_WARM_UP_S = 20.0
"""The same for the first batch, which may load something; one that hangs must not hold up the others for long."""


class _Together:
    """Runs batches side by side; where they share memory, what fails beside others is tried again alone.

    A call that then succeeds was not safe among threads. Where that happens often, batches run one at a time from
    there on.
    """

    _OFTEN, _SHARE = 3, 20
    """So many calls, and one of so many batches that ran beside others."""
    _CONFIRMED = 3
    """How often an error of one type is tried again though it comes again: it has nothing to do with threads."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._turn = asyncio.Lock()
        """Held by who runs alone."""
        self._running = 0
        self._begun = 0
        self._none_runs = asyncio.Event()
        self._beside_others = 0
        self._rescued = 0
        self._confirmed: Counter[str] = Counter()
        self.one_at_a_time = False
        """Calls failed only beside others: each now runs alone."""

    async def run(self, batch: Sequence[Work]) -> Reply:
        """Run a batch, when nobody has to be alone."""
        if self.one_at_a_time:
            return await self._alone(batch)
        async with self._turn:
            self._running += 1
            self._begun += 1
            begun, others = self._begun, self._running > 1
        try:
            outcomes, spent = await self._executor.run(batch)
        finally:
            self._running -= 1
            self._none_runs.set()
        if self._executor.shares_memory and (others or self._begun > begun):
            self._beside_others += 1
            for work, found in zip(batch, outcomes, strict=True):
                if any(type(each) is Failure for each in found):
                    await self._again(work, found)
        return outcomes, spent

    async def _alone(self, batch: Sequence[Work]) -> Reply:
        async with self._turn:
            while self._running:
                self._none_runs.clear()
                await self._none_runs.wait()
            return await self._executor.run(batch)

    async def _again(self, work: Work, found: list[Outcome]) -> None:
        """Try calls that failed again, alone; `found` has the outcomes of the row's calls, and is changed."""
        failed = {position: each.type for position, each in enumerate(found) if isinstance(each, Failure)}
        failed = {n: kind for n, kind in failed.items() if kind != LATE and self._confirmed[kind] < self._CONFIRMED}
        if not failed:
            return
        only = [arguments if position in failed else None for position, arguments in enumerate(work.arguments)]
        ((*outcomes,),), _ = await self._alone([work._replace(arguments=only)])
        for position, kind in failed.items():
            outcome = found[position] = outcomes[position]
            if isinstance(outcome, Failure):
                self._confirmed[kind] += 1
            else:
                self._rescued += 1
        self.one_at_a_time |= self._rescued >= max(self._OFTEN, self._beside_others / self._SHARE)


class Lane:
    """A queue of rows before some evaluators, and the slots that serve it.

    Where batches share memory, the first one runs alone: it loads what the evaluator loads when it is first called.
    """

    def __init__(
        self,
        evaluators: Sequence[BoundEvaluator],
        executor: Executor,
        finished: Callable[[Lane, list[Job]], None],
        failed: Callable[[list[Job], Exception], None],
    ) -> None:
        """`finished` is called in the event loop with each batch that has outcomes, `failed` with one that has none."""
        self.evaluators = evaluators
        binders = [evaluator.bind for evaluator in evaluators]
        self.bound_like = [binders.index(binder) for binder in binders]
        """For each evaluator the first that gets the same arguments: a row's are made and hashed once."""
        self.executor = executor
        self._finished = finished
        self._failed = failed
        self._queue: asyncio.Queue[Job | None] = asyncio.Queue()
        self._size = _BatchSize(executor.largest)
        self._slots: list[asyncio.Task[None]] = []
        self._warm = not executor.shares_memory
        self.together = _Together(executor)

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

        A lane whose batches share memory starts with one slot: more only help evaluators that wait, and cost those that
        compute. Those that wait are known by the CPU they spent, and by a batch that does not come back.
        """
        async with asyncio.TaskGroup() as group:
            self._open_slots(group, self.executor.slots if self._warm else 1)

    def _open_slots(self, group: asyncio.TaskGroup, count: int) -> None:
        while len(self._slots) < min(count, self.executor.slots):
            self._slots.append(group.create_task(self._serve_slot(group)))

    def close(self) -> None:
        self._queue.put_nowait(None)

    async def _serve_slot(self, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = await self._next_batch()
            if not batch:
                return
            ROW.set(batch[0].state.row.index)  # asynchronous evaluators, which ask models, get one row at a time
            patience_s = _PATIENCE_S if self._warm else _WARM_UP_S
            impatient = loop.call_later(patience_s, self._open_slots, group, self.executor.slots)
            try:
                outcomes, spent = await self.together.run([job.work for job in batch])
            except Exception as error:  # noqa: BLE001 - whatever is wrong, the run stops in order
                self._failed(batch, error)
                continue
            finally:
                impatient.cancel()
            for job, outcome in zip(batch, outcomes, strict=True):
                job.outcomes = outcome
            if self._warm:
                self._size.learn(len(batch), spent, alone=len(self._slots) == 1)
            self._warm = True
            if self._size.waits:
                self._open_slots(group, self.executor.slots)
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
    """How many rows to take at once, learnt from what they took: about 20 ms of work, so that nothing waits long.

    Who computes alone takes more: with each batch it and the run's own thread wait for the interpreter.
    """

    _SECONDS, _ALONE_S = 0.02, 0.1

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._per_row: float | None = None
        self.rows = 1
        self.waits = False

    def learn(self, rows: int, spent: Spent, *, alone: bool) -> None:
        cost = spent.wall / rows
        self._per_row = cost if self._per_row is None else 0.7 * self._per_row + 0.3 * cost
        seconds = self._ALONE_S if alone and not self.waits else self._SECONDS
        self.rows = max(1, min(self._largest, int(seconds / max(self._per_row, 1e-7))))
        self.waits = self.waits or (spent.wall > 0.001 and spent.cpu < 0.25 * spent.wall)
