"""The engine: one asyncio loop that takes rows from the data to their result, everything overlapping.

    rows ──feeder──► answering (target, many at once) ──► lanes (evaluators) ──► result row, counted and written

Rows are read as they are needed. A row is finished when its last evaluator is; rows finish in any order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tunecheck.errors import RunError
from tunecheck.jsontext import JSON, plain
from tunecheck.pipeline.aggregate import Aggregator, Group
from tunecheck.pipeline.journal import Journal, RowVerdicts, Takeover
from tunecheck.pipeline.lanes import AsyncExecutor, Executor, Job, Lane, ThreadExecutor
from tunecheck.pipeline.processes import ProcessExecutor, can_be_sent
from tunecheck.pipeline.results import ResultsWriter, RowState, result_row
from tunecheck.pipeline.scoring import BoundEvaluator, Failure, error_entry, failure
from tunecheck.targets import CallContext, Row, Target

__all__ = ["Engine", "Plan", "Tally"]

_WINDOW = 1_024
"""Most rows under way at once (or four for each call at once): enough to keep every lane busy with memory flat."""

_GROUPED_WINDOW = 65_536
"""The same where rows wait for the one before them in their group."""

_BURST = 256
"""Rows fed before the loop gets a turn."""


@dataclass(frozen=True)
class Plan:
    """What a run is made of."""

    run_id: str
    rows: Callable[[], Iterator[Row]]
    target: Target | None
    evaluators: Sequence[BoundEvaluator]
    concurrency: int
    workers: int
    row_kind: Callable[[Mapping[str, object], Mapping[str, object]], str | None]
    group_key: Callable[[Row], str | None] = lambda row: None
    group_columns: Sequence[str] = ()
    row_count: int | None = None
    fail_on_evaluator_errors: bool = False


@dataclass(slots=True)
class Tally:
    """How far a run is, for progress."""

    read: int = 0
    answered: int = 0
    finished: int = 0
    failed: int = 0
    taken_over: int = 0
    simulated: bool = False
    """Some answer says of itself that no real model gave it."""
    all_read: bool = False
    notes: list[str] = field(default_factory=list)


class Engine:
    """Runs a plan once."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        results: ResultsWriter,
        aggregator: Aggregator,
        takeover: Takeover,
    ) -> None:
        self.plan = plan
        self.tally = Tally()
        self._journal = journal
        self._results = results
        self._aggregator = aggregator
        self._takeover = takeover
        self._names = [evaluator.name for evaluator in plan.evaluators]
        self._lanes: list[Lane] = []
        self._processes: ProcessExecutor | None = None
        self._ready: deque[RowState | None] = deque()
        self._groups: dict[str, deque[RowState]] = {}
        self._under_way = 0
        self._changed = asyncio.Event()
        self._has_ready = asyncio.Event()
        self._stop: BaseException | None = None

    # -- the run

    async def run(self) -> None:
        """Take every row to its result.

        Raises:
            RunError: the run was stopped; what was finished is in the journal.
        """
        pool = ThreadPoolExecutor(self._threads(), thread_name_prefix="tunecheck")
        try:
            await self._open_lanes(pool)
            async with asyncio.TaskGroup() as group:
                for lane in self._lanes:
                    group.create_task(lane.serve())
                answerers = [group.create_task(self._answer_rows()) for _ in range(self._answerers())]
                await self._feed()
                if answerers:
                    self._push_ready(None)
                    await asyncio.wait(answerers)
                await self._until(lambda: self._under_way == 0)
                for lane in self._lanes:
                    lane.close()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            if self._processes is not None:
                await self._processes.close()
        if self._stop is not None:
            raise self._stop

    def stop(self, reason: BaseException) -> None:
        """Start nothing more; calls under way may finish and are recorded. `run` then raises the reason."""
        if self._stop is not None:
            return
        self._stop = reason
        for lane in self._lanes:
            for job in lane.take_all():
                self._count_down(job.state, abandon=True)
        self._changed.set()
        self._has_ready.set()

    def _answerers(self) -> int:
        return self.plan.concurrency if self.plan.target is not None else 0

    def _threads(self) -> int:
        strangers = sum(not evaluator.asynchronous and not evaluator.cpu_bound for evaluator in self.plan.evaluators)
        return min(64, 1 + strangers * self.plan.concurrency)

    async def _open_lanes(self, pool: ThreadPoolExecutor) -> None:
        evaluators = self.plan.evaluators
        sent = [e for e in evaluators if self.plan.workers > 0 and can_be_sent(e)]
        together = [e for e in evaluators if e.cpu_bound and e not in sent]
        if sent:
            self._processes = ProcessExecutor(sent, self.plan.workers)
            await self._processes.start()
            self._add_lane(sent, self._processes)
        if together:
            self._add_lane(together, ThreadExecutor(together, pool, 1))
        for evaluator in evaluators:
            if evaluator.asynchronous:
                self._add_lane([evaluator], AsyncExecutor(evaluator, self.plan.concurrency))
            elif evaluator not in sent and evaluator not in together:
                self._add_lane([evaluator], ThreadExecutor([evaluator], pool, self.plan.concurrency))
        if self.plan.workers > 0:
            stay = [e.name for e in evaluators if e not in sent and not e.asynchronous]
            if stay:
                self.tally.notes.append(f"in threads, because a worker process cannot import them: {', '.join(stay)}")

    def _add_lane(self, evaluators: Sequence[BoundEvaluator], executor: Executor) -> None:
        self._lanes.append(Lane(evaluators, executor, self._lane_finished))

    # -- reading

    async def _feed(self) -> None:
        try:
            await self._feed_rows()
        except Exception as error:  # noqa: BLE001 - data that breaks off half-way, whatever reads it: stop in order
            self.stop(error)

    async def _feed_rows(self) -> None:
        target = self.plan.target
        limit = max(_WINDOW, 4 * self.plan.concurrency)
        for row in self.plan.rows():
            if self._stop is not None:
                break
            self.tally.read += 1
            self._under_way += 1
            state = RowState(row)
            if target is None:
                self._evaluate(state)
            elif self._queue_for_answer(state):
                limit = _GROUPED_WINDOW
            if self.tally.read % _BURST == 0:
                await asyncio.sleep(0)
                if self._under_way >= limit:
                    await self._until_room(limit // 2)
        self.tally.all_read = self._stop is None

    def _queue_for_answer(self, state: RowState) -> bool:
        """Queue a row for its answer; a row of a group that has one under way waits for it."""
        key = self.plan.group_key(state.row)
        if key is None:
            self._push_ready(state)
            return False
        behind = self._groups.get(key)
        if behind is None:
            self._groups[key] = deque()
            self._push_ready(state)
        else:
            behind.append(state)
        return True

    def _push_ready(self, state: RowState | None) -> None:
        self._ready.append(state)
        self._has_ready.set()

    async def _until_room(self, most: int) -> None:
        await self._until(lambda: self._under_way < most or self._stop is not None)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    # -- answering

    async def _answer_rows(self) -> None:
        while (state := await self._next_ready()) is not None:
            while state is not None:
                await self._answer(state)
                state = self._next_of_group(state)

    async def _next_ready(self) -> RowState | None:
        while not self._ready:
            if self._stop is not None:
                return None
            self._has_ready.clear()
            await self._has_ready.wait()
        if self._stop is not None:
            self._drop_waiting()
            return None
        state = self._ready[0]
        if state is not None:  # the end mark stays, for the other answerers
            self._ready.popleft()
        return state

    def _next_of_group(self, state: RowState) -> RowState | None:
        key = self.plan.group_key(state.row)
        if key is None:
            return None
        behind = self._groups[key]
        if behind and self._stop is None:
            return behind.popleft()
        if not behind:
            del self._groups[key]
        return None

    def _drop_waiting(self) -> None:
        """Forget what was read and not started: the run is stopping."""
        waiting = sum(state is not None for state in self._ready) + sum(map(len, self._groups.values()))
        self._ready.clear()
        self._groups.clear()
        self._under_way -= waiting
        self._changed.set()

    async def _answer(self, state: RowState) -> None:
        target = self.plan.target
        assert target is not None
        try:
            state.target = await self._columns(target, state.row)
            self.tally.simulated |= state.target.get("simulated") is True
        except RunError as error:  # the target, or a journal that cannot be written, ends the run
            self.stop(error)
        except Exception as error:  # noqa: BLE001 - a target may raise anything; it becomes this row's error
            self._note_error(state, "target", failure(error))
        self.tally.answered += 1
        self._evaluate(state)

    async def _columns(self, target: Target, row: Row) -> dict[str, JSON]:
        """The answer to a row: the recorded one where there is one, else the target's, recorded before it counts."""
        input_hash = target.input_hash(row)
        found = self._takeover.answer(row.index, input_hash)
        if found is None:
            context = CallContext(self.plan.run_id, row.id, input_hash or row.fingerprint)
            answer = plain(dict(await target.answer(row, context)), path="answer")
            assert isinstance(answer, dict)
            self._journal.answer(row.index, row.id, input_hash, answer)
            return answer
        self.tally.taken_over += 1
        columns, elsewhere = found
        if elsewhere:
            self._journal.answer(row.index, row.id, input_hash, columns)
        if self.tally.taken_over % _BURST == 0:
            await asyncio.sleep(0)
        return columns

    # -- evaluating

    def _evaluate(self, state: RowState) -> None:
        if self._stop is not None:  # the answer is recorded; its verdicts wait until the run goes on
            self._leave()
            return
        row = state.row
        state.kind = self.plan.row_kind(row.values, state.target)
        jobs = [(lane, job) for lane in self._lanes if (job := self._job(lane, state)) is not None]
        state.waiting = len(jobs)
        if not jobs:
            self._finish(state)
        for lane, job in jobs:
            lane.feed(job)

    def _job(self, lane: Lane, state: RowState) -> Job | None:
        """A row's work in a lane; None where nothing of it is left to do."""
        job = Job(state, [])
        again: RowVerdicts = {}
        for evaluator in lane.evaluators:
            arguments, input_hash = self._bind(evaluator, state)
            if arguments is not None and self._takeover:
                found = self._takeover.verdict(evaluator.name, state.row.index, input_hash)
                if found is not None:
                    output, elsewhere = found
                    state.outputs[evaluator.name] = output
                    if elsewhere:
                        again[evaluator.name] = (input_hash, output)
                    arguments = None
            job.arguments.append(arguments)
            job.hashes.append(input_hash)
        if again:
            self._record_verdicts([(state.row.index, again)])
        return job if any(arguments is not None for arguments in job.arguments) else None

    def _bind(self, evaluator: BoundEvaluator, state: RowState) -> tuple[dict[str, object] | None, str | None]:
        if "target" in state.errors and evaluator.needs_target:
            return None, None
        try:
            arguments = evaluator.bind(state.row.values, state.target)
        except Exception as error:  # noqa: BLE001 - a row may hold any object, whose methods may raise anything
            self._note_error(state, evaluator.name, failure(error))
            return None, None
        return arguments, evaluator.input_hash(arguments)

    def _lane_finished(self, lane: Lane, batch: list[Job]) -> None:
        self._record_verdicts([(job.state.row.index, self._sort_out(lane, job)) for job in batch])
        for job in batch:
            self._count_down(job.state)

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
                if self.plan.fail_on_evaluator_errors:
                    self.stop(RunError(f"row {job.state.row.id}: evaluator {evaluator.name!r}: {outcome.message}"))
            elif outcome is not None:
                job.state.outputs[evaluator.name] = outcome
                verdicts[evaluator.name] = (input_hash, outcome)
        return verdicts

    def _note_error(self, state: RowState, stage: str, error: Failure) -> None:
        state.errors[stage] = error
        try:
            self._journal.error(state.row.index, state.row.id, stage, error_entry(error))
        except RunError as lost:
            self.stop(lost)

    # -- finishing

    def _finish(self, state: RowState) -> None:
        refused = self._results.write(state.row.index, result_row(state, self._names))
        if refused is not None:
            state.errors["results"] = refused
        self.tally.finished += 1
        self.tally.failed += bool(state.errors)
        try:
            self._aggregator.add(state, self._group_of(state))
        except Exception as error:  # noqa: BLE001 - stop in order whatever is wrong; `run` raises it
            self.stop(error)
        self._leave()

    def _leave(self) -> None:
        """A row is no longer under way: finished, or given up because the run stops and will come back to it."""
        self._under_way -= 1
        self._changed.set()

    def _group_of(self, state: RowState) -> Group:
        values = state.row.values
        return tuple(
            state.kind if column == "row_kind" else _group_value(values.get(column))
            for column in self.plan.group_columns
        )


def _group_value(value: object) -> JSON:
    """A grouping column's value; lists and objects group by their text."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)[:200]
