"""`tunecheck compare` and `select`: which iteration is better, how sure is that, and which one to ship."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tunecheck._json import JSON, dumps_line
from tunecheck.cli._console import check_output, print_json, until_pipe_closes, write_output
from tunecheck.cli._options import DONE, SHOWING, Invocation, argument, command, flag, option
from tunecheck.cli._shared_options import EXIT_CODES, STATISTICS, DecisionOptions, JsonOptions, ResultsOptions
from tunecheck.views import View, console, junit, markdown, print_view

_ROWS_SHOWN, _ROWS_KEPT = 3, 1_000


@dataclass(frozen=True, kw_only=True)
class CompareOptions(DecisionOptions, JsonOptions, ResultsOptions):
    base: str = argument(
        "Baseline: a run's name, id, beginning of an id, folder, or last; Azure's "
        "evaluation_results.json; BFCL's score files.",
        "BASE",
    )
    new: list[str] = argument("Runs to compare with BASE, oldest first; the decision is about the best.", "NEW [MORE…]")
    metric: list[str] | None = option(
        "Metric to test, such as match or match.binary_aggregate (repeatable). Default: each evaluator's main metric.",
        "M",
        STATISTICS,
    )
    gate: bool = flag(
        "Set the exit code by the decision: 0 ship the new run, 3 keep the base, 4 undecided, 2 invalid.", STATISTICS
    )
    rows: int | None = option("With --details: rows to show per list; default 3.", "N", SHOWING, least=0)
    out: str | None = option("Write everything as JSON.", "FILE", SHOWING)
    markdown: str | None = option("Write a summary for a pull request.", "FILE", SHOWING)
    junit: str | None = option("Write each decision as JUnit XML.", "FILE", SHOWING)


@command(CompareOptions)
def compare(options: CompareOptions, invocation: Invocation) -> int:
    """Compare runs row by row: what is better, what is worse, how sure that is, and which rows changed."""
    from tunecheck.comparison._compare import compare_runs
    from tunecheck.comparison._measuring import ComparisonSettings
    from tunecheck.comparison._view import comparison_view

    check_output("--out", options.out)
    check_output("--markdown", options.markdown)
    check_output("--junit", options.junit)
    shown = _ROWS_SHOWN if options.rows is None else options.rows
    settings = ComparisonSettings(
        metrics=options.metric,
        rows=max(_ROWS_KEPT, shown),
        lists_of_all=options.json or options.out is not None,
        **options.comparing,
    )
    comparison = compare_runs([options.base, *options.new], options.folder, settings).comparison
    if options.out is not None:
        write_output(options.out, dumps_line(comparison.to_json()))
    view = comparison_view(comparison, shown, details=options.details)
    if options.markdown is not None:
        write_output(options.markdown, markdown(view))
    if options.junit is not None:
        write_output(options.junit, junit(view, 0.0))
    _print(comparison.to_json() if options.json else view)
    return EXIT_CODES[comparison.decision.decision] if options.gate else DONE


@dataclass(frozen=True, kw_only=True)
class SelectOptions(DecisionOptions, JsonOptions, ResultsOptions):
    runs: list[str] = argument("Runs to choose from, oldest first, named as for `compare`.", "RUN RUN [MORE…]")
    metric: str | None = option(
        "Metric that decides, by its name in metrics.json. Default: the data set's primary metric, else match (rows "
        "with calls), else the first evaluator's metric.",
        "M",
        STATISTICS,
    )
    base: str | None = option("The run that the others have to beat; default: the first.", "RUN", STATISTICS)
    rows: int = option("With --details: rows to show per outcome (flaky, broken …).", "N", SHOWING, default=3, least=0)


@command(SelectOptions)
def select(options: SelectOptions, invocation: Invocation) -> int:
    """Decide which of several runs to ship. Exit 0: ship a candidate; 3: keep the base; 4: undecided; 2: invalid."""
    from tunecheck.comparison._compare import select as select_run
    from tunecheck.comparison._view import selection_view

    selection = select_run(
        *options.runs, metric=options.metric, base=options.base, results_dir=options.folder, **options.comparing
    )
    _print(selection.to_json() if options.json else selection_view(selection, options.rows, details=options.details))
    return EXIT_CODES[selection.decision.decision]


def _print(shown: JSON | View) -> None:
    """Print a page, or a value as JSON."""
    with until_pipe_closes():
        if isinstance(shown, View):
            print_view(shown, console(sys.stdout))
        else:
            print_json(shown)
