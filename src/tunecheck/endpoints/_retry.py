"""When to try again, and after how long."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

_NEVER = frozenset({501, 505})
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
    return _until(text, now) if seconds is None and text else seconds


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text and len(text) < 32 else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(text: str, now: float) -> float | None:
    if len(text) > 64:
        return None
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError, IndexError, OSError):
        return None
