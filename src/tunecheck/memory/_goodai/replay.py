"""Replay: a logged run's replies are fed to the scheduler, whose events must then be the logged ones.

Of each event its type, test, words, question mark, tokens and seconds are compared; replies, judgements and times are
taken from the log. A log that was interrupted and taken up again is replayed by the reference's rules for that
(`tunecheck.memory._goodai.resumed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tunecheck.memory._effects import Register, Schedule, SuiteReset
from tunecheck.memory._goodai.log import EventType, LogEvent
from tunecheck.memory._goodai.log_walk import Difference, Kept, Walk
from tunecheck.memory._goodai.resumed import registered_again, take_up
from tunecheck.memory._kind import Scene
from tunecheck.memory._kinds.jokes import Jokes
from tunecheck.memory._model import Definition
from tunecheck.memory._scheduler import Course, Settings
from tunecheck.memory._tasks import Test

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Replayed:
    """How far a replay came: events that are the same, messages among them, times the run was taken up again."""

    events: int
    messages: int
    taken_up: int
    difference: Difference | None = None


def replay(
    events: Sequence[LogEvent], tests: Sequence[Test], settings: Settings, *, assume_seeds: bool = True
) -> Replayed:
    """Compare a log with what the scheduler makes of its replies.

    With `assume_seeds`, a test whose words differ is tried once more, by what else the reference may have said: a
    dynamic test with the random numbers that it gets in the process that made the definitions, where the example's
    number was not yet known (those of "Restaurant - " instead of "Restaurant - 0"); jokes without the whole days since
    one was told.
    """
    best = replayed = _Replay(events, tests, settings).run()
    tried: set[str] = set()
    while assume_seeds and (again := _otherwise(replayed.difference, tests)) is not None and again.id not in tried:
        tried.add(again.id)
        tests = [again if test.id == again.id else test for test in tests]
        replayed = _Replay(events, tests, settings).run()
        best = max(best, replayed, key=lambda each: each.events)
    return best


def _otherwise(difference: Difference | None, tests: Sequence[Test]) -> Test | None:
    """The test whose words are different, with the other seed, or with the other way to say how long ago it was."""
    logged = difference.logged if difference else None
    test = next((test for test in tests if logged is not None and logged.sent and test.id == logged.test), None)
    if test is None:
        return None
    if test.kind.consults:
        return replace(test, seed=f"{test.definition.title} - ")
    return replace(test, kind=_JokesOfADay()) if isinstance(test.kind, Jokes) else None


class _JokesOfADay(Jokes):
    """Jokes as the reference asks for them: it leaves out the whole days since one was told."""

    def temporal_question(self, definition: Definition, statements_us: Sequence[int], scene: Scene) -> str:
        now_us = scene.now_us()
        return super().temporal_question(definition, [now_us - (now_us - at) % _DAY_US for at in statements_us], scene)


class _Replay:
    """One pass over a log."""

    def __init__(self, events: Sequence[LogEvent], tests: Sequence[Test], settings: Settings) -> None:
        self._events = events
        self._tests = tests
        self._settings = settings
        self._resets = [place for place, event in enumerate(events) if event.type is EventType.SUITE_RESET]

    def run(self) -> Replayed:
        course = Course(self._tests, self._settings)
        walk = Walk(course, course.run(), self._events, 0)
        taken_up = 0
        while (reset := self._interrupted_by(walk)) is not None:
            following = self._taken_up(walk, reset)
            if following.place <= reset:
                break
            walk = following
            taken_up += 1
        messages = sum(event.sent for event in self._events[: walk.place])
        return Replayed(walk.place, messages, taken_up, walk.difference)

    def _interrupted_by(self, walk: Walk) -> int | None:
        """The reset that explains why a walk ended where it did: before it come only callbacks registered again."""
        if walk.difference is None:
            return None
        reset = next((place for place in self._resets if place >= walk.place), None)
        if reset is None or not all(
            event.type is EventType.REGISTER_CALLBACK for event in self._events[walk.place : reset]
        ):
            return None
        return reset

    def _taken_up(self, before: Walk, reset: int) -> Walk:
        """Of all that the run may have saved before it died, go on from what explains most of what follows."""
        best: Walk | None = None
        for kept in before.kept():
            walk = self._go_on(before.place, reset, kept)
            if best is None or walk.place > best.place:
                best = walk
            if walk.difference is None or (self._interrupted_by(walk) or 0) > reset:
                return walk
        assert best is not None
        return best

    def _go_on(self, place: int, reset: int, kept: Kept) -> Walk:
        past = self._events[:place]
        course = take_up(past, self._tests, self._settings, kept, self._events[reset].at_us)
        return Walk(course, _taking_up(course, registered_again(past, self._tests)), self._events, place)


def _taking_up(course: Course, registered: Sequence[str]) -> Schedule:
    """What is logged when a run is taken up, and the rest of the run."""
    for id_ in registered:
        yield Register(id_)
    yield SuiteReset()
    yield from course.go_on()
