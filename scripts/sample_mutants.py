"""Estimate the share of planted bugs that the quick tests miss, from a seeded sample of mutmut's mutants of a package.

python scripts/sample_mutants.py 'tunecheck.calls*' [--number 300] [--seed 11] [--max-children 1]

All mutants of a package take hours; a sample of 300 gives the share to within about four points. Mutants that were
caught before are not run again: after a test is added, the same command only runs the survivors.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

from tunecheck.statistics._results import wilson

MUTANTS = Path("mutants")

# mutmut's exit codes of mutants: what its own `mutmut results` calls survived, no tests (twice) and not checked.
_SURVIVED, _UNREACHED, _UNCHECKED = 0, (5, 33), None


def main() -> int:
    """Draw mutants, run those that are not known to be caught, and print the share that survived."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pattern", help="names of the mutants to draw from, such as 'tunecheck.calls*'")
    parser.add_argument("--number", type=int, default=300, help="number of mutants (300)")
    parser.add_argument("--seed", type=int, default=11, help="seed of the draw (11)")
    parser.add_argument("--max-children", type=int, default=1, help="number of mutants that run at once (1)")
    options = parser.parse_args()
    names = sorted(name for name in read_results() if fnmatch(name, options.pattern))
    if not names:
        print(f"no mutant has a name like {options.pattern!r}: make them with `mutmut run` and a module's name")
        return 2
    drawn = random.Random(options.seed).sample(names, min(options.number, len(names)))
    results = read_results()
    if left := [name for name in drawn if results[name] in {_SURVIVED, _UNCHECKED, *_UNREACHED}]:
        command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(options.max_children), *left]
        subprocess.run(command, check=True)
    show({name: code for name, code in read_results().items() if name in set(drawn)}, len(names))
    return 0


def read_results() -> dict[str, int | None]:
    """Return the exit code of each mutant by its name; None for a mutant that was not run."""
    results: dict[str, int | None] = {}
    for path in sorted(MUTANTS.rglob("*.meta")):
        results |= json.loads(path.read_text("utf-8"))["exit_code_by_key"]
    return results


def show(results: dict[str, int | None], of: int) -> None:
    """Print the survivors, then their share of the mutants that a test reaches; `of` is the number of all mutants."""
    survivors = sorted(name for name, code in results.items() if code == _SURVIVED)
    reached = [name for name, code in results.items() if code not in {_UNCHECKED, *_UNREACHED}]
    for name in survivors:
        print(name)
    by_module = Counter(name.rpartition(".")[0] for name in survivors)
    for module, count in sorted(Counter(name.rpartition(".")[0] for name in reached).items()):
        print(f"{module}: {by_module[module]} of {count} survived")
    share = wilson(len(survivors), len(reached))
    if share.value is None or share.low is None or share.high is None:
        print("no test reaches any of them")
        return
    print(
        f"{len(survivors)} of {len(reached)} reached mutants survived: {share.value:.1%} "
        f"({share.low:.1%} to {share.high:.1%}); {len(results) - len(reached)} more are reached by no quick test; "
        f"{len(results)} drawn of {of}"
    )


if __name__ == "__main__":
    sys.exit(main())
