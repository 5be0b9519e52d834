"""Streamed answers: server-sent events put together into the chat completion that they are pieces of."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from tunecheck._json import JSON
from tunecheck.endpoints._answers import UnreadableReplyError, read_json
from tunecheck.formats._api_shapes import REASONING_FIELDS

_DONE = b"[DONE]"
_MOST_PIECES = 200_000
"""More tokens than any model answers with."""
_LAST_RESPONSES = ("response.completed", "response.incomplete", "response.failed")
"""Events of the Responses API that hold the whole reply."""
_OF_PIECES = frozenset({"text", "thinking", "summary", "data", "arguments", "signature"})
"""Texts of a part, or of a call's function, that come in pieces; others come whole."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """A chat completion that was streamed; `first` is how many bytes had come with its first token, None without."""

    reply: dict[str, JSON]
    first: int | None


def read_stream(body: bytes) -> Streamed:
    """The chat completion in a stream of its pieces; of the Responses API, the whole reply that its stream ends with.

    A stream that ends with an error gives that.

    Raises:
        UnreadableReplyError: its pieces are not those of a chat completion, or it broke off.
    """
    answer = _Answer()
    first: int | None = None
    for number, (data, end) in enumerate(_events(body)):
        if number >= _MOST_PIECES:
            raise UnreadableReplyError(f"its stream has more than {_MOST_PIECES:,} pieces", lasting=True)
        if data.strip() == _DONE:
            answer.done = True
            break
        piece = _piece(data)
        if (last := _last_reply(piece)) is not None:
            return Streamed(last, first)
        if answer.add(piece) and first is None:
            first = end
    return Streamed(answer.whole(), first)


def _piece(data: bytes) -> Mapping[str, JSON]:
    try:
        piece = read_json(data)
    except ValueError:
        raise UnreadableReplyError("a piece of its stream is not JSON") from None
    return piece if isinstance(piece, dict) else {}


def _last_reply(piece: Mapping[str, JSON]) -> dict[str, JSON] | None:
    """The whole reply that a piece is or holds: an error, or the last event of the Responses API."""
    if piece.get("error"):
        return dict(piece)
    reply = piece.get("response")
    return reply if isinstance(reply, dict) and piece.get("type") in _LAST_RESPONSES else None


def _events(body: bytes) -> Iterator[tuple[bytes, int]]:
    """The data of each event, and where in the body it ends."""
    lines: list[bytes] = []
    position = 0
    for line in body.splitlines(keepends=True):
        position += len(line)
        text = line.rstrip(b"\r\n")
        if text.startswith(b"data:"):
            lines.append(text[5:].removeprefix(b" "))
        elif not text and lines:
            yield b"\n".join(lines), position
            lines = []
    if lines:
        yield b"\n".join(lines), position


class _Pieces(list[str]):
    """A text that comes in pieces; `listed`: as the text parts of a list."""

    listed = False

    def whole(self) -> JSON:
        text = "".join(self)
        return [{"type": "text", "text": text}] if self.listed else text


class _Parts:
    """The parts of a list that come in pieces: each piece belongs to the part of its index, else to the last one."""

    def __init__(self) -> None:
        self.items: list[dict[str, object]] = []
        self._by_index: dict[int, dict[str, object]] = {}

    def add(self, pieces: list[JSON]) -> None:
        """Take pieces; a text is a part's."""
        for piece in pieces:
            given = {"type": "text", "text": piece} if isinstance(piece, str) else piece
            if isinstance(given, dict):
                _merge(self._part(given), given)

    def whole(self) -> list[dict[str, JSON]]:
        """The parts, each from all its pieces."""
        return [{key: _whole(value) for key, value in part.items() if key != "index"} for part in self.items]

    def _part(self, piece: Mapping[str, JSON]) -> dict[str, object]:
        """The part that a piece goes on with, a new one where it is of another kind or another call."""
        index = piece.get("index")
        place = index if isinstance(index, int) else None
        held = (self.items[-1] if self.items else None) if place is None else self._by_index.get(place)
        if held is None or any(piece.get(key) and held.get(key) not in (None, piece[key]) for key in ("id", "type")):
            held = {}
            self.items.append(held)
            if place is not None:
                self._by_index[place] = held
        return held


def _merge(held: dict[str, object], piece: Mapping[str, JSON]) -> None:
    for key, value in piece.items():
        if key in _OF_PIECES and isinstance(value, (str, list)):
            pieces = held.setdefault(key, _Pieces())
            if isinstance(pieces, _Pieces):
                pieces.listed = isinstance(value, list)
                pieces += [value] if isinstance(value, str) else [text for part in value if (text := _text(part))]
        elif isinstance(value, dict) and isinstance(inner := held.setdefault(key, {}), dict):
            _merge(inner, value)
        elif held.get(key) is None:
            held[key] = value


def _text(part: JSON) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def _whole(value: object) -> JSON:
    if isinstance(value, _Pieces):
        return value.whole()
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    return cast("JSON", value)


@dataclass(slots=True)
class _Answer:
    """What has come of an answer: its first choice is kept, as of one that comes whole."""

    about: dict[str, JSON] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    content: _Parts = field(default_factory=_Parts)
    lists: dict[str, _Parts] = field(default_factory=dict)
    calls: _Parts = field(default_factory=_Parts)
    finish_reason: JSON = None
    usage: JSON = None
    error: JSON = None
    begun: bool = False
    done: bool = False
    others: int = 0

    def add(self, piece: Mapping[str, JSON]) -> bool:
        """Take a piece; whether it brought any of the reasoning, the text or a call."""
        if "choices" not in piece:
            kind = str(piece.get("type"))
            self.others += not kind.startswith("response.")  # a sign of life, or another protocol
            return kind.startswith("response.") and kind.endswith(".delta")
        self.about = self.about or {key: piece[key] for key in piece if key not in ("choices", "usage", "object")}
        self.usage = piece.get("usage") or self.usage
        choices = piece.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict) or choice.get("index") not in (None, 0):
            return False
        self.begun = True
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.error = choice.get("error") or self.error
        delta = choice.get("delta")
        taken = [self._take(key, value) for key, value in delta.items() if value] if isinstance(delta, dict) else []
        return any(taken)

    def _take(self, key: str, value: JSON) -> bool:
        if key == "content" and isinstance(value, list):
            self.content.add(value)
        elif key == "tool_calls" and isinstance(value, list):
            self.calls.add(value)
        elif key in REASONING_FIELDS and isinstance(value, list):
            self.lists.setdefault(key, _Parts()).add(value)
        elif key in (*REASONING_FIELDS, "content", "refusal") and isinstance(value, str):
            self.texts.setdefault(key, []).append(value)
        else:
            return False
        return True

    def whole(self) -> dict[str, JSON]:
        """The chat completion.

        Raises:
            UnreadableReplyError: it is not whole.
        """
        if not self.begun and self.others:
            raise UnreadableReplyError("streams its answers, but not as pieces of chat completions", lasting=True)
        if not self.begun or not (self.done or self.finish_reason):
            raise UnreadableReplyError("its stream broke off before the answer's end")
        message: dict[str, JSON] = {"role": "assistant", "content": None}
        message |= {key: "".join(pieces) for key, pieces in self.texts.items()}
        message |= {key: [*parts.whole()] for key, parts in self.lists.items()}
        if self.content.items:
            said: list[JSON] = [{"type": "text", "text": message["content"]}] if message["content"] else []
            message["content"] = [*self.content.whole(), *said]
        if self.calls.items:
            message["tool_calls"] = [{"type": "function", **call} for call in self.calls.whole()]
        choice: dict[str, JSON] = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        if self.error:
            choice["error"] = self.error
        return {**self.about, "object": "chat.completion", "choices": [choice], "usage": self.usage}
