"""Who speaks for the user in a conversation: the data set's turns today, a simulated user tomorrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from tunecheck._json import JSON
from tunecheck._targets import CallContext

Message: TypeAlias = Mapping[str, JSON]
"""An OpenAI message."""


class User(Protocol):
    """Speaks for the user in one conversation."""

    async def say(self, turn: int, so_far: Sequence[Message], context: CallContext) -> Sequence[Message] | None:
        """The messages that begin a turn (counted from 0); None ends the conversation.

        `so_far` is everything that was said, as the model sees it. What costs a call is to be recorded with
        `context.record`, and asked for with `context.recall` first, so that a run that goes on asks nothing twice.
        A turn without messages is one in which only functions are added.
        """
        ...


class ScriptedUser:
    """Says what the data set says, turn by turn, whatever the model answers."""

    def __init__(self, turns: Sequence[Sequence[Message]]) -> None:
        self._turns = turns

    async def say(self, turn: int, so_far: Sequence[Message], context: CallContext) -> Sequence[Message] | None:
        """The turn's messages; None after the last."""
        return self._turns[turn] if turn < len(self._turns) else None
