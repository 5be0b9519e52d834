"""A Python function as an endpoint: `function: module:name` or `function: file.py:name`.

The function runs with the user's rights. So only a definition that the user passes can name it, never data or a
model's answer. Runs call it in a separate process, which is started on the first call and replaced when it dies. Then
each call in flight is repeated alone in a new process, so that only the call that kills a process fails.

A call that exceeds its time limit:

* In this process, a sync function keeps its thread, and a coroutine is cancelled (`_loops`).
* In a separate process, the process gets a ping. If it answers within 3 seconds, only this call fails. Else some call
  blocks the interpreter: the process is killed, and each call in flight is repeated alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import importlib
import inspect
import os
import pickle
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import msgspec

from tunecheck import _errors as errors
from tunecheck._json import JSON, plain
from tunecheck._loops import LateError, LoopThread, PerLoop, Threads, UserLoop
from tunecheck._worker_process import Pipes, ProcessEndedError, WorkerProcess
from tunecheck.endpoints import _base as base
from tunecheck.endpoints._answers import FilteredError, read_answer
from tunecheck.endpoints._limits import Clock
from tunecheck.endpoints._masking import Redactor
from tunecheck.plugins import load_file

# The arguments that a function may accept.
_ARGUMENTS = ("messages", "tools", "parameters")


class PythonConfig(base.EndpointConfig, frozen=True, kw_only=True):
    """A definition of kind `python`."""

    function: base.Text
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 600.0
    limits: base.ConcurrencyLimit = base.ConcurrencyLimit()


class PythonEndpoint(base.Endpoint):
    """Calls a function with the arguments `messages`, `tools` and `parameters`, as far as it accepts them.

    A run calls the function in a separate process, so that a crash only fails one call. Outside a run, or with
    `--workers 0`, it is called in this process. An async function runs in a separate event loop, a sync function in
    threads. The function returns a text, an OpenAI message (a dict), a list of tool calls, or a Completion. `timeout_s`
    limits the wait; a sync function continues in its thread after a timeout.
    """

    kind = "python"
    config_type = PythonConfig

    def __init__(self, definition: base.Definition) -> None:
        """Check the definition and import the function, which runs the user's module.

        Raises:
            ConfigurationError: the definition is wrong, or the function cannot be imported.
        """
        config = definition.read(PythonConfig)
        self.name = definition.name
        self._reference = config.function
        self._place = _function_place(self._reference, definition)
        self._function, self._source = _load_function(self._place, definition)

        self._accepted = _accepted_parameters(self._function)
        self._parameters: dict[str, JSON] = config.parameters
        self._timeout_s = config.timeout_s
        self.concurrency = config.limits.concurrency

        self._clock = Clock()
        self._redactor = Redactor()
        self._states: PerLoop[_PythonState] = PerLoop()
        self._isolated = False
        self._data = dict(definition.data)

    async def complete(self, request: base.ChatRequest) -> base.Completion:
        """Call the function and return its answer.

        A timeout raises TimedOutError. Tunecheck's own errors stay, and any other error becomes an EndpointError.
        """
        state = self._states.here(self._new_state)

        async with state.semaphore:
            started = self._clock.now()
            try:
                value = await self._call(request, state)
            except LateError as late:
                raise errors.TimedOutError(f"{self._reference} (timeout_s: {self._timeout_s:g}): {late}") from None
            except errors.TunecheckError:
                raise
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything: this row's error
                raised = str(error) if isinstance(error, FunctionError) else f"{type(error).__name__}: {error}"
                text = f"{self._reference} raised {raised}"
                raise errors.EndpointError(self._redactor.text(" ".join(text.split()))) from error
            return self._completion(value, (self._clock.now() - started) * 1000)

    def isolate(self) -> None:
        self._isolated = True

    def settings(self) -> dict[str, JSON]:
        return {**self._data, "kind": self.kind}

    def hide(self, secrets: Redactor) -> None:
        self._redactor.learn(secrets)

    def answer_settings(self) -> dict[str, JSON]:
        """Return the function's name, a hash of its source, and the parameters."""
        return {"kind": self.kind, "function": self._reference, "source": self._source, "parameters": self._parameters}

    async def close(self) -> None:
        """End the threads, event loop and process of the running loop. A later call starts new ones."""
        state = self._states.take()
        if state is not None:
            state.threads.shutdown()
            await state.loop.close()
            await state.process.close()

    def _new_state(self) -> _PythonState:
        """Return threads, an event loop and a process for calls from the current event loop."""
        concurrency = self.concurrency or 1
        # A separate pool, because the default pool may have fewer threads than `concurrency`.
        threads, process = Threads(concurrency, f"tunecheck-{self.name}"), FunctionProcess(self._reference, self._place)
        return _PythonState(asyncio.Semaphore(concurrency), threads, UserLoop(), process)

    async def _call(self, request: base.ChatRequest, state: _PythonState) -> object:
        """Call the function in a separate process if isolated, else in a thread. Await the result if necessary.

        Raises:
            LateError: the function takes longer than the timeout.
        """
        values: dict[str, object] = {
            "messages": [dict(message) for message in request.messages],
            "tools": None if request.tools is None else [dict(tool) for tool in request.tools],
            "parameters": {**self._parameters, **request.parameters},
        }

        arguments = {name: values[name] for name in self._accepted}

        if self._isolated:
            return await state.process.call(arguments, self._timeout_s)

        call = functools.partial(self._function, **arguments)
        return await state.loop.call(self._reference, call, self._timeout_s, state.threads)

    def _completion(self, value: object, latency_ms: float) -> base.Completion:
        """Return the function's result as a completion, with secrets masked.

        Raises:
            ContentFilterError: the result is an answer that a content filter stopped.
            ReplyError: the result is no answer.
        """
        try:
            if isinstance(value, base.Completion):
                return base.mask_answer(value, self._redactor)

            # A Completion of the function has its own latency; any other result gets the measured one.
            return replace(base.mask_answer(read_answer(plain(value)), self._redactor), latency_ms=latency_ms)
        except FilteredError as error:
            raise errors.ContentFilterError(f"{self._reference}: {error}") from None
        except (ValueError, TypeError) as error:
            reason = self._redactor.text(str(error))
            raise errors.ReplyError(f"{self._reference} returned a value that is not an answer: {reason}") from None


@dataclass(frozen=True, slots=True)
class _PythonState:
    """The resources of one event loop: sync functions run in `threads`, async functions in `loop`."""

    semaphore: asyncio.Semaphore
    threads: Threads
    loop: UserLoop
    process: FunctionProcess


def _function_place(reference: str, definition: base.Definition) -> FunctionPlace:
    """Return the module or file, and the name, of the function `module:function` or `file.py:function`.

    A file is searched from the folder of the definition.

    Raises:
        ConfigurationError: the reference has another form.
    """
    module, _, name = reference.rpartition(":")
    if not module or not name.isidentifier():
        problem = f"{reference!r} names no function: write module:function or file.py:function"
        raise definition.at("function").error(problem)

    if not module.endswith(".py"):
        return FunctionPlace(module, None, name, list(sys.path))

    file = (definition.folder / module).expanduser().resolve()

    # The hash of the path keeps the modules of two files with the same name apart.
    tag = hashlib.blake2b(str(file).encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    return FunctionPlace(f"tunecheck_endpoint_{file.stem}_{tag}", file, name, list(sys.path))


def _load_function(place: FunctionPlace, definition: base.Definition) -> tuple[Callable[..., object], str]:
    """Import the function. Return the function and a hash of its source file.

    Raises:
        PluginError: the import failed.
        ConfigurationError: the module has no function of that name.
    """
    key_place, label = definition.at("function"), place.file.name if place.file else place.module
    try:
        module = place.load_module()
    except Exception as error:  # noqa: BLE001 - importing runs the user's code
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == label.partition(".")[0]
        hint = f" (if it is a file next to the definition, write {label}.py:{place.name})" if is_missing else ""
        problem = f"{label} does not load: {type(error).__name__}: {error}{hint}"
        raise errors.PluginError(str(key_place.error(problem))) from error

    function = getattr(module, place.name, None)
    if not callable(function):
        raise key_place.error(f"the module {label} has no function {place.name}: correct the name")

    file = getattr(module, "__file__", None)
    source = hashlib.blake2b(Path(file).read_bytes() if file else b"", digest_size=8).hexdigest()
    return function, source


def _accepted_parameters(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names in `_ARGUMENTS` that the function accepts as arguments.

    Return all names if the function takes `**kwargs` or has no readable signature.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return _ARGUMENTS

    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return _ARGUMENTS
    return tuple(name for name in _ARGUMENTS if name in parameters)


# -- the function in a separate process


@dataclass(frozen=True, slots=True)
class FunctionPlace:
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
        process = await WorkerProcess.start("tunecheck.endpoints._python")
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


# -- the process of an endpoint of kind `python`: `python -m tunecheck.endpoints._python`


def main() -> None:
    """Answer the requests from the parent process: load the function that the first one names, then call it for each.

    Each call has a thread of its own, so that calls do not wait for each other. The process ends when the parent closes
    the pipe, without waiting for calls in progress.
    """
    pipes = Pipes()
    common: tuple[Callable[..., object], LoopThread, Pipes] | None = None
    for number, body in pipes.requests():
        if common is None:
            place: FunctionPlace = pickle.loads(body)  # noqa: S301 - from the parent process
            common = place.load(), LoopThread("tunecheck-function"), pipes
            pipes.reply(number, None)
        else:
            threading.Thread(target=_reply_to, args=(*common, number, body), daemon=True).start()
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
        reply: object = value if isinstance(value, base.Completion) else plain(value)
    except Exception as error:  # noqa: BLE001 - a user's function may raise anything
        # A user's exception might not survive pickling, so only its type and text are sent.
        is_tunecheck_error = isinstance(error, errors.TunecheckError)
        reply = error if is_tunecheck_error else FunctionError(f"{type(error).__name__}: {error}")

    pipes.reply(number, reply)


async def _await_value(value: Awaitable[object]) -> object:
    return await value


if __name__ == "__main__":  # so that pickles name the classes of this module, not of `__main__`
    importlib.import_module("tunecheck.endpoints._python").main()
