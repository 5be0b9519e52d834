"""Calls in JSON values: objects that are calls, replies and messages that contain calls, and BFCL's dicts.

The keys of an object decide whether it is a call or data. Objects and lists are tested in this order:

1. an object around calls: a reply of an API, a line of a batch file, an agent's run (`_take_envelope`)
2. one call, in the first of `_SHAPES` that fits
3. a message of the model, with its calls, reasoning and text (`_take_message`)
4. a list of these, or of BFCL's dicts such as `[{"f": "{\"a\": 1}"}]` (`_take_list`)
5. if the row's tools are known: calls of tools under other keys, or without keys (`offered_calls`)

Definitions of tools look like calls, but have no arguments. `read_calls` passes values to `read_value`, and the readers
of texts pass JSON inside texts to `take_value`. Endpoints read replies with the functions for messages.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from tunecheck.calls._model import FunctionCall, Reading, UnreadableError, decode, kind_of, quoted
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.formats._collector import CallCollector, failed_reading

_Object: TypeAlias = Mapping[Any, Any]  # any keys and values: from a user, or decoded from JSON
_List: TypeAlias = list[Any] | tuple[Any, ...]
ReadText: TypeAlias = Callable[[str], Reading]


def read_value(value: object, tools: ToolDefinitions | None, read_text: ReadText, *, strict: bool) -> Reading | None:
    """Return the reading of a value, or None if it is data.

    If `strict` is set, the user chose a format, and calls of unknown tools count, too. `read_text` reads the text of a
    message without other calls.
    """
    collector = CallCollector(tools, strict=strict)
    try:
        return collector.reading() if take_value(value, collector, read_text) else None
    except UnreadableError as error:
        collector.calls.clear()  # if one call of an API's list is unreadable, none counts
        return failed_reading("\n".join(collector.texts), collector, error)


def take_value(value: object, collector: CallCollector, read_text: ReadText) -> bool:
    """Collect the calls of a value by its shape or by the names of known tools. Return False if it is data.

    Raises:
        UnreadableError: the value is a call that cannot be read.
    """
    if not collector.gated:
        return _take_shape(value, collector, read_text)

    # Data may look like BFCL's dicts. If tools are known, their names decide.
    if not _is_bfcl(value) and _take_shape(value, collector, read_text):
        return True

    calls = offered_calls(value, collector, read_text)
    for name, arguments in calls:
        collector.add("bfcl", name, arguments)
    return bool(calls)


def _take_shape(value: object, collector: CallCollector, read_text: ReadText) -> bool:
    """Collect the calls and texts of a dict or list. Return False if it is data, not calls or messages.

    Raises:
        UnreadableError: the keys say that the value is a call, but it cannot be read.
    """
    if isinstance(value, (list, tuple)):
        return _take_list(value, collector, read_text)
    if not isinstance(value, dict):
        return False

    if not _ENVELOPE_KEYS.isdisjoint(value) and _take_envelope(value, collector, read_text):
        return True

    shape = shape_of(value)
    if shape is not None:
        shape.take(value, collector)
        if shape is _LEGACY:  # `{"function_call": {…}, "content": "…"}` is a message without a role
            _add_content(value, collector)
        return True

    if _is_message(value):
        _take_message(value, collector, read_text)
        return True
    return False


# -- envelopes: objects around calls ----------------------------------------------------------------------------------

# An object with none of these keys is no envelope, which a set finds quickly.
_ENVELOPE_KEYS = frozenset(
    """tool_uses tool_calls message choices response body output required_action candidates content parts
    messages""".split()
)


def _take_envelope(value: _Object, collector: CallCollector, read_text: ReadText) -> bool:
    """Collect the calls of an object around calls: a reply, or an object with tool uses, tool calls or parts.

    Return False for any other object. The `tool_calls` and the parts of a message are left to `_take_message`.

    Raises:
        UnreadableError: a call cannot be read, or the reply has an error's status.
    """
    if _holds_calls(value, "tool_uses"):
        collector.format = collector.format or "tool_uses"
        for use in _as_list(value["tool_uses"], "tool_uses"):
            collector.add_tool_use("tool_uses", use)
        _add_content(value, collector)
        return True

    # Calls count before an inner message or conversation: `{"messages": […], "tool_calls": […]}`.
    has_calls = not _is_message(value) and _holds_calls(value, "tool_calls")
    is_answer = has_calls and bool(value["tool_calls"])
    if not is_answer and any(_take_shape(inner, collector, read_text) for inner in _inner_values(value)):
        return True

    # parts without the role of a message: `{"content": [{"type": "tool_use", …}]}`
    parts = content_of(value)
    shapes = [shape_of(part) for part in (parts if isinstance(parts, list) else ()) if isinstance(part, dict)]
    has_parts = any(shape and not shape.ambiguous for shape in shapes)
    if not has_calls and (_is_message(value) or not has_parts):
        return False
    _take_message({**value, "role": "assistant"}, collector, read_text)
    return True


def _holds_calls(value: _Object, key: str) -> bool:
    """Return whether an object may have calls under this key. In data, its value can be their number."""
    return key in value and not isinstance(value[key], (int, float))


def _inner_values(value: _Object) -> Iterator[object]:
    """Yield the values inside an API's reply, a line of a batch file, or an agent's run that may contain calls.

    Raises:
        UnreadableError: the line of a batch file has an error's status.
    """
    choice = _first_object(value.get("choices"))
    # `{"message": {…}}`, or OpenAI's `{"choices": [{"message": {…}}]}`
    for holder in (value, choice):
        if isinstance(holder.get("message"), dict):
            yield holder["message"]

    # OpenAI's older completions: `{"object": "text_completion", "choices": [{"text": "…"}]}`
    if value.get("object") == "text_completion" and isinstance(choice.get("text"), str):
        yield {"role": "assistant", "content": choice["text"]}

    # a line of a batch file: `{"custom_id": "1", "response": {"status_code": 200, "body": {…}}}`
    if "custom_id" in value:
        yield value.get("response")
    status = value.get("status_code")
    if "body" in value and status is not None:
        if isinstance(status, int) and status >= 400:
            raise UnreadableError(f"the reply has status {status}, so it holds an error instead of an answer")
        yield value["body"]

    # the Responses API: `{"object": "response", "output": [{"type": "function_call", …}]}`
    output, action, messages = (value.get(key) for key in ("output", "required_action", "messages"))
    if isinstance(output, list):
        is_response = value.get("object") == "response"
        if is_response or ("object" not in value and any(isinstance(item, dict) and shape_of(item) for item in output)):
            yield output

    if isinstance(action, dict):  # an agent's run that waits for the results of its calls
        yield action.get("submit_tool_outputs")

    yield message_of(value)
    if isinstance(messages, list) and any(map(_is_message, messages)):
        yield messages


def message_of(reply: Mapping[str, Any]) -> object:
    """Return the message in Gemini's (`candidates`) or Bedrock's (`output`) reply, or None.

    {"candidates": [{"content": {"parts": [{"functionCall": {…}}]}, "finishReason": "STOP"}]}
    {"output": {"message": {"content": [{"toolUse": {…}}]}}, "stopReason": "tool_use"}
    """
    # Gemini's reply has no content if the model wrote nothing, but a reason why it ended.
    candidate = _first_object(reply.get("candidates"))
    content = candidate.get("content", {} if "finishReason" in candidate else None)
    if isinstance(content, dict):
        return {"role": "model", **content}

    output = reply.get("output")
    message = output.get("message") if isinstance(output, dict) else None
    return {"role": "assistant", **message} if isinstance(message, dict) and "content" in message else None


def reason_of_end(reply: Mapping[str, Any]) -> str | None:
    """Return the finish reason in a reply of Anthropic, Bedrock, Gemini or Cohere, or None."""
    reasons = [reply.get(key) for key in ("stop_reason", "stopReason", "finish_reason")]
    reasons.append(_first_object(reply.get("candidates")).get("finishReason"))
    return next((reason for reason in reasons if isinstance(reason, str)), None)


def _first_object(items: object) -> _Object:
    """Return the first item of a list if it is an object, else an empty object."""
    first = items[0] if isinstance(items, list) and items else None
    return first if isinstance(first, dict) else {}


# -- messages ---------------------------------------------------------------------------------------------------------

_SPEAKERS = frozenset({"assistant", "model"})
_ROLES = _SPEAKERS | {"user", "system", "developer", "tool", "function"}

_REASONING_TYPES = {
    **dict.fromkeys(("reasoning_content", "reasoning", "thinking", "tool_plan"), str),
    **dict.fromkeys(("reasoning_details", "thinking_blocks"), list),
}
REASONING_FIELDS = tuple(_REASONING_TYPES)
"""The fields of a message with the reasoning. Several fields often contain the same text."""


def _is_message(value: object) -> bool:
    """Return whether a value is an object with the role of a message."""
    role = value.get("role") if isinstance(value, dict) else None
    return isinstance(role, str) and role in _ROLES


def _take_message(message: _Object, collector: CallCollector, read_text: ReadText) -> None:
    """Collect the calls, reasoning and texts of a model's message; skip a message of any other role.

    Raises:
        UnreadableError: a call cannot be read.
    """
    if message["role"] not in _SPEAKERS:
        return

    calls_before = len(collector.calls)
    for call in _as_list(message.get("tool_calls"), "tool_calls"):
        _take_tool_call(call, collector)
    if isinstance(message.get("function_call"), dict):
        _LEGACY.take(message, collector)

    take_thoughts_of(message, collector)

    # The content is a text or a list of parts.
    content = content_of(message)
    texts = [content] if isinstance(content, str) else []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and not take_part(part, collector):
            texts.append(_text_of(part))

    # The text is searched for calls only if the message has no other calls.
    if len(collector.calls) == calls_before:
        collector.add_reading(read_text("\n".join(texts)))
    else:
        collector.texts += filter(str.strip, texts)


def _take_tool_call(call: object, collector: CallCollector) -> None:
    """Collect an item of `tool_calls`: `{"id", "type": "function", "function": {"name", "arguments": "json text"}}`.

    Raises:
        UnreadableError: the item names no function, or its arguments cannot be read.
    """
    collector.format = collector.format or "openai"
    function = call.get("function") if isinstance(call, dict) else None

    if isinstance(call, dict) and isinstance(function, dict):
        collector.add("openai", function.get("name"), function.get("arguments"), call.get("id"))
    # a call in the shape of another API, or with unusual keys
    elif isinstance(call, dict) and ("type" in call or name_in(call) is not None):
        shape = shape_of(call)
        if shape is None or shape.ambiguous:  # the key `tool_calls` makes it a certain call
            take_named(call, collector)
        else:
            shape.take(call, collector)
    else:
        raise UnreadableError(f"call {len(collector.calls) + 1} names no function")


def take_thoughts_of(message: Mapping[str, Any], collector: CallCollector) -> None:
    """Collect the model's reasoning from the first field of a message that has any."""
    for key, kind in _REASONING_TYPES.items():
        value = message.get(key)
        if isinstance(value, kind):
            texts = _texts(value if isinstance(value, list) else [value])
            if texts:
                collector.thoughts.append("\n".join(texts))
                return


def content_of(message: Mapping[str, Any]) -> object:
    """Return the content of a message: a text, a list of parts (under `parts` in Gemini's messages), or None."""
    content = message.get("content")
    return message.get("parts") if content is None else content


def take_part(part: Mapping[str, Any], collector: CallCollector) -> bool:
    """Collect a part of a message if it is a call or reasoning. Return False for any other part."""
    if isinstance(reasoning := part.get("reasoningContent"), dict):
        collector.thoughts += _texts([reasoning.get("reasoningText")])
    elif part.get("type") in ("thinking", "reasoning") or part.get("thought") is True:
        collector.thoughts += _texts([part])
    elif shape := shape_of(part):
        shape.take(part, collector)
    else:
        return False
    return True


def _text_of(part: _Object) -> str:
    """Return the text of a part of a message, or an empty text."""
    text = part.get("text") if part.get("type") in (None, "text", "output_text") else None
    return text if isinstance(text, str) else ""


def _texts(items: Iterable[object], *, nested: bool = True) -> list[str]:
    """Return the texts in a list of reasoning items: texts, or objects with a text or (if `nested`) a list of texts."""
    texts: list[str] = []
    for item in items:
        values = [item.get(key) for key in ("thinking", "text", "summary")] if isinstance(item, dict) else [item]
        for value in values:
            if isinstance(value, list) and nested:
                texts += _texts(value, nested=False)
            elif isinstance(value, str) and value.strip():
                texts.append(value.strip())
    return texts


def _add_content(value: _Object, collector: CallCollector) -> None:
    """Add the object's `content` to the texts if it is a text."""
    content = value.get("content")
    if isinstance(content, str):
        collector.add_text(content)


def _as_list(value: object, key: str) -> Iterable[object]:
    """Return the list under a key, empty for None and ""; refuse other values (UnreadableError)."""
    if value is None or value == "":
        return ()
    if not isinstance(value, (list, tuple)):
        raise UnreadableError(f"`{key}` of the response is {kind_of(value)}, not a list")
    return value


# -- lists ------------------------------------------------------------------------------------------------------------


def _take_list(items: _List, collector: CallCollector, read_text: ReadText) -> bool:
    """Collect a list of calls, messages or parts, or BFCL's dicts. Return False if it is data.

    Items that are nothing of these are skipped in a list of messages.

    Raises:
        UnreadableError: a call cannot be read, or an item beside calls is not a call.
    """
    if _is_bfcl_text(items):
        return _take_bfcl(items, collector)

    shapes = [shape_of(item) if isinstance(item, dict) and not _is_message(item) else None for item in items]
    has_calls = any(shapes) or any(isinstance(item, FunctionCall) for item in items)
    if not has_calls and not any(map(_is_message, items)):
        return _is_bfcl(items) and _take_bfcl(items, collector)

    for number, (item, shape) in enumerate(zip(items, shapes, strict=True), 1):
        if isinstance(item, FunctionCall):
            collector.add(None, item.name, item.arguments, item.id)
        elif _is_message(item):
            _take_message(item, collector, read_text)
        elif shape:
            shape.take(item, collector)
        # a part that is no call: reasoning, or a text
        elif isinstance(item, dict) and isinstance(item.get("type"), str):
            if not take_part(item, collector) and _text_of(item):
                collector.texts.append(_text_of(item))
        elif has_calls:
            raise UnreadableError(f"item {number} of the list of calls is {kind_of(item)}, not a call")
    return True


def _is_bfcl_text(items: _List) -> bool:
    """Return whether each item is like `{"f": "{…}"}`: one key with the JSON text of an object. Data never is."""
    for item in items:
        text = next(iter(item.values())) if isinstance(item, dict) and len(item) == 1 else None
        if not isinstance(text, str) or not text.lstrip().startswith("{"):
            return False
    return bool(items)


def _is_bfcl(items: object) -> bool:
    """Return whether each item is like `{"f": {…}}`: one key that can be a function's name, with arguments.

    The arguments are an object, its JSON text, None or blank, but not all None or blank. Data may look like this, too.
    Return False if all arguments are JSON text: `_is_bfcl_text` recognises this certain form.
    """
    if not isinstance(items, (list, tuple)) or _is_bfcl_text(items):
        return False

    has_arguments = False
    for item in items:
        if not isinstance(item, dict) or len(item) != 1 or shape_of(item):
            return False

        ((name, arguments),) = item.items()
        if not isinstance(name, str) or not _FUNCTION_NAME.fullmatch(name):
            return False

        text = arguments.lstrip() if isinstance(arguments, str) else ""
        if isinstance(arguments, dict) or text.startswith("{"):
            has_arguments = True
        elif arguments is not None and (text or not isinstance(arguments, str)):
            return False
    return has_arguments


def _take_bfcl(items: Iterable[_Object], collector: CallCollector) -> bool:
    """Collect the calls of objects like `{"f": {…}}`. Always return True."""
    collector.ambiguous = True
    for item in items:
        ((name, arguments),) = item.items()
        collector.add("bfcl", name, arguments)
    return True


# -- single calls -----------------------------------------------------------------------------------------------------

# `get_time`, `math.gcd` or `天气`; not `f(1)` or `a b`. Keys of data are often several words.
_FUNCTION_NAME = re.compile(r"[^\s{}\[\]()\"'<>]+")
_BARE_KEYS = {"name", "arguments", "parameters", "id", "type", "call_id", "tool_call_id", "index", "status"}
"""The keys of a call without an API's object around it. An object with any other key is data."""

# keys of a call's id, the most specific first: the Responses API has a `call_id` beside the item's own `id`
_IDS = ("call_id", "tool_call_id", "toolUseId", "id")


class CallShape(msgspec.Struct, frozen=True):
    """The shape of one call as an object of an API.

    Args:
        format: the format's name.
        arguments: possible keys of the arguments.
        type: the object's `type`, if the API has one.
        inside: the path of keys to the inner object, with name and arguments. The id may be in any object on this path.
        needs: required keys of the inner object.
        name: the key of the name.
        condition: a further condition for the whole object.
        ambiguous: data may have the same shape.

        The shape of `{"functionCall": {"name": "f", "args": {"a": 1}}}` is `CallShape("gemini", ("args",),
        inside=("functionCall",), needs=())`.
    """

    format: str
    arguments: tuple[str, ...]
    type: str | None = None
    inside: tuple[str, ...] = ()
    needs: tuple[str, ...] = ("name",)
    name: str = "name"
    condition: Callable[[_Object], bool] | None = None
    ambiguous: bool = False

    def matches(self, item: _Object) -> bool:
        """Return whether the object, which has the shape's type if there is one, is a call in this shape."""
        inner: Any = item
        for key in self.inside:
            inner = inner.get(key)
            if not isinstance(inner, dict):
                return False

        for key in self.needs:
            if key not in inner:
                return False
        return self.condition is None or self.condition(item)

    def take(self, item: _Object, collector: CallCollector) -> None:
        """Add the call in an object that `matches` to the collector; of several ids, the innermost counts.

        Raises:
            UnreadableError: the call has no name, or its arguments cannot be read.
        """
        inner, call_id = item, first_of(item, *_IDS)
        for key in self.inside:
            inner = inner[key]
            call_id = first_of(inner, *_IDS) or call_id

        name = inner.get(self.name)
        collector.ambiguous = collector.ambiguous or self.ambiguous
        if self.name == "recipient_name":
            collector.add_tool_use(self.format, inner)
        else:
            collector.add(self.format, name, first_of(inner, *self.arguments), call_id)


def _is_bare(item: _Object) -> bool:
    """Return whether an object has only the keys of a call, and no `parameters`."""
    return "parameters" not in item and _BARE_KEYS.issuperset(item)


def _is_llama(item: _Object) -> bool:
    """Return whether an object with `name` and `parameters` is Llama's call.

    It is a call if it has only a call's keys, the name is one word, and the parameters are no schema.
    """
    name, parameters = item["name"], item["parameters"]
    if not isinstance(name, str) or not isinstance(parameters, dict) or not _BARE_KEYS.issuperset(item):
        return False
    return "arguments" not in item and bool(_FUNCTION_NAME.fullmatch(name)) and not is_definition(parameters)


_LEGACY = CallShape(
    "function_call", ("arguments",), inside=("function_call",), needs=(), condition=lambda item: "role" not in item
)
_SHAPES = (
    # {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}
    CallShape("openai", ("arguments",), inside=("function",), needs=("name", "arguments")),
    # {"id": "call_1", "type": "function", "function": {"name": "f"}}, without arguments
    CallShape("openai", ("arguments",), inside=("function",), condition=lambda item: "id" in item),
    # {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}
    CallShape("anthropic", ("input",), type="tool_use"),
    # {"functionCall": {"name": "f", "args": {"a": 1}}}
    CallShape("gemini", ("args",), inside=("functionCall",), needs=()),
    # {"function_call": {"name": "f", "args": {"a": 1}}}, from Gemini's Python client
    CallShape("gemini", ("args",), inside=("function_call",), needs=("args",)),
    # {"toolUse": {"toolUseId": "1", "name": "f", "input": {"a": 1}}}
    CallShape("bedrock", ("input",), inside=("toolUse",), needs=()),
    # {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{\"a\": 1}"}, from the Responses API
    CallShape("openai", ("arguments",), type="function_call"),
    # {"type": "tool_call", "tool_call_id": "1", "name": "f", "arguments": {"a": 1}}; LangChain writes `args`
    CallShape("azure_agent", ("arguments", "args"), type="tool_call"),
    # {"type": "tool_call", "tool_call": {"id": "1", "function": {"name": "f", "arguments": {"a": 1}}}}
    CallShape("azure_agent", ("arguments",), type="tool_call", inside=("tool_call", "function"), needs=()),
    # {"type": "tool_call", "tool_call": {"id": "1", "name": "f", "arguments": {"a": 1}}}
    CallShape("azure_agent", ("arguments",), type="tool_call", inside=("tool_call",), needs=()),
    # {"recipient_name": "functions.f", "parameters": {"a": 1}}
    CallShape("tool_uses", ("parameters",), needs=("recipient_name",), name="recipient_name"),
    # {"tool_name": "f", "parameters": {"a": 1}}
    CallShape(
        "command_r",
        ("parameters",),
        needs=("tool_name", "parameters"),
        name="tool_name",
        condition=lambda item: isinstance(item["parameters"], dict),
        ambiguous=True,
    ),
    # {"function_call": {"name": "f", "arguments": "{\"a\": 1}"}}
    _LEGACY,
    # {"name": "f", "arguments": {"a": 1}}
    CallShape("function_call", ("arguments",), needs=("name", "arguments"), condition=_is_bare, ambiguous=True),
    # {"name": "f", "parameters": {"a": 1}}
    CallShape("llama", ("parameters",), needs=("name", "parameters"), condition=_is_llama, ambiguous=True),
)
"""Shapes in order of priority. A tool definition looks like OpenAI's call, but has neither arguments nor an id."""

# Each shape with a key that all its objects have, so that objects without any of these keys are data at once.
_BY_KEY = tuple(((shape.inside or shape.needs)[0], shape) for shape in _SHAPES)
_KEYS = frozenset(key for key, _ in _BY_KEY)


def shape_of(item: _Object) -> CallShape | None:
    """Return the shape of an object that is one call, or None if it is something else."""
    item_type = item.get("type")
    for shape in _shapes_with_keys(_KEYS.intersection(item)):
        if (shape.type is None or shape.type == item_type) and shape.matches(item):
            return shape
    return None


@functools.cache
def _shapes_with_keys(keys: frozenset[str]) -> tuple[CallShape, ...]:
    """Return the shapes whose objects have one of these keys, which are some of `_KEYS`, in order of priority."""
    return tuple(shape for key, shape in _BY_KEY if key in keys)


# -- calls with unusual keys or without keys, which are accepted only if their name is a known tool:
#    `{"function": "f", "args": {…}}`, `{"f": {…}}`, `["f(a=1)"]`

_Calls: TypeAlias = list[tuple[str, object]]

# types in the parameters of a tool definition
_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object"})
# words for a called function
_CALLED = "(?:tool|function|func|fn|api|action|method|command|call)"
# `name`, `tool_name`, `functionName`, `function`, `api`
NAMES = re.compile(rf"(?i:(?:{_CALLED}_?)?name|{_CALLED})")
# `args`, `parameters`, `tool_input`, `functionArgs`, `kwargs`
_ARGUMENTS = re.compile(rf"(?i:(?:{_CALLED}_?)?(?:arg(?:ument)?s?|param(?:eter)?s?|inputs?|kwargs|payload))")
"""Keys that models use for the name and the arguments, besides the usual ones."""

# `calls`, `tool_calls`, `function_call`, `toolUse`, `functions`
_HOLDER = re.compile(rf"(?i:(?:{_CALLED}s?_?)?(?:calls?|uses?)|{_CALLED}s?)")
"""Keys that models use for whole calls."""


def take_named(value: object, collector: CallCollector) -> None:
    """Collect the calls of a value after a mark: one object with name and arguments, or a list of objects.

    The list may stand under `tool_calls`, and an object may be encoded as JSON text.

    Raises:
        UnreadableError: the value is neither, an object defines a tool, or a call has no name or unreadable arguments.
    """
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]

    # A single object is read like a list of one.
    for item in value if isinstance(value, list) else [value]:
        item = decode(item) if isinstance(item, str) else item
        if not isinstance(item, dict):
            raise UnreadableError(f"call {len(collector.calls) + 1} is {kind_of(item)}, not an object")

        inner = item.get("function")
        call = inner if isinstance(inner, dict) and "name" not in item else item

        name = name_in(call)
        if "arguments" not in call and is_definition(call.get("parameters")):
            raise UnreadableError(f"{quoted(name)} is the definition of a tool, not a call")
        collector.add(collector.format, name, arguments_in(call), first_of(item, "id", "tool_call_id"))


def name_in(item: _Object) -> object:
    """Return the name of the called function, under any of the usual keys."""
    return first_of(item, "name", *_keys_like(item, NAMES))


def arguments_in(item: _Object) -> object:
    """Return the arguments of a call, under any of the usual keys."""
    return first_of(item, *_keys_like(item, _ARGUMENTS))


def _keys_like(item: _Object, pattern: re.Pattern[str]) -> list[str]:
    """Return the keys of an object that match this pattern completely."""
    return [key for key in item if isinstance(key, str) and pattern.fullmatch(key)]


def first_of(item: _Object, *keys: str) -> object:
    """Return the first value under these keys that is not None, or None."""
    for key in keys:
        if (value := item.get(key)) is not None:
            return value
    return None


def is_definition(parameters: object) -> bool:
    """Return whether these are the parameters of a tool definition, not arguments of a call.

    A definition has a schema, `{"type": "object", "properties": {…}}`, or types by name, `{"a": {"type": "string"}}`.
    """
    if not isinstance(parameters, dict):
        return False
    if parameters.get("type") == "object" or isinstance(parameters.get("properties"), dict):
        return True

    kinds = [value.get("type") if isinstance(value, dict) else None for value in parameters.values()]
    return bool(kinds) and all(isinstance(kind, str) and kind in _TYPES for kind in kinds)


def offered_calls(value: object, collector: CallCollector, read_text: ReadText) -> _Calls:
    """Return the calls in a value if all of them are of known tools, else an empty list.

    Texts and lists must contain nothing else. Objects may have any other keys beside a name and arguments, and keys
    with texts beside a key such as `functions`. If the tools are `f` and `g`, these values are calls:

        {"function": "f", "args": {"a": 1}}            name and arguments under other keys
        {"f": {"a": 1}, "g": {}}                       arguments under the names of tools
        {"functions": [{"name": "f", "args": {…}}]}    calls under a key such as `functions`
        ["f", {"a": 1}]                                a pair of name and arguments
        ["f(a=1)", {"g": {}}]                          a list of calls, also as texts
    """
    if isinstance(value, str):
        reading = read_text(value)
        only_calls = not reading.text and all(collector.knows(call.name) for call in reading.calls)
        return [(call.name, call.arguments) for call in reading.calls] if only_calls else []

    if isinstance(value, dict):
        calls = _read_named(value, collector) or _under_names(value.items(), collector)
        return calls or _under_key(value, collector, read_text)

    if not isinstance(value, (list, tuple)):
        return []
    if len(value) == 2 and (pair := _under_names([(value[0], value[1])], collector)):
        return pair

    calls = []
    for item in value:
        item_calls = offered_calls(item, collector, read_text)
        if not item_calls:
            return []
        calls += item_calls
    return calls


def _under_names(items: Iterable[tuple[object, object]], collector: CallCollector) -> _Calls:
    """Return the calls in `{"f": {…}, "g": {…}}`: arguments, as objects or JSON text, under the names of tools.

    Return an empty list if an item is anything else.
    """
    calls: _Calls = []
    for name, arguments in items:
        is_object = isinstance(arguments, dict) or (isinstance(arguments, str) and arguments.lstrip()[:1] == "{")
        if not isinstance(name, str) or not collector.knows(name) or not is_object or is_definition(arguments):
            return []
        calls.append((name, arguments))
    return calls


def _read_named(value: dict[object, object], collector: CallCollector) -> _Calls:
    """Return the call in `{"function": "f", "args": {…}}`, under any of the usual keys; else an empty list."""
    name = name_in(value)
    if isinstance(name, dict):  # `{"function": {"name": "f", "args": {…}}}`
        return _read_named(name, collector)
    return _under_names([(name, arguments_in(value))], collector)


def _under_key(value: dict[object, object], collector: CallCollector, read_text: ReadText) -> _Calls:
    """Return the calls in `{"functions": [{"name": "f", …}]}`: one key with a call or a list, all others with texts.

    If the key has a single call, or if there are other keys, it must be a word for calls, such as `tool_calls`. Return
    an empty list for any other object.
    """
    members = [(key, inner) for key, inner in value.items() if not isinstance(inner, str)]
    if len(members) != 1:
        return []

    ((key, inner),) = members
    is_holder = isinstance(key, str) and bool(_HOLDER.fullmatch(key))
    if isinstance(inner, dict) and is_holder:
        return _read_named(inner, collector)

    if not isinstance(inner, list) or not all(isinstance(item, dict) for item in inner):
        return []
    return offered_calls(inner, collector, read_text) if is_holder or len(value) == 1 else []
