"""The code in a Ray worker: one chunk per task, with its portions streamed to the driver.

A row that has killed its process twice runs alone in a process below the task. So the task can report the signal that
ended that process.
"""

from __future__ import annotations

import asyncio
import functools
import multiprocessing
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tunecheck import ConfigurationError, TunecheckError, __version__
from tunecheck.plugins import how_it_ended
from tunecheck_ray._chunk_engine import ChunkRunner, run_error
from tunecheck_ray._chunks import Chunk, Portion, SharedSettings
from tunecheck_ray._driver import TaskRecipe, chunk_runner
from tunecheck_ray._services import ActorServices, TaskName

SILENCE_S = 30.0
"""A process that shows no sign of life for so long is taken for hung: they send one every two seconds."""


@dataclass(frozen=True)
class RayJob:
    """The input of every task of a run, pickled once.

    `services` and `namespace` name the actor. `workspace` is the working folder; None: the one that Ray has unpacked.
    """

    recipe: TaskRecipe
    settings: SharedSettings
    services: str
    namespace: str
    workspace: str | None
    version: str = __version__
    python: tuple[int, int] = sys.version_info[:2]


@dataclass(frozen=True)
class TaskEnd:
    """The last item of a task that ended early: `stop` ends the run; else the process of an isolated row died."""

    message: str
    stop: bool


def run_chunk(job: bytes, task: str, chunk: Chunk) -> Iterator[Portion | TaskEnd]:
    """Yield the portions of a chunk. Ray calls this function."""
    yield Portion()  # the driver counts silence from here
    try:
        opened = _opened(job)
        opened.task.name = task
        if chunk.isolated:
            yield from _run_isolated(job, opened.handle, task, chunk)
        else:
            yield from opened.runner.run(chunk)
    except TunecheckError as error:
        yield TaskEnd(str(error), stop=True)
    except Exception as error:  # noqa: BLE001 - the driver ends the run with it
        yield TaskEnd(str(run_error(error)), stop=True)


@dataclass(frozen=True)
class _Opened:
    runner: ChunkRunner
    task: TaskName
    handle: Any  # Ray's actors have no types


@functools.lru_cache(maxsize=1)
def _opened(job: bytes) -> _Opened:
    """Return the objects that the tasks of one run share in this process."""
    import ray

    given: RayJob = pickle.loads(job)  # noqa: S301 - from the driver, which Ray lets run code here
    if (given.version, given.python) != (__version__, sys.version_info[:2]):
        here = f"{__version__} on Python {sys.version_info[0]}.{sys.version_info[1]}"
        there = f"{given.version} on Python {given.python[0]}.{given.python[1]}"
        raise ConfigurationError(f"a Ray worker has Tunecheck {here}, the driver {there}: use the same on all nodes")
    handle = ray.get_actor(given.services, namespace=given.namespace)
    return _open(given, handle)


def _open(given: RayJob, handle: Any) -> _Opened:  # noqa: ANN401
    if given.workspace is not None:
        os.chdir(given.workspace)
    sys.path.insert(0, str(Path.cwd()))
    task = TaskName()
    runner = chunk_runner(given.recipe, ActorServices(handle, task, given.settings))
    return _Opened(runner, task, handle)


# -- a row in a process of its own


def _run_isolated(job: bytes, handle: Any, task: str, chunk: Chunk) -> Iterator[Portion | TaskEnd]:  # noqa: ANN401
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve_isolated, args=(job, task, chunk, there), daemon=False)
    process.start()
    there.close()
    relay = _Relay(here, handle)
    try:
        while True:
            if not here.poll(SILENCE_S):
                process.kill()
                yield TaskEnd(f"no sign of life for {SILENCE_S:g} s", stop=False)
                return
            message = here.recv()
            if isinstance(message, tuple):
                relay.call(*message)
            else:
                yield message
    except EOFError:
        process.join(SILENCE_S)
        if process.exitcode:
            yield TaskEnd(how_it_ended(process.exitcode), stop=False)
    finally:
        relay.close()
        process.kill()
        process.join()


class _Relay:
    """Calls the actor for the process below, which Ray does not know."""

    def __init__(self, connection: Connection, handle: Any) -> None:  # noqa: ANN401
        self._connection, self._handle = connection, handle
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="tunecheck-relay", daemon=True).start()

    def call(self, number: int, method: str, arguments: tuple[Any, ...]) -> None:
        asyncio.run_coroutine_threadsafe(self._answer(number, method, arguments), self._loop)

    async def _answer(self, number: int, method: str, arguments: tuple[Any, ...]) -> None:
        value = await getattr(self._handle, method).remote(*arguments)
        try:
            self._connection.send((number, value))
        except OSError:
            return  # the process below has died

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


class _PipedHandle:
    """The actor, for the process below the task: `handle.method.remote(…)` can be awaited, as Ray's can."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._number = 0
        self._waiting: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]]] = {}
        threading.Thread(target=self._read, name="tunecheck-piped", daemon=True).start()

    def __getattr__(self, method: str) -> _PipedMethod:
        return _PipedMethod(self, method)

    def send(self, message: object) -> None:
        with self._sending:
            self._connection.send(message)

    def call(self, method: str, arguments: tuple[object, ...]) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        with self._sending:
            self._number += 1
            self._waiting[self._number] = loop, answer
            self._connection.send((self._number, method, arguments))
        return answer

    def _read(self) -> None:
        while True:
            try:
                number, value = self._connection.recv()
            except (EOFError, OSError):
                os._exit(1)  # the task is gone
            loop, answer = self._waiting.pop(number)
            loop.call_soon_threadsafe(_set, answer, value)


def _set(answer: asyncio.Future[Any], value: object) -> None:
    if not answer.done():
        answer.set_result(value)


@dataclass(frozen=True)
class _PipedMethod:
    handle: _PipedHandle
    name: str

    def remote(self, *arguments: object) -> asyncio.Future[Any]:
        return self.handle.call(self.name, arguments)


def _serve_isolated(job: bytes, task: str, chunk: Chunk, connection: Connection) -> None:
    """Run a chunk in the process below the task."""
    handle = _PipedHandle(connection)
    try:
        opened = _open(pickle.loads(job), handle)  # noqa: S301 - from our own task
        opened.task.name = task
        for portion in opened.runner.run(chunk):
            handle.send(portion)
    except Exception as error:  # noqa: BLE001 - the driver ends the run with it
        handle.send(TaskEnd(str(run_error(error)), stop=True))
    connection.close()
    os._exit(0)  # threads of user code must not keep the process
