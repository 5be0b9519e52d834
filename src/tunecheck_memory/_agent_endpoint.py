"""The endpoint kind `memory_agent`: an agent with its own memory behind an HTTP server.

It has a module of its own, because the HTTP client takes longer to load than all other parts of a memory run.
"""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar
from urllib.parse import urlsplit, urlunsplit

from tunecheck import endpoints
from tunecheck.endpoints import ChatRequest, Completion
from tunecheck.plugins import JSON, dumps
from tunecheck_memory._agents import StatefulEndpoint, StatefulReply

_REPLY = "/reply"


class MemoryAgentEndpoint(endpoints.HttpEndpoint[endpoints.HttpConfig], StatefulEndpoint):
    """An agent with its own memory behind an HTTP server: requests go to `<url>/reply`, `<url>/reset`, `<url>/advance`.

    The other keys of its definition are those of every HTTP endpoint. As an ordinary endpoint, it sends the system
    messages and the only user message of each request in a new conversation.
    """

    kind = "memory_agent"
    key_variable: ClassVar[str] = "MEMORY_AGENT_KEY"

    def __init__(self, definition: endpoints.Definition) -> None:
        """Raise ConfigurationError for keys of model endpoints, which do not apply to an agent."""
        for key in ("parameters", "request", "response", "stream", "system_role", "send_reasoning", "format", "tools"):
            if definition.data.get(key) is not None:
                raise definition.at(key).error(f"a memory agent has no key `{key}`; remove this key")
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

        completion, answer = await self._post(body, key, sent_at, parameters={})
        # An agent may claim adoption and still answer in words of its own. Such a reply was generated.
        claims_adoption = isinstance(answer, dict) and answer.get("adopted") is True
        return StatefulReply(completion, claims_adoption and suggested is not None and completion.text == suggested)

    async def reset(self, *, conversation: str, key: str, sent_at: datetime) -> None:
        """Send a request to the agent's `/reset`."""
        await self._tell("/reset", _message_body(conversation, sent_at), key, sent_at)

    async def advance(self, *, conversation: str, key: str, sent_at: datetime, seconds: float) -> None:
        """Send a request to the agent's `/advance`."""
        body = _message_body(conversation, sent_at) | {"seconds": seconds}
        await self._tell("/advance", body, key, sent_at)

    async def _tell(self, path: str, body: JSON, key: str, sent_at: datetime) -> None:
        """Post a body to a path of the agent, which may answer with nothing; raise EndpointError if the call fails."""
        url, headers = _sibling_url(self._url, path), endpoints.time_header(sent_at)
        call = endpoints.ServiceCall(dumps(body), key, _check_no_error, url=url, headers=headers, empty_answers=True)
        await self._client.post(call)

    def _address(self, url: str, definition: endpoints.Definition) -> str:
        """Return the URL of `/reply`, whether the definition gives it with or without the path."""
        return _sibling_url(url, _REPLY)

    def _body(self, request: ChatRequest, parameters: Mapping[str, JSON]) -> JSON:
        """Return the body of an ordinary request: its only message, in a new conversation.

        `parameters` are ignored, because only models have them.
        """
        conversation = f"single-{request.idempotency_key or uuid.uuid4().hex}"
        return _message_body(conversation, request.sent_at) | {"message": _only_message(request)}

    def _answer(self, reply: JSON) -> Completion:
        """Return the text in the answer's `reply` as a completion; raise UnreadableReplyError if there is none.

        Example: `{"reply": "Noted.", "adopted": true}`.
        """
        text = reply.get("reply") if isinstance(reply, dict) else None
        if not isinstance(text, str):
            raise endpoints.UnreadableReplyError(f"the agent's answer has no text in `reply`{endpoints.keys_of(reply)}")
        return Completion(text, finish_reason="stop")


def _check_no_error(reply: JSON) -> None:
    """Accept any answer; raise UnreadableReplyError if it reports an error."""
    if endpoints.says_error(reply):
        raise endpoints.UnreadableReplyError(f"the agent's answer reports an error{endpoints.keys_of(reply)}")


def _sibling_url(url: str, path: str) -> str:
    """Return the URL of a path of the agent: `path` replaces `/reply` at the end of `url`, or is appended to it.

    `/reset` of `http://host/agent/reply` is `http://host/agent/reset`.
    """
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/").removesuffix(_REPLY) + path))


def _message_body(conversation: str, sent_at: datetime | None) -> dict[str, JSON]:
    """Return the fields that the bodies of all requests have; `time` is left out if `sent_at` is None."""
    body: dict[str, JSON] = {"conversation": conversation}
    return body if sent_at is None else {**body, "time": endpoints.time_text(sent_at)}


def _only_message(request: ChatRequest) -> str:
    """Return a request's system and user texts as one message.

    Raises:
        ValueError: The request has earlier turns, or content that is no text.
    """
    # Valid: any number of system messages, then one user message, and all contents are texts.
    roles = [message.get("role") for message in request.messages]
    texts = [content for message in request.messages if isinstance(content := message.get("content"), str)]

    if roles[-1:] != ["user"] or not {"system", "developer"}.issuperset(roles[:-1]) or len(texts) < len(roles):
        raise ValueError("a memory agent keeps the conversation itself; send one user message that is text")
    return "\n\n".join(filter(None, texts))
