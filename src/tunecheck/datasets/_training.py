"""Training files as rows: one for each turn of the assistant that the model is trained on.

The core reads the chat files of OpenAI, Azure OpenAI and TRL: messages with tools, and preferences between answers.

    {"messages": [...], "tools": [...], "parallel_tool_calls": false}                 also "functions", as it was once
    {"input": {"messages": [...], "tools": [...]}, "preferred_output": [...], "non_preferred_output": [...]}
    {"prompt": [...], "completion": [...]}, {"prompt": [...], "chosen": [...], "rejected": [...]}, or without a prompt

A turn with `"weight": 0` is not trained on, so it becomes no row. Prompts and answers may be plain texts. A row:

    {"id": "openai-17-3", "conversation_id": "openai-17", "query": [messages so far],
     "answer": text or {"tool_uses": [...]}, "tools": [...]}

Here, 17 is the conversation's number in its file and 3 the number of the assistant's turn.

The messages that are trained on are found in this order:

1. `preferred_output`, `completion` or `chosen` holds them. The messages before them are in `messages` (of `input` or of
   the record), else in `prompt`, else they are the beginning that `chosen` and `rejected` share.
2. Without such a key, `messages` holds the whole conversation, and all turns of the assistant are trained on.

An assistant's turn before any message of a user becomes no row, because nothing was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tunecheck._json import JSON, dumps, loads, object_or_empty
from tunecheck._messages import command_line, did_you_mean
from tunecheck.calls._model import FunctionCall, Reading
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.datasets._sources import ROLES, DatasetDefaults, Digest, FileSource, Record, Source, kind
from tunecheck.datasets._tables import ParquetSource, without_nulls
from tunecheck.formats._reading import read_calls
from tunecheck.plugins import discover, find

# -- a conversation turn by turn: messages that any chat server accepts, and one row for each turn of the assistant

MAX_GROWTH = 1 << 26
"""Size limit of one conversation's rows in bytes; each row repeats all earlier messages."""

COLUMNS = ("id", "conversation_id", "query", "answer", "tools")
"""The columns of a row; further columns come from the conversation."""


class ConversationError(ValueError):
    """A conversation cannot be converted; the text is the reason."""


class Turns:
    """The messages so far and the rows made from them.

    Earlier calls become `tool_calls` with their own ids or `call_1`, `call_2`, …; results of functions become messages
    with the role `tool`. The text of a message with calls is kept as the key `content` next to `tool_uses`.

    Args:
        name: the conversation's name, such as `openai-17`.
        tools: OpenAI tools.
        columns: further columns of each row.
    """

    def __init__(self, name: str, tools: list[JSON], columns: Mapping[str, JSON] | None = None) -> None:
        """Begin an empty conversation; the class describes the arguments.

        Raises:
            ConversationError: the tools are no tool definitions.
        """
        self._name, self._tools = name, tools
        self._columns = {key: value for key, value in (columns or {}).items() if key not in COLUMNS}
        try:
            self._definitions = ToolDefinitions.read(tools)
        except ValueError as error:
            raise ConversationError(str(error)) from None

        self._messages: list[JSON] = []
        self._rows: list[Record] = []
        self._waiting: dict[str, str] = {}  # calls without a result: ids with the functions' names
        self._asked = False  # whether a user has said anything
        # `_turn` counts the turns after a question, `_calls` the new ids of calls, and `_growth` the bytes of all rows.
        self._turn = self._calls = self._growth = 0
        self._size = len(dumps(tools))  # bytes of the next row

    @property
    def waiting(self) -> int:
        """Return the number of calls without a result."""
        return len(self._waiting)

    def rows(self) -> list[Record]:
        """Return the rows of all turns so far; empty if no turn is trained on.

        Raises:
            ConversationError: the assistant never answers a user.
        """
        if not self._turn:
            raise ConversationError("the conversation has no assistant message after a user message: add the answer")
        return self._rows

    def say(self, message: Record) -> None:
        """Add a message of the user, the system or a developer.

        Raises:
            ConversationError: a call still waits for its result.
        """
        self._require_no_waiting_call()
        self._asked |= message.get("role") == "user"
        self._add(message)

    def result(self, content: JSON, call_id: JSON = None, name: JSON = None) -> None:
        """Add a function's result: it belongs to the waiting call with this id.

        Without an id, it belongs to the first waiting call, or to the first one of this function if a name is given.

        Raises:
            ConversationError: no such call waits for a result.
        """
        # A message with the role `function` names the function instead of the call. Its first waiting call is meant.
        if call_id is not None:
            found = call_id if isinstance(call_id, str) and call_id in self._waiting else None
        else:
            found = next((key for key, called in self._waiting.items() if name in (None, called)), None)

        if found is None:
            remedy = "add the call" if call_id is None else "add the call, or correct `tool_call_id`"
            raise self.error(f"this function result has no matching call before it: {remedy}")
        del self._waiting[found]

        # Texts and lists of message parts stay as they are; any other result is written as JSON, and None as no text.
        text = content if isinstance(content, str) or _are_parts(content) else dumps(content).decode()
        self._add({"role": "tool", "tool_call_id": found, "content": "" if content is None else text})

    def answer(
        self, text: str, calls: Sequence[FunctionCall], message: Record | None = None, *, trained: bool = True
    ) -> None:
        """Add an assistant's turn; it becomes a row if it is `trained` and a user's message precedes it.

        `message` holds further keys of the message. Without `calls`, calls in the text are read.

        Raises:
            ConversationError: the turn is empty, or a call still waits for its result.
        """
        self._require_no_waiting_call()

        # Files of text formats have calls in the text, `<tool_call>{…}</tool_call>`.
        if not calls and text:
            reading = read_calls(text, tools=self._definitions or None)
            calls, text = (reading.calls, reading.text.strip()) if reading.complete_calls else (calls, text)

        if not calls and not text:
            raise self.error("the assistant's message has neither text nor calls: add text or calls")

        # All turns after a question are counted, so that the number in a row's id is that of its turn.
        self._turn += int(self._asked)
        if trained and self._asked:
            self._add_row(_expected_answer(text, calls))

        added: Record = {"role": "assistant", "content": text or None, **(message or {})}
        self._add({**added, "tool_calls": [self._call(call) for call in calls]} if calls else added)

    def no_call(self) -> None:
        """Add a row that expects an answer without calls; the conversation gets no message, as the text is unknown."""
        self._turn += 1
        self._add_row({"tool_uses": []})

    def error(self, reason: str) -> ConversationError:
        """Return an error for the next message, with its number from 1."""
        return ConversationError(f"message {len(self._messages) + 1}: {reason}")

    def _add_row(self, answer: JSON) -> None:
        """Add a row with all messages so far as its query; raise ConversationError if the rows become too large."""
        # Each row repeats all earlier messages, so rows grow with the square of the conversation.
        self._growth += self._size
        if self._growth > MAX_GROWTH:
            raise ConversationError(f"the conversation is too long (its rows exceed {MAX_GROWTH >> 20} MiB): split it")

        ids: Record = {"id": f"{self._name}-{self._turn}", "conversation_id": self._name}
        self._rows.append(ids | {"query": [*self._messages], "answer": answer, "tools": self._tools} | self._columns)

    def _add(self, message: Record) -> None:
        """Add a message to the conversation, and its size to that of the next row."""
        self._size += len(dumps(message))
        self._messages.append(message)

    def _call(self, call: FunctionCall) -> JSON:
        """Return a call as an OpenAI tool call, and note that it waits for its result.

        The call gets a new id if it has none, or if another waiting call has the same id.
        """
        call_id = call.id
        while call_id is None or call_id in self._waiting:
            self._calls += 1
            call_id = f"call_{self._calls}"
        self._waiting[call_id] = call.name

        function: JSON = {"name": call.name, "arguments": dumps(call.arguments).decode()}
        return {"id": call_id, "type": "function", "function": function}

    def _require_no_waiting_call(self) -> None:
        """Raise ConversationError if a call has no result yet, because only results may follow it."""
        if self._waiting:
            name = next(iter(self._waiting.values()))
            raise self.error(f"the earlier call of {name[:100]!r} has no result: add its result before this message")


def _expected_answer(text: str, calls: Sequence[FunctionCall]) -> JSON:
    """Return the expected answer for a row: the text, or the calls as `tool_uses` with the text next to them."""
    if not calls:
        return text

    uses: list[JSON] = [{"recipient_name": f"functions.{call.name}", "parameters": call.arguments} for call in calls]
    return {"tool_uses": uses, "content": text} if text else {"tool_uses": uses}


def _are_parts(content: JSON) -> bool:
    """Return whether the content is a list of a message's parts: objects with a `type`. An empty list counts, too."""
    return isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content)


def as_tools(value: JSON, key: str) -> list[JSON]:
    """Return tool definitions (objects, JSON text or bare function schemas) as OpenAI tools.

    Raises:
        ConversationError: the definitions cannot be read; the text names their `key`.
    """
    return [_tool(item, key) for item in as_object_list(value, key)]


def as_object_list(value: JSON, key: str) -> list[JSON]:
    """Return the objects in a list, a single object, or the JSON text of either; empty for None or a blank text.

    Raises:
        ConversationError: the value has another form.
    """
    if isinstance(value, str):
        try:
            value = loads(value) if value.strip() else []
        except ValueError as error:
            raise ConversationError(f"{key} is not JSON: {error}") from None

    value = [] if value is None else value
    items: list[JSON] = value if isinstance(value, list) else [value]
    if not all(isinstance(item, dict) for item in items):
        raise ConversationError(f"{key} must be a list of objects")
    return items


def _tool(value: JSON, key: str) -> JSON:
    """Return a function's definition as an OpenAI tool; without parameters, it gets the schema of an empty object.

    `key` is the definition's place in errors.

    Raises:
        ConversationError: the definition has no name, or its parameters are not an object.
    """
    if isinstance(value, dict) and value.get("type") == "function" and isinstance(value.get("function"), dict):
        value = value["function"]

    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise ConversationError(f"a function in {key} has no name: add the key `name`")

    parameters = value.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(parameters, dict):
        raise ConversationError(f"the parameters of {value['name']!r} must be an object, not {kind(parameters)}")
    return {"type": "function", "function": {**value, "parameters": parameters}}


# -- chat files

_ANSWERS = ("preferred_output", "completion", "chosen")  # OpenAI's preferences, TRL's two forms
# keys of a record that are read; all others become columns of its rows
_CONVERSATION = frozenset((
    "messages", "tools", "functions", "function_call", "input", "prompt", *_ANSWERS, "non_preferred_output", "rejected",
))  # fmt: skip
_OF_ROWS = frozenset(("query", "answer", "ground_truth", "response", "turns"))
"""Columns that show that a file already consists of rows."""

_CALL_KEYS = ("tool_calls", "function_call")
# keys of an assistant's message that are read; all others stay in the message
_READ = frozenset(("role", "content", "weight", *_CALL_KEYS))


def is_chat(record: Record) -> bool:
    """Return True for a record of a chat training file.

    Its preferred answer, or without one its `messages`, is a list that ends with a message of the assistant. A record
    with columns of evaluation rows, such as `query`, is not one.
    """
    if _OF_ROWS & record.keys():
        return False

    # The trained part must end with the assistant. Any other list of messages is a question.
    trained_part = next((record[key] for key in (*_ANSWERS, "messages") if record.get(key) is not None), None)
    last = trained_part[-1] if isinstance(trained_part, list) and trained_part else None
    return isinstance(last, dict) and last.get("role") == "assistant"


def chat_rows(record: Record, number: int) -> list[Record]:
    """Return the rows of one conversation, one for each of the assistant's turns that the model is trained on.

    `number` is the record's number in the file, for the ids of the rows.

    Raises:
        ConversationError: the record is not a conversation, or one of its messages cannot be read.
    """
    # OpenAI's preferences have the messages and the tools in `input`, other records have them at the top.
    outer_input = record.get("input")
    asked = outer_input if isinstance(outer_input, dict) else record
    given = asked.get("tools") or asked.get("functions")

    columns = {key: value for key, value in (record | asked).items() if key not in _CONVERSATION}
    turns = Turns(f"openai-{number}", as_tools(given, "'tools'"), columns)

    before, after = _messages(record, asked)
    for position, message in enumerate([*before, *after]):
        _add_message(turns, message, trained=position >= len(before))
    return turns.rows()


def _messages(record: Record, asked: Record) -> tuple[list[JSON], list[JSON]]:
    """Return the messages before the trained part, and those of the trained part.

    `asked` is the mapping that may have `messages`: the record's `input`, or else the record itself. Without a
    preferred answer, all messages are the trained part. With a preferred answer but neither messages nor a prompt, the
    beginning that the preferred and the rejected answer share counts as the prompt.

    Raises:
        ConversationError: messages are missing or of another form.
    """
    answer = next((key for key in _ANSWERS if record.get(key) is not None), None)
    if answer is None:
        return [], _message_list(asked, "messages", "user")

    after = _message_list(record, answer, "assistant")
    if asked.get("messages") is not None:
        return _message_list(asked, "messages", "user"), after
    if record.get("prompt") is not None:
        return _message_list(record, "prompt", "user"), after

    rejected = _message_list(record, "rejected", "assistant")
    # TRL's implicit prompt: both answers begin with the same messages.
    pairs = zip(after, rejected, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return after[:common], after[common:]


def _message_list(record: Record, key: str, role: str) -> list[JSON]:
    """Return the messages under this key; a text becomes one message of this role.

    Raises:
        ConversationError: the key is missing or has another type.
    """
    value = record.get(key)
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, list):
        return value

    raise ConversationError(f"{key!r} is {'missing' if value is None else kind(value)}: give a list of messages")


def _add_message(turns: Turns, message: JSON, *, trained: bool) -> None:
    """Add one message to the conversation; an assistant's message becomes a row if `trained` and its weight is not 0.

    Raises:
        ConversationError: the message has no known role, or its content is neither a text nor a list of parts.
    """
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(role, str):
        raise turns.error("the message must be an object with a text as `role`")
    content = message.get("content")

    if role not in ROLES:
        raise turns.error(f"the role {role[:60]!r} is unknown{did_you_mean(role[:60], ROLES)}")

    if role in ("tool", "function"):
        turns.result(content, message.get("tool_call_id"), message.get("name"))
    # OpenAI's weight 0: the message stays in the conversation but is not trained on
    elif role == "assistant":
        _add_answer(turns, message, trained=trained and message.get("weight") != 0)
    elif isinstance(content, (str, list)):
        turns.say({key: value for key, value in message.items() if key != "weight" and value is not None})
    else:
        raise turns.error(f"the content of the {role}'s message must be text or a list of parts, not {kind(content)}")


def _add_answer(turns: Turns, message: Record, *, trained: bool) -> None:
    """Add an assistant's message with its calls and its text or refusal; with `trained`, it also becomes a row.

    Raises:
        ConversationError: its calls cannot be read.
    """
    # A refusal is an answer, too.
    text = _text(message.get("content")) or _text(message.get("refusal"))
    called = {key: value for key in _CALL_KEYS if (value := message.get(key))}
    reading = read_calls({"role": "assistant", **called}) if called else Reading()
    if reading.problem is not None:
        raise turns.error(f"a call cannot be read: {reading.problem}")

    kept: Record = {key: value for key, value in message.items() if key not in _READ and value is not None}
    turns.answer(text, reading.calls, kept, trained=trained)


def _text(content: JSON) -> str:
    """Return a message's text, joined from its parts if there are several; empty without text."""
    if isinstance(content, str):
        return content

    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part.get("text", part.get("refusal")) for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


# -- the forms of training files: how each is recognised, its evaluators, and its conversion to rows

CALL_EVALUATORS = ("function_call_match", "argument_match")


class Form(msgspec.Struct, frozen=True):
    """One form. `fits` returns True for a record of this form; `rows` converts a record, with its number, to rows.

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
    files: Mapping[str, str] = msgspec.field(default_factory=dict)

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
    found = (find("converters", plugin.name) for plugin in discover("converters"))
    return {form.name: form for form in found if isinstance(form, Form)}


def own_keys(file: FileSource, record: Record) -> Record:
    """Return the record without the null keys that Parquet adds, because those would become arguments of calls."""
    return object_or_empty(without_nulls(record)) if isinstance(file, ParquetSource) else record


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
                self.refuse(f"{error}; to leave out conversations with errors, run {command}", number)
            for row in rows:
                yield number, row
