"""How the rows of a run are cut into chunks, for several workers: rows that belong together stay together."""

import math
from collections.abc import Callable
from itertools import pairwise

from tunecheck._targets import Target, group_of
from tunecheck.pipeline._plan import Plan

_MOST_ROWS = 4_000
"""Between two chunks nothing is asked for some hundredths of a second; whoever takes one over reads its records."""

_CHUNKS_EACH = 4
"""Chunks a worker, where there are enough rows; the last of them are halves, so that all workers end together."""

_WHOLE = 0.75
"""Of the rows, those before the halves."""

_LEAST_ROUNDS = 8
"""Calls at once a chunk has so many times over: its last ones leave places empty."""


def cut(plan: Plan, row_count: int, workers: int) -> list[list[tuple[int, int]]]:
    """The rows of each chunk, as ranges of indices."""
    fair = math.ceil(row_count / (workers * _CHUNKS_EACH))
    least = min(_LEAST_ROUNDS * plan.concurrency, math.ceil(row_count / workers))

    def size(begin: int) -> int:
        wanted = fair if begin < row_count * _WHOLE else math.ceil(fair / 2)
        return min(_MOST_ROWS, max(1, wanted, least))

    target = plan.target
    if target is None or (type(target).group_key is Target.group_key and plan.group_column is None):
        begins = [0]
        while (begin := begins[-1] + size(begins[-1])) < row_count:
            begins.append(begin)
        return [[each] for each in pairwise([*begins, row_count])]
    return _cut_between_groups(plan, size)


def _cut_between_groups(plan: Plan, size: Callable[[int], int]) -> list[list[tuple[int, int]]]:
    """The same where rows have groups: each goes to the chunk of the first row of its group."""
    chunks: list[list[tuple[int, int]]] = [[]]
    room = size(0)
    of_group: dict[str, int] = {}
    for row in plan.rows():
        group = group_of(row, plan.target, plan.group_column)
        chunk = None if group is None else of_group.get(group)
        if chunk is None:
            if room <= 0:
                chunks.append([])
                room = size(row.index)
            chunk = len(chunks) - 1
            if group is not None:
                of_group[group] = chunk
        room -= chunk == len(chunks) - 1
        ranges = chunks[chunk]
        if ranges and ranges[-1][1] == row.index:
            ranges[-1] = (ranges[-1][0], row.index + 1)
        else:
            ranges.append((row.index, row.index + 1))
    return chunks
