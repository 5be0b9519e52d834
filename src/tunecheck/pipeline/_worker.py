"""A worker process: `python -m tunecheck.pipeline._worker`, which runs evaluators on batches that come by a pipe.

Frames are a length (8 bytes, big-endian) and a pickle; both ends are this package, and the pipe is private to them.
The first frame is a Setup, answered by what it could not load; each further one is a batch, answered by its outcomes.
The process ends when its input does, so it cannot outlive the run.
"""

import contextlib
import os
import pickle
import signal
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tunecheck._plugins import load_file
from tunecheck.pipeline._lanes import Spent, run_batch
from tunecheck.pipeline._scoring import Scorer

HEADER = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker needs before its first batch: where modules are found, workspace files, and evaluators by name."""

    path: list[str]
    modules: list[tuple[str, str]]
    evaluators: dict[str, bytes]


def _read_frame(pipe: BinaryIO) -> bytes | None:
    header = pipe.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (length,) = HEADER.unpack(header)
    body = pipe.read(length)
    return body if len(body) == length else None


def _write_frame(pipe: BinaryIO, value: object) -> None:
    body = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(HEADER.pack(len(body)) + body)
    pipe.flush()


def _load_evaluators(setup: Setup) -> tuple[list[Scorer], dict[str, str]]:
    """The evaluators, and those that cannot be loaded here, each with the reason."""
    sys.path[:] = setup.path
    problems: dict[str, str] = {}
    evaluators: list[Scorer] = []
    for name, file in setup.modules:
        with contextlib.suppress(BaseException):  # the evaluators that need it say so
            load_file(Path(file), name)
    for name, pickled in setup.evaluators.items():
        try:
            evaluators.append(pickle.loads(pickled))  # noqa: S301 - from our own parent
        except BaseException as error:  # noqa: BLE001 - somebody's module may raise anything when it is imported
            problems[name] = f"{type(error).__name__}: {error}"
    return evaluators, problems


def main() -> None:
    """Serve batches until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what ends
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # The pipes hold frames: what an evaluator prints goes to standard error, and it reads nothing.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    frame = _read_frame(requests)
    if frame is None:
        return
    evaluators, problems = _load_evaluators(pickle.loads(frame))  # noqa: S301 - from our own parent
    try:
        _write_frame(replies, problems)
        while (frame := _read_frame(requests)) is not None:
            wall, cpu = time.perf_counter(), time.process_time()
            outcomes = run_batch(evaluators, pickle.loads(frame))  # noqa: S301 - from our own parent
            _write_frame(replies, (outcomes, Spent(time.perf_counter() - wall, time.process_time() - cpu)))
    except BrokenPipeError:  # the run was killed: nobody is left to answer, not even at exit
        os._exit(0)


if __name__ == "__main__":
    main()
