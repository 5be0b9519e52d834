"""JSON text inside a model's output: one value, from a position on, with nothing let pass.

`jsontext` reads files and replies, where the last of two equal keys wins and NaN is null. Arguments of a call must not
be changed by reading them, and a call stands in the middle of other text; hence this stricter reader.
"""

from __future__ import annotations

import json
import math
import re
from typing import NoReturn

from tunecheck._json import JSON
from tunecheck.calls._bounds import MAX_TEXT_DEPTH, UnreadableError, place, quoted

_COUNTED = (
    10_000  # characters in which brackets are counted first: a long text is not gone through for each of its values
)
_SPACE = re.compile(r"[ \t\r\n]*+")
_NESTING = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def decode(text: str, max_depth: int = MAX_TEXT_DEPTH) -> JSON:
    """The one JSON value that the text is.

    Raises:
        UnreadableError: it is not JSON, a key is given twice, a number is out of range, or it is nested too deeply.
    """
    value, end = decode_at(text, skip_space(text, 0), max_depth)
    end = skip_space(text, end)
    if end < len(text):
        raise UnreadableError(f"more text after the JSON value at {place(text, end)}")
    return value


def decode_at(text: str, position: int, max_depth: int = MAX_TEXT_DEPTH) -> tuple[JSON, int]:
    """The JSON value that begins at this position, and the position after it.

    Raises:
        UnreadableError: as `decode`.
    """
    if len(text) - position > _COUNTED or text.count("{", position) + text.count("[", position) > max_depth:
        _check_depth(text, position, max_depth)
    try:
        value: JSON
        value, end = _raw_decode(text, position)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"not JSON: {error.msg} at {place(text, error.pos)}") from None
    except UnreadableError:
        raise
    except ValueError:  # the interpreter's own limit
        raise UnreadableError("an integer with too many digits") from None
    return value, end


def skip_space(text: str, position: int) -> int:
    """The first position from here on that holds no white space (or the text's end)."""
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _check_depth(text: str, start: int, max_depth: int) -> None:
    """Counted before the value is decoded, whose decoder calls itself for each level; looks at this value only."""
    if text[start : start + 1] not in ("{", "["):
        return
    depth = 0
    for match in _NESTING.finditer(text, start):
        token = match[0]
        if token in ("{", "["):
            depth += 1
            if depth > max_depth:
                raise UnreadableError(f"nested deeper than {max_depth} levels at {place(text, match.start())}")
        elif token in ("}", "]"):
            depth -= 1
            if depth <= 0:
                return


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise UnreadableError(f"the key {quoted(twice)} is given twice")
    return made


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise UnreadableError(f"the number {quoted(digits)} is out of range")
    return number


def _no_constant(word: str) -> NoReturn:
    raise UnreadableError(f"not JSON: {word} is no JSON number")


_raw_decode = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_no_constant).raw_decode
