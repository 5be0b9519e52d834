"""Reads the calls out of any value: finds its format, and says why where a call cannot be read.

    read_calls('<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>')
    Reading(calls=(FunctionCall(name='f', arguments={'a': 1}, id=None),), text='', format='hermes', problem=None)

A text is looked at in this order, and the first that fits decides:

1.  a `<think>` block at its beginning is text, whatever it holds;
2.  what begins like JSON or like a list of Python calls, as a whole (and values or text after it);
3.  before any mark of 4., a fenced block that holds one such value, or a `{"tool_uses": …}` inside other text;
4.  the marks of Glaive, Hermes, Mistral and Llama.

Everything else is prose, and no call.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar, cast

from tunecheck import _json as jsontext
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.calls._python_text import NAME, PythonScanner
from tunecheck.calls._strict_json import MAX_CHARACTERS, UnreadableError, check_size, decode, decode_at, exact, place
from tunecheck.formats._json_shapes import CallCollector, take_shape, without_end_marks
from tunecheck.formats._marks import MARKS, first_mark, take_tagged

_MAX_PROBLEM = 400  # characters: a problem is one line of a table or a log

_THOUGHT = "<think>"
_THOUGHT_END = "</think>"

_CALL_LIST = re.compile(rf"\[\s*{NAME}\(")
_CERTAIN_CALL_LIST = re.compile(rf"\[\s*{NAME}\(\s*(?:{NAME}\s*=(?!=)|[\"']|\Z)")
_LINE_END = re.compile(r"[ \t\r]*(?:\n|\Z)")
_NEXT_VALUE = re.compile(r"\s*+[;,]?\s*+(?=[{\[])")

_FENCE = re.compile(r"```[ \t]*+([\w+-]*+)[ \t]*+\r?\n\s*+")
_FENCE_END = re.compile(r"\s*+```[ \t]*+(?=\r?\n|\Z)")
_FENCED = frozenset({"", "json", "python", "py", "tool_code", "tool_call", "tool_calls", "text"})
_USES = re.compile(r"\{\s*[\"']tool_uses[\"']\s*:")

# What a value holds, or how it begins, when it means to be a call and is not even JSON.
_ANNOUNCING_KEYS = (
    re.compile(r"[\"'](?:tool_uses|tool_calls|function_call|recipient_name)[\"']\s*:"),
    re.compile(r"[\"']type[\"']\s*:\s*[\"'](?:function|tool_call|function_call)[\"']"),
)
_ANNOUNCING_STARTS = (
    re.compile(
        r"\s*(?:\[\s*)?\{\s*[\"']name[\"']\s*:\s*[\"'][^\"']*[\"']\s*,\s*[\"'](?:arguments|parameters)[\"']\s*:"
    ),
    re.compile(r"\s*\[\s*\{\s*\"[^\"\s]+\"\s*:\s*\"\{"),
)
_APOSTROPHE_FIRST = re.compile(r"[\s\[{]*+'")


def read_calls(value: object) -> Reading:
    """The function calls in a value of any format, or none; it never raises, and evaluates nothing.

    Args:
        value: a text, a dict or list in one of `FORMATS`, JSON text of one, a message, a list of messages (its
            assistant's calls, in order), a `FunctionCall` or a list of such, an object of the OpenAI client; or
            anything else, which then holds no call.

    Returns:
        The calls with the text beside them. Prose, data and None hold no call, and no problem either; what announces
        itself as a call and cannot be read is a problem.
    """
    if isinstance(value, str):
        return _read_text(value if type(value) is str else str.__str__(value))
    if value is None:
        return Reading()
    try:
        return _read_value(value)
    except Exception as error:  # noqa: BLE001 - an object of any class may raise anything when it is looked at
        return Reading(problem=f"a {type(value).__name__} that cannot be looked at: {type(error).__name__}")


def read_python_calls(text: str) -> Reading:
    """The calls in a text that is known to hold nothing else, with or without the brackets: `cd(folder='x')`.

    For data in which a bare call is not prose, as in BFCL's ground truth. It never raises.
    """
    collector = CallCollector()
    collector.format = "bfcl_text"
    scanner = PythonScanner(text)
    try:
        check_size(text)
        if scanner.sees("["):
            calls = scanner.calls()
        else:
            calls = [scanner.call()]
            while scanner.sees(","):
                scanner.position += 1
                calls.append(scanner.call())
        if not scanner.at_end():
            raise UnreadableError(f"more text after the calls at {place(text, scanner.position)}")
        for call in calls:
            collector.add("bfcl_text", call.name, call.arguments)
    except UnreadableError as error:
        return _failed(text, collector, error)
    except RecursionError:
        return _failed(text, collector, UnreadableError("nested too deeply"))
    return collector.reading()


def _read_value(value: object) -> Reading:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _read_text(bytes(value).decode("utf-8", "backslashreplace"))
    collector = CallCollector()
    try:
        held = take_shape([value] if isinstance(value, FunctionCall) else _plain_objects(value), collector, _read_text)
    except UnreadableError as error:
        return _failed("\n".join(collector.texts), collector, error)
    return collector.reading() if held else Reading(text=_text_of(value))


def _plain_objects(value: object) -> object:
    """The OpenAI client's objects (and pydantic's altogether) as the dicts they stand for."""
    if isinstance(value, (list, tuple)):
        return [_plain_object(item) for item in value]
    return _plain_object(value)


def _plain_object(value: object) -> object:
    if isinstance(value, (dict, list, tuple, str, int, float, FunctionCall)) or value is None:
        return value
    dump = getattr(value, "model_dump", None)
    return dump() if callable(dump) else value


def _text_of(value: object) -> str:
    try:
        return jsontext.dumps(exact(value)).decode()
    except (UnreadableError, TypeError, ValueError):
        return ""


def _failed(text: str, collector: CallCollector, error: UnreadableError) -> Reading:
    problem = " ".join(str(error).split())
    return Reading((), text, collector.format, problem[:_MAX_PROBLEM])


# -- texts ------------------------------------------------------------------------------------------------------------


def _read_text(text: str) -> Reading:
    if not _may_hold_calls(text):
        return Reading((), text)
    collector = CallCollector()
    try:
        held = _take_text(text, collector)
    except UnreadableError as error:
        return _failed(text, collector, error)
    except RecursionError:  # called from very deep in somebody's stack
        return _failed(text, collector, UnreadableError("nested too deeply"))
    return collector.reading() if held and (collector.calls or collector.texts) else Reading((), text, collector.format)


def _may_hold_calls(text: str) -> bool:
    """Nearly all prose ends here: nothing in it begins a call."""
    if "<" in text or "```" in text or "[TOOL_CALLS]" in text or "tool_uses" in text:
        return True
    return text.lstrip()[:1] in ("{", "[")


def _take_text(text: str, collector: CallCollector) -> bool:
    """Find the calls of a text, and what stands beside them; False where all of it is prose or data."""
    if len(text) > MAX_CHARACTERS:
        if any(mark in text for mark in MARKS) or _announces(text, 0) or _CALL_LIST.match(text):
            check_size(text)
        return False
    body = without_end_marks(text).lstrip()
    if not body.startswith(_THOUGHT):
        return _take_body(body, collector)
    end = body.find(_THOUGHT_END) + len(_THOUGHT_END)
    if end < len(_THOUGHT_END):
        return False  # nothing but a thought
    collector.add_text(body[:end])
    return _take_body(body[end:].lstrip(), collector)


def _take_body(body: str, collector: CallCollector) -> bool:
    if body.startswith(("{", "[")) and not body.startswith("[TOOL_CALLS]"):
        end = _take_values(body, collector)
        if end is not None:
            collector.add_text(body[end:])
            return True
        if _is_json(body):
            return False  # data, whatever marks its texts hold
    mark = first_mark(body)
    unmarked = len(body) if mark is None else mark
    return (
        _take_fence(body, unmarked, collector)
        or _take_embedded(body, unmarked, collector)
        or take_tagged(body, collector)
    )


def _take_values(body: str, collector: CallCollector) -> int | None:
    """The calls that a text begins with: one value, or several one after another; where they end, None without any."""
    end = _take_value(body, 0, collector)
    while end is not None and (following := _NEXT_VALUE.match(body, end)):
        further = _take_value(body, following.end(), collector)
        if further is None:
            break
        end = further
    return end


def _take_value(body: str, position: int, collector: CallCollector) -> int | None:
    """The calls in the value at this position, and where it ends; None where it is data or prose."""
    if _CALL_LIST.match(body, position):
        return _take_call_list(body, position, collector)
    literal = False
    value: object
    try:
        value, end = decode_at(body, position)
    except UnreadableError as error:
        if not _announces(body, position):
            return None
        value, end = _literal_at(body, position, error)
        literal = True
    if not take_shape(value, collector, _read_text):
        return None
    if literal and collector.format == "tool_uses":
        collector.format = "tool_uses_text"
    return end


def _announces(body: str, position: int) -> bool:
    keys = any(key.search(body, position) for key in _ANNOUNCING_KEYS)
    return keys or any(start.match(body, position) for start in _ANNOUNCING_STARTS)


def _literal_at(body: str, position: int, error: UnreadableError) -> tuple[object, int]:
    """A dict or list as Python writes it; for what is neither this nor JSON, the problem of what it looks like."""
    scanner = PythonScanner(body, position)
    try:
        return scanner.value(), scanner.position
    except UnreadableError as python_error:
        raise (python_error if _APOSTROPHE_FIRST.match(body, position) else error) from None


def _is_json(body: str) -> bool:
    try:
        decode(body)
    except UnreadableError:
        return False
    return True


def _take_call_list(body: str, position: int, collector: CallCollector) -> int | None:
    """`[f(a=1)]`, alone or before further lines; a link in Markdown or a remark in brackets is prose."""
    scanner = PythonScanner(body, position)
    try:
        calls = scanner.calls()
    except UnreadableError:
        ends_like_calls = body.endswith("]") and body[:-1].rstrip(", \t\r\n").endswith(")")
        if ends_like_calls or _CERTAIN_CALL_LIST.match(body, position):
            collector.format = collector.format or "bfcl_text"
            raise
        return None
    if not _LINE_END.match(body, scanner.position):
        return None
    for call in calls:
        collector.add("bfcl_text", call.name, call.arguments)
    return scanner.position


def _take_fence(body: str, limit: int, collector: CallCollector) -> bool:
    """One fenced block that holds one value: in any format, but beside text only what says itself that it is a call."""
    opening = _FENCE.search(body, 0, limit)
    if not opening or opening[1].lower() not in _FENCED:
        return False
    before, held = body[: opening.start()], CallCollector()
    try:
        end = _take_value(body, opening.end(), held) if body.startswith(("{", "["), opening.end()) else None
    except UnreadableError:
        if before:
            return False
        collector.format = held.format
        raise
    closing = _FENCE_END.match(body, end) if end is not None else None
    after = body[closing.end() :].strip() if closing else ""
    beside_text = bool(before or after) and held.format in ("bfcl", "bfcl_text")
    if not closing or "```" in after or beside_text or not held.calls:
        return False
    collector.add_text(before)
    collector.add_reading(held.reading())
    collector.add_text(after)
    return True


def _take_embedded(body: str, limit: int, collector: CallCollector) -> bool:
    """`{"tool_uses": …}` inside other text: nobody writes that in passing."""
    held = CallCollector()
    position = 0
    opening = _USES.search(body, 0, limit)
    while opening:
        held.add_text(body[position : opening.start()])
        try:
            end = _take_value(body, opening.start(), held)
        except UnreadableError:
            collector.format = "tool_uses"
            raise
        if end is None:
            return False
        position = end
        opening = _USES.search(body, position)
    if not held.calls:
        return False
    held.add_text(body[position:])
    collector.add_reading(held.reading())
    return True


_Made = TypeVar("_Made")
_NOTHING = object()


class _Row:
    __slots__ = ("made", "values")

    def __init__(self, values: Iterable[object]) -> None:
        self.values = {id(value): value for value in values}  # held, so that no other object gets their ids
        self.made: dict[Hashable, object] = {}


_row: ContextVar[_Row | None] = ContextVar("row", default=None)


@contextmanager
def one_row(values: Iterable[object]) -> Iterator[None]:
    """Within, evaluators that change none of these values share what they work out from them."""
    token = _row.set(_Row(values))
    try:
        yield
    finally:
        _row.reset(token)


def once(task: Hashable, values: tuple[object, ...], make: Callable[[], _Made]) -> _Made:
    """What `make` gives for these values, worked out once a row for each `task`; anew where they are not the row's."""
    row = _row.get()
    if row is None:
        return make()
    for value in values:
        if value is not None and id(value) not in row.values:
            return make()
    key = (task, *map(id, values))
    made = row.made.get(key, _NOTHING)
    if made is _NOTHING:
        made = row.made[key] = make()
    return cast("_Made", made)


def read_once(value: object) -> Reading:
    """`read_calls`, once a row."""
    return once("read", (value,), lambda: read_calls(value))
