"""A user's function in a process of its own, for the endpoint kind `python`: both sides of the process.

The process runs this module, too, which imports little, so that the first call need not wait long.

The process is started on the first call and replaced when it dies. Then each call in flight is repeated alone in a new
process, so that only the call that kills a process fails. If a call exceeds its time limit, the process gets a ping. If
it answers within 3 seconds, only this call fails. Else some call blocks the interpreter: the process is killed, and
each call in flight is repeated alone.
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
from pathlib import Path
from types import ModuleType

import msgspec

from tunecheck import _errors as errors, plugins
from tunecheck._json import plain
from tunecheck._loops import LateError, LoopThread
from tunecheck._worker_process import Pipes, ProcessEndedError, WorkerProcess


class FunctionPlace(msgspec.Struct, frozen=True):
    """The place of a function: a module or a file, the function's name, and Python's search path."""

    module: str
    file: Path | None
    name: str
    search_path: list[str]

    def load(self) -> Callable[..., object]:
        """Set the search path and return the function. Called once in a new process."""
        sys.path[:] = self.search_path
        function: Callable[..., object] = getattr(self.load_module(), self.name)
        return function

    def load_module(self) -> ModuleType:
        """Import the module or the file that contains the function; FileNotFoundError if there is no such file."""
        if self.file is None:
            return importlib.import_module(self.module)
        if not self.file.is_file():
            raise FileNotFoundError(f"the file {self.file} does not exist: correct the key `function`")
        return plugins.load_file(self.file, self.module)


_PATIENCE_S = 3.0
"""After a timeout, the process is killed unless it answers a ping within this time."""


class FunctionProcess:
    """Calls a function in another process, with many concurrent calls."""

    def __init__(self, reference: str, place: FunctionPlace, most: int) -> None:
        """Start nothing yet. `reference` names the function in errors, `place` is where a process imports it from.

        Callers enter `slots` for a call, so that at most `most` calls run at once.
        """
        self.slots = asyncio.Semaphore(most)
        self._reference = reference
        self._place = place
        self._shared: WorkerProcess | None = None
        # One guards the start of the shared process, the other lets one call at a time run alone.
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
            return _result_of(await _ask(self._shared, body, limit_s))
        except ProcessEndedError:  # this call or another one ended the process
            return await self._call_alone(body, limit_s)

    async def _call_alone(self, body: bytes, limit_s: float) -> object:
        """Repeat a call in a process of its own, so that only the call that ends its process fails.

        Raises:
            WorkerDied, LateError: the call ended this process, too, or took too long.
        """
        async with self._alone:
            process = await self._start()
            started = time.monotonic()
            try:
                return _result_of(await _ask(process, body, limit_s))
            except ProcessEndedError:
                # `_ask` kills a process that blocks its interpreter; that is a late call, not a crash.
                if time.monotonic() - started >= limit_s:
                    raise LateError.after(limit_s) from None
                raise await self._died(process) from None
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
            raise await self._died(process) from None
        return process

    async def _died(self, process: WorkerProcess) -> errors.WorkerDied:
        return errors.WorkerDied(f"{self._reference} ended its process: {await process.how_it_ended()}")

    async def close(self) -> None:
        """End the process."""
        if self._shared is not None:
            self._shared.kill()
            await self._shared.close()
            self._shared = None


async def _ask(process: WorkerProcess, body: bytes, limit_s: float) -> object:
    """Send a call to the process and return its reply. Kill the process if the call blocks its interpreter.

    `body` holds the pickled arguments, `limit_s` is the call's time limit in seconds.

    Raises:
        LateError: only this call took too long.
        ProcessEndedError: the process ended or was killed.
    """
    with contextlib.suppress(TimeoutError):
        return await asyncio.wait_for(process.ask(body), limit_s)

    # The ping shows whether the process still runs Python code: pickle(None) is answered at once.
    try:
        await asyncio.wait_for(process.ask(pickle.dumps(None)), _PATIENCE_S)
    except TimeoutError:
        process.kill()
        raise ProcessEndedError from None

    raise LateError.after(limit_s)


def _result_of(reply: object) -> object:
    """Return the function's result in a reply of its process; raise the error if the reply is an exception."""
    if isinstance(reply, Exception):
        raise reply
    return reply


class FunctionError(Exception):
    """The type and text of an error that a function raised in its process."""


# -- the process of an endpoint of kind `python`: `python -m tunecheck.endpoints._function_process`


def main() -> None:
    """Load the function that the parent's first request names, then call the function for each further request.

    Each call has a thread of its own, so that calls do not wait for each other. The process ends when the parent closes
    the pipe, without waiting for calls in progress.
    """
    pipes = Pipes()
    requests = pipes.requests()
    number, body = next(requests)
    place: FunctionPlace = pickle.loads(body)  # noqa: S301 - from the parent process
    function, loop = place.load(), LoopThread("tunecheck-function")
    pipes.reply(number, None)

    for number, body in requests:
        threading.Thread(target=_reply_to, args=(function, loop, pipes, number, body), daemon=True).start()
    os._exit(0)


def _reply_to(function: Callable[..., object], loop: LoopThread, pipes: Pipes, number: int, body: bytes) -> None:
    """Call the function in this thread, await a coroutine in the loop, and reply with the result or error.

    `number` is that of the request. `body` holds the pickled arguments, or None in a ping: the reply is then None.
    """
    arguments: dict[str, object] | None = pickle.loads(body)  # noqa: S301 - from the parent process

    try:
        value: object = None if arguments is None else function(**arguments)
        if inspect.isawaitable(value):
            value = loop.submit(_await_value(value)).result()
        # If the function made a Completion, it has loaded this module; to load it here would delay the first call.
        base = sys.modules.get("tunecheck.endpoints._base")
        reply: object = value if base is not None and isinstance(value, base.Completion) else plain(value)
    except Exception as error:  # noqa: BLE001 - a user's function may raise anything
        # A user's exception might not survive pickling, so only its type and text are sent.
        is_tunecheck_error = isinstance(error, errors.TunecheckError)
        reply = error if is_tunecheck_error else FunctionError(f"{type(error).__name__}: {error}")

    pipes.reply(number, reply)


async def _await_value(value: Awaitable[object]) -> object:
    return await value


if __name__ == "__main__":  # so that pickles name the classes of this module, not of `__main__`
    importlib.import_module("tunecheck.endpoints._function_process").main()
