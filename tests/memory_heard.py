"""An agent over HTTP that notes what it hears, and kills who asks it where a test wants that."""

import hashlib
import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web
from anyio.from_thread import start_blocking_portal

from tunecheck.report import running


@dataclass
class Agent:
    """An agent over HTTP, twice: with a memory of its own, and as a model that is sent the conversation.

    Its replies depend on everything that it knows, so that an agent that was told something twice, or not at all,
    answers differently. Under a key that it has heard before it answers as it did then.
    """

    port: int = 0
    heard: list[tuple[str, str]] = field(default_factory=list)
    """Key and message of each request, resets and times included."""
    remembered: dict[str, list[str]] = field(default_factory=dict)
    answered: dict[str, str] = field(default_factory=dict)
    pid: int | None = None
    dies_at: int | None = None
    """The request, counted from now on, at which the client is killed."""
    remembers_first: bool = False
    """Whether it takes note of that request before it kills who made it."""

    def kill_at(self, request: int, pid: int, *, remembers_first: bool) -> None:
        self.dies_at, self.pid, self.remembers_first = len(self.heard) + request, pid, remembers_first

    def _hear(self, key: str, message: str) -> bool:
        """Whether the client was killed by this request."""
        self.heard.append((key, message))
        if self.dies_at is None or len(self.heard) - 1 != self.dies_at:
            return False
        assert self.pid is not None
        os.kill(self.pid, signal.SIGKILL)
        self.dies_at = None
        return True

    async def reply(self, request: web.Request) -> web.Response:
        told, key = await request.json(), request.headers["Idempotency-Key"]
        killed = self._hear(key, told["message"])
        if killed and not self.remembers_first:
            return web.Response(status=503)
        if key not in self.answered:
            memory = self.remembered.setdefault(told["conversation"], [])
            memory.append(f"{told['time']} {told['message']}")
            suggested = told.get("suggested_reply") if len(memory) % 2 else None
            self.answered[key] = suggested or answer(told["message"], memory)
        return web.json_response(
            {"reply": self.answered[key], "adopted": self.answered[key] == told.get("suggested_reply")}
        )

    async def tell(self, request: web.Request) -> web.Response:
        told, key = await request.json(), request.headers["Idempotency-Key"]
        killed = self._hear(key, request.path)
        if not (killed and not self.remembers_first) and key not in self.answered:
            self.answered[key] = ""
            memory = self.remembered.setdefault(told["conversation"], [])
            if request.path.endswith("/reset"):
                memory.clear()
            else:
                memory.append(f"{told['time']} {told['seconds']}")
        return web.Response(status=204)

    async def complete(self, request: web.Request) -> web.Response:
        asked, key = await request.json(), request.headers["Idempotency-Key"]
        message = asked["messages"][-1]["content"]
        if not self._hear(key, message) or self.remembers_first:
            self.answered.setdefault(key, answer(message, [json.dumps(asked["messages"])]))
        text = self.answered.get(key, "")
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})


def answer(message: str, memory: Sequence[str]) -> str:
    """Words that depend on all that is remembered; to a waiter, an order."""
    said = hashlib.blake2b("\n".join(memory).encode(), digest_size=4).hexdigest()
    if message.startswith("Waiter:") and "drink" in message:
        return f"A coffee, please. ({said})"
    if message.startswith("Waiter:"):
        return f"I would like the Rice Pudding with Cherries, please. ({said})"
    return f"Noted as {said}."


@contextmanager
def serving() -> Iterator[Agent]:
    """The agent, in a thread of its own."""
    agent, app = Agent(), web.Application()
    app.router.add_post("/agent/reply", agent.reply)
    app.router.add_post("/agent/reset", agent.tell)
    app.router.add_post("/agent/advance", agent.tell)
    app.router.add_post("/v1/chat/completions", agent.complete)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running(app)) as url:
        agent.port = int(url.rpartition(":")[2])
        yield agent
