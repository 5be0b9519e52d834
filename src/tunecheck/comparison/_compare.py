"""`compare()` and `select()`: read runs, pair their rows, test their metrics and decide.

`compare_runs()` also returns the tables that were read, for callers that show the runs themselves.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tunecheck import plugins
from tunecheck._errors import ConfigurationError
from tunecheck._faults import cause_named, order_causes
from tunecheck.comparison._changes import add_reasons, changes_of
from tunecheck.comparison._common_metrics import choose_metrics, evaluator_notes
from tunecheck.comparison._comparison import (
    CauseChange,
    Comparison,
    History,
    MetricComparison,
    Pairs,
    RunComparison,
    Selection,
)
from tunecheck.comparison._families import correct_by_holm, corrected_by_family, primary_of
from tunecheck.comparison._measuring import ComparisonSettings, decided_metric, judge
from tunecheck.comparison._objections import decide_pair
from tunecheck.comparison._pairs import RunPair, Runs
from tunecheck.comparison._parts import figures_of, parts_of
from tunecheck.comparison._rankings import history
from tunecheck.comparison._selection import choose, selection_of
from tunecheck.comparison._settings import open_runs
from tunecheck.comparison._wording import short_names
from tunecheck.results import RunLike, RunTable
from tunecheck.statistics._paired import mcnemar

_NOTHING: frozenset[str] = frozenset()


def cause_changes(runs: RunPair) -> tuple[CauseChange, ...]:
    """Return the causes of all paired rows, largest growth first; empty if a run records no causes.

    A row with several trials has the causes of all its trials.
    """

    base, new = runs.base.causes, runs.new.causes
    if base is None or new is None:
        return ()
    gone, come, before, after = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    pairs = zip(runs.pairing.base, runs.pairing.new, strict=True)
    alike = Counter((base.get(old, _NOTHING), new.get(other, _NOTHING)) for old, other in pairs)
    for (had, has), count in alike.items():
        for counter, causes in ((before, had), (after, has), (gone, had - has), (come, has - had)):
            counter.update(dict.fromkeys(causes, count))
    codes = order_causes(before.keys() | after.keys())
    p_values = [mcnemar(gone[code], come[code])[1] for code in codes]
    adjusted = correct_by_holm(
        [(p_value, gone[code] + come[code] > 0) for code, p_value in zip(codes, p_values, strict=True)]
    )
    changes = []
    for code, p_value, p_adjusted in zip(codes, p_values, adjusted, strict=True):
        cause, counts = cause_named(code), (before[code], after[code], gone[code], come[code])
        changes.append(CauseChange(code, cause.title, cause.side or "model", *counts, p_value, p_adjusted or p_value))
    return tuple(sorted(changes, key=lambda change: change.base - change.new))


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison, and the pair of tables of each run and the base."""

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
    guards: Mapping[str, float] | None = None,
    allow_changed_evaluator: bool = False,
    results_dir: str | os.PathLike[str] = "eval_results",
) -> Comparison:
    """Compare one or more runs with a base, row by row.

    Args:
        base: a run's folder, id, the beginning of its id, or `last`; Azure's evaluation_results.json, or its folder;
            BFCL's score files; or the result of `evaluate()`.
        new: the runs to compare with it, in order.
        metrics: the metrics to test: evaluators, or keys of metrics.json; by default each evaluator's main metric.
        margin: how much worse is still accepted, in the metric's unit (0.02: two points of a pass rate); adds a test
            of non-inferiority.
        cluster: a column of the data; rows with equal values in it are not independent. By default the column that the
            data declares, else a column with repeated ids. `none` treats all rows as independent.
        confidence: the level of the two-sided intervals and of the verdicts, such as 0.95.
        allow_simulated: compare runs with simulated answers, too.
        pair_by: `content` pairs rows with equal id and content, then rows with equal content; `id` pairs by id alone.
        rows: the most rows in each list of changed rows; None for all. Counts always include all rows.
        seed: the seed of resampling; the same seed gives the same figures.
        guards: metrics, or slices such as `match[domain=refund]`, and how much worse than in the base each may be.
        allow_changed_evaluator: decide although the evaluator of the primary metric is not the same in both runs.
        results_dir: the folder with the runs.

    Raises:
        ConfigurationError: a run is missing, unfinished or simulated, rows do not pair, or an argument is wrong.
        DataError: the files of a run are damaged.
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
        guards=guards or {},
        allow_changed_evaluator=allow_changed_evaluator,
    )
    return compare_runs([base, *new], Path(results_dir), settings).comparison


def compare_runs(runs: Sequence[RunLike], results_dir: Path, settings: ComparisonSettings) -> Compared:
    """Compare runs with the first run; raises the errors of `compare`."""
    if len(runs) < 2:
        raise ConfigurationError("compare needs a base and at least one run to compare with it")
    return compare_tables(open_runs(runs, results_dir, settings), settings)


def select(
    *runs: RunLike,
    metric: str | None = None,
    guards: Mapping[str, float] | None = None,
    base: RunLike | None = None,
    margin: float | None = None,
    cluster: str | None = None,
    confidence: float = 0.95,
    allow_simulated: bool = False,
    allow_changed_evaluator: bool = False,
    pair_by: str = "content",
    seed: int = 0,
    results_dir: str | os.PathLike[str] = "eval_results",
) -> Selection:
    """Decide which of two or more runs to ship: a candidate that is better than the base, or the base.

    Args:
        runs: the runs in the order in which they were made, each given as for `compare`.
        metric: the metric that decides: an evaluator, or a key of metrics.json; by default the data's primary metric,
            else `match` if rows have calls, else the first evaluator's main metric.
        guards: as for `compare`.
        base: the run that the others have to beat; by default the first. It is ranked, too.
        margin: how much worse than the base is still accepted, in the metric's unit; without it a run must be better.
        cluster: a column of the data; rows with equal values in it are not independent. As for `compare`.
        confidence: the level of all intervals of the ranking together, and of each decision.
        allow_simulated: select among runs with simulated answers, too.
        allow_changed_evaluator: as for `compare`.
        pair_by: as for `compare`.
        seed: the seed of resampling; the same seed gives the same figures.
        results_dir: the folder with the runs.

    Raises:
        ConfigurationError: a run is missing, unfinished or simulated, rows do not pair, or an argument is wrong.
        DataError: the files of a run are damaged.
    """
    settings = ComparisonSettings(
        metrics=metric,
        confidence=confidence,
        margin=margin,
        cluster=cluster,
        allow_simulated=allow_simulated,
        pair_by=pair_by,
        seed=seed,
        guards=guards or {},
        allow_changed_evaluator=allow_changed_evaluator,
    )
    tables = open_runs([*runs, *([] if base is None else [base])], Path(results_dir), settings)
    place = 0 if base is None else _place_of_base(tables)
    if len(tables) < 2:
        raise ConfigurationError("select needs two runs or more")
    opened = Runs(tables, settings, place)
    _, against = _against_base(opened, lists_rows=False)
    return selection_of(opened, against)


def _place_of_base(tables: list[RunTable]) -> int:
    """Return the place of the base, which is the last table.

    If it is one of the other runs, its second table is removed; otherwise it is moved to the front.
    """
    base = tables.pop()
    for place, table in enumerate(tables):
        if table.info.place == base.info.place != "memory":
            return place
    tables.insert(0, base)
    return 0


def compare_tables(tables: Sequence[RunTable], settings: ComparisonSettings) -> Compared:
    """Compare the tables of runs with the first table."""
    runs = Runs(tables, settings)
    compared, against = _against_base(runs, lists_rows=True)
    best = _best(runs, against) if len(against) > 1 else None
    found = Comparison(
        base=tables[0].info,
        decision=choose(against) if best is None else best.decision,
        against=against,
        history=_history(compared, runs),
        best=best,
        confidence=settings.confidence,
        margin=settings.margin,
        cluster=settings.cluster,
        simulated=any(table.info.simulated for table in tables),
    )
    return Compared(found, [*runs.against_base.values()])


def _against_base(runs: Runs, *, lists_rows: bool) -> tuple[list[_Against], list[RunComparison]]:
    """Compare every run with the base; the p-values of all runs are corrected together."""
    names = short_names([table.info.id for table in runs.tables])
    compared = [_Against(each, names) for each in runs.against_base.values()]
    adjusted = iter(corrected_by_family([metric for each in compared for metric in each.tested]))
    listed = compared if runs.settings.lists_of_all else compared[-1:]
    return compared, [each.finish(adjusted, lists_rows=lists_rows and each in listed) for each in compared]


class _Against:
    """One run against the base; its verdicts need the corrected p-values of all runs, so `finish` adds them."""

    def __init__(self, pair: RunPair, names: Mapping[str, str]) -> None:
        self._pair, self._names = pair, names
        base, new, settings = pair.base, pair.new, pair.settings
        chosen, notes = choose_metrics(base, new, settings.named)
        self._primary = primary_of(chosen, base, new, settings.named)
        same = [f"{base.info.id} is held against itself"] if base.info.place == new.info.place != "memory" else []
        clusters = [] if pair.clusters is None else [str(pair.clusters)]
        told = [*_stopping_notes(pair, [each.key for each in chosen if each.tested]), *same, *clusters]
        self._notes = [*told, *base.info.notes, *new.info.notes, *evaluator_notes(base, new), *notes]
        self.measured = {
            each.name: replace(pair.measured(each), primary=each.key == self._primary.key) for each in chosen
        }

    @property
    def tested(self) -> list[MetricComparison]:
        """The metrics that are tested."""
        return [metric for metric in self.measured.values() if metric.tested]

    def finish(self, adjusted: Iterator[float | None], *, lists_rows: bool) -> RunComparison:
        """Return the complete comparison, given the corrected p-values of its tests in order."""
        pair, judged = self._pair, dict(self.measured)
        for metric in self.tested:
            judged[metric.name] = judge(metric, next(adjusted), pair.sides(metric.key).bounds)
        primary, infos = judged[self._primary.name], (pair.base.info, pair.new.info)
        parts, causes = parts_of(pair, primary), cause_changes(pair)
        return RunComparison(
            pair.new.info,
            self._pairs(),
            self._with_rows(judged) if lists_rows else judged,
            decide_pair(pair, primary, parts, causes, self._names),
            tuple(dict.fromkeys(self._notes)),
            causes,
            {name: data for name, table in plugins.tables().items() if (data := table.data(*infos))},
            primary.name,
            parts,
            figures_of(pair, primary),
        )

    def _with_rows(self, judged: Mapping[str, MetricComparison]) -> Mapping[str, MetricComparison]:
        pair, most = self._pair, self._pair.settings.rows
        changes = {each.name: changes_of(judged[each.name], pair.sides(each.key), pair, most) for each in self.tested}
        return add_reasons(judged, changes, pair)

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
    """Yield notes on early stopping: which figures account for it, and which are too certain."""
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
    """Return the history of each metric tested in all runs, over the rows with a number in every run."""
    if len(compared) == 1:
        return [History(each.name, each.kind, (each.base, each.new)) for each in compared[0].tested]
    everywhere = (each for each in compared[0].tested if all(each.name in other.measured for other in compared))
    return [history(each, runs) for each in everywhere]


def _best(runs: Runs, against: Sequence[RunComparison]) -> Selection | None:
    """Return the selection among the same runs; None if no row is in all of them."""
    try:
        return selection_of(runs, against)
    except ConfigurationError:
        return None
