"""What evaluators make of all their rows by an `__aggregate__` of their own, which may fail, hang or crash.

A workspace file's is called in a worker process, any other in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import TypeAlias

from tunecheck._files import Failure
from tunecheck._json import JSON
from tunecheck._loops import Threads
from tunecheck.pipeline._finished_rows import RowsSelection, RowsView
from tunecheck.pipeline._lanes import LATE, Work
from tunecheck.pipeline._processes import CRASHED, ProcessExecutor
from tunecheck.pipeline._scoring import BoundEvaluator, Outcome, Output, Partial, as_output, failure

Metrics: TypeAlias = dict[str, JSON]

_AGGREGATE_S = 3_600.0
"""How long an evaluator's own aggregation may take: it goes over a whole run."""


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


class _Process:
    """A worker process for one evaluator's aggregation, started when it is first called and kept for all groups."""

    def __init__(self, evaluator: BoundEvaluator) -> None:
        aggregation = _Aggregation(evaluator.name, evaluator.function)
        self._executor = ProcessExecutor([replace(evaluator, function=aggregation, pure=True)], _AGGREGATE_S, workers=1)
        self._runner = asyncio.Runner()
        self._thread = Threads(1, "aggregate")  # the caller's may have an event loop already
        self._at_work = False

    def call(self, rows: RowsView | RowsSelection, keys: Sequence[str]) -> Outcome:
        batch = [Work([{"rows": rows, "keys": keys}], None)]
        self._at_work = True
        (((outcome,),), _) = self._thread.submit(lambda: self._runner.run(self._executor.run(batch))).result()
        self._at_work = False
        return outcome

    def close(self) -> None:
        def end() -> None:
            self._runner.run(self._executor.close())
            self._runner.close()

        if not self._at_work:  # a call that was interrupted ends with this process
            self._thread.submit(end).result()
        self._thread.shutdown()


class OwnAggregates:
    """Calls them, and says what came of it; one that hangs or crashes is not called again for the groups."""

    def __init__(self) -> None:
        self._apart: dict[str, _Process] = {}
        self._given_up: set[str] = set()
        self.errors: dict[str, Failure] = {}
        """By evaluator, why its aggregation failed, or lost keys, where it first did."""

    def isolate(self, evaluators: Iterable[BoundEvaluator]) -> None:
        """Have those of these called in processes."""
        self._apart |= {each.name: _Process(each) for each in evaluators if each.aggregate is not None}

    @property
    def isolated(self) -> Iterable[str]:
        """Whose are called in processes."""
        return self._apart.keys()

    def of(self, evaluator: BoundEvaluator, rows: RowsView | RowsSelection, keys: Sequence[str]) -> Metrics:
        """What its aggregation makes of these rows; nothing where it has none."""
        name = evaluator.name
        if evaluator.aggregate is None or name in self._given_up:
            return {}
        process = self._apart.get(name)
        found = _in_thread(evaluator, rows, keys) if process is None else process.call(rows, keys)
        if isinstance(found, Failure):
            self.errors.setdefault(name, found)
            if found.type in (_HANGING, LATE, CRASHED):
                self._given_up.add(name)
            return {}
        if isinstance(found, Partial):
            self.errors.setdefault(name, Failure(TypeError.__name__, "; ".join(found.lost.values())))
        output = found.output if isinstance(found, Partial) else found or {}
        return {f"{name}.{key}": value for key, value in output.items()}

    def close(self) -> None:
        """End the processes."""
        for process in self._apart.values():
            process.close()


_HANGING = TimeoutError.__name__


def _in_thread(evaluator: BoundEvaluator, rows: RowsView | RowsSelection, keys: Sequence[str]) -> Outcome:
    aggregation = _Aggregation(evaluator.name, evaluator.function)
    call: Future[Output | Partial] = Threads(1, "aggregate").submit(lambda: aggregation(rows=rows, keys=keys))
    if not wait([call], _AGGREGATE_S).done:
        return Failure(_HANGING, f"took longer than {_AGGREGATE_S:g} s")
    try:
        return call.result()
    except BaseException as error:  # noqa: BLE001 - somebody's code over a finished run: its rows must not be lost for it
        return failure(error)
