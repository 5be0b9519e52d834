"""The endpoint kind `memory_agent`: an agent over HTTP that keeps its own memory (docs/memory-agents.md)."""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar
from urllib.parse import urlsplit, urlunsplit

from tunecheck.endpoints import (
    ChatRequest,
    Completion,
    Definition,
    HttpConfig,
    HttpEndpoint,
    ServiceCall,
    UnreadableReplyError,
    keys_of,
    says_error,
    time_header,
    time_text,
)
from tunecheck.plugins import JSON, dumps
from tunecheck_memory._agents import StatefulEndpoint, StatefulReply

_REPLY = "/reply"


class MemoryAgentEndpoint(HttpEndpoint[HttpConfig], StatefulEndpoint):
    """An agent with its own memory behind an HTTP server: requests go to `<url>/reply`, `<url>/reset`, `<url>/advance`.

    The other keys of its definition are those of every HTTP endpoint. As an ordinary endpoint, it sends the system
    messages and the only user message of each request in a new conversation.
    """

    kind = "memory_agent"
    key_variable: ClassVar[str] = "MEMORY_AGENT_KEY"

    def __init__(self, definition: Definition) -> None:
        """Raise ConfigurationError for keys of model endpoints, which do not apply to an agent."""
        for key in ("parameters", "request", "response", "stream", "system_role", "send_reasoning", "format", "tools"):
            if definition.data.get(key) is not None:
                raise definition.at(key).error("does not apply to a memory agent: leave it out")
        super().__init__(definition)

    async def reply(
        self, message: str, *, conversation: str, key: str, sent_at: datetime, suggested: str | None = None
    ) -> StatefulReply:
        """Send a message to the agent's `/reply`.

        The suggested reply counts as adopted only if the agent answers with it.
        """
        body = _message_body(conversation, sent_at) | {"message": message}
        if suggested is not None:
            body["suggested_reply"] = suggested
        completion, answered = await self._post(body, key, sent_at, {})
        says = isinstance(answered, dict) and answered.get("adopted") is True
        return StatefulReply(completion, says and suggested is not None and completion.text == suggested)

    async def reset(self, *, conversation: str, key: str, sent_at: datetime) -> None:
        await self._tell("/reset", _message_body(conversation, sent_at), key, sent_at)

    async def advance(self, *, conversation: str, key: str, sent_at: datetime, seconds: float) -> None:
        body = _message_body(conversation, sent_at) | {"seconds": seconds}
        await self._tell("/advance", body, key, sent_at)

    async def _tell(self, path: str, body: JSON, key: str, sent_at: datetime) -> None:
        url, headers = _beside(self._url, path), time_header(sent_at)
        await self._client.post(ServiceCall(dumps(body), key, _heard, url=url, headers=headers, empty_answers=True))

    def _address(self, url: str, definition: Definition) -> str:
        return _beside(url, _REPLY)

    def _body(self, request: ChatRequest, parameters: Mapping[str, JSON]) -> JSON:
        conversation = f"single-{request.idempotency_key or uuid.uuid4().hex}"
        return _message_body(conversation, request.sent_at) | {"message": _only_message(request)}

    def _answer(self, reply: JSON) -> Completion:
        """Read the agent's reply from the body of its answer; raise UnreadableReplyError without a text."""
        text = reply.get("reply") if isinstance(reply, dict) else None
        if not isinstance(text, str):
            raise UnreadableReplyError(f"the agent's answer has no text in `reply`{keys_of(reply)}")
        return Completion(text, finish_reason="stop")


def _heard(reply: JSON) -> None:
    """Accept any answer; raise UnreadableReplyError if it reports an error."""
    if says_error(reply):
        raise UnreadableReplyError("the agent answered with an error")


def _beside(url: str, path: str) -> str:
    """Return the URL of another path of the agent: `path` replaces `/reply` at the end of the URL, or is appended."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/").removesuffix(_REPLY) + path))


def _message_body(conversation: str, sent_at: datetime | None) -> dict[str, JSON]:
    told: dict[str, JSON] = {"conversation": conversation}
    return told if sent_at is None else {**told, "time": time_text(sent_at)}


def _only_message(request: ChatRequest) -> str:
    """Return a request's system and user texts as one message.

    Raises:
        ValueError: The request has earlier turns, or content that is no text.
    """
    roles = [message.get("role") for message in request.messages]
    texts = [content for message in request.messages if isinstance(content := message.get("content"), str)]
    if roles[-1:] != ["user"] or not {"system", "developer"}.issuperset(roles[:-1]) or len(texts) < len(roles):
        raise ValueError("a memory agent keeps the conversation itself: send a single user message of text")
    return "\n\n".join(filter(None, texts))
