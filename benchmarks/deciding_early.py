"""How early and how rightly `decide_early` decides: simulated families of checkpoints, all in random orders.

python benchmarks/deciding_early.py            # ten minutes; --quick takes a tenth of the pairs

71 checkpoints answer 1,240 rows by item response theory: the chance to pass is a logistic function of ability less
difficulty. The spread of abilities is what makes pairs of checkpoints easy or hard to tell apart.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from tunecheck import decide_early
from tunecheck.statistics._decisions import non_inferiority
from tunecheck.statistics._paired import paired_binary

CHECKPOINTS, ROWS, ORDERS = 71, 1_240, 4
SPREADS = (0.3, 0.6, 1.1, 1.6)
MARGIN = 0.03
SEED = 20_250_102

Verdicts = NDArray[numpy.float64]


def family(spread: float, random: numpy.random.Generator) -> Verdicts:
    """Verdicts, one row a checkpoint."""
    ability = random.normal(1.2, spread, CHECKPOINTS)[:, None]
    difficulty, sharpness = random.normal(0, 1.6, ROWS), numpy.exp(random.normal(0, 0.4, ROWS))
    chances = 1 / (1 + numpy.exp(-(ability - difficulty) * sharpness))
    return (random.random(chances.shape) < chances).astype(numpy.float64)


@dataclass
class Tally:
    """Decisions about pairs that the complete run tells apart (`clear`), and about the others."""

    clear: int = 0
    taken: float = 0.0
    wrong: int = 0
    others: int = 0
    false: int = 0
    kept: int = 0
    kept_early: float = 0.0
    broken: int = 0
    false_kept: int = 0

    def add(self, base: Verdicts, new: Verdicts, random: numpy.random.Generator) -> None:
        complete = paired_binary(base, new)
        clear = complete.p_value is not None and complete.p_value < 0.05
        right = "better" if complete.c > complete.b else "worse"
        kept = non_inferiority(complete.difference, MARGIN).shown
        for _ in range(ORDERS):
            order = random.permutation(ROWS)
            pairs = list(zip(base[order].tolist(), new[order].tolist(), strict=True))
            decided = decide_early(pairs)
            if clear:
                self.clear += 1
                self.taken += decided.pairs / ROWS
                self.wrong += decided.outcome not in (right, "undecided")
            else:
                self.others += 1
                self.false += decided.outcome != "undecided"
            within = decide_early(pairs, margin=MARGIN)
            if kept:
                self.kept += 1
                self.kept_early += within.pairs / ROWS
            else:
                self.broken += 1
                self.false_kept += within.outcome == "not_worse"

    def line(self, spread: float) -> str:
        return (
            f"| {spread} | {self.taken / self.clear:.1%} of {self.clear:,} | {self.wrong / self.clear:.2%} | "
            f"{self.false / max(1, self.others):.1%} of {self.others:,} | {self.kept_early / max(1, self.kept):.1%} of "
            f"{self.kept:,} | {self.false_kept / self.broken:.2%} of {self.broken:,} |"
        )


def equal(random: numpy.random.Generator, families: int) -> float:
    """The share of pairs that are called better or worse although neither is: half of the changed rows got better."""
    false = 0
    for _ in range(families):
        changed = random.random(ROWS) < random.uniform(0.02, 0.4)
        better = random.random(ROWS) < 0.5
        base, new = (changed & ~better).astype(float), (changed & better).astype(float)
        false += decide_early(list(zip(base.tolist(), new.tolist(), strict=True))).outcome != "undecided"
    return false / families


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    random = numpy.random.default_rng(SEED)
    print("| spread of ability | rows taken where the complete run tells apart | wrong direction | decided elsewhere "
          f"| rows taken to show no worse by {MARGIN} | said, and not shown by the complete run |")  # fmt: skip
    print("|---|---|---|---|---|---|")
    for spread in SPREADS:
        verdicts, tally = family(spread, random), Tally()
        for _ in range(20 if quick else 200):
            base, new = random.choice(CHECKPOINTS, 2, replace=False)
            tally.add(verdicts[base], verdicts[new], random)
        print(tally.line(spread), flush=True)
    print(f"\nfalse alarms where nothing differs: {equal(random, 200 if quick else 2_000):.2%}")


if __name__ == "__main__":
    main()
