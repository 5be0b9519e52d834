"""Function calls as data: calls and readings, the exact JSON values of arguments, and the wire formats of calls.

A call is `FunctionCall("get_weather", {"city": "Paris"})`, in all wire formats. `tunecheck.formats` reads calls into a
`Reading`; `write_calls` writes them, so that reading returns the same calls.

A model's output is untrusted: it may be very long or deeply nested, refer to itself, or contain objects of any class.
Values beyond the limits below are reported as problems. Arguments are read exactly; `tunecheck._json` reads leniently:

| text                       | here  | in `tunecheck._json`, for files and replies |
|----------------------------|-------|---------------------------------------------|
| two equal keys             | error | the last one wins                           |
| NaN, Infinity              | error | null                                        |
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, NoReturn

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, canonical, dumps, object_or_empty, plain, value_of
from tunecheck._messages import did_you_mean

PARALLEL = "multi_tool_use.parallel"
"""The function with which some models wrap parallel calls, in its argument `tool_uses`."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One call of a function: its name and its arguments by name.

    `id` is the call's id in its wire format, or None. Equality ignores it.
    """

    name: str
    arguments: dict[str, JSON] = field(default_factory=dict)
    id: str | None = field(default=None, compare=False)


def as_value(call: FunctionCall) -> dict[str, JSON]:
    """Return the call as `{"name": …, "arguments": …}`."""
    return {"name": call.name, "arguments": call.arguments}


@dataclass(frozen=True, slots=True)
class Reading:
    """The calls in one value (a response or a ground truth), or the problem with a call that cannot be read.

    `calls` are in the order of the value. `text` is the rest of the value, or the whole text if there is no call or a
    problem. `format` is the recognised wire format. If an announced call cannot be read, `problem` says why; `calls`
    then has some of the calls before it, or none. `cause` is a code of codes.toml for a problem that is not the call's
    own fault: `cut_off` or `call_in_reasoning`. `reasoning` is the model's reasoning without its marks; reasoning
    inside the text also stays in `text`. Equality ignores `reasoning` and `cause`.
    """

    calls: tuple[FunctionCall, ...] = ()
    text: str = ""
    format: str | None = None
    problem: str | None = None
    reasoning: str = field(default="", compare=False)
    cause: str | None = field(default=None, compare=False)

    @property
    def complete_calls(self) -> tuple[FunctionCall, ...]:
        """The calls, or an empty tuple if one cannot be read."""
        return () if self.problem is not None else self.calls


def tool_name(name: str) -> str:
    """Return a function's name as a tool may have it: `math.gcd` becomes `math_gcd`."""
    return name.replace(".", "_")


def plain_name(name: str) -> str:
    """Return the name in lower case, with underscores for dots and dashes, to compare different spellings."""
    return tool_name(name).replace("-", "_").casefold()


# no white space and no ASCII punctuation but `_`; after the first character also digits, `-` and `.`
NAME = r"[^\s\d!-/:-@\[-^`{-~][^\s!-,/:-@\[-^`{-~]*+"
"""A name of a function or of an argument in any script: `get_time`, `weather.get-now`, `天气`; not `2nd` or `-x`."""
PYTHON_NAME = re.compile(NAME)


def positional_count(arguments: dict[str, JSON]) -> int:
    """Return the number of positional arguments: the keys "0", "1", … without a gap."""
    count = 0
    while str(count) in arguments:
        count += 1
    return count


def bind_positional(call: FunctionCall, parameter_names: Sequence[str]) -> FunctionCall:
    """Return the call with its positional arguments ("0", "1", …) under the names of the parameters, in order.

    For the parameters `city` and `days`, `{"0": "Paris", "1": 3}` becomes `{"city": "Paris", "days": 3}`.

    A position beyond the last parameter keeps its number. The call is returned unchanged if a parameter is given by
    position and by name, or is itself named "0". The matcher then reports arguments that no definition has.
    """
    count = min(positional_count(call.arguments), len(parameter_names))
    names = {str(position): parameter_names[position] for position in range(count)}
    given_twice = any(name in call.arguments for name in names.values())

    # A parameter named "0" could be meant by name or by position.
    if not count or given_twice or "0" in parameter_names:
        return call

    arguments = {names.get(key, key): value for key, value in call.arguments.items()}
    return FunctionCall(call.name, arguments, call.id)


# -- exact JSON values

MAX_CHARACTERS = 1_000_000
"""Longest text that is searched for calls: twice the longest answer of large models (128,000 tokens)."""

MAX_DEPTH = 100
"""Deepest nesting of one call's arguments. Real ones stay below ten. With the message around them, arguments must stay
below the 200 levels that `_json` writes."""

MAX_TEXT_DEPTH = MAX_DEPTH + 12
"""Deepest nesting of a text: the deepest arguments, and the call, message and lists around them."""

MAX_VALUES = 200_000
"""Most values in the arguments of one call. Lists that contain the same list twice grow exponentially with depth."""

_SAFE_INTEGERS = 1 << 63
"""Integers below this size need no check of their number of digits."""

MAX_CALLS = 1_000
"""Most calls in one reading, because the time for matching grows with the cube of their number."""

_MOST_LAYERS = 5
"""Most times that arguments may be encoded as JSON text."""

# arguments in a Markdown block, such as "```json\n{}\n```"
_FENCE = re.compile(r"\A\s*+```\w*+(.*)```\s*+\Z", re.DOTALL)

# one bracket or quote; an escaped character such as `\"` is matched first, so that its quote does not count
_BRACKET_OR_QUOTE = re.compile(r"\\.|[\"'()\[\]{}]", re.DOTALL)
_SHOWN = 60  # characters of a name in a problem, which is one line


class UnreadableError(ValueError):
    """An announced call that cannot be read. Its text is one line: the problem and its place."""

    cause: ClassVar[str | None] = None
    """The `cause` of the `Reading` that reports this error."""


class CutOffError(UnreadableError):
    """A call that is cut off at the end of the text."""

    cause = "cut_off"


class ThoughtCallError(UnreadableError):
    """A call inside a thought that the text does not close."""

    cause = "call_in_reasoning"


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
    """Return the position after the mark that closes the first bracket or quote from `start` on; None if it stays open.

    Without any bracket or quote, the result is None. A closing bracket that comes first counts as the closing mark.
    Any closing bracket closes any opening one, because the text may be malformed. Brackets inside quotes and escaped
    characters do not count: for `f(a=')') and more` and the start 1, the result is 8, the position before ` and more`.
    """
    depth, quote = 0, ""
    for token in _BRACKET_OR_QUOTE.finditer(text, start):
        mark = token[0]
        if len(mark) > 1:  # an escaped character
            continue
        if quote:
            quote = "" if mark == quote else quote
        elif mark in ("'", '"'):
            quote = mark
        elif mark in ("(", "[", "{"):
            depth += 1
        else:
            depth -= 1

        if depth <= 0 and not quote:
            return token.end()
    return None


def check_size(text: str) -> None:
    """Raise UnreadableError if a text is too long to be read as calls."""
    if len(text) > MAX_CHARACTERS:
        raise UnreadableError(f"the text with calls has {len(text)} characters, over the limit of {MAX_CHARACTERS}")


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "null"), (bool, "true or false"), ((int, float), "a number"), (str, "text"), (dict, "an object"),
    ((list, tuple), "a list"),
)  # fmt: skip


def kind_of(value: object) -> str:
    """Return the kind of a JSON value in words, such as "a number", for an error message."""
    names = (name for kind, name in _KINDS if isinstance(value, kind))
    return next(names, f"a value of type {type(value).__name__}")


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
    # Exact types first: a subclass is only converted at the end.
    kind = type(value)
    if kind is str or value is None or kind is bool or (type(value) is int and abs(value) < _SAFE_INTEGERS):
        return value  # type: ignore[return-value]  # the most frequent cases

    if isinstance(value, (dict, list, tuple)):
        budget[0] -= len(value)
        if depth >= MAX_DEPTH:
            raise UnreadableError(f"the arguments are nested deeper than {MAX_DEPTH} levels")
        if budget[0] < 0:
            raise UnreadableError(f"the arguments contain more than {MAX_VALUES:,} values at all levels")

        if isinstance(value, dict):
            return _exact_object(value, budget, depth + 1)
        return [_exact(item, budget, depth + 1) for item in value]

    if isinstance(value, float) and not math.isfinite(value):
        raise UnreadableError(f"{value} is not a JSON number")

    try:
        return plain(value)  # the plain number or text of a subclass or of numpy's scalars
    except Exception:  # noqa: BLE001 - an object of any class may raise anything when it is looked at
        problem = "an integer has too many digits" if isinstance(value, int) else f"{kind_of(value)} has no JSON form"
        raise UnreadableError(problem) from None


def _exact_object(value: dict[object, object], budget: list[int], depth: int) -> dict[str, JSON]:
    """Copy an object's entries; two keys with the same text (1 and "1") raise UnreadableError."""
    copied: dict[str, JSON] = {}
    # A subclass may override `items`.
    for key, item in dict.items(value):
        name = key if type(key) is str else _key(key)
        if name in copied:
            raise UnreadableError(f"the key {quoted(name)} is given twice in one object")
        copied[name] = _exact(item, budget, depth)
    return copied


def _key(key: object) -> str:
    """Return an object's key as text: integers become digits; any other type raises UnreadableError."""
    if isinstance(key, str):
        return str.__str__(key)  # the plain text of a subclass
    if isinstance(key, int) and not isinstance(key, bool):
        return str(_exact(key, [0], 0))  # refuses too many digits; a number needs no budget
    raise UnreadableError(f"an object's key must be text, not {kind_of(key)}")


# JSON's white space, which is less than Python's: no form feed, no Unicode spaces
_SPACE = re.compile(r"[ \t\r\n]*+")


def decode(text: str, max_depth: int = MAX_TEXT_DEPTH) -> JSON:
    """Decode a text that is one JSON value, with nothing but white space around it.

    Raises:
        UnreadableError: the text is not JSON, has a repeated key or a number out of range, or is nested too deeply.
    """
    value, end = decode_at(text, skip_space(text, 0), max_depth)
    end = skip_space(text, end)
    if end < len(text):
        raise UnreadableError(f"the text must be one JSON value, but other text follows at {place(text, end)}")
    return value


def decode_at(text: str, position: int, max_depth: int = MAX_TEXT_DEPTH) -> tuple[JSON, int]:
    """Decode the JSON value at this position; return it with the position after it.

    A text that ends inside the value raises CutOffError.

    Raises:
        UnreadableError: the text is not JSON, has a repeated key or a number out of range, or is nested too deeply.
    """
    # JSONDecodeError and UnreadableError are ValueErrors, so the order of these clauses matters.
    try:
        value: JSON
        value, end = _raw_decode(text, position)
    except json.JSONDecodeError as error:
        # At the end of the text, the decoder reports an open text or a missing value.
        ended = error.msg.startswith("Unterminated") or not text[error.pos :].strip()
        kind = CutOffError if ended else UnreadableError
        raise kind(f"the text is not JSON: {error.msg} at {place(text, error.pos)}") from None
    except UnreadableError:
        raise
    except ValueError:  # the limit of Python's int()
        raise UnreadableError("an integer has too many digits") from None
    except RecursionError:
        raise UnreadableError(f"the JSON is nested deeper than {max_depth} levels") from None

    # Few brackets cannot nest deeply. Only other values are walked, because brackets inside texts count here, too.
    brackets = text.count("{", position, end) + text.count("[", position, end)
    if brackets > max_depth and is_deeper(value, max_depth):
        raise UnreadableError(f"the JSON is nested deeper than {max_depth} levels")
    return value, end


# the start of a model's end mark, such as `</tool_call>` or `<|im_end|>`, after the arguments
_CLOSING_TAG = re.compile(r"\s*+(?:</|<[|｜]|\[/)\w")


def arguments_problem(arguments: str) -> tuple[str, str | None] | None:
    """Return why a call's arguments are not the JSON text of an object; None if they are such a text.

    The result is a cause of codes.toml and a remark; the remark is None if the cause says everything. The causes are
    tested in this order:

    | arguments                                   | cause                  | remark               |
    |---------------------------------------------|------------------------|----------------------|
    | a fenced block with JSON                    | `bad_arguments.fenced` |                      |
    | `"{\"city\": \"Paris\"}"` (JSON as text)    | `double_encoded`       |                      |
    | `{"city": "Par`                             | `bad_arguments.pieces` | cut off              |
    | `{&quot;city&quot;: 1}` (HTML), or a BOM    | `garbled_text`         |                      |
    | `{city: Paris}`, `["Paris"]`                | `bad_arguments`        |                      |
    | `{"city": "Paris"}</tool_call>`             | `trailing_tag`         |                      |
    | `{"city": "Paris"}{"city": "Rome"}`         | `bad_arguments.pieces` | several JSON objects |
    | `{"city": "Paris"} please`                  | `bad_arguments`        | a text follows       |
    | `{"city": "Paris"}}` (repeats its own end)  | `bad_arguments`        |                      |
    """
    if (found := read_leniently(arguments)) is not None:
        return found[0], None
    try:
        value, end = decode_at(arguments, skip_space(arguments, 0))
    except CutOffError:
        return "bad_arguments.pieces", "the arguments are cut off"
    except UnreadableError:
        from html import unescape  # imported here because it loads a table of all entity names

        # HTML's entities, or a byte order mark, around readable JSON
        unescaped = unescape(arguments).removeprefix("\ufeff")
        is_garbled = unescaped != arguments and isinstance(value_of(unescaped), dict)
        return "garbled_text" if is_garbled else "bad_arguments", None
    if not isinstance(value, dict):
        return "bad_arguments", None
    if _CLOSING_TAG.match(arguments, end):
        return "trailing_tag", None

    # A closing brace that is written twice repeats the end of the object, and needs no remark.
    rest = arguments[end:].strip()
    if rest.startswith("{"):
        return "bad_arguments.pieces", "the arguments are several JSON objects"
    remark = None if arguments[:end].endswith(rest) else "a text follows the arguments"
    return ("bad_arguments", remark) if rest else None


def read_leniently(arguments: str) -> tuple[str, dict[str, JSON]] | None:
    """Return the cause and the object for arguments that are fenced or encoded as JSON several times.

    Return None for any other text, also for plain JSON. Both are the object `{"city": "Paris"}`:

        "{\"city\": \"Paris\"}"               double_encoded, in two layers: text, object
        ```json {"city": "Paris"} ```         bad_arguments.fenced
    """
    if arguments.lstrip().startswith("{"):  # as nearly all: an object, or no JSON
        return None

    value: JSON = arguments
    layers, fence = 0, None
    with suppress(UnreadableError):
        while isinstance(value, str) and layers < _MOST_LAYERS:
            fence = _FENCE.fullmatch(value) or fence
            value = decode(_FENCE.sub(r"\1", value))
            layers += 1

    cause = "bad_arguments.fenced" if fence else "double_encoded"
    return (cause, value) if isinstance(value, dict) and (fence or layers > 1) else None


def decode_calls(response: object) -> list[JSON] | None:
    """Return a copy of OpenAI's tool calls with fenced and repeatedly encoded arguments replaced by their objects.

    Return None if no call has such arguments, or if the response is not a list.
    """
    decoded: list[JSON] = []
    # Only a list is one of tool calls.
    for call in response if isinstance(response, list) else ():
        function = object_or_empty(call.get("function") if isinstance(call, dict) else None)
        arguments = function.get("arguments")
        found = read_leniently(arguments) if isinstance(arguments, str) else None
        decoded.append({**call, "function": {**function, "arguments": found[1]}} if found else call)

    # An equal copy means that no call had such arguments.
    return decoded if decoded and decoded != response else None


def skip_space(text: str, position: int) -> int:
    """Return the position of the next character that is not JSON's white space, or the text's end."""
    match = _SPACE.match(text, position)
    return match.end() if match else position


def levels(value: JSON) -> Iterator[list[JSON]]:
    """Yield the values at each level of nesting, without recursion: the value itself, its items, their items."""
    level = [value]
    while level:
        yield level
        inner: list[JSON] = []
        for item in level:
            if isinstance(item, (dict, list)):
                inner += item.values() if isinstance(item, dict) else item
        level = inner


def is_deeper(value: JSON, most: int) -> bool:
    """Return whether lists and objects are nested in the value more than `most` levels deep."""
    # Level `most` has the values inside `most` lists or objects; it is missing if the nesting ends before.
    return any(isinstance(item, (dict, list)) for item in next(islice(levels(value), most, None), ()))


# -- hooks of the JSON decoder


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    """Make an object from its decoded entries; a repeated key raises UnreadableError."""
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise UnreadableError(f"the key {quoted(twice)} is given twice in one object")
    return values


def _float(digits: str) -> float:
    """Convert a JSON number with fraction or exponent; one that overflows to infinity raises UnreadableError."""
    number = float(digits)
    if not math.isfinite(number):
        raise UnreadableError(f"the number {quoted(digits)} is too large for a 64-bit float")
    return number


def _refuse_constant(word: str) -> NoReturn:
    """Refuse `NaN`, `Infinity` and `-Infinity` (UnreadableError)."""
    raise UnreadableError(f"{word} is not a JSON number")


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_refuse_constant)
_raw_decode = _decoder.raw_decode


# -- calls written in wire formats, so that reading returns the same calls, and as text for people


def write_calls(calls: Iterable[FunctionCall], format: str) -> JSON:
    """Write calls in one of `FORMATS`: as text for text formats, else as a JSON list or object.

    Calls without an id get one (`call_0`, …) if the format needs it. `function_call` is an object for one call, and a
    list for any other number of calls.

    Raises:
        ConfigurationError: there is no such format.
        ValueError: there are over 1,000 calls, a call has no name or the wrapper's, its arguments have no JSON form
            (NaN, objects), or its name is not valid in Python (only for `bfcl_text`).
    """
    write = _WRITERS.get(format)
    if write is None:
        raise ConfigurationError(f"no call format has the name {format!r}{did_you_mean(str(format), FORMATS)}")

    # All calls are checked before any is written.
    checked = [_check_call(call) for call in calls]
    if len(checked) > MAX_CALLS:
        raise ValueError(f"{len(checked)} calls are too many: write at most {MAX_CALLS} at once")
    return write(checked)


def canonical_text(calls: Iterable[FunctionCall]) -> str:
    """Write one line for each call, `name(key=json, …)`, with sorted keys: equal calls give equal text.

    Raises:
        TypeError: arguments contain a value without a JSON form; calls that were read never do.
    """
    return "\n".join(_canonical(call) for call in calls)


def _canonical(call: FunctionCall) -> str:
    """Return a call as `name(key=json, …)`, with sorted keys."""
    arguments = (f"{key}={canonical(call.arguments[key]).decode()}" for key in sorted(call.arguments))
    return f"{call.name}({', '.join(arguments)})"


def _text(value: object) -> str:
    """Return a value as JSON text."""
    return dumps(value).decode()


def _check_call(call: FunctionCall) -> FunctionCall:
    """Return a copy of the call with plain JSON arguments.

    Raises:
        ValueError: the name is empty or the wrapper's of parallel calls, or the arguments have no JSON form.
    """
    if not call.name.strip() or call.name == PARALLEL:
        raise ValueError(f"a call cannot be named {quoted(call.name)}: write the name of a function")
    try:
        arguments = exact(call.arguments)
    except UnreadableError as error:
        raise ValueError(f"the call of {quoted(call.name)} cannot be written: {error}") from None
    assert isinstance(arguments, dict)
    return FunctionCall(call.name, arguments, call.id)


def _with_ids(calls: Sequence[FunctionCall]) -> list[tuple[str, FunctionCall]]:
    """Return each call with its id; calls without an id get `call_0`, `call_1`, …, skipping ids that are taken."""
    taken = {call.id for call in calls}
    # Twice as many names as calls, because the calls' own ids can take as many names as there are calls.
    free = (name for number in range(2 * len(calls)) if (name := f"call_{number}") not in taken)
    return [(call.id if call.id is not None else next(free), call) for call in calls]


def _openai(calls: Sequence[FunctionCall]) -> JSON:
    """Write the calls as OpenAI's `tool_calls`, with the arguments as JSON text."""
    return [
        {"id": identity, "type": "function", "function": {"name": call.name, "arguments": _text(call.arguments)}}
        for identity, call in _with_ids(calls)
    ]


def _function_call(calls: Sequence[FunctionCall]) -> JSON:
    """Write each call as OpenAI's legacy `function_call`: one object for one call, else a list."""
    written: list[JSON] = [{"function_call": {"name": call.name, "arguments": _text(call.arguments)}} for call in calls]
    return written[0] if len(written) == 1 else written


def _tool_uses(calls: Sequence[FunctionCall]) -> JSON:
    """Write the calls as the arguments of OpenAI's wrapper of parallel calls."""
    return {"tool_uses": [{"recipient_name": f"functions.{call.name}", "parameters": call.arguments} for call in calls]}


def _glaive(call: FunctionCall) -> str:
    """Write a call after `<functioncall>`, with the arguments as JSON text in apostrophes."""
    return f'<functioncall> {{"name": {_text(call.name)}, "arguments": \'{_text(call.arguments)}\'}}'


def _python(call: FunctionCall) -> str:
    """Write a call in Python's syntax: `f(5, a=1, **{'b c': 2})`.

    Positional arguments come first. Arguments with names that `PYTHON_NAME` does not match go into `**{…}`.

    Raises:
        ValueError: `PYTHON_NAME` does not match the function's name.
    """
    if not PYTHON_NAME.fullmatch(call.name):
        raise ValueError(f"the name {quoted(call.name)} is not valid in Python: write the calls in another format")

    positions = [str(position) for position in range(positional_count(call.arguments))]
    positional = set(positions)
    written = [repr(call.arguments[position]) for position in positions]

    named = {key: value for key, value in call.arguments.items() if key not in positional}
    # Names such as `city name` cannot stand before `=`.
    plain = {key: value for key, value in named.items() if PYTHON_NAME.fullmatch(key)}
    written += [f"{key}={value!r}" for key, value in plain.items()]
    if len(plain) < len(named):
        written.append(f"**{ ({key: value for key, value in named.items() if key not in plain})!r}")

    return f"{call.name}({', '.join(written)})"


def _mistral(call: FunctionCall) -> JSON:
    """Return a call as an object of the list that Mistral's models write after `[TOOL_CALLS]`."""
    return as_value(call) if call.id is None else {**as_value(call), "id": call.id}


def _llama(call: FunctionCall) -> str:
    """Write a call as the JSON object that Llama writes after `<|python_tag|>`."""
    return _text({"name": call.name, "parameters": call.arguments})


def _azure_agent(calls: Sequence[FunctionCall]) -> JSON:
    """Write the calls as a list with one assistant message of Azure AI agents; without calls, as an empty list."""
    content: list[JSON] = [
        {"type": "tool_call", "tool_call_id": identity, "name": call.name, "arguments": call.arguments}
        for identity, call in _with_ids(calls)
    ]
    return [{"role": "assistant", "content": content}] if content else []


_WRITERS: dict[str, Callable[[Sequence[FunctionCall]], JSON]] = {
    "openai": _openai,
    "function_call": _function_call,
    "tool_uses": _tool_uses,
    "tool_uses_text": lambda calls: repr(_tool_uses(calls)),
    "glaive": lambda calls: "\n".join(map(_glaive, calls)),
    "bfcl_text": lambda calls: f"[{', '.join(map(_python, calls))}]",
    "bfcl": lambda calls: [{call.name: _text(call.arguments)} for call in calls],
    "hermes": lambda calls: "\n".join(f"<tool_call>\n{_text(as_value(call))}\n</tool_call>" for call in calls),
    "mistral": lambda calls: f"[TOOL_CALLS] {_text([*map(_mistral, calls)])}" if calls else "",
    "llama": lambda calls: f"<|python_tag|>{'; '.join(map(_llama, calls))}" if calls else "",
    "azure_agent": _azure_agent,
}

FORMATS = tuple(_WRITERS)
"""The wire formats that `write_calls` writes and `read_calls` reads. One call, `f(a=1)`, in each of them:

    openai            [{"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]
    function_call     {"function_call": {"name": "f", "arguments": "{\"a\":1}"}}
    tool_uses         {"tool_uses": [{"recipient_name": "functions.f", "parameters": {"a": 1}}]}
    tool_uses_text    the same as Python text, in single quotes
    glaive            <functioncall> {"name": "f", "arguments": '{"a":1}'}
    bfcl_text         [f(a=1)]
    bfcl              [{"f": "{\"a\":1}"}]
    hermes            <tool_call>\n{"name":"f","arguments":{"a":1}}\n</tool_call>
    mistral           [TOOL_CALLS] [{"name":"f","arguments":{"a":1}}]
    llama             <|python_tag|>{"name":"f","parameters":{"a":1}}
    azure_agent       [{"role": "assistant", "content": [{"type": "tool_call", "tool_call_id": "call_0",
                          "name": "f", "arguments": {"a": 1}}]}]
"""
