"""How rightly `select` ranks: simulated families of checkpoints whose true pass rates are known.

python benchmarks/selecting.py            # some minutes; --families 200 takes a tenth

3 to 12 checkpoints answer rows by item response theory: the chance to pass is a logistic function of ability less
difficulty. Truth is the mean over 20,000 difficulties, from which each family's rows are drawn. The spread of abilities
is what makes checkpoints easy or hard to tell apart; at 0 all are equal.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from tunecheck.statistics._best import Standing, multiple_comparisons_with_the_best

ROWS = (200, 1_000)
SPREADS = (0.0, 0.05, 0.15, 0.5)
MARGIN = 0.03
SEED = 20_250_103

Floats = NDArray[numpy.float64]


@dataclass
class Tally:
    """Of so many families, in how many it was so."""

    families: int = 0
    best_among: int = 0
    covered: int = 0
    as_said: int = 0
    near: int = 0

    def add(self, truth: Floats, verdicts: Floats) -> None:
        standings = multiple_comparisons_with_the_best(
            verdicts, None, verdicts=True, higher_is_better=True, confidence=0.95, seed=0
        )
        shipped = max(range(len(truth)), key=lambda run: (verdicts[:, run].mean(), run))
        best = int(truth.argmax())
        self.families += 1
        self.best_among += standings[best].may_be_best
        self.covered += all(_holds(each, truth, run) for run, each in enumerate(standings))
        lost = truth[best] - truth[shipped]
        self.as_said += lost <= -(standings[shipped].low or 0.0) + 1e-12
        self.near += lost <= MARGIN


def _holds(standing: Standing, truth: Floats, run: int) -> bool:
    apart = truth[run] - numpy.delete(truth, run).max()
    assert standing.low is not None
    assert standing.high is not None
    return bool(standing.low - 1e-12 <= apart <= standing.high + 1e-12)


def tally(rows: int, spread: float, families: int, random: numpy.random.Generator) -> Tally:
    found = Tally()
    difficulty = random.normal(0, 1.6, 20_000)
    for _ in range(families):
        ability = random.normal(1.2, spread, int(random.integers(3, 13)))
        chances = 1 / (1 + numpy.exp(difficulty[:, None] - ability))
        drawn = chances[random.integers(0, len(chances), rows)]
        found.add(chances.mean(axis=0), (random.random(drawn.shape) < drawn).astype(numpy.float64))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", type=int, default=2_000)
    families = parser.parse_args().families
    random = numpy.random.default_rng(SEED)
    near = f"shipped within {100 * MARGIN:g} points"
    print(f"| rows | spread | the best may be the best | all intervals hold | shipped within what is said | {near} |")
    print("|---|---|---|---|---|---|")
    for rows in ROWS:
        for spread in SPREADS:
            found = tally(rows, spread, families, random)
            counts = (found.best_among, found.covered, found.as_said, found.near)
            shares = " | ".join(f"{count / found.families:.1%}" for count in counts)
            print(f"| {rows:,} | {spread} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
