"""Which of several runs to ship: a ranking on one metric, guards on others, and what speaks against the choice."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._errors import ConfigurationError
from tunecheck._files import FORMAT_VERSION
from tunecheck._json import JSON
from tunecheck._messages import counted
from tunecheck.comparison._common_metrics import choose_metrics, evaluator_notes
from tunecheck.comparison._compare import cluster_labels, compare_tables, open_runs
from tunecheck.comparison._comparison import MetricComparison
from tunecheck.comparison._guards import Guard, guards_of
from tunecheck.comparison._measuring import FEWEST, Chosen, Settings, Sides, estimate, item_values, sides_of
from tunecheck.comparison._objections import objections
from tunecheck.comparison._pairing import pair
from tunecheck.comparison._reading import RunLike
from tunecheck.comparison._run_table import Kind, RunTable
from tunecheck.comparison._wording import size_text, value_text
from tunecheck.runs._decision import stopped_text
from tunecheck.statistics._results import Estimate, Result

if TYPE_CHECKING:
    from tunecheck.statistics._samples import Codes, Floats


@dataclass(frozen=True, slots=True)
class Ranked(Result):
    """One run of a selection: its figure, and how far it is from the best of the other runs.

    `difference` has a simultaneous interval: those of all runs hold at once. `may_be_best` is whether the run cannot be
    told from the best.
    """

    run: str
    value: Estimate
    difference: Estimate
    may_be_best: bool
    guards: tuple[Guard, ...] = ()

    @property
    def breaks_a_guard(self) -> bool:
        """Whether some guard is broken."""
        return any(guard.outcome == "broken" for guard in self.guards)


@dataclass(frozen=True, slots=True)
class HeldAgainst(Result):
    """One run against another on the metric of the selection, tested by itself."""

    base: str
    new: str
    metric: MetricComparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(Result):
    """Which run to ship: `ranking` has the best first, over the `rows` that every run has a figure for.

    `ship` is the highest of the runs that break no guard, of equal ones the later. `against` holds the last run against
    the best and the base, and the chosen one against the base. `objections` are what speaks against shipping it, and
    `sentence` says all in one; `notes` what is left out, or not the same in all runs.
    Its fields are those of `tunecheck select --json`.
    """

    format_version: int = FORMAT_VERSION
    ship: str
    sentence: str
    objections: tuple[str, ...]
    metric: str
    metric_named: bool
    kind: Kind
    higher_is_better: bool
    rows: int
    clusters: int | None
    confidence: float
    base: str
    ranking: tuple[Ranked, ...]
    against: tuple[HeldAgainst, ...]
    notes: tuple[str, ...] = ()
    simulated: bool = False

    def to_json(self) -> dict[str, JSON]:
        """Everything, as plain JSON values."""
        return self.as_json()


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
        metric: what they are ranked on: an evaluator, or a metric of metrics.json; by default the first of `compare`.
        guards: metrics that must not get worse than the base's, with how much worse is accepted, in their own unit.
        base: the run that guards hold against; by default the first. It is ranked, too.
        cluster: a column of the data; rows with equal values in it are not independent.
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
    settings = Settings(
        confidence=confidence, cluster=cluster, allow_simulated=allow_simulated, pair_by=pair_by, rows=0, seed=seed
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
    return _selected(tables, tables[first], metric, guards or {}, settings)


def _selected(
    tables: Sequence[RunTable], base: RunTable, metric: str | None, guards: Mapping[str, float], settings: Settings
) -> Selection:
    chosen = _chosen(base, [table for table in tables if table is not base], metric)
    common = _common_rows(chosen.key, tables, base, settings)
    ranking = _ranking(common, tables, settings, [guards_of(base, table, guards, settings) for table in tables])
    up = 1 if common.sides.higher_is_better else -1
    order = sorted(range(len(tables)), key=lambda at: (up * (ranking[at].value.value or 0.0), at), reverse=True)
    shipped = next(at for at in order if not ranking[at].breaks_a_guard)
    ship, best, last = tables[shipped], tables[order[0]], tables[-1]
    one = replace(settings, metrics=chosen.name)
    pairs = {(old.info.id, new.info.id): (old, new) for old, new in ((best, last), (base, last), (base, ship))}
    ranked = tuple(ranking[at] for at in order)
    against = [_held(old, new, chosen, one) for old, new in pairs.values() if old is not new]
    said = [*_of_ranking(ranking[shipped], ranked, common.sides), *objections(ship, base, last, chosen.name, settings)]
    return Selection(
        ship=ship.info.id,
        sentence=_sentence(ranking[shipped], ranked, chosen, common, said),
        objections=tuple(said),
        metric=chosen.name,
        metric_named=metric is not None,
        kind=common.sides.kind,
        higher_is_better=common.sides.higher_is_better,
        rows=len(common.scores),
        clusters=ranked[0].value.clusters,
        confidence=settings.confidence,
        base=base.info.id,
        ranking=ranked,
        against=tuple(against),
        notes=tuple(dict.fromkeys(_notes(tables, base, len(common.scores)))),
        simulated=any(table.info.simulated for table in tables),
    )


def _chosen(base: RunTable, others: Sequence[RunTable], metric: str | None) -> Chosen:
    """The metric that is named, else the first main one that all runs have."""
    names = None if metric is None else [metric]
    found = [[each for each in choose_metrics(base, table, names)[0] if each.tested] for table in others]
    for chosen in found[0]:
        if all(any(each.key == chosen.key for each in metrics) for metrics in found):
            return chosen
    raise ConfigurationError("the runs have no metric in common; name one that all of them have with --metric")


@dataclass(frozen=True, slots=True)
class _CommonRows:
    """The rows that every run has a number for: `scores` is of shape (rows, runs)."""

    scores: Floats
    labels: Codes | None
    sides: Sides


def _common_rows(key: str, tables: Sequence[RunTable], base: RunTable, settings: Settings) -> _CommonRows:
    import numpy

    from tunecheck.statistics._samples import as_codes

    count = len(base.items.ids)
    scores = numpy.full((count, len(tables)), numpy.nan)
    labels: dict[int, Hashable] = {}
    found: list[Sides] = []
    for at, table in enumerate(tables):
        if table is base:
            scores[:, at] = item_values(base, key)
            continue
        pairing = pair(base, table, settings.pair_by)
        found.append(sides_of(key, base, table, pairing, None))
        scores[list(pairing.base), at] = found[-1].new
        known = cluster_labels(base, table, pairing, settings.cluster)
        labels.update(zip(pairing.base, known or (), strict=known is not None))
    rows = numpy.flatnonzero(~numpy.isnan(scores).any(axis=1))
    if not len(rows):
        raise ConfigurationError(f"no row has {key} in every run: there is nothing to rank them on")
    kind = found[0].kind if len({sides.kind for sides in found}) == 1 else "score"
    sides = replace(found[0], kind=kind, averaged=any(each.averaged for each in found))
    codes = as_codes(labels.get(row) for row in rows.tolist()) if labels else None
    return _CommonRows(scores[rows], codes, sides)


def _ranking(
    common: _CommonRows, tables: Sequence[RunTable], settings: Settings, guards: Sequence[tuple[Guard, ...]]
) -> list[Ranked]:
    from tunecheck.statistics._best import multiple_comparisons_with_the_best

    standings = multiple_comparisons_with_the_best(
        common.scores,
        common.labels,
        verdicts=common.sides.verdicts,
        higher_is_better=common.sides.higher_is_better,
        confidence=settings.confidence,
        seed=settings.seed,
    )
    found = []
    for at, (table, standing) in enumerate(zip(tables, standings, strict=True)):
        value = estimate(common.scores[:, at], common.sides, common.labels, settings)
        ends = standing.low, standing.high, value.n, settings.confidence, "comparisons with the best"
        difference = Estimate(standing.difference, *ends, clusters=value.clusters)
        found.append(Ranked(table.info.id, value, difference, standing.may_be_best, guards[at]))
    return found


def _held(base: RunTable, new: RunTable, chosen: Chosen, settings: Settings) -> HeldAgainst:
    against = compare_tables([base, new], settings).comparison.against[0]
    return HeldAgainst(base.info.id, new.info.id, against.metrics[chosen.name])


def _notes(tables: Sequence[RunTable], base: RunTable, rows: int) -> Iterator[str]:
    left_out = len(base.items.ids) - rows
    if left_out:
        yield f"{counted(left_out, 'row')} of {base.info.id} in no figure: not every run has a figure for them"
    for table in tables:
        if table.info.stopped is not None:
            yield f"{table.info.id}: {stopped_text(table.info.stopped)}: of such a run these intervals claim too much"
        yield from table.info.notes
        yield from evaluator_notes(base, table)


def _of_ranking(ship: Ranked, ranking: Sequence[Ranked], sides: Sides) -> Iterator[str]:
    rivals = [each.run for each in ranking if each.may_be_best and each is not ship]
    if not ship.may_be_best:
        yield f"it is worse than {ranking[0].run}, which breaks a guard"
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
            yield f"{guard.metric} is not shown to be worse by less than {size}"


def _sentence(ship: Ranked, ranking: Sequence[Ranked], chosen: Chosen, common: _CommonRows, said: Sequence[str]) -> str:
    value = value_text(common.sides.kind, ship.value.value)
    place = "the best" if ship is ranking[0] else "the best that breaks no guard"
    against = f"; against it: {'; '.join(said)}" if said else "; nothing was found that speaks against it"
    return f"Ship {ship.run}: {chosen.name} {value}, {place} of {len(ranking)} runs{against}."
