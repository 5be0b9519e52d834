"""A worker: claims chunks of a run, has the engine answer and judge their rows, and ships what it journals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tunecheck._errors import RunError
from tunecheck._files import WorkerEntry
from tunecheck._json import JSON
from tunecheck._targets import Row
from tunecheck.evaluation._ending import now
from tunecheck.evaluation._leasing import Leasing
from tunecheck.evaluation._loop import Closable, run_each
from tunecheck.pipeline._aggregate import Aggregator
from tunecheck.pipeline._costs import Budget
from tunecheck.pipeline._engine import Engine
from tunecheck.pipeline._journal import CachedResults, Journal, Recorded
from tunecheck.pipeline._model_calls import RunCalls
from tunecheck.pipeline._outcome import Outcome
from tunecheck.pipeline._plan import Plan
from tunecheck.pipeline._results import ResultsWriter, write_table
from tunecheck.runs._claims import STALE_S, Claim, Claims, LostLeaseError, Moment, Ranges, Results
from tunecheck.runs._manifest import versions
from tunecheck.runs._shared_calls import SharedCalls

_SHIPPED_EVERY_S = 0.5
"""What was journaled since is lost with a worker that is killed, and asked again."""

_RENEWED_EVERY_S = 1.0

_BLOCK = 4 << 20
"""Bytes of a part of a finished chunk's files: what one who reads them holds in memory."""


def owner_name() -> str:
    """What no other worker is called: host, process, and chance."""
    return f"{process_name(os.getpid())}{secrets.token_hex(3)}"


def process_name(process: int) -> str:
    """How the names of a process's workers begin."""
    return f"{socket.gethostname()}.{process}.".replace("/", "-").replace("-", "_")


@dataclass(frozen=True)
class Worker:
    """One process that works on a run; `recorded` reads what a journal holds that this run may use."""

    claims: Claims
    plan: Plan
    recorded: Callable[[Path], Recorded]
    parent: Recorded | None
    """What the run that this one was made from has recorded."""
    leasing: Leasing
    calls: SharedCalls
    closing: dict[str, Closable]
    known_facts: Callable[[], dict[str, JSON]]
    grouping: Sequence[str]
    """Columns by whose values metrics are reported."""
    folder: Path
    """On a local disk: of what a chunk's engine writes."""

    def work(self) -> None:
        """Claim and finish chunks until all of the run's are finished.

        Raises:
            RunError: the run must stop, or the storage cannot be reached.
        """
        rows = _Rows(self.plan.rows)

        def engine_to_run() -> Engine | None:
            claim = self.claims.claim()
            return None if claim is None else _ChunkEngine(self, claim, rows)

        run_each(engine_to_run, lambda: self.claims.finished, self.closing)


class _ChunkEngine(Engine):
    """The engine of one chunk: what it journals is shipped meanwhile, and committed at the end."""

    def __init__(self, worker: Worker, claim: Claim, rows: _Rows) -> None:
        self._worker = worker
        self._claim = claim
        self._started = now()
        self._lost: Exception | None = None
        self._running: asyncio.Task[None] | None = None
        self._opened = contextlib.ExitStack()
        self._folder = Path(self._opened.enter_context(tempfile.TemporaryDirectory(dir=worker.folder)))
        path = self._path = self._folder / "journal.jsonl"
        before = claim.journal()
        path.write_bytes(before)
        journal = self._opened.enter_context(contextlib.closing(Journal(path)))
        own = worker.recorded(path) if before else None
        if own is not None:
            self._opened.callback(own.close)
        cached = CachedResults(own, worker.parent, counts_own=False)
        worker.leasing.begin()
        budget = worker.leasing.budget or Budget(None)
        calls = RunCalls(worker.plan.run_id, journal, cached, budget, worker.calls)
        self._opened.callback(calls.close)
        plan = replace(worker.plan, rows=lambda: rows.of(claim.rows), row_count=claim.size)
        results = ResultsWriter(self._folder / "rows.jsonl", first=claim.rows[0][0])
        self._opened.callback(results.abandon)
        aggregator = Aggregator(plan.evaluators, worker.grouping)
        self._opened.callback(aggregator.close)
        super().__init__(plan, journal, results, aggregator, cached, calls)
        self._outcome = Outcome(aggregator, calls.spending, results.shapes, self.tally)
        self._keeper = _Keeper(claim, path, len(before), self._moment)

    def _moment(self) -> Moment:
        tally = self.tally
        costs = [sum(costs.numbers) for each in [*self._calls.spending.values()] for costs in [*each.costs.values()]]
        return Moment(tally.answered, tally.finished, tally.failed, tally.reused, self._under_way, sum(costs))

    async def run(self) -> None:
        """Take every row of the chunk to its verdicts; what of it is another worker's by then is left to it."""
        try:
            async with self._worker.leasing.during(self._claim.chunk, self._give_up) as work:
                await self._run_shipping()
                await asyncio.to_thread(self._commit)
                work.finished = True
        except LostLeaseError:
            return
        except BaseException:  # noqa: BLE001 - whatever stops it, others may go on with the chunk at once
            with contextlib.suppress(RunError):
                await asyncio.to_thread(self._claim.release)
            raise
        finally:
            self._opened.close()

    async def _run_shipping(self) -> None:
        loop = asyncio.get_running_loop()
        self._running = asyncio.create_task(super().run())
        self._keeper.start(lambda error: loop.call_soon_threadsafe(self._give_up, error))
        try:
            await self._running
        except asyncio.CancelledError:
            if self._lost is not None:
                raise self._lost from None
            raise
        finally:
            await asyncio.to_thread(self._keeper.end)

    def _give_up(self, error: Exception) -> None:
        """Leave the chunk, and its calls: they may wait for a share of the limits that it will never have again."""
        self._lost = error
        self.stop(error)
        if self._running is not None:
            self._running.cancel()

    def _commit(self) -> None:
        moment = self._moment()
        worker = WorkerEntry(
            id=self._worker.claims.owner,
            host=socket.gethostname(),
            versions=versions(),
            started=self._started,
            ended=now(),
            rows=moment.finished,
            taken_over=int(self._claim.taken_over),
        )
        records = self._journal.sync()
        self._claim.commit(worker, moment, records, self._worker.known_facts(), self._kept_results())

    def _kept_results(self) -> Results:
        """The chunk's part of the run's files, in the storage."""
        rows, table = self._results.finish(), self._folder / "table.csv"
        if len(self._claim.rows) == 1:
            write_table(table, self._outcome.columns, rows)
        self._outcome.count_calls(self._calls)
        journal = self._claim.keep("journal", _blocks(self._path)) if self._claim.is_scattered else []
        return Results(
            journal=journal,
            rows=self._claim.keep("rows", _blocks(rows.path)),
            table=self._claim.keep("table", _blocks(table)) if table.exists() else [],
            outcome=self._claim.keep("outcome", [self._outcome.stored()]),
        )


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


class _Keeper:
    """Ships a chunk's journal and renews its lease, from a thread: what blocks the event loop costs no lease."""

    def __init__(self, claim: Claim, journal: Path, shipped: int, moment: Callable[[], Moment]) -> None:
        self._claim = claim
        self._journal = journal
        self._shipped = shipped
        self._moment = moment
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, stop: Callable[[Exception], object]) -> None:
        """Begin; `stop` is told when the chunk is another worker's, or may be."""
        self._thread = threading.Thread(target=self._keep, args=(stop,), name="tunecheck-lease", daemon=True)
        self._thread.start()

    def _keep(self, stop: Callable[[Exception], object]) -> None:
        renewed = time.monotonic()
        while not self._ended.wait(_SHIPPED_EVERY_S):
            now = time.monotonic()
            try:
                if now - renewed >= _RENEWED_EVERY_S:
                    self._claim.renew(self._moment())
                    renewed = now
                self._ship()
            except LostLeaseError as error:
                stop(error)
                return
            except RunError as error:
                if now - renewed > STALE_S:  # by now somebody else may have it
                    stop(error)
                    return

    def _ship(self) -> None:
        with self._journal.open("rb") as file:
            file.seek(self._shipped)
            lines = file.read()
        lines = lines[: lines.rfind(b"\n") + 1]
        if lines:
            self._claim.ship(lines)
            self._shipped += len(lines)

    def end(self) -> None:
        """Stop renewing, and ship the rest.

        Raises:
            RunError: it cannot be shipped.
        """
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._ship()


class _Rows:
    """The rows of a data set in ranges, which mostly follow each other: it is read on from where it is."""

    def __init__(self, rows: Callable[[], Iterator[Row]]) -> None:
        self._begin = rows
        self._rows: Iterator[Row] = iter(())
        self._next = 0

    def of(self, ranges: Ranges) -> Iterator[Row]:
        """The rows of a chunk."""
        for begin, end in ranges:
            if begin < self._next or self._next == 0:
                self._rows, self._next = self._begin(), 0
            while self._next < end:
                row = next(self._rows, None)
                if row is None:
                    raise RunError(f"the data ends before row {end}: it has changed since the run began")
                self._next += 1
                if row.index >= begin:
                    yield row
