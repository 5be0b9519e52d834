"""Check rows of any kind: their ids, the roles of their messages, their tools, their ground-truth calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tunecheck.calls import FunctionCall, FunctionDefinition, ToolDefinitions, canonical_text, named_arguments
from tunecheck.datasets import ROLES, first_value, first_values, may_be_left_out, usable_id
from tunecheck.formats import read_calls
from tunecheck.plugins import JSON, clean, did_you_mean

PROBLEMS: Final = {
    "duplicate_id": "another row has the same id",
    "role": "a message's role is unknown",
    "tools": "the tool definitions cannot be read",
    "unreadable_call": "a ground-truth call cannot be read",
    "not_offered": "a ground-truth call needs a function that is not available",
    "breaks_schema": "a ground-truth call breaks the schema of its function",
}
"""Descriptions of the problems of a row of any kind."""

REMARKS: Final = {
    "default_configuration": "a simulator has no configuration and starts from its defaults",
    "unused_configuration": "a part of the configuration is never used",
}
"""Descriptions of the remarks: an entry with a remark may still be right."""

Value = Callable[[Mapping[str, object]], object]
"""A function that returns one value of a row."""

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of an entry: `problem` is its kind, a key of `PROBLEMS` or `REMARKS`; `text` describes it on one line.

    `turn` counts from 0, as in verdicts; it is None if the finding concerns the whole entry. `call` is the ground-truth
    call.
    """

    entry: str
    problem: str
    text: str
    turn: int | None = None
    call: str | None = None

    @property
    def is_remark(self) -> bool:
        """Return True if the entry can be right in spite of the finding."""
        return self.problem in REMARKS


class RowCheck:
    """The check of rows of any kind, one after another.

    Args:
        ground_truth: Returns the right calls of a row. Those of rows with turns are not checked here.
        tools: Returns the tool definitions of a row.
    """

    def __init__(self, ground_truth: Value, tools: Value) -> None:
        self._ground_truth, self._tools = ground_truth, tools
        self._rows: dict[str, int] = {}

    def findings(self, row: Mapping[str, object], number: int) -> Iterator[Finding]:
        """Yield the row's problems, among them an id of an earlier row.

        `number` (from 1) names a row without an id.
        """
        entry = entry_name(row, number)
        yield from self._id(entry, row, number)
        for column, value in row.items():
            yield from _roles(entry, column, value)
        if "turns" not in row:
            yield from self._calls(entry, row, self._ground_truth(row))

    def _id(self, entry: str, row: Mapping[str, object], number: int) -> Iterator[Finding]:
        """Yield a finding if an earlier row has the same id. Rows without an id are not compared."""
        name = usable_id(row.get("id"))
        if name is None:
            return
        first = self._rows.setdefault(name, number)
        if first != number:
            text = f"row {number:,} has the id of row {first:,}: make ids unique, or evaluate with --number-ids"
            yield Finding(entry, "duplicate_id", text)

    def _calls(self, entry: str, row: Mapping[str, object], truth: object) -> Iterator[Finding]:
        """Yield the findings about a row's tools and ground-truth calls."""
        try:
            tools = ToolDefinitions.read(self._tools(row))
        except ValueError as error:
            yield Finding(entry, "tools", clean(error, 1_000))
            return
        right = right_calls(row, truth, tools)
        if right.problem:
            yield Finding(entry, "unreadable_call", clean(right.problem, 1_000))
        for each in right.calls:
            definition = tools.spelled(each.name)
            if tools and definition is None:
                text = f"{each.name[:100]!r} is not among the row's tools{did_you_mean(each.name[:100], tools)}"
                yield Finding(entry, "not_offered", text, call=call_text(each.call))
            elif definition is not None and is_plain(row):
                yield from schema_findings(entry, each, definition)


def schema_findings(
    entry: str, right: RightCall, definition: FunctionDefinition | None, turn: int | None = None
) -> list[Finding]:
    """Return a finding if the call breaks the schema of its function. Without a schema, the list is empty."""
    if definition is None or not (broken := violations(right, definition)):
        return []
    return [Finding(entry, "breaks_schema", clean("; ".join(broken), 1_000), turn, call_text(right.call))]


def entry_name(row: Mapping[str, object], number: int) -> str:
    """Return a row's name: its id, else its number."""
    name = usable_id(row.get("id"))
    return name[:_LONGEST] if name else f"row-{number}"


def call_text(call: FunctionCall) -> str:
    """Return a call on one line, cut if it is long."""
    text = " ".join(canonical_text([call]).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _roles(entry: str, column: str, value: object) -> Iterator[Finding]:
    """Yield a finding for each unknown role in a column's messages, which may be grouped by turn."""
    for at, item in enumerate(value if isinstance(value, list) else ()):
        place = f"{column[:100]}[{at}]"
        if isinstance(item, list):
            yield from _roles(entry, place, item)
        elif isinstance(item, dict) and ("content" in item or "tool_calls" in item):
            role = item.get("role")
            if isinstance(role, str) and role not in ROLES:
                yield Finding(entry, "role", f"{place}.role is {role[:60]!r}{did_you_mean(role[:60], ROLES)}")


# Ground truth of a single question: the right calls, with all accepted values of each argument.

_WITH_POSSIBLE_ANSWERS = ("simple", "multiple", "parallel")


@dataclass(frozen=True, slots=True)
class RightCall:
    """A call with the accepted values of each parameter; "" among several values marks an optional parameter.

    If `possible` is True, each entry of an object has a list of accepted values, too.
    """

    name: str
    accepted: Mapping[str, list[JSON]]
    possible: bool = False

    @property
    def call(self) -> FunctionCall:
        """Return the call with the first value of each required argument."""
        if not self.possible:
            return FunctionCall(self.name, {name: values[0] for name, values in self.accepted.items()})
        required = {name: values for name, values in self.accepted.items() if not may_be_left_out(values[1:])}
        return FunctionCall(self.name, {name: first_value(values) for name, values in required.items()})


@dataclass(frozen=True, slots=True)
class RightCalls:
    """The right calls of a row, and the problem if its ground truth cannot be read."""

    calls: Sequence[RightCall]
    problem: str | None = None


def right_calls(row: Mapping[str, object], truth: object, tools: ToolDefinitions) -> RightCalls:
    """Return the right calls in a row's ground truth.

    If the row's `check` is `simple`, `multiple` or `parallel`, the ground truth holds possible answers: `[{"f":
    {"unit": ["m", ""]}}]`. Otherwise it holds calls in any format.
    """
    if row.get("check") in _WITH_POSSIBLE_ANSWERS and isinstance(truth, list):
        return RightCalls([*_possible_answers(truth)])
    reading = read_calls(truth, tools=tools or None)
    if not (reading.calls or reading.problem):  # given tools, calls of other functions are read as prose
        reading = read_calls(truth)
    return RightCalls([as_right(call, tools) for call in reading.calls], reading.problem)


def is_plain(row: Mapping[str, object]) -> bool:
    """Return True if arguments are values; rows in other languages than Python hold source text."""
    return row.get("language") in (None, "python")


def as_right(call: FunctionCall, tools: ToolDefinitions) -> RightCall:
    """Return the call as the only right one, with positional arguments named by the function's definition."""
    return RightCall(call.name, {key: [value] for key, value in named_arguments(call, tools).arguments.items()})


def _possible_answers(truth: list[JSON]) -> Iterator[RightCall]:
    """Yield the right calls of possible answers; a value that is not a list is the only possible one."""
    for answer in truth:
        for name, arguments in answer.items() if isinstance(answer, dict) else ():
            options = arguments if isinstance(arguments, dict) else {}
            yield RightCall(
                name,
                {key: values if isinstance(values, list) and values else [values] for key, values in options.items()},
                possible=True,
            )


def violations(right: RightCall, definition: FunctionDefinition) -> list[str]:
    """Return the ways in which the call breaks the function's schema, as texts.

    With possible answers, an argument is valid if any of its accepted values is.
    """
    if right.possible:
        return [*_violations_by_parameter(right, definition)]
    return [*definition.check(right.call.arguments).violations]


def _violations_by_parameter(right: RightCall, definition: FunctionDefinition) -> Iterator[str]:
    """Yield a violation for each parameter without a valid accepted value, and each missing required parameter."""
    alone = replace(definition, parameters={**definition.parameters, "required": []})
    for name, values in right.accepted.items():
        found = [alone.check({name: first_values(value)}).violations for value in values]
        if not may_be_left_out(values) and all(found):
            yield from found[0]
    required = definition.parameters.get("required")
    for needed in required if isinstance(required, list) else []:
        if needed not in right.accepted:
            yield f"{needed!r} is a required property"
