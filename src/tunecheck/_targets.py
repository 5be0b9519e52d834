"""Rows of a data set, and targets, which answer them."""

from __future__ import annotations

import functools
import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec
from msgspec.structs import astuple

from tunecheck._errors import TimedOutError
from tunecheck._json import JSON, content_hash, object_or_empty, whole_number
from tunecheck._loops import IN_USER_LOOP, LateError, PerLoop, UserLoop
from tunecheck._version import is_shipped

T = TypeVar("T")

TargetOutput = Mapping[str, object]
"""A target's answer: columns by name; evaluators read `response` by default."""


class Row(msgspec.Struct, frozen=True):
    """One row of a data set.

    `index` counts from 0 in the order of the source; `id` is the column `id` if it is unique, else `row-<line number>`;
    `values` holds the columns; `fingerprint` is a hash of the content.
    """

    index: int
    id: str
    values: Mapping[str, JSON]
    fingerprint: str


class CallsMade(msgspec.Struct, frozen=True):
    """Calls to a model and their usage.

    Token counts are the service's; None if no call has one. `asked` and `answered` are the characters sent and received
    in calls without token counts. `masked` counts replies that repeated a secret.
    """

    calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    asked: int = 0
    answered: int = 0
    masked: int = 0

    def plus(self, more: CallsMade) -> CallsMade:
        """Return the sum of both usages."""
        return CallsMade(*map(sum_known, astuple(self), astuple(more)))


def sum_known(known: int | None, more: int | None) -> Any:  # noqa: ANN401 - None only of counts that may be unknown
    """Return the sum of two counts of tokens, either of which may be unknown (None); None if both are."""
    return known if more is None else (known or 0) + more


class CostTracking(Protocol):
    """Counts the calls of a target that `tracks_each_call`, within the run's budget."""

    def one_call(
        self, name: str, endpoint: object, key: str
    ) -> AbstractAsyncContextManager[Callable[[CallsMade], None]]:
        """Reserve budget for one call; if the call was made, the caller passes its usage to the yielded function.

        The call is counted under `name`, which is `target` for the target's answers. `key` identifies the call: if it
        is made again after an interruption, it counts once.

        Raises:
            StopRunError: the budget is spent.
        """


@dataclass(frozen=True, slots=True)
class CallContext:
    """The context of a target's call in a run.

    `recorded` has the parts of the answer that an interrupted attempt finished, and `journal` records another part.
    `folder` is the run's folder, in which a target may keep files in a subfolder; `costs` counts each call. Outside of
    a run, `journal`, `folder` and `costs` are None, and nothing is recorded.
    """

    run_id: str
    row_id: str
    input_hash: str
    recorded: Mapping[str, JSON] = field(default_factory=dict, compare=False)
    journal: Callable[[str, JSON], None] | None = field(default=None, compare=False)
    folder: Path | None = field(default=None, compare=False)
    costs: CostTracking | None = field(default=None, compare=False)

    def recall(self, part: str) -> JSON:
        """Return the value that an earlier, interrupted attempt recorded for a part of this answer, or None."""
        return self.recorded.get(part)

    def record(self, part: str, value: JSON) -> None:
        """Journal the value of a part of the answer (a step of a conversation), so that a resumed run reuses it.

        Raises:
            RunError: the value cannot be written.
        """
        if self.journal is not None:
            self.journal(part, value)

    def idempotency_key(self, part: str = "") -> str:
        """Return a key that is the same in each attempt at this answer; `part` distinguishes calls of a row."""
        text = "\0".join((self.run_id, self.row_id, self.input_hash, part))
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Load(msgspec.Struct, frozen=True):
    """An endpoint's current and maximum concurrency, its attempts, and the refused attempts by HTTP status."""

    limit: int
    most: int
    attempts: int
    refused: Mapping[int, int]

    def brief(self) -> str:
        """Return a text for the progress: `50 of 200 calls at once, 132 refused (429)`; empty without refusals."""
        if not self.refused:
            return ""
        return f"{self.limit} of {self.most} calls at once, {sum(self.refused.values()):,} refused ({self._statuses})"

    def sentence(self) -> str:
        """Return a sentence for the run's notes on refused attempts, and on the concurrency if it has fallen."""
        share = f"{sum(self.refused.values()):,} of {self.attempts:,} attempts were refused ({self._statuses})"
        now = f"; the number of calls at once fell from {self.most} to {self.limit}" if self.limit < self.most else ""
        return f"{share}{now}"

    @property
    def _statuses(self) -> str:
        return ", ".join(map(str, sorted(self.refused)))


# -- users' code

_LOOPS = "_user_loops"
"""Name of the attribute with an object's loops; user classes may not call our `__init__`."""


class UserCalls:
    """Base of classes whose coroutines may block the event loop if a user wrote the subclass.

    In a user's class, the `awaited` methods and `close` run in an event loop in another thread, so that they cannot
    block the run. `limit_s` is their time limit in seconds.
    """

    awaited: ClassVar[tuple[str, ...]] = ()
    name: str
    limit_s: float = 600.0
    tracks_each_call: bool = False

    def __init_subclass__(cls, **options: object) -> None:
        """Wrap the `awaited` methods and `close` of a user's subclass to run in a user loop."""
        super().__init_subclass__(**options)
        # Tunecheck's own classes do not block the loop.
        if is_shipped(cls.__module__):
            return
        for name in cls.awaited:
            method = vars(cls).get(name)
            if inspect.iscoroutinefunction(method):
                setattr(cls, name, _in_user_loop(method))

        cls.close = _closing(cls.close)  # type: ignore[method-assign]

    async def close(self) -> None:
        """Release connections."""


def _in_user_loop(method: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., Coroutine[Any, Any, T]]:
    """Return the method wrapped to run in a user loop, with the object's time limit."""

    @functools.wraps(method)
    async def called(self: UserCalls, *args: object, **kwargs: object) -> T:
        """Await the method in the user loop of this object, with the object's time limit.

        Await it directly, without a limit, if a user loop runs already, or if the object `tracks_each_call`: such an
        object uses the run's loop while it answers.

        Raises:
            TimedOutError: the call takes longer than the object's `limit_s`.
        """
        call = functools.partial(method, self, *args, **kwargs)
        if self.tracks_each_call or IN_USER_LOOP.get():
            return await call()

        loops: PerLoop[UserLoop] = vars(self).setdefault(_LOOPS, PerLoop())
        try:
            return await loops.here(UserLoop).call(self.name, call, self.limit_s)
        except LateError as late:
            raise TimedOutError(f"{type(self).__name__} {self.name!r}: {late}") from None

    return called


def _closing(close: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return the method wrapped to run in a user loop and then close that loop."""
    close_in_loop = _in_user_loop(close)

    @functools.wraps(close)
    async def closed(self: UserCalls) -> None:
        """Close the object in the user loop of the running event loop, then close that user loop."""
        try:
            await close_in_loop(self)
        finally:
            loops: PerLoop[UserLoop] | None = vars(self).get(_LOOPS)
            user_loop = None if loops is None else loops.take()
            if user_loop is not None:
                await user_loop.close()

    return closed


# -- what answers


class Target(UserCalls, ABC):
    """Base of everything that answers rows: an endpoint, a conversation, a function.

    In a user's class, `answer` runs in its own event loop, unless the class `tracks_each_call`. A call that takes
    longer than `limit_s` seconds raises TimedOutError, which becomes its row's error. `name` is recorded in the
    manifest. All output of runs with a `simulated` target is marked as simulated.
    """

    awaited = ("answer",)
    name: str = "target"
    simulated: bool = False
    concurrency: int | None = None
    """Maximum number of concurrent answers, if the target has a limit."""
    columns: frozenset[str] | None = None
    """The columns of the answers, if they are known beforehand."""
    pure: bool = False
    """True if no row is changed and each answer is a new dict of JSON values, so the run copies neither."""
    answers_can_be_reused: bool = True
    """True if a new run can reuse single answers of another run; False if the answers form one long conversation."""
    evaluators_may_change: bool = False
    """True if a run may be resumed with changed evaluators, which then score all rows again."""
    notes: Sequence[str] = ()
    """Notes on how the target answers, printed with the results."""
    tracks_each_call: bool = False
    """True if an answer takes many calls, counted through `CallContext.costs`; else each answer counts as one call."""

    @abstractmethod
    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        """Answer one row.

        Raises:
            Exception: any exception becomes this row's error; the other rows continue.
        """

    def inputs(self, row: Row) -> JSON:
        """Return the inputs of the answer; an answer of another run is reused only if they are equal."""
        return dict(row.values)

    def input_hash(self, row: Row) -> str | None:
        """Return a hash of `inputs`, by which a recorded answer is found; None if they have no JSON form."""
        try:
            return content_hash(self.inputs(row))
        except TypeError:
            return None

    def usage(self, output: Mapping[str, JSON]) -> tuple[int | None, int | None]:
        """Return the input and output tokens of an answer, None if unknown; by default, read the column `usage`."""
        counts = object_or_empty(output.get("usage"))
        return whole_number(counts.get("input_tokens")), whole_number(counts.get("output_tokens"))

    def group_key(self, row: Row) -> str | None:
        """Return the row's group, or None. Rows of one group are answered one after another."""
        return None

    def fingerprint(self) -> str | None:
        """Return a hash of the settings and source that decide answers, without secrets, or None if there is none."""
        return None

    def describe(self) -> dict[str, JSON]:
        """Return the settings for the manifest, with secrets masked."""
        return {"name": self.name}

    def load(self) -> Load | None:
        """Return the current load of the target's service, or None if unknown."""
        return None

    def stop(self) -> None:
        """Start no further calls, because the run stops; answers in progress end soon, incomplete or with an error."""

    async def close(self) -> None:
        """Release connections; called once, after the last answer."""


def group_of(row: Row, target: Target | None, column: str | None) -> str | None:
    """Return the group of a row: the target's own, else the value of `column`; None if the row stands alone.

    Rows of a group are answered one after another. Without a target, no row has a group.
    """
    group = None if target is None else target.group_key(row)
    if group is not None or target is None or column is None:
        return group
    value = row.values.get(column)
    return None if value is None else str(value)
