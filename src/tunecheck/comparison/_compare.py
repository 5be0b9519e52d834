"""`compare()` and `select()`: read runs, pair their rows, test their metrics and decide.

`compare_runs()` also returns the tables that were read, for callers that show the runs themselves.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tunecheck import plugins
from tunecheck._errors import ConfigurationError
from tunecheck._faults import cause_named, order_causes
from tunecheck._messages import did_you_mean
from tunecheck.comparison._changes import with_changed_rows
from tunecheck.comparison._common_metrics import choose_metrics, primary_of
from tunecheck.comparison._comparison import (
    CauseChange,
    Comparison,
    History,
    MetricComparison,
    Pairs,
    RunComparison,
    Selection,
)
from tunecheck.comparison._measuring import (
    ComparisonSettings,
    MetricRef,
    add_verdict,
    correct_by_holm,
    corrected_by_family,
    decided_metric,
)
from tunecheck.comparison._objections import decide_pair
from tunecheck.comparison._pairing import PAIR_BY
from tunecheck.comparison._pairs import RunPair, Runs
from tunecheck.comparison._parts import figures_of, parts_of
from tunecheck.comparison._selection import choose, history, selection_of
from tunecheck.comparison._wording import short_names
from tunecheck.results import RunLike, RunTable, read_runs
from tunecheck.statistics._paired import mcnemar

_NOTHING: frozenset[str] = frozenset()


def cause_changes(runs: RunPair) -> tuple[CauseChange, ...]:
    """Return how often each cause of failure occurs in the paired rows of both runs, largest growth first.

    A row with several trials has the causes of all its trials. The result is empty if a run records no causes.
    """
    base, new = runs.base.causes, runs.new.causes
    if base is None or new is None:
        return ()
    in_base, in_new, only_base, only_new = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    items = zip(runs.pairing.base, runs.pairing.new, strict=True)
    # Few pairs of sets of causes differ, so each is looked at once.
    pairs = Counter((base.get(base_item, _NOTHING), new.get(new_item, _NOTHING)) for base_item, new_item in items)
    for (before, after), count in pairs.items():
        gone, come = before - after, after - before
        for counter, causes in ((in_base, before), (in_new, after), (only_base, gone), (only_new, come)):
            counter.update(dict.fromkeys(causes, count))
    codes = order_causes(in_base.keys() | in_new.keys())
    p_values = [mcnemar(only_base[code], only_new[code])[1] for code in codes]
    moved = [only_base[code] + only_new[code] > 0 for code in codes]
    adjusted = correct_by_holm([*zip(p_values, moved, strict=True)])
    changes = []
    for code, p_value, p_adjusted in zip(codes, p_values, adjusted, strict=True):
        cause, counts = cause_named(code), (in_base[code], in_new[code], only_base[code], only_new[code])
        changes.append(CauseChange(code, cause.title, cause.side or "model", *counts, p_value, p_adjusted or p_value))
    return tuple(sorted(changes, key=lambda change: change.base - change.new))


@dataclass(frozen=True, slots=True)
class ComparisonAndPairs:
    """A comparison, and for each run the pair of its table with the base's."""

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


def compare_runs(runs: Sequence[RunLike], results_dir: Path, settings: ComparisonSettings) -> ComparisonAndPairs:
    """Compare runs with the first run; raises the errors of `compare`."""
    if len(runs) < 2:
        raise ConfigurationError("compare needs a base and at least one run to compare with it")
    return compare_tables(open_runs(runs, results_dir, settings), settings)


def open_runs(runs: Sequence[RunLike], results_dir: Path, settings: ComparisonSettings) -> list[RunTable]:
    """Check the settings and return the tables of the runs; raises the errors of `compare`."""
    _check_settings(settings)
    tables = read_runs(runs, results_dir, cluster=settings.cluster)
    if not settings.allow_simulated:
        _refuse_simulated(tables)
    return tables


def _check_settings(settings: ComparisonSettings) -> None:
    """Raise ConfigurationError if a setting is out of range."""
    if not 0.5 <= settings.confidence < 1:
        raise ConfigurationError(f"confidence must be between 0.5 and 1, not {settings.confidence!r}")
    if settings.margin is not None and not 0 <= settings.margin < math.inf:
        raise ConfigurationError(f"margin must be 0 or more, not {settings.margin!r}")
    if settings.rows is not None and settings.rows < 0:
        raise ConfigurationError(f"rows must be 0 or more, not {settings.rows!r}")
    for name, accepted in settings.guards.items():
        if not 0 <= accepted < math.inf:
            raise ConfigurationError(f"guard {name!r}: the margin must be 0 or more, not {accepted!r}")
    how = settings.pair_by
    if how not in PAIR_BY:
        raise ConfigurationError(f"pair_by must be {' or '.join(PAIR_BY)}, not {how!r}{did_you_mean(how, PAIR_BY)}")


def _refuse_simulated(tables: Sequence[RunTable]) -> None:
    """Raise ConfigurationError if the answers of a run are simulated."""
    simulated = list(dict.fromkeys(table.info.id for table in tables if table.info.simulated))
    if simulated:
        named = ", ".join(simulated[:2]) + (f" and {len(simulated) - 2} more" if len(simulated) > 2 else "")
        raise ConfigurationError(
            f"the answers of {named} are simulated, so a comparison says nothing about a model; "
            "pass --allow-simulated to compare anyway"
        )


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
    return selection_of(opened, _against_base(opened))


def _place_of_base(tables: list[RunTable]) -> int:
    """Return the place of the base among the tables; at first, the base is the last table.

    If the base is one of the other runs, remove its second table; otherwise move its table to the front.
    """
    base = tables.pop()
    for place, table in enumerate(tables):
        if table.info.place == base.info.place != "memory":
            return place
    tables.insert(0, base)
    return 0


def compare_tables(tables: Sequence[RunTable], settings: ComparisonSettings) -> ComparisonAndPairs:
    """Compare the tables of runs with the first table."""
    runs = Runs(tables, settings)
    against, pairs = _against_base(runs), [*runs.against_base.values()]
    best = _selection_if_possible(runs, against) if len(against) > 1 else None
    found = Comparison(
        base=tables[0].info,
        decision=choose(against) if best is None else best.decision,
        against=against,
        history=_history(against, runs),
        best=best,
        confidence=settings.confidence,
        margin=settings.margin,
        cluster=settings.cluster,
        simulated=any(table.info.simulated for table in tables),
    )
    decided = found.decided
    for place, pair in enumerate(pairs):
        if settings.lists_of_all or against[place] is decided:
            against[place] = replace(against[place], metrics=with_changed_rows(against[place].metrics, pair))
    return ComparisonAndPairs(replace(found, against=against), pairs)


def _against_base(runs: Runs) -> list[RunComparison]:
    """Return the comparison of every other run with the base, with corrected p-values, without changed rows."""
    pairs = [*runs.against_base.values()]
    names = short_names([table.info.id for table in runs.tables])
    chosen = [choose_metrics(pair.base, pair.new, runs.settings.named) for pair in pairs]
    measured = [_measure_metrics(pair, metrics) for pair, (metrics, _) in zip(pairs, chosen, strict=True)]
    adjusted = iter(corrected_by_family([metric for metrics in measured for metric in metrics if metric.tested]))
    comparisons = []
    for pair, metrics, (_, notes) in zip(pairs, measured, chosen, strict=True):
        with_verdicts = {
            each.name: add_verdict(each, next(adjusted), pair.sides(each.key)) if each.tested else each
            for each in metrics
        }
        comparisons.append(_run_comparison(pair, with_verdicts, [*_notes(pair, metrics), *notes], names))
    return comparisons


def _measure_metrics(pair: RunPair, chosen: Sequence[MetricRef]) -> list[MetricComparison]:
    """Return the chosen metrics' figures, and mark the primary one; verdicts need the p-values of all runs."""
    primary = primary_of(chosen, pair.base, pair.new, pair.settings.named)
    return [replace(pair.measured(each), primary=each.key == primary.key) for each in chosen]


def _run_comparison(
    pair: RunPair, metrics: Mapping[str, MetricComparison], notes: Sequence[str], names: Mapping[str, str]
) -> RunComparison:
    """Return the comparison of a run with the base, without lists of changed rows.

    `metrics` have their verdicts. `names` are the runs' names in sentences.
    """
    primary = next(metric for metric in metrics.values() if metric.primary)
    parts, causes, infos = parts_of(pair, primary), cause_changes(pair), (pair.base.info, pair.new.info)
    return RunComparison(
        new=pair.new.info,
        pairs=_pairs(pair),
        metrics=metrics,
        decision=decide_pair(pair, primary, parts, causes, names),
        notes=tuple(dict.fromkeys(notes)),
        causes=causes,
        tables={name: data for name, table in plugins.tables().items() if (data := table.data(*infos))},
        part_metric=primary.name,
        parts=parts,
        figures=figures_of(pair, primary),
    )


def _pairs(pair: RunPair) -> Pairs:
    """Return the counts and ids that describe how the rows of two runs were paired."""
    pairing, clusters = pair.pairing, pair.clusters
    base_ids, new_ids = pair.base.items.ids, pair.new.items.ids
    return Pairs(
        paired=len(pairing.base),
        by_content=pairing.by_content,
        by_id_alone=pairing.by_id_alone,
        only_in_base=tuple(base_ids[item] for item in pairing.only_base),
        only_in_new=tuple(new_ids[item] for item in pairing.only_new),
        other_content=tuple(pairing.changed),
        clusters=None if clusters is None else clusters.count,
        cluster=None if clusters is None else clusters.by,
    )


def _notes(pair: RunPair, metrics: Sequence[MetricComparison]) -> Iterator[str]:
    """Yield notes on the runs, on their clusters, and on evaluators that only one run has."""
    base, new = pair.base, pair.new
    yield from _stopping_notes(pair, [each.key for each in metrics if each.tested])
    if pair.clusters is not None:
        yield str(pair.clusters)
    yield from (*base.info.notes, *new.info.notes)
    for table, other in ((base, new), (new, base)):
        for name in table.evaluators:
            if name not in other.evaluators:
                yield f"evaluator {name!r} is only in {table.info.id}"


def _stopping_notes(pair: RunPair, tested: Sequence[str]) -> Iterator[str]:
    """Yield a note if a run stopped early: which figures are valid all the same, and which are too certain."""
    base, new = pair.base, pair.new
    stopped = [info.id for info in (base.info, new.info) if info.stopped is not None]
    valid = [key for key in tested if decided_metric(key, base, new, pair.settings.confidence) is not None]
    if valid and len(valid) == len(tested):
        figures = "intervals and p-values are valid for tested metrics, but not for slices and causes"
        yield f"{new.info.id} stopped early: {figures}"
    elif stopped:
        exception = f", except for {', '.join(valid)}" if valid else ""
        yield f"{' and '.join(stopped)} stopped early: intervals are too narrow and p-values too small{exception}"


def _history(against: Sequence[RunComparison], runs: Runs) -> list[History]:
    """Return the figures over all runs of each metric that every run tests, on rows with a number in every run."""
    if len(against) == 1:
        return [History(each.name, each.kind, (each.base, each.new)) for each in against[0].tested]
    return [history(each, runs) for each in against[0].tested if all(each.name in other.metrics for other in against)]


def _selection_if_possible(runs: Runs, against: Sequence[RunComparison]) -> Selection | None:
    """Return the selection among the same runs; None if they cannot be ranked, as without a row in all of them."""
    try:
        return selection_of(runs, against)
    except ConfigurationError:
        return None
