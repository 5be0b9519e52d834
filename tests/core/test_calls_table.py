"""Values and texts of every format and model family, read as calls: a table, and one runner."""

from __future__ import annotations

import json
from typing import Any

from tests.tables import cases

from tunecheck.calls import Reading
from tunecheck.formats import read_calls


def tool(name: str, **properties: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = {
    "get_weather, stop and set_code": [
        tool("get_weather", city="string", days="integer"),
        tool("stop"),
        tool("set_code", code="string", on="boolean"),
    ]
}
"""Definitions that many lines of the table name."""


def seen(reading: Reading) -> dict[str, Any]:
    """Return everything that a line of the table may state about what was read."""
    return {
        "calls": [[call.name, call.arguments] for call in reading.calls],
        "complete_calls": [[call.name, call.arguments] for call in reading.complete_calls],
        "names": [call.name for call in reading.calls],
        "ids": [call.id for call in reading.calls],
        "text": reading.text,
        "format": reading.format,
        "problem": reading.problem,
        "is_problem": bool(reading.problem),
        "reasoning": reading.reasoning,
        "cause": reading.cause,
    }


@cases("calls")
def test_values_are_read_as_the_table_says(value: Any, tools: Any, format: str | None, then: dict[str, Any]) -> None:
    options = {"format": format} if format else {}
    everything = seen(read_calls(value, tools=TOOLS[tools] if isinstance(tools, str) else tools, **options))
    found = {key: everything[key] for key in then}
    assert found == then
    assert json.dumps(found, sort_keys=True) == json.dumps(then, sort_keys=True), "a value has another type"


@cases("calls")
def test_json_text_and_a_fenced_block_of_a_format_read_as_the_format_itself(value: Any) -> None:
    text = json.dumps(value, indent=1)
    reading = read_calls(value)
    assert len(reading.calls) == 2
    assert read_calls(text) == read_calls(text.encode()) == read_calls(f"```json\n{text}\n```") == reading
