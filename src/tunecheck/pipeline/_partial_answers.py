"""Calls that are paid one by one while the answer they belong to is still being worked on: a long conversation's."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from tunecheck.endpoints._base import Price, Usage
from tunecheck.pipeline._budget import Budget, cost_of


@dataclass(frozen=True, slots=True)
class Instalment:
    """Some calls and their tokens."""

    calls: int
    usage: Usage


@dataclass(slots=True)
class Ledger:
    """What was paid call by call, and what answers say that they took.

    Both speak of the same calls. A run that goes on hears of some from their answers first, of others from the log of
    the conversation: the larger sum of the two is what counts.
    """

    _paid: list[int] = field(default_factory=lambda: [0, 0, 0])
    _answered: list[int] = field(default_factory=lambda: [0, 0, 0])

    def paid(self, calls: int, usage: Usage) -> Instalment:
        """Calls were paid; the part that was not counted yet."""
        return self._add(self._paid, calls, usage)

    def answered(self, calls: int, usage: Usage) -> Instalment:
        """An answer says what it took; the part that was not counted yet."""
        return self._add(self._answered, calls, usage)

    def _add(self, side: list[int], calls: int, usage: Usage) -> Instalment:
        before = [*map(max, self._paid, self._answered)]
        for at, more in enumerate((calls, usage.input_tokens or 0, usage.output_tokens or 0)):
            side[at] += more
        new = [max(pair) - known for *pair, known in zip(self._paid, self._answered, before, strict=True)]
        tokens = zip(new[1:], (usage.input_tokens, usage.output_tokens), strict=True)
        return Instalment(new[0], Usage(*(None if told is None else counted for counted, told in tokens)))


class Purse:
    """What one endpoint's calls are paid from, within the run's budget."""

    def __init__(
        self, price: Price | None, budget: Budget, count: Callable[[Instalment], object], ledger: Ledger
    ) -> None:
        """`count` counts calls as the run's."""
        self._price = price
        self._budget = budget
        self._count = count
        self._ledger = ledger
        self._dearest = 0.0

    @contextlib.asynccontextmanager
    async def paying(self) -> AsyncIterator[Callable[[int | None, int | None], None]]:
        """Around one call: waits for the budget; call what it gives with the tokens in and out, if there was a call.

        Raises:
            StopRunError: the budget is spent.
        """
        if self._price is None:  # it cannot be held to a budget
            yield self.paid
            return
        async with self._budget.reserved(self._dearest) as reservation:

            def paid(input_tokens: int | None, output_tokens: int | None) -> None:
                reservation.cost = self._pay(Usage(input_tokens, output_tokens))

            yield paid

    def paid(self, input_tokens: int | None, output_tokens: int | None) -> None:
        """Count a call that was made before the run was cut off."""
        self._pay(Usage(input_tokens, output_tokens))

    def _pay(self, usage: Usage) -> float | None:
        self._count(self._ledger.paid(1, usage))
        if self._price is None:
            return None
        cost = cost_of(usage, self._price)
        self._dearest = max(self._dearest, cost)
        return cost
