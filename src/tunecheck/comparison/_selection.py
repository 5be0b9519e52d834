"""Which of several runs to ship: a ranking on one metric, guards on others, and what speaks against the choice."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from tunecheck import plugins
from tunecheck._codes import cause_named
from tunecheck._errors import ConfigurationError
from tunecheck._messages import clean, counted
from tunecheck.comparison._cause_changes import cause_changes
from tunecheck.comparison._common_metrics import choose_metrics, evaluator_notes
from tunecheck.comparison._comparison import Guard, PairwiseComparison, Ranked, Selection
from tunecheck.comparison._families import corrected, primary_of
from tunecheck.comparison._measuring import FEWEST, Chosen, ComparisonSettings, PairedValues, judge
from tunecheck.comparison._pairs import RunPair, Runs
from tunecheck.comparison._rankings import common_rows, judges_labels, ranked
from tunecheck.comparison._row_histories import rows_over_runs
from tunecheck.comparison._settings import open_runs
from tunecheck.comparison._verdicts import WORSE
from tunecheck.comparison._wording import OF_JUDGE, headline, short_names, size_text, value_text
from tunecheck.results import RunInfo, RunLike, RunTable
from tunecheck.runs._decision import stopped_text
from tunecheck.runs._store import Run

_MORE = 1.1
"""A tenth more of cost or latency is worth a word."""


def select(
    *runs: RunLike,
    metric: str | None = None,
    guards: Mapping[str, float] | None = None,
    base: RunLike | None = None,
    cluster: str | None = None,
    confidence: float = 0.95,
    allow_simulated: bool = False,
    pair_by: str = "content",
    seed: int = 0,
    results_dir: str | os.PathLike[str] = "eval_results",
) -> Selection:
    """Which of two or more runs to ship: the best on one metric that does not break a guard.

    Args:
        runs: in the order in which they were made; each given as to `compare`.
        metric: what they are ranked on: an evaluator, or a metric of metrics.json; by default what the data declares
            as its primary metric, else the one of which most rows have a figure.
        guards: metrics that must not get worse than the base's, with how much worse is accepted, in their own unit.
        base: the run that guards hold against; by default the first. It is ranked, too.
        cluster: a column of the data; rows with equal values in it are not independent. As of `compare`.
        confidence: of all intervals of the ranking together, and of each guard's.
        allow_simulated: select among runs that asked no model, too.
        pair_by: as of `compare`.
        seed: of resampling; the same seed gives the same figures.
        results_dir: where runs are looked for.

    Raises:
        ConfigurationError: a run that is not there, not finished, or simulated; rows that do not pair; an option.
        DataError: a run whose files are damaged.
    """
    for name, accepted in (guards or {}).items():
        if not 0 <= accepted < math.inf:
            raise ConfigurationError(f"guard {name!r}: a margin is 0 or more, not {accepted!r}")
    settings = ComparisonSettings(
        confidence=confidence, cluster=cluster, allow_simulated=allow_simulated, pair_by=pair_by, seed=seed
    )
    tables = open_runs([*runs, *([] if base is None else [base])], Path(results_dir), settings)
    first = 0
    if base is not None:
        given = tables.pop()
        again = [
            at for at, run in enumerate(runs) if run is base or tables[at].info.place == given.info.place != "memory"
        ]
        if again:
            first = again[0]
        else:
            tables.insert(0, given)
    if len(tables) < 2:
        raise ConfigurationError("select takes two runs or more, to choose among them")
    opened = Runs(tables, settings, first)
    chosen, named = _chosen(opened, metric)
    return best_of(opened, chosen, named=named, guards=guards)


def best_of(runs: Runs, chosen: Chosen, *, named: bool = True, guards: Mapping[str, float] | None = None) -> Selection:
    """Which run to ship, by a metric that all runs have; `named` says whether somebody said that it decides.

    Raises:
        ConfigurationError: no row has a number of it in every run, or they have different judges.
    """
    judges = {pair.measured(chosen).judge for pair in runs.against_base.values()}
    if "different" in judges:
        raise ConfigurationError(
            f"{chosen.name} is not by the same judge in all runs: `tunecheck score` has one judge all"
        )
    common, tables = common_rows(chosen.key, runs), runs.tables
    if not len(common.items):
        raise ConfigurationError(f"no row has {chosen.name} in every run: there is nothing to rank them on")
    ranking = [
        each if place == runs.base_place else replace(each, guards=_guards_of(runs.against_base[place], guards or {}))
        for place, each in enumerate(ranked(common, runs, judges_labels(chosen, runs)))
    ]
    up = 1 if common.sides.higher_is_better else -1
    places = range(len(tables))
    order = sorted(places, key=lambda at: (up * (ranking[at].value.value or 0.0), at), reverse=True)
    ship = next(at for at in order if not ranking[at].breaks_a_guard)
    best, last, base = order[0], places[-1], runs.base_place
    in_order = tuple(ranking[at] for at in order)
    spans = (f"{table.info.id}: {said}" for table in tables for said in warnings(runs.base.info, table.info))
    names = short_names([table.info.id for table in tables])
    said = [*spans, *_of_ranking(ranking[ship], in_order, common.sides, names)]
    said += _objections(runs, ship, chosen.name, names)
    value = value_text(common.sides.kind, ranking[ship].value.value)
    figure = ", ".join(filter(None, [value, *(OF_JUDGE[judge] for judge in judges)]))
    pairs = dict.fromkeys(pair for pair in ((best, last), (base, last), (base, ship)) if pair[0] != pair[1])
    return Selection(
        ship=tables[ship].info.id,
        sentence=_sentence(ranking[ship], names, chosen, figure, said, is_best=ship == best),
        objections=tuple(said),
        regressed_since=None if ranking[last].may_be_best else tables[best].info.id,
        metric=chosen.name,
        metric_named=named,
        kind=common.sides.kind,
        higher_is_better=common.sides.higher_is_better,
        rows=len(common.items),
        clusters=in_order[0].value.clusters,
        cluster=None if runs.clusters is None else runs.clusters.by,
        confidence=runs.settings.confidence,
        base=runs.base.info.id,
        ranking=in_order,
        against=tuple(_held(runs.pair(*pair), chosen) for pair in pairs),
        rows_over_runs=rows_over_runs(chosen.name, common.sides.metric.passes, runs, runs.settings.rows),
        notes=tuple(dict.fromkeys(_notes(runs, len(common.items)))),
        simulated=any(table.info.simulated for table in tables),
    )


def warnings(base: RunInfo, new: RunInfo) -> Iterator[str]:
    """What plug-ins say that makes two runs hard to compare."""
    for rule in plugins.objection_rules():
        yield from rule(base, new)


def _chosen(runs: Runs, metric: str | None) -> tuple[Chosen, bool]:
    """The metric that is named or declared, else the tested one of most rows; and whether it is said to decide."""
    names = None if metric is None else [metric]
    pairs = [*runs.against_base.values()]
    found = [[each for each in choose_metrics(pair.base, pair.new, names)[0] if each.tested] for pair in pairs]
    everywhere = [each for each in found[0] if all(any(each.key == other.key for other in one) for one in found)]
    if not everywhere:
        raise ConfigurationError("the runs have no metric in common; name one that all of them have with --metric")
    primary = primary_of(found[0], names, pairs[0].base.primary or pairs[0].new.primary)
    columns = runs.base.columns
    chosen = max(everywhere, key=lambda each: (each.key == primary, columns[each.key].figures))
    return chosen, chosen.key == primary


def _held(pair: RunPair, chosen: Chosen) -> PairwiseComparison:
    metric = pair.measured(chosen)
    judged = judge(metric, metric.p_value, pair.sides(metric.key).bounds)
    return PairwiseComparison(pair.base.info.id, pair.new.info.id, replace(judged, primary=True))


def _notes(runs: Runs, rows: int) -> Iterator[str]:
    left_out = len(runs.base.items.ids) - rows
    if left_out:
        yield f"{counted(left_out, 'row')} of {runs.base.info.id} in no figure: not every run has a figure for them"
    if runs.clusters is not None:
        yield str(runs.clusters)
    for table in runs.tables:
        if table.info.stopped is not None:
            yield f"{table.info.id}: {stopped_text(table.info.stopped)}: of such a run these intervals claim too much"
        yield from table.info.notes
        yield from evaluator_notes(runs.base, table)


def _of_ranking(
    ship: Ranked, ranking: Sequence[Ranked], sides: PairedValues, names: Mapping[str, str]
) -> Iterator[str]:
    rivals = [names[each.run] for each in ranking if each.may_be_best and each is not ship]
    if not ship.may_be_best:
        yield f"it is worse than {names[ranking[0].run]}, which breaks a guard"
    elif rivals:
        most = ship.difference.low if sides.higher_is_better else ship.difference.high
        worse = "" if most is None else f" and it may be worse by up to {size_text(sides.kind, abs(most))}"
        yield f"{ship.value.n:,} rows do not tell it from {', '.join(rivals)}{worse}"
    units = ship.value.n if ship.value.clusters is None else ship.value.clusters
    if units < FEWEST:
        yield f"{counted(units, 'row' if ship.value.clusters is None else 'cluster')} are too few"
    for guard in ship.guards:
        if guard.outcome == "undecided":
            size = size_text(guard.kind, guard.margin)
            yield f"{guard.metric} is not shown to be at most {size} worse"


def _sentence(
    ship: Ranked, names: Mapping[str, str], chosen: Chosen, figure: str, said: Sequence[str], *, is_best: bool
) -> str:
    place = "the best" if is_best else "the best that breaks no guard"
    against = f"; against it: {'; '.join(said)}" if said else "; nothing was found that speaks against it"
    return f"Ship {names[ship.run]}: {chosen.name} {figure}, {place} of {len(names)} runs{against}."


def _guards_of(pair: RunPair, guards: Mapping[str, float]) -> tuple[Guard, ...]:
    """What became of each guard, by metric with its margin, in the new run."""
    return tuple(_guard(pair, name, margin) for name, margin in guards.items())


def _guard(pair: RunPair, name: str, margin: float) -> Guard:
    from tunecheck.statistics._decisions import non_inferiority
    from tunecheck.statistics._margins import refutes

    metric = pair.measured(choose_metrics(pair.base, pair.new, [name])[0][0])
    difference, up = metric.difference, metric.higher_is_better
    if non_inferiority(difference, margin, higher_is_better=up).shown:
        return Guard(metric.name, margin, "kept", metric.kind, difference)
    broken = refutes(difference, margin, higher_is_better=up)
    return Guard(metric.name, margin, "broken" if broken else "undecided", metric.kind, difference)


# -- what speaks against the choice: what else got worse, its cost and latency, and faults of how it is served


def _objections(runs: Runs, ship: int, metric: str, names: Mapping[str, str]) -> Iterator[str]:
    """Sentences, none where nothing is found; `metric` is the one that the run at this place was chosen by.

    `names` are what they call the runs, by id.
    """
    last = len(runs.tables) - 1
    for place in dict.fromkeys([runs.base_place, last]):
        if place != ship:
            yield from _worse_than(runs.pair(place, ship), metric, names)
    if ship != runs.base_place:
        yield from _dearer(runs.base, runs.tables[ship], names[runs.base.info.id])
    served = sum(cause_named(code).side == "serving" for code in (runs.tables[ship].causes or {}).values())
    if served:
        yield f"{counted(served, 'row')} of it failed for the serving, not the model"


def _worse_than(pair: RunPair, metric: str, names: Mapping[str, str]) -> Iterator[str]:
    base = names[pair.base.info.id]
    chosen, _ = choose_metrics(pair.base, pair.new, None)
    others = [pair.measured(each) for each in chosen if each.tested and each.name != metric]
    adjusted = corrected([(each.p_value, each.moved) for each in others])
    for each, p_value in zip(others, adjusted, strict=True):
        judged = judge(each, p_value, pair.sides(each.key).bounds)
        if judged.verdict == WORSE:
            yield f"{clean(each.name, 60)} against {base}: {headline(judged)}"
    for cause in cause_changes(pair):
        if cause.new > cause.base and cause.p_adjusted < 1 - pair.settings.confidence:
            yield f"{cause.title}: {counted(cause.new, 'row')}, {cause.base:,} in {base}"


def _dearer(base: RunTable, ship: RunTable, name: str) -> Iterator[str]:
    (before, unit), (after, other) = _cost(base), _cost(ship)
    if before and after and unit == other and after > _MORE * before:
        yield f"a row costs {after:.3g} {unit}, {before:.3g} in {name}"
    slow, slower = (median(table.latencies_ms or [0.0]) / 1_000 for table in (base, ship))
    if slow and slower > _MORE * slow:
        yield f"half of its answers take over {slower:.3g} s, {slow:.3g} s in {name}"


def _cost(table: RunTable) -> tuple[float | None, object]:
    """What the target cost by row, and the currency; None where it is not known."""
    run = Run(Path(table.info.place))
    if table.info.source != "run" or not run.metrics_file.is_file():
        return None, None
    usage = run.metrics().get("usage")
    spent = usage.get("target") if isinstance(usage, dict) else None
    cost = spent.get("cost") if isinstance(spent, dict) else None
    if not isinstance(spent, dict) or not isinstance(cost, (int, float)):
        return None, None
    return cost / table.info.rows, spent.get("currency")
