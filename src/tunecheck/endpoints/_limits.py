"""How fast, how many at once, and when again: token buckets, an adaptive concurrency limit, backoff."""

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime


class Clock:
    """The clocks (monotonic, and since the epoch) and the sleeping, for tests to control. Seconds throughout."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class TokenBucket:
    """A rate limit in units a minute, spread evenly, first come first served.

    The bucket holds `burst_s` seconds' worth of units (one at least), full at first. A taker of more units than it
    holds waits for a full bucket and leaves a debt that the next ones wait off.
    """

    def __init__(self, per_minute: float, *, clock: Clock, burst_s: float = 1.0) -> None:
        self._per_second = per_minute / 60
        self._capacity = max(1.0, self._per_second * burst_s)
        self._level = self._capacity
        self._clock = clock
        self._seen = clock.now()
        self._turn = asyncio.Lock()

    async def take(self, units: float) -> None:
        """Wait until this many units are available, and take them."""
        async with self._turn:
            need = min(units, self._capacity)
            while (missing := need - self._filled()) > 1e-9:
                await self._clock.sleep(missing / self._per_second)
            self._level -= units

    def give_back(self, units: float) -> None:
        """Return units that were taken and not used; a negative number takes what was used beyond the estimate."""
        self._level = min(self._capacity, self._filled() + units)

    def _filled(self) -> float:
        now = self._clock.now()
        self._level = min(self._capacity, self._level + (now - self._seen) * self._per_second)
        self._seen = now
        return self._level


class AdaptiveGate:
    """An adaptive concurrency limit: as many calls at once as the service can bear, never more than `most`.

    It starts at `start` and doubles after each round of successes, as long as its callers use what there is. Some
    services refuse a call now and then whatever their load, so the share of refusals among the attempts of late counts,
    not the single one: beyond `TOLERATED`, each refused call was one too many and lowers the limit by one, within
    `EPISODE_S` (or as long as the service asked to wait) to no less than half, as calls that were under way together
    are refused together. From then on the limit grows by a tenth a round, and faster with each round without a cut.
    A round is `limit` successes, four at least.
    """

    TOLERATED = 0.05
    LATELY = 100
    EPISODE_S = 1.0
    SLOW_GROWTH = 0.1
    FASTER = 1.5
    USED = 0.8
    LEAST_ROUND = 4

    def __init__(self, most: int, *, clock: Clock, start: int = 10) -> None:
        self.most = most
        self._limit = min(most, start)
        self._clock = clock
        self._refused_share = 0.0
        self._growth = 1.0
        self._least, self._episode_end = 1, -math.inf
        self._under_way = 0
        self._peak = 0
        self._successes = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def under_way(self) -> int:
        return self._under_way

    async def __aenter__(self) -> None:
        if self._under_way < self._limit and not self._waiting:
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

    async def rejoin(self) -> None:
        """After a pause within a call: where the limit has fallen below those inside, wait for a place, first in line.

        Else calls that were refused together would all be sent, and refused, together again.
        """
        if self._under_way <= self._limit:
            return
        self._under_way -= 1
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.appendleft(turn)
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
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._under_way < self._limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._let_in()
                turn.set_result(None)

    def succeeded(self) -> None:
        """An attempt was answered."""
        self._refused_share -= self._refused_share / self._lately
        self._successes += 1
        if self._successes < max(self._limit, self.LEAST_ROUND):
            return
        if self._peak >= self.USED * self._limit:
            self._limit = min(self.most, self._limit + max(1, int(self._limit * self._growth)))
            self._growth = min(1.0, self._growth * self.FASTER)
        self._new_round()
        self._admit()

    def overloaded(self, retry_after_s: float | None = None) -> None:
        """The service refused an attempt because there are too many."""
        self._refused_share += (1 - self._refused_share) / self._lately
        if self._refused_share <= self.TOLERATED:
            return
        now = self._clock.now()
        if now >= self._episode_end:
            self._least = max(1, self._limit // 2)
            self._episode_end = now + max(self.EPISODE_S, retry_after_s or 0.0)
        self._limit = max(self._least, self._limit - 1)
        self._growth = self.SLOW_GROWTH
        self._new_round()

    @property
    def _lately(self) -> int:
        return max(self._limit, self.LATELY)

    def _new_round(self) -> None:
        self._successes = 0
        self._peak = self._under_way


_NEVER = frozenset({501, 505})  # not implemented, HTTP version not supported: no retry changes that
_PASSING = frozenset({408, 409, 425, 429})


def is_passing(status: int) -> bool:
    """Whether the same request may well succeed later: 408, 409, 425, 429 and the 5xx that speak of a state."""
    return status in _PASSING or (500 <= status <= 599 and status not in _NEVER)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with full jitter: a wait between 0 and min(cap_s, base_s · 2^failures), in seconds.

    A server's Retry-After is the least that is waited. A call whose service asks for more than `retry_after_cap_s` is
    given up: a run cannot stand still for hours on one header, and asking earlier would be in vain.
    (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.)
    """

    retries: int = 5
    base_s: float = 0.5
    cap_s: float = 30.0
    retry_after_cap_s: float = 120.0

    def wait_s(self, failures: int, retry_after: float | None, rng: random.Random) -> float:
        """How long to wait after the `failures`-th failure (counted from 1)."""
        if retry_after is not None:
            return retry_after + rng.uniform(0, self.base_s)
        return rng.uniform(0, min(self.cap_s, self.base_s * 2 ** min(failures, 32)))


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The wait that a reply asks for: `retry-after-ms`, `x-ms-retry-after-ms`, or Retry-After as seconds or as date.

    `now` is in seconds since the epoch. None where nothing readable is asked for.
    """
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        milliseconds = _number(headers.get(name))
        if milliseconds is not None:
            return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or not text or len(text) > 64:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError, IndexError, OSError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text and len(text) < 32 else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
