"""A plain function as a target: columns come in as keywords, what it returns becomes columns."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import partial

from tunecheck._errors import TimedOutError
from tunecheck._fingerprints import fingerprint
from tunecheck._json import JSON
from tunecheck._loops import LateError, Threads, UserLoop
from tunecheck._targets import CallContext, Row, Target, TargetOutput
from tunecheck.pipeline._mapping import Binder, Mapped, Signature, is_async, make_binder, read_signature
from tunecheck.pipeline._scoring import private_copies


class CallableTarget(Target):
    """Calls `function(**columns)` for each row: the columns that its parameters name, all of them for `**kwargs`.

    A dict or a dataclass that it returns becomes columns; any other value becomes the column `response`. A synchronous
    function runs in threads, `concurrency` of them at once, what is to be awaited in `loop`; a call that takes longer
    than `limit_s` is left behind there.
    """

    def __init__(
        self, function: Callable[..., object], mapping: Mapping[str, Mapped], concurrency: int, limit_s: float
    ) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        self.signature: Signature = read_signature(function, "the target")
        self._function = function
        self._bind: Binder = make_binder(self.signature, mapping, "the target")
        self._limit_s = limit_s
        self._threads = None if is_async(function) else Threads(concurrency, "target")
        self.loop = UserLoop()
        """For the run's evaluators as well, which may share a client with the function; closed by the run."""

    def _arguments(self, row: Row) -> dict[str, object]:
        return self._bind(row.values, {})

    def inputs(self, row: Row) -> JSON:
        """The columns it is called with."""
        return self._arguments(row)  # type: ignore[return-value]

    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        """Call the function on a row."""
        function = partial(self._function, **private_copies(self._arguments(row)))
        ready = []
        try:
            if self._threads is not None:
                value = await self._threads.call(function, self._limit_s)
                if not inspect.isawaitable(value):
                    return _columns(value)
                ready.append(value)
            called = self.loop.call("the target", lambda: ready.pop() if ready else function(), self._limit_s)
            return _columns(await called)
        except LateError as late:
            raise TimedOutError(f"target {self.name!r} {late}") from None

    def fingerprint(self) -> str | None:
        """The function's own fingerprint."""
        return fingerprint(self._function)

    def describe(self) -> dict[str, JSON]:
        """What kind of target it is and what it is called."""
        return {"kind": "function", "name": self.name}

    async def close(self) -> None:
        """Let the threads go."""
        if self._threads is not None:
            self._threads.shutdown()


def _columns(value: object) -> TargetOutput:
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return {"response": value}
