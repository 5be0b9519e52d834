"""Serve a small agent with its own memory, as an example of the protocol of docs/memory-agents.md.

A message is answered by the first rule that applies:

1. It suggests a reply: that reply, and nothing is noted.
2. It has no question: "Noted."
3. Its last question has a time, "What did I tell you 3 hours ago?": the note nearest to that time, first among notes
   that share a word with the question.
4. The newest of the notes that share the most words with the question
5. "I do not know."

Sentences that are no questions are noted after the answer.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict, deque
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import msgspec
from aiohttp import web
from msgspec import Meta

from tunecheck.plugins import JSON, canonical, convert_value
from tunecheck_serve import BadRequestError, Middleware, ReplyStore, Service, json_reply, read_object


class AgentMessage(msgspec.Struct, frozen=True):
    """The body of a request."""

    conversation: Annotated[str, Meta(max_length=200)] = ""
    message: str | None = None
    time: Annotated[datetime, Meta(tz=True)] | None = None
    suggested_reply: str | None = None

    @property
    def at_s(self) -> float:
        """Return the time in the message, else the server's, in seconds since 1970."""
        return (self.time or datetime.now(UTC)).timestamp()


MAX_CONVERSATIONS = 256
"""The most conversations in memory; the least recently used one is dropped."""

MAX_NOTES = 4_096
"""The most sentences of a conversation in memory; the oldest are dropped."""

MAX_CHARACTERS = 1 << 18
"""The most characters of a message that are read."""

_MOST_NOTE = 2_000
"""The most characters of a note."""

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_WORD = re.compile(r"[^\W_]+")

# "3 hours", "90 minutes"
_SPAN = re.compile(r"(\d{1,6}) +(second|minute|hour|day|week)s?\b")
_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}

_FILLING = frozenset(
    "a about am an and any are as ask at be can could did do does for from had has have how i in is it its me my of on"
    " or our say tell that the their them they this to told us was we were what when where which who why will with"
    " would you your".split()
)
"""Words that name no subject; the search for a note ignores them."""


class _Note(NamedTuple):
    """A sentence of a message, and the message's time in seconds since 1970."""

    text: str
    at_s: float


class NoteAgent(Service):
    """An agent that notes each sentence with its time, and answers a question with the note that shares most words.

    Among equally good notes, the newest is the answer. The memory is in this process and bounded: see the limits above.
    """

    name = "recall"
    about = "an agent with a memory"
    paths = "/reply, /reset, /advance"

    def __init__(self) -> None:
        self._memories: OrderedDict[str, deque[_Note]] = OrderedDict()
        self._replies: ReplyStore[dict[str, JSON]] = ReplyStore()

    def add_to(self, app: web.Application, middleware: Middleware) -> None:
        """Add the routes in `paths`."""
        self._middleware = middleware
        app.add_routes([web.post(path, self._reply_once) for path in self.paths.split(", ")])

    async def _reply_once(self, request: web.Request) -> web.Response:
        """Handle a request of any route.

        A request that is repeated with the same key gets the same answer and has no effect.

        Raises:
            BadRequestError: the body has another form than `AgentMessage`.
        """
        try:
            message = convert_value(read_object(await request.read()), AgentMessage)
        except msgspec.ValidationError as error:
            raise BadRequestError(str(error)) from None

        async def answer() -> dict[str, JSON]:
            """Carry out the request; return the reply to a message, an empty object for `/reset` and `/advance`."""
            if request.path == "/reset":
                self._memories.pop(message.conversation, None)
            if request.path != "/reply":
                return {}
            reply = self.reply(message)
            return {"reply": reply, **({"adopted": True} if reply == message.suggested_reply else {})}

        # The digest excludes the time: a real clock goes on between a request and its repetition.
        asked = canonical([request.path, message.conversation, message.message, message.suggested_reply])
        digest = hashlib.blake2b(asked, digest_size=16).digest()
        body, headers = await self._middleware.answer_once(request, self._replies, digest, answer)
        return json_reply(body, headers=headers)

    def reply(self, message: AgentMessage) -> str:
        """Return the answer to the message's last question, or "Noted." without a question. Note its statements.

        If the message suggests a reply, return that reply and note nothing.

        Raises:
            BadRequestError: the request has no message.
        """
        if message.message is None:
            raise BadRequestError("the request's body has no `message`; add the text for the agent under this key")
        if message.suggested_reply is not None:
            return message.suggested_reply
        candidates = map(str.strip, _SENTENCE.findall(message.message[-MAX_CHARACTERS:]))
        sentences = [sentence for sentence in candidates if _WORD.search(sentence)]

        questions = [sentence for sentence in sentences if sentence.endswith("?")]
        answer = self._answer(message, questions[-1]) if questions else "Noted."

        if notes := [_Note(each[:_MOST_NOTE], message.at_s) for each in sentences if not each.endswith("?")]:
            self._memory(message.conversation).extend(notes)
        return answer

    def health(self) -> dict[str, JSON]:
        """Return the agent's name, and the counts of conversations and notes."""
        counts = {"conversations": len(self._memories), "notes": sum(map(len, self._memories.values()))}
        return {**super().health(), **counts}

    def _memory(self, conversation: str) -> deque[_Note]:
        """Return the notes of a conversation and mark it as used last; drop conversations beyond the limit."""
        memory = self._memories.setdefault(conversation, deque(maxlen=MAX_NOTES))
        self._memories.move_to_end(conversation)
        while len(self._memories) > MAX_CONVERSATIONS:
            self._memories.popitem(last=False)
        return memory

    def _answer(self, message: AgentMessage, question: str) -> str:
        """Return the text of the newest note that shares the most words with the question, else "I do not know.".

        If the question is about a time such as "2 hours ago", return the note that is nearest to that time. If some
        notes share a word with the question, only these count.
        """
        if message.conversation not in self._memories:
            return "I do not know."
        notes = self._memory(message.conversation)

        # "hours" in "2 hours ago" is no subject of the question.
        about = _words(_SPAN.sub(" ", question.lower()))
        spans = _SPAN.findall(question.lower())
        if spans and "ago" in _WORD.findall(question.lower()):
            at_s = message.at_s - sum(int(count) * _SECONDS[unit] for count, unit in spans)
            related = [note for note in notes if about & _words(note.text)]
            return min(related or notes, key=lambda note: abs(note.at_s - at_s)).text

        best = max(reversed(notes), key=lambda note: len(about & _words(note.text)))
        return best.text if about & _words(best.text) else "I do not know."


def _words(text: str) -> set[str]:
    """Return the subject words of a text in lower case, without a plural's s."""
    words = (word.lower() for word in _WORD.findall(text))
    return {word.removesuffix("s") for word in words if word not in _FILLING}
