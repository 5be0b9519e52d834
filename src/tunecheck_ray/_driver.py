"""The driver of a run on tasks: it hands out unfinished rows as chunks, and journals the records that come back."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from tunecheck import Row, RunError
from tunecheck.evaluation import Execution
from tunecheck.pipeline import (
    UNREAD,
    Answer,
    Budget,
    CachedResults,
    Chunk,
    Error,
    Journal,
    Load,
    Plan,
    Portion,
    RowVerdicts,
    RunCalls,
    Step,
    Tally,
    Verdicts,
    group_of,
)
from tunecheck.plugins import JSON, dumps

_SUSPECT = 2
"""A row runs alone after it may have been in flight when a process died this many times."""

_ONE_BY_ONE = 16
"""The most suspect rows in one chunk. They run one by one."""

_MOST_DEATHS = 8
"""A row whose Ray worker is lost runs again, until the row has lost this many workers alone."""


@dataclass(eq=False)
class Flight:
    """A chunk on which a task works, and the task's progress so far."""

    chunk: Chunk
    finished: set[int] = field(default_factory=set)
    known: dict[int, list[bytes]] = field(init=False)
    """Journal records of rows that are not finished, for the task that gets them next."""
    stage: str = ""
    """The stage that an isolated row has begun, such as the target or an evaluator."""

    def __post_init__(self) -> None:
        self.known = {index: [*records] for index, records in self.chunk.known.items()}

    @property
    def rest(self) -> list[Row]:
        """Return the rows that are not finished."""
        return [row for row in self.chunk.rows if row.index not in self.finished]

    def take(self, portion: Portion) -> None:
        """Add a portion of the task's results to the flight: finished rows, and records of unfinished ones."""
        for rows, record in portion.records:
            for index in rows:
                self.known.setdefault(index, []).append(record)
        for index in portion.finished:
            self.finished.add(index)
            self.known.pop(index, None)
            self.stage = ""
        self.stage = portion.stage or self.stage

    def of(self, rows: list[Row], *, isolated: bool = False) -> Chunk:
        """Return some of the rows as a chunk for another task, with the records that are known of them.

        If `isolated`, that task runs the rows one by one in a process of their own.
        """
        known = {row.index: self.known[row.index] for row in rows if row.index in self.known}
        return Chunk(tuple(rows), known, isolated)

    def is_answered(self, row: Row) -> bool:
        """Return whether the target's answer to a row is known."""
        return any(record.startswith(b'{"k":"answer"') for record in self.known.get(row.index, ()))


class ChunkDriver:
    """The engine of a run on tasks: hands out chunks and writes the journal. A subclass runs the tasks."""

    def __init__(self, plan: Plan, journal: Journal, cached: CachedResults, execution: Execution) -> None:
        """Prepare the driver of a run.

        `cached` holds the results to reuse: the run's own if it is resumed, and those of its parent run.
        """
        self.plan = plan
        self.tally = Tally()
        self._journal = journal
        self._cached = cached
        self._execution = execution
        self._facts = execution.facts
        self._rows = self._units()
        self._handed_out = 0
        self._again: deque[Chunk] = deque()
        self._deaths: Counter[int] = Counter()
        self._stop: BaseException | None = None

    def portions(self) -> AsyncIterator[Portion]:
        """Run chunks as tasks and yield their portions, until no row is left or the run is stopped."""
        raise NotImplementedError

    async def run(self) -> None:
        """Journal portions until no row is left.

        Raises:
            RunError: The run was stopped.
        """
        async for portion in self.portions():
            try:
                self._take(portion)
            except RunError as error:
                self.stop(error)
        if self._stop is not None:
            raise self._stop

    def _take(self, portion: Portion) -> None:
        """Write a portion's records to the journal, and add its counts, notes and facts to those of the run."""
        for _, record in portion.records:
            self._journal.take(record)
        tally = self.tally
        tally.answered += portion.answered
        tally.finished += len(portion.finished)
        tally.failed += portion.failed
        tally.notes += [note for note in portion.notes if note not in tally.notes]
        tally.remarks.add(portion.remarks)
        self._facts.recall(portion.facts)

    def stop(self, reason: BaseException) -> None:
        """Start nothing more; calls in flight may finish and are journaled. `run` then raises the reason."""
        self._stop = self._stop or reason

    def load(self) -> Load | None:
        """Return None: calls are counted in the tasks."""
        return None

    def waiting_for(self) -> str:
        """Return a text about the tasks for the progress line."""
        return ""

    def spent(self) -> float:
        """Return the cost of the calls that a resumed run has recorded, in the currency of its prices."""
        budget = Budget(None)
        calls = RunCalls(self.plan.run_id, self._journal, self._cached, budget)
        target = self.plan.target
        if target is not None and self._cached:
            for row in self.plan.rows():
                found = self._cached.answer(row.index, target.input_hash(row))
                if found is not None and not found.paid_elsewhere:
                    calls.count_target(target, row, found.value)
        return budget.spent

    # -- chunks

    @property
    def left(self) -> int:
        """Return an upper limit of the rows that are still to be handed out."""
        return max(0, (self.plan.row_count or 0) - self._handed_out - self.tally.reused)

    def next_chunk(self, size: int) -> Chunk | None:
        """Return the next chunk: rows of a lost task, otherwise about `size` new rows, or None if no row is left.

        Rows that the resumed run has finished are counted as reused.
        """
        if self._again:
            return self._again.popleft()
        rows: list[Row] = []
        known: dict[int, list[bytes]] = {}
        for unit in self._rows:
            for row in unit:
                records = self._known_records(row) if self._cached else []
                if records is None:
                    self.tally.reused += 1
                    continue
                rows.append(row)
                known[row.index] = records
            if len(rows) >= size:
                break
        self._handed_out += len(rows)
        return Chunk(tuple(rows), {index: records for index, records in known.items() if records}) if rows else None

    def _known_records(self, row: Row) -> list[bytes] | None:
        """Return a row's journal records from before a resume, or None if the row is finished. There may be none.

        They are the target's answer or the steps of an unfinished one, then verdicts and the judges' calls.
        """
        target, columns, records = self.plan.target, dict[str, JSON](), list[object]()
        if target is not None:
            input_hash = target.input_hash(row)
            found = self._cached.answer(row.index, input_hash)
            if found is None:
                steps = self._cached.steps(row.index, input_hash).items()
                return [dumps(Step(row.index, row.id, input_hash, part, value)) for part, value in steps]
            columns = found.value
            records.append(Answer(row.index, row.id, input_hash, columns))
        verdicts: RowVerdicts = {}
        for evaluator in self.plan.evaluators:
            try:
                input_hash = evaluator.input_hash(evaluator.bind(row.values, columns))
            except Exception:  # noqa: BLE001 - the task reports the row's error
                break
            if (verdict := self._cached.verdict(evaluator.name, row.index, input_hash)) is not None:
                verdicts[evaluator.name] = (input_hash, verdict.value)
        if len(verdicts) == len(self.plan.evaluators):
            return None
        records += [Verdicts([(row.index, verdicts)])] if verdicts else []
        return [*map(dumps, records), *self._cached.calls_of(row.index)]

    # -- lost tasks

    def hand_on(self, flight: Flight, how: str, *, died: bool = False) -> Iterator[Portion]:
        """Queue the unfinished rows of a lost task again, and yield the error of a row that killed its process.

        `how` says how the task ended. `died` is true if the process of an isolated row died, false if the whole task
        was lost. Rows that were in flight in several lost tasks are isolated, to find the one that kills its process.
        """
        rest = flight.rest
        if not rest:
            return
        if flight.chunk.isolated:
            row = rest[0]
            self._deaths[row.index] += 1
            if (died and flight.stage) or self._deaths[row.index] >= _MOST_DEATHS:
                yield self._blame(flight, row, f"the process that worked on this row died: {how}")
            self._again.append(flight.of(rest, isolated=True))
            return
        grouped = any(self._group(row) is not None for row in rest)
        in_flight = rest if grouped or self.plan.target is None else self._in_flight(flight, rest)
        self._deaths.update(row.index for row in in_flight)
        suspects = [row for row in in_flight if self._deaths[row.index] >= _SUSPECT]
        indices = {row.index for row in suspects}
        if others := [row for row in rest if row.index not in indices]:
            self._again.append(flight.of(others))
        size = len(rest) if grouped else _ONE_BY_ONE
        for at in range(0, len(suspects), size):
            self._again.append(flight.of(suspects[at : at + size], isolated=True))

    def _blame(self, flight: Flight, row: Row, how: str) -> Portion:
        """Return the error of a row that killed its process as a portion. The flight notes it, too."""
        error = Error(row.index, row.id, flight.stage or "target", "WorkerDied", how)
        portion = Portion([((row.index,), dumps(error))])
        flight.take(portion)
        return portion

    def _in_flight(self, flight: Flight, rest: list[Row]) -> list[Row]:
        """Return the rows that may have been in flight in a lost task.

        These are the answered rows, which were being judged, and the first unanswered ones, also if not reported yet.
        """
        asked = [row.index for row in rest if not flight.is_answered(row)][: UNREAD * self.plan.concurrency]
        return [row for row in rest if row.index in asked or flight.is_answered(row)]

    def _group(self, row: Row) -> str | None:
        return group_of(row, self.plan.target, self.plan.group_column)

    def _units(self) -> Iterator[list[Row]]:
        """Yield lists of rows that must run in the same task. Groups come last, after all data is read."""
        groups: dict[str, list[Row]] = {}
        for row in self.plan.rows():
            if (group := self._group(row)) is None:
                yield [row]
            else:
                groups.setdefault(group, []).append(row)
        yield from groups.values()
