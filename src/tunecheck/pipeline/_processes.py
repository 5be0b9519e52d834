"""Worker processes, seen from the run: started with `python -m`, fed batches, replaced when one dies."""

import asyncio
import contextlib
import os
import pickle
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias, cast

from tunecheck._errors import RunError
from tunecheck._files import Failure
from tunecheck._plugins import WORKSPACE_MODULES
from tunecheck.pipeline._lanes import Arguments, Outcome, Spent, run_batch
from tunecheck.pipeline._scoring import BoundEvaluator, Scorer
from tunecheck.pipeline._worker import HEADER, Setup

_BUFFER = 1 << 22
_AHEAD = 2
"""Batches a worker has before it at once: it works on one while the next one is on its way."""

_PATIENCE_S = 2.0


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
    return Scorer(evaluator.name, evaluator.function, evaluator.pure)


class _WorkerDiedError(Exception):
    """The process ended while it worked on the batch."""


class _NotStartedError(Exception):
    """The process ended before it came to the batch, which another one may do."""


Reply: TypeAlias = "tuple[list[list[Outcome]], Spent]"


class _Worker:
    """One process and the batches it has before it."""

    def __init__(self, process: asyncio.subprocess.Process, problems: dict[str, str]) -> None:
        self.process = process
        self.problems = problems
        self.waiting: deque[asyncio.Future[Reply]] = deque()
        self.dead = False
        self._reader = asyncio.create_task(self._read())

    async def send(self, body: bytes) -> Reply:
        if self.dead:
            raise _NotStartedError
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        pipe = self.process.stdin
        assert pipe is not None
        with contextlib.suppress(ConnectionError):  # the reader sees the end, too, and fails what waits
            pipe.write(HEADER.pack(len(body)))
            pipe.write(body)
            await pipe.drain()
        return await future

    async def _read(self) -> None:
        pipe = self.process.stdout
        assert pipe is not None
        try:
            while True:
                reply = await _read_frame(pipe)
                future = self.waiting.popleft()
                if not future.done():
                    future.set_result(cast("Reply", reply))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.dead = True
            for position, future in enumerate(self.waiting):
                if not future.done():
                    future.set_exception(_NotStartedError() if position else _WorkerDiedError())

    async def end(self) -> None:
        """End the process: closing its input is enough, killing is for one that does not listen."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), timeout=_PATIENCE_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
        await self._reader


async def _read_frame(pipe: asyncio.StreamReader) -> object:
    (length,) = HEADER.unpack(await pipe.readexactly(HEADER.size))
    return pickle.loads(await pipe.readexactly(length))  # noqa: S301 - from our own worker


async def _start(setup: Setup) -> _Worker:
    # The package is found where this process found it.
    package_path, known_paths = str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")
    search_path = f"{package_path}{os.pathsep}{known_paths}" if known_paths else package_path
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # the current folder may hold a module that is called like one of Python's
        "-m",
        "tunecheck.pipeline._worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_BUFFER,
        env=os.environ | {"PYTHONPATH": search_path},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    body = pickle.dumps(setup)
    process.stdin.write(HEADER.pack(len(body)) + body)
    try:
        await process.stdin.drain()
        problems = await _read_frame(process.stdout)
    except (asyncio.IncompleteReadError, ConnectionError):
        code = await process.wait()
        raise RunError(f"a worker process ended while it loaded the evaluators ({_how_it_ended(code)})") from None
    except BaseException:  # noqa: BLE001 - the run is cancelled: leave no process behind
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        raise
    return _Worker(process, cast("dict[str, str]", problems))


class ProcessExecutor:
    """Runs batches of synchronous evaluators in worker processes."""

    largest = 256

    def __init__(self, evaluators: Sequence[BoundEvaluator], workers: int) -> None:
        self.evaluators = list(evaluators)
        self._count = workers
        self._workers: list[_Worker] = []
        self._replacing = asyncio.Lock()
        self.slots = workers * _AHEAD

    async def start(self) -> dict[str, str]:
        """Start all processes, side by side; the evaluators that they cannot load, each with the reason.

        Those are left out of `evaluators`; where none is left, no process runs.
        """
        setup = self._setup()
        started = await asyncio.gather(*(_start(setup) for _ in range(self._count)), return_exceptions=True)
        self._workers = [worker for worker in started if isinstance(worker, _Worker)]
        failures = [worker for worker in started if isinstance(worker, BaseException)]
        problems = {name: str(failures[0]) for name in setup.evaluators} if failures else self._workers[0].problems
        if problems:
            await self.close()
            self.evaluators = [evaluator for evaluator in self.evaluators if evaluator.name not in problems]
            return problems | (await self.start() if self.evaluators else {})
        return {}

    def _setup(self) -> Setup:
        modules = [
            (name, file)
            for name, module in sys.modules.items()
            if name.startswith(f"{WORKSPACE_MODULES}.") and (file := getattr(module, "__file__", None))
        ]
        return Setup(list(sys.path), modules, {each.name: pickle.dumps(_scorer(each)) for each in self.evaluators})

    async def run(self, batch: Sequence[list[Arguments]]) -> Reply:
        """Run one batch; rows on which a worker dies are tried one by one, so that only the guilty one is an error.

        Rows that cannot be sent are done here, in a thread; the others of the batch go to a process.

        Raises:
            RunError: a worker that died cannot be replaced.
        """
        try:
            body = pickle.dumps(list(batch), protocol=pickle.HIGHEST_PROTOCOL)
        except Exception:  # noqa: BLE001 - a row may hold any object, whose pickling may raise anything
            if len(batch) > 1:
                return await self._one_by_one(batch)
            return await asyncio.to_thread(run_batch, self.evaluators, batch), Spent(0.0, 0.0)
        while True:
            worker = await self._choose()
            try:
                return await worker.send(body)
            except _WorkerDiedError:
                code = await worker.process.wait()
                if len(batch) > 1:
                    return await self._one_by_one(batch)
                lost = Failure("WorkerError", f"the row ended its worker process: {_how_it_ended(code)}")
                return [[None if arguments is None else lost for arguments in batch[0]]], Spent(0.0, 0.0)
            except _NotStartedError:
                continue

    async def _one_by_one(self, batch: Sequence[list[Arguments]]) -> Reply:
        outcomes = [(await self.run([row]))[0][0] for row in batch]
        return outcomes, Spent(0.0, 0.0)

    async def _choose(self) -> _Worker:
        async with self._replacing:
            for position, worker in enumerate(self._workers):
                if worker.dead:
                    await worker.end()
                    replacement = self._workers[position] = await _start(self._setup())
                    if replacement.problems:
                        raise RunError(
                            f"a worker process can no longer load the evaluators: {replacement.problems}; "
                            "run with workers=0"
                        )
        return min(self._workers, key=lambda worker: len(worker.waiting))

    async def close(self) -> None:
        """End all processes."""
        workers, self._workers = self._workers, []
        await asyncio.gather(*(worker.end() for worker in workers))


def _how_it_ended(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
