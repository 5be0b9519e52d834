"""Pair actual with expected calls: by function name, then with the fewest wrong arguments."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from tunecheck._json import JSON, canonical
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._schemas import Schema, ToolDefinitions
from tunecheck.calls.matching._kinds import closeness
from tunecheck.calls.matching._values import MatchPolicy, Positions, ValueComparison, align, assign, pair_equal

_Cost = TypeVar("_Cost", int, int | None)

MOST_PAIRS = 40_000
"""200 × 200 calls of one function. Above that, calls of one function are paired in order."""

CLOSE_NAME = 80.0
"""Function names with this similarity (rapidfuzz's ratio, ignoring case) count as one misspelt name."""

_ABSENT = 1_000  # cost of an argument that is missing on one side
_WRONG = 900  # cost of a wrong value; similar texts cost less, down to half of an absent argument
_CLOSE = 400


@dataclass(slots=True)
class CallPairing:
    """Positions of calls paired by function (in order, or `moved` out of order) and of probably misnamed calls."""

    pairs: Positions = field(default_factory=list)
    moved: Positions = field(default_factory=list)
    misnamed: Positions = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def pair_up(
    expected: Sequence[FunctionCall],
    actual: Sequence[FunctionCall],
    policy: MatchPolicy,
    definitions: ToolDefinitions | None = None,
) -> CallPairing:
    """Pair expected and actual calls.

    Pair as many calls of the same function as possible, without crossing if the order counts. Among these pairings,
    choose the one with the fewest wrong arguments; a close wording costs less than another value. Remaining calls are
    paired as misnamed if their names are similar or most of their arguments are right.
    """
    pairs = _Pairs(expected, actual, policy, definitions)
    if policy.ordered:
        pairs.align()
        pairs.pairing.moved = pairs.by_name()
    else:
        pairs.pairing.pairs = pairs.by_name()
    pairs.pairing.misnamed = pairs.by_likeness()
    if pairs.comparison.exhausted:
        pairs.pairing.notes.append("some arguments are too large to be compared in full")
    return pairs.pairing


class _Pairs:
    """A pairing in progress. `open_expected` and `open_actual` are the positions still without a partner."""

    def __init__(
        self,
        expected: Sequence[FunctionCall],
        actual: Sequence[FunctionCall],
        policy: MatchPolicy,
        definitions: ToolDefinitions | None,
    ) -> None:
        self.expected = expected
        self.actual = actual
        self.policy = policy
        self.definitions = definitions
        self.comparison = ValueComparison(policy, explain=False)
        self.pairing = CallPairing()
        self.open_expected = list(range(len(expected)))
        self.open_actual = list(range(len(actual)))

    def by_name(self) -> Positions:
        """Pair the open calls by function, in any order."""
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
            self.pairing.notes.append(
                f"{len(wanted)} calls of {name} against {len(made)} are too many to find the best pairs; "
                "they were compared in the order they stand in"
            )
            return positions + list(zip(wanted, made, strict=False))
        schema = self._schema(name)
        costs = [[self._cost(row, column, schema) for column in made] for row in wanted]
        best = assign(costs) if len(wanted) == len(made) else self._solve(assign, costs)  # equal: no call is left over
        return positions + [(wanted[row], made[column]) for row, column in best]

    def _solve(self, solve: Callable[[list[list[_Cost]]], Positions], costs: list[list[_Cost]]) -> Positions:
        """Return the best pairs by these costs, independent of which side is the expected one.

        A solver breaks ties in favour of its rows. Ties decide which calls are left over, and so how many count as
        misnamed. So the number or content of the calls decides which side becomes the rows.
        """
        if not costs or len(costs) == len(costs[0]) == 1 or not self._actual_first:
            return solve(costs)
        return _transpose(solve([list(column) for column in zip(*costs, strict=True)]))

    @cached_property
    def _actual_first(self) -> bool:
        if len(self.expected) != len(self.actual):
            return len(self.actual) < len(self.expected)
        sides = zip(map(_content, self.actual), map(_content, self.expected), strict=True)
        return next((one < other for one, other in sides if one != other), False)

    def align(self) -> None:
        """Pair as many calls as possible in the given order."""
        rows, columns = len(self.expected), len(self.actual)
        if rows * columns > MOST_PAIRS:
            self.pairing.notes.append(f"{rows} calls against {columns} were aligned by their names alone")
            names = [call.name for call in self.expected], [call.name for call in self.actual]
            pairs = _transpose(_next_by_name(*reversed(names))) if self._actual_first else _next_by_name(*names)
        else:
            pairs = self._solve(
                align, [[self._cost_in_order(row, column) for column in range(columns)] for row in range(rows)]
            )
        self.pairing.pairs = self._close(pairs)

    def by_likeness(self) -> Positions:
        """Pair open calls of different names if one is probably a misnamed version of the other."""
        rows, columns = self.open_expected, self.open_actual
        if not rows or not columns or len(rows) * len(columns) > MOST_PAIRS:
            return []
        costs = [[self._cost_if_misnamed(row, column) for column in columns] for row in rows]
        too_much = _ABSENT * (2 + sum(cost for line in costs for cost in line if cost is not None))
        full = [[too_much if cost is None else cost for cost in line] for line in costs]
        likely = [(row, column) for row, column in self._solve(assign, full) if costs[row][column] is not None]
        return self._close([(rows[row], columns[column]) for row, column in likely])

    def _close(self, positions: Positions) -> Positions:
        wanted, made = {row for row, _ in positions}, {column for _, column in positions}
        self.open_expected = [position for position in self.open_expected if position not in wanted]
        self.open_actual = [position for position in self.open_actual if position not in made]
        return positions

    def _schema(self, name: str) -> Schema | None:
        definition = self.definitions.get(name) if self.definitions else None
        return definition.schema if definition else None

    def _cost_in_order(self, row: int, column: int) -> int | None:
        name = self.expected[row].name
        return self._cost(row, column, self._schema(name)) if name == self.actual[column].name else None

    def _cost_if_misnamed(self, row: int, column: int) -> int | None:
        """Return the cost of pairing two calls of different names, or None if they have too little in common."""
        from rapidfuzz import fuzz

        one, other = self.expected[row], self.actual[column]
        cost = self._cost(row, column, self._schema(one.name))
        alike = fuzz.ratio(one.name.casefold(), other.name.casefold())
        arguments = len(one.arguments.keys() | other.arguments.keys())
        if alike >= CLOSE_NAME or (arguments and 2 * cost <= _ABSENT * arguments):
            return cost + int(100 - alike)
        return None

    def _cost(self, row: int, column: int, schema: Schema | None) -> int:
        """Return the cost of the arguments that differ."""
        expected, actual = self.expected[row].arguments, self.actual[column].arguments
        names = {str(one.place[0]) for one in self.comparison.arguments(expected, actual, schema)}
        return sum(self._cost_of(name, expected, actual, schema) for name in names)

    def _cost_of(
        self, name: str, expected: Mapping[str, JSON], actual: Mapping[str, JSON], schema: Schema | None
    ) -> int:
        if name in expected and name in actual:
            return _cost_of_wrong(expected[name], actual[name])
        default = (
            schema.default(name) if schema and self.policy.use_defaults else None
        )  # an omitted argument has its default
        return _ABSENT if default is None else _cost_of_wrong({**expected, **actual}[name], default[0])


def _content(call: FunctionCall) -> bytes:
    try:
        return canonical([call.name, call.arguments])
    except TypeError:  # nested too deeply: it equals no other call, so its position does not matter
        return b""


def _transpose(positions: Positions) -> Positions:
    return sorted((row, column) for column, row in positions)


def _next_by_name(names: Sequence[str], others: Sequence[str]) -> Positions:
    """Pair each name with the next equal one, in the order given."""
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
    if isinstance(expected, str) and isinstance(actual, str):
        return _WRONG - int(_CLOSE * closeness(expected, actual))
    return _WRONG
