"""The HTTP client of one service, with retries, rate limits and concurrency. A call returns a reply or raises.

The steps of `post()`:

1. Wait for a place among the concurrent calls. An overloaded service gets fewer places (`AdaptiveGate`).
2. Wait for the rate limits, and send an attempt with the call's idempotency key.
3. Read the reply: an answer, or a failure that says whether a retry may help (`_transport.error_failure`).
4. After status 401, repeat the attempt once, without a wait, if the sign-in can give a new token.
5. If a retry may help and retries are left, wait and repeat from step 2. Else raise the error.

Ten calls in a row that are refused stop the run. Refused are 401, 402, 403, an unknown model, an account without
credit, a failed sign-in, a requested wait beyond the cap, and a service that was never reached. An answer, or a
failure of another kind, starts the count again.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Generic, TypeVar

import msgspec

from tunecheck._errors import ContentFilterError, EndpointError, RefusedError, ReplyError, StopRunError
from tunecheck._json import JSON
from tunecheck._loops import PerLoop
from tunecheck._messages import clean
from tunecheck._targets import Load
from tunecheck.endpoints._answers import (
    FilteredError,
    UnreadableReplyError,
    read_json,
    read_stream,
    read_usage,
    says_error,
)
from tunecheck.endpoints._auth import Auth
from tunecheck.endpoints._base import ConcurrencyLimit, EndpointConfig, Usage, count_unanswered
from tunecheck.endpoints._limits import (
    RETRY_AFTER_CAP_S,
    TOKEN_BURST_S,
    AdaptiveGate,
    Clock,
    EndCall,
    SharedLimits,
    TokenBucket,
    backoff_s,
    retry_after_s,
)
from tunecheck.endpoints._masking import Redactor
from tunecheck.endpoints._transport import AttemptFailed, HttpTransport, Reply, error_failure, is_page, request_id

MOST_REFUSALS = 10
"""The run stops after this many consecutive refused calls (401, 403, an unknown model, no quota, a long wait)."""

_START_CONCURRENCY = 64
"""Concurrent calls at the start of a run, if the definition allows more."""
_MOST_OBJECTS = 100_000
"""More than any real answer has. An object needs up to thirty times the memory of its text."""
_LOOK_S = 5.0
"""Time limit of a request for information, such as the list of models."""

A = TypeVar("A")


class Limits(ConcurrencyLimit, frozen=True):
    """The limits of a service; None means no limit."""

    requests_per_minute: Annotated[float, msgspec.Meta(gt=0)] | None = None
    tokens_per_minute: Annotated[float, msgspec.Meta(gt=0)] | None = None


class ServiceConfig(EndpointConfig, frozen=True, kw_only=True):
    """The keys of a definition that decide how a service is called."""

    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 60.0
    retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 5
    max_reply_bytes: Annotated[int, msgspec.Meta(ge=1_024, le=64 << 20)] = 8 << 20
    limits: Limits = Limits()


class ServiceCall(msgspec.Struct, Generic[A], frozen=True):
    """One call of a service, unchanged in all its attempts.

    `body` is the JSON to post. All attempts have the idempotency key `key`, so that a service can avoid computing and
    billing a lost answer twice. `read` reads the answer from a reply; it raises FilteredError or another ValueError if
    there is none. `tokens` is the expected number of tokens; the rate limit is corrected when the service reports the
    number. `url` is another address of the service, and `headers` are those of this call only. `text_answers`: accept
    plain text as an answer. `empty_answers`: accept an empty body or any text except a web page; if it is not JSON,
    read it as null.
    """

    body: bytes
    key: str
    read: Callable[[JSON], A]
    tokens: int = 0
    url: str | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    text_answers: bool = False
    empty_answers: bool = False


class Exchange(msgspec.Struct, Generic[A], frozen=True):
    """A reply and the answer read from it.

    `latency_ms` is the time from sending the successful attempt to its last byte, `first_token_ms` the time to the
    first token of a streamed answer.
    """

    answer: A
    reply: JSON
    latency_ms: float
    request_id: str | None
    first_token_ms: float | None = None


@dataclass(kw_only=True, repr=False, eq=False)
class Client:
    """Posts JSON to one address and reads JSON, with one session, retries and limits for all calls.

    Errors begin with `who`. `last_headers` are the headers of the latest reply. After ten consecutive refused calls
    (a wrong key, no quota left, or a service that was never reached) the client sends nothing more: each further call
    raises StopRunError.
    """

    who: str
    url: str
    auth: Auth
    headers: dict[str, str]
    redactor: Redactor
    config: ServiceConfig
    clock: Clock
    rng: random.Random
    last_headers: Mapping[str, str] = field(default_factory=dict)
    _states: PerLoop[_LoopState] = field(default_factory=PerLoop)
    retry_unreachable: bool = True
    """False: do not retry a request that could not be sent, for example to a closed port."""
    offered_models: Callable[[], Awaitable[str]]
    """Describes the models that the service offers, for the error about an unknown model."""
    shared_limits: SharedLimits | None = None
    """Rate limits shared by several processes, used instead of those of this process."""
    concurrency: int | None = None
    """Maximum number of concurrent calls, instead of that of the configuration."""

    def load(self) -> Load | None:
        """Return the limit, attempts and overloads of the busiest event loop, or None before the first call."""
        state = max(self._states.all(), key=lambda state: state.attempts, default=None)
        return Load(state.gate.limit, state.gate.most, state.attempts, dict(state.overloads)) if state else None

    def sign(self, user_agent: str) -> None:
        """Append to the User-Agent header of later calls."""
        known = self.headers.get("User-Agent", "")
        self.headers["User-Agent"] = f"{known} {clean(user_agent, 200)}".strip()

    async def post(self, call: ServiceCall[A]) -> Exchange[A]:
        """Post a body, with retries, and return the reply with its answer.

        Raises:
            EndpointError: the call failed after all retries.
            StopRunError: this call and the calls before it were refused, or the budget is spent.
        """
        # Objects such as connections and locks belong to one event loop.
        state = self._states.here(self._new_state)
        state.stop_if_refused()
        async with state.gate:
            return await self._send_with_retries(state, call)

    async def look(self, url: str, *, signed: bool) -> JSON:
        """Send a GET request to another address of the service, without retries. Return the JSON of its reply.

        Return None if no JSON with status 200 arrives within 5 s. Only if `signed`, the request carries the key and the
        definition's headers.
        """
        state = self._states.here(self._new_state)

        try:
            async with asyncio.timeout(_LOOK_S):
                headers = {**self.headers, **await self.auth.headers()} if signed else {}
                reply = await state.transport.send(url, None, headers)
                return read_json(reply.body) if reply.status == HTTPStatus.OK else None
        except (AttemptFailed, RefusedError, TimeoutError, ValueError):
            return None

    async def close(self) -> None:
        """Close the connections of this event loop. A later call opens new ones, with all counters at 0."""
        state = self._states.take()
        if state is not None:
            await state.transport.close()

    def _new_state(self) -> _LoopState:
        """Return new connections and counters for this event loop."""
        config = self.config
        most = self.concurrency or config.limits.concurrency
        transport = HttpTransport(self.url, self.who, self.redactor, most, config.timeout_s, config.max_reply_bytes)
        requests, tokens = config.limits.requests_per_minute, config.limits.tokens_per_minute
        own_limits = SharedLimits(
            TokenBucket(requests, clock=self.clock) if requests else None,
            TokenBucket(tokens, clock=self.clock, burst_s=TOKEN_BURST_S) if tokens else None,
        )
        return _LoopState(transport, most, self.shared_limits or own_limits)

    async def _send_with_retries(self, state: _LoopState, call: ServiceCall[A]) -> Exchange[A]:
        """Send a call until an attempt succeeds, a retry cannot help, or no retries are left.

        After 401, the sign-in may get a new token. The call is then sent once more without a wait.

        Raises:
            EndpointError: the last attempt failed, or the sign-in gave no token.
            StopRunError: ten calls in a row were refused, or the budget is spent.
        """
        failures = 0
        token_renewed = False

        while True:
            state.stop_if_refused()
            try:
                identity = await self.auth.headers()
            except RefusedError as error:
                state.count_refusal(error)
                raise

            try:
                return await self._attempt(state, call, identity)
            except AttemptFailed as failed:
                failure = failed.with_traceback(None)  # its traceback would keep this frame and the reply
            failures += 1

            # 401 may only mean that the token has expired or was revoked, so a new token is tried once.
            if failure.error.status == 401 and not token_renewed and self.auth.discard_refused(identity):
                token_renewed = True
                continue

            may_retry = failure.retry and (failure.sent or self.retry_unreachable)
            if not may_retry or failures > self.config.retries:
                raise await self._last_error(state, failure, failures)

            await self.clock.sleep(backoff_s(failures, failure.retry_after_s, self.rng))
            if failure.overload:
                await state.gate.rejoin()

    async def _last_error(self, state: _LoopState, failure: AttemptFailed, attempts: int) -> EndpointError:
        """Return the error of a call whose last attempt failed, with advice; count the call if it was refused.

        Raises:
            StopRunError: it was the tenth consecutive refused call.
        """
        error = _with_note(failure.error, f"after {attempts} attempts") if attempts > 1 else failure.error
        if error.cause == "unknown_model":
            error = _with_note(error, await self.offered_models() or "check the name of the model or deployment")

        # A service that has answered before is only unreachable for a while.
        never_reached = not failure.sent and not state.answered
        if failure.refused or never_reached:
            state.count_refusal(error)
        else:
            state.refusals = 0  # the service accepted the credentials
        return error

    async def _attempt(self, state: _LoopState, call: ServiceCall[A], identity: Mapping[str, str]) -> Exchange[A]:
        """Send a call once, after waiting for the rate limits. Report the outcome to all limits and to the budget.

        `identity` has the headers of the sign-in.

        Raises:
            AttemptFailed: there is no answer.
            StopRunError: the budget is spent.
        """
        end_call = await state.wait_for_limits(call.tokens)
        state.attempts += 1
        # The gate ignores refusals of attempts that were sent before its latest cut.
        cuts_when_sent = state.gate.cuts
        headers = {**self.headers, **identity, **call.headers, "Idempotency-Key": call.key}

        try:
            started = self.clock.now()
            reply = await state.transport.send(call.url or self.url, call.body, headers)
            exchange = self._read_reply(reply, (self.clock.now() - started) * 1000, call)
        except asyncio.CancelledError:
            # The service may have computed the answer of a cancelled call, so the budget counts it.
            with contextlib.suppress(StopRunError):
                count_unanswered(Usage())
            raise
        except AttemptFailed as failure:
            end_call(0)
            if failure.usage is not None:
                count_unanswered(failure.usage)
            if failure.overload:
                state.gate.overloaded(cuts_when_sent)
                state.overloads[failure.error.status or 0] += 1
            raise

        end_call(_tokens_used(exchange, call.tokens) if state.limits.tokens else 0)
        state.gate.succeeded()
        state.refusals, state.answered = 0, True
        return exchange

    def _read_reply(self, reply: Reply, latency_ms: float, call: ServiceCall[A]) -> Exchange[A]:
        """Return the reply with its answer. Set `last_headers`.

        Raises:
            AttemptFailed: the reply has no answer; the error is that of the service if the reply names one.
        """
        self.last_headers = reply.headers

        if not 200 <= reply.status < 300:
            raise self._error_reply(reply)

        id_ = request_id(reply.headers, self.redactor)
        value: JSON = None

        try:
            value, first_token_end = self._reply_value(reply, call)
            first_ms = None if first_token_end is None else reply.arrived_ms(first_token_end)
            return Exchange(call.read(value), value, latency_ms, id_, first_ms)
        except ValueError as error:
            retry = isinstance(error, UnreadableReplyError) and not error.lasting

            # An answer without the expected content may still hold the service's error message.
            if retry and isinstance(value, dict) and (value.get("error") or says_error(value)):
                raise error_failure(reply, value, self.who, self.redactor) from None

            kind = ContentFilterError if isinstance(error, FilteredError) else ReplyError
            message = f"{self.who}: {self.redactor.line(str(error))}"
            reply_error = kind(message, status=reply.status, request_id=id_)
            raise AttemptFailed(reply_error, retry, usage=read_usage(value)) from None

    def _error_reply(self, reply: Reply) -> AttemptFailed:
        """Return the failure of an error reply.

        If the service asks for a longer wait than the cap, the call is not retried and counts as refused.
        """
        body: JSON = None
        with contextlib.suppress(ValueError):
            body = read_json(reply.body) if len(reply.body) < 1 << 20 else None

        wait_s = retry_after_s(reply.headers, self.clock.wall())
        failure = error_failure(reply, body, self.who, self.redactor, wait_s)
        if failure.retry and wait_s is not None and wait_s > RETRY_AFTER_CAP_S:
            limit = f"more than the {RETRY_AFTER_CAP_S:g} s that a run waits"
            note = f"the service asks to wait {wait_s:,.0f} s, {limit}: resume the run later"
            failure.error = _with_note(failure.error, note)
            failure.retry, failure.refused = False, True
        return failure

    def _reply_value(self, reply: Reply, call: ServiceCall[A]) -> tuple[JSON, int | None]:
        """Return the JSON or text of a reply, and the number of bytes up to a stream's first token (else None).

        If the body is not JSON, return it as text if the call accepts text and the reply is text/plain. Return None if
        the call accepts empty answers and the reply is no web page.

        Raises:
            UnreadableReplyError: the reply is a web page, a broken stream, no JSON, or too large.
        """
        if reply.is_stream:
            return read_stream(reply.body)

        # Counting brackets is fast, and protects the memory before the body is parsed.
        if (objects := reply.body.count(b"{") + reply.body.count(b"[")) > _MOST_OBJECTS:
            problem = f"the reply has {objects:,} objects and lists, more than the limit of {_MOST_OBJECTS:,}"
            raise UnreadableReplyError(problem, lasting=True)

        try:
            return read_json(reply.body), None
        except ValueError as error:
            kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
            if call.text_answers and kind == "text/plain":
                return reply.body.decode("utf-8", "replace"), None

            if is_page(reply):
                raise UnreadableReplyError("the reply is a web page, not JSON: check the endpoint's url") from None
            if call.empty_answers:
                return None, None

            # Decode more than is shown: a secret that is cut off at the end might not be masked.
            body = self.redactor.line(reply.body[: 1 << 16].decode("utf-8", "replace"), 80)
            excerpt = f"begins with: {body}" if body else "is empty"
            reason = clean(self.redactor.text(str(error)), 100)
            problem = f"the reply is unusable ({reason}): check the url and the service; the reply {excerpt}"
            raise UnreadableReplyError(problem) from None


class _LoopState:
    """The connections, limits and counters of one event loop."""

    def __init__(self, transport: HttpTransport, most_calls: int, limits: SharedLimits) -> None:
        """Start with all counters at 0 and no connection."""
        self.transport, self.limits = transport, limits

        # The user expects the service to accept `most_calls`, so start there, but not above _START_CONCURRENCY.
        self.gate = AdaptiveGate(most_calls, start=_START_CONCURRENCY)

        self.refusals = 0
        self.attempts = 0
        self.answered = False
        self.overloads: Counter[int] = Counter()
        self._last_refusal: EndpointError | None = None

    async def wait_for_limits(self, tokens: int) -> EndCall:
        """Wait until the rate limits admit a request with this many tokens.

        Return a function to call after the request, with the number of tokens that the request used.
        """
        # Requests come last: the service counts a request when it arrives, so it must be sent right after the wait.
        end_tokens = await self.limits.tokens.take(tokens) if self.limits.tokens else None
        end_request = await self.limits.requests.take(1) if self.limits.requests else None

        def end(used: float) -> None:
            """End the request in both rate limits, in that of tokens with the number that it used."""
            if end_tokens:
                end_tokens(used)
            if end_request:
                end_request(1)

        return end

    def stop_if_refused(self) -> None:
        """Raise StopRunError if ten calls in a row were refused."""
        if (last := self._last_refusal) is not None:
            message = f"the service refused or did not get {MOST_REFUSALS} calls in a row; the last error: {last}"
            raise StopRunError(message, resumable=last.cause != "unknown_model")  # a resumed run keeps its model

    def count_refusal(self, error: EndpointError) -> None:
        """Count a refused call.

        Raises:
            StopRunError: it was the tenth consecutive refusal.
        """
        self.refusals += 1
        if self.refusals >= MOST_REFUSALS:
            self._last_refusal = error
            self.stop_if_refused()


def _with_note(error: EndpointError, note: str) -> EndpointError:
    """Return a copy of the error with a note in parentheses at the end of its message."""
    copied = copy.copy(error)
    copied.args = (f"{error} ({note})",)
    return copied


def _tokens_used(exchange: Exchange[A], expected: int) -> int:
    """Return the tokens of an answered attempt: the service's count, else the expected number."""
    usage = read_usage(exchange.reply)
    if usage.input_tokens is None and usage.output_tokens is None:
        return expected
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)
