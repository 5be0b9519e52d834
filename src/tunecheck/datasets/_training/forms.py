"""The forms of training files: how each is recognised, its evaluators, and its conversion to rows.

The core reads the chat files of OpenAI, Azure OpenAI and TRL: messages with tools, and preferences between answers.

    {"messages": [...], "tools": [...], "parallel_tool_calls": false}                 also "functions", as it was once
    {"input": {"messages": [...], "tools": [...]}, "preferred_output": [...], "non_preferred_output": [...]}
    {"prompt": [...], "completion": [...]}, {"prompt": [...], "chosen": [...], "rejected": [...]}, or without a prompt

A turn with `"weight": 0` is not trained on, so it becomes no row. Prompts and answers may be plain texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tunecheck._json import JSON
from tunecheck._messages import command_line, did_you_mean
from tunecheck.calls._model import Reading
from tunecheck.datasets._sources import ROLES, DatasetDefaults, Digest, FileSource, Source
from tunecheck.datasets._tables import ParquetSource, without_nulls
from tunecheck.datasets._training.turns import ConversationError, Record, Turns, as_tools
from tunecheck.formats._reading import read_calls
from tunecheck.plugins import discover, find

_ANSWERS = ("preferred_output", "completion", "chosen")
_CONVERSATION = frozenset((
    "messages", "tools", "functions", "function_call", "input", "prompt", *_ANSWERS, "non_preferred_output", "rejected",
))  # fmt: skip
_OF_ROWS = frozenset(("query", "answer", "ground_truth", "response", "turns"))
"""Columns that show that a file already consists of rows."""

_CALL_KEYS = ("tool_calls", "function_call")
_READ = frozenset(("role", "content", "weight", *_CALL_KEYS))


def is_chat(record: Record) -> bool:
    """Return True for a record of a chat training file: it ends with the assistant or has a preferred answer.

    A record with columns of evaluation rows is not one.
    """
    if _OF_ROWS & record.keys():
        return False
    ends = [record[key] for key in (*_ANSWERS, "messages") if record.get(key) is not None]
    last = ends[0][-1] if ends and isinstance(ends[0], list) and ends[0] else None
    return isinstance(last, dict) and last.get("role") == "assistant"


def chat_rows(record: Record, number: int) -> list[Record]:
    """Return the rows of one conversation, one for each of the assistant's turns that the model is trained on.

    Raises:
        ConversationError: the record is not a conversation, or one of its messages cannot be read.
    """
    asked = record["input"] if isinstance(record.get("input"), dict) else record
    assert isinstance(asked, dict)
    given = asked.get("tools") or asked.get("functions")
    columns = {key: value for key, value in (record | asked).items() if key not in _CONVERSATION}
    turns = Turns(f"openai-{number}", as_tools(given, "'tools'"), columns)
    before, after = _messages(record, asked)
    for at, message in enumerate([*before, *after]):
        _add(turns, message, trained=at >= len(before))
    return turns.rows()


def _messages(record: Record, asked: Record) -> tuple[list[JSON], list[JSON]]:
    """Return the messages before the trained part, and those of the trained part.

    Without a prompt, the beginning that the chosen and the rejected answer share counts as the prompt.

    Raises:
        ConversationError: messages are missing or of another form.
    """
    answer = next((key for key in _ANSWERS if record.get(key) is not None), None)
    if answer is None:
        return [], _object_list(asked, "messages", "user")
    after = _object_list(record, answer, "assistant")
    if asked.get("messages") is not None:
        return _object_list(asked, "messages", "user"), after
    if record.get("prompt") is not None:
        return _object_list(record, "prompt", "user"), after
    rejected = _object_list(record, "rejected", "assistant")
    pairs = zip(after, rejected, strict=False)
    same = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(after), len(rejected)))
    return after[:same], after[same:]


def _object_list(record: Record, key: str, role: str) -> list[JSON]:
    """Return the messages under this key; a text becomes one message of this role.

    Raises:
        ConversationError: the key is missing or has another type.
    """
    value = record.get(key)
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, list):
        return value
    problem = "is missing" if value is None else "is neither a list of messages nor a text"
    raise ConversationError(f"{key!r} {problem}")


def _add(turns: Turns, message: JSON, *, trained: bool) -> None:
    """Add one message to the conversation; an assistant's message becomes a row if `trained` and its weight is not 0.

    Raises:
        ConversationError: the message has no known role, or its content is neither a text nor a list of parts.
    """
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(role, str):
        raise turns.error("must be an object with a role")
    content = message.get("content")
    if role not in ROLES:
        raise turns.error(f"the role {role[:60]!r} is unknown{did_you_mean(role[:60], ROLES)}")
    if role in ("tool", "function"):
        turns.result(content, message.get("tool_call_id"), message.get("name"))
    elif role == "assistant":
        _answer(turns, message, trained=trained and message.get("weight") != 0)
    elif isinstance(content, (str, list)):
        turns.say({key: value for key, value in message.items() if key != "weight" and value is not None})
    else:
        raise turns.error(f"the content of the {role}'s message is neither text nor a list of parts")


def _answer(turns: Turns, message: Record, *, trained: bool) -> None:
    """Add an assistant's message with its calls and its text or refusal; with `trained`, it also becomes a row.

    Raises:
        ConversationError: its calls cannot be read.
    """
    text = _text(message.get("content")) or _text(message.get("refusal"))
    called = {key: value for key in _CALL_KEYS if (value := message.get(key))}
    reading = read_calls({"role": "assistant", **called}) if called else Reading()
    if reading.problem is not None:
        raise turns.error(reading.problem)
    kept: Record = {key: value for key, value in message.items() if key not in _READ and value is not None}
    turns.answer(text, reading.calls, kept, trained=trained)


def _text(content: JSON) -> str:
    """Return a message's text, joined from its parts if there are several; empty without text."""
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part.get("text", part.get("refusal")) for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


CALL_EVALUATORS = ("function_call_match", "argument_match")


@dataclass(frozen=True)
class Form:
    """One form. `fits` returns True for a record of this form; `rows` makes the rows of the record with a number.

    `with_graders` returns the form with the graders of a file; its `files` are then texts of evaluator files by path.
    `own_defaults` replace the defaults for function calls.
    """

    name: str
    words: str
    fits: Callable[[Record], bool]
    rows: Callable[[Record, int], list[Record]]
    evaluators: tuple[str, ...] = (*CALL_EVALUATORS, "match")
    unit: str = "conversation"
    own_defaults: DatasetDefaults | None = None
    with_graders: Callable[[Path], Form] | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def defaults(self) -> DatasetDefaults:
        """The defaults for data sets of this form: columns, evaluators and group."""
        if self.own_defaults is not None:
            return replace(self.own_defaults, evaluators=[*self.evaluators])
        return DatasetDefaults(
            column_mapping={
                "ground_truth": "${data.answer}",
                "tool_definitions": "${data.tools}",
                "response": "${target.response}",
            },
            evaluators=[*self.evaluators],
            group_key="conversation_id",
        )


OPENAI = Form("openai", "a chat training file", is_chat, chat_rows)


def forms() -> dict[str, Form]:
    """Return the forms of training files by name, from all installed plug-ins, the core's first."""
    found = (find("converters", each.name) for each in discover("converters"))
    return {form.name: form for form in found if isinstance(form, Form)}


def form_of(record: Record) -> Form | None:
    """Return the form that recognises this record as the first of its file; None if no form does."""
    return next((form for form in forms().values() if form.fits(record)), None)


def own_keys(file: FileSource, record: Record) -> Record:
    """Return the record without the null keys that Parquet adds, because those would become arguments of calls."""
    plain = without_nulls(record) if isinstance(file, ParquetSource) else record
    assert isinstance(plain, dict)
    return plain


class TrainingSource(Source):
    """A training file as rows, converted on demand; a row has the number of its conversation."""

    def __init__(self, file: FileSource, form: Form) -> None:
        self.name, self.label, self.unit, self.path = file.name, file.label, file.unit, file.path
        self.note = f"{file.path.name} is {form.words}: each turn of the assistant is a row"
        self._file, self._form = file, form

    def state(self) -> object:
        return self._file.state()

    def records(self, digest: Digest | None = None) -> Iterator[tuple[int, Record]]:
        """Yield the rows of all conversations in order, each with its conversation's number.

        Raises:
            DataError: the file cannot be read, or a conversation cannot be converted.
        """
        for number, record in self._file.records(digest):
            try:
                rows = self._form.rows(own_keys(self._file, record), number)
            except (ConversationError, TypeError) as error:  # TypeError: nested too deeply to be written
                command = command_line(["tunecheck", "datasets", "convert", str(self.path), "--from", self._form.name])
                self.refuse(f"{error}; to leave such conversations out, run {command}", number)
            for row in rows:
                yield number, row
