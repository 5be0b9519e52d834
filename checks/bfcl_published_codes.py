"""The table of verdicts and codes that the two published BFCL runs had at commit c1f5049.

    python -m checks.bfcl_published_codes RUNS          print the table of these sources for shared/data/bfcl_runs

Each line is one kind of failure in one category: run, mode, category, error type with the failed turn, codes of the
faults with their turns, and the ids of the rows without the category's name. Rows that pass have no line; the last
line of a category counts them.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tunecheck.episodes import RowVerdict
from tunecheck_bfcl._scoring import score_results
from tunecheck_bfcl._summary import CategoryScore

TABLE = Path(__file__).with_suffix(".txt")


def table(runs: Path, compat: bool) -> Iterator[str]:
    """The lines of the table for all runs in one mode."""
    mode = "bfcl" if compat else "strict"
    for run in sorted(path.name for path in runs.iterdir()):
        for model in score_results(runs / run / "result", compat=compat).models.values():
            for category in model.categories.values():
                yield from (f"{run}\t{mode}\t{category.name}\t{line}" for line in _lines(category))


def _lines(category: CategoryScore) -> Iterator[str]:
    rows = defaultdict(list)
    for row_id, verdict in category.verdicts:
        if verdict.valid is not True:
            rows[_kind(verdict)].append(row_id.removeprefix(f"{category.name}_"))
    for kind, ids in sorted(rows.items()):
        yield f"{kind}\t{' '.join(sorted(ids))}"
    counts = Counter(verdict.valid for _, verdict in category.verdicts)
    yield f"passed {counts[True]}, failed {counts[False]}, not scored {counts[None]}"


def _kind(verdict: RowVerdict) -> str:
    turn = "" if verdict.turn is None else f"@{verdict.turn}"
    faults = (f"{fault.code}{'' if fault.turn is None else f'@{fault.turn}'}" for fault in verdict.faults)
    return f"{verdict.error_type}{turn}\t{' '.join(faults)}"


if __name__ == "__main__":
    for line in (*table(Path(sys.argv[1]), True), *table(Path(sys.argv[1]), False)):
        print(line)
