"""The main job's table: `python benchmarks/main_job.py [--quick]`, both systems in one run, as Markdown.

Each figure comes from a process of its own. azure-ai-evaluation 1.18.10 is installed into an environment of its own;
its text metrics need nltk data, which is looked for where NLTK_DATA points (or in ../shared/data/nltk_data).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.reference_environments import AZURE, make_environment  # noqa: E402


@dataclass(frozen=True)
class Figure:
    """What one process measured: its own figures, its CPU seconds, its largest resident memory in MB."""

    values: dict[str, float]
    cpu: float
    memory: float

    def __getitem__(self, key: str) -> float:
        return self.values[key]


def measure(python: Path | str, arguments: Sequence[str]) -> Figure:
    """Run one case; CPU and memory are the process's own and its children's, as the kernel counts them."""
    nltk_data = os.environ.get("NLTK_DATA", str(HERE.parent.parent / "shared" / "data" / "nltk_data"))
    process = subprocess.Popen(
        [str(python), *arguments], stdout=subprocess.PIPE, text=True, env=os.environ | {"NLTK_DATA": nltk_data}
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{arguments} failed")
    lines = output.strip().splitlines()
    values: dict[str, float] = json.loads(lines[-1]) if lines else {}
    return Figure(values, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def ours(case: str, *arguments: int) -> Figure:
    """One of Tunecheck's cases."""
    return measure(sys.executable, [str(HERE / "cases_ours.py"), case, *map(str, arguments)])


def imported(python: Path | str, module: str) -> Figure:
    """Importing a module and nothing else; the best of five, as disks and neighbours differ."""
    return min((measure(python, ["-c", f"import {module}"]) for _ in range(5)), key=lambda figure: figure.cpu)


class Table:
    """Rows of a Markdown table, printed as they come."""

    def __init__(self) -> None:
        print("| measure | must reach | Tunecheck | azure-ai-evaluation 1.18.10 | reached |", flush=True)
        print("|---|---|---|---|---|", flush=True)

    def add(self, measure: str, must: str, found: str, azure: str, reached: bool) -> None:
        """Print one row."""
        print(f"| {measure} | {must} | {found} | {azure} | {'yes' if reached else '**no**'} |", flush=True)


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, to see that it works")
    scale = 10 if parser.parse_args().quick else 1
    azure_python = make_environment("azure", *AZURE)

    def azure(case: str, *arguments: int) -> Figure:
        return measure(azure_python, [str(HERE / "cases_azure.py"), case, *map(str, arguments)])

    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, {platform.system()}\n")
    table = Table()
    _imports(table, azure_python)
    _trivial(table, scale, azure("trivial", 10_000 // scale))
    _text(table, scale, azure("text", 600 // scale))
    _slow_target(table, scale, azure("slow_target", 2_000 // scale))
    _dict_rows(table, scale, azure("dict_rows", 5_000 // scale))
    found = ours("million", 1_000_000 // scale)
    table.add(
        f"{1_000_000 // scale:,} rows of 1 KB streamed through one trivial evaluator",
        "≤ 300 MB",
        f"{found.memory:.0f} MB, {found['rows_per_second']:,.0f} rows/s",
        "cannot",
        found.memory <= 300,
    )


def _imports(table: Table, azure_python: Path) -> None:
    found, theirs = imported(sys.executable, "tunecheck"), imported(azure_python, "azure.ai.evaluation")
    everything = imported(sys.executable, "tunecheck.evaluation._evaluate")
    table.add(
        "`import tunecheck` (with `evaluate` itself)",
        "≤ 0.25 CPU s, ≤ 50 MB",
        f"{found.cpu:.2f} CPU s, {found.memory:.0f} MB ({everything.cpu:.2f} CPU s, {everything.memory:.0f} MB)",
        f"{theirs.cpu:.2f} CPU s, {theirs.memory:.0f} MB",
        found.cpu <= 0.25 and found.memory <= 50,
    )


def _trivial(table: Table, scale: int, theirs: Figure) -> None:
    found = ours("trivial", 10_000 // scale)
    ratio = found["rows_per_second"] / theirs["rows_per_second"]
    table.add(
        f"{10_000 // scale:,} rows, one trivial sync evaluator",
        "≥ 10 × rows/s",
        f"{found['rows_per_second']:,.0f} rows/s ({ratio:.0f} ×)",
        f"{theirs['rows_per_second']:,.0f} rows/s",
        ratio >= 10,
    )
    many = ours("trivial", 200_000 // scale)
    growth = (many["seconds"] / found["seconds"]) / 20
    table.add(
        f"the same, {200_000 // scale:,} rows",
        "linear",
        f"{many['rows_per_second']:,.0f} rows/s, {growth:.2f} × the time a row, {many.memory:.0f} MB",
        "quadratic",
        growth <= 1.1,
    )


def _text(table: Table, scale: int, theirs: Figure) -> None:
    for workers, must in ((1, 12), (2, 20)):
        found = ours("text", 20_000 // scale, workers)
        ratio = found["rows_per_second"] / theirs["rows_per_second"]
        table.add(
            f"BLEU, GLEU, METEOR, ROUGE-L, {20_000 // scale:,} rows (theirs {600 // scale}), {workers} worker(s)",
            f"≥ {must} × rows/s",
            f"{found['rows_per_second']:,.0f} rows/s ({ratio:.0f} ×)",
            f"{theirs['rows_per_second']:,.0f} rows/s",
            ratio >= must,
        )


def _slow_target(table: Table, scale: int, theirs: Figure) -> None:
    found = ours("slow_target", 2_000 // scale)
    table.add(
        f"{2_000 // scale:,} rows × 50 ms target at concurrency 10, and the four metrics, one worker",
        "≤ 1.1 × ideal",
        f"{found['seconds']:.2f} s ({found['seconds'] / found['ideal_seconds']:.2f} × ideal)",
        f"{theirs['seconds']:.2f} s ({theirs['seconds'] / theirs['ideal_seconds']:.2f} × ideal)",
        found["seconds"] <= 1.1 * found["ideal_seconds"],
    )


def _dict_rows(table: Table, scale: int, theirs: Figure) -> None:
    found = ours("dict_rows", 5_000 // scale)
    growth, their_growth = (figure["output_bytes"] / figure["input_bytes"] for figure in (found, theirs))
    table.add(
        f"{5_000 // scale:,} rows of argument dicts over 400 functions, function_call_match and argument_match",
        "output ≤ 4 × input, ≤ 200 MB",
        f"{growth:.1f} × input, {found.memory:.0f} MB, {found['seconds']:.1f} s",
        f"{their_growth:.0f} × input, {theirs.memory:,.0f} MB, {theirs['seconds']:.0f} s",
        growth <= 4 and found.memory <= 200,
    )


if __name__ == "__main__":
    main()
