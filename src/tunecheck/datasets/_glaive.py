"""Convert raw Glaive conversations into question-and-answer rows, one for each turn of the assistant.

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
from pathlib import Path

from tunecheck._errors import ConfigurationError, DataError, told_as
from tunecheck._json import JSON, dumps, dumps_line, loads
from tunecheck._whole_files import replacing, write_file
from tunecheck.calls._model import FunctionCall
from tunecheck.datasets._defaults import DatasetDefaults, sidecar_path, sidecar_text
from tunecheck.datasets._reading import locate
from tunecheck.datasets._sources import ArrayReader, JsonArraySource
from tunecheck.formats._reading import read_calls

DEFAULTS = DatasetDefaults(
    column_mapping={
        "ground_truth": "${data.answer}",
        "tool_definitions": "${data.tools}",
        "response": "${target.response}",
    },
    evaluators=["bleu", "gleu", "meteor", "rouge", "function_call_match", "argument_match", "match"],
)
"""What a converted data set declares in its sidecar."""

_TURN = re.compile(r"^(USER|ASSISTANT|FUNCTION RESPONSE):", re.MULTILINE)
_END = "<|endoftext|>"
_CALL = "<functioncall>"
_FUNCTIONS = re.compile(r"(\[\s*)?\{\s*[\"}]")
_GAP = re.compile(r"[ \t\r\n,]*")
_DASH = re.compile(r"[\s\-–—]+\Z")

MAX_GROWTH = 1 << 26
"""Most turns times characters of one conversation: each row repeats all that was said before it."""


@dataclass(frozen=True)
class UnreadableConversation:
    """A conversation that was left out: its number in the source (the line of a JSON Lines file), and why."""

    number: int
    reason: str


@dataclass
class ConversionReport:
    """What a conversion did.

    `calls` counts the function calls in all answers, `call_rows` the rows whose answer is calls. `sidecar_kept` says
    that another sidecar stood there already and was left as it is.
    """

    source: Path
    out: Path
    sidecar: Path
    sidecar_kept: bool = False
    conversations: int = 0
    rows: int = 0
    calls: int = 0
    call_rows: int = 0
    unreadable: list[UnreadableConversation] = field(default_factory=list)


def convert_glaive(
    source: Path, out: Path, *, overwrite: bool = False, overwrite_defaults: bool = False
) -> ConversionReport:
    """Write the rows of all raw conversations in `source` (a JSON array or JSON Lines) to `out` (JSON Lines).

    A conversation that cannot be converted is left out and reported; the others go on. `out` appears when it is
    complete. The sidecar `<out>.yaml` is written too; one that is there and says something else is kept, unless
    `overwrite_defaults`.

    Raises:
        ConfigurationError: `out` exists and `overwrite` is not set, is not named .jsonl, or cannot be written.
        DataError: `source` cannot be read, or no conversation in it can.
    """
    source = locate(str(source), ())
    _check_out(source, out, overwrite=overwrite)
    report = ConversionReport(source, out, sidecar_path(out))
    with told_as(ConfigurationError, out, "cannot be written"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as temporary:
            _write(report, temporary)
            _write_sidecar(report, overwrite=overwrite_defaults)
    return report


def _check_out(source: Path, out: Path, *, overwrite: bool) -> None:
    if out.suffix.lower() not in (".jsonl", ".ndjson"):
        raise ConfigurationError(f"{out}: a converted data set is JSON Lines; name it {out.with_suffix('.jsonl').name}")
    if out.exists() and out.samefile(source):
        raise ConfigurationError(f"{out} is the source itself; choose another name for the result")
    if out.exists() and not overwrite:
        raise ConfigurationError(f"{out} exists; choose another name, or ask to overwrite it")


def _write(report: ConversionReport, path: Path) -> None:
    with path.open("wb") as file:
        for number, raw in _conversations(report.source):
            report.conversations += 1
            try:
                if isinstance(raw, ConversationError):
                    raise raw
                rows = conversation_rows(raw, number)
                lines = [dumps_line(row) for row in rows]
            except (ConversationError, TypeError) as error:  # a TypeError: nested too deeply to be written
                report.unreadable.append(UnreadableConversation(number, str(error)))
                continue
            file.writelines(lines)
            report.rows += len(rows)
            uses = [row["answer"]["tool_uses"] for row in rows if isinstance(row["answer"], dict)]
            report.call_rows += len(uses)
            report.calls += sum(len(calls) for calls in uses if isinstance(calls, list))
    if not report.conversations:
        raise DataError(f"{report.source} has no conversations")
    if not report.rows:
        first = report.unreadable[0]
        raise DataError(
            f"{report.source}: none of {report.conversations} conversations can be converted; "
            f"number {first.number}: {first.reason}"
        )


def _conversations(path: Path) -> Iterator[tuple[int, JSON | ConversationError]]:
    """Each conversation with its number; one that is not JSON, by itself, as the error it is."""
    source = JsonArraySource(path)
    start = next((text for chunk in source.chunks() if (text := chunk.lstrip())), b"")
    if start.startswith(b"["):
        yield from enumerate(ArrayReader(source, None).items(), 1)
        return
    for number, line in enumerate(source.lines(), 1):
        if line.strip():
            try:
                yield number, loads(line)
            except ValueError as error:
                yield number, ConversationError(f"is not JSON: {error}")


def _write_sidecar(report: ConversionReport, *, overwrite: bool) -> None:
    text = sidecar_text(DEFAULTS, description="Converted from raw Glaive conversations, one row an assistant's turn.")
    path = report.sidecar
    if path.exists() and not overwrite and path.read_text("utf-8", errors="replace") != text:
        report.sidecar_kept = True
        return
    write_file(path, text.encode())


class ConversationError(ValueError):
    """A conversation that cannot be converted; the text is the reason."""


def conversation_rows(raw: object, number: int) -> list[dict[str, JSON]]:
    """The rows of one raw conversation.

    Raises:
        ConversationError: it is not a conversation, or some turn of it cannot be converted.
    """
    if not isinstance(raw, dict):
        raise ConversationError(f"is a {type(raw).__name__} where an object with 'system' and 'chat' is expected")
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
        raise ConversationError("holds no turn of the assistant")
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
        self._next_turn()
        self.messages.append({"role": "user", "content": text})

    def result(self, text: str) -> None:
        self._turn += 1
        if not self._waiting:
            raise ConversationError(f"turn {self._turn} is a function's response that no call asked for")
        self.messages.append({"role": "tool", "tool_call_id": self._waiting.pop(0), "content": text})

    def answer(self, text: str) -> JSON:
        self._next_turn()
        if len(self.messages) == bool(self.system):
            raise ConversationError("begins with the assistant, before any question")
        text = text.replace(_END, "").strip()
        if _CALL in text:
            return self._call(text)
        if not text:
            raise ConversationError(f"turn {self._turn}: the assistant says nothing")
        self.messages.append({"role": "assistant", "content": text})
        return text

    def _call(self, text: str) -> JSON:
        reading = read_calls(text)
        if reading.problem is not None or len(reading.calls) != text.count(_CALL):
            reason = reading.problem or f"{len(reading.calls)} of {text.count(_CALL)} calls can be read"
            raise ConversationError(f"turn {self._turn}: {reason}")
        self.messages.append(self._message(reading.calls, reading.text.strip()))
        answer: dict[str, JSON] = {
            "tool_uses": [
                {"recipient_name": f"functions.{call.name}", "parameters": call.arguments} for call in reading.calls
            ]
        }
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
            raise ConversationError(f"turn {self._turn} follows a call whose function's response is missing")


def _text(raw: dict[object, object], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str):
        problem = "is missing" if key not in raw else f"is a {type(value).__name__}, not text"
        raise ConversationError(f"{key!r} {problem}")
    return value


def _turns(chat: str, *, beside: int) -> Iterator[tuple[str, str]]:
    marks = list(_TURN.finditer(chat))
    before = chat[: marks[0].start()] if marks else chat
    if before.strip():
        raise ConversationError("its text does not begin with USER: or ASSISTANT:")
    if len(marks) * (len(chat) + beside) > MAX_GROWTH:
        raise ConversationError(f"is too long: {len(marks):,} turns in {len(chat) + beside:,} characters")
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
            raise ConversationError(f"the functions in 'system' are not JSON: {error}") from None
        values.extend(value if isinstance(value, list) else [value])
        at = end + len(_GAP.match(text, end)[0])  # type: ignore[index]
    return values, at


def _tool(value: JSON) -> JSON:
    if isinstance(value, dict) and value.get("type") == "function" and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise ConversationError("a function in 'system' has no name")
    parameters = value.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(parameters, dict):
        raise ConversationError(f"the parameters of the function {value['name']!r} are not an object")
    return {"type": "function", "function": {**value, "parameters": parameters}}
