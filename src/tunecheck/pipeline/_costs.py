"""The cost of a run's calls, the budget, and exact sums."""

from __future__ import annotations

import asyncio
import contextlib
import math
from array import array
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from operator import neg

from tunecheck._errors import ReplyError, StopRunError
from tunecheck._json import JSON
from tunecheck._targets import CallsMade
from tunecheck.endpoints._base import ON_UNANSWERED, Price, Usage

CHARACTERS_PER_TOKEN = 4
"""Rule of thumb for English text."""

_COUNTS = tuple(each.name for each in fields(CallsMade))

_USUAL = Usage(1_000, 500)
"""Usage assumed for a call if nothing is known about it."""

_KEPT = 0.9
"""Weight that earlier calls keep after each further call: about the last ten calls count."""

_ROUNDING = 1 + 1e-9

_MOST_ALONE = 10
"""Maximum number of calls made one at a time until the first one reports a cost; some may fail at first."""


def cost_of(usage: Usage, price: Price) -> float:
    """Return the cost of a call in the price's currency; token counts that are missing cost nothing."""
    given = usage.input_tokens or 0
    cached = 0 if price.cached_input_per_million is None else min(usage.cached_input_tokens or 0, given)
    millions = (given - cached) * price.input_per_million + (usage.output_tokens or 0) * price.output_per_million
    return (millions + cached * (price.cached_input_per_million or 0.0)) / 1_000_000


def is_counted(usage: Usage) -> bool:
    """Return True if the service reported the input and output tokens of a call."""
    return usage.input_tokens is not None and usage.output_tokens is not None


def expected_usage(asked: int, limit: int | None, answered: int | None = None) -> Usage:
    """Return the expected tokens of a call from the characters of its request (`asked`) and answer (`answered`).

    An unknown answer (None) counts as 500 tokens; `limit` is the largest number of output tokens, if there is one.
    """
    usual = _USUAL.output_tokens or 0
    answer = usual if answered is None else tokens_in(answered)
    return Usage(tokens_in(asked), answer if limit is None else min(answer, limit))


def tokens_in(characters: int) -> int:
    """Return the approximate number of tokens in this many characters."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def charge_of(usage: Usage, price: Price, estimate: Usage = _USUAL) -> float:
    """Return the cost to charge for a call: reported token counts first, the estimate for counts that are missing."""
    given = estimate.input_tokens if usage.input_tokens is None else usage.input_tokens
    answered = estimate.output_tokens if usage.output_tokens is None else usage.output_tokens
    return cost_of(Usage(given, answered, usage.cached_input_tokens), price)


@dataclass(slots=True)
class Spending:
    """Calls, tokens and cost of one evaluator or of the target.

    Calls without token counts (`uncounted`) are charged by estimate; the total cost is then unknown.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    uncounted: int = 0
    unpriced: int = 0
    costs: defaultdict[tuple[str, bool], ExactSum] = field(default_factory=lambda: defaultdict(ExactSum))
    """Costs by currency and by whether tokens were counted; sums are exact, so the order of calls changes nothing."""

    def add(self, usage: Usage, cost: float | None, currency: str | None, calls: int = 1) -> None:
        """Count one or several calls; `cost` is None if the price is unknown."""
        self.calls += calls
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        counted = is_counted(usage)
        self.uncounted += 0 if counted else calls
        if cost is None or currency is None:
            self.unpriced += calls
        else:
            self.costs[currency, counted].append(cost)

    def summary(self) -> dict[str, JSON]:
        """Return the entry for metrics.json; the cost is null if a count or price is missing, or if currencies differ.

        If only token counts are missing, the counted and the estimated cost are listed separately.
        """
        currencies = {currency for currency, _ in self.costs}
        currency = currencies.pop() if not self.unpriced and len(currencies) == 1 else None
        sums = {counted: math.fsum(costs.numbers) for (_, counted), costs in self.costs.items()}
        separate: dict[str, JSON] = {"counted_cost": sums.get(True, 0.0), "estimated_cost": sums.get(False, 0.0)}
        return {
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "uncounted_calls": self.uncounted,
            "cost": None if currency is None or self.uncounted else sums.get(True, 0.0),
            "currency": currency,
            **(separate if currency is not None and self.uncounted else {}),
        }


def cost_text(spent: Mapping[str, JSON], form: str = ".4g") -> str | None:
    """Return the cost in an entry of metrics.json as text: `0.0103 USD`.

    `0.01 + about 0.02 USD` if a part is estimated, `unknown` if token counts are missing, None without a price. `form`
    is the format of a number.
    """
    cost = spent.get("cost")
    if isinstance(cost, (int, float)):
        return f"{cost:{form}} {spent.get('currency')}"
    known, estimated = spent.get("counted_cost"), spent.get("estimated_cost")
    if isinstance(known, (int, float)) and isinstance(estimated, (int, float)):
        return f"{known:{form}} + about {estimated:{form}} {spent.get('currency')}"
    return "unknown" if spent.get("uncounted_calls") else None


@dataclass(eq=False, slots=True)
class Reservation:
    """The amount reserved for one call; `cost` is its actual cost, None if it failed or has no price."""

    amount: float = 0.0
    cost: float | None = None

    def charge(self, cost: float | None) -> None:
        """Add the cost of one of the call's attempts; None if it is unknown."""
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost


@dataclass(slots=True)
class _Learned:
    """Ratio of actual to estimated cost, as a moving average over about ten calls.

    A call with an estimate of 0 counts as an estimate of 1.
    """

    expected: float = 0.0
    cost: float = 0.0

    def estimate(self, expected: float) -> float:
        """Return the expected cost, corrected by the actual costs of earlier calls, if there were any."""
        return (expected or 1.0) * self.cost / self.expected if self.expected else expected

    def learn(self, expected: float, cost: float) -> None:
        """Add a call's expected and actual cost to the moving average."""
        # One call says little, so the estimate counts as a second one if it was higher.
        if expected and not self.expected:
            self.expected, self.cost = expected, max(expected, cost)
        self.expected = _KEPT * self.expected + (expected or 1.0)
        self.cost = _KEPT * self.cost + cost


class Budget:
    """Limits the cost of a run, including calls in flight. None: no limit.

    Each call reserves its expected cost before it is sent; earlier calls of the same name correct the expectation. If
    the reservation exceeds the limit, the call waits for calls in flight. If there are none, the run stops. So the run
    exceeds the limit at most by the excess cost of calls in flight. The first calls go one at a time until one
    succeeds, at most ten.
    """

    def __init__(self, most: float | None) -> None:
        """Limit the cost of a run to `most`, in the currency of the prices; None: no limit."""
        self.most = most
        self.spent = 0.0
        self._reserved: list[Reservation] = []
        self._settled = asyncio.Event()
        self._learned: defaultdict[str, _Learned] = defaultdict(_Learned)
        self._alone = _MOST_ALONE

    @contextlib.asynccontextmanager
    async def reserved(self, name: str, expected: float) -> AsyncIterator[Reservation]:
        """Reserve a call's expected cost while it runs; the caller sets `cost` of the yielded reservation.

        Waits until the budget allows the call. The actual cost corrects later estimates for the same `name`.

        Raises:
            StopRunError: the call would exceed the limit.
        """
        if self.most is None:
            yield Reservation()
            return
        learned = self._learned[name]
        reservation = Reservation(await self._set_aside(learned, expected))
        self._reserved.append(reservation)
        try:
            yield reservation
        finally:
            # A known cost ends the phase in which calls are made one at a time.
            self._alone = max(0, self._alone - 1) if reservation.cost is None else 0
            self._reserved.remove(reservation)
            if reservation.cost is not None:
                learned.learn(expected, reservation.cost)
            self._settled.set()

    async def _set_aside(self, learned: _Learned, expected: float) -> float:
        """Wait until the budget allows a call; return the amount to reserve, corrected by what earlier calls cost.

        Raises:
            StopRunError: the budget does not allow the call, and no call in flight can release any amount.
        """
        while True:
            amount = learned.estimate(expected)
            fits = self.spent + self.set_aside + amount <= (self.most or 0.0) * _ROUNDING
            # Until a first call has shown what calls really cost, only one is made at a time.
            if fits and not (self._reserved and self._alone):
                return amount
            if not self._reserved:
                spent = f"--max-cost {self.most:g}: {self.spent:.4g} is spent"
                raise StopRunError(f"{spent}, and the next call may cost {amount:.4g}: raise --max-cost")
            self._settled.clear()
            await self._settled.wait()

    @property
    def set_aside(self) -> float:
        """Return the amount reserved for calls in flight."""
        return sum(each.amount for each in self._reserved)

    def check(self) -> None:
        """Check that the budget allows further attempts of calls in flight.

        Raises:
            StopRunError: the attempts could exceed the limit.
        """
        if self.most is not None and self.spent + self.set_aside > self.most * _ROUNDING:
            raise StopRunError(
                f"--max-cost {self.most:g}: {self.spent:.4g} is spent, and retries of unanswered calls may exceed the "
                "limit: raise --max-cost"
            )

    def count(self, cost: float | None) -> None:
        """Add the cost of a call."""
        self.spent += cost or 0.0


@contextlib.contextmanager
def charge_unanswered(charge: Callable[[Usage], object]) -> Iterator[None]:
    """Call `charge` with the usage of each attempt that gets no answer inside the `with` block.

    Attempts in other threads are charged at the end of the block. An unreadable reply counts as an attempt, too.
    """
    loop, waiting, counted = asyncio.get_running_loop(), list[Usage](), False

    def count(usage: Usage) -> None:
        """Charge an attempt without an answer now; from another thread, keep it until the end of the block."""
        nonlocal counted
        counted = True
        waiting.append(usage)
        if asyncio.get_running_loop() is loop:  # else a user's class makes the call in a thread
            charge(waiting.pop())

    token = ON_UNANSWERED.set(count)
    try:
        yield
    except ReplyError:  # the service did its work, but its reply is unreadable
        waiting += [] if counted else [Usage()]
        raise
    finally:
        ON_UNANSWERED.reset(token)
        for usage in waiting:
            charge(usage)


def charged_usage(made: CallsMade) -> Usage:
    """Return the tokens to charge for calls: reported tokens, plus estimates from characters."""
    given = (made.input_tokens or 0) + tokens_in(made.asked)
    return Usage(given, (made.output_tokens or 0) + tokens_in(made.answered), made.cached_input_tokens)


@dataclass(slots=True)
class ReportedUsage:
    """Usage of the same calls, reported twice: call by call, and with the answers.

    A resumed run learns of some calls from answers first, of others from the log of the conversation. For each count,
    the larger of the two sums is used.
    """

    _by_call: list[int] = field(default_factory=lambda: [0] * len(_COUNTS))
    _by_answer: list[int] = field(default_factory=lambda: [0] * len(_COUNTS))

    def add_calls(self, made: CallsMade) -> CallsMade:
        """Add reported calls; return the usage that was not counted yet."""
        return self._add(self._by_call, made)

    def add_answer(self, made: CallsMade) -> CallsMade:
        """Add the usage that an answer reports; return the usage that was not counted yet."""
        return self._add(self._by_answer, made)

    def _add(self, side: list[int], made: CallsMade) -> CallsMade:
        """Add usage to one of the two sums; return by how much this raises the larger sum, for each count.

        Counts that `made` does not report stay None.
        """
        new: dict[str, int] = {}
        for at, name in enumerate(_COUNTS):
            count = getattr(made, name)
            if count is not None:
                before = max(self._by_call[at], self._by_answer[at])
                side[at] += count
                new[name] = max(self._by_call[at], self._by_answer[at]) - before
        return CallsMade(**new)


# -- exact sums in constant memory (Shewchuk 1997)


_FEW = 1_024
"""Number of values that are kept before they are condensed."""


class ExactSum:
    """An exact running sum: a few floats with the same exact sum as all added numbers, and their count."""

    __slots__ = ("count", "numbers")

    def __init__(self) -> None:
        """Start with a sum of 0."""
        self.numbers = array("d")
        self.count = 0

    def append(self, number: float) -> None:
        """Add a number.

        Raises:
            OverflowError: an integer outside the range of a float.
        """
        self.numbers.append(number)
        self.count += 1
        if len(self.numbers) > _FEW:
            self.condense()

    def condense(self) -> None:
        """Replace the kept numbers by fewer ones with the same sum."""
        self.numbers[:] = array("d", _condensed(self.numbers))


def _condensed(numbers: Sequence[float]) -> list[float]:
    """Return a few floats with the same exact sum as the numbers: the rounded sum, its rounding error, and so on.

    A sum that is not finite is returned as that single value.
    """
    found: list[float] = []
    try:
        while rest := math.fsum(chain(numbers, map(neg, found))):
            if not math.isfinite(rest):
                return [rest]
            found.append(rest)
    except (OverflowError, ValueError):  # the sum is outside the range of a float
        return [math.inf]
    return found
