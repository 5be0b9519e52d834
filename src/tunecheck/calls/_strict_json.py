"""Copy or decode values of a model's output exactly, or refuse them.

A model's output is untrusted: it may be very long or deeply nested, refer to itself, or contain objects of any class.
Values beyond the limits below are reported as problems. `tunecheck._json` reads files and replies more leniently (the
last of two equal keys wins, NaN becomes null), but reading must not change the arguments of a call.
"""

import html
import json
import math
import re
from contextlib import suppress
from itertools import chain
from typing import NoReturn

from tunecheck import _json as jsontext
from tunecheck._json import JSON

MAX_CHARACTERS = 1_000_000
"""Longest text that is searched for calls: twice the longest answer of large models (128,000 tokens)."""

MAX_DEPTH = 100
"""Deepest nesting of one call's arguments. Real ones stay below ten. With the message around them, arguments must stay
below the 200 levels that `jsontext` writes."""

MAX_TEXT_DEPTH = MAX_DEPTH + 12
"""Deepest nesting of a text: the deepest arguments, and the call, message and lists around them."""

MAX_VALUES = 200_000
"""Most values in the arguments of one call. Lists that contain the same list twice grow exponentially with depth."""

MAX_CALLS = 1_000
"""Most calls in one reading, because the time for matching grows with the cube of their number."""

_MOST_LAYERS = 5
"""Most times that arguments may be encoded as JSON text."""

_FENCE = re.compile(r"\A\s*+```\w*+(.*)```\s*+\Z", re.DOTALL)

_BRACKET_OR_QUOTE = re.compile(r"\\.|[\"'()\[\]{}]", re.DOTALL)
_SHOWN = 60  # characters of a name in a problem, which is one line


class UnreadableError(ValueError):
    """An announced call that cannot be read. Its text is one line: the problem and its place."""


class CutOffError(UnreadableError):
    """A call that is cut off at the end of the text."""


class ThoughtCallError(UnreadableError):
    """A call inside a thought that the text does not close."""


def quoted(name: object) -> str:
    """Return a name in quotation marks for an error message: one line, shortened after 60 characters."""
    text = repr(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def place(text: str, position: int) -> str:
    """Return a position as `line 1, column 5` for an error message."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"line {line}, column {column}"


def find_close(text: str, start: int) -> int | None:
    """Return where the bracket or quote at `start` is closed, or None; any closing bracket closes any opening one."""
    depth, quote = 0, ""
    for token in _BRACKET_OR_QUOTE.finditer(text, start):
        mark = token[0]
        if quote:
            quote = "" if mark == quote else quote
        elif mark in ("'", '"'):
            quote = mark
        elif mark in ("(", "[", "{"):
            depth += 1
        elif len(mark) == 1:
            depth -= 1
        if depth <= 0 and not quote:
            return token.end()
    return None


def check_size(text: str) -> None:
    """Raise UnreadableError if a text is too long to be read as calls."""
    if len(text) > MAX_CHARACTERS:
        raise UnreadableError(f"the text has {len(text)} characters; the limit is {MAX_CHARACTERS}")


def kind_of(value: object) -> str:
    """Return the kind of a JSON value in words, such as "a number", for an error message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    for kind, name in (((int, float), "a number"), (str, "text"), (dict, "an object"), ((list, tuple), "a list")):
        if isinstance(value, kind):
            return name
    return f"a value of type {type(value).__name__}"


def exact(value: object) -> JSON:
    """Copy a value to plain JSON types exactly: nothing is rounded, replaced or left out.

    Raises:
        UnreadableError: the value contains something without a JSON form (such as NaN), more than 200,000 values, or
            more than 100 levels.
    """
    return _exact(value, [MAX_VALUES], 0)


def _exact(value: object, budget: list[int], depth: int) -> JSON:
    """Copy a value to plain JSON types.

    `budget[0]` is the number of further values allowed, shared by the whole copy; `depth` counts the levels above.

    Raises:
        UnreadableError: the value has no JSON form, or is too large or too deep.
    """
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value  # type: ignore[return-value]  # the most frequent case
    if isinstance(value, (dict, list, tuple)):
        budget[0] -= len(value)
        if depth >= MAX_DEPTH:
            raise UnreadableError(f"the value is nested deeper than {MAX_DEPTH} levels")
        if budget[0] < 0:
            raise UnreadableError(f"the value contains more than {MAX_VALUES} values")
        if isinstance(value, dict):
            return _exact_object(value, budget, depth + 1)
        return [_exact(item, budget, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise UnreadableError(f"{value} is not a JSON number")
    try:
        return jsontext.plain(value)  # the plain number or text of a subclass or of numpy's scalars
    except Exception:  # noqa: BLE001 - an object of any class may raise anything when it is looked at
        problem = "an integer has too many digits" if isinstance(value, int) else f"{kind_of(value)} has no JSON form"
        raise UnreadableError(problem) from None


def _exact_object(value: dict[object, object], budget: list[int], depth: int) -> dict[str, JSON]:
    """Copy an object's entries; two keys with the same text (1 and "1") raise UnreadableError."""
    copied: dict[str, JSON] = {}
    for key, item in dict.items(value):
        name = key if type(key) is str else _key(key)
        if name in copied:
            raise UnreadableError(f"the key {quoted(name)} is given twice")
        copied[name] = _exact(item, budget, depth)
    return copied


def _key(key: object) -> str:
    """Return an object's key as text: integers become digits; any other type raises UnreadableError."""
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return str(_exact(key, [0], 0))  # as in `jsontext.plain`
    raise UnreadableError(f"an object's key must be text, not {kind_of(key)}")


_SPACE = re.compile(r"[ \t\r\n]*+")


def decode(text: str, max_depth: int = MAX_TEXT_DEPTH) -> JSON:
    """Decode a text that is one JSON value, with nothing but white space around it.

    Raises:
        UnreadableError: the text is not JSON, has a repeated key or a number out of range, or is nested too deeply.
    """
    value, end = decode_at(text, skip_space(text, 0), max_depth)
    end = skip_space(text, end)
    if end < len(text):
        raise UnreadableError(f"more text after the JSON value at {place(text, end)}")
    return value


def decode_at(text: str, position: int, max_depth: int = MAX_TEXT_DEPTH) -> tuple[JSON, int]:
    """Decode the JSON value at this position; return it with the position after it.

    A text that ends inside the value raises CutOffError.

    Raises:
        UnreadableError: the text is not JSON, has a repeated key or a number out of range, or is nested too deeply.
    """
    try:
        value: JSON
        value, end = _raw_decode(text, position)
    except json.JSONDecodeError as error:
        ended = error.msg.startswith("Unterminated") or not text[error.pos :].strip()
        kind = CutOffError if ended else UnreadableError
        raise kind(f"not JSON: {error.msg} at {place(text, error.pos)}") from None
    except UnreadableError:
        raise
    except ValueError:  # the limit of Python's int()
        raise UnreadableError("an integer has too many digits") from None
    except RecursionError:
        raise UnreadableError(f"the JSON is nested deeper than {max_depth} levels") from None
    brackets = text.count("{", position, end) + text.count("[", position, end)
    if brackets > max_depth and _is_deeper(value, max_depth):
        raise UnreadableError(f"the JSON is nested deeper than {max_depth} levels")
    return value, end


# the start of a model's end mark, such as `</tool_call>` or `<|im_end|>`, after the arguments
_CLOSING_TAG = re.compile(r"\s*+(?:</|<[|｜]|\[/)\w")


def arguments_problem(arguments: str) -> tuple[str, str | None] | None:
    """Return why a call's arguments are not the JSON text of an object; None if they are.

    The result is a cause of codes.toml and a remark, which is None if the cause says everything.
    """
    if (found := read_leniently(arguments)) is not None:
        return found[0], None
    try:
        value, end = decode_at(arguments, skip_space(arguments, 0))
    except CutOffError:  # {"city": "Par
        return "bad_arguments.pieces", "the arguments are cut off"
    except UnreadableError:  # {city: Paris}
        unescaped = html.unescape(arguments).removeprefix("\ufeff")  # {&quot;city&quot;: &quot;Paris&quot;}
        is_garbled = unescaped != arguments and isinstance(jsontext.value_of(unescaped), dict)
        return "garbled_text" if is_garbled else "bad_arguments", None
    if not isinstance(value, dict):  # ["Paris"]
        return "bad_arguments", None
    if _CLOSING_TAG.match(arguments, end):  # {"city": "Paris"}</tool_call>
        return "trailing_tag", None
    rest = arguments[end:].strip()
    if rest.startswith("{"):  # {"city": "Paris"}{"city": "Rome"}
        return "bad_arguments.pieces", "the arguments are several JSON objects"
    remark = None if arguments[:end].endswith(rest) else "a text follows the arguments"  # {"city": "Paris"} please
    return ("bad_arguments", remark) if rest else None


def read_leniently(arguments: str) -> tuple[str, dict[str, JSON]] | None:
    """Return the object in arguments that are encoded several times or fenced, with the cause; None for others."""
    if arguments.lstrip().startswith("{"):  # as nearly all: an object, or no JSON
        return None
    value: JSON = arguments
    layers, fence = 0, None
    with suppress(UnreadableError):
        while isinstance(value, str) and layers < _MOST_LAYERS:
            fence = _FENCE.fullmatch(value) or fence  # ```json {"city": "Paris"} ```
            value = decode(_FENCE.sub(r"\1", value))
            layers += 1
    cause = "bad_arguments.fenced" if fence else "double_encoded"
    return (cause, value) if isinstance(value, dict) and (fence or layers > 1) else None


def decode_calls(response: object) -> list[JSON] | None:
    """Return OpenAI tool calls with arguments read leniently; None if none has fenced or double-encoded arguments."""
    decoded: list[JSON] = []
    for call in response if isinstance(response, list) else ():
        function = jsontext.object_or_empty(call.get("function") if isinstance(call, dict) else None)
        arguments = function.get("arguments")
        found = read_leniently(arguments) if isinstance(arguments, str) else None
        decoded.append({**call, "function": {**function, "arguments": found[1]}} if found else call)
    return decoded if decoded and decoded != response else None


def skip_space(text: str, position: int) -> int:
    """Return the position of the next character that is not white space, or the text's end."""
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _is_deeper(value: JSON, most: int) -> bool:
    """Return whether lists and objects are nested in the value more than `most` levels deep."""
    level: list[JSON] = [value]
    for _ in range(most):
        inner = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list)))
        level = [*chain.from_iterable(inner)]
    return any(isinstance(each, (dict, list)) for each in level)


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    """Make an object from its decoded entries; a repeated key raises UnreadableError."""
    values = dict(pairs)
    if len(values) < len(pairs):
        known: set[str] = set()
        twice = next(key for key, _ in pairs if key in known or known.add(key))  # type: ignore[func-returns-value]
        raise UnreadableError(f"the key {quoted(twice)} is given twice")
    return values


def _float(digits: str) -> float:
    """Convert a JSON number with fraction or exponent; one that overflows to infinity raises UnreadableError."""
    number = float(digits)
    if not math.isfinite(number):
        raise UnreadableError(f"the number {quoted(digits)} is out of range")
    return number


def _no_constant(word: str) -> NoReturn:
    raise UnreadableError(f"not JSON: {word} is not a JSON number")


_raw_decode = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_no_constant).raw_decode
