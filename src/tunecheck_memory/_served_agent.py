"""Serve an agent with its own memory by the protocol of docs/memory-agents.md, and a small agent as an example."""

from __future__ import annotations

import functools
import hashlib
import re
from abc import abstractmethod
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from tunecheck.plugins import JSON, canonical, converted
from tunecheck_serve import BadRequestError, Middleware, ReplyStore, Service, json_reply, read_object


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """A received message. `at` is the time in the message, else the server's time."""

    conversation: str
    text: str
    at: datetime
    suggested: str | None = None


class ServedAgent(Service):
    """Base of agents that can be served. A message that is repeated under its key reaches the agent once."""

    about = "an agent with a memory"
    paths = "/reply, /reset, /advance"

    @abstractmethod
    async def reply(self, message: AgentMessage) -> str:
        """Return the reply, which may be the suggested one."""

    @abstractmethod
    async def reset(self, conversation: str) -> None: ...

    async def advance(self, conversation: str, at: datetime) -> None:
        """Let time pass. Every message contains the time as well."""

    def health(self) -> dict[str, JSON]:
        """Return the agent's own counts for the health check."""
        return {}

    def add_to(self, app: web.Application, middleware: Middleware) -> None:
        """Add the routes /reply, /reset and /advance."""
        server = _AgentServer(self, middleware)
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
        body = await _read(request)
        if body.message is None:
            raise BadRequestError("message: is missing")
        message = AgentMessage(body.conversation, body.message, body.at, body.suggested_reply)

        async def reply() -> dict[str, JSON]:
            answer = await self._agent.reply(message)
            return {"reply": answer, **({"adopted": True} if answer == message.suggested else {})}

        return await self._once(request, [body.conversation, message.text, message.suggested], reply)

    async def reset(self, request: web.Request) -> web.Response:
        body = await _read(request)
        return await self._told(request, body, functools.partial(self._agent.reset, body.conversation))

    async def advance(self, request: web.Request) -> web.Response:
        body = await _read(request)
        return await self._told(request, body, functools.partial(self._agent.advance, body.conversation, body.at))

    async def _told(self, request: web.Request, body: _AgentBody, tell: Callable[[], Awaitable[None]]) -> web.Response:
        async def reply() -> dict[str, JSON]:
            await tell()
            return {}

        return await self._once(request, [body.conversation], reply)

    async def _once(
        self, request: web.Request, asked: list[JSON], reply: Callable[[], Awaitable[dict[str, JSON]]]
    ) -> web.Response:
        # The digest excludes the time: a real clock goes on between a request and its repetition.
        digest = hashlib.blake2b(canonical([request.path, *asked]), digest_size=16).digest()
        body, headers = await self._middleware.once(request, self._replies, digest, reply)
        return json_reply(body, headers=headers)


class _AgentBody(msgspec.Struct, frozen=True):
    """The body of a request."""

    conversation: Annotated[str, Meta(max_length=200)] = ""
    message: str | None = None
    suggested_reply: str | None = None
    time: Annotated[datetime, Meta(tz=True)] | None = None

    @property
    def at(self) -> datetime:
        return self.time or datetime.now(UTC)


async def _read(request: web.Request) -> _AgentBody:
    """Return the body of a request; raise BadRequestError if it is invalid."""
    try:
        return converted(read_object(await request.read()), _AgentBody)
    except msgspec.ValidationError as error:
        raise BadRequestError(str(error)) from None


MAX_CONVERSATIONS = 256
"""The most conversations in memory; the least recently used one is dropped."""

MAX_CHARACTERS = 1 << 18
"""The most characters of a conversation or message in memory; the oldest are dropped."""

_MOST_NOTE = 2_000

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_WORD = re.compile(r"[^\W_]+")
_SPAN = re.compile(r"(\d{1,6}) +(second|minute|hour|day|week)s?\b")
_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}

_FILLING = frozenset(
    "a about am an and any are as ask at be can could did do does for from had has have how i in is it its me my of on"
    " or our say tell that the their them they this to told us was we were what when where which who why will with"
    " would you your".split()
)
"""Words without a subject; they are ignored in questions."""


@dataclass(frozen=True, slots=True)
class _Note:
    text: str
    at_s: float


@dataclass(slots=True)
class _Memory:
    """The notes of one conversation, oldest first."""

    notes: deque[_Note] = field(default_factory=deque)
    characters: int = 0

    def add(self, note: _Note) -> None:
        self.notes.append(note)
        self.characters += len(note.text)
        while self.characters > MAX_CHARACTERS:
            self.characters -= len(self.notes.popleft().text)


class NoteAgent(ServedAgent):
    """Notes each sentence with its time, and answers questions with the note that shares most words.

    Rare words count more than common ones; among equal notes, the newest is the answer. For a question about "2 hours
    ago", the note nearest to that time is the answer. Suggested replies are adopted, and their messages are not noted.
    The memory is in this process and bounded.
    """

    name = "recall"

    def __init__(self) -> None:
        self._memories: OrderedDict[str, _Memory] = OrderedDict()

    async def reply(self, message: AgentMessage) -> str:
        """Answer the message's last question, and note its statements."""
        if message.suggested is not None:
            return message.suggested
        sentences = [match[0].strip() for match in _SENTENCE.finditer(message.text[-MAX_CHARACTERS:])]
        sentences = [sentence for sentence in sentences if _WORD.search(sentence)]
        questions = [sentence for sentence in sentences if sentence.endswith("?")]
        answer = self._answer(message, questions[-1]) if questions else "Noted."
        told = [sentence for sentence in sentences if not sentence.endswith("?")]
        if told:
            memory = self._memory(message.conversation)
            for sentence in told:
                memory.add(_Note(sentence[:_MOST_NOTE], message.at.timestamp()))
        return answer

    async def reset(self, conversation: str) -> None:
        self._memories.pop(conversation, None)

    def health(self) -> dict[str, JSON]:
        return {"conversations": len(self._memories), "notes": sum(len(each.notes) for each in self._memories.values())}

    def _memory(self, conversation: str) -> _Memory:
        memory = self._memories.setdefault(conversation, _Memory())
        self._memories.move_to_end(conversation)
        while len(self._memories) > MAX_CONVERSATIONS:
            self._memories.popitem(last=False)
        return memory

    def _answer(self, message: AgentMessage, question: str) -> str:
        if message.conversation not in self._memories:
            return "I do not know."
        notes = self._memory(message.conversation).notes
        about = _words(_SPAN.sub(" ", question.lower()))
        spans = _SPAN.findall(question.lower())
        if spans and "ago" in _WORD.findall(question.lower()):
            at_s = message.at.timestamp() - sum(int(count) * _SECONDS[unit] for count, unit in spans)
            related = [note for note in notes if about & _words(note.text)]
            return min(related or notes, key=lambda note: abs(note.at_s - at_s)).text
        best = _fitting(notes, about)
        return best[-1].text if best else "I do not know."


def _words(text: str) -> set[str]:
    """Return the subject words of a text, without a plural's s."""
    words = (word.lower() for word in _WORD.findall(text))
    return {word.removesuffix("s") for word in words if word not in _FILLING}


def _fitting(notes: Iterable[_Note], asked: set[str]) -> list[_Note]:
    """Return the notes that fit a question best, oldest first."""
    shared = [(note, asked & _words(note.text)) for note in notes]
    common = Counter(word for _, words in shared for word in words)
    fits = [(note, sum(1 / common[word] for word in sorted(words))) for note, words in shared]
    best = max((fit for _, fit in fits), default=0.0)
    return [note for note, fit in fits if fit == best] if best else []
