"""A plain function as a target: columns come in as keywords, what it returns becomes columns."""

import asyncio
import dataclasses
import inspect
from collections.abc import Callable, Mapping

from tunecheck._fingerprints import fingerprint
from tunecheck._json import JSON
from tunecheck._targets import CallContext, Row, Target, TargetOutput
from tunecheck.pipeline._lanes import Threads
from tunecheck.pipeline._mapping import Binder, Mapped, Signature, is_async, make_binder, read_signature
from tunecheck.pipeline._scoring import private_copies


class CallableTarget(Target):
    """Calls `function(**columns)` for each row: the columns that its parameters name, all of them for `**kwargs`.

    A dict or a dataclass that it returns becomes columns; any other value becomes the column `response`. A synchronous
    function runs in threads, `concurrency` of them at once.
    """

    def __init__(self, function: Callable[..., object], mapping: Mapping[str, Mapped], concurrency: int) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        self.signature: Signature = read_signature(function, "the target")
        self._function = function
        self._bind: Binder = make_binder(self.signature, mapping, "the target")
        self._pool = None if is_async(function) else Threads(concurrency, "target")

    def _arguments(self, row: Row) -> dict[str, object]:
        arguments = self._bind(row.values, {})
        return {**row.values, **arguments} if self.signature.takes_any else arguments

    def inputs(self, row: Row) -> JSON:
        """The columns it is called with."""
        return self._arguments(row)  # type: ignore[return-value]

    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        """Call the function on a row."""
        arguments = private_copies(self._arguments(row))
        if self._pool is None:
            value = self._function(**arguments)
        else:

            def call() -> object:
                try:
                    return self._function(**arguments)
                except StopIteration as error:  # which no future can hold: whoever awaits it would wait for ever
                    raise RuntimeError(f"StopIteration: {error}") from error

            value = await asyncio.get_running_loop().run_in_executor(self._pool, call)
        return _columns(await value if inspect.isawaitable(value) else value)

    def fingerprint(self) -> str | None:
        """The function's own fingerprint."""
        return fingerprint(self._function)

    def describe(self) -> dict[str, JSON]:
        """What kind of target it is and what it is called."""
        return {"kind": "function", "name": self.name}

    async def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown()


def _columns(value: object) -> TargetOutput:
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return {"response": value}
