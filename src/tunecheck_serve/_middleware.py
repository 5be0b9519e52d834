"""The middleware of every local server: its key, fault injection, idempotency, errors as replies, and counts."""

from __future__ import annotations

import asyncio
import hmac
import time
import uuid
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Generic, TypeAlias, TypeVar

from aiohttp import web

from tunecheck import ConfigurationError, ContentFilterError, EndpointError, NoAnswerError, TimedOutError
from tunecheck.plugins import JSON, dumps
from tunecheck.report import NOT_THIS_MACHINE, is_of_this_machine
from tunecheck_serve._wire import BadRequestError, Problem, ProblemError

REQUEST_ID = "x-request-id"

REPLAYED = "Idempotent-Replayed"
"""The header of a reply that was given before, as payment services call it."""

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")
_OPEN_TO_ALL = ("/", "/health")


@dataclass(frozen=True, slots=True)
class Served:
    """One answered request, for a log line. `repeated`: with the answer to an earlier request."""

    method: str
    path: str
    status: int
    duration_ms: float
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How the server behaves.

    every request but the health check needs the `key`; `latency_ms` is waited before each answer; `faults` gives
    the rate of error replies by status, drawn with `seed`; `on_request` is called after each request. A server that is
    not `local_only` answers to other names than this machine's, too.
    """

    key: str | None = field(default=None, repr=False)
    latency_ms: float = 0.0
    faults: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0
    on_request: Callable[[Served], None] | None = None
    local_only: bool = True


class Middleware:
    """The middleware of a server, and what its handlers share."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._faults = FaultInjection(options.faults, options.seed)
        self._counts = dict.fromkeys(("requests", "answers", "repeats", "faults", "refusals"), 0)

    async def once(
        self, request: web.Request, replies: ReplyStore[T], question: bytes, ask: Callable[[], Awaitable[T]]
    ) -> tuple[T, dict[str, str]]:
        """The answer, asked for once for each idempotency key, and the headers that say whether it was given before."""
        if self._options.latency_ms:
            await asyncio.sleep(self._options.latency_ms / 1000)
        key = request.headers.get("Idempotency-Key")
        repeated = key is not None and replies.holds(key)
        self._counts["repeats"] += repeated
        reply = await (ask() if key is None else replies.reply(key, question, ask))
        self._counts["answers"] += 1
        return reply, {REPLAYED: "true"} if repeated else {}

    def counts(self) -> dict[str, JSON]:
        return dict(self._counts)

    @web.middleware
    async def outermost(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        started = time.monotonic()
        response = await self._reply(request, handler)
        if self._options.on_request:
            took = (time.monotonic() - started) * 1000
            repeated = REPLAYED in response.headers
            self._options.on_request(Served(request.method, request.path, response.status, took, repeated))
        return response

    async def _reply(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        open_to_all = request.path in _OPEN_TO_ALL
        self._counts["requests"] += not open_to_all
        if self._options.local_only and not is_of_this_machine(request):
            self._counts["refusals"] += 1
            return _problem(Problem(403, NOT_THIS_MACHINE, "permission_error", "wrong_host"))
        key = self._options.key
        if key and not open_to_all and not key_is_right(key, request.headers):
            self._counts["refusals"] += 1
            return _problem(Problem(401, "the key is missing or wrong", "authentication_error", "invalid_api_key"))
        # Only what asks for an answer fails: health checks draw nothing, so that they do not shift the sequence.
        fault = self._faults.draw() if request.method == "POST" else None
        if fault:
            self._counts["faults"] += 1
            return _problem(Problem(fault, "a fault made on purpose", "server_error", "injected_fault"))
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _problem(Problem(error.status, f"{request.method} {request.path}: {error.reason}"))
        except web.RequestPayloadError:
            return _problem(Problem(400, f"{request.method} {request.path}: the body cannot be decoded"))
        except ProblemError as error:
            return _problem(error.problem)
        except EndpointError as error:
            return _problem(_problem_of_endpoint(error))
        except Exception as error:  # noqa: BLE001 - a source is anybody's code; the server goes on
            return _problem(Problem(500, f"{type(error).__name__}: {error}", "server_error"))


class Service(ABC):
    """A server with paths of its own; `about` and `paths` say what it is when it starts."""

    name: str
    about: str
    paths: str

    @abstractmethod
    def add_to(self, app: web.Application, middleware: Middleware) -> None:
        """Add the handlers of requests."""


def _problem_of_endpoint(error: EndpointError) -> Problem:
    text = str(error)
    if isinstance(error, NoAnswerError):
        return Problem(404, text, code="no_answer")
    if isinstance(error, ContentFilterError):
        return Problem(400, text, code="content_filter", param="prompt")
    status = error.status or (504 if isinstance(error, TimedOutError) else 500)
    return Problem(status if 400 <= status <= 599 else 500, text, "server_error", type(error).__name__)


def json_reply(
    body: Mapping[str, object], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A reply with an id of its own, unless the headers bring one."""
    headers = {REQUEST_ID: uuid.uuid4().hex, **(headers or {})}
    return web.Response(body=dumps(body), status=status, headers=headers, content_type="application/json")


def _problem(problem: Problem) -> web.Response:
    response = json_reply(problem.body(), status=problem.status)
    response.headers.update(problem.headers())
    return response


MAX_STORED = 10_000
"""Answers kept for repeated idempotency keys; the oldest are dropped."""


def key_is_right(key: str, headers: Mapping[str, str]) -> bool:
    """Whether a request carries the key: as a bearer token, or as Azure's `api-key`, compared in constant time."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    offered = token.strip() if scheme.lower() == "bearer" else headers.get("api-key", "")
    return hmac.compare_digest(offered.encode("utf-8", "surrogateescape"), key.encode())


def parse_faults(texts: list[str]) -> dict[int, float]:
    """Faults as a person writes them, `429=0.05`, by status."""
    faults: dict[int, float] = {}
    for text in texts:
        status, _, rate = text.partition("=")
        try:
            faults[int(status)] = float(rate)
        except ValueError:
            raise ConfigurationError(f"{text!r} is not a fault: write status=rate, such as 429=0.05") from None
    return faults


class FaultInjection:
    """Fault injection: error replies at given rates; with the same seed, the n-th request fails in the same way."""

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
        """The status that the next request fails with."""
        at = self._rng.random() if self._rates else 1.0
        for status, rate in self._rates.items():
            at -= rate
            if at < 0:
                return status
        return None


class ReplyStore(Generic[T]):
    """Replies by idempotency key: one question is answered once, however often and at once it is sent."""

    def __init__(self, most: int = MAX_STORED) -> None:
        self._most = most
        self._stored: OrderedDict[str, tuple[bytes, asyncio.Future[T]]] = OrderedDict()

    def holds(self, key: str) -> bool:
        return key in self._stored

    async def reply(self, key: str, question: bytes, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer to this question, computed once. A failed answer is computed again for the next request."""
        if key not in self._stored:
            self._stored[key] = (question, asyncio.ensure_future(ask()))
            if len(self._stored) > self._most:
                self._stored.popitem(last=False)
        asked, task = self._stored[key]
        if asked != question:
            raise BadRequestError("this Idempotency-Key was used with another request")
        try:
            return await asyncio.shield(task)  # a client that hangs up leaves the answer to the one that repeats
        except Exception:  # noqa: BLE001 - every failure is tried again
            self._stored.pop(key, None)
            raise
