"""Tool definitions: which functions there are, what they take, and whether a call keeps to it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tunecheck._json import JSON, canonical, loads
from tunecheck.calls._schemas.check import Check, check
from tunecheck.calls._schemas.walk import Schema

_WRAPPERS = ("tools", "functions", "tool_definitions")
_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")
_CACHED_CHARACTERS = 262_144  # a longer text is read anew for each row, so that the cache stays small
_MOST_NESTED = 4  # wrappers in wrappers, JSON text in JSON text


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """One function: its name and the JSON Schema of its parameters, as given."""

    name: str
    parameters: Mapping[str, JSON]

    @property
    def schema(self) -> Schema:
        """The schema as something that can be walked with a value."""
        return Schema(self.parameters, self.parameters)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The parameters in the order of their definition."""
        properties = self.parameters.get("properties")
        return tuple(properties) if isinstance(properties, dict) else ()

    def check(self, arguments: Mapping[str, JSON]) -> Check:
        """Whether these arguments keep to the schema. Never raises; equal schemas are compiled once."""
        if not self.parameters:
            return Check()
        try:
            text = canonical(self.parameters)
        except (TypeError, ValueError) as error:
            return Check(problem=f"the schema of {self.name} cannot be used: {error}"[:300])
        return check(self.name, text, arguments)


class ToolDefinitions:
    """The functions a model was offered, by name.

    Definitions are looked at when they are asked for, never copied; an instance is read-only and can be shared.
    """

    __slots__ = ("_tools",)

    def __init__(self, tools: Mapping[str, Mapping[str, JSON]]) -> None:
        self._tools = tools

    @classmethod
    def read(cls, value: object) -> ToolDefinitions:
        """Read OpenAI `tools`, bare function schemas (`{"name", "description", "parameters"}`), one or a list of them,
        or the JSON text of any of these. None and empty values are no definitions.

        Raises:
            ValueError: it is not JSON, or something in it is no definition of a function; the message says where.
        """
        if value is None or (isinstance(value, (str, list, tuple, dict)) and not value):
            return _NONE
        if isinstance(value, str) and len(value) <= _CACHED_CHARACTERS:
            return _read_text(value)
        return cls(_by_name(value))

    def __bool__(self) -> bool:
        return bool(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def get(self, name: str) -> FunctionDefinition | None:
        """The definition of that function, if there is one."""
        tool = self._tools.get(name)
        return None if tool is None else FunctionDefinition(name, _parameters(tool))


_NONE = ToolDefinitions({})


@functools.lru_cache(maxsize=32)  # most data sets repeat the same few tool sets
def _read_text(text: str) -> ToolDefinitions:
    return ToolDefinitions(_by_name(text))


def _by_name(value: object) -> dict[str, Mapping[str, JSON]]:
    tools: dict[str, Mapping[str, JSON]] = {}
    for place, tool in _flat(value, "tool_definitions", _MOST_NESTED):
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"{place} has no name: a definition is a tool, or an object with name and parameters")
        tools.setdefault(name, tool)
    return tools


def _flat(value: object, place: str, nested: int) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    if nested < 0:
        raise ValueError(f"{place} is nested too deeply for tool definitions")
    if isinstance(value, str):
        yield from _flat(_json(value, place), place, nested - 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _flat(item, f"{place}[{index}]", nested - 1)
    elif isinstance(value, dict):
        yield from _tool(value, place, nested)
    else:
        raise ValueError(f"{place} is no tool definition but {type(value).__name__}")


def _tool(value: dict[str, JSON], place: str, nested: int) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    function = value.get("function")
    if isinstance(function, dict):
        yield f"{place}.function", function
        return
    wrapper = next((key for key in _WRAPPERS if "name" not in value and isinstance(value.get(key), list)), None)
    if wrapper is not None:
        yield from _flat(value[wrapper], f"{place}.{wrapper}", nested - 1)
    else:
        yield place, value


def _json(text: str, place: str) -> JSON:
    try:
        return loads(text)
    except ValueError as error:
        raise ValueError(f"{place} is not JSON: {error}") from None


def _parameters(tool: Mapping[str, JSON]) -> Mapping[str, JSON]:
    for key in _SCHEMA_KEYS:
        schema = tool.get(key)
        if isinstance(schema, dict):
            return schema
        if isinstance(schema, str):  # JSON text inside JSON, as some data sets have it
            try:
                inner = loads(schema)
            except ValueError:
                continue
            if isinstance(inner, dict):
                return inner
    return {}
