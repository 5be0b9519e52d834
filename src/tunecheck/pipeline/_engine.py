"""The engine: one asyncio loop that takes rows from the data to their result, everything overlapping.

    rows ──feeder──► answering (target, many at once) ──► lanes (evaluators) ──► result row, counted and written

Rows are read as they are needed. A row is finished when its last evaluator is; rows finish in any order.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias, cast

from tunecheck._errors import RunError
from tunecheck._files import Failure, RowVerdicts
from tunecheck._json import JSON, plain
from tunecheck._targets import CallContext, Load, Row, Target
from tunecheck.pipeline._aggregate import Aggregator
from tunecheck.pipeline._journal import CachedResults, Journal, JournaledParts
from tunecheck.pipeline._lanes import AnswerQueue, AsyncExecutor, Executor, Job, Lane, ThreadExecutor, Threads
from tunecheck.pipeline._model_calls import RunCalls
from tunecheck.pipeline._processes import ProcessExecutor, can_be_sent
from tunecheck.pipeline._results import ResultsWriter, RowState, result_row
from tunecheck.pipeline._scoring import BoundEvaluator, failure, is_being_cancelled, private_copies

_WINDOW = 1_024
"""Most rows under way at once (or four for each call at once): enough to keep every lane busy with memory flat."""

_GROUPED_WINDOW = 65_536
"""The same where rows wait for the one before them in their group."""

_BURST = 256
_TURN_S = 0.01
"""Rows fed, and seconds spent on it, before the loop gets a turn: reading may be slow."""


_Hashes: TypeAlias = "dict[tuple[tuple[str, int], ...], tuple[dict[str, object], str | None]]"
"""Hashes of arguments by the identity of their values, which are held so that no other value gets it."""


@dataclass(frozen=True)
class Plan:
    """What a run is made of."""

    run_id: str
    rows: Callable[[], Iterator[Row]]
    target: Target | None
    evaluators: Sequence[BoundEvaluator]
    concurrency: int
    workers: int
    """Processes for synchronous evaluators; 0: none."""
    row_kind: Callable[[Mapping[str, object], Mapping[str, object]], str | None]
    group_column: str | None = None
    """Rows with the same value in it are answered in order, where the target has no groups of its own."""
    row_count: int | None = None
    folder: Path | None = None
    """The run's folder, where a target may keep files of its own."""
    fail_on_evaluator_errors: bool = False
    send_untrusted: bool = True
    """Whether evaluators that do not declare themselves `pure` go to worker processes, too."""


@dataclass(slots=True)
class Tally:
    """How far a run is, for progress."""

    read: int = 0
    answered: int = 0
    finished: int = 0
    failed: int = 0
    reused: int = 0
    reused_verdicts: int = 0
    simulated: bool = False
    """Some answer says of itself that no real model gave it."""
    masked: int = 0
    """Answers of the target that repeated a secret, which is masked."""
    notes: list[str] = field(default_factory=list)


class Engine:
    """Runs a plan once."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        results: ResultsWriter,
        aggregator: Aggregator,
        cached: CachedResults,
        calls: RunCalls,
    ) -> None:
        self.plan = plan
        self.tally = Tally()
        self._journal = journal
        self._results = results
        self._aggregator = aggregator
        self._cached = cached
        self._calls = calls
        self._names = [evaluator.name for evaluator in plan.evaluators]
        self._lanes: list[Lane] = []
        self._processes: ProcessExecutor | None = None
        self._queue = AnswerQueue()
        self._under_way = 0
        self._changed = asyncio.Event()
        self._stop: BaseException | None = None

    # -- the run

    async def run(self) -> None:
        """Take every row to its result.

        Raises:
            RunError: the run was stopped; what was finished is in the journal.
        """
        in_threads = sum(not evaluator.asynchronous and not evaluator.pure for evaluator in self.plan.evaluators)
        pool = Threads(min(64, 1 + in_threads * self.plan.concurrency), "tunecheck")
        try:
            await self._open_lanes(pool)
            async with asyncio.TaskGroup() as group:
                for lane in self._lanes:
                    group.create_task(lane.serve())
                for _ in range(self.plan.concurrency if self.plan.target is not None else 0):
                    group.create_task(self._answer_rows())
                try:
                    await self._feed_rows()
                except Exception as error:  # noqa: BLE001 - data that breaks off half-way: stop in order
                    self.stop(error)
                self._queue.close()
                await self._until(lambda: self._under_way == 0)
                for lane in self._lanes:
                    lane.close()
        finally:
            pool.shutdown()
            if self._processes is not None:
                await self._processes.close()
        if self._stop is not None:
            raise self._stop

    def stop(self, reason: BaseException) -> None:
        """Start nothing more; calls under way may finish and are recorded. `run` then raises the reason."""
        if self._stop is not None:
            return
        self._stop = reason
        self._under_way -= self._queue.clear()
        for lane in self._lanes:
            for job in lane.take_all():
                self._count_down(job.state, abandon=True)
        try:
            if self.plan.target is not None:
                self.plan.target.stop()
        except Exception as error:  # noqa: BLE001 - somebody's own target: the run stops for another reason already
            self.tally.notes.append(f"the target did not stop: {type(error).__name__}: {error}")
        self._changed.set()

    def load(self) -> Load | None:
        """How far the service behind the target lets itself be asked; None where nobody counts."""
        return self.plan.target.load() if self.plan.target is not None else None

    async def _open_lanes(self, pool: Threads) -> None:
        sent = await self._open_processes()
        here = [e for e in self.plan.evaluators if e.name not in sent and not e.asynchronous]
        together = [e for e in here if e.pure]
        if together:
            self._add_lane(together, ThreadExecutor(together, pool, 1))
        for evaluator in here:
            if not evaluator.pure:
                self._add_lane([evaluator], ThreadExecutor([evaluator], pool, self.plan.concurrency))
        for evaluator in self.plan.evaluators:
            if evaluator.asynchronous:
                calls = self._calls.of(evaluator.name) if evaluator.asks_models else None
                slots = evaluator.concurrency or self.plan.concurrency
                self._add_lane([evaluator], AsyncExecutor(evaluator, slots, calls))

    async def _open_processes(self) -> set[str]:
        """Start worker processes where they are wanted; the names of the evaluators that run there."""
        if not self.plan.workers:
            return set()
        wanted = [e for e in self.plan.evaluators if not e.asynchronous and (e.pure or self.plan.send_untrusted)]
        possible = [evaluator for evaluator in wanted if can_be_sent(evaluator)]
        if possible:
            self._processes = ProcessExecutor(possible, self.plan.workers)
            await self._processes.start()
            possible = self._processes.evaluators
        if possible and self._processes is not None:
            self._add_lane(possible, self._processes)
        sent = {evaluator.name for evaluator in possible}
        if stay := [evaluator.name for evaluator in wanted if evaluator.name not in sent]:
            self.tally.notes.append(f"in threads, because a worker process cannot import them: {', '.join(stay)}")
        return sent

    def _add_lane(self, evaluators: Sequence[BoundEvaluator], executor: Executor) -> None:
        self._lanes.append(Lane(evaluators, executor, self._lane_finished, self._lane_failed))

    # -- reading

    async def _feed_rows(self) -> None:
        limit = max(_WINDOW, 4 * self.plan.concurrency)
        turn = time.monotonic()
        for row in self.plan.rows():
            if self._stop is not None:
                return
            if self._start(row):
                limit = _GROUPED_WINDOW
            if self.tally.read % _BURST == 0 or time.monotonic() - turn > _TURN_S:
                await asyncio.sleep(0)
                if self._under_way >= limit:
                    room = limit - _BURST
                    await self._until(lambda: self._under_way < room or self._stop is not None)  # noqa: B023
                turn = time.monotonic()

    def _start(self, row: Row) -> bool:
        """Send a row on its way; whether it is one of a group."""
        state = RowState(row, group=self._group_of(row))
        self.tally.read += 1
        self._under_way += 1
        if self.plan.target is None:
            self._evaluate(state)
        else:
            self._queue.put(state)
        return state.group is not None

    def _group_of(self, row: Row) -> str | None:
        if self.plan.target is None:
            return None
        group = self.plan.target.group_key(row)
        if group is not None or self.plan.group_column is None:
            return group
        value = row.values.get(self.plan.group_column)
        return None if value is None else str(value)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    # -- answering

    async def _answer_rows(self) -> None:
        while (state := await self._queue.next()) is not None:
            await self._answer(state)
            self._queue.done(state)

    async def _answer(self, state: RowState) -> None:
        target = self.plan.target
        assert target is not None
        try:
            columns = await self._columns(target, state.row)
            self._check_columns(columns)
            state.target = columns
            self.tally.masked += columns.get("masked") is True
            self.tally.simulated |= target.makes_simulated(columns)
        except RunError as error:  # the target, or a journal that cannot be written, ends the run
            self.stop(error)
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            self._note_error(state, "target", failure(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a target may raise anything; it becomes this row's error
            self._note_error(state, "target", failure(error))
        self.tally.answered += 1
        self._evaluate(state)

    async def _columns(self, target: Target, row: Row) -> dict[str, JSON]:
        """The answer to a row: the recorded one where there is one, else the target's, recorded before it counts."""
        input_hash = target.input_hash(row)
        recorded = self._cached.answer(row.index, input_hash)
        if recorded is None:
            parts = JournaledParts(self._journal, row, input_hash, self._cached.steps(row.index, input_hash))
            context = CallContext(
                self.plan.run_id, row.id, input_hash or row.fingerprint, parts, self.plan.folder, self._calls
            )
            values = cast("Mapping[str, JSON]", private_copies(row.values))  # a conversation may grow in its messages
            asked = replace(row, values=values)
            async with self._calls.of_target(target, row) as spend:
                answer = plain(dict(await target.answer(asked, context)), path="answer")
                assert isinstance(answer, dict)
                self._journal.answer(row.index, row.id, input_hash, answer)
                spend(answer)
            return answer
        self.tally.reused += 1
        columns, elsewhere = recorded
        if elsewhere:
            self._journal.answer(row.index, row.id, input_hash, columns)
        else:
            self._calls.count_target(target, row, columns)
        if self.tally.reused % _BURST == 0:
            await asyncio.sleep(0)
        return columns

    def _check_columns(self, columns: Mapping[str, JSON]) -> None:
        for column in columns:
            name = next((name for name in self._names if column.startswith(f"{name}.")), None)
            if name is not None:
                raise ValueError(
                    f"the answer's column {column!r} clashes with the results of evaluator {name!r}; rename one"
                )

    # -- evaluating

    def _evaluate(self, state: RowState) -> None:
        if self._stop is not None:  # the answer is recorded; its verdicts wait until the run goes on
            self._leave()
            return
        try:
            state.kind = self.plan.row_kind(state.row.values, state.target)
            jobs = [(lane, job) for lane in self._lanes if (job := self._job(lane, state)) is not None]
        except Exception as error:  # noqa: BLE001 - a journal that can no longer be read: the run stops in order
            self.stop(error)
            self._leave()
            return
        state.waiting = len(jobs)
        if not jobs:
            self._finish(state)
        for lane, job in jobs:
            lane.feed(job)

    def _job(self, lane: Lane, state: RowState) -> Job | None:
        """A row's work in a lane; None where nothing of it is left to do."""
        job = Job(state, [])
        hashed: _Hashes = {}
        again: RowVerdicts = {}
        for evaluator in lane.evaluators:
            arguments, input_hash = self._bind(evaluator, state, hashed)
            if arguments is not None and self._cached:
                recorded = self._cached.verdict(evaluator.name, state.row.index, input_hash)
                if recorded is not None:
                    output, elsewhere = recorded
                    self.tally.reused_verdicts += 1
                    state.outputs[evaluator.name] = output
                    self.tally.simulated |= evaluator.asks_models and any(
                        isinstance(value, dict) and value.get("simulated") is True for value in output.values()
                    )
                    if elsewhere:
                        again[evaluator.name] = (input_hash, output)
                    arguments = None
            job.arguments.append(arguments)
            job.hashes.append(input_hash)
        if again:
            self._record_verdicts([(state.row.index, again)])
        return job if any(arguments is not None for arguments in job.arguments) else None

    def _bind(
        self, evaluator: BoundEvaluator, state: RowState, hashed: _Hashes
    ) -> tuple[dict[str, object] | None, str | None]:
        """An evaluator's arguments and their hash; `hashed` has the row's so far."""
        if "target" in state.errors and evaluator.needs_target:
            return None, None
        try:
            arguments = evaluator.bind(state.row.values, state.target)
        except Exception as error:  # noqa: BLE001 - a row may hold any object, whose methods may raise anything
            self._note_error(state, evaluator.name, failure(error))
            return None, None
        same = tuple((name, id(value)) for name, value in arguments.items())
        if same not in hashed:
            hashed[same] = arguments, evaluator.input_hash(arguments)
        return arguments, hashed[same][1]

    def _lane_finished(self, lane: Lane, batch: list[Job]) -> None:
        self._record_verdicts([(job.state.row.index, self._sort_out(lane, job)) for job in batch])
        for job in batch:
            self._count_down(job.state)

    def _lane_failed(self, batch: list[Job], error: Exception) -> None:
        self.stop(error)
        for job in batch:
            self._count_down(job.state, abandon=True)

    def _record_verdicts(self, rows: list[tuple[int, RowVerdicts]]) -> None:
        try:
            self._journal.verdicts(rows)
        except RunError as error:
            self.stop(error)

    def _count_down(self, state: RowState, *, abandon: bool = False) -> None:
        """One lane is done with a row, or has dropped it because the run stops."""
        state.abandoned |= abandon
        state.waiting -= 1
        if state.waiting == 0:
            if state.abandoned:
                self._leave()
            else:
                self._finish(state)

    def _sort_out(self, lane: Lane, job: Job) -> RowVerdicts:
        verdicts: RowVerdicts = {}
        for evaluator, input_hash, outcome in zip(lane.evaluators, job.hashes, job.outcomes, strict=True):
            if isinstance(outcome, Failure):
                self._note_error(job.state, evaluator.name, outcome)
            elif outcome is not None:
                job.state.outputs[evaluator.name] = outcome
                verdicts[evaluator.name] = (input_hash, outcome)
        return verdicts

    def _note_error(self, state: RowState, stage: str, error: Failure) -> None:
        state.errors[stage] = error
        try:
            self._journal.error(state.row.index, state.row.id, stage, error)
        except RunError as lost:
            self.stop(lost)
        if self.plan.fail_on_evaluator_errors and stage != "target":
            self.stop(RunError(f"row {state.row.id}: evaluator {stage!r}: {error.message}"))

    # -- finishing

    def _finish(self, state: RowState) -> None:
        try:
            refused = self._results.write(state.row.index, result_row(state, self._names))
            if refused is not None:
                state.errors["results"] = refused
            self._aggregator.add(state)
        except Exception as error:  # noqa: BLE001 - stop in order whatever is wrong; `run` raises it
            self.stop(error)
        else:
            self.tally.finished += 1
            self.tally.failed += bool(state.errors)
        self._leave()

    def _leave(self) -> None:
        """A row is no longer under way: finished, or given up because the run stops and will come back to it."""
        self._under_way -= 1
        self._changed.set()
