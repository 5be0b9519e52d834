"""Read a row for the audit: the messages of each turn, and the expected calls with their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tunecheck.calls import FunctionCall, ToolDefinitions
from tunecheck.episodes import Change, leaves
from tunecheck.formats import read_calls
from tunecheck_authoring._audit.conversations import ASKS, CheckedRow, EntryCheck
from tunecheck_authoring._audit.rows import RightCall, Value, as_right, call_text, is_plain, right_calls

_WITHOUT_TRUTH = ("irrelevance", "relevance")
QUESTION_COLUMNS = ("query", "messages", "question", "prompt", "input")


@dataclass(frozen=True, slots=True)
class TruthCall:
    """An expected call of a row; `result` and `changes` are set if the call could be executed."""

    turn: int
    text: str
    right: RightCall
    result: object = None
    changes: Sequence[Change] = ()

    @property
    def name(self) -> str:
        return self.right.name


@dataclass(frozen=True, slots=True)
class Dialogue:
    """The messages of each turn, and the expected calls.

    `asked` holds the user's words by turn, `told` the other texts that the model reads, `start` the simulators' state.
    `look_up` returns the services' answers to reading calls with these names. `unknown` says why a part of the row
    cannot be checked. `is_source` is True if arguments are source code of a programming language.
    """

    name: str
    asked: Sequence[str]
    told: Sequence[str] = ()
    calls: Sequence[TruthCall] = ()
    tools: ToolDefinitions = field(default_factory=lambda: ToolDefinitions({}))
    start: object = None
    is_conversation: bool = False
    look_up: Callable[[Sequence[str]], Iterable[object]] = lambda names: ()
    unknown: str | None = None
    is_source: bool = False

    def of_turn(self, turn: int) -> list[TruthCall]:
        return [call for call in self.calls if call.turn == turn]

    @property
    def path(self) -> tuple[str, ...]:
        """Return the expected calls as texts; equal calls have equal texts."""
        return tuple(call_text(call.right.call) for call in self.calls)


@dataclass(frozen=True, slots=True)
class DialogueReader:
    """Reads rows; each function gets one value of a row, according to the data set's column mapping.

    `cluster` is the declared cluster column: rows that derive from one another share its value.
    """

    ground_truth: Value
    tools: Value
    question: Value
    cluster: str | None = None

    def cluster_of(self, row: CheckedRow) -> object:
        return None if self.cluster is None else row.values.get(self.cluster)

    def read(self, row: CheckedRow) -> Dialogue | str:
        """Return the row's dialogue, or the reason why it has none."""
        if row.replayed is not None:
            return _conversation(row.name, row.replayed)
        if "turns" in row.values:
            return "all of it: its calls cannot be made"
        return self._question(row.name, row.values)

    def _question(self, name: str, row: Mapping[str, object]) -> Dialogue | str:
        messages = self.question(row)
        asked = [" ".join(texts_in(each)) for each in _contents(messages, ("user",))]
        if not any(asked):
            return f"all of it: no column ({', '.join(QUESTION_COLUMNS)}) holds what a user asks"
        told = [*_texts(messages, ("system", "developer", "assistant", "tool", "function"))]
        try:
            tools = ToolDefinitions.read(self.tools(row))
        except ValueError:  # `check` says so
            tools = ToolDefinitions({})
        truth = self.ground_truth(row)
        right = right_calls(row, truth, tools) if truth is not None else None
        calls = [as_right(call, tools) for call in read_calls(messages).calls] if right is None else right.calls
        unknown = None
        if truth is None and row.get("check") not in _WITHOUT_TRUTH:
            unknown = "whether its answer is right: it has no ground truth"
        elif calls and not tools:
            unknown = "whether its calls keep to their schemas: it has no tool definitions"
        made = [TruthCall(len(asked) - 1, call_text(each.call), each) for each in calls]
        return Dialogue(name, asked, told, made, tools, unknown=unknown, is_source=not is_plain(row))


def _conversation(name: str, check: EntryCheck) -> Dialogue:
    entry = check.entry
    calls = [
        TruthCall(each.turn, each.text, as_right(each.call, entry.tools), each.step.result.value, each.step.changes)
        for each in check.played
    ]
    asked = [" ".join(_texts(turn, ("user",))) for turn in entry.turns]
    told = [text for turn in entry.turns for text in _texts(turn, ("system", "developer"))]
    start = [entry.config, check.start]
    return Dialogue(
        name, asked, told, calls, entry.tools, start, is_conversation=True, look_up=partial(_looked_up, check)
    )


def _looked_up(check: EntryCheck, names: Sequence[str]) -> Iterator[object]:
    backend = check.replay(check.entry.config).backend
    operations = [each for simulator in backend.simulators.values() for each in simulator.operations().values()]
    for operation in operations:
        if len(operation.required) == 1 and ASKS.search(operation.name):
            for name in names:
                result = backend.call(FunctionCall(operation.name, {operation.required[0]: name}))
                if not result.error:
                    yield result.value


def _texts(messages: object, roles: Sequence[str]) -> Iterator[str]:
    return texts_in([*_contents(messages, roles)])


def _contents(messages: object, roles: Sequence[str]) -> Iterator[object]:
    """Yield text and calls of each message of these roles; a plain text counts as a user message."""
    if isinstance(messages, str):
        yield from [messages] if "user" in roles else []
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, dict) and message.get("role") in roles:
            yield [message.get("content"), message.get("tool_calls")]


def texts_in(value: object) -> Iterator[str]:
    """Yield every text in a value, keys of objects and written numbers included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from texts_in(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)


def argument_values(call: RightCall) -> Iterator[tuple[str, list[object]]]:
    """Yield each argument's accepted values; a single list or object yields its leaves one by one."""
    for name, values in call.accepted.items():
        if len(values) == 1 and isinstance(values[0], (list, dict)):
            for item in leaves(values[0]):
                yield name, [item]
        else:
            yield name, [value for value in values if not isinstance(value, (list, dict))]
