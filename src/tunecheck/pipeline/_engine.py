"""The engine: one asyncio loop that takes all rows from the data to their results concurrently.

    rows ──feeder──► answering (target, many at once) ──► queues (evaluators) ──► result row, counted and written

Rows are read on demand. A row is finished when its last evaluator is done; rows finish in any order. The caller
makes one `Engine` for a plan, awaits `run`, and reads the `tally`. Results go to the row writer and the aggregator.

An error of the target or of an evaluator belongs to its row: it is journaled, and the run goes on. A `RunError`, or any
other error, stops the run. A stopped run drops its waiting rows and finishes the calls in flight.

Work that the journal has is not done again:

*   A failure of this session stays the row's error.
*   A recorded answer or verdict with equal inputs is reused, of this run first, else of its parent run. An inherited
    one is written to this run's journal, too.
*   Otherwise the target or the evaluator is called.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from msgspec import structs

from tunecheck._errors import RunError, UntrustedError
from tunecheck._files import Failure, RowVerdicts
from tunecheck._json import JSON, content_hash, plain
from tunecheck._loops import UserLoop
from tunecheck._records import Journal
from tunecheck._targets import CallContext, Load, Row, Target, group_of
from tunecheck._version import is_shipped
from tunecheck.endpoints._masking import ALL_SECRETS
from tunecheck.formats._reading import RowCache, UnreadText, begin_row
from tunecheck.pipeline import _worker_queues as queues
from tunecheck.pipeline._model_calls import CachedResults, EvaluatorCalls, ReusableResult, RunCalls
from tunecheck.pipeline._plan import CallableTarget, Plan, ReadCallsCount, Tally, response_as_read
from tunecheck.pipeline._results import Aggregator, ResultsWriter, RowState, check_columns, result_row
from tunecheck.pipeline._scoring import BoundEvaluator, Partial, as_failure, cancels_this_task, private_copies

_WINDOW = 1_024
"""Limit of rows in progress, or four per concurrent call if that is more: queues stay full, memory constant."""

_GROUPED_WINDOW = 65_536
"""The same limit if rows wait for the previous row of their group."""

_BURST, _TURN_S = 256, 0.01
"""Rows fed, and seconds spent on feeding, before other tasks of the loop run: reading may be slow."""

_LOOK_AHEAD = 2
"""Units in progress per concurrent call in a run that may stop early; one slow unit must not block the others."""

_ENOUGH = Exception("the comparison is decided")
"""Stops the run early without marking it as failed: the comparison is decided."""

_LONG_S = 3.0
"""Progress names an evaluator whose call takes longer than this."""


@dataclass(eq=False)
class Engine:
    """Runs a plan once. `cached` has recorded results to reuse, `calls` makes the evaluators' model calls.

    Finished rows go to `results` (None only in a subclass with its own `_add_result`) and `aggregator`.

    A row passes through these methods:

    1.  `_start_row` makes its state. Without a target, step 3 follows.
    2.  `_answer` gets the target's answer, or the row's error.
    3.  `_evaluate` gives it to the worker queues, as entries of `_make_entry`.
    4.  `_batch_finished` stores the outcomes of each queue, `_count_down` waits for the last queue.
    5.  `_finish_row` adds its result.
    6.  `_end_row` counts it as no longer in progress, also if the stopped run drops it.
    """

    plan: Plan
    journal: Journal
    results: ResultsWriter | None
    aggregator: Aggregator
    cached: CachedResults
    calls: RunCalls

    def __post_init__(self) -> None:
        """Prepare what a run needs; nothing starts before `run`."""
        plan = self.plan
        self.tally = Tally(read_calls=ReadCallsCount(plan.calls))
        self._reuses = bool(self.cached)
        """True if there are recorded results to look for."""
        self._names = [evaluator.name for evaluator in plan.evaluators]
        self._user_loop = plan.target.loop if isinstance(plan.target, CallableTarget) else UserLoop()
        """Runs coroutines of user code."""

        self._answer_queue = queues.AnswerQueue()
        self._worker_queues: list[queues.WorkerQueue] = []
        self._worker_queues_open = asyncio.Event()
        self._rows_in_progress = 0
        """Number of rows that were read but have neither a result nor been dropped."""
        self._changed = asyncio.Event()
        """Set when a row has ended, or the run stops."""
        self._stop_reason: BaseException | None = None

    # -- the run

    async def run(self) -> None:
        """Process every row, then close the worker queues and the loop of user code.

        If the run stopped because enough rows decide the comparison, `run` returns as usual.

        Raises:
            BaseException: the reason that `stop` got, for example a RunError; finished work is in the journal.
        """
        try:
            async with asyncio.TaskGroup() as group:
                opening = group.create_task(self._open_queues(group))
                for _ in range(self.plan.concurrency if self.plan.target is not None else 0):
                    group.create_task(self._answer_rows())
                await group.create_task(self._feed())

                # Every row has ended, so nothing more goes into the queues.
                await opening
                for queue in self._worker_queues:
                    queue.close()
        finally:
            await asyncio.gather(self._user_loop.close(), *(queue.executor.close() for queue in self._worker_queues))

            alone = [queue.evaluators[0].name for queue in self._worker_queues if queue.one_at_a_time]
            self.tally.notes += [
                f"evaluator {name!r} fails in several threads at once, so it scored one row at a time" for name in alone
            ]

        if self._stop_reason not in (None, _ENOUGH):
            raise self._stop_reason

    def stop(self, reason: BaseException) -> None:
        """Stop the run: drop waiting rows, finish calls in flight, tell the target. Later calls of `stop` do nothing.

        `run` raises `reason` at its end. Dropped rows have no result; a resumed run processes them.
        """
        if self._stop_reason is not None:
            return

        # Rows that have no answer yet are in no worker queue. Rows in several queues end when the last queue has
        # dropped them.
        self._stop_reason = reason
        self._rows_in_progress -= self._answer_queue.clear()
        for queue in self._worker_queues:
            self._drop(queue.take_all())

        try:
            if self.plan.target is not None:
                self.plan.target.stop()
        except Exception as error:  # noqa: BLE001 - a user's target: the run stops for another reason already
            self.tally.notes.append(f"the target's stop() failed: {type(error).__name__}: {error}")

        self._changed.set()

    def load(self) -> Load | None:
        """Return the current load of the target's service, or None if unknown."""
        return self.plan.target.load() if self.plan.target is not None else None

    async def _open_queues(self, group: asyncio.TaskGroup) -> None:
        """Open the worker queues and start serving them, while the target already answers rows.

        An error stops the run. `_worker_queues_open` is set in any case, because answered rows wait for it.
        """
        try:
            async for evaluators, executor in self._open_executors():
                self._worker_queues.append(
                    queues.WorkerQueue(evaluators, executor, self._batch_finished, self._batch_failed)
                )
        except Exception as error:  # noqa: BLE001 - stop in order whatever is wrong; `run` raises it
            self.stop(error)

        for queue in self._worker_queues:
            group.create_task(queue.serve())
        self._worker_queues_open.set()

    async def _open_executors(self) -> AsyncIterator[tuple[Sequence[BoundEvaluator], queues.Executor]]:
        """Open the executors of the plan; yield each with the evaluators that it runs. Worker processes come first.

        The evaluators that no process takes run here: pure ones share a thread, every other synchronous one has threads
        of its own, and every asynchronous one runs in an event loop.
        """
        plan = self.plan
        limit_s = plan.evaluator_timeout
        in_processes: set[str] = set()

        # An evaluator that is not Tunecheck's own must not crash the run.
        is_at_risk = plan.isolates_files and not all(is_shipped(evaluator.module) for evaluator in plan.evaluators)
        if plan.workers or is_at_risk:
            from tunecheck.pipeline._workers import start_processes

            for process in await start_processes(plan, self.tally, self.aggregator):
                in_processes.update(evaluator.name for evaluator in process.evaluators)
                yield process.evaluators, process

        here = [evaluator for evaluator in plan.evaluators if evaluator.name not in in_processes]
        computing = [evaluator for evaluator in here if evaluator.pure and not evaluator.asynchronous]

        if computing:
            yield computing, queues.ThreadExecutor(computing, 1, limit_s)

        for evaluator in here:
            if not evaluator.pure and not evaluator.asynchronous:
                yield [evaluator], queues.ThreadExecutor([evaluator], plan.concurrency, limit_s)
            elif evaluator.asynchronous:
                model_calls = EvaluatorCalls(self.calls, evaluator.name) if evaluator.asks_models else None
                slots = evaluator.concurrency or plan.concurrency
                yield [evaluator], queues.AsyncExecutor(evaluator, slots, limit_s, self._user_loop, model_calls)

    def waiting_for(self) -> str:
        """Return a remark for the progress line on the oldest unfinished batch, or "" if none is older than 3 seconds.

        A batch is one or more rows in a worker queue.
        """
        running = [queue for queue in self._worker_queues if queue.begun]
        slowest = min(running, key=lambda queue: min(queue.begun), default=None)
        took_s = 0.0 if slowest is None else time.monotonic() - min(slowest.begun)
        if slowest is None or took_s <= _LONG_S:
            return ""

        names = ", ".join(evaluator.name for evaluator in slowest.evaluators)
        return f"waiting for evaluator {names!r} for {took_s:.0f} s"

    # -- reading

    async def _feed(self) -> None:
        """Read all rows, start their work, and wait until each has finished or the stopped run has dropped it."""
        try:
            # Without a target, rows go straight to the worker queues.
            if self.plan.target is None:
                await self._worker_queues_open.wait()
            await self._feed_rows()
        except Exception as error:  # noqa: BLE001 - reading the data failed half-way: stop in order
            self.stop(error)

        # The tasks that answer rows end when the queue is empty.
        self._answer_queue.close()
        await self._until(lambda: self._rows_in_progress == 0)

    async def _feed_rows(self) -> None:
        """Start each row, and pause while too many rows are in progress; return early if the run stops."""
        order = self.plan.order
        most_units = _LOOK_AHEAD * self.plan.concurrency
        most_rows = max(_WINDOW, 4 * self.plan.concurrency)
        turn_began = time.monotonic()

        for row in self.plan.rows() if order is None else order.rows():
            # A run that may stop early reads only a few units ahead of those that count for the decision.
            if order is not None:
                await self._until(lambda: order.ahead <= most_units or self._stop_reason is not None)
            if self._stop_reason is not None:
                return

            state = self._start_row(row)
            if state.group is not None:  # rows that wait for the previous one of their group must not fill the window
                most_rows = _GROUPED_WINDOW

            # After a burst of rows or a long time of reading, other tasks run.
            if self.tally.read % _BURST == 0 or time.monotonic() - turn_began > _TURN_S:
                await asyncio.sleep(0)
                if self._rows_in_progress >= most_rows:
                    # Waiting for a whole burst of free places saves wake-ups for single rows.
                    room = most_rows - _BURST
                    await self._until(lambda: self._rows_in_progress < room or self._stop_reason is not None)  # noqa: B023
                turn_began = time.monotonic()

    def _start_row(self, row: Row) -> RowState:
        """Queue a row for the target, or evaluate it at once without a target; return its state."""
        target = self.plan.target
        state = RowState(row, group=group_of(row, target, self.plan.group_column))
        self.tally.read += 1
        self._rows_in_progress += 1

        if target is None:
            self._evaluate(state)
        else:
            self._answer_queue.put(state)
        return state

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true; it is checked again whenever a row has ended or the run stops."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    # -- answering

    async def _answer_rows(self) -> None:
        """Answer queued rows until there are no more; a group's rows are answered one after another by one task."""
        while (state := await self._answer_queue.next()) is not None:
            while state is not None:
                await self._answer(state)
                state = self._answer_queue.next_of_group(state)

    async def _answer(self, state: RowState) -> None:
        """Get the target's answer to a row, or its recorded failure, store it in the state, and start the evaluators.

        An error of the target is an error of the row and is journaled; a RunError stops the run.
        """
        target = self.plan.target
        assert target is not None
        if self.plan.order is not None:
            self.plan.order.asked.add(state.row.index)

        # A failure that this session recorded is not retried; a resumed run retries those of earlier sessions.
        recorded_failure = self.cached.failure(state.row.index, "target")
        try:
            if recorded_failure is not None:
                state.errors["target"] = recorded_failure
            else:
                columns = await self._answer_of(target, state.row)
                check_columns(columns, self._names)
                state.target = columns
                self.calls.masked += columns.get("masked") is True
                self.calls.simulated |= columns.get("simulated") is True
        except RunError as error:  # the target, or a journal that cannot be written, ends the run
            self.stop(error)
        except BaseException as error:  # noqa: BLE001 - a target may raise anything; a cancellation of this task goes on
            if cancels_this_task(error):
                raise
            self._note_error(state, "target", as_failure(error))

        # The row counts as answered, also if the target failed.
        self.tally.answered += 1
        await self._worker_queues_open.wait()
        self._evaluate(state)

    async def _answer_of(self, target: Target, row: Row) -> dict[str, JSON]:
        """Return a row's answer as columns: the recorded one, else a new one from the target."""
        input_hash = target.input_hash(row)
        recorded = self.cached.answer(row.index, input_hash)
        if recorded is None:
            return await self._ask(target, row, input_hash)

        self.tally.reused += recorded.reused
        # An inherited answer must be in this run's journal, too. An answer of this run before its interruption has a
        # cost.
        if recorded.is_inherited:
            self.journal.answer(row.index, row.id, input_hash, recorded.value)
        if not recorded.paid_elsewhere:
            self.calls.count_target(target, row, recorded.value)

        if self.tally.answered % _BURST == 0:  # recorded answers take no time: let other tasks run
            await asyncio.sleep(0)
        return recorded.value

    async def _ask(self, target: Target, row: Row, input_hash: str | None) -> dict[str, JSON]:
        """Return the target's new answer to a row as columns; it is journaled and charged first."""
        # Inputs without a JSON form have no hash; the row's content then identifies the answer.
        key = input_hash or row.fingerprint
        recorded = self.cached.steps(row.index, input_hash)
        journal_part = partial(self.journal.step, row.index, row.id, input_hash)
        context = CallContext(self.plan.run_id, row.id, key, recorded, journal_part, self.plan.folder, self.calls)
        private = row
        if not target.pure:  # the target may change the row's values
            values = cast("Mapping[str, JSON]", private_copies(row.values))
            private = Row(row.index, row.id, values, row.fingerprint)
        async with self.calls.of_target(target, row) as charge:
            output = dict(await target.answer(private, context))
            answer = cast("dict[str, JSON]", output if target.pure else plain(output, path="answer"))
            # First the journal, then the cost: an answer that is paid for must not be lost.
            self.journal.answer(row.index, row.id, input_hash, answer)
            charge(answer)
        return answer

    # -- evaluating

    def _evaluate(self, state: RowState) -> None:
        """Give a row to each worker queue with work for it; without such a queue, finish the row.

        If the run has stopped, drop the row.
        """
        if self._stop_reason is not None:  # the answer is recorded; a resumed run evaluates it
            self._end_row()
            return

        try:
            entries = [(queue, self._make_entry(queue, state)) for queue in self._worker_queues]
        except Exception as error:  # noqa: BLE001 - the journal has become unreadable: the run stops in order
            self.stop(error)
            self._end_row()
            return

        with_work = [(queue, entry) for queue, entry in entries if entry is not None]
        state.waiting = len(with_work)

        if not with_work:
            self._finish_row(state)
        for queue, entry in with_work:
            queue.feed(entry)

    def _make_entry(self, queue: queues.WorkerQueue, state: RowState) -> queues.QueueEntry | None:
        """Return a row's work in a worker queue, or None if none of the queue's evaluators is called on the row.

        An evaluator is not called if it has a recorded verdict, which is stored in `state`, or if `_bind` returns no
        arguments. Verdicts that only the parent run has are journaled again.
        """
        arguments_by_evaluator: list[queues.Arguments] = []  # filled below; the entry and the readings share the list
        # Evaluators that change no arguments share the readings of the row's texts.
        readings = RowCache(arguments_by_evaluator) if queue.evaluators[0].pure else None
        entry = queues.QueueEntry(arguments_by_evaluator, readings, state)
        inherited: RowVerdicts = {}

        for position, evaluator in enumerate(queue.evaluators):
            alike = queue.bound_like[position]  # an earlier evaluator with the same arguments, or this one
            if alike < position and arguments_by_evaluator[alike] is not None:
                arguments, input_hash = arguments_by_evaluator[alike], entry.hashes[alike]
            else:
                arguments, input_hash = self._bind(evaluator, state)

            if arguments is not None and self._reuses:
                recorded = self.cached.verdict(evaluator.name, state.row.index, input_hash)
                if recorded is not None:
                    self._reuse(evaluator, state, recorded)
                    if recorded.is_inherited:
                        inherited[evaluator.name] = (input_hash, recorded.value)
                    arguments = None

            arguments_by_evaluator.append(arguments)
            entry.hashes.append(input_hash)

        if inherited:
            self._record_verdicts([(state.row.index, inherited)])

        # No evaluator of the queue is called.
        if arguments_by_evaluator.count(None) == len(arguments_by_evaluator):
            return None
        if readings is not None:
            state.readings = readings
        return entry

    def _reuse(self, evaluator: BoundEvaluator, state: RowState, recorded: ReusableResult[dict[str, JSON]]) -> None:
        """Store an evaluator's recorded output in the row's state, and count it as reused."""
        state.outputs[evaluator.name] = recorded.value
        self.tally.reused_verdicts += recorded.reused
        if evaluator.asks_models:
            for value in recorded.value.values():
                self.calls.simulated |= isinstance(value, dict) and value.get("simulated") is True

    def _bind(self, evaluator: BoundEvaluator, state: RowState) -> tuple[dict[str, object] | None, str | None]:
        """Return an evaluator's arguments and their hash; None for both if the evaluator is not called on this row.

        It is not called if it needs the target's failed answer, failed before in this session, or its arguments cannot
        be bound. The last two errors are stored in the row's state. The hash is None if an argument has no JSON form.
        A response with calls that do not count is marked as unread.
        """
        if "target" in state.errors and evaluator.needs_target:
            return None, None

        recorded_failure = self.cached.failure(state.row.index, evaluator.name)
        if recorded_failure is not None:
            state.errors[evaluator.name] = recorded_failure
            return None, None

        try:
            arguments = evaluator.bind(state.row.values, state.target)
        except Exception as error:  # noqa: BLE001 - a row may hold any object, and its methods may raise anything
            self._note_error(state, evaluator.name, as_failure(error))
            return None, None

        input_hash = evaluator.input_hash(arguments)
        response = response_as_read(self.plan.calls, arguments, state)
        if response is not arguments.get("response"):
            state.unread = isinstance(response, UnreadText)
            arguments["response"] = response
            if input_hash is not None:
                # The same text gets another verdict if its calls do not count, so it needs another hash.
                input_hash = content_hash([input_hash, type(response).__name__])
        return arguments, input_hash

    def _batch_finished(self, queue: queues.WorkerQueue, batch: list[queues.QueueEntry]) -> None:
        """Store and journal the outcomes of a batch; finish, or drop, each row that no other queue still works on."""
        self._record_verdicts([(entry.state.row.index, self._store_outcomes(queue, entry)) for entry in batch])
        for entry in batch:
            self._count_down(entry.state)

    def _batch_failed(self, batch: list[queues.QueueEntry], error: Exception) -> None:
        """Stop the run because a batch could not run, and drop the batch's rows."""
        self.stop(error)
        self._drop(batch)

    def _drop(self, entries: list[queues.QueueEntry]) -> None:
        """Note that a worker queue has dropped rows because the run is stopping; they get no result."""
        for entry in entries:
            entry.state.abandoned = True
            self._count_down(entry.state)

    def _record_verdicts(self, rows: list[tuple[int, RowVerdicts]]) -> None:
        """Journal verdicts by row index; stop the run if the journal cannot be written."""
        try:
            self.journal.verdicts(rows)
        except RunError as error:
            self.stop(error)

    def _count_down(self, state: RowState) -> None:
        """Note that one more worker queue is done with a row; after the last one, finish the row, or drop it."""
        state.waiting -= 1
        if state.waiting > 0:
            return
        if state.abandoned:
            self._end_row()
        else:
            self._finish_row(state)

    def _store_outcomes(self, queue: queues.WorkerQueue, entry: queues.QueueEntry) -> RowVerdicts:
        """Store the outcomes of a row's evaluators in its state; return the verdicts to journal.

        An outcome that is a failure is journaled as an error instead, so a resumed run calls the evaluator again. An
        outcome of None stands for an evaluator that was not called, such as one with a recorded verdict.
        """
        state = entry.state
        verdicts: RowVerdicts = {}

        for evaluator, input_hash, outcome in zip(queue.evaluators, entry.hashes, entry.outcomes, strict=True):
            # Some values were lost, because they have no JSON form. If no remaining value counts, there is a failure,
            # too, and the output is kept beside the failure.
            if isinstance(outcome, Partial):
                self.tally.remarks.lost.update(outcome.lost.values())
                state.outputs[evaluator.name] = outcome.output
                outcome = outcome.failure or outcome.output

            if isinstance(outcome, Failure):
                if outcome.type == queues.LATE:
                    self.tally.remarks.late[evaluator.name] += 1
                self._note_error(state, evaluator.name, outcome)
            elif outcome is not None:
                state.outputs[evaluator.name] = outcome
                verdicts[evaluator.name] = (input_hash, outcome)
        return verdicts

    def _note_error(self, state: RowState, stage: str, error: Failure) -> None:
        """Store and journal an error of a stage (`target`, or an evaluator's name) on a row, with secrets masked.

        With --fail-on-evaluator-errors, an evaluator's error also stops the run.
        """
        # The message may quote a secret, because it is a user's or a service's text.
        error = structs.replace(error, message=str(ALL_SECRETS.answer(error.message)))
        state.errors[stage] = error

        if error.type == UntrustedError.__name__:  # the row names a file that it may not use
            self.tally.remarks.refused[error.message] += 1

        try:
            self.journal.error(state.row.index, state.row.id, stage, error)
        except RunError as write_error:
            self.stop(write_error)

        if self.plan.fail_on_evaluator_errors and stage != "target":
            self.stop(RunError(f"row {state.row.id}: evaluator {stage!r} failed: {error.message}"))

    # -- finishing

    def _finish_row(self, state: RowState) -> None:
        """Add a row to the results, and stop the run if a result cannot be written.

        In a run with a random order, the row waits for its turn, and rows that waited for it are added after it. The
        run stops as soon as the added rows decide the comparison.
        """
        order = self.plan.order
        try:
            for finished in [state] if order is None else order.settle(state):
                self._add_result(finished)
                self.tally.finished += 1
                self.tally.failed += bool(finished.errors)
                self.tally.unanswered += "target" in finished.errors
        except Exception as error:  # noqa: BLE001 - stop in order whatever is wrong; `run` raises it
            self.stop(error)

        if order is not None and order.decided:
            self.stop(_ENOUGH)
        self._end_row()

    def _add_result(self, state: RowState) -> None:
        """Determine a row's kind and the cause of its failure, write its result row, and add it to the metrics.

        Values without a JSON form are an error of the row. Calls that the server did not parse are counted, too.
        """
        begin_row(state.readings)  # the evaluators have parsed the row's values already
        state.kind = self.plan.row_kind(state.row.values, state.target)

        if "target" in state.errors or any("fail" in output.values() for output in state.outputs.values()):
            from tunecheck.pipeline._row_causes import decide_cause  # loads what matches calls

            state.cause = decide_cause(state, self.plan.evaluators, lenient=self.plan.calls == "lenient")

        # The cache of readings belongs to this row only.
        begin_row(None)
        self.tally.read_calls.add(state, self.plan.evaluators)

        assert self.results is not None
        write_failure = self.results.write(state.row.index, result_row(state, self._names))
        if write_failure is not None:
            state.errors["results"] = write_failure
        self.aggregator.add(state)

    def _end_row(self) -> None:
        """Count a row, finished or dropped, as no longer in progress, and wake the tasks that wait for that."""
        self._rows_in_progress -= 1
        self._changed.set()
