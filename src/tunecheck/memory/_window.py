"""The part of a conversation that still fits into a prompt: the newest exchanges, and the system message."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON

if TYPE_CHECKING:
    from tunecheck.memory._tokens import Tokenizer

MESSAGE_TOKENS = 4
"""What a message costs beside its text: its role and the marks around it, in the usual chat formats."""


class Window:
    """The exchanges of a conversation that its next prompt holds, at most `limit` tokens of it; None: all of them.

    Where a new message finds no room, the oldest exchanges go, whole and for good; the system message stays. A message
    that is too large all alone is sent with the system message only: no deployment cuts what its user says, and the
    service knows its own limit. What is kept follows from the messages and replies in their order, and from nothing
    else: a conversation read from a journal has the same window. Each exchange comes and goes once, and each text is
    counted once.

    Raises:
        ConfigurationError: no room at all, or none beside the system message.
    """

    def __init__(self, tokenizer: Tokenizer, limit: int | None = None, system: str | None = None) -> None:
        self._tokenizer = tokenizer
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
        self._counted: tuple[str, int] | None = None

    @property
    def exchanges(self) -> int:
        """How many exchanges it holds."""
        return len(self._kept) // 2

    def prompt(self, message: str) -> tuple[Mapping[str, JSON], ...]:
        """The prompt of a new message, for which room is made."""
        self.make_room(message)
        return (*self._system, *self._kept, _message("user", message))

    def make_room(self, message: str) -> None:
        """Let the oldest exchanges go, until this message fits beside the others."""
        if self._limit is None:
            return
        needed = self._message_cost(message)
        while self._costs and self._used + needed > self._limit:
            self._used -= self._costs.popleft()
            self._kept.popleft()
            self._kept.popleft()

    def keep(self, message: str, reply: str) -> None:
        """Take in an exchange, for whose message room was made."""
        if self._limit is not None:
            self._costs.append(self._message_cost(message) + self._cost(reply))
            self._used += self._costs[-1]
        self._kept += (_message("user", message), _message("assistant", reply))

    def clear(self) -> None:
        """Forget all exchanges."""
        self._kept.clear()
        self._costs.clear()
        self._used = self._fixed

    def _message_cost(self, message: str) -> int:
        """Of the message that is being said: counted once, however often it is asked for."""
        if self._counted is None or self._counted[0] != message:
            self._counted = (message, self._cost(message))
        return self._counted[1]

    def _cost(self, text: str) -> int:
        return self._tokenizer.count(text) + MESSAGE_TOKENS


def _message(role: str, content: str) -> Mapping[str, JSON]:
    return {"role": role, "content": content}
