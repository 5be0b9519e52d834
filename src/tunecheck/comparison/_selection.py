"""The choice among several runs: each against the base, and a ranking over the rows that all runs have."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tunecheck._errors import ConfigurationError
from tunecheck._messages import plural
from tunecheck.comparison._comparison import Choice, Decision, RunComparison, Selection
from tunecheck.comparison._measuring import Chosen
from tunecheck.comparison._pairs import Runs
from tunecheck.comparison._rankings import CommonRows, common_rows, judges_labels, rank_runs
from tunecheck.comparison._row_histories import rows_over_runs
from tunecheck.comparison._wording import size_text
from tunecheck.runs._store import stopped_text

_ORDER: tuple[Choice, ...] = ("ship", "undecided", "keep", "invalid")


def choose(against: Sequence[RunComparison]) -> Decision:
    """Return the decision to act on: the best in the order ship, undecided, keep, invalid.

    Among equal decisions the candidate with the largest improvement wins, then the later one.
    """

    def rank(each: RunComparison) -> tuple[int, float]:
        metric, decision = each.metrics[each.part_metric], each.decision
        value = -math.inf if metric.difference.value is None else metric.difference.value
        return -_ORDER.index(decision.decision), value if metric.higher_is_better else -value

    return max(reversed(against), key=rank).decision


def selection_of(runs: Runs, against: Sequence[RunComparison]) -> Selection:
    """Rank all runs by the primary metric, and choose among the decisions on each run against the base.

    Raises:
        ConfigurationError: the runs have no primary metric in common, no row has it in every run, or they have
            different judges.
    """
    leading = [each.metrics[each.part_metric] for each in against]
    metric, tables = leading[0], runs.tables
    if any(each.key != metric.key for each in leading):
        raise ConfigurationError("the runs have no metric in common; name one that all of them have with --metric")
    if any(each.judge == "different" for each in leading):
        raise ConfigurationError(
            f"{metric.name} was scored by different judges in these runs: "
            "score them again with one judge (`tunecheck score RUN`)"
        )
    chosen = Chosen(metric.name, metric.key, metric.evaluator, tested=True)
    common = common_rows(chosen.key, runs)
    if not len(common.items):
        raise ConfigurationError(f"no row has {chosen.name} in every run: there is nothing to rank them on")
    ranking = rank_runs(common, runs, judges_labels(chosen, runs))
    best = choose(against)
    told, optimism = _with_optimism(best, common, len(tables))
    last = [*runs.against_base][-1]
    up, places = 1 if common.sides.higher_is_better else -1, range(len(tables))
    order = sorted(places, key=lambda at: (up * (ranking[at].value.value or 0.0), at), reverse=True)
    return Selection(
        decision=told,
        decisions=tuple(told if each.decision is best else each.decision for each in against),
        regressed_since=None if ranking[last].may_be_best else tables[order[0]].info.id,
        metric=chosen.name,
        kind=common.sides.kind,
        higher_is_better=common.sides.higher_is_better,
        rows=len(common.items),
        clusters=ranking[0].value.clusters,
        cluster=None if runs.clusters is None else runs.clusters.by,
        confidence=runs.settings.confidence,
        base=runs.base.info.id,
        ranking=tuple(ranking[at] for at in order),
        rows_over_runs=rows_over_runs(chosen.name, common.sides.metric.passes, runs, runs.settings.rows),
        optimism=optimism,
        notes=tuple(dict.fromkeys(_notes(runs, len(common.items), against))),
        simulated=any(table.info.simulated for table in tables),
    )


def _with_optimism(decision: Decision, common: CommonRows, runs: int) -> tuple[Decision, float | None]:
    """Add to the decision how much the best of three or more runs is overestimated on average; return both."""
    from tunecheck.statistics._best import expected_optimism

    optimism = expected_optimism(common.scores, common.labels) if runs > 2 else None
    if optimism is None:
        return decision, None
    size = size_text(common.sides.kind, optimism)
    said = f"the best of {runs} equal runs looks {size} too good on average"
    return replace(decision, because=(*decision.because, said)), optimism


def _notes(runs: Runs, rows: int, against: Sequence[RunComparison]) -> Iterator[str]:
    left_out = len(runs.base.items.ids) - rows
    if left_out:
        yield f"{plural(left_out, 'row')} of {runs.base.info.id} left out of the ranking: a run has no figure for them"
    for table in runs.tables:
        if table.info.stopped is not None:
            said = "the intervals of a run that stopped early are too narrow"
            yield f"{table.info.id}: {stopped_text(table.info.stopped)}: {said}"
    for each in against:
        yield from each.notes
