"""The rows behind a difference: which passed and now fail, and the other way, and what changed in their reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tunecheck.comparison._measuring import Sides, item_values
from tunecheck.comparison._pairing import Pairing
from tunecheck.comparison._results import MetricComparison, RowChange
from tunecheck.comparison._table import Column, RunTable
from tunecheck.comparison._values import text_of

if TYPE_CHECKING:
    from tunecheck.comparison._measuring import Mask
    from tunecheck.statistics._samples import Floats

_LONGEST_REASON = 2_000
_MOST_FAULTS = 50
_BETWEEN = re.compile(r"; |\n+")

LISTS = ("regressed", "fixed", "changed")


@dataclass(frozen=True, slots=True)
class RunPair:
    """Two runs and their pairs."""

    base: RunTable
    new: RunTable
    pairing: Pairing


@dataclass(slots=True)
class Changes:
    """Of one metric the positions of its changed pairs by list, the most changed first; `totals` counts all."""

    metric: str
    """What the keys of the reason begin with: `outputs.<evaluator>.<metric>`."""
    base: Floats
    new: Floats
    passes: str | None
    totals: dict[str, int] = field(default_factory=dict)
    pairs: dict[str, list[int]] = field(default_factory=dict)


def changes_of(metric: MetricComparison, sides: Sides, runs: RunPair, most: int | None) -> Changes:
    """Sort a metric's pairs into lists.

    A pair with verdicts has regressed or is fixed where its verdict changed; of several trials, where fewer or more of
    them passed. It has changed where its number did, or where it fails in both runs for another reason.
    """
    import numpy

    before, after = sides.base, sides.new
    passes = sides.metric.passes
    verdicts = None if passes is None else _verdicts(passes, sides, runs)
    worse = before > after if metric.higher_is_better else before < after
    better = before < after if metric.higher_is_better else before > after
    if verdicts is not None:
        regressed, fixed = verdicts[0] > verdicts[1], verdicts[0] < verdicts[1]
        changed = (worse | better | _other_reason(passes, runs)) & ~(regressed | fixed)
    else:
        regressed = fixed = numpy.zeros(len(before), dtype=bool)
        changed = worse | better
    both = sides.both
    found = Changes(f"outputs.{metric.evaluator}.{sides.metric.metric}", before, after, passes)
    size = numpy.abs(numpy.nan_to_num(after - before))
    for name, which in zip(LISTS, (regressed, fixed, changed), strict=True):
        places = numpy.flatnonzero(which & both)
        found.totals[name] = len(places)
        # A stable sort: rows that changed as much stay in the order of the data.
        found.pairs[name] = places[numpy.argsort(-size[places], kind="stable")][:most].tolist()
    return found


def _verdicts(passes: str, sides: Sides, runs: RunPair) -> tuple[Floats, Floats]:
    if passes == sides.metric.name:
        return sides.base, sides.new
    base, new = item_values(runs.base, passes), item_values(runs.new, passes)
    return base[list(runs.pairing.base)], new[list(runs.pairing.new)]


def _other_reason(passes: str | None, runs: RunPair) -> Mask:
    """Pairs that fail in both runs, with other words; rows of several trials are left out."""
    import numpy

    columns = [table.columns.get(passes or "") for table in (runs.base, runs.new)]
    if columns[0] is None or columns[1] is None or runs.base.items.of_row or runs.new.items.of_row:
        return numpy.zeros(len(runs.pairing.base), dtype=bool)
    before = numpy.array(columns[0].reasons, dtype=numpy.int64)[list(runs.pairing.base)]
    after = numpy.array(columns[1].reasons, dtype=numpy.int64)[list(runs.pairing.new)]
    found: Mask = (before != 0) & (after != 0) & (before != after)
    return found


Reasons = dict[tuple[int, str], str]


def add_reasons(
    metrics: Mapping[str, MetricComparison], changes: Mapping[str, Changes], runs: RunPair
) -> dict[str, MetricComparison]:
    """The metrics with their lists of rows; each run's rows are read once more for the reasons."""
    before = _Side(runs.base, runs.pairing.base)
    after = _Side(runs.new, runs.pairing.new)
    for found in changes.values():
        pairs = [pair for name in LISTS for pair in found.pairs[name]]
        for side in (before, after):
            side.want(found, pairs)
    for side in (before, after):
        side.read()
    return {
        name: _with_rows(metric, changes[name], runs, before, after) if name in changes else metric
        for name, metric in metrics.items()
    }


class _Side:
    """One run's reasons: which are wanted, then what they say."""

    def __init__(self, table: RunTable, items: Sequence[int]) -> None:
        self._table, self._items = table, items
        self._wanted: dict[int, set[str]] = {}
        self._found: Reasons = {}
        self._rows: dict[str, Mapping[int, int]] = {}

    def want(self, changes: Changes, pairs: Iterable[int]) -> None:
        self._rows[changes.metric] = self._rows_of(changes.passes)
        for pair in pairs:
            self._wanted.setdefault(self._row(changes.metric, pair), set()).add(f"{changes.metric}_reason")

    def _row(self, metric: str, pair: int) -> int:
        item = self._items[pair]
        return self._rows[metric].get(item, item)

    def _rows_of(self, passes: str | None) -> Mapping[int, int]:
        """Of each item of several trials the first that failed, else the first."""
        of_row = self._table.items.of_row
        if of_row is None:
            return {}
        column: Column | None = self._table.columns.get(passes or "")
        rows: dict[int, int] = {}
        failed: dict[int, int] = {}
        for row, item in enumerate(of_row):
            rows.setdefault(item, row)
            if column is not None and column.values[row] == 0:
                failed.setdefault(item, row)
        return rows | failed

    def read(self) -> None:
        if not self._wanted:
            return
        numbers = sorted(self._wanted)
        for number, row in zip(numbers, self._table.source.records(self._wanted), strict=False):
            for key in self._wanted[number]:
                text = text_of(row.get(key))
                if text:
                    self._found[number, key] = text[:_LONGEST_REASON]

    def reason(self, metric: str, pair: int) -> str | None:
        return self._found.get((self._row(metric, pair), f"{metric}_reason"))


def _with_rows(
    metric: MetricComparison, changes: Changes, runs: RunPair, before: _Side, after: _Side
) -> MetricComparison:
    def row(pair: int) -> RowChange:
        base_id = runs.base.items.ids[runs.pairing.base[pair]]
        new_id = runs.new.items.ids[runs.pairing.new[pair]]
        reasons = before.reason(changes.metric, pair), after.reason(changes.metric, pair)
        return RowChange(
            base_id,
            float(changes.base[pair]),
            float(changes.new[pair]),
            *reasons,
            *_faults(*reasons),
            new_id=new_id if new_id != base_id else None,
        )

    regressed, fixed, changed = (tuple(map(row, changes.pairs[name])) for name in LISTS)
    return replace(metric, regressed=regressed, fixed=fixed, changed=changed, totals=changes.totals)


def _faults(base: str | None, new: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What only the one and only the other reason says; reasons list their faults between semicolons."""
    before, after = (_BETWEEN.split(text)[:_MOST_FAULTS] if text else [] for text in (base, new))
    gone = tuple(fault for fault in before if fault and fault not in after)
    come = tuple(fault for fault in after if fault and fault not in before)
    return gone, come
