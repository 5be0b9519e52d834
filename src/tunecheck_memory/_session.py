"""Run a session, which is one long conversation: execute and log the scheduler's effects.

schedule() ──effect──► recorded before? ─yes─► its outcome ──────────────────────────┐
    ▲                      └─no─► event log ──► agent / judge / clock ──► event log ──┤
    └────────────────────────────── session state ───────────────────────────────────┘

All code that needs the time gets the session's clock. Times are in µs since 1970 (UTC). The rules of the log:

* A call to the agent or the judge is logged before it is made, and again with its outcome. If the
  process dies between the two, the service may have the call, so it is repeated with the same idempotency key.
* Any other effect is logged once, after it was carried out.
* A resumed session repeats the logged events without calls, which restores the clock, the state and the agent's
  conversation. If an effect differs from the logged one, the session cannot continue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Protocol, TypeAlias, get_args

import msgspec
from msgspec import structs

from tunecheck import ConfigurationError, EndpointError, RunError
from tunecheck.endpoints import time_text
from tunecheck.plugins import JSON, CallsMade, dumps, error_cause, one_of, whole_number
from tunecheck_memory import _events as effects
from tunecheck_memory._agents import Agent, to_utc
from tunecheck_memory._events import PROMPT_SIZE, Effect, Event, EventLog, Outcome, Schedule, to_data
from tunecheck_memory._kind import AskJudge, Points

ClockName = Literal["virtual", "mirrored", "real"]

START_US = int(datetime(2025, 1, 6, 9, tzinfo=UTC).timestamp()) * 1_000_000
"""The start of virtual time. It is constant, so that conversations are reproducible."""

EXCHANGE_US = 1_000_000
"""The virtual time of a message and its reply."""


class SessionStoppedError(RunError):
    """The session ended early because it was stopped."""


class SessionClock:
    """The time of a conversation, which never goes back.

    * `virtual`: it passes with messages and jumps.
    * `mirrored`: as `virtual`, and the session informs the agent of jumps (`tells_agent`).
    * `real`: the time of the machine. A jump waits; interruptions of the run count as waiting.

    `machine` returns the machine's time in µs since 1970, and `sleep` waits for seconds.

    Raises:
        ConfigurationError: There is no such clock.
    """

    def __init__(
        self,
        name: ClockName = "virtual",
        machine: Callable[[], int] = lambda: time.time_ns() // 1_000,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Begin at the start of virtual time, or at the machine's time if the clock is real.

        `machine` returns the machine's time in µs since 1970, and `sleep` waits for seconds.
        """
        one_of(name, get_args(ClockName), "clock")
        self.tells_agent = name == "mirrored"
        self._machine = machine if name == "real" else None
        self._sleep = sleep
        self._now_us = machine() if name == "real" else START_US

    def now(self) -> int:
        """Return the time. If the machine's clock was set back, a real clock returns its last time."""
        if self._machine is not None:
            self.set(self._machine())
        return self._now_us

    def set(self, at_us: int) -> None:
        """Move the clock forward to a time; a time in the past changes nothing."""
        self._now_us = max(self._now_us, at_us)

    def exchanged(self) -> int:
        """Add the time of a message and its reply, unless the clock is real; return the new time."""
        if self._machine is None:
            self._now_us += EXCHANGE_US
        return self.now()

    async def jump(self, until_us: int, stopping: asyncio.Event) -> int:
        """Set the time to `until_us`, after a wait if the clock is real; return the new time.

        Raises:
            SessionStoppedError: `stopping` was set in the meantime, which the wait notices within a second.
        """
        while self._machine is not None and (left_us := until_us - self._machine()) > 0:
            if stopping.is_set():
                raise SessionStoppedError("the memory session was stopped")
            await self._sleep(min(1, left_us / 1_000_000))
        self.set(until_us)
        return self.now()


class Moment(msgspec.Struct, frozen=True):
    """A place in a conversation: the messages and tokens before it, and the time (µs since 1970, UTC)."""

    message: int
    tokens: int
    at_us: int

    def data(self) -> dict[str, JSON]:
        """Return the place as columns, with the time in ISO 8601."""
        return {"message": self.message, "tokens": self.tokens, "at": time_text(to_utc(self.at_us))}


class TestState(msgspec.Struct):
    """The state of one test.

    `spent` counts the calls of the test's own messages, which took `latency_ms`, `judged` its calls to the judge, and
    `share` all calls of the conversation since the previous test ended. `characters` counts the characters of the whole
    conversation from the test's start to its end. `registered_at` is the number of the reply with which the test's
    callback started.
    """

    __test__ = False  # not a pytest class

    id: str
    begun: Moment
    ended: Moment | None = None
    log: list[JSON] = msgspec.field(default_factory=list)
    questions: list[str] = msgspec.field(default_factory=list)
    responses: list[str] = msgspec.field(default_factory=list)
    since_question: list[str] = msgspec.field(default_factory=list)
    points: Points | None = None
    spent: CallsMade = msgspec.field(default_factory=CallsMade)
    share: CallsMade = msgspec.field(default_factory=CallsMade)
    judged: CallsMade = msgspec.field(default_factory=CallsMade)
    latency_ms: float | None = None
    characters: int = 0
    simulated: bool = False
    registered_at: int | None = None

    def note(self, event: str, moment: Moment, **values: JSON) -> None:
        """Add an event to the test's log, with its place and further values."""
        self.log.append({"what": event, **moment.data(), **values})


class SessionState:
    """The state of all tests of a session, computed from its events in order; `count` counts the tokens of a text.

    `generated_tokens` and `generated_ms` exclude adopted replies and replies without a measured time.
    """

    def __init__(self, count: Callable[[str], int]) -> None:
        """Begin with nothing sent and no tests. `count` returns the number of tokens of a text."""
        self.tests: dict[str, TestState] = {}
        self.messages = 0
        self.fillers = 0
        self.tokens = 0
        self.agent_tokens = 0
        self.generated_tokens = 0
        self.generated_ms = 0.0
        self._count = count
        self._characters = 0
        self._replies: list[str] = []
        self._share = CallsMade()  # of all calls since the last test ended

    def note(self, effect: Effect, outcome: Outcome) -> TestState | None:
        """Add an effect with its outcome to the state; return the state of the test that ended, else None."""
        now = Moment(self.messages, self.tokens, outcome.at_us)
        match effect:
            case effects.Send():
                self._note_exchange(effect, outcome, now)
            case effects.Begin(test):
                # Negative, because the end of the test adds the session's characters: the test's own remain.
                self.tests[test] = TestState(test, now, characters=-self._characters)
                self.tests[test].note("begin", now)
            case effects.Waiting(test, tokens, seconds):
                self.tests[test].note("wait", now, for_tokens=tokens, for_seconds=seconds)

            case effects.Consult(test, purpose, values):
                state = self.tests[test]
                state.simulated |= outcome.simulated
                state.judged = state.judged.plus(outcome.made)
                state.note("judge", now, purpose=purpose, values=values, reply=outcome.text)
            case effects.Register(test):
                self.tests[test].registered_at = len(self._replies) - 1
                self.tests[test].note("callback", now)
            case effects.Deregister(test):
                self.tests[test].note("callback over", now)
                self._keep_replies(self.tests[test])
            case effects.End(test, points):
                state = self.tests[test]
                self._keep_replies(state)
                state.points, state.ended = points, now
                state.characters += self._characters
                state.share, self._share = self._share, CallsMade()
                state.note("end", now)
                return state
        return None

    def _note_exchange(self, effect: effects.Send, outcome: Outcome, before: Moment) -> None:
        """Add a message and its reply to the counts, and to the test that sent the message, unless it is filler.

        `before` is the place in the conversation before the message.
        """
        reply = outcome.text or ""
        message_tokens, reply_tokens = self._count(effect.message), self._count(reply)
        self.messages += 1
        self.fillers += 1 if effect.filler else 0
        self.tokens += message_tokens + reply_tokens
        self.agent_tokens += reply_tokens

        # An adopted reply was not generated, so it has no speed.
        latency_ms = None if outcome.adopted else outcome.latency_ms
        if latency_ms is not None:
            self.generated_tokens += reply_tokens
            self.generated_ms += latency_ms

        self._characters += len(effect.message) + len(reply)
        if not outcome.simulated:
            self._share = self._share.plus(outcome.made)
        self._replies.append(reply)

        # Filler belongs to no test: only the counts of the conversation change.
        if effect.filler:
            return

        state = self.tests[effect.test]
        if effect.question:
            state.questions.append(effect.message)
            state.responses.append(reply)

        state.spent = state.spent.plus(outcome.made)
        if latency_ms is not None:
            state.latency_ms = (state.latency_ms or 0.0) + latency_ms
        state.simulated |= outcome.simulated

        event = "question" if effect.question else "statement"
        entry: dict[str, JSON] = {"size": message_tokens + reply_tokens, "said": effect.message, "reply": reply}
        more = {name: value for name in ("adopted", "declined", "reasoning") if (value := getattr(outcome, name))}
        state.note(event, before, **entry, ms=outcome.latency_ms, **more)

    def _keep_replies(self, state: TestState) -> None:
        """Store all replies since the test's callback began, unless they are stored already or it has no callback."""
        if state.registered_at is not None:
            state.since_question = self._replies[state.registered_at :]
            state.registered_at = None


_YIELD_EVERY = 64
"""Other tasks may run after this many events: calls to an agent in the same process never wait for anything."""

_SHOWN = 160
"""The most characters of an event that an error shows."""


class Judge(Protocol):
    """A judge that answers questions of running tests."""

    async def ask(self, request: AskJudge, *, key: str) -> Outcome:
        """Answer one question of a running test. The outcome's text is a JSON object.

        A repeated question has the same `key`.

        Raises:
            ConfigurationError: The judge does not know this question.
            EndpointError: The call to a model failed after all retries.
        """


CallCosts: TypeAlias = Callable[[str], AbstractAsyncContextManager[Callable[[CallsMade], None]]]
"""Reserves budget for a call with this key, and yields a function that counts the call."""


@dataclass(eq=False, kw_only=True)
class Session:
    """One conversation; `run` starts it, or continues it where its log ends.

    Args:
        schedule: Makes the generator of effects; it must be deterministic.
        agent: The tested agent; it observes the exchanges in the log without calls.
        make_judge: Returns the judge; called when a running test first needs it.
        key: Returns the idempotency key of the n-th event.
        costs, judge_costs: Count a call to the agent or to the judge by its key, as `CostTracking.one_call` does.
        ended: Called with the state of each test that ends.
    """

    schedule: Callable[[], Schedule]
    agent: Agent
    make_judge: Callable[[], Judge]
    clock: SessionClock
    log: EventLog
    key: Callable[[int], str]
    state: SessionState
    costs: CallCosts
    judge_costs: CallCosts
    ended: Callable[[TestState], None] = lambda state: None

    def __post_init__(self) -> None:
        self._judge: Judge | None = None
        self._stopping = asyncio.Event()
        self._number = 0

    def stop(self) -> None:
        """Start no further calls. A call in flight may finish and is recorded; `run` then raises."""
        self._stopping.set()

    async def run(self) -> None:
        """Replay the logged events, then continue the conversation to its end.

        Only a call that was in flight is made again.

        Raises:
            ConfigurationError: The log does not match these tests and settings.
            RunError: The agent or the judge failed after all retries, or the log cannot be written.
            SessionStoppedError: `stop` was called.
        """
        # The recorded part. The schedule is deterministic, so it must yield the effects of the log again.
        self.clock.set(self.log.start_us)
        schedule = self.schedule()
        effect = next(schedule, None)
        for event in self.log.recorded:
            self._resize_if_changed(event.changed)
            if effect is None or to_data(effect) != to_data(event.effect):
                raise ConfigurationError(
                    f"the run cannot continue: event {self._number} was {_effect_text(event.effect)}, but would now "
                    f"be {_effect_text(effect)}, because definitions, settings or the program changed; "
                    "undo the change, or start a new run with --fresh"
                )
            effect = await self._settle(schedule, event.effect, await self._repeat(event))

        self._resize_if_changed(self.log.change)
        while effect is not None:
            effect = await self._settle(schedule, effect, await self._execute(effect))

    def _resize_if_changed(self, changed: Mapping[str, JSON] | None) -> None:
        """Set the agent's token limit if the prompt size is among the changed settings; None removes the limit."""
        if changed is not None and PROMPT_SIZE in changed:
            self.agent.resize(whole_number(changed[PROMPT_SIZE]))

    async def _settle(self, schedule: Schedule, effect: Effect, outcome: Outcome) -> Effect | None:
        """Add an outcome to the state, report an ended test, and return the schedule's next effect, None at its end."""
        self._number += 1
        ended = self.state.note(effect, outcome)
        if ended is not None:
            self.ended(ended)
        if self._number % _YIELD_EVERY == 0:
            await asyncio.sleep(0)
        try:
            return schedule.send(outcome)
        except StopIteration:
            return None

    async def _repeat(self, event: Event) -> Outcome:
        """Repeat a logged event: return its outcome, and let the agent observe it.

        A call that was in flight when the process died is made again with the same key.
        """
        effect, outcome = event.effect, event.outcome
        if outcome is None:  # in flight when the process died
            self.clock.set(event.at_us)
            outcome = await self._ask(effect, event.key or self.key(self._number), event.at_us)
            self.log.done(outcome)
            return outcome

        self.clock.set(outcome.at_us)
        if isinstance(effect, effects.Send):
            self.agent.observe(effect.message, outcome.text or "", declined=outcome.declined)
        elif isinstance(effect, effects.ResetAgent):
            self.agent.observe_reset()
        return outcome

    async def _execute(self, effect: Effect) -> Outcome:
        """Carry out a new effect and log it; return its outcome.

        A call is logged before it is made.

        Raises:
            SessionStoppedError: `stop` was called.
        """
        if self._stopping.is_set():
            raise SessionStoppedError("the memory session was stopped")

        # A jump is a call only if the agent is informed of it (`--clock mirrored`).
        is_call = isinstance(effect, effects.Send | effects.Consult | effects.ResetAgent)
        if is_call or (isinstance(effect, effects.Jump) and self.clock.tells_agent):
            key, at_us = self.key(self._number), self.clock.now()
            self.log.intend(effect, key, at_us)
            outcome = await self._ask(effect, key, at_us)
            self.log.done(outcome)
            return outcome

        if isinstance(effect, effects.Jump):
            await self.clock.jump(effect.until_us, self._stopping)
        outcome = Outcome(self.clock.now())
        self.log.did(effect, outcome)
        return outcome

    async def _ask(self, effect: Effect, key: str, at_us: int) -> Outcome:
        """Make the call of an effect and count its cost; return its outcome.

        Raises:
            RunError: The call failed after all retries.
        """
        try:
            if isinstance(effect, effects.Jump):
                await self.agent.advance(at_us, effect.until_us, key)
                return Outcome(await self.clock.jump(effect.until_us, self._stopping))
            if isinstance(effect, effects.ResetAgent):
                await self.agent.reset(key, at_us)
                return Outcome(self.clock.now())

            costs = self.costs if isinstance(effect, effects.Send) else self.judge_costs
            async with costs(key) as count:
                if isinstance(effect, effects.Send):
                    reply = await self.agent.reply(effect.message, key=key, at_us=at_us, suggested=effect.suggested)
                    outcome = structs.replace(reply, at_us=self.clock.exchanged())
                else:
                    assert isinstance(effect, effects.Consult)
                    self._judge = self._judge or self.make_judge()
                    judgement = await self._judge.ask(AskJudge(effect.purpose, effect.values), key=key)
                    outcome = structs.replace(judgement, at_us=self.clock.now())
                if _is_paid(effect, outcome):
                    count(outcome.made)
            return outcome
        except EndpointError as error:
            # Services have no common code for a prompt that is too long: status 413, or a sentence in their message.
            is_too_long = error.status == 413 or (error.status in (400, 422) and error_cause(str(error)) == "overflow")
            advice = _WINDOW_ADVICE if isinstance(effect, effects.Send) and is_too_long else ""
            raise RunError(f"the memory session failed: {error}{advice} (at {_effect_text(effect)})") from error


_WINDOW_ADVICE = "; the conversation no longer fits the model; give --max-prompt-size N below the context window"


def _is_paid(effect: Effect, outcome: Outcome) -> bool:
    """Return whether an effect is a question to the judge, or a message that a real model answered itself."""
    is_own = isinstance(effect, effects.Send) and not outcome.adopted and not outcome.simulated
    return is_own or isinstance(effect, effects.Consult)


def _effect_text(effect: Effect | None) -> str:
    """Return an effect as text for error messages.

    Examples: "a message of Colours - 0: 'Red is my …'", 'wait {"test":"Colours - 0","tokens":90,"seconds":0}'.
    """
    if effect is None:
        return "the end"
    if isinstance(effect, effects.Send):
        sender = effect.test or ("filler" if effect.draws else "the introduction")
        return f"a message of {sender}: {effect.message[:_SHOWN]!r}"

    data = to_data(effect)
    return f"{data.pop('do')} {dumps(data).decode()[:_SHOWN]}"
