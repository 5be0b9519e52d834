"""Builds the pages of finished runs: table, reasons of failures, gates, and files.

`run.py` fills a `RunPage` and builds a view of it:

| view | for | content |
|---|---|---|
| `short_view()` | a run on the terminal | gates' verdict, three sentences, a table, groups, gates, one line of facts |
| `run_view()` | `--details` and `--markdown` | the same, but with every figure, why rows failed, and spending |
| `run_view()` | `--junit` | a check per gate |
| `side_by_side()` | several runs (`--endpoint a,b`) | three sentences, one table with a column per run |

**The main table** (`lines_of`) has these lines for each evaluator:

    match                    31 of 46 (67.4%)   its main figure: the pass rate, else the mean of its primary metric
      call recall                       0.846   means of graded metrics, then sums (no counts and rates of 0)
      not applicable                       11   rows without a verdict, if there are any
      errors                                2   rows on which the evaluator failed, if there are any
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from tunecheck import results, views
from tunecheck._faults import Side, cause_named, order_causes
from tunecheck._files import EvaluatorEntry
from tunecheck._json import JSON, whole_number
from tunecheck._messages import clean, command_line, plural
from tunecheck.cli._gates import End, GateOutcome, Metrics, end_of
from tunecheck.pipeline._costs import cost_text
from tunecheck.pipeline._finished_rows import PASS_RATE, REPEATED, FailureGroup, Failures
from tunecheck.runs._store import Run, stopped_text

if TYPE_CHECKING:
    from pathlib import Path

    from tunecheck.cli._evaluate.options import Addition, Options
    from tunecheck.comparison._judged import Correction
    from tunecheck.evaluation._ending import EvaluationResult
    from tunecheck.statistics._results import Estimate

_MOST_GROUPS, _MOST_NOTES, _MOST_REASONS = 30, 3, 8
"""The most values of a grouping column, notes on a short page, and reasons under one heading."""
_ROW_COUNTS: Mapping[str, tuple[str, views.Style]] = {
    "not_applicable_count": ("not applicable", "dim"),
    "error_count": ("errors", "bad"),
}
"""Counts of rows in the main table, with their labels and styles."""
_VERDICTS: Mapping[End, tuple[str, views.Style]] = {
    "met": ("gate met", "good"),
    "not met": ("gate NOT met", "bad"),
    "undecided": ("gate UNDECIDED", "warn"),
}


class RunPage(msgspec.Struct, frozen=True):
    """The content of a run's page."""

    options: Options
    data: str
    source: str
    result: EvaluationResult
    evaluators: Mapping[str, EvaluatorEntry]
    failures: Failures
    gates: Sequence[GateOutcome]
    notes: Sequence[str]
    judges: Mapping[str, Correction] = msgspec.field(default_factory=dict)
    """Judges' pass rates, corrected for their errors or marked as uncalibrated."""
    seconds: float = 0.0
    """Duration of the run including its gates, in seconds."""
    intervals: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The intervals of evaluators' main figures as text; empty without `--markdown`."""
    additions: Sequence[Addition] = ()
    """The results of plug-ins' options."""

    @property
    def name(self) -> str:
        """The run's id."""
        return self.result.run_dir.name

    @property
    def screen(self) -> results.FirstScreen:
        """The first screen of the run, read from its folder: three sentences and a table."""
        return results.first_screen(Run(self.result.run_dir), self.options.place, self.failures)

    @property
    def reused(self) -> str:
        """Text on the reused answers and verdicts, such as `5 answers and 12 verdicts reused`.

        It is empty if nothing was reused and no option asked for reuse.
        """
        counts = [plural(count, kind.removesuffix("s")) for kind, count in self.result.reused.items() if count]
        if not counts and self.options.resume is None and self.options.reuse is None:
            return ""
        return f"{' and '.join(counts) or 'nothing'} reused"

    @property
    def folder(self) -> str:
        """The run's folder."""
        return str(self.result.run_dir)

    @property
    def rows_text(self) -> str:
        """The number of rows, or of answers if rows were repeated, such as `46 rows`."""
        return plural(self.result.row_count, results.unit_of(self.result.metrics))

    @property
    def notices(self) -> list[str]:
        """Notices that every output shows: simulated answers, and the decision of a run that stopped early."""
        simulated = views.SIMULATED if self.result.simulated else ""
        return [*filter(None, [simulated, stopped_text(self.result.decision)])]


def run_view(page: RunPage) -> views.View:
    """Return the view of a run's whole page."""
    end = end_of(page.gates, page.options.undecided) if page.gates else None
    title = views.Words(clean(page.name), "" if end is None else _VERDICTS[end][1], foreign=True)

    return views.View(title, [*_parts(page)], [clean(note) for note in page.notes], [*_checks(page)])


def short_view(page: RunPage) -> views.View:
    """Return the page that a command prints without `--details`: three sentences, tables, and a line of facts."""
    screen, hidden = page.screen, len(page.notes) - _MOST_NOTES
    gates = [_gates(page.gates)] if page.gates else []
    foot = _foot(page, f"{plural(hidden, 'more note')}: --details" if hidden > 0 else "")

    notes = [clean(note, 300) for note in page.notes[:_MOST_NOTES]]
    return views.View(page.name, [_head(page, screen), screen.table, *_group_tables(page), *gates, foot], notes)


def _head(page: RunPage, screen: results.FirstScreen) -> views.Text:
    """Return the three sentences of a run's first screen, after the verdict on its gates if it has any."""
    passed, *others = screen.sentences
    verdict = views.Words(*_verdict(page), foreign=True) if page.gates else ""
    return views.Text([(verdict, ". " if page.gates else "", views.Words(passed, "strong")), *others])


def _foot(page: RunPage, remark: str = "") -> views.Text:
    """Return the last line of a run's page: folder, data, rows, source, reuse, costs, and the `remark`, if any."""
    costs = {name: cost_text(usage) for name, usage in page.result.usage.items() if isinstance(usage, dict)}
    spent = [f"cost of {name} {cost}" for name, cost in costs.items() if cost]
    facts = filter(None, [page.folder, page.data, page.rows_text, page.source, page.reused, *spent, remark])
    return views.Text([views.Words(" · ".join(clean(fact, 300) for fact in facts), "dim", foreign=True)])


def _verdict(page: RunPage) -> tuple[str, views.Style]:
    """Return the common end of a run's gates as text with its style; the text names the first gate that is not met.

    For example `gate NOT met: required match >= 80%, found 67.4% (and 1 more gate)`.
    """
    end = end_of(page.gates, page.options.undecided)
    verdict, style = _VERDICTS[end]

    unmet = [gate for gate in page.gates if not gate.met]
    # If the run ends "not met", a gate that is not met is named before an undecided one.
    unmet = [gate for gate in unmet if gate.end == end] or unmet

    if not unmet:
        return verdict, style

    # Then all gates in `unmet` are undecided.
    if end == "met":
        verdict, style = f"{_VERDICTS['undecided'][0]}, accepted (--undecided pass)", "warn"

    more = f" (and {plural(len(unmet) - 1, 'more gate')})" if len(unmet) > 1 else ""
    return f"{verdict}: required {clean(unmet[0].required_text, 100)}, found {unmet[0].found_text}{more}", style


def side_by_side(pages: Sequence[RunPage]) -> views.View:
    """Return the page of several runs, each with the name of its endpoint.

    It has three sentences and a table of all runs, then the gates and the folders.
    """
    names, screens = [page.options.endpoint_name for page in pages], [page.screen for page in pages]
    by_label = _cells_by_label(pages, screens)
    primary = next(iter(by_label), "")
    cells = by_label.get(primary, [""] * len(pages))
    passed = [_passed_text(name, page, cell) for name, page, cell in zip(names, pages, cells, strict=True)]

    failed = [sum(group.rows for group in page.failures.causes.values()) for page in pages]
    # The next step is about a run with wrong serving; without any, about the run with the most failed rows.
    worst = max(range(len(pages)), key=lambda index: (screens[index].is_serving, failed[index]))

    simulated = f"{views.SIMULATED}. " if any(page.result.simulated for page in pages) else ""
    aim, command = ("compare the two runs", "compare") if len(pages) == 2 else ("choose one of these runs", "select")
    words = ["tunecheck", command, *(page.name for page in pages)]

    _, cause, next_step = screens[worst].sentences
    sentences = [
        f"{simulated}{primary} passed: {'; '.join(passed)}.",
        f"{clean(names[worst], 60)}: {cause}",
        next_step if screens[worst].is_serving else f"Next, {aim}:  {command_line(words)}",
    ]

    named_pages = list(zip(names, pages, strict=True))
    gates = [_gates(page.gates, f"{clean(name, 60)}: ") for name, page in named_pages if page.gates]
    folders = views.Text([views.Words(clean(page.folder, 300), "dim", foreign=True) for page in pages])

    # With more than two runs, each cell keeps only its last part, such as the rate after a count, so that all runs fit.
    rows: list[list[views.Sentence]] = []
    for label, row in by_label.items():
        rows.append([label, *(row if len(names) <= 2 else [[*views.words_of(cell)][-1] for cell in row])])

    table = views.Table(["", *(clean(name, 30) for name in names)], rows)
    notes = [clean(f"{name}: {note}", 300) for name, page in named_pages for note in page.notes[:_MOST_NOTES]]
    return views.View(primary, [views.Text(sentences), table, *gates, folders], notes)


def _cells_by_label(
    pages: Sequence[RunPage], screens: Sequence[results.FirstScreen]
) -> dict[str, list[views.Sentence]]:
    """Return the rows of the first screens' tables: the cells of all runs by label.

    For example `{"match": ["31 of 46  67.4%", "40 of 46  87.0%"], "  refused": ["2", "0"]}`. A first screen shows only
    frequent causes. A cause that is frequent in one run is counted in the others, too. A run without any known cause of
    failure gets 0.
    """
    tables = [{views.text_of(row[0]): row[1] for row in screen.table.rows} for screen in screens]
    by_label: dict[str, list[views.Sentence]] = {label: [] for table in tables for label in table}

    for page, table in zip(pages, tables, strict=True):
        counts = {f"  {clean(group.title, 60)}": group.rows for group in page.failures.causes.values()}
        for label, cells in by_label.items():
            cells.append(table.get(label, f"{counts.get(label, 0):,}"))

    return by_label


def _passed_text(name: str, page: RunPage, cell: views.Sentence) -> str:
    """Return an endpoint's name, its count and rate of passed rows, its rows with an error, and the end of its gates.

    The count and the rate are the words of the table's cell, "58 of 80" and "72.5%". For example
    `iteration-7 58 of 80 (72.5%), 2 rows with an error, gate NOT met`, with the unmet gate's requirement after it.
    """
    count, *rates = [words.text.strip() for words in views.words_of(cell)]
    errors = page.result.failed_row_count
    failed = f", {plural(errors, results.unit_of(page.result.metrics))} with an error" if errors else ""
    end = f", {_verdict(page)[0]}" if page.gates else ""
    return f"{clean(name, 60)} {count}{''.join(f' ({rate})' for rate in rates)}{failed}{end}"


def intervals_of(run: Path) -> dict[str, str]:
    """Return the 95% interval of each evaluator's main figure, its pass rate or else its mean, as text.

    For example `{"match": "53.0% to 79.1%"}`. An evaluator without an interval is left out.
    """
    from tunecheck.comparison._judged import rate_of
    from tunecheck.comparison._wording import value_text

    table, intervals = results.read_run(run, run.parent), {}
    for name, evaluator in table.evaluators.items():
        interval = rate_of(table, evaluator.main)
        if interval is not None and interval.low is not None:
            kind: results.Kind = "binary" if evaluator.main == f"{name}.{PASS_RATE}" else "score"
            ends = (value_text(kind, end) for end in (interval.low, interval.high))
            intervals[name] = " to ".join(ends)
    return intervals


def _parts(page: RunPage) -> Iterator[views.Part]:
    """Yield the parts of a run's whole page, from its three sentences to its folder."""
    yield _head(page, page.screen)
    yield _main_table(page)
    yield from _group_tables(page)

    failed = failures_table(page.failures, page.result.row_count)
    if failed is not None:
        yield failed

    if page.result.usage:
        yield usage_table(page.result.usage)
    if page.gates:
        yield _gates(page.gates)

    yield _foot(page)


def _main_table(page: RunPage) -> views.Table:
    """Return the table of evaluators' figures: over all rows, and by kind of row if there are several.

    If the page has intervals, a column shows them next to the main figures.
    """
    kinds = dict(sorted(page.result.by_group.get("row_kind", {}).items(), reverse=True))  # calls before answers
    if len(kinds) == 1:  # a single kind's column would equal the column of all rows
        kinds = {}

    heads = [f"all {page.rows_text}"]
    heads += [f"{clean(kind, 40)} ({results.number_text(metrics.get('row_count'))})" for kind, metrics in kinds.items()]

    rows: list[list[views.Sentence]] = []
    for name, evaluator in page.evaluators.items():
        judge = page.judges.get(name)
        main, *others = lines_of(name, evaluator, [page.result.metrics, *kinds.values()])
        if judge is not None:
            main[0] = views.Words(f"{views.text_of(main[0])}, {judge.raw_label}", "strong", foreign=True)
            if judge.corrected is not None:
                others.insert(0, _line(judge.corrected_label, [corrected_text(judge.corrected)], "dim"))

        # The interval stands between the figure of all rows and those of the kinds.
        if page.intervals:
            for line in (main, *others):
                line.insert(2, page.intervals.get(name, "–") if line is main else "")
        rows += [main, *others]
    if page.intervals:
        heads.insert(1, "95% interval")
    return views.Table(["", *heads], rows)


def corrected_text(rate: Estimate) -> str:
    """Return a rate with its interval, such as `81.2% (74.1% to 87.9%)`."""
    if rate.value is None or rate.low is None or rate.high is None:
        return "–"
    return f"{rate.value:.1%} ({rate.low:.1%} to {rate.high:.1%})"


def _group_tables(page: RunPage) -> Iterator[views.Table]:
    """Yield a table of the main figures for each grouping column, by value; the most frequent value first."""
    by_column = {column: values for column, values in page.result.by_group.items() if column != "row_kind"}
    for column, values in by_column.items():
        counts = {value: whole_number(metrics.get("row_count")) or 0 for value, metrics in values.items()}
        ordered = sorted(values.items(), key=lambda item: -counts[item[0]])

        rows: list[list[views.Cell]] = []
        for value, metrics in ordered[:_MOST_GROUPS]:
            figures = (results.main_figure_of(name, evaluator, metrics) for name, evaluator in page.evaluators.items())
            cells = (figure.count_text(metrics, counts[value]) + figure.text for figure in figures)
            row_count = results.number_text(metrics.get("row_count"))
            rows.append([views.Words(clean(value, 30), foreign=True), row_count, *cells])

        hidden = len(ordered) - len(rows)
        below = f"and {hidden:,} more values of {clean(column, 30)}: see metrics.json" if hidden else ""
        heads = [clean(column, 30), "rows", *(clean(name, 30) for name in page.evaluators)]
        yield views.Table(heads, rows, below=below)


def _gates(outcomes: Sequence[GateOutcome], run: str = "") -> views.Table:
    """Return a table of gates: the verdict, then what was required and what was found.

    `run` is a text before each verdict, such as the run's name with a colon.
    """
    rows = []
    for outcome in outcomes:
        remark = f" ({clean(outcome.remark, 2_000)})" if outcome.remark else ""
        required = views.Words(clean(outcome.required_text, 100), foreign=True)
        verdict, style = _VERDICTS[outcome.end]
        found = f", found {outcome.found_text}{remark}"  # in one cell: a column of its own would be narrow and long
        rows.append((views.Words(run + verdict, style), ("required ", required, found)))

    return views.Table(("", ""), rows, "ll")


_HEADS: Mapping[Side, str] = {
    "serving": "failed because of how the model is served",
    "unknown": "failed because of serving or the model",
    "model": "failed because of the model",
}


def failures_table(failures: Failures, rows: int) -> views.Table | None:
    """Return a table of why rows failed: causes, serving problems first, then evaluators' reasons and errors.

    A row counts under its cause, or without a cause under its evaluators' first reason. None if no row failed. A line
    has the rows, their share, the title and an example. The advice stands below; causes with equal advice show it once:

                  failed because of the model
        1   5.0%    refused  e.g. calendar-3-1
                      try: check the system prompt; train with fewer refusals
    """
    cells: list[Sequence[views.Sentence]] = []
    target_errors = failures.target_errors

    advised: set[str] = set()
    for side, head in _HEADS.items():
        codes = [code for code in order_causes(failures.causes) if cause_named(code).side == side]
        cells += [("", "", views.Words(head, "strong"))] if codes else []

        for code in sorted(codes, key=lambda code: -failures.causes[code].rows):
            cause, group = cause_named(code), failures.causes[code]
            title = views.Words(f"  {clean(cause.title, 100)}  ")
            cells.append(_failure_line(title, group, rows, target_errors.get(group.example, "")))

            if cause.advice not in advised:
                cells.append(("", "", views.Words(f"    try: {cause.advice}", "dim")))
                advised.add(cause.advice)

    cells += _other_failures("failed for a reason that an evaluator gives", [*failures.reasons.values()], rows)
    # Causes already explain the target's errors.
    errors = [
        FailureGroup(f"{stage}: {group.words}", group.rows, group.example, "")
        for stage, groups in failures.errors.items()
        if stage != "target" or not failures.causes
        for group in groups.values()
    ]

    cells += _other_failures("errors", errors, rows)
    return views.Table(("", "", ""), cells, "rrl") if cells else None


def _other_failures(head: str, groups: Sequence[FailureGroup], rows: int) -> Iterator[Sequence[views.Sentence]]:
    """Yield a heading and lines for the most common of these groups of failures; nothing without groups."""
    if groups:
        yield "", "", views.Words(head, "strong")

    for group in sorted(groups, key=lambda group: -group.rows)[:_MOST_REASONS]:
        yield _failure_line(views.Words(f"  {clean(group.title, 200)}  ", foreign=True), group, rows)

    if len(groups) > _MOST_REASONS:
        yield "", "", views.Words(f"  and {len(groups) - _MOST_REASONS:,} more", "dim")


def _failure_line(title: views.Words, group: FailureGroup, rows: int, error: str = "") -> Sequence[views.Sentence]:
    """Return a line of the table of failures: rows, their share of all `rows`, title and example."""
    words = [title, views.Words("e.g. ", "dim"), views.Words(clean(group.example, 60), "dim", foreign=True)]
    if error:
        words.append(views.Words(f" {clean(error, 200)}", "dim", foreign=True))
    return f"{group.rows:,}", f"{group.rows / rows:.1%}", tuple(words)


def usage_table(usage: Mapping[str, JSON]) -> views.Table:
    """Return a table of calls, tokens and cost of the target and of each evaluator that calls a model."""
    rows: list[Sequence[views.Sentence]] = []
    for name, spent in usage.items():
        if isinstance(spent, dict):
            counts = (spent.get(key) for key in ("calls", "input_tokens", "output_tokens"))
            price = cost_text(spent, ",.4f") or "no price"
            rows.append((views.Words(clean(name, 60), foreign=True), *(f"{count:,}" for count in counts), price))

    return views.Table(("spent", "calls", "tokens in", "tokens out", "cost"), rows)


# -- JUnit


def _checks(page: RunPage) -> Iterator[views.Check]:
    """Yield a check for each gate. An undecided gate is an error, or skipped if it counts as passed.

    Without gates, yield one check for the error rate, which fails if every row has an error. The text of each check
    begins with the page's notices.
    """
    for outcome in page.gates:
        problem: views.CheckEnd | None = None if outcome.met else "failure"
        if outcome.undecided:
            problem = "skipped" if page.options.undecided == "pass" else "error"

        yield views.Check("tunecheck.gates", outcome.gate, "; ".join([*page.notices, outcome.told]), problem)

    if not page.gates:
        problem = "failure" if 0 < page.result.row_count == page.result.failed_row_count else None
        text = f"{page.result.failed_row_count:,} of {page.rows_text} with an error"
        yield views.Check("tunecheck.errors", "error rate", "; ".join([*page.notices, text]), problem)


# -- the main table


def lines_of(name: str, evaluator: EvaluatorEntry, groups: Sequence[Metrics]) -> Iterator[list[views.Sentence]]:
    """Yield an evaluator's lines: a label, and a cell for each item of `groups`.

    `groups` has the metrics of all rows, followed by those of each group.
    """
    main, *others = _shown_metrics(name, evaluator, groups[0])
    # Another main figure is named, such as `rouge f1`.
    label = name if main in (PASS_RATE, evaluator.primary, name) else f"{name} {main}"
    yield _line(label, [_figure(name, main, evaluator, metrics) for metrics in groups], "strong")

    for key in others:
        words = key.replace("pass_at_", "pass@").replace("pass_hat_", "pass^").replace("_", " ")
        label = "mean" if key in (evaluator.primary, name) else words
        yield _line(label, [_figure(name, key, evaluator, metrics) for metrics in groups], "dim")

    for key, (label, style) in _ROW_COUNTS.items():
        if groups[0].get(f"{name}.{key}"):
            yield _line(label, [results.number_text(metrics.get(f"{name}.{key}")) for metrics in groups], style)


def _line(label: str, cells: Iterable[str], style: views.Style) -> list[views.Sentence]:
    """Return a line of the main table: of an evaluator if it is `strong`, else indented and with styled cells."""
    is_main = style == "strong"
    words = views.Words(f"{'' if is_main else '  '}{clean(label, 60)}", style, foreign=is_main)
    return [words, *(views.Words(cell, "" if is_main else style) for cell in cells)]


def _shown_metrics(name: str, evaluator: EvaluatorEntry, metrics: Metrics) -> list[str]:
    """Return the keys of an evaluator's metrics that get a line, the main figure first.

    These are the pass rate, means of graded metrics, and the evaluator's own sums; without any metric, only the pass
    rate. For example, the keys `match`, `binary_aggregate`, `call_recall`, `scored_count` and `refused_count` of an
    evaluator with a binary metric `match` give `binary_aggregate`, `call_recall`, and `refused_count` if it is not 0.
    """
    keys = [key.removeprefix(f"{name}.") for key in metrics if key.startswith(f"{name}.")]

    # Means come before `scored_count`, and sums after it.
    first_count = keys.index("scored_count") if "scored_count" in keys else len(keys)
    main = [key for key in (PASS_RATE, evaluator.primary, name) if key in keys][:1]  # a list of at most one key
    repeated = {f"{key}{ending}" for key in keys for ending in REPEATED}
    if main == [PASS_RATE] and _is_binary(evaluator, evaluator.primary):
        repeated.add(str(evaluator.primary))  # the mean of a binary metric equals its pass rate

    # The keys `f1_score` and `f1_passed` only repeat `f1`.
    means = [key for key in keys[:first_count] if key != PASS_RATE and key not in repeated]

    sums = []
    for key in keys[first_count:]:
        counts_rows = key in ("scored_count", "not_applicable_count", "error_count")
        no_problem = key.endswith(("_rate", "_count")) and not metrics[f"{name}.{key}"]
        if "." not in key and not counts_rows and not no_problem:
            sums.append(key)

    return list(dict.fromkeys([*main, *means, *sums])) or [PASS_RATE]


def _figure(name: str, key: str, evaluator: EvaluatorEntry, metrics: Metrics) -> str:
    """Return an evaluator's figure `key` over these metrics as text: a pass rate, percentage or number."""
    value = metrics.get(f"{name}.{key}")
    if key == PASS_RATE:
        return _share(value, metrics.get(f"{name}.scored_count"))
    if (_is_binary(evaluator, key) or key.endswith("_rate")) and isinstance(value, float):
        return f"{value:.1%}"
    return results.number_text(value)


def _share(rate: JSON, rows: JSON) -> str:
    """Return a pass rate, such as `85 of 102 (83.3%)`; `–` for a value that is no rate.

    If no whole number of the rows gives exactly this rate, some of them have no result: return only the percentage.
    """
    if not isinstance(rate, (int, float)) or not 0 <= rate <= 1:
        return "–"

    if isinstance(rows, int) and rows and round(rate * rows) / rows == rate:
        return f"{round(rate * rows):,} of {rows:,} ({rate:.1%})"
    return f"{rate:.1%}"


def _is_binary(evaluator: EvaluatorEntry, key: str | None) -> bool:
    """Return True if the evaluator declares this metric as pass or fail; False for a `key` of None."""
    metric = evaluator.metric(key)
    return metric is not None and metric.kind == "binary"
