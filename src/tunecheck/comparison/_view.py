"""Comparisons and selections as pages of results: first the decision, then the figures, then the changed rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tunecheck import plugins
from tunecheck._faults import cause_named, title_of_cause
from tunecheck._messages import clean, plural
from tunecheck.comparison._wording import (
    ALONE,
    decision_lines,
    headline,
    line_of,
    margin_text,
    p_text,
    regression_text,
    row_text,
    serving_titles,
    shared_text,
    short_names,
    shown_difference,
    size_text,
    value_text,
)
from tunecheck.pipeline._finished_rows import fault_groups
from tunecheck.results import OWN_SOURCES, Kind, RunInfo
from tunecheck.runs._store import stopped_text
from tunecheck.statistics._results import Estimate, SmallestDifference
from tunecheck.views import (
    SIMULATED,
    Cell,
    Chart,
    Check,
    Interval,
    Part as ViewPart,
    Sentence,
    Style,
    Table,
    Text,
    View,
    Words,
)

if TYPE_CHECKING:
    from tunecheck.comparison._comparison import (
        CauseChange,
        Comparison,
        Decision,
        History,
        MetricComparison,
        Part,
        RowChange,
        RowHistory,
        RowsOverRuns,
        RunComparison,
        Selection,
    )

_MOST_NAMED, _MOST_CAUSES, _MOST_FAULTS = 5, 12, 5
_OBJECTIONS, _CAUSES, _ROWS, _NOTES = 4, 3, 3, 2
"""The most objections, causes, rows and notes on the first screen."""
_LONGEST_REASON, _BRIEF_REASON = 120, 60
_BRIEF_FAULTS = 2
_STYLES: Mapping[str, Style] = {"better": "good", "worse": "bad"}
_LISTS: Mapping[str, Style] = {"regressed": "bad", "fixed": "good", "flaky": "warn", "changed": "dim"}
_OVER_RUNS: Mapping[RowHistory, Style] = {"broken": "bad", "back and forth": "warn", "flaky": "warn", "fixed": "good"}
_MARKS = {1.0: "✓", 0.0: "✗"}


def _name(text: str, style: Style = "") -> Words:
    return Words(clean(text, 60), style, foreign=True)


# -- comparisons


def comparison_view(comparison: Comparison, rows: int = 3, *, details: bool = False) -> View:
    """Return the page of a comparison: a short one, or with `details`, all metrics, slices and causes.

    `rows` is the most rows shown from each list.
    """
    title = (_name(comparison.new.id), " against ", _name(comparison.base.id))
    checks = [_check(each.decision) for each in comparison.against]
    notes = [*comparison_notes(comparison)]
    if details:
        return View(title, [*_comparison_parts(comparison, rows)], notes, checks)
    more = f"and {plural(len(notes) - _NOTES, 'more note')}" if len(notes) > _NOTES else ""
    notes = [*notes[:_NOTES], *filter(None, [more])]
    return View(title, [*_brief_parts(comparison, min(rows, _ROWS))], notes, checks)


def _check(decision: Decision) -> Check:
    """Return a decision as a check for CI: keep is a failure; undecided and invalid are errors."""
    said = "\n".join(text for text, _ in decision_lines(decision))
    ended = {"ship": None, "keep": "failure", "undecided": "error", "invalid": "error"}[decision.decision]
    return Check("tunecheck.decision", f"{decision.candidate} against {decision.base}", said, ended)  # type: ignore[arg-type]


def _first_parts(comparison: Comparison, objections: int | None = None) -> Iterator[ViewPart]:
    """Yield the runs and the decision."""
    yield _runs_table(comparison)
    said: list[Sentence] = [Words(warning, "warn") for warning in _warnings(comparison)]
    yield Text([*said, *_decision(comparison.decision, objections)])


def _brief_parts(comparison: Comparison, rows: int) -> Iterator[ViewPart]:
    """Yield a page of about 30 lines: the decision, all runs, the causes that grew, and the first regressed rows."""
    last, several = comparison.against[-1], comparison.best is not None
    yield from _first_parts(comparison, _OBJECTIONS)
    yield Chart([_interval(each.name, each.difference) for each in last.tested])
    if several:
        yield _iterations_table(comparison)
    if last.causes:  # those that grew come first, then those that shrank
        causes = sorted(last.causes, key=lambda each: (each.new <= each.base, -abs(each.new - each.base)))
        yield _causes_table(last, comparison, causes[:_CAUSES], brief=True)
    primary = last.metrics[last.part_metric]
    if rows and primary.regressed:
        yield _row_list(primary, "regressed", "bad", rows, _BRIEF_FAULTS, _BRIEF_REASON)
    others = Counter(each.verdict for each in last.tested if not each.primary)
    told = [f"{plural(others.total(), 'other metric')}: {others['better']:,} better, {others['worse']:,} worse"]
    more = "--details shows all metrics, slices, causes and rows"
    if comparison.new.place != "memory":
        more += f"; `tunecheck report {comparison.new.id} --against {comparison.base.id}` shows the answers"
    yield Text([Words("; ".join([*told * bool(others), more]), "dim")])


def _comparison_parts(comparison: Comparison, rows: int) -> Iterator[ViewPart]:
    """Yield the page with all details; `rows` is the most rows shown from each list."""
    last, best = comparison.against[-1], comparison.best
    yield from _first_parts(comparison)
    answer = [*_answer(last, comparison)]
    if answer:
        yield Text(answer)
    yield Chart([_interval(each.name, each.difference) for each in last.tested])
    if best is not None:
        yield _iterations_table(comparison)
    yield _metrics_table(last, comparison)
    yield from _parts_tables(last, comparison)
    yield from (plugins.tables()[name].table(data) for name, data in last.tables.items())
    if best is not None and best.rows_over_runs is not None:
        yield _rows_over_runs_table(best.rows_over_runs, rows)
    if last.causes:
        yield _causes_table(last, comparison, last.causes[:_MOST_CAUSES])
    yield from _row_lists(last.metrics[last.part_metric], rows)


def _interval(label: str, estimate: Estimate) -> Interval:
    return Interval(label, estimate.value, estimate.low, estimate.high)


def _runs_table(comparison: Comparison) -> Table:
    """Return a table of the runs: label, id, and number of rows; a line below says why a run stopped early."""
    many = len(comparison.against) > 1
    rows: list[Sequence[Sentence]] = []
    for number, run in enumerate(comparison.runs, 1):
        label = f"run {number}" if many else "base" if number == 1 else "new"
        trials = f", {run.trials} trials each" if run.trials > 1 else ""
        failed = f", {plural(run.errors, 'row')} with an error" if run.errors else ""
        rows.append((Words(label, "dim"), _name(run.id, "strong"), f"{plural(run.rows, 'row')}{trials}{failed}"))
        if run.stopped is not None:
            rows.append(("", Words(stopped_text(run.stopped), "warn"), ""))
    if comparison.simulated:
        rows.append(("", Words(SIMULATED, "warn"), ""))
    return Table(("", "", ""), rows, "lll")


def _warnings(comparison: Comparison) -> Iterator[str]:
    """Yield warnings: rows that the runs do not share, and a regression since the best run."""
    for against in comparison.against:
        shared = shared_text(against, comparison.base)
        if shared:
            yield clean(shared)
    if comparison.best is not None and comparison.best.regressed_since is not None:
        yield clean(regression_text(comparison.best, comparison.new.id), 2_000)


_EFFECTS: Mapping[str, Style] = {"ship": "good", "invalid": "bad", "keep": "bad", "undecided": "warn"}


def _decision(decision: Decision, most: int | None = None) -> list[Sentence]:
    """Return the lines of a decision, with at most `most` objections."""
    lines = decision_lines(decision, most)
    return [Words(clean(text, 2_000), _EFFECTS.get(effect, "")) for text, effect in lines]


def _answer(against: RunComparison, comparison: Comparison) -> Iterator[Sentence]:
    """Yield verdicts that the decision does not mention; metrics without a shown difference are only in the table."""
    tested = sorted(against.tested, key=lambda each: not each.primary)
    if against.decision.candidate == comparison.decision.candidate:
        tested = [each for each in tested if not each.primary]
    told = [each for each in tested if each.primary or each.why or each.verdict in ("worse", "better")]
    if comparison.best is not None and told:
        names = short_names([run.id for run in comparison.runs])
        yield _name(names[against.new.id]), " against ", _name(names[comparison.base.id]), ":"
    yield from map(_said_of, told)


def _said_of(metric: MetricComparison) -> Sentence:
    """Return a metric's name and verdict as a sentence."""
    said = [headline(metric), margin_text(metric)]
    return _name(metric.name, _STYLES.get(metric.verdict or "", "strong")), f": {'; '.join(filter(None, said))}"


def _metrics_table(against: RunComparison, comparison: Comparison) -> Table:
    """Return a table of each metric's figures, the tested metrics first."""
    has_margin = comparison.margin is not None
    heads = [*_heads(comparison), "min. detectable", *([f"worse by < {comparison.margin:g}"] if has_margin else [])]
    metrics = sorted(against.metrics.values(), key=lambda each: (not each.tested, each.name != each.evaluator))
    rows = [
        [*_metric_cells(metric, has_margin=has_margin)]
        for evaluator in dict.fromkeys(metric.evaluator for metric in metrics)
        for metric in metrics
        if metric.evaluator == evaluator
    ]
    return Table(heads, rows)


def _heads(comparison: Comparison, label: str = "") -> list[Cell]:
    return [label, "pairs", "base", "new", f"difference ({100 * comparison.confidence:.3g}%)", "p", "adj. p"]


def _metric_cells(metric: MetricComparison, *, has_margin: bool) -> Iterator[Cell]:
    """Yield one metric's row of the table of metrics; untested metrics are dim, and indented below their evaluator."""
    kind = metric.kind
    style: Style = "" if metric.tested else "dim"
    if metric.tested or metric.name == metric.evaluator:
        yield _name(metric.name, style)
    else:
        key = metric.key.removeprefix(f"{metric.evaluator}.")
        yield Words(f"  {'mean' if key == metric.evaluator else clean(key, 60)}", style)
    yield from (Words(text, style) for text in _figures(kind, metric))
    yield p_text(metric.p_value) if metric.tested else ""
    yield p_text(metric.p_adjusted) if metric.tested else ""
    yield _detectable(kind, metric.smallest_difference)
    if has_margin:
        shown = {True: "shown", False: "NOT shown", None: "cannot be said"}
        yield shown[metric.non_inferiority.shown] if metric.non_inferiority is not None else ""


def _figures(kind: Kind, compared: MetricComparison | Part) -> Sequence[str]:
    """Return the number of rows, both figures, and their difference."""
    values = (value_text(kind, side.value) for side in (compared.base, compared.new))
    return f"{compared.difference.n:,}", *values, shown_difference(kind, compared.difference, unit=False)


def _parts_tables(against: RunComparison, comparison: Comparison) -> Iterator[Table]:
    """Yield a table of slices for each column, and one for each plug-in's figures."""
    metric = against.metrics[against.part_metric]
    judged = ", as the judge says" * (metric.judge == "corrected")
    tables: dict[str, list[Part]] = {}
    telling = {part.column for part in against.parts if part.named or part.verdict is not None}
    for part in (*(part for part in against.parts if part.column in telling), *against.figures):
        tables.setdefault(part.title or f"where, by {clean(part.column, 40)}{judged}", []).append(part)
    for title, parts in tables.items():
        alone = [clean(part.value, 40) for part in parts if part.verdict is None and part.difference.excludes_zero]
        below = Words(f"{', '.join(alone)}: {ALONE}", "dim") if alone else ""
        heads = [*_heads(comparison, title), "min. detectable"]
        yield Table(heads, [_part_cells(part, metric) for part in parts], below=below)


def _part_cells(part: Part, metric: MetricComparison) -> list[Cell]:
    """Return the row of one slice in the table of slices."""
    style = _STYLES.get(part.verdict or "", "")
    name = Words(clean(part.value, 40), style, foreign=True)
    tests = (p_text(part.p_value), p_text(part.p_adjusted), _detectable(metric.kind, part.smallest_difference))
    return [name, *_figures(metric.kind, part), *tests]


def _detectable(kind: Kind, smallest: SmallestDifference | None) -> str:
    """Format the smallest detectable difference; empty if it was not computed."""
    return "" if smallest is None else size_text(kind, smallest.value).removesuffix(" points")


def _causes_table(
    against: RunComparison, comparison: Comparison, causes: Sequence[CauseChange], *, brief: bool = False
) -> Table:
    """Return a table of the paired rows by cause of failure: in each run, and in one run only."""
    only = () if brief else ("base only", "new only")
    heads = ("why rows failed", "base", "new", "change", *only, "adj. p", "")
    rows: list[list[Cell]] = []
    for cause in causes:
        style: Style = "bad" if cause.new > cause.base else "good"
        if cause.p_adjusted >= 1 - comparison.confidence:
            style = "dim"
        change = Words(f"{cause.new - cause.base:+,}", style)
        base, new, *one_sided = (f"{n:,}" for n in (cause.base, cause.new, cause.only_base, cause.only_new))
        serving = "serving" if cause.side == "serving" else ""
        cells: list[Cell] = [clean(cause.title, 60), base, new, change, *one_sided[: len(only)]]
        rows.append([*cells, p_text(cause.p_adjusted), serving])
    left = len(against.causes) - len(causes)
    return Table(heads, rows, f"l{'r' * (len(heads) - 2)}l", below=f"and {plural(left, 'more cause')}" if left else "")


def _iterations_table(comparison: Comparison) -> Table:
    """Return a table of each metric in each run, over the rows that all runs have."""
    shown = comparison.history
    rows: list[list[Cell]] = [["rows", *(f"{each.values[0].n:,}" for each in shown)]]
    for number in range(len(comparison.runs)):
        rows.append([f"run {number + 1}", *(_iteration(comparison, each, number) for each in shown)])
    rows.append(["", *(Words(line_of(each.values), "dim") for each in shown)])
    return Table(["", *(_name(each.name) for each in shown)], rows, below="▲ ▼ better, worse than run 1")


def _iteration(comparison: Comparison, history: History, number: int) -> Words:
    """Return a metric's figure in a run (counted from 0), marked if it is better or worse than in the first run."""
    verdict = comparison.against[number - 1].metric(history.name).verdict if number else None
    style = _STYLES.get(verdict or "", "")
    mark = {"good": "▲ ", "bad": "▼ "}.get(style, "")
    return Words(mark + value_text(history.kind, history.values[number].value), style)


# -- the rows behind a comparison


def _row_lists(metric: MetricComparison, most: int) -> Iterator[ViewPart]:
    """Yield a line with the counts of changed rows, then the first `most` rows of each list."""
    counted = [name for name in _LISTS if name != "flaky" or metric.totals.get("flaky")]
    counts = ", ".join(f"{metric.totals.get(name, 0):,} {name}" for name in counted)
    yield Text([(_name(metric.name, "strong"), Words(f": {counts}", "strong"))])
    for name, style in _LISTS.items():
        rows: Sequence[RowChange] = getattr(metric, name)
        if rows and most:
            yield _row_list(metric, name, style, most, _MOST_FAULTS, _LONGEST_REASON)


def _row_list(metric: MetricComparison, name: str, style: Style, most: int, most_faults: int, longest: int) -> Table:
    """Return a list of rows as a table, with their number and most frequent faults in the title.

    Reasons are cut to `longest` characters.
    """
    rows: Sequence[RowChange] = getattr(metric, name)
    faults: Counter[str] = Counter()
    for row in rows:
        base, new = _groups(row, by_cause=metric.primary)
        left, right = (new, base) if name == "fixed" else (base, new)
        faults.update(title for title in right if title not in left)
    common = [f"{count:,} {clean(title, 60)}" for title, count in faults.most_common(most_faults)]
    common += [plural(len(faults) - most_faults, "more cause")] * (len(faults) > most_faults)
    total = metric.totals.get(name, len(rows))
    title: list[Cell] = [Words(f"  {name} {total:,}", style)]
    if common:
        title += [": ", Words(", ".join(common), "dim", foreign=True)]
    cells = []
    for row in rows[:most]:
        reasons = clean(row_text(row, metric.kind), longest)
        cells.append((Words(f"    {clean(row.row_id, 60)}", foreign=True), Words(reasons, "dim", foreign=True)))
    return Table(("", ""), cells, "ll", tuple(title), folded=True)


def _groups(row: RowChange, *, by_cause: bool) -> tuple[list[str], list[str]]:
    """Return what went wrong in the base and in the new run: a problem of serving, else titles of the faults.

    With `by_cause` the row's causes come first, so that lists and the table of causes use the same words. A row's cause
    comes from all its failing evaluators, so it counts only if this metric failed in that run.
    """
    sides = (row.base_causes, row.base_faults, row.base_reason), (row.new_causes, row.new_faults, row.new_reason)
    base, new = (
        ([cause_named(code).title for code in causes] if by_cause and faults else serving_titles(causes))
        or list(dict.fromkeys(title_of_cause(*each) for each in fault_groups(faults, reason or "").items()))
        for causes, faults, reason in sides
    )
    return base, new


def _rows_over_runs_table(found: RowsOverRuns, most: int) -> Table:
    """Return a table of the first rows of each outcome, with their verdicts in all runs and counts in the title."""
    said = [f"{found.counts['right']:,} right in all", f"{found.counts['never right']:,} never"]
    said += [f"{found.counts[outcome]:,} {outcome}" for outcome in ("fixed", "broken")]
    said += [f"{count:,} {outcome}" for outcome in ("back and forth", "flaky") if (count := found.counts[outcome])]
    title = f", row by row over {len(found.runs)} runs: {', '.join(said)}"
    cells: list[Sequence[Sentence]] = []
    for outcome, style in _OVER_RUNS.items():
        rows = [row for row in found.rows if row.outcome == outcome][:most]
        since = ""
        if outcome == "broken":
            since = ", ".join(f"{count:,} since {clean(run, 60)}" for run, count in found.broken_since.items())
        if rows:
            cells.append((Words(f"  {outcome} {found.counts[outcome]:,}", style), since))
        for row in rows:
            marks = "".join(_MARKS.get(share, "~") for share in row.passed)
            cells.append((Words(f"    {clean(row.row_id, 60)}", foreign=True), Words(marks, "dim")))
    return Table(("", ""), cells, "ll", (_name(found.metric, "strong"), Words(title, "strong")))


# -- notes


def comparison_notes(comparison: Comparison) -> Iterator[str]:
    """Yield notes on rows that are in no figure, and on the runs."""
    against, pairs = comparison.against[-1], comparison.pairs
    stopped = comparison.new.stopped is not None
    for names, where in ((pairs.only_in_base, "base"), (pairs.only_in_new, "new run")):
        if names and not (stopped and where == "base"):
            yield f"{plural(len(names), 'row')} only in the {where}, in no figure: {_first_names(names)}"
    if pairs.other_content:
        ids = plural(len(pairs.other_content), "id")
        yield f"{ids} in both runs with other content: {_first_names(pairs.other_content)}"
    if pairs.by_content:
        yield f"{plural(pairs.by_content, 'row')} paired by content, because their ids differ"
    if pairs.by_id_alone and not _are_of_one_plugin(comparison.base, comparison.new):
        yield "rows are paired by id alone: their contents cannot be compared"
    yield from _failures(against)
    yield from (clean(note) for note in against.notes)


def _are_of_one_plugin(base: RunInfo, new: RunInfo) -> bool:
    """Return whether one plug-in read both runs; the contents of such runs are never known."""
    return base.source == new.source and base.source not in OWN_SOURCES


def _failures(against: RunComparison) -> Iterator[str]:
    """Yield notes on errors of evaluators and on rows that have a figure in one run only."""
    seen: set[str] = set()
    for metric in against.tested:
        sides = (metric.base_rows, metric.new_rows)
        if metric.evaluator not in seen and any(side.errors for side in sides):
            before, after = (f"{side.errors:,}" for side in sides)
            yield f"{metric.evaluator}: errors in {before} rows of the base, {after} of the new run"
        seen.add(metric.evaluator)
        lone = (metric.one_sided.base, "the base"), (metric.one_sided.new, "the new run")
        only = [f"{plural(count, 'row')} with a figure only in {run}" for count, run in lone if count]
        if only:
            yield f"{metric.name}: neither rate includes {' and '.join(only)}"


def _first_names(names: Sequence[str]) -> str:
    """Return the first five names and the number of further ones."""
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(clean(name, 60) for name in names[:_MOST_NAMED]) + more


# -- selections


def selection_view(selection: Selection, rows: int = 3, *, details: bool = False) -> View:
    """Return the page of a selection: the decision, the ranking and the other candidates.

    With `details`, the first `rows` rows of each outcome over all runs follow.
    """
    notes = [clean(note) for note in selection.notes]
    title, _ = next(decision_lines(selection.decision))
    return View(Words(clean(title, 2_000)), [*_selection_parts(selection, rows if details else None)], notes)


def _selection_parts(selection: Selection, rows: int | None) -> Iterator[ViewPart]:
    """Yield the page of a selection; `rows` limits the rows shown per outcome, None shows none."""
    said: list[Sentence] = [Words(SIMULATED, "warn")] if selection.simulated else []
    said += _decision(selection.decision)
    last = selection.decisions[-1].candidate
    if selection.regressed_since not in (None, selection.base):  # if it is the base, the decisions say so
        said.append(Words(clean(regression_text(selection, last), 2_000), "bad"))
    yield Text(said)
    if len(selection.ranking) > 2:
        yield Chart([_interval(each.run, each.difference) for each in selection.ranking])
    else:
        low, estimate, high = selection.decision.difference
        yield Chart([Interval(selection.metric, estimate, low, high)])
    yield _ranking(selection)
    others = [_with_objection(each) for each in selection.decisions if each is not selection.decision]
    if others:
        yield Text([clean(each, 2_000) for each in others])
    if rows is not None and selection.rows_over_runs is not None:
        yield _rows_over_runs_table(selection.rows_over_runs, rows)


def _with_objection(decision: Decision) -> str:
    """Return a decision in one line, with its strongest objection if it has an effect."""
    said, *objections = decision_lines(decision, 1)
    return said[0] + "".join(f"; {text.removeprefix('- ')}" for text, effect in objections[:1] if effect != "none")


def _ranking(selection: Selection) -> Table:
    """Return all runs, the best first; the distances of two runs would only repeat the decision's difference."""
    kind, units = selection.kind, plural(selection.rows, "row")
    if selection.clusters is not None:
        units += f" in {plural(selection.clusters, 'cluster')}"
    several = len(selection.ranking) > 2
    invalid = {each.candidate for each in selection.decisions if each.decision == "invalid"}
    rows: list[list[Cell]] = []
    names = short_names([each.run for each in selection.ranking])
    for each in selection.ranking:
        said = "may be the best" if each.may_be_best and not invalid else "not comparable" * (each.run in invalid)
        distances = [shown_difference(kind, each.difference, unit=False)] * several
        rows.append([_name(names[each.run]), value_text(kind, each.value.value), *distances, said])
    best_other = f"from the best other ({100 * selection.confidence:.3g}%)"
    heads: list[Cell] = [units, _name(selection.metric), *[best_other] * several, ""]
    below = "The intervals hold for all runs at once. They end at ±0.0 if a run is shown to be ahead or behind."
    return Table(heads, rows, "lrrl" if several else "lrl", below=Words(below, "dim") if several else "")
