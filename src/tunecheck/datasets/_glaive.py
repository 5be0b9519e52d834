"""Raw Glaive conversations into question-and-answer rows, one for each turn of the assistant.

A raw conversation is `{"system": "SYSTEM: …", "chat": "USER: … ASSISTANT: … FUNCTION RESPONSE: …"}`; a turn begins at
a line that starts with one of these words. Of each conversation come

    {"id": "glaive-17-3", "query": [messages so far], "answer": text or {"tool_uses": [...]}, "tools": [...]}

where 17 is the conversation's number in the file and 3 the assistant's turn in it. The messages are what a
chat-completions server accepts: earlier calls are `tool_calls` with ids `call_1`, `call_2`, …, what the functions
returned are messages of the role `tool`. The functions' JSON in the system text becomes `tools`; the sentence that
introduces them stays as the system message. Text beside a call is kept: in the answer as the key `content` next to
`tool_uses`, in the messages as the `content` next to `tool_calls`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tunecheck._json import JSON, dumps
from tunecheck.calls._formats.reading import read_calls
from tunecheck.calls._model import FunctionCall

_TURN = re.compile(r"^(USER|ASSISTANT|FUNCTION RESPONSE):", re.MULTILINE)
_END = "<|endoftext|>"
_CALL = "<functioncall>"
_FUNCTIONS = re.compile(r"(\[\s*)?\{\s*[\"}]")
_GAP = re.compile(r"[ \t\r\n,]*")
_DASH = re.compile(r"[\s\-–—]+\Z")

MAX_GROWTH = 1 << 26
"""Most turns times characters of one conversation: each row repeats all that was said before it."""


class UnreadableError(ValueError):
    """A conversation that cannot be converted; the text is the reason."""


def conversation_rows(raw: object, number: int) -> list[dict[str, JSON]]:
    """The rows of one raw conversation.

    Raises:
        UnreadableError: it is not a conversation, or some turn of it cannot be converted.
    """
    if not isinstance(raw, dict):
        raise UnreadableError(f"is a {type(raw).__name__} where an object with 'system' and 'chat' is expected")
    system, chat = _text(raw, "system"), _text(raw, "chat")
    conversation = Conversation(*_split_system(system))
    rows: list[dict[str, JSON]] = []
    for role, body in _turns(chat, beside=len(system)):
        if role == "ASSISTANT":
            query: list[JSON] = list(conversation.messages)
            answer = conversation.answer(body)
            row_id = f"glaive-{number}-{len(rows) + 1}"
            rows.append({"id": row_id, "query": query, "answer": answer, "tools": conversation.tools})
        elif role == "USER":
            conversation.ask(body)
        else:
            conversation.result(body)
    if not rows:
        raise UnreadableError("holds no turn of the assistant")
    return rows


@dataclass
class Conversation:
    """The messages of a conversation as they grow, turn by turn."""

    system: str
    tools: list[JSON]
    messages: list[JSON] = field(default_factory=list)
    calls: int = 0
    _waiting: list[str] = field(default_factory=list)
    _turn: int = 0

    def __post_init__(self) -> None:
        if self.system:
            self.messages.append({"role": "system", "content": self.system})

    def ask(self, text: str) -> None:
        """Add a turn of the user."""
        self._next_turn()
        self.messages.append({"role": "user", "content": text})

    def result(self, text: str) -> None:
        """Add what a function returned, for the first call that waits."""
        self._turn += 1
        if not self._waiting:
            raise UnreadableError(f"turn {self._turn} is a function's response that no call asked for")
        self.messages.append({"role": "tool", "tool_call_id": self._waiting.pop(0), "content": text})

    def answer(self, text: str) -> JSON:
        """Add a turn of the assistant; what it says, or calls, as an answer."""
        self._next_turn()
        if len(self.messages) == bool(self.system):
            raise UnreadableError("begins with the assistant, before any question")
        text = text.replace(_END, "").strip()
        if _CALL in text:
            return self._call(text)
        if not text:
            raise UnreadableError(f"turn {self._turn}: the assistant says nothing")
        self.messages.append({"role": "assistant", "content": text})
        return text

    def _call(self, text: str) -> JSON:
        reading = read_calls(text)
        if reading.problem is not None or len(reading.calls) != text.count(_CALL):
            reason = reading.problem or f"{len(reading.calls)} of {text.count(_CALL)} calls can be read"
            raise UnreadableError(f"turn {self._turn}: {reason}")
        self.messages.append(self._message(reading.calls, reading.text.strip()))
        answer: dict[str, JSON] = {"tool_uses": [_tool_use(call) for call in reading.calls]}
        if reading.text.strip():
            answer["content"] = reading.text.strip()
        return answer

    def _message(self, calls: Sequence[FunctionCall], text: str) -> JSON:
        tool_calls: list[JSON] = []
        for call in calls:
            self.calls += 1
            self._waiting.append(f"call_{self.calls}")
            function: JSON = {"name": call.name, "arguments": dumps(call.arguments).decode()}
            tool_calls.append({"id": self._waiting[-1], "type": "function", "function": function})
        return {"role": "assistant", "content": text or None, "tool_calls": tool_calls}

    def _next_turn(self) -> None:
        self._turn += 1
        if self._waiting:
            raise UnreadableError(f"turn {self._turn} follows a call whose function's response is missing")


def _tool_use(call: FunctionCall) -> JSON:
    return {"recipient_name": f"functions.{call.name}", "parameters": call.arguments}


def _text(raw: dict[object, object], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str):
        found = "is missing" if key not in raw else f"is a {type(value).__name__}, not text"
        raise UnreadableError(f"{key!r} {found}")
    return value


def _turns(chat: str, *, beside: int) -> Iterator[tuple[str, str]]:
    marks = list(_TURN.finditer(chat))
    before = chat[: marks[0].start()] if marks else chat
    if before.strip():
        raise UnreadableError("its text does not begin with USER: or ASSISTANT:")
    if len(marks) * (len(chat) + beside) > MAX_GROWTH:
        raise UnreadableError(f"is too long: {len(marks):,} turns in {len(chat) + beside:,} characters")
    for at, mark in enumerate(marks, 1):
        end = marks[at].start() if at < len(marks) else len(chat)
        yield mark[1], chat[mark.end() : end].strip()


def _split_system(text: str) -> tuple[str, list[JSON]]:
    """The sentence, and the functions as OpenAI tools."""
    text = text.strip().removeprefix("SYSTEM:").strip()
    start = _FUNCTIONS.search(text)
    if start is None:
        return text, []
    values, end = _json_values(text, start.start())
    sentence, rest = _DASH.sub("", text[: start.start()]), text[end:]
    return f"{sentence}\n{rest}" if rest else sentence, [_tool(value) for value in values]


def _json_values(text: str, at: int) -> tuple[list[JSON], int]:
    """The JSON objects that stand one after another from here, lists of them opened, and where they end."""
    decode = json.JSONDecoder(parse_constant=lambda _: None).raw_decode
    values: list[JSON] = []
    while _FUNCTIONS.match(text, at):
        try:
            value, end = decode(text, at)
        except (ValueError, RecursionError) as error:
            raise UnreadableError(f"the functions in 'system' are not JSON: {error}") from None
        values.extend(value if isinstance(value, list) else [value])
        at = end + len(_GAP.match(text, end)[0])  # type: ignore[index]
    return values, at


def _tool(value: JSON) -> JSON:
    if isinstance(value, dict) and value.get("type") == "function" and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise UnreadableError("a function in 'system' has no name")
    parameters = value.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(parameters, dict):
        raise UnreadableError(f"the parameters of the function {value['name']!r} are not an object")
    return {"type": "function", "function": {**value, "parameters": parameters}}
