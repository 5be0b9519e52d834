"""The tokens of a run's messages, each counted once for all who ask."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tunecheck.memory._tokens import Tokenizer

_TEXTS_KEPT = 64


class CountingOnce:
    """A tokenizer that does not count again what it has just counted.

    The scheduler, the agent's window and the books each need the tokens of the same message.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.name = tokenizer.name
        self._count = lru_cache(maxsize=_TEXTS_KEPT)(tokenizer.count)

    def count(self, text: str) -> int:
        """See Tokenizer."""
        return self._count(text)
