"""`tunecheck select`: which of several runs to ship, and what speaks against it."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from tunecheck._errors import ConfigurationError
from tunecheck.cli._console import print_json
from tunecheck.cli._options import SHOWING, Invocation, argument, command, flag, option
from tunecheck.cli._shared_options import STATISTICS, ComparingOptions, JsonOptions, ResultsOptions


@dataclass(frozen=True, kw_only=True)
class SelectOptions(ComparingOptions, JsonOptions, ResultsOptions):
    runs: list[str] = argument("The runs to choose among, in order, given as to compare.", "RUN RUN [MORE…]")
    metric: str | None = option(
        "Rank the runs on this: an evaluator, or a metric as metrics.json names it; by default what the data declares "
        "as primary, else the one of which most rows have a figure.",
        "M",
        STATISTICS,
    )
    guard: list[str] | None = option(
        "A metric that must not get worse than the base's by more than this, in its own unit, e.g. match:0.02 "
        "(repeatable).",
        "NAME:MARGIN",
        STATISTICS,
    )
    base: str | None = option("The run that guards hold against; by default the first.", "RUN", STATISTICS)
    confidence: float = option("Of all intervals of the ranking together.", "C", STATISTICS, default=0.95)
    allow_simulated: bool = flag("Select among runs that asked no model, too.", STATISTICS)
    rows: int = option("How many rows to show of each outcome over all runs.", "N", SHOWING, default=3, least=0)


@command(SelectOptions)
def select(options: SelectOptions, invocation: Invocation) -> int:
    """Say which of several runs to ship: the best on one metric that breaks no guard, and what speaks against it."""
    from tunecheck.comparison._selection import select as select_run
    from tunecheck.comparison._view import selection_view
    from tunecheck.views import console, print_view

    selection = select_run(
        *options.runs,
        metric=options.metric,
        guards=_guards(options.guard or []),
        base=options.base,
        cluster=options.cluster,
        confidence=options.confidence,
        allow_simulated=options.allow_simulated,
        pair_by=options.pair_by,
        results_dir=options.folder,
    )
    if options.json:
        print_json(selection.to_json())
    else:
        print_view(selection_view(selection, options.rows), console(sys.stdout))
    return 0


def _guards(given: list[str]) -> Mapping[str, float]:
    found = {}
    for each in given:
        name, _, margin = each.rpartition(":")
        try:
            found[name] = float(margin)
        except ValueError:
            found[name] = math.nan
        if not name or not 0 <= found[name] < math.inf:
            raise ConfigurationError(
                f"--guard {each!r}: expected NAME:MARGIN with a margin of 0 or more, as match:0.02"
            )
    return found
