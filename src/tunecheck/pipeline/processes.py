"""Worker processes, seen from the run: started with `python -m`, fed batches, replaced when one dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from tunecheck.errors import RunError
from tunecheck.pipeline.lanes import Arguments, Outcome, Spent
from tunecheck.pipeline.scoring import BoundEvaluator, Failure, Scorer
from tunecheck.pipeline.worker import HEADER, Setup
from tunecheck.plugins import WORKSPACE_MODULES

__all__ = ["ProcessExecutor", "can_be_sent"]

_BUFFER = 1 << 22
_AHEAD = 2
"""Batches a worker has before it at once: it works on one while the next one is on its way."""


def can_be_sent(evaluator: BoundEvaluator) -> bool:
    """Whether a worker process can make the same evaluator: importable, and made of things that can be pickled."""
    if evaluator.asynchronous:
        return False
    try:
        pickled = pickle.dumps(_scorer(evaluator))
    except Exception:  # noqa: BLE001 - pickling runs the object's own code, which may raise anything
        return False
    return b"__main__" not in pickled  # the worker's own __main__ is another one


def _scorer(evaluator: BoundEvaluator) -> Scorer:
    return Scorer(evaluator.name, evaluator.function, evaluator.cpu_bound)


class _WorkerDiedError(Exception):
    """The process ended while it had batches to do."""


class _Worker:
    """One process and the batches it has before it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.waiting: deque[asyncio.Future[tuple[list[list[Outcome]], Spent]]] = deque()
        self.reader = asyncio.create_task(self._read())
        self.dead = False

    async def send(self, body: bytes) -> tuple[list[list[Outcome]], Spent]:
        future: asyncio.Future[tuple[list[list[Outcome]], Spent]] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        pipe = self.process.stdin
        assert pipe is not None
        try:
            pipe.write(HEADER.pack(len(body)))
            pipe.write(body)
            await pipe.drain()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the reader sees the end too, and fails what waits
        return await future

    async def _read(self) -> None:
        pipe = self.process.stdout
        assert pipe is not None
        try:
            while True:
                (length,) = HEADER.unpack(await pipe.readexactly(HEADER.size))
                reply = pickle.loads(await pipe.readexactly(length))  # noqa: S301 - from our own worker
                self.waiting.popleft().set_result(reply)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            self.dead = True
            for future in self.waiting:
                if not future.done():
                    future.set_exception(_WorkerDiedError())


class ProcessExecutor:
    """Runs batches of synchronous evaluators in worker processes."""

    largest = 256

    def __init__(self, evaluators: Sequence[BoundEvaluator], workers: int) -> None:
        self._evaluators = evaluators
        self._count = workers
        self._workers: list[_Worker] = []
        self._replacing = asyncio.Lock()
        self.slots = workers * _AHEAD

    async def start(self) -> None:
        """Start all processes, side by side.

        Raises:
            RunError: one cannot load the evaluators.
        """
        self._workers = list(await asyncio.gather(*(self._start_one() for _ in range(self._count))))

    async def _start_one(self) -> _Worker:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tunecheck.pipeline.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_BUFFER,
            env=_environment(),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        body = pickle.dumps(self._setup())
        process.stdin.write(HEADER.pack(len(body)) + body)
        try:
            await process.stdin.drain()
            (length,) = HEADER.unpack(await process.stdout.readexactly(HEADER.size))
            problem = pickle.loads(await process.stdout.readexactly(length))  # noqa: S301 - from our own worker
        except (asyncio.IncompleteReadError, ConnectionError):
            problem = "it ended at once"
        if problem is not None:
            raise RunError(f"a worker process cannot load the evaluators: {problem}; run with workers=0")
        return _Worker(process)

    def _setup(self) -> Setup:
        modules = [
            (name, str(module.__file__))
            for name, module in sys.modules.items()
            if name.startswith(f"{WORKSPACE_MODULES}.") and module.__file__
        ]
        return Setup(list(sys.path), modules, pickle.dumps([_scorer(evaluator) for evaluator in self._evaluators]))

    async def run(self, batch: Sequence[list[Arguments]]) -> tuple[list[list[Outcome]], Spent]:
        """Run one batch; rows on which a worker dies are tried one by one, so that only the guilty one is an error."""
        try:
            body = pickle.dumps(list(batch), protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # noqa: BLE001 - a row may hold any object, whose pickling may raise anything
            return await self._one_by_one(
                batch, f"{type(error).__name__}: {error}", "cannot be sent to a worker process"
            )
        worker = await self._choose()
        try:
            return await worker.send(body)
        except _WorkerDiedError:
            code = await worker.process.wait()
            return await self._one_by_one(batch, _how_it_ended(code), "ended its worker process")

    async def _one_by_one(
        self, batch: Sequence[list[Arguments]], cause: str, what: str
    ) -> tuple[list[list[Outcome]], Spent]:
        if len(batch) == 1:
            lost = Failure("WorkerError", f"the row {what}: {cause}")
            return [[None if arguments is None else lost for arguments in batch[0]]], Spent(0.0, 0.0)
        outcomes = [(await self.run([row]))[0][0] for row in batch]
        return outcomes, Spent(0.0, 0.0)

    async def _choose(self) -> _Worker:
        async with self._replacing:
            for position, worker in enumerate(self._workers):
                if worker.dead:
                    self._workers[position] = await self._start_one()
        return min(self._workers, key=lambda worker: len(worker.waiting))

    async def close(self) -> None:
        """End all processes: closing their input is enough, killing is for those that do not listen."""
        for worker in self._workers:
            if worker.process.stdin is not None:
                worker.process.stdin.close()
        for worker in self._workers:
            try:
                await asyncio.wait_for(worker.process.wait(), timeout=2)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    worker.process.kill()
                await worker.process.wait()
            await worker.reader


def _how_it_ended(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _environment() -> dict[str, str]:
    """The parent's environment, with this package found where the parent found it."""
    root = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH")
    return os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{known}" if known else root}
