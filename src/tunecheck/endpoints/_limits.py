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

    It starts at `start` and doubles after each round of successes, as long as its callers use what there is; the first
    refusal for overload ends that: the limit is cut to 0.7 of itself, and from then on grows by a tenth a round. After
    a cut, `cooldown_s` (or as long as the service asked to wait) passes before the next cut or success counts: calls
    that were under way together are refused together. A round is `limit` successes, four at least.
    """

    CUT = 0.7
    GROWTH = 0.1
    USED = 0.8
    LEAST_ROUND = 4

    def __init__(self, most: int, *, clock: Clock, start: int = 10, cooldown_s: float = 5.0) -> None:
        self._most = most
        self._limit = min(most, start)
        self._clock = clock
        self._cooldown_s = cooldown_s
        self._quiet_until = clock.now()
        self._doubling = True
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
        """A call was answered."""
        if self._clock.now() < self._quiet_until:
            return
        self._successes += 1
        if self._successes < max(self._limit, self.LEAST_ROUND):
            return
        if self._peak >= self.USED * self._limit:
            step = self._limit if self._doubling else max(1, int(self._limit * self.GROWTH))
            self._limit = min(self._most, self._limit + step)
        self._new_round()
        self._admit()

    def overloaded(self, retry_after_s: float | None = None) -> None:
        """The service refused a call because there are too many."""
        now = self._clock.now()
        if now < self._quiet_until:
            return
        self._limit = max(1, int(self._limit * self.CUT))
        self._doubling = False
        self._quiet_until = now + max(self._cooldown_s, retry_after_s or 0.0)
        self._new_round()

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

    A server's Retry-After is the least that is waited, up to `retry_after_cap_s`: a service that asks for more is
    asked again after that time, since a run cannot stand still for hours on one header.
    (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.)
    """

    retries: int = 5
    base_s: float = 0.5
    cap_s: float = 30.0
    retry_after_cap_s: float = 120.0

    def wait_s(self, failures: int, retry_after: float | None, rng: random.Random) -> float:
        """How long to wait after the `failures`-th failure (counted from 1)."""
        if retry_after is not None:
            return min(retry_after, self.retry_after_cap_s) + rng.uniform(0, self.base_s)
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
