"""One walk along a log: a course is driven with the logged replies until it or the log ends, or they differ."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tunecheck.memory._effects import Consult, Effect, Jump, Outcome, ResetAgent, Schedule, Send, Waiting
from tunecheck.memory._goodai.log import LogEvent, log_events
from tunecheck.memory._scheduler import Course

_DAY = 86_400

_MOST_STATES = 40

_LONGEST_SAVING_US = 60_000_000
"""A longer gap in a log is a wait for time."""

_RandomState: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first event that is not the same: what the log has there, and what ours is; None where one has ended."""

    logged: LogEvent | None
    ours: LogEvent | None


@dataclass(frozen=True, slots=True)
class Kept:
    """What the reference saves beside its log: the count of tokens, and where the filler's random numbers are."""

    tokens: int
    draws: _RandomState


class Walk:
    """Drives a course along the events from `place` on; afterwards `place` is that of the first that differs.

    `difference` is None where both came to their end together.
    """

    def __init__(self, course: Course, stream: Schedule, events: Sequence[LogEvent], place: int) -> None:
        self.place = place
        self.difference: Difference | None = None
        self._course = course
        self._events = events
        self._states = deque([(Kept(course.tokens, course.draws.getstate()), True)], maxlen=_MOST_STATES)
        self._drive(stream)

    def kept(self) -> Iterator[Kept]:
        """What may have been saved when the log was interrupted at `place`, the most likely first.

        The reference saves after each message and wait of a test, but not between filler: a process that dies there
        leaves what was before the filler. It may also die just before it saves.
        """
        states = list(self._states)[::-1]
        likely = [kept for kept, saved in states if saved][:1] + [kept for kept, _ in states]
        seen: set[tuple[int, _RandomState]] = set()
        for kept in likely:
            if (kept.tokens, kept.draws) not in seen:
                seen.add((kept.tokens, kept.draws))
                yield kept

    def _drive(self, stream: Schedule) -> None:
        effect = next(stream, None)
        while effect is not None:
            outcome = self._outcome(effect)
            if outcome is None:
                return
            draws = self._course.draws.getstate()  # before those of filler that may come next
            try:
                following = stream.send(outcome)
            except StopIteration:
                following = None
            if isinstance(effect, (Send, Waiting)):
                self._states.append((Kept(self._course.tokens, draws), not _is_filler(effect)))
            effect = following
        if self.place < len(self._events):
            self.difference = Difference(self._events[self.place], None)

    def _outcome(self, effect: Effect) -> Outcome | None:
        """What the log says that the effect came to; None where it says something else."""
        now_us = self._course.now_us
        if isinstance(effect, Jump):
            return self._in_time(Outcome(effect.until_us))
        if isinstance(effect, ResetAgent):
            return self._in_time(Outcome(now_us))
        outcome = self._logged_outcome(effect)
        for ours in log_events(effect, now_us, outcome):
            logged = self._event(0)
            if logged is None or not _same(logged, ours):
                self.difference = Difference(logged, ours)
                return None
            self.place += 1
        # A wait for time is counted from the wait.
        return outcome if isinstance(effect, Waiting) and effect.seconds else self._in_time(outcome)

    def _in_time(self, outcome: Outcome) -> Outcome:
        """The outcome, as late as the message that follows it.

        The reference's clock runs on while it saves its agent, for seconds where that has much to save; a question that
        says how long ago something was is worded after that, just before it is sent.
        """
        following = self._event(0)
        if following is not None and following.sent and 0 < following.at_us - outcome.at_us < _LONGEST_SAVING_US:
            return replace(outcome, at_us=following.at_us)
        return outcome

    def _logged_outcome(self, effect: Effect) -> Outcome:
        event = self._event(1 if isinstance(effect, Send) else 0)
        if event is None:
            return Outcome(self._course.now_us)
        return Outcome(event.at_us, event.text if isinstance(effect, (Send, Consult)) else None)

    def _event(self, further: int) -> LogEvent | None:
        place = self.place + further
        return self._events[place] if place < len(self._events) else None


def _is_filler(effect: Effect) -> bool:
    return isinstance(effect, Send) and effect.filler


def _same(logged: LogEvent, ours: LogEvent) -> bool:
    """Whether they say the same. The reference's log leaves whole days out of a wait's seconds."""
    if ours.seconds >= _DAY and logged.seconds == ours.seconds % _DAY:
        ours = replace(ours, seconds=logged.seconds)
    return _content(logged) == _content(ours)


def _content(event: LogEvent) -> tuple[object, ...]:
    text = event.text if not event.answered else None  # replies are given, not compared
    return event.type, event.test, text, event.question, event.tokens, event.seconds
