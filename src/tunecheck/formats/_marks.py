"""Calls that a mark in the text announces: Glaive, Hermes and Qwen, Mistral, Llama.

A mark is looked for in the text outside the calls only: what follows it is read as one value, whose strings may hold
any mark. The first mark of a text decides its format. After a mark something must be readable as a call.
"""

import re
from collections.abc import Callable
from typing import TypeAlias

from tunecheck._json import JSON
from tunecheck.calls._python_text import NAME, PythonScanner
from tunecheck.calls._strict_json import UnreadableError, decode_at, place, quoted, skip_space
from tunecheck.formats._json_shapes import CallCollector, take_named

_Reader: TypeAlias = Callable[[str, int, CallCollector], int]

_MAX_KEYS = 20  # of a Glaive call, which has two
_HERMES_END = "</tool_call>"
_GLAIVE_END = re.compile(r"\s*</functioncall>")
_SEPARATOR = re.compile(r"\s*+[;,]?\s*+(?=\{)")
_MISTRAL_NAME = re.compile(r"\s*([^\s\[\]{}\"]+)\s*(?:\[CALL_ID\]\s*([^\s\[\]{}]+)\s*)?(\[ARGS\])?\s*")
_PYTHON_CALL = re.compile(rf"\[?\s*{NAME}\s*\(")


def take_tagged(text: str, collector: CallCollector) -> bool:
    """Find the calls behind the marks in a text, and the text beside them; False where it holds no mark.

    Raises:
        UnreadableError: what follows a mark is not a call.
    """
    start = first_mark(text)
    if start is None:
        return False
    mark = next(mark for mark in MARKS if text.startswith(mark, start))
    collector.format, read = MARKS[mark]
    position = 0
    while start >= 0:
        collector.add_text(text[position:start])
        position = read(text, start + len(mark), collector)
        start = text.find(mark, position)
    collector.add_text(text[position:])
    return True


def first_mark(text: str) -> int | None:
    """Where the first mark stands, if there is one."""
    return min((position for mark in MARKS if (position := text.find(mark)) >= 0), default=None)


def _value_at(text: str, position: int, mark: str) -> tuple[JSON, int]:
    """The object or list after a mark, as JSON or, in apostrophes, as Python writes it."""
    position = skip_space(text, position)
    if text[position : position + 1] not in ("{", "["):
        raise UnreadableError(f"{mark} is not followed by an object at {place(text, position)}")
    try:
        return decode_at(text, position)
    except UnreadableError:
        if text[skip_space(text, position + 1) : skip_space(text, position + 1) + 1] != "'":
            raise
    scanner = PythonScanner(text, position)
    return scanner.value(), scanner.position


# -- Glaive: <functioncall> {"name": "f", "arguments": '{"a": "it's"}'} <|endoftext|> ---------------------------------


def _glaive(text: str, position: int, collector: CallCollector) -> int:
    position = skip_space(text, position)
    if text[position : position + 1] != "{":
        raise UnreadableError(f"<functioncall> is not followed by an object at {place(text, position)}")
    value, position = _glaive_object(text, position)
    take_named(value, collector)
    end = _GLAIVE_END.match(text, position)
    return end.end() if end else position


def _glaive_object(text: str, position: int) -> tuple[JSON, int]:
    """A JSON object in which a value may be JSON text between apostrophes, whose own apostrophes are as they are."""
    made: dict[str, JSON] = {}
    position = skip_space(text, position + 1)
    while text[position : position + 1] != "}":
        key, position = decode_at(text, position)
        position = _expect(text, position, ":")
        if not isinstance(key, str) or key in made or len(made) >= _MAX_KEYS:
            raise UnreadableError(f"no object with name and arguments, at {place(text, position)}")
        value_at = _apostrophes_at if text[position : position + 1] == "'" else decode_at
        made[key], position = value_at(text, position)
        position = skip_space(text, position)
        if text[position : position + 1] != "}":
            position = _expect(text, position, ",")
    return made, position + 1


def _apostrophes_at(text: str, position: int) -> tuple[JSON, int]:
    """`'{…}'`: the JSON value says itself where it ends; `''` is nothing."""
    inside = skip_space(text, position + 1)
    if text[inside : inside + 1] == "'":
        return None, inside + 1
    try:
        value, end = decode_at(text, inside)
        return value, _expect(text, end, "'")
    except UnreadableError as error:
        return _escaped_apostrophes_at(text, position, error)


def _escaped_apostrophes_at(text: str, position: int, error: UnreadableError) -> tuple[JSON, int]:
    r"""The same where apostrophes inside are written `\'`, which JSON does not have: read as Python's text of JSON."""
    if "\\'" not in text:
        raise error
    scanner = PythonScanner(text, position)
    try:
        inner = scanner.value()
        if not isinstance(inner, str):
            raise error
        value, end = decode_at(inner, skip_space(inner, 0))
    except UnreadableError:
        raise error from None
    if inner[end:].strip():
        raise error
    return value, scanner.position


def _expect(text: str, position: int, token: str) -> int:
    position = skip_space(text, position)
    if text[position : position + 1] != token:
        raise UnreadableError(f"expected {token!r} at {place(text, position)}")
    return skip_space(text, position + 1)


# -- Hermes, Qwen: <tool_call>{"name": "f", "arguments": {…}}</tool_call> ---------------------------------------------


def _hermes(text: str, position: int, collector: CallCollector) -> int:
    """One object, or several, up to the closing mark, which may be missing at the text's end."""
    while True:
        value, position = _value_at(text, position, "<tool_call>")
        take_named(value, collector)
        position = skip_space(text, position)
        if text.startswith(_HERMES_END, position):
            return position + len(_HERMES_END)
        if position >= len(text) or text.startswith("<tool_call>", position):
            return position
        if text[position] != "{":
            raise UnreadableError(f"<tool_call> is not closed at {place(text, position)}")


# -- Mistral: [TOOL_CALLS] [{"name": "f", "arguments": {…}}]   [TOOL_CALLS]f[ARGS]{…}   [TOOL_CALLS]f{…} --------------


def _mistral(text: str, position: int, collector: CallCollector) -> int:
    position = skip_space(text, position)
    if text[position : position + 1] in ("[", "{"):
        value, position = _value_at(text, position, "[TOOL_CALLS]")
        take_named(value, collector)
        return position
    named = _MISTRAL_NAME.match(text, position)
    if not named:
        raise UnreadableError(f"[TOOL_CALLS] is not followed by a call at {place(text, position)}")
    position = named.end()
    if text[position : position + 1] == "{":
        arguments, position = decode_at(text, position)
    elif named[3] and (position >= len(text) or text.startswith("[TOOL_CALLS]", position)):
        arguments = None
    else:
        raise UnreadableError(f"[TOOL_CALLS]{quoted(named[1])} has no arguments at {place(text, position)}")
    collector.add("mistral", named[1], arguments, named[2])
    return position


# -- Llama: <|python_tag|>{"name": "f", "parameters": {…}}; {…}   <|python_tag|>f.call(a="x") -------------------------


def _llama(text: str, position: int, collector: CallCollector) -> int:
    position = skip_space(text, position)
    if _PYTHON_CALL.match(text, position):
        return _llama_python(text, position, collector)
    if text[position : position + 1] not in ("{", "["):
        raise UnreadableError(f"<|python_tag|> is followed by code, not by a call, at {place(text, position)}")
    while True:
        value, position = _value_at(text, position, "<|python_tag|>")
        take_named(value, collector)
        another = _SEPARATOR.match(text, position)
        if not another:
            return position
        position = another.end()


def _llama_python(text: str, position: int, collector: CallCollector) -> int:
    """The built-in tools' form: one call in Python's syntax and nothing after it; more than that is code."""
    scanner = PythonScanner(text, position)
    calls = scanner.calls() if text[position] == "[" else [scanner.call()]
    if not scanner.at_end() and not scanner.sees("<|"):
        raise UnreadableError(f"<|python_tag|> is followed by code, not by a call, at {place(text, scanner.position)}")
    for call in calls:
        collector.add("llama", call.name, call.arguments)
    return scanner.position


MARKS: dict[str, tuple[str, _Reader]] = {
    "<functioncall>": ("glaive", _glaive),
    "<tool_call>": ("hermes", _hermes),
    "[TOOL_CALLS]": ("mistral", _mistral),
    "<|python_tag|>": ("llama", _llama),
}
