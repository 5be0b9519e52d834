"""How many calls at once: a limit that gives way to the share of refusals, and comes back."""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple


class Sent(NamedTuple):
    """An attempt when it was sent: how many cuts there had been, and how many attempts were out, with it."""

    cuts: int
    at_once: int


class AdaptiveGate:
    """An adaptive concurrency limit: as many calls at once as the service can bear, never more than `most`.

    It starts at `start` and doubles after each round without a cut, as long as its callers use what there is; a round
    is as many outcomes as the limit, four at least, or twenty where some were refused. Services refuse a call now and
    then whatever their load, so what counts is the share of refusals in a round. Beyond `TOLERATED`, and `CHANCE`
    standard deviations more, the limit is cut by that share; where a cut did not help (the share stays, and is below
    `RANDOM`), it is taken back, and only what exceeds this share counts from then on. After a cut the limit grows by a
    tenth, and faster with each round.
    """

    TOLERATED = 0.05
    CHANCE = 2.0
    RANDOM = 0.4
    HELPED = 0.7
    SLOW_GROWTH = 0.1
    FASTER = 1.5
    USED = 0.8
    LEAST_ROUND = 4
    SAMPLE = 20

    def __init__(self, most: int, *, start: int = 10) -> None:
        self.most = most
        self.cuts = 0
        self._limit = min(most, start)
        self._growth = 1.0
        self._random_share = 0.0
        self._cut_from: tuple[int, float] | None = None
        self._under_way = 0
        self._out = 0
        self._peak = 0
        self._successes = 0
        self._refusals = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._returning: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def under_way(self) -> int:
        return self._under_way

    @property
    def _room(self) -> int:
        """Each refusal shows that one place is too many; until its round ends, that place stays empty.

        A single one shows nothing, nor do as many as were refused at random before.
        """
        at_random = self._random_share * (self._refusals + self._successes)
        excess = round(self._refusals - at_random) if self._refusals > 1 else 0
        return max(1, self._limit - max(0, excess))

    async def __aenter__(self) -> None:
        if self._under_way < self._room and not self._waiting:
            self._let_in()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()  # let in and cancelled at once: the place goes to the next
            raise

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    @contextlib.contextmanager
    def attempt(self) -> Iterator[Sent]:
        """One attempt of a call that is inside, from when it is sent until something comes back."""
        self._out += 1
        try:
            yield Sent(self.cuts, self._out)
        finally:
            self._out -= 1

    async def rejoin(self, refused: Sent) -> None:
        """Queue a refused call again after its backoff, unless fewer calls are out than when it was refused.

        Without the queue, calls that were refused together would all be sent, and refused, together again.
        """
        if self._out == 0 or (self._under_way <= self._room and self._out < refused.at_once - 1):
            return
        self._under_way -= 1
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._returning.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.done() or turn.cancelled():
                self._let_in()  # as whoever is inside, it leaves by `__aexit__`
            raise

    def _let_in(self) -> None:
        self._under_way += 1
        self._peak = max(self._peak, self._under_way)

    def _leave(self) -> None:
        self._under_way -= 1
        self._admit(self._returning, self._waiting)

    def _admit(self, *lines: deque[asyncio.Future[None]]) -> None:
        for line in lines:
            while line and self._under_way < self._room:
                turn = line.popleft()
                if not turn.done():
                    self._let_in()
                    turn.set_result(None)

    def succeeded(self) -> None:
        """An attempt was answered."""
        self._successes += 1
        self._count()

    def overloaded(self, attempt: Sent) -> None:
        """The service refused an attempt because there are too many; one from before a cut says nothing of it."""
        if attempt.cuts == self.cuts:
            self._refusals += 1
            self._count()

    def _count(self) -> None:
        outcomes = self._successes + self._refusals
        if outcomes >= max(self._limit, self.SAMPLE if self._refusals else self.LEAST_ROUND):
            self._end_round(outcomes)

    def _end_round(self, outcomes: int) -> None:
        share = self._refusals / outcomes
        before, self._cut_from = self._cut_from, None
        self._random_share = min(self._random_share, (3 * self._random_share + share) / 4)
        tolerated = (self.TOLERATED + self._random_share) * outcomes
        if self._refusals <= tolerated + self.CHANCE * math.sqrt(tolerated):
            if self._peak >= self.USED * self._limit:
                self._limit = min(self.most, self._limit + max(1, int(self._limit * self._growth)))
                self._growth = min(1.0, self._growth * self.FASTER)
        elif before is not None and self.HELPED * before[1] <= share < self.RANDOM:
            self._limit, self._random_share = max(before[0], self._limit), share
        else:
            self._cut_from = self._limit, share
            # Where nothing at all was answered nobody knows how many would be: the service may be down for a moment.
            self._limit = max(1, int(self._limit * (1 - share)) if self._successes else self._limit // 2)
            self._growth = self.SLOW_GROWTH
            self.cuts += 1
        self._successes = self._refusals = 0
        self._peak = self._under_way
        # Room that is tried out is for calls that were not refused before: none should use up its attempts on it.
        self._admit(self._waiting, self._returning)
