"""The calls that a run's evaluators make to models: each made once, journaled before it counts, within a budget.

    evaluator ──request──► recorded? ─yes─► the recorded answer
                              └─no─► budget ──► endpoint ──► journal ──► the answer

Calls are known by their content (endpoint, messages, tools, parameters, sample), so that equal ones are one, a run that
goes on finds those that it has made, and a new run made from another one reuses their answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Protocol

from tunecheck._errors import ReplyError
from tunecheck._json import JSON, content_hash, dumps, loads
from tunecheck._targets import CallsMade, Row, Target
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint, Price, Usage, output_limit
from tunecheck.pipeline._costs import (
    Budget,
    EndpointCosts,
    ReportedUsage,
    Spending,
    charge_of,
    charged_usage,
    cost_of,
    expected_usage,
)
from tunecheck.pipeline._journal import CachedResults, Journal


class SharedCalls(Protocol):
    """The judges' answers that the tasks of a run share, so that equal calls are made once."""

    async def answer(self, key: str) -> dict[str, JSON] | None:
        """Return the answer that another task has or is getting; None: the caller makes the call."""

    async def settle(self, key: str, answer: dict[str, JSON] | None) -> None:
        """Share an answer; None: the call failed."""


ROW: ContextVar[int | None] = ContextVar("row", default=None)
"""Index of the row that an evaluator is judging, for the records of its calls."""


class RunCalls:
    """All model calls of a run's evaluators; `spending` counts by evaluator what this run itself has spent."""

    def __init__(
        self, run_id: str, journal: Journal, cached: CachedResults, budget: Budget, shared: SharedCalls | None = None
    ) -> None:
        self.spending: defaultdict[str, Spending] = defaultdict(Spending)
        self.simulated = False
        self.masked = 0
        self._run_id = run_id
        self._journal = journal
        self._cached = cached
        self._budget = budget
        self._shared = shared
        self._under_way: dict[str, asyncio.Future[Completion]] = {}
        self._recorded_calls = _RecordedCalls(journal.path)
        self._reported: defaultdict[tuple[str, str], ReportedUsage] = defaultdict(ReportedUsage)
        for evaluator, columns, cost, currency in cached.paid_calls():
            completion = Completion.of_columns(columns)
            self._count(evaluator, completion.usage, cost, currency)
            self.simulated = self.simulated or completion.simulated  # its verdict may not be asked for again
            self.masked += completion.masked

    def usage(self) -> dict[str, JSON]:
        """What was spent, by evaluator; the target's answers are under `target`."""
        return {name: self.spending[name].summary() for name in sorted(self.spending)}

    def of(self, evaluator: str) -> EvaluatorCalls:
        """The calls of one evaluator."""
        return EvaluatorCalls(self, evaluator)

    async def complete(self, evaluator: str, endpoint: Endpoint, request: ChatRequest, sample: int) -> Completion:
        """The answer to a request: recorded, under way, or asked for.

        Raises:
            EndpointError: the call failed for good.
            RunError: the budget is spent, or the journal cannot be written.
        """
        key = call_key(endpoint, request, sample)
        completion = await self._found(key) or await self._first(evaluator, key, endpoint, request)
        self.simulated = self.simulated or completion.simulated
        return completion

    async def _found(self, key: str) -> Completion | None:
        """The answer that this process has recorded, or that is under way; None where it has to be got."""
        while (shared := self._under_way.get(key)) is not None:
            await asyncio.wait([shared])
            if not shared.cancelled():  # else whoever asked first gave up, and somebody who waits asks in their place
                return shared.result()
        return self._recorded_calls.find(key)

    async def _first(self, evaluator: str, key: str, endpoint: Endpoint, request: ChatRequest) -> Completion:
        """Get an answer, on behalf of all who ask the same meanwhile."""
        shared: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._under_way[key] = shared
        try:
            completion = await self._get(evaluator, key, endpoint, request)
        except BaseException as error:  # noqa: BLE001 - whoever waits for this answer is told, too
            if isinstance(error, Exception):
                shared.set_exception(error)
                shared.exception()  # seen: there may be nobody else to see it
            else:
                shared.cancel()
            raise
        finally:
            del self._under_way[key]
        shared.set_result(completion)
        return completion

    async def _get(self, evaluator: str, key: str, endpoint: Endpoint, request: ChatRequest) -> Completion:
        recorded = self._cached.call(key)
        if recorded is not None:
            return self._taken(key, recorded.value) if recorded.again else Completion.of_columns(recorded.value)
        if self._shared is None:
            return await self._buy(evaluator, key, endpoint, request)
        bought = await self._shared.answer(key)
        if bought is not None:
            return self._taken(key, bought)
        try:
            completion = await self._buy(evaluator, key, endpoint, request)
            bought = completion.columns()
        finally:
            await self._shared.settle(key, bought)
        return completion

    def _taken(self, key: str, columns: dict[str, JSON]) -> Completion:
        """An answer that somebody else has paid for, as this run's."""
        completion = Completion.of_columns(columns)
        self.masked += completion.masked
        self._recorded_calls.add(key, self._journal.call(None, key, None, None, columns, ROW.get()))
        return completion

    async def _buy(self, evaluator: str, key: str, endpoint: Endpoint, request: ChatRequest) -> Completion:
        price, asked, limit = endpoint.price, 0, None
        if price is not None:
            asked = len(dumps([list(request.messages), list(request.tools or ())]))
            limit = output_limit(dict(request.parameters), endpoint.settings().get("parameters"))
        expected = expected_usage(asked, limit)
        # A key that is the same each time this run asks for it.
        text = f"{self._run_id}\0{key}"
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        async with self._budget.reserved(evaluator, cost_of(expected, price) if price else 0.0) as reservation:
            try:
                completion = await endpoint.complete(replace(request, idempotency_key=digest))
            except ReplyError:
                reservation.cost = self._charge_unread(evaluator, price, expected)
                raise
            columns = completion.columns()
            estimate = expected_usage(asked, limit, _length(columns)) if price else expected
            cost, currency = _cost(completion.usage, price, estimate)
            self._recorded_calls.add(key, self._journal.call(evaluator, key, cost, currency, columns, ROW.get()))
            self._count(evaluator, completion.usage, cost, currency)
            self.masked += completion.masked
            reservation.cost = cost
        return completion

    def _count(self, evaluator: str, usage: Usage, cost: float | None, currency: str | None, calls: int = 1) -> None:
        self.spending[evaluator].add(usage, cost, currency, calls)
        self._budget.count(cost)

    def _charge_unread(self, name: str, price: Price | None, expected: Usage) -> float | None:
        """Charge a call whose answer nobody could read: the service has done its work."""
        return None if price is None else self._charge(name, price, charge_of(Usage(), price, expected))

    def _charge(self, name: str, price: Price, cost: float) -> float:
        """Charge a call by estimate, so that a later resume knows of it."""
        self._journal.call(name, uuid.uuid4().hex, cost, price.currency, {})
        self._count(name, Usage(), cost, price.currency)
        return cost

    # -- the target's calls

    def of_endpoint(self, name: str, endpoint: object, conversation: str) -> EndpointCosts:
        """What counts a conversation's calls to an endpoint one by one, under `name`."""
        price = _price(endpoint)
        count = functools.partial(self._count_calls, name, price)

        def charge(cost: float) -> float:
            return self._charge(name, price, cost) if price is not None else 0.0

        return EndpointCosts(name, price, self._budget, count, charge, self._reported[name, conversation])

    def _count_calls(self, name: str, price: Price | None, more: CallsMade) -> None:
        self.masked += more.masked
        charged = charged_usage(more)
        if more.calls or charged.input_tokens or charged.output_tokens:
            cost, currency = _cost(charged, price, charged)
            self._count(name, Usage(more.input_tokens, more.output_tokens), cost, currency, more.calls)

    @contextlib.asynccontextmanager
    async def of_target(self, target: Target, row: Row) -> AsyncIterator[Callable[[Mapping[str, JSON]], object]]:
        """Around the target's answer to a row: waits for the budget; call what it gives with the answer.

        Raises:
            StopRunError: the budget is spent.
        """
        price = _price(getattr(target, "endpoint", None))
        if price is None or target.tracks_each_call:  # it cannot be held to a budget, or is held to it already
            yield functools.partial(self.count_target, target, row)
            return
        expected = _expected_answer(target, row)
        async with self._budget.reserved("target", cost_of(expected, price)) as reservation:

            def count(answer: Mapping[str, JSON]) -> None:
                reservation.cost = self.count_target(target, row, answer)

            try:
                yield count
            except ReplyError:
                reservation.cost = self._charge_unread("target", price, expected)
                raise

    def count_target(self, target: Target, row: Row, answer: Mapping[str, JSON]) -> float | None:
        """Count an answer that this run has paid for, now or before it was cut off; its cost where that is known."""
        if target.tracks_each_call:
            for share in target.endpoint_usage(answer):
                more = self._reported[share.name, share.conversation].add_answer(share.made)
                self._count_calls(share.name, _price(share.endpoint), more)
            return None
        usage = Usage(*target.usage(answer), Usage.of_json(answer.get("usage")).cached_input_tokens)
        price = _price(getattr(target, "endpoint", None))
        if answer.get("simulated") is True or (price is None and usage == Usage()):
            return None  # no model was asked, or (a function) nobody knows of any calls
        cost, currency = _cost(usage, price, _expected_answer(target, row, answer) if price else Usage())
        self._count("target", usage, cost, currency)
        return cost

    def close(self) -> None:
        """Close the journal's second handle."""
        self._recorded_calls.close()


class EvaluatorCalls:
    """The calls of one evaluator of a run."""

    def __init__(self, calls: RunCalls, evaluator: str) -> None:
        self._calls = calls
        self._evaluator = evaluator

    async def complete(self, endpoint: Endpoint, request: ChatRequest, *, sample: int = 0) -> Completion:
        """As `RunCalls.complete`."""
        return await self._calls.complete(self._evaluator, endpoint, request, sample)


class _RecordedCalls:
    """Where in the journal the calls stand that this process has recorded."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._offsets: dict[str, int] = {}

    def add(self, key: str, offset: int) -> None:
        self._offsets[key] = offset

    def find(self, key: str) -> Completion | None:
        offset = self._offsets.get(key)
        if offset is None:
            return None
        self._file = self._file or self._path.open("rb")
        self._file.seek(offset)
        record = loads(self._file.readline())
        columns = record.get("out") if isinstance(record, dict) else None
        return Completion.of_columns(columns) if isinstance(columns, dict) else None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _price(endpoint: object) -> Price | None:
    return endpoint.price if isinstance(endpoint, Endpoint) else None


def _cost(usage: Usage, price: Price | None, estimate: Usage) -> tuple[float | None, str | None]:
    return (None, None) if price is None else (charge_of(usage, price, estimate), price.currency)


def _expected_answer(target: Target, row: Row, answer: Mapping[str, JSON] | None = None) -> Usage:
    """What the target's answer to a row may take, or that it has given takes."""
    endpoint = getattr(target, "endpoint", None)
    limit = output_limit(endpoint.settings().get("parameters")) if isinstance(endpoint, Endpoint) else None
    try:
        asked = len(dumps(target.inputs(row)))
    except TypeError:  # a row that was made in memory, of somebody's own objects
        asked = 0
    return expected_usage(asked, limit, None if answer is None else _length(answer))


def _length(answer: Mapping[str, JSON]) -> int:
    """About how many characters the model has written."""
    thought = [answer["reasoning"]] if answer.get("reasoning") else []
    return len(dumps([answer.get("text"), answer.get("tool_calls"), *thought]))


def call_key(endpoint: Endpoint, request: ChatRequest, sample: int) -> str:
    """16 hex digits that equal calls share: who is asked, what, how, and as which sample."""
    tools = None if request.tools is None else [dict(tool) for tool in request.tools]
    messages = [dict(message) for message in request.messages]
    return content_hash([endpoint.kind, endpoint.answer_settings(), messages, tools, dict(request.parameters), sample])
