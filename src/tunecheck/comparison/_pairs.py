"""Pairs of runs that cache their paired rows and measured metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, dumps, loads
from tunecheck._messages import did_you_mean
from tunecheck.comparison._common_metrics import split_slice
from tunecheck.comparison._comparison import MetricComparison
from tunecheck.comparison._judged import correct_judge_errors
from tunecheck.comparison._measuring import ComparisonSettings, Mask, MetricRef, PairedValues, measure, sides_of
from tunecheck.comparison._pairing import pair
from tunecheck.results import NONE, Clusters, RunTable
from tunecheck.statistics._samples import Codes, as_codes

_LONGEST_TAG = 200


class RunPair:
    """Two runs, their paired rows and their measured metrics."""

    def __init__(self, base: RunTable, new: RunTable, settings: ComparisonSettings) -> None:
        """Pair the rows of two runs; raises NothingPairsError if there are none."""
        self.base = base
        self.new = new
        self.settings = settings
        self.pairing = pair(base, new, settings.pair_by)
        self._sides: dict[str, PairedValues] = {}
        self._measured: dict[tuple[str, bool], MetricComparison] = {}

    @cached_property
    def clusters(self) -> Clusters | None:
        """The clusters of dependent pairs, by the base's rows, else by the new run's; None if all are independent.

        Raises:
            ConfigurationError: no run has the column named as the cluster.
        """
        side = next((table for table in (self.base, self.new) if table.clusters is not None), None)
        if side is None or side.clusters is None:
            named = self.settings.cluster
            if named not in (None, NONE):
                known = dict.fromkeys([*self.base.column_names, *self.new.column_names])
                raise ConfigurationError(f"--cluster: the rows have no column {named!r}{did_you_mean(named, known)}")
            return None
        items = self.pairing.base if side is self.base else self.pairing.new
        labels = side.clusters.labels
        return Clusters(side.clusters.by, side.clusters.how, [labels[item] for item in items])

    @cached_property
    def codes(self) -> Codes | None:
        """The number of each pair's cluster; None if all pairs are independent."""
        return None if self.clusters is None else as_codes(self.clusters.labels)

    def sides(self, key: str) -> PairedValues:
        """Return a metric's numbers by pair, cached; for a slice (`metric[column=value]`), all other pairs have NaN."""
        if key not in self._sides:
            metric, _ = split_slice(key)
            sides, inside = sides_of(metric, self.base, self.new, self.pairing, self.codes), self.inside(key)
            if metric != key:
                base, new = (numpy.where(inside, side, numpy.nan) for side in (sides.base, sides.new))
                sides = replace(sides, base=base, new=new)
            self._sides[key] = sides
        return self._sides[key]

    def inside(self, key: str) -> Mask:
        """Return a mask of the pairs that a metric's key includes: all pairs, or those of its slice.

        Raises:
            ConfigurationError: no pair belongs to the slice.
        """
        _, where = split_slice(key)
        if where is None:
            return numpy.ones(len(self.pairing.base), dtype=bool)
        column, _, value = where.partition("=")
        mask = self.rows_by_value(column).get(value)
        if mask is None:
            raise ConfigurationError(f"{key}: no row with {where} is in both runs")
        return mask

    def labels(self, column: str) -> Sequence[str | None]:
        """Return each pair's value of a column, from the base, else from the new run; all None if neither has it."""
        for table, items in ((self.base, self.pairing.base), (self.new, self.pairing.new)):
            labels = table.groups.get(column) or table.slices.get(column)
            if labels is not None:
                return [labels[item] for item in items]
        return [None] * len(self.pairing.base)

    def rows_by_value(self, column: str) -> dict[str, Mask]:
        """Return a mask of the pairs with each value of a column, in the order of the values' first rows.

        A pair whose value is a list of texts has each of the texts as a value.
        """
        labels = self.labels(column)
        numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        pair_numbers = numpy.fromiter(map(numbers.__getitem__, labels), numpy.int64, len(labels))
        numbers_by_value: dict[str, list[int]] = {}
        for label, number in numbers.items():
            for value in dict.fromkeys(_tags_of_label(label)):
                numbers_by_value.setdefault(value, []).append(number)
        return {value: numpy.isin(pair_numbers, chosen) for value, chosen in numbers_by_value.items()}

    def measured(self, metric: MetricRef) -> MetricComparison:
        """Return a metric's figures and test, cached: corrected for its judge's errors, without a verdict."""
        cache_key = metric.key, metric.tested
        if cache_key not in self._measured:
            figures = measure(metric, self.sides(metric.key), self.base, self.new, self.settings)
            self._measured[cache_key] = correct_judge_errors(figures, self.base, self.new)
        return self._measured[cache_key]


def tags_of(value: JSON) -> list[str]:
    """Return the slices to which a value assigns its row: each text of a list of texts, else the value itself."""
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return [str(each)[:_LONGEST_TAG] for each in value]
    if value is None:
        return []
    text = value if isinstance(value, str) else dumps(value).decode("utf-8", "replace")
    return [text[:_LONGEST_TAG]]


def _tags_of_label(label: str | None) -> list[str]:
    """Return the slices that a column's label names: each text of a JSON list of texts, else the label itself."""
    if label is None or not label.startswith('["'):
        return [] if label is None else [label]
    try:
        return tags_of(loads(label))
    except ValueError:
        return [label]


class Runs:
    """Runs in order, one of them the base; any two runs can be paired."""

    def __init__(self, tables: Sequence[RunTable], settings: ComparisonSettings, base: int = 0) -> None:
        """Keep the tables; `base` is the position of the base among them.

        Raises:
            ConfigurationError: two tables are of the same run.
        """
        places = [table.info.place for table in tables if table.info.place != "memory"]
        for place in places:
            if places.count(place) > 1:
                raise ConfigurationError(f"two of the runs are the same ({place}): give each run once")
        self.tables = tables
        self.settings = settings
        self.base_place = base
        self._pairs: dict[tuple[int, int], RunPair] = {}

    @property
    def base(self) -> RunTable:
        return self.tables[self.base_place]

    def pair(self, base: int, new: int) -> RunPair:
        """Return the pair of the runs at these places, which is made once."""
        if (base, new) not in self._pairs:
            self._pairs[base, new] = RunPair(self.tables[base], self.tables[new], self.settings)
        return self._pairs[base, new]

    @cached_property
    def against_base(self) -> Mapping[int, RunPair]:
        """The pair of each other run with the base, by the run's place."""
        places = range(len(self.tables))
        return {place: self.pair(self.base_place, place) for place in places if place != self.base_place}

    @cached_property
    def clusters(self) -> Clusters | None:
        """The clusters of the base's items, from the first pair that has clusters; None if all rows are independent."""
        for other in self.against_base.values():
            if other.clusters is not None:
                paired_labels = dict(zip(other.pairing.base, other.clusters.labels, strict=True))
                own_labels = None if self.base.clusters is None else self.base.clusters.labels
                items = range(len(self.base.items.ids))
                return replace(other.clusters, labels=own_labels or [paired_labels.get(item) for item in items])
        return None
