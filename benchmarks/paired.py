"""Compare the CPU time of two checkouts: `python benchmarks/paired.py OLD [NEW] [--pairs 10] [--only CASE…]`.

Each case runs in both checkouts in turn, on the same data, so that other work on the machine slows both alike. The
figure is the median of NEW / OLD over the pairs, in CPU seconds of the whole process tree, with an interval from order
statistics: for 10 pairs the second smallest to the second largest ratio, which covers the median in 97.9% of cases.
OLD/.venv and NEW/.venv run the checkouts if they exist, else this Python.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from tests.source_path import source_path  # noqa: E402 - found through the line above

ECHO = "def answer(messages):\n    return messages[-1]['content'][:200]\n"
MEMORY = """\
config: {run_name: paired}
datasets:
  args: {memory_span: 8000, dataset_examples: 3}
  datasets: [{name: colours}, {name: names}, {name: kv}, {name: shopping}, {name: locations}]
"""


@dataclass(frozen=True)
class Checkout:
    """A checkout, the Python that runs it, and a workspace of its own."""

    root: Path
    workspace: Path

    def run(self, *words: str) -> float:
        """Run Python with these arguments in the workspace; return the CPU seconds of its process tree.

        Raises:
            SystemExit: the command failed; the text is its output.
        """
        own = self.root / ".venv" / "bin" / "python"
        command = [str(own) if own.exists() else sys.executable, *words]
        environment = {**os.environ, "PYTHONPATH": source_path(self.root)}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, cwd=self.workspace, env=environment, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 3, 4):  # 3 and 4: `select` found no better run
            raise SystemExit(f"{self.root}: {' '.join(words)}\n{done.stderr[-2000:] or done.stdout[-2000:]}")
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _tunecheck(*words: str) -> Callable[[Checkout], float]:
    return lambda checkout: checkout.run("-m", "tunecheck", *words)


def _script(*words: str) -> Callable[[Checkout], float]:
    return lambda checkout: checkout.run(str(checkout.root / "benchmarks" / words[0]), *words[1:])


CASES: dict[str, Callable[[Checkout], float]] = {
    "help": _tunecheck("--help"),
    "one row": _tunecheck("evaluate", "--dataset", "val.jsonl", "--limit", "1", "--quiet"),
    "150 rows, default evaluators": _tunecheck("evaluate", "--dataset", "val.jsonl", "--quiet"),
    "20,000 rows, a trivial evaluator": _script("cases_ours.py", "trivial", "20000"),
    "3,000 rows, four text metrics": _script("cases_ours.py", "text", "3000", "1"),
    "3,000 rows, three call evaluators": _script("cases_ours.py", "calls", "3000"),
    "100 rows of 1,600 tools": _script("cases_ours.py", "many_tools", "100", "1600"),
    "5,000 rows, a synchronous function": _script("cases_ours.py", "function", "5000"),
    "compare, 5,000 rows": _tunecheck("compare", "first", "second", "--allow-simulated", "--json"),
    "select, 5,000 rows": _tunecheck("select", "first", "second", "--allow-simulated", "--json"),
    "report, 5,000 rows": _tunecheck("report", "first", "--out", "page.html"),
    "report of two runs, 5,000 rows": _tunecheck("report", "second", "--against", "first", "--out", "page.html"),
    "memory run, 15 tests": _tunecheck(
        "memory", "run", "-c", "memory.yml", "--endpoint", "echo.yaml", "--regenerate", "--quiet"
    ),
}


def prepare(checkout: Checkout) -> None:
    """Write the data, and two runs of 5,000 rows, into a checkout's workspace."""
    rows = (ROOT / "datasets" / "val.jsonl").read_text("utf-8").splitlines()
    (checkout.workspace / "val.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
    sidecar = ROOT / "datasets" / "val.yaml"
    for name in ("val", "many"):
        (checkout.workspace / f"{name}.yaml").write_text(sidecar.read_text("utf-8"), "utf-8")
    with (checkout.workspace / "many.jsonl").open("w", encoding="utf-8") as file:
        for number in range(5_000):
            row = json.loads(rows[number % len(rows)]) | {"id": f"row-{number}"}
            file.write(json.dumps(row) + "\n")
    (checkout.workspace / "echo.py").write_text(ECHO)
    (checkout.workspace / "echo.yaml").write_text("kind: python\nfunction: echo.py:answer\n")
    (checkout.workspace / "memory.yml").write_text(MEMORY)
    for name, seed in (("first", "1"), ("second", "2")):
        words = ("evaluate", "--dataset", "many.jsonl", "--name", name, "--seed", seed, "--quiet")
        checkout.run("-m", "tunecheck", *words)


def interval(ratios: list[float]) -> tuple[float, float]:
    """Return the narrowest symmetric pair of order statistics that covers the median in at least 95% of cases.

    With fewer than six pairs no pair covers that much, and all ratios are between the two.
    """
    ordered, count = sorted(ratios), len(ratios)
    outside = 0
    while 2 * sum(comb(count, k) for k in range(outside + 2)) / 2**count <= 0.05:
        outside += 1
    return ordered[outside], ordered[-1 - outside]


def main() -> None:
    """Run the cases and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=list(CASES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sides = []
        for name, root in (("old", options.old), ("new", options.new)):
            workspace = Path(folder) / name
            workspace.mkdir()
            sides.append(Checkout(root.resolve(), workspace))
            prepare(sides[-1])
        old, new = sides
        for case in options.only:
            pairs = [(CASES[case](old), CASES[case](new)) for _ in range(options.pairs)]
            ratios = [after / before for before, after in pairs]
            low, high = interval(ratios)
            seconds = [statistics.median(side) for side in zip(*pairs, strict=True)]
            print(
                f"{case:36} {seconds[0]:7.2f} → {seconds[1]:7.2f} CPU s   "
                f"{statistics.median(ratios):.2f} × ({low:.2f} to {high:.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
