"""The best pairs of rows and columns by a table of costs: in any order, or in the order given."""

from collections.abc import Sequence

Positions = list[tuple[int, int]]
"""Pairs of positions: of an expected call or value, of an actual one."""

_INFINITE = 1 << 62


def assign(costs: Sequence[Sequence[int]]) -> Positions:
    """Return the pairs (row, column) of least total cost, as many as the shorter side has, in the order of the rows.

    Shortest augmenting paths with potentials (Kuhn 1955, Munkres 1957, in the form of Jonker and Volgenant 1987):
    time in O(short² × long).
    """
    if not costs or not costs[0]:
        return []
    rows, columns = len(costs), len(costs[0])
    if rows > columns:
        return sorted((row, column) for column, row in assign([*zip(*costs, strict=True)]))
    row_of = _augmenting_path(costs, rows, columns)
    return sorted((row - 1, column - 1) for column, row in enumerate(row_of) if column and row)


def _augmenting_path(costs: Sequence[Sequence[int]], rows: int, columns: int) -> list[int]:
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
    """Find a cheapest way from column 0 to a free column. Prices change so that no reduced cost becomes negative."""
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
    """Return as many pairs (row, column) as possible, both rising, and among those the least total cost.

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
    return _trace_back(costs, best)


def _trace_back(costs: Sequence[Sequence[int | None]], best: list[list[tuple[int, int]]]) -> Positions:
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
