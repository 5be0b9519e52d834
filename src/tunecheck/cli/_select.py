"""`tunecheck select`: which of several runs to ship, if any."""

import sys
from dataclasses import dataclass

from tunecheck.cli._console import print_json, until_pipe_closes
from tunecheck.cli._options import SHOWING, Invocation, argument, command, option
from tunecheck.cli._shared_options import EXIT_CODES, STATISTICS, DecisionOptions, JsonOptions, ResultsOptions


@dataclass(frozen=True, kw_only=True)
class SelectOptions(DecisionOptions, JsonOptions, ResultsOptions):
    runs: list[str] = argument("Runs to choose from, in order, named as for `compare`.", "RUN RUN [MORE…]")
    metric: str | None = option(
        "Metric that decides, as metrics.json names it; default: the data's primary metric, else the one with "
        "the most rows.",
        "M",
        STATISTICS,
    )
    base: str | None = option("The run that the others have to beat; by default the first.", "RUN", STATISTICS)
    rows: int = option("With --details: rows shown of each outcome over all runs.", "N", SHOWING, default=3, least=0)


@command(SelectOptions)
def select(options: SelectOptions, invocation: Invocation) -> int:
    """Decide which of several runs to ship. Exit 0: ship a candidate; 3: keep the base; 4: undecided; 2: invalid."""
    from tunecheck.comparison._compare import select as select_run
    from tunecheck.comparison._view import selection_view
    from tunecheck.views import console, print_view

    selection = select_run(
        *options.runs, metric=options.metric, base=options.base, results_dir=options.folder, **options.comparing
    )
    with until_pipe_closes():
        if options.json:
            print_json(selection.to_json())
        else:
            print_view(selection_view(selection, options.rows, details=options.details), console(sys.stdout))
    return EXIT_CODES[selection.decision.decision]
