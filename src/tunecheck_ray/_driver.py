"""The driver of a run on tasks: hands out unfinished rows as chunks, and journals the records that come back.

`ChunkDriver` works without Ray. `RayDriver` keeps chunks in flight on a cluster, and gives the rows of a lost task to a
new one. Ray's own retries stay off, because they would run a task from its start. A task that was given up but still
runs does no harm: the driver ignores its portions, and the services grant it no more calls.

When a task is lost, its unfinished rows run again in another task, with the journal records that had arrived
(`ChunkDriver.hand_on`). The driver then finds the row that kills its process:

1. Each row that may have been in flight counts a death: rows with an answer, which were being judged, and the first
   rows without one. If rows are grouped or there is no target, all unfinished rows of the task count.
2. A row with two deaths is a suspect. Suspects run in chunks of their own, row by row and stage by stage, in a child
   process of the task. The task survives and reports how the process ended.
3. If that process dies in a stage of the row, the row gets the error `WorkerDied` in this stage. If the whole task is
   lost instead, the row runs again; after eight deaths, it gets the error, too.

A task is lost if its worker dies, if its stream ends early, or if it sends nothing for 30 seconds. An error of its own
code stops the run.
"""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import secrets
import signal
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tunecheck import ConfigurationError, MissingExtraError, Row, RunError, pipeline
from tunecheck.evaluation import Execution, RunsElsewhere
from tunecheck.pipeline import CachedResults, Chunk, Journal, Plan, Portion
from tunecheck.plugins import JSON, clean, dumps, plural
from tunecheck_ray._options import RayOptions
from tunecheck_ray._tasks import SILENCE_S, TaskEnd, TaskInput, TaskServer, run_chunk

_SUSPECT = 2
"""A row runs alone after it may have been in flight when a process died this many times."""

_ONE_BY_ONE = 16
"""The most suspect rows in one chunk, where they run one by one; a group stays whole."""

_MOST_DEATHS = 8
"""A row whose Ray worker is lost runs again, until it was in flight in this many lost tasks, alone or with others."""


@dataclass(eq=False)
class Flight:
    """A chunk on which a task works, and the task's progress so far.

    On Ray, `name` is the task's name, `stream` yields its portions, and `heard` is the time of the last one
    (infinite before the first one, because a queued task sends nothing).
    """

    chunk: Chunk
    name: str = ""
    stream: Any = None  # Ray's generators have no types
    heard: float = math.inf
    finished: set[int] = field(default_factory=set)
    known: dict[int, list[bytes]] = field(init=False)
    """Journal records of rows that are not finished, for the task that gets them next."""
    stage: str = ""
    """The stage that an isolated row has begun, such as the target or an evaluator."""

    def __post_init__(self) -> None:
        """Start with the records that the chunk brings."""
        self.known = {index: [*records] for index, records in self.chunk.known.items()}

    @property
    def rest(self) -> list[Row]:
        """Return the rows that are not finished."""
        return [row for row in self.chunk.rows if row.index not in self.finished]

    def take(self, portion: Portion) -> None:
        """Add a portion of the task's results to the flight: finished rows, records of other rows, and the stage."""
        for rows, record in portion.records:
            for index in rows:
                self.known.setdefault(index, []).append(record)

        for index in portion.finished:
            self.finished.add(index)
            self.known.pop(index, None)
            self.stage = ""

        self.stage = portion.stage or self.stage

    def chunk_with(self, rows: list[Row], *, isolated: bool = False) -> Chunk:
        """Return some of the rows as a chunk for another task, with their journal records.

        If `isolated`, that task runs the rows one by one in a process of their own.
        """
        known = {row.index: self.known[row.index] for row in rows if row.index in self.known}
        return Chunk(tuple(rows), known, isolated)

    def is_answered(self, row: Row) -> bool:
        """Return whether the target's answer to a row is known, from the kind of its records: `{"k":"answer",…}`."""
        return any(record.startswith(b'{"k":"answer"') for record in self.known.get(row.index, ()))


class ChunkDriver:
    """The engine of a run on tasks: hands out chunks and writes the journal. A subclass runs the tasks."""

    def __init__(self, plan: Plan, journal: Journal, cached: CachedResults, execution: Execution) -> None:
        """Prepare the driver of a run.

        `cached` holds the results to reuse: the run's own if it is resumed, and those of its parent run.
        """
        self.plan = plan
        self.tally = pipeline.Tally()

        self._journal = journal
        self._cached = cached
        self._execution = execution
        self._facts = execution.facts

        self._rows = self._units()
        self._handed_out = 0
        # Chunks of lost tasks, and how often each row was in flight in one
        self._again: deque[Chunk] = deque()
        self._deaths: Counter[int] = Counter()
        self._stop: BaseException | None = None

    def portions(self) -> AsyncIterator[Portion]:
        """Run chunks as tasks and yield their portions, until no row is left or the run is stopped."""
        raise NotImplementedError

    async def run(self) -> None:
        """Journal portions until no row is left.

        Raises:
            BaseException: the reason that `stop` got, for example a RunError; finished work is in the journal.
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
            self._journal.append_encoded(record)

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

    def load(self) -> pipeline.Load | None:
        """Return None: calls are counted in the tasks."""
        return None

    def waiting_for(self) -> str:
        """Return a text about the tasks for the progress line."""
        return ""

    def spent(self) -> float:
        """Return the cost of the calls that a resumed run has recorded, in the currency of its prices."""
        budget = pipeline.Budget(None)
        calls = pipeline.RunCalls(self.plan.run_id, self._journal, self._cached, budget)
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
        """Return an upper limit of the number of rows that are still to be handed out."""
        return max(0, (self.plan.row_count or 0) - self._handed_out - self.tally.reused)

    def next_chunk(self, size: int) -> Chunk | None:
        """Return the next chunk: rows of a lost task, otherwise about `size` new rows, or None if no row is left.

        Rows that the resumed run has finished are counted as reused.
        """
        if self._again:
            return self._again.popleft()

        rows: list[Row] = []
        known: dict[int, list[bytes]] = {}
        for unit in self._rows:  # a group may make the chunk larger than `size`
            for row in unit:
                records = self._known_records(row) if self._cached else []
                if records is None:
                    self.tally.reused += 1
                    continue
                rows.append(row)
                if records:
                    known[row.index] = records
            if len(rows) >= size:
                break

        self._handed_out += len(rows)
        return Chunk(tuple(rows), known) if rows else None

    def _known_records(self, row: Row) -> list[bytes] | None:
        """Return a row's journal records from before a resume: an empty list if it has none, None if it is finished.

        The records are the target's answer or the steps of an unfinished one, then verdicts and the judges' calls.
        """
        target, columns, records = self.plan.target, dict[str, JSON](), list[object]()
        if target is not None:
            input_hash = target.input_hash(row)
            found = self._cached.answer(row.index, input_hash)
            if found is None:
                steps = self._cached.steps(row.index, input_hash).items()
                return [dumps(pipeline.Step(row.index, row.id, input_hash, part, value)) for part, value in steps]
            columns = found.value
            records.append(pipeline.Answer(row.index, row.id, input_hash, columns))

        verdicts: pipeline.RowVerdicts = {}
        for evaluator in self.plan.evaluators:
            try:
                input_hash = evaluator.input_hash(evaluator.bind(row.values, columns))
            except Exception:  # noqa: BLE001 - the task reports the row's error
                break
            if (verdict := self._cached.verdict(evaluator.name, row.index, input_hash)) is not None:
                verdicts[evaluator.name] = (input_hash, verdict.value)

        if len(verdicts) == len(self.plan.evaluators):
            return None
        records += [pipeline.Verdicts([(row.index, verdicts)])] if verdicts else []
        return [*map(dumps, records), *self._cached.calls_of(row.index)]

    # -- lost tasks

    def hand_on(self, flight: Flight, how: str, *, died: bool = False) -> Iterator[Portion]:
        """Queue the unfinished rows of a lost task again, and yield the error of a row that is given up.

        `how` says how the task ended. `died` is true if the process of an isolated row died, false if the whole task
        was lost. Rows that were in flight in two lost tasks are isolated, to find the one that kills its process.
        A row is given up if it killed its process in one of its stages, or was in flight in `_MOST_DEATHS` lost tasks.
        It is queued with its error, so that the next task only finishes it.
        """
        rest = flight.rest
        if not rest:
            return

        if flight.chunk.isolated:
            # Isolated rows run in order, so the first unfinished one was running.
            row = rest[0]
            self._deaths[row.index] += 1
            if (died and flight.stage) or self._deaths[row.index] >= _MOST_DEATHS:
                reason = f"the process that worked on this row died: {how}"
                error = pipeline.Error(row.index, row.id, flight.stage or "target", "WorkerDied", reason)
                # The record goes along with the row, so that the next task finishes it without another try.
                portion = Portion([((row.index,), dumps(error))])
                flight.take(portion)
                yield portion
            self._again.append(flight.chunk_with(rest, isolated=True))
            return

        grouped = any(self._group(row) is not None for row in rest)
        in_flight = rest if grouped or self.plan.target is None else self._in_flight(flight, rest)
        self._deaths.update(row.index for row in in_flight)

        suspects = [row for row in rest if self._deaths[row.index] >= _SUSPECT]
        if others := [row for row in rest if self._deaths[row.index] < _SUSPECT]:
            self._again.append(flight.chunk_with(others))

        size = len(rest) if grouped else _ONE_BY_ONE
        for start in range(0, len(suspects), size):
            self._again.append(flight.chunk_with(suspects[start : start + size], isolated=True))

    def _in_flight(self, flight: Flight, rest: list[Row]) -> list[Row]:
        """Return the rows that may have been in flight in a lost task.

        These are the answered rows, which were being judged, and the first unanswered rows: twice as many as the task
        calls at once, because the driver may not have read some answers.
        """
        unanswered = [row.index for row in rest if not flight.is_answered(row)]
        first_unanswered = unanswered[: pipeline.UNREAD * self.plan.concurrency]
        return [row for row in rest if row.index in first_unanswered or flight.is_answered(row)]

    def _group(self, row: Row) -> str | None:
        """Return the name of the group whose rows must run in the same task, None for a row without a group."""
        return pipeline.group_of(row, self.plan.target, self.plan.group_column)

    def _units(self) -> Iterator[list[Row]]:
        """Yield lists of rows that must run in the same task. Groups come last, after all data is read."""
        groups: dict[str, list[Row]] = {}
        for row in self.plan.rows():
            if (group := self._group(row)) is None:
                yield [row]
            else:
                groups.setdefault(group, []).append(row)
        yield from groups.values()


# -- Ray

CPUS_PER_TASK = 0.25
"""Share of a CPU that a task requests from Ray. It is small because a task mostly waits for answers."""

_MOST_ROWS = 1_000
"""The most rows of a chunk, apart from groups."""

_ROUNDS = 4
"""A chunk has at least this many rows per concurrent call of a task, because the last rows do not use all calls."""

_TOGETHER = 1.5
"""The remaining rows are divided by this many times the number of parallel tasks, so that all tasks end together.

Between two chunks, a worker is idle for about 0.1 s, so fewer and larger chunks are faster.
"""

_AHEAD = 2
"""Tasks to queue beyond those that fit, so that a joining node finds work and an autoscaler sees demand."""

_LOOK_EVERY_S = 1.0
"""Seconds between two counts of the cluster's nodes and CPUs."""

_WAIT_S = 0.2
"""The longest wait for a portion in one round, in seconds."""

_PAUSE_S = 0.01
"""Seconds between two reads of the streams, so that several portions are read together."""

_GRACE_S = 12.0
"""Seconds after a stop in which tasks may finish their calls."""

# Patterns of Ray's `excludes`, which have the form of .gitignore: a cluster needs no runs, and must not get secrets.
_NOT_SHIPPED = ["eval_results", ".git", "node_modules", "azureml", ".env", ".env.*", "*.env", "__pycache__"]


def open_runner(address: str | None, options: object, recipe: Callable[[], Execution]) -> RunsElsewhere:
    """Return a function that makes the engine for `--on ray` or `--on ray:ADDRESS`.

    `recipe` makes the run's execution in a task.

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigurationError: The address is empty.
    """
    _ray()

    share = options.task_cpus if isinstance(options, RayOptions) else None
    if address is not None and not address.strip():
        raise ConfigurationError("--on needs an address after `ray:`; give --on ray or --on ray:ADDRESS")
    return partial(RayDriver, recipe, address or None, share or CPUS_PER_TASK)


def _check_reachable(address: str) -> None:
    """Refuse an address that does not accept connections, because Ray itself would try for minutes.

    An address without a port, such as `auto`, is not checked.

    Raises:
        RunError: There is no connection within five seconds.
    """
    # "10.0.0.4:6379", "ray://10.0.0.4:10001", "[::1]:6379"
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return  # "auto": Ray looks for the cluster of this machine
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        problem = f"cannot connect to Ray at {address} ({clean(error, 200)}); check the address and that Ray runs there"
        raise RunError(problem) from None


class RayDriver(ChunkDriver):
    """The driver that runs the chunks of one run on Ray."""

    def __init__(
        self,
        make: Callable[[], Execution],
        address: str | None,
        share: float,
        *run: *tuple[Plan, Journal, CachedResults, Execution],
    ) -> None:
        """Prepare the driver: `make` makes the execution in a task, `share` is a task's share of a CPU.

        `run` holds the arguments of ChunkDriver: the run's plan, journal, cached results and execution.
        """
        super().__init__(*run)
        self._make = make
        self._address = address
        self._share = share
        self._ray = _ray()

        self._services: Any = None  # Ray's actors have no types
        self._flights: list[Flight] = []
        self._number = 0
        self._fits = self._nodes = 0
        self._looked = -math.inf
        self._stopping: float | None = None

    async def portions(self) -> AsyncIterator[Portion]:
        """Connect to Ray, run chunks as tasks and yield their portions; shut Ray down at the end.

        The last portion may note the cost of calls of lost tasks.
        """
        pool, loop = ThreadPoolExecutor(1), asyncio.get_running_loop()
        try:
            await loop.run_in_executor(pool, self._connect)
            _take_signals_back()
            while await loop.run_in_executor(pool, self._submit):
                for portion in await loop.run_in_executor(pool, self._next_portions):
                    yield portion

            if self._stop is None and (lost := await self._services.lost.remote()):
                yield Portion(notes=[f"calls of lost Ray tasks may have cost up to {lost:.4g} more than shown"])
        finally:
            # The kernel kills Ray's processes with the thread that started them, and Ray then ends this process.
            # So that thread shuts Ray down, after its other work, even if this task is cancelled.
            pool.submit(self._flights.clear)
            ended = pool.submit(self._ray.shutdown)
            pool.shutdown(wait=False)
            await asyncio.shield(asyncio.wrap_future(ended))

    def stop(self, reason: BaseException) -> None:
        """Start nothing more, and tell the tasks to stop; `run` then raises the reason."""
        super().stop(reason)
        if self._stopping is None:
            self._stopping = time.monotonic()
            if self._services is not None:
                self._services.stop.remote()

    def waiting_for(self) -> str:
        """Return a text about the tasks for the progress line."""
        if not self._nodes:
            return "connecting to Ray"
        return f"{plural(min(len(self._flights), self._fits), 'task')} on {plural(self._nodes, 'node')}"

    # -- the cluster

    def _connect(self) -> None:
        """Connect to Ray, start the actor with the services on this node, and prepare the tasks.

        Raises:
            RunError: Ray cannot be reached or started.
        """
        ray = self._ray
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise Ray reports usage to its makers

        if self._address is None:
            # "local": without an address, Ray would join any cluster that this machine is part of.
            settings: dict[str, Any] = {"address": "local", "include_dashboard": False}
        else:
            _check_reachable(self._address)
            environment = {"working_dir": str(Path.cwd()), "excludes": _left_out(Path.cwd())}
            settings = {"address": self._address, "runtime_env": environment}

        task_input = self._task_input()
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", namespace=task_input.namespace, **settings)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            advice = "; if the cluster needs a token, set RAY_AUTH_MODE=token" if self._address else ""
            place = f"use Ray at {self._address}" if self._address else "start Ray on this machine"
            raise RunError(f"cannot {place}: {clean(error, 500)}{advice}") from None
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # The actor is on the driver's node, so that it lives as long as the run. Broken calls to it are retried.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        kind = ray.remote(num_cpus=0, max_concurrency=100_000)(TaskServer)
        self._services = kind.options(name="services", scheduling_strategy=here, max_task_retries=5).remote(task_input)
        self._services_end = self._services.stopped.remote()

        # No retries, and a stream that waits for the driver: a task is at most one portion ahead.
        self._pickled = ray.put(pickle.dumps(task_input))
        self._task = ray.remote(
            num_cpus=self._share, max_retries=0, num_returns="streaming", _generator_backpressure_num_objects=1
        )(run_chunk)

    def _task_input(self) -> TaskInput:
        """Return the input that all tasks of the run share."""
        most = self._execution.settings.max_cost
        return TaskInput(
            run_id=self.plan.run_id,
            make=self._make,
            facts=self._facts.known(),
            rates={name: endpoint.rates for name, endpoint in self._facts.endpoints.items()},
            max_cost=most,
            spent=0.0 if most is None else self.spent(),
            namespace=f"tunecheck-{secrets.token_hex(6)}",
            workspace=str(Path.cwd()) if self._address is None else None,
        )

    def _look(self) -> None:
        """Count the nodes of the cluster and the tasks that fit on it, at most once a second."""
        if time.monotonic() - self._looked > _LOOK_EVERY_S:
            self._looked = time.monotonic()
            self._fits = max(1, int(self._ray.cluster_resources().get("CPU", 1) / self._share))
            self._nodes = sum(node["Alive"] for node in self._ray.nodes())

    # -- tasks

    def _submit(self) -> bool:
        """Start tasks while there is room; return False if none is in flight, or if stopping takes too long."""
        self._look()

        while self._stopping is None and len(self._flights) < self._fits + _AHEAD:
            chunk = self.next_chunk(self._size())
            if chunk is None:
                break
            self._number += 1
            name = f"chunk-{self._number}"
            stream = self._task.options(name=name).remote(self._pickled, name, chunk)
            self._flights.append(Flight(chunk, name=name, stream=stream))

        if self._stopping is not None and time.monotonic() - self._stopping > _GRACE_S:
            return False
        return bool(self._flights)

    def _size(self) -> int:
        """Return the number of rows of the next chunk: fewer towards the end, so that all tasks end together.

        It is at least 1 and at most `_MOST_ROWS`.

        Example: eight tasks fit, with 16 calls at once each. With 10,000 rows left, a chunk has the fair share of
        10,000 / (8 · 1.5) = 834 rows. With 100 left, the fair share is 9 rows, but a chunk has 18 to use more calls.
        """
        fair = math.ceil(self.left / (self._fits * _TOGETHER))
        return max(1, min(_MOST_ROWS, max(fair, min(_ROUNDS * self.plan.concurrency, 2 * fair))))

    def _next_portions(self) -> list[Portion]:
        """Wait briefly for portions, and return those that have arrived.

        A task that sends nothing for `SILENCE_S` seconds after its first portion is cancelled. The run is stopped if
        the actor with the services is lost.
        """
        # First wait for one stream, then see without waiting which others have items, too.
        streams = {flight.stream: flight for flight in self._flights}
        time.sleep(_PAUSE_S)
        self._ray.wait([*streams], num_returns=1, timeout=_WAIT_S, fetch_local=False)

        ready = self._ready([*streams, self._services_end])
        if self._services_end in ready and self._stopping is None:
            self.stop(RunError("Ray lost the process that counts requests and costs"))

        silent = time.monotonic() - SILENCE_S
        portions = [portion for stream in ready if stream in streams for portion in self._read(streams[stream])]
        for stream, flight in streams.items():
            # Before the first portion, `heard` is infinite.
            if flight.heard < silent and stream not in ready:
                self._ray.cancel(stream, force=True)
                portions += self._end_task(flight, f"the task sent nothing for {SILENCE_S:g} s")
        return portions

    def _ready(self, streams: list[Any]) -> list[Any]:
        """Return the streams that have an item or have ended."""
        return list(self._ray.wait(streams, num_returns=len(streams), timeout=0, fetch_local=False)[0])

    def _read(self, flight: Flight) -> Iterator[Portion]:
        """Yield the portions that a task has sent.

        If the task has ended, its unfinished rows are queued for other tasks. An error of its code stops the run.
        """
        errors = self._ray.exceptions
        try:
            while self._ready([flight.stream]):
                item = self._ray.get(next(flight.stream))
                flight.heard = time.monotonic()

                if isinstance(item, TaskEnd):  # without `stop`, the process of an isolated row died
                    yield from self._end_task(flight, item.message, stop=item.stop, died=not item.stop)
                    return

                flight.take(item)
                yield item
        except StopIteration:
            yield from self._end_task(flight, "the Ray task ended before its last row")
        except errors.RayTaskError as error:  # a node without Tunecheck, say
            yield from self._end_task(flight, f"a Ray task failed: {clean(error.cause, 500)}", stop=True)
        except errors.RayError:
            yield from self._end_task(flight, "Ray lost the worker")

    def _end_task(self, flight: Flight, how: str, *, stop: bool = False, died: bool = False) -> Iterator[Portion]:
        """Remove a task that has ended; queue its unfinished rows for other tasks, or stop the run if `stop` is true.

        `how` is the reason of an early end; `died` is true if the process of an isolated row died.
        """
        self._flights.remove(flight)
        if stop:
            self.stop(RunError(how))
        elif flight.rest and self._stopping is None:
            self._services.give_up.remote(flight.name)
            yield from self.hand_on(flight, how, died=died)


def _left_out(workspace: Path) -> list[str]:
    """Return the names of files and folders that are not sent to a cluster: runs, environments, secrets."""
    found = list(_NOT_SHIPPED)
    for folder in filter(Path.is_dir, workspace.iterdir()):
        is_environment = (folder / "pyvenv.cfg").is_file() or (folder / "conda-meta").is_dir()
        if is_environment or any(folder.glob("*/run.json")):
            found.append(folder.name)
    return found


def _take_signals_back() -> None:
    """Set Python's signal handlers again, because Ray's own handlers would end the driver at once."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.getsignal(number))


def _ray() -> Any:  # noqa: ANN401 - a module without types
    """Return Ray's module, which does not print errors of workers.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    try:
        import ray.exceptions

        import ray
    except ImportError:
        raise MissingExtraError("--on ray", "ray") from None
    ray._private.worker._worker_logs_enabled = False  # it prints errors: the command's output may be JSON
    return ray
