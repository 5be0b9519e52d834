"""A user's function as the target of a run: it takes columns as keywords and returns columns."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from tunecheck._errors import TimedOutError
from tunecheck._fingerprints import fingerprint
from tunecheck._json import JSON
from tunecheck._loops import LateError, Threads, UserLoop
from tunecheck._targets import CallContext, Row, Target, TargetOutput
from tunecheck.pipeline._mapping import Binder, Mapped, Signature, is_async, make_binder, read_signature
from tunecheck.pipeline._scoring import private_copies


class CallableTarget(Target):
    """Calls `function(**columns)` for each row with the columns of its parameters, or all columns for `**kwargs`.

    A returned dict or dataclass becomes columns; any other value becomes the column `response`. A synchronous function
    runs in up to `concurrency` threads, a coroutine function in `loop`. After `limit_s` seconds a call counts as timed
    out; its thread is not stopped.
    """

    def __init__(
        self, function: Callable[..., object], mapping: Mapping[str, Mapped], concurrency: int, limit_s: float
    ) -> None:
        """Read the function's parameters and prepare its threads; `limit_s` is the time limit of one call in seconds.

        Raises:
            ConfigurationError: the parameters cannot be read.
        """
        self.name = getattr(function, "__name__", type(function).__name__)
        self.signature: Signature = read_signature(function, "the target")
        self._function = function
        self._bind: Binder = make_binder(self.signature, mapping, "the target")
        self._limit_s = limit_s
        self._threads = None if is_async(function) else Threads(concurrency, "target")
        self.loop = UserLoop()
        """Event loop of the function and of evaluators' coroutines, which may share a client. The run closes it."""

    def inputs(self, row: Row) -> JSON:
        """Return the columns that the function is called with."""
        return self._bind(row.values, {})  # type: ignore[return-value]

    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        """Call the function on a row, in a thread or the user loop; return the columns of its answer.

        Raises:
            TimedOutError: the call took longer than the time limit.
            Exception: whatever the function raises.
        """
        function = partial(self._function, **private_copies(self._bind(row.values, {})))
        returned: list[Awaitable[object]] = []

        def begin() -> object:
            """Return the awaitable that a thread got from the function; if none is left, call the function."""
            return returned.pop() if returned else function()

        try:
            if self._threads is not None:
                value = await self._threads.call(function, self._limit_s)
                if not inspect.isawaitable(value):
                    return _columns(value)
                returned.append(value)
            # If another call blocks the loop, `begin` is called once more, and an awaitable can be awaited only once.
            return _columns(await self.loop.call("the target", begin, self._limit_s))
        except LateError as late:
            raise TimedOutError(f"target {self.name!r} {late}") from None

    def fingerprint(self) -> str | None:
        """Return the fingerprint of the function's code, or None if it has none."""
        return fingerprint(self._function)

    def describe(self) -> dict[str, JSON]:
        """Return the kind and name of the target."""
        return {"kind": "function", "name": self.name}

    async def close(self) -> None:
        """Shut the threads down."""
        if self._threads is not None:
            self._threads.shutdown()


def _columns(value: object) -> TargetOutput:
    """Return a target function's value as columns: a mapping or dataclass by key, any other value as `response`."""
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return {"response": value}
