"""The front doors: `compare()` reads runs, pairs their rows, and says of each metric what the data show.

`compare_runs()` also hands over what was read, to who shows the runs themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tunecheck import plugins
from tunecheck._errors import ConfigurationError
from tunecheck.comparison._cause_changes import cause_changes
from tunecheck.comparison._changes import add_reasons, changes_of
from tunecheck.comparison._common_metrics import choose_metrics, evaluator_notes
from tunecheck.comparison._comparison import Comparison, History, MetricComparison, Pairs, RunComparison, Selection
from tunecheck.comparison._families import corrected_by_family, primary_of
from tunecheck.comparison._measuring import Chosen, ComparisonSettings, decided_metric, judge
from tunecheck.comparison._pairs import RunPair, Runs
from tunecheck.comparison._parts import figures_of, parts_of
from tunecheck.comparison._rankings import history
from tunecheck.comparison._selection import best_of, warnings
from tunecheck.comparison._settings import open_runs
from tunecheck.results import RunLike, RunTable


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison, and of each run against the base both tables and their pairs."""

    comparison: Comparison
    runs: Sequence[RunPair]


def compare(
    base: RunLike,
    *new: RunLike,
    metrics: str | Sequence[str] | None = None,
    margin: float | None = None,
    cluster: str | None = None,
    confidence: float = 0.95,
    allow_simulated: bool = False,
    pair_by: str = "content",
    rows: int | None = 1_000,
    seed: int = 0,
    results_dir: str | os.PathLike[str] = "eval_results",
) -> Comparison:
    """Compare one or more runs with a base, row by row.

    Args:
        base: a run's folder, id, the beginning of its id, or `last`; Azure's evaluation_results.json, or its folder;
            BFCL's score files; or what `evaluate()` returned.
        new: the runs to compare with it, in order.
        metrics: what to test: evaluators, or metrics as metrics.json names them; by default each evaluator's main one.
        margin: how much worse is still accepted, in the metric's unit (0.02: two points of a pass rate); adds a test
            of non-inferiority.
        cluster: a column of the data; rows with equal values in it are not independent. By default the one that the
            data declares, else one that is found; `none` takes all rows as independent.
        confidence: of the two-sided intervals; what the verdicts hold for.
        allow_simulated: compare runs that asked no model, too.
        pair_by: `content` pairs rows of equal id and content, then of equal content; `id` rows of equal id alone.
        rows: how many rows of each list are kept; None for all. Their counts are always complete.
        seed: of resampling; the same seed gives the same figures.
        results_dir: where runs are looked for.

    Raises:
        ConfigurationError: a run that is not there, not finished, or simulated; rows that do not pair; an option.
        DataError: a run whose files are damaged.
    """
    settings = ComparisonSettings(
        metrics=metrics,
        confidence=confidence,
        margin=margin,
        cluster=cluster,
        allow_simulated=allow_simulated,
        pair_by=pair_by,
        rows=rows,
        seed=seed,
    )
    return compare_runs([base, *new], Path(results_dir), settings).comparison


def compare_runs(runs: Sequence[RunLike], results_dir: Path, settings: ComparisonSettings) -> Compared:
    """Compare runs with the first of them; arguments and errors as of `compare`."""
    if len(runs) < 2:
        raise ConfigurationError("compare takes a base and at least one run to compare with it")
    return compare_tables(open_runs(runs, results_dir, settings), settings)


def compare_tables(tables: Sequence[RunTable], settings: ComparisonSettings) -> Compared:
    """Compare runs that are read with the first of them."""
    runs = Runs(tables, settings)
    pairs = [*runs.against_base.values()]
    compared = [_Against(each) for each in pairs]
    adjusted = iter(corrected_by_family([metric for each in compared for metric in each.tested]))
    found = Comparison(
        base=tables[0].info,
        against=[each.finish(adjusted) for each in compared],
        history=_history(compared, runs),
        best=_best(runs, compared[0].leading) if len(pairs) > 1 else None,
        confidence=settings.confidence,
        margin=settings.margin,
        cluster=settings.cluster,
        simulated=any(table.info.simulated for table in tables),
    )
    return Compared(found, pairs)


class _Against:
    """One run against the base: measured at once, judged when all runs are measured."""

    def __init__(self, pair: RunPair) -> None:
        self._pair = pair
        base, new, settings = pair.base, pair.new, pair.settings
        chosen, notes = choose_metrics(base, new, settings.named, gated=settings.gated)
        primary = primary_of(chosen, settings.named, base.primary or new.primary)
        same = [f"{base.info.id} is held against itself"] if base.info.place == new.info.place != "memory" else []
        clusters = [] if pair.clusters is None else [str(pair.clusters)]
        told = [*_stopping_notes(pair, [each.key for each in chosen if each.tested]), *same, *clusters]
        self._notes = [*told, *base.info.notes, *new.info.notes, *evaluator_notes(base, new), *notes]
        self.measured = {
            each.name: replace(pair.measured(each), primary=each.tested and each.key == primary) for each in chosen
        }

    @property
    def tested(self) -> list[MetricComparison]:
        """The metrics with a test, the one that leads first."""
        return [metric for metric in self.measured.values() if metric.tested]

    @property
    def leading(self) -> MetricComparison:
        """The metric by which runs are ranked, and whose parts are shown: the primary one, else that of most rows."""
        return max(self.tested, key=lambda metric: (metric.primary, metric.difference.n))

    def finish(self, adjusted: Iterator[float | None]) -> RunComparison:
        """Everything of this run; takes the corrected p-values of its tests."""
        pair, judged = self._pair, dict(self.measured)
        for metric in self.tested:
            judged[metric.name] = judge(metric, next(adjusted), pair.sides(metric.key).bounds)
        most, infos = pair.settings.rows, (pair.base.info, pair.new.info)
        changes = {each.name: changes_of(judged[each.name], pair.sides(each.key), pair, most) for each in self.tested}
        return RunComparison(
            pair.new.info,
            self._pairs(),
            add_reasons(judged, changes, pair),
            tuple(dict.fromkeys(self._notes)),
            cause_changes(pair),
            tuple(warnings(*infos)),
            {name: data for name, table in plugins.tables().items() if (data := table.data(*infos))},
            self.leading.name,
            parts_of(pair, self.leading),
            figures_of(pair, self.leading),
        )

    def _pairs(self) -> Pairs:
        pairing, clusters = self._pair.pairing, self._pair.clusters
        base, new = self._pair.base.items.ids, self._pair.new.items.ids
        return Pairs(
            paired=len(pairing.base),
            by_content=pairing.by_content,
            by_id_alone=pairing.by_id_alone,
            only_in_base=tuple(base[item] for item in pairing.only_base),
            only_in_new=tuple(new[item] for item in pairing.only_new),
            other_content=tuple(pairing.changed),
            clusters=None if clusters is None else clusters.count,
            cluster=None if clusters is None else clusters.by,
        )


def _stopping_notes(pair: RunPair, tested: Sequence[str]) -> Iterator[str]:
    """Of runs that stopped early, which figures allow for it."""
    base, new = pair.base, pair.new
    stopped = [info.id for info in (base.info, new.info) if info.stopped is not None]
    valid = [key for key in tested if decided_metric(key, base, new, pair.settings.confidence) is not None]
    if valid and len(valid) == len(tested):
        of_parts = "those of parts and causes only of complete runs"
        yield f"{new.info.id} stopped early: the tested intervals and p-values hold whenever one stops, {of_parts}"
    elif stopped:
        but = f", but for {', '.join(valid)}" if valid else ""
        yield f"{' and '.join(stopped)} stopped early: the intervals and p-values of complete runs claim too much{but}"


def _history(compared: Sequence[_Against], runs: Runs) -> list[History]:
    """Each tested metric over the base and all runs, over the rows that all of them have a number for."""
    if len(compared) == 1:
        return [History(each.name, each.kind, (each.base, each.new)) for each in compared[0].tested]
    everywhere = (each for each in compared[0].tested if all(each.name in other.measured for other in compared))
    return [history(each, runs) for each in everywhere]


def _best(runs: Runs, metric: MetricComparison) -> Selection | None:
    """What `select` says of the same runs; None where they have no row in common, of which there is a note."""
    try:
        return best_of(runs, Chosen(metric.name, metric.key, metric.evaluator, tested=True), named=metric.primary)
    except ConfigurationError:
        return None
