"""How early and how rightly `decide_early` decides: simulated families of checkpoints, all pairs in random orders.

python benchmarks/deciding_early.py            # half an hour; --quick takes a tenth of the pairs

71 checkpoints answer 1,240 rows by item response theory: the chance to pass is a logistic function of ability less
difficulty. The spread of abilities is what makes pairs of checkpoints easy or hard to tell apart. A family like that of
a public leaderboard has 50 checkpoints close together and 21 weaker ones, over the five categories of rows of which
BFCL has so many; some fail one of these entirely. Two checkpoints that pass 87% fail the same rows as often there (phi
0.5) as the two runs that are published do.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy
from numpy.typing import NDArray

from tunecheck import decide_early
from tunecheck.statistics._decisions import non_inferiority
from tunecheck.statistics._paired import paired_binary
from tunecheck.statistics._results import Paired

CHECKPOINTS, ROWS, ORDERS = 71, 1_240, 20
CATEGORIES = (400, 200, 200, 200, 240)
MARGIN, MARGIN_SHARE = 0.03, 0.02
SEED = 20_250_102

Verdicts = NDArray[numpy.float64]


def spread_out(spread: float, random: numpy.random.Generator) -> Verdicts:
    """Verdicts, one row a checkpoint, of abilities with this standard deviation."""
    ability = random.normal(1.2, spread, CHECKPOINTS)[:, None]
    difficulty, sharpness = random.normal(0, 1.6, ROWS), numpy.exp(random.normal(0, 0.4, ROWS))
    return _answered((ability - difficulty) * sharpness, random)


def leaderboard(random: numpy.random.Generator) -> Verdicts:
    """Verdicts, one row a checkpoint, of pass rates from about 20% to about 90%, most of them around 80%."""
    weak = numpy.arange(CHECKPOINTS) >= 50
    ability = numpy.where(weak, random.normal(1.0, 1.7, CHECKPOINTS), random.normal(3.0, 0.45, CHECKPOINTS))
    by_category = ability[:, None] + random.normal(0, 0.35, (CHECKPOINTS, len(CATEGORIES)))
    by_category[:, -1] += random.normal(-0.6, numpy.where(weak, 1.5, 0.7))
    by_category[random.random(by_category.shape) < 0.03] = -8
    return _answered(numpy.repeat(by_category, CATEGORIES, axis=1) - random.normal(0, 3.2, ROWS), random)


def _answered(logits: Verdicts, random: numpy.random.Generator) -> Verdicts:
    return (random.random(logits.shape) < 1 / (1 + numpy.exp(-logits))).astype(numpy.float64)


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
        """One pair in all orders; in a few of them it is decided whether it is no worse, too, which takes longer."""
        complete = paired_binary(base, new)
        for _ in range(ORDERS):
            order = random.permutation(ROWS)
            pairs = list(zip(base[order].tolist(), new[order].tolist(), strict=True))
            self._better_or_worse(pairs, complete)
            if random.random() < MARGIN_SHARE:
                self._no_worse(pairs, complete)

    def _better_or_worse(self, pairs: list[tuple[float, float]], complete: Paired) -> None:
        decided = decide_early(pairs)
        if complete.p_value is not None and complete.p_value < 0.05:
            self.clear += 1
            self.taken += decided.pairs / ROWS
            self.wrong += decided.outcome == ("worse" if (complete.difference.value or 0) > 0 else "better")
        else:
            self.others += 1
            self.false += decided.outcome != "undecided"

    def _no_worse(self, pairs: list[tuple[float, float]], complete: Paired) -> None:
        within = decide_early(pairs, margin=MARGIN)
        if non_inferiority(complete.difference, MARGIN).shown:
            self.kept += 1
            self.kept_early += within.pairs / ROWS
        else:
            self.broken += 1
            self.false_kept += within.outcome == "not_worse"

    def line(self, name: str) -> str:
        return (
            f"| {name} | {self.taken / self.clear:.1%} of {self.clear:,} | {self.wrong / self.clear:.2%} | "
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


FAMILIES: dict[str, Callable[[numpy.random.Generator], Verdicts]] = {
    "like a leaderboard": leaderboard,
    **{f"spread {spread}": partial(spread_out, spread) for spread in (0.3, 0.6, 1.1, 1.6)},
}


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    random = numpy.random.default_rng(SEED)
    print("| family | rows taken where the complete run tells apart | wrong direction | decided elsewhere "
          f"| rows taken to show no worse by {MARGIN} | said, and not shown by the complete run |")  # fmt: skip
    print("|---|---|---|---|---|---|")
    for name, family in FAMILIES.items():
        verdicts, tally = family(random), Tally()
        for base, new in itertools.combinations(random.permutation(CHECKPOINTS), 2):
            if not quick or random.random() < 0.1:
                tally.add(verdicts[base], verdicts[new], random)
        print(tally.line(name), flush=True)
    print(f"\nfalse alarms where nothing differs: {equal(random, 500 if quick else 5_000):.2%}")


if __name__ == "__main__":
    main()
