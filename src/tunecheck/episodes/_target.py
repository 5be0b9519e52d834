"""The conversation target: an endpoint that answers rows of several turns, with simulators for its calls.

A `ConversationAttempt` runs one conversation. It has turns, and each turn has steps:

turn   the user speaks (functions may be added)
step   the model answers: calls are made and their results shown to it, which asks for the next step;
       an answer without a call, or without anything, ends the turn; too many steps end the conversation

A row is answered in one of four ways (`ConversationTarget.answer`):

  turns   recorded result   answer
  yes     yes               the recorded calls are made again on simulators (`_replay`)
  yes     no                a conversation with the endpoint (`_converse`)
  no      yes               the record's columns
  no      no                one request (`_answer_question`)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias, get_args

from tunecheck._describe import one_of
from tunecheck._errors import ConfigurationError, DataError, EndpointError
from tunecheck._faults import error_cause
from tunecheck._fingerprints import fingerprint
from tunecheck._json import JSON, content_hash
from tunecheck._targets import CallContext, Row, TargetOutput
from tunecheck._trust import Trust
from tunecheck.calls._model import Reading
from tunecheck.endpoints._base import SOME_COLUMNS, ChatRequest, Completion, Endpoint
from tunecheck.endpoints._target import EndpointTarget, EndpointTargetBase, ask
from tunecheck.episodes import _dialects as dialects, _scenario as scenarios
from tunecheck.episodes._decoding import CallMode, is_answer, source_text
from tunecheck.episodes._dialects import Dialect, Wording
from tunecheck.episodes._episode import OUTPUT_COLUMNS, REASONING, Answered, Called, Episode, Said, StateSeen, TurnEnded
from tunecheck.episodes._playing import Services
from tunecheck.formats._profiles import Profile
from tunecheck.formats._reading import AUTO, choose_profile
from tunecheck.simulators._backend import Backend

MakeUser: TypeAlias = Callable[[Row], scenarios.User]

STEP_LIMIT = 20
"""Default maximum number of requests in one turn."""


class ConversationTarget(EndpointTargetBase):
    """Answers a row by running the conversation that it describes.

    Each row gets its own simulators. A turn's messages are sent to the endpoint. The calls in its answer are made on
    the simulators, and their results are sent back, until an answer has no call. Every answer is journaled, so that a
    resumed run does not request it again.

    Args:
        endpoint: the model. A replay of BFCL result files returns its recorded steps.
        mode: `tools` sends OpenAI tools and reads `tool_calls`; `text` describes the functions in the system prompt and
            reads calls from the text.
        step_limit: maximum number of requests in one turn; at the limit, the conversation ends (`forced_quit`).
        compat: a benchmark (`bfcl`) whose rules the conversations follow exactly: one request more than the step limit,
            and its way of decoding. The call text of the benchmark's own rows is always decoded in this way.
        format: the profile of a model family, or its name; by default that of the endpoint's definition. In the mode
            `text`, tools are shown in the family's form, calls are read strictly in that form and become call text in
            the result; the log keeps the model's own text.
        include_input_log: keep each request's messages and tools in the inference log.
        include_state_log: keep the simulators' states in the inference log.
        user: makes the simulated user of a row's conversation; by default the row's turns are sent in order.
        time_limit_s: seconds after which a call of a simulator is abandoned.
        data: the copy of the benchmark with prompts and long-context constants, if not in the usual place.

    The output columns:
        result: by turn, the steps: `[{"name": "<arguments as JSON>"}, …]`, or text, as in BFCL's result files.
        inference_log: requests, answers, decoded calls, results and states, in the fields of BFCL's own logs.
        input_token_count, output_token_count, latency: by turn and step; latency in seconds; None if unknown.
        response, text, tool_calls: the last answer; `response` is its OpenAI tool calls, else its text.
        usage, latency_ms: sums over all steps.
        finish_reason, request_id: those of the last answer.
        steps: number of requests.
        finish_reasons: by turn and step, the finish reason of the answer, if the service reports it.
        calls_made: by turn and step, the executed calls as texts.
        forced_quit: True if the conversation was ended by force.
        ended_by: the reason of a forced end: `step_limit`, or `overflow` of the model's context window.
        error: the error that a recorded row has instead of a result; None otherwise.
        simulated: True if an answer came from no real model.
        reasoning_content: the model's reasoning, by turn and step; `reasoning` is that of the last answer.
    """

    scoring_version = 1
    """Raised whenever the same answers of the endpoint can lead to a different conversation."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        mode: CallMode = "tools",
        step_limit: int = STEP_LIMIT,
        compat: str | None = None,
        format: str | Profile = AUTO,
        include_input_log: bool = False,
        include_state_log: bool = True,
        user: MakeUser | None = None,
        time_limit_s: float = 10,
        data: Path | None = None,
    ) -> None:
        """Check the arguments, which the class describes.

        Raises:
            ConfigurationError: `mode` or `step_limit` is invalid, or a format is given without mode `text`.
            PluginError: there is no such benchmark or format.
        """
        one_of(mode, get_args(CallMode), "mode")
        if not isinstance(step_limit, int) or isinstance(step_limit, bool) or step_limit < 1:
            raise ConfigurationError(f"step_limit must be a whole number of at least 1, not {step_limit!r}")

        super().__init__(endpoint)
        self.concurrency = endpoint.concurrency
        self.columns = frozenset([*OUTPUT_COLUMNS, *SOME_COLUMNS, REASONING])
        self.mode: CallMode = mode

        # Only text has a family's format; with tools, the server reads the calls.
        self._profile = choose_profile(format)
        if self._profile is None and mode == "text":
            self._profile = endpoint.profile
        elif self._profile is not None and mode != "text":
            raise ConfigurationError("`format` works only with mode text: set `mode` to text, or leave `format` out")

        self.step_limit = step_limit
        self.compat = compat
        self._data = data
        self._benchmark = None if compat is None else dialects.find_benchmark(compat)(data)
        self._owners: dict[str, dialects.BenchmarkDialect] = {}

        self.include_input_log = include_input_log
        self.include_state_log = include_state_log

        self._make_user = user
        self._services = Services(data=data, time_limit_s=time_limit_s)
        # Rows of one question need no simulators; they are asked as any endpoint target asks.
        self._single = EndpointTarget(endpoint)

    def set_trust(self, trust: Trust) -> None:
        """Set the trust that decides which simulators rows may load; their classes are loaded anew."""
        self._services = replace(self._services, classes={}, trust=trust)

    async def answer(self, row: Row, context: CallContext) -> TargetOutput:
        """Run the row's conversation; for a row without `turns`, send one request.

        Raises:
            ValueError: the row does not describe a conversation; the text says why.
            PluginError: the row names a simulator that does not exist.
            DataError: a configuration is invalid, or the needed copy of BFCL is missing or unusable.
            EndpointError: a call failed for good.
        """
        # A replay endpoint has a recorded result for the row; other endpoints have none.
        record = self.endpoint.recorded_result(row)
        has_turns = row.values.get("turns") is not None

        if has_turns and record is not None:
            return await self._replay(row, record, context)
        if has_turns:
            return await self._converse(row, context)
        if record is not None:
            return Episode.read(record).recorded_columns(record, dict.fromkeys(OUTPUT_COLUMNS), stopped_early=False)
        return await self._answer_question(row, context)

    async def _converse(self, row: Row, context: CallContext) -> TargetOutput:
        """Run the conversation of a row with turns against the endpoint; return its output columns."""
        scenario = scenarios.read_scenario(row, self._services)
        in_text = self.mode == "text"

        model = scenarios.EndpointModel(self.endpoint, row, context, scenario.all_tools(), in_text)
        user = self._make_user(row) if self._make_user is not None else scenarios.ScriptedUser(scenario.turns)

        # A turn that only adds functions has no message in the data, so a text of the benchmark announces them.
        adds_functions = any(not turn and number in scenario.held_out for number, turn in enumerate(scenario.turns))
        wording = self._wording_for(row, from_benchmark_copy=in_text or adds_functions)
        dialect = self._dialect(row, scenario.offer, wording, in_text=in_text)

        # BFCL forces the end after its 21st request, although its log says "after 20 steps".
        step_limit = self.step_limit if self._benchmark is None else self.step_limit + 1

        # New simulators for each attempt: a retry must not begin with the states of a failed attempt.
        backend = self._services.play(scenario)
        attempt = ConversationAttempt(self, scenario, model, user, dialect, backend, step_limit)
        return (await attempt.run(context)).output_columns()

    async def _answer_question(self, row: Row, context: CallContext) -> dict[str, JSON]:
        """Send the question of a row without turns; return the output columns. Calls in the answer are not made."""
        in_text = self.mode == "text"
        request = self._single.request(row, context.idempotency_key())

        functions = row.values.get("functions")
        tools: scenarios.Tools = request.tools or []
        if in_text and isinstance(functions, list):
            tools = [{"type": "function", "function": function} for function in functions]
        offer = scenarios.Offer(tools, [tool.get("function") for tool in tools])
        dialect = self._dialect(row, offer, self._wording_for(row, from_benchmark_copy=in_text), in_text=in_text)

        request = replace(request, row=row)
        # In text mode the functions are in the prompt, so the request has no tools.
        if in_text:
            request = replace(request, messages=dialect.open(request.messages), tools=None)

        completion = await (self.endpoint.complete(request) if in_text else ask(self.endpoint, request))
        # A question has no steps: the log has only the request, if at all.
        log = [_input_entry(request.messages, request.tools)] if self.include_input_log else None
        return Episode.question_columns(completion, dialect.step(completion), log)

    async def _replay(self, row: Row, record: Mapping[str, JSON], context: CallContext) -> TargetOutput:
        """Make a recorded result's calls on the simulators; return the record's result with a log of their effects.

        Calls are read as the recorded model wrote them, whatever the target's own mode is.
        """
        scenario = scenarios.read_scenario(row, self._services)
        model = scenarios.RecordedModel(record)
        # The user speaks only in as many turns as were recorded.
        user = scenarios.ScriptedUser(scenario.turns[: model.turn_count])

        try:
            wording = self._wording_for(row, from_benchmark_copy=True)
        except DataError:
            wording = Wording()  # used only for the log, because no request is sent

        dialect = self._dialect(row, scenario.offer, wording, in_text=model.only_text)
        backend, recorded = self._services.play(scenario), Episode.read(record)
        attempt = ConversationAttempt(self, scenario, model, user, dialect, backend, step_limit=None, recorded=recorded)
        columns = (await attempt.run(context)).output_columns()
        return recorded.recorded_columns(record, columns, stopped_early=model.turn_count < len(scenario.turns))

    def _dialect(self, row: Row, offer: scenarios.Offer, wording: Wording, *, in_text: bool) -> Dialect:
        """Return the dialect of one conversation: functions and calls `in_text`, or as OpenAI tools.

        The benchmark of `compat` decides the details. Without `compat`, a text dialect follows the benchmark that owns
        the row, if any; a tools dialect follows no benchmark.
        """
        if not in_text:
            tools_class = dialects.ToolsDialect if self._benchmark is None else self._benchmark.tools_dialect
            return tools_class(offer, wording)

        benchmark = self._benchmark or self._owner(row)
        if benchmark is None:
            return dialects.TextDialect(offer, wording, self._profile)
        return benchmark.text_dialect(row, offer, wording, self._profile, exact=self._benchmark is not None)

    def _owner(self, row: Row) -> dialects.BenchmarkDialect | None:
        """Return the dialect of the benchmark that owns the row, created once; None if no benchmark does."""
        name = dialects.benchmark_of(row.values)
        if name is not None and name not in self._owners:
            self._owners[name] = dialects.find_benchmark(name)(self._data)
        return None if name is None else self._owners[name]

    def _wording_for(self, row: Row, *, from_benchmark_copy: bool) -> Wording:
        """Return the texts for the model: in text mode its family's, if known, else the owning benchmark's.

        Without these, return Tunecheck's own texts. The benchmark's texts must be read from the user's copy, so they
        are used only with `from_benchmark_copy`.
        """
        if self.mode == "text" and self._profile is not None and self._profile.prompt is not None:
            return dialects.FamilyWording(self._profile.prompt)

        owner = self._owner(row) if from_benchmark_copy else None
        return Wording() if owner is None else owner.wording

    def expected_requests(self, row: Row) -> list[ChatRequest]:
        """Return the requests that the row would cause if the model answered with the ground truth, to estimate costs.

        Nothing is sent.
        """
        if row.values.get("turns") is None:
            return [self._single.request(row)]

        scenario = scenarios.read_scenario(row, self._services)
        truth = row.values.get("ground_truth")
        messages: list[scenarios.Message] = []
        requests = []

        # A turn with calls needs two requests or more: one that makes them, and one that ends the turn.
        for turn, user_messages in enumerate(scenario.turns):
            calls = truth[turn] if isinstance(truth, list) and turn < len(truth) else None
            messages += user_messages
            requests.append(ChatRequest(tuple(messages), scenario.offer.tools))
            if calls:
                # The text of the calls stands for the answer: only its length matters for the costs.
                messages.append({"role": "assistant", "content": str(calls)})
                requests.append(ChatRequest(tuple(messages), scenario.offer.tools))

        return requests

    def inputs(self, row: Row) -> JSON:
        """Return all parts of the row that can change its conversation, to decide if an old answer may be reused."""
        # An endpoint that depends on the row, and a simulated user, may read any column.
        if self.endpoint.depends_on_row or self._make_user is not None:
            return dict(row.values)

        owner = dialects.benchmark_of(row.values)
        if row.values.get("turns") is None:
            functions = row.values.get("functions") if self.mode == "text" else None
            return [owner, functions, self._single.inputs(row)]
        return {"benchmark": owner, **{name: row.values.get(name) for name in scenarios.COLUMNS}}

    def fingerprint(self) -> str | None:
        """Return a hash of everything but the row that can change answers; None if a part of it cannot be hashed."""
        endpoint = super().fingerprint()
        user = "" if self._make_user is None else fingerprint(self._make_user)
        # Without a hash of all parts, no earlier answer may be reused.
        if endpoint is None or user is None:
            return None

        return content_hash([endpoint, self._settings(), user, self.scoring_version])

    def describe(self) -> dict[str, JSON]:
        return {**super().describe(), "conversation": self._settings()}

    def _settings(self) -> dict[str, JSON]:
        """Return the settings that can change a conversation, for fingerprint and manifest."""
        return {
            "mode": self.mode,
            **({"format": self._profile.name} if self._profile else {}),
            "step_limit": self.step_limit,
            "compat": self.compat,
            "include_input_log": self.include_input_log,
            "include_state_log": self.include_state_log,
        }


MOST_TURNS = 200
"""Maximum number of turns in a conversation, because a simulated user might never end it."""


@dataclass(slots=True)
class ConversationAttempt:
    """One attempt at a conversation, with the settings of its target and on simulators of its own (`backend`).

    `step_limit` is the maximum number of requests in one turn, None if unlimited. `recorded` is the recorded
    conversation of a replay. A benchmark's rules (`compat`) log a final answer as undecodable.
    """

    target: ConversationTarget
    scenario: scenarios.Scenario
    model: scenarios.Model
    user: scenarios.User
    dialect: Dialect
    backend: Backend
    step_limit: int | None
    recorded: Episode = field(default_factory=Episode)
    episode: Episode = field(default_factory=Episode, init=False)
    _messages: list[scenarios.Message] = field(default_factory=list, init=False)
    """All messages so far, as the model gets them with the next request."""
    _without_reasoning: dict[int, scenarios.Message] = field(default_factory=dict, init=False)
    """This turn's answers without reasoning, by position in the messages; later turns use them."""

    async def run(self, context: CallContext) -> Episode:
        """Run the conversation and return its events.

        The conversation ends when the user has no further message, when it is ended by force, or after 200 turns.

        Raises:
            EndpointError: a call of the model failed for good. If the context window is full after an answer, the
                episode ends instead, except with `compat`.
            ValueError: the user said nothing in a turn that adds no functions.
        """
        self._record_states()

        for turn in range(MOST_TURNS):
            user_messages = await self.user.say(turn, tuple(self._messages), context)
            if user_messages is None:
                break
            self._begin_turn(turn, user_messages)
            answers = self.episode.turns[-1].answers
            while await self._step(turn, len(answers)):
                if self.step_limit is not None and len(answers) >= self.step_limit:
                    self.episode.add(TurnEnded("step_limit", str(self.target.step_limit)))
                    break
            self._record_states()
            # No turn follows a forced end: the step limit, or a full context.
            if self.episode.forced_quit:
                break

        return self.episode

    def _record_states(self) -> None:
        """Add the simulators' current states to the episode, if states are kept."""
        if self.target.include_state_log:
            self.episode.add(StateSeen(self.backend.state_texts()))

    def _begin_turn(self, turn: int, messages: Sequence[scenarios.Message]) -> None:
        """Add a turn to the episode, its user messages to the model's messages, and its new functions to the offer.

        From now on, the model gets its former answers without their reasoning.

        Raises:
            ValueError: the turn has neither a message nor a new function.
        """
        new_functions = self.scenario.held_out.get(turn)
        if new_functions is not None:
            # The dialect may add a message that announces the functions.
            messages = self.dialect.add(new_functions, messages)

        if not messages:
            raise ValueError(f"turn {turn} (counted from 0) needs a user message, or functions that `held_out` adds")

        if turn == 0:
            messages = self.dialect.open(messages)

        # Answers of the turn that has ended lose their reasoning.
        for position, answer in self._without_reasoning.items():
            self._messages[position] = answer
        self._without_reasoning.clear()

        self._messages.extend(messages)
        self.episode.add(Said(messages))

    async def _step(self, turn: int, step: int) -> bool:
        """Request one answer and make its calls; return True if the model must answer again.

        Both become events of the episode. A full context window ends the conversation; it raises instead with `compat`,
        or if the model never answered.
        """
        # Before the answer: the dialect's tools and the messages as they are sent.
        request = _input_entry(self._messages, self.dialect.tools) if self.target.include_input_log else None

        try:
            completion = await self.model.answer(turn, step, self._messages, self.dialect.tools)
        except EndpointError as error:
            has_answers = any(isinstance(event, Answered) for event in self.episode.events)
            # An overflow in the first request says that the row does not fit at all: an error, not an end.
            if self.target.compat is not None or not has_answers or error_cause(str(error)) != "overflow":
                raise
            self.episode.add(Answered(made=[], request=request))
            self.episode.add(TurnEnded("overflow", str(error)))
            return False

        # A recorded turn has no more steps.
        if completion is None:
            return False

        content = self.dialect.step(completion)
        # In a replay, the calls that were executed then count, not those that the answer reads as today.
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

    def _add_answer(self, message: scenarios.Message, completion: Completion) -> None:
        """Add an answer to the model's messages, with its reasoning for as long as the endpoint wants it back."""
        sent_back = self.target.endpoint.sent_back
        # Remembered here, and put in place when the next turn begins.
        if sent_back == "turn":
            self._without_reasoning[len(self._messages)] = message

        self._messages.append(message if sent_back == "never" else self.dialect.within_turn(message, completion))

    def _ending(self, completion: Completion, content: JSON, reading: Reading) -> str:
        """Return how an answer without readable calls ends its turn: `empty`, `answer` or `unreadable`.

        With `compat`, an answer in words is `unreadable`, because the benchmark logs it so.
        """
        # An answer in words is a problem, too: only an empty one has neither calls nor a problem.
        if reading.problem is None:
            return "empty"

        is_words = not completion.tool_calls and is_answer(content)
        return "answer" if is_words and self.target.compat is None else "unreadable"

    async def _make_calls(self, reading: Reading, message: scenarios.Message) -> None:
        """Make an answer's calls on the simulators, and add the results to the episode and the model's messages.

        Simulators that may block run in a thread, so that other conversations go on.
        """

        def make() -> list[Called]:
            return [Called(call, self.backend.call(call)) for call in reading.calls]

        # `bounded` simulators return at once, so a thread would only cost time.
        bounded = all(simulator.bounded for simulator in self.backend.simulators.values())
        made = make() if bounded else await asyncio.to_thread(make)
        for called in made:
            self.episode.add(called)
        self._messages.extend(self.dialect.results(message, reading, [called.result.text for called in made]))


def _input_entry(messages: Sequence[scenarios.Message], tools: Sequence[Mapping[str, JSON]] | None) -> JSON:
    """Return the log entry of a request; as in BFCL's logs, the messages are one text."""
    content: dict[str, JSON] = {"message": repr([dict(message) for message in messages])}
    if tools is not None:
        content["tools"] = [dict(tool) for tool in tools]
    return {"role": "inference_input", "content": content}
