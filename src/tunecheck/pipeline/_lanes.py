"""Lanes: where evaluators run. One lane takes rows from its queue in batches and runs its evaluators on them.

Asynchronous evaluators have a lane each in the event loop; users' synchronous ones a lane each in threads (they may
wait for something), or in a worker process; those that burn CPU share one lane, so that a row's text is read once, in
worker processes or a thread. No lane waits for another, so any number of evaluators and workers makes progress.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tunecheck._files import Failure
from tunecheck.pipeline._executors import LATE, Executor, Reply, Spent, Work
from tunecheck.pipeline._results import RowState
from tunecheck.pipeline._scoring import BoundEvaluator, Outcome


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
