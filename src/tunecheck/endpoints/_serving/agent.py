"""An agent with its own memory, served by the protocol of docs/memory-agents.md.

POST /reply    {"conversation", "message", "time", "suggested_reply"} → {"reply", "adopted"}
POST /reset    {"conversation", "time"} → {}
POST /advance  {"conversation", "time", "seconds"} → {}
GET  /, /health
"""

from __future__ import annotations

import functools
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from aiohttp import web

from tunecheck._json import JSON, canonical
from tunecheck.endpoints._serving.middleware import Middleware, ReplyStore, json_reply
from tunecheck.endpoints._serving.wire import BadRequestError, read_object

_MOST_NAME = 200
"""Longest name of a conversation, in characters."""


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """A message as it came in. `at` is the time it told, else the server's own."""

    conversation: str
    text: str
    at: datetime
    suggested: str | None = None


class ServedAgent(ABC):
    """An agent that can be served. It is told each message once, however often it is sent under its key."""

    name: str

    @abstractmethod
    async def reply(self, message: AgentMessage) -> str:
        """Reply; the suggested reply itself, where it is adopted."""

    @abstractmethod
    async def reset(self, conversation: str) -> None: ...

    async def advance(self, conversation: str, at: datetime) -> None:
        """Time has passed; every message tells the time as well."""

    def health(self) -> dict[str, JSON]:
        """Counts of its own, for the health check."""
        return {}


def add_agent(app: web.Application, agent: ServedAgent, middleware: Middleware) -> None:
    server = _AgentServer(agent, middleware)
    posts = (("/reply", server.reply), ("/reset", server.reset), ("/advance", server.advance))
    app.add_routes([web.post(path, handler) for path, handler in posts])
    app.add_routes([web.get(path, server.health) for path in ("/", "/health")])


class _AgentServer:
    def __init__(self, agent: ServedAgent, middleware: Middleware) -> None:
        self._agent = agent
        self._middleware = middleware
        self._replies: ReplyStore[dict[str, JSON]] = ReplyStore()

    async def health(self, _: web.Request) -> web.Response:
        counts = {**self._middleware.counts(), **self._agent.health()}
        return json_reply({"status": "ok", "model": self._agent.name, **counts})

    async def reply(self, request: web.Request) -> web.Response:
        body = _Body(await request.read())
        text = body.text("message")
        if text is None:
            raise BadRequestError("message: is missing")
        message = AgentMessage(body.conversation, text, body.time(), body.text("suggested_reply"))

        async def reply() -> dict[str, JSON]:
            answer = await self._agent.reply(message)
            return {"reply": answer, **({"adopted": True} if answer == message.suggested else {})}

        return await self._once(request, [body.conversation, message.text, message.suggested], reply)

    async def reset(self, request: web.Request) -> web.Response:
        body = _Body(await request.read())
        body.time()
        return await self._told(request, body, functools.partial(self._agent.reset, body.conversation))

    async def advance(self, request: web.Request) -> web.Response:
        body = _Body(await request.read())
        return await self._told(request, body, functools.partial(self._agent.advance, body.conversation, body.time()))

    async def _told(self, request: web.Request, body: _Body, tell: Callable[[], Awaitable[None]]) -> web.Response:
        async def reply() -> dict[str, JSON]:
            await tell()
            return {}

        return await self._once(request, [body.conversation], reply)

    async def _once(
        self, request: web.Request, asked: list[JSON], reply: Callable[[], Awaitable[dict[str, JSON]]]
    ) -> web.Response:
        # The time is no part of what was asked: a real clock goes on between a request and its repetition.
        digest = hashlib.blake2b(canonical([request.path, *asked]), digest_size=16).digest()
        body, headers = await self._middleware.once(request, self._replies, digest, reply)
        return json_reply(body, headers=headers)


class _Body:
    """A request's body. What is wrong with it is a BadRequestError."""

    def __init__(self, body: bytes) -> None:
        self._values = read_object(body)
        self.conversation = self.text("conversation") or ""
        if len(self.conversation) > _MOST_NAME:
            raise BadRequestError(f"conversation: at most {_MOST_NAME} characters")

    def text(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is not None and not isinstance(value, str):
            raise BadRequestError(f"{name}: must be a text")
        return value

    def time(self) -> datetime:
        text = self.text("time")
        if text is None:
            return datetime.now(UTC)
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            at = None
        if at is None or at.tzinfo is None:
            raise BadRequestError("time: must be ISO 8601 with a time zone, such as 2026-03-05T09:30:00Z")
        return at
