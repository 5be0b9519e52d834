"""Worker processes, seen from the run: started with `python -m`, fed batches, replaced when one dies or hangs.

An evaluator is charged with a crash, or with taking too long, only for a call that was alone in its process. The calls
of a process that ended are therefore made again, each by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import cast

from tunecheck._errors import RunError
from tunecheck._files import Failure
from tunecheck._loops import LateError
from tunecheck._messages import how_it_ended
from tunecheck._version import is_shipped
from tunecheck.pipeline._lanes import DEFAULT_TIMEOUT_S, Arguments, Reply, Spent, ThreadExecutor, Work, fail, late
from tunecheck.pipeline._scoring import BoundEvaluator, Outcome, Scorer
from tunecheck.pipeline._worker import HEADER, Loadable, Setup
from tunecheck.plugins import WORKSPACE_MODULES

_BUFFER = 1 << 22
_AHEAD = 2
"""Batches a worker has before it at once: it works on one while the next one is on its way."""

_LONGEST = 1 << 36
"""Bytes of a reply; what claims to have more was not written by a worker."""

_PATIENCE_S = 2.0

CRASHED = "WorkerDied"
"""The type of error of a call that ended its process."""


def is_of_workspace(evaluator: BoundEvaluator) -> bool:
    """Whether it is a file of the workspace."""
    return str(getattr(evaluator.function, "__module__", "")).startswith(f"{WORKSPACE_MODULES}.")


def is_foreign(evaluator: BoundEvaluator) -> bool:
    """Whether it is not our own."""
    return not is_shipped(str(getattr(evaluator.function, "__module__", "")))


def can_be_sent(evaluator: BoundEvaluator) -> bool:
    """Whether a worker process can make the same evaluator: importable, and made of things that can be pickled.

    One that asks models does so from here, where its calls are counted and recorded.
    """
    if evaluator.asks_models:
        return False
    try:
        pickled = _pickled(evaluator)
    except Exception:  # noqa: BLE001 - pickling runs the object's own code, which may raise anything
        return False
    return b"__main__" not in pickled  # the worker's own __main__ is another one


def _pickled(evaluator: Scorer) -> bytes:
    return pickle.dumps(Scorer(evaluator.name, evaluator.function, evaluator.pure, awaited=evaluator.awaited))


class _WorkerDiedError(Exception):
    """The process ended while it worked on the batch; `alone`: on nothing else."""

    def __init__(self, alone: bool) -> None:
        super().__init__()
        self.alone = alone


class _NotStartedError(Exception):
    """The process ended before it came to the batch, which another one may do."""


class _LoadingError(Exception):
    """The process ended while it loaded the evaluator of this position."""

    def __init__(self, position: int, how: str) -> None:
        super().__init__(position, how)
        self.position, self.how = position, how


@dataclass(slots=True, eq=False)
class _Sent:
    """A batch that a worker has before it; `begun` when it is at work on it."""

    reply: asyncio.Future[Reply]
    begun: float | None = None
    limit: asyncio.TimerHandle | None = None


class _Worker:
    """One process and the batches it has before it."""

    def __init__(
        self, process: asyncio.subprocess.Process, problems: dict[int, str], at_once: int, limit_s: float
    ) -> None:
        """`problems` says by position which evaluators it could not load."""
        self.process = process
        self.problems = problems
        self.sent: dict[int, _Sent] = {}
        self.dead = False
        self.too_slow = False
        """It was killed because a batch took too long."""
        self._at_once = at_once
        self._limit_s = limit_s
        self._number = 0
        self._reader = asyncio.create_task(self._read())

    async def send(self, body: bytes) -> Reply:
        if self.dead:
            raise _NotStartedError
        self._number += 1
        sent = self.sent[self._number] = _Sent(asyncio.get_running_loop().create_future())
        self._begin()
        pipe = self.process.stdin
        assert pipe is not None
        with contextlib.suppress(ConnectionError):  # the reader sees the end, too, and fails what waits
            pipe.write(HEADER.pack(len(body), self._number))
            pipe.write(body)
            await pipe.drain()
        return await sent.reply

    def _begin(self) -> None:
        for sent in islice(self.sent.values(), self._at_once):
            if sent.begun is None:
                sent.begun = time.monotonic()
                sent.limit = asyncio.get_running_loop().call_later(self._limit_s, self._give_up)

    def _give_up(self) -> None:
        self.too_slow = True
        self.kill()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def _read(self) -> None:
        pipe = self.process.stdout
        assert pipe is not None
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            try:
                while True:
                    number, reply = await _read_frame(pipe)
                    sent = self.sent.pop(number)
                    self._settle(sent, cast("Reply", reply))
                    self._begin()
            except (asyncio.IncompleteReadError, ConnectionError):
                raise
            except Exception:  # noqa: BLE001 - an evaluator wrote to the pipe, and pickles hold anything
                self.kill()
        self.dead = True
        running = sum(sent.begun is not None for sent in self.sent.values())
        for sent in self.sent.values():
            self._settle(sent, _NotStartedError() if sent.begun is None else _WorkerDiedError(running == 1))

    @staticmethod
    def _settle(sent: _Sent, reply: Reply | Exception) -> None:
        if sent.limit is not None:
            sent.limit.cancel()
        if sent.reply.done():
            return
        if isinstance(reply, Exception):
            sent.reply.set_exception(reply)
        else:
            sent.reply.set_result(reply)

    async def end(self) -> None:
        """End the process: closing its input is enough, killing is for one that does not listen."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        await _exit_code(self.process)
        await self._reader

    async def charge(self, evaluator: Scorer) -> Failure:
        """The error of the call that ended the process."""
        how = how_it_ended(await _exit_code(self.process))
        if self.too_slow:
            return late(evaluator.name, LateError(f"took longer than {self._limit_s:g} s"))
        return Failure(CRASHED, f"evaluator {evaluator.name!r} ended its worker process: {how}")


async def _exit_code(process: asyncio.subprocess.Process) -> int:
    """How a process ended that was asked to, or no longer answers; one that goes on all the same is killed."""
    try:
        return await asyncio.wait_for(process.wait(), _PATIENCE_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()


async def _read_frame(pipe: asyncio.StreamReader) -> tuple[int, object]:
    length, number = HEADER.unpack(await pipe.readexactly(HEADER.size))
    if length > _LONGEST:
        raise ValueError("no frame begins like this")
    return number, pickle.loads(await pipe.readexactly(length))  # noqa: S301 - from our own worker


async def _start(setup: Setup, limit_s: float) -> _Worker:
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
    process.stdin.write(HEADER.pack(len(body), 0) + body)
    told: list[object] = []
    try:
        async with asyncio.timeout(max(limit_s, DEFAULT_TIMEOUT_S)):
            while len(told) <= len(setup.evaluators):  # the first says that it runs
                told.append((await _read_frame(process.stdout))[1])
    except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as error:
        code = await _exit_code(process)
        how = "it took too long" if isinstance(error, TimeoutError) else how_it_ended(code)
        if not told:
            raise RunError(f"no worker process can be started ({how}); run with workers=0") from None
        raise _LoadingError(len(told) - 1, how) from None
    except BaseException:  # noqa: BLE001 - the run is cancelled: leave no process behind
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        raise
    problems = {position: str(problem) for position, problem in enumerate(told[1:]) if problem is not None}
    return _Worker(process, problems, setup.threads, limit_s)


class ProcessExecutor:
    """Runs batches in worker processes."""

    largest = 256

    def __init__(self, evaluators: Sequence[BoundEvaluator], limit_s: float, *, workers: int, threads: int = 1) -> None:
        """`limit_s` is how long one call may take, `threads` how many batches a process may run at once."""
        self.evaluators = list(evaluators)
        self._limit_s = limit_s
        self._threads = threads
        self._workers: list[_Worker | None] = [None] * workers
        self._apart: list[_Worker | None] = [None]
        """The process in which calls are made one by one."""
        self._replacing, self._one = asyncio.Lock(), asyncio.Lock()
        self._broken: dict[int, Failure] = {}
        """The evaluators, by position, that end every process which loads them."""
        self._here: ThreadExecutor | None = None
        self.slots = threads if threads > 1 else workers * _AHEAD
        self.shares_memory = threads > 1 and not any(evaluator.asynchronous for evaluator in evaluators)

    async def start(self) -> list[str]:
        """Start all processes, side by side; the names of the evaluators that cannot be loaded there.

        Those are left out of `evaluators`; where none is left, no process runs.
        """
        before = self.evaluators
        places = range(len(self._workers))
        started = await asyncio.gather(*(self._fill(self._workers, place) for place in places), return_exceptions=True)
        problems = {position for worker in started if isinstance(worker, _Worker) for position in worker.problems}
        if any(isinstance(worker, RunError) for worker in started):  # none can be started
            problems = set(range(len(before)))
        if not problems:
            return []
        await self.close()
        self.evaluators = [each for position, each in enumerate(before) if position not in problems]
        self._broken.clear()  # by position, which has changed
        self._workers = [None] * len(self._workers)
        return [before[position].name for position in problems] + (await self.start() if self.evaluators else [])

    async def _fill(self, places: list[_Worker | None], place: int) -> _Worker:
        """The worker of a place, started anew where it is dead."""
        worker = places[place]
        if worker is not None and not worker.dead:
            return worker
        if worker is not None:
            await worker.end()
        while True:
            try:
                found = places[place] = await _start(self._setup(), self._limit_s)
            except _LoadingError as error:
                name = self.evaluators[error.position].name
                said = f"evaluator {name!r} ended its worker process while it was loaded: {error.how}"
                self._broken[error.position] = Failure(CRASHED, said)
            else:
                return found

    def _setup(self) -> Setup:
        files = [
            (name, file)
            for name, module in sys.modules.items()
            if name.startswith(f"{WORKSPACE_MODULES}.") and (file := getattr(module, "__file__", None))
        ]
        evaluators = []
        for position, each in enumerate(self.evaluators):
            broken = position in self._broken
            pickled = _pickled(Scorer(each.name, dict, pure=True) if broken else each)
            evaluators.append(Loadable(pickled, [(name, file) for name, file in files if name.encode() in pickled]))
        return Setup(list(sys.path), self._threads, evaluators)

    async def run(self, batch: Sequence[Work]) -> Reply:
        """Run one batch; the calls of a worker that dies are made again one by one, so that only the guilty one fails.

        Rows that cannot be sent are done here, in a thread; the others of the batch go to a process.

        Raises:
            RunError: a worker that died cannot be replaced.
        """
        if self._broken:
            return await self._around_broken(batch)
        return await self._run(batch)

    async def _run(self, batch: Sequence[Work]) -> Reply:
        try:
            body = pickle.dumps([work.arguments for work in batch], protocol=pickle.HIGHEST_PROTOCOL)
        except Exception:  # noqa: BLE001 - a row may hold any object, whose pickling may raise anything
            return await self._unsendable(batch)
        while True:
            worker = await self._choose()
            try:
                return await worker.send(body)
            except _WorkerDiedError as died:
                calls = [n for work in batch for n, arguments in enumerate(work.arguments) if arguments is not None]
                if died.alone and len(calls) == 1:
                    failure = await worker.charge(self.evaluators[calls[0]])
                    return fail(batch, [failure] * len(self.evaluators))
                return await self._one_by_one(batch)
            except _NotStartedError:
                continue

    async def _around_broken(self, batch: Sequence[Work]) -> Reply:
        """A batch's outcomes where some evaluators are charged without being called."""
        left = [work._replace(arguments=[*self._of_whole(work)]) for work in batch]
        outcomes, spent = await self._run(left)
        for work, found in zip(batch, outcomes, strict=True):
            for position, failure in self._broken.items():
                found[position] = None if work.arguments[position] is None else failure
        return outcomes, spent

    def _of_whole(self, work: Work) -> Iterator[Arguments]:
        return (None if n in self._broken else each for n, each in enumerate(work.arguments))

    async def _unsendable(self, batch: Sequence[Work]) -> Reply:
        if len(batch) > 1:
            outcomes = [(await self._run([work]))[0][0] for work in batch]
            return outcomes, Spent(0.0, 0.0)
        self._here = self._here or ThreadExecutor(self.evaluators, self.slots, self._limit_s)
        return await self._here.run(batch)

    async def _one_by_one(self, batch: Sequence[Work]) -> Reply:
        started = time.perf_counter()
        outcomes = []
        for work in batch:
            given = enumerate(work.arguments)
            outcomes.append([None if each is None else await self._alone(n, each) for n, each in given])
        took = time.perf_counter() - started
        return outcomes, Spent(took, took)

    async def _alone(self, position: int, arguments: dict[str, object]) -> Outcome:
        """Make one call in a process that has nothing else to do."""
        row: list[Arguments] = [None] * len(self.evaluators)
        row[position] = arguments
        body = pickle.dumps([row], protocol=pickle.HIGHEST_PROTOCOL)
        async with self._one:
            while True:
                worker = await self._fill(self._apart, 0)
                if position in self._broken:
                    return self._broken[position]
                try:
                    return (await worker.send(body))[0][0][position]
                except _WorkerDiedError:
                    return await worker.charge(self.evaluators[position])
                except _NotStartedError:
                    continue

    async def _choose(self) -> _Worker:
        async with self._replacing:
            workers = [await self._fill(self._workers, place) for place in range(len(self._workers))]
        return min(workers, key=lambda worker: len(worker.sent))

    def under_way(self) -> Iterator[tuple[str, float]]:
        names = ", ".join(evaluator.name for evaluator in self.evaluators)
        for worker in (*self._workers, *self._apart):
            if worker is not None:
                yield from ((names, sent.begun) for sent in worker.sent.values() if sent.begun is not None)

    async def close(self) -> None:
        """End all processes."""
        workers = [worker for worker in (*self._workers, *self._apart) if worker is not None]
        await asyncio.gather(*(worker.end() for worker in workers))
        if self._here is not None:
            await self._here.close()
