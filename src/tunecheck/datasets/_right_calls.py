"""The right calls of a single question, each argument with every value that is right for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._schemas import FunctionDefinition, ToolDefinitions
from tunecheck.calls.matching import named_arguments
from tunecheck.datasets._sources import as_list, as_text, kind, refuse
from tunecheck.formats._reading import read_calls

_WITH_POSSIBLE_ANSWERS = ("simple", "multiple", "parallel")


@dataclass(frozen=True, slots=True)
class RightCall:
    """A call with the right values of each parameter; "" among several marks an optional parameter.

    In a `possible` answer an object's entries have lists of values, too.
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
    calls: Sequence[RightCall]
    problem: str | None = None


def right_calls(row: Mapping[str, object], truth: object, tools: ToolDefinitions) -> RightCalls:
    """Return the right calls in a row's ground truth.

    If `check` is `simple`, `multiple` or `parallel`, the ground truth holds possible answers:
    `[{"f": {"unit": ["m", ""]}}]`.
    """
    if row.get("check") in _WITH_POSSIBLE_ANSWERS and isinstance(truth, list):
        return RightCalls([*_possible_answers(truth)])
    reading = read_calls(truth, tools=tools or None)
    if not (reading.calls or reading.problem):  # with tools, what is a call of none of them is prose
        reading = read_calls(truth)
    return RightCalls([as_right(call, tools) for call in reading.calls], reading.problem)


def is_plain(row: Mapping[str, object]) -> bool:
    """Return True if arguments are values; rows in other languages than Python hold source text."""
    return row.get("language") in (None, "python")


def as_right(call: FunctionCall, tools: ToolDefinitions) -> RightCall:
    """Return the call as the only right one."""
    return RightCall(call.name, {key: [value] for key, value in named_arguments(call, tools).arguments.items()})


def _possible_answers(truth: list[JSON]) -> Iterator[RightCall]:
    for answer in truth:
        for name, arguments in answer.items() if isinstance(answer, dict) else ():
            options = arguments if isinstance(arguments, dict) else {}
            yield RightCall(name, {key: _options(values) for key, values in options.items()}, possible=True)


def _options(values: JSON) -> list[JSON]:
    return values if isinstance(values, list) and values else [values]


def may_be_left_out(options: JSON) -> bool:
    """Return True if the possible values include empty text, which marks the argument as optional."""
    return isinstance(options, list) and "" in options


def first_value(options: JSON) -> JSON:
    """Return the first possible value; each entry of an object has possible values of its own."""
    value = options[0] if isinstance(options, list) and options else options
    return _plain(value)


def _plain(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: first_value(item) for key, item in value.items() if not may_be_left_out(item)}
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [_plain(item) for item in value]
    return value


def violations(right: RightCall, definition: FunctionDefinition) -> list[str]:
    """Return violations of the function's schema: parameters without a valid accepted value."""
    if right.possible:
        return [*_violations_by_parameter(right, definition)]
    return [*definition.check(right.call.arguments).violations]


def _violations_by_parameter(right: RightCall, definition: FunctionDefinition) -> Iterator[str]:
    alone = replace(definition, parameters={**definition.parameters, "required": []})
    for name, values in right.accepted.items():
        found = [alone.check({name: _plain(value)}).violations for value in values]
        if not may_be_left_out(values) and all(found):
            yield from found[0]
    required = definition.parameters.get("required")
    for needed in required if isinstance(required, list) else []:
        if needed not in right.accepted:
            yield f"{needed!r} is a required property"


# -- a row's settings for the strict judgement of its conversation

COLUMNS = ("free_calls", "final_state_only", "alternative_ground_truths", "ignored_state")

_READ_ONLY = "read_only"


@dataclass(frozen=True, slots=True)
class Judging:
    """How a row is judged.

    `free` are functions that may also be called in turns that ask for no call, as long as the state stays right; with
    `reads_are_free`, all may. `final_state_only`: nothing is judged but the state after the last turn. `alternatives`
    are other ground truths; following any of them passes. `ignored` are paths in the state, as verdicts show them, that
    are not compared.
    """

    free: frozenset[str] = frozenset()
    reads_are_free: bool = False
    final_state_only: bool = False
    alternatives: tuple[list[list[JSON]], ...] = ()
    ignored: tuple[str, ...] = ()

    @classmethod
    def read(cls, row: Mapping[str, object], turns: int) -> Judging:
        """Read a row's columns; `turns` is the number of turns of its ground truth.

        Raises:
            UnusableRowError: a column holds something else; the text says which.
        """
        free, final = row.get("free_calls"), row.get("final_state_only")
        if final is not None and not isinstance(final, bool):
            refuse(f"final_state_only must be true or false, not {kind(final)}")
        if isinstance(free, str) and free != _READ_ONLY:
            refuse(f"free_calls must be {_READ_ONLY!r} or a list of functions' names, not {free[:60]!r}")
        reads = free == _READ_ONLY
        return cls(
            free=frozenset(_texts(row, "free_calls")) if not reads else frozenset(),
            reads_are_free=reads,
            final_state_only=final is True,
            alternatives=tuple(_truth(each, at, turns) for at, each in enumerate(_list(row, COLUMNS[2]))),
            ignored=tuple(_texts(row, "ignored_state")),
        )

    def ignores(self, path: str) -> bool:
        """Return True if differences at this path are ignored."""
        return any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in self.ignored)


def _list(row: Mapping[str, object], column: str) -> list[JSON]:
    value = row.get(column)
    return [] if value is None else as_list(value, column)


def _texts(row: Mapping[str, object], column: str) -> list[str]:
    return [as_text(each, f"{column}[{at}]") for at, each in enumerate(_list(row, column))]


def _truth(value: JSON, at: int, turns: int) -> list[list[JSON]]:
    name = f"{COLUMNS[2]}[{at}]"
    truth = [as_list(turn, f"{name}[{number}]") for number, turn in enumerate(as_list(value, name))]
    return truth if len(truth) == turns else refuse(f"{name} has {len(truth)} turns; ground_truth has {turns}")
