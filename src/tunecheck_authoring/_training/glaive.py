"""Raw Glaive conversations: `{"system": "SYSTEM: …", "chat": "USER: … ASSISTANT: … FUNCTION RESPONSE: …"}`.

A turn begins at a line that starts with one of these words. The functions' JSON in the system text becomes `tools`; the
sentence that introduces them stays as the system message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tunecheck.calls import Reading
from tunecheck.datasets import MAX_GROWTH, ConversationError, Form, Record, Turns, as_tools
from tunecheck.formats import read_calls
from tunecheck.plugins import JSON

_TURN = re.compile(r"^(USER|ASSISTANT|FUNCTION RESPONSE):", re.MULTILINE)
_END = "<|endoftext|>"
_CALL = "<functioncall>"
_FUNCTIONS = re.compile(r"(\[\s*)?\{\s*[\"}]")
_GAP = re.compile(r"[ \t\r\n,]*")
_DASH = re.compile(r"[\s\-–—]+\Z")


def is_glaive(record: Record) -> bool:
    """Return True for a raw Glaive conversation."""
    chat = record.get("chat")
    return isinstance(record.get("system"), str) and isinstance(chat, str) and _TURN.search(chat) is not None


def glaive_rows(record: Record, number: int) -> list[Record]:
    """Return the rows of one raw conversation.

    Raises:
        ConversationError: The record is not a conversation, or a turn cannot be converted.
    """
    system, chat = _text(record, "system"), _text(record, "chat")
    sentence, functions = _split_system(system)
    turns = Turns(f"glaive-{number}", as_tools(functions, "'system'"))
    if sentence:
        turns.say({"role": "system", "content": sentence})
    for role, body in _turns(chat, system_length=len(system)):
        if role == "ASSISTANT":
            _answer(turns, body)
        elif role == "USER":
            turns.say({"role": "user", "content": body})
        else:
            turns.result(body)
    return turns.rows()


def _answer(turns: Turns, text: str) -> None:
    """Add the assistant's text and calls to the conversation.

    Raises:
        ConversationError: not every `<functioncall>` in the text can be read.
    """
    text = text.replace(_END, "").strip()
    reading = read_calls(text) if _CALL in text else Reading(text=text)
    if reading.problem is not None or len(reading.calls) != text.count(_CALL):
        reason = reading.problem or f"only {len(reading.calls)} of {text.count(_CALL)} calls can be read"
        raise turns.error(reason)
    turns.answer(reading.text.strip(), reading.calls)


def _text(raw: Record, key: str) -> str:
    """Return a text of the record, or raise ConversationError if it is missing or not text."""
    value = raw.get(key)
    if not isinstance(value, str):
        problem = "is missing" if key not in raw else f"is a {type(value).__name__}, not text"
        raise ConversationError(f"{key!r} {problem}")
    return value


def _turns(chat: str, *, system_length: int) -> Iterator[tuple[str, str]]:
    """Yield the role and the text of each turn.

    Raises:
        ConversationError: the chat begins without a role, or its rows would together be too large.
    """
    marks = list(_TURN.finditer(chat))
    before = chat[: marks[0].start()] if marks else chat
    if before.strip():
        raise ConversationError("'chat' does not begin with USER: or ASSISTANT:")
    if len(marks) * (len(chat) + system_length) > MAX_GROWTH:
        raise ConversationError(f"'chat' is too long: {len(marks):,} turns in {len(chat) + system_length:,} characters")
    for at, mark in enumerate(marks, 1):
        end = marks[at].start() if at < len(marks) else len(chat)
        yield mark[1], chat[mark.end() : end].strip()


def _split_system(text: str) -> tuple[str, list[JSON]]:
    """Return the text around the functions in a system text, and the functions."""
    text = text.strip().removeprefix("SYSTEM:").strip()
    start = _FUNCTIONS.search(text)
    if start is None:
        return text, []
    values, end = _json_values(text, start.start())
    sentence, rest = _DASH.sub("", text[: start.start()]), text[end:]
    return f"{sentence}\n{rest}" if rest else sentence, values


def _json_values(text: str, at: int) -> tuple[list[JSON], int]:
    """Return the consecutive JSON objects from this index on, with lists flattened, and the index after them.

    Raises:
        ConversationError: the text there is not JSON.
    """
    decode = json.JSONDecoder(parse_constant=lambda _: None).raw_decode
    values: list[JSON] = []
    while _FUNCTIONS.match(text, at):
        try:
            value, end = decode(text, at)
        except (ValueError, RecursionError) as error:
            raise ConversationError(f"the functions in 'system' are not JSON: {error}") from None
        values.extend(value if isinstance(value, list) else [value])
        at = end + len(_GAP.match(text, end)[0])  # type: ignore[index]
    return values, at


FORM = Form("glaive", "a file of raw Glaive conversations", is_glaive, glaive_rows)
