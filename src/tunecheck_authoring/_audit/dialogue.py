"""Read a row for the audit: messages, expected calls and their results; and the kinds of findings.

A row becomes a `Dialogue`:

| row | turns | calls |
|---|---|---|
| conversation | those of the row | the expected calls, with the results of a replay |
| single question | one for each user message | the ground truth, in the last turn; without one, the assistant's calls |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import asdict

from tunecheck.calls import FunctionCall, ToolDefinitions
from tunecheck.episodes import Called, leaves
from tunecheck.formats import read_calls
from tunecheck.plugins import JSON
from tunecheck.simulators import OperationResult
from tunecheck_authoring._audit import checks

Certainty: TypeAlias = Literal["sure", "likely", "look"]

CERTAINTIES: Final[tuple[Certainty, ...]] = ("sure", "likely", "look")
"""The certainties, surest first; look means worth a look."""

_LIKELY: Final = {
    "nearly_quoted": "an argument differs slightly from a text that the user quoted",
    "mistyped_value": "an argument looks mistyped",
    "ungrounded_number": "a number appears in no message, configuration or result and cannot be computed from them",
    "stale_copy": "an argument resembles an earlier result, but differs from it",
    "unanswered_request": "no call does what the user asks",
    "unused_text": "no call uses a text that the user quotes",
    "superfluous_call": "a call is superfluous",
    "renamed_original": "an item is copied, but then the original is renamed instead of the copy",
    "conflicting_answers": "another row expects different calls for the same request",
    "in_training_data": "the row is in the training data",
    "passes_idle": "an agent that does nothing passes the row",
    "fails_alike": "all runs fail the row in the same way",
}
_LOOK: Final = {
    "ungrounded_value": "a text appears in no message, configuration or result",
    "near_duplicate": "the row nearly repeats another row",
    "not_looked_at": "not checked",
}

KINDS: Final[Mapping[str, str]] = {**checks.PROBLEMS, **_LIKELY, **_LOOK}
"""Descriptions of the kinds of findings; those of `check` are sure."""

_ORDER = {kind: at for at, kind in enumerate(KINDS)}
_MOST_EVIDENCE = 400
"""The most characters of a finding's evidence."""


class Replacement(msgspec.Struct, frozen=True):
    """An automatic fix: replace this call of the turn's ground truth by `new`, or delete it if `new` is None."""

    turn: int
    old: str
    new: str | None


class AuditFinding(msgspec.Struct, frozen=True):
    """A probable mistake in the row `id`; `turn` counts from 0, and is None if the finding concerns the whole row."""

    id: str
    kind: str
    certainty: Certainty
    turn: int | None
    evidence: str
    fix: str | None = None
    replacement: Replacement | None = None

    @property
    def rank(self) -> tuple[int, int]:
        """Return the finding's place in a sorted list: the surest findings come first, and then the kinds in order."""
        return CERTAINTIES.index(self.certainty), _ORDER[self.kind]

    def as_json(self) -> dict[str, JSON]:
        """Return the finding as an object for --json and the review page, without the automatic fix."""
        return {name: value for name, value in asdict(self).items() if name != "replacement"}


def found(
    row: str,
    kind: str,
    evidence: str,
    turn: int | None = None,
    *,
    fix: str | None = None,
    replacement: Replacement | None = None,
    certainty: Certainty | None = None,
) -> AuditFinding:
    """Return a finding of this kind about a row, with the kind's usual certainty unless one is given.

    `row` is the row's id, `fix` says in words what to do, and `replacement` is an automatic fix. Long evidence is cut.
    """
    usual: Certainty = "look" if kind in _LOOK else "likely" if kind in _LIKELY else "sure"
    text = " ".join(evidence.split())
    text = text if len(text) <= _MOST_EVIDENCE else f"{text[:_MOST_EVIDENCE]}…"
    return AuditFinding(row, kind, certainty or usual, turn, text, fix, replacement)


_WITHOUT_TRUTH = ("irrelevance", "relevance")
"""Values of the column `check` in BFCL's rows without a ground truth: no call, or any call, is right."""
QUESTION_COLUMNS = ("query", "messages", "question", "prompt", "input")


class Dialogue(msgspec.Struct, frozen=True):
    """The messages of each turn, and the expected calls.

    `asked` holds the user's words by turn, `told` the other texts that the model reads, `start` the simulators' state.
    `look_up` returns the services' answers to reading calls with these names. `unknown` says why a part of the row
    cannot be checked. `is_source` is True if arguments are source code of a programming language.
    """

    name: str
    asked: Sequence[str]
    told: Sequence[str] = ()
    calls: Sequence[checks.TruthCall] = ()
    tools: ToolDefinitions = msgspec.field(default_factory=lambda: ToolDefinitions({}))
    start: object = None
    is_conversation: bool = False
    look_up: Callable[[Sequence[str]], Iterable[object]] = lambda names: ()
    unknown: str | None = None
    is_source: bool = False

    def of_turn(self, turn: int) -> list[checks.TruthCall]:
        return [call for call in self.calls if call.turn == turn]

    @property
    def path(self) -> tuple[str, ...]:
        """The expected calls as texts; equal calls have equal texts."""
        return tuple(checks.call_text(call.right.call) for call in self.calls)


class DialogueReader(msgspec.Struct, frozen=True):
    """Reader of rows; each function returns one value of a row, according to the data set's column mapping.

    `cluster` is the declared cluster column: rows that derive from one another share its value.
    """

    ground_truth: checks.Value
    tools: checks.Value
    question: checks.Value
    cluster: str | None = None

    def read(self, row: checks.CheckedRow) -> Dialogue | str:
        """Return the row's dialogue, or the reason (a text) why the row cannot be checked."""
        if row.replayed is not None:
            return _read_conversation(row.name, row.replayed)
        if "turns" in row.values:
            return "the conversation's calls were not executed"
        return self._read_question(row.name, row.values)

    def _read_question(self, name: str, row: Mapping[str, object]) -> Dialogue | str:
        """Return the dialogue of a single question, or the reason why it cannot be checked.

        Without a ground truth, the calls of an assistant's message count as expected calls.
        """
        messages = self.question(row)
        requests = [" ".join(texts_in(each)) for each in _contents(messages, ("user",))]
        if not any(requests):
            return f"no column ({', '.join(QUESTION_COLUMNS)}) has a user's question"

        # Values may also come from the system message, and from answers and results in the question's messages.
        context = [*_texts(messages, ("system", "developer", "assistant", "tool", "function"))]
        try:
            tools = ToolDefinitions.read(self.tools(row))
        except ValueError:  # `check` reports this
            tools = ToolDefinitions({})

        truth = self.ground_truth(row)
        if truth is not None:
            calls, _ = checks.right_calls(row, truth, tools)  # `check` reports unreadable calls
        else:
            calls = [checks.as_right(call, tools) for call in read_calls(messages).calls]

        unknown = None
        # The values of the calls are checked even if nothing says whether the calls are right.
        if truth is None and row.get("check") not in _WITHOUT_TRUTH:
            unknown = "whether the answer is right, because the row has no ground truth"
        elif calls and not tools:
            unknown = "whether the calls follow their schemas, because the row has no tool definitions"

        # The expected calls answer the last request.
        truth_calls = [_unexecuted(len(requests) - 1, each) for each in calls]
        is_source = not checks.is_in_python(row)
        return Dialogue(name, requests, context, truth_calls, tools, unknown=unknown, is_source=is_source)


def _unexecuted(turn: int, right: checks.RightCall) -> checks.TruthCall:
    """Return a right call as the expected call of a turn, with an empty result and no changes."""
    return checks.TruthCall(turn, checks.call_text(right.call), right, Called(right.call, OperationResult("")))


def _read_conversation(name: str, check: checks.EntryCheck) -> Dialogue:
    """Return the dialogue of a replayed conversation; its calls have the results of the replay."""
    requests = [" ".join(_texts(turn, ("user",))) for turn in check.turns]
    context = [text for turn in check.turns for text in _texts(turn, ("system", "developer"))]

    start, look_up = [check.config, check.start], partial(_looked_up, check)
    return Dialogue(name, requests, context, check.played, check.tools, start, is_conversation=True, look_up=look_up)


def _looked_up(check: checks.EntryCheck, names: Sequence[str]) -> Iterator[object]:
    """Yield the services' answers about these names, without errors.

    Each reading operation with one required parameter is called with each name, on new simulators.
    """
    # New simulators, so that these calls change nothing in the replay.
    backend = check.replay().backend
    operations = [each for simulator in backend.simulators.values() for each in simulator.operations().values()]

    for operation in operations:
        if len(operation.required) == 1 and checks.ASKS.search(operation.name):
            for name in names:
                result = backend.call(FunctionCall(operation.name, {operation.required[0]: name}))
                if not result.error:
                    yield result.value


def _texts(messages: object, roles: Sequence[str]) -> Iterator[str]:
    """Return all texts in the messages of these roles, those in calls included."""
    return texts_in([*_contents(messages, roles)])


def _contents(messages: object, roles: Sequence[str]) -> Iterator[object]:
    """Yield text and calls of each message of these roles; a plain text counts as a user message.

    A message without calls yields `["Where is it?", None]`.
    """
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


def argument_values(call: checks.RightCall) -> Iterator[tuple[str, list[object]]]:
    """Yield each argument's name and accepted values; a single list or object yields its leaves one by one.

    Lists and objects among several values are left out.
    """
    for name, values in call.accepted.items():
        if len(values) == 1 and isinstance(values[0], (list, dict)):
            for item in leaves(values[0]):
                yield name, [item]
        else:
            yield name, [value for value in values if not isinstance(value, (list, dict))]
