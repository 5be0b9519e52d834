"""What one worker may spend of a run's budget that several share: where it is used up, it asks for more and waits."""

from __future__ import annotations

import asyncio

from tunecheck._errors import StopRunError
from tunecheck.pipeline._costs import Budget

_SPARE = 2.0
"""So many times what was spent since it was granted money last, a worker asks for beyond what it needs at once."""


class LeasedBudget(Budget):
    """A budget that grows while it is used; `asked` is set where it has to."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.asked = asyncio.Event()
        self._missing: list[float] = []
        """What each call that waits for money may cost."""
        self._paid_before = 0.0
        self._over: str | None = None

    def begin(self) -> None:
        """Count from nothing, for another chunk."""
        self.most = self.spent = self.paid = self._paid_before = 0.0

    @property
    def needed(self) -> tuple[float, float, float]:
        """What is spent or set aside for calls under way; the same with one more call; and what it would like."""
        held = self.spent + self.set_aside
        spare = _SPARE * (self.paid - self._paid_before)
        return held, held + min(self._missing, default=0.0), held + sum(self._missing) + spare

    def lower(self, most: float) -> None:
        """Keep to less from now on, as the rest is about to be given back."""
        self.most = min(self.most or 0.0, most)

    def grant(self, most: float) -> None:
        """Spend up to this."""
        self.most, self._paid_before = most, self.paid
        self._settled.set()

    def end(self, why: str) -> None:
        """There is no more: the calls that wait stop the run."""
        self._over = why
        self._settled.set()

    async def _room(self, amount: float, *, fits: bool) -> None:
        if self._over is not None:
            raise StopRunError(f"{self._over}, the next call may cost {amount:.4g}")
        if fits:
            await self._settled.wait()
            return
        self._missing.append(amount)
        self.asked.set()
        try:
            await self._settled.wait()
        finally:
            self._missing.remove(amount)
