"""xLAM's questions: `{"query": …, "tools": JSON text, "answers": JSON text}`, with parameters' types in Python."""

from __future__ import annotations

from collections.abc import Iterator

from tunecheck.datasets import CALL_EVALUATORS, ConversationError, Form, Record, Turns, as_object_list, as_tools
from tunecheck.formats import read_calls
from tunecheck.plugins import JSON

_KEYS = frozenset(("query", "tools", "answers"))
_TYPES = {
    **dict.fromkeys(("str", "string", "text"), "string"),
    **dict.fromkeys(("int", "integer"), "integer"),
    **dict.fromkeys(("float", "number"), "number"),
    **dict.fromkeys(("bool", "boolean"), "boolean"),
    **dict.fromkeys(("list", "array", "tuple", "set", "sequence", "iterable"), "array"),
    **dict.fromkeys(("dict", "object", "mapping"), "object"),
}


def is_xlam(record: Record) -> bool:
    """Return True for a question with tools and answers."""
    return record.keys() >= _KEYS and all(isinstance(record[key], (str, list)) for key in _KEYS)


def xlam_rows(record: Record, number: int) -> list[Record]:
    """Return the row of one question. Without answers, the right reply makes no call.

    Raises:
        ConversationError: The record is no question, or its tools or answers cannot be read.
    """
    query, answers = record.get("query"), as_object_list(record.get("answers"), "'answers'")
    if not isinstance(query, str) or not query.strip():
        raise ConversationError("'query' is not a text, or is blank")
    reading = read_calls(answers)
    if reading.problem is not None or len(reading.calls) != len(answers):
        raise ConversationError(reading.problem or "an item of 'answers' is not a call")
    tools = as_tools([_with_schema(tool) for tool in as_object_list(record.get("tools"), "'tools'")], "'tools'")
    columns = {key: value for key, value in record.items() if key not in _KEYS}
    turns = Turns(f"xlam-{number}", tools, columns)
    turns.say({"role": "user", "content": query})
    if reading.calls:
        turns.answer("", reading.calls)
    else:
        turns.no_call()
    return turns.rows()


def _with_schema(tool: JSON) -> JSON:
    """Return the tool with a JSON Schema of its parameters, made from their types in Python; others are unchanged.

    A parameter is required unless its type says `optional` or it has a default.

    Raises:
        ConversationError: a parameter is not an object.
    """
    parameters = tool.get("parameters") if isinstance(tool, dict) else None
    if not isinstance(tool, dict) or not isinstance(parameters, dict) or isinstance(parameters.get("type"), str):
        return tool
    properties: Record = {}
    required: list[JSON] = []
    for name, declared in parameters.items():
        if not isinstance(declared, dict):
            raise ConversationError(f"the parameter {name[:100]!r} in 'tools' is not an object")
        kind, optional, _ = str(declared.get("type", "")).partition(", optional")
        properties[name] = {key: value for key, value in declared.items() if key != "type"} | _schema(kind)
        if not optional and "default" not in declared:
            required.append(name)
    return {**tool, "parameters": {"type": "object", "properties": properties, "required": required}}


def _schema(kind: str) -> Record:
    """Return the JSON Schema of a type in Python's syntax; an unknown type allows any value."""
    name, _, inner = kind.strip().removesuffix("]").partition("[")
    parts = [*_parts(inner)]
    match name.strip().lower(), parts:
        case "optional", [only]:
            return _schema(only)
        case "union", _:
            return {"anyOf": [_schema(part) for part in parts]}
        case "list" | "set" | "sequence" | "iterable", [only]:
            return {"type": "array", "items": _schema(only)}
        case plain, _:
            return {"type": _TYPES[plain]} if plain in _TYPES else {}


def _parts(inner: str) -> Iterator[str]:
    """Yield the parts between commas outside brackets."""
    depth = start = 0
    for at, mark in enumerate(inner):
        depth += (mark == "[") - (mark == "]")
        if mark == "," and not depth:
            yield inner[start:at]
            start = at + 1
    if inner[start:].strip():
        yield inner[start:]


FORM = Form("xlam", "a file of xLAM's questions", is_xlam, xlam_rows, CALL_EVALUATORS)
