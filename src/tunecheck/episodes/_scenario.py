"""A row as a conversation: its turns, functions and simulators, and the two sides that speak.

The user sends the data set's turns. An endpoint or a recorded result answers as the model. Example of a row:

  {"turns": [[{"role": "user", "content": "Go to docs."}], [{"role": "user", "content": "List it."}]],
   "involved_classes": ["GorillaFileSystem"], "initial_config": {"GorillaFileSystem": {…}},
   "held_out": {"1": ["ls"]}, "ground_truth": [["cd(folder='docs')"], ["ls()"]]}

The operation `ls` is offered only from the second turn on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from tunecheck._json import JSON, real_number, text_or_json, text_or_none, whole_number
from tunecheck._targets import CallContext, Row
from tunecheck.calls._model import bind_positional, write_calls
from tunecheck.datasets._sources import as_list, as_object, as_text, refuse
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint, Usage
from tunecheck.endpoints._target import ask, openai_tools, parameters_by_name
from tunecheck.formats._reading import read_python_calls
from tunecheck.simulators._backend import Backends

COLUMNS = (
    "turns", "tools", "functions", "held_out", "held_out_tools", "initial_config", "involved_classes", "long_context",
)  # fmt: skip
"""The columns that a conversation depends on."""

Tool = Mapping[str, JSON]
Tools: TypeAlias = Sequence[Tool]

Message: TypeAlias = Mapping[str, JSON]
"""An OpenAI message."""

_DONE = "Done."


class Offer(msgspec.Struct, frozen=True):
    """Functions that a model may call, as OpenAI tools and as documents for a prompt."""

    tools: Sequence[Tool]
    functions: Sequence[JSON]


class Scenario(msgspec.Struct, frozen=True):
    """A row's conversation.

    `held_out` are the functions that are added at the beginning of a turn (from 0). `config` is the simulators' initial
    configuration.
    """

    turns: Sequence[Sequence[Message]]
    offer: Offer
    held_out: Mapping[int, Offer]
    simulators: Sequence[str]
    config: Mapping[str, JSON]
    long_context: bool

    def all_tools(self) -> list[Tool]:
        """Return the tools of the first turn and those that later turns add."""
        return [*self.offer.tools, *(tool for offer in self.held_out.values() for tool in offer.tools)]


def read_scenario(row: Row, backends: Backends) -> Scenario:
    """Read the conversation that a row describes: its turns, functions and simulators.

    `turns` is a list of lists of messages and the only required column. `involved_classes` names the simulators,
    `initial_config` holds the configuration of each. `tools` are OpenAI tools or function schemas, by default all
    operations of the simulators. `functions` are the documents in the prompt of a model without tools, by default the
    tools' functions. `held_out` maps a turn's number to functions, or names of operations, that are offered only from
    that turn on; `held_out_tools` gives them as OpenAI tools, if these differ.

    Raises:
        ValueError: a column has the wrong form; the text names the column and the place.
        PluginError: a simulator does not exist.
    """
    values = row.values
    names = [] if values.get("involved_classes") is None else simulators_of(values)

    # A simulator's operations are offered at once, except those that a later turn adds by name.
    added, added_tools = held_out_of(values), held_out_of(values, "held_out_tools")
    added_operations = {item for items in added.values() for item in items if isinstance(item, str)}

    tools: list[Tool] | None = openai_tools(values.get("tools"))
    # Simulators are loaded only if their operations are needed here.
    operations = _operations(names, backends) if tools is None or added_operations else {}
    if tools is None:
        tools = [tool for name, tool in operations.items() if name not in added_operations]

    held_out = {turn: _added_offer(turn, items, added_tools.get(turn), operations) for turn, items in added.items()}
    functions, turns = values.get("functions"), values.get("turns")
    if not isinstance(turns, list) or not turns:
        raise ValueError("the column `turns` must hold a list of turns, each a list of messages")

    return Scenario(
        turns=[_turn(turn, number, number in held_out) for number, turn in enumerate(turns)],
        # Without `functions`, the prompt of a text model has the same functions as the tools.
        offer=Offer(tools, functions if isinstance(functions, list) else [_document(tool) for tool in tools]),
        held_out=held_out,
        simulators=names,
        config=configuration_of(values),
        long_context=values.get("long_context") is True,
    )


def _turn(value: JSON, number: int, may_be_empty: bool) -> list[Message]:
    """Return the messages of the turn with this number.

    Raises:
        ValueError: the turn is not a list of messages with roles, or is empty although it may not be.
    """
    if not isinstance(value, list) or not (value or may_be_empty):
        raise ValueError(f"turns[{number}] must be a list of messages (empty only if `held_out` adds functions to it)")

    messages = [item for item in value if isinstance(item, dict) and isinstance(item.get("role"), str)]
    if len(messages) != len(value):
        raise ValueError(f"turns[{number}] holds a message without a role: add one, such as user")

    return cast("list[Message]", messages)


def simulators_of(row: Mapping[str, object]) -> list[str]:
    """Return the names of a row's simulators, from its column `involved_classes`.

    Raises:
        UnusableRowError: the column has the wrong form.
    """
    names = as_list(row.get("involved_classes"), "involved_classes")
    return [as_text(name, f"involved_classes[{number}]") for number, name in enumerate(names)]


def configuration_of(row: Mapping[str, object]) -> dict[str, JSON]:
    """Return the initial configuration of each simulator by name, from the column `initial_config`; empty without it.

    Raises:
        UnusableRowError: the column has the wrong form.
    """
    config = row.get("initial_config")
    return {} if config is None else as_object(config, "initial_config")


def held_out_of(row: Mapping[str, object], column: str = "held_out") -> dict[int, list[JSON]]:
    """Return the functions that later turns add, from a column of the row, by the number of the turn (from 0).

    Return an empty dict without the column.

    Example: `{"2": ["ls"]}` adds `ls` in the third turn.

    Raises:
        UnusableRowError: the column has the wrong form.
    """
    held_out: dict[int, list[JSON]] = {}
    value = row.get(column)

    for turn, items in as_object({} if value is None else value, column).items():
        # Keys of JSON are texts. `02` is a second spelling of a turn, and `²` a digit for Python, but no number.
        if not (turn.isascii() and turn.isdigit() and len(turn) < 10 and str(int(turn)) == turn):
            refuse(f"the keys of `{column}` must be turn numbers from 0, not {turn[:60]!r}")
        held_out[int(turn)] = as_list(items, f"{column}[{turn}]")

    return held_out


def _added_offer(turn: int, items: Sequence[JSON], tools: JSON, operations: Mapping[str, Tool]) -> Offer:
    """Return the functions that a turn adds, as tools and as documents for a prompt.

    An item is a function's document or the name of an operation. `tools` are the OpenAI tools of the data; if None,
    the tools are made from the items.

    Raises:
        ValueError: no simulator of the row has the operation, or a tool has the wrong form.
    """
    # A name can only mean an operation of the row's simulators.
    for item in items:
        if isinstance(item, str) and item not in operations:
            raise ValueError(f"held_out[{turn}]: the row's simulators lack operation {item[:60]!r}: correct its name")

    documents = [_document(operations[item]) if isinstance(item, str) else item for item in items]
    if tools is None:
        tools = cast("JSON", [operations[item] if isinstance(item, str) else item for item in items])
    return Offer(openai_tools(tools) or [], documents)


def _document(tool: JSON | Tool) -> JSON:
    """Return the function's document in an OpenAI tool, or None if the value is no tool."""
    return tool.get("function") if isinstance(tool, Mapping) else None


def _operations(names: Sequence[str], backends: Backends) -> dict[str, Tool]:
    """Return the tool definitions of all operations of these simulators, by operation name."""
    definitions = [definition for name in names for definition in backends.find(name).tool_definitions()]
    functions = ((definition.get("function"), definition) for definition in definitions)
    return {str(function.get("name")): tool for function, tool in functions if isinstance(function, dict)}


# -- the user and the model


def step_row(row: Row, turn: int, step: int, tools: Tools) -> Row:
    """Return a copy of the row with the right answer to one step as its ground truth, for the simulated endpoint.

    The right answer to a turn's first step (step 0) is the turn's calls. To later steps, and in turns without calls, it
    is a closing text.
    """
    # The id varies with the step, so that the simulated endpoint draws anew for each.
    row_id = f"{row.id} turn {turn} step {step}"
    truth = row.values.get("ground_truth")
    texts = truth[turn] if isinstance(truth, list) and turn < len(truth) else None

    if step > 0 or not isinstance(texts, list) or not texts:
        return _answer_row(row, row_id, _DONE)

    calls = [call for text in texts for call in read_python_calls(str(text)).calls]
    # OpenAI's calls name all arguments, so positional ones get the names of the parameters.
    if any("0" in call.arguments for call in calls):  # "0" marks a positional argument
        names = {name: [*(schema.get("properties") or ())] for name, schema in parameters_by_name(tools).items()}
        calls = [bind_positional(call, names.get(call.name, ())) for call in calls]

    return _answer_row(row, row_id, write_calls(calls, "openai"))


def _answer_row(row: Row, row_id: str, answer: JSON) -> Row:
    """Return a copy of the row with this id and with the answer as its ground truth."""
    # Without `check`, the answer is not read as a question's accepted values.
    return replace(row, id=row_id, values={**row.values, "ground_truth": answer, "check": None})


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
        """Return the data set's messages of a turn (from 0), or None after its last turn."""
        return self._turns[turn] if turn < len(self._turns) else None


class EndpointModel(msgspec.Struct, frozen=True):
    """Calls an endpoint; answers recorded by an earlier, interrupted attempt are reused.

    `in_text`: the conversation's dialect reads calls from the text.
    """

    endpoint: Endpoint
    row: Row
    context: CallContext
    tools: Tools
    in_text: bool = False

    async def answer(self, turn: int, step: int, messages: Sequence[Message], tools: Tools | None) -> Completion | None:
        """Return the answer for a step of a turn (both from 0) and journal it.

        If an interrupted run journaled this answer, return it without a request.

        Raises:
            EndpointError: the request failed for good.
        """
        part = f"{turn}.{step}"  # the step's key in the journal: `2.0` is the third turn's first step
        journaled = self.context.recall(part)
        earlier = Completion.of_columns(journaled) if isinstance(journaled, dict) else None
        if earlier is not None:
            return earlier

        request = ChatRequest(
            messages=tuple(messages),
            tools=tools,
            idempotency_key=self.context.idempotency_key(part),
            row=step_row(self.row, turn, step, self.tools) if self.endpoint.simulated else self.row,
        )

        # `ask` also reads calls from the text; a text dialect reads them itself.
        completion = await (self.endpoint.complete(request) if self.in_text else ask(self.endpoint, request))
        self.context.record(part, completion.journaled())
        return completion


class RecordedModel:
    """Returns the steps of a recorded result: a list of turns, each a list of steps, as in BFCL's result files."""

    def __init__(self, record: Mapping[str, JSON]) -> None:
        result = record.get("result")
        self._record = record
        self._turns = result if isinstance(result, list) else []
        self.turn_count = len(self._turns)

    async def answer(self, turn: int, step: int, messages: Sequence[Message], tools: Tools | None) -> Completion | None:
        """Return a recorded step as an answer, or None if there is no step or it is null. Turns and steps count from 0.

        `messages` and `tools` do not matter.
        """

        def recorded(name: str) -> JSON:
            return step_item(self._record.get(name), turn, step)

        recorded_step = recorded("result")

        if recorded_step is None:
            return None
        # The log has seconds, a completion milliseconds.
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
        """True if all recorded steps are texts, or if there is no step."""
        return all(isinstance(step, str) for turn in self._turns if isinstance(turn, list) for step in turn)


Model: TypeAlias = EndpointModel | RecordedModel
"""Provides the model's answers in one conversation; None as an answer ends the turn."""


def _tool_calls(step: JSON, stem: str) -> list[Mapping[str, JSON]]:
    """Return a recorded step as OpenAI tool calls with ids such as `call_{stem}_0`.

    A text has no calls. Any other step that is not a list becomes one call without a function, which is unreadable.

    Example: `[{"cd": {"folder": "docs"}}]` becomes one call of `cd` with the arguments as JSON text.
    """
    if isinstance(step, str):
        return []

    if not isinstance(step, list):
        return [{"type": "function", "function": None}]

    calls: list[Mapping[str, JSON]] = []
    for item in step:
        # An object may hold several calls; any other item is an unreadable call.
        for name, arguments in item.items() if isinstance(item, dict) else [(None, item)]:
            function: JSON = {"name": name, "arguments": text_or_json(arguments)}
            calls.append({"id": f"call_{stem}_{len(calls)}", "type": "function", "function": function})

    return calls


def step_item(value: JSON, turn: int, step: int) -> JSON:
    """Return `value[turn][step]`, the item of a step of a conversation; None if it does not exist."""
    steps = value[turn] if isinstance(value, list) and turn < len(value) else None
    return steps[step] if isinstance(steps, list) and step < len(steps) else None
