"""Rows as examples to train on: what was asked, what is right, and what the model answered instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tunecheck._files import RunFile
from tunecheck._json import JSON, dumps
from tunecheck._targets import Row
from tunecheck.calls import TOOL_COLUMNS, ToolDefinitions
from tunecheck.datasets._columns import UnusableRowError
from tunecheck.datasets._repeated import SOURCE_ID, TRIAL
from tunecheck.endpoints._target import openai_tools, read_messages
from tunecheck.episodes import question_row
from tunecheck.formats import read_calls
from tunecheck.runs._values import value_reader
from tunecheck_authoring._answers import Answer, Message
from tunecheck_authoring._conversation_examples import ConversationReader

_QUESTIONS = ("messages", "query", "question", "prompt", "input")
_CONVERSATION = ("turns", "inference_log")


@dataclass(frozen=True, slots=True)
class Origin:
    """The failed row behind an example: its id, its id in the data set (not that of a trial), and the known cause."""

    row_id: str
    source_id: str
    cause: str


@dataclass(frozen=True, slots=True)
class Example:
    """What was asked, what is right, and what was answered instead: None where the model said nothing.

    `parallel` is the row's `parallel_tool_calls`.
    """

    origin: Origin
    asked: list[Message]
    tools: list[JSON]
    parallel: bool | None
    wanted: Answer
    given: Answer | None


def is_conversation(row: Mapping[str, JSON]) -> bool:
    """Whether a run's row has several turns."""
    return any(row.get(f"{side}.{name}") for side in ("inputs", "outputs") for name in _CONVERSATION)


class ExampleReader:
    """Reads the rows of one run as examples, by the mapping with which it was made.

    `question` is the column that was asked, where it is none of the usual ones; `conversations` reads rows of several
    turns. With `one`, a conversation is one example, of the first right call that was not made; else one for each
    right call from the turn on in which it failed.
    """

    def __init__(
        self, manifest: RunFile, conversations: ConversationReader, *, question: str | None = None, one: bool
    ) -> None:
        self._truth = value_reader(manifest, "ground_truth", ("ground_truth", "answer"))
        self._response = value_reader(manifest, "response", ("response",))
        self._tools = value_reader(manifest, "tool_definitions", TOOL_COLUMNS)
        self._messages = value_reader(manifest, "messages", _QUESTIONS if question is None else (question,))
        self._asked_in = question or " or ".join(_QUESTIONS[:2])
        self._conversations, self._one = conversations, one

    def read(self, row: Mapping[str, JSON], turn: int = 0) -> Iterator[Example]:
        """The examples of one row; `turn` is the one in which a conversation failed, counted from 0.

        Raises:
            UnusableRowError: it has no question or right answer to train on, or is a conversation without a place in
                which something else is right.
        """
        data = {key.removeprefix("inputs."): value for key, value in row.items() if key.startswith("inputs.")}
        target = {key.removeprefix("outputs."): value for key, value in row.items() if key.startswith("outputs.")}
        row_id, code, parallel = str(row.get("row_id")), row.get("cause"), data.get("parallel_tool_calls")
        origin = Origin(
            row_id, str(data.get(SOURCE_ID, row_id)) if TRIAL in data else row_id, code if isinstance(code, str) else ""
        )
        if not is_conversation(row):
            asked, tools, wanted, given = self._question(data, target)
            yield Example(origin, asked, tools, parallel if isinstance(parallel, bool) else None, wanted, given)
            return
        reader = self._conversations
        moments = [reader.differing(data, target, turn)] if self._one else reader.from_turn(data, turn)
        for moment in moments:
            right = Answer("", (moment.right,))
            yield Example(origin, moment.messages, moment.tools, None, right, moment.given)

    def _question(
        self, data: Mapping[str, JSON], target: Mapping[str, JSON]
    ) -> tuple[list[Message], list[JSON], Answer, Answer | None]:
        """What was asked, the tools, what is right, and what was answered."""
        try:
            tools = [dict(tool) for tool in openai_tools(self._tools(data, target)) or ()]
            asked = [dict(message) for message in read_messages(self._messages(data, {}), self._asked_in)]
            definitions = ToolDefinitions.read(tools)
        except ValueError as error:
            raise UnusableRowError(str(error)) from None
        wanted = self._wanted(data, target, tools, definitions)
        return asked, [*tools], wanted, _given(self._response(data, target), target, definitions)

    def _wanted(
        self,
        data: Mapping[str, JSON],
        target: Mapping[str, JSON],
        tools: list[dict[str, JSON]],
        definitions: ToolDefinitions,
    ) -> Answer:
        truth = self._truth(data, target)
        if isinstance(data.get("check"), str):  # a question of BFCL: lists of possible values
            row = Row(0, "", {**data, "ground_truth": truth}, "")
            truth = question_row(row, tools).values["ground_truth"]
        reading = read_calls(truth, tools=definitions or None)
        if reading.problem is not None:
            raise UnusableRowError(f"its right answer cannot be read: {reading.problem}")
        text = truth if isinstance(truth, str) and not reading.calls else reading.text
        if not text and not reading.calls:
            raise UnusableRowError("has no right answer")
        return Answer(text, reading.calls)


def _given(response: JSON, target: Mapping[str, JSON], tools: ToolDefinitions) -> Answer | None:
    reading = read_calls(response, tools=tools or None)
    if reading.calls:
        text = target.get("text")
        return Answer(text if isinstance(text, str) and isinstance(response, list) else reading.text, reading.calls)
    said = response if isinstance(response, str) else target.get("text")
    return Answer(said) if isinstance(said, str) and said else None


def canonical_key(example: Example, *, with_given: bool) -> bytes:
    """Equal for examples that teach the same."""
    given = example.given.message(arguments_as_text=True) if with_given and example.given is not None else None
    for_ids: list[JSON] = [_without_ids(m) for m in (*example.asked, example.wanted.message(arguments_as_text=True))]
    return dumps([for_ids, example.tools, None if given is None else _without_ids(given)])


def _without_ids(message: Message) -> JSON:
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    bare: list[JSON] = [call.get("function") if isinstance(call, dict) else call for call in calls]
    return {**message, "tool_calls": bare}
