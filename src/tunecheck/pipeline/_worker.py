"""A worker process: `python -m tunecheck.pipeline._worker` runs evaluators on batches that it reads from a pipe.

The first request is a Setup. Each further request is a Loadable, whose reply is None or the reason why it cannot be
loaded, or a batch, whose reply is its outcomes. The process ends when its input is closed.
"""

import pickle
import sys
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from tunecheck._loops import LoopThread
from tunecheck._worker_process import Pipes
from tunecheck.formats._reading import RowCache
from tunecheck.pipeline._mapping import is_async
from tunecheck.pipeline._scoring import Outcome, Scorer, as_failure, call_async
from tunecheck.pipeline._worker_queues import Arguments, Work, run_batch
from tunecheck.plugins import load_file


@dataclass(frozen=True, slots=True)
class Setup:
    """The first request: Python's module path, and the number of batches to run at once."""

    path: list[str]
    threads: int


@dataclass(frozen=True, slots=True)
class Loadable:
    """A pickled Scorer, and the workspace files of its modules by module name."""

    pickled: bytes
    modules: list[tuple[str, str]]


class _Server:
    """Serves requests on the main thread, which some evaluators need, and on more threads if several may run."""

    def __init__(self) -> None:
        """Open the pipes to the run's process; settings and evaluators come with requests."""
        self._pipes = Pipes()
        self._evaluators: list[Scorer] = []
        self._most_threads = 1
        self._requests: SimpleQueue[tuple[int, bytes] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._serving_threads = 1
        self._unanswered = 0
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
            reply = self._answer(pickle.loads(body))  # noqa: S301 - the run wrote it
            with self._lock:
                self._unanswered -= 1
            self._pipes.reply(number, reply)

    def _answer(self, request: Setup | Loadable | list[list[Arguments]]) -> object:
        """Do what a request asks: settings, loading an evaluator, or a batch; return the reply."""
        if isinstance(request, Setup):
            sys.path[:], self._most_threads = request.path, request.threads
            return None
        if isinstance(request, Loadable):
            return self._load(request)
        return run_batch(self._evaluators, [Work(arguments, RowCache(arguments)) for arguments in request])

    def _load(self, loadable: Loadable) -> str | None:
        """Load an evaluator and the workspace files of its modules; return None, or the error as text."""
        try:
            for name, file in loadable.modules:
                load_file(Path(file), name)
            evaluator: Scorer = pickle.loads(loadable.pickled)  # noqa: S301 - the run wrote it
        except BaseException as error:  # noqa: BLE001 - a user's module may raise anything on import
            found = as_failure(error)
            return f"{found.type}: {found.message}"
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
    from tunecheck.pipeline import _worker  # requests are instances of that module's classes, not of this one's

    _worker.main()
