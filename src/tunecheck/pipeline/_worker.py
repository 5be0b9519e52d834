"""A worker process: `python -m tunecheck.pipeline._worker`, which runs evaluators on batches that come by a pipe.

Frames are a length and a number (8 bytes each, big-endian) and a pickle; both ends are this package, and the pipe is
private to them. It says that it runs, then reads a Setup and says of each evaluator whether it could be loaded; each
further frame is a batch, answered by its outcomes under its number. The process ends when its input does, whatever an
evaluator does meanwhile, so it cannot outlive the run.
"""

import os
import pickle
import signal
import struct
import sys
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO, NoReturn

from tunecheck._loops import LoopThread
from tunecheck.formats._reading import RowCache
from tunecheck.pipeline._lanes import Spent, Work, run_batch
from tunecheck.pipeline._mapping import is_async
from tunecheck.pipeline._scoring import Outcome, Scorer, call_async, failure
from tunecheck.plugins import load_file

HEADER = struct.Struct(">QQ")

_PATIENCE_S = 2.0
"""How long an evaluator may go on when the run has ended."""


@dataclass(frozen=True, slots=True)
class Loadable:
    """An evaluator on its way: a pickled Scorer, and the workspace files that it is made of, by module name."""

    pickled: bytes
    modules: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker needs before its first batch: where modules are found, how many batches at once, evaluators."""

    path: list[str]
    threads: int
    evaluators: list[Loadable]


class _Channel:
    """The pipes to the run."""

    def __init__(self, requests: BinaryIO, replies: BinaryIO) -> None:
        self._requests = requests
        self._replies = replies
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._leave)

    def read(self) -> tuple[int, bytes] | None:
        header = self._requests.read(HEADER.size)
        if len(header) < HEADER.size:
            return None
        length, number = HEADER.unpack(header)
        body = self._requests.read(length)
        return (number, body) if len(body) == length else None

    def write(self, value: object, number: int = 0) -> None:
        body = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        with self._lock:
            try:
                self._replies.write(HEADER.pack(len(body), number) + body)
                self._replies.flush()
            except OSError:  # the run was killed, or an evaluator closed what is not its own: nobody can be answered
                os._exit(1)

    def _leave(self) -> None:
        """In a child that an evaluator forked: it must neither write here nor keep the pipes open."""
        nothing = os.open(os.devnull, os.O_RDWR)
        for pipe in (self._requests, self._replies):
            os.dup2(nothing, pipe.fileno())


class _Server:
    """Runs batches on the main thread, which some evaluators need; on others as well where several are to run."""

    def __init__(self, channel: _Channel, evaluators: list[Scorer], threads: int) -> None:
        self._channel = channel
        self._evaluators = evaluators
        self._most = threads
        self._work: SimpleQueue[tuple[int, bytes] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._servers = 1
        self._unanswered = 0

    def read(self) -> None:
        """Take batches from the run until it ends, and this process with it."""
        while (frame := self._channel.read()) is not None:
            with self._lock:
                self._unanswered += 1
                if self._servers < min(self._unanswered, self._most):
                    self._servers += 1
                    threading.Thread(target=self.serve, daemon=True).start()
            self._work.put(frame)
        for _ in range(self._servers):
            self._work.put(None)
        time.sleep(_PATIENCE_S)
        os._exit(1)

    def serve(self) -> None:
        while (frame := self._work.get()) is not None:
            number, body = frame
            batch = [Work(arguments, RowCache(arguments)) for arguments in pickle.loads(body)]  # noqa: S301 - from our own parent
            wall, cpu = time.perf_counter(), time.thread_time()
            outcomes = run_batch(self._evaluators, batch)
            spent = Spent(time.perf_counter() - wall, time.thread_time() - cpu)
            with self._lock:
                self._unanswered -= 1
            self._channel.write((outcomes, spent), number)


def _load(loadable: Loadable, channel: _Channel) -> Scorer:
    """The evaluator; where it cannot be loaded here, the run is told why, and each call of it says so, too."""
    try:
        for name, file in loadable.modules:
            load_file(Path(file), name)
        evaluator: Scorer = pickle.loads(loadable.pickled)  # noqa: S301 - from our own parent
    except BaseException as error:  # noqa: BLE001 - somebody's module may raise anything when it is imported
        found = failure(error)
        said = f"cannot be loaded in a worker process: {found.type}: {found.message}"
        channel.write(said)
        return Scorer("", partial(_refuse, said), pure=True)
    channel.write(None)
    return evaluator


def _awaited(evaluators: list[Scorer]) -> list[Scorer]:
    """The evaluators; those that are asynchronous run in one event loop, which they may share clients in."""
    loop = LoopThread("evaluators")

    def run(evaluator: Scorer, **arguments: object) -> Outcome:
        return loop.submit(call_async(evaluator, arguments)).result()

    return [Scorer(e.name, partial(run, e), pure=True) if is_async(e.function) else e for e in evaluators]


def _refuse(said: str, **arguments: object) -> NoReturn:
    raise ImportError(said)


def main() -> None:
    """Serve batches until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what ends
    channel = _Channel(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    # The pipes hold frames: what an evaluator prints goes to standard error, and it reads nothing.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    channel.write(None)
    frame = channel.read()
    if frame is None:
        return
    setup: Setup = pickle.loads(frame[1])  # noqa: S301 - from our own parent
    sys.path[:] = setup.path
    evaluators = [_load(each, channel) for each in setup.evaluators]
    if any(is_async(evaluator.function) for evaluator in evaluators):
        evaluators = _awaited(evaluators)
    server = _Server(channel, evaluators, setup.threads)
    threading.Thread(target=server.read, daemon=True).start()
    server.serve()


if __name__ == "__main__":
    main()
