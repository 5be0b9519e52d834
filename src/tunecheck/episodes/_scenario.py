"""A row as a conversation: its turns, the functions offered and held out, and the configuration of the simulators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from tunecheck._json import JSON
from tunecheck._targets import Row
from tunecheck.datasets._sources import as_list, as_object, as_text, refuse
from tunecheck.endpoints._target import openai_tools
from tunecheck.episodes._speakers import Message
from tunecheck.simulators._backend import Backends

COLUMNS = (
    "turns", "tools", "functions", "held_out", "held_out_tools", "initial_config", "involved_classes", "long_context",
)  # fmt: skip
"""The columns that a conversation depends on."""

Tool = Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Offer:
    """Functions that a model may call, as OpenAI tools and as documents for a prompt."""

    tools: Sequence[Tool]
    functions: Sequence[JSON]


@dataclass(frozen=True, slots=True)
class Scenario:
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

    @property
    def adds_functions(self) -> bool:
        """Return True if a turn only adds functions and has no message in the data."""
        return any(turn < len(self.turns) and not self.turns[turn] for turn in self.held_out)


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
    added, added_tools = held_out_of(values), held_out_of(values, "held_out_tools")
    added_operations = {item for items in added.values() for item in items if isinstance(item, str)}
    tools: list[Tool] | None = openai_tools(values.get("tools"))
    operations = _operations(names, backends) if tools is None or added_operations else {}
    if tools is None:
        tools = [tool for name, tool in operations.items() if name not in added_operations]
    held_out = {turn: _added_offer(turn, items, added_tools.get(turn), operations) for turn, items in added.items()}
    functions, turns = values.get("functions"), values.get("turns")
    if not isinstance(turns, list) or not turns:
        raise ValueError("column turns must hold a list of turns, each a list of messages")
    return Scenario(
        turns=[_turn(turn, number, number in held_out) for number, turn in enumerate(turns)],
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
        raise ValueError(f"turns[{number}] must be a list of messages; an empty list needs functions in held_out")
    messages = [item for item in value if isinstance(item, dict) and isinstance(item.get("role"), str)]
    if len(messages) != len(value):
        raise ValueError(f"turns[{number}] holds a message without a role")
    return cast("list[Message]", messages)


def simulators_of(row: Mapping[str, object]) -> list[str]:
    """Return the names of a row's simulators, from its column `involved_classes`.

    Raises:
        UnusableRowError: the column has the wrong form.
    """
    names = as_list(row.get("involved_classes"), "involved_classes")
    return [as_text(name, f"involved_classes[{at}]") for at, name in enumerate(names)]


def configuration_of(row: Mapping[str, object]) -> dict[str, JSON]:
    """Return the initial configuration of each simulator by name, from the column `initial_config`; empty without it.

    Raises:
        UnusableRowError: the column has the wrong form.
    """
    config = row.get("initial_config")
    return {} if config is None else as_object(config, "initial_config")


def held_out_of(row: Mapping[str, object], column: str = "held_out") -> dict[int, list[JSON]]:
    """Return the functions that later turns add, from a column of the row, by the number of the turn (from 0).

    Raises:
        UnusableRowError: the column has the wrong form.
    """
    held_out: dict[int, list[JSON]] = {}
    value = row.get(column)
    for turn, items in as_object({} if value is None else value, column).items():
        if not (turn.isascii() and turn.isdigit() and len(turn) < 10 and str(int(turn)) == turn):
            refuse(f"{column} must have turn numbers as keys, not {turn[:60]!r}")
        held_out[int(turn)] = as_list(items, f"{column}[{turn}]")
    return held_out


def _added_offer(turn: int, items: Sequence[JSON], tools: JSON, operations: Mapping[str, Tool]) -> Offer:
    """Return the functions that a turn adds, as tools and as documents for a prompt.

    An item is a function's document or the name of an operation. `tools` are the OpenAI tools of the data; if None,
    the tools are made from the items.

    Raises:
        ValueError: no simulator of the row has the operation.
    """
    for item in items:
        if isinstance(item, str) and item not in operations:
            raise ValueError(f"held_out[{turn}]: no simulator of this row has an operation {item[:60]!r}")
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
