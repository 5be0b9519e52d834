"""What a run's calls cost, counted call by call, and the most that it may spend."""

from __future__ import annotations

import asyncio
import contextlib
import math
from array import array
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from tunecheck._errors import StopRunError
from tunecheck._json import JSON
from tunecheck.endpoints._base import Price, Usage

_CHARACTERS_PER_TOKEN = 4
_USUAL_ANSWER = 500
"""Tokens of an answer, as long as none has come and no limit is set."""

_MOST_ALONE = 10
"""Calls that go one after the other until one has a cost; some may have to find out what a service takes."""


def cost_of(usage: Usage, price: Price) -> float:
    """What a call comes to, in the price's currency; tokens that nobody counted cost nothing."""
    millions = (usage.input_tokens or 0) * price.input_per_million + (
        usage.output_tokens or 0
    ) * price.output_per_million
    return millions / 1_000_000


@dataclass(slots=True)
class Spending:
    """What the calls of one evaluator, or of the target, came to. `uncounted` calls came without token counts."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    uncounted: int = 0
    unpriced: int = 0
    costs: dict[str, array[float]] = field(default_factory=dict)
    """By currency, each call's: their exact sum does not depend on the order in which calls end."""

    def add(self, usage: Usage, cost: float | None, currency: str | None, calls: int = 1) -> None:
        """Count a call, or several; the cost is None where nobody knows the price."""
        self.calls += calls
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        self.uncounted += calls if usage.input_tokens is None and usage.output_tokens is None else 0
        if cost is None or currency is None:
            self.unpriced += calls
        else:
            self.costs.setdefault(currency, array("d")).append(cost)

    def summary(self) -> dict[str, JSON]:
        """As it stands in metrics.json; the cost is null where a price is missing or currencies are mixed."""
        known = not self.unpriced and len(self.costs) == 1
        currency, costs = next(iter(self.costs.items())) if known else (None, None)
        return {
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "uncounted_calls": self.uncounted,
            "cost": None if costs is None else math.fsum(costs),
            "currency": currency,
        }


@dataclass(eq=False, slots=True)
class Reservation:
    """What is set aside for one call; `cost` is what it came to, None where it failed or has no price."""

    amount: float = 0.0
    cost: float | None = None


class Budget:
    """Keeps what a run spends under a limit, calls under way included. None: no limit.

    Each call reserves what it may cost before it is sent. Where that would exceed the limit, it waits for those under
    way, which mostly cost less than they reserved; where none is left, the run stops in order. The first call goes
    alone: what it came to corrects the guess for the others. Where it fails the next one does, ten times at most.
    """

    def __init__(self, most: float | None) -> None:
        self.most = most
        self.spent = 0.0
        self._reserved: list[Reservation] = []
        self._settled = asyncio.Event()
        self._longest_answer = _USUAL_ANSWER
        self._correction = 1.0
        self._alone = _MOST_ALONE

    def guess(self, characters: int, most_tokens: int | None, price: Price | None) -> float:
        """What a call may cost: its tokens by its characters, and the longest answer that it may get."""
        if price is None:
            return 0.0
        answer = most_tokens if most_tokens is not None else self._longest_answer
        return cost_of(Usage(characters // _CHARACTERS_PER_TOKEN + 1, answer), price)

    @contextlib.asynccontextmanager
    async def reserved(self, guess: float) -> AsyncIterator[Reservation]:
        """Around a call: sets aside what it may cost; tell the reservation what it came to.

        Raises:
            StopRunError: it would exceed the limit.
        """
        if self.most is None:
            yield Reservation()
            return
        reservation = Reservation(await self._set_aside(self.most, guess))
        self._reserved.append(reservation)
        try:
            yield reservation
        finally:
            self._alone = max(0, self._alone - 1) if reservation.cost is None else 0
            self._reserved.remove(reservation)
            if reservation.cost is not None and guess > 0:
                self._correction = max(self._correction, reservation.cost / guess)
            self._settled.set()

    async def _set_aside(self, most: float, guess: float) -> float:
        while True:
            amount = guess * self._correction
            reserved = sum(each.amount for each in self._reserved)
            if self._reserved and (self._alone or self.spent + reserved + amount > most):
                self._settled.clear()
                await self._settled.wait()
            elif self.spent + amount > most:
                raise StopRunError(
                    f"--max-cost {most:g}: {self.spent:.4g} is spent, the next call may cost {amount:.4g}"
                )
            else:
                return amount

    def count(self, usage: Usage, cost: float | None) -> None:
        """Count a call that was made."""
        self.spent += cost or 0.0
        self._longest_answer = max(self._longest_answer, usage.output_tokens or 0)


@dataclass(frozen=True, slots=True)
class CountedCalls:
    """Some calls and their tokens."""

    calls: int
    usage: Usage


@dataclass(slots=True)
class ReportedUsage:
    """What calls took as they were counted one by one, and what answers say that they took.

    Both speak of the same calls. A run that goes on hears of some from their answers first, of others from the log of
    the conversation: the larger sum of the two is what counts.
    """

    _by_call: list[int] = field(default_factory=lambda: [0, 0, 0])
    _by_answer: list[int] = field(default_factory=lambda: [0, 0, 0])

    def add_calls(self, calls: int, usage: Usage) -> CountedCalls:
        """Calls were made; the part that was not counted yet."""
        return self._add(self._by_call, calls, usage)

    def add_answer(self, calls: int, usage: Usage) -> CountedCalls:
        """An answer says what it took; the part that was not counted yet."""
        return self._add(self._by_answer, calls, usage)

    def _add(self, side: list[int], calls: int, usage: Usage) -> CountedCalls:
        before = [*map(max, self._by_call, self._by_answer)]
        for at, more in enumerate((calls, usage.input_tokens or 0, usage.output_tokens or 0)):
            side[at] += more
        new = [max(pair) - known for *pair, known in zip(self._by_call, self._by_answer, before, strict=True)]
        tokens = zip(new[1:], (usage.input_tokens, usage.output_tokens), strict=True)
        return CountedCalls(new[0], Usage(*(None if told is None else counted for counted, told in tokens)))


class EndpointCosts:
    """Counts the cost of one endpoint's calls, one by one, within the run's budget."""

    def __init__(
        self, price: Price | None, budget: Budget, count: Callable[[CountedCalls], object], reported: ReportedUsage
    ) -> None:
        """`count` counts calls as the run's."""
        self._price = price
        self._budget = budget
        self._count = count
        self._reported = reported
        self._highest = 0.0

    @contextlib.asynccontextmanager
    async def one_call(self) -> AsyncIterator[Callable[[int | None, int | None], None]]:
        """Around one call: waits for the budget; call what it gives with the tokens in and out, if there was a call.

        Raises:
            StopRunError: the budget is spent.
        """
        if self._price is None:  # it cannot be held to a budget
            yield self.record
            return
        async with self._budget.reserved(self._highest) as reservation:

            def count_tokens(input_tokens: int | None, output_tokens: int | None) -> None:
                reservation.cost = self._count_tokens(Usage(input_tokens, output_tokens))

            yield count_tokens

    def record(self, input_tokens: int | None, output_tokens: int | None) -> None:
        """Count a call that was made before the run was cut off."""
        self._count_tokens(Usage(input_tokens, output_tokens))

    def _count_tokens(self, usage: Usage) -> float | None:
        self._count(self._reported.add_calls(1, usage))
        if self._price is None:
            return None
        cost = cost_of(usage, self._price)
        self._highest = max(self._highest, cost)
        return cost
