"""A user's function in a process of its own, seen from the run: started on the first call, replaced when it dies.

A call is blamed for the death of a process only if nothing else ran there: calls that were in flight beside others are
made again, one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import pickle
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import cast

from tunecheck._errors import TunecheckError, WorkerDied
from tunecheck._loops import LateError
from tunecheck._messages import how_it_ended
from tunecheck.plugins import load_file

HEADER = struct.Struct(">QQ")


@dataclass(frozen=True, slots=True)
class FunctionPlace:
    """Where a function stands: a module's name or a file, and what Python's path is."""

    module: str
    file: Path | None
    name: str
    path: list[str]

    def load(self) -> Callable[..., object]:
        """Return the function, in a process that has loaded nothing of the user's yet."""
        sys.path[:] = self.path
        function: Callable[..., object] = getattr(self.load_module(), self.name)
        return function

    def load_module(self) -> ModuleType:
        """Import the module, or run the file, that holds the function."""
        if self.file is None:
            return importlib.import_module(self.module)
        if not self.file.is_file():
            raise FileNotFoundError(f"no such file: {self.file}")
        return load_file(self.file, self.module)


@dataclass(frozen=True, slots=True)
class Raised:
    """What a function raised: an error of ours as it is, another one as its type and text."""

    error: TunecheckError | None
    text: str


_PATIENCE_S = 5.0
"""How long a process may take to show a sign of life when a call has taken too long."""


class _ProcessEndedError(Exception):
    """The process ended while it worked on a call; `alone`: on nothing else."""

    def __init__(self, how: str, alone: bool) -> None:
        super().__init__(how)
        self.how, self.alone = how, alone


class FunctionProcess:
    """Calls a function in another process, many calls at once."""

    def __init__(self, reference: str, place: FunctionPlace) -> None:
        self._reference = reference
        self._place = place
        self._shared: _Process | None = None
        self._starting, self._alone = asyncio.Lock(), asyncio.Lock()

    async def call(self, arguments: Mapping[str, object], limit_s: float) -> object:
        """Return what the function returns.

        Raises:
            WorkerDied: the call ended its process.
            LateError: it took longer than `limit_s` seconds.
            TunecheckError, RuntimeError: what the function raised; an error that is not ours as its type and text.
        """
        body = pickle.dumps(dict(arguments), protocol=pickle.HIGHEST_PROTOCOL)
        try:
            async with self._starting:
                if self._shared is None or self._shared.ended:
                    self._shared = await _Process.start(self._place)
            try:
                return _value(await self._shared.call(body, limit_s))
            except _ProcessEndedError as ended:
                if ended.alone:
                    raise
            return await self._call_alone(body, limit_s)
        except _ProcessEndedError as ended:
            raise WorkerDied(f"{self._reference} ended its process: {ended.how}") from None

    async def _call_alone(self, body: bytes, limit_s: float) -> object:
        async with self._alone:
            process = await _Process.start(self._place)
            try:
                return _value(await process.call(body, limit_s))
            finally:
                await process.close()

    async def close(self) -> None:
        """End the process."""
        if self._shared is not None:
            await self._shared.close()
            self._shared = None


def _value(reply: object) -> object:
    if isinstance(reply, Raised):
        raise reply.error if reply.error is not None else FunctionError(reply.text)
    return reply


class FunctionError(Exception):
    """An error that a function raised in its process, as its type and text."""


class _Process:
    """One process, and the calls in flight there."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._number = 0
        self._waiting: dict[int, asyncio.Future[object]] = {}
        self._reader = asyncio.create_task(self._read())
        self.ended = False
        self._killed = False
        self._calls = 0

    @classmethod
    async def start(cls, place: FunctionPlace) -> _Process:
        command = [sys.executable, "-m", "tunecheck.endpoints._python_process"]
        pipe = asyncio.subprocess.PIPE
        made = cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe))
        await made._send(pickle.dumps(place))
        await made._send(pickle.dumps(None), answered=True)  # the function is loaded: limits count from here
        return made

    async def call(self, body: bytes, limit_s: float) -> object:
        self._calls += 1
        try:
            return await asyncio.wait_for(self._send(body, answered=True), limit_s)
        except TimeoutError:
            alone = self._calls == 1
            if not await self._lives():
                self._kill()  # some call keeps the interpreter, and with it the other calls
                if not alone:
                    raise _ProcessEndedError("no sign of life", alone=False) from None
            raise LateError(f"took longer than {limit_s:g} s") from None
        finally:
            self._calls -= 1

    async def _lives(self) -> bool:
        try:
            await asyncio.wait_for(self._send(pickle.dumps(None), answered=True), _PATIENCE_S)
        except (TimeoutError, _ProcessEndedError):
            return False
        return True

    async def _send(self, body: bytes, *, answered: bool = False) -> object:
        if self.ended:
            raise _ProcessEndedError("it had ended", alone=False)
        self._number += 1
        number, answer = self._number, asyncio.get_running_loop().create_future()
        if answered:
            self._waiting[number] = answer
        assert self._process.stdin is not None
        try:
            with contextlib.suppress(ConnectionError):  # the reader sees the end, too
                self._process.stdin.write(HEADER.pack(len(body), number) + body)
                await self._process.stdin.drain()
            return await answer if answered else None
        finally:
            self._waiting.pop(number, None)

    async def _read(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                length, number = HEADER.unpack(await pipe.readexactly(HEADER.size))
                value = cast("object", pickle.loads(await pipe.readexactly(length)))  # noqa: S301 - from our own child
                answer = self._waiting.get(number)
                if answer is not None and not answer.done():
                    answer.set_result(value)
        self.ended = True
        how = how_it_ended(await self._process.wait())
        error = _ProcessEndedError(how, alone=len(self._waiting) == 1 and not self._killed)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)

    def _kill(self) -> None:
        self._killed = True
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        self._kill()
        await self._reader
