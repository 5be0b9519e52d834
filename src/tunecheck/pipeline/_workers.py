"""Worker processes for a plan's evaluators, and the executor that sends rows to them.

A worker process that dies or hangs is replaced, and its calls are repeated one by one. A crash counts as an evaluator's
error only if its call was alone in the process.

`start_processes` decides where an evaluator runs. The first rule that applies counts:

1.  In this process: it asks models, or it cannot be pickled or imported by a worker process.
2.  In worker processes with others: there are workers, and it is synchronous. If files of the workspace are isolated,
    it must also be `pure`.
3.  In a process of its own: files of the workspace are isolated, and it comes from such a file.
4.  In this process: all others.

The process runs this module, too. A request is the name of a method of `_Server` with its arguments: `set_up` comes
first, then `load` for each evaluator, then `run` for each batch. The process ends when its input is closed.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, cast

from tunecheck import plugins
from tunecheck._errors import RunError
from tunecheck._files import Failure
from tunecheck._loops import LateError, LoopThread
from tunecheck._version import is_shipped
from tunecheck._worker_process import Pipes, ProcessEndedError, WorkerProcess
from tunecheck.formats._reading import RowCache
from tunecheck.pipeline._mapping import is_async
from tunecheck.pipeline._scoring import BoundEvaluator, Outcome, Scorer, as_failure, call_async
from tunecheck.pipeline._worker_queues import (
    CRASHED,
    DEFAULT_TIMEOUT_S,
    Arguments,
    QueueReply,
    ThreadExecutor,
    Work,
    run_batch,
    timeout_failure,
)

if TYPE_CHECKING:
    from tunecheck.pipeline._plan import Plan, Tally
    from tunecheck.pipeline._results import Aggregator

_BATCHES_PER_WORKER = 2
"""Batches per worker: one that runs, and one that waits in the pipe."""


# -- choosing and sending evaluators


async def start_processes(plan: Plan, tally: Tally, aggregator: Aggregator) -> list[ProcessExecutor]:
    """Start the worker processes of a plan, load evaluators in them, and return their executors.

    Synchronous evaluators share `plan.workers` processes; if `plan.isolates_files`, only `pure` ones do. Then each
    other evaluator from a file of the workspace gets a process of its own, which is noted in the aggregator. Notes in
    the tally name evaluators in this process: those that no worker can load, and users' ones that could crash the run.
    """
    synchronous = [evaluator for evaluator in plan.evaluators if plan.workers and not evaluator.asynchronous]
    shared = [evaluator for evaluator in synchronous if evaluator.pure or not plan.isolates_files]
    others = [evaluator for evaluator in plan.evaluators if evaluator not in shared and not evaluator.asks_models]
    # In a process of its own, an evaluator that crashes harms no other.
    isolated = [evaluator for evaluator in others if plan.isolates_files and is_of_workspace(evaluator)]
    refused = [evaluator.name for evaluator in (*shared, *isolated) if not can_be_sent(evaluator)]

    own_process = partial(ProcessExecutor, limit_s=plan.evaluator_timeout, workers=1, threads=plan.concurrency)
    executors = [own_process([evaluator]) for evaluator in isolated if evaluator.name not in refused]
    if sendable := [evaluator for evaluator in shared if evaluator.name not in refused]:
        executors.insert(0, ProcessExecutor(sendable, plan.evaluator_timeout, workers=plan.workers))

    # Starting an executor returns the names of evaluators that its processes cannot load.
    for names in await asyncio.gather(*(executor.start() for executor in executors)):
        refused += names

    if refused:
        tally.notes.append(f"these evaluators run in this process, as workers cannot import them: {', '.join(refused)}")

    in_processes = [evaluator for executor in executors for evaluator in executor.evaluators]
    aggregator.own.isolated |= {evaluator.name for evaluator in in_processes if evaluator in isolated}

    known = {*refused, *(evaluator.name for evaluator in in_processes)}
    risky = [e.name for e in plan.evaluators if not is_shipped(e.module) and e.name not in known]
    if risky and plan.isolates_files:
        tally.notes.append(
            f"a crash of {', '.join(risky)} would end the run: give --workers N (workers=N) to run evaluators that can "
            "be pickled in worker processes"
        )

    return [executor for executor in executors if executor.evaluators]


def is_of_workspace(evaluator: BoundEvaluator) -> bool:
    """Return True if the evaluator's module is a file of the workspace."""
    return evaluator.module.startswith(f"{plugins.WORKSPACE_MODULES}.")


def can_be_sent(evaluator: BoundEvaluator) -> bool:
    """Return True if a worker process can load the evaluator: it can be pickled and is not from `__main__`.

    False for an evaluator that asks models: it stays in this process, which counts and records its calls.
    """
    if evaluator.asks_models:
        return False

    try:
        pickled = _pickle(evaluator)
    except Exception:  # noqa: BLE001 - pickling runs the object's own code, which may raise anything
        return False
    return b"__main__" not in pickled  # the worker has a different __main__


def _pickle(evaluator: Scorer) -> bytes:
    """Return the pickled parts of an evaluator that are needed to call it."""
    return pickle.dumps(Scorer(evaluator.name, evaluator.function, evaluator.pure))


def _files_of_modules(pickled: bytes) -> list[tuple[str, str]]:
    """Return the workspace files of the modules that a pickle names, by module name."""
    beginning = f"{plugins.WORKSPACE_MODULES}."
    names = [name for name in [*sys.modules] if name.startswith(beginning) and name.encode() in pickled]
    # Only of these modules, because reading an attribute of a lazy module would load it.
    files = {name: getattr(sys.modules[name], "__file__", None) for name in names}
    return [(name, file) for name, file in files.items() if file]


def _return_failure(failure: Failure, **arguments: object) -> Failure:
    """Return the failure for any row, in place of an evaluator that crashes while it is loaded."""
    return failure


# -- running batches in processes


class _NotLoadedError(RunError):
    """A worker process cannot load an evaluator, or ended while loading it."""

    def __init__(self, evaluator: BoundEvaluator, problem: str, *, ended: bool) -> None:
        super().__init__(f"evaluator {evaluator.name!r} {problem}")
        self.evaluator, self.ended = evaluator, ended


class ProcessExecutor:
    """Runs batches in worker processes.

    A batch goes to the worker with the fewest requests. If the worker ends before its reply, each call of the batch is
    made alone in one more process. So only the call that ends a process fails.
    """

    largest = 256
    """Maximum number of rows in a batch."""

    def __init__(self, evaluators: Sequence[BoundEvaluator], limit_s: float, *, workers: int, threads: int = 1) -> None:
        """Prepare for `workers` processes, each of which runs up to `threads` batches at once; `start` starts them.

        `limit_s` is the time limit of one call in seconds.
        """
        self.evaluators = list(evaluators)
        self._limit_s = limit_s
        self._threads = threads

        self._workers: list[WorkerProcess | None] = [None] * (workers + 1)
        """The last worker makes calls one by one."""
        self._starting, self._single_call = asyncio.Lock(), asyncio.Lock()
        self._thread_executor: ThreadExecutor | None = None
        """Runs the batches that cannot be pickled."""

        # Several threads are used only with one worker.
        self.slots = threads if threads > 1 else workers * _BATCHES_PER_WORKER
        self.shares_memory = threads > 1 and not any(evaluator.asynchronous for evaluator in evaluators)

    async def start(self) -> list[str]:
        """Start all processes; return the names of evaluators that cannot be loaded in a worker process.

        Remove these evaluators from `evaluators`; if none remains, no process runs. If loading an evaluator crashes the
        process, put a function in its place that returns the crash as a failure for every row.
        """
        refused: list[str] = []
        while self.evaluators:
            try:
                await self._worker(0)
            except _NotLoadedError as error:
                position = self.evaluators.index(error.evaluator)
                # Another attempt would end the next process, too. So the failure becomes that of every row. An
                # evaluator that merely cannot be loaded runs in this process.
                if error.ended:
                    broken = partial(_return_failure, Failure(CRASHED, str(error)))
                    self.evaluators[position] = replace(error.evaluator, function=broken)
                else:
                    refused.append(self.evaluators.pop(position).name)
            except RunError:  # no worker process can start
                refused += [evaluator.name for evaluator in self.evaluators]
                self.evaluators.clear()
            else:  # start the others, except the one for single calls, which is rarely needed
                await asyncio.gather(*(self._worker(number) for number in range(1, len(self._workers) - 1)))
                break
        return refused

    async def _worker(self, number: int) -> WorkerProcess:
        """Return the worker process with this number (from 0); start a new one if there is none or it has ended."""
        worker = self._workers[number]
        if worker is None or worker.ended:
            if worker is not None:
                await worker.close()
            worker = self._workers[number] = await self._start()
        return worker

    async def _start(self) -> WorkerProcess:
        """Start a worker process and load all evaluators in it.

        Raises:
            _NotLoadedError: the worker cannot load an evaluator, or ended while loading it.
            RunError: no worker process can be started.
            TimeoutError: loading took longer than 10 minutes and than the time limit of a call.
        """
        worker = await WorkerProcess.start("tunecheck.pipeline._workers")
        evaluator: BoundEvaluator | None = None
        try:
            async with asyncio.timeout(max(self._limit_s, DEFAULT_TIMEOUT_S)):
                # The worker needs this process's module path before it can load an evaluator.
                await worker.ask(pickle.dumps(("set_up", sys.path, self._threads)))
                for evaluator in self.evaluators:
                    pickled = _pickle(evaluator)
                    problem = await worker.ask(pickle.dumps(("load", pickled, _files_of_modules(pickled))))
                    if problem is not None:
                        raise _NotLoadedError(evaluator, str(problem), ended=False)
        except ProcessEndedError:
            how = await worker.how_it_ended()
            if evaluator is not None:  # the last evaluator that the process began to load
                text = f"ended its worker process while it was loaded: {how}"
                raise _NotLoadedError(evaluator, text, ended=True) from None
            raise RunError(f"no worker process can be started ({how}): give --workers 0 to use threads") from None
        except BaseException:  # noqa: BLE001 - for example a cancellation: leave no process behind
            worker.kill()
            await worker.close()
            raise
        return worker

    async def run(self, batch: Sequence[Work]) -> QueueReply:
        """Return the outcomes of a batch; if its worker ends, repeat the calls one by one, so that only one fails.

        A batch that cannot be pickled runs in a thread of this process.

        Raises:
            RunError: a worker that ended cannot be restarted.
        """
        try:
            body = pickle.dumps(("run", [work.arguments for work in batch]), protocol=pickle.HIGHEST_PROTOCOL)
        except Exception:  # noqa: BLE001 - a row may hold any object, and pickling may raise anything
            self._thread_executor = self._thread_executor or ThreadExecutor(self.evaluators, self.slots, self._limit_s)
            return await self._thread_executor.run(batch)

        async with self._starting:
            # All except the last worker, which makes single calls.
            workers = [await self._worker(number) for number in range(len(self._workers) - 1)]

        try:
            # Twice the limit of a call, because the batch may wait for another one.
            return await self._send(min(workers, key=lambda worker: worker.requests), body, 2 * self._limit_s)
        except ProcessEndedError:
            positions = range(len(self.evaluators))
            return QueueReply([[await self._call_alone(position, work) for position in positions] for work in batch])

    async def _send(self, worker: WorkerProcess, body: bytes, limit_s: float) -> QueueReply:
        """Send a pickled batch to a worker and return its reply; kill the worker at the time limit.

        Raises:
            ProcessEndedError: the worker was killed or has crashed.
        """
        killer = asyncio.get_running_loop().call_later(limit_s, worker.kill)
        try:
            return cast("QueueReply", await worker.ask(body))
        finally:
            killer.cancel()

    async def _call_alone(self, position: int, work: Work) -> Outcome:
        """Call the evaluator at `position` on one row, in a worker process that runs nothing else.

        Return None without arguments, and a Failure if the process crashes or the call exceeds its time limit.
        """
        if work.arguments[position] is None:
            return None

        name = self.evaluators[position].name
        arguments = [own if index == position else None for index, own in enumerate(work.arguments)]

        async with self._single_call:
            # The last worker is for single calls.
            worker, begun = await self._worker(-1), time.monotonic()
            try:
                body = pickle.dumps(("run", [arguments]))
                return (await self._send(worker, body, self._limit_s)).outcomes[0][position]
            except ProcessEndedError:
                if time.monotonic() - begun >= self._limit_s:
                    return timeout_failure(name, LateError.after(self._limit_s))
                how = await worker.how_it_ended()
                return Failure(CRASHED, f"evaluator {name!r} ended its worker process: {how}")

    async def close(self) -> None:
        """End all processes."""
        await asyncio.gather(*(worker.close() for worker in self._workers if worker is not None))
        if self._thread_executor is not None:
            await self._thread_executor.close()


# -- inside of a worker process: `python -m tunecheck.pipeline._workers`


class _Server:
    """Serves requests on the main thread, which some evaluators need, and on more threads if several may run.

    `read` runs in a thread of its own. It queues requests and starts further threads, each of which runs `serve`.
    """

    def __init__(self) -> None:
        """Open the pipes to the run's process; settings and evaluators come with requests."""
        self._pipes = Pipes()
        self._evaluators: list[Scorer] = []
        self._most_threads = 1
        self._requests: SimpleQueue[tuple[int, bytes] | None] = SimpleQueue()
        """Numbered requests that wait for a thread, and an end mark for each thread."""
        self._lock = threading.Lock()
        self._serving_threads = 1
        self._unanswered = 0
        """Number of requests that have no reply yet; no more threads are started than that."""
        self._loop: LoopThread | None = None

    def read(self) -> None:
        """Queue requests for the serving threads until the pipe closes; start threads as needed. Then end them all."""
        for request in self._pipes.requests():
            with self._lock:
                self._unanswered += 1
                if self._serving_threads < min(self._unanswered, self._most_threads):
                    self._serving_threads += 1
                    threading.Thread(target=self.serve, daemon=True).start()

            self._requests.put(request)

        for _ in range(self._serving_threads):
            self._requests.put(None)

    def serve(self) -> None:
        """Answer queued requests until the end mark."""
        while (request := self._requests.get()) is not None:
            number, body = request
            method, *arguments = pickle.loads(body)  # noqa: S301 - the run wrote it
            reply = getattr(self, method)(*arguments)
            with self._lock:
                self._unanswered -= 1
            self._pipes.reply(number, reply)

    def set_up(self, path: list[str], threads: int) -> None:
        """Set Python's module path, and the number of batches to run at once."""
        sys.path[:], self._most_threads = path, threads

    def run(self, batch: list[list[Arguments]]) -> QueueReply:
        """Run the evaluators on some rows; return the outcomes."""
        return run_batch(self._evaluators, [Work(arguments, RowCache(arguments)) for arguments in batch])

    def load(self, pickled: bytes, modules: list[tuple[str, str]]) -> str | None:
        """Load a pickled Scorer and the workspace files of its modules; return None, or the error as text."""
        try:
            for name, file in modules:
                plugins.load_file(Path(file), name)
            evaluator: Scorer = pickle.loads(pickled)  # noqa: S301 - the run wrote it
        except BaseException as error:  # noqa: BLE001 - a user's module may raise anything on import
            found = as_failure(error)
            return f"cannot be loaded in a worker process: {found.type}: {found.message}"

        # `run_batch` calls synchronous functions, so an asynchronous evaluator gets a synchronous form.
        if is_async(evaluator.function):
            evaluator = Scorer(evaluator.name, partial(self._run_async, evaluator), pure=True)
        self._evaluators.append(evaluator)
        return None

    def _run_async(self, evaluator: Scorer, **arguments: object) -> Outcome:
        """Return the outcome of an asynchronous evaluator; all share one event loop, because they may share clients."""
        with self._lock:
            self._loop = self._loop or LoopThread("evaluators")
        return self._loop.submit(call_async(evaluator, arguments)).result()


def main() -> None:
    """Run the worker process: read requests in a thread, answer them in this one, until the pipe closes."""
    server = _Server()
    threading.Thread(target=server.read, daemon=True).start()
    server.serve()


if __name__ == "__main__":
    main()
