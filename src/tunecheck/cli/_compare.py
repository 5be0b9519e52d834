"""`tunecheck compare`: is the new iteration better, at what, how sure is that, and which rows changed."""

import sys
from dataclasses import dataclass

from tunecheck.cli._console import check_output, write_output
from tunecheck.cli._options import DONE, SHOWING, Invocation, argument, command, flag, option
from tunecheck.cli._shared_options import EXIT_CODES, STATISTICS, DecisionOptions, JsonOptions, ResultsOptions

_ROWS_SHOWN, _ROWS_KEPT = 3, 1_000


@dataclass(frozen=True, kw_only=True)
class CompareOptions(DecisionOptions, JsonOptions, ResultsOptions):
    base: str = argument(
        "Baseline: a run's id, the beginning of it, its folder, or last; Azure's "
        "evaluation_results.json; BFCL's score files.",
        "BASE",
    )
    new: list[str] = argument("The runs to compare with it, in order.", "NEW [MORE…]")
    metric: list[str] | None = option(
        "Metric to test, such as match or match.binary_aggregate (repeatable). Default: each evaluator's main one.",
        "M",
        STATISTICS,
    )
    gate: bool = flag(
        "Exit by the decision: 0 if the new run ships, 3 to keep the base, 4 if undecided, 2 if invalid.", STATISTICS
    )
    rows: int | None = option("With --details: rows shown of each list; default 3.", "N", SHOWING, least=0)
    out: str | None = option("Write everything as JSON.", "FILE", SHOWING)
    markdown: str | None = option("Write a summary for a pull request.", "FILE", SHOWING)
    junit: str | None = option("Write each decision as JUnit XML.", "FILE", SHOWING)


@command(CompareOptions)
def compare(options: CompareOptions, invocation: Invocation) -> int:
    """Compare runs row by row: what is better, what is worse, how sure that is, and which rows changed."""
    from tunecheck._json import dumps_line
    from tunecheck.cli._console import print_json, until_pipe_closes
    from tunecheck.comparison._compare import compare_runs
    from tunecheck.comparison._measuring import ComparisonSettings
    from tunecheck.comparison._view import comparison_view
    from tunecheck.views import console, junit, markdown, print_view

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
    with until_pipe_closes():
        if options.json:
            print_json(comparison.to_json())
        else:
            print_view(view, console(sys.stdout))
    return EXIT_CODES[comparison.decision.decision] if options.gate else DONE
