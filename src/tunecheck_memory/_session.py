"""Run a session, which is one long conversation: execute and log the scheduler's effects.

schedule() ──effect──► recorded before? ─yes─► its outcome ──────────────────────────┐
    ▲                      └─no─► event log ──► agent / judge / clock ──► event log ──┤
    └────────────────────────────── session state ───────────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from msgspec import structs

from tunecheck import ConfigurationError, EndpointError, RunError
from tunecheck.plugins import JSON, CallsMade, CostTracker, whole_number
from tunecheck_memory._agents import Agent
from tunecheck_memory._clock import SessionClock
from tunecheck_memory._effects import Consult, Effect, Jump, Outcome, ResetAgent, Schedule, Send, to_data
from tunecheck_memory._event_log import PROMPT_SIZE, Event, EventLog
from tunecheck_memory._kind import AskJudge
from tunecheck_memory._session_state import SessionState, TestState

_YIELD_EVERY = 64
"""The event loop gets a turn after this many events, as an agent in the same process never waits."""

_SHOWN = 160


class Judge(Protocol):
    async def ask(self, request: AskJudge, *, key: str) -> Outcome:
        """Return the judgement as a JSON object's text; a repeated question has the same `key`.

        Raises:
            ConfigurationError: The judge does not know this question.
            EndpointError: The call to a model failed for good.
        """


class SessionStoppedError(RunError): ...


@dataclass(eq=False, kw_only=True)
class Session:
    """One conversation; `run` starts it, or continues it where its log ends.

    Args:
        schedule: Makes the generator of effects; it must be deterministic.
        agent: The tested agent; it observes the exchanges in the log without calls.
        make_judge: Makes the judge for running tests when the first one asks.
        key: Returns the idempotency key of the n-th event.
        ended: Called with the state of each test that ends.
        costs, judge_costs: Count the calls to the agent and to the judge.
    """

    schedule: Callable[[], Schedule]
    agent: Agent
    make_judge: Callable[[], Judge]
    clock: SessionClock
    log: EventLog
    key: Callable[[int], str]
    state: SessionState
    ended: Callable[[TestState], None] = lambda state: None
    costs: CostTracker | None = None
    judge_costs: CostTracker | None = None

    def __post_init__(self) -> None:
        self._judge: Judge | None = None
        self._stopping = asyncio.Event()
        self._number = 0

    def stop(self) -> None:
        """Start no further calls. A call in flight may finish and is recorded; `run` then raises."""
        self._stopping.set()

    async def run(self) -> None:
        """Hold the conversation to its end.

        Raises:
            ConfigurationError: The log does not match these tests and settings.
            RunError: The agent or the judge failed for good, or the log cannot be written.
            SessionStoppedError: `stop` was called.
        """
        self.clock.set(self.log.start_us)
        schedule = self.schedule()
        effect = next(schedule, None)
        for event in self.log.recorded:
            self._change(event.changed)
            if effect is None or to_data(effect) != to_data(event.effect):
                raise ConfigurationError(
                    f"event {self._number} was {_effect_text(event.effect)}, and now would be "
                    f"{_effect_text(effect)}: the definitions, the settings or the program have changed since; "
                    "undo that, or start anew with --fresh"
                )
            effect = await self._settle(schedule, event.effect, await self._record(event))
        self._change(self.log.change)
        while effect is not None:
            effect = await self._settle(schedule, effect, await self._execute(effect))

    def _change(self, changed: Mapping[str, JSON] | None) -> None:
        if changed is not None and PROMPT_SIZE in changed:
            self.agent.resize(whole_number(changed[PROMPT_SIZE]))

    async def _settle(self, schedule: Schedule, effect: Effect, outcome: Outcome) -> Effect | None:
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

    async def _record(self, event: Event) -> Outcome:
        if event.outcome is None:  # in flight when the process died
            self.clock.set(event.at_us)
            outcome = await self._ask(event.effect, event.key or self.key(self._number), event.at_us)
            self.log.done(outcome)
            return outcome
        effect, outcome = event.effect, event.outcome
        self.clock.set(outcome.at_us)
        if isinstance(effect, Send):
            if self.costs is not None and _was_asked(outcome):
                self.costs.record(outcome.made)
            self.agent.observe(effect.message, outcome.text or "", declined=outcome.declined)
        elif isinstance(effect, Consult) and self.judge_costs is not None and outcome.judged_by_model:
            self.judge_costs.record(outcome.made)
        elif isinstance(effect, ResetAgent):
            self.agent.observe_reset()
        return outcome

    async def _execute(self, effect: Effect) -> Outcome:
        if self._stopping.is_set():
            raise SessionStoppedError("the session was stopped")
        if isinstance(effect, (Send, Consult, ResetAgent)) or (isinstance(effect, Jump) and self.clock.tells_agent):
            key, at_us = self.key(self._number), self.clock.now()
            self.log.intend(effect, key, at_us)
            outcome = await self._ask(effect, key, at_us)
            self.log.done(outcome)
            return outcome
        at_us = await self._wait(effect.until_us) if isinstance(effect, Jump) else self.clock.now()
        outcome = Outcome(at_us)
        self.log.did(effect, outcome)
        return outcome

    async def _wait(self, until_us: int) -> int:
        # A real clock may wait long, and the run may be stopped meanwhile.
        jump = asyncio.ensure_future(self.clock.jump(until_us))
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((jump, stop), return_when=asyncio.FIRST_COMPLETED)
            if jump.done():
                return jump.result()
            raise SessionStoppedError("the session was stopped")
        finally:
            jump.cancel()
            stop.cancel()

    async def _ask(self, effect: Effect, key: str, at_us: int) -> Outcome:
        try:
            if isinstance(effect, Send):
                async with _one_call(self.costs) as count:
                    reply = await self.agent.reply(effect.message, key=key, at_us=at_us, suggested=effect.suggested)
                    outcome = structs.replace(reply, at_us=self.clock.exchanged())
                    if _was_asked(outcome):
                        count(outcome.made)
                return outcome
            if isinstance(effect, Consult):
                return await self._judge_effect(effect, key)
            if isinstance(effect, ResetAgent):
                await self.agent.reset(key, at_us)
            elif isinstance(effect, Jump):
                await self.agent.advance(at_us, effect.until_us, key)
                return Outcome(await self.clock.jump(effect.until_us))
            return Outcome(self.clock.now())
        except EndpointError as error:
            refused = error.status == 413 or (error.status in (400, 422) and _TOO_LONG.search(str(error)) is not None)
            advice = _WINDOW_ADVICE if isinstance(effect, Send) and refused else ""
            raise RunError(f"the memory session failed at {_effect_text(effect)}: {error}{advice}") from error

    async def _judge_effect(self, effect: Consult, key: str) -> Outcome:
        judge = self._judge = self._judge or self.make_judge()
        async with _one_call(self.judge_costs) as count:
            outcome = structs.replace(await judge.ask(effect.request, key=key), at_us=self.clock.now())
            if outcome.judged_by_model:
                count(outcome.made)
        return outcome


_TOO_LONG = re.compile(
    r"context.{0,3}(?:length|window|size)|prompt is too long|too many (?:input )?tokens|maximum.{0,40}tokens"
    r"|reduce the length|string_above_max_length|max_model_len",
    re.IGNORECASE,
)
_WINDOW_ADVICE = "; the conversation no longer fits the model: give fewer tokens than it takes, --max-prompt-size N"


def _one_call(costs: CostTracker | None) -> AbstractAsyncContextManager[Callable[[CallsMade], None]]:
    return contextlib.nullcontext(lambda made: None) if costs is None else costs.one_call()


def _was_asked(outcome: Outcome) -> bool:
    return not outcome.adopted and not outcome.simulated


def _effect_text(effect: Effect | None) -> str:
    if effect is None:
        return "the end"
    if isinstance(effect, Send):
        whose = effect.test or ("filler" if effect.draws else "the introduction")
        message = effect.message if len(effect.message) <= _SHOWN else f"{effect.message[:_SHOWN]}…"
        return f"a message of {whose}: {message!r}"
    data = to_data(effect)
    what = str(data.pop("do")).replace("_", " ")
    return " ".join([what, *(f"{name}={str(value)[:_SHOWN]}" for name, value in data.items())])
