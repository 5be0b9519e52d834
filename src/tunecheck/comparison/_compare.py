"""`compare()` and `select()`: read runs, pair their rows, test their metrics and decide.

Both read the runs (`open_runs`), pair each run with the base (`Runs`) and decide about each pair (`_against_base`).
`select`, and `compare` with three runs or more, also rank all runs over the rows that every run has (`selection_of`).

The decision to act on is the best of all candidates' decisions: ship, else undecided, else keep, else invalid. If
several candidates have the same decision, the largest improvement counts, then the later run (`choose_decision`).

`compare_tables()` also returns the pairs of runs, for callers that show the runs themselves.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy
from msgspec.structs import replace
from numpy.typing import NDArray

from tunecheck import plugins
from tunecheck._errors import ConfigurationError
from tunecheck._messages import ALLOW_SIMULATED, did_you_mean, plural
from tunecheck.comparison import _comparison as results, _measuring as measuring
from tunecheck.comparison._changes import cause_changes, parts_of, with_changed_rows
from tunecheck.comparison._judged import corrected_rate, labels_of
from tunecheck.comparison._objections import Evidence
from tunecheck.comparison._pairs import PAIR_BY, RunPair, Runs
from tunecheck.comparison._wording import short_names, size_text
from tunecheck.results import RunLike, RunTable, read_runs
from tunecheck.runs._store import stopped_text
from tunecheck.statistics import ANY_STOPPING, Codes, Estimate, Floats, LabelCounts, as_codes, corrected_difference
from tunecheck.statistics._best import expected_optimism, multiple_comparisons_with_the_best
from tunecheck.statistics._estimates import estimate_mean, estimate_proportion


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
) -> results.Comparison:
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
    settings = measuring.ComparisonSettings(
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
    return compare_runs([base, *new], Path(results_dir), settings)


def compare_runs(
    runs: Sequence[RunLike], results_dir: Path, settings: measuring.ComparisonSettings
) -> results.Comparison:
    """Compare runs with the first run; raises the errors of `compare`."""
    comparison, _ = compare_tables(open_runs(runs, results_dir, settings), settings)
    return comparison


def open_runs(runs: Sequence[RunLike], results_dir: Path, settings: measuring.ComparisonSettings) -> list[RunTable]:
    """Check the settings and return the tables of the runs.

    Raises:
        ConfigurationError: a setting is wrong, a run is missing or unfinished, or it is simulated and not allowed.
        DataError: the files of a run are damaged.
    """
    _check_settings(settings)
    tables = read_runs(runs, results_dir, cluster=settings.cluster)

    simulated = [*dict.fromkeys(table.info.id for table in tables if table.info.simulated)]
    if simulated and not settings.allow_simulated:
        problem = f"the answers of {', '.join(simulated)} are simulated, so a comparison says nothing about a model"
        raise ConfigurationError(f"{problem}: give {ALLOW_SIMULATED} to compare anyway")
    return tables


def _check_settings(settings: measuring.ComparisonSettings) -> None:
    """Raise ConfigurationError if a setting is out of range."""
    if not 0.5 <= settings.confidence < 1:
        raise ConfigurationError(f"confidence must be at least 0.5 and below 1, not {settings.confidence!r}")

    margins = {f"the margin of guard {name!r}": margin for name, margin in settings.guards.items()}
    for name, margin in {"margin": settings.margin or 0, **margins}.items():
        if not 0 <= margin < math.inf:
            raise ConfigurationError(f"{name} must be a finite number of 0 or more, not {margin!r}")
    if settings.rows is not None and settings.rows < 0:
        raise ConfigurationError(f"rows (the most rows that a list shows) must be 0 or more, not {settings.rows!r}")

    given = settings.pair_by
    if given not in PAIR_BY:
        raise ConfigurationError(f"pair_by must be {' or '.join(PAIR_BY)}, not {given!r}{did_you_mean(given, PAIR_BY)}")


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
    rows: int | None = 1_000,
    seed: int = 0,
    results_dir: str | os.PathLike[str] = "eval_results",
) -> results.Selection:
    """Decide which of two or more runs to ship: a candidate that is better than the base, or the base.

    Args:
        runs: the runs in the order in which they were made, each given as for `compare`.
        metric: the metric that decides: an evaluator, or a key of metrics.json; by default the data's primary metric,
            else `match` if rows have calls, else the first evaluator's main metric.
        guards: metrics or slices, and how much worse than in the base each may be.
        base: the run that the others have to beat; by default the first. It is ranked, too.
        margin: how much worse than the base is still accepted, in the metric's unit; without it a run must be better.
        cluster: a column of the data; rows with equal values in it are not independent. By default the column that the
            data declares, else a column with repeated ids. `none` treats all rows as independent.
        confidence: the level of all intervals of the ranking together, and of each decision.
        allow_simulated: select among runs with simulated answers, too.
        allow_changed_evaluator: decide although the evaluator of the primary metric is not the same in all runs.
        pair_by: `content` pairs rows with equal id and content, then rows with equal content; `id` pairs by id alone.
        rows: the most rows listed per outcome over all runs; None for all. Counts always include all rows.
        seed: the seed of resampling; the same seed gives the same figures.
        results_dir: the folder with the runs.

    Raises:
        ConfigurationError: a run is missing, unfinished or simulated, rows do not pair, or an argument is wrong.
        DataError: the files of a run are damaged.
    """
    settings = measuring.ComparisonSettings(
        metrics=metric,
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

    # The base is read together with the others: contents of rows leave out the answer columns of all these runs.
    tables = open_runs([*runs, *([] if base is None else [base])], Path(results_dir), settings)
    base_index = 0 if base is None else _take_base(tables)
    opened = Runs(tables, settings, base_index)
    return selection_of(opened, _against_base(opened))


def _take_base(tables: list[RunTable]) -> int:
    """Move the base's table from the end of the list to its place among the runs, and return its index there.

    If the base is one of the other runs, the table at the end is dropped. Otherwise it moves to the front.

    Example: for the runs a, b, c and the base b, the list stays a, b, c and the result is 1. For a base d, it becomes
    d, a, b, c and the result is 0.
    """
    base = tables.pop()

    # All runs in memory have the place "memory", so an equal place does not make them the same run.
    for index, table in enumerate(tables):
        if table.info.place == base.info.place != "memory":
            return index
    tables.insert(0, base)
    return 0


def compare_tables(
    tables: Sequence[RunTable], settings: measuring.ComparisonSettings
) -> tuple[results.Comparison, Sequence[RunPair]]:
    """Compare the tables of runs with the first table; return also the pair of each other table with the first.

    Raises:
        ConfigurationError: rows do not pair, two tables are of the same run, or a metric is not in both runs.
    """
    runs = Runs(tables, settings)
    comparisons, pairs = _against_base(runs), [*runs.against_base.values()]

    best = None
    if len(comparisons) > 1:
        with suppress(ConfigurationError):  # raised if the runs cannot be ranked, such as without a row in all of them
            best = selection_of(runs, comparisons)

    found = results.Comparison(
        base=tables[0].info,
        # A selection has the same decision, with a remark on how much chance favours the best of several runs.
        decision=choose_decision(comparisons) if best is None else best.decision,
        against=comparisons,
        history=_histories(comparisons, runs),
        best=best,
        confidence=settings.confidence,
        margin=settings.margin,
        cluster=settings.cluster,
        simulated=any(table.info.simulated for table in tables),
    )

    # Lists of changed rows need a second pass over the files, so they are read only for the runs that show them.
    decided = found.decided
    for index, (compared_run, pair) in enumerate(zip(comparisons, pairs, strict=True)):
        if settings.lists_of_all or compared_run is decided:
            comparisons[index] = replace(compared_run, metrics=with_changed_rows(compared_run.metrics, pair))

    return replace(found, against=comparisons), pairs


def _against_base(runs: Runs) -> list[results.RunComparison]:
    """Return the comparison of every other run with the base, in the order of the runs.

    The p-values are corrected over all runs. The lists of changed rows are still empty.

    Raises:
        ConfigurationError: a metric, a slice or a guard is not in both runs, or a calibration cannot be read.
    """
    # Each run is compared with the base on its own: two new runs may have different metrics and rows.
    pairs = [*runs.against_base.values()]
    names = short_names([table.info.id for table in runs.tables])
    chosen = [measuring.choose_metrics(pair.base, pair.new, runs.settings.named) for pair in pairs]

    measured = []
    for pair, (metrics, _) in zip(pairs, chosen, strict=True):
        primary = measuring.primary_of(metrics, pair.base, pair.new, pair.settings.named)
        measured.append([replace(pair.measured(metric), primary=metric.key == primary.key) for metric in metrics])

    # Figures of all runs come first: the correction for several tests needs the p-values of all of them.
    tested = [metric for metrics in measured for metric in metrics if metric.tested]
    # The primary metric decides and was chosen beforehand, so other metrics do not weaken its test.
    tests, families = [(metric.p_value, metric.moved) for metric in tested], [metric.primary for metric in tested]
    adjusted = iter(measuring.correct_by_holm(tests, families))

    # The loops pass the tested metrics in the order of `tested`, so each takes the next corrected p-value.
    comparisons = []
    for pair, figures, (_, notes) in zip(pairs, measured, chosen, strict=True):
        with_verdicts = {}
        for metric in figures:
            if metric.tested:
                metric = measuring.add_verdict(metric, next(adjusted), pair.sides(metric.key).bounds)
            with_verdicts[metric.name] = metric
        comparisons.append(_run_comparison(pair, with_verdicts, [*_notes(pair, figures), *notes], names))

    return comparisons


def _run_comparison(
    pair: RunPair, metrics: Mapping[str, results.MetricComparison], notes: Sequence[str], names: Mapping[str, str]
) -> results.RunComparison:
    """Return the comparison of a run with the base; its lists of changed rows are filled in later.

    `metrics` have their verdicts. `names` are the runs' short names by id.
    """
    primary = next(metric for metric in metrics.values() if metric.primary)
    parts, causes, infos = parts_of(pair, primary), cause_changes(pair), (pair.base.info, pair.new.info)
    pairs, clusters = pair.pairing.counts, pair.clusters
    if clusters is not None:
        pairs = replace(pairs, clusters=clusters.count, cluster=clusters.by)
    # Objections look beyond the primary metric: at slices, causes, other metrics, missing verdicts and cost.
    evidence = Evidence(pair, primary, parts, causes, *(names[info.id] for info in infos))

    return results.RunComparison(
        new=pair.new.info,
        pairs=pairs,
        metrics=metrics,
        decision=evidence.decision(),
        # The notes of a run may be the base's, too.
        notes=tuple(dict.fromkeys(notes)),
        causes=causes,
        tables={name: data for name, table in plugins.load_by_name("tables").items() if (data := table.data(*infos))},
        part_metric=primary.name,
        parts=parts,
        figures=tuple(part for _, figures in plugins.load_all("figures") for part in figures.of_pair(pair, primary)),
    )


def _notes(pair: RunPair, metrics: Sequence[results.MetricComparison]) -> Iterator[str]:
    """Yield notes on the runs, on their clusters, and on evaluators that only one run has."""
    base, new = pair.base, pair.new
    stopped = " and ".join(info.id for info in (base.info, new.info) if info.stopped is not None)
    if stopped:
        # The early test covers only the metrics that it decided by. Other metrics, slices and causes have no such test:
        # a run that stopped early is biased towards a difference.
        decided = [metric for metric in metrics if metric.test == ANY_STOPPING]
        exception = f", except for {', '.join(metric.name for metric in decided)}" if decided else ""
        yield f"{stopped} stopped early: intervals are too narrow and p-values too small{exception}"

    if pair.clusters is not None:
        yield str(pair.clusters)
    yield from (*base.info.notes, *new.info.notes)

    # A missing evaluator is no error: the comparison is over those that both runs have.
    for table, other in ((base, new), (new, base)):
        for name in table.evaluators:
            if name not in other.evaluators:
                yield f"evaluator {name!r} is only in {table.info.id}"


def _histories(comparisons: Sequence[results.RunComparison], runs: Runs) -> list[results.History]:
    """Return the figures in all runs of each tested metric that every run has.

    The figures are over the rows with a number in every run. For two runs, they are those of the comparison.
    """
    tested = comparisons[0].tested
    if len(comparisons) == 1:
        return [results.History(metric.name, metric.kind, (metric.base, metric.new)) for metric in tested]
    # A line of the history needs a figure in every run, so a metric that one run lacks has no history.
    histories = []
    for metric in tested:
        if all(metric.name in other.metrics for other in comparisons):
            common = common_rows(metric, runs)
            histories.append(results.History(metric.name, common.sides.kind, tuple(common.figures(runs.settings))))
    return histories


# -- the choice among several runs, and the history of their rows


class CommonRows(msgspec.Struct, frozen=True):
    """The base's items with a number in every run; `scores` has the shape (items, runs).

    `cluster_codes` has each item's cluster. `sides` describes the metric. `labels` are counts of human labels that
    correct the metric for its judge's errors in all runs; None if it is not corrected in all of them.
    """

    items: NDArray[numpy.int64]
    scores: Floats
    cluster_codes: Codes | None
    sides: measuring.PairedValues
    labels: LabelCounts | None

    def figures(self, settings: measuring.ComparisonSettings) -> list[Estimate]:
        """Return each run's figure over these rows: a pass rate for verdicts, else a mean; corrected with `labels`."""
        codes, confidence, bounds = self.cluster_codes, settings.confidence, self.sides.bounds
        if self.sides.verdicts:
            found = [estimate_proportion(values, codes, confidence=confidence) for values in self.scores.T]
        else:
            # Histories and rankings show these intervals without a test, so they get fewer resamples.
            few = measuring.FEW_RESAMPLES
            found = [
                estimate_mean(values, codes, bounds=bounds, confidence=confidence, resamples=few)
                for values in self.scores.T
            ]
        return found if self.labels is None else [corrected_rate(figure, self.labels) for figure in found]


def over_all_runs(key: str, runs: Runs) -> Floats:
    """Return a metric's number for each of the base's items in each run, shape (items, runs); NaN without a number.

    Items that a run lacks, or that are not in a slice, have NaN in its column.
    """
    scores = numpy.full((len(runs.base.items.ids), len(runs.tables)), numpy.nan)
    scores[:, runs.base_position] = measuring.item_values(runs.base, measuring.split_slice(key)[0])
    # `sides` has the new run's numbers by pair; the pair's base item says in which row they belong.
    for position, pair in runs.against_base.items():
        scores[pair.pairing.base, position] = pair.sides(key).new

    return scores


def common_rows(metric: results.MetricRef, runs: Runs) -> CommonRows:
    """Return the rows with a metric's number in every run, on which runs are ranked; there may be none."""
    # Means over different rows would differ for that reason alone, so all runs are ranked on the same rows.
    scores, pairs = over_all_runs(metric.key, runs), runs.against_base.values()
    items = numpy.flatnonzero(~numpy.isnan(scores).any(axis=1))
    all_sides = [pair.sides(metric.key) for pair in pairs]

    # If a metric's kind is not the same in all pairs, the runs are compared by score.
    kind = all_sides[0].kind if len({sides.kind for sides in all_sides}) == 1 else "score"
    sides = replace(all_sides[0], kind=kind, averaged=any(sides.averaged for sides in all_sides))

    codes = None if runs.clusters is None else as_codes([runs.clusters.labels[item] for item in items.tolist()])
    labels = None
    if all(pair.measured(metric).judge == "corrected" for pair in pairs):
        # Only runs with the base's judge are corrected, so all of them share its calibration: any run will do.
        labels = labels_of(metric.evaluator, runs.base, runs.tables[-1])
    return CommonRows(items, scores[items], codes, sides, labels)


def rank_runs(common: CommonRows, runs: Runs) -> list[results.Ranked]:
    """Return each run's figure over the `common` rows and its difference from the best other run, in the runs' order.

    With human labels, both are corrected for the judge's errors, which does not change the ranking.
    """
    settings, sides = runs.settings, common.sides

    # The intervals come from random draws. In order of their ids, the same runs always get the same intervals.
    order = sorted(range(len(runs.tables)), key=lambda position: runs.tables[position].info.id)
    standings = multiple_comparisons_with_the_best(
        common.scores[:, order],
        common.cluster_codes,
        verdicts=sides.verdicts,
        higher_is_better=sides.higher_is_better,
        confidence=(1 + settings.confidence) / 2,  # because each end of the interval is a one-sided limit
        seed=settings.seed,
    )

    ranked = []
    # Back to the order of the runs: `standings` are in the order of their ids.
    for position, (table, value) in enumerate(zip(runs.tables, common.figures(settings), strict=True)):
        standing = standings[order.index(position)]
        ends, method = (standing.low, standing.high), "comparisons with the best"
        difference = Estimate(standing.difference, *ends, value.n, settings.confidence, method, clusters=value.clusters)
        if common.labels is not None:
            difference = corrected_difference(difference, common.labels)
        ranked.append(results.Ranked(table.info.id, value, difference, standing.may_be_best))

    return ranked


# The order of the list of rows: from the last outcome to the first, without rows that are always right.
OUTCOMES: tuple[results.RowHistory, ...] = ("right", "never right", "fixed", "broken", "back and forth", "flaky")


def row_histories(passed: Floats) -> tuple[Codes, Codes]:
    """Return for each row the index of its outcome in `OUTCOMES`, and of the run that fixed or broke it (-1: none).

    `passed` is the share of a row's trials that passed in a run, of shape (rows, runs).

    A row changes between two runs if all its trials passed in one and failed in the other. One change: fixed or broken,
    dated by the run that changed it. Several changes: back and forth. A row is flaky if its trials disagree in the last
    run, in some run while the others agree, or while it went back and forth.

    Examples for three runs, ✓ passed, ✗ failed, ~ trials disagree: ✗✓✓ was fixed by the second run, ✓✓✗ broken by the
    third, ✓✗✓ went back and forth. ✗~✓ was fixed by the third run; ✓✓~, ✓~✓ and ✓✗~ are flaky.
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

    # A row counts as fixed or broken even if its trials disagreed on the way, but not if they disagree at the end.
    always_agrees, right = agrees.all(axis=1), passed[:, -1] == 1
    unchanged = always_agrees & (changes == 0)
    once = agrees[:, -1] & (changes == 1)

    # In the order of `OUTCOMES`. All rows that fit none of these are flaky.
    fits = [unchanged & right, unchanged & ~right, once & right, once & ~right, always_agrees & (changes > 1)]
    outcomes = numpy.select(fits, range(len(fits)), default=OUTCOMES.index("flaky"))
    since[~once] = -1
    return outcomes, since


def rows_over_runs(metric: str, passes: str | None, runs: Runs, most: int | None) -> results.RowsOverRuns | None:
    """Return the history of all rows with a verdict in every run; None if a run has no verdicts.

    `passes` is the column of the metric's verdicts. At most `most` rows of each outcome except `right` are listed;
    with None, all of them.
    """
    if passes is None or not all(passes in table.columns for table in runs.tables):
        return None

    # A slice of a metric, such as `match[domain=refund]`, is the same slice of the column of verdicts.
    _, slice_text = measuring.split_slice(metric)
    passed = over_all_runs(passes if slice_text is None else f"{passes}[{slice_text}]", runs)
    items = numpy.flatnonzero(~numpy.isnan(passed).any(axis=1))
    passed = passed[items]

    outcomes, since = row_histories(passed)
    names = tuple(table.info.id for table in runs.tables)
    counts = numpy.bincount(outcomes, minlength=len(OUTCOMES)).tolist()
    broken = Counter(since[outcomes == OUTCOMES.index("broken")].tolist())

    listed = []
    for index in range(len(OUTCOMES) - 1, 0, -1):  # flaky rows first; outcome 0 is always right
        for row in numpy.flatnonzero(outcomes == index)[:most].tolist():
            row_id, changed_by = runs.base.items.ids[items[row]], names[since[row]] if since[row] >= 0 else None
            listed.append(results.RowOverRuns(row_id, OUTCOMES[index], tuple(passed[row].tolist()), changed_by))

    return results.RowsOverRuns(
        metric,
        names,
        dict(zip(OUTCOMES, counts, strict=True)),
        {names[run]: broken[run] for run in sorted(broken)},
        tuple(listed),
    )


_BEST_FIRST: tuple[results.Choice, ...] = ("ship", "undecided", "keep", "invalid")


def choose_decision(comparisons: Sequence[results.RunComparison]) -> results.Decision:
    """Return the decision to act on: ship if there is one, else undecided, else keep, else invalid.

    Among equal decisions the candidate with the largest improvement wins, then the later one.
    """

    def rank(comparison: results.RunComparison) -> tuple[int, float]:
        """Return a sort key: higher for a better decision, then for a larger improvement; no difference is lowest."""
        metric = comparison.metrics[comparison.part_metric]
        difference, sign = metric.difference.value, 1 if metric.higher_is_better else -1
        improvement = -math.inf if difference is None else sign * difference
        return -_BEST_FIRST.index(comparison.decision.decision), improvement

    # `max` returns the first of equal ones; reversed, that is the later run.
    return max(reversed(comparisons), key=rank).decision


def selection_of(runs: Runs, comparisons: Sequence[results.RunComparison]) -> results.Selection:
    """Rank all runs by the primary metric, and choose among the decisions on each run against the base.

    Raises:
        ConfigurationError: the runs differ in their primary metric or in its judge, or no row has a value of the
            metric in every run.
    """
    primaries = [comparison.metrics[comparison.part_metric] for comparison in comparisons]
    metric, tables = primaries[0], runs.tables

    if any(primary.key != metric.key for primary in primaries):
        raise ConfigurationError("the primary metrics of the runs differ: name one metric with --metric (metric=…)")
    # Two judges are two scales: their rates cannot be put in one order.
    if any(primary.judge == "different" for primary in primaries):
        advice = "score the runs again with one judge (`tunecheck score RUN --judge NAME`)"
        raise ConfigurationError(f"{metric.name} was scored by different judges in these runs: {advice}")

    common = common_rows(metric, runs)
    if not len(common.items):
        raise ConfigurationError(f"no row has a value of {metric.name} in every run: score all runs on the same rows")
    sides, ranking = common.sides, rank_runs(common, runs)

    decision = best = choose_decision(comparisons)
    # With two runs there is no choice of a best run: the other run is the base.
    optimism = expected_optimism(common.scores, common.cluster_codes) if len(tables) > 2 else None
    if optimism is not None:
        # The remark is only for the chosen decision: choosing among runs favors one that looks better by chance.
        size = size_text(sides.kind, optimism)
        remark = f"if all {len(tables)} runs are equal, chance makes the best look {size} better on average"
        decision = replace(best, because=(*best.because, remark))

    # Runs with equal figures: the later one comes first, as in `choose_decision`.
    sign = 1 if sides.higher_is_better else -1
    order = sorted(range(len(tables)), key=lambda run: (sign * (ranking[run].value.value or 0.0), run), reverse=True)
    last = [*runs.against_base][-1]  # the last run other than the base, in the order given

    return results.Selection(
        decision=decision,
        decisions=tuple(decision if comparison.decision is best else comparison.decision for comparison in comparisons),
        regressed_since=None if ranking[last].may_be_best else tables[order[0]].info.id,
        metric=metric.name,
        kind=sides.kind,
        higher_is_better=sides.higher_is_better,
        rows=len(common.items),
        clusters=ranking[0].value.clusters,
        cluster=None if runs.clusters is None else runs.clusters.by,
        confidence=runs.settings.confidence,
        base=runs.base.info.id,
        ranking=tuple(ranking[run] for run in order),
        rows_over_runs=rows_over_runs(metric.name, sides.metric.passes, runs, runs.settings.rows),
        optimism=optimism,
        notes=tuple(dict.fromkeys(_selection_notes(runs, len(common.items), comparisons))),
        simulated=any(table.info.simulated for table in tables),
    )


def _selection_notes(runs: Runs, rows: int, comparisons: Sequence[results.RunComparison]) -> Iterator[str]:
    """Yield notes on rows left out of the ranking and on runs that stopped early, then the comparisons' own notes.

    `rows` is the number of ranked rows.
    """
    # Rows without a figure in one run would make its rate a rate of other rows.
    left_out = len(runs.base.items.ids) - rows
    if left_out:
        yield f"ranking without {plural(left_out, 'row')} of {runs.base.info.id}: not every run has a figure for them"
    for table in runs.tables:
        if table.info.stopped is not None:
            yield f"{table.info.id}: {stopped_text(table.info.stopped)}"
    for comparison in comparisons:
        yield from comparison.notes
