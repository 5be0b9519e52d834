"""Rows as examples to train on: what was asked, what is right, and what the model answered instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tunecheck._files import RunFile
from tunecheck._json import JSON, dumps, loads
from tunecheck._targets import Row
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._schemas import TOOL_COLUMNS, ToolDefinitions
from tunecheck.calls._writing import write_calls
from tunecheck.conversations._expected_answers import question_row
from tunecheck.datasets._columns import UnusableRowError
from tunecheck.datasets._repeated import SOURCE_ID, TRIAL
from tunecheck.endpoints._target import openai_tools, read_messages
from tunecheck.formats._reading import read_calls
from tunecheck.runs._failures import evidence_of
from tunecheck.runs._values import value_reader

Message = dict[str, JSON]

_QUESTIONS = ("messages", "query", "question", "prompt", "input")
_CONVERSATION = ("turns", "inference_log")


@dataclass(frozen=True, slots=True)
class Answer:
    """What an assistant says: a text, calls, or both."""

    text: str
    calls: tuple[FunctionCall, ...] = ()

    def message(self, *, arguments_as_text: bool) -> Message:
        """The message of this answer; OpenAI has arguments as JSON text, TRL as objects."""
        if not self.calls:
            return {"role": "assistant", "content": self.text}
        message: Message = {"role": "assistant", "tool_calls": write_calls(self.calls, "openai")}
        if self.text:
            message["content"] = self.text
        return message if arguments_as_text else with_objects(message)


@dataclass(frozen=True, slots=True)
class Example:
    """A row that failed. `cause` is empty where none is known; `given` is None where the model said nothing.

    `source_id` is the row's id in the data set, of a trial, too; `parallel` is its `parallel_tool_calls`, `evidence`
    what the cause is about.
    """

    row_id: str
    source_id: str
    cause: str
    evidence: str
    asked: list[Message]
    tools: list[JSON]
    parallel: bool | None
    wanted: Answer
    given: Answer | None


class ExampleReader:
    """Reads the rows of one run as examples, by the mapping with which it was made.

    `question` is the column that was asked, where it is none of the usual ones.
    """

    def __init__(self, manifest: RunFile, question: str | None = None) -> None:
        self._truth = value_reader(manifest, "ground_truth", ("ground_truth", "answer"))
        self._response = value_reader(manifest, "response", ("response",))
        self._tools = value_reader(manifest, "tool_definitions", TOOL_COLUMNS)
        self._messages = value_reader(manifest, "messages", _QUESTIONS if question is None else (question,))
        self._asked_in = question or " or ".join(_QUESTIONS[:2])

    def read(self, row: Mapping[str, JSON]) -> Example:
        """One row.

        Raises:
            UnusableRowError: it is a conversation of several turns, or has no question or right answer to train on.
        """
        data = {key.removeprefix("inputs."): value for key, value in row.items() if key.startswith("inputs.")}
        target = {key.removeprefix("outputs."): value for key, value in row.items() if key.startswith("outputs.")}
        if any(data.get(key) or target.get(key) for key in _CONVERSATION):
            raise UnusableRowError("is a conversation; only single answers can be exported")
        try:
            tools = [dict(tool) for tool in openai_tools(self._tools(data, target)) or ()]
            asked = [dict(message) for message in read_messages(self._messages(data, {}), self._asked_in)]
            definitions = ToolDefinitions.read(tools)
        except ValueError as error:
            raise UnusableRowError(str(error)) from None
        parallel, code = data.get("parallel_tool_calls"), row.get("cause")
        row_id = str(row.get("row_id"))
        return Example(
            row_id,
            str(data.get(SOURCE_ID, row_id)) if TRIAL in data else row_id,
            code if isinstance(code, str) else "",
            evidence_of(row),
            asked,
            [*tools],
            parallel if isinstance(parallel, bool) else None,
            self._wanted(data, target, tools, definitions),
            _given(self._response(data, target), target, definitions),
        )

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


def with_objects(message: Message) -> Message:
    """A message of OpenAI's whose calls have their arguments as objects, as chat templates and TRL take them."""
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [*_calls_with_objects(calls)]} if isinstance(calls, list) else message


def _calls_with_objects(calls: list[JSON]) -> Iterator[JSON]:
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        text = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(call, dict) and isinstance(function, dict) and isinstance(text, str):
            with suppress(ValueError):  # in a history: left as it was said
                call = {**call, "function": {**function, "arguments": loads(text)}}
        yield call


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
