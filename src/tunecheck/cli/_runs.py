"""Commands on runs: `runs`, `compare` and `select`, `report` (one run as an HTML file), `view` (all in a browser)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tunecheck import comparison, results, views  # each loads its modules when they are used
from tunecheck._errors import ConfigurationError, TunecheckError, raise_as
from tunecheck._json import JSON, dumps_line
from tunecheck._messages import clean, plural
from tunecheck.cli import _shared_options as shared
from tunecheck.cli._console import check_output, print_path, print_result, write_output
from tunecheck.cli._options import DONE, EXIT_CODES, FAILED, SHOWING, Invocation, argument, command, flag, option
from tunecheck.runs._store import RESULTS_DIR, Run, find_run, is_remote, list_runs, mirror_at
from tunecheck.views import Part, Table, Text, View, Words

if TYPE_CHECKING:
    from tunecheck.runs._manifest import Verified

_ROWS_SHOWN, _ROWS_KEPT = 3, 1_000
"""Rows that `compare --details` shows of a list by default, and rows that a comparison keeps of each list."""


class RunsOptions(shared.JsonOptions, shared.ResultsOptions):
    runs: list[str] | None = argument("Runs to show: names, ids, folders, or last.", "[RUN…]", default=None)
    limit: int | None = option("List only the latest N runs.", "N", least=1)
    verify: bool = flag("Check that the named runs are complete and unchanged; exit 1 if one is damaged.")
    remove: bool = flag("Remove the folders of the named runs.")


@command(RunsOptions)
def runs(options: RunsOptions, invocation: Invocation) -> int:
    """List runs, the newest first, or show, verify or remove the named ones."""
    if options.verify and options.remove:
        raise ConfigurationError("--verify and --remove exclude each other: give only one of them")
    if options.runs is None and (options.verify or options.remove):
        raise ConfigurationError(f"--{'verify' if options.verify else 'remove'} needs runs: give run ids, or `last`")

    if options.runs is None:  # `list_runs` yields the oldest run first
        return _list([*list_runs(options.folder)][::-1][: options.limit], options)

    named = [find_run(name, options.folder) for name in options.runs]
    if options.verify:
        return _verify(named, options)
    if options.remove:
        return _remove(named, options)

    return _list(named, options) if options.json else _show(named, options)


def _list(runs: list[Run], options: RunsOptions) -> int:
    """Print some lines for each run, or a JSON list; return the exit code."""
    listed = [results.describe_run(run) for run in runs]
    # A run in progress on another machine looks killed here, because no local process holds its journal.
    killed = {line.id: line for line in listed if line.status == "killed"}
    mirror = mirror_at(options.folder) if killed else None
    for run_id in mirror.running(killed) if mirror is not None else ():
        killed[run_id].status = "running"

    if listed or options.json:
        view = View("runs", [Text([words for line in listed for words in _line_words(line)])])
        print_result([_as_json(line) for line in listed] if options.json else view)
    else:
        print(f"there are no runs in {options.folder}")
    return DONE


def _show(named: list[Run], options: RunsOptions) -> int:
    """Print the summary of each finished run, or the state of an unfinished one; return the exit code."""
    for run in named:
        line = results.describe_run(run)
        # The figures, the third line, are in the table below.
        parts: list[Part] = [Text([*_line_words(line)][:2])]

        if line.is_finished:
            screen = results.first_screen(run, options.place)
            parts += [Text(screen.sentences), screen.table]
        elif not line.problem and line.status != "running":
            reason = clean(run.manifest().reason or line.status, 1_000)
            parts.append(Text([f"{reason}. Next, finish the run:  {run.resuming(options.place)}"]))
        print_result(View(line.id, parts))
    return DONE


def _remove(named: list[Run], options: RunsOptions) -> int:
    """Remove the folders of these runs; return the exit code.

    Raises:
        ConfigurationError: the runs are in remote storage, or one of them is running.
        TunecheckError: a folder cannot be removed.
    """
    if is_remote(options.results_dir or ""):
        raise ConfigurationError("--remove deletes only local folders: delete remote runs with the storage's tools")

    # Check all runs before the first folder is removed.
    running = [run.id for run in named if run.status() == "running"]
    if running:
        raise ConfigurationError(f"run {running[0]} is running: stop the run before you remove it")

    for run in named:
        with raise_as(TunecheckError, run.folder, "cannot be removed"):
            shutil.rmtree(run.folder)
        print(f"removed  {clean(run.folder, 500)}")
    return DONE


def _figures(line: results.RunLine) -> dict[str, JSON]:
    """Return the main figures of a run as texts by evaluator; uncalibrated judges are marked."""
    return {each.evaluator: f"{each.text} uncalibrated" if each.is_uncalibrated else each.text for each in line.figures}


def _as_json(line: results.RunLine) -> dict[str, JSON]:
    """Return a run's line as the JSON object that `--json` prints."""
    described: dict[str, JSON] = {"run": line.id, "status": line.status, "created": line.created, "rows": line.rows}
    described |= {"failed_rows": line.failed_rows, "simulated": line.simulated, "parent": line.parent}
    described["stopped"] = line.stopped

    if line.is_finished:
        described["figures"] = _figures(line)
    if line.problem:
        described["problem"] = line.problem

    return described


def _line_words(line: results.RunLine) -> Iterator[Words]:
    """Yield the words for one run in a list: its name, its facts, and its figures if it has any; each gets a line.

    For example:

        val-20260101T120000Z-0a1b2c
          finished · 2026-01-01T12:00:00+00:00 · 46 rows · 2 rows with an error
          match 67.4%  rouge 0.412
    """
    rows, failed = line.rows, line.failed_rows
    facts = [
        line.status,
        line.created,
        plural(rows, "row") if isinstance(rows, int) else "",
        f"{plural(failed, 'row')} with an error" if isinstance(failed, int) and failed else "",
        line.stopped,
        "SIMULATED" if line.simulated else "",
        f"from {line.parent}" if line.parent else "",
        line.problem,
    ]

    yield Words(clean(line.id, 200), "strong", foreign=True)
    yield Words("  " + " · ".join(clean(fact) for fact in facts if fact))
    if line.figures:
        yield Words("  " + "  ".join(f"{clean(name, 60)} {text}" for name, text in _figures(line).items()), "dim")


def _verify(named: list[Run], options: RunsOptions) -> int:
    """Check the files of these runs and print what is damaged; return the exit code."""
    from tunecheck.runs._manifest import verify

    checked = [verify(run) for run in named]
    print_result([_verified_json(result) for result in checked] if options.json else _verified_view(checked))
    return DONE if all(result.whole for result in checked) else FAILED


def _verified_json(result: Verified) -> dict[str, JSON]:
    """Return the result of a run's check as the JSON object that `--json` prints."""
    facts: dict[str, JSON] = {"run": result.run.id, "status": result.status, "rows": result.rows}
    return facts | {"whole": result.whole, "damage": [*result.damage], "unchecked": [*result.unchecked]}


def _verified_view(checked: list[Verified]) -> View:
    """Return the page of checked runs: a table, then each damage and what could not be checked."""
    rows = [
        (
            Words("whole") if result.whole else Words("DAMAGED", "bad"),
            Words(clean(result.run.id, 200), foreign=True),
            clean(result.status),
            "" if result.rows is None else plural(result.rows, "row"),
        )
        for result in checked
    ]

    lines = [f"{clean(result.run.id)}: {clean(line, 2_000)}" for result in checked for line in result.damage]
    lines += [f"{clean(result.run.id)}: not checked: {clean(line)}" for result in checked for line in result.unchecked]

    return View("runs", [Table(("", "", "", ""), rows, "l"), *([Text(lines)] if lines else [])])


class CompareOptions(shared.DecisionOptions, shared.JsonOptions, shared.ResultsOptions):
    base: str = argument("Baseline: a run, Azure's evaluation_results.json, or BFCL's score files.", "BASE")
    new: list[str] = argument("Runs to compare with BASE, oldest first; the decision is about the best.", "NEW [MORE…]")
    metric: list[str] | None = option(
        "Metric to test (repeatable); default: each evaluator's main metric.", "M", shared.STATISTICS
    )
    gate: bool = flag("Exit 0: ship the new run, 3: keep the base, 4: undecided, 2: invalid.", shared.STATISTICS)
    rows: int | None = option("With --details: rows to show per list; default 3.", "N", SHOWING, least=0)
    out: str | None = option("Write everything as JSON.", "FILE", SHOWING)
    markdown: str | None = option("Write a summary for a pull request.", "FILE", SHOWING)
    junit: str | None = option("Write each decision as JUnit XML.", "FILE", SHOWING)


@command(CompareOptions)
def compare(options: CompareOptions, invocation: Invocation) -> int:
    """Compare runs row by row: what is better, what is worse, how sure that is, and which rows changed.

    A run is named by its name, id, the beginning of its id, its folder, or last. Without --gate, the exit code does not
    depend on the decision.
    """
    from tunecheck.comparison._view import comparison_view

    # A file that cannot be written must not cost a long comparison.
    for flag_name, file in (("--out", options.out), ("--markdown", options.markdown), ("--junit", options.junit)):
        check_output(flag_name, file)

    shown = _ROWS_SHOWN if options.rows is None else options.rows
    settings = comparison.ComparisonSettings(
        metrics=options.metric,
        rows=max(_ROWS_KEPT, shown),
        lists_of_all=options.json or options.out is not None,
        **options.comparing,
    )

    compared = comparison.compare_runs([options.base, *options.new], options.folder, settings)
    if options.out is not None:
        write_output(options.out, dumps_line(compared.to_json()))

    view = comparison_view(compared, shown, details=options.details)
    if options.markdown is not None:
        write_output(options.markdown, views.markdown(view))
    if options.junit is not None:
        write_output(options.junit, views.junit(view, 0.0))

    print_result(compared.to_json() if options.json else view)
    return EXIT_CODES[compared.decision.decision] if options.gate else DONE


class SelectOptions(shared.DecisionOptions, shared.JsonOptions, shared.ResultsOptions):
    runs: list[str] = argument("Runs to choose from, oldest first, named as for `compare`.", "RUN RUN [MORE…]")
    metric: str | None = option("Metric that decides; default: the primary metric.", "M", shared.STATISTICS)
    base: str | None = option("The run that the others have to beat; default: the first.", "RUN", shared.STATISTICS)
    rows: int = option("With --details: rows to show per outcome (flaky, broken …).", "N", SHOWING, default=3, least=0)


@command(SelectOptions)
def select(options: SelectOptions, invocation: Invocation) -> int:
    """Decide which of several runs to ship. Exit 0: ship a candidate; 3: keep the base; 4: undecided; 2: invalid."""
    from tunecheck.comparison._compare import select as select_run

    comparing = {**options.comparing, "rows": max(_ROWS_KEPT, options.rows)}
    selection = select_run(
        *options.runs, metric=options.metric, base=options.base, results_dir=options.folder, **comparing
    )
    view = comparison.selection_view(selection, options.rows, details=options.details)
    print_result(selection.to_json() if options.json else view)
    return EXIT_CODES[selection.decision.decision]


class ReportOptions(shared.ComparingOptions, shared.ResultsOptions):
    run: str = argument("A run, Azure's evaluation_results.json, or BFCL's score files.", "RUN")
    against: list[str] | None = option("A run to compare with, row by row (repeatable; the first is the base).", "RUN")
    out: str | None = option("File to write; default: report.html in the run's folder.", "FILE")


@command(ReportOptions)
def report(options: ReportOptions, invocation: Invocation) -> int:
    """Write a run's report: one self-contained HTML file.

    A run is named by its name, id, the beginning of its id, its folder, or last.
    """
    from tunecheck.cli._running import note_changed
    from tunecheck.report._writing import write_report

    check_output("--out", options.out)

    others = options.against or []
    runs = [results.open_run(name, options.folder).run for name in (options.run, *others)]

    # The report is written into the run's folder. Other programs' results have none, so the user names a file.
    if options.out is not None:
        path = Path(options.out)
    elif runs[0] is not None:
        path = runs[0].folder / "report.html"
    else:
        raise ConfigurationError(f"{options.run} is not a run folder, so the report needs a path: give --out FILE")

    write_report(
        options.run, path, against=others, pair_by=options.pair_by, cluster=options.cluster, results_dir=options.folder
    )

    note_changed(*(run for run in runs if run is not None))
    print_path(path)
    return DONE


class ViewOptions(shared.ResultsOptions):
    whole_storage: ClassVar[bool] = True

    port: int = option("Port to listen on; 0 takes any free port.", "PORT", default=8088, least=0, most=65_535)


@command(ViewOptions)
def view(options: ViewOptions, invocation: Invocation) -> int:
    """Show and compare all runs in a browser on this machine, until Ctrl-C."""
    from tunecheck.report._serving import view as serve

    def ready(url: str) -> None:
        place = clean(options.results_dir or RESULTS_DIR)
        print(f"showing {place} on {url} (this machine only); Ctrl-C stops the server", flush=True)

    serve(options.folder, port=options.port, on_ready=ready)
    return DONE
