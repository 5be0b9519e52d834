"""A Python process that answers numbered requests concurrently: the parent's side and the process's own side.

A frame is a length and a number (8 bytes each, big-endian) and a pickle. Both ends run this module.

The process's standard input and output are its pipes. User code in it must not disturb them, so `Pipes` moves them to
other descriptors and gives user code an empty input and standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import pickle
import signal
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from tunecheck._guarded_module import PATIENCE_S
from tunecheck._messages import disable_log_commands, how_it_ended

# The length of the pickle, and the number of the request.
_HEADER = struct.Struct(">QQ")

_BUFFER = 1 << 22
"""Bytes of replies that the parent buffers."""

_LONGEST = 1 << 36
"""Maximum size of a reply in bytes; a frame that claims more was not written by `Pipes`."""


class ProcessEndedError(Exception):
    """The process ended before it answered a request."""


class WorkerProcess:
    """A process that runs a module and ends with this one; the module reads its requests through `Pipes`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Start reading the replies of a started process; needs a running event loop."""
        self._process = process
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[object]] = {}
        self._reader = asyncio.create_task(self._read())
        self.ended = False

    @classmethod
    async def start(cls, module: str) -> Self:
        """Start a process that runs the module, with this package imported from the same place as here."""
        here, known = str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")

        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # the current folder may contain a module named like one of Python's
            "-m",
            "tunecheck._guarded_module",
            module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_BUFFER,
            start_new_session=True,  # signals to the process group of one do not reach the other
            env=os.environ | {"PYTHONPATH": f"{here}{os.pathsep}{known}" if known else here},
        )
        return cls(process)

    @property
    def requests(self) -> int:
        """The number of requests that have no reply yet."""
        return len(self._waiting)

    async def ask(self, request: bytes) -> object:
        """Send a pickled request; return its reply.

        Raises:
            ProcessEndedError: the process ended, or user code wrote to its pipe.
        """
        if self.ended:
            raise ProcessEndedError

        number, pipe = next(self._numbers), self._process.stdin
        assert pipe is not None
        reply = self._waiting[number] = asyncio.get_running_loop().create_future()

        try:
            with contextlib.suppress(ConnectionError):  # _read notices the end, too, and fails all waiting requests
                pipe.write(_HEADER.pack(len(request), number) + request)
                await pipe.drain()
            return await reply
        finally:
            self._waiting.pop(number, None)

    async def _read(self) -> None:
        """Pass replies to waiting callers until the process ends or sends nonsense; then fail all requests."""
        pipe = self._process.stdout
        assert pipe is not None
        try:
            while True:
                length, number = _HEADER.unpack(await pipe.readexactly(_HEADER.size))
                if length > _LONGEST:
                    raise ValueError("user code wrote into the worker's reply pipe: write to standard output instead")
                value = pickle.loads(await pipe.readexactly(length))  # noqa: S301 - the worker process wrote it

                # A caller that was cancelled waits no more; its reply is dropped.
                if number in self._waiting and not self._waiting[number].done():
                    self._waiting[number].set_result(value)
        except asyncio.IncompleteReadError:  # the process is ending; its own exit code is more useful than our SIGKILL
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), PATIENCE_S)
            self.kill()
        except Exception:  # noqa: BLE001 - user code wrote to the pipe, and pickles may contain anything
            self.kill()

        self.ended = True
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(ProcessEndedError())

    def kill(self) -> None:
        """Kill the process and the processes that user code started in it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS raises this if all processes have ended
            os.killpg(self._process.pid, signal.SIGKILL)

    async def how_it_ended(self) -> str:
        """Wait for the process to end, kill it if it does not, and return its exit code or signal as text."""
        try:
            code = await asyncio.wait_for(self._process.wait(), PATIENCE_S)
        except TimeoutError:
            self.kill()
            code = await self._process.wait()
        return how_it_ended(code)

    async def close(self) -> None:
        """Close the process's input, and kill it if it does not end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self.how_it_ended()
        await self._reader


class Pipes:
    """A worker process's pipes to its parent.

    User code prints to standard error and reads an empty input. Forked children get no pipe.
    """

    def __init__(self) -> None:
        """Take over standard input and output as pipes."""
        self._requests, self._replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        self._lock = threading.Lock()

        # User code reads an empty input, and its output goes to standard error.
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

        disable_log_commands()
        os.register_at_fork(after_in_child=self._leave)

    def _leave(self) -> None:
        """Disconnect the pipes in a forked child, so that user code there cannot disturb them."""
        nothing = os.open(os.devnull, os.O_RDWR)
        for pipe in (self._requests, self._replies):
            os.dup2(nothing, pipe.fileno())

    def requests(self) -> Iterator[tuple[int, bytes]]:
        """Yield each request's number and pickled body until the parent ends or closes the pipe."""
        try:
            while len(header := self._requests.read(_HEADER.size)) == _HEADER.size:
                length, number = _HEADER.unpack(header)
                body = self._requests.read(length)
                if len(body) == length:
                    yield number, body
        except OSError:  # user code closed the pipe
            os._exit(1)

    def reply(self, number: int, value: object) -> None:
        """Send the pickled reply to a request; exit if the parent is gone."""
        body = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        with self._lock:
            try:
                self._replies.write(_HEADER.pack(len(body), number) + body)
                self._replies.flush()
            except OSError:  # the parent was killed, or user code closed the pipe
                os._exit(1)
