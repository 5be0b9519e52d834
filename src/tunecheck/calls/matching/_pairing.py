"""Which actual call goes with which expected one: by function name first, then with the fewest wrong arguments."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from tunecheck._json import JSON, canonical
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._schemas import Schema, ToolDefinitions
from tunecheck.calls.matching._kinds import closeness
from tunecheck.calls.matching._values import MatchPolicy, ValueComparison, frozen

_Cost = TypeVar("_Cost", int, int | None)

Positions = list[tuple[int, int]]
"""Pairs of positions: of an expected call, of an actual one."""

MOST_PAIRS = 40_000
"""200 calls of one function on either side; beyond, calls of one function are taken in the order they stand in."""

CLOSE_NAME = 80.0
"""Function names this alike (rapidfuzz's ratio, letter case aside) are taken for one name written wrongly."""

_ABSENT = 1_000  # cost of an argument that only one side has
_WRONG = 900  # of a wrong value; a text costs less the closer it is, but never less than the half of an absent one
_CLOSE = 400


@dataclass(slots=True)
class CallPairing:
    """Positions of calls that go together, that go together out of order, and whose name alone differs."""

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

    Of all ways to pair as many calls of the same function as possible (in order: without crossing), the one with the
    fewest wrong arguments; a wrong text counts less the closer it is. What is left over is paired as misnamed where
    the names are alike, or most arguments are right.
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
    """One pairing in the making: `open_expected` and `open_actual` are the positions without a partner so far."""

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
        """Pair what is open by function, in any order."""
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
            positions, wanted, made = self._identical(wanted, made)
        if len(wanted) * len(made) > MOST_PAIRS:
            self.pairing.notes.append(
                f"{len(wanted)} calls of {name} against {len(made)} are too many to find the best pairs; "
                "they were compared in the order they stand in"
            )
            return positions + list(zip(wanted, made, strict=False))
        schema = self._schema(name)
        costs = [[self._cost(row, column, schema) for column in made] for row in wanted]
        best = assign(costs) if len(wanted) == len(made) else self._solved(assign, costs)  # equal: nobody is left over
        return positions + [(wanted[row], made[column]) for row, column in best]

    def _solved(self, solve: Callable[[list[list[_Cost]]], Positions], costs: list[list[_Cost]]) -> Positions:
        """The best pairs by these costs, the same ones whichever side is called the expected one.

        Of several equally good choices, a solver takes one that depends on which side its rows are; and the choice
        decides which calls are left over, and so how many of them count as misnamed. So what the two sides hold
        decides which of them the rows are.
        """
        if not costs or len(costs) == len(costs[0]) == 1 or not self._actual_first:
            return solve(costs)
        return _turned(solve([list(column) for column in zip(*costs, strict=True)]))

    @cached_property
    def _actual_first(self) -> bool:
        if len(self.expected) != len(self.actual):
            return len(self.actual) < len(self.expected)
        sides = zip(map(_content, self.actual), map(_content, self.expected), strict=True)
        return next((one < other for one, other in sides if one != other), False)

    def _identical(self, wanted: list[int], made: list[int]) -> tuple[Positions, list[int], list[int]]:
        """Pair calls with exactly equal arguments; never a mistake where costs obey the triangle inequality: two
        calls that each equal a third cost nothing, and no wrong value costs more than two others."""
        waiting: dict[Hashable, list[int]] = defaultdict(list)
        for position in reversed(made):
            waiting[frozen(self.actual[position].arguments)].append(position)
        positions: Positions = []
        left: list[int] = []
        for position in wanted:
            partners = waiting.get(frozen(self.expected[position].arguments))
            if partners:
                positions.append((position, partners.pop()))
            else:
                left.append(position)
        return positions, left, sorted(position for places in waiting.values() for position in places)

    def align(self) -> None:
        """Pair what can be paired in the order given."""
        # Equal calls at either end belong together in some best alignment; accepted values equal no actual one.
        start, stop = (0, 0) if self.policy.alternatives else self._common_ends()
        rows = range(start, len(self.expected) - stop)
        columns = range(start, len(self.actual) - stop)
        if len(rows) * len(columns) > MOST_PAIRS:
            self.pairing.notes.append(f"{len(rows)} calls against {len(columns)} were aligned by their names alone")
            names = [self.expected[row].name for row in rows], [self.actual[column].name for column in columns]
            inner = _turned(_next_by_name(*reversed(names))) if self._actual_first else _next_by_name(*names)
        else:
            inner = self._solved(align, [[self._cost_in_order(row, column) for column in columns] for row in rows])
        ends = [(position, position) for position in range(start)]
        ends += [(len(self.expected) - back, len(self.actual) - back) for back in range(1, stop + 1)]
        self.pairing.pairs = self._close(sorted(ends + [(rows[row], columns[column]) for row, column in inner]))

    def _common_ends(self) -> tuple[int, int]:
        """How many identical calls stand at the beginning and at the end of both."""
        shorter = min(len(self.expected), len(self.actual))
        start = next((at for at in range(shorter) if not self._is_identical(at, at)), shorter)
        left = shorter - start
        return start, next((at for at in range(left) if not self._is_identical(-1 - at, -1 - at)), left)

    def _is_identical(self, row: int, column: int) -> bool:
        one, other = self.expected[row], self.actual[column]
        return one.name == other.name and frozen(one.arguments) == frozen(other.arguments)

    def by_likeness(self) -> Positions:
        """Pair what is open across names, where one is probably meant for the other."""
        rows, columns = self.open_expected, self.open_actual
        if not rows or not columns or len(rows) * len(columns) > MOST_PAIRS:
            return []
        costs = [[self._cost_if_misnamed(row, column) for column in columns] for row in rows]
        too_much = _ABSENT * (2 + sum(cost for line in costs for cost in line if cost is not None))
        full = [[too_much if cost is None else cost for cost in line] for line in costs]
        likely = [(row, column) for row, column in self._solved(assign, full) if costs[row][column] is not None]
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
        )  # what is left out stands for it
        return _ABSENT if default is None else _cost_of_wrong({**expected, **actual}[name], default[0])


def _content(call: FunctionCall) -> bytes:
    try:
        return canonical([call.name, call.arguments])
    except TypeError:  # nested beyond all reason: it equals nothing, and stands anywhere
        return b""


def _turned(positions: Positions) -> Positions:
    return sorted((row, column) for column, row in positions)


def _next_by_name(names: Sequence[str], others: Sequence[str]) -> Positions:
    """Each name with the next one that is the same, in the order given."""
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


_INFINITE = 1 << 62


def assign(costs: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """The pairs (row, column) of least total cost, as many as the shorter side has, in the order of the rows.

    Shortest augmenting paths with potentials (Kuhn 1955, Munkres 1957, in the form of Jonker and Volgenant 1987):
    time in O(short² × long).
    """
    if not costs or not costs[0]:
        return []
    rows, columns = len(costs), len(costs[0])
    if rows > columns:
        return _turned(assign([list(column) for column in zip(*costs, strict=True)]))
    row_of = _augmented(costs, rows, columns)
    return sorted((row - 1, column - 1) for column, row in enumerate(row_of) if column and row)


def _augmented(costs: Sequence[Sequence[int]], rows: int, columns: int) -> list[int]:
    """For each column, counted from 1, its row, counted from 1 (0: none). Column 0 holds the row being placed."""
    row_of = [0] * (columns + 1)
    row_price = [0] * (rows + 1)
    column_price = [0] * (columns + 1)
    for row in range(1, rows + 1):
        row_of[0] = row
        came_from, column = _shortest_path(costs, row_of, row_price, column_price)
        while column:
            row_of[column] = row_of[came_from[column]]
            column = came_from[column]
    return row_of


def _shortest_path(
    costs: Sequence[Sequence[int]], row_of: list[int], row_price: list[int], column_price: list[int]
) -> tuple[list[int], int]:
    """A cheapest way from column 0 to a free column; keeps all reduced costs non-negative by changing the prices."""
    columns = len(row_of)
    distance = [_INFINITE] * columns
    came_from = [0] * columns
    reached = [0]
    waiting = list(range(1, columns))
    column = 0
    while row_of[column]:
        row = row_of[column]
        line, base = costs[row - 1], row_price[row]
        nearest, step = 0, _INFINITE
        for other in waiting:
            reduced = line[other - 1] - base - column_price[other]
            if reduced < distance[other]:
                distance[other] = reduced
                came_from[other] = column
            if distance[other] < step:
                nearest, step = other, distance[other]
        for done in reached:
            row_price[row_of[done]] += step
            column_price[done] -= step
        for other in waiting:
            distance[other] -= step
        waiting.remove(nearest)
        reached.append(nearest)
        column = nearest
    return came_from, column


def align(costs: Sequence[Sequence[int | None]]) -> list[tuple[int, int]]:
    """The pairs (row, column), both rising: as many as possible, and of those the least total cost.

    None is a pair that cannot be. The recurrence of the longest common subsequence: time in O(rows × columns).
    """
    rows = len(costs)
    columns = len(costs[0]) if rows else 0
    best = [[(0, 0)] * (columns + 1) for _ in range(rows + 1)]  # (minus pairs, cost) of the parts from there on
    for row in range(rows - 1, -1, -1):
        line, below = best[row], best[row + 1]
        for column in range(columns - 1, -1, -1):
            choice = min(below[column], line[column + 1])
            cost = costs[row][column]
            if cost is not None:
                pairs, total = below[column + 1]
                choice = min(choice, (pairs - 1, total + cost))
            line[column] = choice
    return _retraced(costs, best)


def _retraced(costs: Sequence[Sequence[int | None]], best: list[list[tuple[int, int]]]) -> list[tuple[int, int]]:
    pairs: Positions = []
    row = column = 0
    while row < len(best) - 1 and column < len(best[0]) - 1:
        cost = costs[row][column]
        after, total = best[row + 1][column + 1]
        if cost is not None and best[row][column] == (after - 1, total + cost):
            pairs.append((row, column))
            row, column = row + 1, column + 1
        elif best[row][column] == best[row + 1][column]:
            row += 1
        else:
            column += 1
    return pairs
