"""The two sides of a conversation: the data set's turns as the user, an endpoint or a recorded result as the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from tunecheck._json import JSON, real_number, text_or_json, text_or_none, whole_number
from tunecheck._targets import CallContext, Row
from tunecheck.calls._model import FunctionCall, bind_positional, tool_name, write_calls
from tunecheck.datasets._judging import first_value, may_be_left_out
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint, Usage
from tunecheck.endpoints._target import ask, parameters_by_name
from tunecheck.formats._reading import read_python_calls

_DONE = "Done."
_NO_CALL = "None of these functions does that."

Tools: TypeAlias = Sequence[Mapping[str, JSON]]

Message: TypeAlias = Mapping[str, JSON]
"""An OpenAI message."""


def step_row(row: Row, turn: int, step: int, tools: Tools) -> Row:
    """Return a copy of the row with the right answer to one step as its ground truth, for the simulated endpoint.

    The right answer to a turn's first step (step 0) is the turn's calls, to later steps a closing text.
    """
    row_id = f"{row.id} turn {turn} step {step}"
    truth = row.values.get("ground_truth")
    texts = truth[turn] if isinstance(truth, list) and turn < len(truth) else None
    if step > 0 or not isinstance(texts, list) or not texts:
        return _answer_row(row, row_id, _DONE)
    calls = [call for text in texts for call in read_python_calls(str(text)).calls]
    if any("0" in call.arguments for call in calls):  # "0" marks a positional argument
        names = {name: [*(schema.get("properties") or ())] for name, schema in parameters_by_name(tools).items()}
        calls = [bind_positional(call, names.get(call.name, ())) for call in calls]
    return _answer_row(row, row_id, write_calls(calls, "openai"))


def question_row(row: Row, tools: Tools) -> Row:
    """Return a copy of a BFCL question with its first accepted answer as ground truth, for the simulated endpoint.

    Rows of other kinds are returned unchanged.
    """
    check, truth = row.values.get("check"), row.values.get("ground_truth")
    if check == "irrelevance":
        return _answer_row(row, row.id, _NO_CALL)
    schemas = parameters_by_name(tools)
    if check == "relevance":
        return _answer_row(row, row.id, write_calls([FunctionCall(name) for name in [*schemas][:1]], "openai"))
    if check not in ("simple", "multiple", "parallel") or not isinstance(truth, list):
        return row
    required = {name for schema in schemas.values() for name in (schema.get("required") or ())}
    texts_only = row.values.get("language") in ("java", "javascript")
    calls: list[FunctionCall] = []
    for expected in truth:
        for name, options in expected.items() if isinstance(expected, dict) else ():
            arguments = _first_accepted(options, required) if isinstance(options, dict) else {}
            if texts_only:
                arguments = {key: text_or_json(value) for key, value in arguments.items()}
            calls.append(FunctionCall(name if name in schemas else tool_name(name), arguments))
    return _answer_row(row, row.id, write_calls(calls, "openai"))


def _first_accepted(options: Mapping[str, JSON], required: set[str]) -> dict[str, JSON]:
    """Return the first accepted value of each argument that a right call must have; `options` lists all of them."""
    arguments: dict[str, JSON] = {}
    for name, values in options.items():
        given = [value for value in values if value != ""] if isinstance(values, list) else values
        # BFCL allows an empty text, which means that the argument may be left out, for some required parameters, too.
        if not may_be_left_out(values) or (name in required and given):
            arguments[name] = first_value(given)
    return arguments


def _answer_row(row: Row, row_id: str, answer: JSON) -> Row:
    return replace(row, id=row_id, values={**row.values, "ground_truth": answer})


class User(Protocol):
    """Provides the user's messages in one conversation."""

    async def say(self, turn: int, so_far: Sequence[Message], context: CallContext) -> Sequence[Message] | None:
        """Return the messages that begin a turn (from 0); None ends the conversation.

        `so_far` holds all messages so far, in the model's format. Check `context.recall` before every paid call and
        record its answer with `context.record`, so that a resumed run does not pay twice. A turn without messages only
        adds functions.
        """
        ...


class ScriptedUser:
    """Sends the data set's messages turn by turn, whatever the model answers."""

    def __init__(self, turns: Sequence[Sequence[Message]]) -> None:
        self._turns = turns

    async def say(self, turn: int, so_far: Sequence[Message], context: CallContext) -> Sequence[Message] | None:
        return self._turns[turn] if turn < len(self._turns) else None


class Model(Protocol):
    """Provides the model's answers in one conversation."""

    async def answer(self, turn: int, step: int, messages: Sequence[Message], tools: Tools | None) -> Completion | None:
        """Return the answer for a step of a turn (both from 0), or None if the turn ends."""
        ...


@dataclass(frozen=True, slots=True)
class EndpointModel:
    """Calls an endpoint; answers recorded by an earlier, interrupted attempt are reused.

    `in_text`: the conversation's dialect reads calls from the text.
    """

    endpoint: Endpoint
    row: Row
    context: CallContext
    parameters: Mapping[str, JSON]
    tools: Tools
    in_text: bool = False

    async def answer(self, turn: int, step: int, messages: Sequence[Message], tools: Tools | None) -> Completion | None:
        """Return the answer for a step of a turn (both from 0) and journal it.

        If an interrupted run journaled this answer, return it without a request.
        """
        part = f"{turn}.{step}"
        journaled = self.context.recall(part)
        earlier = Completion.of_columns(journaled) if isinstance(journaled, dict) else None
        if earlier is not None:
            return earlier
        request = ChatRequest(
            messages=tuple(messages),
            tools=tools,
            parameters=self.parameters,
            idempotency_key=self.context.idempotency_key(part),
            row=step_row(self.row, turn, step, self.tools) if self.endpoint.simulated else self.row,
        )
        completion = await (self.endpoint.complete(request) if self.in_text else ask(self.endpoint, request))
        self.context.record(part, completion.journaled())
        return completion


class RecordedModel:
    """Returns the steps of a recorded result: a list of turns, each a list of steps, as in BFCL's result files."""

    def __init__(self, record: Mapping[str, JSON]) -> None:
        result = record.get("result")
        self._record = record
        self._turns = result if isinstance(result, list) else []

    async def answer(self, turn: int, step: int, messages: Sequence[Message], tools: Tools | None) -> Completion | None:
        """Return a recorded step as an answer, or None if the turn has no more steps. Turns and steps count from 0."""

        def recorded(name: str) -> JSON:
            return step_item(self._record.get(name), turn, step)

        recorded_step = recorded("result")
        if recorded_step is None:
            return None
        seconds = real_number(recorded("latency"))
        return Completion(
            text=recorded_step if isinstance(recorded_step, str) else None,
            tool_calls=tuple(_tool_calls(recorded_step, f"{turn}_{step}")),
            usage=Usage(whole_number(recorded("input_token_count")), whole_number(recorded("output_token_count"))),
            latency_ms=None if seconds is None else 1000 * seconds,
            reasoning=text_or_none(recorded("reasoning_content")),
            finish_reason=text_or_none(recorded("finish_reason")),
        )

    @property
    def only_text(self) -> bool:
        """True if the recorded result has no step with structured calls."""
        return all(isinstance(step, str) for turn in self._turns if isinstance(turn, list) for step in turn)

    @property
    def turn_count(self) -> int:
        return len(self._turns)


def _tool_calls(step: JSON, stem: str) -> list[Mapping[str, JSON]]:
    """Return a recorded step as OpenAI tool calls with ids such as `call_{stem}_0`.

    A text has no calls. Any other step that is not a list becomes one call without a function, which is unreadable.
    """
    if isinstance(step, str):
        return []
    if not isinstance(step, list):
        return [{"type": "function", "function": None}]
    calls: list[Mapping[str, JSON]] = []
    for item in step:
        for name, arguments in item.items() if isinstance(item, dict) else [(None, item)]:
            function: JSON = {"name": name, "arguments": text_or_json(arguments)}
            calls.append({"id": f"call_{stem}_{len(calls)}", "type": "function", "function": function})
    return calls


def step_item(value: JSON, turn: int, step: int) -> JSON:
    """Return the item of a step in a list of turns, each a list of steps; None if it does not exist."""
    steps = value[turn] if isinstance(value, list) and turn < len(value) else None
    return steps[step] if isinstance(steps, list) and step < len(steps) else None
