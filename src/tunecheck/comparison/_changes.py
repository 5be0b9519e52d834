"""The rows behind a difference: regressed, fixed, flaky and otherwise changed rows, with their reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy

from tunecheck._faults import sentence, title
from tunecheck.comparison._comparison import MetricComparison, RowChange
from tunecheck.comparison._measuring import Mask, PairedValues, item_values
from tunecheck.comparison._pairs import RunPair
from tunecheck.pipeline._finished_rows import Verdict, VerdictReader
from tunecheck.results import MetricColumn, ResultsFile, RunTable
from tunecheck.statistics._samples import Floats

_LONGEST_REASON = 2_000
_MOST_FAULTS = 50
LISTS = ("regressed", "fixed", "flaky", "changed")


@dataclass(slots=True)
class Changes:
    """The positions of a metric's changed pairs by list, most changed first; `totals` counts all."""

    reader: VerdictReader
    key: str
    """The prefix of the keys of the metric's verdicts: `outputs.<evaluator>.<metric>`."""
    base: Floats
    new: Floats
    passes: str | None
    totals: dict[str, int] = field(default_factory=dict)
    pairs: dict[str, list[int]] = field(default_factory=dict)


def changes_of(metric: MetricComparison, sides: PairedValues, runs: RunPair, most: int | None) -> Changes:
    """Sort a metric's pairs into the lists of `LISTS`.

    A pair is regressed or fixed if its verdict changed; with several trials, if all passed in one run and none in the
    other. It is flaky if its trials disagree in a run. It is changed if its number changed, or if it fails in both
    runs for different reasons.
    """

    before, after = sides.base, sides.new
    passes = sides.metric.passes
    verdicts = None if passes is None else _verdicts(passes, sides, runs)
    worse = before > after if metric.higher_is_better else before < after
    better = before < after if metric.higher_is_better else before > after
    regressed = fixed = flaky = numpy.zeros(len(before), dtype=bool)
    changed = worse | better
    if verdicts is not None:
        had, has = verdicts
        flaky = ((had > 0) & (had < 1)) | ((has > 0) & (has < 1))
        regressed, fixed = (had == 1) & (has == 0), (had == 0) & (has == 1)
        changed = (changed | _other_reason(passes, runs)) & ~(regressed | fixed | flaky)
    both = sides.both
    name = sides.metric.metric
    changes = Changes(
        VerdictReader(metric.evaluator, name), f"outputs.{metric.evaluator}.{name}", before, after, passes
    )
    size = numpy.abs(numpy.nan_to_num(after - before))
    for name, which in zip(LISTS, (regressed, fixed, flaky, changed), strict=True):
        places = numpy.flatnonzero(which & both)
        changes.totals[name] = len(places)
        # A stable sort: rows that changed as much stay in the order of the data.
        changes.pairs[name] = places[numpy.argsort(-size[places], kind="stable")][:most].tolist()
    return changes


def _verdicts(passes: str, sides: PairedValues, runs: RunPair) -> tuple[Floats, Floats]:
    if passes == sides.metric.name:
        return sides.base, sides.new
    base, new = item_values(runs.base, passes), item_values(runs.new, passes)
    return base[runs.pairing.base], new[runs.pairing.new]


def _other_reason(passes: str | None, runs: RunPair) -> Mask:
    """Return which pairs fail in both runs for different reasons; none if rows have several trials."""

    columns = [table.columns.get(passes or "") for table in (runs.base, runs.new)]
    if columns[0] is None or columns[1] is None or runs.base.items.of_row or runs.new.items.of_row:
        return numpy.zeros(len(runs.pairing.base), dtype=bool)
    before = numpy.array(columns[0].reasons, dtype=numpy.int64)[runs.pairing.base]
    after = numpy.array(columns[1].reasons, dtype=numpy.int64)[runs.pairing.new]
    other: Mask = (before != 0) & (after != 0) & (before != after)
    return other


def add_reasons(
    metrics: Mapping[str, MetricComparison], changes: Mapping[str, Changes], runs: RunPair
) -> dict[str, MetricComparison]:
    """Return the metrics with their lists of rows; each run's rows are read again for the reasons."""
    before = _Side(runs.base, runs.pairing.base)
    after = _Side(runs.new, runs.pairing.new)
    for each in changes.values():
        pairs = [pair for name in LISTS for pair in each.pairs[name]]
        for side in (before, after):
            side.want(each, pairs)
    for side in (before, after):
        side.read()
    return {
        name: _with_rows(metric, changes[name], runs, before, after) if name in changes else metric
        for name, metric in metrics.items()
    }


class _Side:
    """Reads the verdicts of one run: first `want` collects the rows needed, then `read` reads them."""

    def __init__(self, table: RunTable, items: Sequence[int]) -> None:
        self._table, self._items = table, items
        self._wanted: dict[int, dict[str, VerdictReader]] = {}  # row number -> key of the metric -> reader
        self._verdicts: dict[tuple[int, str], tuple[Verdict, Sequence[str]]] = {}
        self._rows: dict[str, Mapping[int, int]] = {}

    def want(self, changes: Changes, pairs: Iterable[int]) -> None:
        self._rows[changes.key] = self._rows_of(changes.passes)
        for pair in pairs:
            self._wanted.setdefault(self._row(changes.key, pair), {})[changes.key] = changes.reader

    def _row(self, key: str, pair: int) -> int:
        item = self._items[pair]
        return self._rows[key].get(item, item)

    def _rows_of(self, passes: str | None) -> Mapping[int, int]:
        """Return one row for each item: its first failed trial, else its first trial."""
        of_row = self._table.items.of_row
        if of_row is None:
            return {}
        column: MetricColumn | None = self._table.columns.get(passes or "")
        rows: dict[int, int] = {}
        failed: dict[int, int] = {}
        for row, item in enumerate(of_row):
            rows.setdefault(item, row)
            if column is not None and column.values[row] == 0:
                failed.setdefault(item, row)
        return rows | failed

    def read(self) -> None:
        """Read the collected rows in one pass and keep their verdicts and faults."""
        if not self._wanted:
            return
        numbers, source = sorted(self._wanted), self._table.source
        if isinstance(source, ResultsFile):
            readers = {key: reader for of_row in self._wanted.values() for key, reader in of_row.items()}
            rows = source.picked(numbers, [key for reader in readers.values() for key in reader.keys])
        else:
            rows = source.records(self._wanted)
        for number, row in zip(numbers, rows, strict=False):
            for key, reader in self._wanted[number].items():
                verdict = reader.read({name: row[name] for name in reader.keys if row.get(name) is not None})
                self._verdicts[number, key] = verdict, _fault_lines(verdict)

    def verdict(self, key: str, pair: int) -> tuple[Verdict, Sequence[str]]:
        """Return the verdict of a pair, and its faults in words."""
        return self._verdicts.get((self._row(key, pair), key), (Verdict("error"), ()))


def _with_rows(
    metric: MetricComparison, changes: Changes, runs: RunPair, before: _Side, after: _Side
) -> MetricComparison:
    def row(pair: int) -> RowChange:
        base_id = runs.base.items.ids[runs.pairing.base[pair]]
        new_id = runs.new.items.ids[runs.pairing.new[pair]]
        (base, old_faults), (new, new_faults) = before.verdict(changes.key, pair), after.verdict(changes.key, pair)
        return RowChange(
            row_id=base_id,
            new_id=new_id if new_id != base_id else None,
            base=float(changes.base[pair]),
            new=float(changes.new[pair]),
            base_reason=base.reason[:_LONGEST_REASON] or None,
            new_reason=new.reason[:_LONGEST_REASON] or None,
            gone=_only(old_faults, new_faults),
            come=_only(new_faults, old_faults),
            base_faults=base.faults[:_MOST_FAULTS],
            new_faults=new.faults[:_MOST_FAULTS],
        )

    regressed, fixed, flaky, changed = (tuple(map(row, changes.pairs[name])) for name in LISTS)
    return replace(metric, regressed=regressed, fixed=fixed, flaky=flaky, changed=changed, totals=changes.totals)


def _only(faults: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return the faults that are not among the others."""
    return tuple([words for words in faults if words not in others]) if others else tuple(faults)


def _fault_lines(verdict: Verdict) -> list[str]:
    """Return a line for each fault; the row's reason replaces faults without a message of their own."""
    lines = (
        verdict.reason or title("own") * (fault.code == "own")
        if fault.code in ("own", "below_threshold") and fault.message is None
        else sentence([fault])
        for fault in verdict.faults[:_MOST_FAULTS]
    )
    return [line[:_LONGEST_REASON] for line in lines if line]
