"""The sources of a difference: changed rows with their reasons, slices, causes, and figures of plug-ins.

A changed pair is in one list, the first that applies (`changes_of`):

  regressed   passed in the base, failed in the new run; with several trials, all of them
  fixed       the reverse
  flaky       trials disagree in one of the runs
  changed     another number, or another reason for failing in both runs

Metrics without verdicts have only changed pairs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import msgspec
import numpy
from msgspec.structs import replace

from tunecheck._faults import cause_named, order_causes, sentence, title
from tunecheck.comparison import _measuring as measuring
from tunecheck.comparison._comparison import CauseChange, MetricComparison, Part, RowChange
from tunecheck.comparison._pairs import RunPair
from tunecheck.pipeline._finished_rows import RecordedVerdict, VerdictReader
from tunecheck.results import ResultsFile, RunTable
from tunecheck.statistics import Paired, mcnemar, smallest_difference

_LONGEST_REASON = 2_000  # characters
_MOST_FAULTS = 50  # of one row
LISTS = ("regressed", "fixed", "flaky", "changed")


class Changes(msgspec.Struct, frozen=True):
    """The changed pairs of a metric, by the lists of `LISTS`.

    `pairs` has the positions of the listed pairs, most changed first; `totals` counts each list's pairs, listed or not.
    """

    sides: measuring.PairedValues
    reader: VerdictReader
    totals: Mapping[str, int]
    pairs: Mapping[str, Sequence[int]]


def changes_of(sides: measuring.PairedValues, runs: RunPair, most: int | None) -> Changes:
    """Return a metric's changed pairs in the lists of `LISTS`: at most `most` in each (None: all), most changed first.

    A pair is regressed or fixed if its verdict changed; with several trials, if all passed in one run and none in the
    other. A pair is flaky if its trials disagree in a run. All other pairs are changed if their number changed, or if
    they fail in both runs for different reasons. A pair without a number in one of the runs is in no list.
    """
    metric = sides.metric
    regressed = fixed = flaky = numpy.zeros(len(sides.base), dtype=bool)
    changed = sides.base != sides.new
    # A mean may belong to a metric with verdicts, in another column: `passes`.
    if metric.passes is not None:
        base, new = (measuring.item_values(table, metric.passes)[items] for table, items in runs.tables_with_items)
        flaky = ((base > 0) & (base < 1)) | ((new > 0) & (new < 1))
        regressed, fixed = (base == 1) & (new == 0), (base == 0) & (new == 1)
        changed = (changed | _fails_for_other_reason(metric.passes, runs)) & ~(regressed | fixed | flaky)

    # A pair without both numbers is left out below; NaN becomes 0 only for the sort.
    sizes = numpy.abs(numpy.nan_to_num(sides.new - sides.base))
    totals, pairs = {}, {}
    for name, mask in zip(LISTS, (regressed, fixed, flaky, changed), strict=True):
        positions = numpy.flatnonzero(mask & sides.both)
        totals[name] = len(positions)
        # A stable sort: rows that changed as much stay in the order of the data.
        pairs[name] = positions[numpy.argsort(-sizes[positions], kind="stable")][:most].tolist()

    return Changes(sides, VerdictReader(metric.evaluator, metric.metric), totals, pairs)


def _fails_for_other_reason(passes: str, runs: RunPair) -> measuring.Mask:
    """Return a mask of the pairs that fail in both runs for different reasons; `passes` names the column of verdicts.

    No pair is in the mask if a run lacks the column, or if rows have several trials.
    """
    if any(passes not in table.columns or table.items.of_row for table in (runs.base, runs.new)):
        return numpy.zeros(len(runs.pairing.base), dtype=bool)

    # A column has a hash of each reason, so equal numbers are equal reasons. 0: the row did not fail.
    base, new = (numpy.array(table.columns[passes].reasons)[items] for table, items in runs.tables_with_items)
    differs: measuring.Mask = (base != 0) & (new != 0) & (base != new)
    return differs


def with_changed_rows(metrics: Mapping[str, MetricComparison], runs: RunPair) -> dict[str, MetricComparison]:
    """Return all metrics, the tested ones with their lists of changed rows.

    The rows of both runs are read again, for the reasons why rows failed.
    """
    tested = {name: metric for name, metric in metrics.items() if metric.tested}
    changes = {name: changes_of(runs.sides(metric.key), runs, runs.settings.rows) for name, metric in tested.items()}

    # The tables have numbers and hashes of reasons, but no texts: rows of these lists are read once more.
    base, new = (_read_verdicts(table, items, changes) for table, items in runs.tables_with_items)
    with_rows = {name: _with_rows(metrics[name], changes[name], runs, (base[name], new[name])) for name in changes}
    return {**metrics, **with_rows}


VerdictsByPair = dict[int, tuple[RecordedVerdict, Sequence[str]]]
"""One run's verdict on each listed pair, and a line for each of its faults."""


def _read_verdicts(table: RunTable, items: Sequence[int], changes: Mapping[str, Changes]) -> dict[str, VerdictsByPair]:
    """Return one run's verdicts on the listed pairs, by metric; `items[pair]` is the pair's item in this run.

    The run's rows are read in one pass.
    """
    wanted: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)  # metrics and pairs by the row's number
    for name, change in changes.items():
        # An item with several trials has a row for each; `_row_of_item` chooses one. Else both numbers are equal.
        row_of = _row_of_item(table, change.sides.metric.passes)
        for pair in chain(*change.pairs.values()):
            # Several metrics may list the same row, which is read once for all of them.
            wanted[row_of.get(items[pair], items[pair])].append((name, pair))

    # A results file yields the wanted rows alone; other sources are read as a whole.
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
    """Return for each item with trials the row to show: its first failed trial, else its first trial.

    The result is empty if the run has no trials. `passes` names the column of verdicts, if there is one.
    """
    column = table.columns.get(passes or "")
    # From the last row to the first, so that the first one stays.
    rows = [*enumerate(table.items.of_row or ())][::-1]
    failed = [] if column is None else [(row, item) for row, item in rows if column.values[row] == 0]
    return {item: row for row, item in (*rows, *failed)}


def _with_rows(
    metric: MetricComparison, changes: Changes, runs: RunPair, verdicts: tuple[VerdictsByPair, VerdictsByPair]
) -> MetricComparison:
    """Return the metric with its four lists of rows; `verdicts` are both runs' verdicts on the listed pairs."""

    def row_change(pair: int) -> RowChange:
        """Return one pair's numbers, reasons, faults and causes in both runs."""
        base_item, new_item = runs.pairing.base[pair], runs.pairing.new[pair]
        base_id, new_id = runs.base.items.ids[base_item], runs.new.items.ids[new_item]
        (base, base_lines), (new, new_lines) = verdicts[0][pair], verdicts[1][pair]
        return RowChange(
            row_id=base_id,
            new_id=new_id if new_id != base_id else None,
            base=float(changes.sides.base[pair]),
            new=float(changes.sides.new[pair]),
            base_reason=base.reason[:_LONGEST_REASON] or None,
            new_reason=new.reason[:_LONGEST_REASON] or None,
            gone=tuple(line for line in base_lines if line not in new_lines),
            come=tuple(line for line in new_lines if line not in base_lines),
            base_faults=base.faults[:_MOST_FAULTS],
            new_faults=new.faults[:_MOST_FAULTS],
            base_causes=tuple(sorted((runs.base.causes or {}).get(base_item, ()))),
            new_causes=tuple(sorted((runs.new.causes or {}).get(new_item, ()))),
        )

    regressed, fixed, flaky, changed = (tuple(map(row_change, changes.pairs[name])) for name in LISTS)
    return replace(metric, regressed=regressed, fixed=fixed, flaky=flaky, changed=changed, totals=changes.totals)


def _fault_lines(verdict: RecordedVerdict) -> list[str]:
    """Return a line for each of the first 50 faults.

    If a fault tells no more than that the row failed, its line is the row's reason. Without a reason, such a fault has
    its code's title (`own`) or no line (`below_threshold`).
    """
    lines = []
    for fault in verdict.faults[:_MOST_FAULTS]:
        # The codes `own` and `below_threshold` tell no more than that the row failed.
        if fault.message is not None or fault.code not in ("own", "below_threshold"):
            lines.append(sentence([fault]))
        elif verdict.reason or fault.code == "own":
            lines.append(verdict.reason or title("own"))
    return [line[:_LONGEST_REASON] for line in lines if line]


# -- slices, causes and figures of plug-ins

MOST_PARTS = 50
"""The most values of a column that gives slices."""

FEWEST_OF_A_SLICE, MOST_SLICES = 20, 20
"""Limits for columns that the run was not grouped by: the fewest rows of a slice, and the most values of the column."""

_DRAWS = 2_000
"""Bootstrap samples and sign flips for each slice; fewer than usual, because there are many slices."""


def parts_of(pair: RunPair, metric: MetricComparison) -> tuple[Part, ...]:
    """Compare the metric on the slices of the data: the rows of each value of each column.

    Slices of columns that the runs were grouped by come first; such a column has 2 to 50 values. Other columns have 2
    to 20 values, and give slices only for values with at least 20 rows, and not for the same rows as an earlier slice.
    If the metric is itself a slice, its whole metric is compared. The result is empty if the runs' judges differ.

    Example: the columns domain (named) and source (found in the data) have the same rows for `domain=refund` and
    `source=crm`. Only the first is a slice.
    """
    if metric.judge == "different":
        return ()

    # The metric `match[domain=refund]` gives the slices of `match`.
    sides = pair.sides(measuring.split_slice(metric.key)[0])
    parts: list[Part] = []
    earlier_masks: set[bytes] = set()
    named = dict.fromkeys([*pair.base.groups, *pair.new.groups])

    for column in dict.fromkeys([*named, *pair.base.slices, *pair.new.slices]):
        # Columns that the user chose may have small slices and many values.
        fewest, most = (1, MOST_PARTS) if column in named else (FEWEST_OF_A_SLICE, MOST_SLICES)
        masks = {value: mask & sides.both for value, mask in pair.rows_by_value(column).items()}
        # One value of a column is no slice of the rows, and too many values are ids or free text.
        if not 1 < sum(bool(mask.any()) for mask in masks.values()) <= most:
            continue

        masks = {value: mask for value, mask in masks.items() if mask.sum() >= fewest}
        # A column that was found may only rename an earlier one, such as an id of a category.
        if column not in named:
            masks = {value: mask for value, mask in masks.items() if mask.tobytes() not in earlier_masks}

        earlier_masks |= {mask.tobytes() for mask in masks.values()}
        slices = []
        for value, mask in masks.items():
            statistics = measuring.compare_pairs(sides, mask, pair.settings, draws=_DRAWS)
            slices.append(part_of(column, value, statistics, named=column in named))
        parts += with_verdicts(slices, metric.higher_is_better)

    return tuple(parts)


def part_of(column: str, value: str, statistics: Paired, title: str = "", *, named: bool = True) -> Part:
    """Return a slice with its statistics, without a verdict.

    `title` is the heading of a plug-in's figures, "" for a slice. `named`: the run was grouped by the column.
    """
    difference = statistics.difference
    # If no row changed, the difference is 0 and has no spread.
    moved = (difference.standard_error or 0.0) > 0 or bool(difference.value)

    smallest = None if title else smallest_difference(statistics)
    figures = (statistics.base, statistics.new, difference, statistics.p_value)
    return Part(column, value, *figures, moved=moved, smallest_difference=smallest, title=title, named=named)


def with_verdicts(parts: Sequence[Part], higher_is_better: bool) -> Iterator[Part]:
    """Yield a column's slices, or a plug-in's figures, with corrected p-values and verdicts.

    A plug-in's figure `overall` is tested by itself.
    """
    # Only figures of plug-ins have a title; a slice may have any value.
    are_overall = [part.value == "overall" and bool(part.title) for part in parts]
    # A figure over everything is no slice, so it neither weakens their tests nor is weakened by them.
    adjusted = measuring.correct_by_holm([(part.p_value, part.moved) for part in parts], are_overall)
    for part, p_value in zip(parts, adjusted, strict=True):
        verdict = measuring.shown_verdict(part.difference, p_value, higher_is_better=higher_is_better)
        yield replace(part, p_adjusted=p_value, verdict=verdict)


_NOTHING: frozenset[str] = frozenset()


def cause_changes(runs: RunPair) -> tuple[CauseChange, ...]:
    """Return how often each cause of failure occurs in the paired rows of both runs, largest growth first.

    A row with several trials has the causes of all its trials. The result is empty if a run records no causes.
    """
    base, new = runs.base.causes, runs.new.causes
    if base is None or new is None:
        return ()

    items = zip(runs.pairing.base, runs.pairing.new, strict=True)
    # Few pairs of sets of causes differ, so each is looked at once.
    pairs = Counter((base.get(base_item, _NOTHING), new.get(new_item, _NOTHING)) for base_item, new_item in items)
    # By code, the number of pairs by whether the base and the new run have the cause.
    rows: defaultdict[str, Counter[tuple[bool, bool]]] = defaultdict(Counter)
    for (before, after), count in pairs.items():
        for code in before | after:
            rows[code][code in before, code in after] += count

    changes = []
    for code in order_causes(rows.keys()):
        cause, both = cause_named(code), rows[code][True, True]
        only_base, only_new = rows[code][True, False], rows[code][False, True]
        # [1] is the mid-p value; rows with the cause in both runs or in neither say nothing.
        p_value, counts = mcnemar(only_base, only_new)[1], (both + only_base, both + only_new, only_base, only_new)
        changes.append(CauseChange(code, cause.title, cause.side or "model", *counts, p_value, p_value))

    tests = [(change.p_value, change.only_base + change.only_new > 0) for change in changes]
    adjusted = zip(changes, measuring.correct_by_holm(tests), strict=True)
    changes = [replace(change, p_adjusted=p_adjusted) for change, p_adjusted in adjusted]
    return tuple(sorted(changes, key=lambda change: change.base - change.new))
