"""JSON as the GoodAI LTM benchmark reads it in replies, for the compatible mode: repaired step by step, or refused."""

import json
import re

from tunecheck._json import JSON
from tunecheck_memory._lenient_json import MAX_CHARACTERS

_FEWEST_REPAIRS, _CHARACTERS_A_REPAIR = 5, 50


def read_as_reference(text: str) -> JSON:
    """The JSON value of a text, or of its last fenced block, by the repairs that the benchmark knows.

    Raises:
        ValueError: the benchmark cannot read it: a list in single quotes, for instance.
    """
    text = text[:MAX_CHARACTERS]
    try:
        return _loads(text)
    except json.JSONDecodeError:
        text = _block(text)
    for _ in range(max(_FEWEST_REPAIRS, len(text) // _CHARACTERS_A_REPAIR)):
        text = text.strip()
        try:
            return _loads(text)
        except json.JSONDecodeError as error:
            text = _repaired(text, error)
    raise ValueError("the JSON has too many mistakes")


def _loads(text: str) -> JSON:
    try:
        value: JSON = json.loads(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    return value


def _block(text: str) -> str:
    """What stands between the last two fences, or from the last that says JavaScript on."""
    inside = text.rpartition("```")[0]
    fence = "```javascript" if "```javascript" in inside else "```"
    return inside.rpartition(fence)[2].removeprefix("json") if fence in inside else text


def _repaired(text: str, error: json.JSONDecodeError) -> str:
    """The text without its first mistake, or with what is missing there."""
    at, rest = error.pos, text[error.pos :].lstrip()
    match error.msg.split(" at")[0]:
        case "Extra data":
            return text[:at]
        case "Expecting ',' delimiter":
            return f"{text[:at]},{text[at:]}"
        case "Expecting ':' delimiter" if rest.startswith(("}", ",")):
            return f"{text[:at]}: null{text[at:]}"
        case "Invalid control character" if text[at] == "\n":
            return text[:at] + text[at + 1 :]
        case "Expecting value" if at == 0 and (opening := re.search(r"[\[{]", text)):
            return text[opening.start() :]
        case "Expecting value" if at:
            return _without(text, at, "]") or f'{text[:at]}"{text[at:]}'
        case "Expecting property name enclosed in double quotes":
            if (shorter := _without(text, at, "}")) is not None:
                return shorter
        case other if other.startswith("Illegal trailing comma"):  # as newer versions of Python call it
            return text[:at] + text[at + 1 :]
    raise error


def _without(text: str, at: int, closing: str) -> str | None:
    """The text without the comment, dots or comma before a closing bracket that stand there; None if there are none."""
    rest = text[at:].lstrip()
    if rest.startswith("//"):
        comment = text.index("//", at)
        return text[:comment] + text[comment:].partition("\n")[2]
    if rest.startswith("..."):
        return text[:at] + text[at:].replace("...", "", 1)
    if rest.startswith(closing) and "," in text[:at]:
        comma = text.rindex(",", 0, at)
        return text[:comma] + text[comma + 1 :]
    return None
