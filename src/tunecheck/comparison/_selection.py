"""The choice among several runs: each against the base, a ranking over rows that all runs have, and their history.

`comparison._compare` calls `selection_of` for `select()` and for comparisons of three or more runs, and `history` for
the figures of one metric over the runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy
from numpy.typing import NDArray

from tunecheck._errors import ConfigurationError
from tunecheck._messages import plural
from tunecheck.comparison._common_metrics import split_slice
from tunecheck.comparison._comparison import (
    Choice,
    Decision,
    History,
    MetricComparison,
    Ranked,
    RowHistory,
    RowOverRuns,
    RowsOverRuns,
    RunComparison,
    Selection,
)
from tunecheck.comparison._judged import corrected_rate, labels_of
from tunecheck.comparison._measuring import ComparisonSettings, MetricRef, PairedValues, estimate, item_values
from tunecheck.comparison._pairs import Runs
from tunecheck.comparison._wording import size_text
from tunecheck.runs._store import stopped_text
from tunecheck.statistics._best import expected_optimism, multiple_comparisons_with_the_best
from tunecheck.statistics._corrected import LabelCounts, corrected_difference
from tunecheck.statistics._results import Estimate
from tunecheck.statistics._samples import Codes, Floats, as_codes


@dataclass(frozen=True, slots=True)
class CommonRows:
    """The base's items with a number in every run; `scores` has the shape (items, runs).

    `labels` has each item's cluster. `sides` describes the metric.
    """

    items: NDArray[numpy.int64]
    scores: Floats
    labels: Codes | None
    sides: PairedValues

    def estimate(self, run: int, settings: ComparisonSettings) -> Estimate:
        """Return one run's figure over these rows."""
        return estimate(self.scores[:, run], self.sides, self.labels, settings)


def over_all_runs(key: str, runs: Runs) -> Floats:
    """Return a metric's number for each of the base's items in each run, shape (items, runs); NaN without a number."""
    scores = numpy.full((len(runs.base.items.ids), len(runs.tables)), numpy.nan)
    scores[:, runs.base_place] = item_values(runs.base, split_slice(key)[0])
    for place, pair in runs.against_base.items():
        scores[pair.pairing.base, place] = pair.sides(key).new
    return scores


def common_rows(key: str, runs: Runs) -> CommonRows:
    """Return the rows with a metric's number in every run, on which runs are ranked; there may be none."""
    scores = over_all_runs(key, runs)
    items = numpy.flatnonzero(~numpy.isnan(scores).any(axis=1))
    all_sides = [pair.sides(key) for pair in runs.against_base.values()]
    # If a metric's kind is not the same in all pairs, the runs are compared by score.
    kind = all_sides[0].kind if len({sides.kind for sides in all_sides}) == 1 else "score"
    sides = replace(all_sides[0], kind=kind, averaged=any(sides.averaged for sides in all_sides))
    codes = None if runs.clusters is None else as_codes([runs.clusters.labels[item] for item in items.tolist()])
    return CommonRows(items, scores[items], codes, sides)


def judge_label_counts(chosen: MetricRef, runs: Runs) -> LabelCounts | None:
    """Return the label counts that correct a metric in all runs; None if it is not corrected in all of them."""
    if all(pair.measured(chosen).judge == "corrected" for pair in runs.against_base.values()):
        # Only runs with the base's judge are corrected, so all of them share its calibration: any run will do.
        return labels_of(chosen.evaluator, runs.base, runs.tables[-1])
    return None


def rank_runs(common: CommonRows, runs: Runs, labels: LabelCounts | None) -> list[Ranked]:
    """Return each run's figure and its difference from the best of the others, in the order of the runs.

    With `labels`, both are corrected for the judge's errors, which does not change the ranking.
    """
    settings, sides = runs.settings, common.sides
    # The intervals come from random draws. In order of their ids, the same runs always get the same intervals.
    order = sorted(range(len(runs.tables)), key=lambda place: runs.tables[place].info.id)
    standings = multiple_comparisons_with_the_best(
        common.scores[:, order],
        common.labels,
        verdicts=sides.verdicts,
        higher_is_better=sides.higher_is_better,
        confidence=(1 + settings.confidence) / 2,  # because each end of the interval is a one-sided limit
        seed=settings.seed,
    )
    ranked = []
    for place, table in enumerate(runs.tables):
        standing = standings[order.index(place)]
        value = common.estimate(place, settings)
        interval = standing.low, standing.high, value.n, settings.confidence, "comparisons with the best"
        difference = Estimate(standing.difference, *interval, clusters=value.clusters)
        if labels is not None:
            value, difference = corrected_rate(value, labels), corrected_difference(difference, labels)
        ranked.append(Ranked(table.info.id, value, difference, standing.may_be_best))
    return ranked


def history(metric: MetricComparison, runs: Runs) -> History:
    """Return one metric's figure in each run, over the rows with a number in every run."""
    common, chosen = common_rows(metric.key, runs), MetricRef(metric.name, metric.key, metric.evaluator, tested=True)
    values = [common.estimate(place, runs.settings) for place in range(len(runs.tables))]
    labels = judge_label_counts(chosen, runs)
    if labels is not None:
        values = [corrected_rate(rate, labels) for rate in values]
    return History(metric.name, common.sides.kind, tuple(values))


OUTCOMES: tuple[RowHistory, ...] = ("right", "never right", "fixed", "broken", "back and forth", "flaky")


@dataclass(frozen=True, slots=True)
class RowHistories:
    """For each row, the index of its outcome in `OUTCOMES`, and of the run that fixed or broke it (-1: none)."""

    outcomes: NDArray[numpy.int8]
    since: NDArray[numpy.int64]


def row_histories(passed: Floats) -> RowHistories:
    """Return each row's outcome; `passed` is the share of a row's trials that passed in a run, shape (rows, runs).

    A row changes between two runs if all its trials passed in one and failed in the other. One change: fixed or broken,
    dated by the run that changed it. Several changes: back and forth. A row is flaky if its trials disagree in the last
    run, in some run while the others agree, or while it went back and forth.
    """
    agrees = (passed == 0) | (passed == 1)  # all trials of the row have the same verdict in the run
    changes = numpy.zeros(len(passed), dtype=numpy.int64)
    since = numpy.full(len(passed), -1)
    # For each row, the share in the latest run so far in which all trials agreed; NaN if there is none yet.
    latest = numpy.where(agrees[:, 0], passed[:, 0], numpy.nan)
    for run in range(1, passed.shape[1]):
        share = passed[:, run]
        changed = agrees[:, run] & ~numpy.isnan(latest) & (share != latest)
        changes += changed
        since[changed] = run
        latest = numpy.where(agrees[:, run], share, latest)
    always_agrees, ends_right = agrees.all(axis=1), passed[:, -1] == 1
    unchanged = always_agrees & (changes == 0)
    changed_once = agrees[:, -1] & (changes == 1)
    outcomes = numpy.full(len(passed), OUTCOMES.index("flaky"), dtype=numpy.int8)
    for outcome, rows in (
        ("right", unchanged & ends_right),
        ("never right", unchanged & ~ends_right),
        ("fixed", changed_once & ends_right),
        ("broken", changed_once & ~ends_right),
        ("back and forth", always_agrees & (changes > 1)),
    ):
        outcomes[rows] = OUTCOMES.index(outcome)
    since[~changed_once] = -1
    return RowHistories(outcomes, since)


def rows_over_runs(metric: str, passes: str | None, runs: Runs, most: int | None) -> RowsOverRuns | None:
    """Return the history of all rows with a verdict in every run; None if a run has no verdicts.

    `passes` is the column of verdicts. At most `most` rows that are not always right are listed.
    """
    if passes is None or not all(passes in table.columns for table in runs.tables):
        return None
    _, where = split_slice(metric)
    passed = over_all_runs(passes if where is None else f"{passes}[{where}]", runs)
    items = numpy.flatnonzero(~numpy.isnan(passed).any(axis=1))
    passed = passed[items]
    histories = row_histories(passed)
    names = tuple(table.info.id for table in runs.tables)
    counts = numpy.bincount(histories.outcomes, minlength=len(OUTCOMES)).tolist()
    broken = Counter(histories.since[histories.outcomes == OUTCOMES.index("broken")].tolist())
    order = numpy.argsort(-histories.outcomes, kind="stable")  # flaky rows first, then back and forth, then broken
    listed = [int(row) for row in order if histories.outcomes[row]][:most]  # outcome 0: always right
    return RowsOverRuns(
        metric,
        names,
        dict(zip(OUTCOMES, counts, strict=True)),
        {names[run]: broken[run] for run in sorted(broken)},
        tuple(_row(row, runs.base.items.ids[items[row]], passed[row].tolist(), histories, names) for row in listed),
    )


def _row(row: int, row_id: str, passed: Sequence[float], histories: RowHistories, names: Sequence[str]) -> RowOverRuns:
    """Return the history of row number `row` of `histories`; `names` are the runs' ids."""
    since = int(histories.since[row])
    return RowOverRuns(row_id, OUTCOMES[histories.outcomes[row]], tuple(passed), names[since] if since >= 0 else None)


_BEST_FIRST: tuple[Choice, ...] = ("ship", "undecided", "keep", "invalid")


def choose(against: Sequence[RunComparison]) -> Decision:
    """Return the decision to act on: ship if there is one, else undecided, else keep, else invalid.

    Among equal decisions the candidate with the largest improvement wins, then the later one.
    """

    def rank(each: RunComparison) -> tuple[int, float]:
        """Return a sort key: higher for a better decision, then for a larger improvement."""
        metric, decision = each.metrics[each.part_metric], each.decision
        value = -math.inf if metric.difference.value is None else metric.difference.value
        return -_BEST_FIRST.index(decision.decision), value if metric.higher_is_better else -value

    return max(reversed(against), key=rank).decision


def selection_of(runs: Runs, against: Sequence[RunComparison]) -> Selection:
    """Rank all runs by the primary metric, and choose among the decisions on each run against the base.

    Raises:
        ConfigurationError: the runs have no primary metric in common, no row has it in every run, or they have
            different judges.
    """
    primaries = [comparison.metrics[comparison.part_metric] for comparison in against]
    metric, tables = primaries[0], runs.tables
    if any(primary.key != metric.key for primary in primaries):
        raise ConfigurationError("the runs' primary metrics differ; name a metric that all runs have with --metric")
    if any(primary.judge == "different" for primary in primaries):
        raise ConfigurationError(
            f"{metric.name} was scored by different judges in these runs: "
            "score the runs again with one judge (`tunecheck score RUN`)"
        )
    chosen = MetricRef(metric.name, metric.key, metric.evaluator, tested=True)
    common = common_rows(chosen.key, runs)
    if not len(common.items):
        raise ConfigurationError(f"no row has a value of {chosen.name} in every run: name runs of the same rows")
    ranking = rank_runs(common, runs, judge_label_counts(chosen, runs))
    best = choose(against)
    decision, optimism = _with_optimism(best, common, len(tables))
    last = [*runs.against_base][-1]
    sign = 1 if common.sides.higher_is_better else -1
    order = sorted(range(len(tables)), key=lambda run: (sign * (ranking[run].value.value or 0.0), run), reverse=True)
    return Selection(
        decision=decision,
        decisions=tuple(decision if each.decision is best else each.decision for each in against),
        regressed_since=None if ranking[last].may_be_best else tables[order[0]].info.id,
        metric=chosen.name,
        kind=common.sides.kind,
        higher_is_better=common.sides.higher_is_better,
        rows=len(common.items),
        clusters=ranking[0].value.clusters,
        cluster=None if runs.clusters is None else runs.clusters.by,
        confidence=runs.settings.confidence,
        base=runs.base.info.id,
        ranking=tuple(ranking[run] for run in order),
        rows_over_runs=rows_over_runs(chosen.name, common.sides.metric.passes, runs, runs.settings.rows),
        optimism=optimism,
        notes=tuple(dict.fromkeys(_notes(runs, len(common.items), against))),
        simulated=any(table.info.simulated for table in tables),
    )


def _with_optimism(decision: Decision, common: CommonRows, runs: int) -> tuple[Decision, float | None]:
    """Return the decision with a remark on the optimism for the best of several runs, and the optimism.

    The optimism is how much chance makes the best run look better on average; None for two runs.
    """
    optimism = expected_optimism(common.scores, common.labels) if runs > 2 else None
    if optimism is None:
        return decision, None
    size = size_text(common.sides.kind, optimism)
    reason = f"if all {runs} runs are equal, chance makes the best look {size} better on average"
    return replace(decision, because=(*decision.because, reason)), optimism


def _notes(runs: Runs, rows: int, against: Sequence[RunComparison]) -> Iterator[str]:
    """Yield notes on rows left out of the ranking and on runs that stopped early, then the comparisons' own notes."""
    left_out = len(runs.base.items.ids) - rows
    if left_out:
        yield f"ranking without {plural(left_out, 'row')} of {runs.base.info.id}: not every run has a figure for them"
    for table in runs.tables:
        if table.info.stopped is not None:
            yield f"{table.info.id}: {stopped_text(table.info.stopped)}"
    for each in against:
        yield from each.notes
