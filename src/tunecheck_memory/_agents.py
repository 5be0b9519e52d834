"""The agents under test: models whose prompts repeat the conversation, and agents that keep their own memory.

| endpoint | agent | a request holds | a suggested reply |
|---|---|---|---|
| a model | `EndpointAgent` | the newest exchanges that fit | is adopted without a call |
| `StatefulEndpoint` | `RememberingAgent` | only the new message | is passed on, and may be adopted |

The stateful endpoint behind an HTTP server is in _agent_endpoint.py. A message that the service's content filter
declines gets an empty reply. Any other error, after the endpoint's own retries, ends the session, which can be resumed.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from tunecheck import ConfigurationError, ContentFilterError, ReplyError
from tunecheck.endpoints import ChatRequest, Completion, Endpoint
from tunecheck.plugins import JSON, dumps
from tunecheck_memory._events import Outcome
from tunecheck_memory._tokens import MESSAGE_TOKENS, Tokenizer, replace_lone_surrogates

MAX_REPLY_CHARACTERS = 1 << 20
"""The longest accepted reply: some 250,000 tokens, more than any model writes at once."""


class _Exchange(NamedTuple):
    """A message and its reply; `tokens` is what both add to a prompt."""

    message: str
    reply: str
    tokens: int


class Agent(ABC):
    """The agent's side of one conversation. It gets one message after the other, never two at once.

    A live session calls `reply`, `reset` and `advance`. A resumed session passes what its event log already holds to
    `observe` and `observe_reset`, which make no call; an agent that remembers the conversation itself ignores them.

    key: an idempotency key. A call that was in flight when the run was interrupted is repeated with the same key, and
        must have the same outcome.
    at_us, from_us, to_us: times of the conversation's clock in µs since 1970 (UTC).
    suggested: a reply that the agent may take as its own instead of generating one; the outcome is then `adopted`.
    """

    @abstractmethod
    async def reply(self, message: str, *, key: str, at_us: int, suggested: str | None = None) -> Outcome:
        """Send a message and return the outcome: the reply and its cost, with the latency until the last byte.

        `key` is the call's idempotency key, `at_us` the conversation's time in µs since 1970. The agent may adopt a
        `suggested` reply instead of generating one.

        Raises:
            EndpointError: The call failed after all retries; the conversation does not contain the message.
            StopRunError: The run must stop: every further call would fail in the same way.
            ConfigurationError: The endpoint cannot be an agent.
        """

    @abstractmethod
    async def reset(self, key: str, at_us: int) -> None:
        """Make the agent forget the conversation; raise EndpointError or StopRunError like `reply`."""

    async def advance(self, from_us: int, to_us: int, key: str) -> None:
        """Tell the agent that time has passed, if it keeps track of time itself."""

    def observe(self, message: str, reply: str, *, declined: bool = False) -> None:
        """Add an exchange from an event log to the conversation, without a call."""

    def observe_reset(self) -> None:
        """Repeat a reset from an event log, without a call."""

    def resize(self, max_prompt_size: int | None) -> None:
        """Change the token limit of the prompts, from the next message on."""


class StatefulReply(msgspec.Struct, frozen=True):
    """The agent's reply; `adopted` is True if the agent took the suggested reply as its own."""

    completion: Completion
    adopted: bool = False


class StatefulEndpoint(Endpoint):
    """An endpoint that keeps each `conversation` itself and gets one message at a time.

    A repeated `key` means a repeated message: the agent returns the same reply and remembers the message only once.
    `sent_at` is the time of the conversation's clock, with a time zone.
    """

    answers_single_questions = False

    @abstractmethod
    async def reply(
        self, message: str, *, conversation: str, key: str, sent_at: datetime, suggested: str | None = None
    ) -> StatefulReply:
        """Send a message of the conversation with this name; `sent_at` is the conversation's time.

        A repeated message has the same `key`. The agent may adopt a `suggested` reply instead of generating one.

        Raises:
            EndpointError: The call failed after all retries; the error's class tells the reason.
            StopRunError: The run must stop: every further call would fail in the same way.
        """

    @abstractmethod
    async def reset(self, *, conversation: str, key: str, sent_at: datetime) -> None:
        """Make the agent forget the whole conversation at the time `sent_at`; a repeated request has the same `key`.

        Raises:
            EndpointError: The call failed after all retries.
            StopRunError: The run must stop: every further call would fail in the same way.
        """

    @abstractmethod
    async def advance(self, *, conversation: str, key: str, sent_at: datetime, seconds: float) -> None:
        """Tell the agent that `seconds` have passed without a message, and that the time is now `sent_at`.

        Raises:
            EndpointError: The call failed after all retries.
            StopRunError: The run must stop: every further call would fail in the same way.
        """


def agent_for(
    endpoint: Endpoint, tokenizer: Tokenizer, *, conversation: str, max_prompt_size: int | None = None
) -> Agent:
    """Return the agent of an endpoint: `RememberingAgent` if it keeps conversations itself, else `EndpointAgent`.

    `conversation` must stay the same when a run is resumed, and differ between conversations.

    Raises:
        ConfigurationError: The prompt size is below 1, or is given for an endpoint that keeps the conversation itself.
    """
    if not isinstance(endpoint, StatefulEndpoint):
        return EndpointAgent(endpoint, tokenizer, max_prompt_size)
    if max_prompt_size is not None:
        raise ConfigurationError(
            f"endpoint {endpoint.name!r} keeps the conversation itself; leave out max_prompt_size (--max-prompt-size)"
        )
    return RememberingAgent(endpoint, conversation)


class EndpointAgent(Agent):
    """A model without a memory: each request holds as much of the conversation as fits into `max_prompt_size` tokens.

    If a new message does not fit, the oldest exchanges are dropped whole and never return. A message that exceeds the
    limit by itself is sent alone. The kept exchanges depend only on messages and replies, so a conversation that is
    replayed from an event log has the same prompts.

    The agent adopts suggested replies without a call. Later prompts omit a declined exchange: it would be declined
    again.

    Raises:
        ConfigurationError: The limit is below 1.
    """

    def __init__(self, endpoint: Endpoint, tokenizer: Tokenizer, max_prompt_size: int | None = None) -> None:
        self._endpoint = endpoint
        self._tokenizer = tokenizer
        self._limit = max_prompt_size
        if max_prompt_size is not None and max_prompt_size <= 0:
            raise ConfigurationError(f"max_prompt_size must be at least 1 token, not {max_prompt_size}")
        self._kept: deque[_Exchange] = deque()
        self._used = 0

    async def reply(self, message: str, *, key: str, at_us: int, suggested: str | None = None) -> Outcome:
        """Send the kept exchanges and the message to the model, then keep the message and its reply.

        A `suggested` reply is adopted without a call. A reply that the service's content filter declines is empty and
        not kept. `key` is the call's idempotency key, `at_us` the conversation's time in µs since 1970.

        Raises:
            ConfigurationError: The endpoint cannot be an agent.
            EndpointError: The call failed after all retries.
        """
        if suggested is not None:
            outcome = Outcome(at_us, suggested, adopted=True, simulated=self._endpoint.simulated)
        else:
            request = ChatRequest(self._prompt(message), idempotency_key=key, sent_at=to_utc(at_us))

            try:
                completion = await self._endpoint.complete(request)
                # The whole prompt is written as JSON only if its length is needed.
                asked_length = len(dumps(request.messages)) if completion.usage.input_tokens is None else 0
                outcome = outcome_of(at_us, completion, self._endpoint.name, asked_length)
            except ContentFilterError:
                simulated, asked_length = self._endpoint.simulated, len(dumps(request.messages))
                outcome = Outcome(at_us, "", simulated=simulated, declined=True, asked=asked_length)
            except ValueError as error:  # for example a request template that names a row's column
                name = self._endpoint.name
                raise ConfigurationError(f"endpoint {name!r} cannot be an agent: {error}; correct it") from None

        # The exchange is kept in the same way as one that is read from an event log.
        self.observe(message, outcome.text or "", declined=outcome.declined)
        return outcome

    def _prompt(self, message: str) -> list[Mapping[str, JSON]]:
        """Drop the oldest exchanges until a new message fits; return the prompt, which ends with the message."""
        self._make_room(message)
        prompt: list[Mapping[str, JSON]] = []
        for each in self._kept:
            prompt += [{"role": "user", "content": each.message}, {"role": "assistant", "content": each.reply}]
        return [*prompt, {"role": "user", "content": message}]

    async def reset(self, key: str, at_us: int) -> None:
        """Forget the conversation; the model itself remembers nothing."""
        self.observe_reset()

    def observe(self, message: str, reply: str, *, declined: bool = False) -> None:
        """Drop the oldest exchanges until the message fits, then keep the exchange unless the service declined it."""
        self._make_room(message)
        if not declined:
            self._kept.append(_Exchange(message, reply, self._tokens_of(message) + self._tokens_of(reply)))
            self._used += self._kept[-1].tokens

    def observe_reset(self) -> None:
        """Forget the conversation."""
        self._kept.clear()
        self._used = 0

    def resize(self, max_prompt_size: int | None) -> None:
        """Change the token limit; dropped exchanges stay dropped."""
        self._limit = max_prompt_size

    def _make_room(self, message: str) -> None:
        """Drop the oldest exchanges, for good, until a new message fits."""
        needed = self._tokens_of(message)
        while self._limit is not None and self._kept and self._used + needed > self._limit:
            self._used -= self._kept.popleft().tokens

    def _tokens_of(self, text: str) -> int:
        """Return the number of tokens of a message with this text."""
        return self._tokenizer.count(text) + MESSAGE_TOKENS


class RememberingAgent(Agent):
    """An agent that keeps the conversation itself: each request holds only the new message."""

    def __init__(self, endpoint: StatefulEndpoint, conversation: str) -> None:
        self._endpoint = endpoint
        self._conversation = conversation

    async def reply(self, message: str, *, key: str, at_us: int, suggested: str | None = None) -> Outcome:
        """Send only the new message to the agent; a reply that its service declines is empty.

        `key` is the call's idempotency key, `at_us` the conversation's time in µs since 1970.
        """
        try:
            answer = await self._endpoint.reply(
                message, conversation=self._conversation, key=key, sent_at=to_utc(at_us), suggested=suggested
            )
        except ContentFilterError:
            return Outcome(at_us, "", simulated=self._endpoint.simulated, declined=True, asked=len(message))

        return outcome_of(at_us, answer.completion, self._endpoint.name, len(message), adopted=answer.adopted)

    async def reset(self, key: str, at_us: int) -> None:
        """Ask the agent to forget the conversation."""
        await self._endpoint.reset(conversation=self._conversation, key=key, sent_at=to_utc(at_us))

    async def advance(self, from_us: int, to_us: int, key: str) -> None:
        """Tell the agent how much time has passed, and the time now."""
        seconds = (to_us - from_us) / 1_000_000
        await self._endpoint.advance(conversation=self._conversation, key=key, sent_at=to_utc(to_us), seconds=seconds)


def outcome_of(at_us: int, completion: Completion, name: str, asked_length: int, *, adopted: bool = False) -> Outcome:
    """Return the completion of a model as an outcome; `name` is the endpoint's name for the error.

    `asked_length` is the length of the input: the characters of a message, or the bytes of several messages as JSON.
    The outcome holds it only if the service reported no input tokens, to estimate them.

    Raises:
        ReplyError: The reply is too long.
    """
    text = completion.text or ""
    if len(text) > MAX_REPLY_CHARACTERS:
        raise ReplyError(
            f"endpoint {name!r}: the reply has {len(text):,} characters; limit replies to {MAX_REPLY_CHARACTERS:,}",
            request_id=completion.request_id,
        )

    usage = completion.usage
    return Outcome(
        at_us=at_us,
        text=replace_lone_surrogates(text),
        latency_ms=completion.latency_ms,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        adopted=adopted,
        simulated=completion.simulated,
        cached_input_tokens=usage.cached_input_tokens,
        asked=asked_length if usage.input_tokens is None else 0,
        masked=completion.masked,
        reasoning=replace_lone_surrogates(completion.reasoning) if completion.reasoning else None,
    )


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_utc(at_us: int) -> datetime:
    """Convert µs since 1970 to a datetime in UTC; raise ConfigurationError after the year 9999."""
    try:
        return _EPOCH + timedelta(microseconds=at_us)
    except OverflowError:
        raise ConfigurationError("the waits of the tests end after the year 9999; shorten the waits") from None
