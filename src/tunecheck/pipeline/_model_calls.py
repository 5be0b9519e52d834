"""Model calls of a run's evaluators: each call is made once, journaled before it counts, and limited by a budget.

    evaluator ──request──► recorded? ─yes─► the recorded answer
                              └─no─► budget ──► endpoint ──► journal ──► the answer

Calls with equal content (endpoint, messages, tools, parameters, sample) are made once. A resumed run reuses its
recorded calls, and a new run those of its parent.

An answer comes from the first place that has it:

1.  an equal call in progress, or one that this session has made
2.  this run's journal from before an interruption
3.  the parent run's journal
4.  another task of a run in several processes (`SharedCalls`)
5.  a new call

Only a new call costs this run anything. Answers of 3 and 4 are journaled without a cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from tunecheck._files import Failure, ModelCall
from tunecheck._json import JSON, content_hash, dumps, whole_number
from tunecheck._records import Journal
from tunecheck._targets import CallsMade, Row, Target
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint, Price, Usage, output_limit
from tunecheck.pipeline._costs import (
    Budget,
    Reservation,
    Spending,
    cost_of,
    cost_with_estimates,
    expected_usage,
    has_token_counts,
    report_unanswered,
    usage_with_estimates,
)
from tunecheck.pipeline._scoring import Output
from tunecheck.pipeline._worker_queues import ROW

if TYPE_CHECKING:
    from tunecheck.pipeline._journal_reader import JournalReader


class SharedCalls(Protocol):
    """Judges' answers that the tasks of a run share, so that equal calls are made once."""

    async def answer(self, key: str) -> dict[str, JSON] | None:
        """Return the answer of another task, waiting if its call is in progress; None: the caller makes the call."""

    async def settle(self, key: str, answer: dict[str, JSON] | None) -> None:
        """Share an answer with other tasks; None if the call failed."""


Value = TypeVar("Value")


class ReusableResult(NamedTuple, Generic[Value]):
    """A recorded result.

    `is_inherited`: only the parent run's journal has the result, so this run must record it, too. `paid_elsewhere`: the
    parent run paid for the result. `reused`: this session did not compute the result.

    | journal that has the result          | is_inherited | paid_elsewhere | reused |
    |--------------------------------------|--------------|----------------|--------|
    | this run's, written by this session  | False        | False          | False  |
    | this run's, written earlier          | False        | False          | True   |
    | this run's and its parent's          | False        | True           | True   |
    | its parent's only                    | True         | True           | True   |
    """

    value: Value
    is_inherited: bool
    paid_elsewhere: bool
    reused: bool


def _first_result(own: Value | None, of_parent: Value | None, *, is_new: bool = False) -> ReusableResult[Value] | None:
    """Return this run's result, else the parent run's, or None; `is_new`: this session has computed the run's own."""
    # If the parent run has a result, too, this run's own one is a copy of it.
    was_inherited = of_parent is not None
    if own is not None:
        return ReusableResult(own, is_inherited=False, paid_elsewhere=was_inherited, reused=was_inherited or not is_new)
    return None if of_parent is None else ReusableResult(of_parent, is_inherited=True, paid_elsewhere=True, reused=True)


class CachedResults:
    """The results that a run may reuse: its own if it is resumed, and those of its parent run."""

    def __init__(self, own: JournalReader | None = None, parent: JournalReader | None = None) -> None:
        self._own = own
        self._parent = parent

    def __bool__(self) -> bool:
        return self._own is not None or self._parent is not None

    def answer(self, index: int, input_hash: str | None) -> ReusableResult[dict[str, JSON]] | None:
        """Return the answer to a row with these inputs: this run's, else the parent run's, or None."""
        # The parent is always searched, because the n-th row with equal inputs gets the parent's n-th answer.
        of_parent = self._parent.answer(index, input_hash) if self._parent else None
        own = self._own.answer(index, input_hash) if self._own else None
        return _first_result(own, of_parent, is_new=self._own is not None and self._own.is_new(index))

    def failure(self, index: int, stage: str) -> Failure | None:
        """Return this session's earlier failure of a stage on a row, or None."""
        return self._own.failure(index, stage) if self._own else None

    def calls_of(self, index: int) -> Iterator[bytes]:
        """Yield the journal records of the model calls that this run's evaluators made for a row, as JSON."""
        return self._own.calls_of(index) if self._own else iter(())

    def steps(self, index: int, input_hash: str | None) -> dict[str, JSON]:
        """Return the parts that this run recorded of a row's incomplete answer, by name."""
        return self._own.steps(index, input_hash) if self._own else {}

    def verdict(self, name: str, index: int, input_hash: str | None) -> ReusableResult[Output] | None:
        """Return the output of an evaluator on these inputs: this run's, else the parent run's, or None."""
        of_parent = self._parent.verdict(name, index, input_hash) if self._parent else None
        own = self._own.verdict(name, index, input_hash) if self._own else None
        return _first_result(own, of_parent, is_new=self._own is not None and self._own.is_new(index, name))

    def call(self, key: str) -> ReusableResult[dict[str, JSON]] | None:
        """Return the answer to a model call with this `call_key`: this run's, else the parent run's, or None."""
        own = self._own.call(key) if self._own else None
        return _first_result(own, self._parent.call(key) if self._parent and own is None else None)

    def answered(self) -> Iterator[int]:
        """Yield the indices of the rows that this run answered before it was interrupted."""
        return self._own.answered() if self._own else iter(())

    def recorded_calls(self) -> Iterator[ModelCall]:
        """Yield the records of the calls that this run journaled before an interruption, also if another run paid."""
        return self._own.recorded_calls() if self._own else iter(())

    def close(self) -> None:
        """Close the files."""
        for recorded in (self._own, self._parent):
            if recorded is not None:
                recorded.close()


class RunCalls:
    """All model calls of a run's evaluators, and the cost of its target's answers.

    `spending` has this run's own costs by evaluator; the target's are under `target`.
    """

    def __init__(
        self, run_id: str, journal: Journal, cached: CachedResults, budget: Budget, shared: SharedCalls | None = None
    ) -> None:
        """Count the calls that this run paid for before an interruption, and prepare for new ones.

        `shared` has the answers of other tasks if the run is distributed.
        """
        self.spending: defaultdict[str, Spending] = defaultdict(Spending)
        self.simulated = False
        """True if an answer of the target or of a judge is simulated."""
        self.masked = 0
        """Number of answers in which a secret was masked."""

        self._run_id = run_id
        self._journal = journal
        self._cached = cached
        self.budget = budget
        self._shared = shared
        self._in_progress: dict[str, asyncio.Task[Completion]] = {}
        """The answers of calls in flight by key, for which equal calls wait."""
        self._recorded: dict[str, int] = {}
        """The journal offsets of the calls that this process has recorded, by key."""

        for call in cached.recorded_calls():
            if call.e is not None:  # else another run has paid for the call
                self._count_paid(call.e, call.out, call.cost, call.cur)

    def usage(self) -> dict[str, JSON]:
        """Return the spending by evaluator; the target's is under `target`."""
        return {name: self.spending[name].summary() for name in sorted(self.spending)}

    async def complete(self, evaluator: str, endpoint: Endpoint, request: ChatRequest, sample: int) -> Completion:
        """Return the answer to a judge's request: recorded, from an equal call in progress, or from a new call.

        `sample` distinguishes repeated calls with equal content, so that each is made.

        Raises:
            EndpointError: the call failed for good.
            RunError: the budget is spent, or the journal cannot be written.
        """
        key = call_key(endpoint, request, sample)
        # If the caller that makes the call is cancelled, the first of the waiting callers makes it.
        while (task := self._in_progress.get(key)) is not None:
            await asyncio.wait([task])
            if not task.cancelled():
                break

        if task is None:
            task = self._in_progress[key] = asyncio.create_task(self._get_answer(evaluator, key, endpoint, request))
            task.add_done_callback(partial(self._end_call, key))

        completion = await task
        self.simulated = self.simulated or completion.simulated
        return completion

    def _end_call(self, key: str, task: asyncio.Task[Completion]) -> None:
        """Forget a call that has ended; retrieve its error, because its caller may have been cancelled."""
        del self._in_progress[key]
        if not task.cancelled():
            task.exception()

    async def _get_answer(self, evaluator: str, key: str, endpoint: Endpoint, request: ChatRequest) -> Completion:
        """Return the answer that this run, its parent or another task has; else make the call and share the answer."""
        offset = self._recorded.get(key)
        columns = None if offset is None else self._journal.read(offset).get("out")
        if isinstance(columns, dict):
            return Completion.of_columns(columns)

        recorded = self._cached.call(key)
        if recorded is not None and recorded.is_inherited:  # only the parent run's journal has it
            return self._record_answer(key, recorded.value)
        if recorded is not None:
            return Completion.of_columns(recorded.value)

        if self._shared is None:
            return await self._make_call(evaluator, key, endpoint, request)

        columns = await self._shared.answer(key)
        if columns is not None:
            return self._record_answer(key, columns)

        try:
            completion = await self._make_call(evaluator, key, endpoint, request)
            columns = completion.columns()
        finally:
            await self._shared.settle(key, columns)  # None if the call failed
        return completion

    def _record_answer(self, key: str, columns: dict[str, JSON]) -> Completion:
        """Journal an answer that the parent run or another task has paid for, without a cost; return it."""
        completion = Completion.of_columns(columns)
        self.masked += completion.masked
        self._recorded[key] = self._journal.append(ModelCall(None, key, None, None, columns, ROW.get()))
        return completion

    async def _make_call(self, evaluator: str, key: str, endpoint: Endpoint, request: ChatRequest) -> Completion:
        """Make a call within the budget, journal the answer and count its cost; return the answer.

        The reserved cost is an estimate from the request's characters and the output limit; 0 without a price.
        """
        price, request_length, limit = endpoint.price, 0, None
        if price is not None:
            request_length = len(dumps([list(request.messages), list(request.tools or ())]))
            limit = output_limit(dict(request.parameters), endpoint.settings().get("parameters"))
        expected = expected_usage(request_length, limit)

        # All attempts of this call in this run have the same idempotency key.
        text = f"{self._run_id}\0{key}"
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

        async with self.reserve(evaluator, price, expected) as reservation:
            completion = await endpoint.complete(replace(request, idempotency_key=digest))
            columns = completion.columns()
            # The length of the answer gives a better estimate than before the call, if the service counts no tokens.
            estimate = expected_usage(request_length, limit, _generated_length(columns)) if price else expected
            cost, currency = _cost(completion.usage, price, estimate)

            self._recorded[key] = self._record_paid(evaluator, key, columns, cost, currency)
            reservation.add_cost(cost)
        return completion

    def _record_paid(
        self, name: str, key: str, columns: dict[str, JSON], cost: float | None, currency: str | None
    ) -> int:
        """Journal a call of an evaluator (or `target`) and count its cost; return the record's offset."""
        # First the journal, then the cost: an answer that is paid for must not be lost.
        offset = self._journal.append(ModelCall(name, key, cost, currency, columns, ROW.get()))
        self._count_paid(name, columns, cost, currency)
        return offset

    def _count_paid(self, name: str, columns: Mapping[str, JSON], cost: float | None, currency: str | None) -> None:
        """Count a journaled call, and whether its answer is simulated or has a masked secret.

        A record may stand for several calls of a conversation, with their number in the column `calls`.
        """
        usage = Usage.of_json(columns.get("usage"))
        self._add_cost(name, usage, cost, currency, whole_number(columns.get("calls")) or 1)
        self.simulated |= columns.get("simulated") is True  # a reused verdict would not ask for it
        self.masked += columns.get("masked") is True

    def _add_cost(self, evaluator: str, usage: Usage, cost: float | None, currency: str | None, calls: int = 1) -> None:
        """Add calls to the spending of an evaluator (or `target`) and to the budget.

        A new name's spending starts at zero. A cost of None is unknown.
        """
        self.spending[evaluator].count_calls(usage, cost, currency, calls)
        self.budget.add_cost(cost)

    @contextlib.asynccontextmanager
    async def reserve(self, name: str, price: Price | None, expected: Usage | None) -> AsyncIterator[Reservation]:
        """Reserve budget for a call of an evaluator (or `target`); the caller adds its cost to the reservation.

        Attempts without an answer are journaled and counted, because the service may have billed them. Without a price,
        there is no cost to limit, and nothing is reserved or counted. If nothing is known about the request, `expected`
        is None, and the costs of earlier calls decide how much to reserve.

        Raises:
            StopRunError: the budget is spent, or further attempts could exceed it.
        """
        if price is None:
            yield Reservation()
            return

        # An expected cost of 0 counts as unknown: the budget then reserves by earlier calls.
        amount = 0.0 if expected is None else cost_of(expected, price)
        async with self.budget.reserve(name, amount) as reservation:

            def count_attempt(usage: Usage) -> None:
                """Journal and count the cost of an attempt without an answer, so that a resumed run knows of it."""
                # Tokens that are not reported are estimated from the request, else from the costs of earlier calls. The
                # reserved amount is 0 if there are none.
                if expected is not None or has_token_counts(usage):
                    cost = cost_with_estimates(usage, price, expected or Usage())
                else:
                    cost = reservation.amount or cost_with_estimates(Usage(), price)
                self._record_paid(name, uuid.uuid4().hex, {"usage": usage.as_json()}, cost, price.currency)
                reservation.add_cost(cost)
                self.budget.check()

            with report_unanswered(count_attempt):
                yield reservation

    # -- the target's calls

    @contextlib.asynccontextmanager
    async def one_call(self, name: str, endpoint: object, key: str) -> AsyncIterator[Callable[[CallsMade], None]]:
        """Reserve budget for one call of a target that `tracks_each_call`; see `CostTracking.one_call`.

        Raises:
            StopRunError: the budget is spent.
        """
        price = _price(endpoint)
        async with self.reserve(name, price, None) as reservation:

            def count(made: CallsMade) -> None:
                """Journal and count the call, unless it was counted before an interruption."""
                usage = usage_with_estimates(made)
                cost, currency = _cost(usage, price, usage)
                reported = Usage(made.input_tokens, made.output_tokens).as_json()
                columns: dict[str, JSON] = {"usage": reported, "calls": made.calls, "masked": made.masked > 0}
                if self._cached.call(key) is None:
                    self._record_paid(name, key, columns, cost, currency)
                reservation.add_cost(cost)

            yield count

    def of_target(
        self, target: Target, row: Row
    ) -> contextlib.AbstractAsyncContextManager[Callable[[Mapping[str, JSON]], object]]:
        """Reserve budget for the target's answer to a row; the caller passes the answer to the yielded function.

        The budget is not limited if the endpoint has no price, or if the target counts each of its calls itself.

        Raises:
            StopRunError: the budget is spent.
        """
        count = partial(self.count_target, target, row)
        price = None if target.tracks_each_call else _price(getattr(target, "endpoint", None))
        # Most targets have no price: then the answer is only counted.
        return contextlib.nullcontext(count) if price is None else self._with_budget(target, row, price)

    @contextlib.asynccontextmanager
    async def _with_budget(
        self, target: Target, row: Row, price: Price
    ) -> AsyncIterator[Callable[[Mapping[str, JSON]], object]]:
        """Reserve budget for the answer of an endpoint with this price to a row.

        The caller passes the answer to the yielded function, which counts its cost.

        Raises:
            StopRunError: the budget is spent.
        """
        async with self.reserve("target", price, _expected_answer(target, row)) as reservation:
            yield lambda answer: reservation.add_cost(self.count_target(target, row, answer))

    def count_target(self, target: Target, row: Row, answer: Mapping[str, JSON]) -> float | None:
        """Count an answer that this run has paid for, now or before an interruption; return the answer's cost.

        Return None if the cost is unknown, no model was called, or the target counts its own calls.
        """
        if target.tracks_each_call:
            return None

        # Tokens that the target does not report are estimated from the row and the answer.
        usage = Usage(*target.usage(answer), Usage.of_json(answer.get("usage")).cached_input_tokens)
        price = _price(getattr(target, "endpoint", None))
        if answer.get("simulated") is True or (price is None and usage == Usage()):
            return None  # no model was called, or a function's calls are unknown

        cost, currency = _cost(usage, price, _expected_answer(target, row, answer) if price else Usage())
        self._add_cost("target", usage, cost, currency)
        return cost


class EvaluatorCalls(msgspec.Struct, frozen=True):
    """The object through which one evaluator makes its model calls; they are recorded under its name."""

    calls: RunCalls
    evaluator: str

    async def complete(self, endpoint: Endpoint, request: ChatRequest, *, sample: int = 0) -> Completion:
        """Return the answer to a request of this evaluator, like `RunCalls.complete`."""
        return await self.calls.complete(self.evaluator, endpoint, request, sample)


def _price(endpoint: object) -> Price | None:
    """Return an endpoint's price; None without a price, or if the object is no endpoint."""
    return endpoint.price if isinstance(endpoint, Endpoint) else None


def _cost(usage: Usage, price: Price | None, estimate: Usage) -> tuple[float | None, str | None]:
    """Return the cost and its currency, by reported tokens or else the estimate; None for both without a price."""
    return (None, None) if price is None else (cost_with_estimates(usage, price, estimate), price.currency)


def _expected_answer(target: Target, row: Row, answer: Mapping[str, JSON] | None = None) -> Usage:
    """Return the expected tokens of the target's call for a row.

    The input tokens are estimated from the length of the target's inputs in the row. The output tokens are estimated
    from the length of `answer`, or are the usual number without an answer. An endpoint's output limit caps them.
    """
    endpoint = getattr(target, "endpoint", None)
    limit = output_limit(endpoint.settings().get("parameters")) if isinstance(endpoint, Endpoint) else None

    try:
        request_length = len(dumps(target.inputs(row)))
    except TypeError:  # a row in memory may hold the user's own objects
        request_length = 0

    return expected_usage(request_length, limit, None if answer is None else _generated_length(answer))


def _generated_length(answer: Mapping[str, JSON]) -> int:
    """Return the approximate number of characters that the model generated: text, calls and reasoning, as JSON."""
    # Calls and reasoning are output tokens, too.
    reasoning = [answer["reasoning"]] if answer.get("reasoning") else []
    return len(dumps([answer.get("text"), answer.get("tool_calls"), *reasoning]))


def call_key(endpoint: Endpoint, request: ChatRequest, sample: int) -> str:
    """Return a hash (16 hex digits) of a call's endpoint settings, messages, tools, parameters and sample."""
    tools = None if request.tools is None else [dict(tool) for tool in request.tools]
    messages = [dict(message) for message in request.messages]
    return content_hash([endpoint.kind, endpoint.answer_settings(), messages, tools, dict(request.parameters), sample])
