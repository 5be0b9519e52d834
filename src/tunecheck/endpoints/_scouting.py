"""What was found out about one API, for all who ask it; the first request of a kind goes alone, and the others wait."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable

from tunecheck.endpoints._api_facts import ApiFacts

_MOST_WAIT_S = 10.0
"""How long others wait for the first: refusals come at once, a long answer is not worth standing still for."""


class Scouting:
    """The facts, which kinds of requests were sent before, and which are being sent for the first time."""

    def __init__(self) -> None:
        self.facts = ApiFacts()
        self._known: set[Hashable] = set()
        self._first: dict[Hashable, asyncio.Future[None]] = {}

    @contextlib.asynccontextmanager
    async def turn(self, kind: Hashable) -> AsyncIterator[None]:
        """Around a request: waits where another of this kind is the first to be sent."""
        first = self._first.get(kind)
        if kind in self._known or (first is not None and first.get_loop() is not asyncio.get_running_loop()):
            yield
        elif first is not None:
            await asyncio.wait([first], timeout=_MOST_WAIT_S)
            yield
        else:
            self._first[kind] = ended = asyncio.get_running_loop().create_future()
            try:
                yield
            finally:
                self._known.add(kind)
                del self._first[kind]
                ended.set_result(None)
