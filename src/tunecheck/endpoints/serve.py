"""`tunecheck serve`: a local server that speaks Azure ML's scoring call and chat completions, for trying things out.

POST /score                                          {"input_data": messages, "params": {…}} → {"result": …}
POST /v1/chat/completions                            as OpenAI's, streaming included
POST /openai/v1/chat/completions                     the same under Azure OpenAI's newer path
POST /openai/deployments/{deployment}/chat/completions
GET  /v1/models, /openai/v1/models                   the one model there is
GET  /, /health                                      whether it is up, and what it has counted
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TypeAlias

from aiohttp import web

from tunecheck.endpoints.base import Completion
from tunecheck.endpoints.recorded import NoAnswerError
from tunecheck.endpoints.serve_guards import AnswerStore, Faults, is_loopback, key_is_right
from tunecheck.endpoints.serve_replies import (
    Problem,
    ProblemError,
    chat_completion,
    chat_pieces,
    model_list,
    score_reply,
)
from tunecheck.endpoints.serve_requests import Asked, BadRequestError, chat_question, score_question
from tunecheck.endpoints.serve_sources import AnswerSource, TellsHealth
from tunecheck.errors import ConfigurationError, ContentFilterError, EndpointError, TimedOutError
from tunecheck.jsontext import dumps

__all__ = ["ServeOptions", "Served", "make_app", "run_server", "running", "serve"]

MAX_BODY_BYTES = 16 << 20
"""Largest request that is read."""

_REQUEST_ID = "x-request-id"
_REPLAYED = "Idempotent-Replayed"
"""The header of a reply that was given before, as payment services call it."""

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Served:
    """One request that was answered: what a log line is made of. `repeated`: from an earlier request's answer."""

    method: str
    path: str
    status: int
    duration_ms: float
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How the server behaves.

    `key` is asked of every request but the health check; `latency_ms` is waited before each answer; `faults` gives
    the rate of error replies by status, drawn with `seed`; `on_request` hears of each request answered.
    """

    key: str | None = field(default=None, repr=False)
    latency_ms: float = 0.0
    faults: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0
    on_request: Callable[[Served], None] | None = None


@dataclass(slots=True)
class _Counts:
    requests: int = 0
    answers: int = 0
    repeats: int = 0
    faults: int = 0
    refusals: int = 0


def make_app(source: AnswerSource, options: ServeOptions | None = None) -> web.Application:
    """The server as an aiohttp application.

    Raises:
        ConfigurationError: faults that cannot be.
    """
    server = _Server(source, options or ServeOptions())
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[server.outermost])
    chat = ("/v1", "/openai/v1", "/openai/deployments/{deployment}")
    app.add_routes([web.post(f"{prefix}/chat/completions", server.chat) for prefix in chat])
    app.add_routes([web.get(f"{prefix}/models", server.models) for prefix in chat[:2]])
    app.add_routes([web.post("/score", server.score), web.get("/", server.health), web.get("/health", server.health)])
    app.on_cleanup.append(server.close)
    return app


@contextlib.asynccontextmanager
async def running(app: web.Application, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve an application within this block; gives its address, `http://127.0.0.1:41234`. Port 0 takes a free one.

    Raises:
        ConfigurationError: the address cannot be taken.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except (OSError, OverflowError) as error:  # OverflowError: a port that is no port
            raise ConfigurationError(
                f"cannot serve on {host}:{port}: {getattr(error, 'strerror', '') or error}"
            ) from None
        taken = runner.addresses[0][1]
        yield f"http://{f'[{host}]' if ':' in host else host}:{taken}"
    finally:
        await runner.cleanup()


async def run_server(
    source: AnswerSource,
    options: ServeOptions | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    on_ready: Callable[[str], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until `stop` is set, or the process is asked to end (SIGINT, SIGTERM); requests in flight are finished.

    `on_ready` hears the address once it answers.

    Raises:
        ConfigurationError: the address cannot be taken, or others could reach it and no key is asked for.
    """
    options = options or ServeOptions()
    if not is_loopback(host) and not options.key:
        raise ConfigurationError(f"serving on {host} would let others in: ask for a key (--key-env NAME)")
    stop = stop or asyncio.Event()
    async with running(make_app(source, options), host, port) as url:
        with _stopped_by_signals(stop):
            if on_ready:
                on_ready(url)
            await stop.wait()


def serve(
    source: AnswerSource,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    key_env: str | None = None,
    latency_ms: float = 0.0,
    faults: Mapping[int, float] | None = None,
    seed: int = 0,
    on_ready: Callable[[str], None] | None = None,
    on_request: Callable[[Served], None] | None = None,
) -> None:
    """Serve answers until the process is asked to end. `key_env` names the environment variable that holds the key.

    Raises:
        ConfigurationError: see `run_server`; or the variable is not set.
    """
    options = ServeOptions(_key_from(key_env), latency_ms, faults or {}, seed, on_request)
    asyncio.run(run_server(source, options, host=host, port=port, on_ready=on_ready))


def _key_from(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigurationError(f"the environment variable {variable}, which should hold the key, is not set")
    return key


@contextlib.contextmanager
def _stopped_by_signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    taken = []
    for name in (signal.SIGINT, signal.SIGTERM):
        # Not possible on Windows, nor outside the main thread: there, `stop` or a KeyboardInterrupt ends it.
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(name, stop.set)
            taken.append(name)
    try:
        yield
    finally:
        for name in taken:
            loop.remove_signal_handler(name)


class _Server:
    """The handlers of one application and what they share."""

    def __init__(self, source: AnswerSource, options: ServeOptions) -> None:
        self._source = source
        self._options = options
        self._faults = Faults(options.faults, options.seed)
        self._answers = AnswerStore()
        self._counts = _Counts()

    async def health(self, _: web.Request) -> web.Response:
        """Up, and the counts so far."""
        counts = {each.name: getattr(self._counts, each.name) for each in fields(_Counts)}
        own = self._source.health() if isinstance(self._source, TellsHealth) else {}
        return _json({"status": "ok", "model": self._source.name, **counts, **own})

    async def models(self, _: web.Request) -> web.Response:
        """The one model there is."""
        return _json(model_list(self._source.name))

    async def score(self, request: web.Request) -> web.Response:
        """Azure ML's scoring call."""
        completion, headers = await self._completion(request, score_question(await request.read()))
        return _json(score_reply(completion), headers=headers)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """A chat completion, whole or as a stream."""
        asked = chat_question(await request.read())
        completion, headers = await self._completion(request, asked)
        model = request.match_info.get("deployment") or asked.model or self._source.name
        id_ = headers[_REQUEST_ID]
        if not asked.stream:
            return _json(chat_completion(completion, model=model, request_id=id_), headers=headers)
        pieces = chat_pieces(completion, model=model, request_id=id_, with_usage=asked.with_usage)
        return await _streamed(request, pieces, headers)

    async def close(self, _: web.Application) -> None:
        """Release the source."""
        await self._source.close()

    async def _completion(self, request: web.Request, asked: Asked) -> tuple[Completion, dict[str, str]]:
        """The answer, and what its reply's headers say of it."""
        if self._options.latency_ms:
            await asyncio.sleep(self._options.latency_ms / 1000)

        def ask() -> Awaitable[Completion]:
            return self._source.answer(asked.messages, asked.tools, asked.parameters)

        key = request.headers.get("Idempotency-Key")
        repeated = key is not None and self._answers.holds(key)
        self._counts.repeats += repeated
        completion = await (ask() if key is None else self._answers.answer(key, asked.digest, ask))
        self._counts.answers += 1
        headers = {_REQUEST_ID: _header_text(completion.request_id) or uuid.uuid4().hex}
        return completion, {**headers, _REPLAYED: "true"} if repeated else headers

    @web.middleware
    async def outermost(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """The middleware: key, faults, errors as replies, counting."""
        started = time.monotonic()
        response = await self._reply(request, handler)
        if self._options.on_request:
            took = (time.monotonic() - started) * 1000
            repeated = _REPLAYED in response.headers
            self._options.on_request(Served(request.method, request.path, response.status, took, repeated))
        return response

    async def _reply(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        open_to_all = request.path in ("/", "/health")
        self._counts.requests += not open_to_all
        key = self._options.key
        if key and not open_to_all and not key_is_right(key, request.headers):
            self._counts.refusals += 1
            return _problem(Problem(401, "the key is missing or wrong", "authentication_error", "invalid_api_key"))
        fault = self._faults.draw() if request.method == "POST" else None
        if fault:
            self._counts.faults += 1
            return _problem(Problem(fault, "a fault made on purpose", "server_error", "injected_fault"))
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _problem(Problem(error.status, f"{request.method} {request.path}: {error.reason}"))
        except BadRequestError as error:
            return _problem(Problem(400, str(error)))
        except ProblemError as error:
            return _problem(error.problem)
        except EndpointError as error:
            return _problem(_of_endpoint(error))
        except Exception as error:  # noqa: BLE001 - a source is anybody's code; the server goes on
            return _problem(Problem(500, f"{type(error).__name__}: {error}", "server_error"))


def _of_endpoint(error: EndpointError) -> Problem:
    text = str(error)
    if isinstance(error, NoAnswerError):
        return Problem(404, text, code="no_answer")
    if isinstance(error, ContentFilterError):
        return Problem(400, text, code="content_filter", param="prompt")
    status = error.status or (504 if isinstance(error, TimedOutError) else 500)
    return Problem(status if 400 <= status <= 599 else 500, text, "server_error", type(error).__name__)


def _header_text(text: str | None) -> str:
    """A recorded id as a header can carry it."""
    return "".join(letter for letter in (text or "")[:200] if letter.isascii() and letter.isprintable()).strip()


def _json(body: Mapping[str, object], *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    headers = headers or {_REQUEST_ID: uuid.uuid4().hex}
    return web.Response(body=dumps(body), status=status, headers=headers, content_type="application/json")


def _problem(problem: Problem) -> web.Response:
    response = _json(problem.body(), status=problem.status)
    response.headers.update(problem.headers())
    return response


async def _streamed(
    request: web.Request, pieces: Iterable[Mapping[str, object]], headers: Mapping[str, str]
) -> web.StreamResponse:
    about = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    response = web.StreamResponse(headers={**about, **headers})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):  # the client has heard enough
        for piece in pieces:
            await response.write(b"data: " + dumps(piece) + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
    return response
