"""Values that a format writes as bare text, which have a type only by the tool definition."""

import re

from tunecheck._json import JSON
from tunecheck.calls._python_text import PythonScanner
from tunecheck.calls._schemas import Schema
from tunecheck.calls._strict_json import UnreadableError, decode

_LITERAL = re.compile(r"\s*+(?:[\[{(\"']|(?:True|False|None)\s*+\Z)")
_NOTHING = ("null", "None")


def typed(text: str, schema: Schema | None) -> JSON:
    """What a bare text means to its definition; without one, what it looks like. What has no meaning stays text."""
    kinds = schema.types() if schema else frozenset[str]()
    if not kinds:
        return untyped(text)
    if "string" not in kinds:
        return untyped(text)
    if "null" in kinds and text.strip() in _NOTHING:
        return None
    if kinds == {"string"} or kinds == {"string", "null"}:
        return text
    value = untyped(text)
    return value if _kind(value) in kinds else text


def untyped(text: str) -> JSON:
    """The value of JSON or of Python's literals, else the text itself."""
    try:
        return decode(text)
    except UnreadableError:
        return literal(text)


def literal(text: str) -> JSON:
    """The value of a list, dict, text or constant as Python writes it, else the text itself."""
    if not _LITERAL.match(text):
        return text
    scanner = PythonScanner(text)
    try:
        value = scanner.value()
    except UnreadableError:
        return text
    return value if scanner.at_end() else text


def _kind(value: JSON) -> str:
    if isinstance(value, bool):
        return "boolean"
    return {dict: "object", list: "array", type(None): "null"}.get(type(value), "")
