"""An agent with its own memory, served by the protocol of docs/memory-agents.md.

POST /reply    {"conversation", "message", "time", "suggested_reply"} → {"reply", "adopted"}
POST /reset    {"conversation", "time"} → {}
POST /advance  {"conversation", "time", "seconds"} → {}
GET  /, /health
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, TypeAlias, runtime_checkable

from aiohttp import web

from tunecheck._json import JSON, canonical, loads
from tunecheck.endpoints._serving.middleware import AnswerStore, Front, json_reply
from tunecheck.endpoints._serving.wire import BadRequestError

_MOST_NAME = 200
"""Longest name of a conversation, in characters."""

_Answer: TypeAlias = dict[str, JSON]


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """A message as it came in. `at` is the time it told, else the server's own."""

    conversation: str
    text: str
    at: datetime
    suggested: str | None = None


@runtime_checkable
class ServedAgent(Protocol):
    """An agent that can be served. It hears each message once, however often it is sent under its key."""

    @property
    def name(self) -> str:
        """What it is called."""

    async def reply(self, message: AgentMessage) -> str:
        """Reply; the suggested reply itself, where it is adopted."""

    async def reset(self, conversation: str) -> None:
        """Forget a conversation."""

    async def advance(self, conversation: str, at: datetime) -> None:
        """Hear that time has passed."""

    def health(self) -> dict[str, JSON]:
        """What it has counted."""


def add_agent(app: web.Application, agent: ServedAgent, front: Front) -> None:
    """Let an application serve an agent."""
    server = _AgentServer(agent, front)
    app.add_routes(
        [
            web.post("/reply", server.reply),
            web.post("/reset", server.reset),
            web.post("/advance", server.advance),
            web.get("/", server.health),
            web.get("/health", server.health),
        ]
    )


class _AgentServer:
    def __init__(self, agent: ServedAgent, front: Front) -> None:
        self._agent = agent
        self._front = front
        self._answers: AnswerStore[_Answer] = AnswerStore()

    async def health(self, _: web.Request) -> web.Response:
        return json_reply({"status": "ok", "model": self._agent.name, **self._front.counts(), **self._agent.health()})

    async def reply(self, request: web.Request) -> web.Response:
        said = _Said.read(await request.read())
        message = AgentMessage(said.conversation, said.required("message"), said.at(), said.text("suggested_reply"))

        async def answer() -> _Answer:
            text = await self._agent.reply(message)
            return {"reply": text, **({"adopted": True} if text == message.suggested else {})}

        return await self._once(request, [said.conversation, message.text, message.suggested], answer)

    async def reset(self, request: web.Request) -> web.Response:
        said = _Said.read(await request.read())
        said.at()

        async def answer() -> _Answer:
            await self._agent.reset(said.conversation)
            return {}

        return await self._once(request, [said.conversation], answer)

    async def advance(self, request: web.Request) -> web.Response:
        said = _Said.read(await request.read())
        at = said.at()

        async def answer() -> _Answer:
            await self._agent.advance(said.conversation, at)
            return {}

        return await self._once(request, [said.conversation], answer)

    async def _once(
        self, request: web.Request, asked: list[JSON], answer: Callable[[], Awaitable[_Answer]]
    ) -> web.Response:
        """The answer, given anew only for a new key. The time is no part of what was asked: a real clock goes on."""
        await self._front.pause()
        key, headers = self._front.repeats(request, self._answers)
        digest = hashlib.blake2b(canonical([request.path, *asked]), digest_size=16).digest()
        told = await (answer() if key is None else self._answers.answer(key, digest, answer))
        self._front.answered()
        return json_reply(told, headers=headers)


class _Said:
    """A request's body. What is wrong with it is a BadRequestError."""

    def __init__(self, values: dict[str, JSON]) -> None:
        self._values = values
        self.conversation = self.text("conversation") or ""
        if len(self.conversation) > _MOST_NAME:
            raise BadRequestError(f"conversation: at most {_MOST_NAME} characters")

    @classmethod
    def read(cls, body: bytes) -> _Said:
        try:
            values = loads(body)
        except ValueError as error:
            raise BadRequestError(f"the body is not JSON: {error}") from None
        if not isinstance(values, dict):
            raise BadRequestError("the body must be a JSON object")
        return cls(values)

    def text(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is not None and not isinstance(value, str):
            raise BadRequestError(f"{name}: must be a text")
        return value

    def required(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            raise BadRequestError(f"{name}: is missing")
        return value

    def at(self) -> datetime:
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
