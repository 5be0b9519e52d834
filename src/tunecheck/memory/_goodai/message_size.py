"""A replay of a run whose largest filler message is not known: agents differ in it, and no log says it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tunecheck.memory._filler import FillerPool, FillerWriter
from tunecheck.memory._goodai.log import EventType
from tunecheck.memory._goodai.log_walk import Difference
from tunecheck.memory._goodai.replay import Replayed, replay
from tunecheck.memory._goodai.run import LegacyRun
from tunecheck.memory._scheduler import MAX_MESSAGE_TOKENS
from tunecheck.memory._tokens import Tokenizer
from tunecheck.memory._wording import Wording

_MOST_TRIES = 12

_STEPS = (4096, 1024, 1000, 512, 500, 256, 100, 64, 50, 10, 1)
"""Sizes that people choose are multiples of these; the first that fits is taken."""


def replay_any_size(
    run: LegacyRun,
    *,
    wording: Wording,
    filler: FillerPool,
    tokenizer: Tokenizer,
    seed: int | None = None,
    max_message_tokens: int | None = None,
) -> tuple[Replayed, int]:
    """Replay a run; where a filler message ends sooner or later than ours, with the size that explains all of them.

    Gives also the size that the result was reached with. One that is given is the only one that is tried; where none
    explains the log, it is the usual one.
    """

    def at(size: int) -> Replayed:
        settings = run.settings(wording, filler, tokenizer, seed=seed, max_message_tokens=size)
        return replay(run.log.events, run.tests, settings)

    usual = max_message_tokens or MAX_MESSAGE_TOKENS
    first = replayed = at(usual)
    sizes = _Sizes(FillerWriter(filler, wording, tokenizer))
    for _ in range(_MOST_TRIES if max_message_tokens is None else 0):
        if replayed.difference is None or (size := sizes.after(replayed.difference)) is None:
            break
        replayed = at(size)
        if replayed.difference is None:
            return replayed, size
    return first, usual


@dataclass
class _Sizes:
    """The largest message's tokens lie above `low` and not above `high`, by all messages that were looked at."""

    writer: FillerWriter
    low: int = 0
    high: float = math.inf

    def after(self, difference: Difference) -> int | None:
        """The size to try next; None where the difference is none of size."""
        logged, ours = difference.logged, difference.ours
        if logged is None or ours is None or not logged.type == ours.type == EventType.SEND_FILL:
            return None
        text, other = logged.text or "", ours.text or ""
        measured = self.writer.measure(text)
        if measured is None or not (text.startswith(other) or other.startswith(text)):
            return None
        before = self.low, self.high
        self.low = max(self.low, measured[0])
        if len(text) < len(other):
            self.high = min(self.high, measured[1])
        return self._roundest() if (self.low, self.high) != before and self.low < self.high else None

    def _roundest(self) -> int:
        if self.high == math.inf:
            return (self.low // _STEPS[0] + 1) * _STEPS[0]
        return next(size for step in _STEPS if (size := int(self.high) // step * step) > self.low)
