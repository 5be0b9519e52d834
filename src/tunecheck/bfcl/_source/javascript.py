"""JavaScript source text as values, exactly as BFCL reads it: by patterns, and as the text itself where none fits.

The patterns know less than JavaScript: elements are split at every comma, an object ends at its first `}`. They are
kept so, because published verdicts depend on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tunecheck.bfcl._source.java import LONGEST

JAVASCRIPT_TYPES: dict[str, type] = {
    "String": str,
    "integer": int,
    "float": float,
    "Bigint": int,
    "Boolean": bool,
    "dict": dict,
    "array": list,
    "any": str,
}
"""The types of the data's definitions, and what values of them are compared as."""

_INTEGER = re.compile(r"-?\d+$")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?$")
_BIGINT = re.compile(r"-?\d+n$")
_ARRAY = re.compile(r"\[(.*?)\]")
_CONSTRUCTED = re.compile(r"new\s+Array\((.*?)\)")
_CONSTRUCTOR = re.compile(r"new\s+Array\(")
_OBJECT = re.compile(r"\{(.*?)\}")
_PAIR = re.compile(r"([^:]+):(.*?)(?:,(?:\s*+(?=[^,]+:)|(?=\s+:))|$)")


def javascript_value(text: str, type_name: str, element_type: str | None) -> object:
    """The value that a parameter of this type gets; the text itself where it is not written as its type asks.

    Raises:
        KeyError: there is no such type.
    """
    read = _READERS[type_name]
    return read(text, element_type) if len(text) <= LONGEST else text


def _text(text: str, _: str | None) -> object:
    quoted = text[:1] in ("'", '"') and text[0] == text[-1]
    return text[1:-1] if quoted else text


def _any(text: str, _: str | None) -> object:
    return text


def _integer(text: str, _: str | None) -> object:
    return int(text) if _INTEGER.match(text) else text


def _float(text: str, _: str | None) -> object:
    return float(text) if _NUMBER.match(text) else text


def _bigint(text: str, _: str | None) -> object:
    return int(text.rstrip("\n")[:-1]) if _BIGINT.match(text) else text


def _boolean(text: str, _: str | None) -> object:
    return {"true": True, "false": False}.get(text, text)


def _array(text: str, element_type: str | None) -> object:
    stripped = text.strip()
    if stripped.startswith("[") and (nested := _lists_inside(stripped, 1, "]")):
        return _untyped_lists(_ARRAY.findall(nested))
    found, constructor = _ARRAY.match(stripped), _CONSTRUCTOR.match(stripped)
    if constructor:
        if nested := _lists_inside(stripped, constructor.end(), ")"):
            return _untyped_lists(_ARRAY.findall(nested[nested.startswith("[[") :]))
        found = _CONSTRUCTED.match(stripped)
    return [_element(part, element_type) for part in _parts(found[1])] if found else stripped


def _lists_inside(text: str, start: int, closer: str) -> str | None:
    """The part of the text from `start` that is lists with commas between, up to a closer; None where it is not.

    A list ends at the first `]` from which the rest can be read so, on the line it began. One pass from the end, as
    a pattern that tries all ways would take time in 2 to the power of the number of lists.
    """
    after = [-1] * (len(text) + 1)  # where the lists end, if one has ended just before this position
    within = [-1] * (len(text) + 1)  # the same, if this position is within a list
    solid = len(text)  # the first position from here on that is no white space
    begun = -1  # `within` behind the `[` that is the next solid character, if it is one
    behind_comma = -1
    for place in range(len(text) - 1, -1, -1):
        character = text[place]
        if character == "\n":
            within[place] = -1
        else:
            ended = after[place + 1] if character == "]" else -1
            within[place] = ended if ended >= 0 else within[place + 1]
        if not character.isspace():
            solid, behind_comma = place, begun if character == "," else -1
            begun = within[place + 1] if character == "[" else -1
        if solid < len(text):
            after[place] = solid if text[solid] == closer else behind_comma
    while start < len(text) and text[start].isspace():
        start += 1
    end = within[start + 1] if text[start : start + 1] == "[" else -1
    return text[start:end] if end >= 0 else None


def _untyped_lists(texts: Sequence[str]) -> list[object]:
    return [[_untyped(part.strip()) for part in text.split(",")] for text in texts]


def _object(text: str, _: str | None) -> object:
    stripped = text.strip()
    found = _OBJECT.match(stripped)
    if not found:
        return stripped
    return {key.strip().strip("\"'"): _member(value.strip()) for key, value in _pairs(found[1])}


def _pairs(text: str) -> list[tuple[str, str]]:
    return _PAIR.findall(text) if ":" in text else []


def _member(text: str) -> object:
    if text.startswith("[") and text.endswith("]"):
        return _array(text, None)
    return _untyped(text.strip("\"'").strip())


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []


def _element(text: str, element_type: str | None) -> object:
    return _untyped(text) if element_type is None else javascript_value(text, element_type, None)


def _untyped(text: str) -> object:
    """A value in an array or object whose type nobody names."""
    if text in ("true", "false"):
        return text == "true"
    if text[:1] in ("'", '"') and text[0] == text[-1]:
        return text[1:-1]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


_READERS: dict[str, Callable[[str, str | None], object]] = {
    "String": _text,
    "integer": _integer,
    "float": _float,
    "Bigint": _bigint,
    "Boolean": _boolean,
    "dict": _object,
    "array": _array,
    "any": _any,
}
