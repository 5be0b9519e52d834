"""Which expected call goes with which actual one: by function name first, then with the fewest wrong arguments."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from rapidfuzz import fuzz

from tunecheck._json import JSON
from tunecheck.calls._matching.assignment import align, assign
from tunecheck.calls._matching.kinds import closeness
from tunecheck.calls._matching.policy import MatchPolicy
from tunecheck.calls._matching.values import Comparison, frozen
from tunecheck.calls._model import FunctionCall
from tunecheck.calls._schemas.definitions import ToolDefinitions
from tunecheck.calls._schemas.walk import Schema

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
class Pairing:
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
) -> Pairing:
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
        self.comparison = Comparison(policy, explain=False)
        self.pairing = Pairing()
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
        return positions + [(wanted[row], made[column]) for row, column in assign(costs)]

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
            inner = self._next_by_name(rows, columns)
        else:
            costs = [[self._cost_in_order(row, column) for column in columns] for row in rows]
            inner = [(rows[row], columns[column]) for row, column in align(costs)]
        ends = [(position, position) for position in range(start)]
        ends += [(len(self.expected) - back, len(self.actual) - back) for back in range(1, stop + 1)]
        self.pairing.pairs = self._close(sorted(ends + inner))

    def _common_ends(self) -> tuple[int, int]:
        """How many identical calls stand at the beginning and at the end of both."""
        shorter = min(len(self.expected), len(self.actual))
        start = 0
        while start < shorter and self._is_identical(start, start):
            start += 1
        stop = 0
        while stop < shorter - start and self._is_identical(-1 - stop, -1 - stop):
            stop += 1
        return start, stop

    def _is_identical(self, row: int, column: int) -> bool:
        one, other = self.expected[row], self.actual[column]
        return one.name == other.name and frozen(one.arguments) == frozen(other.arguments)

    def _next_by_name(self, rows: Iterable[int], columns: Iterable[int]) -> Positions:
        places: dict[str, list[int]] = defaultdict(list)
        for column in columns:
            places[self.actual[column].name].append(column)
        positions: Positions = []
        after = 0
        for row in rows:
            named = places[self.expected[row].name]
            at = bisect_left(named, after)
            if at < len(named):
                positions.append((row, named[at]))
                after = named[at] + 1
        return positions

    def by_likeness(self) -> Positions:
        """Pair what is open across names, where one is probably meant for the other."""
        rows, columns = self.open_expected, self.open_actual
        if not rows or not columns or len(rows) * len(columns) > MOST_PAIRS:
            return []
        costs = [[self._cost_if_misnamed(row, column) for column in columns] for row in rows]
        too_much = _ABSENT * (2 + sum(cost for line in costs for cost in line if cost is not None))
        full = [[too_much if cost is None else cost for cost in line] for line in costs]
        likely = [(row, column) for row, column in assign(full) if costs[row][column] is not None]
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
        one, other = self.expected[row], self.actual[column]
        cost = self._cost(row, column, self._schema(one.name))
        alike = fuzz.ratio(one.name.casefold(), other.name.casefold())
        arguments = len(one.arguments.keys() | other.arguments.keys())
        if alike >= CLOSE_NAME or (arguments and 2 * cost <= _ABSENT * arguments):
            return cost + int(100 - alike)
        return None

    def _cost(self, row: int, column: int, schema: Schema | None) -> int:
        expected, actual = self.expected[row].arguments, self.actual[column].arguments
        cost = 0
        for name, value in expected.items():
            if name in actual:
                if not self.comparison.same_argument(name, value, actual[name], schema):
                    cost += _cost_of_wrong(value, actual[name])
            elif not self.comparison.may_lack(name, value, schema):
                cost += self._cost_of_absent(name, value, schema)
        for name, value in actual.items():
            if name not in expected and not self.comparison.is_default(name, value, schema):
                cost += self._cost_of_absent(name, value, schema)
        return cost

    def _cost_of_absent(self, name: str, value: JSON, schema: Schema | None) -> int:
        """An argument left out stands for its default, here as everywhere."""
        default = schema.default(name) if schema and self.policy.use_defaults else None
        return _ABSENT if default is None else _cost_of_wrong(value, default[0])


def _cost_of_wrong(expected: JSON, actual: JSON) -> int:
    if isinstance(expected, str) and isinstance(actual, str):
        return _WRONG - int(_CLOSE * closeness(expected, actual))
    return _WRONG
