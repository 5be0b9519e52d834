"""One metric over all runs, on the rows with a number in every run: each run's figure, and which may be the best."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy
from numpy.typing import NDArray

from tunecheck.comparison._common_metrics import split_slice
from tunecheck.comparison._comparison import History, MetricComparison, Ranked
from tunecheck.comparison._judged import corrected_rate, labels_of
from tunecheck.comparison._measuring import Chosen, ComparisonSettings, PairedValues, estimate, item_values
from tunecheck.comparison._pairs import Runs
from tunecheck.statistics._best import multiple_comparisons_with_the_best
from tunecheck.statistics._corrected import LabelCounts, corrected_difference
from tunecheck.statistics._results import Estimate
from tunecheck.statistics._samples import Codes, Floats, as_codes


@dataclass(frozen=True, slots=True)
class CommonRows:
    """The base's items with a number in every run; `scores` has the shape (items, runs)."""

    items: NDArray[numpy.int64]
    scores: Floats
    labels: Codes | None
    sides: PairedValues

    def estimate(self, run: int, settings: ComparisonSettings) -> Estimate:
        """Return one run's figure over these rows."""
        return estimate(self.scores[:, run], self.sides, self.labels, settings)


def over_all_runs(key: str, runs: Runs) -> Floats:
    """Return a metric's numbers by the base's items and by run, NaN if a run has no number: shape (items, runs)."""

    scores = numpy.full((len(runs.base.items.ids), len(runs.tables)), numpy.nan)
    scores[:, runs.base_place] = item_values(runs.base, split_slice(key)[0])
    for place, pair in runs.against_base.items():
        scores[pair.pairing.base, place] = pair.sides(key).new
    return scores


def common_rows(key: str, runs: Runs) -> CommonRows:
    """Return the rows on which runs are ranked by a metric; they may be empty."""

    scores = over_all_runs(key, runs)
    items = numpy.flatnonzero(~numpy.isnan(scores).any(axis=1))
    found = [pair.sides(key) for pair in runs.against_base.values()]
    kind = found[0].kind if len({sides.kind for sides in found}) == 1 else "score"
    sides = replace(found[0], kind=kind, averaged=any(each.averaged for each in found))
    codes = None if runs.clusters is None else as_codes([runs.clusters.labels[item] for item in items.tolist()])
    return CommonRows(items, scores[items], codes, sides)


def judges_labels(chosen: Chosen, runs: Runs) -> LabelCounts | None:
    """Return the label counts that correct a metric for its judge's errors in all runs; None if it is not corrected."""
    known = labels_of(chosen.evaluator, runs.base, runs.tables[-1])
    return known if all(pair.measured(chosen).judge == "corrected" for pair in runs.against_base.values()) else None


def rank_runs(common: CommonRows, runs: Runs, labels: LabelCounts | None) -> list[Ranked]:
    """Return each run's figure and its difference from the best of the others, in the order of the runs.

    With `labels`, both are corrected for the judge's errors, which does not change the ranking.
    """

    settings, sides = runs.settings, common.sides
    standings = multiple_comparisons_with_the_best(
        common.scores,
        common.labels,
        verdicts=sides.verdicts,
        higher_is_better=sides.higher_is_better,
        confidence=(1 + settings.confidence) / 2,  # because each end of the interval is a one-sided limit
        seed=settings.seed,
    )
    found = []
    for place, (table, standing) in enumerate(zip(runs.tables, standings, strict=True)):
        value = common.estimate(place, settings)
        ends = standing.low, standing.high, value.n, settings.confidence, "comparisons with the best"
        difference = Estimate(standing.difference, *ends, clusters=value.clusters)
        if labels is not None:
            value, difference = corrected_rate(value, labels), corrected_difference(difference, labels)
        found.append(Ranked(table.info.id, value, difference, standing.may_be_best))
    return found


def history(metric: MetricComparison, runs: Runs) -> History:
    """Return one metric's figure in each run, over the rows with a number in every run."""
    common, chosen = common_rows(metric.key, runs), Chosen(metric.name, metric.key, metric.evaluator, tested=True)
    values = [common.estimate(place, runs.settings) for place in range(len(runs.tables))]
    if (labels := judges_labels(chosen, runs)) is not None:
        values = [corrected_rate(each, labels) for each in values]
    return History(metric.name, common.sides.kind, tuple(values))
