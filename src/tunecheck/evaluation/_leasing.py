"""A worker's share of what all workers of a run have together: of the limits a minute, and of the budget."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field

from tunecheck._errors import RunError
from tunecheck.endpoints._base import Endpoint
from tunecheck.pipeline._leased_budget import LeasedBudget
from tunecheck.runs._claims import STALE_S
from tunecheck.runs._shares import FencedError, Needs, SharedLimits, Shares

_RENEWED = 3
"""So often within the time that it lasts a share is renewed."""

_ASKED = 20
"""The same where there is too little to go on."""

_TOGETHER = 300
"""Calls that find no money within such a part of that time ask once."""


@dataclass(eq=False)
class ChunkWork:
    """The work on a chunk that a share is held for."""

    finished: bool = False


@dataclass
class Leasing:
    """Holds a worker's share while it works on a chunk; without `budget`, of the limits only."""

    limits: SharedLimits
    endpoints: Collection[Endpoint]
    budget: LeasedBudget | None
    _part: float = field(init=False, default=0.0)
    _until: float = field(init=False, default=0.0)
    _lasts_s: float = field(init=False, default=STALE_S)

    def __post_init__(self) -> None:
        self.endpoints = [endpoint for endpoint in self.endpoints if endpoint.least_part]
        self._lease(0.0)

    def begin(self) -> None:
        """Before anything of another chunk is counted."""
        if self.budget is not None:
            self.budget.begin()

    @contextlib.asynccontextmanager
    async def during(self, chunk: int, stop: Callable[[Exception], object]) -> AsyncIterator[ChunkWork]:
        """Hold a share; tell the work whether it is finished. `stop` is told when no share can be had any more."""
        if not self.endpoints and self.budget is None:
            yield ChunkWork()
            return
        work, keeping = ChunkWork(), asyncio.create_task(self._keep(chunk, stop))
        try:
            yield work
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
            self._lease(0.0)
            with contextlib.suppress(RunError):  # the run's other workers have finished it; or what is held stays so
                await self._leave(chunk, work)

    async def _keep(self, chunk: int, stop: Callable[[Exception], object]) -> None:
        renewed, hungry = time.monotonic(), True
        while True:
            try:
                hungry = await self._renew(chunk)
                renewed = time.monotonic()
            except FencedError:
                return
            except RunError as error:
                if self.budget is not None and time.monotonic() > self._until:
                    self.budget.lower(0.0)  # as the limits, which come to their end by themselves
                if time.monotonic() - renewed > STALE_S:
                    stop(error)
                    return
            if hungry or self.budget is None:
                await asyncio.sleep(self._lasts_s / (_ASKED if hungry else _RENEWED))
            else:
                await self._until_asked(self.budget)

    async def _until_asked(self, budget: LeasedBudget) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._lasts_s / _RENEWED):
                await budget.asked.wait()
                await asyncio.sleep(self._lasts_s / _TOGETHER)
        budget.asked.clear()

    async def _renew(self, chunk: int) -> bool:
        """Renew the share; whether it is too small to go on with.

        Raises:
            FencedError: another worker has the chunk.
            RunError: the storage cannot be reached.
        """

        def proposed(shares: Shares) -> Shares:
            proposed = self.limits.renewed(shares, chunk, self._needs())
            own = proposed.workers[self.limits.owner]
            # What is given back must not be used any more when others see it.
            self._lease(min(self._part, own.part))
            if self.budget is not None:
                self.budget.lower(own.money)
            return proposed

        written, at = await self._swapped(proposed)
        own = written.workers[self.limits.owner]
        self.limits.entered(chunk)
        self._until, self._lasts_s = at + own.lasts_s, own.lasts_s
        self._lease(own.part)
        if self.budget is not None:
            self.budget.grant(own.money)
            if own.starved and self.limits.exhausted(written):
                self.budget.end(
                    f"--max-cost {written.most:g}: {written.granted():.4g} is spent or reserved by all workers"
                )
        return own.starved or (bool(self.endpoints) and not own.part)

    async def _leave(self, chunk: int, work: ChunkWork) -> None:
        await self._swapped(lambda shares: self.limits.left(shares, chunk, self._needs(), finished=work.finished))
        self.limits.entered(None)

    async def _swapped(self, change: Callable[[Shares], Shares]) -> tuple[Shares, float]:
        """The shares as they were changed, and when that was begun."""
        begun = time.monotonic()
        while True:
            shares, version = await asyncio.to_thread(self.limits.read)
            at, changed = time.monotonic(), change(shares)
            if changed is shares or await asyncio.to_thread(self.limits.swap, changed, version):
                return changed, at
            if at - begun > STALE_S:
                raise RunError("the run's shares cannot be renewed: another process holds them, and stands still")
            await asyncio.sleep(random.uniform(0, self._lasts_s / _ASKED / 3))

    def _needs(self) -> Needs:
        """What the worker needs now; of what it was granted, it uses no more than is held by this."""
        least_part = max((endpoint.least_part for endpoint in self.endpoints), default=0.0)
        budget = self.budget
        if budget is None:
            return Needs(least_part=least_part)
        held, least, wanted = budget.needed
        return Needs(budget.spent, budget.spent - budget.paid, held, least, wanted, least_part)

    def _lease(self, part: float) -> None:
        self._part = part
        for endpoint in self.endpoints:
            endpoint.lease_limits(part, self._until - time.monotonic())
