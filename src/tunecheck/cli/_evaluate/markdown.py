"""A run as Markdown for a pull request: metrics with intervals, gates, and why rows failed.

Whatever comes from data or a model stands in code spans, where nothing acts: no mark-up, link, image or mention.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tunecheck._causes import cause_named
from tunecheck._messages import counted
from tunecheck.cli._causes import by_side
from tunecheck.cli._compare.markdown import code
from tunecheck.cli._console import SIMULATED
from tunecheck.cli._evaluate.summary import Summary, corrected_text
from tunecheck.cli._gates.gates import End, Outcome, end_of
from tunecheck.cli._main_figures import main_figure
from tunecheck.comparison._judged import Correction, rate_of
from tunecheck.comparison._run_table import PASS_RATE, Kind
from tunecheck.comparison._wording import value_text
from tunecheck.pipeline._finished_rows import FailureGroup

if TYPE_CHECKING:
    from tunecheck.comparison._run_table import RunTable

_MOST_FAULTS, _MOST_NOTES = 5, 20
_MARKS: Mapping[End, str] = {"met": "✅", "not met": "❌", "undecided": "❔"}

Intervals = Mapping[str, str]


def markdown_summary(summary: Summary, run: Path) -> str:
    """The page; the intervals are those of the run in this folder."""
    from tunecheck.comparison._reading import read_run

    table = read_run(run, run.parent)
    intervals = {name: text for name in table.evaluators if (text := _interval(table, name)) is not None}
    return "\n\n".join(_parts(summary, intervals)) + "\n"


def _parts(summary: Summary, intervals: Intervals) -> Iterator[str]:
    mark = _MARKS[end_of(summary.gates, summary.undecided)] + " " if summary.gates else ""
    yield f"### {mark}{code(summary.name)}"
    yield f"{code(summary.data)} · {counted(summary.rows, 'row')} · {code(summary.source)}"
    if summary.simulated:
        yield f"⚠️ **{SIMULATED}**"
    if summary.stopped:
        yield f"⚠️ {code(summary.stopped, 400)}"
    if summary.gates:
        yield "\n".join(_gates(summary.gates))
    yield "\n".join(_metrics(summary, intervals))
    for title, groups in _failures(summary):
        yield "\n".join(_groups(title, groups))
    if summary.notes:
        yield "\n".join(f"- {code(note, 400)}" for note in summary.notes[:_MOST_NOTES])


def _gates(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "| gate | required | found |"
    yield "|---|---|---|"
    for outcome in outcomes:
        remark = f" {code(outcome.remark)}" if outcome.remark else ""
        verdict = "met" if outcome.met else f"**{outcome.end}**"
        yield f"| {_MARKS[outcome.end]} {verdict} | {code(outcome.gate)} | {outcome.found_text}{remark} |"


def _metrics(summary: Summary, intervals: Intervals) -> Iterator[str]:
    yield "| evaluator | result | 95% interval | not applicable | errors |"
    yield "|---|--:|--:|--:|--:|"
    for name, evaluator in summary.evaluators.items():
        figure = main_figure(name, evaluator, summary.metrics) + _judged(summary.judges.get(name))
        counts = [_count(summary.metrics.get(f"{name}.{key}_count")) for key in ("not_applicable", "error")]
        yield f"| {code(name)} | {figure} | {intervals.get(name, '–')} | {' | '.join(counts)} |"


def _judged(judge: Correction | None) -> str:
    if judge is None:
        return ""
    return ", uncalibrated" if judge.corrected is None else f", corrected {corrected_text(judge.corrected)}"


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"


def _failures(summary: Summary) -> Iterator[tuple[str, list[tuple[str, FailureGroup]]]]:
    """What went wrong, a title and its groups each; errors first."""
    failures = summary.failures
    if failures.errors:
        errors = [(f"{stage}: {group.words}", group) for stage, of in failures.errors.items() for group in of.values()]
        yield f"errors in {counted(summary.failed_rows, 'row')}", errors
    for head, causes in by_side(failures.causes):
        yield head, [(f"{group.title}: {cause_named(code).advice}", group) for code, group in causes]
    for name in summary.evaluators:
        groups = failures.told(name)
        if groups:
            failed = counted(failures.failed[name], "row")
            yield f"{code(name)} failed {failed}", [(group.title, group) for group in groups.values()]


def _groups(title: str, groups: Sequence[tuple[str, FailureGroup]]) -> Iterator[str]:
    ordered = sorted(groups, key=lambda item: -item[1].rows)
    yield f"**{title}**\n"
    for label, group in ordered[:_MOST_FAULTS]:
        yield f"- {group.rows:,} × {code(label)}, e.g. {code(group.example, 60)}"
    if len(ordered) > _MOST_FAULTS:
        yield f"- and {len(ordered) - _MOST_FAULTS:,} more"


def _interval(table: RunTable, name: str) -> str | None:
    """Of what `main_figure` shows: the pass rate where there is one."""
    rates = table.columns.get(f"{name}.{PASS_RATE}")
    interval = rate_of(table, rates.name if rates is not None else table.evaluators[name].main)
    if interval is None or interval.low is None or interval.high is None:
        return None
    kind: Kind = "score" if rates is None else "binary"
    return f"{value_text(kind, interval.low)} to {value_text(kind, interval.high)}"
