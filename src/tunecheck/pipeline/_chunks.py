"""Chunks: rows that are answered and judged in other processes, which send their journal records back.

driver: unfinished rows ──Chunk──► task: ChunkRunner ──Portion──► driver: the run's journal

A task's own journal is a temporary file, from which its engine reads recorded calls.

If the driver dies, the calls whose records it has not journaled are made again. `_Outbox` limits their number: a call
counts as in flight until the driver has surely journaled its record.

Rows that may end their process are sent as `isolated`. They run one at a time and stage by stage, so that the driver
knows which row and stage end the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from tunecheck._errors import RunInterruptedError
from tunecheck._files import Verdicts
from tunecheck._json import JSON, dumps
from tunecheck._loops import LoopThread
from tunecheck._records import Journal
from tunecheck._targets import Row
from tunecheck.pipeline._costs import Budget
from tunecheck.pipeline._engine import Engine
from tunecheck.pipeline._journal_reader import JournalReader
from tunecheck.pipeline._model_calls import CachedResults, RunCalls, SharedCalls
from tunecheck.pipeline._plan import Plan, Remarks
from tunecheck.pipeline._results import Aggregator, RowState

_POLL_S = 0.005
"""Interval in seconds at which a call looks for room in the outbox."""

UNREAD = 2
"""Limit of a task's calls in flight, as a multiple of its concurrency; answers that the driver has not read count."""

_SIGN_OF_LIFE_S = 2.0
"""After this many seconds without output, an empty portion shows the driver that the process is alive."""


_CONFIRMED_S = 0.05
"""After this many seconds without output, an empty portion shows that the driver has journaled the one before."""


class Chunk(msgspec.Struct, frozen=True):
    """Rows for one task.

    `known` has the journal records that the run already has, by row index. `isolated` rows are run one at a time in a
    process without other rows, because they may crash it.
    """

    rows: tuple[Row, ...]
    known: Mapping[int, Sequence[bytes]] = msgspec.field(default_factory=dict)
    isolated: bool = False


class Portion(msgspec.Struct):
    """Output of a task since its previous portion.

    `records` are journal records with the indices of their rows; `finished` are row indices. `answered` and `asked`
    count the completed calls to the target and to judges. `failed` counts the finished rows with an error.
    """

    records: list[tuple[tuple[int, ...], bytes]] = msgspec.field(default_factory=list)
    finished: list[int] = msgspec.field(default_factory=list)
    answered: int = 0
    asked: int = 0
    failed: int = 0
    notes: list[str] = msgspec.field(default_factory=list)
    remarks: Remarks = msgspec.field(default_factory=Remarks)
    facts: dict[str, JSON] = msgspec.field(default_factory=dict)
    """Properties of the endpoints' APIs that the chunk found; only its last portion has them."""
    stage: str = ""
    """The stage that an isolated row begins: `target`, or an evaluator's name."""


_Call = Literal["answered", "asked"]
"""The calls that are counted: `answered` by the target, `asked` of a judge."""


class _Outbox:
    """Collects an engine's output, from any thread, until it is taken as a portion.

    `room` is the maximum number of calls in flight, for the target and for judges each. A call counts until the driver
    has read its record, so if the driver dies, at most this many calls are repeated.
    """

    def __init__(self, room: int) -> None:
        """Start empty; `room` is the largest number of calls in flight, for the target and for judges each."""
        self._changed = threading.Condition()
        self._portion = Portion()
        self._is_ended = False
        self._room = room
        self._in_flight: Counter[_Call] = Counter()

    @contextlib.contextmanager
    def adding(self) -> Iterator[Portion]:
        """Yield the portion under construction, locked, so that the caller can add to it; then wake the sender."""
        with self._changed:
            yield self._portion
            self._changed.notify()

    async def begin(self, call: _Call) -> None:
        """Wait until another call of this kind may be in flight, or the chunk has ended; count the call.

        The kinds are `answered` (a call to the target) and `asked` (a call to a judge).
        """
        while self._in_flight[call] >= self._room and not self._is_ended:  # noqa: ASYNC110 - another thread makes room
            await asyncio.sleep(_POLL_S)
        with self._changed:
            self._in_flight[call] += 1

    def end(self) -> None:
        """Let `portions` end after the current portion."""
        with self._changed:
            self._is_ended = True
            self._changed.notify()

    def portions(self) -> Iterator[Portion]:
        """Yield portions as they become available, until the end; without output, an empty one after 2 seconds.

        When the driver requests another portion, it has read the previous one, but may not have journaled its calls. So
        these count as in flight until the driver has read one more portion: without output, an empty one after 0.05 s.
        """
        is_last, previous = False, Portion()
        while not is_last:
            timeout_s = _CONFIRMED_S if previous.answered or previous.asked else _SIGN_OF_LIFE_S

            with self._changed:
                self._changed.wait_for(lambda: self._is_ended or self._portion != Portion(), timeout_s)
                portion, self._portion, is_last = self._portion, Portion(), self._is_ended

            # Without the lock, so that the engine can go on while the portion is sent.
            yield portion
            with self._changed:
                self._in_flight.subtract({"answered": previous.answered, "asked": previous.asked})
            previous = portion


class _StreamedJournal(Journal):
    """A journal that also adds its records to the outbox."""

    def __init__(self, path: Path, outbox: _Outbox) -> None:
        super().__init__(path)
        self._outbox = outbox

    def append(self, record: object) -> int:
        """Write a record to the file and to the next portion, there with the indices of its rows; return its offset."""
        # First into the file: this task's engine reads its own records there.
        body = dumps(record)
        offset = self.append_encoded(body)

        rows = [index for index, _ in record.rows] if isinstance(record, Verdicts) else [getattr(record, "i", None)]
        with self._outbox.adding() as portion:
            portion.records.append((tuple(row for row in rows if row is not None), body))
        return offset


@dataclass(eq=False)
class _ChunkEngine(Engine):
    """Runs one chunk; the driver builds its result rows and metrics from the records in the outbox."""

    outbox: _Outbox

    async def _answer(self, state: RowState) -> None:
        """Answer a row once fewer than the allowed number of answers are in flight."""
        await self.outbox.begin("answered")
        await super()._answer(state)

    def _evaluate(self, state: RowState) -> None:
        """Tell the driver that the target's call has ended, and evaluate the row."""
        if self.plan.target is not None:
            with self.outbox.adding() as portion:
                portion.answered += 1
        super()._evaluate(state)

    def _add_result(self, state: RowState) -> None:
        """Tell the driver that a row is finished; the driver builds its result and counts it."""
        with self.outbox.adding() as portion:
            portion.finished.append(state.row.index)
            portion.failed += bool(state.errors)


class _LimitedCalls(msgspec.Struct, frozen=True):
    """The judges' answers that tasks share; limits judge calls in flight to the outbox's room."""

    shared: SharedCalls
    outbox: _Outbox

    async def answer(self, key: str) -> dict[str, JSON] | None:
        """Wait until a judge call may be in flight; return another task's answer, or None if the caller must call.

        `key` is the call's `call_key`.
        """
        await self.outbox.begin("asked")
        found = await self.shared.answer(key)
        if found is not None:  # the caller makes no call
            self._end()
        return found

    async def settle(self, key: str, answer: dict[str, JSON] | None) -> None:
        """Tell the driver that the call has ended, and share its answer (None: it failed) with other tasks."""
        self._end()
        await self.shared.settle(key, answer)

    def _end(self) -> None:
        """Count a judge call as ended in the next portion."""
        with self.outbox.adding() as portion:
            portion.asked += 1


@dataclass(frozen=True, slots=True)
class ChunkRunner:
    """Runs one chunk after another in one event loop, so that connections outlive chunks.

    Attributes:
        plan: the plan of the run; each chunk replaces its rows.
        facts: returns facts about the endpoints' APIs, sent with the last portion of a chunk.
        budget: the budget for all calls.
        calls: the judges' answers that tasks share.
        stopped: returns when the run must stop.
    """

    plan: Plan
    facts: Callable[[], Mapping[str, JSON]]
    budget: Budget
    calls: SharedCalls
    stopped: Callable[[], Awaitable[object]]
    _loop: LoopThread = field(init=False, default_factory=lambda: LoopThread("chunks"))

    def run(self, chunk: Chunk) -> Iterator[Portion]:
        """Yield the output of a chunk's engine in portions.

        If the chunk is isolated, its rows run one after another, and each row stage by stage: the target, then each
        evaluator.

        Raises:
            RunError: the run must stop, for example because the budget is spent or the endpoint refuses calls.
        """
        if not chunk.isolated:
            yield from self._portions(chunk, self.plan)
            return

        for row in chunk.rows:
            yield from self._stages(row, [*chunk.known.get(row.index, ())])

    def _stages(self, row: Row, known: list[bytes]) -> Iterator[Portion]:
        """Run the target, then each evaluator on one row; yield a portion with the stage's name before each stage.

        If a stage ends the process, the driver knows the stage from the last such portion. With the evaluators `match`
        and `f1`, the first stage runs the target, the second one `match`, the third one `match` and `f1`. Work that the
        records in `known` have is not repeated.
        """
        evaluators = self.plan.evaluators
        # A stage runs the first `count` evaluators; the stage with a count of 0 runs the target alone.
        first = 1 if self.plan.target is None else 0

        for count in range(first, len(evaluators) + 1):
            yield Portion(stage=evaluators[count - 1].name if count else "target")

            plan = replace(self.plan, evaluators=evaluators[:count])
            for portion in self._portions(Chunk((row,), {row.index: known}), plan):
                known = [*known, *(record for _, record in portion.records)]
                # The row is finished only after the last stage.
                if count < len(evaluators):
                    portion.finished, portion.failed = [], 0
                yield portion

    def _portions(self, chunk: Chunk, plan: Plan) -> Iterator[Portion]:
        """Run a chunk in the event loop and yield its portions; then raise the error that ended it, if any."""
        outbox = _Outbox(UNREAD * plan.concurrency)
        plan = replace(plan, rows=lambda: iter(chunk.rows), row_count=len(chunk.rows))

        running = self._loop.submit(self._run(plan, chunk.known, outbox))
        yield from outbox.portions()
        running.result()

    async def _run(self, plan: Plan, known: Mapping[int, Sequence[bytes]], outbox: _Outbox) -> None:
        """Run an engine on the chunk with a temporary journal, until it is done or the run stops.

        The journal begins with the records in `known`, by row index, whose work is not repeated. The last portion gets
        the engine's notes and remarks, and the facts learned about endpoints.
        """
        # The stack closes in reverse order: the watcher first, the outbox last.
        with contextlib.ExitStack() as opened:
            opened.callback(outbox.end)  # in any case, because its reader waits for the end
            path = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="tunecheck-chunk-"))) / "journal.jsonl"
            journal = opened.enter_context(contextlib.closing(_StreamedJournal(path, outbox)))
            for record in chain.from_iterable(known.values()):
                journal.append_encoded(record)

            # Everything in this journal is of this session: its failures are not retried.
            names = frozenset(evaluator.name for evaluator in self.plan.evaluators)
            reader = JournalReader(path, by_row=True, evaluators=names, answers=True, since=0) if known else None
            cached = CachedResults(reader)
            opened.callback(cached.close)

            shared = _LimitedCalls(self.calls, outbox)
            calls = RunCalls(plan.run_id, journal, cached, self.budget, shared)
            aggregator = opened.enter_context(contextlib.closing(Aggregator(plan.evaluators, group_columns=())))
            # Without a writer of results (None): the driver writes them.
            engine = _ChunkEngine(plan, journal, None, aggregator, cached, calls, outbox)

            watcher = asyncio.ensure_future(self.stopped())
            watcher.add_done_callback(lambda done: self._stop(engine, done))
            opened.callback(watcher.cancel)

            with contextlib.suppress(RunInterruptedError):  # the driver notices the rows that are not finished
                await engine.run()

            with outbox.adding() as portion:
                portion.notes += engine.tally.notes
                portion.remarks = engine.tally.remarks
                portion.facts = dict(self.facts())

    def _stop(self, engine: Engine, stopped: asyncio.Future[object]) -> None:
        """Stop the engine because the run must stop; do nothing if the chunk ended first and cancelled the future."""
        if not stopped.cancelled():
            engine.stop(RunInterruptedError())
