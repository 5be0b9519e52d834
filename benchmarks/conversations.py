"""Conversations against an endpoint that takes 100 ms, 50 at a time: `python benchmarks/conversations.py [--quick]`.

The ideal is what the answers alone take: their number times 100 ms, shared by 50. Memory is the largest of a run's
process, for a number of conversations and for four times as many, with an endpoint that answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import slow_model

HERE = Path(__file__).resolve().parent

CONCURRENCY = 50
MOST_OF_IDEAL = 1.15

Figures = dict[str, float]


def rows(count: int) -> Iterator[dict[str, object]]:
    """Conversations of one to seven turns over a file system of some files, with all its tools written out."""
    from tunecheck.simulators._backend import Backends

    tools = Backends().find("GorillaFileSystem").tool_definitions()
    files = {f"file_{number}.txt": {"type": "file", "content": "some text " * 20} for number in range(10)}
    root = {"workspace": {"type": "directory", "contents": files}}
    for number in range(count):
        turns = [
            [{"role": "user", "content": f"Question {turn} of conversation {number}: list the files."}]
            for turn in range(1 + number % 7)
        ]
        yield {
            "id": f"conversation_{number}",
            "turns": turns,
            "tools": tools,
            "initial_config": {"GorillaFileSystem": {"root": root}},
            "involved_classes": ["GorillaFileSystem"],
        }


def steps(steps: int) -> dict[str, float]:
    return {"steps": steps}


def run(url: str, data: str) -> Figures:
    """One run, in this process."""
    from tunecheck.endpoints._definition import load_endpoint
    from tunecheck.episodes._target import ConversationTarget
    from tunecheck.evaluation._evaluate import evaluate

    definition = {"kind": "openai", "url": url, "model": "m", "auth": {"type": "none"}}
    endpoint = load_endpoint({**definition, "limits": {"concurrency": CONCURRENCY}})
    with tempfile.TemporaryDirectory() as folder:
        started, cpu = time.perf_counter(), time.process_time()
        result = evaluate(
            data=data, target=ConversationTarget(endpoint), evaluators={"steps": steps}, results_dir=folder, workers=0
        )
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        metrics = result["metrics"]
        assert isinstance(metrics, dict)
        assert not result.failed_row_count
        queries = round(float(metrics["steps.steps"]) * result.row_count)
    ideal = queries * slow_model.LATENCY_S / CONCURRENCY
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "ideal": ideal, "queries": queries, "cpu": cpu, "memory": memory}


def _measured(url: str, count: int) -> Figures:
    """One run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "conversations.jsonl"
        with data.open("w") as file:
            for row in rows(count):
                file.write(json.dumps(row) + "\n")
        command = [sys.executable, __file__, "--run", url, str(data)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


@dataclass(frozen=True)
class Line:
    """A line of a table; `reached` is None where there is nothing to compare with."""

    measure: str
    must: str
    found: str
    reference: str
    reached: bool | None


def print_head(reference: str) -> None:
    """Print where this was measured, and the head of a table."""
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, {platform.system()}\n")
    print(f"| measure | must reach | Tunecheck | {reference} | reached |\n|---|---|---|---|---|", flush=True)


def print_line(line: Line) -> None:
    """Print one line."""
    reached = {True: "yes", False: "**no**", None: "–"}[line.reached]
    print(f"| {line.measure} | {line.must} | {line.found} | {line.reference} | {reached} |", flush=True)


def lines(*, quick: bool) -> Iterator[Line]:
    """Measure, and give the lines of the table."""
    scale = 10 if quick else 1
    with slow_model.served(str(slow_model.LATENCY_S)) as url:
        runs = [_measured(url, 2_100 // scale) for _ in range(1 if quick else 3)]
        yield _time(sorted(runs, key=lambda run: run["seconds"] / run["ideal"])[len(runs) // 2], 2_100 // scale)
    with slow_model.served("0") as url:
        few, many = (2_500, 5_000) if quick else (4_000, 16_000)  # so many that a run does not keep its rows in memory
        yield _memory(_measured(url, few), few, _measured(url, many), many)


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rows, to see that it works")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(run(*arguments.run)))
        return
    print_head("reference")
    for line in lines(quick=arguments.quick):
        print_line(line)


def _time(found: Figures, count: int) -> Line:
    ratio = found["seconds"] / found["ideal"]
    what = f"{count:,} conversations, {found['queries']:,.0f} answers of 100 ms, {CONCURRENCY} at a time"
    cpu = f"{1000 * found['cpu'] / found['queries']:.2f} CPU ms an answer"
    times = f"{found['seconds']:.1f} s, {ratio:.2f} × the ideal of {found['ideal']:.1f} s, {cpu}"
    return Line(what, "within 15% of the ideal", times, "–", ratio <= MOST_OF_IDEAL)


def _memory(found: Figures, count: int, more: Figures, more_count: int) -> Line:
    reached = more["memory"] <= 1.1 * found["memory"]
    shown = f"{found['memory']:.0f} MB, {more['memory']:.0f} MB"
    return Line(f"memory with {count:,} and with {more_count:,} conversations", "flat", shown, "–", reached)


if __name__ == "__main__":
    main()
