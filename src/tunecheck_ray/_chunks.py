"""Rows for other machines: chunks go out, journal records come back.

driver: unfinished rows ──Chunk──► task: an engine of its own ──Portion──► driver: the run's journal
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tunecheck import Row, Target
from tunecheck.pipeline import Answer, CachedResults, Error, Plan, RowVerdicts, Step, Verdicts, group_of
from tunecheck.plugins import JSON, Failure, dumps

TARGET = "target"
"""The stage of a row in which the target answers; the other stages are the evaluators, by name."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows for one task.

    `known` holds, by row index, the journal records that the run already has of a row. `isolated` asks for a process
    that may die without taking the task along. `only` names the one evaluator to run; None: all.
    """

    rows: tuple[Row, ...]
    known: Mapping[int, tuple[bytes, ...]] = field(default_factory=dict)
    isolated: bool = False
    only: str | None = None


@dataclass(slots=True)
class Portion:
    """Output of a task since its last portion.

    `records` are journal records with the indices of their rows; `begun` and `finished` are row indices.
    """

    records: list[tuple[tuple[int, ...], bytes]] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    answered: int = 0
    failed: int = 0
    notes: list[str] = field(default_factory=list)
    remarks: dict[str, dict[str, int]] = field(default_factory=dict)
    facts: dict[str, JSON] = field(default_factory=dict)
    """Properties of the endpoints' APIs that the chunk found; only its last portion has them."""

    def __bool__(self) -> bool:
        return bool(self.records or self.begun or self.finished or self.notes or self.remarks or self.facts)


@dataclass(frozen=True, slots=True)
class SharedSettings:
    """Settings for all tasks of a run: rates by endpoint (requests and tokens per minute) and the budget.

    `spent` is the cost before this start; `max_cost` None: no limit.
    """

    rates: Mapping[str, tuple[float | None, float | None]]
    max_cost: float | None = None
    spent: float = 0.0


class Runner(Protocol):
    """Runs chunks on other machines."""

    def run(self, source: ChunkSource, shared: SharedSettings) -> AsyncIterator[Portion]:
        """Take chunks from the source and yield what their tasks produce, until no row is left.

        Raises:
            RunError: The run cannot go on.
        """
        ...

    def stop(self) -> None:
        """Start nothing more; calls in flight may finish. `run` then ends soon."""
        ...

    def status(self) -> str:
        """Return a remark for the progress line."""
        ...


class ChunkSource:
    """Hands out the unfinished rows of a run as chunks. A group of rows is never split."""

    def __init__(self, plan: Plan, cached: CachedResults) -> None:
        self._plan = plan
        self._cached = cached
        self._units = self._grouped() if _has_groups(plan) else ((row,) for row in plan.rows())
        self.finished = 0
        """Rows that were finished before, and are not handed out."""
        self.taken = 0

    @property
    def evaluators(self) -> list[str]:
        """Return the names of the run's evaluators."""
        return [evaluator.name for evaluator in self._plan.evaluators]

    @property
    def has_target(self) -> bool:
        """Return True if rows are answered; False if the data holds the answers."""
        return self._plan.target is not None

    @property
    def concurrency(self) -> int:
        """Return how many calls a task makes at once."""
        return self._plan.concurrency

    @property
    def left(self) -> int:
        """Return the most rows that are still to be handed out."""
        return max(0, (self._plan.row_count or 0) - self.taken - self.finished)

    def take(self, size: int) -> Chunk | None:
        """Return the next chunk of about `size` rows, or None if no row is left."""
        rows: list[Row] = []
        known: dict[int, tuple[bytes, ...]] = {}
        for unit in self._units:
            for row in unit:
                records = self._known(row) if self._cached else ()
                if records is None:
                    self.finished += 1
                    continue
                rows.append(row)
                if records:
                    known[row.index] = records
            if len(rows) >= size:
                break
        self.taken += len(rows)
        return Chunk(tuple(rows), known) if rows else None

    def _known(self, row: Row) -> tuple[bytes, ...] | None:
        """Return the records of a row; None if the row is finished."""
        target, columns, records = self._plan.target, dict[str, JSON](), list[object]()
        if target is not None:
            input_hash = target.input_hash(row)
            found = self._cached.answer(row.index, input_hash)
            if found is None:
                steps = self._cached.steps(row.index, input_hash)
                return _encoded([Step(row.index, row.id, input_hash, part, value) for part, value in steps.items()])
            columns = found.value
            records.append(Answer(row.index, row.id, input_hash, columns))
        verdicts, missing = self._verdicts(row, columns)
        if not missing:
            return None
        if verdicts:
            records.append(Verdicts([(row.index, verdicts)]))
        return (*_encoded(records), *self._cached.calls_of(row.index))

    def _verdicts(self, row: Row, columns: Mapping[str, JSON]) -> tuple[RowVerdicts, bool]:
        """Return the recorded verdicts on an answered row, and whether one is missing."""
        verdicts: RowVerdicts = {}
        missing = False
        for evaluator in self._plan.evaluators:
            try:
                input_hash = evaluator.input_hash(evaluator.bind(row.values, columns))
            except Exception:  # noqa: BLE001 - the task says what is wrong with the row
                return verdicts, True
            found = self._cached.verdict(evaluator.name, row.index, input_hash)
            if found is None:
                missing = True
            else:
                verdicts[evaluator.name] = (input_hash, found.value)
        return verdicts, missing

    def _grouped(self) -> Iterator[tuple[Row, ...]]:
        """Yield whole groups when their last row is read; rows of open groups wait in memory."""
        plan = self._plan
        last = {group: row.index for row in plan.rows() if (group := _group(row, plan)) is not None}
        open_groups: dict[str, list[Row]] = {}
        for row in plan.rows():
            group = _group(row, plan)
            if group is None:
                yield (row,)
                continue
            open_groups.setdefault(group, []).append(row)
            if last[group] == row.index:
                yield tuple(open_groups.pop(group))


def _has_groups(plan: Plan) -> bool:
    return plan.target is not None and (
        type(plan.target).group_key is not Target.group_key or plan.group_column is not None
    )


def _group(row: Row, plan: Plan) -> str | None:
    return group_of(row, plan.target, plan.group_column)


def _encoded(records: list[object]) -> tuple[bytes, ...]:
    return tuple(dumps(record) for record in records)


def died(row: Row, stage: str, how: str) -> bytes:
    """Return the record of a row whose process died in a stage: `target`, or an evaluator's name."""
    failure = Failure("WorkerDied", f"the process that worked on this row died: {how}")
    return dumps(Error(row.index, row.id, stage, failure.type, failure.message))
