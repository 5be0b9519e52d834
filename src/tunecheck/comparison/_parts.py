"""Where a metric differs: its parts, by the columns that runs are grouped by, and the figures of plug-ins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tunecheck import plugins
from tunecheck._json import JSON, dumps, loads
from tunecheck.comparison._comparison import MetricComparison, Part
from tunecheck.comparison._families import corrected
from tunecheck.comparison._measuring import compared
from tunecheck.comparison._pairs import RunPair
from tunecheck.comparison._verdicts import BETTER, WORSE

if TYPE_CHECKING:
    from tunecheck.statistics._results import PairedBinary, PairedScores

MOST_PARTS = 50
"""Most values of a column; of one that has more, the parts are not told apart."""

_LONGEST_TAG = 200

_DRAWS = 2_000
"""Of resamples and signs: there are many parts, of every run."""


def parts_of(pair: RunPair, metric: MetricComparison) -> tuple[Part, ...]:
    """The metric over the rows of each value of each column by which both runs, or one of them, are told apart."""
    import numpy

    if metric.judge == "different":
        return ()
    sides = pair.sides(metric.key)
    found: list[Part] = []
    for column in dict.fromkeys([*pair.base.groups, *pair.new.groups]):
        labels = labels_of_pairs(pair, column)
        tags = {label: _tags_of_label(label) for label in dict.fromkeys(labels)}
        usable = zip(labels, sides.both.tolist(), strict=True)
        values = dict.fromkeys(tag for label, both in usable if both for tag in tags[label])
        if not 1 < len(values) <= MOST_PARTS:
            continue
        rows = {
            value: sides.both & numpy.fromiter((value in tags[label] for label in labels), bool, len(labels))
            for value in values
        }
        parts = [
            part_of(column, value, compared(sides, which, pair.settings, most_draws=_DRAWS))
            for value, which in rows.items()
        ]
        found += with_verdicts(parts, metric.higher_is_better)
    return tuple(found)


def tags_of(value: JSON) -> list[str]:
    """The parts that a row is in by its value of a column: by each text of a list of them, else by the value itself."""
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return [str(each)[:_LONGEST_TAG] for each in value]
    if value is None:
        return []
    text = value if isinstance(value, str) else dumps(value).decode("utf-8", "replace")
    return [text[:_LONGEST_TAG]]


def _tags_of_label(label: str | None) -> list[str]:
    if label is None or not label.startswith('["'):
        return [] if label is None else [label]
    try:
        return tags_of(loads(label))
    except ValueError:
        return [label]


def figures_of(pair: RunPair, metric: MetricComparison) -> tuple[Part, ...]:
    """What plug-ins figure out of two runs by a metric, such as a leaderboard's weighted means."""
    return tuple(part for each in plugins.figures() for part in each.of_pair(pair, metric))


def labels_of_pairs(pair: RunPair, column: str) -> Sequence[str | None]:
    """Each pair's value of a column: the base's, else the new run's."""
    if column in pair.base.groups:
        return [pair.base.groups[column][item] for item in pair.pairing.base]
    return [pair.new.groups[column][item] for item in pair.pairing.new]


def part_of(column: str, value: str, found: PairedBinary | PairedScores, title: str = "") -> Part:
    """A part of the rows with its statistics; its `title` heads the table of its column."""
    moved = (found.difference.standard_error or 0.0) > 0 or bool(found.difference.value)
    return Part(column, value, found.base, found.new, found.difference, found.p_value, moved=moved, title=title)


def with_verdicts(parts: Sequence[Part], higher_is_better: bool) -> Iterator[Part]:
    """With p-values corrected among the parts of a column, and where something is shown, what."""
    total = [part for part in parts if part.value == "overall"]
    rest = [part for part in parts if part.value != "overall"]
    for family in (total, rest):
        adjusted = corrected([(part.p_value, part.moved) for part in family])
        for part, p_value in zip(family, adjusted, strict=True):
            difference = part.difference
            alpha = round(1 - difference.confidence, 12)
            shown = p_value is not None and p_value < alpha and difference.excludes_zero
            up = (difference.value or 0) > 0
            verdict = (BETTER if up == higher_is_better else WORSE) if shown else None
            yield replace(part, p_adjusted=p_value, verdict=verdict)
