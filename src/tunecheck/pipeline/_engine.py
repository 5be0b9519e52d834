"""The engine: one asyncio loop that takes all rows from the data to their results concurrently.

    rows ──feeder──► answering (target, many at once) ──► queues (evaluators) ──► result row, counted and written

Rows are read on demand. A row is finished when its last evaluator is done; rows finish in any order.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, cast

from msgspec import structs

from tunecheck._errors import RunError, UntrustedError
from tunecheck._files import Failure, RowVerdicts
from tunecheck._json import JSON, content_hash, plain
from tunecheck._loops import UserLoop
from tunecheck._records import Journal, JournaledParts
from tunecheck._targets import CallContext, Load, Row, Target, group_of
from tunecheck._version import is_shipped
from tunecheck.endpoints._masking import ALL_SECRETS
from tunecheck.formats._reading import RowCache, UnreadText, begin_row
from tunecheck.pipeline._aggregate import Aggregator
from tunecheck.pipeline._finished_rows import ResultRow
from tunecheck.pipeline._model_calls import CachedResults, RunCalls
from tunecheck.pipeline._plan import Plan, ReadCallsCount, Tally, is_strict
from tunecheck.pipeline._results import RowState, check_columns, result_row
from tunecheck.pipeline._scoring import BoundEvaluator, CallableTarget, Partial, failure, is_our_own, private_copies
from tunecheck.pipeline._worker_queues import (
    LATE,
    Arguments,
    AsyncExecutor,
    Executor,
    Job,
    ThreadExecutor,
    Work,
    WorkerQueue,
)

_WINDOW = 1_024
"""Limit of rows in progress, or four per concurrent call if that is more: queues stay full, memory constant."""

_GROUPED_WINDOW = 65_536
"""The same limit if rows wait for the previous row of their group."""

_BURST = 256
_TURN_S = 0.01
"""Rows fed, and seconds spent on feeding, before other tasks of the loop run: reading may be slow."""


_LOOK_AHEAD = 2
"""Units in progress per concurrent call in a run that may stop early; one slow unit must not block the others."""

_ENOUGH = Exception("there are enough rows")
"""Stops the run early without marking it as failed: the comparison is decided."""

_LONG_S = 3.0
"""Progress names an evaluator whose call takes longer than this."""


class RowWriter(Protocol):
    """Destination of finished rows."""

    def write(self, index: int, row: ResultRow) -> Failure | None:
        """Write a row; return a failure if a value has no JSON form."""
        ...


class AnswerQueue:
    """Hands out rows for the target; the next row of a group follows after the previous one is answered."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[RowState | None] = asyncio.Queue()
        self._behind: dict[str, deque[RowState]] = {}
        """The waiting rows of each group that has started."""

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
        """Return the group's next waiting row after this one was answered; None without a group or waiting row."""
        if state.group is None:
            return None
        behind = self._behind[state.group]
        if behind:
            return behind.popleft()
        del self._behind[state.group]
        return None

    def close(self) -> None:
        """Add the end marker: no more rows will be added."""
        self._ready.put_nowait(None)

    def clear(self) -> int:
        """Remove all waiting rows and close the queue; return the number of removed rows."""
        ready = [self._ready.get_nowait() for _ in range(self._ready.qsize())]
        waiting = len(ready) - ready.count(None) + sum(map(len, self._behind.values()))
        for behind in self._behind.values():
            behind.clear()
        self.close()
        return waiting


class Engine:
    """Runs a plan once."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        results: RowWriter,
        aggregator: Aggregator,
        cached: CachedResults,
        calls: RunCalls,
    ) -> None:
        """Keep what a run needs; nothing starts before `run`.

        `cached` has recorded results to reuse, `calls` makes the evaluators' model calls, finished rows go to `results`
        and `aggregator`.
        """
        self.plan = plan
        self.tally = Tally(read_calls=ReadCallsCount(plan.calls))
        self._journal = journal
        self._results = results
        self._aggregator = aggregator
        self._cached = cached
        self._reuses = bool(cached)
        self._calls = calls
        self._names = [evaluator.name for evaluator in plan.evaluators]
        self._queues: list[WorkerQueue] = []
        self._user_loop = plan.target.loop if isinstance(plan.target, CallableTarget) else UserLoop()
        """Runs coroutines of user code."""
        self._ready = asyncio.Event()
        """Set when the worker queues are open."""
        self._queue = AnswerQueue()
        self._under_way = 0
        self._changed = asyncio.Event()
        self._stop: BaseException | None = None

    # -- the run

    async def run(self) -> None:
        """Process every row, then close the worker queues and the loop of user code.

        Nothing is raised if the run stopped because enough rows decide the comparison.

        Raises:
            RunError: `stop` was called, also because of an error; finished work is in the journal.
        """
        try:
            async with asyncio.TaskGroup() as group:
                opening = group.create_task(self._open_queues(group))
                for _ in range(self.plan.concurrency if self.plan.target is not None else 0):
                    group.create_task(self._answer_rows())
                await group.create_task(self._feed())
                await opening
                for queue in self._queues:
                    queue.close()
        finally:
            await asyncio.gather(self._user_loop.close(), *(queue.executor.close() for queue in self._queues))
            alone = [queue.evaluators[0].name for queue in self._queues if queue.one_at_a_time]
            self.tally.notes += [
                f"evaluator {name!r} fails in several threads at once: its rows ran one at a time" for name in alone
            ]
        if self._stop not in (None, _ENOUGH):
            raise self._stop

    def stop(self, reason: BaseException) -> None:
        """Stop the run: drop waiting rows, finish calls in flight, tell the target. Later calls of `stop` do nothing.

        `run` raises `reason` at its end. Dropped rows have no result; a resumed run processes them.
        """
        if self._stop is not None:
            return
        self._stop = reason
        self._under_way -= self._queue.clear()
        for queue in self._queues:
            for job in queue.take_all():
                self._count_down(job.state, abandon=True)
        try:
            if self.plan.target is not None:
                self.plan.target.stop()
        except Exception as error:  # noqa: BLE001 - a user's target: the run stops for another reason already
            self.tally.notes.append(f"the target's stop() failed: {type(error).__name__}: {error}")
        self._changed.set()

    def load(self) -> Load | None:
        """Return the current load limit of the target's service, or None if it has none."""
        return self.plan.target.load() if self.plan.target is not None else None

    async def _open_queues(self, group: asyncio.TaskGroup) -> None:
        """Open the worker queues and start serving them, while the target already answers rows.

        An error stops the run. `_ready` is set in any case, because answered rows wait for it.
        """
        try:
            opened = _open_executors(self.plan, self._calls, self._user_loop, self.tally, self._aggregator)
            async for evaluators, executor in opened:
                self._queues.append(WorkerQueue(evaluators, executor, self._batch_finished, self._batch_failed))
        except Exception as error:  # noqa: BLE001 - stop in order whatever is wrong; `run` raises it
            self.stop(error)
        for queue in self._queues:
            group.create_task(queue.serve())
        self._ready.set()

    def waiting_for(self) -> str:
        """Return a remark for the progress line on the longest evaluator call, or "" if all took at most 3 seconds."""
        slow = min((queue for queue in self._queues if queue.begun), key=lambda queue: min(queue.begun), default=None)
        took = 0 if slow is None else time.monotonic() - min(slow.begun)
        if slow is None or took <= _LONG_S:
            return ""
        names = ", ".join(evaluator.name for evaluator in slow.evaluators)
        return f"waiting for evaluator {names!r} for {took:.0f} s"

    # -- reading

    async def _feed(self) -> None:
        """Read all rows, start their work, and wait until each has finished or the stopped run has dropped it."""
        try:
            if self.plan.target is None:
                await self._ready.wait()
            await self._feed_rows()
        except Exception as error:  # noqa: BLE001 - reading the data failed half-way: stop in order
            self.stop(error)
        self._queue.close()
        await self._until(lambda: self._under_way == 0)

    async def _feed_rows(self) -> None:
        """Start each row, and pause while too many rows are in progress; return early if the run stops."""
        limit, order = max(_WINDOW, 4 * self.plan.concurrency), self.plan.order
        turn = time.monotonic()
        for row in self.plan.rows() if order is None else order.rows():
            if order is not None:
                most = _LOOK_AHEAD * self.plan.concurrency
                await self._until(lambda: order.ahead <= most or self._stop is not None)  # noqa: B023
            if self._stop is not None:
                return
            if self._start(row):  # rows that wait for the previous one of their group must not fill the window
                limit = _GROUPED_WINDOW
            if self.tally.read % _BURST == 0 or time.monotonic() - turn > _TURN_S:
                await asyncio.sleep(0)
                if self._under_way >= limit:
                    room = limit - _BURST
                    await self._until(lambda: self._under_way < room or self._stop is not None)  # noqa: B023
                turn = time.monotonic()

    def _start(self, row: Row) -> bool:
        """Start work on a row: queue it for the target, or evaluate it at once without a target.

        Return True if the row belongs to a group; rows of a group are answered in order.
        """
        target = self.plan.target
        state = RowState(row, group=group_of(row, target, self.plan.group_column))
        self.tally.read += 1
        self._under_way += 1
        if target is None:
            self._evaluate(state)
        else:
            self._queue.put(state)
        return state.group is not None

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true; it is checked again whenever a row leaves or the run stops."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    # -- answering

    async def _answer_rows(self) -> None:
        """Answer queued rows until there are no more; a group's rows are answered one after another by one task."""
        while (state := await self._queue.next()) is not None:
            while state is not None:
                await self._answer(state)
                state = self._queue.next_of_group(state)

    async def _answer(self, state: RowState) -> None:
        """Get the target's answer to a row, or its recorded failure, store it in the state, and start the evaluators.

        An error of the target is an error of the row and is journaled; a RunError stops the run.
        """
        target = self.plan.target
        assert target is not None
        if self.plan.order is not None:
            self.plan.order.asked.add(state.row.index)
        if (known := self._cached.failure(state.row.index, "target")) is not None:
            state.errors["target"] = known
            await self._handle_answer(state)
            return
        try:
            columns = await self._recall_or_ask(target, state.row)
            check_columns(columns, self._names)
            state.target = columns
            self.tally.masked += columns.get("masked") is True
            self.tally.simulated |= columns.get("simulated") is True
        except RunError as error:  # the target, or a journal that cannot be written, ends the run
            self.stop(error)
        except BaseException as error:  # noqa: BLE001 - a target may raise anything; a cancellation of this task goes on
            if is_our_own(error):
                raise
            self._note_error(state, "target", failure(error))
        await self._handle_answer(state)

    async def _handle_answer(self, state: RowState) -> None:
        """Count a row as answered, also if the target failed, and evaluate it once the worker queues are open."""
        self.tally.answered += 1
        await self._ready.wait()
        self._evaluate(state)

    async def _recall_or_ask(self, target: Target, row: Row) -> dict[str, JSON]:
        """Return a row's answer: the recorded one, else a new one from the target, which is journaled and charged.

        An answer recorded by the parent run only is copied into this run's journal.
        """
        input_hash = target.input_hash(row)
        recorded = self._cached.answer(row.index, input_hash)
        if recorded is None:
            parts = JournaledParts(self._journal, row, input_hash, self._cached.steps(row.index, input_hash))
            context = CallContext(
                self.plan.run_id, row.id, input_hash or row.fingerprint, parts, self.plan.folder, self._calls
            )
            values = cast("Mapping[str, JSON]", private_copies(row.values))  # the target may change it
            asked = replace(row, values=values)
            async with self._calls.of_target(target, row) as spend:
                answer = plain(dict(await target.answer(asked, context)), path="answer")
                assert isinstance(answer, dict)
                self._journal.answer(row.index, row.id, input_hash, answer)
                spend(answer)
            return answer
        self.tally.reused += recorded.reused
        if recorded.again:
            self._journal.answer(row.index, row.id, input_hash, recorded.value)
        if not recorded.paid_elsewhere:
            self._calls.count_target(target, row, recorded.value)
        if self.tally.answered % _BURST == 0:
            await asyncio.sleep(0)
        return recorded.value

    # -- evaluating

    def _evaluate(self, state: RowState) -> None:
        """Give a row to the worker queues; finish it at once if none has work. If the run is stopping, drop it."""
        if self._stop is not None:  # the answer is recorded; a resumed run evaluates it
            self._leave()
            return
        try:
            jobs = [(queue, job) for queue in self._queues if (job := self._job(queue, state)) is not None]
        except Exception as error:  # noqa: BLE001 - the journal has become unreadable: the run stops in order
            self.stop(error)
            self._leave()
            return
        state.waiting = len(jobs)
        if not jobs:
            self._finish(state)
        for queue, job in jobs:
            queue.feed(job)

    def _job(self, queue: WorkerQueue, state: RowState) -> Job | None:
        """Return a row's work in a worker queue, without evaluators that have a recorded verdict to reuse.

        None if no call is left. Reused verdicts are stored in `state`, and journaled again if only the parent run has
        them.
        """
        bound: list[Arguments] = []
        row = RowCache(bound) if queue.evaluators[0].pure else None
        job = Job(state, Work(bound, row))
        again: RowVerdicts = {}
        for evaluator, first in zip(queue.evaluators, queue.bound_like, strict=True):
            # An earlier evaluator with the same parameters has the same arguments.
            if first < len(bound) and bound[first] is not None:
                arguments, input_hash = bound[first], job.hashes[first]
            else:
                arguments, input_hash = self._bind(evaluator, state)
            if arguments is not None and self._reuses:
                recorded = self._cached.verdict(evaluator.name, state.row.index, input_hash)
                if recorded is not None:
                    output = recorded.value
                    self.tally.reused_verdicts += recorded.reused
                    state.outputs[evaluator.name] = output
                    self.tally.simulated |= evaluator.asks_models and any(
                        isinstance(value, dict) and value.get("simulated") is True for value in output.values()
                    )
                    if recorded.again:
                        again[evaluator.name] = (input_hash, output)
                    arguments = None
            bound.append(arguments)
            job.hashes.append(input_hash)
        if again:
            self._record_verdicts([(state.row.index, again)])
        if bound.count(None) == len(bound):
            return None
        state.readings = row or state.readings
        return job

    def _bind(self, evaluator: BoundEvaluator, state: RowState) -> tuple[dict[str, object] | None, str | None]:
        """Return an evaluator's arguments and their hash; None for both if the evaluator is not called on this row.

        It is not called if it needs the target's failed answer, failed before in this session, or lacks a column: the
        error is stored. The hash is None if an argument has no JSON form. A response with calls that do not count is
        marked as unread.
        """
        if "target" in state.errors and evaluator.needs_target:
            return None, None
        if (known := self._cached.failure(state.row.index, evaluator.name)) is not None:
            state.errors[evaluator.name] = known
            return None, None
        try:
            arguments = evaluator.bind(state.row.values, state.target)
        except Exception as error:  # noqa: BLE001 - a row may hold any object, and its methods may raise anything
            self._note_error(state, evaluator.name, failure(error))
            return None, None
        input_hash = evaluator.input_hash(arguments)
        if is_strict(self.plan.calls, arguments, state):
            state.unread = True
            arguments["response"] = UnreadText(arguments["response"])
            input_hash = input_hash and content_hash([input_hash, UnreadText.__name__])
        return arguments, input_hash

    def _batch_finished(self, queue: WorkerQueue, batch: list[Job]) -> None:
        """Store and journal the outcomes of a batch; finish each row that no other queue still works on."""
        self._record_verdicts([(job.state.row.index, self._sort_out(queue, job)) for job in batch])
        for job in batch:
            self._count_down(job.state)

    def _batch_failed(self, batch: list[Job], error: Exception) -> None:
        """Stop the run because a batch could not run, and drop the batch's rows."""
        self.stop(error)
        for job in batch:
            self._count_down(job.state, abandon=True)

    def _record_verdicts(self, rows: list[tuple[int, RowVerdicts]]) -> None:
        """Journal verdicts by row index; stop the run if the journal cannot be written."""
        try:
            self._journal.verdicts(rows)
        except RunError as error:
            self.stop(error)

    def _count_down(self, state: RowState, *, abandon: bool = False) -> None:
        """Note that one worker queue is done with a row; after the last queue, finish the row.

        `abandon`: the queue has dropped the row because the run is stopping. Such a row gets no result.
        """
        state.abandoned |= abandon
        state.waiting -= 1
        if state.waiting == 0:
            if state.abandoned:
                self._leave()
            else:
                self._finish(state)

    def _sort_out(self, queue: WorkerQueue, job: Job) -> RowVerdicts:
        """Store the outcomes of a row's evaluators in its state; return the verdicts to journal.

        An outcome that is a failure is journaled as an error instead, so a resumed run calls the evaluator again.
        """
        verdicts: RowVerdicts = {}
        for evaluator, input_hash, outcome in zip(queue.evaluators, job.hashes, job.outcomes, strict=True):
            if isinstance(outcome, Partial):
                self.tally.remarks.lost.update(outcome.lost.values())
                if outcome.failure is not None:  # no verdict is recorded, so a resumed run tries again
                    job.state.outputs[evaluator.name], outcome = outcome.output, outcome.failure
                else:
                    outcome = outcome.output
            if isinstance(outcome, Failure):
                if outcome.type == LATE:
                    self.tally.remarks.late[evaluator.name] += 1
                self._note_error(job.state, evaluator.name, outcome)
            elif outcome is not None:
                job.state.outputs[evaluator.name] = outcome
                verdicts[evaluator.name] = (input_hash, outcome)
        return verdicts

    def _note_error(self, state: RowState, stage: str, error: Failure) -> None:
        """Store and journal an error of a stage (`target`, or an evaluator's name) on a row, with secrets masked.

        With --fail-on-evaluator-errors, an evaluator's error also stops the run.
        """
        error = structs.replace(error, message=str(ALL_SECRETS.answer(error.message)))
        state.errors[stage] = error
        if error.type == UntrustedError.__name__:
            self.tally.remarks.refused[error.message] += 1
        try:
            self._journal.error(state.row.index, state.row.id, stage, error)
        except RunError as lost:
            self.stop(lost)
        if self.plan.fail_on_evaluator_errors and stage != "target":
            self.stop(RunError(f"row {state.row.id}: evaluator {stage!r}: {error.message}"))

    # -- finishing

    def _finish(self, state: RowState) -> None:
        """Settle a row; a run with a random order settles it, and rows that waited for it, in that order.

        Stop the run if the settled rows decide the comparison, or if a result cannot be written.
        """
        order = self.plan.order
        try:
            for each in [state] if order is None else order.settle(state):
                self._settle(each)
        except Exception as error:  # noqa: BLE001 - stop in order whatever is wrong; `run` raises it
            self.stop(error)
        if order is not None and order.decided:
            self.stop(_ENOUGH)
        self._leave()

    def _settle(self, state: RowState) -> None:
        """Write a row's result, add it to the metrics, and count it as finished."""
        self._add(state)
        self.tally.finished += 1
        self.tally.failed += bool(state.errors)
        self.tally.unanswered += "target" in state.errors

    def _add(self, state: RowState) -> None:
        """Determine a row's kind and the cause of its failure, write its result row, and add it to the metrics.

        Values without a JSON form are an error of the row. Calls that the server did not parse are counted, too.
        """
        begin_row(state.readings)  # the evaluators have parsed the row's values already
        state.kind = self.plan.row_kind(state.row.values, state.target)
        if state.needs_cause:
            from tunecheck.pipeline._row_causes import decide_cause  # loads what matches calls

            state.cause = decide_cause(state, self.plan.evaluators)
        begin_row(None)
        self.tally.read_calls.add(state, self.plan.evaluators)
        refused = self._results.write(state.row.index, result_row(state, self._names))
        if refused is not None:
            state.errors["results"] = refused
        self._aggregator.add(state)

    def _leave(self) -> None:
        """Count a row as no longer in progress, finished or dropped, and wake the tasks that wait for that."""
        self._under_way -= 1
        self._changed.set()


async def _open_executors(
    plan: Plan, calls: RunCalls, loop: UserLoop, tally: Tally, aggregator: Aggregator
) -> AsyncIterator[tuple[Sequence[BoundEvaluator], Executor]]:
    """Open the executors of a plan; yield each with the evaluators that it runs. Worker processes come first."""
    limit_s = plan.evaluator_timeout
    sent: set[str] = set()
    if plan.workers or (plan.isolates_files and not all(is_shipped(e.module) for e in plan.evaluators)):
        from tunecheck.pipeline._workers import start_processes

        for process in await start_processes(plan, tally, aggregator):
            sent |= {evaluator.name for evaluator in process.evaluators}
            yield process.evaluators, process
    here = [e for e in plan.evaluators if e.name not in sent and not e.asynchronous]
    together = [e for e in here if e.pure]
    if together:
        yield together, ThreadExecutor(together, 1, limit_s)
    for evaluator in here:
        if not evaluator.pure:
            yield [evaluator], ThreadExecutor([evaluator], plan.concurrency, limit_s)
    for evaluator in plan.evaluators:
        if evaluator.asynchronous and evaluator.name not in sent:
            asked = calls.of(evaluator.name) if evaluator.asks_models else None
            slots = evaluator.concurrency or plan.concurrency
            yield [evaluator], AsyncExecutor(evaluator, slots, limit_s, loop, asked)
