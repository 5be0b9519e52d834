"""A Python function as an endpoint: `function: module:name` or `function: file.py:name`.

The function runs with the user's rights. So only a definition that the user passes can name it, never data or a
model's answer. It is called in a separate process (`_function_process`).
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import msgspec

from tunecheck import _errors as errors
from tunecheck._json import JSON, plain
from tunecheck._loops import LateError, PerLoop
from tunecheck.endpoints import _base as base
from tunecheck.endpoints._answers import FilteredError, read_answer
from tunecheck.endpoints._function_process import FunctionError, FunctionPlace, FunctionProcess
from tunecheck.endpoints._masking import Redactor

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

    The function is called in a separate process, so that a crash only fails one call: an async function in an event
    loop, a sync function in threads. It returns a text, an OpenAI message (a dict), a list of tool calls, or a
    Completion. `timeout_s` limits the wait; a sync function continues in its thread after a timeout.
    """

    kind = "python"
    config_type = PythonConfig

    def __init__(self, definition: base.Definition) -> None:
        """Check the definition and import the function, which runs the user's module in this process, too.

        Raises:
            ConfigurationError: the definition is wrong, or the function cannot be imported.
        """
        config = definition.read(PythonConfig)
        self.name = definition.name
        self._reference = config.function
        self._place = _function_place(self._reference, definition)
        function, self._source = _load_function(self._place, definition)

        self._accepted = _accepted_parameters(function)
        self._parameters: dict[str, JSON] = config.parameters
        self._timeout_s = config.timeout_s
        self.concurrency = config.limits.concurrency

        self._redactor = Redactor()
        self._processes: PerLoop[FunctionProcess] = PerLoop()
        self._data = dict(definition.data)

    async def complete(self, request: base.ChatRequest) -> base.Completion:
        """Call the function and return its answer.

        A timeout raises TimedOutError. Tunecheck's own errors stay, and any other error becomes an EndpointError.
        """
        process = self._processes.here(self._new_process)
        values: dict[str, object] = {
            "messages": [dict(message) for message in request.messages],
            "tools": None if request.tools is None else [dict(tool) for tool in request.tools],
            "parameters": {**self._parameters, **request.parameters},
        }

        async with process.slots:
            started = time.monotonic()
            try:
                value = await process.call({name: values[name] for name in self._accepted}, self._timeout_s)
            except LateError as late:
                raise errors.TimedOutError(f"{self._reference} (timeout_s: {self._timeout_s:g}): {late}") from None
            except FunctionError as error:
                text = f"{self._reference} raised {error}"
                raise errors.EndpointError(self._redactor.text(" ".join(text.split()))) from None
            return self._completion(value, (time.monotonic() - started) * 1000)

    def settings(self) -> dict[str, JSON]:
        return {**self._data, "kind": self.kind}

    def hide(self, secrets: Redactor) -> None:
        self._redactor.learn(secrets)

    def answer_settings(self) -> dict[str, JSON]:
        """Return the function's name, a hash of its source, and the parameters."""
        return {"kind": self.kind, "function": self._reference, "source": self._source, "parameters": self._parameters}

    async def close(self) -> None:
        """End the process of the running loop. A later call starts a new one."""
        process = self._processes.take()
        if process is not None:
            await process.close()

    def _new_process(self) -> FunctionProcess:
        return FunctionProcess(self._reference, self._place, self.concurrency or 1)

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


def _function_place(reference: str, definition: base.Definition) -> FunctionPlace:
    """Return the module or file, and the name, of the function `module:function` or `file.py:function`.

    The path of a file is relative to the definition's folder; `~` is the home folder.

    Raises:
        ConfigurationError: the reference has another form.
    """
    module, _, name = reference.rpartition(":")
    if not module or not name.isidentifier():
        problem = f"{reference!r} names no function: write module:function or file.py:function"
        raise definition.at("function").error(problem)

    if not module.endswith(".py"):
        return FunctionPlace(module, None, name, list(sys.path))

    file = definition.file(module).resolve()

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
    return function, base.source_hash(module)


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
