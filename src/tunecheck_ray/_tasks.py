"""The code in a Ray worker: one chunk per task, with its portions streamed to the driver.

Rows that may have killed a task run one by one in a child process of the next task. The task can then report how that
process ended.
"""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from tunecheck import ConfigurationError, TunecheckError, __version__
from tunecheck.pipeline import Chunk, ChunkRunner, Portion
from tunecheck.plugins import how_it_ended
from tunecheck_ray._services import TaskInput, TaskServices

SILENCE_S = 30.0
"""A process is treated as hung if it sends nothing for this long. Processes report every two seconds."""


@dataclass(frozen=True)
class TaskEnd:
    """The last item of a task that ended early.

    If `stop` is true, the run must end. Otherwise the process of an isolated row died.
    """

    message: str
    stop: bool


def run_chunk(task_input: bytes, task: str, chunk: Chunk) -> Iterator[Portion | TaskEnd]:
    """Yield the portions of a chunk. Ray calls this function."""
    yield Portion()  # the driver counts silence from here
    yield from (_run_isolated_chunk if chunk.isolated else _portions)(task_input, task, chunk)


def _portions(task_input: bytes, task: str, chunk: Chunk) -> Iterator[Portion | TaskEnd]:
    """Yield the portions of a chunk that runs in this process. An error becomes the end of the run."""
    try:
        runner, services = _open_input(task_input)
        services.task = task
        yield from runner.run(chunk)
    except Exception as error:  # noqa: BLE001 - the driver ends the run with it
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        message = str(error) if isinstance(error, TunecheckError) else f"{type(error).__name__}: {error}"
        yield TaskEnd(message, stop=True)


@functools.lru_cache(maxsize=1)
def _open_input(task_input: bytes) -> tuple[ChunkRunner, TaskServices]:
    """Return the runner of chunks and the services, which the tasks of one run share in this process.

    Raises:
        TunecheckError: A file or package of the run is missing on this node, or differs from that of the driver.
    """
    import ray

    given: TaskInput = pickle.loads(task_input)  # noqa: S301 - from the driver, which Ray lets run code here
    if (given.version, given.python) != (__version__, sys.version_info[:2]):
        worker = f"{__version__} on Python {sys.version_info[0]}.{sys.version_info[1]}"
        driver = f"{given.version} on Python {given.python[0]}.{given.python[1]}"
        raise ConfigurationError(
            f"a Ray worker has Tunecheck {worker}, the driver {driver}; use one version on all nodes"
        )
    if given.workspace is not None:
        os.chdir(given.workspace)
    sys.path.insert(0, str(Path.cwd()))
    services = TaskServices(ray.get_actor("services", namespace=given.namespace), given)
    execution = given.make()
    facts = execution.facts
    facts.recall(given.facts)
    for name, endpoint in facts.endpoints.items():
        endpoint.share_limits(services.limits(name))
    plan = execution.task_plan(given.run_id)
    return ChunkRunner(plan, facts.known, services.budget, services, services.stopped), services


# -- isolated rows


def _run_isolated_chunk(task_input: bytes, task: str, chunk: Chunk) -> Iterator[Portion | TaskEnd]:
    """Run a chunk in a child process and yield its portions.

    If the process dies or falls silent, the last item says how it ended, and the task itself survives.
    """
    import ray

    context = multiprocessing.get_context("spawn")
    reading_end, writing_end = context.Pipe(duplex=False)
    address = ray.get_runtime_context().gcs_address
    process = context.Process(target=_serve_isolated, args=(address, task_input, task, chunk, writing_end))
    process.start()
    writing_end.close()
    try:
        while reading_end.poll(SILENCE_S):
            yield reading_end.recv()
        yield TaskEnd(f"it sent nothing for {SILENCE_S:g} s", stop=False)
    except EOFError:
        process.join(SILENCE_S)
        if process.exitcode:
            yield TaskEnd(how_it_ended(process.exitcode), stop=False)
    finally:
        process.kill()
        process.join()


def _serve_isolated(address: str, task_input: bytes, task: str, chunk: Chunk, connection: Connection) -> None:
    """Run a chunk in the task's child process, which connects to Ray to use the services."""
    import ray

    threading.Thread(target=_end_with_the_task, daemon=True).start()
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    for item in _portions(task_input, task, chunk):
        connection.send(item)
    connection.close()
    os._exit(0)  # threads of user code must not keep the process


def _end_with_the_task() -> None:
    """End this child process when the task's process has ended."""
    task = multiprocessing.parent_process()
    assert task is not None
    task.join()
    os._exit(1)
