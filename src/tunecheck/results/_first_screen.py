"""The first screen of a finished run, on a terminal and in the report: three paragraphs and one table."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from tunecheck._errors import ConfigurationError
from tunecheck._faults import CAUSE_METRIC, cause_named, order_causes
from tunecheck._files import EvaluatorEntry, RunFile
from tunecheck._json import JSON
from tunecheck._messages import clean, command_line, plural
from tunecheck.pipeline._finished_rows import PASS_RATE, FailureGroup, Failures, read_failures
from tunecheck.runs._store import Run, command_of, is_uncalibrated, list_runs, stopped_text
from tunecheck.views import SIMULATED, Sentence, Table, Words

_MOST_EVALUATORS, _MOST_CAUSES, _MOST_EARLIER_RUNS = 7, 4, 20

_KNOWN_CAUSE = " with a known cause"
"""Limits a count of failed rows if other rows failed without a cause."""

_OWN_ERROR = re.compile(r"\A\w+: (?=endpoint ')")
"""Matches the type of an error whose text says all."""

Metrics = Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class MainFigure:
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


@dataclass(frozen=True, slots=True)
class _Group:
    """A group of rows, which is a column of the table."""

    head: str
    metrics: Metrics
    rows: int


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """How many rows passed, the main cause of failures with advice, the next command, and a table of main figures."""

    passed: str
    cause: str
    next_step: str
    table: Table
    is_serving: bool = False
    """True if the next step is to examine how the endpoint is served."""

    @property
    def sentences(self) -> tuple[str, str, str]:
        return self.passed, self.cause, self.next_step


def first_screen(run: Run, where: Sequence[str] = (), failures: Failures | None = None) -> FirstScreen:
    """Read the first screen of a finished run from its files.

    `where` has the options that locate its folder, for the next command. `failures` are read from the rows if not
    given.
    """
    manifest, summary = run.manifest(), run.metrics()
    if failures is None:
        failures = read_failures(run.rows(), {name: entry.primary for name, entry in manifest.evaluators.items()})
    groups = _row_groups(summary)
    figures: dict[str, list[MainFigure]] = {}
    for name in order_evaluators(manifest.evaluators, manifest.dataset.primary, _row_kinds(summary) or None):
        entry = manifest.evaluators[name]
        uncalibrated = is_uncalibrated(run.folder.parent, entry)
        figures[name] = [main_figure_of(name, entry, group.metrics, is_uncalibrated=uncalibrated) for group in groups]
    counts = failures.causes
    causes = sorted(order_causes(counts), key=lambda code: (-counts[code].rows, cause_named(code).side == "model"))
    other = _other_reason(failures, causes)
    words, purpose, is_serving = _next_step(run, manifest, summary, () if other else causes)
    return FirstScreen(
        passed=" ".join(_passed_sentences(manifest, summary, failures, figures)),
        cause=_main_cause(failures, causes, other),
        next_step=f"Next, {purpose}:  {command_line([*words, *where])}",
        table=_table(figures, causes, groups, f"failed rows{_KNOWN_CAUSE if failures.reasons else ''}"),
        is_serving=is_serving,
    )


def _row_kinds(summary: Metrics) -> Mapping[str, JSON]:
    """Return the metrics of each kind of row: `call`, `answer`; empty if no row has a ground truth."""
    return _mapping(_mapping(summary.get("by")).get("row_kind"))


def _row_groups(summary: Metrics) -> list[_Group]:
    """Return the groups of rows that the table shows: all rows, and each kind of row if there are several kinds."""
    rows = _count(summary.get("rows"))
    groups = [_Group(f"all {plural(rows, 'row')}", _mapping(summary.get("metrics")), rows)]
    kinds = _row_kinds(summary)
    if len(kinds) > 1:
        for kind in sorted(kinds, reverse=True):  # calls before answers
            metrics = _mapping(kinds[kind])
            count = _count(metrics.get("row_count"))
            groups.append(_Group(f"{clean(kind, 20)} ({count:,})", metrics, count))
    return groups


def _passed_sentences(
    manifest: RunFile, summary: Metrics, failures: Failures, figures: Mapping[str, Sequence[MainFigure]]
) -> Iterator[str]:
    """Yield the first paragraph: whether the run is complete and its answers are real, and how many rows passed."""
    metrics, rows = _mapping(summary.get("metrics")), _count(summary.get("rows"))
    if manifest.stopped is not None:
        yield f"{stopped_text(manifest.stopped)}."
    if summary.get("simulated") is True:
        some = 0 < failures.simulated_answers < rows
        yield f"SIMULATED answers in {plural(failures.simulated_answers, 'row')}." if some else f"{SIMULATED}."
    for name in _shown_first(figures, metrics):
        by_judge = manifest.evaluators[name].judge is not None
        yield _passed_sentence(figures[name][0], metrics, by_judge=by_judge)
    if failed := _count(summary.get("failed_rows")):
        yield f"{plural(failed, 'row')} ended in an error."


def order_evaluators(names: Collection[str], declared: str | None, kinds: Container[str | None] | None) -> list[str]:
    """Return the evaluators, the primary one first: that of the declared metric, else `match`, else the first.

    `match` comes first only if the `kinds` of the run's rows include `call`, or are unknown (None).
    """
    evaluator = (declared or "").partition(".")[0]
    default = "match" if kinds is None or "call" in kinds else ""
    primary = next((name for name in (evaluator, default) if name in names), None)
    return sorted(names, key=lambda name: name != primary)


def _shown_first(names: Iterable[str], metrics: Metrics) -> list[str]:
    """Return the primary evaluator, and up to two others that cover rows to which the primary does not apply."""
    primary, *others = [*names] or [""]
    if not primary:
        return []
    left = _count(metrics.get(f"{primary}.not_applicable_count"))
    covering = [name for name in others if 0 < _count(metrics.get(f"{name}.scored_count")) <= left]
    return [primary, *covering[:2]]


def _passed_sentence(figure: MainFigure, metrics: Metrics, *, by_judge: bool) -> str:
    """Return the sentence on one evaluator: how many rows passed, or its mean; `by_judge` marks a model's verdicts."""
    name = figure.evaluator
    scored, left = (_count(metrics.get(f"{name}.{key}")) for key in ("scored_count", "not_applicable_count"))
    if figure.value is None:
        return f"{clean(name, 60)} scored no row."
    unit = "answer" if f"{name}.pass_at_1" in metrics else "row"
    result = f"mean {figure.text} over {plural(scored, unit)}"
    if figure.is_rate:
        result = f"{round(figure.value * scored):,} of {plural(scored, unit)} passed ({figure.value:.1%})"
    judge = ", by an uncalibrated judge" if figure.is_uncalibrated else ", as judged" * by_judge
    not_applicable = f"; not applicable to {plural(left, unit)}" if left else ""
    return f"{clean(name, 60)}: {result}{judge}{not_applicable}."


def _other_reason(failures: Failures, causes: Sequence[str]) -> FailureGroup | None:
    """Return an evaluator's own reason or an error if it explains more rows than the first of these causes.

    Without causes, reasons and errors, return the scores below a threshold, or None if no row failed.
    """
    groups = [*failures.reasons.values()]
    for stage, errors in failures.errors.items():
        groups += [replace(error, title=f"{stage}: {error.words}") for error in errors.values()]
    if not groups and not causes:  # a score below its threshold is neither a cause nor a reason
        for name, below in failures.faults.items():
            groups += [replace(fault, title=f"{name}: {fault.title}") for fault in below.values()]
    most_rows = failures.causes[causes[0]].rows if causes else 0
    return max((group for group in groups if group.rows > most_rows), key=lambda group: group.rows, default=None)


def _main_cause(failures: Failures, causes: Sequence[str], other: FailureGroup | None) -> str:
    """Return a sentence on the `other` reason if there is one, else on the most frequent cause, with its advice."""
    if other is not None:
        example = f"{plural(other.rows, 'row')}, e.g. {clean(other.example, 60)}"
        return f"Main reason of failures: {clean(other.title, 200).rstrip('.')} ({example})."
    if not causes:
        return "No row failed."
    first, cause = failures.causes[causes[0]], cause_named(causes[0])
    failed = sum(group.rows for group in failures.causes.values())
    target_errors = {group.example: group.words for group in failures.errors.get("target", {}).values()}
    error = ""
    if first.example in target_errors:
        error = f" ({clean(_OWN_ERROR.sub('', target_errors[first.example]), 200)})"
    side = ", a problem of serving" if cause.side == "serving" else ""
    known = f"{plural(failed, 'failed row')}{_KNOWN_CAUSE if failures.reasons else ''}"
    example = f"{first.rows:,} of {known}, e.g. {clean(first.example, 60)}{side}"
    end = "" if cause.advice.endswith("?") else "."
    advice = f"{cause.advice[:1].upper()}{cause.advice[1:]}{end}"
    return f"Main cause of failures: {clean(cause.title, 100)}, {example}{error}. {advice}"


def _next_step(run: Run, manifest: RunFile, summary: Metrics, causes: Sequence[str]) -> tuple[list[str], str, bool]:
    """Return the next command as words, its purpose, and True if it examines how the model is served."""
    endpoint = str((manifest.target or {}).get("name") or "")
    command = (command_of(manifest.command) or "evaluate").split()
    if endpoint and causes and cause_named(causes[0]).side == "serving":
        return ["tunecheck", "check", endpoint], "find out how the endpoint is served", True
    if _count(summary.get("failed_rows")):
        return ["tunecheck", *command, "--resume", run.id], "run the rows with an error again", False
    if summary.get("simulated") is True:
        data = manifest.dataset.path or manifest.dataset.name or "FILE"
        options = ["--dataset", data] if command == ["evaluate"] else []
        return ["tunecheck", *command, *options, "--endpoint", "NAME"], "evaluate your own endpoint", False
    options_of_run = manifest.command or {}
    base = options_of_run.get("no_worse_than") or options_of_run.get("better_than")
    if base:
        return ["tunecheck", "compare", str(base), run.id], "compare with the gate's base", False
    earlier = next(_earlier(run, manifest), None)
    if earlier is not None:
        return ["tunecheck", "compare", earlier.id, run.id], "compare with the run before it", False
    return ["tunecheck", "report", run.id], "look at every row", False


def _earlier(run: Run, manifest: RunFile) -> Iterator[Run]:
    """Yield earlier finished runs with real answers on the same data with a common evaluator, latest first."""
    before = [*takewhile(lambda listed: listed.id != run.id, list_runs(run.folder.parent))]
    for earlier in before[: -_MOST_EARLIER_RUNS - 1 : -1]:
        try:
            other = earlier.manifest()
            is_comparable = other.dataset.sha256 == manifest.dataset.sha256 and not other.simulated
            if is_comparable and other.evaluators.keys() & manifest.evaluators.keys():
                summary = earlier.metrics()
                if _count(summary.get("failed_rows")) < _count(summary.get("rows")):
                    yield earlier
        except ConfigurationError:
            continue


def _table(
    figures: Mapping[str, Sequence[MainFigure]], causes: Sequence[str], groups: Sequence[_Group], failed: str
) -> Table:
    """Return the table of main figures and causes of failures: one row each, one column for each group of rows.

    `failed` is the label of the rows with a cause.
    """
    rows: list[list[Sentence]] = []
    for name, (own, *others) in [*figures.items()][:_MOST_EVALUATORS]:
        label = clean(name, 60) + ", uncalibrated" * own.is_uncalibrated
        scored = _count(groups[0].metrics.get(f"{name}.scored_count"))
        counts = (f"{round(own.value * scored):,} of {scored:,}  ",) if own.is_rate and own.value is not None else ()
        rows.append([Words(label, "strong", foreign=True), (*counts, own.text), *(each.text for each in others)])
    by_cause = [{code: _rows_of(code, each) for code in causes} for each in groups]
    if causes:
        rows.append([failed, *(f"{sum(of.values()):,}" for of in by_cause)])
    for code in causes[:_MOST_CAUSES]:
        title = f"  {clean(cause_named(code).title, 60)}"
        rows.append([Words(title, "dim"), *(Words(f"{of[code]:,}", "dim") for of in by_cause)])
    left = {"evaluators": len(figures) - _MOST_EVALUATORS, "causes of failures": len(causes) - _MOST_CAUSES}
    more = " and ".join(f"{count} more {what}" for what, count in left.items() if count > 0)
    return Table(["", *(each.head for each in groups)], rows, below=Words(f"{more}: --details", "dim") if more else "")


def _rows_of(cause: str, group: _Group) -> int:
    """Return the number of a group's rows that failed for this cause."""
    share = group.metrics.get(f"{CAUSE_METRIC}{cause}")
    return round(share * group.rows) if isinstance(share, (int, float)) else 0


def _mapping(value: JSON) -> Mapping[str, JSON]:
    return value if isinstance(value, dict) else {}


def _count(value: JSON) -> int:
    return value if isinstance(value, int) else 0


# -- main figures


def number_text(value: JSON) -> str:
    """Return a number as text with few digits; `–` for anything else."""
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
    """Return an evaluator's pass rate without its interval, else its main mean, from a run's or group's metrics."""
    rate = metrics.get(f"{name}.{PASS_RATE}")
    if isinstance(rate, (int, float)):
        return MainFigure(name, True, rate, is_uncalibrated=is_uncalibrated)
    means = (metrics.get(f"{name}.{key}") for key in _main_keys(name, entry, metrics))
    value = next((mean for mean in means if isinstance(mean, (int, float))), None)
    return MainFigure(name, False, value, is_uncalibrated=is_uncalibrated)


def _main_keys(name: str, entry: EvaluatorEntry, metrics: Metrics) -> Iterator[str]:
    """Yield the keys of an evaluator's metrics, the most important first."""
    yield from (key for key in (entry.primary, *(metric.name for metric in entry.metrics or ()), name) if key)
    own = [key.removeprefix(f"{name}.") for key in metrics if key.startswith(f"{name}.")]
    yield from own[: own.index("scored_count") if "scored_count" in own else len(own)]
