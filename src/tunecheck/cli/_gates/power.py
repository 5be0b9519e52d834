"""The power of a gate against a run, computed before the endpoint is called."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tunecheck._messages import plural
from tunecheck.statistics._results import Result

if TYPE_CHECKING:
    from tunecheck.comparison._pairs import RunPair
    from tunecheck.statistics._samples import Floats

ASSUMED_CHANGE = 0.05
"""Assumed share of rows whose verdict changes in the next run of the same model, if no repeated base measures it."""

ENOUGH = 0.8
"""If an identical model meets a gate less often than this, the margin is too narrow for the rows."""


@dataclass(frozen=True, slots=True)
class Power(Result):
    """The chance that an identical model meets the gate on one pass rate, and the rows or margin needed.

    `change` is the share of rows that change from run to run; `change_is_measured` if the base has trials. `margin` is
    0 if the gate requires an improvement, which an identical model does not show.
    """

    metric: str
    pairs: int
    margin: float
    change: float
    change_is_measured: bool
    chance: float
    pairs_needed: int | None = None
    margin_needed: float | None = None

    def __str__(self) -> str:
        told = "as the base's trials do" if self.change_is_measured else "assumed: a base with --repeat would tell"
        start = f"{self.metric}: with {plural(self.pairs, 'row')} and a margin of {100 * self.margin:g} points"
        change = f"if {self.change:.1%} of the rows change from run to run ({told})"
        if self.margin == 0:
            return f"{self.metric}: this gate requires an improvement; an equal model ends undecided (exit 4)"
        if self.chance >= ENOUGH:
            return f"{start} an identical model meets the gate in {self.chance:.0%} of runs, {change}"
        remedies = [] if self.pairs_needed is None else [f"{self.pairs_needed:,} rows"]
        remedies += (
            [] if self.margin_needed is None else [f"a margin of {math.ceil(1000 * self.margin_needed) / 10:g} points"]
        )
        undecided = f"{start} even an identical model stays undecided in {1 - self.chance:.0%} of runs, {change}"
        return f"{undecided}; {' or '.join(remedies)} would do in four of five"


def pass_rates(pair: RunPair) -> dict[str, Floats]:
    """Return the pass rates among the gated metrics and slices, with the base's values on the paired rows."""
    from tunecheck.comparison._common_metrics import choose_metrics

    chosen, _ = choose_metrics(pair.base, pair.base, pair.settings.named)
    sides = {each.name: pair.sides(each.key) for each in chosen if each.tested}
    return {name: each.base for name, each in sides.items() if each.metric.passes == each.metric.name}


def powers(pair: RunPair, rates: Mapping[str, Floats], margin: float, repeat: int) -> tuple[Power, ...]:
    """Return the power on each pass rate; other metrics have none, because the variance of their values is unknown.

    The paired rows will be judged `repeat` times each.
    """
    trials = pair.base.info.trials
    return tuple(_power(name, each, trials, margin, repeat) for name, each in rates.items()) if margin < 1 else ()


def _power(name: str, passing: Floats, trials: int, margin: float, repeat: int) -> Power:
    import numpy

    from tunecheck.statistics._margins import chance_to_show, margin_to_show, rows_to_show

    passing = passing[~numpy.isnan(passing)]
    rows = len(passing)
    measured = trials > 1 and rows > 0
    change = ASSUMED_CHANGE
    if measured:  # the chance that two trials of a row differ
        change = float(2 * numpy.mean(passing * (1 - passing)) * trials / (trials - 1))
    spread = change * (1 / trials + 1 / repeat) / 2  # variance of a difference of means, per row
    if margin == 0 or not rows:
        return Power(name, rows, margin, change, measured, 0.0)
    chance = chance_to_show(rows, spread, margin)
    if chance >= ENOUGH:
        return Power(name, rows, margin, change, measured, chance)
    needed = rows_to_show(spread, margin, ENOUGH), margin_to_show(rows, spread, ENOUGH)
    return Power(name, rows, margin, change, measured, chance, *needed)
