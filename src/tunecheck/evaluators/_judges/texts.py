"""Values of a row as a judge's prompt shows them: calls in one form, conversations line by line, data between marks."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping

from tunecheck._json import JSON, canonical, dumps, plain
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.calls._writing import canonical_text
from tunecheck.formats._reading import cached_reading, read_calls, tools_of

_MOST_TOOLS = 20_000
"""Characters of tool definitions that a prompt shows."""

_CALLS = frozenset({"tool_calls", "function_call"})
_SAID = _CALLS | {"content"}


def given(value: object) -> object:
    """The value; None for the NaN that pandas puts where a column has nothing."""
    return None if isinstance(value, float) and value != value else value


def shown(value: object, tool_definitions: object = None) -> str:
    """A response, a question or a context as text.

    A text stands as it is; calls (of these tools, where it cannot be told otherwise) in their canonical form, messages
    as `role: content`; other data as its JSON.
    """
    value = given(value)
    if value is None:
        return ""
    tools = tools_of(tool_definitions)
    if isinstance(value, str):
        reading = cached_reading(value, tools)
        return canonical_text(reading.calls) if reading.calls else value
    messages = value if isinstance(value, (list, tuple)) and all(map(_is_message, value)) else ()
    # A single message of the assistant is the answer itself, not a conversation.
    if len(messages) > 1 or (messages and messages[0]["role"] != "assistant"):
        return "\n".join(map(_message, messages))
    reading = cached_reading(value, tools)
    return canonical_text(reading.calls) if reading.calls else reading.text or _json(value)


def data_mark(values: Mapping[str, object]) -> str:
    """Twelve hex digits that stand around the data of a prompt.

    They are a hash of all the data, so that equal rows give equal prompts. No value holds the mark of its row: where
    one does, by chance or by design, the next hash is taken.
    """
    data = canonical(plain(dict(values)))
    for number in itertools.count():
        mark = hashlib.blake2b(data, digest_size=6, salt=number.to_bytes(8, "big")).hexdigest()
        if mark.encode() not in data:
            return mark
    raise AssertionError  # there are more marks than any data can hold


def defined_tools(definitions: ToolDefinitions, calls: Iterable[FunctionCall]) -> str:
    """The definitions of the functions that are called, a line each; empty where there are none."""
    names = dict.fromkeys(call.name for call in calls)
    tools = [definition for name in names if (definition := definitions.get(name)) is not None]
    lines = [dumps({"name": tool.name, "parameters": dict(tool.parameters)}).decode() for tool in tools]
    text = "\n".join(lines)
    return text if len(text) <= _MOST_TOOLS else f"{text[:_MOST_TOOLS]}…"


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and not _SAID.isdisjoint(value)


def _message(message: dict[str, JSON]) -> str:
    content = message.get("content")
    role = str(message["role"])
    is_text = isinstance(content, str) and _CALLS.isdisjoint(message)
    calls = read_calls([message]).calls if role == "assistant" and not is_text else ()
    said = content if isinstance(content, str) else "" if calls or content is None else _json(content)
    return f"{role}: " + "\n".join(part for part in (said, canonical_text(calls)) if part.strip())


def _json(value: object) -> str:
    try:
        return dumps(value).decode()
    except TypeError as error:
        raise ValueError(f"a value has no form that a judge could be shown: {error}") from None
