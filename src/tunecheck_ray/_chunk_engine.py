"""A task's engine: answers and judges the rows of a chunk, and streams its journal records.

Its own journal is a temporary file; the engine reads its recorded calls from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from tunecheck import RunError, RunInterruptedError
from tunecheck.pipeline import (
    Aggregator,
    Answer,
    Budget,
    CachedResults,
    Engine,
    Journal,
    JournalReader,
    ModelCall,
    Plan,
    ResultRow,
    RowState,
    RunCalls,
    SharedCalls,
)
from tunecheck.plugins import JSON, Failure, LoopThread, dumps
from tunecheck_ray._chunks import Chunk, Portion

_LOOKED_EVERY_S = 0.005

_UNREAD = 2
"""So many times the calls in flight may wait for the driver: with fewer, calls of 50 ms wait longer than they take."""

_SIGN_OF_LIFE_S = 2.0
"""An empty portion is sent after so many seconds without news: the driver sees that the process still runs Python."""


class Outbox:
    """Collects an engine's output, from any thread, until it is taken as a portion.

    `room` is the most calls of a kind in flight (Answer: the target's; ModelCall: the judges'). Calls count until the
    driver has read their records. So if the driver dies, at most this many calls are made again.
    """

    def __init__(self, room: int) -> None:
        self._news = threading.Condition()
        self._portion = Portion()
        self._ended = False
        self._room = room
        self._in_flight: Counter[type] = Counter()
        self._new: Counter[type] = Counter()

    @contextlib.contextmanager
    def adding(self, record: object = None) -> Iterator[Portion]:
        """Hold the next portion, so that the caller can add to it; `record` is the journal record it adds, if any."""
        with self._news:
            yield self._portion
            self._new[type(record)] += 1
            self._news.notify()

    async def begin_call(self, sort: type) -> None:
        """Wait until a call may be made."""
        while self._in_flight[sort] >= self._room and not self._ended:  # noqa: ASYNC110 - another thread makes room
            await asyncio.sleep(_LOOKED_EVERY_S)
        with self._news:
            self._in_flight[sort] += 1

    def end_call(self, sort: type, count: int = 1) -> None:
        """Make room: the driver has the records of calls, or a call left none."""
        with self._news:
            self._in_flight[sort] = max(0, self._in_flight[sort] - count)

    def end(self) -> None:
        """No more portions follow the present one."""
        with self._news:
            self._ended = True
            self._news.notify()

    def portions(self) -> Iterator[Portion]:
        """Yield portions as they come, and an empty one now and then, until the end.

        A request for the next portion means that the driver has the last one.
        """
        while True:
            with self._news:
                self._news.wait_for(lambda: bool(self._portion) or self._ended, _SIGN_OF_LIFE_S)
                taken, self._portion = self._portion, Portion()
                sent, self._new = self._new, Counter()
                ended = self._ended
            yield taken
            for sort in (Answer, ModelCall):
                self.end_call(sort, sent[sort])
            if ended:
                return


class StreamedJournal(Journal):
    """A journal that also streams its records."""

    def __init__(self, path: Path, outbox: Outbox) -> None:
        super().__init__(path)
        self.answered: set[int] = set()
        """Rows whose answers this journal has sent."""
        self._outbox = outbox

    def _append(self, record: object, *rows: int) -> int:
        body = dumps(record)
        offset = self._records.append_encoded(body)
        with self._outbox.adding(record) as portion:
            portion.records.append((rows, body))
        if isinstance(record, Answer):
            self.answered.update(rows)
        return offset


class _NoResults:
    """Drops result rows: the driver makes them from the journal."""

    def write(self, index: int, row: ResultRow) -> Failure | None:
        return None


class ChunkEngine(Engine):
    """Runs one chunk."""

    def __init__(
        self,
        plan: Plan,
        journal: StreamedJournal,
        cached: CachedResults,
        calls: RunCalls,
        aggregator: Aggregator,
        outbox: Outbox,
    ) -> None:
        super().__init__(plan, journal, _NoResults(), aggregator, cached, calls)
        self._streamed = journal
        self._outbox = outbox

    async def _answer(self, state: RowState) -> None:
        await self._outbox.begin_call(Answer)
        self._begin(state)
        await super()._answer(state)
        if state.row.index not in self._streamed.answered:
            self._outbox.end_call(Answer)

    def _evaluate(self, state: RowState) -> None:
        if self.plan.target is None:
            self._begin(state)
        else:
            with self._outbox.adding() as portion:
                portion.answered += 1
        super()._evaluate(state)

    def _begin(self, state: RowState) -> None:
        with self._outbox.adding() as portion:
            portion.begun.append(state.row.index)

    def _add(self, state: RowState) -> None:
        with self._outbox.adding() as portion:
            portion.finished.append(state.row.index)
            portion.failed += bool(state.errors)


class _CallsInStep:
    """The judges' answers that tasks share, with as many calls in flight as the outbox has room for."""

    def __init__(self, shared: SharedCalls | None, outbox: Outbox) -> None:
        self._shared, self._outbox = shared, outbox

    async def answer(self, key: str) -> dict[str, JSON] | None:
        await self._outbox.begin_call(ModelCall)
        return None if self._shared is None else await self._shared.answer(key)

    async def settle(self, key: str, answer: dict[str, JSON] | None) -> None:
        if answer is None:
            self._outbox.end_call(ModelCall)
        if self._shared is not None:
            await self._shared.settle(key, answer)


class ChunkRunner:
    """Runs one chunk after another in one event loop, so that connections outlive chunks.

    Args:
        plan: the plan of the run; its rows are those of each chunk.
        facts: returns facts about the endpoints' APIs, for the last portion of a chunk.
        budget: makes the budget that a chunk's calls keep to; None: no limit.
        calls: the judges' answers that tasks share.
        stopped: returns when the run is to stop.
    """

    def __init__(
        self,
        plan: Plan,
        facts: Callable[[], Mapping[str, JSON]],
        budget: Callable[[], Budget],
        calls: SharedCalls | None,
        stopped: Callable[[], Awaitable[object]],
    ) -> None:
        self._plan = plan
        self._facts = facts
        self._budget = budget
        self._calls = calls
        self._stopped = stopped
        self._loop = LoopThread("chunks")

    def run(self, chunk: Chunk) -> Iterator[Portion]:
        """Yield the output of a chunk's engine in portions.

        Raises:
            RunError: The run must stop, such as for its budget or for refused calls.
        """
        outbox = Outbox(_UNREAD * self._plan.concurrency)
        ended = self._loop.submit(self._ended(outbox, self._run(chunk, outbox)))
        yield from outbox.portions()
        ended.result()

    async def _ended(self, outbox: Outbox, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        finally:
            outbox.end()

    async def _run(self, chunk: Chunk, outbox: Outbox) -> None:
        with contextlib.ExitStack() as opened:
            folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="tunecheck-"))
            path = Path(folder) / "journal.jsonl"
            cached = self._known(chunk, path, opened)
            journal = opened.enter_context(contextlib.closing(StreamedJournal(path, outbox)))
            calls = opened.enter_context(
                contextlib.closing(
                    RunCalls(self._plan.run_id, journal, cached, self._budget(), _CallsInStep(self._calls, outbox))
                )
            )
            aggregator = opened.enter_context(contextlib.closing(Aggregator(self._plan.evaluators, ())))
            evaluators = [each for each in self._plan.evaluators if chunk.only in (None, each.name)]
            rows = chunk.rows
            plan = replace(self._plan, rows=lambda: iter(rows), row_count=len(rows), evaluators=evaluators)
            engine = ChunkEngine(plan, journal, cached, calls, aggregator, outbox)
            await self._until_stopped(engine)
            with outbox.adding() as portion:
                portion.notes += engine.tally.notes
                portion.remarks = engine.tally.remarks.counts()
                portion.facts = dict(self._facts())

    async def _until_stopped(self, engine: Engine) -> None:
        """Run the engine; stop it in order when the run stops."""
        watching = asyncio.ensure_future(self._stopped())

        def stop(done: asyncio.Future[object]) -> None:
            if not done.cancelled():
                engine.stop(RunInterruptedError(None))

        watching.add_done_callback(stop)
        try:
            await engine.run()
        finally:
            watching.cancel()

    def _known(self, chunk: Chunk, path: Path, opened: contextlib.ExitStack) -> CachedResults:
        """Write the chunk's known records into its journal."""
        if not chunk.known:
            return CachedResults()
        with contextlib.closing(Journal(path)) as journal:
            for records in chunk.known.values():
                for record in records:
                    journal.take(record)
        names = frozenset(evaluator.name for evaluator in self._plan.evaluators)
        own = JournalReader(path, by_row=True, evaluators=names, answers=True, since=0)
        opened.callback(own.close)
        return CachedResults(own)


def first_cause(error: BaseException) -> BaseException:
    """Return the exception inside nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def run_error(error: BaseException) -> RunError:
    """Return a task's exception as an error of the run."""
    cause = first_cause(error)
    return cause if isinstance(cause, RunError) else RunError(f"{type(cause).__name__}: {cause}")
