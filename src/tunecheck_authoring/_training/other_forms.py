"""Training files of other forms: ShareGPT, xLAM, Glaive.

ShareGPT, as LLaMA-Factory and others have it: `{"conversations": [{"from": …, "value": …}]}`. Optional keys are
`system`, `tools` (often as JSON text), and for preferences `chosen` and `rejected`, one message each. A call is a
separate turn (`function_call`, with the JSON of one or more calls), or part of the assistant's text in a model family's
format. Results are one turn for each call, or one turn for all calls.

xLAM: `{"query": …, "tools": JSON text, "answers": JSON text}`, with parameters' types in Python.

Glaive: `{"system": "SYSTEM: …", "chat": "USER: … ASSISTANT: … FUNCTION RESPONSE: …"}`. A turn begins at a line that
starts with one of these words. The functions' JSON in the system text becomes `tools`; the sentence that introduces
them stays as the system message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from tunecheck.calls import Reading
from tunecheck.datasets import (
    CALL_EVALUATORS,
    MAX_GROWTH,
    ConversationError,
    Form,
    Record,
    Turns,
    as_object_list,
    as_tools,
)
from tunecheck.formats import read_calls
from tunecheck.plugins import JSON, did_you_mean, value_of

_ROLES = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "model"), "assistant"),
    **dict.fromkeys(("function_call", "tool_call"), "call"),
    **dict.fromkeys(("observation", "tool", "tool_response", "function_response"), "tool"),
    "system": "system",
}
"""The role of each speaker's name. A call is a turn of its own."""
_CONVERSATION = frozenset(("conversations", "system", "tools", "chosen", "rejected"))
"""The keys of a record that describe the conversation; all others become columns of the row."""
_OPEN, _CLOSE = "<tool_response>", "</tool_response>"
"""Marks of results, several of which may be in one turn: `<tool_response>1</tool_response><tool_response>2</…>`."""


def is_sharegpt(record: Record) -> bool:
    """Return True for a list of turns, each with `from` and `value`."""
    turns = record.get("conversations")
    if not isinstance(turns, list) or not turns:
        return False
    return all(isinstance(turn, dict) and turn.keys() >= {"from", "value"} for turn in turns)


def sharegpt_rows(record: Record, number: int) -> list[Record]:
    """Return the rows of one conversation. With preferences, only the chosen answer is trained on.

    `number` is the record's number, which becomes a part of the rows' ids.

    Raises:
        ConversationError: The record is no conversation, or a turn cannot be read.
    """
    conversation = record.get("conversations")
    if not isinstance(conversation, list):
        raise ConversationError(f"'conversations' must be a list of turns, not {conversation!r:.60}")

    columns = {key: value for key, value in record.items() if key not in _CONVERSATION}
    turns = Turns(f"sharegpt-{number}", as_tools(record.get("tools"), "'tools'"), columns)

    if isinstance(system := record.get("system"), str) and system:
        turns.say({"role": "system", "content": system})

    chosen = record.get("chosen")
    _add_all(turns, conversation, trained=chosen is None)
    if chosen is not None:
        _add_all(turns, [chosen], trained=True)
    return turns.rows()


def _add_all(turns: Turns, items: Iterable[JSON], *, trained: bool) -> None:
    """Add turns to the conversation.

    Only assistant turns that are `trained` and have no weight 0 become training targets. Results that follow one
    another are added together, because one result may belong to several calls.

    Raises:
        ConversationError: a turn cannot be read.
    """
    parsed = (_read(turns, turn) for turn in items)
    for role, group in groupby(parsed, key=lambda turn: turn[0]):
        if role == "tool":
            _results(turns, [value for _, value, _ in group])
            continue

        for _, value, weight in group:
            is_trained = trained and weight != 0
            if role == "call":
                reading = read_calls(value)
                if not reading.complete_calls:
                    raise turns.error(reading.problem or "the turn contains no call that can be read")
                turns.answer(reading.text.strip(), reading.calls, trained=is_trained)
            elif role == "assistant":
                turns.answer(value, (), trained=is_trained)
            else:
                turns.say({"role": role, "content": value})


def _read(turns: Turns, turn: JSON) -> tuple[str, str, JSON]:
    """Return the role, the text and the weight (None if missing) of a turn, or raise ConversationError."""
    if not isinstance(turn, dict):
        raise turns.error(f"the turn must be an object with 'from' and 'value', not {turn!r:.60}")

    name, value = turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))
    if not isinstance(name, str) or name not in _ROLES:
        raise turns.error(f"the speaker {str(name)[:60]!r} is unknown{did_you_mean(str(name)[:60], _ROLES)}")

    if not isinstance(value, str):
        raise turns.error(f"the turn's 'value' must be text, not {value!r:.60}")
    return _ROLES[name], value, turn.get("weight")


def _results(turns: Turns, values: list[str]) -> None:
    """Add the results of consecutive turns. A single result of several calls is divided among the calls."""
    results: list[JSON] = [part for value in values for part in _result_parts(value)]
    if len(results) == 1 and turns.waiting > 1:
        results = _share_value(values[0], turns.waiting)
    for result in results:
        turns.result(result)


def _result_parts(value: str) -> Iterator[str]:
    """Yield the texts between the marks of results, or the whole text."""
    pieces = value.split(_OPEN)
    yield from (piece.split(_CLOSE)[0].strip() for piece in pieces[1:]) if len(pieces) > 1 else [value]


def _share_value(value: str, calls: int) -> list[JSON]:
    """Return the items of a JSON list if there is one for each call.

    Otherwise the first call gets the whole value, and the others get an empty text.
    """
    items = value_of(value)
    return items if isinstance(items, list) and len(items) == calls else [value, *[""] * (calls - 1)]


SHAREGPT = Form("sharegpt", "a file of ShareGPT's conversations", is_sharegpt, sharegpt_rows)


# -- xLAM

_XLAM_KEYS = frozenset(("query", "tools", "answers"))
# The type in JSON Schema for each name that Python or JSON Schema has for it.
_TYPE_NAMES = {
    **dict.fromkeys(("str", "string", "text"), "string"),
    **dict.fromkeys(("int", "integer"), "integer"),
    **dict.fromkeys(("float", "number"), "number"),
    **dict.fromkeys(("bool", "boolean"), "boolean"),
    **dict.fromkeys(("list", "array", "tuple", "set", "sequence", "iterable"), "array"),
    **dict.fromkeys(("dict", "object", "mapping"), "object"),
}


def is_xlam(record: Record) -> bool:
    """Return True for a question with tools and answers."""
    return record.keys() >= _XLAM_KEYS and all(isinstance(record[key], (str, list)) for key in _XLAM_KEYS)


def xlam_rows(record: Record, number: int) -> list[Record]:
    """Return the row of one question. Without answers, the right reply makes no call.

    `number` is the record's number, which becomes a part of the row's id.

    Raises:
        ConversationError: The record is no question, or its tools or answers cannot be read.
    """
    query, answers = record.get("query"), as_object_list(record.get("answers"), "'answers'")
    if not isinstance(query, str) or not query.strip():
        raise ConversationError(f"'query' must be a non-empty text, not {query!r:.60}")

    reading = read_calls(answers)
    if reading.problem is not None or len(reading.calls) != len(answers):
        raise ConversationError(reading.problem or "an item of 'answers' is not a call")

    tools = as_tools([_with_schema(tool) for tool in as_object_list(record.get("tools"), "'tools'")], "'tools'")
    columns = {key: value for key, value in record.items() if key not in _XLAM_KEYS}

    turns = Turns(f"xlam-{number}", tools, columns)
    turns.say({"role": "user", "content": query})
    if reading.calls:
        turns.answer("", reading.calls)
    else:
        turns.no_call()
    return turns.rows()


def _with_schema(tool: JSON) -> JSON:
    """Return the tool with a JSON Schema of its parameters, made from their types in Python.

    Tools that have a JSON Schema, or no parameters, are unchanged.

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
            raise ConversationError(f"the parameter {name[:100]!r} in 'tools' must be an object, not {declared!r:.60}")
        kind, optional, _ = str(declared.get("type", "")).partition(", optional")
        properties[name] = {key: value for key, value in declared.items() if key != "type"} | _schema(kind)
        if not optional and "default" not in declared:
            required.append(name)
    return {**tool, "parameters": {"type": "object", "properties": properties, "required": required}}


def _schema(kind: str) -> Record:
    """Return the JSON Schema of a type in Python's syntax; an unknown type allows any value.

    `List[int]` gives `{"type": "array", "items": {"type": "integer"}}`, `Union[int, str]` gives `anyOf`, and
    `Dict[str, int]` gives `{"type": "object"}`.
    """
    name, _, inner = kind.strip().removesuffix("]").partition("[")
    parts = [*_type_parts(inner)]
    match name.strip().lower(), parts:
        case "optional", [only]:
            return _schema(only)
        case "union", _:
            return {"anyOf": [_schema(part) for part in parts]}
        case "list" | "set" | "sequence" | "iterable", [only]:
            return {"type": "array", "items": _schema(only)}
        case plain, _:
            return {"type": _TYPE_NAMES[plain]} if plain in _TYPE_NAMES else {}


def _type_parts(inner: str) -> Iterator[str]:
    """Yield the parts between commas outside brackets: `int` and ` Dict[str, int]` of `int, Dict[str, int]`."""
    depth = start = 0
    for at, mark in enumerate(inner):
        depth += {"[": 1, "]": -1}.get(mark, 0)
        if mark == "," and not depth:
            yield inner[start:at]
            start = at + 1
    if inner[start:].strip():
        yield inner[start:]


XLAM = Form("xlam", "a file of xLAM's questions", is_xlam, xlam_rows, CALL_EVALUATORS)


# -- Glaive

_TURN = re.compile(r"^(USER|ASSISTANT|FUNCTION RESPONSE):", re.MULTILINE)
# Marks in the assistant's text: its end, and the beginning of a call.
_END = "<|endoftext|>"
_CALL = "<functioncall>"
# The beginning of the functions' JSON in a system text: `{"name"`, `[{"name"` or `{}`.
_FUNCTIONS = re.compile(r"(\[\s*)?\{\s*[\"}]")
# White space and commas between the functions.
_GAP = re.compile(r"[ \t\r\n,]*")
# The dash between the sentence and the functions: "Use them if required - {…".
_DASH = re.compile(r"[\s\-–—]+\Z")


def is_glaive(record: Record) -> bool:
    """Return True for a raw Glaive conversation."""
    chat = record.get("chat")
    return isinstance(record.get("system"), str) and isinstance(chat, str) and _TURN.search(chat) is not None


def glaive_rows(record: Record, number: int) -> list[Record]:
    """Return the rows of one raw conversation.

    `number` is the record's number, which becomes a part of the rows' ids.

    Raises:
        ConversationError: The record is not a conversation, or a turn cannot be converted.
    """
    system, chat = _text(record, "system"), _text(record, "chat")

    sentence, functions = _split_system(system)
    turns = Turns(f"glaive-{number}", as_tools(functions, "'system'"))
    if sentence:
        turns.say({"role": "system", "content": sentence})

    for role, body in _turns(chat, system_length=len(system)):
        if role == "ASSISTANT":
            _answer(turns, body)
        elif role == "USER":
            turns.say({"role": "user", "content": body})
        else:
            turns.result(body)
    return turns.rows()


def _answer(turns: Turns, text: str) -> None:
    """Add the assistant's text and calls to the conversation.

    Raises:
        ConversationError: not every `<functioncall>` in the text can be read.
    """
    text = text.replace(_END, "").strip()

    reading = read_calls(text) if _CALL in text else Reading(text=text)
    if reading.problem is not None or len(reading.calls) != text.count(_CALL):
        raise turns.error(reading.problem or f"only {len(reading.calls)} of {text.count(_CALL)} calls can be read")
    turns.answer(reading.text.strip(), reading.calls)


def _text(raw: Record, key: str) -> str:
    """Return a text of the record, or raise ConversationError if it is missing or not text."""
    value = raw.get(key)
    if not isinstance(value, str):
        problem = "is missing" if key not in raw else f"is a {type(value).__name__}, not text"
        raise ConversationError(f"{key!r} {problem}")
    return value


def _turns(chat: str, *, system_length: int) -> Iterator[tuple[str, str]]:
    """Yield the role and the text of each turn.

    `system_length` is the length of the system text, which each row repeats.

    Raises:
        ConversationError: the chat begins with another role or none, or its rows would together be too large.
    """
    before, *parts = _TURN.split(chat)
    roles, texts = parts[::2], parts[1::2]

    if before.strip() or roles[:1] == ["FUNCTION RESPONSE"]:
        raise ConversationError(f"'chat' must begin with USER: or ASSISTANT:, not {chat.strip()[:40]!r}")
    # Each assistant turn may become a row that repeats the whole chat before it.
    if len(roles) * (len(chat) + system_length) > MAX_GROWTH:
        raise ConversationError(f"'chat' is too long (its rows exceed {MAX_GROWTH >> 20} MiB); split the conversation")

    for role, text in zip(roles, texts, strict=True):
        yield role, text.strip()


def _split_system(text: str) -> tuple[str, list[JSON]]:
    """Return the text around the functions in a system text, and the functions."""
    text = text.strip().removeprefix("SYSTEM:").strip()
    start = _FUNCTIONS.search(text)
    if start is None:
        return text, []

    values, end = _json_values(text, start.start())
    sentence, rest = _DASH.sub("", text[: start.start()]), text[end:]
    return f"{sentence}\n{rest}" if rest else sentence, values


def _json_values(text: str, at: int) -> tuple[list[JSON], int]:
    """Return the consecutive JSON objects from this index on, with lists flattened, and the index after them.

    Raises:
        ConversationError: the text there is not JSON.
    """
    # NaN and Infinity, which are not JSON, become null.
    decode = json.JSONDecoder(parse_constant=lambda _: None).raw_decode
    values: list[JSON] = []
    while _FUNCTIONS.match(text, at):
        try:
            value, end = decode(text, at)
        except (ValueError, RecursionError) as error:
            raise ConversationError(f"the functions in 'system' are not JSON: {error}") from None
        values.extend(value if isinstance(value, list) else [value])
        at = _GAP.match(text, end).end()  # type: ignore[union-attr]  # the pattern matches any text
    return values, at


GLAIVE = Form("glaive", "a file of raw Glaive conversations", is_glaive, glaive_rows)
