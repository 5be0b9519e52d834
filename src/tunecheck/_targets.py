"""Rows and the targets that answer them."""

from __future__ import annotations

import functools
import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from tunecheck._errors import TimedOutError
from tunecheck._json import JSON, content_hash, whole_number
from tunecheck._loops import LateError, PerLoop, UserLoop, is_in_user_loop
from tunecheck._version import is_shipped

T = TypeVar("T")

TargetOutput = Mapping[str, object]
"""A target's answer: columns by name; evaluators read `response` by default."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a data set.

    `index` counts from 0 in the order of the source; `id` is the column `id` where that is unique, else
    `row-<line number>`; `values` holds the columns; `fingerprint` is a hash of the content.
    """

    index: int
    id: str
    values: Mapping[str, JSON]
    fingerprint: str


class Parts(Protocol):
    """Keeps the finished parts of one row's answer until the answer is finished."""

    def recall(self, part: str) -> JSON:
        """Return the value recorded for this part, or None."""
        ...

    def record(self, part: str, value: JSON) -> None:
        """Record the value of a part; it is safe when this returns."""
        ...


@dataclass(frozen=True, slots=True)
class CallsMade:
    """Calls to a model and their usage.

    The service counts the tokens; None if it never did. `asked` and `answered` are the characters sent and received in
    calls without such counts. `masked` counts replies that repeated a secret.
    """

    calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    asked: int = 0
    answered: int = 0
    masked: int = 0

    def plus(self, more: CallsMade) -> CallsMade:
        """Return the sum of both."""
        return CallsMade(*(_sum(getattr(self, name), getattr(more, name)) for name in self.__slots__))


def _sum(known: int | None, more: int | None) -> Any:  # noqa: ANN401 - None only of counts that may be unknown
    return known if more is None else (known or 0) + more


class CostTracker(Protocol):
    """Counts the cost of the calls to one endpoint, one by one, within the run's budget."""

    def one_call(self) -> AbstractAsyncContextManager[Callable[[CallsMade], None]]:
        """Around one call: waits for the budget; call what it gives with what the call took, if there was one.

        Raises:
            StopRunError: the budget is spent.
        """
        ...

    def record(self, made: CallsMade) -> None:
        """Count a call that was made before the run was cut off."""
        ...


class CostTracking(Protocol):
    """Counts the cost of the calls of a target that `tracks_each_call`."""

    def of_endpoint(self, name: str, endpoint: object, conversation: str) -> CostTracker:
        """Return the tracker of a conversation's calls to this endpoint.

        They are counted under `name`, which for answers is `target`.
        """
        ...


@dataclass(frozen=True, slots=True)
class EndpointUsage:
    """Calls to one endpoint that an answer took; `name` is what they are counted under."""

    name: str
    endpoint: object
    conversation: str
    made: CallsMade


@dataclass(frozen=True, slots=True)
class CallContext:
    """The context of a target's call in a run.

    `folder` is the run's own, where a target may keep files in a folder of its own, and `costs` counts calls one by
    one; None where there is no run.
    """

    run_id: str
    row_id: str
    input_hash: str
    parts: Parts | None = field(default=None, compare=False)
    folder: Path | None = field(default=None, compare=False)
    costs: CostTracking | None = field(default=None, compare=False)

    def recall(self, part: str) -> JSON:
        """Return the value that an earlier, cut-off attempt recorded for a part of this answer, or None."""
        return self.parts.recall(part) if self.parts is not None else None

    def record(self, part: str, value: JSON) -> None:
        """Journal the value of a part of the answer (a step of a conversation), so that it is never asked again.

        Raises:
            RunError: it cannot be written.
        """
        if self.parts is not None:
            self.parts.record(part, value)

    def idempotency_key(self, part: str = "") -> str:
        """Return a key that is the same each time the run asks for this answer; `part` distinguishes calls of a row."""
        text = "\0".join((self.run_id, self.row_id, self.input_hash, part))
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Load:
    """An endpoint's current and highest number of calls at once, its attempts, and the refused ones by status."""

    limit: int
    most: int
    attempts: int
    refused: Mapping[int, int]

    def brief(self) -> str:
        """Return the text for progress: `50 of 200 at once, 132 refused (429)`; empty if nothing was refused."""
        if not self.refused:
            return ""
        return f"{self.limit} of {self.most} at once, {sum(self.refused.values()):,} refused ({self._statuses})"

    def sentence(self) -> str:
        """Return the sentence for a note on the run."""
        share = f"{sum(self.refused.values()):,} of {self.attempts:,} attempts were refused ({self._statuses})"
        return f"{share}; at the end {self.limit} of at most {self.most} calls were made at once"

    @property
    def _statuses(self) -> str:
        return ", ".join(map(str, sorted(self.refused)))


# -- users' code

_LOOPS = "_user_loops"
"""The attribute for an object's loops; users' classes may not call our `__init__`."""


class UserCalls:
    """Has coroutines that may block the event loop if a user wrote the class.

    In a user's class, the `awaited` methods and `close` run in an event loop in a thread of its own, where they do not
    block the run. `limit_s` is their time limit there, in seconds.
    """

    awaited: ClassVar[tuple[str, ...]] = ()
    name: str
    limit_s: float = 600.0
    tracks_each_call: bool = False

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if is_shipped(cls.__module__):
            return
        for name in cls.awaited:
            if inspect.iscoroutinefunction(method := vars(cls).get(name)):
                setattr(cls, name, _in_user_loop(method))
        cls.close = _closing(cls.close)  # type: ignore[method-assign]

    async def close(self) -> None:
        """Release connections."""


def _in_user_loop(method: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., Coroutine[Any, Any, T]]:
    """Return the method, to be called in a user loop."""

    @functools.wraps(method)
    async def called(self: UserCalls, *args: object, **kwargs: object) -> T:
        call = functools.partial(method, self, *args, **kwargs)
        if self.tracks_each_call or is_in_user_loop():  # the first speaks with the run's loop while it answers
            return await call()
        loops: PerLoop[UserLoop] = vars(self).setdefault(_LOOPS, PerLoop())
        try:
            return await loops.here(UserLoop).call(self.name, call, self.limit_s)
        except LateError as late:
            raise TimedOutError(f"{self.name!r} {late}") from None

    return called


def _closing(close: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return the method, to be called in a user loop, which it then ends."""
    close_in_loop = _in_user_loop(close)

    @functools.wraps(close)
    async def closed(self: UserCalls) -> None:
        try:
            await close_in_loop(self)
        finally:
            loops: PerLoop[UserLoop] | None = vars(self).get(_LOOPS)
            if loops is not None and (loop := loops.take()) is not None:
                await loop.close()
            if loops is not None and not loops.all():
                vars(self).pop(_LOOPS, None)

    return closed


# -- what answers


class Target(UserCalls, ABC):
    """Something that answers rows: an endpoint, a conversation, a function.

    In a user's class, `answer` runs in an event loop of its own, unless the class `tracks_each_call`. A call that takes
    longer than `limit_s` seconds raises TimedOutError, the error of its row. The manifest holds `name`; all output of a
    `simulated` target's runs says that it is simulated.
    """

    awaited = ("answer",)
    name: str = "target"
    simulated: bool = False
    concurrency: int | None = None
    """Answers to ask for at once, if the target has a limit."""
    columns: frozenset[str] | None = None
    """The columns of its answers, if they are known beforehand."""
    answers_can_be_reused: bool = True
    """True if a new run can reuse some answers of another run; those of one long conversation belong together."""
    evaluators_may_change: bool = False
    """True if its run may be resumed with changed evaluators, which then score again."""
    notes: Sequence[str] = ()
    """Notes on how it answers, printed with the results."""
    tracks_each_call: bool = False
    """An answer takes many calls, which it counts through `CallContext.costs`; else each answer counts as one call."""

    @abstractmethod
    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        """Answer one row.

        Raises:
            Exception: whatever it raises becomes this row's error; the other rows go on.
        """

    def inputs(self, row: Row) -> JSON:
        """Return the inputs of the answer; another run's answer is reused only if they are unchanged."""
        return dict(row.values)

    def input_hash(self, row: Row) -> str | None:
        """Return a hash of `inputs`, or None if they have no JSON form."""
        try:
            return content_hash(self.inputs(row))
        except TypeError:
            return None

    def usage(self, output: Mapping[str, JSON]) -> tuple[int | None, int | None]:
        """Return the input and output tokens of an answer, if known: by default from its column `usage`."""
        counted = output.get("usage")
        counts = counted if isinstance(counted, dict) else {}
        return whole_number(counts.get("input_tokens")), whole_number(counts.get("output_tokens"))

    def endpoint_usage(self, output: Mapping[str, JSON]) -> Iterable[EndpointUsage]:
        """Return the calls that an answer took, for a target that `tracks_each_call`."""
        return ()

    def group_key(self, row: Row) -> str | None:
        """Return the row's group, or None. Rows of one group are answered one after another, in order."""
        return None

    def fingerprint(self) -> str | None:
        """Return a hash of the settings and source that answers depend on, without secrets, or None if unstable."""
        return None

    def describe(self) -> dict[str, JSON]:
        """Return the settings for the manifest, with secrets masked."""
        return {"name": self.name}

    def load(self) -> Load | None:
        """Return the concurrency that its service allows now, or None if that is not counted."""
        return None

    def stop(self) -> None:
        """Begin nothing more, because the run stops: answers in progress then end soon, partly or with an error."""

    async def close(self) -> None:
        """Release connections; called once, after the last answer."""


def group_of(row: Row, target: Target | None, column: str | None) -> str | None:
    """Return the group of a row: its rows are answered one after another."""
    group = None if target is None else target.group_key(row)
    if group is not None or target is None or column is None:
        return group
    value = row.values.get(column)
    return None if value is None else str(value)
