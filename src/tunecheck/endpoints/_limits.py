"""Limits of calls: an adaptive concurrency limit, token buckets and backoff."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Protocol, TypeAlias

TOKEN_BURST_S = 10.0
"""Seconds' worth of tokens that a bucket of tokens holds: one call takes many."""


class Clock:
    """The clocks (monotonic, and since the epoch) and the sleeping, for tests to control. Seconds throughout."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


EndCall: TypeAlias = Callable[[float], object]
"""Ends a call that has taken units; it takes the number of units that were used, which may be more."""


class Bucket(Protocol):
    """A limit in units a minute."""

    async def take(self, units: float) -> EndCall:
        """Wait until this many units are available, and take them for a call."""
        ...


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """The buckets that calls take requests and tokens from; None: no such limit."""

    requests: Bucket | None = None
    tokens: Bucket | None = None


class TokenBucket:
    """A rate limit in units a minute, spread evenly, first come first served.

    The bucket holds `burst_s` seconds' worth of units (one at least) and starts full. A caller that takes more units
    than it holds waits for a full bucket and leaves a debt that the next callers wait off.
    """

    def __init__(self, per_minute: float, *, clock: Clock, burst_s: float = 1.0) -> None:
        self._per_second = per_minute / 60
        self._capacity = max(1.0, self._per_second * burst_s)
        self._level = self._capacity
        self._clock = clock
        self._seen = clock.now()
        self._turn = asyncio.Lock()

    @classmethod
    def within_a_minute(cls, per_minute: float, *, clock: Clock, burst_s: float = 1.0) -> TokenBucket:
        """A bucket that starts empty and gives out at most `per_minute` units in any 60 seconds, its burst included."""
        bucket = cls(per_minute, clock=clock, burst_s=burst_s)
        bucket._capacity = min(bucket._capacity, max(1.0, per_minute / 2))
        bucket._per_second = max(per_minute - bucket._capacity, per_minute / 2) / 60
        bucket._level = 0.0
        return bucket

    async def take(self, units: float) -> EndCall:
        """As `Bucket.take`."""
        async with self._turn:
            while (missing := min(units, self._capacity) - self._refill()) > 1e-9:
                await self._clock.sleep(missing / self._per_second)
            self._level -= units
        return lambda used: self._give_back(units - used)

    def _give_back(self, units: float) -> None:
        self._level = min(self._capacity, self._refill() + units)

    def _refill(self) -> float:
        now = self._clock.now()
        self._level = min(self._capacity, self._level + max(0.0, now - self._seen) * self._per_second)
        self._seen = now
        return self._level


class AdaptiveGate:
    """An adaptive concurrency limit: as many calls at once as the service can bear, never more than `most`.

    It starts at `start` and doubles after each round without a cut, as long as its callers use what there is; a round
    is as many outcomes as the limit, ten at least. Services refuse a call now and then whatever their load, so what
    counts is the share of refusals in a round. Beyond `TOLERATED` the limit is cut by that share; where a cut did not
    help (the share stays, and is below `RANDOM`), it is taken back, and only what exceeds this share counts from then
    on. After the first cut the limit grows by a quarter.
    """

    TOLERATED = 0.1
    RANDOM = 0.4
    HELPED = 0.7
    SLOW_GROWTH = 0.25
    LEAST_ROUND = 10

    def __init__(self, most: int, *, start: int = 10) -> None:
        self.most = most
        self.limit = min(most, start)
        self.under_way = 0
        self.cuts = 0
        self._random_share = 0.0
        self._cut_from: tuple[int, float] | None = None
        self._peak = 0
        self._successes = 0
        self._refusals = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._returning: deque[asyncio.Future[None]] = deque()

    @property
    def _room(self) -> int:
        """Each refusal but a single one shows that one place is too many; it stays empty until the round ends."""
        return max(1, self.limit - (self._refusals if self._refusals > 1 else 0))

    async def __aenter__(self) -> None:
        await self._enter(self._waiting)

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    async def rejoin(self) -> None:
        """Queue a refused call again after its backoff, before those that were not sent yet.

        Without the queue, calls that were refused together would all be sent, and refused, together again.
        """
        self._leave()
        try:
            await self._enter(self._returning)
        except asyncio.CancelledError:
            self.under_way += 1  # like every call that is inside, it leaves by `__aexit__`
            raise

    async def _enter(self, line: deque[asyncio.Future[None]]) -> None:
        if self.under_way < self._room and not line:
            self._let_in()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()  # let in and cancelled at once: the place goes to the next
            raise

    def _let_in(self) -> None:
        self.under_way += 1
        self._peak = max(self._peak, self.under_way)

    def _leave(self) -> None:
        self.under_way -= 1
        self._admit(self._returning, self._waiting)

    def _admit(self, *lines: deque[asyncio.Future[None]]) -> None:
        for line in lines:
            while line and self.under_way < self._room:
                turn = line.popleft()
                if not turn.done():
                    self._let_in()
                    turn.set_result(None)

    def succeeded(self) -> None:
        """Count an attempt that was answered."""
        self._successes += 1
        self._count()

    def overloaded(self, cuts: int) -> None:
        """Count an attempt that the service refused as one too many, unless it was sent before the latest of the cuts.

        `cuts` is their number when the attempt was sent.
        """
        if cuts == self.cuts:
            self._refusals += 1
            self._count()

    def _count(self) -> None:
        outcomes = self._successes + self._refusals
        if outcomes >= max(self.limit, self.LEAST_ROUND):
            self._end_round(outcomes)

    def _end_round(self, outcomes: int) -> None:
        share = self._refusals / outcomes
        before, self._cut_from = self._cut_from, None
        self._random_share = min(self._random_share, share)
        if share <= self.TOLERATED + self._random_share:
            if self._peak >= self.limit:
                growth = self.SLOW_GROWTH if self.cuts else 1.0
                self.limit = min(self.most, self.limit + max(1, int(self.limit * growth)))
        elif before is not None and self.HELPED * before[1] <= share < self.RANDOM:
            self.limit, self._random_share = max(before[0], self.limit), share
        else:
            self._cut_from = self.limit, share
            self.limit = max(1, int(self.limit * (1 - share)))
            self.cuts += 1
        self._successes = self._refusals = 0
        self._peak = self.under_way
        # Room that is tried out is for calls that were not refused before: none should use up its attempts on it.
        self._admit(self._waiting, self._returning)


_NEVER = frozenset({501, 505})  # not implemented, HTTP version not supported: no retry changes that
_PASSING = frozenset({408, 409, 425, 429})


def is_passing(status: int) -> bool:
    """Whether the same request may well succeed later: 408, 409, 425, 429 and the 5xx that speak of a state."""
    return status in _PASSING or (500 <= status <= 599 and status not in _NEVER)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with full jitter: a wait between 0 and min(cap_s, base_s · 2^failures), in seconds.

    A server's Retry-After is the least that is waited, and the jitter comes on top, half as wide. A call fails if its
    service asks for a wait longer than `retry_after_cap_s`: a run cannot stand still for hours on one header, and a
    retry before that would fail. (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.)
    """

    retries: int = 5
    base_s: float = 0.5
    cap_s: float = 30.0
    retry_after_cap_s: float = 120.0

    def wait_s(self, failures: int, retry_after: float | None, rng: random.Random) -> float:
        """How long to wait after the `failures`-th failure (counted from 1)."""
        jitter = min(self.cap_s, self.base_s * 2 ** min(failures, 32))
        if retry_after is not None:
            return retry_after + rng.uniform(0, jitter / 2)
        return rng.uniform(0, jitter)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The wait that a reply asks for: `retry-after-ms`, `x-ms-retry-after-ms`, or Retry-After as seconds or as date.

    `now` is in seconds since the epoch. None if no header holds a readable wait.
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
