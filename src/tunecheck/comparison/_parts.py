"""Where a metric differs: its parts, by the columns that runs are grouped by, and the leaderboard's figures of BFCL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tunecheck._json import JSON, dumps, loads
from tunecheck.comparison._comparison import BETTER, WORSE, MetricComparison, Part
from tunecheck.comparison._families import corrected
from tunecheck.comparison._measuring import compared
from tunecheck.comparison._pairs import RunPair
from tunecheck_bfcl._comparison import POOLED

if TYPE_CHECKING:
    from tunecheck.statistics._results import PairedBinary, PairedScores

MOST_PARTS = 50
"""Most values of a column; of one that has more, the parts are not told apart."""

_CATEGORY = "category"
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
        labels = _labels(pair, column)
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
            _part(column, value, compared(sides, which, pair.settings, most_draws=_DRAWS))
            for value, which in rows.items()
        ]
        found += _judged(parts, metric.higher_is_better)
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
    """BFCL's own figures, over the rows that both runs have a verdict on; none of other runs."""
    if metric.evaluator != POOLED:
        return ()
    import numpy

    from tunecheck_bfcl._summary import figure_weights
    from tunecheck_bfcl._weighted import paired_weighted

    sides = pair.sides(metric.key)
    categories = numpy.array(_labels(pair, _CATEGORY), dtype=object)
    names, counts = numpy.unique(categories[sides.both].astype(str), return_counts=True)
    found: list[Part] = []
    for version, figures in figure_weights(dict(zip(names.tolist(), counts.tolist(), strict=True))).items():
        parts = []
        for name, weights in figures.items():
            rows = sides.both & numpy.isin(categories, list(weights))
            places = {category: place for place, category in enumerate(weights)}
            of_part = numpy.array([places[category] for category in categories[rows]])
            figure = paired_weighted(
                sides.base[rows],
                sides.new[rows],
                of_part,
                [float(weight) for weight in weights.values()],
                sides.labels_of(rows),
                confidence=pair.settings.confidence,
                seed=pair.settings.seed,
            )
            parts.append(_part(version, name, figure))
        found += _judged(parts, higher_is_better=True)
    return tuple(found)


def _labels(pair: RunPair, column: str) -> Sequence[str | None]:
    """Each pair's value of a column: the base's, else the new run's."""
    if column in pair.base.groups:
        return [pair.base.groups[column][item] for item in pair.pairing.base]
    return [pair.new.groups[column][item] for item in pair.pairing.new]


def _part(column: str, value: str, found: PairedBinary | PairedScores) -> Part:
    moved = (found.difference.standard_error or 0.0) > 0 or bool(found.difference.value)
    return Part(column, value, found.base, found.new, found.difference, found.p_value, moved=moved)


def _judged(parts: Sequence[Part], higher_is_better: bool) -> Iterator[Part]:
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
