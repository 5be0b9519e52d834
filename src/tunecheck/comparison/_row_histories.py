"""The history of each row over several runs: right, never right, fixed, broken, back and forth, or flaky."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tunecheck.comparison._common_metrics import split_slice
from tunecheck.comparison._comparison import RowHistory, RowOverRuns, RowsOverRuns

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from tunecheck.comparison._pairs import Runs
    from tunecheck.statistics._samples import Floats

OUTCOMES: tuple[RowHistory, ...] = ("right", "never right", "fixed", "broken", "back and forth", "flaky")


@dataclass(frozen=True, slots=True)
class RowHistories:
    """For each row, the index of its outcome in `OUTCOMES`, and of the run that fixed or broke it (-1: none)."""

    outcomes: NDArray[numpy.int8]
    since: NDArray[numpy.int64]


def row_histories(passed: Floats) -> RowHistories:
    """Classify rows; `passed` is the share of each row's trials that passed in each run: shape (rows, runs).

    A row changes between two runs if all its trials passed in one and failed in the other. One change: fixed or broken,
    dated by the run that changed it. Several changes: back and forth. A row is flaky if its trials disagree in the last
    run, in some run while the others agree, or while it went back and forth.
    """
    import numpy

    runs = passed.shape[1]
    agreeing = (passed == 0) | (passed == 1)
    last = numpy.zeros(len(passed), dtype=numpy.int64)  # the latest run so far in which all trials agreed
    since = numpy.full(len(passed), -1)
    changes = numpy.zeros(len(passed), dtype=numpy.int64)
    rows = numpy.arange(len(passed))
    known = agreeing[:, 0].copy()
    for run in range(1, runs):
        told = agreeing[:, run]
        changed = known & told & (passed[:, run] != passed[rows, last])
        changes += changed
        since[changed] = run
        last[told] = run
        known |= told
    ends_right = passed[:, -1] == 1
    whole, once = agreeing.all(axis=1), (changes == 1) & agreeing[:, -1]
    steady = whole & (changes == 0)
    outcomes = numpy.full(len(passed), OUTCOMES.index("flaky"), dtype=numpy.int8)
    for outcome, which in (
        ("right", steady & ends_right),
        ("never right", steady & ~ends_right),
        ("fixed", once & ends_right),
        ("broken", once & ~ends_right),
        ("back and forth", whole & (changes > 1)),
    ):
        outcomes[which] = OUTCOMES.index(outcome)
    since[~once] = -1
    return RowHistories(outcomes, since)


def rows_over_runs(metric: str, passes: str | None, runs: Runs, most: int | None) -> RowsOverRuns | None:
    """Return the history of rows with a verdict in every run, or None without verdicts; `passes` is their column."""
    import numpy

    from tunecheck.comparison._rankings import over_all_runs

    if passes is None or not all(passes in table.columns for table in runs.tables):
        return None
    _, where = split_slice(metric)
    passed = over_all_runs(passes if where is None else f"{passes}[{where}]", runs)
    items = numpy.flatnonzero(~numpy.isnan(passed).any(axis=1))
    passed = passed[items]
    found = row_histories(passed)
    names = tuple(table.info.id for table in runs.tables)
    counts = numpy.bincount(found.outcomes, minlength=len(OUTCOMES)).tolist()
    broken = Counter(found.since[found.outcomes == OUTCOMES.index("broken")].tolist())
    order = numpy.argsort(-found.outcomes, kind="stable")  # flaky rows first, then back and forth, then broken
    listed = [int(at) for at in order if found.outcomes[at]][:most]
    return RowsOverRuns(
        metric,
        names,
        dict(zip(OUTCOMES, counts, strict=True)),
        {names[run]: broken[run] for run in sorted(broken)},
        tuple(_row(at, runs.base.items.ids[items[at]], passed[at].tolist(), found, names) for at in listed),
    )


def _row(at: int, row_id: str, passed: Sequence[float], found: RowHistories, names: Sequence[str]) -> RowOverRuns:
    since = int(found.since[at])
    return RowOverRuns(row_id, OUTCOMES[found.outcomes[at]], tuple(passed), names[since] if since >= 0 else None)
