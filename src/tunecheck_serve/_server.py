"""The local server of `tunecheck serve`, with Azure ML's scoring protocol and OpenAI's chat completions.

The command calls `run_server` with a source of answers. Other services, such as an agent with memory or an evaluator,
are a `Service` with their own paths. Every request passes through `Middleware`, which checks keys and injects faults.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
import os
import time
import uuid
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Generic, TypeAlias, TypeVar

from aiohttp import web

from tunecheck import ConfigurationError, ContentFilterError, EndpointError, NoAnswerError, TimedOutError
from tunecheck.endpoints import Completion, is_loopback
from tunecheck.plugins import JSON, clean, dumps
from tunecheck.report import NOT_THIS_MACHINE, is_of_this_machine, running, stopped_by_signals
from tunecheck_serve import _wire as wire
from tunecheck_serve._wire import BadRequestError, ChatSource, Problem, ProblemError

REQUEST_ID = "x-request-id"

REPLAYED = "Idempotent-Replayed"
"""The header of a repeated reply. The name is common among payment services."""

MAX_BODY_BYTES = 16 << 20
"""The largest request body in bytes."""

MAX_STORED = 10_000
"""The most answers that are kept for repeated idempotency keys. The oldest are dropped first."""

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")

_OPEN_TO_ALL = ("/", "/health")
"""The paths of the health check, which need no key and are not counted."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The server's settings.

    If a `key` is set, every request except the health check needs it. The server waits `latency_ms` before each
    answer. `faults` gives the rate of error replies by status, drawn with `seed`. `log` gets a line for each
    request. If `local_only`, the server refuses requests with a host name that is not this machine's.
    """

    key: str | None = field(default=None, repr=False)
    latency_ms: float = 0.0
    faults: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0
    log: Callable[[str], None] | None = None
    local_only: bool = True


def parse_faults(texts: list[str]) -> dict[int, float]:
    """Return the error rates by status of faults written as `429=0.05`.

    Raises:
        ConfigurationError: a text has another form.
    """
    faults: dict[int, float] = {}
    for text in texts:
        status, _, rate = text.partition("=")
        try:
            faults[int(status)] = float(rate)
        except ValueError:
            raise ConfigurationError(f"--fault {text!r}: must be STATUS=RATE, such as 429=0.05") from None
    return faults


def key_from(variable: str | None) -> str | None:
    """Return the key in this environment variable, or None if `variable` is None.

    Raises:
        ConfigurationError: the variable is not set.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigurationError(f"--key-env: the environment variable {variable} is not set; put the key into it")
    return key


class Service(ABC):
    """A service with its own paths. `about` and `paths` are shown when the server starts."""

    name: str
    about: str
    paths: str

    @abstractmethod
    def add_to(self, app: web.Application, middleware: Middleware) -> None:
        """Add the service's request handlers to the application."""


def make_app(source: ChatSource | Service, options: ServerOptions | None = None) -> web.Application:
    """Return an aiohttp application that serves a model's answers or another service."""
    middleware = Middleware(options or ServerOptions())
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[middleware.outermost])
    service = source if isinstance(source, Service) else ModelServer(source)
    service.add_to(app, middleware)
    return app


async def run_server(
    source: ChatSource | Service,
    options: ServerOptions | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    on_ready: Callable[[str], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until `stop` is set or SIGINT or SIGTERM arrives, then finish the requests in flight.

    `on_ready` is called with the server's address when it is ready.

    Raises:
        ConfigurationError: other machines can reach the host, and no key is required.
    """
    options = options or ServerOptions()
    if not is_loopback(host) and not options.key:
        raise ConfigurationError(f"--host {host} lets other machines in; require a key with --key-env NAME")
    stop = stop or asyncio.Event()
    options = replace(options, local_only=is_loopback(host))
    async with running(make_app(source, options), host, port) as url:
        with stopped_by_signals(stop):
            if on_ready:
                on_ready(url)
            await stop.wait()


class ModelServer(Service):
    """A service that offers a model's answers as a scoring endpoint and as chat completions."""

    paths = "/score, /v1/chat/completions"

    def __init__(self, source: ChatSource, about: str = "answers") -> None:
        self.name, self.about = source.name, about
        self._source = source
        self._replies: ReplyStore[Completion] = ReplyStore()

    def add_to(self, app: web.Application, middleware: Middleware) -> None:
        """Add the routes of both protocols, of the model list and of health checks."""
        self._middleware = middleware
        chat = ("/v1", "/openai/v1", "/openai/deployments/{deployment}")
        app.add_routes([web.post(f"{prefix}/chat/completions", self.chat) for prefix in chat])
        app.add_routes([web.get(f"{prefix}/models", self.models) for prefix in chat[:2]])
        app.add_routes([web.get(path, self.health) for path in ("/", "/health")])
        app.add_routes([web.post("/score", self.score)])
        app.on_cleanup.append(self.close)

    async def health(self, _: web.Request) -> web.Response:
        return json_reply({"status": "ok", "model": self.name, **self.counts()})

    def counts(self) -> dict[str, JSON]:
        """Return the counts of the health check."""
        return self._middleware.counts()

    async def models(self, _: web.Request) -> web.Response:
        return json_reply(wire.model_list(self._source.name))

    async def score(self, request: web.Request) -> web.Response:
        completion, headers = await self.completion(request, wire.score_question(await request.read()))
        return json_reply(wire.score_reply(completion), headers=headers)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer a chat completions request, as a whole or as a stream."""
        question = wire.chat_question(await request.read())
        completion, headers = await self.completion(request, question)
        model = request.match_info.get("deployment") or question.model or self._source.name
        id_ = headers[REQUEST_ID]
        if not question.stream:
            return json_reply(wire.chat_completion(completion, model=model, request_id=id_), headers=headers)
        pieces = wire.chat_pieces(completion, model=model, request_id=id_, with_usage=question.with_usage)
        return await _stream(request, pieces, headers)

    async def close(self, _: web.Application) -> None:
        await self._source.close()

    async def completion(self, request: web.Request, question: wire.Asked) -> tuple[Completion, dict[str, str]]:
        """Return the answer to a question, and the headers of the reply with its request id."""
        ask = functools.partial(self._source.complete, question.request)
        completion, headers = await self._middleware.answer_once(request, self._replies, question.digest, ask)
        # A recorded id may contain characters that a header cannot.
        recorded = (completion.request_id or "")[:200]
        id_ = "".join(letter for letter in recorded if letter.isascii() and letter.isprintable()).strip()
        return completion, {REQUEST_ID: id_ or uuid.uuid4().hex, **headers}


async def _stream(
    request: web.Request, pieces: Iterable[Mapping[str, object]], headers: Mapping[str, str]
) -> web.StreamResponse:
    """Send the pieces as server-sent events, ended by `[DONE]`.

    A client that hangs up ends the stream without an error.
    """
    about = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    response = web.StreamResponse(headers={**about, **headers})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):  # the client has hung up
        for piece in pieces:
            await response.write(b"data: " + dumps(piece) + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
    return response


def json_reply(
    body: Mapping[str, object], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return a JSON reply. It gets a new request id unless the headers contain one."""
    headers = {REQUEST_ID: uuid.uuid4().hex, **(headers or {})}
    return web.Response(body=dumps(body), status=status, headers=headers, content_type="application/json")


class Middleware:
    """The middleware of a server, and the state that its handlers share."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._faults = FaultInjection(options.faults, options.seed)
        self._counts = dict.fromkeys(("requests", "answers", "repeats", "faults", "refusals"), 0)

    def counts(self) -> dict[str, JSON]:
        return dict(self._counts)

    async def answer_once(
        self, request: web.Request, replies: ReplyStore[T], digest: bytes, ask: Callable[[], Awaitable[T]]
    ) -> tuple[T, dict[str, str]]:
        """Return the answer to a request and extra headers, which mark a repeated answer.

        If the request has an idempotency key, `ask` is called only once for that key. `digest` is the hash of the
        question. Waits for the server's artificial latency first, and counts the answer.
        """
        if self._options.latency_ms:
            await asyncio.sleep(self._options.latency_ms / 1000)
        key = request.headers.get("Idempotency-Key")
        repeated = key is not None and replies.holds(key)
        self._counts["repeats"] += repeated
        answer = await (ask() if key is None else replies.reply(key, digest, ask))
        self._counts["answers"] += 1
        return answer, {REPLAYED: "true"} if repeated else {}

    @web.middleware
    async def outermost(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Answer a request and log a line about it."""
        started = time.monotonic()
        response = await self._reply(request, handler)
        if self._options.log:
            took = (time.monotonic() - started) * 1000
            again = " (repeated)" if REPLAYED in response.headers else ""
            self._options.log(f"{request.method} {clean(request.path, 200)} {response.status} {took:.0f} ms{again}")
        return response

    async def _reply(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Return the handler's reply, or an error reply for a refusal, an injected fault or an exception."""
        self._counts["requests"] += request.path not in _OPEN_TO_ALL
        refusal = self._refusal(request)
        if refusal:
            self._counts["refusals"] += 1
            return _error_reply(refusal)
        # Only POST requests fail on purpose. Health checks must not shift the random sequence of faults.
        fault = self._faults.draw() if request.method == "POST" else None
        if fault:
            self._counts["faults"] += 1
            return _error_reply(Problem(fault, "an error requested with --fault", "server_error", "injected_fault"))
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _error_reply(Problem(error.status, f"{request.method} {request.path}: {error.reason}"))
        except web.RequestPayloadError:
            return _error_reply(Problem(400, f"{request.method} {request.path}: the body cannot be decoded"))
        except ProblemError as error:
            return _error_reply(error.problem)
        except EndpointError as error:
            return _error_reply(_problem_of_endpoint(error))
        except Exception as error:  # noqa: BLE001 - a source may be user code; the server goes on
            return _error_reply(Problem(500, f"{type(error).__name__}: {error}", "server_error"))

    def _refusal(self, request: web.Request) -> Problem | None:
        """Return the problem of a request with a wrong host name or key, or None if the request is allowed."""
        if self._options.local_only and not is_of_this_machine(request):
            return Problem(403, NOT_THIS_MACHINE, "permission_error", "wrong_host")
        key = self._options.key
        if key and request.path not in _OPEN_TO_ALL and not key_is_right(key, request.headers):
            return Problem(401, "the key is missing or wrong", "authentication_error", "invalid_api_key")
        return None


def key_is_right(key: str, headers: Mapping[str, str]) -> bool:
    """Return whether the headers contain the key as bearer token or as Azure's `api-key`, compared in constant time."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    offered = token.strip() if scheme.lower() == "bearer" else headers.get("api-key", "")
    return hmac.compare_digest(offered.encode("utf-8", "surrogateescape"), key.encode())


def _error_reply(problem: Problem) -> web.Response:
    return json_reply(problem.body(), status=problem.status, headers=problem.headers())


def _problem_of_endpoint(error: EndpointError) -> Problem:
    """Return an endpoint's error as a problem, with the endpoint's own status if that is an error status."""
    text = str(error)
    if isinstance(error, NoAnswerError):
        return Problem(404, text, code="no_answer")
    if isinstance(error, ContentFilterError):
        return Problem(400, text, code="content_filter", param="prompt")
    status = error.status or (504 if isinstance(error, TimedOutError) else 500)
    return Problem(status if 400 <= status <= 599 else 500, text, "server_error", type(error).__name__)


class FaultInjection:
    """Fault injection: error replies at given rates. With the same seed, the n-th request fails in the same way."""

    def __init__(self, rates: Mapping[int, float], seed: int = 0) -> None:
        """Set the rates by status.

        Raises:
            ConfigurationError: a status is no error status, a rate is not from 0 to 1, or the rates exceed 1 together.
        """
        valid = all(400 <= status <= 599 and 0 <= rate <= 1 for status, rate in rates.items())
        if not valid or sum(rates.values()) > 1 + 1e-9:
            raise ConfigurationError(
                "each --fault needs a status from 400 to 599 and a rate from 0 to 1; rates may sum to at most 1"
            )
        self._outcomes = [*rates, None]
        self._weights = [*rates.values(), max(0.0, 1 - sum(rates.values()))]
        self._rng = Random(seed)

    def draw(self) -> int | None:
        """Return the status with which the next request fails, or None if it does not fail."""
        return self._rng.choices(self._outcomes, self._weights)[0]


class ReplyStore(Generic[T]):
    """A store of replies by idempotency key. A question is answered once, also if it is sent many times at once."""

    def __init__(self, most: int = MAX_STORED) -> None:
        self._most = most
        self._stored: OrderedDict[str, tuple[bytes, asyncio.Future[T]]] = OrderedDict()

    def holds(self, key: str) -> bool:
        return key in self._stored

    async def reply(self, key: str, digest: bytes, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer to the question with this digest, computed once for its key.

        A failed answer is computed again for the next request.

        Raises:
            BadRequestError: the key was used with another question.
        """
        if key not in self._stored:
            self._stored[key] = (digest, asyncio.ensure_future(ask()))
            if len(self._stored) > self._most:
                self._stored.popitem(last=False)
        stored_digest, task = self._stored[key]
        if stored_digest != digest:
            raise BadRequestError("this Idempotency-Key was used with another request")
        try:
            return await asyncio.shield(task)  # if the client hangs up, its repeated request gets the answer
        except Exception:  # noqa: BLE001 - every failure is tried again
            self._stored.pop(key, None)
            raise
