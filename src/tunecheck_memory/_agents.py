"""Who is tested: an agent that is told one message at a time, and how much of the conversation its prompts hold."""

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeAlias

from tunecheck import ConfigurationError, ContentFilterError, ReplyError, TunecheckError
from tunecheck.endpoints import ChatRequest, Completion, Endpoint
from tunecheck.plugins import JSON, dumps
from tunecheck_memory._effects import Outcome
from tunecheck_memory._tokens import CountingOnce, Tokenizer

MESSAGE_TOKENS = 4
"""What a message costs beside its text: its role and the marks around it, in the usual chat formats."""


class Window:
    """The exchanges of a conversation that its next prompt holds, at most `limit` tokens of it; None: all of them.

    Where a new message finds no room, the oldest exchanges go, whole and for good; the system message stays. A message
    that is too large by itself is sent with the system message only. What is kept follows from the messages and replies
    alone: a conversation read from an event log has the same window.

    Raises:
        ConfigurationError: no room at all, or none beside the system message.
    """

    def __init__(self, tokenizer: Tokenizer, limit: int | None = None, system: str | None = None) -> None:
        # A message is counted when room is made for it and when it is kept.
        self._tokenizer = CountingOnce(tokenizer)
        self._limit = limit
        self._system = () if system is None else (_message("system", system),)
        self._fixed = 0 if system is None or limit is None else self._cost(system)
        if limit is not None and limit <= self._fixed:
            raise ConfigurationError(
                f"a prompt of at most {limit} tokens has no room"
                + (f" beside the system message, which takes {self._fixed}" if self._fixed else "")
            )
        self._kept: deque[Mapping[str, JSON]] = deque()
        self._costs: deque[int] = deque()
        self._used = self._fixed

    @property
    def exchanges(self) -> int:
        return len(self._kept) // 2

    def prompt(self, message: str) -> tuple[Mapping[str, JSON], ...]:
        """The prompt of a new message, for which room is made."""
        self.make_room(message)
        return (*self._system, *self._kept, _message("user", message))

    def make_room(self, message: str) -> None:
        if self._limit is None:
            return
        needed = self._cost(message)
        while self._costs and self._used + needed > self._limit:
            self._used -= self._costs.popleft()
            self._kept.popleft()
            self._kept.popleft()

    def keep(self, message: str, reply: str) -> None:
        if self._limit is not None:
            self._costs.append(self._cost(message) + self._cost(reply))
            self._used += self._costs[-1]
        self._kept += (_message("user", message), _message("assistant", reply))

    def resize(self, limit: int | None) -> None:
        """Hold another number of tokens from the next message on; what found no room before stays left out."""
        kept, self._limit = [*self._kept], limit
        self._fixed = 0 if limit is None else sum(self._cost(str(each["content"])) for each in self._system)
        self.clear()
        for said, replied in zip(kept[::2], kept[1::2], strict=True):
            self.keep(str(said["content"]), str(replied["content"]))

    def clear(self) -> None:
        self._kept.clear()
        self._costs.clear()
        self._used = self._fixed

    def _cost(self, text: str) -> int:
        return self._tokenizer.count(text) + MESSAGE_TOKENS


def _message(role: str, content: str) -> Mapping[str, JSON]:
    return {"role": role, "content": content}


MAX_REPLY_CHARACTERS = 1 << 20
"""Longest reply that is taken: some 250,000 tokens, more than any model writes in one go."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Agent(Protocol):
    """The other side of one conversation, asked one message after the other, never two at once.

    `key` is an idempotency key: a call that was under way when the run broke off is made again under it, and must have
    the same outcome. Times are µs since 1970 (UTC), by the conversation's clock.
    """

    @property
    def name(self) -> str: ...

    @property
    def simulated(self) -> bool: ...

    async def reply(self, message: str, *, key: str, at_us: int, suggested: str | None = None) -> Outcome:
        """Say a message at `at_us`; `suggested` is a reply that the agent may take as its own.

        The outcome's latency counts from sending to the last byte.

        Raises:
            EndpointError: no answer came, for good; nothing was kept of the message.
            StopRunError: the run must stop, every further call would fail in the same way.
            ConfigurationError: the endpoint cannot be an agent.
        """

    async def reset(self, key: str, at_us: int) -> None: ...

    async def advance(self, from_us: int, to_us: int, key: str) -> None: ...

    def observe(self, message: str, reply: str, *, declined: bool = False) -> None:
        """Take an exchange from an event log without asking anybody."""

    def observe_reset(self) -> None: ...

    def resize(self, max_prompt_size: int | None) -> None:
        """Send at most so many tokens of the conversation from the next message on."""


def agent_for(
    endpoint: Endpoint,
    tokenizer: Tokenizer,
    *,
    conversation: str,
    max_prompt_size: int | None = None,
    system: str | None = None,
) -> Agent:
    """The agent behind an endpoint: one that is sent the conversation each time, or one that remembers it itself.

    `conversation` must stay the same when a run is resumed, and differ between conversations.

    Raises:
        ConfigurationError: a prompt size that leaves no room, or that the agent could not heed.
    """
    if not isinstance(endpoint, StatefulEndpoint):
        return EndpointAgent(endpoint, tokenizer, max_prompt_size, system)
    if max_prompt_size is not None or system is not None:
        given = "a prompt size" if max_prompt_size is not None else "a system message"
        raise ConfigurationError(
            f"endpoint {endpoint.name!r} keeps the conversation itself: it cannot be given {given}; leave it out"
        )
    return RememberingAgent(endpoint, conversation)


class EndpointAgent:
    """A model without a memory: each request holds as much of the conversation as fits into `max_prompt_size`.

    Suggested replies are adopted. A declined exchange is left out of later prompts: it would be declined again.
    """

    def __init__(
        self, endpoint: Endpoint, tokenizer: Tokenizer, max_prompt_size: int | None = None, system: str | None = None
    ) -> None:
        self.name = endpoint.name
        self.simulated = endpoint.simulated
        self._endpoint = endpoint
        self._window = Window(tokenizer, max_prompt_size, system)

    async def reply(self, message: str, *, key: str, at_us: int, suggested: str | None = None) -> Outcome:
        if suggested is not None:
            reply = Outcome(at_us, suggested, adopted=True, simulated=self.simulated)
        else:
            request = ChatRequest(self._window.prompt(message), idempotency_key=key, sent_at=_moment(at_us))
            try:
                reply = _outcome(at_us, await self._endpoint.complete(request), self.name, request.messages)
            except ContentFilterError:
                reply = Outcome(at_us, "", simulated=self.simulated, declined=True, asked=_size(request.messages))
            except TunecheckError:
                raise
            except ValueError as error:  # a request that cannot be made: a template that names a row's column
                raise ConfigurationError(f"endpoint {self.name!r} cannot be an agent: {error}") from None
        self.observe(message, reply.text or "", declined=reply.declined)
        return reply

    async def reset(self, key: str, at_us: int) -> None:
        self.observe_reset()

    async def advance(self, from_us: int, to_us: int, key: str) -> None: ...

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
    """What the agent replied; `adopted`: it took the suggested reply as its own and made none."""

    completion: Completion
    adopted: bool = False


class StatefulEndpoint(Endpoint):
    """An agent that keeps each `conversation` itself, and is sent one message at a time.

    A `key` that comes again is the same message again: it gets the same reply and is not remembered twice. `sent_at`
    is the time of the conversation's own clock, with a time zone.
    """

    answers_single_questions = False

    @abstractmethod
    async def reply(
        self, message: str, *, conversation: str, key: str, sent_at: datetime, suggested: str | None = None
    ) -> StatefulReply:
        """Send a message; `suggested` is a reply that the agent may take as its own, which saves making one.

        Raises:
            EndpointError: the call failed for good; its subclass says how.
            StopRunError: the run must stop, every further call would fail in the same way.
        """

    @abstractmethod
    async def reset(self, *, conversation: str, key: str, sent_at: datetime) -> None:
        """Make the agent forget the whole conversation.

        Raises:
            EndpointError, StopRunError: as `reply`.
        """

    @abstractmethod
    async def advance(self, *, conversation: str, key: str, sent_at: datetime, seconds: float) -> None:
        """Tell the agent that so much time has passed with nothing said, and that it is `sent_at` now.

        Raises:
            EndpointError, StopRunError: as `reply`.
        """


class RememberingAgent:
    def __init__(self, endpoint: StatefulEndpoint, conversation: str) -> None:
        self.name = endpoint.name
        self.simulated = endpoint.simulated
        self._endpoint = endpoint
        self._conversation = conversation

    async def reply(self, message: str, *, key: str, at_us: int, suggested: str | None = None) -> Outcome:
        try:
            remembered = await self._endpoint.reply(
                message, conversation=self._conversation, key=key, sent_at=_moment(at_us), suggested=suggested
            )
        except ContentFilterError:
            return Outcome(at_us, "", simulated=self.simulated, declined=True, asked=len(message))
        return _outcome(at_us, remembered.completion, self.name, message, adopted=remembered.adopted)

    async def reset(self, key: str, at_us: int) -> None:
        await self._endpoint.reset(conversation=self._conversation, key=key, sent_at=_moment(at_us))

    async def advance(self, from_us: int, to_us: int, key: str) -> None:
        seconds = (to_us - from_us) / 1_000_000
        await self._endpoint.advance(conversation=self._conversation, key=key, sent_at=_moment(to_us), seconds=seconds)

    def observe(self, message: str, reply: str, *, declined: bool = False) -> None: ...

    def observe_reset(self) -> None: ...

    def resize(self, max_prompt_size: int | None) -> None: ...


_Asked: TypeAlias = str | Sequence[Mapping[str, JSON]]


def _size(asked: _Asked) -> int:
    return len(asked) if isinstance(asked, str) else len(dumps(asked))


def _outcome(at_us: int, completion: Completion, name: str, asked: _Asked, *, adopted: bool = False) -> Outcome:
    text = completion.text or ""
    if len(text) > MAX_REPLY_CHARACTERS:
        raise ReplyError(
            f"endpoint {name!r}: a reply of {len(text):,} characters, where {MAX_REPLY_CHARACTERS:,} are the most",
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
        asked=_size(asked) if usage.input_tokens is None else 0,
        masked=completion.masked,
        reasoning=_whole(completion.reasoning) if completion.reasoning else None,
    )


def _whole(text: str) -> str:
    """The text with half a character (a lone surrogate, which JSON can hold) replaced: it has no tokens."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _moment(at_us: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=at_us)
    except OverflowError:
        raise ConfigurationError("the tests wait so long that the conversation's clock leaves the year 9999") from None
