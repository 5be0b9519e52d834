"""How often the intervals of corrected pass rates hold the truth, over judges of known error.

`python benchmarks/corrected_coverage.py [--draws N]` prints a line a judge, number of labels and share of good rows.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from checks.corrected_worlds import cells

_LAYOUT = "{:11.2f} {:11.2f} {:6d} {:5.2f} {:13.1f} {:6.1f} {:19.1f} {:20.1f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=2_000)
    arguments = parser.parse_args()
    print("sensitivity specificity labels share  Rogan-Gladen (none)  prediction-powered  its normal interval")
    found = list(cells(arguments.draws, 20_261))
    for cell in found:
        print(_LAYOUT.format(*cell))
    for name, at in (("Rogan-Gladen", 4), ("prediction-powered", 6), ("normal", 7)):
        values = [cell[at] for cell in found]
        few, many = sum(value < 93 for value in values), sum(value > 97 for value in values)
        inside = f"{len(values) - few - many} of {len(values)} cells within 93 to 97"
        print(f"{name}: {inside}, {few} below, {many} above; lowest {min(values):.1f}")


if __name__ == "__main__":
    main()
