"""Converts a conversation turn by turn: to messages that any chat server accepts, and to one row per assistant turn.

    {"id": "openai-17-3", "conversation_id": "openai-17", "query": [messages so far],
     "answer": text or {"tool_uses": [...]}, "tools": [...]}

Here, 17 is the conversation's number in its file and 3 the number of the assistant's turn. Earlier calls become
`tool_calls` with their own ids or `call_1`, `call_2`, …; results of functions become messages with the role `tool`.
The text of a message with calls is kept as the key `content` next to `tool_uses`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunecheck._json import JSON, dumps, loads
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._schemas import ToolDefinitions
from tunecheck.formats._reading import read_calls

Record = dict[str, JSON]

MAX_GROWTH = 1 << 26
"""Size limit of one conversation's rows in bytes; each row repeats all earlier messages."""

COLUMNS = ("id", "conversation_id", "query", "answer", "tools")
"""The columns of a row; further columns come from the conversation."""


class ConversationError(ValueError):
    """A conversation cannot be converted; the text is the reason."""


class Turns:
    """The messages so far and the rows made from them.

    Args:
        name: the conversation's name, such as `openai-17`.
        tools: OpenAI tools.
        columns: further columns of each row.
    """

    def __init__(self, name: str, tools: list[JSON], columns: Mapping[str, JSON] | None = None) -> None:
        """Begin an empty conversation.

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
        self._waiting: dict[str, str] = {}
        self._asked = False
        self._turn = self._calls = self._growth = 0
        self._size = len(dumps(tools))

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
            raise ConversationError("the conversation has no assistant message after a user message")
        return self._rows

    def say(self, message: Record) -> None:
        """Add a message of the user, the system or a developer; raise ConversationError if a call still waits for its
        result.
        """
        self._no_call_waits()
        self._asked |= message.get("role") == "user"
        self._add(message)

    def result(self, content: JSON, call_id: JSON = None, name: JSON = None) -> None:
        """Add a function's result to the waiting call with this id; without an id, to the first waiting call (with this
        name).

        Raises:
            ConversationError: no such call waits for a result.
        """
        if call_id is not None:
            found = call_id if isinstance(call_id, str) and call_id in self._waiting else None
        else:
            found = next((key for key, called in self._waiting.items() if name in (None, called)), None)
        if found is None:
            raise self.error("this function's result has no call before it")
        del self._waiting[found]
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
        self._no_call_waits()
        if not calls and text:
            reading = read_calls(text, tools=self._definitions or None)
            calls, text = (reading.calls, reading.text.strip()) if reading.complete_calls else (calls, text)
        if not calls and not text:
            raise self.error("the assistant's message has neither text nor calls")
        self._turn += self._asked
        if trained and self._asked:
            self._add_row(_answer(text, calls))
        said: Record = {"role": "assistant", "content": text or None, **(message or {})}
        self._add({**said, "tool_calls": [self._call(call) for call in calls]} if calls else said)

    def no_call(self) -> None:
        """Add an assistant turn without calls and with unknown text."""
        self._turn += 1
        self._add_row({"tool_uses": []})

    def error(self, reason: str) -> ConversationError:
        """Return an error for the next message, with its number from 1."""
        return ConversationError(f"message {len(self._messages) + 1}: {reason}")

    def _add_row(self, answer: JSON) -> None:
        """Add a row with all messages so far as its query; raise ConversationError if the rows become too large."""
        self._growth += self._size
        if self._growth > MAX_GROWTH:
            raise ConversationError(f"the conversation is too long: its rows need over {MAX_GROWTH >> 20} MiB")
        ids: Record = {"id": f"{self._name}-{self._turn}", "conversation_id": self._name}
        self._rows.append(ids | {"query": [*self._messages], "answer": answer, "tools": self._tools} | self._columns)

    def _add(self, message: Record) -> None:
        self._size += len(dumps(message))
        self._messages.append(message)

    def _call(self, call: FunctionCall) -> JSON:
        """Return a call as an OpenAI tool call that waits for its result; it gets a new id if it has none or the id is
        taken.
        """
        name = call.id
        while name is None or name in self._waiting:
            self._calls += 1
            name = f"call_{self._calls}"
        self._waiting[name] = call.name
        function: JSON = {"name": call.name, "arguments": dumps(call.arguments).decode()}
        return {"id": name, "type": "function", "function": function}

    def _no_call_waits(self) -> None:
        """Raise ConversationError if a call has no result yet, because only results may follow it."""
        if self._waiting:
            name = next(iter(self._waiting.values()))
            raise self.error(f"the call of {name[:100]!r} before this message has no result")


def _answer(text: str, calls: Sequence[FunctionCall]) -> JSON:
    """Return the expected answer for a row: the text, or the calls as `tool_uses` with the text next to them."""
    if not calls:
        return text
    uses: list[JSON] = [{"recipient_name": f"functions.{call.name}", "parameters": call.arguments} for call in calls]
    return {"tool_uses": uses, "content": text} if text else {"tool_uses": uses}


def _are_parts(content: JSON) -> bool:
    return isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content)


def as_tools(value: JSON, what: str) -> list[JSON]:
    """Return tool definitions (objects, JSON text or bare function schemas) as OpenAI tools.

    Raises:
        ConversationError: the definitions cannot be read; the text names them by `what`.
    """
    return [_tool(item, what) for item in as_object_list(value, what)]


def as_object_list(value: JSON, what: str) -> list[JSON]:
    """Return the value as a list of objects: it is a list, a single object, the JSON text of either, or None.

    Raises:
        ConversationError: the value has another form.
    """
    if isinstance(value, str):
        try:
            value = loads(value) if value.strip() else []
        except ValueError as error:
            raise ConversationError(f"{what} are not JSON: {error}") from None
    items: list[JSON] = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(item, dict) for item in items):
        raise ConversationError(f"{what} must be a list of objects")
    return items


def _tool(value: JSON, what: str) -> JSON:
    """Return a function's definition as an OpenAI tool; without parameters, it takes none.

    Raises:
        ConversationError: the definition has no name, or its parameters are not an object.
    """
    if isinstance(value, dict) and value.get("type") == "function" and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise ConversationError(f"a function in {what} has no name")
    parameters = value.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(parameters, dict):
        raise ConversationError(f"the parameters of the function {value['name']!r} are not an object")
    return {"type": "function", "function": {**value, "parameters": parameters}}
