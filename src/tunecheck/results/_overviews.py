"""Overviews of runs: the first screen of a finished run (three paragraphs and a table), and a line in a list of runs.

The terminal and the report show both. A first screen, shortened:

    function_call_match: 142 of 150 rows passed (94.7%).
    Main cause of failures: a number in another unit, 5 of 21 rows with a known cause, e.g. banking-6-1. Name the unit …
    Next, look at every row:  tunecheck report val-20260101T120000Z-0a1b2c

                                all 150 rows  call (84)  answer (66)
    function_call_match      142 of 150  94.7%      91.7%        98.5%
    rows with a known cause                 21         20            1
      a number in another unit               5          5            0

**The second paragraph** is about the most frequent cause of failures. If causes are equally frequent, those of
the model come last. An evaluator's own reason or an error takes its place if it explains more rows.

**The next step** (`_next_step`) is the first of these that applies:

| condition | command |
|---|---|
| an endpoint answered, and the main cause is one of serving, or no row that needs a call has one | `check ENDPOINT` |
| all errors are about a missing column, or the same number of rows failed again after `--resume` | `report` |
| rows of a `score` lack the answers of the scored run | `evaluate --resume SCORED` |
| other rows ended in an error | `evaluate --resume RUN` |
| the answers are simulated | `evaluate --endpoint NAME` |
| the run has a gate against a base | `compare BASE RUN` |
| an earlier run is comparable (`_earlier_run`) | `compare EARLIER RUN` |
| none of these | `report RUN` |
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice, takewhile

import msgspec
from msgspec.structs import replace

from tunecheck._disk import open_regular
from tunecheck._errors import ConfigurationError
from tunecheck._faults import CAUSE_METRIC, cause_named, order_causes
from tunecheck._files import EvaluatorEntry, NewerFileError, RunFile
from tunecheck._json import JSON, object_or_empty, real_number
from tunecheck._messages import clean, command_line, plural
from tunecheck.pipeline._finished_rows import PASS_RATE, FailureGroup, Failures, order_evaluators, read_failures
from tunecheck.pipeline._scoring import ColumnMissingError
from tunecheck.runs._store import Run, began_here, command_of, endpoint_of, is_uncalibrated, list_runs, stopped_text
from tunecheck.views import SIMULATED, Sentence, Table, Words

_MOST_EVALUATORS, _MOST_CAUSES, _MOST_EARLIER_RUNS = 7, 4, 20
"""The most evaluators and causes in the table, and the most earlier runs that are read to find a comparable one."""

_OWN_ERROR = re.compile(r"\A\w+: (?=endpoint ')")
"""Matches the type of an error whose text says all, such as `EndpointError: ` in `EndpointError: endpoint 'a': …`."""

Metrics = Mapping[str, JSON]
"""Metrics as in `metrics.json`, over all rows or one group: `{"match.binary_aggregate": 0.947, …}`."""


class MainFigure(msgspec.Struct, frozen=True):
    """An evaluator's pass rate, else its main mean; `value` is None if it has neither.

    `low` and `high` are the 95% interval of a rate, if it was computed.
    """

    evaluator: str
    is_rate: bool
    value: float | None
    low: float | None = None
    high: float | None = None
    is_uncalibrated: bool = False

    @property
    def text(self) -> str:
        """The figure as text, such as `86.7%` or `0.833`."""
        return f"{self.value:.1%}" if self.is_rate and self.value is not None else number_text(self.value)

    def count_text(self, metrics: Metrics, row_count: int | None = None) -> str:
        """Return the count that stands before a rate, such as `31 of 46  `; `metrics` are those of the figure.

        Return "" if the figure is no rate, or if exactly `row_count` rows were scored.
        """
        scored = _count(metrics.get(f"{self.evaluator}.scored_count"))
        if self.value is None or not self.is_rate or scored == row_count:
            return ""
        return f"{round(self.value * scored):,} of {scored:,}  "


MainFigures = Mapping[str, Sequence[MainFigure]]
"""Main figures by evaluator: of all rows, then of each kind of row if the table shows the kinds."""


class _Column(msgspec.Struct, frozen=True):
    """A column of the table: its head, and the metrics and the number of the rows that it is about."""

    head: str
    metrics: Metrics
    row_count: int

    def failed_rows(self, cause: str) -> int:
        """Return the number of rows that failed for this cause; the metrics have the share of these rows."""
        return round((real_number(self.metrics.get(f"{CAUSE_METRIC}{cause}")) or 0) * self.row_count)


class FirstScreen(msgspec.Struct, frozen=True):
    """Sentences and a table of main figures.

    The sentences say how many rows passed, what mainly caused failures (with advice), and which command comes next.
    """

    sentences: tuple[str, str, str]
    table: Table
    is_serving: bool = False
    """True if the next step is to examine how the endpoint is served."""


def first_screen(run: Run, options: Sequence[str] | None = None, failures: Failures | None = None) -> FirstScreen:
    """Read the first screen of a finished run from its files.

    `options` locate the folder of runs in the next command, such as `--results-dir runs`; by default the run's `place`.
    `failures` are read from the rows if not given.

    Raises:
        ConfigurationError: the run has not finished, or one of its files cannot be read.
        DataError: a row is damaged.
    """
    manifest, summary = run.manifest(), run.metrics()
    if failures is None:
        failures = read_failures(run.rows(), {name: entry.primary for name, entry in manifest.evaluators.items()})

    columns = [*_columns(summary)]
    unit = unit_of(columns[0].metrics)
    figures: dict[str, list[MainFigure]] = {}
    # The primary evaluator comes first.
    for name in order_evaluators(manifest.evaluators, manifest.dataset.primary, _row_kinds(summary)):
        entry = manifest.evaluators[name]
        uncalibrated = is_uncalibrated(run.folder.parent, entry)
        figures[name] = [main_figure_of(name, entry, group.metrics, is_uncalibrated=uncalibrated) for group in columns]

    counts = failures.causes
    # The most frequent cause first. Equally frequent causes: those of the model last, else in the order of checking.
    causes = sorted(order_causes(counts), key=lambda code: (-counts[code].rows, cause_named(code).side == "model"))

    other = _other_reason(failures, causes, primary=next(iter(figures), ""))
    main_cause = causes[0] if causes and other is None else None
    shown = failures.causes[main_cause] if main_cause is not None else other

    # The paragraph on the main cause shows an error of its own example.
    error = next((group for group in failures.error_groups if shown is None or group.example != shown.example), None)

    is_serving = main_cause is not None and cause_named(main_cause).side == "serving"
    need_calls = object_or_empty(_row_kinds(summary).get("call")).get("row_count")
    # If no row has a call, the tools or the calls may be lost on the way.
    is_without_calls = main_cause == "answered_instead_of_calling" and counts[main_cause].rows == need_calls

    serving = endpoint_of(manifest) if is_serving or is_without_calls else None
    purpose, command = _next_step(run, summary, failures, serving, run.place if options is None else options)

    passed = " ".join(_passed_sentences(manifest, summary, failures, figures, error))
    cause = _cause_sentences(failures, main_cause, unit) if other is None else _reason_sentence(other, unit)
    sentences = passed, cause, f"Next, {purpose}:  {command}"
    return FirstScreen(sentences, _table(figures, causes, columns), is_serving=bool(serving))


def _columns(summary: Metrics) -> Iterator[_Column]:
    """Yield the columns of the table: all rows, and each kind of row if there are several kinds.

    Their heads are, for example, `all 150 rows`, `call (84)` and `answer (66)`.
    """
    total, overall = _count(summary.get("rows")), object_or_empty(summary.get("metrics"))
    yield _Column(f"all {plural(total, unit_of(overall))}", overall, total)

    kinds = _row_kinds(summary)
    if len(kinds) > 1:
        for kind in sorted(kinds, reverse=True):  # calls before answers
            metrics = object_or_empty(kinds[kind])
            row_count = _count(metrics.get("row_count"))
            yield _Column(f"{clean(kind, 20)} ({row_count:,})", metrics, row_count)


def _row_kinds(summary: Metrics) -> Mapping[str, JSON]:
    """Return the metrics of each kind of row: `call`, `answer`; empty if no row has a ground truth."""
    return object_or_empty(object_or_empty(summary.get("by")).get("row_kind"))


# -- how many rows passed


def _passed_sentences(
    manifest: RunFile, summary: Metrics, failures: Failures, figures: MainFigures, error: FailureGroup | None
) -> Iterator[str]:
    """Yield the first paragraph: whether the run is complete and its answers are real, and how many rows passed.

    For example `STOPPED EARLY: …`, `SIMULATED answers …`, `match: 31 of 46 rows passed (67.4%).`, and `2 rows ended in
    an error, e.g. row-7 (HTTP 401: wrong key).`

    `error` is shown as an example of the rows that ended in an error.
    """
    metrics = object_or_empty(summary.get("metrics"))
    unit = unit_of(metrics)

    if manifest.stopped is not None:
        yield f"{stopped_text(manifest.stopped)}."
    if summary.get("simulated") is True:
        is_mixed = 0 < failures.simulated_answers < _count(summary.get("rows"))
        yield f"SIMULATED answers in {plural(failures.simulated_answers, unit)}." if is_mixed else f"{SIMULATED}."

    # Each evaluator's first figure covers all rows, each later one a group.
    for name in _shown_evaluators(figures, metrics):
        yield _passed_sentence(figures[name][0], metrics, by_judge=manifest.evaluators[name].judge is not None)

    if failed := _count(summary.get("failed_rows")):
        example = f", e.g. {clean(error.example, 60)} ({clean(error.words, 200)})" if error is not None else ""
        # Without an error of the target, the evaluators with an error are named.
        owners = "" if "target" in failures.errors else f" of {clean(', '.join(failures.errors), 100)}"
        yield f"{plural(failed, unit)} ended in an error{owners}{example}."


def _shown_evaluators(figures: MainFigures, metrics: Metrics) -> Sequence[str]:
    """Return the primary evaluator, and up to two others that say more about the rows.

    Another evaluator is shown if it scored rows, but at most as many as are not applicable to the primary one. If there
    is none and all rows passed the primary one, the evaluator with the lowest pass rate below 100% is shown. Without
    evaluators, the list is empty.
    """
    primary, *others = [*figures] or [""]
    not_applicable = _count(metrics.get(f"{primary}.not_applicable_count"))
    rates = {name: figures[name][0].value or 0.0 for name in figures if figures[name][0].is_rate}

    covering = [name for name in others if 0 < _count(metrics.get(f"{name}.scored_count")) <= not_applicable]
    if rates.get(primary) == 1 and not covering:
        covering = sorted((name for name in others if rates.get(name, 1) < 1), key=rates.__getitem__)[:1]

    return [primary, *covering[:2]] if figures else []


def unit_of(metrics: Metrics) -> str:
    """Return the unit of counts over these metrics: `answer` if rows were repeated, else `row`."""
    return "answer" if any(key.endswith(".pass_at_1") for key in metrics) else "row"


def _passed_sentence(figure: MainFigure, metrics: Metrics, *, by_judge: bool) -> str:
    """Return the sentence on one evaluator: how many rows passed, else its mean; or that it scored no row.

    `by_judge`: the verdicts are a model's, and the sentence says so.

    For example `rouge: 9 of 9 rows passed (100.0%); not applicable to 11 rows.`
    """
    name = figure.evaluator
    if figure.value is None:
        return f"{clean(name, 60)} scored no row."

    unit = unit_of(metrics)
    scored = _count(metrics.get(f"{name}.scored_count"))
    not_applicable = _count(metrics.get(f"{name}.not_applicable_count"))

    result = f"mean {figure.text} over {plural(scored, unit)}"
    if figure.is_rate:
        result = f"{round(figure.value * scored):,} of {plural(scored, unit)} passed ({figure.value:.1%})"

    if figure.is_uncalibrated:
        result += ", by an uncalibrated judge"
    elif by_judge:
        result += ", as judged"

    if not_applicable:
        result += f"; not applicable to {plural(not_applicable, unit)}"
    return f"{clean(name, 60)}: {result}."


# -- the main cause of failures


def _other_reason(failures: Failures, causes: Sequence[str], primary: str) -> FailureGroup | None:
    """Return an evaluator's own reason or an error if it explains more rows than the first of these causes.

    Scores of the primary evaluator below its threshold count as a reason; those of others only if nothing else failed.
    Return None if a cause explains the most rows, or no row failed.
    """
    reasons = [*failures.reasons.values()]
    for stage, errors in failures.errors.items():
        reasons += [msgspec.structs.replace(error, title=f"{stage}: {error.words}") for error in errors.values()]

    if primary in failures.below_threshold:
        reasons.append(failures.below_threshold[primary])
    elif not reasons and not causes:
        reasons += failures.below_threshold.values()

    most_rows = failures.causes[causes[0]].rows if causes else 0
    return max((reason for reason in reasons if reason.rows > most_rows), key=lambda reason: reason.rows, default=None)


def _reason_sentence(reason: FailureGroup, unit: str) -> str:
    """Return the sentence on a reason that is not a known cause, with its rows and an example."""
    example = f"{plural(reason.rows, unit)}, e.g. {clean(reason.example, 60)}"
    return f"Main reason for failures: {clean(reason.title, 200).rstrip('.')} ({example})."


def _cause_sentences(failures: Failures, code: str | None, unit: str) -> str:
    """Return the sentences on a cause: its rows, an example with its error, and advice.

    If `code` is None, the sentence says that no row failed.
    """
    if code is None:
        return "No row failed."

    group, cause = failures.causes[code], cause_named(code)
    rows = plural(sum(each_group.rows for each_group in failures.causes.values()), unit)
    text = f"{clean(cause.title, 100)}, {group.rows:,} of {rows} with a known cause, e.g. {clean(group.example, 60)}"

    if cause.side == "serving":
        text += ", a problem of serving"
    target_error = failures.target_errors.get(group.example)
    # The text of an error of an endpoint says all, so the error's type is left out.
    if target_error is not None:
        text += f" ({clean(_OWN_ERROR.sub('', target_error), 200)})"

    end = "" if cause.advice.endswith("?") else "."
    return f"Main cause of failures: {text}. {cause.advice[:1].upper()}{cause.advice[1:]}{end}"


# -- the next step


def _next_step(
    run: Run, summary: Metrics, failures: Failures, serving: str | None, place: Sequence[str]
) -> tuple[str, str]:
    """Return the purpose and the command of the next step: that of the first case that applies.

    `serving` is the endpoint if its serving is, or may be, the main cause of failures. `place` are the options that
    locate the folder of runs.
    """
    manifest = run.manifest()
    options = manifest.command or {}

    if serving:
        return "find out how the endpoint is served", command_line(["tunecheck", "check", serving])

    if {error.error_type for error in failures.error_groups} == {ColumnMissingError.__name__}:  # a retry finds none
        purpose, words = "see which rows lack the column", ["report", run.id]
    # A finished run was resumed, and as many rows failed as before: another attempt is no use.
    elif run.fails_again:
        purpose, words = "look at the errors that came again (comparisons leave these rows out)", ["report", run.id]
    elif _count(summary.get("failed_rows")):
        # A run of `score` calls no endpoint: only the scored run can get the missing answers.
        scored, is_score = Run(run.folder.parent / (manifest.parent or "")), "run" in options
        # The parent is an id in the same folder, or a path. A path from another user's run must not get into a command.
        is_beside = scored.id == manifest.parent
        if is_score and failures.errors.keys() == {"target"} and (is_beside or began_here(manifest)):
            return "get the missing answers, then score again", scored.resuming(place if is_beside else None)
        return "run the rows with an error again", run.resuming(place)
    # Simulated answers say nothing about a model: the next run needs a real endpoint.
    elif summary.get("simulated") is True:
        command = (command_of(manifest.command) or "evaluate").split()
        data = manifest.dataset.path or manifest.dataset.name or "FILE"
        words = [*command, *(["--dataset", data] if command == ["evaluate"] else []), "--endpoint", "NAME"]
        purpose = "evaluate your own endpoint"
    elif base := options.get("no_worse_than") or options.get("better_than"):
        purpose, words = "compare with the gate's base", ["compare", str(base), run.id]
    # A run with recorded answers of another one may be older, by its answers, than the run before it.
    elif manifest.parent is None and (earlier := _earlier_run(run, manifest)) is not None:
        purpose, words = "compare with the previous run", ["compare", earlier.id, run.id]
    else:
        purpose, words = "look at every row", ["report", run.id]
    return purpose, command_line(["tunecheck", *words, *place])


def _earlier_run(run: Run, manifest: RunFile) -> Run | None:
    """Return the latest earlier run that this run can be compared with; None if there is none among the last 20.

    It has real answers on the same data, not only failed rows, and shares an evaluator with this run. All shared
    evaluators are equal.
    """
    before = [*takewhile(lambda listed: listed.id != run.id, list_runs(run.folder.parent))]
    for earlier in islice(reversed(before), _MOST_EARLIER_RUNS):
        with suppress(ConfigurationError):
            other = earlier.manifest()
            # Unknown hashes and fingerprints (None) are equal to nothing: the runs may be unrelated.
            has_same_data = other.dataset.sha256 == manifest.dataset.sha256 is not None
            mine, theirs = manifest.evaluators, other.evaluators
            shared = mine.keys() & theirs.keys()
            is_alike = all(mine[name].fingerprint == theirs[name].fingerprint is not None for name in shared)

            if has_same_data and not other.simulated and shared and is_alike:
                summary = earlier.metrics()
                if _count(summary.get("failed_rows")) < _count(summary.get("rows")):
                    return earlier
    return None


# -- the table


def _table(figures: MainFigures, causes: Sequence[str], columns: Sequence[_Column]) -> Table:
    """Return the table of main figures and causes of failures; a line below it counts what it omits."""
    table_rows = [*_evaluator_rows(figures, columns), *_cause_rows(causes, columns)]
    omitted = {"more evaluator": len(figures) - _MOST_EVALUATORS, "more cause": len(causes) - _MOST_CAUSES}
    more = " and ".join(plural(count, name) for name, count in omitted.items() if count > 0)
    below = Words(f"{more}: --details", "dim") if more else ""
    return Table(["", *(column.head for column in columns)], table_rows, below=below)


def _evaluator_rows(figures: MainFigures, columns: Sequence[_Column]) -> Iterator[list[Sentence]]:
    """Yield the table row of each evaluator. In the cell of all rows, a rate follows its count: `31 of 46  67.4%`.

    The cell of one kind of row has a count only if some rows of this kind were not scored.
    """
    for name, own_figures in islice(figures.items(), _MOST_EVALUATORS):
        overall = own_figures[0]
        label = clean(name, 60)
        if overall.is_uncalibrated:
            label += ", uncalibrated"

        count = overall.count_text(columns[0].metrics)
        first: Sentence = (count, overall.text) if count else overall.text

        pairs = zip(own_figures[1:], columns[1:], strict=True)
        others = (figure.count_text(column.metrics, column.row_count) + figure.text for figure, column in pairs)
        yield [Words(label, "strong", foreign=True), first, *others]


def _cause_rows(causes: Sequence[str], columns: Sequence[_Column]) -> Iterator[list[Sentence]]:
    """Yield the table row of all rows with a known cause, then those of the most frequent causes."""
    if causes:
        counts = (f"{sum(map(column.failed_rows, causes)):,}" for column in columns)
        yield [f"{unit_of(columns[0].metrics)}s with a known cause", *counts]
    for cause in causes[:_MOST_CAUSES]:
        title = f"  {clean(cause_named(cause).title, 60)}"
        yield [Words(title, "dim"), *(Words(f"{column.failed_rows(cause):,}", "dim") for column in columns)]


def _count(value: JSON) -> int:
    """Return a count from a file; 0 if it is missing."""
    return value if isinstance(value, int) else 0


# -- main figures


def number_text(value: JSON) -> str:
    """Return a number as text with few digits, a bool as `true` or `false`; `–` for anything else.

    | number | text | number | text |
    |---|---|---|---|
    | `0.8333` | `0.833` | `1234` | `1,234` |
    | `1234.56` | `1,234.6` | `10**15` | `1e+15` |
    | `2.5e9` | `2.5e+09` | `10**300` | `huge`, because no float holds much larger numbers |
    """
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (int, float)):
        return "–"

    size = abs(value)
    if isinstance(value, float) and size < 1e9:
        return f"{value:.3f}" if size < 100 else f"{value:,.1f}"
    if isinstance(value, int) and size < 10**15:
        return f"{value:,}"
    return f"{float(value):.3g}" if isinstance(value, float) or size < 10**300 else "huge"


def main_figure_of(name: str, entry: EvaluatorEntry, metrics: Metrics, *, is_uncalibrated: bool = False) -> MainFigure:
    """Return an evaluator's pass rate, else its main mean, from a run's or group's metrics."""
    rate = metrics.get(f"{name}.{PASS_RATE}")
    means = (metrics.get(f"{name}.{key}") for key in _main_keys(name, entry, metrics))
    value = next((figure for figure in (rate, *means) if isinstance(figure, (int, float))), None)
    return MainFigure(name, isinstance(rate, (int, float)), value, is_uncalibrated=is_uncalibrated)


def _main_keys(name: str, entry: EvaluatorEntry, metrics: Metrics) -> Iterator[str]:
    """Yield the keys of an evaluator's metrics, the most important first."""
    yield from (key for key in (entry.primary, *(metric.name for metric in entry.metrics or ()), name) if key)
    own = (key.removeprefix(f"{name}.") for key in metrics if key.startswith(f"{name}."))
    # Means of the evaluator's results come first; `scored_count` and all keys after it are counts and aggregates.
    yield from takewhile(lambda key: key != "scored_count", own)


# -- a line in a list of runs


class RunLine(msgspec.Struct):
    """One line in a list of runs.

    A damaged run has a `problem`. `cost` has the amount by currency. `answered` counts the answers of a run in
    progress.
    """

    id: str
    status: str = "damaged"
    created: str | None = None
    simulated: bool = False
    parent: str | None = None
    stopped: str = ""
    data: str = ""
    answers: str = ""
    seconds: float | None = None
    is_finished: bool = False
    rows: JSON = None
    answered: int | None = None
    failed_rows: JSON = None
    cost: Mapping[str, float] | None = None
    figures: list[MainFigure] = []
    problem: str = ""


def describe_run(run: Run) -> RunLine:
    """Return a run's line for a list; for a damaged run, `problem` says why, and the rest is what could be read."""
    line = RunLine(run.id)
    try:
        manifest = run.manifest()
        line.status, line.created, line.simulated = run.status(), manifest.created, manifest.simulated
        line.parent, line.stopped, line.rows = manifest.parent, stopped_text(manifest.stopped), manifest.dataset.rows
        line.data, line.answers, line.seconds = data_of(manifest), answered_by(manifest), _seconds(manifest)

        if line.status == "running" and run.journal.exists():
            # The journal's records of answers begin with these bytes. Parsing all records would take longer.
            with open_regular(run.journal) as journal:
                line.answered = sum(record.startswith(b'{"k":"answer"') for record in journal)

        if run.results.exists() and run.metrics_file.exists():
            summary = run.metrics()
            metrics = object_or_empty(summary.get("metrics"))

            line.is_finished, line.rows, line.failed_rows = True, summary.get("rows"), summary.get("failed_rows")
            line.cost = _cost(summary.get("usage"))
            for name, entry in manifest.evaluators.items():
                figure = main_figure_of(name, entry, metrics, is_uncalibrated=is_uncalibrated(run.folder.parent, entry))
                line.figures.append(with_interval(figure, metrics))
    except (ConfigurationError, OSError) as error:
        line.status = "unreadable" if isinstance(error, NewerFileError) else line.status
        line.problem = str(error)
    return line


def with_interval(figure: MainFigure, metrics: Mapping[str, JSON]) -> MainFigure:
    """Return the figure with its rate's 95% interval; a mean, and a rate over repeated rows, get none.

    `metrics` are the run's. The trials of a row depend on each other, so Wilson's interval would be too narrow.
    """
    scored = metrics.get(f"{figure.evaluator}.scored_count")
    is_repeated = f"{figure.evaluator}.pass_at_1" in metrics
    rate = figure.value if figure.is_rate else None
    if rate is None or is_repeated or not isinstance(scored, int) or not 0 <= rate <= 1:
        return figure

    from tunecheck.statistics._results import wilson  # slow to import, and a run's first screen needs no interval

    share = wilson(round(rate * scored), scored)
    return replace(figure, low=share.low, high=share.high)


def data_of(manifest: RunFile) -> str:
    """Return the path or name of the run's data set as it was given, or "?"."""
    return manifest.dataset.path or manifest.dataset.name or "?"


def answered_by(manifest: RunFile) -> str:
    """Return the source of the answers: name, kind and model of the target, or `recorded in the data`.

    For example `my-endpoint · openai · gpt-4o`.
    """
    target = manifest.target
    if not target:
        return "recorded in the data"

    model = target.get("model") or target.get("deployment")
    kind = target.get("kind") or target.get("type")

    return " · ".join(str(part) for part in (target.get("name"), kind, model) if part)


def _seconds(manifest: RunFile) -> float | None:
    """Return the duration of the run, or of its last part if it was resumed; None if it has not ended."""
    try:
        began = datetime.fromisoformat(str(manifest.started or manifest.created))
        return (datetime.fromisoformat(str(manifest.ended)) - began).total_seconds()
    except (TypeError, ValueError):  # the run has not ended, or its times were edited by hand
        return None


def _cost(usage: JSON) -> Mapping[str, float] | None:
    """Return the cost of a run by currency; None if a price or token count is unknown, or nothing was paid for."""
    sums: defaultdict[str, float] = defaultdict(float)

    for spending in object_or_empty(usage).values():
        if isinstance(spending, dict):
            cost, currency = spending.get("cost"), spending.get("currency")
            if not isinstance(cost, (int, float)) or spending.get("uncounted_calls"):
                return None
            sums[str(currency or "")] += cost

    return sums or None
