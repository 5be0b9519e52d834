"""What stands before a local server's answers: its key, the faults it makes on purpose, and answers given before."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Generic, TypeVar

from tunecheck._errors import ConfigurationError
from tunecheck.endpoints._serving.requests import BadRequestError

T = TypeVar("T")

MAX_STORED = 10_000
"""Answers kept for repeated idempotency keys; the oldest give way."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on that host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def key_is_right(key: str, headers: Mapping[str, str]) -> bool:
    """Whether a request carries the key: as a bearer token, or as Azure's `api-key`."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    offered = token.strip() if scheme.lower() == "bearer" else headers.get("api-key", "")
    return hmac.compare_digest(offered.encode("utf-8", "surrogateescape"), key.encode())


def parse_faults(texts: list[str]) -> dict[int, float]:
    """Faults as a person writes them, `429=0.05`, by status.

    Raises:
        ConfigurationError: not a status from 400 to 599 with a rate from 0 to 1.
    """
    faults: dict[int, float] = {}
    for text in texts:
        status, _, rate = text.partition("=")
        try:
            faults[int(status)] = float(rate)
        except ValueError:
            raise ConfigurationError(f"{text!r} is no fault: write a status and its rate, such as 429=0.05") from None
    return faults


class Faults:
    """Error replies at given rates, seeded: the n-th request to a server of the same seed meets the same fate.

    Raises:
        ConfigurationError: a status outside 400 to 599, a rate outside 0 to 1, or rates that add up to more than 1.
    """

    def __init__(self, rates: Mapping[int, float], seed: int = 0) -> None:
        for status, rate in rates.items():
            if not 400 <= status <= 599 or not 0 <= rate <= 1:
                raise ConfigurationError(
                    f"fault {status}={rate}: needs a status from 400 to 599 and a rate from 0 to 1"
                )
        if sum(rates.values()) > 1 + 1e-9:
            raise ConfigurationError("the rates of the faults add up to more than 1")
        self._rates = dict(rates)
        self._rng = Random(seed)

    def draw(self) -> int | None:
        """The status that the next request fails with, or None."""
        at = self._rng.random() if self._rates else 1.0
        for status, rate in self._rates.items():
            at -= rate
            if at < 0:
                return status
        return None


class AnswerStore(Generic[T]):
    """Answers by idempotency key: one question is answered once, however often and at once it is sent."""

    def __init__(self, most: int = MAX_STORED) -> None:
        self._most = most
        self._stored: OrderedDict[str, tuple[bytes, asyncio.Task[T]]] = OrderedDict()

    def holds(self, key: str) -> bool:
        """Whether this key was seen before, and its answer is known or on its way."""
        return key in self._stored

    async def answer(self, key: str, question: bytes, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer to this question, asked for where it is new; one that failed is asked again next time.

        Raises:
            BadRequestError: the key was used with another question.
        """
        if key not in self._stored:
            self._stored[key] = (question, asyncio.ensure_future(_awaited(ask)))
            self._forget_oldest()
        asked, task = self._stored[key]
        if asked != question:
            raise BadRequestError("this Idempotency-Key was used with another request")
        try:
            return await asyncio.shield(task)  # a client that hangs up leaves the answer to the one that repeats
        except Exception:
            self._stored.pop(key, None)
            raise

    def _forget_oldest(self) -> None:
        while len(self._stored) > self._most:
            self._stored.popitem(last=False)


async def _awaited(ask: Callable[[], Awaitable[T]]) -> T:
    return await ask()
