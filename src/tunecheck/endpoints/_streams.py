"""Assemble a chat completion from the server-sent events of a stream.

An HTTP endpoint passes the whole body to `read_stream()`. The reply is read like one that did not come as a stream.
"""

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

from tunecheck._json import JSON, object_or_empty, text_or_json, value_of
from tunecheck.calls._model import MAX_CALLS
from tunecheck.endpoints._answers import UnreadableReplyError, first_choice, read_json
from tunecheck.formats._json_shapes import REASONING_FIELDS

_DONE = b"[DONE]"
_LINE = re.compile(rb"([^\r\n]*+)(?:\r\n?|\n|\Z)")
_MOST_PIECES = 200_000
"""More events than any real answer has."""
_LAST_RESPONSES = ("response.completed", "response.incomplete", "response.failed")
"""Events of the Responses API that contain the whole reply."""
_OF_MESSAGES = frozenset({"content", "refusal", "tool_calls", *REASONING_FIELDS})
_IN_PIECES = _OF_MESSAGES | {"text", "thinking", "summary", "data", "name", "arguments", "signature"}
"""Keys of a message and its parts with texts that arrive in pieces. Other texts arrive whole."""
REPEATS = "tunecheck_repeats"
"""Key of an assembled reply: pieces of its stream repeated earlier ones."""
_MOST_OPEN = 64
"""Only this many of the latest parts of a list may still grow."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """A streamed chat completion. `first` is the number of bytes up to the first token, or None without a token."""

    reply: dict[str, JSON]
    first: int | None


def read_stream(body: bytes) -> Streamed:
    """Return the chat completion in a stream, or the whole reply at the end of a stream of the Responses API.

    If the stream ends with an error, the reply is that error.

    Raises:
        UnreadableReplyError: the events are not pieces of a chat completion, or the stream broke off.
    """
    answer = _StreamedAnswer()
    first: int | None = None
    for number, (data, end) in enumerate(_events(body)):
        if number >= _MOST_PIECES:
            raise UnreadableReplyError(f"its stream has more than {_MOST_PIECES:,} pieces", lasting=True)
        if data.strip() == _DONE:
            answer.done = True
            break
        if not data.strip():  # a keep-alive event
            continue
        piece = _piece(data)
        reply = _last_reply(piece)
        if reply is not None:
            return Streamed(reply, first)
        if answer.add(piece) and first is None:
            first = end
    return Streamed(answer.whole(), first)


def _piece(data: bytes) -> Mapping[str, JSON]:
    """Return the JSON object of one event, or {} for other JSON; raise UnreadableReplyError if it is not JSON."""
    try:
        return object_or_empty(read_json(data))
    except ValueError:
        raise UnreadableReplyError(
            "a part of the streamed reply is not JSON: check the url, or make the service reply without streaming"
        ) from None


def _last_reply(piece: Mapping[str, JSON]) -> dict[str, JSON] | None:
    """Return the whole reply if the piece is an error or the last event of the Responses API, else None."""
    if piece.get("error"):
        return dict(piece)
    reply = piece.get("response")
    return reply if isinstance(reply, dict) and piece.get("type") in _LAST_RESPONSES else None


def _events(body: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the data of each event and the position of its end in the body; refuse a stream with too many lines."""
    lines: list[bytes] = []
    start = len(codecs.BOM_UTF8) if body.startswith(codecs.BOM_UTF8) else 0
    for line in _LINE.finditer(body, start):
        text = line[1]
        if text.startswith(b"data:"):
            lines.append(text[5:].removeprefix(b" "))
            if len(lines) > _MOST_PIECES:
                raise UnreadableReplyError(f"its stream has more than {_MOST_PIECES:,} pieces", lasting=True)
        elif not text and lines:
            yield b"\n".join(lines), line.end()
            lines = []


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The pieces of a text under a key of a message."""

    key: str
    pieces: list[str] = field(default_factory=list)

    def text(self, repeated: list[str]) -> str:
        """Return the text; add its key to `repeated` if the last piece repeats all others, or each piece those before.

        A repeated name is no fault, because clients take the first one.
        """
        *earlier, last = self.pieces or [""]
        before, whole = "".join(earlier), "".join(self.pieces)
        repeats = bool(earlier) and all(later.startswith(piece) for piece, later in pairwise(self.pieces))
        if self.key == "name":
            return last if repeats or before == last else whole
        if self.key == "arguments":
            call = value_of(last)
            repeats = isinstance(call, dict) and value_of(whole) is None and (repeats or value_of(before) == call)
        else:  # short texts may grow by chance, such as "ha" and "haha"
            repeats = len(last) >= 20 and len({*self.pieces}) > 2 and (repeats or before == last)
        repeated += [self.key] * repeats
        return last if repeats else whole


def merge_delta(message: dict[str, object], delta: Mapping[str, JSON]) -> None:
    """Merge a piece into a message: join texts, merge list items by index, keep the first of other values."""
    for key, piece in delta.items():
        # An object is complete: its lists are values of the call, not parts of a message.
        value = text_or_json(piece) if key == "arguments" and isinstance(piece, dict) else piece
        before = message.get(key)
        if isinstance(value, list) or isinstance(before, list):
            message[key] = parts = before if isinstance(before, list) else []
            pieces: list[JSON] = value if isinstance(value, list) else [value]
            _merge_parts(parts, [before.text([]), *pieces] if isinstance(before, _Pieces) else pieces)
        elif isinstance(value, dict):
            inner = message[key] = before or {}
            if isinstance(inner, dict):
                merge_delta(inner, value)
        elif isinstance(value, str) and key in _IN_PIECES and (before is None or isinstance(before, _Pieces)):
            message[key] = text = before or _Pieces(key)
            if value:
                text.pieces.append(value)
        elif before is None:
            message[key] = value


def _merge_parts(parts: list[dict[str, object]], pieces: list[JSON]) -> None:
    """Add each piece to the part that it continues, or as a new part. A plain text is a piece of a text part.

    Raises:
        UnreadableReplyError: there are too many parts.
    """
    for piece in pieces:
        fields = {"type": "text", "text": piece} if isinstance(piece, str) else piece
        if not isinstance(fields, dict):
            continue
        part = _continued_part(parts, fields)
        if part is None:
            part = {}
            parts.append(part)
            if len(parts) > MAX_CALLS:
                raise UnreadableReplyError(f"its message has more than {MAX_CALLS:,} parts or calls", lasting=True)
        merge_delta(part, fields)


def _continued_part(parts: list[dict[str, object]], piece: Mapping[str, JSON]) -> dict[str, object] | None:
    """Return the part with the piece's index, or the last part if the piece has none; None if it begins a new part.

    A piece with another type or call id begins a new part, but some servers give each piece of a call another id: only
    a piece with a name begins a new call.
    """
    index, function = piece.get("index"), piece.get("function")
    candidates = [part for part in parts[-_MOST_OPEN:] if not isinstance(index, int) or part.get("index") == index]
    if not candidates:
        return None
    keys = ("type",) if isinstance(function, dict) and not function.get("name") else ("id", "type")
    is_other = any(piece.get(key) and candidates[-1].get(key) not in (None, piece[key]) for key in keys)
    return None if is_other else candidates[-1]


def _whole(value: object, repeated: list[str]) -> JSON:
    """Return a merged value as JSON: pieces as texts, and list items without their index.

    The keys of texts whose pieces repeat earlier ones are added to `repeated`.
    """
    if isinstance(value, _Pieces):
        return value.text(repeated)
    if isinstance(value, list):
        return [{key: _whole(item, repeated) for key, item in part.items() if key != "index"} for part in value]
    if isinstance(value, dict):
        return {key: _whole(item, repeated) for key, item in value.items()}
    return cast("JSON", value)


@dataclass(slots=True)
class _StreamedAnswer:
    """The part of an answer received so far. Only the first choice is read."""

    about: dict[str, JSON] = field(default_factory=dict)
    message: dict[str, object] = field(default_factory=dict)
    finish_reason: JSON = None
    usage: JSON = None
    error: JSON = None
    begun: bool = False
    done: bool = False
    others: int = 0

    def add(self, piece: Mapping[str, JSON]) -> bool:
        """Add a piece. Return whether it contained reasoning, text or a call."""
        if "choices" not in piece:
            kind = str(piece.get("type"))
            self.others += not kind.startswith("response.")  # a keep-alive event, or another protocol
            return kind.startswith("response.") and kind.endswith(".delta")
        self.about = self.about or {key: piece[key] for key in piece if key not in ("choices", "usage", "object")}
        self.usage = piece.get("usage") or self.usage
        choice = first_choice(piece)
        if choice is None or choice.get("index") not in (None, 0):
            return False
        self.begun = True
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.error = choice.get("error") or self.error
        fields = object_or_empty(choice.get("delta") or choice.get("message"))  # some servers send a whole message
        if function := fields.get("function_call"):  # the API of 2023
            fields = {**fields, "tool_calls": [{"index": 0, "function": function}]}
        usable = {key: value for key, value in fields.items() if value and isinstance(value, (str, list))}
        content = {key: value for key, value in usable.items() if key in _OF_MESSAGES}
        merge_delta(self.message, content)
        return bool(content)

    def whole(self) -> dict[str, JSON]:
        """Return the chat completion.

        Raises:
            UnreadableReplyError: the stream has another form, or ended before the answer.
        """
        if not self.begun and self.others:
            raise UnreadableReplyError(
                "streams its answers, but not as chat completions: check the url, or make the service reply without "
                "streaming",
                lasting=True,
            )
        if not self.begun or not (self.done or self.finish_reason):
            raise UnreadableReplyError("its stream broke off before the answer was complete")
        repeated = list[str]()
        merged = {key: _whole(value, repeated) for key, value in self.message.items()}
        message: dict[str, JSON] = {"role": "assistant", "content": None, **merged}
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            message["tool_calls"] = [{"type": "function", **call} for call in calls if isinstance(call, dict)]
        choice: JSON = {"message": message, "finish_reason": self.finish_reason, "error": self.error}
        about = {**self.about, "object": "chat.completion", REPEATS: bool(repeated)}
        return {**about, "choices": [choice], "usage": self.usage}
