"""Match actual function calls with expected ones, and explain the differences.

Calls are paired first, then the arguments of each pair are compared. Differences become faults.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from msgspec import UNSET

from tunecheck._faults import MOST_VALUE, Fault, cut
from tunecheck._json import JSON, canonical
from tunecheck.calls._model import FunctionCall, as_value, tool_name
from tunecheck.calls._python_text import bind_positional
from tunecheck.calls._schemas import Schema, ToolDefinitions
from tunecheck.calls.matching._kinds import closeness
from tunecheck.calls.matching._values import (
    Difference,
    MatchPolicy,
    Positions,
    ValueComparison,
    align,
    assign,
    pair_equal,
)

MOST_PAIRS = 40_000
"""200 × 200 calls of one function. Above that, calls of one function are paired in order."""

CLOSE_NAME = 80.0
"""Function names with this similarity (rapidfuzz's ratio, ignoring case) count as one misspelt name."""

_ABSENT = 1_000  # cost of an argument that is missing on one side
_WRONG = 900  # cost of a wrong value; similar texts cost less, down to half of an absent argument
_CLOSE = 400


def pair_up(
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    policy: MatchPolicy,
    definitions: ToolDefinitions | None = None,
) -> "CallPairing":
    """Choose for each expected call the actual call to compare it with; return positions, not calls.

    Pair as many calls of the same function as possible, without crossing if the order counts. Among these pairings,
    choose the one with the fewest wrong arguments; a close wording costs less than another value. Remaining calls are
    paired as misnamed if their names are similar or most of their arguments are right.
    """
    pairing = CallPairing(expected, actual, policy, definitions)
    if policy.ordered:
        pairing.align()
        pairing.moved = pairing.by_name()
    else:
        pairing.pairs = pairing.by_name()
    pairing.misnamed = pairing.by_likeness()
    if pairing.comparison.exhausted:
        pairing.notes.append("some arguments are too large to be compared in full")
    return pairing


class CallPairing:
    """Positions of calls paired by function (in order, or `moved` out of order) and of probably misnamed calls.

    `open_expected` and `open_actual` are the positions still without a partner.
    """

    def __init__(
        self,
        expected: Sequence[FunctionCall],
        actual: Sequence[FunctionCall],
        policy: MatchPolicy,
        definitions: ToolDefinitions | None,
    ) -> None:
        """Begin with all calls open, and no pairs."""
        self.expected = expected
        self.actual = actual
        self.policy = policy
        self.definitions = definitions
        self.comparison = ValueComparison(policy, explain=False)
        self.pairs: Positions = []
        self.moved: Positions = []
        self.misnamed: Positions = []
        self.notes: list[str] = []
        self.open_expected = list(range(len(expected)))
        self.open_actual = list(range(len(actual)))

    def by_name(self) -> Positions:
        """Pair the open calls by function, in any order; return the new pairs and close their calls."""
        groups: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for position in self.open_expected:
            groups[self.expected[position].name][0].append(position)
        for position in self.open_actual:
            groups[self.actual[position].name][1].append(position)
        positions: Positions = []
        for name, (wanted, made) in groups.items():
            if wanted and made:
                positions += self._one_function(name, wanted, made)
        return self._close(sorted(positions))

    def _one_function(self, name: str, wanted: list[int], made: list[int]) -> Positions:
        """Pair the calls of one function so that as few arguments as possible are wrong; too many calls, in order, with
        a note.
        """
        if len(wanted) == len(made) == 1:
            return [(wanted[0], made[0])]
        positions: Positions = []
        if self.policy.transitive:
            # Pairing equal calls first is optimal: equality is transitive, and a wrong value never costs more than two.
            sides = [self.expected[row].arguments for row in wanted], [self.actual[column].arguments for column in made]
            positions = [(wanted[row], made[column]) for row, column in pair_equal(*sides)]
            rows, columns = ({pair[side] for pair in positions} for side in (0, 1))
            wanted, made = [row for row in wanted if row not in rows], [each for each in made if each not in columns]
        if len(wanted) * len(made) > MOST_PAIRS:
            self.notes.append(
                f"{len(wanted)} calls of {name} against {len(made)} are too many to find the best pairs; "
                "they were compared in the order they stand in"
            )
            return positions + list(zip(wanted, made, strict=False))
        schema = self._schema(name)
        costs = [[self._cost(row, column, schema) for column in made] for row in wanted]
        return positions + [(wanted[row], made[column]) for row, column in assign(costs)]

    def align(self) -> None:
        """Pair as many calls of the same function as possible without changing their order, and store the pairs."""
        rows, columns = len(self.expected), len(self.actual)
        if rows * columns > MOST_PAIRS:
            self.notes.append(f"{rows} calls against {columns} were aligned by their names alone")
            names = [call.name for call in self.expected], [call.name for call in self.actual]
            pairs = _transpose(_next_by_name(*reversed(names))) if self._actual_first() else _next_by_name(*names)
        else:
            costs = [[self._cost_in_order(row, column) for column in range(columns)] for row in range(rows)]
            pairs = _transpose(align([*zip(*costs, strict=True)])) if self._actual_first() else align(costs)
        self.pairs = self._close(pairs)

    def _actual_first(self) -> bool:
        """Return whether the actual calls decide between equally good pairings.

        The choice depends on the calls alone, so that exchanging the sides gives the same pairs.
        """
        if len(self.expected) != len(self.actual):
            return len(self.actual) < len(self.expected)
        sides = zip(map(_content, self.actual), map(_content, self.expected), strict=True)
        return next((one < other for one, other in sides if one != other), False)

    def by_likeness(self) -> Positions:
        """Pair the open calls that probably differ only by a misspelt function name; return the pairs and close their
        calls.
        """
        rows, columns = self.open_expected, self.open_actual
        if not rows or not columns or len(rows) * len(columns) > MOST_PAIRS:
            return []
        costs = [[self._cost_if_misnamed(row, column) for column in columns] for row in rows]
        # more than all real costs together, so that an impossible pair is chosen only if nothing else is left
        too_much = _ABSENT * (2 + sum(cost for line in costs for cost in line if cost is not None))
        full = [[too_much if cost is None else cost for cost in line] for line in costs]
        likely = [(row, column) for row, column in assign(full) if costs[row][column] is not None]
        return self._close([(rows[row], columns[column]) for row, column in likely])

    def _close(self, positions: Positions) -> Positions:
        """Remove the calls of these pairs from the open ones, and return the pairs."""
        wanted, made = {row for row, _ in positions}, {column for _, column in positions}
        self.open_expected = [position for position in self.open_expected if position not in wanted]
        self.open_actual = [position for position in self.open_actual if position not in made]
        return positions

    def _schema(self, name: str) -> Schema | None:
        definition = self.definitions.get(name) if self.definitions else None
        return definition.schema if definition else None

    def _cost_in_order(self, row: int, column: int) -> int | None:
        """Return the cost of the pair's differing arguments, or None if the calls are of different functions."""
        name = self.expected[row].name
        return self._cost(row, column, self._schema(name)) if name == self.actual[column].name else None

    def _cost_if_misnamed(self, row: int, column: int) -> int | None:
        """Return the cost of pairing two calls of different functions, or None if neither names nor arguments are
        similar.
        """
        from rapidfuzz import fuzz

        one, other = self.expected[row], self.actual[column]
        cost = self._cost(row, column, self._schema(one.name))
        alike = fuzz.ratio(one.name.casefold(), other.name.casefold())
        arguments = len(one.arguments.keys() | other.arguments.keys())
        if alike >= CLOSE_NAME or (arguments and 2 * cost <= _ABSENT * arguments):
            return cost + int(100 - alike)
        return None

    def _cost(self, row: int, column: int, schema: Schema | None) -> int:
        """Return the total cost of the arguments that differ in this pair of calls."""
        expected, actual = self.expected[row].arguments, self.actual[column].arguments
        names = {str(one.place[0]) for one in self.comparison.arguments(expected, actual, schema)}
        return sum(self._cost_of(name, expected, actual, schema) for name in names)

    def _cost_of(
        self, name: str, expected: Mapping[str, JSON], actual: Mapping[str, JSON], schema: Schema | None
    ) -> int:
        """Return the cost of one differing argument: less for a similar text, most for an argument that only one side
        has.
        """
        if name in expected and name in actual:
            return _cost_of_wrong(expected[name], actual[name])
        default = (
            schema.default(name) if schema and self.policy.use_defaults else None
        )  # an omitted argument has its default
        return _ABSENT if default is None else _cost_of_wrong({**expected, **actual}[name], default[0])


def _content(call: FunctionCall) -> bytes:
    """Return the call as bytes that define an order among calls."""
    try:
        return canonical([call.name, call.arguments])
    except TypeError:  # nested too deeply: it equals no other call, so its position does not matter
        return b""


def _transpose(positions: Positions) -> Positions:
    return sorted((row, column) for column, row in positions)


def _next_by_name(names: Sequence[str], others: Sequence[str]) -> Positions:
    """Pair each name with the next equal one among the others, moving forward only; return the positions."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(others):
        places[name].append(place)
    positions: Positions = []
    after = 0
    for row, name in enumerate(names):
        at = bisect_left(places[name], after)
        if at < len(places[name]):
            positions.append((row, places[name][at]))
            after = places[name][at] + 1
    return positions


def _cost_of_wrong(expected: JSON, actual: JSON) -> int:
    """Return the cost of a wrong value, which is lower the more similar two texts are."""
    if isinstance(expected, str) and isinstance(actual, str):
        return _WRONG - int(_CLOSE * closeness(expected, actual))
    return _WRONG


_PREFIX = "functions."
_MOST_DIFFERENCES, _MOST_PROBLEMS = 50, 5  # of one call; a hostile argument could have a million


@dataclass(frozen=True, slots=True)
class Pair:
    """An expected call, the actual call paired with it, and the differences of their arguments."""

    expected: FunctionCall
    actual: FunctionCall
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Violation:
    """An actual call that violates its function's schema, with the first few messages."""

    call: FunctionCall
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """The result of matching actual with expected calls.

    `pairs` and `moved` are pairs of the same function; `moved` pairs are out of order. `misnamed` pairs differ in the
    function's name. `missing` (expected) and `extra` (actual) calls have no partner. `unknown` are actual calls of
    undefined functions, `violations` those that violate their schema, and `checked` is the number of validated calls.
    `notes` say what could not be compared or validated, and why.
    """

    pairs: tuple[Pair, ...] = ()
    moved: tuple[Pair, ...] = ()
    misnamed: tuple[Pair, ...] = ()
    missing: tuple[FunctionCall, ...] = ()
    extra: tuple[FunctionCall, ...] = ()
    unknown: tuple[FunctionCall, ...] = ()
    violations: tuple[Violation, ...] = ()
    checked: int = 0
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """True if every expected call was made, in order if the policy demands it."""
        return not (self.missing or self.misnamed or self.moved)

    @property
    def arguments_right(self) -> bool:
        """True if the arguments of all pairs match."""
        return not any(pair.differences for pair in self.pairs)


def match_calls(
    actual: Sequence[FunctionCall],
    expected: Sequence[FunctionCall],
    policy: MatchPolicy | None = None,
    definitions: ToolDefinitions | None = None,
) -> Match:
    """Match the calls that a model made with the expected calls.

    Args:
        actual: the calls made, in order.
        expected: the ground truth's calls; with the policy `alternatives` each argument is a list of accepted values.
        policy: what counts as the same; strict by default.
        definitions: the tools, used for defaults, number types, names of positional arguments and validation.
    """
    policy = policy or MatchPolicy()
    actual, expected = _respell(actual, expected, policy, definitions)
    if definitions:
        actual, expected = (
            [named_arguments(call, definitions) if "0" in call.arguments else call for call in calls]
            for calls in (actual, expected)
        )
    compare = ValueComparison(policy)
    unknown, violations, checked, problems = _validate_calls(definitions, actual, policy)
    if len(expected) == len(actual) == 1 and expected[0].name == actual[0].name and not policy.ordered:
        only = _pair(compare, expected[0], actual[0], definitions)  # most rows have one call on each side
        return Match((only,), unknown=unknown, violations=violations, checked=checked, notes=problems)
    pairing = pair_up(expected, actual, policy, definitions)

    def compared(positions: Positions) -> tuple[Pair, ...]:
        return tuple(_pair(compare, expected[row], actual[column], definitions) for row, column in positions)

    partnered = [*pairing.pairs, *pairing.moved, *pairing.misnamed]
    rows, columns = {row for row, _ in partnered}, {column for _, column in partnered}
    return Match(
        pairs=compared(pairing.pairs),
        moved=compared(pairing.moved),
        misnamed=compared(pairing.misnamed),
        missing=tuple(call for row, call in enumerate(expected) if row not in rows),
        extra=tuple(call for column, call in enumerate(actual) if column not in columns),
        unknown=unknown,
        violations=violations,
        checked=checked,
        notes=(*pairing.notes, *problems),
    )


def _pair(
    comparison: ValueComparison, expected: FunctionCall, actual: FunctionCall, definitions: ToolDefinitions | None
) -> Pair:
    """Return the two calls with the first differences of their arguments."""
    definition = definitions.get(expected.name) if definitions else None
    schema = definition.schema if definition else None
    differences = comparison.arguments(expected.arguments, actual.arguments, schema)
    return Pair(expected, actual, tuple(islice(differences, _MOST_DIFFERENCES)))


def _validate_calls(
    definitions: ToolDefinitions | None, calls: Sequence[FunctionCall], policy: MatchPolicy
) -> tuple[tuple[FunctionCall, ...], tuple[Violation, ...], int, tuple[str, ...]]:
    """Validate calls against their definitions; without definitions, none.

    Returns the calls of unknown functions, those that violate their schema, the number of checked calls, and a note for
    each schema that could not be used.
    """
    unknown: list[FunctionCall] = []
    violations: list[Violation] = []
    problems: dict[str, None] = {}
    checked = 0
    for call in calls if definitions else ():
        definition = definitions.get(call.name) if definitions else None
        if definition is None:
            unknown.append(call)
            continue
        check = definition.check(call.arguments)
        if check.violations and policy.null_equals_absent:
            check = definition.check({name: value for name, value in call.arguments.items() if value is not None})
        if check.problem:
            problems[check.problem] = None
            continue
        checked += 1
        if check.violations:
            violations.append(Violation(call, check.violations))
    return tuple(unknown), tuple(violations), checked, tuple(problems)[:_MOST_PROBLEMS]


# -- names of functions and of positional arguments


def _respell(
    actual: Sequence[FunctionCall],
    expected: Sequence[FunctionCall],
    policy: MatchPolicy,
    definitions: ToolDefinitions | None,
) -> tuple[Sequence[FunctionCall], Sequence[FunctionCall]]:
    """Return the actual and expected calls under one spelling of each function's name.

    A definition's spelling comes before the expected call's. Without such a policy, calls are unchanged.
    """
    if not (policy.dots_equal_underscores or policy.ignore_functions_prefix):
        return actual, expected
    spelling: dict[str, str] = {}
    known = set(definitions or ())
    for name in definitions or ():
        spelling.setdefault(_key(name, policy), name)

    def spelled(call: FunctionCall) -> FunctionCall:
        name = call.name if call.name in known else spelling.get(_key(call.name, policy), call.name)
        return call if name == call.name else replace(call, name=name)

    wanted = [spelled(call) for call in expected]
    for call in wanted:
        known.add(call.name)
        spelling.setdefault(_key(call.name, policy), call.name)
    return [spelled(call) for call in actual], wanted


def _key(name: str, policy: MatchPolicy) -> str:
    """Return the part of a function's name that counts under the policy, equal for spellings of one function."""
    name = name.removeprefix(_PREFIX) if policy.ignore_functions_prefix else name
    return tool_name(name) if policy.dots_equal_underscores else name


def named_arguments(call: FunctionCall, definitions: ToolDefinitions) -> FunctionCall:
    """Return the call with its positional arguments under their names, if its function is defined."""
    definition = definitions.get(call.name)
    return bind_positional(call, definition.parameter_names) if definition else call


# -- faults


def call_faults(match: Match, policy: MatchPolicy) -> Iterator[Fault]:
    """Yield the faults in which calls were made: misnamed, out of order, missing, and extra unless allowed."""
    any_of = policy.alternatives
    for pair in match.misnamed:
        wanted, made = (as_value(call) for call in (pair.expected, pair.actual))
        yield Fault(code="misnamed_call", call=pair.expected.name, expected=wanted, actual=made, any_of=any_of)
    for pair in match.moved:
        yield Fault(code="call_out_of_order", call=pair.actual.name, actual=pair.actual.arguments)
    for call in match.missing:
        yield Fault(code="missing_call", call=call.name, expected=call.arguments, any_of=any_of)
    if not policy.allow_extra_calls:
        for call in match.extra:
            yield Fault(code="extra_call", call=call.name, actual=call.arguments)


def argument_faults(match: Match) -> Iterator[Fault]:
    """Yield the faults of the arguments of paired calls."""
    for pair in (*match.pairs, *match.moved):
        for difference in pair.differences:
            yield _argument_fault(pair.expected.name, difference)


def schema_faults(match: Match) -> Iterator[Fault]:
    """Yield a fault for each call of an unknown function, each violation of a schema, and each skipped check."""
    for call in match.unknown:
        yield Fault(code="unknown_function", call=call.name)
    for violation in match.violations:
        for message in violation.messages:
            name = violation.call.name
            words = f"{cut(name, MOST_VALUE)} breaks its schema: {message}"
            yield Fault(code="schema_violation", call=name, message=words)
    for note in match.notes:
        yield Fault(code="unchecked_call", message=note)


def _argument_fault(call: str, one: Difference) -> Fault:
    """Return a difference as a fault; a missing argument has no actual value, an unexpected one no expected value."""
    return Fault(
        code=f"wrong_argument.{one.kind}" if one.fault == "wrong" else f"{one.fault}_argument",
        call=call,
        path=one.path,
        expected=UNSET if one.fault == "unexpected" else one.expected,
        actual=UNSET if one.fault == "missing" else one.actual,
        any_of=one.any_of,
    )
