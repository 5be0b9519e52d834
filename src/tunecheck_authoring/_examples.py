"""Turn rows into training examples: the question, the right answer, and the model's wrong answer.

A conversation's expected calls are executed one after another on new simulators, so that each example contains the
results on which the next call depends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

from tunecheck import Row
from tunecheck.calls import TOOL_COLUMNS, FunctionCall, ToolDefinitions, write_calls
from tunecheck.datasets import SOURCE_ID, TRIAL, UnusableRowError
from tunecheck.endpoints import openai_tools, read_messages
from tunecheck.episodes import OwnWording, Player, Scenario, ToolsDialect, question_row, read_scenario, step_row
from tunecheck.formats import read_calls, read_python_calls
from tunecheck.plugins import JSON, RunFile, dumps, loads
from tunecheck.runs import value_reader
from tunecheck.simulators import Backend, Backends

Message: TypeAlias = dict[str, JSON]
Calls: TypeAlias = Sequence[FunctionCall]
Values: TypeAlias = Mapping[str, JSON]

_QUESTIONS = ("messages", "query", "question", "prompt", "input")
_CONVERSATION = ("turns", "inference_log")
_DONE = "Done."
_UNABLE = "I cannot do that with what I have so far."
"""The last messages of turns with and without calls. They are context only: no example trains on them."""


@dataclass(frozen=True, slots=True)
class TrainingReply:
    """An assistant's reply: a text, calls, or both."""

    text: str
    calls: tuple[FunctionCall, ...] = ()

    def message(self, *, arguments_as_text: bool) -> Message:
        """Return the reply as a message; OpenAI takes arguments as JSON text, TRL as objects."""
        if not self.calls:
            return {"role": "assistant", "content": self.text}
        message: Message = {"role": "assistant", "tool_calls": write_calls(self.calls, "openai")}
        if self.text:
            message["content"] = self.text
        return message if arguments_as_text else with_objects(message)


@dataclass(frozen=True, slots=True)
class Example:
    """A training example: the `messages`, the right reply, and the model's wrong reply (None if there was no reply).

    `parallel` is the row's `parallel_tool_calls`. `row_id` is the failed row's id in the run, `source_id` its id in the
    data set, which all trials share. `cause` is the cause of the failure, if known.
    """

    messages: list[Message]
    tools: list[JSON]
    right_reply: TrainingReply
    actual_reply: TrainingReply | None = None
    parallel: bool | None = None
    row_id: str = ""
    source_id: str = ""
    cause: str = ""


def with_objects(message: Message) -> Message:
    """Return a message with the arguments of calls as objects, as chat templates and TRL expect them."""
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [*map(_with_object, calls)]} if isinstance(calls, list) else message


def _with_object(call: JSON) -> JSON:
    """Return a call with its arguments as an object. Unreadable arguments stay text."""
    function = call.get("function") if isinstance(call, dict) else None
    text = function.get("arguments") if isinstance(function, dict) else None
    if isinstance(call, dict) and isinstance(function, dict) and isinstance(text, str):
        with suppress(ValueError):
            return {**call, "function": {**function, "arguments": loads(text)}}
    return call


def is_conversation(row: Values) -> bool:
    """True if a run's row is a conversation."""
    return any(row.get(f"{side}.{name}") for side in ("inputs", "outputs") for name in _CONVERSATION)


class ExampleReader:
    """Reader of one run's rows as examples, by the run's column mapping.

    `backends` starts the simulators of conversations; `question` names the question's column if it has no usual name.
    If `one` is True, a conversation gives one example: the first expected call that was not made. Otherwise it gives an
    example for each expected call from the failed turn on.
    """

    def __init__(self, manifest: RunFile, backends: Backends, *, question: str | None = None, one: bool) -> None:
        """Prepare readers of a row's ground truth, response, tools and messages by the run's column mapping."""
        self._truth = value_reader(manifest, "ground_truth", ("ground_truth", "answer"))
        self._response = value_reader(manifest, "response", ("response",))
        self._tools = value_reader(manifest, "tool_definitions", TOOL_COLUMNS)
        self._messages = value_reader(manifest, "messages", _QUESTIONS if question is None else (question,))
        self._message_columns = question or " or ".join(_QUESTIONS[:2])
        self._backends, self._one = backends, one

    def read(self, row: Values, turn: int = 0) -> Iterator[Example]:
        """Yield the examples of one row; `turn` is the failed turn of a conversation, counted from 0.

        Raises:
            UnusableRowError: The row has no question or no ground truth, or all expected calls were made.
        """
        data = {key.removeprefix("inputs."): value for key, value in row.items() if key.startswith("inputs.")}
        target = {key.removeprefix("outputs."): value for key, value in row.items() if key.startswith("outputs.")}
        row_id, code = str(row.get("row_id")), row.get("cause")
        source_id = str(data.get(SOURCE_ID, row_id)) if TRIAL in data else row_id
        cause = code if isinstance(code, str) else ""
        if is_conversation(row):
            conversation = ExpectedConversation(data, self._backends)
            examples = iter([conversation.differing(target, turn)]) if self._one else conversation.from_turn(turn)
        else:
            examples = iter([self._question(data, target)])
        yield from (replace(example, row_id=row_id, source_id=source_id, cause=cause) for example in examples)

    def _question(self, data: Values, target: Values) -> Example:
        """Return the example of a row with a single question.

        Raises:
            UnusableRowError: the row has no messages or right answer, or its tools cannot be read.
        """
        try:
            tools = [dict(tool) for tool in openai_tools(self._tools(data, target)) or ()]
            messages = [dict(message) for message in read_messages(self._messages(data, {}), self._message_columns)]
            definitions = ToolDefinitions.read(tools)
        except ValueError as error:
            raise UnusableRowError(str(error)) from None
        right, parallel = self._right_reply(data, target, tools, definitions), data.get("parallel_tool_calls")
        wrong = _actual_reply(self._response(data, target), target, definitions)
        return Example(messages, [*tools], right, wrong, parallel if isinstance(parallel, bool) else None)

    def _right_reply(
        self, data: Values, target: Values, tools: list[dict[str, JSON]], definitions: ToolDefinitions
    ) -> TrainingReply:
        """Return the right reply to a question: calls, or a text if the ground truth has no calls.

        Raises:
            UnusableRowError: the ground truth is empty or cannot be read.
        """
        truth = self._truth(data, target)
        if isinstance(data.get("check"), str):  # a question of BFCL: its ground truth lists accepted values
            row = Row(0, "", {**data, "ground_truth": truth}, "")
            truth = question_row(row, tools).values["ground_truth"]
        reading = read_calls(truth, tools=definitions or None)
        if reading.problem is not None:
            raise UnusableRowError(f"the row's ground truth cannot be read: {reading.problem}")
        text = truth if isinstance(truth, str) and not reading.calls else reading.text
        if not text and not reading.calls:
            raise UnusableRowError("the row has no ground truth")
        return TrainingReply(text, reading.calls)


def _actual_reply(response: JSON, target: Values, tools: ToolDefinitions) -> TrainingReply | None:
    """Return the model's reply to a question, or None if it has neither text nor calls."""
    reading = read_calls(response, tools=tools or None)
    if reading.complete_calls:
        text = target.get("text") if isinstance(response, list) else None
        return TrainingReply(text if isinstance(text, str) else reading.text, reading.calls)
    text = response if isinstance(response, str) else target.get("text")
    return TrainingReply(text) if isinstance(text, str) and text else None


class ExpectedConversation:
    """A conversation's expected calls, each with the messages before it.

    Raises:
        UnusableRowError: The row cannot be replayed.
    """

    def __init__(self, data: Values, backends: Backends) -> None:
        """Read a conversation's expected calls and start its simulators.

        Raises:
            UnusableRowError: the row is no conversation, has long context, or its calls cannot be read.
        """
        row = Row(0, "", data, "")
        try:
            self._scenario = read_scenario(row, backends)
            self._backend = backends.start(self._scenario.simulators, self._scenario.config)
        except ValueError as error:
            raise UnusableRowError(str(error)) from None
        if self._scenario.long_context:
            raise UnusableRowError("conversations with long context cannot be exported")
        tools, turns = self._scenario.all_tools(), range(len(self._scenario.turns))
        answers = (step_row(row, turn, 0, tools).values["ground_truth"] for turn in turns)
        self._truth: list[Calls] = [read_calls(answer).calls for answer in answers]
        texts = data.get("ground_truth")
        counts = [len(each) if isinstance(each, list) else 0 for each in texts] if isinstance(texts, list) else None
        if counts != [*map(len, self._truth)]:
            raise UnusableRowError("the calls of the row's ground truth cannot be read")

    def from_turn(self, turn: int) -> Iterator[Example]:
        """Yield an example for each expected call from this turn (counted from 0) on."""
        return (example for at, example in self._examples() if at >= turn)

    def differing(self, target: Values, turn: int) -> Example:
        """Return the example for the first expected call of this turn that the model did not make.

        The rejected reply is the model's wrong call, or else the last text of the turn.

        Raises:
            UnusableRowError: All expected calls were made.
        """
        texts = [text for step in _steps(target, "calls_made", turn) if isinstance(step, list) for text in step]
        actual = [call for text in texts for call in read_python_calls(str(text)).calls]
        for at, example in self._examples():
            right = example.right_reply.calls[0]
            if at == turn and right not in actual:
                wrong = [call for call in actual if call not in self._truth[turn]]
                reply = _wrong_call(right, wrong, self._backend) or _text_reply(target, turn)
                return replace(example, actual_reply=reply)
        raise UnusableRowError("the model made every expected call, so there is no call to prefer")

    def _examples(self) -> Iterator[tuple[int, Example]]:
        """Yield an example for each expected call, with its turn.

        Each call is executed only after its example was yielded, so that the backend has the state before it.
        """
        scenario: Scenario = self._scenario
        dialect = ToolsDialect(scenario.offer, OwnWording())
        messages: list[Message] = []
        for turn, turn_messages in enumerate(scenario.turns):
            added = scenario.held_out.get(turn)
            new = turn_messages if added is None else dialect.add(added, turn_messages)
            messages += [dict(each) for each in new]
            for number, call in enumerate(self._truth[turn]):
                tools: list[JSON] = [dict(tool) for tool in dialect.tools or ()]
                yield turn, Example([*messages], tools, TrainingReply("", (call,)))
                id_ = f"call_{turn}_{number}"
                messages.append({"role": "assistant", "tool_calls": write_calls([replace(call, id=id_)], "openai")})
                messages.append({"role": "tool", "tool_call_id": id_, "content": self._backend.call(call).text})
            messages.append({"role": "assistant", "content": _DONE if self._truth[turn] else _UNABLE})


def _wrong_call(right: FunctionCall, wrong: Calls, backend: Backend) -> TrainingReply | None:
    """Return the wrong call that the model made in place of the right one, as a reply; None if there is none.

    Prefer a call of the same function to one that changes the state or fails. Another call that only reads is no
    mistake.
    """
    same = next((call for call in wrong if call.name == right.name), None)
    player = Player(backend)
    steps = ((call, player.call(call)) for call in wrong)
    call = same or next((call for call, step in steps if step.changes or step.result.error), None)
    return None if call is None else TrainingReply("", (call,))


def _text_reply(target: Values, turn: int) -> TrainingReply | None:
    """Return the last text of a turn as the model's reply, or None if there is none."""
    last = next(reversed(_steps(target, "result", turn)), None)
    return TrainingReply(last) if isinstance(last, str) and last else None


def _steps(target: Values, column: str, turn: int) -> list[JSON]:
    """Return the steps of a turn in a target's column, or an empty list if it has no such turn."""
    turns = target.get(column)
    steps = turns[turn] if isinstance(turns, list) and turn < len(turns) else None
    return steps if isinstance(steps, list) else []


def canonical_key(example: Example, *, with_wrong: bool) -> bytes:
    """Return a key that is equal for examples with the same content, apart from the ids of calls.

    The wrong reply counts only if `with_wrong`.
    """
    wrong = example.actual_reply if with_wrong else None
    messages = (*example.messages, example.right_reply.message(arguments_as_text=True))
    plain: list[JSON] = [_without_ids(message) for message in messages]
    return dumps([plain, example.tools, None if wrong is None else _without_ids(wrong.message(arguments_as_text=True))])


def _without_ids(message: Message) -> JSON:
    """Return a message with only the functions of its calls, because equal calls may have different ids."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    functions: list[JSON] = [call.get("function") if isinstance(call, dict) else call for call in calls]
    return {**message, "tool_calls": functions}
