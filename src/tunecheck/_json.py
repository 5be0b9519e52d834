"""JSON text in and out: fast, strict, and exact.

msgspec reads and writes nearly everything. The standard library handles the values that msgspec refuses:

    a lone surrogate (half of a pair, such as U+D83D)   stays as it is
    NaN and Infinity, which are not JSON                become null
    a number outside the range of a float (1e400)       becomes null
    an integer of up to 4,300 digits                    stays exact; a longer one is an error, as in Python
    numpy values, other objects with `tolist()`         are written as lists and numbers (`plain`)
"""

from __future__ import annotations

import codecs
import contextlib
import gc
import hashlib
import json
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import msgspec

JSON: TypeAlias = "None | bool | int | float | str | list[JSON] | dict[str, JSON]"

MAX_DEPTH = 200
"""Maximum nesting depth for reading and writing; real data stays below twenty."""

_MAX_BITS = 14_000
"""Longest integer in bits (4,214 digits); by default Python converts at most 4,300 digits to or from text."""

_FLOAT_BITS = sys.float_info.max_exp
"""Integers with this many bits or more may exceed the largest float."""

_LONG_NUMBER, _DIGITS = b"0" * 4_000, bytes.maketrans(b"123456789", b"0" * 9)
"""A pattern of 4,000 zeros, and a table that turns all digits to zeros: together they find long numbers."""

_PIECE = 1 << 20
"""Bytes of a long text that are examined at once."""

_LINE_ENDS = tuple((end.encode(), b"\\u%04x" % ord(end)) for end in "\x85\u2028\u2029")
"""Unicode's further line ends in UTF-8, with their escapes in JSON."""

_MAX_PATH = 200
"""Maximum number of characters of a path in an error."""

_NO_JSON_FORM = "has no JSON form: convert it to a text, number, list or dict"
"""The end of an error about a value that JSON cannot hold."""

_OBJECTS_BETWEEN_COLLECTIONS = 20_000
"""Number of new objects after which Python collects garbage while rows are read (its default is 700)."""

_SHORT = 2_048
"""`loads_part` reads texts of fewer bytes whole, which is faster than value by value."""

T = TypeVar("T")

_decode = msgspec.json.Decoder().decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode


def loads(text: bytes | str) -> JSON:
    """Read one JSON value. Integers stay exact; NaN, infinities and numbers outside the range of a float become None.

    Raises:
        ValueError: the text is not JSON (the message has line and column), is not UTF-8 or is nested too deeply, or an
            integer has over 4,300 digits.
    """
    try:
        value: JSON = _decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _loads_slowly(text)
    return value


def loads_part(text: bytes, keys: Collection[str]) -> JSON:
    """Read a JSON value. If it is a long object, parse only the values of `keys`, which is faster.

    Its other values stay JSON text (`msgspec.Raw`). A text of under 2,048 bytes is parsed as a whole.

    Raises:
        ValueError: the text is not JSON.
    """
    try:
        if len(text) < _SHORT:
            return loads(text)

        values = _decode_object(text)
        check_utf8(text)

        # A number of thousands of digits must be refused, also in a value that is not parsed.
        if _has_long_number(text):
            return loads(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return loads(text)

    row: dict[str, JSON] = values  # type: ignore[assignment]  # a value that was not asked for stays `Raw`
    row |= {key: loads(values[key]) for key in keys if key in values}
    return row


def object_decoder(
    kinds: Mapping[str, object], *, forbid_unknown_fields: bool = False
) -> msgspec.json.Decoder[msgspec.Struct] | None:
    """Return a decoder for objects with these keys; None if msgspec does not support one of the keys.

    `kinds` has the type of each key's values. A key that an object lacks is UNSET in the decoded Struct.
    """
    # Keys such as `outputs.match.match` are no names of Python: fields are numbered and renamed.
    fields = [(f"k{number}", kind, msgspec.UNSET) for number, kind in enumerate(kinds.values())]
    names = {f"k{number}": key for number, key in enumerate(kinds)}

    try:
        # JSON has no cycles: the garbage collector need not visit the objects (`gc=False`).
        kind = msgspec.defstruct("Object", fields, rename=names, forbid_unknown_fields=forbid_unknown_fields, gc=False)
    except ValueError:  # msgspec does not support keys with characters that JSON must escape
        return None
    return msgspec.json.Decoder(kind)


def values_reader(keys: Iterable[str]) -> Callable[[bytes], JSON]:
    """Return a function that reads these keys from an object's JSON text; it may leave out others.

    This takes less than half of the time of reading the whole object. The function raises ValueError if the text is not
    JSON. It does not check the encoding of values that it leaves out.
    """
    decoder = object_decoder(dict.fromkeys(keys, Any))
    if decoder is None:
        return loads

    def read(text: bytes) -> JSON:
        try:
            values: JSON = msgspec.to_builtins(decoder.decode(text))
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return loads(text)
        return values

    return read


def check_utf8(text: bytes) -> None:
    """Raise UnicodeDecodeError if a text is not UTF-8: msgspec does not check values that it leaves undecoded.

    A long text is decoded in pieces: a single character beyond Latin-1 would make the whole copy twice as large.
    """
    if text.isascii():
        return

    decode = codecs.getincrementaldecoder("utf-8")().decode
    for start in range(0, len(text), _PIECE):
        decode(text[start : start + _PIECE], start + _PIECE >= len(text))


def _has_long_number(text: bytes) -> bool:
    """Return whether a text has 4,000 digits in a row. Long texts are searched in pieces, which saves a whole copy."""
    starts = range(0, len(text) - len(_LONG_NUMBER), _PIECE)
    return any(_LONG_NUMBER in text[start : start + _PIECE + len(_LONG_NUMBER)].translate(_DIGITS) for start in starts)


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python collect cyclic garbage less often while rows of JSON are read, because they have no cycles.

    With the default threshold of 700 objects, collections take half the time of a run with 1,600 tools in each row.
    """
    before = gc.get_threshold()
    if 0 < before[0] < _OBJECTS_BETWEEN_COLLECTIONS:  # 0: the user has turned collections off
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _loads_slowly(text: bytes | str) -> JSON:
    """Read JSON that the fast reader refused, with the standard library; NaN, infinities and 1e400 become None.

    Raises:
        ValueError: the text is not JSON, not UTF-8, or nested too deeply.
    """
    try:
        text = text if isinstance(text, str) else text.decode("utf-8")
        value: JSON = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise ValueError(f"the text is not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    return value


def _finite(text: str) -> float | None:
    """Return the number that the text writes; None if it is outside the range of a float."""
    number = float(text)
    return number if math.isfinite(number) else None


def dumps(value: object) -> bytes:
    """Return one value as strict JSON on one line; NaN and the infinities become null.

    Raises:
        TypeError: the value holds something without JSON form; the message names its place and type.
    """
    return _write(value, _encode)


def canonical(value: object) -> bytes:
    """Return a value as JSON with sorted object keys, so that equal values give equal bytes.

    Raises:
        TypeError: the value has no JSON form.
    """
    return _write(value, _encode_sorted, sort_keys=True)


def content_hash(value: object) -> str:
    """Return a hash (16 hex digits) that is the same for equal values, whatever the order of their keys.

    Raises:
        TypeError: the value has no JSON form.
    """
    return hashlib.blake2b(_write(value, _encode_sorted, sort_keys=True), digest_size=8).hexdigest()


def dumps_line(value: object) -> bytes:
    """Return a value as one line of a JSON Lines file.

    Unicode has three more line ends that JSON allows in strings but at which some readers split; they are escaped.
    """
    text = _write(value, _encode)
    if not text.isascii():
        for end, escaped in _LINE_ENDS:
            text = text.replace(end, escaped)
    return text + b"\n"


def _write(value: object, encode: Callable[[object], bytes], *, sort_keys: bool = False) -> bytes:
    """Return a value as JSON: by `encode`, else by the slower writer, which converts users' objects first.

    `sort_keys` must be True if `encode` sorts the keys, so that the slower writer gives the same order.

    Raises:
        TypeError: the value has no JSON form.
    """
    try:
        text = encode(value)
    except Exception:  # noqa: BLE001 - values that the fast writer refuses, and users' objects, are converted first
        return json.dumps(plain(value), allow_nan=False, separators=(",", ":"), sort_keys=sort_keys).encode()
    return text


def plain(value: object, *, path: str = "$") -> JSON:
    """Return the value as plain JSON types: tuples become lists, keys become text, NaN becomes null.

    {1: (2.5, nan)} becomes {"1": [2.5, null]}.

    numpy scalars and arrays, and other objects with a `tolist()`, become numbers and lists.

    Raises:
        TypeError: a part has no JSON form; the message names its path and type.
    """
    return _plain(value, (path, None), 0)


_Steps: TypeAlias = "tuple[object, _Steps | None]"
"""A path as linked steps, the last step first; converted to text only for an error."""


ALWAYS_PLAIN = frozenset({str, bool, type(None)})
"""Types whose values are all JSON. A float may be NaN, and an integer may be too long.

Most values have one of these types, so `plain` does not call itself for them, which would take most of its time.
"""

SCALAR_TYPES = ALWAYS_PLAIN | {int, float}
"""Types of JSON values that contain no other values, so that a copy may share them."""


def _plain(value: object, path: _Steps, depth: int) -> JSON:
    """Return the value as plain JSON types; `path` and `depth` are its place in the outermost value, for errors.

    Raises:
        TypeError: a part has no JSON form.
    """
    if type(value) in ALWAYS_PLAIN:
        return value  # type: ignore[return-value]

    if depth > MAX_DEPTH:
        _refuse(value, path, f"is nested deeper than {MAX_DEPTH} levels: use fewer levels")

    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _MAX_BITS else _refuse(value, path, "is too large: use a text")

    if isinstance(value, dict):
        return {
            key if type(key) is str else _key(key, path): (
                item if type(item) in ALWAYS_PLAIN else _plain(item, (key, path), depth + 1)
            )
            for key, item in value.items()
        }

    if isinstance(value, (list, tuple)):
        return [
            item if type(item) in ALWAYS_PLAIN else _plain(item, (index, path), depth + 1)
            for index, item in enumerate(value)
        ]

    # Subclasses of str, such as enums' values, become plain texts.
    if isinstance(value, str):
        return str.__str__(value)
    return _plain(_take_apart(value, path), path, depth + 1)


def _take_apart(value: object, path: _Steps) -> object:
    """Return an object as a value of simpler types: a Struct as a mapping, a numpy value as a list or number.

    Any other object with a `tolist()` is converted like a numpy value. `path` names the object in errors.

    Raises:
        TypeError: the object has no JSON form, or reading it raises an error.
    """
    try:
        if isinstance(value, msgspec.Struct):
            return msgspec.to_builtins(value, enc_hook=plain)
        listed: object = value.tolist() if hasattr(value, "tolist") else value
    except Exception:  # noqa: BLE001 - a user's object may raise anything when it is read
        _refuse(value, path)
    return listed if listed is not value else _refuse(value, path)


def whole_number(value: JSON) -> int | None:
    """Return the value if it is an integer, else None; booleans do not count."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def object_or_empty(value: JSON) -> dict[str, JSON]:
    """Return the value if it is a JSON object, else an empty object."""
    return value if isinstance(value, dict) else {}


def text_or_none(value: JSON) -> str | None:
    """Return the value if it is a text, else None."""
    return value if isinstance(value, str) else None


def text_or_json(value: JSON) -> str:
    """Return a text as it is, and another value as JSON."""
    return value if isinstance(value, str) else dumps(value).decode()


def value_of(text: str | bytes) -> JSON:
    """Return the value of a JSON text, or None if the text is not JSON."""
    try:
        return loads(text)
    except ValueError:
        return None


def real_number(value: JSON) -> float | None:
    """Return the value if it is a number, else None; booleans do not count."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def convert_value(value: object, kind: type[T]) -> T:
    """Return the value as an instance of `kind`, converted by msgspec.

    Raises:
        ValidationError: it does not fit, or has a lone surrogate.
    """
    try:
        return msgspec.convert(value, kind)
    except UnicodeEncodeError:
        raise msgspec.ValidationError("a text has half a character (a lone surrogate): correct the text") from None


def within_floats(value: JSON, depth: int = 0) -> JSON:
    """Return the value with null for integers outside the range of a float, as `loads` reads 1e400.

    `depth` is the depth of the value inside the outermost one.

    Raises:
        ValueError: the value is nested too deeply.
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"the JSON is nested deeper than {MAX_DEPTH} levels")

    if isinstance(value, dict):
        return {key: within_floats(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [within_floats(item, depth + 1) for item in value]

    return None if isinstance(value, int) and value.bit_length() >= _FLOAT_BITS else value


def _key(key: object, path: _Steps) -> str:
    """Return an object key as text; an integer becomes its digits.

    Raises:
        TypeError: the key is of another type.
    """
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    _refuse(key, path, "has no JSON form: use a text", "key")


def _refuse(value: object, path: _Steps, problem: str = _NO_JSON_FORM, noun: str = "value") -> NoReturn:
    """Raise TypeError for a value without a JSON form: "a.b[0]: a value of type set has no JSON form: …".

    `problem` says what is wrong and what to do. `noun` is "key" if the value is a key of the object at the path.
    """
    value_path = ""

    # The steps are linked from the last to the first.
    step, rest = path
    while rest is not None:
        value_path = f"[{step}]{value_path}" if isinstance(step, int) else f".{step}{value_path}"
        step, rest = rest

    value_path = f"{step}{value_path}"
    value_path = value_path if len(value_path) <= _MAX_PATH else f"{value_path[:_MAX_PATH]}…"
    raise TypeError(f"{value_path}: a {noun} of type {type(value).__name__} {problem}")


ValuePath: TypeAlias = tuple[str | int, ...]


def map_texts(value: JSON, change: Callable[[str, ValuePath], JSON], path: ValuePath = ()) -> JSON:
    """Return a copy of the value with each text in it replaced by `change(text, path)`, with the text's path.

    `path` is the path of the whole value. Keys of objects stay unchanged.
    """
    if isinstance(value, str):
        return change(value, path)
    if isinstance(value, list):
        return [map_texts(item, change, (*path, index)) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: map_texts(item, change, (*path, key)) for key, item in value.items()}
    return value


MAX_LENGTH = 1_000
"""Maximum length of a path in characters; it also limits the recursion of `find_value`."""

# One step: `.name` (the dot is missing at the beginning), `[0]`, `['a column']` or `["a column"]`.
_STEP = re.compile(r"""\.?([^.\[\]{}'"]+)|\[(\d{1,9})\]|\[(?:'([^']*)'|"([^"]*)")\]""")


class Missing:
    """The type of MISSING."""


MISSING: Final = Missing()
"""Result for a path without a value; None would be ambiguous, because it can be a value."""


def parse_path(text: str) -> ValuePath:
    """Return the steps of a path; an empty text has no steps.

    `choices[0].message` gives ("choices", 0, "message"), and `data['a column']` gives ("data", "a column").

    Raises:
        ValueError: the text is not a path, or longer than 1,000 characters.
    """
    steps: list[str | int] = []
    position = 0

    if len(text) > MAX_LENGTH:
        raise ValueError(f"the path to a value is longer than {MAX_LENGTH:,} characters: shorten the path")

    while position < len(text):
        match = _STEP.match(text, position)

        # A name needs a dot before it, except at the beginning, where a dot is wrong.
        if match is None or (match.group(1) and bool(steps) != (text[position] == ".")):
            raise ValueError(f"{text!r} is not a path such as messages[0].content: correct character {position + 1}")

        name, index, single, double = match.groups()
        steps.append(int(index) if index else next(part for part in (name, single, double) if part is not None))
        position = match.end()

    return tuple(steps)


def find_value(value: object, path: ValuePath) -> JSON | Missing:
    """Return the value at the end of a path, or MISSING.

    A mapping may be flattened: if the path `meta`, `id` leads to no value, the key `meta.id` is tried.
    """
    if len(path) < 2:  # most paths are a column's name
        return _step(value, path[0]) if path else value  # type: ignore[return-value]  # what holds JSON holds JSON

    first, rest = path[0], path[1:]
    under_first = _step(value, first)
    found = MISSING if isinstance(under_first, Missing) else find_value(under_first, rest)

    # Integers are indexes of lists, so only names are joined with a dot.
    may_be_dotted = isinstance(value, Mapping) and isinstance(rest[0], str)
    if not isinstance(found, Missing) or not may_be_dotted:
        return found
    return find_value(value, (f"{first}.{rest[0]}", *rest[1:]))


def _step(value: object, step: str | int) -> object:
    """Return the value under a key of a mapping, or at an index of a list; MISSING if there is none.

    A mapping reads an integer as the key "0", a list reads digits as an index.
    """
    if isinstance(value, (dict, Mapping)):  # checking for dict first is much faster than checking for Mapping alone
        return value.get(step, MISSING) if isinstance(step, str) else value.get(str(step), MISSING)
    is_index = isinstance(step, int) or (step.isascii() and step.isdigit() and len(step) < 10)
    if isinstance(value, (list, tuple)) and is_index:
        index = int(step)
        return value[index] if index < len(value) else MISSING
    return MISSING
