"""Pair the items of two lists: equal items, the cheapest pairs, or the cheapest pairs in order.

`_match.py` pairs calls with these functions, and `_values.py` the items of lists whose order does not count. A pair is
(row, column): the position of an item in the first list, and the position of its partner in the second.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import TypeVar

from tunecheck._json import JSON
from tunecheck.calls._model import MAX_DEPTH

Positions = list[tuple[int, int]]
"""Pairs (row, column): of an expected and an actual call or value."""

_Item = TypeVar("_Item")


def unpaired(first: Sequence[_Item], second: Sequence[_Item], pairs: Positions) -> tuple[list[_Item], list[_Item]]:
    """Return the items of both lists that are in none of these pairs."""
    rows = {row for row, _ in pairs}
    columns = {column for _, column in pairs}
    open_rows = [item for row, item in enumerate(first) if row not in rows]
    return open_rows, [item for column, item in enumerate(second) if column not in columns]


# -- equal items


def pair_equal(first: Sequence[JSON], second: Sequence[JSON]) -> Positions:
    """Pair each value of the first list with an unused value of the second that has the same type and content."""
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

_INFINITE = 1 << 62


def assign(costs: Sequence[Sequence[int]]) -> Positions:
    """Give each row a column of its own at the least total cost; on the longer side, some stay unpaired.

    `costs[row][column]` is the cost of that pair. Returns the pairs by row. Shortest augmenting paths with prices (Kuhn
    1955, Munkres 1957, in the form of Jonker and Volgenant 1987): time in O(short² × long).
    """
    if not costs or not costs[0]:
        return []
    rows, columns = len(costs), len(costs[0])
    if rows > columns:
        return transpose(assign([*zip(*costs, strict=True)]))
    # From here on, rows and columns count from 1. Column 0 has the row being placed, and a free column has row 0.
    row_of = [0] * (columns + 1)
    row_prices = [0] * (rows + 1)
    column_prices = [0] * (columns + 1)
    for row in range(1, rows + 1):
        row_of[0] = row
        came_from, column = _shortest_path(costs, row_of, row_prices, column_prices)
        while column:
            row_of[column] = row_of[came_from[column]]
            column = came_from[column]
    return sorted((row - 1, column - 1) for column, row in enumerate(row_of) if column and row)


def transpose(positions: Positions) -> Positions:
    """Return the pairs with both sides exchanged, by row."""
    return sorted((row, column) for column, row in positions)


def _shortest_path(
    costs: Sequence[Sequence[int]], row_of: list[int], row_prices: list[int], column_prices: list[int]
) -> tuple[list[int], int]:
    """Find the cheapest chain of moves that gives the row in column 0 a free column.

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
        nearest, step = 0, _INFINITE
        for other in unreached:
            reduced = row_costs[other - 1] - row_price - column_prices[other]
            if reduced < distances[other]:
                distances[other] = reduced
                came_from[other] = column
            if distances[other] < step:
                nearest, step = other, distances[other]
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


def align(costs: Sequence[Sequence[int | None]]) -> Positions:
    """Return as many pairs (row, column) as possible, both rising, with the least total cost.

    `costs[row][column]` is the cost of that pair; None marks an impossible pair. The recurrence of the longest common
    subsequence takes O(rows × columns) time.
    """
    rows = len(costs)
    columns = len(costs[0]) if rows else 0
    best = [[(0, 0)] * (columns + 1) for _ in range(rows + 1)]  # the argument of _trace_back
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

    `best[row][column]` is (minus the number of pairs, their cost) of the best alignment from that row and column on.
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
