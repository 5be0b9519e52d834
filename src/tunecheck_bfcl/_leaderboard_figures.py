"""The leaderboard's figures of two runs: weighted means of categories, with intervals and tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tunecheck.comparison import part_of, with_verdicts
from tunecheck_bfcl._comparison import POOLED

if TYPE_CHECKING:
    from fractions import Fraction

    from tunecheck import MetricComparison, Run
    from tunecheck.comparison import PairedValues, Part, RunPair
    from tunecheck.statistics import PairedScores

_CATEGORY = "category"


class LeaderboardFigures:
    """BFCL's own figures, by the version of the leaderboard that weighs them."""

    def of_run(self, run: Run) -> Mapping[str, float]:
        """Return nothing: a run's figures stand in its score folder."""
        return {}

    def of_pair(self, pair: RunPair, metric: MetricComparison) -> Iterator[Part]:
        """Return the figures over the rows that both runs have a verdict on."""
        if metric.evaluator != POOLED:
            return
        import numpy

        from tunecheck_bfcl._summary import figure_weights

        sides = pair.sides(metric.key)
        categories = [str(each) for each in pair.labels(_CATEGORY)]
        names, counts = numpy.unique(numpy.array(categories)[sides.both], return_counts=True)
        weighed = figure_weights(dict(zip(names.tolist(), counts.tolist(), strict=True)))
        for version, figures in weighed.items():
            title = f"BFCL {version.upper()}, as the leaderboard weighs it"
            found = {name: _figure(pair, sides, categories, weights) for name, weights in figures.items()}
            parts = [part_of(version, name, figure, title) for name, figure in found.items()]
            yield from with_verdicts(parts, higher_is_better=True)


def _figure(pair: RunPair, sides: PairedValues, categories: list[str], weights: Mapping[str, Fraction]) -> PairedScores:
    """Both runs' weighted mean over some of the categories."""
    import numpy

    from tunecheck_bfcl._weighted import paired_weighted

    places = {category: place for place, category in enumerate(weights)}
    rows = sides.both & numpy.array([category in places for category in categories])
    of_part = numpy.array([places[category] for category, shown in zip(categories, rows, strict=True) if shown])
    return paired_weighted(
        sides.base[rows],
        sides.new[rows],
        of_part,
        [float(weight) for weight in weights.values()],
        sides.labels_of(rows),
        confidence=pair.settings.confidence,
        seed=pair.settings.seed,
    )


LEADERBOARD_FIGURES = LeaderboardFigures()
