"""Executors: what runs a batch of rows through a lane's evaluators, and ends a call that takes too long."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from tunecheck._files import Failure
from tunecheck._loops import ForeignLoop, LateError, Threads, end_if_forked
from tunecheck.formats._reading import OneRow, begin_row
from tunecheck.pipeline._scoring import Outcome, Scorer, call, call_async, failure, is_our_own

if TYPE_CHECKING:
    from tunecheck.endpoints._base import ModelCalls

Arguments: TypeAlias = "dict[str, object] | None"
"""One evaluator's bound arguments for one row; None: nothing to do."""


class Work(NamedTuple):
    """One row's work in one lane: the arguments of each of its evaluators, and what those that are pure share."""

    arguments: list[Arguments]
    row: OneRow | None


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
