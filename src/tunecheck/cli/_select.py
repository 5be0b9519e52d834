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
from tunecheck.cli._options import argument, command, flag, option
from tunecheck.cli._shared_options import JsonOptions, ResultsOptions

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tunecheck.comparison._selection import Selection

_STATISTICS = "Statistics"


@dataclass(frozen=True, kw_only=True)
class SelectOptions(JsonOptions, ResultsOptions):
    runs: list[str] = argument("The runs to choose among, in order, given as to compare.", "RUN RUN [MORE…]")
    metric: str | None = option(
        "Rank the runs on this: an evaluator, or a metric as metrics.json names it; by default the first of compare.",
        "M",
        _STATISTICS,
    )
    guard: list[str] | None = option(
        "A metric that must not get worse than the base's by more than this, in its own unit, e.g. match:0.02 "
        "(repeatable).",
        "NAME:MARGIN",
        _STATISTICS,
    )
    base: str | None = option("The run that guards hold against; by default the first.", "RUN", _STATISTICS)
    cluster: str | None = option(
        "Rows with equal values in this column are not independent, e.g. conversation_id.", "COLUMN", _STATISTICS
    )
    confidence: float = option("Of all intervals of the ranking together.", "C", _STATISTICS, default=0.95)
    allow_simulated: bool = flag("Select among runs that asked no model, too.", _STATISTICS)


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
        results_dir=options.folder,
    )
    if options.json:
        print_json(selection.to_json())
    else:
        print_parts(console(sys.stdout), _parts(selection))
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


def _parts(selection: "Selection") -> Iterator["RenderableType"]:
    from tunecheck.comparison._wording import headline

    if selection.simulated:
        yield Text(SIMULATED, "bold yellow")
    yield Text(clean(selection.sentence, 2_000), "bold")
    yield _ranking(selection)
    yield Text("\n".join(f"{each.new} against {each.base}: {headline(each.metric)}" for each in selection.against))
    notes = [clean(note) for note in selection.notes]
    if not selection.metric_named:
        notes.append(f"ranked on {selection.metric}, the first metric of compare; --metric names another")
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
