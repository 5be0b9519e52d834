"""The agents under test. They get one message at a time; a window limits the conversation in their prompts."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tunecheck import ConfigurationError, ContentFilterError, ReplyError, TunecheckError
from tunecheck.endpoints import ChatRequest, Completion, Endpoint
from tunecheck.plugins import JSON, dumps
from tunecheck_memory._effects import Outcome
from tunecheck_memory._tokens import CountingOnce, Tokenizer

MESSAGE_TOKENS = 4
"""Tokens of a message in addition to its text: its role and delimiters in the usual chat formats."""


class Window:
    """The earlier exchanges that the next prompt repeats. A prompt has at most `limit` tokens (None: no limit).

    If a new message does not fit, the oldest exchanges are dropped whole and never return. A message that exceeds the
    limit by itself is sent alone. The window depends only on messages and replies, so a conversation that is replayed
    from an event log has the same window.

    Raises:
        ConfigurationError: The limit is below 1.
    """

    def __init__(self, tokenizer: Tokenizer, limit: int | None = None) -> None:
        """Begin with no exchanges; raise ConfigurationError for a limit below 1 token."""
        # Each message is counted twice: when exchanges are dropped for it, and when it is kept.
        self._tokenizer = CountingOnce(tokenizer)
        self._limit = limit
        if limit is not None and limit <= 0:
            raise ConfigurationError(f"max_prompt_size must be at least 1 token, not {limit}")
        self._kept: deque[tuple[str, str, int]] = deque()
        self._used = 0

    def prompt(self, message: str) -> list[Mapping[str, JSON]]:
        """Drop the oldest exchanges until a new message fits; return the prompt, which ends with the message."""
        self.make_room(message)
        said = [(role, text) for exchange in self._kept for role, text in zip(_ROLES, exchange[:2], strict=True)]
        return [{"role": role, "content": text} for role, text in [*said, ("user", message)]]

    def make_room(self, message: str) -> None:
        """Drop the oldest exchanges, for good, until a new message fits."""
        needed = self._cost(message)
        while self._limit is not None and self._kept and self._used + needed > self._limit:
            self._used -= self._kept.popleft()[2]

    def keep(self, message: str, reply: str) -> None:
        self._kept.append((message, reply, self._cost(message) + self._cost(reply)))
        self._used += self._kept[-1][2]

    def resize(self, limit: int | None) -> None:
        """Change the token limit, None for no limit, and count the kept exchanges again; dropped exchanges stay
        dropped.
        """
        self._limit = limit
        exchanges = [*self._kept]
        self.clear()
        for message, reply, _ in exchanges:
            self.keep(message, reply)

    def clear(self) -> None:
        self._kept.clear()
        self._used = 0

    def _cost(self, text: str) -> int:
        return 0 if self._limit is None else self._tokenizer.count(text) + MESSAGE_TOKENS


_ROLES = ("user", "assistant")

MAX_REPLY_CHARACTERS = 1 << 20
"""The longest accepted reply: some 250,000 tokens, more than any model writes at once."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Agent(ABC):
    """The agent's side of one conversation. It gets one message after the other, never two at once.

    `key` is an idempotency key: a call that was in flight when the run was interrupted is repeated with the same key,
    and must have the same outcome. Times are in µs since 1970 (UTC), from the conversation's clock.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.name
        self.simulated = endpoint.simulated

    @abstractmethod
    async def reply(self, message: str, *, key: str, at_us: int, suggested: str | None = None) -> Outcome:
        """Send a message at `at_us` and return the reply with its cost; the agent may adopt the `suggested` reply
        instead.

        The outcome's latency counts from sending to the last byte.

        Raises:
            EndpointError: The call failed after all retries; the conversation does not contain the message.
            StopRunError: The run must stop: every further call would fail in the same way.
            ConfigurationError: The endpoint cannot be an agent.
        """

    @abstractmethod
    async def reset(self, key: str, at_us: int) -> None: ...

    async def advance(self, from_us: int, to_us: int, key: str) -> None:
        """Tell the agent that time has passed, if it keeps track of time itself."""

    def observe(self, message: str, reply: str, *, declined: bool = False) -> None:
        """Add an exchange from an event log to the conversation, without a call."""

    def observe_reset(self) -> None:
        """Repeat a reset from an event log, without a call."""

    def resize(self, max_prompt_size: int | None) -> None:
        """Change the token limit of the prompts, from the next message on."""


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
            f"endpoint {endpoint.name!r} keeps the conversation itself: leave out max_prompt_size (--max-prompt-size)"
        )
    return RememberingAgent(endpoint, conversation)


class EndpointAgent(Agent):
    """A model without a memory: each request holds as much of the conversation as fits into `max_prompt_size`.

    It adopts suggested replies without a call. Later prompts omit a declined exchange: it would be declined again.
    """

    def __init__(self, endpoint: Endpoint, tokenizer: Tokenizer, max_prompt_size: int | None = None) -> None:
        super().__init__(endpoint)
        self._endpoint = endpoint
        self._window = Window(tokenizer, max_prompt_size)

    async def reply(self, message: str, *, key: str, at_us: int, suggested: str | None = None) -> Outcome:
        """Send the window's exchanges and the message to the model, and keep the exchange; a suggested reply needs no
        call.

        A reply that the service's content filter declines is empty and not kept.

        Raises:
            ConfigurationError: The endpoint cannot be an agent.
        """
        if suggested is not None:
            reply = Outcome(at_us, suggested, adopted=True, simulated=self.simulated)
        else:
            request = ChatRequest(self._window.prompt(message), idempotency_key=key, sent_at=_moment(at_us))
            try:
                reply = outcome_of(at_us, await self._endpoint.complete(request), self.name, dumps(request.messages))
            except ContentFilterError:
                asked = len(dumps(request.messages))
                reply = Outcome(at_us, "", simulated=self.simulated, declined=True, asked=asked)
            except TunecheckError:
                raise
            except ValueError as error:  # for example a request template that names a row's column
                raise ConfigurationError(f"endpoint {self.name!r} cannot be an agent: {error}") from None
        self.observe(message, reply.text or "", declined=reply.declined)
        return reply

    async def reset(self, key: str, at_us: int) -> None:
        self._window.clear()

    def observe(self, message: str, reply: str, *, declined: bool = False) -> None:
        self._window.make_room(message)
        if not declined:
            self._window.keep(message, reply)

    def observe_reset(self) -> None:
        self._window.clear()

    def resize(self, max_prompt_size: int | None) -> None:
        self._window.resize(max_prompt_size)


@dataclass(frozen=True, slots=True)
class StatefulReply:
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
        """Send a message; `suggested` is a reply that the agent may adopt instead of generating one.

        Raises:
            EndpointError: The call failed after all retries; the subclass shows how.
            StopRunError: The run must stop: every further call would fail in the same way.
        """

    @abstractmethod
    async def reset(self, *, conversation: str, key: str, sent_at: datetime) -> None:
        """Make the agent forget the whole conversation at the time `sent_at`; a repeated request has the same `key`.

        Raises:
            EndpointError, StopRunError: See `reply`.
        """

    @abstractmethod
    async def advance(self, *, conversation: str, key: str, sent_at: datetime, seconds: float) -> None:
        """Tell the agent that `seconds` have passed without a message, and that the time is now `sent_at`.

        Raises:
            EndpointError, StopRunError: See `reply`.
        """


class RememberingAgent(Agent):
    """An agent that keeps the conversation itself: each request holds only the new message."""

    def __init__(self, endpoint: StatefulEndpoint, conversation: str) -> None:
        super().__init__(endpoint)
        self._endpoint = endpoint
        self._conversation = conversation

    async def reply(self, message: str, *, key: str, at_us: int, suggested: str | None = None) -> Outcome:
        """Send only the new message to the agent; a reply that its service declines is empty."""
        try:
            remembered = await self._endpoint.reply(
                message, conversation=self._conversation, key=key, sent_at=_moment(at_us), suggested=suggested
            )
        except ContentFilterError:
            return Outcome(at_us, "", simulated=self.simulated, declined=True, asked=len(message))
        return outcome_of(at_us, remembered.completion, self.name, message, adopted=remembered.adopted)

    async def reset(self, key: str, at_us: int) -> None:
        await self._endpoint.reset(conversation=self._conversation, key=key, sent_at=_moment(at_us))

    async def advance(self, from_us: int, to_us: int, key: str) -> None:
        seconds = (to_us - from_us) / 1_000_000
        await self._endpoint.advance(conversation=self._conversation, key=key, sent_at=_moment(to_us), seconds=seconds)


def outcome_of(at_us: int, completion: Completion, name: str, asked: str | bytes, *, adopted: bool = False) -> Outcome:
    """Return a model's answer as an outcome of the session.

    If the service reported no input tokens, the outcome holds the length of `asked`, to estimate them.

    Raises:
        ReplyError: The reply is too long.
    """
    text = completion.text or ""
    if len(text) > MAX_REPLY_CHARACTERS:
        raise ReplyError(
            f"endpoint {name!r}: the reply has {len(text):,} characters; the limit is {MAX_REPLY_CHARACTERS:,}",
            request_id=completion.request_id,
        )
    usage = completion.usage
    return Outcome(
        at_us,
        _whole(text),
        completion.latency_ms,
        usage.input_tokens,
        usage.output_tokens,
        adopted,
        completion.simulated,
        cached_input_tokens=usage.cached_input_tokens,
        asked=len(asked) if usage.input_tokens is None else 0,
        masked=completion.masked,
        reasoning=_whole(completion.reasoning) if completion.reasoning else None,
    )


def _whole(text: str) -> str:
    """Replace lone surrogates, which JSON may contain, because tokenizers cannot read them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _moment(at_us: int) -> datetime:
    """Return a time in µs since 1970 as a datetime in UTC; raise ConfigurationError after the year 9999."""
    try:
        return _EPOCH + timedelta(microseconds=at_us)
    except OverflowError:
        raise ConfigurationError("the tests' waits end after the year 9999: make them shorter") from None
