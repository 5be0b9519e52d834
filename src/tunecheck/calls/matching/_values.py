"""Typed comparison of arguments under a policy: missing, unexpected and wrong values with place and kind."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from math import isfinite
from typing import Any, Literal, NamedTuple, TypeAlias

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import did_you_mean
from tunecheck.calls._schemas import Schema
from tunecheck.calls._strict_json import MAX_DEPTH
from tunecheck.calls.matching._kinds import KINDS, kind_of_wrong, number_of_text

# -- the cheapest assignment of one list to another

Positions = list[tuple[int, int]]
"""Pairs of positions: of an expected and an actual call or value."""

_INFINITE = 1 << 62


def assign(costs: Sequence[Sequence[int]]) -> Positions:
    """Give each row a column of its own at the least total cost; on the longer side, some stay unpaired.

    Returns (row, column) by row. Shortest augmenting paths with potentials (Kuhn 1955, Munkres 1957, in the form of
    Jonker and Volgenant 1987): time in O(short² × long).
    """
    if not costs or not costs[0]:
        return []
    rows, columns = len(costs), len(costs[0])
    if rows > columns:
        return sorted((row, column) for column, row in assign([*zip(*costs, strict=True)]))
    row_of = _augmenting_path(costs, rows, columns)
    return sorted((row - 1, column - 1) for column, row in enumerate(row_of) if column and row)


def _augmenting_path(costs: Sequence[Sequence[int]], rows: int, columns: int) -> list[int]:
    """Give each row a column at the least total cost; there are at least as many columns as rows.

    Returns the row of each column, both counted from 1 (0: no row). Column 0 contains the row being placed.
    """
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
    """Find the cheapest chain of moves that gives the row in column 0 a free column.

    Returns the column before each column in the chain, and the free column. Updates the prices so that all reduced
    costs (cost minus both prices) stay at least 0.
    """
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


def align(costs: Sequence[Sequence[int | None]]) -> Positions:
    """Return as many pairs (row, column) as possible, both rising, with the least total cost.

    None marks an impossible pair. The recurrence of the longest common subsequence takes O(rows × columns) time.
    """
    rows = len(costs)
    columns = len(costs[0]) if rows else 0
    best = [[(0, 0)] * (columns + 1) for _ in range(rows + 1)]  # (minus pairs, cost) of the rest from that cell
    for row in range(rows - 1, -1, -1):
        line, below = best[row], best[row + 1]
        for column in range(columns - 1, -1, -1):
            choice = min(below[column], line[column + 1])
            cost = costs[row][column]
            if cost is not None:
                pairs, total = below[column + 1]
                choice = min(choice, (pairs - 1, total + cost))
            line[column] = choice
    return _trace_back(costs, best)


def _trace_back(costs: Sequence[Sequence[int | None]], best: list[list[tuple[int, int]]]) -> Positions:
    """Return the pairs of the best alignment.

    `best[row][column]` is (minus the number of pairs, their cost) of the best alignment of the rest from there on.
    """
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


# -- policies, and values compared by them


@dataclass(frozen=True, slots=True)
class MatchPolicy:
    """How calls are compared. The default is strict: types count, the order of calls does not, extra calls fail.

    ordered: the calls must come in the expected order (else any order).
    allow_extra_calls: calls beyond the expected ones do no harm.
    int_equals_float: `5` equals `5.0` everywhere. If the tool definition says `number` or `integer`, they are always
        equal, as in JSON Schema.
    ignore_case: letter case of text values does not count.
    ignore_whitespace: white space in text values, inside them too, does not count.
    ignore_list_order: lists are compared as multisets.
    number_text_equals_number: `"5"` equals `5` (but neither ever equals `True`).
    null_equals_absent: an argument, or a key inside an argument, that is null equals one that is left out.
    dots_equal_underscores: `math.add` and `math_add` are one function, unless both are known.
    ignore_functions_prefix: `functions.add` is `add`.
    absolute_tolerance, relative_tolerance: numbers are equal if they differ by at most the absolute tolerance or the
        relative tolerance times the expected number, whichever is larger.
    use_defaults: an optional argument given with its schema's default equals one that is left out.
    alternatives: the ground truth has a list of accepted values for each argument, like the possible answers of the
        Berkeley Function Calling Leaderboard: `{"f": {"a": [1, 2], "b": ["", "x"]}}`. `""` among the values means
        that the argument may be left out. Nested objects have lists of accepted values, too.
    validate_schema: a call fails if it breaks its tool definition's schema or calls an undefined function. With
        definitions, both are counted in any case.

    Raises:
        ConfigurationError: a switch is not a bool, or a tolerance is not a finite number of at least 0.
    """

    ordered: bool = False
    allow_extra_calls: bool = False
    int_equals_float: bool = False
    ignore_case: bool = False
    ignore_whitespace: bool = False
    ignore_list_order: bool = False
    number_text_equals_number: bool = False
    null_equals_absent: bool = False
    dots_equal_underscores: bool = False
    ignore_functions_prefix: bool = False
    absolute_tolerance: float = 0.0
    relative_tolerance: float = 0.0
    use_defaults: bool = True
    alternatives: bool = False
    validate_schema: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name), switch=isinstance(field.default, bool))

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> MatchPolicy:
        """Make a policy from keywords.

        Raises:
            ConfigurationError: a name is unknown, or a value is not of its kind.
        """
        known = {field.name for field in fields(cls)}
        for name in options:
            if name not in known:
                raise ConfigurationError(f"there is no matching policy {name!r}{did_you_mean(name, known)}")
        return cls(**options)

    @property
    def tolerant(self) -> bool:
        """True if different numbers can count as equal."""
        return self.absolute_tolerance > 0 or self.relative_tolerance > 0

    @property
    def transitive(self) -> bool:
        """True if equality is transitive under this policy, so that equal calls can be paired directly."""
        return not (self.tolerant or self.alternatives or self.number_text_equals_number)

    def options(self) -> dict[str, bool | float]:
        """Return all settings by name, as plain data."""
        return asdict(self)


def _check(name: str, value: object, *, switch: bool) -> None:
    """Raise ConfigurationError unless the policy's value is a bool (`switch`) or a finite number of at least 0."""
    if switch:
        if not isinstance(value, bool):
            raise ConfigurationError(f"the matching policy {name} must be true or false, not {value!r}")
    elif isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ConfigurationError(f"the matching policy {name} must be a number of at least 0, not {value!r}")


_MOST_STEPS = 1_000_000  # values compared in one comparison: hostile lists could require billions
_MOST_ITEMS = 100  # most differing items of lists compared in any order
_MAY_BE_LEFT_OUT = ""  # in possible answers of the Berkeley Function Calling Leaderboard

_Differ: TypeAlias = Callable[[JSON, JSON, "_Spot"], Iterator["Difference"]]


class _Spot(NamedTuple):
    """A place in the arguments, with its schema."""

    place: tuple[str | int, ...]
    schema: Schema | None

    def inside(self, step: str | int) -> _Spot:
        """Return the place of a member (by name) or an item (by index) of this value, with its schema if known."""
        schema = self.schema
        if schema is not None:
            schema = schema.item(step) if isinstance(step, int) else schema.property(step)
        return _Spot((*self.place, step), schema)


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where a call's arguments are not as expected.

    `place` is the argument's name, then keys and indexes inside it; `path` is its text (`a.b[0]`). `fault` is
    "missing", "unexpected" or "wrong", and a wrong value has a `kind` (one of `KINDS`). If several values are
    accepted, `expected` is their list and `any_of` is set.
    """

    place: tuple[str | int, ...]
    fault: Literal["missing", "unexpected", "wrong"]
    kind: str | None = None
    expected: JSON = None
    actual: JSON = None
    any_of: bool = False

    @property
    def path(self) -> str:
        """The place as text."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.place)
        return "".join(parts).removeprefix(".")


class ValueComparison:
    """Compares values under one policy. Work is bounded: values beyond the bound count as different.

    Without `explain`, only the first difference matters, and its kind is not determined.
    """

    def __init__(self, policy: MatchPolicy, *, explain: bool = True) -> None:
        self._policy = policy
        self._explain = explain
        self._steps = _MOST_STEPS

    def arguments(
        self, expected: Mapping[str, JSON], actual: Mapping[str, JSON], schema: Schema | None
    ) -> Iterator[Difference]:
        """Yield the differences of a call's arguments: the expected ones in order, then the unexpected ones."""
        return self._members(expected, actual, _Spot((), schema), any_of=self._policy.alternatives)

    def _may_lack(self, name: str, expected: JSON, spot: _Spot) -> bool:
        """Return whether an expected argument may be omitted: "" or a value that equals omission is accepted."""
        accepted = expected if isinstance(expected, list) else [expected]
        return _MAY_BE_LEFT_OUT in accepted or any(self._is_like_absent(name, one, spot) for one in accepted)

    def _is_like_absent(self, name: str, value: JSON, spot: _Spot) -> bool:
        """Return whether the policy treats this value as an omitted argument: null, or the schema's default."""
        if value is None and self._policy.null_equals_absent:
            return True
        default = spot.schema.default(name) if spot.schema else None
        return self._is_default(value, default, spot.inside(name)) if default else False

    def _is_default(self, value: JSON, default: tuple[JSON] | None, spot: _Spot) -> bool:
        return default is not None and self._policy.use_defaults and _is_empty(self._value(default[0], value, spot))

    @property
    def exhausted(self) -> bool:
        """True if the comparison stopped because values were too large."""
        return self._steps < 0

    def _members(
        self, expected: Mapping[str, JSON], actual: Mapping[str, JSON], spot: _Spot, *, any_of: bool
    ) -> Iterator[Difference]:
        """Yield the differences of two objects' members; with `any_of`, each expected value is a list of accepted
        values.
        """
        differ, may_lack = (self._any_of, self._may_lack) if any_of else (self._value, self._is_like_absent)
        for name, value in expected.items():
            if name not in actual:
                if not may_lack(name, value, spot):
                    yield Difference((*spot.place, name), "missing", expected=value, any_of=any_of)
            elif any_of or not plainly_same(value, actual[name]):
                yield from differ(value, actual[name], spot.inside(name))
        for name, value in actual.items():
            if name not in expected and not self._is_like_absent(name, value, spot):
                yield Difference((*spot.place, name), "unexpected", actual=value)

    def _value(self, expected: JSON, actual: JSON, spot: _Spot) -> Iterator[Difference]:
        """Yield the differences of two values, also inside objects and lists.

        Once the comparison has reached its work limit, a value counts as different without being compared.
        """
        if not self._step() or len(spot.place) > MAX_DEPTH:
            yield Difference(spot.place, "wrong", "other", expected, actual)
        elif isinstance(expected, dict) and isinstance(actual, dict):
            yield from self._members(expected, actual, spot, any_of=False)
        elif isinstance(expected, list) and isinstance(actual, list):
            yield from self._items(expected, actual, spot, self._value)
        elif not self._same_scalar(expected, actual, spot.schema):
            kind = kind_of_wrong(expected, actual) if self._explain else "other"
            yield Difference(spot.place, "wrong", kind, expected, actual)

    def _same_scalar(self, expected: JSON, actual: JSON, schema: Schema | None) -> bool:
        """Return whether two values that are no objects or lists are equal under the policy."""
        if plainly_same(expected, actual):
            return True
        if isinstance(expected, str) and isinstance(actual, str):
            return self._spelling(expected) == self._spelling(actual)
        if self._policy.number_text_equals_number and isinstance(expected, str) != isinstance(actual, str):
            expected = number_of_text(expected) if isinstance(expected, str) else expected
            actual = number_of_text(actual) if isinstance(actual, str) else actual
        if isinstance(expected, bool) or isinstance(actual, bool):
            return False
        if isinstance(expected, (int, float)) and isinstance(actual, (int, float)):
            return self._same_number(expected, actual, schema)
        return False

    def _spelling(self, text: str) -> str:
        text = text.casefold() if self._policy.ignore_case else text
        return "".join(text.split()) if self._policy.ignore_whitespace else text

    def _same_number(self, expected: float, actual: float, schema: Schema | None) -> bool:
        """Return whether two numbers are equal under the policy and the schema, within the tolerances."""
        if expected == actual:  # Python compares int and float exactly, even beyond 2^53
            if type(expected) is type(actual) or self._policy.int_equals_float or self._policy.tolerant:
                return True
            return schema is not None and schema.says_number()
        if not self._policy.tolerant or not _finite(expected) or not _finite(actual):
            return False
        wanted = _decimal(expected)
        relative = _decimal(self._policy.relative_tolerance) * abs(wanted)
        return abs(wanted - _decimal(actual)) <= max(_decimal(self._policy.absolute_tolerance), relative)

    def _any_of(self, expected: JSON, actual: JSON, spot: _Spot) -> Iterator[Difference]:
        """Yield the difference from a list of accepted values; nothing if the value is accepted.

        Nested objects contain lists of accepted values again, as in BFCL's possible answers.
        """
        accepted = expected if isinstance(expected, list) else [expected]
        choices = [choice for choice in accepted if choice != _MAY_BE_LEFT_OUT] or accepted
        nearest: list[Difference] = []
        for choice in choices:
            differences = list(self._possible(choice, actual, spot))
            if not differences:
                return
            if not nearest or _rank(differences) < _rank(nearest):
                nearest = differences
        default = spot.schema.own_default() if spot.schema else None
        if len(accepted) == 1:
            yield from nearest
        elif _MAY_BE_LEFT_OUT not in accepted or not self._is_default(actual, default, spot):
            kind = min((one.kind or "other" for one in nearest), key=KINDS.index, default="other")
            yield Difference(spot.place, "wrong", kind, expected, actual, any_of=True)

    def _possible(self, expected: JSON, actual: JSON, spot: _Spot) -> Iterator[Difference]:
        """Yield the differences from one accepted value; inside its objects, members are lists of accepted values
        again.
        """
        if isinstance(expected, dict) and isinstance(actual, dict) and len(spot.place) <= MAX_DEPTH and self._step():
            yield from self._members(expected, actual, spot, any_of=True)
        elif isinstance(expected, list) and isinstance(actual, list) and any(isinstance(one, dict) for one in expected):
            yield from self._items(expected, actual, spot, self._possible)
        else:
            yield from self._value(expected, actual, spot)

    def _items(self, expected: list[JSON], actual: list[JSON], spot: _Spot, differ: _Differ) -> Iterator[Difference]:
        """Yield the differences of two lists, item by item or, under the policy, in any order.

        The whole list is one difference if the lengths differ, if only the order differs, or beyond the work limit.
        """
        if len(expected) != len(actual) or not self._step(len(expected)):
            yield Difference(spot.place, "wrong", "other", expected, actual)
            return
        pairs = enumerate(zip(expected, actual, strict=True))
        differing = ((at, one, other) for at, (one, other) in pairs if not plainly_same(one, other))
        differences = (each for at, one, other in differing for each in differ(one, other, spot.inside(at)))
        any_order = self._policy.ignore_list_order
        first = next(differences, None)
        if first is None:
            return
        if self._explain or any_order:
            if not self._step(_weight(expected) + _weight(actual)):
                yield Difference(spot.place, "wrong", "other", expected, actual)
                return
            equal = pair_equal(expected, actual)
            if len(equal) == len(expected) and not any_order:
                yield Difference(spot.place, "wrong", "list_order", expected, actual)
                return
            if any_order and self._same_in_any_order(expected, actual, equal, spot.inside(0), differ):
                return
        yield first
        yield from differences

    def _same_in_any_order(
        self, expected: list[JSON], actual: list[JSON], equal: Positions, item: _Spot, differ: _Differ
    ) -> bool:
        """Return whether the items can be paired so that each pair is equal under the policy.

        `equal` are pairs of items that are known to be equal.
        """
        if self._policy.transitive:  # otherwise an equal item may be the only partner of another item
            rows, columns = ({pair[side] for pair in equal} for side in (0, 1))
            expected = [each for at, each in enumerate(expected) if at not in rows]
            actual = [each for at, each in enumerate(actual) if at not in columns]
        if len(expected) > _MOST_ITEMS or not self._step(len(expected) ** 2):
            return False
        # cost 1 for a pair that differs: the cheapest pairing shows if one without differences exists
        costs = [[not _is_empty(differ(one, other, item)) for other in actual] for one in expected]
        return not any(costs[row][column] for row, column in assign(costs))

    def _step(self, steps: int = 1) -> bool:
        self._steps -= steps
        return self._steps >= 0


def _is_empty(differences: Iterator[Difference]) -> bool:
    return next(differences, None) is None


def _rank(differences: Sequence[Difference]) -> tuple[int, int]:
    """Return a key that is lower for fewer and milder differences."""
    return len(differences), min(KINDS.index(one.kind or "other") for one in differences)


def _weight(items: list[JSON]) -> int:
    """Return the number of values in a list, counting those inside its items."""
    waiting: list[JSON] = list(items)
    for value in waiting:
        if isinstance(value, (dict, list)):
            waiting.extend(value.values() if isinstance(value, dict) else value)
    return len(waiting)


def plainly_same(expected: JSON, actual: JSON) -> bool:
    """Return whether two texts, numbers, booleans or nulls have the same type and value; always False for objects and
    lists.
    """
    return type(expected) is type(actual) and not isinstance(expected, (dict, list)) and expected == actual


def frozen(value: JSON, depth: int = 0) -> Hashable:
    """Return a hashable stand-in for a value, equal only for equal type and content: `1`, `1.0`, `True` differ.

    A value nested deeper than `MAX_DEPTH` equals nothing.
    """
    if isinstance(value, (bool, float)):
        return (type(value), value)
    if isinstance(value, dict):
        items = ((key, frozen(item, depth + 1)) for key, item in value.items())
        return (dict, frozenset(items)) if depth <= MAX_DEPTH else object()
    if isinstance(value, list):
        return (list, *(frozen(item, depth + 1) for item in value)) if depth <= MAX_DEPTH else object()
    return value


def pair_equal(ones: Sequence[JSON], others: Sequence[JSON]) -> Positions:
    """Return the positions of values with the same type and content as pairs; each value is used once, in order."""
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for position in reversed(range(len(others))):
        waiting[frozen(others[position])].append(position)
    keys = enumerate(map(frozen, ones))
    return [(position, waiting[key].pop()) for position, key in keys if waiting.get(key)]


def _finite(number: float) -> bool:
    return isinstance(number, int) or isfinite(number)


def _decimal(number: float) -> Fraction:
    """Return the value of the number's shortest decimal text, so that 1.1 − 1.0 is within a tolerance of 0.1."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))
