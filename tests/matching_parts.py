"""Shared parts of the tests of calls: calls in a line, tools, and whether a match is a full one."""

from typing import Any

from tunecheck.calls import FunctionCall, ToolDefinitions
from tunecheck.calls.matching import Match, MatchPolicy, match_calls
from tunecheck.plugins import JSON


def call(name: str, **arguments: JSON) -> FunctionCall:
    return FunctionCall(name, arguments)


def passes(match: Match) -> bool:
    return match.complete and match.arguments_right and not match.extra


def matched(expected: dict[str, JSON], actual: dict[str, JSON], policy: MatchPolicy | None = None) -> bool:
    """Whether one call with these arguments matches one with those."""
    return passes(match_calls([FunctionCall("f", actual)], [FunctionCall("f", expected)], policy))


def tools(schema: JSON, name: str = "f") -> ToolDefinitions:
    """One function with these parameters."""
    return ToolDefinitions.read([{"name": name, "parameters": schema}])


def _tool(name: str, **properties: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


WEATHER_TOOLS = [
    _tool("get_weather", city="string", days="integer"),
    _tool("stop"),
    _tool("set_code", code="string", on="boolean"),
]


def nested(depth: int) -> JSON:
    """A number in a list in a list, and so on."""
    value: JSON = 1
    for _ in range(depth):
        value = [value]
    return value


def calls_of(value: Any) -> Any:
    """Return a side of a table's case, with each object that holds a name and arguments as a call."""
    is_list = isinstance(value, list) and bool(value) and "name" in value[0]
    return [FunctionCall(**each) for each in value] if is_list else value
