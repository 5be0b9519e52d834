"""An embeddings endpoint with the interface of a chat endpoint: it takes a text and returns the text's vector.

So a run's journal, cache, budget and limits apply to embeddings as they do to judges' calls. For the run, each text is
a call; on the network, simultaneous texts share a request. Vectors are recorded as 32-bit numbers in base64. Other
content raises UnreadableReplyError.

The life of a batch:

1. The first text opens it. It closes after 5 ms. When it is full, the next text opens another one.
2. Its texts are sent in one request: `{"model": "…", "input": ["…", "…"]}`. The reply has a vector for each text:
   `{"data": [{"index": 0, "embedding": [0.1, …]}, …], "usage": {"prompt_tokens": 12}}`.
3. If the service refuses the content (400, 413, 422 or 500), each text is sent again alone. If all of these succeed,
   there were too many texts, and later batches are half as large.
4. Any other error, after the client's retries, goes to all callers of the batch.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import hashlib
import math
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from tunecheck import ConfigurationError, EndpointError, endpoints
from tunecheck.endpoints import ChatRequest, Completion, Endpoint, UnreadableReplyError
from tunecheck.plugins import JSON, convert_value, dumps

# -- vectors

# The most numbers of a vector, and their form: 32 bits, little-endian on every machine
_MOST_NUMBERS = 1 << 16
_NUMBER = np.dtype("<f4")
Vector: TypeAlias = npt.NDArray[np.float32]


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors, from -1 to 1.

    Raises:
        ValueError: a vector has only zeros, or the vectors have different lengths.
    """
    if len(first) != len(second):
        raise ValueError(f"two embeddings have different lengths ({len(first)}, {len(second)}); use another model")

    product = math.fsum(a * b for a, b in zip(first, second, strict=True))
    lengths = math.hypot(*first) * math.hypot(*second)
    if not lengths:
        raise ValueError("an embedding has only zeros, so the similarity is undefined; use another model")
    return max(-1.0, min(1.0, product / lengths))


def packed_vector(vector: Vector) -> str:
    """Encode a vector of 32-bit numbers as little-endian base64, which takes a quarter of the length of decimals.

    The vector (1, -1) is "AACAPwAAgL8=".
    """
    return base64.b64encode(vector.tobytes()).decode("ascii")


def unpacked_vector(text: str) -> Vector:
    """Return the vector that `packed_vector` encoded.

    Raises:
        UnreadableReplyError: the text has another form, or the vector is empty, too long or not finite.
    """
    try:
        vector = np.frombuffer(base64.b64decode(text, validate=True), _NUMBER)
    except (binascii.Error, ValueError):
        raise UnreadableReplyError("a base64 embedding is invalid; set parameters.encoding_format to float") from None
    return _check_vector(vector)


class _Entry(msgspec.Struct):
    """An embedding in a reply, as numbers or as base64."""

    embedding: list[float] | str
    index: int | None = None


class _Reply(msgspec.Struct):
    """The body of an embeddings reply."""

    data: list[_Entry]


def read_embeddings(reply: JSON, count: int) -> list[Vector]:
    """Return the `count` vectors in an embeddings reply, in the order of the texts.

    Raises:
        UnreadableReplyError: the reply has another form or number of embeddings, or an embedding is unusable.
    """
    try:
        data = convert_value(reply, _Reply).data
    except (msgspec.ValidationError, OverflowError) as error:
        raise UnreadableReplyError(f"the reply is not a list of embeddings: {error}; check the url") from None

    if len(data) != count:
        raise UnreadableReplyError(f"the reply has {len(data)} embeddings, but must have {count}, one for each text")

    # Entries may come in any order: if an entry has an `index`, this is the number of its text.
    by_index = {position if entry.index is None else entry.index: entry for position, entry in enumerate(data)}
    if by_index.keys() != {*range(count)}:
        raise UnreadableReplyError(f"the `index` values of the embeddings in the reply must be 0 to {count - 1}")
    return [_vector(by_index[index].embedding) for index in range(count)]


def _vector(value: list[float] | str) -> Vector:
    """Return an embedding given as numbers or as base64, or raise UnreadableReplyError."""
    if isinstance(value, str):
        return unpacked_vector(value)
    with np.errstate(over="ignore"):  # numbers beyond 32 bits become infinite, which the check refuses
        return _check_vector(np.array(value, _NUMBER))


def _check_vector(vector: Vector) -> Vector:
    """Return the vector, or raise UnreadableReplyError if it is empty, too long or not finite."""
    if not 0 < len(vector) <= _MOST_NUMBERS:
        raise UnreadableReplyError(f"an embedding has {len(vector)} numbers, but must have 1 to {_MOST_NUMBERS}")
    if not np.isfinite(vector).all():
        raise UnreadableReplyError("an embedding contains an infinite number or NaN; use another model")
    return vector


# -- the endpoint

_GATHER_S = 0.005
"""Seconds that the first text of a batch waits for further texts."""

_CONTENT_REFUSED = frozenset({400, 413, 422, 500})
"""Statuses of a service that does not accept a text or the number of texts. llama.cpp replies 500."""

_CHARACTERS_PER_TOKEN = 4
"""For the expected tokens of a request, which reserve room in the token limit before the service reports them."""


def text_request(text: str) -> ChatRequest:
    """Return the request for the embedding of a text."""
    return ChatRequest([{"role": "user", "content": text}])


class _Embedded(Completion):
    """A completion with a packed vector as text. The record omits `response`, which would repeat the vector."""

    __slots__ = ()

    def columns(self) -> dict[str, JSON]:
        """Return the columns for the record, with `response` as None."""
        return {**super().columns(), "response": None}


class _PendingText(msgspec.Struct, frozen=True):
    """A text that waits for its batch; `key` is its idempotency key, `answer` gets its completion."""

    text: str
    key: str
    answer: asyncio.Future[Completion]


class EmbeddingEndpoint(Endpoint):
    """An endpoint that posts to the `/embeddings` path of a chat endpoint, with the same sign-in, limits and retries.

    `complete` takes the last message's content as the text; the completion's `text` is the vector (see
    `packed_vector`). If the service refuses the content of a batch, each text is sent again alone, so that a bad text
    does not fail the others.

    Raises:
        ConfigurationError: this kind of endpoint has no embeddings, or the endpoint has a request template.
    """

    kind = "embeddings"
    most_texts: ClassVar[int] = 64
    """The most texts in one request."""

    def __init__(self, chat: Endpoint) -> None:
        """Take over the names, price and limits of a chat endpoint.

        Raises:
            ConfigurationError: this kind of endpoint has no embeddings, or the endpoint has a request template.
        """
        if not isinstance(chat, endpoints.ChatEndpoint):
            raise ConfigurationError(
                f"endpoint {chat.name!r} returns no embeddings; set its kind to openai (a server with /v1/embeddings) "
                "or azure_openai"
            )
        self.name = chat.name
        self.model_names = chat.model_names
        self.price = chat.price
        self.concurrency = chat.concurrency

        self._chat = chat
        self._operation = chat.beside("/embeddings")
        self._client = self._operation.client

        self._most = self.most_texts
        self._open: list[_PendingText] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def complete(self, request: ChatRequest) -> Completion:
        """Return the embedding of the last message's text as a completion.

        The text waits a few milliseconds for other texts and shares a request with them.
        """
        loop = asyncio.get_running_loop()
        text = str(request.messages[-1].get("content"))
        pending = _PendingText(text, request.idempotency_key or uuid.uuid4().hex, loop.create_future())

        # Futures belong to one event loop, so callers in another loop get a batch of their own.
        batch = self._open
        if not batch or len(batch) >= self._most or batch[0].answer.get_loop() is not loop:
            self._open = batch = []
            loop.call_later(_GATHER_S, self._send, batch)

        batch.append(pending)
        return await pending.answer

    def settings(self) -> dict[str, JSON]:
        """Return the endpoint's definition with the address of `/embeddings`."""
        return {**self._chat.settings(), "url": self._chat.shown_address(self._operation.url)}

    def answer_settings(self) -> dict[str, JSON]:
        """Return the settings that affect the embeddings, with the address of `/embeddings`."""
        return {**self._chat.answer_settings(), "url": self._chat.shown_address(self._operation.url)}

    def sign(self, user_agent: str) -> None:
        """Set the user agent of the requests."""
        self._client.sign(user_agent)

    async def close(self) -> None:
        """Cancel the batches of the running event loop with their waiting callers, and close connections."""
        # A task of another event loop cannot be awaited here.
        for task in list(self._under_way):
            if task.get_loop() is asyncio.get_running_loop():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._client.close()

    # -- batches

    def _send(self, batch: list[_PendingText]) -> None:
        """Close a batch for further texts, and start the task that sends it."""
        if batch is self._open:
            self._open = []
        task = asyncio.get_running_loop().create_task(self._deliver(batch))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _deliver(self, batch: Sequence[_PendingText]) -> None:
        """Send the texts of a batch that still wait, and give each waiting caller its completion or the error.

        If the service refuses the content of several texts, each is sent alone. If all of these succeed, the batch was
        too large, and later batches are half as large.
        """
        wanted = [pending for pending in batch if not pending.answer.done()]
        if not wanted:
            return

        try:
            completions = await self._post_batch(wanted)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the waiting callers get the error
            if len(wanted) > 1 and isinstance(error, EndpointError) and error.status in _CONTENT_REFUSED:
                await asyncio.gather(*(self._deliver([pending]) for pending in wanted))
                answers = [pending.answer for pending in wanted]
                if all(answer.done() and not answer.cancelled() and not answer.exception() for answer in answers):
                    self._most = max(1, len(wanted) // 2)  # each text alone is fine: there were too many
                return

            for pending in wanted:
                if not pending.answer.done():
                    pending.answer.set_exception(error)
            return

        for pending, completion in zip(wanted, completions, strict=True):
            if not pending.answer.done():
                pending.answer.set_result(completion)

    async def _post_batch(self, batch: Sequence[_PendingText]) -> list[Completion]:
        """Send texts in one request and return their completions, with the request's tokens divided among them."""
        texts = [pending.text for pending in batch]
        expected = sum(map(len, texts)) // _CHARACTERS_PER_TOKEN
        body = dumps({**self._operation.body, "input": texts})

        # The same texts have the same key when they are repeated, alone or together.
        key = batch[0].key
        if len(batch) > 1:
            key = hashlib.blake2b("\0".join(pending.key for pending in batch).encode(), digest_size=16).hexdigest()

        read = functools.partial(read_embeddings, count=len(batch))
        exchange = await self._client.post(endpoints.ServiceCall(body, key, read, expected, self._operation.url))
        usages = _share_tokens(endpoints.read_usage(exchange.reply).input_tokens, texts)
        return [
            _completion(packed_vector(vector), usage, exchange)
            for vector, usage in zip(exchange.answer, usages, strict=True)
        ]


def _completion(vector: str, tokens: int | None, exchange: endpoints.Exchange[Any]) -> Completion:
    """Return a vector as a completion, with its share of the tokens and the request's latency and id."""
    reply = exchange.reply
    return _Embedded(
        text=vector,
        usage=endpoints.Usage(tokens, None if tokens is None else 0),
        latency_ms=exchange.latency_ms,
        request_id=exchange.request_id,
        simulated=isinstance(reply, Mapping) and reply.get("simulated") is True,
    )


def _share_tokens(total: int | None, texts: Sequence[str]) -> list[int | None]:
    """Divide a batch's tokens among the texts in proportion to their characters, as integers that add up to `total`.

    Each share is None if the total is unknown (None).
    10 tokens for texts of 3 and 5 characters (one more for each, so that an empty text has a share): 4 and 6.
    """
    if total is None:
        return [None] * len(texts)

    sizes = [len(text) + 1 for text in texts]
    ends = [total * sum(sizes[: n + 1]) // sum(sizes) for n in range(len(sizes))]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]
