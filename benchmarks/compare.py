"""Comparing runs of 50,000 rows, and their reports: `python benchmarks/compare.py [--quick]`.

Two runs of ten metrics, then eight runs of two metrics whose answers are a column of the data: contents are hashed.

Each figure is a process of its own, from its start to its end: the command line, the same in clusters, and reports. It
has one thread: on a machine that does nothing else it takes as long as its CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROWS, QUICK_ROWS = 50_000, 5_000
COMPARED_S, REPORTED_S = 5.0, 15.0
SELECTED_S, REPORTED_EIGHT_S = 6.0, 35.0
EIGHT = tuple(f"checkpoint_{number}" for number in range(8))
VERDICTS = ("calls", "arguments", "state", "schema", "answers")
SCORES = ("bleu", "gleu", "meteor", "rouge", "relevance")
TEXT = "The model was asked for a table for four at seven, and answered with a call that books it. " * 8

Row = dict[str, object]


def write_run(folder: Path, name: str, rows: int, seed: int, *, in_data: bool = False) -> int:
    """A finished run folder; gives the bytes of its rows. With `in_data`, two metrics of answers in the data."""
    own = folder / f"{name}-20260101T000000Z-{seed:06x}"
    own.mkdir(parents=True)
    verdicts, scores = (VERDICTS[:2], ()) if in_data else (VERDICTS, SCORES)
    evaluators = {each: _entry(each, "binary") for each in verdicts} | {each: _entry(each, "score") for each in scores}
    manifest: Row = {"format": 1, "name": name, "status": "finished", "evaluators": evaluators}
    manifest |= {"target": None if in_data else {"name": "made"}, "mapping": {}}
    (own / "run.json").write_text(json.dumps(manifest))
    (own / "metrics.json").write_text(json.dumps({"metrics": {}, "by": {}, "rows": rows, "failed_rows": 0}))
    luck = random.Random(seed)
    common = random.Random(0)
    with (own / "eval_results.jsonl").open("w") as file:
        for number in range(rows):
            row = _row(number, common, luck, verdicts, scores)
            file.write(json.dumps(row | (_asked(number) if in_data else {})) + "\n")
    return (own / "eval_results.jsonl").stat().st_size


def _entry(name: str, kind: str) -> dict[str, object]:
    return {"primary": name, "metrics": [{"name": name, "kind": kind}], "fingerprint": "0" * 16, "arguments": {}}


def _asked(number: int) -> Row:
    """A question with tools, the expected call, and the answer."""
    parameters = {"type": "object", "properties": {name: {"type": "string"} for name in ("day", "people", "place")}}
    tools = [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in ("book", "cancel")]
    call = {"name": "book", "arguments": json.dumps({"day": f"2026-03-{number % 28 + 1:02d}", "people": "4"})}
    calls = [{"id": "c", "type": "function", "function": call}]
    return {"inputs.tool_definitions": tools, "inputs.ground_truth": calls, "inputs.response": calls}


def _row(
    number: int, common: random.Random, luck: random.Random, verdicts: Sequence[str], scores: Sequence[str]
) -> Row:
    """Rows of both runs are alike, but for a tenth of the verdicts and a third of the scores."""
    row: Row = {"row_id": f"row_{number}", "row_fingerprint": f"{number:016x}", "row_kind": "call"}
    row |= {"inputs.query": TEXT, "inputs.conversation_id": f"c{number // 8}", "outputs.response": TEXT[:300]}
    for name in verdicts:
        passed = common.random() < 0.8
        if luck.random() < 0.1:
            passed = luck.random() < 0.75
        why = None if passed else f'book: argument "people" expected 4, got "{luck.randrange(9)}" (number_as_text)'
        row |= _verdict(name, float(passed), passed, why)
    for name in scores:
        score = common.random()
        if luck.random() < 0.33:
            score = min(1.0, max(0.0, score + luck.gauss(0.005, 0.1)))
        row |= _verdict(name, score, score >= 0.5, None)
    return row


def _verdict(name: str, score: float, passed: bool, why: str | None) -> Row:
    start = f"outputs.{name}.{name}"
    return {
        start: score,
        f"{start}_score": score,
        f"{start}_passed": passed,
        f"{start}_result": "pass" if passed else "fail",
        f"{start}_reason": why,
        f"{start}_status": "completed",
        f"{start}_threshold": 0.5,
        f"{start}_properties": None,
    }


def measure(folder: Path, *options: str) -> tuple[float, float, float]:
    """Seconds, CPU seconds and megabytes of one command."""
    command = [sys.executable, "-m", "tunecheck", *options, "--results-dir", str(folder)]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    assert os.waitstatus_to_exitcode(status) in (0, 3, 4)  # 3 and 4: select keeps the base, or is undecided
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, once")
    quick = parser.parse_args().quick
    rows = QUICK_ROWS if quick else ROWS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_run(folder, "base", rows, 1) + write_run(folder, "new", rows, 2)
        eight = sum(write_run(folder, run, rows, seed, in_data=True) for seed, run in enumerate(EIGHT))
        print(
            f"{rows:,} rows × 10 metrics, twice: {size / 1e6:.0f} MB; × 2 metrics, eight times: {eight / 1e6:.0f} MB\n"
        )
        print("| measure | must reach | Tunecheck | reached |\n|---|---|---|---|")
        compare, report = ("compare", "base", "new"), ("report", "new", "--out", f"{name}/report.html")
        others = [option for run in EIGHT[1:] for option in ("--against", run)]
        for label, most, options in (
            ("compare", COMPARED_S, compare),
            ("compare, in clusters", COMPARED_S, (*compare, "--cluster", "conversation_id")),
            ("report", REPORTED_S, report),
            ("report against the base", REPORTED_S, (*report, "--against", "base")),
            ("select, eight runs", SELECTED_S, ("select", *EIGHT)),
            ("compare, eight runs", SELECTED_S, ("compare", *EIGHT)),
            ("report against seven runs", REPORTED_EIGHT_S, ("report", EIGHT[0], *others, *report[2:])),
        ):
            found = [measure(folder, *options) for _ in range(1 if quick else 3)]
            seconds, cpu, memory = (statistics.median(column) for column in zip(*found, strict=True))
            by_cpu = "only in CPU seconds" if cpu <= most else "NO"
            reached = "yes" if seconds <= most else by_cpu
            figures = f"{seconds:.1f} s ({cpu:.1f} CPU s), {memory:.0f} MB"
            print(f"| {label}, {rows:,} rows | ≤ {most:g} s | {figures} | {reached} |")


if __name__ == "__main__":
    main()
