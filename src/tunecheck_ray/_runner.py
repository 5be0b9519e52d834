"""The driver's side of `--on ray`: keeps chunks in flight, and gives the rows of a lost task to a new one.

Ray's own retries stay off: they would run a task from its start. A lost task that still runs changes nothing: the
driver ignores its portions, and the services grant it nothing more.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import math
import os
import pickle
import secrets
import signal
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from tunecheck import ConfigurationError, MissingExtraError, Row, RunError
from tunecheck.evaluation import Execution
from tunecheck.plugins import clean, counted
from tunecheck_ray._chunks import TARGET, Chunk, ChunkSource, Portion, SharedSettings, died
from tunecheck_ray._driver import RunsOnTasks, TaskRecipe
from tunecheck_ray._options import RayOptions
from tunecheck_ray._services import TaskServer
from tunecheck_ray._tasks import SILENCE_S, RayJob, TaskEnd, run_chunk

CPUS_PER_TASK = 0.25
"""Share of a CPU that a task asks Ray for: it mostly waits for answers."""

_MOST_ROWS = 500
_ROUNDS = 4
"""A chunk has at least so many rows for each call that its task makes at once: the last ones leave places empty."""

_TOGETHER = 2
"""Rows left are shared among so many times the tasks that fit, so that all tasks end together."""

_AHEAD = 2
"""Tasks beyond those that fit: a node that joins finds work, and an autoscaler sees demand."""

_LOOKED_EVERY_S = 1.0
_WAIT_S = 0.2
_PAUSE_S = 0.01
"""Between two looks at the streams: what comes meanwhile is read together."""

_GRACE_S = 12.0
_SUSPECT = 2
"""Rows that may have been in flight when their process died for the second time are told apart."""

_MOST_DEATHS = 8
"""An isolated row whose Ray worker is lost runs again, until the row has lost so many workers."""

_PIECES = 8
"""They are divided into so many pieces, again and again, until a row runs alone."""

_NOT_SHIPPED = ["eval_results", ".git", "node_modules", "azureml", ".env", ".env.*", "*.env", "__pycache__"]


def open_runner(address: str | None, options: object, recipe: Callable[[], Execution]) -> RunsOnTasks:
    """Return the maker of the engine of `--on ray` or `--on ray:ADDRESS`; `recipe` makes the execution in a task.

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigurationError: The address is empty.
    """
    _ray()
    share = options.task_cpus if isinstance(options, RayOptions) else None
    if address is not None and not address.strip():
        raise ConfigurationError("--on ray: the address after the colon is empty")
    return RunsOnTasks(lambda task: RayRunner(task, address or None, share or CPUS_PER_TASK), recipe)


@dataclass(eq=False)
class _Flight:
    """A chunk that a task works on, and the news from the task."""

    name: str
    chunk: Chunk
    stream: Any  # Ray's generators have no types
    heard: float
    process_died: bool = False
    """True if the process of an isolated row died, and not the Ray worker above it."""
    begun: set[int] = field(default_factory=set)
    finished: set[int] = field(default_factory=set)
    records: dict[int, list[bytes]] = field(default_factory=dict)
    """Journal records of rows that are not finished, for the task that gets them next."""

    def take(self, portion: Portion) -> None:
        self.begun.update(portion.begun)
        for rows, record in portion.records:
            for row in rows:
                self.records.setdefault(row, []).append(record)
        for row in portion.finished:
            self.finished.add(row)
            self.records.pop(row, None)

    def known(self, row: int) -> tuple[bytes, ...]:
        return (*self.chunk.known.get(row, ()), *self.records.get(row, ()))


def _check_reachable(address: str) -> None:
    """Refuse an address without a listener; Ray itself would try for minutes.

    Raises:
        RunError: There is no connection within five seconds.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return  # "auto": Ray looks for the cluster of this machine
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        problem = f"cannot connect to Ray at {address} ({clean(error, 200)}); check the address and that Ray runs there"
        raise RunError(problem) from None


class RayRunner:
    """Runs the chunks of one run on Ray."""

    def __init__(self, recipe: TaskRecipe, address: str | None, cpus_per_task: float) -> None:
        self._recipe = recipe
        self._address = address
        self._share = cpus_per_task
        self._ray = _ray()
        self._flights: list[_Flight] = []
        self._again: deque[Chunk] = deque()
        self._deaths: Counter[int] = Counter()
        self._number = 0
        self._fits = self._nodes = 0
        self._looked = -math.inf
        self._stopping: float | None = None
        self._failed: RunError | None = None

    async def run(self, source: ChunkSource, shared: SharedSettings) -> AsyncIterator[Portion]:
        """As `Runner.run`."""
        with contextlib.redirect_stdout(_WithoutRay(sys.stdout)), contextlib.redirect_stderr(_WithoutRay(sys.stderr)):
            async for portion in self._run(source, shared):
                yield portion
        if self._failed is not None:
            raise self._failed

    async def _run(self, source: ChunkSource, shared: SharedSettings) -> AsyncIterator[Portion]:
        await asyncio.to_thread(self._connect, shared)
        _take_signals_back()
        try:
            while await asyncio.to_thread(self._submit, source):
                for flight in await asyncio.to_thread(self._wait):
                    for portion in await asyncio.to_thread(self._read, flight, source):
                        yield portion
            if note := await asyncio.to_thread(self._lost_money):
                yield Portion(notes=[note])
        finally:
            await asyncio.to_thread(self._disconnect)

    def stop(self) -> None:
        """As `Runner.stop`."""
        if self._stopping is None:
            self._stopping = time.monotonic()
            self._services.stop.remote()

    def status(self) -> str:
        """As `Runner.status`."""
        return f"{counted(min(len(self._flights), self._fits), 'task')} on {counted(self._nodes, 'node')}"

    # -- the cluster

    def _connect(self, shared: SharedSettings) -> None:
        ray = self._ray
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise Ray reports usage to its makers
        if self._address is None:
            # "local": without an address, Ray would join any cluster that this machine is part of.
            settings: dict[str, Any] = {"address": "local", "num_cpus": _cores(), "include_dashboard": False}
        else:
            _check_reachable(self._address)
            environment = {"working_dir": str(Path.cwd()), "excludes": _left_out(Path.cwd())}
            settings = {"address": self._address, "runtime_env": environment}
        namespace = f"tunecheck-{secrets.token_hex(6)}"
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", namespace=namespace, **settings)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise RunError(f"Ray{f' at {self._address}' if self._address else ''}: {clean(error, 500)}") from None
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # On the driver's node, so that it lives as long as the run. Calls are repeated if a connection breaks.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        kind = ray.remote(num_cpus=0, max_concurrency=100_000)(TaskServer)
        self._services = kind.options(name="services", scheduling_strategy=here, max_task_retries=5).remote(shared)
        workspace = str(Path.cwd()) if self._address is None else None
        job = RayJob(self._recipe, shared, "services", namespace, workspace)
        self._job = ray.put(pickle.dumps(job))
        self._task = ray.remote(
            num_cpus=self._share, max_retries=0, num_returns="streaming", _generator_backpressure_num_objects=1
        )(run_chunk)

    def _look(self) -> None:
        """Count the tasks that fit on the cluster now."""
        if time.monotonic() - self._looked > _LOOKED_EVERY_S:
            self._looked = time.monotonic()
            self._fits = max(1, int(self._ray.cluster_resources().get("CPU", 1) / self._share))
            self._nodes = sum(node["Alive"] for node in self._ray.nodes())

    def _lost_money(self) -> str:
        lost = self._ray.get(self._services.lost.remote())
        return f"up to {lost:.4g} may have been spent on calls of tasks that were lost" if lost else ""

    def _disconnect(self) -> None:
        self._flights.clear()
        self._ray.shutdown()

    # -- tasks

    def _submit(self, source: ChunkSource) -> bool:
        """Start tasks for which there is room; return whether any is in flight."""
        self._look()
        while self._stopping is None and len(self._flights) < self._fits + _AHEAD:
            chunk = self._again.popleft() if self._again else source.take(self._size(source))
            if chunk is None:
                break
            self._number += 1
            name = f"chunk-{self._number}"
            stream = self._task.options(name=name).remote(self._job, name, chunk)
            self._flights.append(_Flight(name, chunk, stream, math.inf))
        if self._stopping is not None and time.monotonic() - self._stopping > _GRACE_S:
            return False
        return bool(self._flights)

    def _size(self, source: ChunkSource) -> int:
        """Return the number of rows of the next chunk: fewer towards the end, so that all tasks end together."""
        fair = math.ceil(source.left / (self._fits * _TOGETHER))
        return max(1, min(_MOST_ROWS, max(fair, min(_ROUNDS * source.concurrency, math.ceil(fair * _TOGETHER)))))

    def _wait(self) -> list[_Flight]:
        """Return the flights that have news, or have had none for too long."""
        streams = {flight.stream: flight for flight in self._flights}
        time.sleep(_PAUSE_S)
        if self._ray.wait([*streams], num_returns=1, timeout=_WAIT_S, fetch_local=False)[0]:
            ready, _ = self._ray.wait([*streams], num_returns=len(streams), timeout=0, fetch_local=False)
        else:
            ready = []
        silent = time.monotonic() - SILENCE_S
        return [streams[stream] for stream in ready] + [
            flight for flight in self._flights if flight.heard < silent and flight.stream not in ready
        ]

    def _read(self, flight: _Flight, source: ChunkSource) -> list[Portion]:
        """Take the portions of a task; if the task has ended, handle its rows."""
        portions: list[Portion] = []
        if flight.heard < time.monotonic() - SILENCE_S and not self._is_ready(flight):
            self._ray.cancel(flight.stream, force=True)
            return self._ended(flight, f"no sign of life for {SILENCE_S:g} s", source)
        errors = self._ray.exceptions.RayError
        try:
            while self._is_ready(flight):
                item = self._ray.get(next(flight.stream))
                flight.heard = time.monotonic()
                if isinstance(item, TaskEnd):
                    flight.process_died = not item.stop
                    return portions + self._ended(flight, item.message, source, stop=item.stop)
                flight.take(item)
                if item:
                    portions.append(item)
        except StopIteration:
            return portions + self._ended(flight, None, source)
        except self._ray.exceptions.RayTaskError as error:  # a node without Tunecheck, say
            return portions + self._ended(flight, f"on a Ray worker: {clean(error.cause, 500)}", source, stop=True)
        except errors:
            return portions + self._ended(flight, "Ray lost the worker", source)
        return portions

    def _is_ready(self, flight: _Flight) -> bool:
        return bool(self._ray.wait([flight.stream], timeout=0, fetch_local=False)[0])

    def _ended(self, flight: _Flight, how: str | None, source: ChunkSource, *, stop: bool = False) -> list[Portion]:
        """Handle the rows of a task that has ended; `how` is the reason of an early end."""
        self._flights.remove(flight)
        if how is None and self._stopping is None and len(flight.finished) < len(flight.chunk.rows):
            how = "the task ended before its rows"
        if how is None or self._stopping is not None:
            return []
        if stop:
            self._failed = self._failed or RunError(how)
            self.stop()
            return []
        self._services.give_up.remote(flight.name)
        return [*self._hand_on(flight, how, source)]

    def _hand_on(self, flight: _Flight, how: str, source: ChunkSource) -> Iterator[Portion]:
        """Queue the rows of a lost task again; yield errors for rows that are to blame."""
        rest = [row for row in flight.chunk.rows if row.index not in flight.finished]
        if flight.chunk.isolated:
            row = rest[0]
            self._deaths[row.index] += 1
            if flight.process_died or self._deaths[row.index] >= _MOST_DEATHS:
                yield from self._blame(row, flight, how, source)
            else:  # the worker may have died for reasons of its own
                self._again.append(Chunk((row,), {row.index: flight.known(row.index)}, True, flight.chunk.only))
            return
        in_flight = _in_flight(rest, flight, source)
        self._deaths.update(row.index for row in in_flight)
        suspects = [row for row in in_flight if self._deaths[row.index] >= _SUSPECT]
        together = [row for row in rest if row not in suspects]
        size = math.ceil(len(suspects) / _PIECES)
        pieces = [suspects[at : at + size] for at in range(0, len(suspects), size or 1)]
        for rows in [together, *pieces]:
            if rows:
                known = {row.index: known for row in rows if (known := flight.known(row.index))}
                self._again.append(Chunk(tuple(rows), known, isolated=rows is not together and len(rows) == 1))

    def _blame(self, row: Row, flight: _Flight, how: str, source: ChunkSource) -> Iterator[Portion]:
        """Find the stage in which a row killed a process of its own, and record its error."""
        known, only = flight.known(row.index), flight.chunk.only
        if only is None and (_is_answered(known) or not source.has_target):
            self._again.extend(Chunk((row,), {row.index: known}, True, name) for name in source.evaluators)
            return
        record = died(row, only or TARGET, how)
        yield Portion(records=[((row.index,), record)], failed=1)
        if only is None:  # evaluators that need no answer still judge the row
            self._again.append(Chunk((row,), {row.index: (*known, record)}))


def _in_flight(rest: list[Row], flight: _Flight, source: ChunkSource) -> list[Row]:
    """The rows that a lost task may have been working on: it may have begun some that it had no time to report."""
    begun = [row for row in rest if row.index in flight.begun]
    unreported = [row for row in rest if row.index not in flight.begun]
    if not source.has_target:
        return rest
    answered = sum(_is_answered(flight.known(row.index)) for row in begun)
    return [*begun, *unreported[: max(0, source.concurrency - (len(begun) - answered))]]


def _is_answered(known: tuple[bytes, ...]) -> bool:
    return any(record.startswith(b'{"k":"answer"') for record in known)


def _left_out(workspace: Path) -> list[str]:
    """Return the files of the workspace that are not sent to a cluster: runs, environments, secrets."""
    found = list(_NOT_SHIPPED)
    for folder in filter(Path.is_dir, workspace.iterdir()):
        is_environment = (folder / "pyvenv.cfg").is_file() or (folder / "conda-meta").is_dir()
        if is_environment or any(folder.glob("*/run.json")):
            found.append(folder.name)
    return found


class _WithoutRay(io.TextIOBase):
    """A stream without the output of Ray's own threads: the command's output may be JSON."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return len(text) if threading.current_thread().name.startswith("ray_") else self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


def _take_signals_back() -> None:
    """Remove the signal handlers that Ray sets below Python's: they would end the driver at once."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.getsignal(number))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _ray() -> Any:  # noqa: ANN401 - a module without types
    try:
        import ray.exceptions

        import ray
    except ImportError:
        raise MissingExtraError("--on ray", "ray") from None
    return ray
