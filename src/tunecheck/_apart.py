"""Base of classes that users derive: what theirs awaits runs in an event loop of its own, apart from the run's."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tunecheck._errors import TimedOutError
from tunecheck._threads import LateError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from tunecheck._loops import ForeignLoop, PerLoop

T = TypeVar("T")

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
        if cls.__module__.startswith("tunecheck."):
            return
        for name in cls.awaited:
            if inspect.iscoroutinefunction(method := vars(cls).get(name)):
                setattr(cls, name, _apart(method))
        cls.close = _closing(cls.close)  # type: ignore[method-assign]

    async def close(self) -> None:
        """Release connections."""


def loops_of(apart: Apart) -> Iterator[AbstractEventLoop]:
    """The loops in which calls of it run apart."""
    loops: PerLoop[ForeignLoop] | None = vars(apart).get(_LOOPS)
    for foreign in loops.all() if loops is not None else ():
        if (running := foreign.running()) is not None:
            yield running[0]


def _apart(method: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., Coroutine[Any, Any, T]]:
    """The method, its calls made apart."""

    @functools.wraps(method)
    async def called(self: Apart, *args: object, **kwargs: object) -> T:
        from tunecheck._loops import ForeignLoop, PerLoop, is_in_foreign_loop

        call = functools.partial(method, self, *args, **kwargs)
        if self.tracks_each_call or is_in_foreign_loop():  # the first speaks with the run's loop while it answers
            return await call()
        loops: PerLoop[ForeignLoop] = vars(self).setdefault(_LOOPS, PerLoop())
        try:
            return await loops.here(ForeignLoop).call(self.name, call, self.limit_s)
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
            loops: PerLoop[ForeignLoop] | None = vars(self).get(_LOOPS)
            if loops is not None and (foreign := loops.take()) is not None:
                await foreign.close()
            if loops is not None and not loops.all():
                vars(self).pop(_LOOPS, None)

    return closed
