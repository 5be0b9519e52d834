"""Comparisons and selections as pages of results: first the decision, then the figures, then the changed rows.

The commands `compare` and `select` show `comparison_view` and `selection_view` on the terminal and write them to files.

The page of a comparison has two forms. The brief one (`_brief_parts`) fits on a screen: runs, decision, chart, three
causes and three rows. The one with details (`_detailed_parts`) adds metrics, slices, more causes and lists of rows.

Text of data or other runs (names, reasons, row ids) passes through `clean`, so that it cannot control the terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tunecheck import plugins, views
from tunecheck._faults import Fault, cause_named, title_of_cause
from tunecheck._messages import clean, plural
from tunecheck.comparison import _wording as wording
from tunecheck.pipeline._finished_rows import fault_groups
from tunecheck.results import OWN_SOURCES, Kind
from tunecheck.runs._store import stopped_text
from tunecheck.statistics._results import Estimate
from tunecheck.views import SIMULATED, Cell, Sentence, Style, Table, Text, Words

if TYPE_CHECKING:
    from tunecheck.comparison import _comparison as results
    from tunecheck.comparison._comparison import Comparison, Decision, MetricComparison, RowHistory, RunComparison

# Limits of the page with details. In order: ids in a note, rows of the table of causes, reasons in the title of a list
# of rows, characters of a row's change.
_MOST_NAMES, _MOST_CAUSES, _MOST_FAULTS, _LONGEST_REASON = 5, 12, 5, 120
_BRIEF_OBJECTIONS, _BRIEF_CAUSES, _BRIEF_ROWS, _BRIEF_NOTES, _BRIEF_FAULTS, _BRIEF_REASON = 4, 3, 3, 2, 2, 60
"""Limits of the page without details, which should fit on a screen."""
# Colours of verdicts, of the lists of changed rows, and of row histories, in the order in which the page shows them.
_STYLES: Mapping[str, Style] = {"better": "good", "worse": "bad"}
_LISTS: Mapping[str, Style] = {"regressed": "bad", "fixed": "good", "flaky": "warn", "changed": "dim"}
_OVER_RUNS: Mapping[RowHistory, Style] = {"broken": "bad", "back and forth": "warn", "flaky": "warn", "fixed": "good"}
_MARKS = {1.0: "✓", 0.0: "✗"}


def _name(text: str, style: Style = "") -> Words:
    """Return a name from data or a run, safe to show: without control characters, at most 60 characters long."""
    return Words(clean(text, 60), style, foreign=True)


# -- comparisons


def comparison_view(comparison: Comparison, rows: int = 3, *, details: bool = False) -> views.View:
    """Return the page of a comparison: a short one, or with `details`, all metrics, slices and causes.

    Each list of rows shows at most `rows` rows; on the short page, at most three.
    """
    title = (_name(comparison.decision.candidate), " against ", _name(comparison.base.id))
    decided = comparison.decided
    checks = [_decision_check(each.decision, chosen=each is decided) for each in comparison.against]
    notes = [*comparison_notes(comparison)]

    # The short page counts the notes that it leaves out.
    if not details and len(notes) > _BRIEF_NOTES:
        notes = [*notes[:_BRIEF_NOTES], f"and {plural(len(notes) - _BRIEF_NOTES, 'more note')}"]

    most = None if details else _BRIEF_OBJECTIONS
    decision = Text([*_warning_texts(comparison), *_decision_texts(comparison.decision, most)])
    others = _detailed_parts(comparison, rows) if details else _brief_parts(comparison, min(rows, _BRIEF_ROWS))
    return views.View(title, [_runs_table(comparison), decision, *_charts(decided, comparison), *others], notes, checks)


def _decision_check(decision: Decision, *, chosen: bool) -> views.Check:
    """Return a decision as a check for CI: ship passes, keep is a failure, undecided and invalid are errors.

    `chosen` is False for a decision among several that is not the one to act on.
    """
    # The lines of the terminal are also the text of the check.
    text = "\n".join(line for line, _ in wording.decision_lines(decision, chosen=chosen))
    problem = {"ship": None, "keep": "failure", "undecided": "error", "invalid": "error"}[decision.decision]
    return views.Check("tunecheck.decision", f"{decision.candidate} against {decision.base}", text, problem)  # type: ignore[arg-type]


def _brief_parts(comparison: Comparison, rows: int) -> Iterator[views.Part]:
    """Yield the parts below the decision on the brief page: causes (grown ones first), regressed rows, and hints.

    The whole page has about 30 lines. At most `rows` regressed rows are shown.
    """
    decided = comparison.decided
    if decided.causes:  # those that grew come first, then those that shrank
        causes = sorted(decided.causes, key=lambda cause: (cause.new <= cause.base, -abs(cause.new - cause.base)))
        yield _causes_table(decided, comparison, causes[:_BRIEF_CAUSES], brief=True)

    primary = decided.metrics[decided.part_metric]
    # Only regressed rows: the brief page is about the question whether to ship.
    if rows and primary.regressed:
        yield _row_list(primary, "regressed", "bad", rows, _BRIEF_FAULTS, _BRIEF_REASON)

    # The number of other metrics that changed tells whether the page with details is worth a look.
    verdicts = Counter(metric.verdict for metric in decided.tested if not metric.primary)
    others = plural(verdicts.total(), "other metric")
    counts = f"{others}: {verdicts['better']:,} better, {verdicts['worse']:,} worse; " if verdicts else ""
    lines = [f"{counts}compare --details shows each metric, slices, more causes and rows (--rows N)"]
    # A run in memory has no folder to make a report from.
    if decided.new.place != "memory":
        lines.append(f"Look at the answers:  tunecheck report {decided.new.id} --against {comparison.base.id}")
    yield Text([Words(line, "dim") for line in lines])


def _detailed_parts(comparison: Comparison, rows: int) -> Iterator[views.Part]:
    """Yield the parts below the decision on the page with all details; each list shows at most `rows` rows."""
    decided, best = comparison.decided, comparison.best
    verdicts = [*_verdict_texts(decided)]
    if verdicts:
        yield Text(verdicts)

    yield _metrics_table(decided, comparison)
    yield from _parts_tables(decided, comparison)
    # Tables of plug-ins about both runs, such as the leaderboard's.
    yield from (plugins.load_by_name("tables")[name].table(data) for name, data in decided.tables.items())

    if best is not None and best.rows_over_runs is not None:
        yield _rows_over_runs_table(best.rows_over_runs, rows)

    if decided.causes:
        yield _causes_table(decided, comparison, decided.causes[:_MOST_CAUSES])
    yield from _row_lists(decided.metrics[decided.part_metric], rows)


def _charts(decided: RunComparison, comparison: Comparison) -> Iterator[views.Part]:
    """Yield the chart of the `decided` run's metrics against the base.

    If the runs were ranked, a table of all runs comes first. With more than two runs, a line names the pair of the
    chart.
    """
    if comparison.best is not None:
        yield _iterations_table(comparison)
    if len(comparison.against) > 1:
        names = wording.short_names([run.id for run in comparison.runs])
        base, new = (_name(names[run.id], "strong") for run in (comparison.base, decided.new))
        yield Text([(new, " against ", base, ":")])

    yield views.Chart([_interval(metric.name, metric.difference) for metric in decided.tested])


def _interval(label: str, estimate: Estimate) -> views.Interval:
    """Return an estimate and its interval as a bar of a chart."""
    return views.Interval(label, estimate.value, estimate.low, estimate.high)


def _runs_table(comparison: Comparison) -> Table:
    """Return a table of the runs: label, id, and number of rows.

    If a run stopped early, the row below it says why. If answers are simulated, the last row says so.
    """
    # Two runs are base and new. Several are numbered, and the base is run 1.
    labels = ["base", "new"]
    if len(comparison.runs) > 2:
        labels = [f"run {number + 1}" for number in range(len(comparison.runs))]

    rows: list[Sequence[Sentence]] = []
    for label, run in zip(labels, comparison.runs, strict=True):
        # With several trials, a run's rows are answers: each row of the data has one for each trial.
        unit, trials = ("answer", f", {run.trials} for each row") if run.trials > 1 else ("row", "")
        failed = f", {plural(run.errors, unit)} with an error" if run.errors else ""
        rows.append((Words(label, "dim"), _name(run.id, "strong"), f"{plural(run.rows, unit)}{trials}{failed}"))
        if run.stopped is not None:
            rows.append(("", Words(stopped_text(run.stopped), "warn"), ""))

    if comparison.simulated:
        rows.append(("", Words(SIMULATED, "warn"), ""))
    return Table(("", "", ""), rows, "lll")


def _warning_texts(comparison: Comparison) -> Iterator[Sentence]:
    """Yield warnings: rows that the runs do not share, and a regression since the best run."""
    for compared_run in comparison.against:
        shared = wording.shared_text(compared_run, comparison.base)
        if shared:
            yield Words(clean(shared), "warn")

    if comparison.best is not None and comparison.best.regressed_since is not None:
        yield Words(clean(wording.regression_text(comparison.best, comparison.new.id), 2_000), "warn")


_EFFECTS: Mapping[str, Style] = {"ship": "good", "invalid": "bad", "keep": "bad", "undecided": "warn"}


def _decision_texts(decision: Decision, most: int | None = None) -> list[Sentence]:
    """Return the lines of a decision, with at most `most` objections; None: all of them."""
    lines = wording.decision_lines(decision, most)
    return [Words(clean(text, 2_000), _EFFECTS.get(effect, "")) for text, effect in lines]


def _verdict_texts(compared_run: RunComparison) -> Iterator[Sentence]:
    """Yield the verdicts on metrics other than the primary one that are better or worse, or have a remark."""
    others = [metric for metric in compared_run.tested if not metric.primary]
    metrics = [metric for metric in others if metric.why or metric.verdict in ("worse", "better")]
    for metric in metrics:
        verdict = "; ".join(filter(None, [wording.headline(metric), wording.margin_text(metric)]))
        yield _name(metric.name, _STYLES.get(metric.verdict or "", "strong")), f": {verdict}"


def _metrics_table(compared_run: RunComparison, comparison: Comparison) -> Table:
    """Return a table of each metric's figures, by evaluator; evaluators with a tested metric come first."""
    # The last column exists only with a margin.
    heads = _table_heads(comparison)
    if comparison.margin is not None:
        heads.append(f"worse by < {comparison.margin:g}")

    # All metrics of an evaluator stand at the place of its first one: tested ones first, then the main one.
    evaluators = [*dict.fromkeys(metric.evaluator for metric in compared_run.metrics.values())]
    metrics = sorted(
        compared_run.metrics.values(),
        key=lambda each: (evaluators.index(each.evaluator), not each.tested, each.name != each.evaluator),
    )
    return Table(heads, [_metric_cells(metric, has_margin=comparison.margin is not None) for metric in metrics])


def _table_heads(comparison: Comparison, label: str = "") -> list[Cell]:
    """Return the heads of a table of metrics or slices; `label` is that of the first column."""
    interval = f"difference ({100 * comparison.confidence:.3g}%)"
    return [label, "pairs", "base", "new", interval, "p", "adj. p", "min. detectable"]


def _metric_cells(metric: MetricComparison, *, has_margin: bool) -> list[Cell]:
    """Return the cells of one metric in the table of metrics; an untested metric is dim and, unless main, indented."""
    style: Style = "" if metric.tested else "dim"
    name = _name(metric.name, style)
    if not metric.tested and metric.name != metric.evaluator:
        # An untested number stands below its evaluator, so its name needs no prefix. A number named like the evaluator
        # is shown as `mean`.
        key = metric.key.removeprefix(f"{metric.evaluator}.")
        name = Words(f"  {'mean' if key == metric.evaluator else clean(key, 60)}", style)

    texts = _figure_texts(metric.kind, metric)
    if not metric.tested:
        texts[4:6] = "", ""  # it has no p-values
    if has_margin:
        # None: without an interval nothing can be said.
        shown = {True: "shown", False: "NOT shown", None: "cannot be said"}
        texts.append(shown[metric.non_inferiority.shown] if metric.non_inferiority is not None else "")
    return [name, *(Words(text, style) for text in texts)]


def _figure_texts(kind: Kind, compared: MetricComparison | results.Part) -> list[str]:
    """Return the texts of a row below `_table_heads`, without the name of the metric or slice."""
    base, new = wording.value_text(kind, compared.base.value), wording.value_text(kind, compared.new.value)
    difference, smallest = wording.shown_difference(kind, compared.difference, unit=False), compared.smallest_difference
    p_values = wording.p_text(compared.p_value), wording.p_text(compared.p_adjusted)
    # Weighted figures and untested metrics have no smallest detectable difference.
    detectable = "" if smallest is None else wording.size_text(kind, smallest.value).removesuffix(" points")
    return [f"{compared.difference.n:,}", base, new, difference, *p_values, detectable]


def _parts_tables(compared_run: RunComparison, comparison: Comparison) -> Iterator[Table]:
    """Yield tables of slices, then tables of the plug-ins' figures.

    A column's slices are shown if the runs were grouped by it, or if a slice has a verdict.
    """
    metric = compared_run.metrics[compared_run.part_metric]
    remark = ", not corrected for the judge's errors" if metric.judge == "corrected" else ""

    # A slice with a verdict brings its whole column, so that it can be compared with the other slices.
    columns = {part.column for part in compared_run.parts if part.named or part.verdict is not None}
    slices = [part for part in compared_run.parts if part.column in columns]

    tables: dict[str, list[results.Part]] = {}
    for part in (*slices, *compared_run.figures):
        tables.setdefault(part.title or f"where, by {clean(part.column, 40)}{remark}", []).append(part)

    # A slice's interval may exclude 0 although its corrected test is not significant; a line below the table says so.
    for title, parts in tables.items():
        alone = [clean(part.value, 40) for part in parts if part.verdict is None and part.difference.excludes_zero]
        below = Words(f"{', '.join(alone)}: {wording.NOT_SIGNIFICANT}", "dim") if alone else ""
        rows: list[list[Cell]] = []
        for part in parts:
            name = Words(clean(part.value, 40), _STYLES.get(part.verdict or "", ""), foreign=True)
            rows.append([name, *_figure_texts(metric.kind, part)])
        yield Table(_table_heads(comparison, title), rows, below=below)


def _causes_table(
    compared_run: RunComparison, comparison: Comparison, causes: Sequence[results.CauseChange], *, brief: bool = False
) -> Table:
    """Return a table of `causes`, with the number of paired rows that failed for each cause in each run.

    Unless `brief`, two columns count the rows that had the cause in one run only.
    """
    rows: list[list[Cell]] = []
    for cause in causes:
        style: Style = "bad" if cause.new > cause.base else "good"
        # A change that may be chance has no colour of its own.
        if cause.p_adjusted >= 1 - comparison.confidence:
            style = "dim"

        cells: list[Cell] = [clean(cause.title, 60), f"{cause.base:,}", f"{cause.new:,}"]
        cells.append(Words(f"{cause.new - cause.base:+,}", style))
        if not brief:
            cells += [f"{cause.only_base:,}", f"{cause.only_new:,}"]
        rows.append([*cells, wording.p_text(cause.p_adjusted), "serving" if cause.side == "serving" else ""])

    one_sided = [] if brief else ["base only", "new only"]
    heads = ["why rows failed", "base", "new", "change", *one_sided, "adj. p", ""]
    hidden = len(compared_run.causes) - len(causes)
    below = f"and {plural(hidden, 'more cause')}" if hidden else ""
    return Table(heads, rows, f"l{'r' * (len(heads) - 2)}l", below=below)


def _iterations_table(comparison: Comparison) -> Table:
    """Return a table with a row for each run and a column for each metric, over the rows that all runs have.

    Its first line has the number of these rows.
    """
    metrics = comparison.history
    # Each metric may have a number on other rows.
    rows: list[list[Cell]] = [["rows", *(f"{metric.values[0].n:,}" for metric in metrics)]]

    for number in range(len(comparison.runs)):
        rows.append([f"run {number + 1}", *(_iteration_cell(comparison, metric, number) for metric in metrics)])

    return Table(["", *(_name(metric.name) for metric in metrics)], rows, below="▲ better, ▼ worse than run 1")


def _iteration_cell(comparison: Comparison, history: results.History, number: int) -> Words:
    """Return a metric's figure in a run (counted from 0), marked if it is better or worse than in the first run."""
    # `against` has no entry for the base, run 1.
    verdict = comparison.against[number - 1].metric(history.name).verdict if number else None
    style = _STYLES.get(verdict or "", "")
    mark = {"good": "▲ ", "bad": "▼ "}.get(style, "")
    return Words(mark + wording.value_text(history.kind, history.values[number].value), style)


# -- the rows behind a comparison


def _row_lists(metric: MetricComparison, most: int) -> Iterator[views.Part]:
    """Yield a line with the counts of changed rows, then a table for each list with its first `most` rows."""
    names = [name for name in _LISTS if name != "flaky" or metric.totals.get("flaky")]
    counts = ", ".join(f"{metric.totals.get(name, 0):,} {name}" for name in names)
    yield Text([(_name(metric.name, "strong"), Words(f": {counts}", "strong"))])

    for name, style in _LISTS.items():
        if most and getattr(metric, name):
            total = metric.totals.get(name, 0)
            below = Words(f"  and {total - most:,} more: --rows {total}", "dim") if total > most else ""
            yield replace(_row_list(metric, name, style, most, _MOST_FAULTS, _LONGEST_REASON), below=below)


def _row_list(metric: MetricComparison, name: str, style: Style, most: int, most_faults: int, longest: int) -> Table:
    """Return one of a metric's lists of rows as a table: the first `most` rows, each with its change.

    `name` is the list's name, such as "fixed", and `style` its colour. The title has the number of rows and the
    `most_faults` most frequent reasons. A row's change is cut to `longest` characters.
    """
    # The counts are over the whole list; below it, only the first rows are shown.
    changes: Sequence[results.RowChange] = getattr(metric, name)
    counts: Counter[str] = Counter()

    for change in changes:
        base = _reason_titles(change.base_causes, change.base_faults, change.base_reason, by_cause=metric.primary)
        new = _reason_titles(change.new_causes, change.new_faults, change.new_reason, by_cause=metric.primary)
        # A fixed row counts for the reasons that only the base has, any other row for those that only the new run has.
        counted, excluded = (base, new) if name == "fixed" else (new, base)
        counts.update(reason for reason in counted if reason not in excluded)

    frequent = [f"{clean(reason, 60)} ({count:,})" for reason, count in counts.most_common(most_faults)]
    if len(counts) > most_faults:
        frequent.append(plural(len(counts) - most_faults, "more cause"))

    # The list's name with its colour, then the most frequent reasons.
    title: list[Cell] = [Words(f"  {name} {metric.totals.get(name, len(changes)):,}", style)]
    if frequent:
        title += [": ", Words(", ".join(frequent), "dim", foreign=True)]

    rows = []
    for change in changes[:most]:
        text = clean(wording.row_text(change, metric.kind), longest)
        rows.append((Words(f"    {clean(change.row_id, 60)}", foreign=True), Words(text, "dim", foreign=True)))
    return Table(("", ""), rows, "ll", tuple(title), folded=True)


def _reason_titles(causes: Sequence[str], faults: Sequence[Fault], reason: str | None, *, by_cause: bool) -> list[str]:
    """Return titles of the reasons why a row failed in one run: problems of serving, else `faults`, else `reason`.

    With `by_cause` and faults, the titles of all `causes` replace those of serving, as in the table of causes. Without
    faults of this metric, the causes may come from another evaluator.
    """
    titles = [cause_named(code).title for code in causes] if by_cause and faults else wording.serving_titles(causes)
    groups = fault_groups(faults, reason or "")
    return titles or list(dict.fromkeys(title_of_cause(code, title) for code, title in groups.items()))


def _rows_over_runs_table(histories: results.RowsOverRuns, most: int) -> Table:
    """Return a table of rows by outcome: the first `most` rows of each, with a mark for each run; counts in the title.

    The marks are ✓ for passed, ✗ for failed, and ~ if trials disagree.

    Example of a row's line over three runs: `row-17  ✗✓~`.
    """
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in histories.counts.items())
    title = f", row by row over {len(histories.runs)} runs: {counts}"
    cells: list[Sequence[Sentence]] = []
    # Rows that are never right have a count, but no list: no run changed them.
    for outcome, style in _OVER_RUNS.items():
        rows, total = [row for row in histories.rows if row.outcome == outcome], histories.counts[outcome]
        if not (total and most):
            continue

        since = ""
        if outcome == "broken":
            since = ", ".join(f"{count:,} since {clean(run, 60)}" for run, count in histories.broken_since.items())
        cells.append((Words(f"  {outcome} {total:,}", style), since))

        for row in rows[:most]:
            marks = "".join(_MARKS.get(share, "~") for share in row.passed)
            cells.append((Words(f"    {clean(row.row_id, 60)}", foreign=True), Words(marks, "dim")))
        if total > most:
            cells.append((f"    and {total - most:,} more", Words(f"--rows {total}", "dim")))

    return Table(("", ""), cells, "ll", (_name(histories.metric, "strong"), Words(title, "strong")))


# -- notes


def comparison_notes(comparison: Comparison) -> Iterator[str]:
    """Yield notes on rows that are in no figure, and on the runs."""
    compared_run = comparison.decided
    pairs = compared_run.pairs

    # A run that stopped early lacks most rows of its base, which is no problem of the data.
    only_in_base = () if compared_run.new.stopped is not None else pairs.only_in_base
    for names, run in ((only_in_base, "base"), (pairs.only_in_new, "new run")):
        if names:
            yield f"{plural(len(names), 'row')} only in the {run}, left out of all figures: {_first_names(names)}"

    if pairs.other_content:
        ids = plural(len(pairs.other_content), "id")
        yield f"{ids} with different content in the two runs: {_first_names(pairs.other_content)}"
    # Paired by content alone is worth a note: equal rows may have been exchanged.
    if pairs.by_content:
        yield f"{plural(pairs.by_content, 'row')} paired by content, because their ids differ"

    source = comparison.base.source
    # The contents of runs that a plug-in reads are never known, so a note on them says nothing.
    are_of_one_plugin = source == compared_run.new.source and source not in OWN_SOURCES
    if pairs.by_id_alone and not are_of_one_plugin:
        yield "rows are paired by id alone, because their contents cannot be compared"

    # An evaluator may have several tested metrics; its errors are told once.
    yield from dict.fromkeys(_failure_notes(compared_run))
    yield from (clean(note) for note in compared_run.notes)


def _failure_notes(compared_run: RunComparison) -> Iterator[str]:
    """Yield notes on errors of evaluators and on rows that have a figure in one run only."""
    for metric in compared_run.tested:
        base, new = metric.base_rows.errors, metric.new_rows.errors
        if base or new:
            yield f"{metric.evaluator}: errors in {plural(base, 'row')} of the base, {new:,} of the new run"

        counts = (metric.one_sided.base, "the base"), (metric.one_sided.new, "the new run")
        excluded = [f"{plural(count, 'row')} that only {run} scored" for count, run in counts if count]
        if excluded:
            yield f"{metric.name}: both rates leave out {' and '.join(excluded)}"


def _first_names(names: Sequence[str]) -> str:
    """Return the first five names and the number of further ones."""
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(clean(name, 60) for name in names[:_MOST_NAMES]) + more


# -- selections


def selection_view(selection: results.Selection, rows: int = 3, *, details: bool = False) -> views.View:
    """Return the page of a selection: the decision, the ranking and the other candidates.

    With `details`, the selection's `rows_over_runs` follow, if it has any: the first `rows` rows of each outcome except
    `right` and `never right`.
    """
    notes = [clean(note) for note in selection.notes]
    title, _ = next(wording.decision_lines(selection.decision))
    return views.View(Words(clean(title, 2_000)), [*_selection_parts(selection, rows if details else None)], notes)


def _selection_parts(selection: results.Selection, rows: int | None) -> Iterator[views.Part]:
    """Yield the page of a selection; `rows` limits the rows per outcome; None leaves their table out."""
    lines: list[Sentence] = [Words(SIMULATED, "warn")] if selection.simulated else []
    lines += _decision_texts(selection.decision)
    if selection.regressed_since not in (None, selection.base):  # if it is the base, the decisions say so
        last = selection.decisions[-1].candidate
        lines.append(Words(clean(wording.regression_text(selection, last), 2_000), "bad"))

    yield Text(lines)

    # Two runs have one difference, that of the decision. A second interval for it could contradict the decision.
    if len(selection.ranking) > 2:
        yield views.Chart([_interval(ranked.run, ranked.difference) for ranked in selection.ranking])
    else:
        low, estimate, high = selection.decision.difference
        yield views.Chart([views.Interval(selection.metric, estimate, low, high)])

    yield _ranking_table(selection)
    # The decision to act on is shown above; each other candidate has one line.
    others = [decision for decision in selection.decisions if decision is not selection.decision]
    if others:
        yield Text([clean(_decision_in_one_line(decision), 2_000) for decision in others])

    if rows is not None and selection.rows_over_runs is not None:
        yield _rows_over_runs_table(selection.rows_over_runs, rows)


def _decision_in_one_line(decision: Decision) -> str:
    """Return the line of a decision that is not the one to act on, with its strongest objection if it has an effect."""
    answer, _ = next(wording.decision_lines(decision, chosen=False))
    effective = [objection for objection in decision.objections if objection.effect != "none"]
    return f"{answer}; {effective[0].effect}: {effective[0].text}" if effective else answer


def _ranking_table(selection: results.Selection) -> Table:
    """Return a table of all runs, the best first; from three runs on, with each run's distance from the best other."""
    rows: list[list[Cell]] = []
    names = wording.short_names([ranked.run for ranked in selection.ranking])
    # If a decision is invalid, the ranking mixes figures of different evaluators: no run is called the best.
    invalid = {decision.candidate for decision in selection.decisions if decision.decision == "invalid"}

    for ranked in selection.ranking:
        remark = "not comparable" if ranked.run in invalid else ""
        if ranked.may_be_best and not invalid:
            remark = "may be the best"
        value = wording.value_text(selection.kind, ranked.value.value)
        distance = wording.shown_difference(selection.kind, ranked.difference, unit=False)
        rows.append([_name(names[ranked.run]), value, *([distance] if len(names) > 2 else []), remark])

    units = plural(selection.rows, "row")
    if selection.clusters is not None:
        units += f" in {plural(selection.clusters, 'cluster')}"
    if len(names) == 2:
        return Table([units, _name(selection.metric), ""], rows, "lrl")

    heads: list[Cell] = [units, _name(selection.metric), f"from the best other ({100 * selection.confidence:.3g}%)", ""]
    return Table(heads, rows, "lrrl")
