"""A row as the audit reads it: what is said in each turn, and the right calls with what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tunecheck.calls import FunctionCall, ToolDefinitions
from tunecheck.datasets import RightCall, Value, as_right, call_text, is_plain, right_calls
from tunecheck.episodes import ASKS, Change, CheckedRow, EntryCheck, leaves
from tunecheck.formats import read_calls

_WITHOUT_TRUTH = ("irrelevance", "relevance")
QUESTION_COLUMNS = ("query", "messages", "question", "prompt", "input")


@dataclass(frozen=True, slots=True)
class TruthCall:
    """A right call as its row has it; `result` and `changes` are what came of it where it could be made."""

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
    """What is said in each turn, and the right calls.

    `asked` are the user's words by turn, `told` all others that a model reads; `start` is what the simulators hold.
    `look_up` gives what the services answer to a reading call with one of these names; `unknown` says why something of
    the row cannot be looked at. If it `is_source`, texts are in a programming language, worded as nobody speaks.
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
        """The right calls as texts, equal for equal calls."""
        return tuple(call_text(call.right.call) for call in self.calls)


@dataclass(frozen=True, slots=True)
class DialogueReader:
    """Reads rows; each function takes a value out of a row, as its data set's mapping says.

    `cluster` is the column that the data set declares, whose values rows share that are made of one another.
    """

    ground_truth: Value
    tools: Value
    question: Value
    cluster: str | None = None

    def cluster_of(self, row: CheckedRow) -> object:
        return None if self.cluster is None else row.values.get(self.cluster)

    def read(self, row: CheckedRow) -> Dialogue | str:
        """The row's dialogue; or why there is none, in words."""
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
        except ValueError:  # `datasets check` says so
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
    """What each message of these roles says and calls; a text is one of the user's."""
    if isinstance(messages, str):
        yield from [messages] if "user" in roles else []
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, dict) and message.get("role") in roles:
            yield [message.get("content"), message.get("tool_calls")]


def texts_in(value: object) -> Iterator[str]:
    """Every text in a value, the keys of objects included; numbers as they are written."""
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
    """Each argument's accepted values, one by one; those in a list or object for themselves, if it is the only one."""
    for name, values in call.accepted.items():
        if len(values) == 1 and isinstance(values[0], (list, dict)):
            for item in leaves(values[0]):
                yield name, [item]
        else:
            yield name, [value for value in values if not isinstance(value, (list, dict))]
