"""Compare the arguments of calls under a policy: missing, unexpected and wrong values, with place and kind.

`_match.py` compares the paired calls with `ValueComparison`, which yields a `Difference` for each deviation. The
functions at the end of this module pair the calls, and the items of lists in any order.

Two values are compared in this order:

1. Objects member by member: first the expected members, then the unexpected ones. A member that only one side has is no
   difference if the policy equates it with an omitted one (null, or the schema's default).
2. Lists item by item. They differ as a whole if their lengths differ, or if only the order of their items differs.
3. All other values by type and content: `5`, `5.0`, `"5"` and `True` are four values, unless policy or schema equate
   numbers, or the policy equates a number with its text.

With the policy `alternatives`, an expected argument is a list of accepted values. It is compared with each of them,
and the difference is that of the nearest.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, real_number
from tunecheck._messages import did_you_mean
from tunecheck.calls._model import MAX_DEPTH, levels
from tunecheck.calls._schemas import Schema
from tunecheck.calls.matching._kinds import KINDS, kind_of_wrong, number_of_text

Positions = list[tuple[int, int]]
"""Pairs (row, column): the position of an item in the first list, and that of its partner in the second."""

_Item = TypeVar("_Item")

# -- policies


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
        """Check all settings: switches must be bools, tolerances finite numbers of at least 0 (ConfigurationError)."""
        for field in fields(self):
            value = getattr(self, field.name)
            is_switch = isinstance(field.default, bool)
            number = real_number(value)
            fits = isinstance(value, bool) if is_switch else number is not None and 0 <= number < math.inf
            if not fits:
                wanted = "true or false" if is_switch else "a finite number of at least 0"
                raise ConfigurationError(f"the matching policy {field.name} must be {wanted}, not {value!r}")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> MatchPolicy:
        """Make a policy from settings by name; the others have their defaults.

        Raises:
            ConfigurationError: there is no setting of a name, or a value has the wrong type or range.
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


# -- differences under a policy


class Difference(msgspec.Struct, frozen=True):
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


_MOST_STEPS = 1_000_000  # values compared in one comparison: hostile lists could require billions
_MOST_ITEMS = 100  # most differing items of lists compared in any order
_MAY_BE_LEFT_OUT = ""  # in possible answers of the Berkeley Function Calling Leaderboard

Arguments: TypeAlias = Mapping[str, JSON]
"""The arguments of a call, or the members of an object inside them, by name."""


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


_Compare: TypeAlias = Callable[[JSON, JSON, _Spot], Iterator[Difference]]


class ValueComparison:
    """Compares values under one policy. Work is bounded: values beyond the bound count as different.

    Without `explain`, every wrong value has the kind "other", and a list in another order shows as wrong items.
    """

    def __init__(self, policy: MatchPolicy, *, explain: bool = True) -> None:
        self._policy = policy
        self._explain = explain
        self._steps_left = _MOST_STEPS

    def arguments(self, expected: Arguments, actual: Arguments, schema: Schema | None) -> Iterator[Difference]:
        """Yield the differences of a call's arguments: the expected ones in order, then the unexpected ones."""
        return self._members(expected, actual, _Spot((), schema), alternatives=self._policy.alternatives)

    @property
    def exhausted(self) -> bool:
        """True if the comparison stopped because values were too large."""
        return self._steps_left < 0

    def _spend(self, steps: int = 1) -> bool:
        """Count these steps of work, and return whether they are within the bound."""
        self._steps_left -= steps
        return self._steps_left >= 0

    def _value(self, expected: JSON, actual: JSON, spot: _Spot) -> Iterator[Difference]:
        """Yield the differences of two values, also inside objects and lists. `spot` is their place and its schema.

        Once the comparison has reached its work limit, a value counts as different without being compared.
        """
        if not self._spend() or len(spot.place) > MAX_DEPTH:
            yield Difference(spot.place, "wrong", "other", expected, actual)
        elif isinstance(expected, dict) and isinstance(actual, dict):
            yield from self._members(expected, actual, spot)
        elif isinstance(expected, list) and isinstance(actual, list):
            yield from self._items(expected, actual, spot, self._value)
        elif not self._same_scalar(expected, actual, spot.schema):
            kind = kind_of_wrong(expected, actual) if self._explain else "other"
            yield Difference(spot.place, "wrong", kind, expected, actual)

    # -- objects

    def _members(
        self, expected: Arguments, actual: Arguments, spot: _Spot, *, alternatives: bool = False
    ) -> Iterator[Difference]:
        """Yield the differences of two objects' members. `spot` is the objects' place and its schema.

        With `alternatives`, each expected value is a list of accepted values.
        """
        for name, value in expected.items():
            if name not in actual:
                may_be_missing = self._may_be_left_out if alternatives else self._equals_absent
                if not may_be_missing(name, value, spot):
                    yield Difference((*spot.place, name), "missing", expected=value, any_of=alternatives)
            elif alternatives:
                yield from self._any_of(value, actual[name], spot.inside(name))
            elif not plainly_same(value, actual[name]):
                yield from self._value(value, actual[name], spot.inside(name))

        for name, value in actual.items():
            if name not in expected and not self._equals_absent(name, value, spot):
                yield Difference((*spot.place, name), "unexpected", actual=value)

    def _equals_absent(self, name: str, value: JSON, spot: _Spot) -> bool:
        """Return whether the policy treats this value as an omitted argument: null, or the schema's default.

        The value is that of the member `name` of an object. `spot` is the object's place and its schema.
        """
        if value is None and self._policy.null_equals_absent:
            return True

        default = spot.schema.default(name) if spot.schema else None
        return self._is_default(value, default, spot.inside(name))

    def _is_default(self, value: JSON, default: tuple[JSON] | None, spot: _Spot) -> bool:
        """Return whether the policy allows defaults and the value equals this one; False if there is no default.

        `default` has the default as its only item. `spot` is the value's place and its schema.
        """
        if default is None or not self._policy.use_defaults:
            return False
        return _is_empty(self._value(default[0], value, spot))

    # -- lists of accepted values

    def _may_be_left_out(self, name: str, expected: JSON, spot: _Spot) -> bool:
        """Return whether an expected argument may be omitted: "" or a value that equals omission is accepted."""
        accepted = expected if isinstance(expected, list) else [expected]
        return _MAY_BE_LEFT_OUT in accepted or any(self._equals_absent(name, value, spot) for value in accepted)

    def _any_of(self, expected: JSON, actual: JSON, spot: _Spot) -> Iterator[Difference]:
        """Yield the difference from a list of accepted values; nothing if the value is accepted.

        A single accepted value gives its own differences; several give one, of the nearest value's kind. If `""` is
        among them, the argument may be left out, and its default is accepted, too. If `["Paris", ""]` are accepted,
        `"paris"` gives one difference of the kind `case_or_spacing`.
        """
        accepted = expected if isinstance(expected, list) else [expected]
        # The empty text only says that the argument may be left out, unless it is the only accepted value.
        choices = [choice for choice in accepted if choice != _MAY_BE_LEFT_OUT] or accepted

        by_choice = []
        for choice in choices:
            by_choice.append(list(self._accepted_value(choice, actual, spot)))
            if not by_choice[-1]:
                return

        # The nearest value has the fewest differences. Its differences explain a list of one.
        nearest = min(by_choice, key=_rank, default=[])
        if len(accepted) == 1:
            yield from nearest
            return

        # An argument that may be left out may also have its default.
        default = spot.schema.own_default() if spot.schema else None
        if _MAY_BE_LEFT_OUT in accepted and self._is_default(actual, default, spot):
            return

        kind = min((difference.kind or "other" for difference in nearest), key=KINDS.index, default="other")
        yield Difference(spot.place, "wrong", kind, expected, actual, any_of=True)

    def _accepted_value(self, expected: JSON, actual: JSON, spot: _Spot) -> Iterator[Difference]:
        """Yield the differences from one accepted value. `spot` is the value's place and its schema.

        The members of its objects are lists of accepted values again, as in BFCL's possible answers.
        """
        # Beyond the limit of depth or work, `_value` yields a difference without comparing.
        if isinstance(expected, dict) and isinstance(actual, dict) and len(spot.place) <= MAX_DEPTH and self._spend():
            yield from self._members(expected, actual, spot, alternatives=True)
        elif (
            isinstance(expected, list) and isinstance(actual, list) and any(isinstance(item, dict) for item in expected)
        ):
            yield from self._items(expected, actual, spot, self._accepted_value)
        else:
            yield from self._value(expected, actual, spot)

    # -- lists

    def _items(self, expected: list[JSON], actual: list[JSON], spot: _Spot, compare: _Compare) -> Iterator[Difference]:
        """Yield the differences of two lists, item by item; none if the policy ignores the order and only it differs.

        `compare` yields the differences of two items, `spot` is the lists' place and its schema. The whole list is one
        difference if the lengths differ, if only the order differs, or beyond the work limit.
        """
        if len(expected) != len(actual) or not self._spend(len(expected)):
            yield Difference(spot.place, "wrong", "other", expected, actual)
            return

        # Most lists end here, without a difference.
        differences = _item_differences(expected, actual, spot, compare)
        first = next(differences, None)
        if first is None:
            return

        # Equal items are paired to find out whether only the order differs.
        any_order = self._policy.ignore_list_order
        if self._explain or any_order:
            if not self._spend(sum(map(len, chain(levels(expected), levels(actual))))):
                yield Difference(spot.place, "wrong", "other", expected, actual)
                return

            equal = pair_equal(expected, actual)
            if any_order:
                if self._same_in_any_order(expected, actual, equal, spot.inside(0), compare):
                    return
            elif len(equal) == len(expected):
                yield Difference(spot.place, "wrong", "list_order", expected, actual)
                return

        yield first
        yield from differences

    def _same_in_any_order(
        self, expected: list[JSON], actual: list[JSON], equal: Positions, item: _Spot, compare: _Compare
    ) -> bool:
        """Return whether the items can be paired so that each pair is equal under the policy.

        `equal` are pairs of items that are known to be equal. `item` is the place and schema with which all items are
        compared. Return False if there are too many items.
        """
        if self._policy.transitive:  # otherwise an equal item may be the only partner of another item
            expected, actual = unpaired(expected, actual, equal)
        if len(expected) > _MOST_ITEMS or not self._spend(len(expected) ** 2):
            return False

        # cost 1 for a pair that differs: the cheapest pairing shows if one without differences exists
        costs = [[int(not _is_empty(compare(one, other, item))) for other in actual] for one in expected]
        return not any(costs[row][column] for row, column in assign(costs))

    # -- texts, numbers, booleans and nulls

    def _same_scalar(self, expected: JSON, actual: JSON, schema: Schema | None) -> bool:
        """Return whether two values that are no objects or lists are equal under the policy."""
        if plainly_same(expected, actual):
            return True
        if isinstance(expected, str) and isinstance(actual, str):
            return self._counted_text(expected) == self._counted_text(actual)

        if self._policy.number_text_equals_number:
            # One side is a text at most; two texts were compared above.
            expected = number_of_text(expected) if isinstance(expected, str) else expected
            actual = number_of_text(actual) if isinstance(actual, str) else actual

        # In Python, True equals 1.
        if isinstance(expected, bool) or isinstance(actual, bool):
            return False
        if isinstance(expected, (int, float)) and isinstance(actual, (int, float)):
            return self._same_number(expected, actual, schema)
        return False

    def _counted_text(self, text: str) -> str:
        """Return a text without the case and white space that the policy ignores."""
        text = text.casefold() if self._policy.ignore_case else text
        return "".join(text.split()) if self._policy.ignore_whitespace else text

    def _same_number(self, expected: float, actual: float, schema: Schema | None) -> bool:
        """Return whether two numbers are equal under the policy and the schema, within the tolerances."""
        if expected == actual:  # Python compares int and float exactly, even beyond 2^53
            if type(expected) is type(actual) or self._policy.int_equals_float or self._policy.tolerant:
                return True
            return schema is not None and schema.says_number()

        if not self._policy.tolerant or not _is_finite(expected) or not _is_finite(actual):
            return False

        # Fractions, because floats would round a difference across the limit of the tolerance.
        exact = _decimal(expected)
        relative = _decimal(self._policy.relative_tolerance) * abs(exact)
        return abs(exact - _decimal(actual)) <= max(_decimal(self._policy.absolute_tolerance), relative)


def may_be_left_out(options: JSON) -> bool:
    """Return True if an argument is optional: BFCL lists the empty text among its accepted values."""
    return isinstance(options, list) and "" in options


def first_value(options: JSON) -> JSON:
    """Return the first value that BFCL accepts for an argument; in an object, each entry has accepted values.

    For `[{"city": ["Paris", "paris"], "days": ["", 3]}]`, it is `{"city": "Paris"}`: `days` may be left out.
    """
    return first_values(options[0] if isinstance(options, list) and options else options)


def first_values(value: JSON) -> JSON:
    """Return a value with each entry of an object replaced by its first accepted value, without optional entries."""
    if isinstance(value, dict):
        return {key: first_value(item) for key, item in value.items() if not may_be_left_out(item)}
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [first_values(item) for item in value]
    return value


def plainly_same(expected: JSON, actual: JSON) -> bool:
    """Return whether two texts, numbers, booleans or nulls have the same type and value.

    Return False for objects and lists.
    """
    return type(expected) is type(actual) and not isinstance(expected, (dict, list)) and expected == actual


def _item_differences(expected: list[JSON], actual: list[JSON], spot: _Spot, compare: _Compare) -> Iterator[Difference]:
    """Yield the differences between the items of two equally long lists, each item with its partner by position."""
    for index, (expected_item, actual_item) in enumerate(zip(expected, actual, strict=True)):
        if not plainly_same(expected_item, actual_item):
            yield from compare(expected_item, actual_item, spot.inside(index))


def _is_empty(differences: Iterator[Difference]) -> bool:
    """Return whether there is no difference; only the first one is looked for."""
    return next(differences, None) is None


def _rank(differences: Sequence[Difference]) -> tuple[int, int]:
    """Return the number of differences, and the place of the mildest kind among them in `KINDS`; lower is nearer."""
    return len(differences), min(KINDS.index(difference.kind or "other") for difference in differences)


def _is_finite(number: float) -> bool:
    """Return whether a number is neither infinite nor NaN."""
    return isinstance(number, int) or math.isfinite(number)  # isfinite refuses integers beyond the largest float


def _decimal(number: float) -> Fraction:
    """Return the value of the number's shortest decimal text, so that 1.1 − 1.0 is within a tolerance of 0.1."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


# -- pairs of the items of two lists: equal items, the cheapest pairs, or the cheapest pairs in order


def unpaired(first: Sequence[_Item], second: Sequence[_Item], pairs: Positions) -> tuple[list[_Item], list[_Item]]:
    """Return the items of both lists that are in none of these pairs."""
    rows = {row for row, _ in pairs}
    columns = {column for _, column in pairs}
    open_rows = [item for row, item in enumerate(first) if row not in rows]
    return open_rows, [item for column, item in enumerate(second) if column not in columns]


def pair_equal(first: Sequence[JSON], second: Sequence[JSON]) -> Positions:
    """Pair each value of the first list with an unused value of the second that has the same type and content."""
    # Columns of equal values, the last first, so that `pop` takes the first unused one.
    unused: dict[Hashable, list[int]] = defaultdict(list)
    for column in reversed(range(len(second))):
        unused[frozen(second[column])].append(column)

    positions: Positions = []
    for row, value in enumerate(first):
        columns = unused.get(frozen(value))
        if columns:
            positions.append((row, columns.pop()))
    return positions


def frozen(value: JSON, depth: int = 0) -> Hashable:
    """Return a hashable stand-in for a value, equal only for equal type and content: `1`, `1.0`, `True` differ.

    A value nested deeper than `MAX_DEPTH` equals nothing.
    """
    # In Python, 1, 1.0 and True are equal and have one hash, so these types are part of the stand-in.
    if isinstance(value, (bool, float)):
        return (type(value), value)
    if not isinstance(value, (dict, list)):
        return value

    if depth > MAX_DEPTH:
        return object()
    if isinstance(value, list):
        return (list, *(frozen(item, depth + 1) for item in value))
    return (dict, frozenset((key, frozen(item, depth + 1)) for key, item in value.items()))


# -- the cheapest pairs

_INFINITE = 1 << 62  # more than any total cost


def assign(costs: Sequence[Sequence[int]]) -> Positions:
    """Give each row a column of its own at the least total cost; on the longer side, some stay unpaired.

    `costs[row][column]` is the cost of that pair. Returns the pairs by row. For the costs [[1, 2], [1, 9]], these are
    (0, 1) and (1, 0), with a total of 3. Shortest augmenting paths with prices (Kuhn 1955, Munkres 1957, in the form of
    Jonker and Volgenant 1987): time in O(short² × long).
    """
    if not costs or not costs[0]:
        return []

    rows, columns = len(costs), len(costs[0])
    if rows > columns:
        return sorted((row, column) for column, row in assign([*zip(*costs, strict=True)]))

    # From here on, rows and columns count from 1. Column 0 has the row being placed, and a free column has row 0.
    row_of = [0] * (columns + 1)
    row_prices = [0] * (rows + 1)
    column_prices = [0] * (columns + 1)
    for row in range(1, rows + 1):
        row_of[0] = row
        came_from, column = _shortest_path(costs, row_of, row_prices, column_prices)

        # Each column of the chain takes the row of the column before it, from the free column back to column 0.
        while column:
            row_of[column] = row_of[came_from[column]]
            column = came_from[column]

    return sorted((row - 1, column - 1) for column, row in enumerate(row_of) if column and row)


def _shortest_path(
    costs: Sequence[Sequence[int]], row_of: list[int], row_prices: list[int], column_prices: list[int]
) -> tuple[list[int], int]:
    """Find the cheapest chain of moves that gives the row in column 0 a free column.

    Rows and columns count from 1. `row_of` has the row of each column; 0 means that the column is free.
    Returns the column before each column in the chain, and the free column. Updates the prices so that all reduced
    costs (cost minus both prices) stay at least 0.
    """
    columns = len(row_of)
    distances = [_INFINITE] * columns
    came_from = [0] * columns
    reached = [0]
    unreached = list(range(1, columns))
    column = 0

    while row_of[column]:
        row = row_of[column]
        row_costs, row_price = costs[row - 1], row_prices[row]

        for other in unreached:
            reduced = row_costs[other - 1] - row_price - column_prices[other]
            if reduced < distances[other]:
                distances[other], came_from[other] = reduced, column

        # the unreached column with the least reduced cost over all rows reached so far
        nearest = min(unreached, key=distances.__getitem__)
        step = distances[nearest]

        # Change the prices by this step, so that the nearest column costs nothing more.
        for other in reached:
            row_prices[row_of[other]] += step
            column_prices[other] -= step
        for other in unreached:
            distances[other] -= step

        unreached.remove(nearest)
        reached.append(nearest)
        column = nearest

    return came_from, column


# -- the cheapest pairs in order

_STEPS = ((1, 1), (1, 0), (0, 1))
"""Rows and columns of a step of `align`: a pair, a row without partner, a column without partner."""


def align(costs: Sequence[Sequence[int | None]]) -> Positions:
    """Return as many pairs (row, column) as possible, both rising, with the least total cost.

    `costs[row][column]` is the cost of that pair; None marks an impossible pair. The recurrence of the longest common
    subsequence takes O(rows × columns) time. If only equal names are possible pairs, `f g f` and `g f` give (1, 0) and
    (2, 1).
    """
    rows = len(costs)
    columns = len(costs[0]) if rows else 0
    # `best[row][column]` is the best alignment from that row and column on: minus the number of its pairs, their cost,
    # and its first step in `_STEPS`. The smallest tuple has the most pairs and, among these, the least cost.
    best = [[(0, 0, 0)] * (columns + 1) for _ in range(rows + 1)]

    for row in range(rows - 1, -1, -1):
        line, below = best[row], best[row + 1]
        for column in range(columns - 1, -1, -1):
            choice = min((*below[column][:2], 1), (*line[column + 1][:2], 2))
            cost = costs[row][column]
            if cost is not None:
                pairs, total, _ = below[column + 1]
                choice = min(choice, (pairs - 1, total + cost, 0))
            line[column] = choice

    positions: Positions = []
    row = column = 0
    while row < rows and column < columns:
        step = best[row][column][2]
        if step == 0:
            positions.append((row, column))
        row, column = row + _STEPS[step][0], column + _STEPS[step][1]
    return positions
