"""Glaive's shape of calls, `{"name": "f", "arguments": '{"a": "it's"}'}`: arguments are JSON text in apostrophes."""

from dataclasses import dataclass

from tunecheck._json import JSON
from tunecheck.calls._python_text import PythonScanner
from tunecheck.calls._strict_json import UnreadableError, decode_at, place, skip_space
from tunecheck.formats._collector import CallCollector
from tunecheck.formats._spellings import take_named

_MAX_KEYS = 20  # of a call, which has two


@dataclass(frozen=True, slots=True)
class GlaiveCalls:
    """One object, whose values may be texts in apostrophes with apostrophes in them."""

    def begins(self, text: str, position: int, collector: CallCollector) -> bool:
        """An object."""
        return text.startswith("{", position)

    def read(self, text: str, position: int, mark: str, collector: CallCollector) -> int:
        """One call."""
        position = skip_space(text, position)
        if not text.startswith("{", position):
            raise UnreadableError(f"{mark} is not followed by an object at {place(text, position)}")
        value, position = _glaive_object(text, position)
        take_named(value, collector)
        return position


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
