"""Drives one conversation: turns, steps, calls against the simulators, until the user has no more to say.

turn   the user speaks (functions may be added)
step   the model answers: calls are made and their results shown to it, which asks for the next step;
       an answer without a call, or without anything, ends the turn; too many steps end the conversation
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from tunecheck._causes import error_cause
from tunecheck._errors import EndpointError
from tunecheck._json import JSON
from tunecheck._targets import CallContext
from tunecheck.endpoints._base import Completion, SentBack
from tunecheck.episodes._decoding import is_answer
from tunecheck.episodes._dialects import Dialect
from tunecheck.episodes._inference_log import UNKNOWN, Course, InferenceLog
from tunecheck.episodes._nested import Decoded, NestedCall, make_call
from tunecheck.episodes._scenario import Scenario
from tunecheck.episodes._speakers import Message, Model, User
from tunecheck.simulators._backend import Backend

MOST_TURNS = 200
"""Most turns of one conversation: a simulated user might never end it."""


@dataclass(slots=True)
class Steps:
    """What the model answered: the result's steps and their completions, by turn."""

    result: list[JSON] = field(default_factory=list)
    completions: list[list[Completion]] = field(default_factory=list)
    forced_quit: bool = False

    @property
    def last(self) -> Completion:
        return next((turn[-1] for turn in reversed(self.completions) if turn), Completion(text=""))


@dataclass(slots=True, kw_only=True)
class Conversation:
    """One attempt at a conversation.

    `step_limit` is the most queries in one turn, None where there is no limit; `limit_shown` the limit as the log
    calls it. `compat` logs a final answer as BFCL does, as one that was not decoded. `recorded` is how the conversation
    went, where it took place before. `reasoning`: how long the model gets its own reasoning back.
    """

    scenario: Scenario
    model: Model
    user: User
    backend: Backend
    dialect: Dialect
    log: InferenceLog
    step_limit: int | None
    limit_shown: int
    compat: bool
    recorded: Course = UNKNOWN
    reasoning: SentBack = "turn"
    steps: Steps = field(default_factory=Steps, init=False)
    _messages: list[Message] = field(default_factory=list, init=False)
    _thoughtless: dict[int, Message] = field(default_factory=dict, init=False)
    """This turn's answers by their place among the messages, as later turns see them: without their reasoning."""

    async def run(self, context: CallContext) -> Steps:
        """Have the conversation.

        Raises:
            EndpointError: a call of the model failed for good; where the context window is full, what was done is kept.
            ValueError: the user said nothing in a turn that adds no functions.
        """
        self.log.state(self.backend)
        for turn in range(MOST_TURNS):
            said = await self.user.say(turn, tuple(self._messages), context)
            if said is None:
                break
            self._begin(turn, said)
            await self._take(turn)
            self.log.state(self.backend)
            if self.steps.forced_quit:
                break
        return self.steps

    def _begin(self, turn: int, said: Sequence[Message]) -> None:
        added = self.scenario.held_out.get(turn)
        if added is not None:
            said = self.dialect.add(added, said)
        if not said:
            raise ValueError(f"turn {turn}: the user said nothing, and no function was added")
        if turn == 0:
            said = self.dialect.open(said)
        for at, message in self._thoughtless.items():
            self._messages[at] = message
        self._thoughtless.clear()
        self._messages.extend(said)
        self.log.begin_turn(said)

    async def _take(self, turn: int) -> None:
        steps: list[JSON] = []
        completions: list[Completion] = []
        self.steps.result.append(steps)
        self.steps.completions.append(completions)
        while True:
            step = len(steps)
            try:
                completion = await self.model.answer(turn, step, self._messages, self.dialect.tools)
            except EndpointError as error:
                if self.compat or not any(self.steps.result) or error_cause(str(error)) != "overflow":
                    raise
                self.log.begin_step(self._messages, self.dialect.tools)
                self.log.overflow(str(error))
                self.steps.forced_quit = True
                return
            if completion is None:
                return
            self.log.begin_step(self._messages, self.dialect.tools)
            answer = self.dialect.step(completion)
            steps.append(answer)
            completions.append(completion)
            self.log.assistant(answer, completion)
            decoded = self.recorded.decoded(turn, step, self.dialect.decode(answer))
            message = self.dialect.said(completion, answer, decoded, f"{turn}_{step}")
            if self.reasoning == "turn":
                self._thoughtless[len(self._messages)] = message
            kept = message if self.reasoning == "never" else self.dialect.within_turn(message, completion)
            self._messages.append(kept)
            answered = not self.compat and not completion.tool_calls and is_answer(answer)
            if not await self._act(decoded, message, answered=answered):
                return
            if self.step_limit is not None and len(steps) >= self.step_limit:
                self.steps.forced_quit = True
                self.log.forced_quit(self.limit_shown, self._texts(decoded))
                return

    async def _act(self, decoded: Decoded, message: Message, *, answered: bool) -> bool:
        """Make the calls of an answer; whether there were any, so that the turn goes on.

        `answered` says that it is a text for the user, in which nobody would look for calls.
        """
        if decoded.problem is not None:
            if answered:
                self.log.answered()
            else:
                self.log.undecodable(decoded.problem)
            return False
        if not decoded.calls:
            self.log.empty()
            return False
        self.log.decoded(self._texts(decoded))
        bounded = all(simulator.bounded for simulator in self.backend.simulators.values())
        results = self._make(decoded.calls) if bounded else await asyncio.to_thread(self._make, decoded.calls)
        for result in results:
            self.log.tool(result)
        self._messages.extend(self.dialect.results(message, decoded, results))
        return True

    def _make(self, calls: Sequence[NestedCall]) -> list[str]:
        return [make_call(self.backend, call).text for call in calls]

    def _texts(self, decoded: Decoded) -> list[str]:
        return [call.text(self.dialect.separator) for call in decoded.calls]
