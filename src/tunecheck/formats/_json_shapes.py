"""Calls in JSON values: the shapes of OpenAI, of Azure AI agents, `tool_uses`, `function_call` and BFCL's dicts.

An object or a list is a call when its keys say so, and data otherwise. Definitions of tools look much like calls of
them; they have no arguments.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from tunecheck._json import JSON
from tunecheck.calls._model import PARALLEL, FunctionCall, Reading
from tunecheck.calls._strict_json import (
    MAX_CALLS,
    MAX_DEPTH,
    UnreadableError,
    check_size,
    decode,
    exact,
    kind_of,
    quoted,
)

_PREFIX = "functions."
_END_MARKS = ("<|endoftext|>", "<|eom_id|>", "<|eot_id|>", "<|end_of_text|>", "<|im_end|>", "</s>")
_FIRST_MARKS = re.compile(rf"(?:\s*+(?:{'|'.join(map(re.escape, _END_MARKS))}))++")


def without_end_marks(text: str) -> str:
    """The text without the marks with which models end a message, and without white space at its end."""
    end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        mark = next((mark for mark in _END_MARKS if text.endswith(mark, 0, end)), None)
        if not mark:
            return text[:end]
        end -= len(mark)


class CallCollector:
    """The calls and texts read so far; `format` is that of the first call.

    `add` and `add_tool_use` raise `UnreadableError`, which says which call it is about.
    """

    __slots__ = ("calls", "format", "texts")

    def __init__(self) -> None:
        self.calls: list[FunctionCall] = []
        self.texts: list[str] = []
        self.format: str | None = None

    def reading(self) -> Reading:
        """Everything collected."""
        return Reading(tuple(self.calls), "\n".join(self.texts), self.format)

    def add_text(self, text: str) -> None:
        """Text beside the calls; white space and end marks around it are not text."""
        if "<" in text:
            first = _FIRST_MARKS.match(text)
            text = without_end_marks(text[first.end() :] if first else text)
        if said := text.strip():
            self.texts.append(said)

    def add_reading(self, other: Reading) -> None:
        """The calls and the text of another reading."""
        if other.problem:
            self.format = self.format or other.format
            raise UnreadableError(other.problem)
        for call in other.calls:
            self._append(call, other.format)
        self.add_text(other.text)

    def add(self, wire_format: str | None, name: object, arguments: object = None, identity: object = None) -> None:
        """One call; its arguments are an object or JSON text of one, and none where they are missing or empty."""
        self.format = self.format or wire_format
        if not isinstance(name, str) or not name.strip():
            raise UnreadableError(f"call {len(self.calls) + 1} has no name")
        try:
            read = _arguments(arguments)
        except UnreadableError as error:
            raise UnreadableError(f"call {len(self.calls) + 1} ({quoted(name)}): {error}") from None
        if name == PARALLEL:
            self._add_wrapped(wire_format, read)
        else:
            self._append(
                FunctionCall(str.__str__(name), read, identity if isinstance(identity, str) else None), wire_format
            )

    def add_tool_use(self, wire_format: str | None, use: object) -> None:
        """One call in the shape `{"recipient_name": "functions.f", "parameters": {…}}`."""
        if not isinstance(use, dict):
            self.format = self.format or wire_format
            raise UnreadableError(f"call {len(self.calls) + 1} is {kind_of(use)}, not an object")
        name = use.get("recipient_name")
        if isinstance(name, str):
            name = name.removeprefix(_PREFIX)
        self.add(wire_format, name, use.get("parameters"), use.get("id"))

    def _add_wrapped(self, wire_format: str | None, arguments: dict[str, JSON]) -> None:
        uses = arguments.get("tool_uses")
        if not isinstance(uses, list):
            raise UnreadableError(f"call {len(self.calls) + 1} ({PARALLEL}) has no list 'tool_uses'")
        for use in uses:
            self.add_tool_use(wire_format, use)

    def _append(self, call: FunctionCall, wire_format: str | None) -> None:
        if len(self.calls) >= MAX_CALLS:
            raise UnreadableError(f"more than {MAX_CALLS} calls")
        self.format = self.format or wire_format
        self.calls.append(call)


def _arguments(value: object) -> dict[str, JSON]:
    if isinstance(value, dict):
        read = exact(value)
    elif value is None or value == "":
        return {}
    elif isinstance(value, str):
        read = _decoded(value)
    else:
        read = exact(value)
    if not isinstance(read, dict):
        raise UnreadableError(f"the arguments are {kind_of(read)}, not an object")
    return read


def _decoded(text: str) -> JSON:
    check_size(text)
    if text.isspace():
        return {}
    try:
        read = decode(text, MAX_DEPTH)
    except UnreadableError as error:
        raise UnreadableError(
            f"the arguments are {error}" if str(error).startswith("not ") else f"in the arguments, {error}"
        ) from None
    return {} if read is None else read


ReadText: TypeAlias = Callable[[str], Reading]
_Object: TypeAlias = dict[Any, Any]  # of any keys and values: given by a user, or decoded from JSON
_Taker: TypeAlias = Callable[[_Object, CallCollector], None]

_SPEAKERS = frozenset({"assistant", "model"})
_ROLES = _SPEAKERS | {"user", "system", "developer", "tool", "function"}
_BARE_KEYS = frozenset({"name", "arguments", "parameters", "id", "type", "call_id", "tool_call_id", "index", "status"})
_FUNCTION_NAME = re.compile(r"[^\s{}\[\]()\"'<>]+")


def take_shape(value: object, collector: CallCollector, read_text: ReadText) -> bool:
    """Find the calls of a dict or list, and the text beside them; False where it is data, not calls or messages.

    `read_text` reads the text of a message that has no calls of its own.

    Raises:
        UnreadableError: it is a call by its keys, and not one that can be read.
    """
    if isinstance(value, (list, tuple)):
        return _take_list(value, collector, read_text)
    if not isinstance(value, dict):
        return False
    if not _ENVELOPES.keys().isdisjoint(value):
        for key, take in _ENVELOPES.items():
            if key in value and take(value, collector, read_text):
                return True
    taker = _call_item(value)
    if taker:
        taker(value, collector)
    elif _is_message(value):
        _take_message(value, collector, read_text)
    return taker is not None or _is_message(value)


def take_named(value: object, collector: CallCollector) -> None:
    """The calls in a value that its surroundings have announced: one object with name and arguments, or a list of such.

    Raises:
        UnreadableError: it is neither.
    """
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, dict):
            raise UnreadableError(f"call {len(collector.calls) + 1} is {kind_of(item)}, not an object")
        inner = item.get("function")
        held = inner if isinstance(inner, dict) and "name" not in item else item
        arguments = held["arguments"] if "arguments" in held else held.get("parameters")
        collector.add(collector.format, held.get("name"), arguments, item.get("id"))


# -- envelopes: objects that hold calls -------------------------------------------------------------------------------


def _take_tool_uses(value: _Object, collector: CallCollector, _: ReadText) -> bool:
    if _is_number(value["tool_uses"]):
        return False
    collector.format = collector.format or "tool_uses"
    for use in _listed(value["tool_uses"], "tool_uses"):
        collector.add_tool_use("tool_uses", use)
    _say_content(value, collector)
    return True


def _take_tool_calls(value: _Object, collector: CallCollector, read_text: ReadText) -> bool:
    if _is_message(value) or _is_number(value["tool_calls"]):
        return False
    _take_message({**value, "role": "assistant"}, collector, read_text)
    return True


def _take_choice(value: _Object, collector: CallCollector, read_text: ReadText) -> bool:
    return isinstance(value["message"], dict) and take_shape(value["message"], collector, read_text)


def _take_completion(value: _Object, collector: CallCollector, read_text: ReadText) -> bool:
    choices = value["choices"]
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict) or "message" not in choices[0]:
        return False
    return _take_choice(choices[0], collector, read_text)


def _take_response(value: _Object, collector: CallCollector, read_text: ReadText) -> bool:
    output = value["output"]
    return value.get("object") == "response" and isinstance(output, list) and _take_list(output, collector, read_text)


def _take_conversation(value: _Object, collector: CallCollector, read_text: ReadText) -> bool:
    messages = value["messages"]
    return isinstance(messages, list) and any(map(_is_message, messages)) and _take_list(messages, collector, read_text)


_ENVELOPES: dict[str, Callable[[_Object, CallCollector, ReadText], bool]] = {
    "tool_uses": _take_tool_uses,
    "tool_calls": _take_tool_calls,
    "message": _take_choice,
    "choices": _take_completion,
    "output": _take_response,
    "messages": _take_conversation,
}


# -- messages ---------------------------------------------------------------------------------------------------------


def _is_message(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    role = value.get("role")
    return isinstance(role, str) and role in _ROLES


def _take_message(message: _Object, collector: CallCollector, read_text: ReadText) -> None:
    if message["role"] not in _SPEAKERS:
        return
    before = len(collector.calls)
    for call in _listed(message.get("tool_calls"), "tool_calls"):
        _take_tool_call(call, collector)
    if isinstance(message.get("function_call"), dict):
        _take_legacy(message, collector)
    content = message.get("content")
    texts = [content] if isinstance(content, str) else []
    for part in content if isinstance(content, list) else ():
        texts += _take_part(part, collector)
    if len(collector.calls) == before:
        collector.add_reading(read_text("\n".join(texts)))
    else:
        collector.texts += filter(str.strip, texts)


def _take_part(part: object, collector: CallCollector) -> list[str]:
    """One part of a message's content, or an item beside calls: a call, text (given back), or nothing to us."""
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        return []
    taker = _call_item(part)
    if taker:
        taker(part, collector)
    elif part["type"] in ("text", "output_text") and isinstance(part.get("text"), str):
        return [part["text"]]
    return []


def _say_content(value: _Object, collector: CallCollector) -> None:
    content = value.get("content")
    if isinstance(content, str):
        collector.add_text(content)


def _is_number(value: object) -> bool:
    """A count under a key that elsewhere holds calls: data."""
    return isinstance(value, (int, float))


def _listed(value: object, key: str) -> Iterable[object]:
    if value is None or value == "":
        return ()
    if not isinstance(value, (list, tuple)):
        raise UnreadableError(f"{key} is {kind_of(value)}, not a list")
    return value


# -- single calls -----------------------------------------------------------------------------------------------------


def _call_item(item: _Object) -> _Taker | None:
    """Who reads this object as one call; None where it is not one."""
    kind = item.get("type")
    if kind == "function_call" and "name" in item:
        return _take_responses_item
    if kind == "tool_call" and ("name" in item or isinstance(item.get("tool_call"), dict)):
        return _take_azure_item
    function = item.get("function")
    if isinstance(function, dict) and "name" in function and ("arguments" in function or "id" in item):
        return _take_tool_call
    if "recipient_name" in item:
        return _take_recipient
    if isinstance(item.get("function_call"), dict) and "role" not in item:
        return _take_legacy
    return _take_bare if _is_bare(item) else None


def _is_bare(item: _Object) -> bool:
    """`{"name", "arguments"}`, or Llama's `{"name", "parameters"}` where it is not the definition of a function."""
    if "name" not in item or not _BARE_KEYS.issuperset(item):
        return False
    if "arguments" in item:
        return "parameters" not in item
    name, parameters = item["name"], item.get("parameters")
    if not isinstance(name, str) or not _FUNCTION_NAME.fullmatch(name) or not isinstance(parameters, dict):
        return False
    return not (parameters.get("type") == "object" or isinstance(parameters.get("properties"), dict))


def _take_bare(item: _Object, collector: CallCollector) -> None:
    if "arguments" in item:
        collector.add("function_call", item["name"], item["arguments"], item.get("id"))
    else:
        collector.add("llama", item["name"], item["parameters"], item.get("id"))


def _take_tool_call(call: object, collector: CallCollector) -> None:
    """OpenAI's: `{"id", "type": "function", "function": {"name", "arguments": "json text"}}`."""
    collector.format = collector.format or "openai"
    function = call.get("function") if isinstance(call, dict) else None
    if isinstance(call, dict) and isinstance(function, dict):
        collector.add("openai", function.get("name"), function.get("arguments"), call.get("id"))
    elif isinstance(call, dict) and ("name" in call or call.get("type") in ("function_call", "tool_call")):
        (_call_item(call) or take_named)(call, collector)
    else:
        raise UnreadableError(f"call {len(collector.calls) + 1} has no function")


def _take_responses_item(item: _Object, collector: CallCollector) -> None:
    collector.add("openai", item["name"], item.get("arguments"), _first(item, "call_id", "id"))


def _take_azure_item(item: _Object, collector: CallCollector) -> None:
    inner = item.get("tool_call")
    if "name" not in item and isinstance(inner, dict):  # as older agents wrote it
        function = inner.get("function")
        held = function if isinstance(function, dict) else inner
        collector.add("azure_agent", held.get("name"), held.get("arguments"), inner.get("id"))
    else:
        collector.add("azure_agent", item.get("name"), item.get("arguments"), _first(item, "tool_call_id", "id"))


def _first(item: _Object, *keys: str) -> object:
    return next((item[key] for key in keys if item.get(key) is not None), None)


def _take_recipient(item: _Object, collector: CallCollector) -> None:
    collector.add_tool_use("tool_uses", item)


def _take_legacy(item: _Object, collector: CallCollector) -> None:
    call = item["function_call"]
    collector.add("function_call", call.get("name"), call.get("arguments"))
    if "role" not in item:
        _say_content(item, collector)


# -- lists ------------------------------------------------------------------------------------------------------------


def _take_list(items: list[Any] | tuple[Any, ...], collector: CallCollector, read_text: ReadText) -> bool:
    if _is_bfcl_text(items):
        return _take_bfcl(items, collector)
    takers = [_list_item(item, read_text) for item in items]
    if not any(takers):
        return _is_bfcl(items) and _take_bfcl(items, collector)
    calls = sum(1 for item, taker in zip(items, takers, strict=True) if taker and not _is_message(item))
    for number, (item, taker) in enumerate(zip(items, takers, strict=True), 1):
        if taker:
            taker(item, collector)
        elif isinstance(item, dict) and isinstance(item.get("type"), str):
            collector.texts += _take_part(item, collector)
        elif calls:
            raise UnreadableError(f"item {number} of the list of calls is {kind_of(item)} that is not a call")
    return True


def _list_item(item: object, read_text: ReadText) -> Callable[[Any, CallCollector], None] | None:
    if isinstance(item, dict):
        if _is_message(item):
            return lambda message, collector: _take_message(message, collector, read_text)
        return _call_item(item)
    return _take_call if isinstance(item, FunctionCall) else None


def _take_call(call: FunctionCall, collector: CallCollector) -> None:
    collector.add(None, call.name, call.arguments, call.id)


def _is_bfcl_text(items: Iterable[object]) -> bool:
    """`[{"f": "{…}"}]`: a text that begins an object under the one key; no other shape has that."""
    texts = [next(iter(item.values())) if isinstance(item, dict) and len(item) == 1 else None for item in items]
    return bool(texts) and all(isinstance(text, str) and text.lstrip()[:1] == "{" for text in texts)


def _is_bfcl(items: Iterable[object]) -> bool:
    """`[{"f": {…}}]`: objects of one key that could be a function's name, each with an object or empty text."""
    sure = False
    for item in items:
        if not isinstance(item, dict) or len(item) != 1:
            return False
        ((name, arguments),) = item.items()
        if not isinstance(name, str) or not _FUNCTION_NAME.fullmatch(name):
            return False
        text = arguments.lstrip() if isinstance(arguments, str) else None
        if not isinstance(arguments, dict) and arguments is not None and text != "" and (text or "")[:1] != "{":
            return False
        sure = sure or isinstance(arguments, dict) or bool(text)
    return sure


def _take_bfcl(items: Iterable[_Object], collector: CallCollector) -> bool:
    for item in items:
        ((name, arguments),) = item.items()
        collector.add("bfcl", name, arguments)
    return True
