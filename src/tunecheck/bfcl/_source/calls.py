"""Calls in Java or JavaScript text: `[f(a=new int[]{1, 2}, b="x")]`; arguments stay source text."""

from __future__ import annotations

import re

from tunecheck.calls._bounds import MAX_CHARACTERS
from tunecheck.conversations._nested import NestedCall
from tunecheck.conversations._text_calls import Decoded

_FENCE = re.compile(r"\A```[\w+-]*\s*\n(.*?)\n?```\s*\Z", re.DOTALL)
_CALL = re.compile(r"\s*(?:new\s+)?([\w$.]+)\s*\(")
_KEY = re.compile(r"\s*([\w$]+)\s*=(?!=)\s*")
_NOT_STRUCTURE = re.compile(
    r"(?:[^\"'`()\[\]{},]++|\"(?:[^\"\\]++|\\.)*+\"|'(?:[^'\\]++|\\.)*+'|`(?:[^`\\]++|\\.)*+`)++", re.DOTALL
)
_CLOSERS = {"(": ")", "[": "]", "{": "}"}


def source_calls(text: str) -> Decoded:
    """The calls of a text, in brackets or bare. It never raises."""
    if len(text) > MAX_CHARACTERS:
        return Decoded(problem=f"a text of {len(text)} characters")
    body = text.strip()
    fenced = _FENCE.match(body)
    body = fenced[1].strip() if fenced else body.strip("`")
    body = body[1:-1] if body.startswith("[") and body.endswith("]") else body
    calls: list[NestedCall] = []
    place = 0
    while body[place:].strip(" \t\r\n;"):
        found = _CALL.match(body, place)
        if found is None:
            return Decoded(problem="the answer holds no call")
        arguments, end = _arguments(body, found.end())
        if arguments is None:
            return Decoded(problem=f"a call of {found[1][:60]!r} whose arguments cannot be read")
        calls.append(NestedCall(found[1], arguments))
        rest = body[end:].lstrip()
        place = len(body) - len(rest) + (rest[:1] in (",", ";"))
        if rest and rest[0] not in ",;":
            return Decoded(problem="more text stands after a call")
    return Decoded(tuple(calls))


def _arguments(text: str, place: int) -> tuple[dict[str, object] | None, int]:
    """The arguments up to the closing bracket, positional ones under "0", "1", …; and where they end."""
    arguments: dict[str, object] = {}
    while True:
        key = _KEY.match(text, place)
        start = key.end() if key else place
        end = _expression_end(text, start)
        if end >= len(text):
            return None, end
        value = text[start:end].strip()
        if value:
            arguments[key[1] if key else str(len(arguments))] = value
        if text[end] == ")":
            return arguments, end + 1
        place = end + 1


def _expression_end(text: str, place: int) -> int:
    """Where an argument ends: at the next comma or closing bracket outside of its own brackets."""
    open_ones: list[str] = []
    while place < len(text):
        plain = _NOT_STRUCTURE.match(text, place)
        if plain:
            place = plain.end()
            continue
        here = text[place]
        if here in _CLOSERS:
            open_ones.append(_CLOSERS[here])
        elif open_ones and here == open_ones[-1]:
            open_ones.pop()
        elif not open_ones and here in ",)":
            return place
        place += 1
    return place
