"""Pair the rows of runs by id and content; pairs of runs cache their paired rows and measured metrics.

The order in which rows find a partner (`pair`):

  1. equal id and equal content; if a run has no contents, or with `--pair-by id`, equal id alone
  2. if nothing has paired, the runs are of different programs, and both have ids of their own: equal id alone
  3. equal content, for the rows that are still without a partner (not without contents or with `--pair-by id`)

Rows with equal keys pair in order: the first with the first, the second with the second. Example: base a, b, b and new
b, a, c give the pairs a-a and b-b; the second b is only in the base, and c only in the new run.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import TypeVar

import msgspec
import numpy
from msgspec.structs import replace

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, dumps, value_of
from tunecheck._messages import did_you_mean, plural
from tunecheck.comparison import _measuring as measuring
from tunecheck.comparison._comparison import MetricComparison, MetricRef, Pairs
from tunecheck.comparison._judged import correct_judge_errors
from tunecheck.results import NONE, Clusters, RunTable
from tunecheck.statistics._estimates import Codes, as_codes

T = TypeVar("T")

PAIR_BY = ("content", "id")
"""`content` pairs rows with equal id and content, then rows with equal content; `id` pairs rows with equal ids."""


class NothingPairsError(ConfigurationError):
    """No row of one run is in the other. `remedy` is an option of `compare` that helps, or empty."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(f"{why}; {remedy}" if remedy else why)
        self.why = why
        self.remedy = remedy


class Pairing(msgspec.Struct, frozen=True):
    """The pairs of two runs: `base` and `new` have the two items of each pair, in the order of the base.

    `counts` says how they were paired, without clusters.
    """

    base: array[int]
    new: array[int]
    counts: Pairs


def pair(base: RunTable, new: RunTable, pair_by: str = "content") -> Pairing:
    """Pair two runs' rows: by id and content, then by content; or with `pair_by` "id" by id alone.

    Rows are also paired by id alone in two cases: a row has no known content, or different programs made the runs. In
    the second case, both runs must have ids of their own, and no row may have an equal id and content. `by_id_alone`
    of the result's `counts` marks only these two cases.

    Raises:
        NothingPairsError: no item of one run is in the other.
    """
    # One row without a content is enough: its run then pairs by id.
    contents = pair_by == "content" and all(base.items.contents) and all(new.items.contents)
    by_id_alone = pair_by == "content" and not contents

    # Most runs have the same rows in the same order: no keys need to be compared.
    ids = base.items.ids
    if ids and ids == new.items.ids and (not contents or base.items.contents == new.items.contents):
        all_items = array("q", range(len(ids)))
        return Pairing(all_items, all_items, Pairs(len(ids), 0, by_id_alone, (), (), ()))

    partners: dict[int, int] = {}
    by_content = 0
    if contents:
        base_keys, new_keys = ([*zip(run.items.ids, run.items.contents, strict=True)] for run in (base, new))
        _match(base_keys, new_keys, partners)
        if not partners and base.info.source != new.info.source and base.named and new.named:
            # Azure AI Evaluation rewrites values (dates, numbers in columns with empty cells), and so contents.
            by_id_alone = _match(ids, new.items.ids, partners) > 0
        by_content = _match(base.items.contents, new.items.contents, partners)
    else:
        _match(ids, new.items.ids, partners)

    # An empty comparison would look like a result, so it is an error with a remedy.
    if not partners:
        raise _nothing_pairs(base, new, contents)

    only_base = tuple(row_id for _, row_id in _unpaired(base.items.ids, partners))
    only_new = tuple(row_id for _, row_id in _unpaired(new.items.ids, partners.values()))
    # The same id in both remainders: the data was edited between the runs.
    in_both = set(only_base).intersection(only_new)
    changed = tuple(row_id for row_id in only_base if row_id in in_both)

    base_items = array("q", sorted(partners))
    new_items = array("q", map(partners.__getitem__, base_items))
    counts = Pairs(len(partners), by_content, by_id_alone, only_base, only_new, changed)
    return Pairing(base_items, new_items, counts)


def _unpaired(keys: Sequence[T], paired: Iterable[int]) -> list[tuple[int, T]]:
    """Return the items that are not among the `paired` ones, each with its key; `keys` has the keys of all items."""
    numbers = set(paired)
    return [(item, key) for item, key in enumerate(keys) if item not in numbers]


def _match(base_keys: Sequence[object], new_keys: Sequence[object], partners: dict[int, int]) -> int:
    """Pair items without a partner by equal keys: the first of both, the second of both, and so on.

    Add the new item of each pair to `partners` by the base's item; return the number of added pairs.
    """
    waiting: defaultdict[object, list[int]] = defaultdict(list)
    before = len(partners)

    # Reversed, so that `pop` returns the first item of a key.
    for item, key in reversed(_unpaired(new_keys, partners.values())):
        waiting[key].append(item)

    for item, key in _unpaired(base_keys, partners):
        if waiting.get(key):
            partners[item] = waiting[key].pop()
    return len(partners) - before


def _nothing_pairs(base: RunTable, new: RunTable, contents: bool) -> NothingPairsError:
    """Return the error that explains why no rows pair; `contents` is True if contents were compared."""
    for table in (base, new):
        if not table.items.ids:
            return NothingPairsError(f"run {table.info.id} has no rows to compare: name a run with rows")

    shared = set(base.items.ids) & set(new.items.ids)
    runs = f"{base.info.id} and {new.info.id}"

    if shared and contents:
        # The error shows one row, and in it up to three columns that differ.
        row_id = next(name for name in base.items.ids if name in shared)
        columns = _different_columns(base, new, row_id)
        differ = f"{', '.join(map(repr, columns[:3]))} {'differ' if len(columns) > 1 else 'differs'}"
        example = f"in row {row_id!r}, {differ}" if columns else f"such as {row_id!r}"
        remedy = "to compare them anyway, add --pair-by id (pair_by='id')" if base.named and new.named else ""
        ids = plural(len(shared), "id")
        why = f"{runs} share {ids}, but no row of the same content ({example}): compare runs of the same data"
        return NothingPairsError(why, remedy)

    examples = " and ".join(repr(table.items.ids[0][:100]) for table in (base, new))
    return NothingPairsError(f"{runs} share no row: the ids differ, such as {examples}; compare runs of the same data")


def _different_columns(base: RunTable, new: RunTable, row_id: str) -> list[str]:
    """Return the columns of the data, without answers, in which the row with this id differs between the runs."""
    before, after = (_data_of_row(table, row_id) for table in (base, new))
    content = [column for column in {**before, **after} if column not in base.answers]
    return [column for column in content if before.get(column) != after.get(column)]


def _data_of_row(table: RunTable, row_id: str) -> dict[str, JSON]:
    """Return the data columns of the row with this id, by name.

    With several trials, the id may be that of an item, which no row has; then return those of the first row.
    """
    number = table.row_ids.index(row_id) if row_id in table.row_ids else 0
    row = next(islice(table.opened.rows.records(), number, None), {})
    return {key.removeprefix("inputs."): value for key, value in row.items() if key.startswith("inputs.")}


_LONGEST_TAG = 200  # characters of a slice's name


class RunPair:
    """Two runs, their paired rows and their measured metrics."""

    def __init__(self, base: RunTable, new: RunTable, settings: measuring.ComparisonSettings) -> None:
        """Pair the rows of two runs; raises NothingPairsError if there are none."""
        self.base = base
        self.new = new
        self.settings = settings
        self.pairing = pair(base, new, settings.pair_by)
        self._sides: dict[str, measuring.PairedValues] = {}
        self._measured: dict[tuple[str, bool], MetricComparison] = {}

    @cached_property
    def clusters(self) -> Clusters | None:
        """The clusters of dependent pairs, by the base's rows, else by the new run's; None if all are independent.

        Raises:
            ConfigurationError: no run has the column named as the cluster.
        """
        # The base's clusters count for both runs, so that all runs against it have the same ones.
        for table, items in self.tables_with_items:
            if table.clusters is not None:
                # The labels are of a run's items; from here on they are of pairs.
                return replace(table.clusters, labels=[table.clusters.labels[item] for item in items])

        column = self.settings.cluster
        if column not in (None, NONE):
            known = dict.fromkeys([*self.base.column_names, *self.new.column_names])
            raise ConfigurationError(f"--cluster: the rows have no column {column!r}{did_you_mean(column, known)}")
        return None

    @cached_property
    def codes(self) -> Codes | None:
        """The number of each pair's cluster; None if all pairs are independent."""
        return None if self.clusters is None else as_codes(self.clusters.labels)

    def sides(self, key: str) -> measuring.PairedValues:
        """Return a metric's numbers by pair, cached; for a slice (`metric[column=value]`), all other pairs have NaN.

        Raises:
            ConfigurationError: no pair belongs to the slice.
        """
        if key not in self._sides:
            metric, _ = measuring.split_slice(key)
            sides, inside = measuring.sides_of(metric, self.base, self.new, self.pairing, self.codes), self.inside(key)

            # Pairs outside of the slice have no number, so they drop out like pairs without a verdict.
            if metric != key:
                base, new = (numpy.where(inside, side, numpy.nan) for side in (sides.base, sides.new))
                sides = replace(sides, base=base, new=new)

            self._sides[key] = sides
        return self._sides[key]

    def inside(self, key: str) -> measuring.Mask:
        """Return a mask of the pairs that a metric's key includes: all pairs, or those of its slice.

        Raises:
            ConfigurationError: no pair belongs to the slice.
        """
        _, slice_text = measuring.split_slice(key)
        if slice_text is None:
            return numpy.ones(len(self.pairing.base), dtype=bool)

        column, _, value = slice_text.partition("=")
        mask = self.rows_by_value(column).get(value)
        if mask is None:
            raise ConfigurationError(f"no row of the slice [{slice_text}] is in both runs: name a slice of both runs")

        return mask

    @property
    def tables_with_items(self) -> Sequence[tuple[RunTable, array[int]]]:
        """The base's table and the new run's, each with its item of every pair."""
        return (self.base, self.pairing.base), (self.new, self.pairing.new)

    def labels(self, column: str) -> Sequence[str | None]:
        """Return each pair's value of a column, from the base, else from the new run; all None if neither has it."""
        for table, items in self.tables_with_items:
            labels = table.groups.get(column) or table.slices.get(column)
            if labels is not None:
                return [labels[item] for item in items]
        return [None] * len(self.pairing.base)

    def rows_by_value(self, column: str) -> dict[str, measuring.Mask]:
        """Return a mask of the pairs with each value of a column, in the order of the values' first rows.

        A pair with a list of texts as its value has each of the texts as a value.

        Example: the tags `["urgent", "refund"]` put a pair into the slices urgent and refund.
        """
        labels = self.labels(column)

        # Labels repeat, so each different label is read once; pairs are compared by the label's number.
        numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        pair_numbers = numpy.fromiter(map(numbers.__getitem__, labels), numpy.int64, len(labels))

        numbers_by_value: dict[str, list[int]] = {}
        # A label with several tags puts its pairs into several slices.
        for label, number in numbers.items():
            for value in dict.fromkeys(_tags_of_label(label)):
                numbers_by_value.setdefault(value, []).append(number)

        return {value: numpy.isin(pair_numbers, chosen) for value, chosen in numbers_by_value.items()}

    def measured(self, metric: MetricRef) -> MetricComparison:
        """Return a metric's figures and test, cached: corrected for its judge's errors, without a verdict.

        Raises:
            ConfigurationError: the metric is a slice to which no pair belongs.
        """
        # Tested metrics have more draws than shown ones, so the two are cached apart.
        cache_key = metric.key, metric.tested
        if cache_key not in self._measured:
            figures = measuring.measure(metric, self.sides(metric.key), self.base, self.new, self.settings)
            self._measured[cache_key] = correct_judge_errors(figures, self.base, self.new)
        return self._measured[cache_key]


def tags_of(value: JSON) -> list[str]:
    """Return the slices to which a value assigns its row: each text of a list of texts, else the value itself.

    For example, `["a", "b"]` gives the slices "a" and "b", `"a"` gives "a", 3 gives "3", and `[]` gives "[]". Null
    gives no slice.
    """
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return [str(item)[:_LONGEST_TAG] for item in value]
    if value is None:
        return []
    text = value if isinstance(value, str) else dumps(value).decode("utf-8", "replace")
    return [text[:_LONGEST_TAG]]


def _tags_of_label(label: str | None) -> list[str]:
    """Return the slices that a column's label names: the texts of a JSON list, else the label itself; none for None."""
    if label is None or not label.startswith('["'):
        return [] if label is None else [label]
    return tags_of(value_of(label)) or [label]


class Runs:
    """Runs in order, one of them the base, and the pair of each other run with the base, by the run's position."""

    def __init__(self, tables: Sequence[RunTable], settings: measuring.ComparisonSettings, base: int = 0) -> None:
        """Pair the tables; `base` is the position of the base among them.

        Raises:
            NothingPairsError: a run has no row in common with the base.
            ConfigurationError: there is only one table, or two tables are of the same run.
        """
        if len(tables) < 2:
            raise ConfigurationError("a comparison needs two runs or more: name another run")
        folders = [table.info.place for table in tables if table.info.place != "memory"]
        for folder in folders:
            if folders.count(folder) > 1:
                raise ConfigurationError(f"the run {folder} is given twice: give each run once")

        self.tables, self.settings = tables, settings
        self.base_position, self.base = base, tables[base]
        others = [(position, table) for position, table in enumerate(tables) if position != base]
        self.against_base = {position: RunPair(self.base, table, settings) for position, table in others}

    @cached_property
    def clusters(self) -> Clusters | None:
        """The clusters of the base's items: its own, else those of the first pair that has any; None without any."""
        if self.base.clusters is not None:
            return self.base.clusters
        for other in self.against_base.values():
            if other.clusters is not None:
                # Items without a partner in this pair have no label from it. None makes them clusters of their own.
                labels = dict(zip(other.pairing.base, other.clusters.labels, strict=True))
                return replace(other.clusters, labels=[*map(labels.get, range(len(self.base.items.ids)))])
        return None
