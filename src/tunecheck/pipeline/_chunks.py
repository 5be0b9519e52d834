"""How the rows of a run are cut into chunks, for several workers: rows that belong together stay together."""

import math

from tunecheck._targets import Target
from tunecheck.pipeline._plan import Plan

_MOST_ROWS = 4_000
"""Between two chunks nothing is asked for some hundredths of a second; whoever takes one over reads its records."""

_CHUNKS_EACH = 8
"""Chunks a worker, where there are enough rows: one that is slower than the others then does fewer."""

_LEAST_ROUNDS = 8
"""Calls at once a chunk has so many times over: its last ones leave places empty."""


def cut(plan: Plan, row_count: int, workers: int) -> list[list[tuple[int, int]]]:
    """The rows of each chunk, as ranges of indices."""
    fair = math.ceil(row_count / (workers * _CHUNKS_EACH))
    least = min(_LEAST_ROUNDS * plan.concurrency, math.ceil(row_count / workers))
    size = min(_MOST_ROWS, max(1, fair, least))
    target = plan.target
    if target is None or (type(target).group_key is Target.group_key and plan.group_column is None):
        return [[(begin, min(begin + size, row_count))] for begin in range(0, row_count, size)]
    return _cut_between_groups(plan, size)


def _cut_between_groups(plan: Plan, size: int) -> list[list[tuple[int, int]]]:
    """The same where rows have groups: each goes to the chunk of the first row of its group."""
    chunks: list[list[tuple[int, int]]] = [[]]
    room = size
    of_group: dict[str, int] = {}
    for row in plan.rows():
        group = plan.group_of(row)
        chunk = None if group is None else of_group.get(group)
        if chunk is None:
            if room <= 0:
                chunks.append([])
                room = size
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
