"""Calls in JSON values: the shapes of OpenAI, of Azure AI agents, `tool_uses`, `function_call` and BFCL's dicts.

An object or a list is a call when its keys say so, and data otherwise. Definitions of tools look much like calls of
them; they have no arguments.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.calls._strict_json import UnreadableError, kind_of
from tunecheck.formats._api_shapes import content_of, is_call_part, message_of, take_part, take_thoughts_of
from tunecheck.formats._collector import CallCollector, failed
from tunecheck.formats._spellings import (
    ANSWERING,
    ReadText,
    first_of,
    is_definition,
    name_in,
    offered_calls,
    take_named,
)

_Object: TypeAlias = dict[Any, Any]  # of any keys and values: given by a user, or decoded from JSON
_Taker: TypeAlias = Callable[[_Object, CallCollector], None]

_SPEAKERS = frozenset({"assistant", "model"})
_ROLES = _SPEAKERS | {"user", "system", "developer", "tool", "function"}
_BARE_KEYS = frozenset({"name", "arguments", "parameters", "id", "type", "call_id", "tool_call_id", "index", "status"})
_BARE = frozenset({"name", "arguments"})
_OPENAI = frozenset({"id", "type", "function"})
_FUNCTION_NAME = re.compile(r"[^\s{}\[\]()\"'<>]+")


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
    calls = offered_calls(value, collector, read_text) if collector.gated else []
    for name, arguments in calls:
        collector.add("bfcl", name, arguments)
    return bool(calls)


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
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return False
    if value.get("object") == "text_completion" and isinstance(choices[0].get("text"), str):
        collector.add_reading(read_text(choices[0]["text"]))
        return True
    return "message" in choices[0] and _take_choice(choices[0], collector, read_text)


def _take_batch_line(value: _Object, collector: CallCollector, read_text: ReadText) -> bool:
    """A line of a batch's output file, `{"custom_id", "response"}`, as OpenAI, Azure OpenAI and vLLM write them."""
    return "custom_id" in value and take_shape(value["response"], collector, read_text)


def _take_http_reply(value: _Object, collector: CallCollector, read_text: ReadText) -> bool:
    status = value.get("status_code")
    if isinstance(status, int) and status >= 400:
        raise UnreadableError(f"the reply has status {status}: it is an error, not an answer")
    return status is not None and take_shape(value["body"], collector, read_text)


def _take_response(value: _Object, collector: CallCollector, read_text: ReadText) -> bool:
    output = value["output"]
    if not isinstance(output, list):
        return False
    held = "object" not in value and any(isinstance(item, dict) and _call_item(item) for item in output)
    return (held or value.get("object") == "response") and _take_list(output, collector, read_text)


def _take_other_reply(value: _Object, collector: CallCollector, read_text: ReadText) -> bool:
    message = message_of(value)
    return message is not None and take_shape(message, collector, read_text)


def _take_parts(value: _Object, collector: CallCollector, read_text: ReadText) -> bool:
    parts = content_of(value)
    if (
        _is_message(value)
        or not isinstance(parts, list)
        or not any(isinstance(p, dict) and is_call_part(p) for p in parts)
    ):
        return False
    _take_message({**value, "role": "assistant"}, collector, read_text)
    return True


def _take_output(value: _Object, collector: CallCollector, read_text: ReadText) -> bool:
    return _take_response(value, collector, read_text) or _take_other_reply(value, collector, read_text)


def _take_required_action(value: _Object, collector: CallCollector, read_text: ReadText) -> bool:
    """A run of an agent that waits for what its calls come to."""
    action = value["required_action"]
    return isinstance(action, dict) and take_shape(action.get("submit_tool_outputs"), collector, read_text)


def _take_conversation(value: _Object, collector: CallCollector, read_text: ReadText) -> bool:
    messages = value["messages"]
    return isinstance(messages, list) and any(map(_is_message, messages)) and _take_list(messages, collector, read_text)


_ENVELOPES: dict[str, Callable[[_Object, CallCollector, ReadText], bool]] = {
    "tool_uses": _take_tool_uses,
    "tool_calls": _take_tool_calls,
    "message": _take_choice,
    "choices": _take_completion,
    "response": _take_batch_line,
    "body": _take_http_reply,
    "output": _take_output,
    "required_action": _take_required_action,
    "candidates": _take_other_reply,
    "content": _take_parts,
    "parts": _take_parts,
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
    take_thoughts_of(message, collector)
    content = content_of(message)
    texts = [content] if isinstance(content, str) else []
    for part in content if isinstance(content, list) else ():
        texts += _take_part(part, collector)
    if len(collector.calls) == before:
        collector.add_reading(read_text("\n".join(texts)))
    else:
        collector.texts += filter(str.strip, texts)


def _take_part(part: object, collector: CallCollector) -> list[str]:
    """One part of a message's content, or an item beside calls: a call, text (given back), or nothing to us."""
    if not isinstance(part, dict):
        return []
    others = take_part(part, collector)
    if others is not None:
        return others
    taker = _call_item(part)
    if taker:
        taker(part, collector)
    elif part.get("type") in ("text", "output_text") and isinstance(part.get("text"), str):
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
    if item.keys() == _BARE:  # as most are
        return _take_bare
    function = item.get("function")
    if item.keys() == _OPENAI and isinstance(function, dict) and "name" in function:  # and most others
        return _take_tool_call
    if is_call_part(item):
        return _take_other_part
    kind = item.get("type")
    if kind == "function_call" and "name" in item:
        return _take_responses_item
    if kind == "tool_call" and ("name" in item or isinstance(item.get("tool_call"), dict)):
        return _take_azure_item
    if isinstance(function, dict) and "name" in function and ("arguments" in function or "id" in item):
        return _take_tool_call
    if "recipient_name" in item:
        return _take_recipient
    if "tool_name" in item and isinstance(item.get("parameters"), dict):
        return _take_cohere_item
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
    return not is_definition(parameters)


def _take_bare(item: _Object, collector: CallCollector) -> None:
    collector.ambiguous = True
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
    elif isinstance(call, dict) and ("type" in call or name_in(call) is not None):
        taker = _call_item(call)
        (take_named if taker in (None, _take_bare) else taker)(call, collector)  # announced by its key, it is not bare
    else:
        raise UnreadableError(f"call {len(collector.calls) + 1} has no function")


def _take_other_part(part: _Object, collector: CallCollector) -> None:
    take_part(part, collector)


def _take_responses_item(item: _Object, collector: CallCollector) -> None:
    collector.add("openai", item["name"], item.get("arguments"), first_of(item, "call_id", "id"))


def _take_azure_item(item: _Object, collector: CallCollector) -> None:
    inner = item.get("tool_call")
    if "name" not in item and isinstance(inner, dict):  # as older agents wrote it
        function = inner.get("function")
        held = function if isinstance(function, dict) else inner
        collector.add("azure_agent", held.get("name"), held.get("arguments"), inner.get("id"))
    else:
        arguments = item.get("arguments", item.get("args"))  # LangChain's
        collector.add("azure_agent", item.get("name"), arguments, first_of(item, "tool_call_id", "id"))


def _take_cohere_item(item: _Object, collector: CallCollector) -> None:
    """What Command models write, `{"tool_call_id", "tool_name", "parameters"}`; one tool of theirs is to answer."""
    if item["tool_name"] not in ANSWERING:
        collector.ambiguous = True
        collector.add("command_r", item["tool_name"], item["parameters"], item.get("tool_call_id"))


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
        return is_bfcl(items) and _take_bfcl(items, collector)
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


def is_bfcl(items: object) -> bool:
    """`[{"f": {…}}]`: objects of one key that could be a function's name, each with an object or empty text.

    Data look like that too; with texts of objects throughout, they do not.
    """
    sure = False
    if not isinstance(items, (list, tuple)) or _is_bfcl_text(items):
        return False
    for item in items:
        if not isinstance(item, dict) or len(item) != 1 or is_call_part(item):
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
    collector.ambiguous = True
    for item in items:
        ((name, arguments),) = item.items()
        collector.add("bfcl", name, arguments)
    return True
