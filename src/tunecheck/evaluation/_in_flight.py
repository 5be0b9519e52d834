"""Rows that a run was working on when its process died."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing

from tunecheck.datasets._reading import Dataset
from tunecheck.pipeline._journal import Recorded
from tunecheck.runs._store import Run


def rows_in_flight(
    run: Run, dataset: Dataset, evaluators: Collection[str], concurrency: int, *, asked: bool
) -> list[str]:
    """Return the ids of rows that may have been in flight when a run's process died.

    Rows are asked in order, so these are the first `concurrency` rows without an answer (if rows are `asked`), and
    answered rows on which an evaluator has given no verdict.
    """
    with closing(Recorded(run.journal, by_row=True, evaluators=frozenset(evaluators), answers=True, since=0)) as known:
        indices = {*_indices(known, evaluators, concurrency, asked)}
    return [row.id for row in dataset.rows() if row.index in indices]


def _indices(known: Recorded, evaluators: Collection[str], concurrency: int, asked: bool) -> Iterator[int]:
    answered = {*known.answered()}
    failed = {row for row in range(max(answered, default=0) + concurrency) if known.failure(row, "target")}
    done = answered | failed
    if asked:
        yield from (row for row in range(len(done) + concurrency) if row not in done)
    for row in answered:
        if any(not known.is_new(row, name) and not known.failure(row, name) for name in evaluators):
            yield row
