"""Calls in JSON values of no agreed shape, which count only with the name of a tool: `{"f": {…}}`, `["f(a=1)"]`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import TypeAlias

from tunecheck.calls._model import Reading
from tunecheck.calls._python_text import NAME
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.calls._strict_json import UnreadableError, place, quoted
from tunecheck.formats._call_text import BEFORE, LABEL, closed
from tunecheck.formats._collector import CallCollector, failed
from tunecheck.formats._json_shapes import (
    HOLDER,
    NAMES,
    ReadText,
    arguments_in,
    is_bfcl,
    is_definition,
    name_in,
    take_shape,
)

_MOST_BEGUN = 100  # each costs a look at the text's rest
_BEGUN = re.compile(
    rf"(?:^(?i:{LABEL})?|[;,])[ \t]*+(?:(?:{BEFORE})[ \t]*+)?(?:print\()?(?P<opening>[\[{{(\"'` \t]*+)"
    rf"(?:{NAMES.pattern}[\"'][ \t]*+:[ \t]*+[\"'](?P<named>{NAME})[\"'][ \t]*+,"
    rf"|(?:functions\.)?(?P<called>{NAME})(?=\(|[\"'][ \t]*+,[ \t]*+\{{)"
    rf"|(?P<keyed>{NAME})[\"'][ \t]*+:(?=[ \t]*+(?:[\"'{{]|\Z)))",
    re.MULTILINE,
)

_Calls: TypeAlias = list[tuple[str, object]]


def read_value(value: object, tools: ToolDefinitions | None, read_text: ReadText, *, strict: bool) -> Reading | None:
    """The calls of a value, and the text beside them; None where it is data. `strict`: a format was chosen."""
    collector = CallCollector(tools, strict=strict)
    try:
        return collector.reading() if take_value(value, collector, read_text) else None
    except UnreadableError as error:
        return failed("\n".join(collector.texts), collector, error)


def take_value(value: object, collector: CallCollector, read_text: ReadText) -> bool:
    """Find the calls of a value by its shape, or by the names of tools where they are known; False where it is data.

    Raises:
        UnreadableError: it is a call, and not one that can be read.
    """
    if not (collector.gated and is_bfcl(value)) and take_shape(value, collector, read_text):
        return True
    calls = _calls_in(value, collector, read_text) if collector.gated else []
    for name, arguments in calls:
        collector.add("bfcl", name, arguments)
    return bool(calls)


def _calls_in(value: object, collector: CallCollector, read_text: ReadText) -> _Calls:
    """The calls of tools that the value consists of; none where any part of it is something else."""
    if isinstance(value, str):
        reading = read_text(value)
        offered = not reading.text and all(collector.knows(call.name) for call in reading.calls)
        return [(call.name, call.arguments) for call in reading.calls] if offered else []
    if isinstance(value, dict):
        return _named(value, collector) or _under_names(value.items(), collector) or _held(value, collector, read_text)
    if not isinstance(value, (list, tuple)):
        return []
    if len(value) == 2 and (pair := _under_names([(value[0], value[1])], collector)):
        return pair
    calls: _Calls = []
    for item in value:
        found = _calls_in(item, collector, read_text)
        if not found:
            return []
        calls += found
    return calls


def _under_names(items: Iterable[tuple[object, object]], collector: CallCollector) -> _Calls:
    """`{"f": {…}, "g": {…}}`: arguments, as an object or its text, under the names of tools."""
    calls: _Calls = []
    for name, arguments in items:
        written = isinstance(arguments, dict) or (isinstance(arguments, str) and arguments.lstrip()[:1] == "{")
        if not isinstance(name, str) or not collector.knows(name) or not written or is_definition(arguments):
            return []
        calls.append((name, arguments))
    return calls


def _named(value: dict[object, object], collector: CallCollector) -> _Calls:
    """`{"function": "f", "args": {…}}`, whichever words stand for the two."""
    name = name_in(value)
    if isinstance(name, dict):
        return _named(name, collector)
    return _under_names([(name, arguments_in(value))], collector)


def _held(value: dict[object, object], collector: CallCollector, read_text: ReadText) -> _Calls:
    """`{"functions": [{"name": "f", …}]}`, whatever the one key; a single call, or texts beside them, need a word."""
    holders = [key for key, held in value.items() if not isinstance(held, str)]
    if len(holders) != 1:
        return []
    (key,) = holders
    held, announced = value[key], isinstance(key, str) and bool(HOLDER.fullmatch(key))
    if isinstance(held, dict) and announced:
        return _named(held, collector)
    if not isinstance(held, list) or not all(isinstance(item, dict) for item in held):
        return []
    return _calls_in(held, collector, read_text) if announced or len(value) == 1 else []


def refuse_cut(text: str, collector: CallCollector) -> None:
    """Refuses a text in which a call of a tool begins and does not end.

    Raises:
        UnreadableError: there is one.
    """
    for begun in islice(_BEGUN.finditer(text), _MOST_BEGUN):
        name = begun["called"] or begun["keyed"] or begun["named"]
        if collector.knows(name) and closed(text, begun.start("opening")) is None:
            raise UnreadableError(f"the call of {quoted(name)} at {place(text, begun.start('opening'))} is cut off")
