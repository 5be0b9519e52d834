"""The checks of rows for `tunecheck check`.

`RowCheck` checks rows of any kind, in this order:

1. the id: no earlier row has it
2. the messages of each column: their roles are known
3. the tools can be read; otherwise the calls are not checked
4. the ground truth can be read
5. each ground-truth call: its function is among the tools, and the call fits the function's schema

Rows with `turns` get steps 1 and 2 only.

`EntryCheck` checks a conversation (a row with `turns`, also called an entry) by a replay of its ground truth on new
simulators, in this order:

1. the configuration: each simulator with a state has a part, and each part has a simulator
2. `held_out`, the functions that later turns add, and turns without a message
3. the judging settings `free_calls` and `ignored_state`: the operations and paths exist
4. each call: it can be read, its function is on offer in this turn, it fits the schema, it succeeds unless
   `failing_calls` names it, and its result reports no failure
5. each turn: at least one call has an effect

Steps 4 and 5 are repeated for each alternative ground truth. `PROBLEMS` describes all findings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, TypeAlias

import msgspec

from tunecheck import DataError, PluginError, episodes
from tunecheck.calls import (
    FunctionCall,
    FunctionDefinition,
    ToolDefinitions,
    canonical_text,
    named_arguments,
    tool_name,
)
from tunecheck.calls.matching import first_value, first_values, may_be_left_out
from tunecheck.datasets import JUDGING_COLUMNS, ROLES, Judging, UnusableRowError, as_list, refuse, usable_id
from tunecheck.formats import read_calls, read_python_calls
from tunecheck.plugins import JSON, clean, did_you_mean
from tunecheck.simulators import Simulator
from tunecheck_authoring._table_simulators import Recorded

REMARKS: Final = {
    "default_configuration": "a simulator has no configuration and starts from its defaults",
    "unused_configuration": "a part of the configuration is never used",
}
"""Descriptions of the remarks: an entry with a remark may still be right."""

RowValues = Mapping[str, object]
Value = Callable[[RowValues], object]
"""A function that returns one value of a row."""

_LONGEST = 200
"""The most characters of a row's name or a call in a finding."""


class Finding(msgspec.Struct, frozen=True):
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
    def full_text(self) -> str:
        """Return the text; if the finding concerns a call, begin with the call and a colon."""
        return f"{self.call}: {self.text}" if self.call else self.text

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

    def findings(self, row: RowValues, number: int) -> Iterator[Finding]:
        """Yield the row's problems, among them an id of an earlier row.

        `number` (from 1) names a row without an id.
        """
        entry = entry_name(row, number)
        yield from self._check_id(entry, row, number)

        for column, value in row.items():
            yield from _check_roles(entry, column, value)
        if "turns" not in row:
            yield from self._calls(entry, row, self._ground_truth(row))

    def _check_id(self, entry: str, row: RowValues, number: int) -> Iterator[Finding]:
        """Yield a finding if an earlier row has the same id. Rows without an id are not compared."""
        name = usable_id(row.get("id"))
        if name is None:
            return

        first = self._rows.setdefault(name, number)
        if first != number:
            text = f"row {number:,} has the same id as row {first:,}; make ids unique, or evaluate with --number-ids"
            yield Finding(entry, "duplicate_id", text)

    def _calls(self, entry: str, row: RowValues, truth: object) -> Iterator[Finding]:
        """Yield the findings about a row's tools and ground-truth calls (`truth`). `entry` is the row's id in them."""
        try:
            tools = ToolDefinitions.read(self._tools(row))
        except ValueError as error:
            yield Finding(entry, "tools", clean(error, 1_000))
            return

        calls, problem = right_calls(row, truth, tools)
        if problem:
            yield Finding(entry, "unreadable_call", clean(problem, 1_000))

        for each in calls:
            definition = tools.spelled(each.name)
            if tools and definition is None:
                text = f"{each.name[:100]!r} is not among the row's tools{did_you_mean(each.name[:100], tools)}"
                yield Finding(entry, "not_offered", text, call=call_text(each.call))
            # Arguments in Java or JavaScript are source text, which no JSON Schema describes.
            elif definition is not None and is_in_python(row):
                yield from schema_findings(entry, each, definition)


def schema_findings(
    entry: str, right: RightCall, definition: FunctionDefinition | None, turn: int | None = None
) -> list[Finding]:
    """Return a finding if the call breaks the schema of its function. Without a schema, the list is empty.

    `entry` is the row's id, `right` the ground-truth call, and `definition` the definition of its function.
    """
    if definition is None:
        return []
    if right.possible:  # an argument is valid if any of its accepted values is
        violations: Sequence[str] = _violations_by_parameter(right, definition)
    else:
        violations = definition.check(right.call.arguments).violations
    broken = clean("; ".join(violations), 1_000)
    return [Finding(entry, "breaks_schema", broken, turn, call_text(right.call))] if broken else []


def columns_of(row: Mapping[str, JSON], prefix: str) -> dict[str, JSON]:
    """Return the columns of a run's row that begin with the prefix, without the prefix."""
    return {key.removeprefix(prefix): value for key, value in row.items() if key.startswith(prefix)}


def entry_name(row: RowValues, number: int) -> str:
    """Return a row's name: its id, else its number."""
    name = usable_id(row.get("id"))
    return name[:_LONGEST] if name else f"row-{number}"


def call_text(call: FunctionCall) -> str:
    """Return a call on one line, such as `cd(folder='x')`, cut if it is long."""
    text = " ".join(canonical_text([call]).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _check_roles(entry: str, column: str, value: object) -> Iterator[Finding]:
    """Yield a finding for each unknown role in a column's messages, which may be grouped by turn.

    An object counts as a message if it has `content` or `tool_calls`.
    """
    # Messages may be in any column, and in lists of turns: `messages[0]`, `turns[1][0]`.
    for at, item in enumerate(value if isinstance(value, list) else ()):
        place = f"{column[:100]}[{at}]"
        if isinstance(item, list):
            yield from _check_roles(entry, place, item)
        elif isinstance(item, dict) and ("content" in item or "tool_calls" in item):
            role = item.get("role")
            if isinstance(role, str) and role not in ROLES:
                yield Finding(entry, "role", f"{place}.role is {role[:60]!r}{did_you_mean(role[:60], ROLES)}")


# -- ground truth of a single question: the right calls, with all accepted values of each argument

# Values of the column `check`, which BFCL's single-turn rows have.
_WITH_POSSIBLE_ANSWERS = ("simple", "multiple", "parallel")


class RightCall(msgspec.Struct, frozen=True):
    """A call with the accepted values of each parameter; "" among several values marks an optional parameter.

    For example `area` with `{"base": [10], "unit": ["m", "metres", ""]}`. If `possible` is True, each entry of an
    object has a list of accepted values, too: `{"place": [{"city": ["Rome", "Roma"]}]}`.
    """

    name: str
    accepted: Mapping[str, list[JSON]]
    possible: bool = False

    @property
    def call(self) -> FunctionCall:
        """Return the call with the first accepted value of each argument; if `possible`, without optional arguments."""
        if not self.possible:
            return FunctionCall(self.name, {name: values[0] for name, values in self.accepted.items()})

        # An empty text that is the only accepted value is a value.
        optional = {name for name, values in self.accepted.items() if len(values) > 1 and may_be_left_out(values)}
        required = {name: values for name, values in self.accepted.items() if name not in optional}
        return FunctionCall(self.name, {name: first_value(values) for name, values in required.items()})


def right_calls(row: RowValues, truth: object, tools: ToolDefinitions) -> tuple[list[RightCall], str | None]:
    """Return the right calls in a row's ground truth, and the problem if it cannot be read.

    If the row's `check` is `simple`, `multiple` or `parallel`, the ground truth holds possible answers:
    `[{"area": {"unit": ["m", ""]}}]`. Otherwise it holds calls in any format.
    """
    if row.get("check") in _WITH_POSSIBLE_ANSWERS and isinstance(truth, list):
        return [*_possible_answers(truth)], None

    reading = read_calls(truth, tools=tools or None)
    if not (reading.calls or reading.problem):  # given tools, calls of other functions are read as prose
        reading = read_calls(truth)

    return [as_right(call, tools) for call in reading.calls], reading.problem


def is_in_python(row: RowValues) -> bool:
    """Return True if arguments are values; rows in other languages than Python hold source text."""
    return row.get("language") in (None, "python")


def as_right(call: FunctionCall, tools: ToolDefinitions) -> RightCall:
    """Return the call as the only right one, with positional arguments named by the function's definition."""
    return RightCall(call.name, {key: [value] for key, value in named_arguments(call, tools).arguments.items()})


def _possible_answers(truth: list[JSON]) -> Iterator[RightCall]:
    """Yield a right call for each function in BFCL's possible answers, such as `[{"area": {"unit": ["m", ""]}}]`.

    A value that is not a list, or is an empty list, is the only accepted one.
    """
    for answer in truth:
        for name, arguments in answer.items() if isinstance(answer, dict) else ():
            options = arguments if isinstance(arguments, dict) else {}
            accepted = {key: each if isinstance(each, list) and each else [each] for key, each in options.items()}
            yield RightCall(name, accepted, possible=True)


def _violations_by_parameter(right: RightCall, definition: FunctionDefinition) -> list[str]:
    """Return a violation for each parameter without a valid accepted value, and each missing required parameter.

    Parameters that may be left out have no violation.
    """
    broken: list[str] = []
    # Each parameter is checked alone, so no other parameter may be required.
    alone = FunctionDefinition(definition.name, {**definition.parameters, "required": []})
    for name, values in right.accepted.items():
        found = [alone.check({name: first_values(value)}).violations for value in values]
        if not may_be_left_out(values) and all(found):
            broken += found[0]

    required = definition.parameters.get("required")
    missing = [each for each in required if each not in right.accepted] if isinstance(required, list) else []
    return [*broken, *(f"{name!r} is a required property" for name in missing)]


# -- conversations

_OUTCOME = re.compile(r"(^|_)(status|success|successful|succeeded|ok|done|authenticated|verified)$", re.IGNORECASE)
"""Keys of an answer that tell whether a call succeeded, such as `login_status` and `ok`."""

ASKS = re.compile(r"(^|_)(get|is|has|check|status|show|list|view)(_|$)", re.IGNORECASE)
"""Names of operations that only read a state, such as `get_status` and `is_authenticated`."""

_FAILED = ("error", "failed", "failure")
"""Values of such a key that report a failure; False does, too."""

PROBLEMS: Final = {
    "duplicate_id": "another row has the same id",
    "role": "a message's role is unknown",
    "tools": "the tool definitions cannot be read",
    "unreadable_call": "a ground-truth call cannot be read",
    "not_offered": "a ground-truth call needs a function that is not available",
    "breaks_schema": "a ground-truth call breaks the schema of its function",
    "row": "the row is not a valid conversation",
    "simulator": "a simulator is missing or fails",
    "configuration": "the initial configuration cannot be loaded",
    "held_out": "the column held_out has an invalid entry",
    "judging": "a judging setting has no effect",
    "call_fails": "a ground-truth call has an unexpected outcome",
    "reports_failure": "the result of a ground-truth call reports a failure",
    "no_effect": "a turn has no effect",
    **REMARKS,
}
"""Descriptions of the problems: the first six of a row of any kind, then those of conversations, last the remarks."""

_CLOSE = 0.8  # the least similarity of a misspelt column to the one meant


ReadCall: TypeAlias = tuple[str, FunctionCall | str]
"""A call of the ground truth: its text, and the call, or the reason (a text) why it cannot be read."""

GroundTruth: TypeAlias = list[list[ReadCall]]
"""The calls of each turn."""


class TruthCall(msgspec.Struct, frozen=True):
    """An expected call of a row: its turn, its text, and its accepted values.

    `step` is the call with its outcome in a replay; calls of a single question have an empty outcome.
    """

    turn: int
    text: str
    right: RightCall
    step: episodes.Called

    @property
    def name(self) -> str:
        return self.step.call.name


class CheckedRow(msgspec.Struct, frozen=True):
    """A row and its findings; `replayed` is the replay of its ground truth, if the replay was possible."""

    name: str
    values: RowValues
    findings: Sequence[Finding]
    replayed: EntryCheck | None = None


def checked_rows(
    rows: Iterable[RowValues], services: episodes.Services | None = None, *, row_check: RowCheck | None = None
) -> Iterator[CheckedRow]:
    """Yield the rows of a data set with their problems, found by executing the ground truth on new simulators.

    Args:
        rows: Rows for the conversation target, with the calls of each turn in `ground_truth`.
        services: Starts the simulators; by default those of the plug-ins.
        row_check: The check for rows of any kind; without it, every row must be a conversation.

    Raises:
        DataError: A row needs long context, and the constants for it are missing.
    """
    services = services or episodes.Services()
    for number, row in enumerate(rows, 1):
        name = entry_name(row, number)
        found = [] if row_check is None else [*row_check.findings(row, number)]

        if row_check is not None and "turns" not in row:
            yield CheckedRow(name, row, found)
            continue

        try:
            check = EntryCheck(row, number, services)
        except UnusableRowError as error:
            yield CheckedRow(name, row, [*found, Finding(name, "row", clean(error, 1_000))])
            continue

        found += _misspelt_columns(name, row)
        if check.long_context:
            _ = services.constants  # raises here: missing constants are no fault of the row

        try:
            found.extend(check.findings())  # keeps the findings before an exception
        except Exception as error:  # noqa: BLE001 - a user's simulator may raise anything
            problem = "configuration" if isinstance(error, DataError) else "simulator"
            text = str(error) if isinstance(error, (DataError, PluginError)) else f"{type(error).__name__}: {error}"
            yield CheckedRow(name, row, [*found, Finding(name, problem, clean(text, 1_000))])
        else:
            yield CheckedRow(name, row, found, check)


def _misspelt_columns(name: str, row: RowValues) -> Iterator[Finding]:
    """Yield a finding for each column whose name looks like a misspelt judging column.

    Such a column, for example `free_call` for `free_calls`, would silently have no effect.
    """
    for key in row.keys() - JUDGING_COLUMNS:
        if close := get_close_matches(key, JUDGING_COLUMNS, n=1, cutoff=_CLOSE):
            yield Finding(name, "judging", f"the column {key[:100]!r} is unknown; did you mean {close[0]!r}?")


class EntryCheck:
    """The check of one conversation by a replay of its ground truth; `played` holds the calls that were made, in order.

    `start` is the state before the first call, and `end` the state after the last one.

    Columns are those of the conversation target, and `ground_truth`: a list of each turn's calls, as texts
    (`cd(folder='x')`) or in any other format that `read_calls` knows.
    """

    def __init__(self, row: RowValues, number: int, services: episodes.Services) -> None:
        """Read the row; `number` (from 1) names a row without an id. Nothing is executed before `findings` is iterated.

        Raises:
            UnusableRowError: the row is not a conversation with a ground truth.
        """
        self.turns = [_messages(turn, f"turns[{at}]") for at, turn in enumerate(as_list(row.get("turns"), "turns"))]
        truth = as_list(row.get("ground_truth"), "ground_truth")
        self._truth = _read_truth([as_list(turn, f"ground_truth[{at}]") for at, turn in enumerate(truth)])
        if len(truth) != len(self.turns):
            refuse(f"`ground_truth` must have as many turns as `turns` ({len(self.turns)}), but has {len(truth)}")

        added = episodes.held_out_of(row)
        # BFCL's rows have `functions`, others have `tools`.
        functions = row.get("functions") if row.get("functions") is not None else row.get("tools")

        self.name = entry_name(row, number)
        self._simulators = [*dict.fromkeys(episodes.simulators_of(row))]
        self.config = episodes.configuration_of(row)
        # None means that all functions of the simulators are on offer.
        self._offered = None if functions is None else frozenset(map(_function_name, as_list(functions, "functions")))
        self._held_out = {turn: frozenset(map(_function_name, items)) for turn, items in added.items()}
        # Functions that are given only by name must be operations of a simulator.
        self._by_name = {turn: {item for item in items if isinstance(item, str)} for turn, items in added.items()}
        self.tools = _definitions(functions, *added.values())
        self.long_context = row.get("long_context") is True
        self.judging = Judging.read(row, len(truth))
        self._failing = {*map(str, as_list(row.get("failing_calls") or [], "failing_calls"))}

        self._services = services
        self._classes: dict[str, type[Simulator]] = {}
        self.played: list[TruthCall] = []
        self.start: object = {}
        self.end: object = {}

    def findings(self) -> Iterator[Finding]:
        """Yield the findings of the entry from a replay of its ground truth, and of each alternative ground truth.

        `played`, `start` and `end`, which describe the first replay, may be read only after the last finding.
        """
        self._classes = {name: self._services.find(name) for name in self._simulators}

        replay = self.replay()
        yield from self._check_configuration()
        yield from self._check_held_out()
        yield from self._check_judging(replay.start)

        yield from self._check_truth(self._truth, replay, self.played)
        self.start, self.end = replay.start, replay.state

        for truth in self.judging.alternative_ground_truths:
            yield from self._check_truth(_read_truth(truth), self.replay(), [])

    def _check_truth(self, truth: GroundTruth, replay: episodes.Player, played: list[TruthCall]) -> Iterator[Finding]:
        """Execute the calls of all turns in the replay, add them to `played`, and yield their findings."""
        for turn, calls in enumerate(truth):
            before = len(played)
            yield from self._check_turn(turn, calls, replay, played)
            # A turn has no effect if all its calls could be read, and none changes the state, returns a value or fails.
            steps = [each.step for each in played[before:]]
            if calls and len(steps) == len(calls) and not any(map(_has_effect, steps)):
                yield self._finding("no_effect", "the calls of this turn neither change nor read anything", turn)

    def offered(self, turn: int) -> frozenset[str]:
        """Return the names of the functions on offer in a turn, including those that it or an earlier turn adds."""
        offered = self._offered
        if offered is None:
            offered = self._operations().difference(*self._held_out.values())
        return offered.union(*(names for added, names in self._held_out.items() if added <= turn))

    def _check_judging(self, start: object) -> Iterator[Finding]:
        """Yield a finding for each judging setting with an unknown operation, or with a path that `start` lacks."""
        judging, operations = self.judging, self._operations()
        # A misspelt name would silently have no effect.
        for name in sorted(judging.free_names - operations):
            hint = did_you_mean(name[:100], operations)
            yield self._finding("judging", f"free_calls: no simulator of the row has an operation {name[:100]!r}{hint}")

        state = start if isinstance(start, dict) else {}
        known = [f"{simulator}.{name}" for simulator, held in state.items() for name in held]
        for path in judging.ignored_state:
            # `known` has only the first names in the state, so any path below one of them counts.
            if not any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in known):
                hint = did_you_mean(path[:100], known)
                yield self._finding("judging", f"ignored_state: the state has no path {path[:100]!r}{hint}")

    def replay(self) -> episodes.Player:
        """Return a player that makes calls on new simulators in the row's initial state."""
        constants = self._services.constants if self.long_context else None
        return episodes.Player(self._services.start(self._simulators, self.config, long_context=constants))

    def _operations(self) -> frozenset[str]:
        """Return the names of all operations of the row's simulators."""
        return frozenset(name for each in self._classes.values() for name in each.operations())

    def _check_configuration(self) -> Iterator[Finding]:
        """Yield remarks about simulators without a configuration, and about configurations without a simulator."""
        for name, simulator in self._classes.items():
            # A simulator that does not define `state` has none and needs no configuration; a recorded one takes none.
            needs_none = simulator.state is Simulator.state or issubclass(simulator, Recorded)
            if not self.config.get(name) and not needs_none:
                yield self._finding("default_configuration", f"initial_config has no entry for the simulator {name}")

        for name in self.config.keys() - self._classes.keys():
            problem = f"initial_config names the simulator {name[:100]!r}, which the row lacks"
            yield self._finding("unused_configuration", problem)

    def _check_held_out(self) -> Iterator[Finding]:
        """Yield the findings about held-out functions, and about turns in which nothing happens."""
        operations = self._operations()
        for turn, names in self._held_out.items():
            if turn >= len(self.turns) or not names:
                yield self._finding("held_out", "held_out must name a turn of this row and functions to add", turn)

            for name in sorted(names & (self._offered or frozenset())):
                yield self._finding("held_out", f"{name!r} is both in held_out and in the row's functions", turn)
            for name in sorted(self._by_name[turn] - operations):
                hint = did_you_mean(name, operations)
                yield self._finding("held_out", f"no simulator of the row has an operation {name[:100]!r}{hint}", turn)

        for turn, messages in enumerate(self.turns):
            if not messages and turn not in self._held_out:
                yield self._finding("row", "this turn has no message and adds no function", turn)

    def _check_turn(
        self, turn: int, calls: Sequence[ReadCall], replay: episodes.Player, played: list[TruthCall]
    ) -> Iterator[Finding]:
        """Execute the calls of one turn in the replay, add them to `played`, and yield their findings."""
        offered = self.offered(turn)
        for text, call in calls:
            if isinstance(call, str):
                yield self._finding("unreadable_call", clean(call, 1_000), turn, text)
                continue

            if offered.isdisjoint((call.name, tool_name(call.name))):
                # If the function is held out, the finding names the turn that adds it.
                later = next((added for added, names in sorted(self._held_out.items()) if call.name in names), None)
                why = "is not in the row's functions" if later is None else f"is available only from turn {later} on"
                yield self._finding("not_offered", f"{call.name!r} {why}", turn, text)

            right = as_right(call, self.tools)
            yield from schema_findings(self.name, right, self.tools.get(call.name), turn)
            step = replay.call(call)
            yield from self._check_call(turn, text, step)
            played.append(TruthCall(turn, text, right, step))

    def _check_call(self, turn: int, text: str, step: episodes.Called) -> Iterator[Finding]:
        """Yield a finding if an executed call has the wrong outcome.

        `text` is the call as the row writes it. The call must fail if the row's `failing_calls` lists it, and otherwise
        succeed and report no failure.
        """
        result = step.result
        if bool(result.error) != (text in self._failing):
            reason = clean(result.text, 1_000) if result.error else "the call succeeds, but failing_calls lists it"
            yield self._finding("call_fails", reason, turn, text)
        elif reports_failure(step):
            yield self._finding("reports_failure", clean(result.text, 1_000), turn, text)

    def _finding(self, problem: str, text: str, turn: int | None = None, call: str | None = None) -> Finding:
        return Finding(self.name, problem, text, turn, call)


def _has_effect(step: episodes.Called) -> bool:
    """Return True if a call changed the state, returned a value or failed."""
    return bool(step.changes) or step.result.error or step.result.value not in (None, "", (), [], {})


def reports_failure(step: episodes.Called) -> bool:
    """Return True if a call's answer reports a failure without being an error: `{"login_status": false}`.

    Operations that only read a state do not count: False may be their correct answer.
    """
    value = step.result.value
    if step.result.error or not isinstance(value, dict) or ASKS.search(step.call.name):
        return False

    outcomes = [item for key, item in value.items() if isinstance(key, str) and _OUTCOME.search(key)]
    return any(item is False or (isinstance(item, str) and item.lower() in _FAILED) for item in outcomes)


def _read_truth(truth: list[list[JSON]]) -> GroundTruth:
    """Return the calls of each turn, each with its text. For an unreadable item, its problem takes the call's place."""
    return [[call for item in turn for call in _ground_truth_calls(item)] for turn in truth]


def _ground_truth_calls(item: JSON) -> list[ReadCall]:
    """Return the calls in an item of the ground truth, each after its text.

    An unreadable item gives one pair of its text and its problem.
    """
    reading = read_python_calls(item) if isinstance(item, str) else read_calls(item)
    text = " ".join(str(item).split())[:_LONGEST]

    if reading.calls and not reading.problem:
        # The text of the row is kept if it is one call, so that a fix can replace it.
        as_given = isinstance(item, str) and len(reading.calls) == 1
        return [(text if as_given else call_text(call), call) for call in reading.calls]
    return [(text, reading.problem or "the entry contains no call")]


def _messages(value: JSON, column: str) -> list[JSON]:
    """Return the messages of a turn, or refuse the row if one has no role. `column` names the turn's column."""
    messages = as_list(value, column)
    if not all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages):
        refuse(f"{column}: each message must be an object with a `role`")
    return messages


def _definitions(*offered: object) -> ToolDefinitions:
    """Return the tool definitions in the lists.

    Functions given by name only are left out: they must be operations of a simulator.
    """
    items = [item for each in offered for item in (each if isinstance(each, list) else []) if isinstance(item, dict)]
    return ToolDefinitions.read(items)


def _function_name(item: JSON) -> str:
    """Return the name in a function document or tool, or the item itself if it is a name. Refuse other items."""
    name = item
    if isinstance(item, dict):
        function = item.get("function")
        name = function.get("name") if isinstance(function, dict) else item.get("name")
    return name if isinstance(name, str) else refuse(f"a function of the row has no `name`: {str(item)[:60]}")
