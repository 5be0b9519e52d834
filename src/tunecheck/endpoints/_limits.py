"""Limits of calls: an adaptive concurrency limit, token buckets and backoff.

A call passes an `AdaptiveGate`, which keeps as many calls in flight as the service accepts. Then each attempt takes its
tokens and one request from the `TokenBucket`s of the rate limits. After a failure, `backoff_s` says how long to wait.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

TOKEN_BURST_S = 10.0
"""Capacity of a bucket of tokens, in seconds of its rate. It is large because one call takes many tokens."""


_LONGEST_DATE = 64
"""Characters of a Retry-After header that are read."""


class Clock:
    """Monotonic time, wall-clock time and sleep, in seconds. Tests replace it."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


EndCall: TypeAlias = Callable[[float], object]
"""Callback that ends a call and takes the number of units used, which may exceed the number taken."""


class Bucket(Protocol):
    """A rate limit in units per minute."""

    async def take(self, units: float) -> EndCall:
        """Wait until this many units are available and take them. Call the result at the end with the units used."""
        ...


class SharedLimits(msgspec.Struct, frozen=True):
    """The rate limits of requests and tokens; None means no limit."""

    requests: Bucket | None = None
    tokens: Bucket | None = None


class TokenBucket:
    """A rate limit in units per minute, refilled evenly. Callers are served in order of arrival.

    The capacity is `burst_s` seconds of the rate, and at least 1 unit. The bucket starts full. A caller that takes more
    than the capacity waits for a full bucket and leaves a negative level, so that the next callers wait longer.
    """

    def __init__(self, per_minute: float, *, clock: Clock, burst_s: float = 1.0) -> None:
        """Start with a full bucket of `burst_s` seconds of the rate, but at least one unit."""
        self._per_second = per_minute / 60
        self._capacity = max(1.0, self._per_second * burst_s)
        self._level = self._capacity
        self._clock = clock
        self._refilled_at = clock.now()
        self._lock = asyncio.Lock()

    @classmethod
    def within_a_minute(cls, per_minute: float, *, clock: Clock, burst_s: float = 1.0) -> TokenBucket:
        """Return an empty bucket that gives at most `per_minute` units, including its burst, in any 60 seconds.

        Its capacity is `burst_s` seconds of the rate, but at most half of `per_minute`, and at least one unit.
        """
        bucket = cls(per_minute, clock=clock, burst_s=burst_s)
        # Full, the bucket gives its capacity at once and the rest within the minute: together at most `per_minute`.
        bucket._capacity = min(bucket._capacity, max(1.0, per_minute / 2))
        # At least half the rate, because a bucket of one unit per minute would never refill.
        bucket._per_second = max(per_minute - bucket._capacity, per_minute / 2) / 60
        bucket._level = 0.0
        return bucket

    async def take(self, units: float) -> EndCall:
        """Wait until this many units are available and take them. Call the result at the end with the units used.

        A caller that takes more units than the bucket holds waits for a full bucket, and leaves a negative level.
        """
        async with self._lock:
            # A sum of small floats may stay just below the units, so a tiny rest counts as available.
            while (missing := min(units, self._capacity) - self._refill()) > 1e-9:
                await self._clock.sleep(missing / self._per_second)
            self._level -= units
        return lambda used: self._give_back(units - used)

    def _give_back(self, units: float) -> None:
        """Return units to the bucket, up to its capacity; a negative number takes more."""
        self._level = min(self._capacity, self._refill() + units)

    def _refill(self) -> float:
        """Add the units of the time since the last call and return the level, negative after a large take."""
        now = self._clock.now()
        self._level = min(self._capacity, self._level + max(0.0, now - self._refilled_at) * self._per_second)
        self._refilled_at = now
        return self._level


class _Cut(NamedTuple):
    """A cut of a concurrency limit: the limit and the share of refused attempts before it."""

    limit_before: int
    share_before: float


class AdaptiveGate:
    """An adaptive concurrency limit: as many concurrent calls as the service accepts, at most `most`.

    The limit starts at `start`. A round ends after as many outcomes as the limit, and at least ten. The limit doubles
    after each round without a cut, if callers used all of it; after the first cut it grows by a quarter. Services
    refuse some calls at any load, so the share of refusals in a round decides. If the share exceeds `TOLERATED`, the
    limit is cut by that share. If a share below `RANDOM` stays above `HELPED` of its value before the cut, the cut did
    not help: it is undone, and that share is tolerated from then on.
    """

    TOLERATED = 0.1
    """Share of refused attempts that does not cut the limit."""
    RANDOM = 0.4
    """From this share on, refusals are never taken for random ones."""
    HELPED = 0.7
    """A cut has helped if the share falls below this part of the share before it."""
    SLOW_GROWTH = 0.25
    """Growth of the limit in a round, after the first cut."""
    LEAST_ROUND = 10
    """Lowest number of outcomes in a round; fewer would make the share of refusals a matter of chance."""

    def __init__(self, most: int, *, start: int = 10) -> None:
        """Start at `start` concurrent calls; the limit never exceeds `most`."""
        self.most = most
        self.limit = min(most, start)
        self.under_way = 0
        self.cuts = 0
        self._random_share = 0.0
        """Share of refusals that does not depend on the load, tolerated in addition to TOLERATED."""
        self._last_cut: _Cut | None = None
        """The cut at the end of the last round, if that round cut the limit."""

        # Figures of the current round: the most calls in flight, and the outcomes.
        self._peak = 0
        self._successes = 0
        self._refusals = 0

        # New calls, and calls that were refused before.
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._returning: deque[asyncio.Future[None]] = deque()

    @property
    def _current_limit(self) -> int:
        """The limit minus the refusals of this round, at least 1. A single refusal is ignored."""
        return max(1, self.limit - (self._refusals if self._refusals > 1 else 0))

    async def __aenter__(self) -> None:
        await self._enter(self._waiting)

    async def __aexit__(self, *_: object) -> None:
        self._end_call()

    async def rejoin(self) -> None:
        """Queue a refused call again after its backoff, before calls that were not sent yet.

        Without the queue, calls that were refused together would be sent together and refused again.
        """
        self._end_call()
        try:
            await self._enter(self._returning)
        except asyncio.CancelledError:
            self.under_way += 1  # `__aexit__` still runs and subtracts 1
            raise

    async def _enter(self, queue: deque[asyncio.Future[None]]) -> None:
        """Wait in this queue until the limit admits the call."""
        admission: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(admission)
        self._admit(self._returning, self._waiting)
        try:
            await admission
        except asyncio.CancelledError:
            if admission.done() and not admission.cancelled():
                self._end_call()  # the call was admitted and cancelled at the same time: admit the next call
            raise

    def _end_call(self) -> None:
        """Count one call less in flight, and admit waiting calls: refused calls first, then new ones."""
        self.under_way -= 1
        self._admit(self._returning, self._waiting)

    def _admit(self, *queues: deque[asyncio.Future[None]]) -> None:
        """Admit waiting calls until the limit is reached: all calls of the first queue, then those of the next."""
        for queue in queues:
            while queue and self.under_way < self._current_limit:
                admission = queue.popleft()
                # An admission that is done belongs to a call that was cancelled while it waited.
                if not admission.done():
                    self.under_way += 1
                    self._peak = max(self._peak, self.under_way)
                    admission.set_result(None)

    def succeeded(self) -> None:
        """Count an attempt that was answered."""
        self._successes += 1
        self._end_round()

    def overloaded(self, cuts: int) -> None:
        """Count an attempt that the service refused because of overload.

        `cuts` is the value of `self.cuts` when the attempt was sent. Attempts from before the latest cut are ignored.
        """
        if cuts == self.cuts:
            self._refusals += 1
            self._end_round()

    def _end_round(self) -> None:
        """End the round if it has as many outcomes as the limit, and at least LEAST_ROUND.

        The share of refused attempts in this round raises, keeps or cuts the limit:

        1. The share is tolerated: raise the limit if callers used all of it. Double it before the first cut, then add a
           quarter.
        2. The last round cut the limit, and the share did not fall enough: the refusals do not depend on the load. Undo
           the cut, and tolerate that share from now on.
        3. Else cut the limit by the share.
        """
        outcomes = self._successes + self._refusals
        if outcomes < max(self.limit, self.LEAST_ROUND):
            return

        share = self._refusals / outcomes
        last_cut, self._last_cut = self._last_cut, None
        self._random_share = min(self._random_share, share)

        if share <= self.TOLERATED + self._random_share:
            if self._peak >= self.limit:  # an unused limit says nothing about a higher one
                growth = self.SLOW_GROWTH if self.cuts else 1.0
                self.limit = min(self.most, self.limit + max(1, int(self.limit * growth)))
        elif last_cut is not None and self.HELPED * last_cut.share_before <= share < self.RANDOM:
            self.limit, self._random_share = max(last_cut.limit_before, self.limit), share
        else:
            self._last_cut = _Cut(self.limit, share)
            self.limit = max(1, int(self.limit * (1 - share)))
            self.cuts += 1

        self._successes = self._refusals = 0
        self._peak = self.under_way

        # A raised limit is tried with new calls first: a call that was refused before could run out of attempts.
        self._admit(self._waiting, self._returning)


_BASE_S, _CAP_S = 0.5, 30.0
"""The longest wait after the first failure, and after many failures."""

RETRY_AFTER_CAP_S = 120.0
"""A call fails if the service asks for a longer wait: one header must not stop a run for hours."""


def backoff_s(failures: int, retry_after: float | None, rng: random.Random) -> float:
    """Return the wait in seconds after this number of failures: exponential backoff with full jitter.

    The wait is random, between 0 and min(30, 0.5 · 2^failures) seconds. If the service asks for a wait, it is that time
    plus up to half the jitter. (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.)
    """
    # 2^32 is far above any cap, and greater exponents would overflow a float.
    jitter = min(_CAP_S, _BASE_S * 2 ** min(failures, 32))
    return rng.uniform(0, jitter) if retry_after is None else retry_after + rng.uniform(0, jitter / 2)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return the wait in seconds that the headers request, or None if no header has a readable wait.

    The headers are `retry-after-ms`, `x-ms-retry-after-ms`, and Retry-After in seconds or as a date. `now` is in
    seconds since the epoch.
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("x-ms-retry-after-ms", 0.001), ("retry-after", 1)):
        number = _finite_number(headers.get(name))
        if number is not None:
            return number * unit_s

    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")[:_LONGEST_DATE]).timestamp() - now)
    except (ValueError, TypeError, OverflowError, IndexError, OSError):
        return None


def _finite_number(text: str | None) -> float | None:
    """Return a header's text as a finite number of 0 or more; None for any other text and for no header."""
    # A longer text is no number of seconds that a service would send.
    try:
        value = float(text) if text and len(text) < 32 else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
