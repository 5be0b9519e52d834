"""`tunecheck select`: which of several runs to ship, and what speaks against it."""

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from tunecheck._errors import ConfigurationError
from tunecheck._messages import clean, counted
from tunecheck.cli._console import SIMULATED, console, grid, print_json, print_parts
from tunecheck.cli._invocation import Invocation
from tunecheck.cli._options import SHOWING, argument, command, flag, option
from tunecheck.cli._shared_options import STATISTICS, ComparingOptions, JsonOptions, ResultsOptions

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tunecheck.comparison._comparison import Selection


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
        print_parts(console(sys.stdout), _parts(selection, options.rows))
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


def _parts(selection: "Selection", rows: int) -> Iterator["RenderableType"]:
    from tunecheck.cli._compare.tables import rows_over_runs_table
    from tunecheck.comparison._wording import headline, regression_text, short_names

    if selection.simulated:
        yield Text(SIMULATED, "bold yellow")
    yield Text(clean(selection.sentence, 2_000), "bold")
    if selection.regressed_since is not None:
        yield Text(clean(regression_text(selection), 2_000), "bold red")
    yield _ranking(selection)
    names = short_names([each.run for each in selection.ranking])
    held = (f"{names[each.new]} against {names[each.base]}: {headline(each.metric)}" for each in selection.against)
    yield Text("\n".join(held))
    if selection.rows_over_runs is not None:
        yield rows_over_runs_table(selection.rows_over_runs, rows)
    notes = [clean(note) for note in selection.notes]
    if not selection.metric_named:
        notes.append(f"ranked on {selection.metric}, of which most rows have a figure; --metric names another")
    if notes:
        yield Text("\n".join(f"note: {note}" for note in notes), "dim")


def _ranking(selection: "Selection") -> Table:
    from tunecheck.comparison._wording import difference_text, interval_text, value_text

    units = counted(selection.rows, "row")
    if selection.clusters is not None:
        units += f" in {counted(selection.clusters, 'cluster')}"
    table = grid("left", "right", "right", "left")
    heads = (units, selection.metric, f"from the best other ({100 * selection.confidence:.3g}%)")
    table.add_row(*(Text(head, "bold") for head in heads), "")
    for each in selection.ranking:
        difference = difference_text(selection.kind, each.difference.value, unit=False)
        said = ["may be the best"] if each.may_be_best else []
        said += [f"{guard.metric}: guard {guard.outcome}" for guard in each.guards]
        table.add_row(
            clean(each.run, 60),
            value_text(selection.kind, each.value.value),
            f"{difference} ({interval_text(selection.kind, each.difference)})",
            ", ".join(said),
        )
    return table
