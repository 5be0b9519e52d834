"""Rows and the targets that answer them: the terms in which the pipeline speaks with the world."""

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
"""What a target answers: columns by name; `response` is what evaluators look at by default."""


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
    """Where the finished parts of one row's answer are kept while the answer itself is not finished yet."""

    def recall(self, part: str) -> JSON:
        """What was recorded for this part, None where nothing was."""
        ...

    def record(self, part: str, value: JSON) -> None:
        """Keep what a part came to; it is safe when this returns."""
        ...


@dataclass(frozen=True, slots=True)
class CallsMade:
    """Some calls to a model, and what they took.

    Tokens are as the service counted them, None where it never did. `asked` and `answered` are the characters, sent and
    received, of calls whose tokens in, or out, it did not count; `masked` replies repeated a secret.
    """

    calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    asked: int = 0
    answered: int = 0
    masked: int = 0

    def plus(self, more: CallsMade) -> CallsMade:
        """Both together."""
        return CallsMade(
            self.calls + more.calls,
            _sum(self.input_tokens, more.input_tokens),
            _sum(self.output_tokens, more.output_tokens),
            _sum(self.cached_input_tokens, more.cached_input_tokens),
            self.asked + more.asked,
            self.answered + more.answered,
            self.masked + more.masked,
        )


def _sum(known: int | None, more: int | None) -> int | None:
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
        """What counts a conversation's calls to this endpoint.

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
    """What the run tells a target about the call that it is about to make.

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
        """What an earlier, cut-off attempt at this answer recorded for a part of it; None where it recorded nothing."""
        return self.parts.recall(part) if self.parts is not None else None

    def record(self, part: str, value: JSON) -> None:
        """Journal what a part of the answer (a step of a conversation) came to, so that it is never asked again.

        Raises:
            RunError: it cannot be written.
        """
        if self.parts is not None:
            self.parts.record(part, value)

    def idempotency_key(self, part: str = "") -> str:
        """A key that is the same each time this run asks for this answer; `part` tells several calls of a row apart."""
        text = "\0".join((self.run_id, self.row_id, self.input_hash, part))
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Load:
    """How many calls at once an endpoint is asked now and at most, and how many attempts it refused, by status."""

    limit: int
    most: int
    attempts: int
    refused: Mapping[int, int]

    def brief(self) -> str:
        """For a line of progress: `50 of 200 at once, 132 refused (429)`; empty where nothing was refused."""
        if not self.refused:
            return ""
        return f"{self.limit} of {self.most} at once, {sum(self.refused.values()):,} refused ({self._statuses})"

    def sentence(self) -> str:
        """For a note beside the results."""
        share = f"{sum(self.refused.values()):,} of {self.attempts:,} attempts were refused ({self._statuses})"
        return f"{share}; at the end {self.limit} of at most {self.most} calls were made at once"

    @property
    def _statuses(self) -> str:
        return ", ".join(map(str, sorted(self.refused)))


# -- whose code runs apart

_LOOPS = "_loops_apart"
"""Where an object keeps its loops: in its own dictionary, as classes that users write call no `__init__` of ours."""


class Apart:
    """Has calls to be awaited, which a class that is not ours may block.

    Those that are `awaited`, and `close`, run in such a class in an event loop of a thread of its own, where they hold
    up nothing else. `limit_s` is how many seconds one of them may take there.
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
                setattr(cls, name, _apart(method))
        cls.close = _closing(cls.close)  # type: ignore[method-assign]

    async def close(self) -> None:
        """Release connections."""


def _apart(method: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., Coroutine[Any, Any, T]]:
    """The method, its calls made apart."""

    @functools.wraps(method)
    async def called(self: Apart, *args: object, **kwargs: object) -> T:
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
    """The method, called apart, which ends the loop that the running one has there."""
    close_apart = _apart(close)

    @functools.wraps(close)
    async def closed(self: Apart) -> None:
        try:
            await close_apart(self)
        finally:
            loops: PerLoop[UserLoop] | None = vars(self).get(_LOOPS)
            if loops is not None and (foreign := loops.take()) is not None:
                await foreign.close()
            if loops is not None and not loops.all():
                vars(self).pop(_LOOPS, None)

    return closed


# -- what answers


class Target(Apart, ABC):
    """Something that answers rows: an endpoint, a conversation, a function.

    The calls of a class of one's own run in a loop apart, where one that blocks holds up nothing else; one that takes
    longer than `limit_s` seconds is its row's error, a TimedOutError. Not so where it `tracks_each_call`.
    `name` stands in the manifest; a `simulated` target's runs say so everywhere.
    """

    awaited = ("answer",)
    name: str = "target"
    simulated: bool = False
    concurrency: int | None = None
    """How many answers to ask for at once, where the target knows what it can bear."""
    columns: frozenset[str] | None = None
    """The columns of its answers, where they are known beforehand."""
    answers_can_be_reused: bool = True
    """Whether a new run can reuse some of another's answers; those of one long conversation belong together."""
    evaluators_may_change: bool = False
    """Whether its run may go on with evaluators that are made otherwise, whose verdicts are then given anew."""
    notes: Sequence[str] = ()
    """Remarks on how it answers, which stand beside the results."""
    tracks_each_call: bool = False
    """An answer takes many calls, which it counts through `CallContext.costs`; else each answer counts as one call."""

    @abstractmethod
    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        """Answer one row.

        Raises:
            Exception: whatever it raises becomes this row's error; the other rows go on.
        """

    def inputs(self, row: Row) -> JSON:
        """What the answer depends on; an answer of another run is reused only where this is unchanged."""
        return dict(row.values)

    def input_hash(self, row: Row) -> str | None:
        """A hash of `inputs`; None where they have no JSON form."""
        try:
            return content_hash(self.inputs(row))
        except TypeError:
            return None

    def usage(self, output: Mapping[str, JSON]) -> tuple[int | None, int | None]:
        """The tokens that an answer took, in and out, where it says so: by default its column `usage`."""
        counted = output.get("usage")
        counts = counted if isinstance(counted, dict) else {}
        return whole_number(counts.get("input_tokens")), whole_number(counts.get("output_tokens"))

    def endpoint_usage(self, output: Mapping[str, JSON]) -> Iterable[EndpointUsage]:
        """What an answer of a target that `tracks_each_call` took."""
        return ()

    def group_key(self, row: Row) -> str | None:
        """Rows of one group are answered one after another, in order; None: on its own."""
        return None

    def fingerprint(self) -> str | None:
        """A hash of the settings and source that answers depend on (secrets left out); None: it has no stable state."""
        return None

    def describe(self) -> dict[str, JSON]:
        """Settings for the manifest, secrets masked."""
        return {"name": self.name}

    def load(self) -> Load | None:
        """The concurrency that the service behind it allows now; None where that is not counted."""
        return None

    def stop(self) -> None:
        """The run stops: begin nothing more, so that answers under way end soon, with what they have or an error."""

    async def close(self) -> None:
        """Release connections; called once, after the last answer."""


def group_of(row: Row, target: Target | None, column: str | None) -> str | None:
    """What a row has in common with those that are answered one after another with it."""
    group = None if target is None else target.group_key(row)
    if group is not None or target is None or column is None:
        return group
    value = row.values.get(column)
    return None if value is None else str(value)
