"""The cost of a run's calls, and its budget.

A call's tokens, and so its cost, come from the first source that has them:

1.  the token counts that the service reports
2.  an estimate: a token for every four characters of the request and of the answer
3.  if the answer is unknown, 500 output tokens or the call's own limit, if that is lower
4.  if nothing is known, 1,000 input tokens and 500 output tokens

A price is in one currency, per million tokens. Calls without a price have an unknown cost and are not limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from array import array
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from tunecheck._errors import ReplyError, StopRunError
from tunecheck._json import JSON
from tunecheck._targets import CallsMade
from tunecheck.endpoints._base import ON_UNANSWERED, Price, Usage

CHARACTERS_PER_TOKEN = 4
"""Rule of thumb for English text."""

_USUAL_USAGE = Usage(1_000, 500)
"""Input and output tokens assumed for a call if nothing is known about it."""

_WEIGHT_KEPT = 0.9
"""Weight that earlier calls keep after each further call: about the last ten calls count."""

_ROUNDING = 1 + 1e-9
"""Tolerance for rounding errors when a sum of costs reaches the limit."""

_MOST_SERIAL_CALLS = 10
"""Maximum number of calls made one at a time until the first one reports a cost; some may fail at first."""


# -- the cost of a call


def cost_of(usage: Usage, price: Price) -> float:
    """Return the cost of a call in the price's currency; token counts that are missing cost nothing.

    For example, 2,000 input tokens at 1.50 USD per million and 100 output tokens at 6 USD per million cost 0.0036 USD.
    """
    input_tokens, cached_price = usage.input_tokens or 0, price.cached_input_per_million
    # Without a price for cached tokens, they cost as much as all others.
    cached_tokens = 0 if cached_price is None else min(usage.cached_input_tokens or 0, input_tokens)

    # Tokens times the price of a million tokens are millionths of the currency.
    millionths = (input_tokens - cached_tokens) * price.input_per_million
    millionths += (usage.output_tokens or 0) * price.output_per_million
    millionths += cached_tokens * (cached_price or 0.0)
    return millionths / 1_000_000


def cost_with_estimates(usage: Usage, price: Price, estimate: Usage = _USUAL_USAGE) -> float:
    """Return the cost of a call by the reported token counts, and by the estimate for counts that are missing."""
    input_tokens = estimate.input_tokens if usage.input_tokens is None else usage.input_tokens
    output_tokens = estimate.output_tokens if usage.output_tokens is None else usage.output_tokens
    return cost_of(Usage(input_tokens, output_tokens, usage.cached_input_tokens), price)


def has_token_counts(usage: Usage) -> bool:
    """Return True if the service reported the input and output tokens of a call."""
    return usage.input_tokens is not None and usage.output_tokens is not None


def expected_usage(request_length: int, output_limit: int | None, answer_length: int | None = None) -> Usage:
    """Return the expected tokens of a call from the number of characters of its request and its answer.

    An answer of unknown length (None) counts as 500 tokens. `output_limit` is the largest number of output tokens, if
    there is one. For example, a request of 4,000 characters has 1,000 tokens.
    """
    usual = _USUAL_USAGE.output_tokens or 0
    output_tokens = usual if answer_length is None else tokens_in(answer_length)

    if output_limit is not None:
        output_tokens = min(output_tokens, output_limit)
    return Usage(tokens_in(request_length), output_tokens)


def usage_with_estimates(made: CallsMade) -> Usage:
    """Return the tokens of calls: the reported ones, plus estimates for the calls without reported tokens.

    For these, `made.asked` and `made.answered` are the numbers of characters of requests and answers.
    """
    input_tokens = (made.input_tokens or 0) + tokens_in(made.asked)
    return Usage(input_tokens, (made.output_tokens or 0) + tokens_in(made.answered), made.cached_input_tokens)


def tokens_in(characters: int) -> int:
    """Return the approximate number of tokens in this many characters."""
    return -(-characters // CHARACTERS_PER_TOKEN)


# -- the calls, tokens and cost of a run, for its files and its output


class Spending(msgspec.Struct):
    """Calls, tokens and cost of one evaluator or of the target.

    If calls have no token counts (`uncounted`), their cost is estimated and the total cost is unknown. `unpriced` calls
    have no price.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    uncounted: int = 0
    unpriced: int = 0
    costs: defaultdict[tuple[str, bool], array[float]] = msgspec.field(
        default_factory=lambda: defaultdict(lambda: array("d"))
    )
    """The cost of each call, by currency and by whether tokens were counted; an exact sum depends on no order."""

    def count_calls(self, usage: Usage, cost: float | None, currency: str | None, calls: int = 1) -> None:
        """Count calls with their total of tokens and cost; `cost` is None if the price is unknown."""
        self.calls += calls
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0

        counted = has_token_counts(usage)
        if not counted:
            self.uncounted += calls

        if cost is None or currency is None:
            self.unpriced += calls
        else:
            self.costs[currency, counted].append(cost)

    def summary(self) -> dict[str, JSON]:
        """Return the entry for metrics.json.

        The cost is null without calls, if a token count or price is missing, or if currencies differ.

        If only token counts are missing, the counted and the estimated cost are listed separately. For example:

            {"calls": 12, "input_tokens": 9000, "output_tokens": 800, "uncounted_calls": 2, "cost": null,
             "currency": "USD", "counted_cost": 0.014, "estimated_cost": 0.003}
        """
        currencies = {currency for currency, _ in self.costs}
        currency = currencies.pop() if not self.unpriced and len(currencies) == 1 else None
        # True: calls whose tokens the service counted. False: calls whose tokens are estimated. The sums are used only
        # if there is one currency.
        sums = {counted: math.fsum(costs) for (_, counted), costs in self.costs.items()}

        entry: dict[str, JSON] = {
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "uncounted_calls": self.uncounted,
            "cost": None if currency is None or self.uncounted else sums.get(True, 0.0),
            "currency": currency,
        }

        if currency is not None and self.uncounted:
            entry |= {"counted_cost": sums.get(True, 0.0), "estimated_cost": sums.get(False, 0.0)}
        return entry


def cost_text(spent: Mapping[str, JSON], form: str = ".4g") -> str | None:
    """Return the cost in an entry of metrics.json as text: `0.0103 USD`, or `0.01 + about 0.02 USD` with an estimate.

    Without a cost, return `unknown` if token counts are missing, else None. `form` is the format of a number.
    """
    cost = spent.get("cost")
    if isinstance(cost, (int, float)):
        return f"{cost:{form}} {spent.get('currency')}"

    known, estimated = spent.get("counted_cost"), spent.get("estimated_cost")
    if isinstance(known, (int, float)) and isinstance(estimated, (int, float)):
        return f"{known:{form}} + about {estimated:{form}} {spent.get('currency')}"

    return "unknown" if spent.get("uncounted_calls") else None


# -- the budget of a run


@dataclass(eq=False, slots=True)
class Reservation:
    """The amount reserved for one call; `cost` is its actual cost, None if it failed or has no price."""

    amount: float = 0.0
    cost: float | None = None

    def add_cost(self, cost: float | None) -> None:
        """Add the cost of one of the call's attempts; None if it is unknown."""
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost


class _CostRatio(msgspec.Struct):
    """Ratio of actual to expected costs, as a moving average over about ten calls.

    A call with an expected cost of 0 counts as an expected cost of 1. For example, if the first calls cost twice as
    much as expected, each further call reserves about twice its expected cost.
    """

    expected: float = 0.0
    actual: float = 0.0

    def correct(self, expected: float) -> float:
        """Return an expected cost, corrected by the actual costs of earlier calls, if there were any.

        After earlier calls, an expected cost of 0 counts as 1.
        """
        if not self.expected:
            return expected
        return (expected or 1.0) * self.actual / self.expected

    def learn(self, expected: float, actual: float) -> None:
        """Include a call's expected and actual cost in the moving average; an expected cost of 0 counts as 1."""
        # One call says little: the first expectation counts like a call, with the higher of the two costs.
        if expected and not self.expected:
            self.expected, self.actual = expected, max(expected, actual)
        self.expected = _WEIGHT_KEPT * self.expected + (expected or 1.0)
        self.actual = _WEIGHT_KEPT * self.actual + actual


class Budget:
    """Limits the cost of a run, including calls in flight.

    Each call reserves its expected cost before it is sent; earlier calls of the same name correct the expectation. If
    the reservation exceeds the limit, the call waits for calls in flight. If there are none, the run stops. So the run
    exceeds the limit at most by the excess cost of calls in flight. The first calls go one at a time until one
    succeeds, at most ten.

    The caller adds the cost of each attempt to both sums, and calls `check` before each retry:

        async with budget.reserve("judge", expected_cost) as reservation:
            while True:
                answer, cost = await attempt()
                budget.add_cost(cost)  # counts against the limit
                reservation.add_cost(cost)  # corrects the expected cost of later calls
                if answer is not None:
                    break
                budget.check()
    """

    def __init__(self, limit: float | None) -> None:
        """Limit the cost of a run to `limit`, in the currency of the prices; None: no limit."""
        self.limit = limit
        self.spent = 0.0
        self._reservations: list[Reservation] = []
        self._settled = asyncio.Event()
        self._ratios: defaultdict[str, _CostRatio] = defaultdict(_CostRatio)
        self._serial_calls_left = _MOST_SERIAL_CALLS

    @contextlib.asynccontextmanager
    async def reserve(self, name: str, expected: float) -> AsyncIterator[Reservation]:
        """Reserve a call's expected cost while it runs; the caller adds its actual cost to the yielded reservation.

        Waits until the budget allows the call. The actual cost corrects later estimates for the same `name`. Without a
        limit, nothing is reserved.

        Raises:
            StopRunError: the call would exceed the limit.
        """
        if self.limit is None:
            yield Reservation()
            return

        # Until the cost of a call is known, calls run one at a time, because many could far exceed the limit. The
        # amount is computed anew after each wait, because finished calls correct it.
        ratio = self._ratios[name]
        while self._exceeds(amount := ratio.correct(expected)) or (self._reservations and self._serial_calls_left):
            if not self._reservations:  # no call in flight can release any amount
                raise self._limit_error(f"the next call may cost {amount:.4g}")
            self._settled.clear()
            await self._settled.wait()

        reservation = Reservation(amount)
        self._reservations.append(reservation)

        try:
            yield reservation
        finally:
            self._reservations.remove(reservation)
            if reservation.cost is None:
                self._serial_calls_left = max(0, self._serial_calls_left - 1)
            else:
                # A known cost corrects the expected costs, so calls may now run concurrently. A call without a cost
                # corrects nothing.
                self._serial_calls_left = 0
                ratio.learn(expected, reservation.cost)

            self._settled.set()

    def _exceeds(self, amount: float = 0.0) -> bool:
        """Return True if the amounts spent, reserved for calls in flight, and this one exceed the limit."""
        reserved = sum(reservation.amount for reservation in self._reservations)
        return self.limit is not None and self.spent + reserved + amount > self.limit * _ROUNDING

    def add_cost(self, cost: float | None) -> None:
        """Add the cost of a call or an attempt to the amount spent; None means that it is unknown and adds nothing."""
        self.spent += cost or 0.0

    def check(self) -> None:
        """Check that the limit allows further attempts of calls in flight.

        Raises:
            StopRunError: the attempts could exceed the limit.
        """
        # An attempt without an answer may have been billed, so the amount spent grows with each one.
        if self._exceeds():
            raise self._limit_error("retries of unanswered calls may exceed the limit")

    def _limit_error(self, reason: str) -> StopRunError:
        """Return the error that stops the run, with the limit, the amount spent and the reason."""
        return StopRunError(f"--max-cost {self.limit:g}: {self.spent:.4g} is spent, and {reason}: raise --max-cost")


# -- usage that endpoints report


@contextlib.contextmanager
def report_unanswered(report: Callable[[Usage], object]) -> Iterator[None]:
    """Call `report` with the usage of each attempt that gets no answer inside the `with` block.

    Attempts in other threads are reported at the end of the block. If the reply is unreadable and no attempt was
    reported, the reply counts as an attempt.
    """
    loop, pending, has_attempts = asyncio.get_running_loop(), list[Usage](), False

    def receive(usage: Usage) -> None:
        """Report an attempt without an answer now; from another thread, keep it until the end of the block."""
        nonlocal has_attempts
        has_attempts = True
        if asyncio.get_running_loop() is loop:
            report(usage)
        else:  # a user's class makes the call in a thread
            pending.append(usage)

    # Endpoints call the function in this variable.
    token = ON_UNANSWERED.set(receive)
    try:
        yield
    except ReplyError:  # the service did its work, but its reply is unreadable
        if not has_attempts:
            pending.append(Usage())
        raise
    finally:
        ON_UNANSWERED.reset(token)
        for usage in pending:
            report(usage)
