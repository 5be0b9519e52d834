"""What was found out about one API, for all who ask it; the first request of a kind goes alone, and the others wait."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from tunecheck.endpoints._api_facts import ApiFacts

_Answer = TypeVar("_Answer")

_MOST_WAIT_S = 10.0
"""How long others wait for the first: refusals come at once, a long answer is not worth standing still for."""


class Scouting:
    """The facts, which kinds of requests were sent before, and which are being sent for the first time."""

    def __init__(self) -> None:
        self.facts = ApiFacts()
        self._known: set[Hashable] = set()
        self._first: dict[Hashable, asyncio.Future[None]] = {}

    async def in_turn(self, kind: Hashable, ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """What `ask` gives; it waits where another request of this kind is the first to be sent."""
        first = self._first.get(kind)
        if first is None and kind not in self._known:
            self._first[kind] = ended = asyncio.get_running_loop().create_future()
            try:
                return await ask()
            finally:
                self._known.add(kind)
                del self._first[kind]
                ended.set_result(None)
        if first is not None and first.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([first], timeout=_MOST_WAIT_S)
        return await ask()
