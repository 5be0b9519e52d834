"""Shared code of the commands that start runs: their beginning, and their output at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, Unpack

from tunecheck._faults import Side, cause_named, order_causes
from tunecheck._messages import clean, plural
from tunecheck._trust import Trust
from tunecheck.cli._console import progress_bar
from tunecheck.cli._options import DEFAULT_RESULTS, Invocation
from tunecheck.cli._shared_options import ResumableOptions, RunOptions
from tunecheck.cli._stored_options import as_recorded, merge_resumed_options, options_of_run
from tunecheck.pipeline._costs import cost_text
from tunecheck.pipeline._finished_rows import FailureGroup, Failures, read_failures
from tunecheck.runs._store import Run, find_run, holds_own_run
from tunecheck.views import Sentence, Table, Text, View, Words, console, print_view

if TYPE_CHECKING:
    from tunecheck._json import JSON
    from tunecheck.evaluation._ending import EvaluationResult
    from tunecheck.evaluation._settings import RunArguments

T = TypeVar("T", bound=ResumableOptions)

_MOST_ERRORS, _MOST_REASONS, _MOST_NOTES = 5, 8, 3


def trust_of(options: RunOptions) -> Trust:
    """Return the trust of a command: which files it may load.

    If the user has no run in the workspace yet, a note on stderr names the first code file that is loaded.
    """
    told: list[Path] = []

    def tell(file: Path) -> None:
        if not told and not holds_own_run(options.folder):
            print(f"note: you have no run here yet: this runs code of the folder you are in ({file})", file=sys.stderr)
        told.append(file)

    return Trust.of_command(options.trust or (), tell)


def begin(options: T, invocation: Invocation) -> tuple[T, Trust]:
    """Return the options of a command that starts a run, and its trust.

    With `resume`, the resumed run's options complete them.
    """
    invocation.results_dir = options.results_dir or DEFAULT_RESULTS
    invocation.command = f"{invocation.program} {options.command}"
    trust = trust_of(options)
    if options.resume is None:
        return options, trust
    run = find_run(options.resume, options.folder)
    return merge_resumed_options(options, options_of_run(options, run, trust, invocation), run), trust


def run_arguments(options: ResumableOptions, title: str, **more: Unpack[RunArguments]) -> RunArguments:
    """Return the arguments that all commands pass to a run; `title` is shown in the progress bar."""
    return {
        "concurrency": options.concurrency,
        "resume": options.resume,
        "results_dir": options.folder,
        "progress": progress_bar(options.name or title, options.quiet) or False,
        "command": as_recorded(options),
        "accept_damage": options.accept_damage,
        **more,
    }


def note_changed(*runs: Run) -> None:
    """Print a note for each run whose results have changed since it wrote them."""
    from tunecheck.runs._manifest import changed_since

    for run in runs:
        if changed := changed_since(run, run.manifest()):
            print(f"note: {changed}", file=sys.stderr)


def run_summary(result: EvaluationResult) -> dict[str, JSON]:
    return {
        "run": result.run_dir.name,
        "run_dir": str(result.run_dir),
        "rows": result.row_count,
        "failed_rows": result.failed_row_count,
        "simulated": result.simulated,
    }


def print_run(
    result: EvaluationResult, noun: str, figures: Callable[[], None], files: Iterable[str], about: str = ""
) -> None:
    """Print a finished run for users: three sentences, the command's own figures, and its files.

    `noun` names one row.
    """
    from tunecheck.results import first_screen  # reads tables, which a quiet run does not need

    place = str(result.run_dir.parent)
    where = [] if Path(place) == Path(DEFAULT_RESULTS) else ["--results-dir", place]
    passed, *others = first_screen(Run(result.run_dir), where).sentences
    print_view(View(passed, [Text([Words(passed, "strong"), *others])]), console(sys.stdout))
    figures()
    for note in result.notes[:_MOST_NOTES]:
        print(f"note: {clean(note, 300)}")
    if len(result.notes) > _MOST_NOTES:
        print(f"note: {plural(len(result.notes) - _MOST_NOTES, 'more note')} in the report")
    print(
        f"files in {result.run_dir} · {plural(result.row_count, noun)}{about}",
        *(f"  {file}" for file in files),
        sep="\n",
    )


_HEADS: Mapping[Side, str] = {
    "serving": "failed because of how the model is served",
    "unknown": "failed because of serving or of the model",
    "model": "failed because of the model",
}


def failures_table(failures: Failures, rows: int) -> Table | None:
    """Return a table of why rows failed: causes, serving problems first, then evaluators' reasons and errors.

    A row counts under its cause, or without a cause under its evaluators' first reason.
    """
    cells: list[Sequence[Sentence]] = []
    told = {group.example: group.words for group in failures.errors.get("target", {}).values()}
    advised: set[str] = set()
    for side, head in _HEADS.items():
        codes = [code for code in order_causes(failures.causes) if cause_named(code).side == side]
        cells += [("", "", Words(head, "strong"))] if codes else []
        for code in sorted(codes, key=lambda code: -failures.causes[code].rows):
            cause, group = cause_named(code), failures.causes[code]
            title = Words(f"  {clean(cause.title, 100)}  ")
            cells.append(_failure_line(title, group, rows, told.get(group.example, "")))
            if cause.advice not in advised:
                cells.append(("", "", Words(f"    try: {cause.advice}", "dim")))
                advised.add(cause.advice)
    cells += _other_failures("failed for a reason that an evaluator gives", [*failures.reasons.values()], rows)
    errors = [
        FailureGroup(f"{stage}: {group.words}", group.rows, group.example, "")
        for stage, groups in failures.errors.items()
        if stage != "target" or not failures.causes
        for group in groups.values()
    ]
    cells += _other_failures("errors", errors, rows)
    return Table(("", "", ""), cells, "rrl") if cells else None


def _other_failures(head: str, groups: Sequence[FailureGroup], rows: int) -> Iterator[Sequence[Sentence]]:
    if groups:
        yield "", "", Words(head, "strong")
    for group in sorted(groups, key=lambda group: -group.rows)[:_MOST_REASONS]:
        yield _failure_line(Words(f"  {clean(group.title, 200)}  ", foreign=True), group, rows)
    if len(groups) > _MOST_REASONS:
        yield "", "", Words(f"  and {len(groups) - _MOST_REASONS:,} more", "dim")


def _failure_line(title: Words, group: FailureGroup, rows: int, error: str = "") -> Sequence[Sentence]:
    said = (title, Words("e.g. ", "dim"), Words(clean(group.example, 60), "dim", foreign=True))
    why = [Words(f" {clean(error, 200)}", "dim", foreign=True)] if error else []
    return f"{group.rows:,}", f"{group.rows / rows:.1%}", (*said, *why)


def usage_table(usage: Mapping[str, JSON]) -> Table:
    """Return a table of calls, tokens and cost of the target and of each evaluator that calls a model."""
    rows: list[Sequence[Sentence]] = []
    for name, spent in usage.items():
        if isinstance(spent, dict):
            counts = (spent.get(key) for key in ("calls", "input_tokens", "output_tokens"))
            price = cost_text(spent, ",.4f") or "no price"
            rows.append((Words(clean(name, 60), foreign=True), *(f"{count:,}" for count in counts), price))
    return Table(("spent", "calls", "tokens in", "tokens out", "cost"), rows)


def run_errors(folder: Path, noun: str) -> Iterator[str]:
    """Yield the most common errors of a run, each with the id of an example row."""
    for group in islice(read_failures(Run(folder).rows(), {}).error_groups, _MOST_ERRORS):
        yield f"{clean(group.words, 200)} ({plural(group.rows, noun)}, e.g. {clean(group.example, 60)})"


def every_row_failed(result: EvaluationResult, noun: str) -> bool:
    """Return True if all rows failed, and report that on standard error."""
    failed = bool(result.row_count) and result.failed_row_count == result.row_count
    if failed:
        print(f"error: every {noun} ended in an error", file=sys.stderr)
    return failed
