"""Match actual function calls with expected ones, and explain the differences.

`match_calls` pairs calls first, then compares the arguments of each pair and validates the actual calls. Evaluators and
reports make faults of its `Match` with `call_faults`, `argument_faults` and `schema_faults`.

Calls are paired in these steps. A step uses only calls that the steps before it left open:

1. If the order counts: as many calls of the same function as possible in their order, with the least total cost.
      Further calls of the same function are paired in any order, as `moved`.
2. If it does not: as many calls of the same function as possible, with the least total cost.
3. Calls of different functions count as misnamed if their names are similar, or if the arguments cost at most half as
   much as if all were missing.
4. The rest is missing (expected calls) or extra (actual calls).

The cost of a pair is the sum over its differing arguments:

| argument         | cost                                                                |
|------------------|---------------------------------------------------------------------|
| on one side only | 1,000; if the schema has a default, the default is the other value  |
| another value    | 900                                                                 |
| another text     | from 900 (nothing similar) down to 500 (equal without case)         |
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import msgspec
from msgspec import UNSET

from tunecheck._faults import MOST_VALUE, Fault, cut
from tunecheck._json import JSON
from tunecheck.calls._model import FunctionCall, as_value, bind_positional, tool_name
from tunecheck.calls._schemas import Schema, ToolDefinitions
from tunecheck.calls.matching._kinds import closeness
from tunecheck.calls.matching._values import (
    Arguments,
    Difference,
    MatchPolicy,
    Positions,
    ValueComparison,
    align,
    assign,
    pair_equal,
    unpaired,
)

_MOST_DIFFERENCES, _MOST_PROBLEMS = 50, 5  # of one call; a hostile argument could have a million


class Pair(msgspec.Struct, frozen=True):
    """An expected call, the actual call paired with it, and the differences of their arguments."""

    expected: FunctionCall
    actual: FunctionCall
    differences: tuple[Difference, ...] = ()


class Violation(msgspec.Struct, frozen=True):
    """An actual call that violates its function's schema, with the first messages about it."""

    call: FunctionCall
    messages: tuple[str, ...]


class Match(msgspec.Struct, frozen=True):
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
        """True if the arguments of all `pairs` match; `moved` pairs do not count."""
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
    # With one spelling of each name and without positional arguments, equal calls are equal values.
    actual, expected = _respell(actual, expected, policy, definitions)
    if definitions:
        actual = [named_arguments(call, definitions) for call in actual]
        expected = [named_arguments(call, definitions) for call in expected]

    comparison = ValueComparison(policy)
    validated = _validate_calls(definitions, actual, policy)

    # Most rows have one call on each side. Two calls of the same function need no pairing.
    if len(expected) == len(actual) == 1 and expected[0].name == actual[0].name and not policy.ordered:
        only_pair = _compare_calls(comparison, expected[0], actual[0], definitions)
        return msgspec.structs.replace(validated, pairs=(only_pair,))

    # The costs of pairs need no kinds of differences, which take time to determine.
    pairing = _CallPairing(expected, actual, policy, definitions, ValueComparison(policy, explain=False))
    pairing.find()

    def compared(positions: Positions) -> tuple[Pair, ...]:
        return tuple(
            _compare_calls(comparison, expected[row], actual[column], definitions) for row, column in positions
        )

    missing, extra = unpaired(expected, actual, [*pairing.pairs, *pairing.moved, *pairing.misnamed])
    return msgspec.structs.replace(
        validated,
        pairs=compared(pairing.pairs),
        moved=compared(pairing.moved),
        misnamed=compared(pairing.misnamed),
        missing=tuple(missing),
        extra=tuple(extra),
        notes=(*pairing.notes, *validated.notes),
    )


def named_arguments(call: FunctionCall, definitions: ToolDefinitions) -> FunctionCall:
    """Return the call with its positional arguments under their names, if its function is defined."""
    definition = definitions.get(call.name) if "0" in call.arguments else None
    return bind_positional(call, definition.parameter_names) if definition else call


def _compare_calls(
    comparison: ValueComparison, expected: FunctionCall, actual: FunctionCall, definitions: ToolDefinitions | None
) -> Pair:
    """Return the two calls with the first differences of their arguments."""
    schema = _schema_of(expected.name, definitions)
    differences = comparison.arguments(expected.arguments, actual.arguments, schema)
    return Pair(expected, actual, tuple(islice(differences, _MOST_DIFFERENCES)))


def _schema_of(name: str, definitions: ToolDefinitions | None) -> Schema | None:
    """Return the schema of the function's parameters, or None if the function is not defined."""
    definition = definitions.get(name) if definitions else None
    return definition.schema if definition else None


def _validate_calls(definitions: ToolDefinitions | None, calls: Sequence[FunctionCall], policy: MatchPolicy) -> Match:
    """Validate calls against their definitions. Without definitions, no call is checked.

    Returns a match without pairs: the calls of unknown functions, the violations, the number of checked calls, and
    notes about the first calls that could not be checked.
    """
    if not definitions:
        return Match()

    unknown: list[FunctionCall] = []
    violations: list[Violation] = []
    problems: dict[str, None] = {}  # a set that keeps the order
    checked = 0
    for call in calls:
        definition = definitions.get(call.name)
        if definition is None:
            unknown.append(call)
            continue

        check = definition.check(call.arguments)
        # A null that counts as omitted is no violation, even if the schema allows no null.
        if check.violations and policy.null_equals_absent:
            check = definition.check({name: value for name, value in call.arguments.items() if value is not None})
        if check.problem:
            problems[check.problem] = None
            continue

        checked += 1
        if check.violations:
            violations.append(Violation(call, check.violations))

    notes = tuple(problems)[:_MOST_PROBLEMS]
    return Match(unknown=tuple(unknown), violations=tuple(violations), checked=checked, notes=notes)


# -- faults


def call_faults(match: Match, policy: MatchPolicy) -> Iterator[Fault]:
    """Yield the faults of whole calls: misnamed, out of order, missing, and extra unless the policy allows them."""
    any_of = policy.alternatives
    for pair in match.misnamed:
        expected, actual = (as_value(call) for call in (pair.expected, pair.actual))
        yield Fault(code="misnamed_call", call=pair.expected.name, expected=expected, actual=actual, any_of=any_of)

    for pair in match.moved:
        yield Fault(code="call_out_of_order", call=pair.actual.name, actual=pair.actual.arguments)
    for call in match.missing:
        yield Fault(code="missing_call", call=call.name, expected=call.arguments, any_of=any_of)
    if not policy.allow_extra_calls:
        for call in match.extra:
            yield Fault(code="extra_call", call=call.name, actual=call.arguments)


def argument_faults(match: Match) -> Iterator[Fault]:
    """Yield the faults of the arguments of calls that are paired with one of the same function, also out of order."""
    for pair in (*match.pairs, *match.moved):
        for difference in pair.differences:
            yield _argument_fault(pair.expected.name, difference)


def schema_faults(match: Match) -> Iterator[Fault]:
    """Yield a fault for each call of an unknown function, each violation of a schema, and each note of the match.

    The notes say what could not be compared or validated.
    """
    for call in match.unknown:
        yield Fault(code="unknown_function", call=call.name)
    for violation in match.violations:
        for message in violation.messages:
            name = violation.call.name
            words = f"{cut(name, MOST_VALUE)} breaks its schema: {message}"
            yield Fault(code="schema_violation", call=name, message=words)
    for note in match.notes:
        yield Fault(code="unchecked_call", message=note)


def _argument_fault(function: str, difference: Difference) -> Fault:
    """Return a difference as a fault; a missing argument has no actual value, an unexpected one no expected value."""
    return Fault(
        code=f"wrong_argument.{difference.kind}" if difference.fault == "wrong" else f"{difference.fault}_argument",
        call=function,
        path=difference.path,
        expected=UNSET if difference.fault == "unexpected" else difference.expected,
        actual=UNSET if difference.fault == "missing" else difference.actual,
        any_of=difference.any_of,
    )


# -- one spelling of each function's name

_PREFIX = "functions."


def _respell(
    actual: Sequence[FunctionCall],
    expected: Sequence[FunctionCall],
    policy: MatchPolicy,
    definitions: ToolDefinitions | None,
) -> tuple[Sequence[FunctionCall], Sequence[FunctionCall]]:
    """Return the actual and the expected calls with one spelling for each function's name.

    The spelling is the definition's, or else that of the first expected call: if `math.gcd` is defined, the call
    `math_gcd` becomes `math.gcd`. If the policy does not equate spellings, the calls are returned unchanged.
    """
    if not (policy.dots_equal_underscores or policy.ignore_functions_prefix):
        return actual, expected

    spellings: dict[str, str] = {}
    for name in definitions or ():
        spellings.setdefault(_counted_name(name, policy), name)

    def respelled(call: FunctionCall, names: Set[str]) -> FunctionCall:
        """Return the call with the first known spelling of its name; a name in `names` stays."""
        name = spellings.get(_counted_name(call.name, policy), call.name)
        return call if call.name in names else replace(call, name=name)

    names = {*(definitions or ())}
    respelled_expected = [respelled(call, names) for call in expected]
    for call in respelled_expected:
        spellings.setdefault(_counted_name(call.name, policy), call.name)
    names |= {call.name for call in respelled_expected}
    return [respelled(call, names) for call in actual], respelled_expected


def _counted_name(name: str, policy: MatchPolicy) -> str:
    """Return a function's name without what the policy ignores, so that all spellings of the function are equal."""
    name = name.removeprefix(_PREFIX) if policy.ignore_functions_prefix else name
    return tool_name(name) if policy.dots_equal_underscores else name


# -- pairs of calls

_MOST_PAIRS = 40_000  # 200 × 200 calls of one function; above that, calls of one function are paired in order

_CLOSE_NAME = 80.0
"""Function names with this similarity (rapidfuzz's ratio, ignoring case) count as one misspelt name."""

_ABSENT = 1_000  # cost of an argument that is missing on one side
_WRONG = 900  # cost of a wrong value
_CLOSE = 400  # what the most similar texts cost less, so that they cost half as much as an absent argument


class _CallPairing(msgspec.Struct):
    """Pairs of expected and actual calls, as positions (row, column): rows are expected calls, columns actual ones.

    `pairs` are calls of the same function; `moved` are such calls out of order; `misnamed` are calls whose function's
    name is probably misspelt. `notes` say which calls could not be compared in full. `comparison` finds differences
    without their kinds.
    """

    expected: Sequence[FunctionCall]
    actual: Sequence[FunctionCall]
    policy: MatchPolicy
    definitions: ToolDefinitions | None
    comparison: ValueComparison
    pairs: Positions = []
    moved: Positions = []
    misnamed: Positions = []
    notes: list[str] = []

    def find(self) -> None:
        """Set `pairs`, `moved` and `misnamed`: for each expected call, the actual call to compare it with.

        Pair as many calls of the same function as possible, without crossing if the order counts. Among these pairings,
        choose the one with the fewest wrong arguments; a close wording costs less than another value. Remaining calls
        are paired as misnamed if their names are similar or most of their arguments are right.
        """
        self.pairs = self._pair_in_order() if self.policy.ordered else self._pair_by_name()
        self.moved = self._pair_by_name()  # none are left if the order does not count
        self.misnamed = self._pair_by_likeness()
        if self.comparison.exhausted:
            self.notes.append("some arguments are too large to be compared in full")

    def _open(self) -> tuple[list[int], list[int]]:
        """Return the positions of the expected calls, and those of the actual calls, that are not paired yet."""
        return unpaired(range(len(self.expected)), range(len(self.actual)), [*self.pairs, *self.moved])

    def _pair_in_order(self) -> Positions:
        """Pair as many calls of the same function as possible without changing their order.

        If there are too many calls for that, pair each call with the next one of its function, and add a note.
        """
        rows, columns = len(self.expected), len(self.actual)
        if rows * columns > _MOST_PAIRS:
            self.notes.append(f"{rows} expected and {columns} actual calls are too many, so they were paired by name")
            return _pair_next_equal([call.name for call in self.expected], [call.name for call in self.actual])

        costs = [
            [self._cost(row, column) if one.name == other.name else None for column, other in enumerate(self.actual)]
            for row, one in enumerate(self.expected)
        ]
        return align(costs)

    def _pair_by_name(self) -> Positions:
        """Pair the calls that are still open (not paired) by function, in any order."""
        # by function: the rows and columns of its calls
        groups: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        open_rows, open_columns = self._open()
        for row in open_rows:
            groups[self.expected[row].name][0].append(row)
        for column in open_columns:
            groups[self.actual[column].name][1].append(column)

        shared = [group for group in groups.values() if all(group)]
        return sorted(pair for rows, columns in shared for pair in self._pair_one_function(rows, columns))

    def _pair_one_function(self, rows: list[int], columns: list[int]) -> Positions:
        """Pair the calls of one function so that as few arguments as possible are wrong.

        If there are too many calls for that, pair them in order and add a note.
        """
        # One call on each side needs no costs.
        if len(rows) == len(columns) == 1:
            return [(rows[0], columns[0])]

        pairs: Positions = []
        if self.policy.transitive:
            # Pairing equal calls first is optimal: equality is transitive, and a wrong value never costs more than two.
            expected = [self.expected[row].arguments for row in rows]
            equal = pair_equal(expected, [self.actual[column].arguments for column in columns])
            pairs = [(rows[index], columns[partner]) for index, partner in equal]
            rows, columns = unpaired(rows, columns, equal)

        if len(rows) * len(columns) > _MOST_PAIRS:
            name = self.expected[rows[0]].name
            self.notes.append(
                f"{len(rows)} expected and {len(columns)} actual calls of {name} are too many to find the best pairs, "
                "so they were compared in their order"
            )
            return pairs + list(zip(rows, columns, strict=False))

        costs = [[self._cost(row, column) for column in columns] for row in rows]
        return pairs + [(rows[index], columns[partner]) for index, partner in assign(costs)]

    def _pair_by_likeness(self) -> Positions:
        """Pair calls of different functions that are still open (not paired) and count as misnamed.

        The names are similar, or most arguments are right. If there are too many calls, pair none.
        """
        rows, columns = self._open()
        if not rows or not columns or len(rows) * len(columns) > _MOST_PAIRS:
            return []

        costs = [[self._cost_if_misnamed(row, column) for column in columns] for row in rows]

        # more than all real costs together, so that an impossible pair is chosen only if nothing else is left
        too_much = _ABSENT * (2 + sum(cost for line in costs for cost in line if cost is not None))
        full = [[too_much if cost is None else cost for cost in line] for line in costs]
        return [(rows[index], columns[partner]) for index, partner in assign(full) if costs[index][partner] is not None]

    # -- costs of a pair

    def _cost_if_misnamed(self, row: int, column: int) -> int | None:
        """Return the cost of pairing two calls of different functions.

        Return None if neither the names nor the arguments are similar.
        """
        from rapidfuzz import fuzz

        expected, actual = self.expected[row], self.actual[column]
        cost = self._cost(row, column)

        # Similar names are enough, and so are arguments of which most are right.
        likeness = fuzz.ratio(expected.name.casefold(), actual.name.casefold())
        arguments = len(expected.arguments.keys() | actual.arguments.keys())

        if likeness >= _CLOSE_NAME or (arguments and 2 * cost <= _ABSENT * arguments):
            return cost + int(100 - likeness)  # of equal costs, the more similar name wins
        return None

    def _cost(self, row: int, column: int) -> int:
        """Return the total cost of the arguments that differ in this pair of calls."""
        expected, actual = self.expected[row].arguments, self.actual[column].arguments
        schema = _schema_of(self.expected[row].name, self.definitions)
        differences = self.comparison.arguments(expected, actual, schema)
        # `place[0]` is the argument's name. An argument counts once, however many values inside it differ.
        names = {str(difference.place[0]) for difference in differences}
        return sum(self._argument_cost(name, expected, actual, schema) for name in names)

    def _argument_cost(self, name: str, expected: Arguments, actual: Arguments, schema: Schema | None) -> int:
        """Return the cost of one differing argument.

        A similar text costs less than another value. An argument that only one side has costs most.
        """
        if name in expected and name in actual:
            return _value_cost(expected[name], actual[name])

        # An omitted argument has its default, which is compared with the value on the other side.
        default = schema.default(name) if schema and self.policy.use_defaults else None
        if default is None:
            return _ABSENT
        return _value_cost({**expected, **actual}[name], default[0])


def _value_cost(expected: JSON, actual: JSON) -> int:
    """Return the cost of a wrong value, which is lower the more similar two texts are."""
    if isinstance(expected, str) and isinstance(actual, str):
        return _WRONG - int(_CLOSE * closeness(expected, actual))
    return _WRONG


def _pair_next_equal(names: Sequence[str], others: Sequence[str]) -> Positions:
    """Pair each name with the next equal name among the others, never with one before the last paired name."""
    pairs: Positions = []
    first_free = 0  # the first column that may still be used
    for row, name in enumerate(names):
        with suppress(ValueError):  # no further call of this name
            column = others.index(name, first_free)
            pairs.append((row, column))
            first_free = column + 1
    return pairs
