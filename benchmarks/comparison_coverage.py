"""How far intervals and tests of comparisons can be trusted: runs with a known difference, drawn again and again.

`python benchmarks/comparison_coverage.py` prints two Markdown tables and how long 50,000 rows of ten metrics take.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).parent.parent))

from checks.statistics_worlds import World, binary, clustered_binary, clustered_scores, scores, watched

from tunecheck.statistics._decisions import smallest_difference
from tunecheck.statistics._paired import paired_binary, paired_scores

SEED = 20_250_101
TESTS = ("exact", "mid-p")


def equal_worlds() -> Iterator[World]:
    """Nothing differs: what a test finds is a false alarm."""
    for rows in (50, 200, 1_000):
        for discordance in (0.02, 0.1, 0.3):
            yield binary(rows, discordance)
    for discordance in (0.05, 0.2):
        yield clustered_binary(discordance)
        yield clustered_binary(discordance, clusters=20, turns=5)
    for rows in (20, 50, 200, 1_000):
        yield scores("normal", rows)
    for changed in (0.05, 0.1, 0.3, 1.0):
        yield scores("marks", 200, changed)
    yield scores("skewed", 200)
    yield clustered_scores("normal")
    yield clustered_scores("marks", 0.3)


def different_worlds() -> Iterator[World]:
    """Something differs: what a test finds is there."""
    for rows in (50, 200, 1_000):
        yield binary(rows, 0.1, 0.04)
        yield binary(rows, 0.3, -0.15)
    yield clustered_binary(0.2, 0.05)
    for rows in (20, 50, 200, 1_000):
        yield scores("skewed", rows, shift=0.1)
        yield scores("marks", rows, 0.1, shift=0.2)
    yield clustered_scores("skewed", shift=0.05)


def print_table(worlds: Iterator[World], draws: int, resamples: int, tests: str) -> None:
    """A line a world: coverage of the three intervals, and how often each p-value is 0.05 at most."""
    print(f"| world | base | new | difference | {tests}: {' | '.join(TESTS)} |\n|---|---|---|---|{'---|' * len(TESTS)}")
    for world in worlds:
        found = watched(world, draws, SEED, resamples=resamples)
        cells = [f"{100 * found[name]:.1f}%" for name in ("base", "new", "difference")]
        cells += [f"{100 * found[name]:.1f}%" if name in found else "–" for name in TESTS]
        print(f"| {world.name} | {' | '.join(cells)} |", flush=True)
    print()


def print_naive(draws: int, resamples: int) -> None:
    """What is lost if conversations are taken as independent rows."""
    world = clustered_binary(0.2)
    found = watched(world, draws, SEED, resamples=resamples, clustered=False)
    print(
        f"{world.name}, taken as independent rows: the difference is held {100 * found['difference']:.1f}% of the "
        f"time, mid-p raises a false alarm {100 * found['mid-p']:.1f}% of the time\n"
    )


def print_speed() -> None:
    """CPU seconds of ten metrics, half of them verdicts, on one core."""
    random = numpy.random.Generator(numpy.random.PCG64(SEED))
    for rows in (1_000, 5_000, 50_000):
        for labels in (None, [f"conversation {row // 5}" for row in range(rows)]):
            runs = [random.random((2, rows)) for _ in range(10)]
            started = time.process_time()
            for at, (base, new) in enumerate(runs):
                if at % 2:
                    smallest_difference(paired_binary((base > 0.2).tolist(), (new > 0.2).tolist(), labels))
                else:
                    smallest_difference(paired_scores(base.tolist(), new.tolist(), labels, bounds=(0, 1)))
            seconds = time.process_time() - started
            print(f"{rows:,} rows × 10 metrics, {'in clusters' if labels else 'independent'}: {seconds:.2f} CPU s")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer draws, to see that it works")
    arguments = parser.parse_args()
    draws, resamples = (200, 500) if arguments.quick else (5_000, 1_999)
    error = 100 * (0.95 * 0.05 / draws) ** 0.5
    print(f"{draws:,} draws a line: a share of 95% is known to ± {2 * error:.1f} points\n")
    print_table(equal_worlds(), draws, resamples, "false alarms at 5%")
    print_table(different_worlds(), draws, resamples, "found at 5%")
    print_naive(draws, resamples)
    print_speed()


if __name__ == "__main__":
    main()
