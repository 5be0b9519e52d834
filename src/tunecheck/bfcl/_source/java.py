"""Java source text as values, exactly as BFCL reads it: by patterns, and as the text itself where none fits.

The patterns know less than Java: elements are split at every comma, `List.of` is unknown, a `long` needs its `L`. They
are kept so, because published verdicts depend on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

JAVA_TYPES: dict[str, type] = {
    "byte": int,
    "short": int,
    "integer": int,
    "float": float,
    "double": float,
    "long": int,
    "boolean": bool,
    "char": str,
    "Array": list,
    "ArrayList": list,
    "Set": set,
    "HashMap": dict,
    "Hashtable": dict,
    "Queue": list,
    "Stack": list,
    "String": str,
    "any": str,
}
"""The types of the data's definitions, and what values of them are compared as."""

_INTEGER = re.compile(r"-?\d+$")
_LONG = re.compile(r"-?\d+[lL]$")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$")
_FLOAT = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[fF]$")

_ARRAY = re.compile(r"new\s+\w+\[\]\s*\{(.*?)\}")
_AS_LIST = re.compile(r"new\s+ArrayList<\w*>\(Arrays\.asList\((.+?)\)\)")
_LIST_BLOCK = re.compile(r"new\s+ArrayList<\w*>\(\)\s*\{\{(.+?)\}\}", re.DOTALL)
_EMPTY_LIST = re.compile(r"new\s+ArrayList<\w*>\(\)")
_ADD = re.compile(r"add\((.+?)\)")
_MAP_BLOCK = re.compile(r"new\s+HashMap<.*?>\s*\(\)\s*\{(.*?)\}", re.DOTALL)
_EMPTY_MAP = re.compile(r"new\s+HashMap<.*?>\s*\(\)", re.DOTALL)
_PUT = 'put("'

LONGEST = 10_000
"""Longest text, in characters, that is read as a value: the patterns take the square of the length."""


def java_value(text: str, type_name: str, element_type: str | None) -> object:
    """The value that a parameter of this type gets; the text itself where it is not written as its type asks.

    Raises:
        KeyError: there is no such type, or no reader for it.
    """
    read = _READERS[type_name]
    return read(text, element_type) if len(text) <= LONGEST else text


def _integer(text: str, _: str | None) -> object:
    return int(text) if _INTEGER.match(text) else text


def _float(text: str, _: str | None) -> object:
    return float(text.rstrip("\n")[:-1]) if _FLOAT.match(text) else text


def _double(text: str, _: str | None) -> object:
    return float(text) if _NUMBER.match(text) else text


def _long(text: str, _: str | None) -> object:
    return int(text.rstrip("\n")[:-1]) if _LONG.match(text) else text


def _boolean(text: str, _: str | None) -> object:
    return {"true": True, "false": False}.get(text, text)


def _text(text: str, _: str | None) -> object:
    return text


def _array(text: str, element_type: str | None) -> object:
    found = _ARRAY.search(text.strip())
    return [_element(part, element_type) for part in _parts(found[1]) if part] if found else text


def _array_list(text: str, element_type: str | None) -> object:
    stripped = text.strip()
    if found := _AS_LIST.search(stripped):
        return [_list_element(part, element_type) for part in _parts(found[1])]
    if found := _LIST_BLOCK.search(stripped):
        return [_list_element(part.strip(), element_type) for part in _ADD.findall(found[1])]
    return [] if _EMPTY_LIST.search(stripped) else text


def _hash_map(text: str, _: str | None) -> object:
    stripped = text.strip()
    if found := _MAP_BLOCK.search(stripped):
        return {key: _untyped(value.strip()) for key, value in _puts(found[1])}
    return {} if _EMPTY_MAP.search(stripped) else text


def _puts(text: str) -> Iterator[tuple[str, str]]:
    """Key and value of each `put("…", …)`: the key ends at the first `",` after which there is a `)` on the line."""
    place = text.find(_PUT)
    while place >= 0:
        line_end = _line_end(text, place)
        start = place + len(_PUT)
        comma, place = text.find('",', start, line_end), text.find(_PUT, place + 1)
        while comma >= 0:
            value = comma + 2 + len(text[comma + 2 :]) - len(text[comma + 2 :].lstrip())
            end = text.find(")", value, _line_end(text, value))
            if end >= 0:
                yield text[start:comma], text[value:end]
                place = text.find(_PUT, end)
                break
            comma = text.find('",', comma + 1, line_end)


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return end if end >= 0 else len(text)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _list_element(text: str, element_type: str | None) -> object:
    return text[1:-1] if element_type in ("String", "char") else _element(text, element_type)


def _element(text: str, element_type: str | None) -> object:
    return _untyped(text) if element_type is None else java_value(text, element_type, None)


def _untyped(text: str) -> object:
    """A value in a list or map whose type nobody names."""
    if text.startswith('"') and text.endswith('"'):
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    for pattern, read in ((_LONG, int), (_FLOAT, float)):
        if pattern.match(text):
            return read(text[:-1])
    return text


_READERS: dict[str, Callable[[str, str | None], object]] = {
    "byte": _integer,
    "short": _integer,
    "integer": _integer,
    "float": _float,
    "double": _double,
    "long": _long,
    "boolean": _boolean,
    "char": _text,
    "String": _text,
    "any": _text,
    "Array": _array,
    "ArrayList": _array_list,
    "HashMap": _hash_map,
}
