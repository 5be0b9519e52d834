"""Drives one conversation: turns, steps and simulated calls, until the user has no further messages.

turn   the user speaks (functions may be added)
step   the model answers: calls are made and their results shown to it, which asks for the next step;
       an answer without a call, or without anything, ends the turn; too many steps end the conversation
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from tunecheck._errors import EndpointError
from tunecheck._faults import error_cause
from tunecheck._json import JSON
from tunecheck._targets import CallContext
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.endpoints._base import SentBack
from tunecheck.episodes._decoding import is_answer, source_text
from tunecheck.episodes._dialects import Dialect
from tunecheck.episodes._episode import UNKNOWN, Answered, Called, Episode, Said, StateSeen, TurnEnded, input_entry
from tunecheck.episodes._scenario import Scenario
from tunecheck.episodes._speakers import Message, Model, User
from tunecheck.simulators._backend import Backend, OperationResult

MOST_TURNS = 200
"""Maximum number of turns in a conversation, because a simulated user might never end it."""


@dataclass(slots=True, kw_only=True)
class ConversationAttempt:
    """One attempt at a conversation.

    `step_limit` is the maximum number of requests in one turn, None if unlimited; `limit_shown` is the limit in the
    log. `compat` logs a final answer as undecodable, like BFCL. `recorded` is the recorded conversation of a replay.
    `reasoning` says how long the model gets its own reasoning back. `keep_inputs` and `keep_states` add requests and
    simulator states to the episode.
    """

    scenario: Scenario
    model: Model
    user: User
    backend: Backend
    dialect: Dialect
    step_limit: int | None
    limit_shown: int
    compat: bool
    keep_inputs: bool = False
    keep_states: bool = True
    recorded: Episode = UNKNOWN
    reasoning: SentBack = "turn"
    episode: Episode = field(default_factory=Episode, init=False)
    _messages: list[Message] = field(default_factory=list, init=False)
    _thoughtless: dict[int, Message] = field(default_factory=dict, init=False)
    """This turn's answers without reasoning, by position in the messages; later turns use them."""

    async def run(self, context: CallContext) -> Episode:
        """Run the conversation until the user has no message, it is ended by force, or it has 200 turns; return its
        events.

        Raises:
            EndpointError: a call of the model failed for good; if the context window is full, the episode ends instead.
            ValueError: the user said nothing in a turn that adds no functions.
        """
        self._see_states()
        for turn in range(MOST_TURNS):
            said = await self.user.say(turn, tuple(self._messages), context)
            if said is None:
                break
            self._begin(turn, said)
            await self._take(turn)
            self._see_states()
            if self.episode.forced_quit:
                break
        return self.episode

    def _see_states(self) -> None:
        """Add the simulators' current states to the episode, if states are kept."""
        if self.keep_states:
            self.episode.add(StateSeen(self.backend.state_texts()))

    def _begin(self, turn: int, said: Sequence[Message]) -> None:
        """Add a turn with the user's messages to the episode and to the model's messages, and offer the turn's new
        functions.

        From now on, the model gets its former answers without their reasoning.

        Raises:
            ValueError: the turn has neither a message nor a new function.
        """
        added = self.scenario.held_out.get(turn)
        if added is not None:
            said = self.dialect.add(added, said)
        if not said:
            raise ValueError(f"turn {turn} has neither a user message nor a new function: add one")
        if turn == 0:
            said = self.dialect.open(said)
        for at, message in self._thoughtless.items():
            self._messages[at] = message
        self._thoughtless.clear()
        self._messages.extend(said)
        self.episode.add(Said(said))

    async def _take(self, turn: int) -> None:
        """Request answers and make their calls until the turn ends by itself or reaches the step limit."""
        answers = self.episode.turns[-1].answers
        while await self._step(turn, len(answers)):
            if self.step_limit is not None and len(answers) >= self.step_limit:
                self.episode.add(TurnEnded("step_limit", str(self.limit_shown)))
                return

    async def _step(self, turn: int, step: int) -> bool:
        """Request one answer, make its calls and note both in the episode; return True if the model must answer again.

        A full context window ends the conversation. It raises instead with `compat`, or if the model never answered.
        """
        request = input_entry(self._messages, self.dialect.tools) if self.keep_inputs else None
        try:
            completion = await self.model.answer(turn, step, self._messages, self.dialect.tools)
        except EndpointError as error:
            begun = any(isinstance(event, Answered) for event in self.episode.events)
            if self.compat or not begun or error_cause(str(error)) != "overflow":
                raise
            self.episode.add(Answered(made=[], request=request))
            self.episode.add(TurnEnded("overflow", str(error)))
            return False
        if completion is None:
            return False
        content = self.dialect.step(completion)
        decoded = self.recorded.decoded(turn, step, self.dialect.decode(content))
        made: list[JSON] = [source_text(call, self.dialect.separator) for call in decoded.calls]
        self.episode.add(Answered(content, made, completion.finish_reason, completion, request))
        message = self.dialect.said(completion, content, decoded, f"{turn}_{step}")
        if self.reasoning == "turn":
            self._thoughtless[len(self._messages)] = message
        kept = message if self.reasoning == "never" else self.dialect.within_turn(message, completion)
        self._messages.append(kept)
        if decoded.calls:
            await self._call(decoded, message)
            return True
        answered = not self.compat and not completion.tool_calls and is_answer(content)
        ending = "empty" if decoded.problem is None else "answer" if answered else "unreadable"
        self.episode.add(TurnEnded(ending, decoded.problem or ""))
        return False

    async def _call(self, decoded: Reading, message: Message) -> None:
        """Make an answer's calls on the simulators, and add the results to the episode and the model's messages.

        Simulators that may block run in a thread, so that other conversations go on.
        """
        bounded = all(simulator.bounded for simulator in self.backend.simulators.values())
        results = self._make(decoded.calls) if bounded else await asyncio.to_thread(self._make, decoded.calls)
        for call, result in zip(decoded.calls, results, strict=True):
            self.episode.add(Called(call, result))
        self._messages.extend(self.dialect.results(message, decoded, [result.text for result in results]))

    def _make(self, calls: Sequence[FunctionCall]) -> list[OperationResult]:
        return [self.backend.call(call) for call in calls]
