"""What evaluators make of all their rows by an `__aggregate__` of their own, which may fail, hang or crash.

A workspace file's is called in a worker process, any other in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, replace
from typing import TypeAlias

from tunecheck._files import Failure
from tunecheck._json import JSON
from tunecheck._loops import LoopThread
from tunecheck.pipeline._finished_rows import RowsSelection, RowsView
from tunecheck.pipeline._lanes import LATE, Executor, ThreadExecutor, Work
from tunecheck.pipeline._scoring import BoundEvaluator, Output, Partial, as_output
from tunecheck.pipeline._workers import CRASHED, ProcessExecutor

Metrics: TypeAlias = dict[str, JSON]

_AGGREGATE_S = 3_600.0
"""How long an evaluator's own aggregation may take: it goes over a whole run."""

_CLOSING_S = 5.0


class EvaluatorRow(dict[str, JSON]):
    """One output of an evaluator, its keys also readable as attributes, as Azure AI Evaluation hands them over."""

    def __getattr__(self, name: str) -> JSON:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class EvaluatorRows(Sequence[EvaluatorRow]):
    """All outputs of one evaluator, errors left out: what `__aggregate__` is given.

    They are read from the rows as they are iterated; what is asked for by index is kept from then on.
    """

    def __init__(self, name: str, rows: RowsView | RowsSelection, keys: Iterable[str]) -> None:
        self._columns = {f"outputs.{name}.{key}": key for key in keys}
        self._error = f"error.{name}"
        self._rows = rows
        self._kept: list[EvaluatorRow] | None = None

    def __iter__(self) -> Iterator[EvaluatorRow]:
        if self._kept is not None:
            return iter(self._kept)
        return map(EvaluatorRow, self._rows.picked(self._columns, unless=self._error))

    def _all(self) -> list[EvaluatorRow]:
        if self._kept is None:
            self._kept = list(iter(self))  # of `self`, list() would ask the length, which reads all
        return self._kept

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, index: int | slice) -> EvaluatorRow | list[EvaluatorRow]:  # type: ignore[override]
        return self._all()[index]


@dataclass(frozen=True, slots=True)
class _Aggregation:
    """An evaluator's `__aggregate__`, called with the rows of a finished run that a process reads for itself."""

    name: str
    evaluator: Callable[..., object]

    def __call__(self, *, rows: RowsView | RowsSelection, keys: Iterable[str]) -> Output | Partial:
        aggregate = self.evaluator.__aggregate__  # type: ignore[attr-defined]
        return as_output(aggregate(EvaluatorRows(self.name, rows, keys)), "aggregate")


class OwnAggregates:
    """Calls them, and keeps what went wrong; one that hangs or crashes is not called again for the groups."""

    def __init__(self) -> None:
        self.isolated: set[str] = set()
        """The names of evaluators whose aggregation runs in a process."""
        self._executors: dict[str, Executor] = {}
        self._loop: LoopThread | None = None
        self._given_up: set[str] = set()
        self.errors: dict[str, Failure] = {}
        """By evaluator, why its aggregation failed, or lost keys, where it first did."""

    def metrics(self, evaluator: BoundEvaluator, rows: RowsView | RowsSelection, keys: Sequence[str]) -> Metrics:
        """Return what the evaluator's aggregation makes of these rows; empty if it has none."""
        name = evaluator.name
        if evaluator.aggregate is None or name in self._given_up:
            return {}
        executor = self._executors.get(name) or self._open(evaluator)
        self._loop = self._loop or LoopThread("aggregate")  # the caller may have an event loop already
        reply = self._loop.submit(executor.run([Work([{"rows": rows, "keys": keys}], None)])).result()
        outcome = reply.outcomes[0][0]
        if isinstance(outcome, Failure):
            self.errors.setdefault(name, outcome)
            if outcome.type in (LATE, CRASHED):
                self._given_up.add(name)
            return {}
        if isinstance(outcome, Partial):
            self.errors.setdefault(name, Failure(TypeError.__name__, "; ".join(outcome.lost.values())))
        output = outcome.output if isinstance(outcome, Partial) else outcome or {}
        return {f"{name}.{key}": value for key, value in output.items()}

    def _open(self, evaluator: BoundEvaluator) -> Executor:
        call = replace(evaluator, function=_Aggregation(evaluator.name, evaluator.function), pure=True, awaited=None)
        if evaluator.name in self.isolated:
            executor: Executor = ProcessExecutor([call], _AGGREGATE_S, workers=1)
        else:
            executor = ThreadExecutor([call], 1, _AGGREGATE_S)
        self._executors[evaluator.name] = executor
        return executor

    async def _close(self) -> None:
        for executor in self._executors.values():
            await executor.close()

    def close(self) -> None:
        """End the processes."""
        if self._loop is not None:
            self._loop.end(self._close)
            wait([self._loop.ended], _CLOSING_S)
