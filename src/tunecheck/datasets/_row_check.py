"""Check rows of any kind: their ids, the roles of their messages, their tools, their ground-truth calls."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tunecheck._messages import clean, did_you_mean
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._schemas import FunctionDefinition, ToolDefinitions
from tunecheck.calls._writing import canonical_text
from tunecheck.datasets._reading import usable_id
from tunecheck.datasets._right_calls import RightCall, is_plain, right_calls, violations
from tunecheck.datasets._sources import ROLES

PROBLEMS: Final = {
    "duplicate_id": "the id is not the row's own",
    "role": "a message's role is unknown",
    "tools": "the tool definitions cannot be read",
    "unreadable_call": "a ground-truth call cannot be read",
    "not_offered": "a function is needed that is not on offer by then",
    "breaks_schema": "a ground-truth call breaks the schema of its function",
}
"""The problems of a row of any kind, in words."""

REMARKS: Final = {
    "default_configuration": "a simulator starts from its own defaults, for want of a configuration",
    "unused_configuration": "a part of the configuration is for nothing",
}
"""What an entry can be right in spite of, in words."""

Value = Callable[[Mapping[str, object]], object]
"""Takes a value out of a row."""

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with an entry: `problem` says what sort of thing, `text` what it is, on one line.

    `turn` counts from 0, as verdicts do; None where it is about the whole entry. `call` is the ground-truth call.
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
    """Checks rows one after another.

    Args:
        ground_truth: takes the calls that are right out of a row; those of rows with turns are not looked at.
        tools: takes the tool definitions out of a row.
    """

    def __init__(self, ground_truth: Value, tools: Value) -> None:
        self._ground_truth, self._tools = ground_truth, tools
        self._rows: dict[str, int] = {}

    def findings(self, row: Mapping[str, object], number: int) -> Iterator[Finding]:
        """Yield the row's problems; `number` (from 1) names a row without an id."""
        entry = entry_name(row, number)
        yield from self._id(entry, row, number)
        for column, value in row.items():
            yield from _roles(entry, column, value)
        if "turns" not in row:
            yield from self._calls(entry, row, self._ground_truth(row))

    def _id(self, entry: str, row: Mapping[str, object], number: int) -> Iterator[Finding]:
        name = usable_id(row.get("id"))
        if name is None:
            return
        first = self._rows.setdefault(name, number)
        if first != number:
            yield Finding(entry, "duplicate_id", f"row {number:,} has the id of row {first:,}")

    def _calls(self, entry: str, row: Mapping[str, object], truth: object) -> Iterator[Finding]:
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
    """Return a finding if the call breaks the schema of its function; without a schema, none."""
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
    """Messages stand in a list of objects with `role`, or for each turn in one such list."""
    for at, item in enumerate(value if isinstance(value, list) else ()):
        place = f"{column[:100]}[{at}]"
        if isinstance(item, list):
            yield from _roles(entry, place, item)
        elif isinstance(item, dict) and ("content" in item or "tool_calls" in item):
            role = item.get("role")
            if isinstance(role, str) and role not in ROLES:
                yield Finding(entry, "role", f"{place}.role is {role[:60]!r}{did_you_mean(role[:60], ROLES)}")
