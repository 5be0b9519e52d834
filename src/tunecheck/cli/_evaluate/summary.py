"""What a person reads when a run is done: the table, why rows failed, the gates, and where the files are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tunecheck._files import EvaluatorEntry
from tunecheck._json import JSON
from tunecheck._messages import clean, counted
from tunecheck.cli._causes import causes_table
from tunecheck.cli._console import SIMULATED, cost_text, grid, print_parts, skill_text
from tunecheck.cli._gates.gates import End, Outcome
from tunecheck.cli._main_figures import Line, lines_of, main_figure
from tunecheck.pipeline._finished_rows import FailureGroup, Failures

if TYPE_CHECKING:
    from tunecheck.comparison._judged import Correction
    from tunecheck.statistics._results import Estimate

_MOST_FAULTS = 8
_MOST_ERRORS = 5
_MOST_GROUPS = 30
_VERDICTS: Mapping[End, tuple[str, str]] = {
    "met": ("gate met", "green"),
    "not met": ("gate NOT met", "bold red"),
    "undecided": ("gate UNDECIDED", "bold yellow"),
}

Metrics = Mapping[str, JSON]


@dataclass(frozen=True)
class Summary:
    """What is shown of a run; `by` holds the metrics by group: `{column: {value: metrics}}`."""

    name: str
    data: str
    source: str
    folder: str
    rows: int
    failed_rows: int
    simulated: bool
    metrics: Metrics
    by: Mapping[str, Mapping[str, Metrics]]
    evaluators: Mapping[str, EvaluatorEntry]
    failures: Failures
    gates: Sequence[Outcome]
    notes: Sequence[str]
    usage: Mapping[str, JSON]
    reused: str = ""
    """What was not done again, in words."""
    undecided: str | None = None
    """What an undecided gate counts as: `fail`, `pass`, or None for neither."""
    stopped: str = ""
    """What was decided, where the run stopped early."""
    judges: Mapping[str, Correction] = field(default_factory=dict)
    """Of evaluators that are judges: the pass rate corrected for its errors, or that it is uncalibrated."""
    seconds: float = 0.0
    """How long the run took, the judging of its gates included."""


def show(summary: Summary, console: Console) -> None:
    print_parts(console, _parts(summary, console.width))


def _parts(summary: Summary, width: int) -> Iterator[RenderableType]:
    yield _header(summary)
    yield _main_table(summary)
    yield from _without_skill(summary)
    for column, values in summary.by.items():
        if column != "row_kind":
            yield from _group_tables(column, values, summary.evaluators, width)
    if summary.failures.causes:
        yield causes_table(summary.failures.causes, summary.rows)
    if any(map(summary.failures.told, summary.evaluators)):
        yield _faults(summary)
    if summary.failures.errors:
        yield _errors(summary)
    if summary.usage:
        yield _usage(summary.usage)
    if summary.notes:
        yield "\n".join(f"note: {clean(note)}" for note in summary.notes)
    if summary.gates:
        yield _gates(summary.gates)
    files = "eval_results.jsonl  eval_results.csv  metrics.json  run.json  journal.jsonl"
    yield Text.assemble("files in ", (clean(summary.folder, 500), "bold"), f"\n  {files}")


def _header(summary: Summary) -> Text:
    about = filter(None, [summary.data, counted(summary.rows, "row"), summary.source, summary.reused])
    text = Text.assemble((clean(summary.name, 100), "bold"), " · ", " · ".join(clean(part, 200) for part in about))
    if summary.stopped:
        text.append(f"\n{clean(summary.stopped, 200)}", "bold yellow")
    if summary.simulated:
        some = 0 < (count := summary.failures.simulated_answers) < summary.rows
        text.append(f"\nSIMULATED answers in {counted(count, 'row')}" if some else f"\n{SIMULATED}", "bold yellow")
    return text


def _main_table(summary: Summary) -> Table:
    kinds = dict(sorted(summary.by.get("row_kind", {}).items(), reverse=True))  # call before answer
    if len(kinds) == 1:  # it would say the same twice
        kinds = {}
    table = grid("left", *["right"] * (1 + len(kinds)))
    heads = [f"all {counted(summary.rows, 'row')}"] + [f"{kind} ({_rows(of)})" for kind, of in kinds.items()]
    table.add_row("", *(Text(clean(head, 40), "bold") for head in heads))
    for name, evaluator in summary.evaluators.items():
        judge = summary.judges.get(name)
        for line in lines_of(name, evaluator, [summary.metrics, *kinds.values()]):
            is_uncalibrated = judge is not None and judge.corrected is None and line.sort == "evaluator"
            table.add_row(*_cells(replace(line, label=f"{line.label}, uncalibrated") if is_uncalibrated else line))
            if line.sort == "evaluator" and judge is not None and judge.corrected is not None:
                table.add_row(
                    *_cells(Line("figure", "corrected", (corrected_text(judge.corrected), *("" for _ in kinds))))
                )
    return table


def _without_skill(summary: Summary) -> Iterator[Text]:
    """What agents would score that do without looking; where every row is known to ask for calls or for none."""
    counts = {kind: metrics.get("row_count") for kind, metrics in summary.by.get("row_kind", {}).items()}
    calling, idle = counts.get("call"), counts.get("answer", 0)
    if all(each.judge is not None for each in summary.evaluators.values()):
        return  # nothing is judged by calls
    if isinstance(calling, int) and isinstance(idle, int) and calling + idle == summary.rows:
        yield Text(skill_text(idle, calling, summary.rows), "dim")


def corrected_text(rate: Estimate) -> str:
    """`81.2% (74.1% to 87.9%)`."""
    if rate.value is None or rate.low is None or rate.high is None:
        return "–"
    return f"{rate.value:.1%} ({rate.low:.1%} to {rate.high:.1%})"


def _rows(metrics: Metrics) -> str:
    rows = metrics.get("row_count")
    return f"{rows:,}" if isinstance(rows, int) else "?"


def _cells(line: Line) -> Iterator[RenderableType]:
    style = {"evaluator": "bold", "figure": "dim", "error": "red"}[line.sort]
    label = clean(line.label, 60)
    yield Padding(Text(label, style), (0, 0, 0, 0 if line.sort == "evaluator" else 2))
    for cell in line.cells:
        yield Text(cell, style if line.sort != "evaluator" else "")


def _group_tables(
    column: str, values: Mapping[str, Metrics], evaluators: Mapping[str, EvaluatorEntry], width: int
) -> Iterator[Table | str]:
    """By one column: its values below one another, as many evaluators side by side as fit."""

    ordered = sorted(values.items(), key=lambda item: -int(_rows(item[1]).replace(",", "") or 0))
    shown = ordered[:_MOST_GROUPS]
    room = width - max([len(clean(column, 30)), *(len(clean(value, 30)) for value, _ in shown)]) - 8
    for names in _side_by_side(list(evaluators), room):
        table = grid("left", "right", *["right"] * len(names))
        table.add_row(*(Text(clean(head, 30), "bold") for head in (column, "rows", *names)))
        for value, metrics in shown:
            figures = [main_figure(name, evaluators[name], metrics) for name in names]
            table.add_row(Text(clean(value, 30)), _rows(metrics), *map(Text, figures))
        yield table
    if len(ordered) > len(shown):
        yield f"and {len(ordered) - len(shown):,} more values of {clean(column, 30)}: see metrics.json"


def _side_by_side(names: Sequence[str], room: int) -> Iterator[list[str]]:
    batch: list[str] = []
    used = 0
    for name in names:
        needed = max(7, min(30, len(name))) + 2
        if batch and used + needed > room:
            yield batch
            batch, used = [], 0
        batch.append(name)
        used += needed
    yield batch


def _faults(summary: Summary) -> Table:
    table = grid("right", "left", "left")
    table.add_row("", Text("what evaluators found", "bold"), "")
    told: list[tuple[list[str], Mapping[str, FailureGroup]]] = []
    for name in summary.evaluators:
        groups = summary.failures.told(name)
        same = next((names for names, known in told if known == groups), None)
        if same is not None:
            same.append(name)
        elif groups:
            told.append(([name], groups))
    for names, groups in told:
        failed = counted(summary.failures.failed[names[0]], "row")
        table.add_row("", Text.assemble((clean(", ".join(names), 200), "bold"), f": {failed}"), "")
        _add_groups(table, [(group.title, group) for group in groups.values()], _MOST_FAULTS)
    return table


def _add_groups(table: Table, groups: Sequence[tuple[str, FailureGroup]], most: int) -> None:
    ordered = sorted(groups, key=lambda item: -item[1].rows)
    for label, group in ordered[:most]:
        table.add_row(
            f"{group.rows:,}", Text(f"  {clean(label, 200)}"), Text(f"e.g. {clean(group.example, 60)}", "dim")
        )
    if len(ordered) > most:
        table.add_row("", Text(f"  and {len(ordered) - most:,} more", "dim"), "")


def _errors(summary: Summary) -> Table:
    table = grid("right", "left", "left")
    head = f"errors in {counted(summary.failed_rows, 'row')}"
    table.add_row("", Text(head, "bold red"), "")
    for stage, groups in summary.failures.errors.items():
        _add_groups(table, [(f"{stage}: {group.words}", group) for group in groups.values()], _MOST_ERRORS)
    return table


def _usage(usage: Mapping[str, JSON]) -> Table:
    """What the calls came to: of the target, and of each evaluator that asks a model."""

    table = grid("left", "right", "right", "right", "right")
    table.add_row(*(Text(head, "bold") for head in ("spent", "calls", "tokens in", "tokens out", "cost")))
    for name, spent in usage.items():
        if isinstance(spent, dict):
            counts = (spent.get(key) for key in ("calls", "input_tokens", "output_tokens"))
            price = cost_text(spent, ",.4f") or "no price"
            table.add_row(Text(clean(name, 60)), *(f"{count:,}" for count in counts), price)
    return table


def _gates(outcomes: Sequence[Outcome]) -> Table:
    table = grid("left", "left", "left")
    for outcome in outcomes:
        verdict = Text(*_VERDICTS[outcome.end])
        shown = f"found {outcome.found_text}" + (f" ({clean(outcome.remark, 300)})" if outcome.remark else "")
        table.add_row(verdict, Text(f"required {clean(outcome.gate, 100)}"), Text(shown))
    return table
