"""The clock of a conversation, in µs since 1970 (UTC). All code that needs the time gets this clock."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Literal, get_args

from tunecheck import ConfigurationError
from tunecheck.plugins import did_you_mean

ClockName = Literal["virtual", "mirrored", "real"]

START_US = int(datetime(2025, 1, 6, 9, tzinfo=UTC).timestamp()) * 1_000_000
"""The start of virtual time. It is constant, so that conversations are reproducible."""

EXCHANGE_US = 1_000_000
"""The virtual time of a message and its reply."""


class SessionClock:
    """Virtual time of a conversation: it passes with messages and jumps, and never goes back.

    If `tells_agent` is True, the agent is informed of jumps.
    """

    def __init__(self, start_us: int = START_US, *, tells_agent: bool = False) -> None:
        self._now_us = start_us
        self.tells_agent = tells_agent

    def now(self) -> int:
        return self._now_us

    def set(self, at_us: int) -> None:
        self._now_us = max(self._now_us, at_us)

    def exchanged(self) -> int:
        """Let the time of a message and its reply pass; return the new time."""
        self._now_us += EXCHANGE_US
        return self._now_us

    async def jump(self, until_us: int) -> int:
        """Set the time to `until_us` without waiting; return the new time, which never goes back."""
        self.set(until_us)
        return self._now_us


class RealClock(SessionClock):
    """The time of the machine."""

    def __init__(
        self,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Take the machine's clock, or a replacement: `now` in µs since 1970, `sleep` in seconds."""
        super().__init__(now())
        self._machine = now
        self._sleep = sleep

    def now(self) -> int:
        self.set(self._machine())
        return self._now_us

    def exchanged(self) -> int:
        return self.now()

    async def jump(self, until_us: int) -> int:
        """Wait until the machine's time is `until_us`; return the time. Interruptions of the run count as waiting."""
        while (left := until_us - self._machine()) > 0:
            await self._sleep(left / 1_000_000)
        self.set(until_us)
        return self.now()


def make_clock(name: ClockName) -> SessionClock:
    """Return a new clock of this kind; raise ConfigurationError if there is none."""
    clocks = get_args(ClockName)
    if name not in clocks:
        raise ConfigurationError(f"there is no clock {name!r}{did_you_mean(str(name), clocks)}")
    return RealClock() if name == "real" else SessionClock(tells_agent=name == "mirrored")


def as_iso(at_us: int) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds unless they are 0."""
    moment = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    rest = at_us // 1_000 % 1_000
    return f"{moment:%Y-%m-%dT%H:%M:%S}{f'.{rest:03}' if rest else ''}Z"
