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
from tunecheck.endpoints._base import Completion, SentBack
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
    """All messages so far, as the model gets them with the next request."""
    _without_reasoning: dict[int, Message] = field(default_factory=dict, init=False)
    """This turn's answers without reasoning, by position in the messages; later turns use them."""

    async def run(self, context: CallContext) -> Episode:
        """Run the conversation and return its events.

        The conversation ends if the user has no further message, by force, or after 200 turns.

        Raises:
            EndpointError: a call of the model failed for good; if the context window is full, the episode ends instead.
            ValueError: the user said nothing in a turn that adds no functions.
        """
        self._record_states()
        for turn in range(MOST_TURNS):
            user_messages = await self.user.say(turn, tuple(self._messages), context)
            if user_messages is None:
                break
            self._begin_turn(turn, user_messages)
            await self._answer_turn(turn)
            self._record_states()
            if self.episode.forced_quit:
                break
        return self.episode

    def _record_states(self) -> None:
        """Add the simulators' current states to the episode, if states are kept."""
        if self.keep_states:
            self.episode.add(StateSeen(self.backend.state_texts()))

    def _begin_turn(self, turn: int, messages: Sequence[Message]) -> None:
        """Add a turn to the episode, its user messages to the model's messages, and its new functions to the offer.

        From now on, the model gets its former answers without their reasoning.

        Raises:
            ValueError: the turn has neither a message nor a new function.
        """
        new_functions = self.scenario.held_out.get(turn)
        if new_functions is not None:
            messages = self.dialect.add(new_functions, messages)
        if not messages:
            raise ValueError(f"turn {turn} has neither a user message nor a new function: add one")
        if turn == 0:
            messages = self.dialect.open(messages)
        for position, answer in self._without_reasoning.items():
            self._messages[position] = answer
        self._without_reasoning.clear()
        self._messages.extend(messages)
        self.episode.add(Said(messages))

    async def _answer_turn(self, turn: int) -> None:
        """Request answers and make their calls until the turn ends by itself or reaches the step limit."""
        answers = self.episode.turns[-1].answers
        while await self._step(turn, len(answers)):
            if self.step_limit is not None and len(answers) >= self.step_limit:
                self.episode.add(TurnEnded("step_limit", str(self.limit_shown)))
                return

    async def _step(self, turn: int, step: int) -> bool:
        """Request one answer and make its calls; return True if the model must answer again.

        Both become events of the episode. A full context window ends the conversation; it raises instead with `compat`,
        or if the model never answered.
        """
        request = input_entry(self._messages, self.dialect.tools) if self.keep_inputs else None
        try:
            completion = await self.model.answer(turn, step, self._messages, self.dialect.tools)
        except EndpointError as error:
            has_answers = any(isinstance(event, Answered) for event in self.episode.events)
            if self.compat or not has_answers or error_cause(str(error)) != "overflow":
                raise
            self.episode.add(Answered(made=[], request=request))
            self.episode.add(TurnEnded("overflow", str(error)))
            return False
        if completion is None:
            return False
        content = self.dialect.step(completion)
        reading = self.recorded.decoded(turn, step, self.dialect.decode(content))
        made: list[JSON] = [source_text(call, self.dialect.separator) for call in reading.calls]
        self.episode.add(Answered(content, made, completion.finish_reason, completion, request))
        message = self.dialect.said(completion, content, reading, f"{turn}_{step}")
        self._add_answer(message, completion)
        if reading.calls:
            await self._make_calls(reading, message)
            return True
        self.episode.add(TurnEnded(self._ending(completion, content, reading), reading.problem or ""))
        return False

    def _add_answer(self, message: Message, completion: Completion) -> None:
        """Add an answer to the model's messages, with its reasoning for as long as the endpoint wants it back."""
        if self.reasoning == "turn":
            self._without_reasoning[len(self._messages)] = message
        self._messages.append(message if self.reasoning == "never" else self.dialect.within_turn(message, completion))

    def _ending(self, completion: Completion, content: JSON, reading: Reading) -> str:
        """Return how an answer without readable calls ends its turn: `empty`, `answer` or `unreadable`."""
        if reading.problem is None:
            return "empty"
        if self.compat or completion.tool_calls or not is_answer(content):
            return "unreadable"
        return "answer"

    async def _make_calls(self, reading: Reading, message: Message) -> None:
        """Make an answer's calls on the simulators, and add the results to the episode and the model's messages.

        Simulators that may block run in a thread, so that other conversations go on.
        """
        if all(simulator.bounded for simulator in self.backend.simulators.values()):
            results = self._make(reading.calls)
        else:
            results = await asyncio.to_thread(self._make, reading.calls)
        for call, result in zip(reading.calls, results, strict=True):
            self.episode.add(Called(call, result))
        self._messages.extend(self.dialect.results(message, reading, [result.text for result in results]))

    def _make(self, calls: Sequence[FunctionCall]) -> list[OperationResult]:
        return [self.backend.call(call) for call in calls]
