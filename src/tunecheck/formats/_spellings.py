"""Calls with unusual keys or without keys. A call is accepted only if its name is a known tool.

`{"function": "f", "args": {…}}`, `{"f": {…}}`, `["f(a=1)"]`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from tunecheck.calls._model import Reading
from tunecheck.calls._strict_json import UnreadableError, decode, kind_of, quoted
from tunecheck.formats._collector import CallCollector

ReadText: TypeAlias = Callable[[str], Reading]
_Object: TypeAlias = dict[Any, Any]  # any keys and values: from a user, or decoded from JSON
_Calls: TypeAlias = list[tuple[str, object]]

_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object"})
ANSWERING = frozenset({"directly-answer", "directly_answer", "Final Answer", "no_function"})
_CALLED = "(?:tool|function|func|fn|api|action|method|command|call)"
NAMES = re.compile(rf"(?i:(?:{_CALLED}_?)?name|{_CALLED})")
_ARGUMENTS = re.compile(rf"(?i:(?:{_CALLED}_?)?(?:arg(?:ument)?s?|param(?:eter)?s?|inputs?|kwargs|payload))")
"""Keys that models use for the name and the arguments, besides the usual ones."""

HOLDER = re.compile(rf"(?i:(?:{_CALLED}s?_?)?(?:calls?|uses?)|{_CALLED}s?)")
"""Keys that models use for whole calls."""


def take_named(value: object, collector: CallCollector) -> None:
    """Collect the calls of a value after a mark: one object with name and arguments, or a list of objects.

    Raises:
        UnreadableError: the value is neither.
    """
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    for each in value if isinstance(value, list) else [value]:
        item = decode(each) if isinstance(each, str) else each
        if not isinstance(item, dict):
            raise UnreadableError(f"call {len(collector.calls) + 1} is {kind_of(item)}, not an object")
        inner = item.get("function")
        held = inner if isinstance(inner, dict) and "name" not in item else item
        name = name_in(held)
        if isinstance(name, str) and name in ANSWERING:
            continue
        if "arguments" not in held and is_definition(held.get("parameters")):
            raise UnreadableError(f"{quoted(name)} is defined as a tool, not called")
        collector.add(collector.format, name, arguments_in(held), first_of(item, "id", "tool_call_id"))


def name_in(item: _Object) -> object:
    """Return the name of the called function, under any of the usual keys."""
    return first_of(item, "name", *_keys_like(item, NAMES))


def arguments_in(item: _Object) -> object:
    """Return the arguments of a call, under any of the usual keys."""
    return first_of(item, *_keys_like(item, _ARGUMENTS))


def _keys_like(item: _Object, words: re.Pattern[str]) -> list[str]:
    return [key for key in item if isinstance(key, str) and words.fullmatch(key)]


def first_of(item: Mapping[Any, Any], *keys: str) -> object:
    return next((item[key] for key in keys if item.get(key) is not None), None)


def is_definition(parameters: object) -> bool:
    """Return whether these are the parameters of a tool definition, not arguments of a call."""
    if not isinstance(parameters, dict):
        return False
    if parameters.get("type") == "object" or isinstance(parameters.get("properties"), dict):
        return True
    kinds = [value.get("type") if isinstance(value, dict) else None for value in parameters.values()]
    return bool(kinds) and all(isinstance(kind, str) and kind in _TYPES for kind in kinds)


def offered_calls(value: object, collector: CallCollector, read_text: ReadText) -> _Calls:
    """Return the calls of tools in a value, or an empty list if any part of the value is not such a call."""
    if isinstance(value, str):
        reading = read_text(value)
        offered = not reading.text and all(collector.knows(call.name) for call in reading.calls)
        return [(call.name, call.arguments) for call in reading.calls] if offered else []
    if isinstance(value, dict):
        return (
            _read_named(value, collector)
            or _under_names(value.items(), collector)
            or _held(value, collector, read_text)
        )
    if not isinstance(value, (list, tuple)):
        return []
    if len(value) == 2 and (pair := _under_names([(value[0], value[1])], collector)):
        return pair
    calls: _Calls = []
    for item in value:
        found = offered_calls(item, collector, read_text)
        if not found:
            return []
        calls += found
    return calls


def _under_names(items: Iterable[tuple[object, object]], collector: CallCollector) -> _Calls:
    """Read `{"f": {…}, "g": {…}}`: arguments, as objects or JSON text, under the names of tools."""
    calls: _Calls = []
    for name, arguments in items:
        written = isinstance(arguments, dict) or (isinstance(arguments, str) and arguments.lstrip()[:1] == "{")
        if not isinstance(name, str) or not collector.knows(name) or not written or is_definition(arguments):
            return []
        calls.append((name, arguments))
    return calls


def _read_named(value: dict[object, object], collector: CallCollector) -> _Calls:
    """Read `{"function": "f", "args": {…}}`, under any of the usual keys."""
    name = name_in(value)
    if isinstance(name, dict):
        return _read_named(name, collector)
    return _under_names([(name, arguments_in(value))], collector)


def _held(value: dict[object, object], collector: CallCollector, read_text: ReadText) -> _Calls:
    """Read `{"functions": [{"name": "f", …}]}`. A single call, or other texts beside it, need a key like `HOLDER`."""
    holders = [key for key, held in value.items() if not isinstance(held, str)]
    if len(holders) != 1:
        return []
    (key,) = holders
    held, announced = value[key], isinstance(key, str) and bool(HOLDER.fullmatch(key))
    if isinstance(held, dict) and announced:
        return _read_named(held, collector)
    if not isinstance(held, list) or not all(isinstance(item, dict) for item in held):
        return []
    return offered_calls(held, collector, read_text) if announced or len(value) == 1 else []
