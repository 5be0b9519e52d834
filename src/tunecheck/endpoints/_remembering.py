"""Endpoints that keep a conversation's memory themselves: they are told one message at a time, and when it is said."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from datetime import datetime

from tunecheck.endpoints._base import Completion, Endpoint


@dataclass(frozen=True, slots=True)
class RememberedReply:
    """What the agent replied; `adopted`: it took the suggested reply as its own and made none."""

    completion: Completion
    adopted: bool = False


class RememberingEndpoint(Endpoint):
    """An agent with a memory of its own. What belongs together is told apart by `conversation`.

    The same `key` says the same thing once more: it must be answered as it was, and not be remembered twice. `sent_at`
    is the time of the conversation's own clock, with a time zone.
    """

    @abstractmethod
    async def reply(
        self, message: str, *, conversation: str, key: str, sent_at: datetime, suggested: str | None = None
    ) -> RememberedReply:
        """Say a message; `suggested` is a reply that the agent may take as its own, which saves making one.

        Raises:
            EndpointError: the call failed for good; its subclass says how.
            StopRunError: the run must stop, every further call would fail in the same way.
        """

    @abstractmethod
    async def reset(self, *, conversation: str, key: str, sent_at: datetime) -> None:
        """Let the agent forget the whole conversation.

        Raises:
            EndpointError, StopRunError: as `reply`.
        """

    @abstractmethod
    async def advance(self, *, conversation: str, key: str, sent_at: datetime, seconds: float) -> None:
        """Tell the agent that so much time has passed with nothing said, and that it is `sent_at` now.

        Raises:
            EndpointError, StopRunError: as `reply`.
        """
