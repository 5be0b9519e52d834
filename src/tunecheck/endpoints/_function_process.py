"""Calls of a user's function in a separate process, which is started on the first call and replaced when it dies.

If the process dies, each call in flight is repeated alone in a new process. So only the call that kills a process
fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import os
import pickle
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tunecheck._errors import TunecheckError, WorkerDied
from tunecheck._json import plain
from tunecheck._loops import LateError, LoopThread
from tunecheck._worker_process import Pipes, ProcessEndedError, WorkerProcess
from tunecheck.endpoints._base import Completion
from tunecheck.plugins import load_file


@dataclass(frozen=True, slots=True)
class FunctionPlace:
    """The place of a function: a module or a file, the function's name, and Python's search path."""

    module: str
    file: Path | None
    name: str
    path: list[str]

    def load(self) -> Callable[..., object]:
        """Set the search path and return the function. Called once in a new process."""
        sys.path[:] = self.path
        function: Callable[..., object] = getattr(self.load_module(), self.name)
        return function

    def load_module(self) -> ModuleType:
        """Import the module or the file that contains the function; FileNotFoundError if there is no such file."""
        if self.file is None:
            return importlib.import_module(self.module)
        if not self.file.is_file():
            raise FileNotFoundError(f"no such file: {self.file}")
        return load_file(self.file, self.module)


_PATIENCE_S = 3.0
"""After a timeout, the process is killed unless it answers a ping within this time."""


class FunctionProcess:
    """Calls a function in another process, with many concurrent calls."""

    def __init__(self, reference: str, place: FunctionPlace) -> None:
        """Start nothing yet. `reference` names the function in errors, `place` is where a process imports it from."""
        self._reference = reference
        self._place = place
        self._shared: WorkerProcess | None = None
        self._starting, self._alone = asyncio.Lock(), asyncio.Lock()

    async def call(self, arguments: Mapping[str, object], limit_s: float) -> object:
        """Call the function in the shared process, which is started if there is none, and return the result.

        Raises:
            WorkerDied: the call ended its process.
            LateError: the call took longer than `limit_s` seconds.
            TunecheckError, FunctionError: the error of the function; FunctionError holds the type and text of other
            errors.
        """
        body = pickle.dumps(dict(arguments), protocol=pickle.HIGHEST_PROTOCOL)
        async with self._starting:
            if self._shared is None or self._shared.ended:
                self._shared = await self._start()
        try:
            return _value(await _ask(self._shared, body, limit_s))
        except ProcessEndedError:  # this call or another one ended the process
            return await self._call_alone(body, limit_s)

    async def _call_alone(self, body: bytes, limit_s: float) -> object:
        """Repeat a call in a process of its own, so that only the call that ends its process fails.

        Raises:
            WorkerDied, LateError: the call ended this process, too, or took too long.
        """
        async with self._alone:
            process = await self._start()
            begun = time.monotonic()
            try:
                return _value(await _ask(process, body, limit_s))
            except ProcessEndedError:
                if time.monotonic() - begun >= limit_s:
                    raise LateError(f"took longer than {limit_s:g} s") from None
                raise WorkerDied(f"{self._reference} ended its process: {await process.how_it_ended()}") from None
            finally:
                process.kill()
                await process.close()

    async def _start(self) -> WorkerProcess:
        """Start a process and load the function in it.

        Raises:
            WorkerDied: the function cannot be loaded; any error of loading ends the process.
        """
        process = await WorkerProcess.start("tunecheck.endpoints._function_process")
        try:
            await process.ask(pickle.dumps(self._place))  # loads the function before the time limit starts
        except ProcessEndedError:
            raise WorkerDied(f"{self._reference} ended its process: {await process.how_it_ended()}") from None
        return process

    async def close(self) -> None:
        """End the process."""
        if self._shared is not None:
            self._shared.kill()
            await self._shared.close()
            self._shared = None


async def _ask(process: WorkerProcess, body: bytes, limit_s: float) -> object:
    """Send a call to the process and return its reply. Kill the process if the call blocks its interpreter.

    Raises:
        LateError: only this call took too long.
        ProcessEndedError: the process ended or was killed.
    """
    with contextlib.suppress(TimeoutError):
        return await asyncio.wait_for(process.ask(body), limit_s)
    try:
        await asyncio.wait_for(process.ask(pickle.dumps(None)), _PATIENCE_S)
    except TimeoutError:
        process.kill()
        raise ProcessEndedError from None
    raise LateError(f"took longer than {limit_s:g} s")


def _value(reply: object) -> object:
    """Raise a reply that is an exception, and return any other."""
    if isinstance(reply, Exception):
        raise reply
    return reply


class FunctionError(Exception):
    """The type and text of an error that a function raised in its process."""


# -- the process of an endpoint of kind `python`: `python -m tunecheck.endpoints._function_process`


def main() -> None:
    """Load the function that the first request names, then call it for each further one, in a thread."""
    pipes = Pipes()
    caller = None
    for number, body in pipes.requests():
        if caller is None:
            place: FunctionPlace = pickle.loads(body)  # noqa: S301 - from the parent process
            caller = _Caller(place.load(), pipes)
            pipes.reply(number, None)
        else:
            threading.Thread(target=caller.call, args=(number, body), daemon=True).start()
    os._exit(0)


class _Caller:
    """Calls the function in the caller's thread and awaits coroutines in one event loop."""

    def __init__(self, function: Callable[..., object], pipes: Pipes) -> None:
        self._function = function
        self._pipes = pipes
        self._loop = LoopThread("tunecheck-function")

    def call(self, number: int, body: bytes) -> None:
        """Call the function with a request's arguments and reply with its result or error; to a ping, reply None."""
        arguments: dict[str, object] | None = pickle.loads(body)  # noqa: S301 - from the parent process
        try:
            value: object = None if arguments is None else self._function(**arguments)
            if inspect.isawaitable(value):
                value = self._loop.submit(_await_value(value)).result()
            reply: object = value if isinstance(value, Completion) else plain(value)
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            own = isinstance(error, TunecheckError)
            reply = error if own else FunctionError(f"{type(error).__name__}: {error}")
        self._pipes.reply(number, reply)


async def _await_value(value: Awaitable[object]) -> object:
    return await value


if __name__ == "__main__":  # so that pickles name the classes of this module, not of `__main__`
    importlib.import_module("tunecheck.endpoints._function_process").main()
