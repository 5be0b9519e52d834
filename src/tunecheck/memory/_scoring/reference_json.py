"""JSON as the GoodAI LTM benchmark reads it in replies, for the compatible mode: repaired step by step, or refused."""

import json
import re

from tunecheck._json import JSON
from tunecheck.memory._lenient_json import MAX_CHARACTERS

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
    before, fence, after = text.rpartition("```")
    start, script, inside = before.rpartition("```javascript")
    if not script:
        start, script, inside = before.rpartition("```")
    return inside.removeprefix("json") if fence and script else text


def _repaired(text: str, error: json.JSONDecodeError) -> str:
    """The text without its first mistake, or with what is missing there."""
    at, rest = error.pos, text[error.pos :].lstrip()
    name = error.msg.startswith("Expecting property name")
    if error.msg.startswith("Extra data"):
        return text[:at]
    if error.msg.startswith("Expecting ',' delimiter"):
        return f"{text[:at]},{text[at:]}"
    if error.msg.startswith("Expecting ':' delimiter") and rest.startswith(("}", ",")):
        return f"{text[:at]}: null{text[at:]}"
    if error.msg.startswith("Invalid control character") and text[at] == "\n":
        return text[:at] + text[at + 1 :]
    if error.msg.startswith("Illegal trailing comma"):  # as newer versions of Python say it
        return text[:at] + text[at + 1 :]
    if error.msg.startswith("Expecting value") and at == 0:
        if opening := re.search(r"[\[{]", text):
            return text[opening.start() :]
    elif name or error.msg.startswith("Expecting value"):
        if rest.startswith("//") and "\n" in rest:
            comment = text.index("//", at)
            return text[:comment] + text[text.index("\n", comment) + 1 :]
        if rest.startswith("..."):
            return text[:at] + text[at:].replace("...", "", 1)
        if rest.startswith("}" if name else "]") and "," in text[: at + 1]:
            comma = text.rindex(",", 0, at + 1)
            return text[:comma] + text[comma + 1 :]
        if not name and not rest.startswith(("//", "]")):
            return f'{text[:at]}"{text[at:]}'
    raise error
