"""Pairs of runs whose true difference is known, to be drawn again and again: how often is an interval right?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from tunecheck.statistics._paired import paired_binary, paired_scores
from tunecheck.statistics._results import Estimate, Paired

__all__ = ["FAR", "World", "binary", "clustered_binary", "clustered_scores", "scores", "watched"]

Floats = NDArray[numpy.float64]
Random = numpy.random.Generator
Pairs = Callable[[Random, int], Floats]
"""So many pairs of base and new, of shape (count, 2)."""

Draw = Callable[[Random, int], Floats]

FAR = 0.05


@dataclass(frozen=True)
class World:
    """`rows` of pairs, in clusters of `together`, which are alike by an intraclass correlation of `alike`."""

    name: str
    pairs: Pairs
    base: float
    difference: float
    rows: int
    together: int = 1
    alike: float = 0.0
    verdicts: bool = False

    def draw(self, random: Random) -> tuple[Floats, Floats]:
        """One draw of base and new."""
        own = self.pairs(random, self.rows)
        if self.together > 1:
            # A row that takes its cluster's pair with chance √ρ, and one of its own otherwise, has this correlation
            # with another row of the cluster: ρ is the chance that both take it.
            shared = self.pairs(random, self.rows // self.together).repeat(self.together, axis=0)
            takes = random.random(self.rows) < math.sqrt(self.alike)
            own[takes] = shared[takes]
        return own[:, 0], own[:, 1]

    def compare(self, random: Random, resamples: int, *, clustered: bool = True) -> Paired:
        """One draw, compared."""
        base, new = self.draw(random)
        labels = None
        if self.together > 1 and clustered:
            labels = (numpy.arange(self.rows) // self.together).tolist()
        if self.verdicts:
            return paired_binary(base, new, labels)
        seed = int(random.integers(1 << 32))
        return paired_scores(base, new, labels, bounds=(-99, 99), seed=seed, draws=resamples)


def binary(rows: int, discordance: float, difference: float = 0.0, *, base: float = 0.6) -> World:
    """Verdicts of independent rows."""
    name = f"verdicts, {rows} rows, {discordance:.0%} differ, difference {difference:+.1%}"
    return World(name, _verdicts(discordance, difference, base), base, difference, rows, verdicts=True)


def clustered_binary(
    discordance: float, difference: float = 0.0, *, clusters: int = 60, turns: int = 8, alike: float = 0.4
) -> World:
    """Verdicts of turns of conversations."""
    name = f"verdicts, {clusters} × {turns}, ICC {alike}, {discordance:.0%} differ, difference {difference:+.1%}"
    pairs = _verdicts(discordance, difference, 0.6)
    return World(name, pairs, 0.6, difference, clusters * turns, turns, alike, verdicts=True)


def _verdicts(discordance: float, difference: float, base: float) -> Pairs:
    lost, won = (discordance - difference) / 2, (discordance + difference) / 2
    table = numpy.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    chances = [lost, won, base - lost, 1 - base - won]

    def pairs(random: Random, count: int) -> Floats:
        return table[random.choice(4, size=count, p=chances)]

    return pairs


def scores(shape: str, rows: int, changed: float = 1.0, shift: float = 0.0) -> World:
    """Scores of independent rows, of which this share changes, by `shift` on average."""
    pairs, base = _scores(shape, changed, shift)
    name = f"scores, {shape}, {rows} rows, {changed:.0%} change, difference {changed * shift:+.3f}"
    return World(name, pairs, base, changed * shift, rows)


def clustered_scores(
    shape: str, changed: float = 1.0, shift: float = 0.0, *, clusters: int = 60, turns: int = 8, alike: float = 0.4
) -> World:
    """Scores of turns of conversations."""
    pairs, base = _scores(shape, changed, shift)
    name = (
        f"scores, {shape}, {clusters} × {turns}, ICC {alike}, {changed:.0%} change, difference {changed * shift:+.3f}"
    )
    return World(name, pairs, base, changed * shift, clusters * turns, turns, alike)


def _scores(shape: str, changed: float, shift: float) -> tuple[Pairs, float]:
    shapes: dict[str, tuple[Draw, Draw, float]] = {
        "normal": (lambda random, n: random.normal(size=n), lambda random, n: random.normal(shift, 0.5, size=n), 0.0),
        # Most scores near 1, as of a good model; changes are small.
        "skewed": (
            lambda random, n: random.beta(1.6, 0.4, size=n),
            lambda random, n: shift + random.beta(1.6, 0.4, size=n) - random.beta(1.6, 0.4, size=n),
            0.8,
        ),
        # Marks of a judge, by one or two of five steps up or down; on average as often as not.
        "marks": (
            lambda random, n: random.integers(1, 6, size=n) / 5,
            lambda random, n: shift + random.choice([-0.4, -0.2, 0.2, 0.4], size=n),
            0.6,
        ),
    }
    base, change, mean = shapes[shape]

    def pairs(random: Random, count: int) -> Floats:
        before = base(random, count)
        after = numpy.where(random.random(count) < changed, before + change(random, count), before)
        return numpy.column_stack((before, after))

    return pairs, mean


def watched(world: World, draws: int, seed: int, *, resamples: int = 1_000, clustered: bool = True) -> dict[str, float]:
    """The share of draws in which each interval holds the truth (`base`, `new`, `difference`) and each p is ≤ 0.05."""
    random = numpy.random.Generator(numpy.random.PCG64(seed))
    counts: Counter[str] = Counter()
    for _ in range(draws):
        found = world.compare(random, resamples, clustered=clustered)
        counts["base"] += _holds(found.base, world.base)
        counts["new"] += _holds(found.new, world.base + world.difference)
        counts["difference"] += _holds(found.difference, world.difference)
        for name, p_value in _p_values(found):
            counts[name] += p_value <= FAR
    return {name: count / draws for name, count in counts.items()}


def _holds(estimate: Estimate, truth: float) -> bool:
    return estimate.low is not None and estimate.high is not None and estimate.low <= truth <= estimate.high


def _p_values(found: Paired) -> Iterator[tuple[str, float]]:
    given = {"exact": found.p_exact, "mid-p": found.p_value}
    for name, p_value in given.items():
        if p_value is not None:
            yield name, p_value
