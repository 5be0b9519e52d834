"""`tunecheck serve`: a local server that speaks Azure ML's scoring call and chat completions, for trying things out.

An agent with its own memory, or an evaluator, is a `Service` with paths of its own.
"""

import asyncio
import contextlib
import functools
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from aiohttp import web

from tunecheck import ConfigurationError
from tunecheck.endpoints import Completion, is_loopback
from tunecheck.plugins import JSON, dumps
from tunecheck.report import running, stopped_by_signals
from tunecheck_serve import _wire as wire
from tunecheck_serve._middleware import REQUEST_ID, Middleware, ReplyStore, ServerOptions, Service, json_reply
from tunecheck_serve._wire import ChatSource

MAX_BODY_BYTES = 16 << 20
"""Largest request that is read."""


def make_app(source: ChatSource | Service, options: ServerOptions | None = None) -> web.Application:
    """The server of a model's answers, or of another service, as an aiohttp application."""
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
    """Serve until `stop` is set or a signal ends the process (SIGINT, SIGTERM); requests in flight are finished.

    `on_ready` is called with the address once it answers.
    """
    options = options or ServerOptions()
    if not is_loopback(host) and not options.key:
        raise ConfigurationError(f"serving on {host} would let others in: ask for a key (--key-env NAME)")
    stop = stop or asyncio.Event()
    options = replace(options, local_only=is_loopback(host))
    async with running(make_app(source, options), host, port) as url:
        with stopped_by_signals(stop):
            if on_ready:
                on_ready(url)
            await stop.wait()


def key_from(variable: str | None) -> str | None:
    """The key in this environment variable; None if no variable is named."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigurationError(f"the environment variable {variable}, which should hold the key, is not set")
    return key


class ModelServer(Service):
    """A model's answers, as a scoring endpoint and as chat completions."""

    paths = "/score, /v1/chat/completions"

    def __init__(self, source: ChatSource, about: str = "answers") -> None:
        self.name, self.about = source.name, about
        self._source = source
        self._replies: ReplyStore[Completion] = ReplyStore()

    def add_to(self, app: web.Application, middleware: Middleware) -> None:
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
        asked = wire.chat_question(await request.read())
        completion, headers = await self.completion(request, asked)
        model = request.match_info.get("deployment") or asked.model or self._source.name
        id_ = headers[REQUEST_ID]
        if not asked.stream:
            return json_reply(wire.chat_completion(completion, model=model, request_id=id_), headers=headers)
        pieces = wire.chat_pieces(completion, model=model, request_id=id_, with_usage=asked.with_usage)
        return await _stream(request, pieces, headers)

    async def close(self, _: web.Application) -> None:
        await self._source.close()

    async def completion(self, request: web.Request, asked: wire.Asked) -> tuple[Completion, dict[str, str]]:
        """The answer, and the headers of its reply."""
        ask = functools.partial(self._source.answer, asked.request)
        completion, headers = await self._middleware.once(request, self._replies, asked.digest, ask)
        # A recorded id, as a header can carry it.
        recorded = (completion.request_id or "")[:200]
        id_ = "".join(letter for letter in recorded if letter.isascii() and letter.isprintable()).strip()
        return completion, {REQUEST_ID: id_ or uuid.uuid4().hex, **headers}


async def _stream(
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
