"""Slices of a metric by the values of a column, and figures of plug-ins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tunecheck import plugins
from tunecheck.comparison._common_metrics import split_slice
from tunecheck.comparison._comparison import MetricComparison, Part
from tunecheck.comparison._measuring import compare_pairs, correct_by_holm, shown_verdict
from tunecheck.comparison._pairs import RunPair
from tunecheck.statistics._decisions import smallest_difference
from tunecheck.statistics._results import PairedBinary, PairedScores

MOST_PARTS = 50
"""The most values of a column that gives slices."""

FEWEST_OF_A_SLICE, MOST_SLICES = 20, 20
"""Limits for columns that the run was not grouped by: the fewest rows of a slice, and the most values of the column."""

_DRAWS = 2_000
"""Bootstrap samples and sign flips for each slice; fewer than usual, because there are many slices."""


def parts_of(pair: RunPair, metric: MetricComparison) -> tuple[Part, ...]:
    """Compare the metric on the slices of the data: the rows of each value of each column.

    Slices of columns that the runs were grouped by come first. Other columns give slices only for values with at least
    20 rows, and not for the same rows as an earlier slice. If the metric is itself a slice, its whole metric is
    compared.
    """
    if metric.judge == "different":
        return ()
    sides = pair.sides(split_slice(metric.key)[0])
    parts: list[Part] = []
    earlier_masks: set[bytes] = set()
    named = dict.fromkeys([*pair.base.groups, *pair.new.groups])
    for column in dict.fromkeys([*named, *pair.base.slices, *pair.new.slices]):
        fewest, most = (1, MOST_PARTS) if column in named else (FEWEST_OF_A_SLICE, MOST_SLICES)
        masks = {value: mask & sides.both for value, mask in pair.rows_by_value(column).items()}
        if not 1 < sum(bool(mask.any()) for mask in masks.values()) <= most:
            continue
        masks = {value: mask for value, mask in masks.items() if mask.sum() >= fewest}
        if column not in named:
            masks = {value: mask for value, mask in masks.items() if mask.tobytes() not in earlier_masks}
        earlier_masks |= {mask.tobytes() for mask in masks.values()}
        slices = []
        for value, mask in masks.items():
            statistics = compare_pairs(sides, mask, pair.settings, most_draws=_DRAWS)
            slices.append(part_of(column, value, statistics, named=column in named))
        parts += with_verdicts(slices, metric.higher_is_better)
    return tuple(parts)


def figures_of(pair: RunPair, metric: MetricComparison) -> tuple[Part, ...]:
    """Return the plug-ins' figures of two runs, such as a leaderboard's weighted means."""
    return tuple(part for figures in plugins.figures() for part in figures.of_pair(pair, metric))


def part_of(
    column: str, value: str, statistics: PairedBinary | PairedScores, title: str = "", *, named: bool = True
) -> Part:
    """Return a slice with its statistics, without a verdict.

    `title` is the heading of a plug-in's figures, "" for a slice. `named`: the run was grouped by the column.
    """
    difference = statistics.difference
    # If no row changed, the difference is 0 and has no spread.
    moved = (difference.standard_error or 0.0) > 0 or bool(difference.value)
    smallest = None if title else smallest_difference(statistics)
    figures = (statistics.base, statistics.new, difference, statistics.p_value)
    return Part(column, value, *figures, moved=moved, smallest_difference=smallest, title=title, named=named)


def with_verdicts(parts: Sequence[Part], higher_is_better: bool) -> Iterator[Part]:
    """Yield a column's slices with corrected p-values and verdicts: first `overall`, which is tested by itself."""
    overall = [part for part in parts if part.value == "overall"]
    others = [part for part in parts if part.value != "overall"]
    for family in (overall, others):
        adjusted = correct_by_holm([(part.p_value, part.moved) for part in family])
        for part, p_value in zip(family, adjusted, strict=True):
            verdict = shown_verdict(part.difference, p_value, higher_is_better=higher_is_better)
            yield replace(part, p_adjusted=p_value, verdict=verdict)
