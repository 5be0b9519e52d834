"""The scheduler: it interleaves tests in one conversation. It makes decisions, but no calls.

`schedule()` yields effects and is sent the outcome of each (`tunecheck_memory._events`). The rules are those of the
GoodAI benchmark. `Scheduler._pick` chooses the next test by the first rule that applies:

1. **A test whose wait is over** continues. If there are several, it is the one whose wait ended at the lowest token.
2. **A new test** begins: the first by id that may overlap with all running tests. Two tests of
   one data set never overlap.
3. **The clock moves** a second past the end of the next wait for time, until a test's wait is over.
4. **Filler** is sent up to the end of the next wait for tokens, until a test's wait is over.

Rule 3 goes before rule 4, so hours pass at once when all tests wait. A wait is over when both its tokens and its
seconds have passed. In isolated mode, tests run one after another, without waits for tokens.
"""

import math
import random
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import msgspec

from tunecheck import RunError, TunecheckError
from tunecheck_memory import _events as effects
from tunecheck_memory._events import Effect, Outcome, Schedule
from tunecheck_memory._kind import AskJudge, Kind, MemoryTest, Points, Replied, Say, Scene, Step, Steps, Wait, conflicts
from tunecheck_memory._tokens import Tokenizer
from tunecheck_memory._wording import FillerPool, FillerWriter, SessionWording


@dataclass(frozen=True)
class Test:
    """A test to run.

    `memory_span` is set if its data set has its own. `seed` seeds the test's random numbers; by default its id does.
    """

    __test__ = False  # not a pytest class

    definition: MemoryTest
    kind: Kind
    memory_span: int | None = None
    seed: str | None = None

    @property
    def id(self) -> str:
        """The id of its definition."""
        return self.definition.id


class Task:
    """A running test.

    `begun_at` is the conversation's token count at its start, `reply_tokens` the tokens of the last reply to it. For a
    test with a callback, `replies` are the agent's replies since the question, and `over` is True once they suffice.
    """

    def __init__(self, test: Test, wording: SessionWording, now_us: Callable[[], int]) -> None:
        """Prepare a test that has not begun; `now_us` returns the conversation's time."""
        self.test, self.id = test, test.id
        self.begun_at: int | None = None
        self.reply_tokens = 0
        self.replies: list[str] | None = None
        self.over = False
        self.points: Points | None = None
        self._scene = Scene(now_us, random.Random(test.seed or test.id), wording)
        self.script_done = False
        self._steps: Steps | None = None
        self._last: Replied | None = None

    @property
    def waits_for_callback(self) -> bool:
        """True if the test's callback has started and needs further replies."""
        return self.replies is not None and not self.over

    def next(self) -> Step | None:
        """Continue the test's generator with the last reply; return its next step, or None at its end.

        At the end, the generator's points are stored in `points`.

        Raises:
            RunError: The kind's code failed with an error that is no TunecheckError.
        """
        if self.script_done:
            return None
        try:
            return self._advance()
        except TunecheckError:
            raise
        except Exception as error:  # noqa: BLE001 - a user's kind may raise anything
            raise RunError(f"test {self.id!r}: steps() of its kind failed: {type(error).__name__}: {error}") from error

    def _advance(self) -> Step | None:
        """Return the generator's next step, or None at its end; raise ValueError for anything but steps and points."""
        try:
            if self._steps is None:
                self._steps = self.test.kind.steps(self.test.definition, self._scene)
                step: object = next(self._steps)
            else:
                # After a wait there is no reply: the generator gets the time only.
                last, self._last = self._last, None
                now_us = self._scene.now_us()
                step = self._steps.send(last or Replied(None, now_us, now_us))
        except StopIteration as end:
            if not isinstance(end.value, Points | None):
                raise ValueError(f"steps() must return Points or None, not {end.value!r:.60}") from None
            self.script_done, self.points = True, end.value
            return None

        if not isinstance(step, Say | Wait | AskJudge):
            raise ValueError(f"steps() must yield Say, Wait or AskJudge, not {step!r:.60}")
        return step

    def record_reply(self, text: str | None, sent_us: int) -> None:
        """Keep the outcome of the last step, which `next` sends to the test's generator.

        `text` is the reply of the agent or the judge, `sent_us` the time at which the step began.
        """
        self._last = Replied(text, sent_us, self._scene.now_us())


MAX_MESSAGE_TOKENS = 4096
"""The largest filler message in tokens, answers included."""

_ISOLATED_FILLER = 100
"""Tokens of each filler message while an isolated test waits for its callback."""

_SECOND = 1_000_000
"""Microseconds; all times are in µs since 1970 (UTC)."""

_T = TypeVar("_T")
_Effects: TypeAlias = Generator[Effect, Outcome, _T]
"""A part of the schedule: it yields effects, is sent their outcomes, and returns a value."""


@dataclass(frozen=True)
class Settings:
    """The settings of the interleaving.

    incompatibilities: sets of titles; tests of one set must not overlap. `by_topics` adds kinds with a common topic.
    start_us: the time at the start.
    seed: the seed of the filler.
    isolated: run one test after another, without introduction and waits for tokens, and reset the agent after each.
    """

    memory_span: int
    wording: SessionWording
    filler: FillerPool
    tokenizer: Tokenizer
    start_us: int = 0
    incompatibilities: Sequence[frozenset[str]] = ()
    by_topics: bool = True
    isolated: bool = False
    introduce: bool = True
    seed: int = 0
    max_message_tokens: int = MAX_MESSAGE_TOKENS


class WaitTarget(msgspec.Struct, frozen=True):
    """The token count and the time at which a wait ends."""

    tokens: int
    at_us: int


def schedule(tests: Iterable[Test], settings: Settings) -> Schedule:
    """Return the effects of a session with these tests; raise ValueError for two tests with one id."""
    return Scheduler(tests, settings).run()


class Scheduler:
    """The state of a schedule; `run` yields the effects.

    `tokens` counts the tokens of both sides, `now_us` is the time of the last outcome, `draws` the random generator of
    the filler. `waiting` holds the targets of waiting tests, in the order in which the waits began. `tasks` holds the
    tests that have not ended, `callbacks` those whose kind still collects replies.
    """

    def __init__(self, tests: Iterable[Test], settings: Settings) -> None:
        """Prepare a schedule in which no test has begun; raise ValueError for two tests with one id."""
        self.tokens = 0
        self.now_us = settings.start_us
        self.draws = random.Random(settings.seed)
        self.waiting: dict[str, WaitTarget] = {}
        self.tasks: dict[str, Task] = {}
        self.callbacks: dict[str, Task] = {}
        self.settings = settings
        self._count = settings.tokenizer.count
        self._filler = FillerWriter(settings.filler, settings.wording, settings.tokenizer)

        # By text, not by number, as in the GoodAI benchmark: "X - 10" is before "X - 2".
        ordered = sorted(tests, key=lambda test: test.id)
        self._conflicts = conflicts((test.kind for test in ordered), settings.incompatibilities, settings.by_topics)

        # The ids of running tests, and those of each title that have not begun
        self._at_work: set[str] = set()
        self._to_begin: dict[str, deque[str]] = {}

        for test in ordered:
            if test.id in self.tasks:
                raise ValueError(f"two tests have the id {test.id!r}; give each test of their kind a different example")
            self.tasks[test.id] = Task(test, settings.wording, lambda: self.now_us)
            self._to_begin.setdefault(test.definition.title, deque()).append(test.id)

    def run(self) -> Schedule:
        """Introduce the agent to the tests, unless the settings exclude this, then run all tests; yield each effect."""
        settings = self.settings
        if settings.introduce and not settings.isolated:
            yield from self._say(effects.Send("", settings.wording.introduction))
            yield from self._note(effects.SuiteReset())
        yield from self.go_on()

    def go_on(self) -> Schedule:
        """Let the tests take turns until all have ended; yield each effect."""
        while self.tasks:
            task = yield from self._pick()
            finished = yield from self._turn(task)

            yield from self._ask_callbacks()

            # An isolated test whose callback has started gets filler until its kind has enough replies. As in the
            # GoodAI benchmark, later steps are not run, so the points that `steps` would return are not counted.
            if self.settings.isolated and task.replies is not None:
                while self.callbacks:
                    yield from self._fill(_ISOLATED_FILLER)
                    yield from self._ask_callbacks()
                finished = True

            if finished or (task.over and task.script_done):  # its own turn ended the callback that it waits for
                self.waiting.pop(task.id, None)
                yield from self._finish(task)

    def _pick(self) -> _Effects[Task]:
        """Return the test for the next turn, and begin it if it is new.

        A test that has waited long enough comes first, then a new one. Otherwise time passes and filler is sent until a
        wait ends.
        """
        running = {self.tasks[id_].test.definition.title for id_ in self._at_work}
        to_begin = [
            ids[0] for title, ids in self._to_begin.items() if ids and running.isdisjoint(self._conflicts[title])
        ]
        # Else the new test with the lowest id; "" is the id of no test.
        task = self._ready() or self.tasks.get(min(to_begin, default=""))

        while task is None:
            task = yield from self._end_waits()

        # A test that was not waiting is new.
        if self.waiting.pop(task.id, None) is None:
            self.start(task)
        if task.begun_at is None:
            task.begun_at = self.tokens
            yield from self._note(effects.Begin(task.id, self.tokens))
        return task

    def _ready(self) -> Task | None:
        """Return the test with the lowest token target among those whose wait is over; None if there is none."""
        ready = [id_ for id_ in self.waiting if self._is_free(id_)]
        return self.tasks[min(ready, key=lambda id_: self.waiting[id_].tokens)] if ready else None

    def _is_free(self, id_: str) -> bool:
        """True if a test's wait is over."""
        target = self.waiting[id_]
        return target.tokens <= self.tokens and target.at_us <= self.now_us

    def _end_waits(self) -> _Effects[Task | None]:
        """End one wait after another until a test is free, and return that test; None if no test has become free.

        Waits for time come first: the clock moves a second past the end of each. Then filler ends waits for tokens.
        """
        while later := [id_ for id_, target in self.waiting.items() if target.at_us > self.now_us]:
            first = min(later, key=lambda id_: self.waiting[id_].at_us)
            yield from self._note(effects.Jump(self.waiting[first].at_us + _SECOND))
            if self._is_free(first):
                return self.tasks[first]

        while later := [id_ for id_, target in self.waiting.items() if target.tokens > self.tokens]:
            first = min(later, key=lambda id_: self.waiting[id_].tokens)
            yield from self._fill(self.waiting[first].tokens - self.tokens)
            if self._is_free(first):
                return self.tasks[first]
        return self._ready()

    def _turn(self, task: Task) -> _Effects[bool]:
        """Let a test go on until it waits; return True if it has ended instead.

        A test waits because of a step, or after its end for the replies that its callback still needs.
        """
        while (step := task.next()) is not None:
            begun_us = self.now_us

            if isinstance(step, Say):
                reply = yield from self._say(effects.Send(task.id, step.message, step.question))
                task.record_reply(reply, begun_us)
                if step.register:
                    yield from self._note(effects.Register(task.id))
                    task.replies = [reply]
                    self.callbacks[task.id] = task
                if task.waits_for_callback and self.settings.isolated:
                    return False
            elif isinstance(step, AskJudge):
                outcome = yield from self._note(effects.Consult(task.id, step.purpose, dict(step.values)))
                task.record_reply(outcome.text or "", begun_us)
            # A wait ends the turn. In isolated mode, only time passes: there is nothing else to send meanwhile.
            elif not self.settings.isolated:
                yield from self._wait(task, step)
                return False
            elif step.seconds:
                yield from self._note(effects.Jump(self.now_us + step.seconds * _SECOND))

        if task.waits_for_callback:  # checked again after any other message
            yield from self._wait(task, Wait(tokens=1))
        return not task.waits_for_callback

    def _wait(self, task: Task, wait: Wait) -> _Effects[None]:
        """Begin a test's wait: yield the effect, then store the tokens and seconds to wait."""
        tokens = self.to_wait(task, wait)
        yield from self._note(effects.Waiting(task.id, tokens, wait.seconds))
        self.set_waiting(task, tokens, wait.seconds)

    def _ask_callbacks(self) -> _Effects[None]:
        """Ask each kind with an active callback if it has enough replies; end the callback if so."""
        for id_, task in list(self.callbacks.items()):
            if task.test.kind.is_over(task.test.definition, task.replies or ()):
                task.over = True
                del self.callbacks[id_]
                yield from self._note(effects.Deregister(id_))

    def _finish(self, task: Task) -> _Effects[None]:
        """End a test. If its kind demands a reset, a message first makes the agent forget the test.

        In isolated mode, the agent itself is reset, too.
        """
        farewell = self.settings.wording.farewell(task.test.definition.title) if task.test.kind.resets else None
        if farewell is not None:
            yield from self._say(effects.Send(task.id, farewell))

        self.end(task)
        yield from self._note(effects.End(task.id, task.points))
        if self.settings.isolated:
            yield from self._note(effects.ResetAgent(task.id))

    def _fill(self, tokens: int) -> _Effects[None]:
        """Send filler until this many tokens have been exchanged, replies included."""
        while tokens > 0:
            before = self.tokens
            filler = self._filler.write(self.draws, min(tokens, self.settings.max_message_tokens))
            # While a callback counts replies, the agent must answer itself: no reply is suggested.
            suggested = None if self.callbacks else filler.suggested
            yield from self._say(effects.Send("", filler.message, suggested=suggested, draws=filler.draws))
            tokens -= self.tokens - before

    def _say(self, send: effects.Send) -> _Effects[str]:
        """Send a message, count the exchange, and return the reply's text."""
        outcome = yield from self._note(send)
        reply = outcome.text or ""
        self.count_exchange(send, reply)
        return reply

    def _note(self, effect: Effect) -> _Effects[Outcome]:
        """Yield an effect and return its outcome; the schedule's time becomes that of the outcome."""
        outcome = yield effect
        self.now_us = max(self.now_us, outcome.at_us)
        return outcome

    def count_exchange(self, send: effects.Send, reply: str) -> None:
        """Count the tokens of a message and its reply; hand the reply to the tests that collect replies."""
        reply_tokens = self._count(reply)
        self.tokens += self._count(send.message) + reply_tokens
        if send.test:
            self.tasks[send.test].reply_tokens = reply_tokens
        for task in self.callbacks.values():
            if task.replies is not None:
                task.replies.append(reply)

    def start(self, task: Task) -> None:
        """Mark a test as running; tests that must not overlap with it do not begin."""
        self._to_begin[task.test.definition.title].remove(task.id)
        self._at_work.add(task.id)

    def to_wait(self, task: Task, wait: Wait) -> int:
        """Return how many tokens a test must still wait; the reply to its last message counts as waited.

        Example: a wait until 90% of 4,000 tokens, 500 tokens after the test began, and after a reply of 20 tokens, is
        3,600 - 500 - 20 tokens.
        """
        tokens = wait.tokens
        if wait.percentage > 0:
            span = task.test.memory_span or self.settings.memory_span
            share = math.floor(span / 100 * wait.percentage)
            tokens = max(0, share - (self.tokens - (task.begun_at or 0)), tokens)

        # A wait of one token lasts until any other message; subtracting the reply would end it at once.
        return max(0, tokens - task.reply_tokens) if tokens > 1 else tokens

    def set_waiting(self, task: Task, tokens: int, seconds: int) -> None:
        """Note that a test waits for this many more tokens and seconds."""
        self.waiting[task.id] = WaitTarget(self.tokens + tokens, self.now_us + seconds * _SECOND)

    def end(self, task: Task) -> None:
        """Remove a test, whether it has begun or not."""
        del self.tasks[task.id]
        if task.id in self._at_work:
            self._at_work.remove(task.id)
        else:
            self._to_begin[task.test.definition.title].remove(task.id)
