"""How the GoodAI benchmark takes an interrupted run up again: by what its log says of the tests that have not ended.

The log holds what was said, but not what was counted: the tokens, and where the filler's random numbers were, are saved
beside it after each of a test's messages and waits, not between filler. A run that died in the midst of filler thus
forgets that filler, and draws it again. Waits are counted anew from the tokens that were saved; a test that was not
waiting has its turn when it is the first that could begin; callbacks are registered again, which is logged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from tunecheck.memory._goodai.log import EventType, LogEvent
from tunecheck.memory._goodai.log_walk import Kept
from tunecheck.memory._model import Say, Step, Wait
from tunecheck.memory._scheduler import Course, Settings
from tunecheck.memory._tasks import Task, Test


def take_up(events: Sequence[LogEvent], tests: Sequence[Test], settings: Settings, kept: Kept, now_us: int) -> Course:
    """The course of a run whose log came to these events before it died, with what it had saved by then."""
    # A process that takes a run up has read its definitions: each test's random numbers come from its id.
    course = Course([replace(test, seed=None) for test in tests], settings)
    course.tokens = kept.tokens
    course.draws.setstate(cast("tuple[int, tuple[int, ...], float | None]", kept.draws))
    for event in events:
        if event.type is EventType.END and event.test in course.tasks:
            course.has_ended(course.tasks[event.test])
    past = _Past(course, events)
    for place, event in enumerate(events):
        if (task := course.tasks.get(event.test)) is not None:
            past.again(task, place)
    for id_ in course.waiting:
        course.is_at_work(course.tasks[id_])
    course.now_us = now_us
    return course


def registered_again(events: Sequence[LogEvent], tests: Sequence[Test]) -> list[str]:
    """The tests whose callbacks are registered again, in the order of their questions."""
    ended = {event.test for event in events if event.type is EventType.END}
    looking_on = {test.id for test in tests if test.definition.uses_callback} - ended
    return [event.test for event in events if event.test in looking_on and event.sent and event.question]


class _Past:
    """Tells the tests of a course what has already happened to them."""

    def __init__(self, course: Course, events: Sequence[LogEvent]) -> None:
        self._course = course
        self._events = events
        self._sent_us: dict[str, int] = {}

    def again(self, task: Task, place: int) -> None:
        """The event of this test at this place has happened."""
        course, event = self._course, self._events[place]
        course.now_us = event.at_us
        course.waiting.pop(task.id, None)
        match event.type:
            case EventType.BEGIN:
                task.begun_at = event.tokens
            case EventType.SEND_MESSAGE:
                self._sent(task, place)
            case EventType.RESPONSE_MESSAGE:
                task.reply_tokens = course.settings.tokenizer.count(event.text or "")
                task.came_to(event.text or "", self._sent_us.get(task.id, event.at_us))
            case EventType.LLM_CALL:
                self._next(task)
                task.came_to(event.text or "", event.at_us)
            case EventType.WAIT:
                self._waits(task)

    def _sent(self, task: Task, place: int) -> None:
        self._sent_us[task.id] = self._events[place].at_us
        step = self._next(task)
        if isinstance(step, Say) and step.register:
            task.replies = [event.text or "" for event in self._events[place:] if event.answered]
            self._course.callbacks[task.id] = task

    def _waits(self, task: Task) -> None:
        step = self._next(task)
        wait = step if isinstance(step, Wait) else Wait(tokens=1)  # what a callback's test does after its script
        self._course.waits(task, self._course.to_wait(task, wait), wait.seconds)

    def _next(self, task: Task) -> Step | None:
        """Its next step that a log knows of: isolated tests do not log their waits."""
        step = task.next()
        while isinstance(step, Wait) and self._course.settings.isolated:
            step = task.next()
        return step
