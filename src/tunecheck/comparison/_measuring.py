"""The metrics of two runs: the choice of metrics, their paired numbers, their statistics, and the verdicts.

`_pairs` calls `sides_of` and `measure` for each metric of two runs. `_compare` corrects the p-values over all runs,
those of the primary metric by themselves, and calls `add_verdict`, which adds the verdict.

The verdict on a metric is the first that applies (`decide`):

  judges differ         different judges gave the two runs' verdicts (set by `_judged`)
  too little data       there is no difference or no p-value
  better, worse         the corrected p-value is below 1 − confidence, and the interval does not contain 0
  too little data       there are fewer than 10 pairs or clusters
  too little data       only differences above 20% of the metric's range are detectable; without a range, those above
                        0.8 standard deviations
  no difference shown   all others

The metric that decides, the primary one, is the first that exists: the first that the user names, the data's primary
metric, `match` if rows have calls, the first evaluator (`primary_of`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from tunecheck._errors import ConfigurationError
from tunecheck._files import DecidedMetric
from tunecheck._messages import clean, did_you_mean, plural
from tunecheck.comparison._comparison import Counts, MetricComparison, MetricRef, MetricVerdict, OneSided
from tunecheck.comparison._wording import NOT_SIGNIFICANT, size_text
from tunecheck.pipeline._finished_rows import order_evaluators
from tunecheck.results import PASS_RATE, Kind, MetricColumn, RunTable
from tunecheck.statistics import ANY_STOPPING, Codes, Estimate, Floats, Paired
from tunecheck.statistics._decisions import holm, non_inferiority, rows_to_decide, smallest_difference
from tunecheck.statistics._estimates import RESAMPLES
from tunecheck.statistics._paired import paired_binary, paired_scores

if TYPE_CHECKING:
    from tunecheck.comparison._pairs import Pairing

Mask = NDArray[numpy.bool_]

FEW_RESAMPLES = 500
"""Resamples for metrics that are shown without a test."""


class ComparisonSettings(msgspec.Struct, frozen=True):
    """The settings of a comparison; the fields are arguments of `compare`, except `lists_of_all`.

    `lists_of_all` is True if every run gets lists of changed rows, and False if only the run does that the
    decision is about.
    """

    metrics: str | Sequence[str] | None = None
    confidence: float = 0.95
    margin: float | None = None
    cluster: str | None = None
    allow_simulated: bool = False
    pair_by: str = "content"
    rows: int | None = 1_000
    lists_of_all: bool = True
    seed: int = 0
    guards: Mapping[str, float] = {}
    allow_changed_evaluator: bool = False

    @property
    def named(self) -> Sequence[str] | None:
        """The named metrics as a list; None if none is named."""
        return [self.metrics] if isinstance(self.metrics, str) else self.metrics or None


class PairedValues(msgspec.Struct, frozen=True):
    """A metric's numbers by pair; NaN if a run has no number.

    `labels` has the number of each pair's cluster. `metric` is the column of a run, if possible of one that declares
    the metric. `averaged` is True if the numbers are pass rates over several trials.

    Example: the base passed the first pair, failed the second and has no verdict on the third: `base` is 1, 0, NaN.
    """

    base: Floats
    new: Floats
    labels: Codes | None
    kind: Kind
    higher_is_better: bool
    bounds: tuple[float, float] | None
    metric: MetricColumn
    averaged: bool = False

    @property
    def verdicts(self) -> bool:
        """True if each pair passes or fails in each run; False for pass rates over several trials."""
        return self.kind == "binary" and not self.averaged

    @property
    def both(self) -> Mask:
        """A mask of the pairs that have both numbers."""
        mask: Mask = ~(numpy.isnan(self.base) | numpy.isnan(self.new))
        return mask

    def labels_of(self, mask: Mask) -> Codes | None:
        """Return the cluster numbers of the pairs in a mask; None if all pairs are independent."""
        return None if self.labels is None else self.labels[mask]


def item_values(table: RunTable, name: str) -> Floats:
    """Return each item's number in the column `name`: the mean over its trials with a number, NaN if none has one.

    If the table has no such column, all numbers are NaN.

    Example: the trials of an item have 1, 0 and no number; the item's number is 0.5.
    """
    column = table.columns.get(name)
    if column is None:
        return numpy.full(len(table.items.ids), numpy.nan)
    values = numpy.array(column.values, dtype=numpy.float64)

    if table.items.of_row is None:
        return values

    # `of_row` has the item of each row. Sums per item, divided by the number of its trials with a number.
    has_number = ~numpy.isnan(values)
    items = numpy.array(table.items.of_row, dtype=numpy.int64)[has_number]
    sums = numpy.bincount(items, weights=values[has_number], minlength=len(table.items.ids))
    trials = numpy.bincount(items, minlength=len(table.items.ids))

    # An item without a number is 0 / 0, which is NaN.
    with numpy.errstate(invalid="ignore"):
        means: Floats = sums / trials
    return means


def sides_of(key: str, base: RunTable, new: RunTable, pairing: Pairing, labels: Codes | None) -> PairedValues:
    """Return a metric's numbers by pair, with its kind and range from a run that declares it, else from the new run.

    `labels` has the number of each pair's cluster. If only one run has verdicts, both runs are compared by score.
    """
    # The new run comes first, so that its kind and range count if neither run declares the metric.
    tables = [table for table in (new, base) if key in table.columns]
    columns = [table.columns[key] for table in tables]
    declared = [table.columns[key] for table in tables if table.evaluators[columns[0].evaluator].entry.metrics]
    metric = (declared or columns)[0]
    kind, bounds = metric.kind, metric.bounds

    if kind == "binary" and any(column.kind != "binary" for column in columns):
        kind = "score"

    base_values, new_values = item_values(base, key)[pairing.base], item_values(new, key)[pairing.new]

    # Several trials of a row give shares such as 0.5: means of a range from 0 to 1, not verdicts.
    averaged = False
    if kind == "binary":
        bounds = (0.0, 1.0)
        # Any number other than 0 and 1 is such a share.
        averaged = not all(numpy.isin(side[~numpy.isnan(side)], bounds).all() for side in (base_values, new_values))

    return PairedValues(base_values, new_values, labels, kind, metric.higher_is_better, bounds, metric, averaged)


def measure(
    chosen: MetricRef, sides: PairedValues, base: RunTable, new: RunTable, settings: ComparisonSettings
) -> MetricComparison:
    """Return a metric's figures and its test, without a verdict, which needs the tests of all metrics.

    `sides` has the metric's numbers by pair.
    """
    both = sides.both
    # Figures without a test need only a rough interval.
    paired = compare_pairs(sides, both, settings, draws=RESAMPLES if chosen.tested else FEW_RESAMPLES)

    # After an early stop the usual interval is too narrow, because the test was looked at again and again. The decision
    # has a valid interval, but only for its own metrics, against its own base and at its own confidence.
    decided = early_decision(chosen.key, base, new, settings.confidence)
    if decided is not None:
        paired = _with_early_decision(paired, decided)

    # For each run, the number of pairs that have a number in this run only.
    alone = (int(numpy.count_nonzero(~numpy.isnan(values) & ~both)) for values in (sides.base, sides.new))
    result = MetricComparison(
        **asdict(chosen),
        kind=sides.kind,
        higher_is_better=sides.higher_is_better,
        base=paired.base,
        new=paired.new,
        difference=paired.difference,
        base_rows=Counts(*base.evaluators[chosen.evaluator].counts()),
        new_rows=Counts(*new.evaluators[chosen.evaluator].counts()),
        one_sided=OneSided(*alone),
        b=paired.b,
        c=paired.c,
        moved=bool((sides.base[both] != sides.new[both]).any()),
    )
    if not chosen.tested:
        return result

    # Only tested metrics have p-values, a detectable difference and a test of the margin.
    within_margin = None
    if settings.margin is not None:
        within_margin = non_inferiority(paired.difference, settings.margin, higher_is_better=sides.higher_is_better)
        if decided is not None and new.info.stopped is not None and new.info.stopped.margin == settings.margin:
            # The decision forecasts the complete run, so it may hold although this wider interval exceeds the margin.
            within_margin = replace(within_margin, shown=decided.outcome == "not_worse")

    return replace(
        result,
        p_value=paired.p_value,
        p_exact=paired.p_exact,
        test=paired.test,
        smallest_difference=smallest_difference(paired),
        non_inferiority=within_margin,
    )


def compare_pairs(sides: PairedValues, mask: Mask, settings: ComparisonSettings, *, draws: int = RESAMPLES) -> Paired:
    """Return the statistics of the pairs in a mask, which all have a number in both runs.

    `draws` is the number of bootstrap samples, and of sign flips, for scores.
    """
    before, after, labels = sides.base[mask], sides.new[mask], sides.labels_of(mask)
    if sides.verdicts:
        return paired_binary(before, after, labels, confidence=settings.confidence)

    return paired_scores(
        before, after, labels, bounds=sides.bounds, confidence=settings.confidence, seed=settings.seed, draws=draws
    )


def early_decision(key: str, base: RunTable, new: RunTable, confidence: float) -> DecidedMetric | None:
    """Return the early decision on a metric if the new run stopped early against this base at this confidence.

    Otherwise return None.
    """
    stopped = new.info.stopped
    if stopped is None or stopped.against != base.info.id or stopped.confidence != confidence:
        return None
    return next((metric for metric in stopped.metrics if metric.key == key), None)


def _with_early_decision(paired: Paired, decided: DecidedMetric) -> Paired:
    """Return the statistics with the interval, p-value and test of an early decision, valid at any stopping time."""
    difference = replace(
        paired.difference, value=decided.difference, low=decided.low, high=decided.high, method=ANY_STOPPING
    )

    # There is no exact variant of a test that is valid at any stopping time.
    return replace(paired, difference=difference, p_value=decided.p_value, p_exact=None, test=ANY_STOPPING)


def rows_needed(metric: MetricComparison, margin: float) -> int | None:
    """Return how many rows would show whether a difference of this size is within the margin; None if no number would.

    Counts of changed rows are not used if the figures are corrected for a judge's errors.
    """
    discordant = None
    if metric.b is not None and metric.c is not None and metric.raw is None:
        discordant = metric.b, metric.c
    return rows_to_decide(metric.difference, margin, higher_is_better=metric.higher_is_better, discordant=discordant)


def rows_for_verdict(metric: MetricComparison, bounds: tuple[float, float] | None) -> int:
    """Return about how many rows a verdict needs: at least 10, and enough to detect 20% of the metric's range.

    With clusters, the rows are enough for 10 clusters. `bounds` is the metric's range; None if it has no range.

    Example: 100 rows detect a difference of 40 points. To detect 20 points, four times as many are needed: 400.
    """
    difference = metric.difference
    factor = FEWEST / max(1, _units(difference))
    if bounds is not None:
        whole_range = bounds[1] - bounds[0]
        detectable = whole_range if metric.detectable is None else metric.detectable
        # The detectable difference shrinks with the root of the number of rows.
        factor = max(factor, (detectable / (COARSE * whole_range)) ** 2)

    return math.ceil(max(1, difference.n) * factor)


def add_verdict(
    metric: MetricComparison, p_adjusted: float | None, bounds: tuple[float, float] | None
) -> MetricComparison:
    """Return the metric with Holm's p-value and the verdict; unchanged if it already has a verdict.

    `p_adjusted` is Holm's p-value, None if the metric has no p-value. `bounds` is the metric's range, None without one.
    """
    if metric.verdict is not None:
        return metric
    # "judges differ" is set before p-values are corrected; it stays.
    verdict, why = decide(metric, p_adjusted, bounds)
    return replace(metric, p_adjusted=p_adjusted, verdict=verdict, why=why)


def correct_by_holm(
    tests: Sequence[tuple[float | None, bool]], families: Sequence[bool] | None = None
) -> list[float | None]:
    """Return p-values after Holm's correction, in order; `tests` pairs each p-value with whether any row changed.

    Tests without a changed row keep their p-value and are not counted, because it can only be 1: Tarone, "A modified
    Bonferroni method for discrete data", Biometrics 46 (1990), 515-522. Tests with different `families` do not weaken
    each other; by default all tests are one family.

    Example: two runs against a base, with one primary and three other metrics. The two p-values of the primary metric
    are corrected together, and so are the six of the others.
    """
    families = families or [True] * len(tests)
    corrected = [p_value for p_value, _ in tests]
    for family in (True, False):
        positions = [index for index, (_, moved) in enumerate(tests) if moved and families[index] is family]
        for index, adjusted in zip(positions, holm([tests[index][0] for index in positions]), strict=True):
            corrected[index] = adjusted
    return corrected


FEWEST = 10
"""With fewer rows (or clusters), a missing difference means nothing: the verdict is too little data."""

COARSE = 0.2
"""Rows are too few if they could not show a difference of this share of the metric's range (20 points of a pass rate).

For a metric without a range the limit is 0.8 standard deviations of its differences, a large effect: Cohen,
"Statistical power analysis for the behavioral sciences" (1988), section 2.2."""

_LARGE_EFFECT = 0.8  # standard deviations, see COARSE


def decide(
    metric: MetricComparison, p_adjusted: float | None, bounds: tuple[float, float] | None
) -> tuple[MetricVerdict, str]:
    """Return the verdict on a tested metric that has no verdict yet, and its reason or "".

    Better or worse: the corrected p-value is below 1 − confidence, and the interval does not contain 0. Otherwise the
    verdict is no difference shown, or too little data if these rows could not show even a large difference. `bounds` is
    the metric's range.
    """
    difference = metric.difference
    if difference.value is None or metric.p_value is None or p_adjusted is None:
        return "too little data", difference.remark or "there is nothing to test"

    verdict = shown_verdict(difference, p_adjusted, higher_is_better=metric.higher_is_better)
    if verdict is not None:
        return verdict, ""

    # The interval of one metric is not corrected for several tests, so it may exclude 0 although the verdict does not.
    edge = NOT_SIGNIFICANT if difference.excludes_zero else ""

    units = plural(_units(difference), "row" if difference.clusters is None else "cluster")
    # Tested first, so that the reason is the number of rows or clusters, not a detectable difference.
    if _units(difference) < FEWEST:
        return "too little data", units

    if not _detects_only_large(metric, bounds):
        return "no difference shown", edge

    # None: even if all rows changed, the test would not reach significance.
    size = metric.detectable
    detectable = "not even a change of all rows is detectable"
    if size is not None:
        detectable = f"only differences above {size_text(metric.kind, size)} are detectable"
    return "too little data", "; ".join(filter(None, [f"with {units}, {detectable}", edge]))


def _units(difference: Estimate) -> int:
    """Return the number of independent units: the clusters if rows are clustered, else the pairs."""
    return difference.n if difference.clusters is None else difference.clusters


def _alpha(difference: Estimate) -> float:
    """Return the level of significance, such as 0.05, without the rounding error of 1 - 0.95."""
    return round(1 - difference.confidence, 12)


def shown_verdict(difference: Estimate, p_adjusted: float | None, *, higher_is_better: bool) -> MetricVerdict | None:
    """Return `better` or `worse` if the corrected p-value and the interval show a difference, else None.

    Without a corrected p-value (`p_adjusted` is None), the result is None, too.
    """
    if difference.value is None or p_adjusted is None or p_adjusted >= _alpha(difference):
        return None
    # Without an interval (all differences are equal, so there is no spread), the test alone decides.
    if not (difference.excludes_zero or difference.low is None):
        return None
    return "better" if (difference.value > 0) == higher_is_better else "worse"


def _detects_only_large(metric: MetricComparison, bounds: tuple[float, float] | None) -> bool:
    """Return True if these rows can show only differences above 20% of the range, or 0.8 standard deviations.

    True also if verdicts can show no difference at all. `bounds` is the metric's range, None if no range is known.
    """
    if metric.detectable is None:
        return metric.b is not None  # equal differences of scores have no spread that could hide a difference
    if bounds is not None:
        return metric.detectable > COARSE * (bounds[1] - bounds[0])

    # The standard error times the root of the number of units is the standard deviation of the differences.
    difference = metric.difference
    large: float = _LARGE_EFFECT * (difference.standard_error or 0.0) * _units(difference) ** 0.5
    return metric.detectable > large


# -- the metrics that two runs have in common, and the choice of those to test

MOST_SHOWN = 40
"""The most metrics shown without a test."""


def choose_metrics(base: RunTable, new: RunTable, named: Sequence[str] | None) -> tuple[list[MetricRef], list[str]]:
    """Return the metrics to compare, the tested ones first, and at most one note on metrics left out.

    By default each evaluator's main metric and the data's primary metric are tested. If metrics are named, only these
    are tested: an evaluator, `<evaluator>.<key>`, or a slice of either. An evaluator's name stands for its pass rate if
    it has one, else for its main number.

    An evaluator with several numbers is tested once, by its main metric. Its other numbers are shown without a test.

    Raises:
        ConfigurationError: the runs have no scores of a common evaluator, or a metric is not in both runs, or two
            evaluators have its key.
    """
    # A metric is compared only if both runs have its evaluator.
    shared = [name for name in base.evaluators if name in new.evaluators]
    mains = {name: key for name in shared if (key := _main_key(name, base, new))}
    if not mains:
        in_base, in_new = (clean(", ".join(table.evaluators), 100) or "none" for table in (base, new))
        runs = f"{base.info.id} (evaluators: {in_base}) and {new.info.id} (evaluators: {in_new})"
        advice = "score one run with an evaluator of the other: `tunecheck score RUN --evaluators NAME`"
        raise ConfigurationError(f"{runs} have no scores of a common evaluator: {advice}")

    names = named
    if names is None:
        # The base's declaration of the primary metric counts before the new run's.
        declared = [table.opened.primary for table in (base, new)]
        known = [name for name in declared if name and (name in mains or _shared_key(name, base, new))]
        names = [*dict.fromkeys([*mains, *known[:1]])]

    # An evaluator's main metric has the evaluator's name, tested or not. If two have the same key, the first counts.
    evaluator_of = {key: evaluator for evaluator, key in reversed(mains.items())}
    tested = dict(_find_keys(names, mains, evaluator_of, base, new))
    others = [key for key in _shared_keys(shared, base, new) if key not in tested.values()]
    keys = {**tested, **{evaluator_of.get(key, key): key for key in others[:MOST_SHOWN]}}

    chosen = []
    for name, key in keys.items():
        column, _ = split_slice(key)
        owners = [table.columns[column].evaluator for table in (base, new) if column in table.columns]
        # Evaluator `a` may have the key `b.c`, and evaluator `a.b` the key `c`.
        if len({*owners}) > 1:
            raise ConfigurationError(f"evaluators {' and '.join(owners)} both have a metric {key}: name another metric")
        chosen.append(MetricRef(name, key, owners[0], name in tested))

    note = f"{len(others) - MOST_SHOWN:,} more metrics are not shown; name one with --metric"
    return chosen, [note] if len(others) > MOST_SHOWN else []


def _shared_keys(evaluators: Sequence[str], base: RunTable, new: RunTable) -> Iterator[str]:
    """Yield the keys of the columns that both runs have, except numbers that only repeat the verdicts in both."""
    for name in evaluators:
        for key in base.evaluators[name].columns:
            if key in new.evaluators[name].columns and not (base.columns[key].repeats and new.columns[key].repeats):
                yield key


def split_slice(name: str) -> tuple[str, str | None]:
    """Split `match[domain=refund]` into the metric `match` and the slice `domain=refund`; None means all rows."""
    metric, bracket, rest = name.partition("[")
    return (metric, rest[:-1]) if bracket and rest.endswith("]") else (name, None)


def _slice_suffix(slice_text: str | None, base: RunTable, new: RunTable) -> str:
    """Return the text of a slice, `column=value` or a value alone, as `[column=value]`; "" for None.

    A value alone names the slice of the only column with this value.

    Raises:
        ConfigurationError: there are no slices by this column, or no column or several have this value.
    """
    if slice_text is None:
        return ""

    known = {**new.slices, **base.slices, **new.groups, **base.groups}
    column, equals, _ = slice_text.partition("=")
    if equals and column in known:
        return f"[{slice_text}]"

    columns = [name for name, labels in known.items() if not equals and slice_text in labels]
    if len(columns) == 1:
        return f"[{columns[0]}={slice_text}]"
    if columns:
        choices = " or ".join(f"[{name}={slice_text}]" for name in columns)
        raise ConfigurationError(f"the slice [{slice_text}] fits several columns: write {choices}")
    advice = "write METRIC[COLUMN=VALUE], or add slices with `tunecheck score RUN --group-by COLUMN`"
    raise ConfigurationError(f"the runs have no slice [{slice_text}]: {advice}{did_you_mean(column, known)}")


def _main_key(name: str, base: RunTable, new: RunTable) -> str:
    """Return the key of an evaluator's main metric, or "" if neither run has one.

    If the runs' main metrics differ, prefer a key that both runs have, then that of a run that declares its metrics,
    then that of the new run.
    """
    # A stable sort: the new run comes first unless only the base declares its metrics.
    evaluators = sorted([new.evaluators[name], base.evaluators[name]], key=lambda columns: not columns.entry.metrics)
    keys = [columns.main for columns in evaluators if columns.main]
    shared = [key for key in keys if key in base.columns and key in new.columns]
    return next(iter(shared or keys), "")


def _find_keys(
    names: Iterable[str], mains: Mapping[str, str], evaluator_of: Mapping[str, str], base: RunTable, new: RunTable
) -> Iterator[tuple[str, str]]:
    """Yield the name and the key of each metric in `names`; for a metric on a slice, both end with the slice.

    An evaluator's main metric gets the evaluator's name, other metrics their key. `mains` has the main metrics by
    evaluator, and `evaluator_of` the reverse.

    Examples: `match` gives ("match", "match.binary_aggregate"), and `match[domain=refund]` gives both with
    `[domain=refund]` at the end.

    Raises:
        ConfigurationError: the runs have no such metric or slice in common.
    """
    # A key may contain brackets itself, so a name means a slice only if no column has the whole name.
    for full_name in names:
        name, slice_text = (full_name, None) if _shared_key(full_name, base, new) else split_slice(full_name)
        key, suffix = mains.get(name) or _shared_key(name, base, new), _slice_suffix(slice_text, base, new)

        if key is None:
            known = [*mains, *(key for key in base.columns if key in new.columns)]
            raise ConfigurationError(f"{name!r} is not a metric of both runs{did_you_mean(name, known)}")

        yield evaluator_of.get(key, key) + suffix, key + suffix


def _shared_key(name: str, base: RunTable, new: RunTable) -> str | None:
    """Return the key of a metric's column that both runs have; None without one.

    The key is that of the metric's own column. A metric without a column has the key of its evaluator's pass rate, if
    the rate counts the metric's verdicts.
    """
    # Tables leave out `m_score` if it repeats `m`, so its name stands for `m`.
    for key in (name, name.removesuffix("_score")):
        if key in base.columns and key in new.columns:
            return key

    evaluator, _, metric = name.rpartition(".")
    pass_rate = f"{evaluator}.{PASS_RATE}"
    same_verdicts = (metric, metric.removesuffix("_passed"), metric.removesuffix("_score"))

    columns = [table.columns.get(pass_rate) for table in (base, new)]
    if all(column is not None and column.metric in same_verdicts for column in columns):
        return pass_rate
    return None


def primary_of(chosen: Iterable[MetricRef], base: RunTable, new: RunTable, named: Sequence[str] | None) -> MetricRef:
    """Return the metric that decides: the first that the user names, else the data's primary, else the default."""
    tested = [metric for metric in chosen if metric.tested]
    if named:
        return tested[0]

    default = default_primary([metric.name for metric in tested], base, new)
    names = (base.opened.primary or new.opened.primary, default)
    # The data's primary may be given as a name or a key, and may not be among the tested metrics.
    return next(metric for name in names for metric in tested if name in (metric.name, metric.key))


def default_primary(names: Sequence[str], *tables: RunTable) -> str:
    """Return `match` if it is among the names and the tables may have rows with calls; else the first name."""
    labels = [table.groups["row_kind"] for table in tables if "row_kind" in table.groups]
    kinds: set[str | None] | None = set().union(*labels) if labels else None  # None: unknown
    return order_evaluators(names, None, kinds)[0]
