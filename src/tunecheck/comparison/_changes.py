"""The rows behind a difference: regressed, fixed, flaky and otherwise changed rows, with their reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy

from tunecheck._faults import sentence, title
from tunecheck.comparison._comparison import MetricComparison, RowChange
from tunecheck.comparison._measuring import Mask, PairedValues, item_values
from tunecheck.comparison._pairs import RunPair
from tunecheck.pipeline._finished_rows import RecordedVerdict, VerdictReader
from tunecheck.results import ResultsFile, RunTable
from tunecheck.statistics._samples import Floats

_LONGEST_REASON = 2_000
_MOST_FAULTS = 50
LISTS = ("regressed", "fixed", "flaky", "changed")


@dataclass(frozen=True, slots=True)
class Changes:
    """The changed pairs of a metric, by the lists of `LISTS`.

    `pairs` has the positions of the listed pairs, most changed first; `totals` counts all changed pairs.
    """

    sides: PairedValues
    reader: VerdictReader
    totals: Mapping[str, int]
    pairs: Mapping[str, Sequence[int]]


def changes_of(sides: PairedValues, runs: RunPair, most: int | None) -> Changes:
    """Return a metric's changed pairs in the lists of `LISTS`: in each at most `most`, the most changed ones first.

    A pair is regressed or fixed if its verdict changed; with several trials, if all passed in one run and none in the
    other. A pair is flaky if its trials disagree in a run. All other pairs are changed if their number changed, or if
    they fail in both runs for different reasons.
    """
    metric = sides.metric
    regressed = fixed = flaky = numpy.zeros(len(sides.base), dtype=bool)
    changed = sides.base != sides.new
    if metric.passes is not None:
        base, new = _pass_shares(metric.passes, sides, runs)
        flaky = ((base > 0) & (base < 1)) | ((new > 0) & (new < 1))
        regressed, fixed = (base == 1) & (new == 0), (base == 0) & (new == 1)
        changed = (changed | _fails_for_other_reason(metric.passes, runs)) & ~(regressed | fixed | flaky)
    sizes = numpy.abs(numpy.nan_to_num(sides.new - sides.base))
    totals, pairs = {}, {}
    for name, mask in zip(LISTS, (regressed, fixed, flaky, changed), strict=True):
        positions = numpy.flatnonzero(mask & sides.both)
        totals[name] = len(positions)
        # A stable sort: rows that changed as much stay in the order of the data.
        pairs[name] = positions[numpy.argsort(-sizes[positions], kind="stable")][:most].tolist()
    return Changes(sides, VerdictReader(metric.evaluator, metric.metric), totals, pairs)


def _pass_shares(passes: str, sides: PairedValues, runs: RunPair) -> tuple[Floats, Floats]:
    """Return the share of passed trials of each pair in the base and in the new run; `passes` names the column."""
    if passes == sides.metric.name:
        return sides.base, sides.new
    return item_values(runs.base, passes)[runs.pairing.base], item_values(runs.new, passes)[runs.pairing.new]


def _fails_for_other_reason(passes: str, runs: RunPair) -> Mask:
    """Return a mask of the pairs that fail in both runs for different reasons; none if rows have several trials."""
    base, new = runs.base.columns.get(passes), runs.new.columns.get(passes)
    if base is None or new is None or runs.base.items.of_row or runs.new.items.of_row:
        return numpy.zeros(len(runs.pairing.base), dtype=bool)
    base_reasons = numpy.array(base.reasons, dtype=numpy.int64)[runs.pairing.base]
    new_reasons = numpy.array(new.reasons, dtype=numpy.int64)[runs.pairing.new]
    differs: Mask = (base_reasons != 0) & (new_reasons != 0) & (base_reasons != new_reasons)  # 0: the row did not fail
    return differs


def with_changed_rows(metrics: Mapping[str, MetricComparison], runs: RunPair) -> dict[str, MetricComparison]:
    """Return all metrics, the tested ones with their lists of changed rows; read both runs again for the reasons."""
    tested = {name: metric for name, metric in metrics.items() if metric.tested}
    changes = {name: changes_of(runs.sides(metric.key), runs, runs.settings.rows) for name, metric in tested.items()}
    base = _read_verdicts(runs.base, runs.pairing.base, changes)
    new = _read_verdicts(runs.new, runs.pairing.new, changes)
    with_rows = {name: _with_rows(metrics[name], changes[name], runs, base[name], new[name]) for name in changes}
    return {**metrics, **with_rows}


VerdictsByPair = dict[int, tuple[RecordedVerdict, Sequence[str]]]
"""One run's verdict on each listed pair, and a line for each of its faults."""


def _read_verdicts(table: RunTable, items: Sequence[int], changes: Mapping[str, Changes]) -> dict[str, VerdictsByPair]:
    """Return one run's verdicts on the listed pairs, by metric; `items` has the run's item of each pair.

    The run's rows are read in one pass.
    """
    wanted: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)  # metrics and pairs by the row's number
    for name, change in changes.items():
        row_of = _row_of_item(table, change.sides.metric.passes)
        for pair in chain(*change.pairs.values()):
            wanted[row_of.get(items[pair], items[pair])].append((name, pair))
    numbers, source = sorted(wanted), table.opened.rows
    if isinstance(source, ResultsFile):
        records = source.records(numbers, {key for change in changes.values() for key in change.reader.keys})
    else:
        records = (row for number, row in enumerate(source.records()) if number in wanted)
    verdicts: dict[str, VerdictsByPair] = {name: {} for name in changes}
    for number, row in zip(numbers, records, strict=False):
        for name, pair in wanted[number]:
            reader = changes[name].reader
            verdict = reader.read({key: row[key] for key in reader.keys if row.get(key) is not None})
            verdicts[name][pair] = verdict, _fault_lines(verdict)
    return verdicts


def _row_of_item(table: RunTable, passes: str | None) -> Mapping[int, int]:
    """Return for each item with several trials the row to show: the first failed trial, else the first trial."""
    column = table.columns.get(passes or "")
    first: dict[int, int] = {}
    first_failed: dict[int, int] = {}
    for row, item in enumerate(table.items.of_row or ()):
        first.setdefault(item, row)
        if column is not None and column.values[row] == 0:
            first_failed.setdefault(item, row)
    return first | first_failed


def _with_rows(
    metric: MetricComparison,
    changes: Changes,
    runs: RunPair,
    base_verdicts: VerdictsByPair,
    new_verdicts: VerdictsByPair,
) -> MetricComparison:
    """Return the metric with its four lists of rows; the arguments have both runs' verdicts on the listed pairs."""

    def row_change(pair: int) -> RowChange:
        """Return one pair's numbers, reasons, faults and causes in both runs."""
        base_item, new_item = runs.pairing.base[pair], runs.pairing.new[pair]
        base_id, new_id = runs.base.items.ids[base_item], runs.new.items.ids[new_item]
        (base, base_faults), (new, new_faults) = base_verdicts[pair], new_verdicts[pair]
        return RowChange(
            row_id=base_id,
            new_id=new_id if new_id != base_id else None,
            base=float(changes.sides.base[pair]),
            new=float(changes.sides.new[pair]),
            base_reason=base.reason[:_LONGEST_REASON] or None,
            new_reason=new.reason[:_LONGEST_REASON] or None,
            gone=tuple(line for line in base_faults if line not in new_faults),
            come=tuple(line for line in new_faults if line not in base_faults),
            base_faults=base.faults[:_MOST_FAULTS],
            new_faults=new.faults[:_MOST_FAULTS],
            base_causes=tuple(sorted((runs.base.causes or {}).get(base_item, ()))),
            new_causes=tuple(sorted((runs.new.causes or {}).get(new_item, ()))),
        )

    regressed, fixed, flaky, changed = (tuple(map(row_change, changes.pairs[name])) for name in LISTS)
    return replace(metric, regressed=regressed, fixed=fixed, flaky=flaky, changed=changed, totals=changes.totals)


def _fault_lines(verdict: RecordedVerdict) -> list[str]:
    """Return a line for each fault; the row's reason replaces general faults without a message of their own."""
    lines = []
    for fault in verdict.faults[:_MOST_FAULTS]:
        # The codes `own` and `below_threshold` tell no more than that the row failed.
        if fault.message is not None or fault.code not in ("own", "below_threshold"):
            lines.append(sentence([fault]))
        elif verdict.reason or fault.code == "own":
            lines.append(verdict.reason or title("own"))
    return [line[:_LONGEST_REASON] for line in lines if line]
